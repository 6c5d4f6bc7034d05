//! A lab, loaded and validated: what to compute, on which shapes, how right it must be.
//!
//! [`Lab::parse`] turns the texts of a lab's files into a [`Lab`] or into a list of
//! [`LabError`]s, each with file, line, column and, where a name is misspelt, a suggestion.
//! Reading the files is somebody else's work: nothing here touches the disk.
//!
//! ```
//! use warpsmith_model::lab::{Lab, LabFiles, scaffold};
//! let files: LabFiles = scaffold("blend").expect("an identifier").into_iter().collect();
//! let lab = Lab::parse(&files).expect("a new lab is valid");
//! assert_eq!(lab.work(&lab.workloads[0]).expect("defined").flops, 2.0 * 256.0 * 1024.0);
//! ```

mod baseline;
mod contract;
mod cuda;
mod document;
mod error;
mod extend;
mod files;
mod flags;
mod front;
mod identity;
mod load;
mod manifest;
mod scaffold;
mod shapes;
mod space;

pub use error::{LabError, LabErrors, SourceSpan};
pub use extend::with_tunables;
pub use files::{SchemaKind, schema};
pub use flags::{allowed_flags, is_compiler_name, refused_flag};
pub use front::{FRONT, Front, Route};
pub use identity::candidate_id;
pub use load::parse_kernel;
pub use scaffold::{ScaffoldError, scaffold};

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::roofline::WorkSize;
use crate::units::percent;
use crate::{DType, DeviceInfo, EvalError, Expr, LabId, Loss, Params, Value, Verdict};

/// The texts of a lab's files, by path relative to the lab's folder (`kernels/00_naive.toml`), with
/// `/` as separator. Shared headers are there too, as `../include/NAME`.
pub type LabFiles = BTreeMap<String, String>;

/// A validated lab.
#[derive(Clone, Debug)]
pub struct Lab {
    /// Identity: a hash of every file but prose (`*.md`).
    pub id: LabId,
    /// The lab's name.
    pub name: String,
    /// What its kernels run on.
    pub target: TargetKind,
    /// One line for people.
    pub title: String,
    /// Where it was imported from.
    pub imported: Option<Imported>,
    /// The names of the axes, in argument order.
    pub axes: Vec<String>,
    /// The tensors, in argument order.
    pub tensors: Vec<Tensor>,
    /// The scalars, in argument order.
    pub scalars: Vec<Scalar>,
    /// The headers on the include path, by file name: the shared ones and the lab's own, which win.
    pub headers: Vec<(String, String)>,
    /// The reference.
    pub reference: Reference,
    /// The kernel that the reference proves and that then proves the rest; none where the reference
    /// answers on every shape itself.
    pub oracle: Option<String>,
    /// The work that a workload is.
    pub work: Work,
    /// How right outputs must be.
    pub tolerance: Tolerance,
    /// The input distributions; the first is the one that is timed.
    pub inputs: Vec<Inputs>,
    /// The shapes that matter.
    pub workloads: Vec<Workload>,
    /// Further shapes, which are measured only where a command names them.
    pub extra: Vec<Workload>,
    /// Small shapes on which the reference checks every kernel directly.
    pub proofs: Vec<Workload>,
    /// Where further small shapes are drawn from; axis by axis, in the order of `axes`. Empty when
    /// the lab states none.
    pub ranges: Vec<(String, Range)>,
    /// The names of the workloads that the microbenchmark runs.
    pub micro_workloads: Vec<String>,
    /// The kernels, by name.
    pub kernels: Vec<Kernel>,
    /// The baselines, by name.
    pub baselines: Vec<Baseline>,
}

/// A tensor.
#[derive(Clone, Debug)]
pub struct Tensor {
    /// Its name.
    pub name: String,
    /// Its extents, over the axes.
    pub shape: Vec<Expr>,
    /// Its element type.
    pub dtype: ElementType,
    /// Whether kernels read or write it.
    pub role: Role,
}

/// What kernels run on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum TargetKind {
    /// The machine's processor.
    #[default]
    Cpu,
    /// An NVIDIA GPU.
    Cuda,
}

impl TargetKind {
    /// Returns the name that contracts use.
    pub fn name(self) -> &'static str {
        match self {
            Self::Cpu => "cpu",
            Self::Cuda => "cuda",
        }
    }
}

impl std::str::FromStr for TargetKind {
    type Err = String;

    fn from_str(name: &str) -> Result<Self, String> {
        match name {
            "cpu" => Ok(Self::Cpu),
            "cuda" => Ok(Self::Cuda),
            _ => Err(format!("unknown target `{name}`: it is `cpu` or `cuda`")),
        }
    }
}

/// The element type of a tensor: one, or one for each value of an axis, counted from 0.
#[derive(Clone, Debug, PartialEq, Eq, JsonSchema)]
#[schemars(untagged)]
pub enum ElementType {
    /// Always the same.
    Fixed(DType),
    /// As an axis says.
    ByAxis {
        /// The axis.
        axis: String,
        /// The type for each of its values, counted from 0.
        of: Vec<DType>,
    },
}

impl<'de> Deserialize<'de> for ElementType {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        /// Reads a text as one type and a table as a choice, so that errors are those of either.
        struct Either;
        impl<'de> serde::de::Visitor<'de> for Either {
            type Value = ElementType;

            fn expecting(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                formatter.write_str("an element type, or { axis = \"..\", of = [..] }")
            }

            fn visit_str<E: serde::de::Error>(self, text: &str) -> Result<ElementType, E> {
                use serde::de::IntoDeserializer;
                DType::deserialize(text.into_deserializer()).map(ElementType::Fixed)
            }

            fn visit_map<A: serde::de::MapAccess<'de>>(
                self,
                map: A,
            ) -> Result<ElementType, A::Error> {
                #[derive(Deserialize)]
                #[serde(deny_unknown_fields)]
                struct Choice {
                    axis: String,
                    of: Vec<DType>,
                }
                let map = serde::de::value::MapAccessDeserializer::new(map);
                let Choice { axis, of } = Choice::deserialize(map)?;
                Ok(ElementType::ByAxis { axis, of })
            }
        }
        deserializer.deserialize_any(Either)
    }
}

/// Whether kernels read or write a tensor.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Role {
    /// Read only.
    Input,
    /// Written; poisoned before every launch.
    Output,
}

/// A number that kernels receive by value.
#[derive(Clone, Debug)]
pub struct Scalar {
    /// Its name.
    pub name: String,
    /// Its type.
    pub dtype: ScalarType,
    /// Its value on the workloads, over the axes.
    pub value: Expr,
    /// Its values on the other shapes of the gate.
    pub draw: ScalarDraw,
}

/// How the gate draws a scalar, so that a kernel cannot know it.
#[derive(Clone, Debug, PartialEq)]
pub enum ScalarDraw {
    /// The value times a number between two, or that number where the value is 0; or one of some values.
    Drawn {
        /// The least and the greatest factor.
        factors: Option<(f64, f64)>,
        /// The values; not empty where there are no factors.
        values: Vec<f64>,
        /// Whether the lab says so.
        is_stated: bool,
    },
    /// It never varies.
    Fixed,
}

/// The type of a scalar argument.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum ScalarType {
    /// C `float`.
    F32,
    /// C `double`.
    F64,
    /// C `int64_t`.
    I64,
}

/// The reference: what is right, in f64.
#[derive(Clone, Debug)]
pub struct Reference {
    /// The file's path in the lab.
    pub path: String,
    /// The file's text.
    pub source: String,
    /// What computes.
    pub program: ReferenceProgram,
}

/// What computes in a reference.
#[derive(Clone, Debug)]
pub enum ReferenceProgram {
    /// A C function over blocks.
    Function {
        /// Its name.
        entry: String,
        /// How many blocks a shape has.
        blocks: Expr,
    },
    /// A Python script.
    Script(ReferenceScript),
}

/// A reference that a Python interpreter runs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReferenceScript {
    /// Every Python file beside the manifest, by name, itself included: what it may import.
    pub files: Vec<(String, String)>,
    /// The packages it needs, with versions.
    pub packages: Vec<String>,
    /// About how much `warpsmith setup` downloads for it.
    pub size_mb: u32,
}

/// The problem that a lab was made from.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Imported {
    /// The format of the problem.
    pub format: ProblemFormat,
    /// The problem's name there.
    pub name: String,
}

/// The formats that problems are imported from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum ProblemFormat {
    /// A Python module with `Model`, `get_inputs` and `get_init_inputs`.
    KernelBench,
    /// A FlashInfer-Trace definition.
    FlashInfer,
}

/// What a workload asks of the machine.
#[derive(Clone, Debug)]
pub struct Work {
    /// Floating-point operations.
    pub flops: Expr,
    /// The least bytes that must move.
    pub bytes: Expr,
}

/// How right outputs must be, in units of the output type's epsilon.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Tolerance {
    /// Bounds each element: `|out - ref| <= element_eps * eps * max(|ref|, rms of ref's row)`.
    pub element_eps: f64,
    /// Bounds the whole: `||out - ref|| <= norm_eps * eps * ||ref||`.
    pub norm_eps: f64,
}

/// A named way to fill the inputs.
#[derive(Clone, Debug, PartialEq)]
pub struct Inputs {
    /// Its name.
    pub name: String,
    /// The distribution of every input tensor, in tensor order; outputs have none.
    pub distributions: Vec<Distribution>,
    /// Widens both tolerances.
    pub tolerance_scale: f64,
}

/// How one tensor's elements are drawn.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase", deny_unknown_fields)]
pub enum Distribution {
    /// The bell curve.
    Normal {
        /// Its centre.
        mean: f64,
        /// Its width.
        std: f64,
    },
    /// All values of an interval alike.
    Uniform {
        /// Its lower end.
        low: f64,
        /// Its upper end.
        high: f64,
    },
    /// One value.
    Constant {
        /// The value.
        value: f64,
    },
    /// Normal, each row of the last axis at its own scale between 1e-3 and 1e3.
    Mixed {
        /// Whether about every fourth of them is zero.
        #[serde(default)]
        zero_rows: bool,
    },
    /// Normal, about a centre that goes evenly along an axis, so that the largest elements stand at a known end.
    Ramp {
        /// The axis, counted from the last, which is -1.
        axis: i32,
        /// The centre at the axis's beginning.
        first: f64,
        /// The centre at its end.
        last: f64,
        /// The width about the centre; 0 is none.
        std: f64,
    },
}

/// A shape with a name.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Workload {
    /// Its name.
    pub name: String,
    /// The value of every axis, in the order of the lab's axes.
    pub axes: Vec<(String, i64)>,
    /// The scalars that were drawn for it; the others, and all of those that a lab names, have the lab's values.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub scalars: Vec<(String, f64)>,
}

/// The values that an axis may take when shapes are drawn.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Range {
    /// Every integer from `min` to `max`, both included.
    Span {
        /// The least.
        min: i64,
        /// The greatest.
        max: i64,
    },
    /// These alone.
    Values(Vec<i64>),
}

/// A kernel: its source and its contract.
#[derive(Clone, Debug)]
pub struct Kernel {
    /// Its name: the file's, without ending.
    pub name: String,
    /// One line for people.
    pub summary: String,
    /// The contract's text, as loaded.
    pub contract: String,
    /// The source's text.
    pub source: String,
    /// Flags for the compiler.
    pub flags: Vec<String>,
    /// Axes that arrive as macros too.
    pub specialize: Vec<String>,
    /// What a workload must satisfy to be served.
    pub requires: Vec<Expr>,
    /// What parameters must satisfy.
    pub constraints: Vec<Expr>,
    /// The launches, in order.
    pub launches: Vec<Launch>,
    /// Scratch buffers, in argument order.
    pub scratch: Vec<Scratch>,
    /// The tunables, in the contract's order.
    pub tunables: Vec<Tunable>,
    /// The author's choice.
    pub default: Params,
    /// The tunables to vary around the microbenchmark's best.
    pub expand: Vec<String>,
    /// For known cheats: the verdict that the gate must give.
    pub expect: Option<Verdict>,
    /// CUDA: the least architecture that it runs on.
    pub arch: Option<String>,
    /// CUDA: what compiles it.
    pub compiler: CudaCompiler,
    /// CUDA: tensor maps, in argument order.
    pub tensor_maps: Vec<TensorMap>,
    /// CUDA: what must be true of the compiled code.
    pub build: Option<BuildClaims>,
    /// Where it is no kernel of its own, who serves which shape.
    pub front: Option<Box<Front>>,
}

/// What compiles a CUDA kernel.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum CudaCompiler {
    /// The run-time compiler: quick, and needs no compiler of the host.
    #[default]
    Nvrtc,
    /// `nvcc`, for sources that include headers of the host's C++ library.
    Nvcc,
}

impl CudaCompiler {
    /// Returns the name that contracts and environments use.
    pub fn name(self) -> &'static str {
        match self {
            Self::Nvrtc => "nvrtc",
            Self::Nvcc => "nvcc",
        }
    }
}

/// One call of a kernel function over all of its blocks.
#[derive(Clone, Debug)]
pub struct Launch {
    /// The C function.
    pub entry: String,
    /// How many blocks.
    pub blocks: Expr,
    /// How many blocks a thread takes at a time.
    pub chunk: Expr,
    /// On CUDA, how the blocks lie.
    pub grid: Option<Grid>,
}

/// How the blocks of a CUDA launch lie, and what each has.
#[derive(Clone, Debug)]
pub struct Grid {
    /// Blocks, along x, y and z.
    pub grid: [Expr; 3],
    /// Threads of a block.
    pub block: [Expr; 3],
    /// Blocks of a cluster.
    pub cluster: [Expr; 3],
    /// Bytes of dynamic shared memory.
    pub smem: Expr,
}

/// A descriptor of a tensor for the copy engine.
#[derive(Clone, Debug)]
pub struct TensorMap {
    /// Its name.
    pub name: String,
    /// Index of the tensor in the lab.
    pub tensor: usize,
    /// The tensor's extents as the engine sees them, outermost first.
    pub shape: Vec<Expr>,
    /// The extents of what is copied at a time.
    pub box_extents: Vec<Expr>,
    /// The swizzle in bytes; 0 is none.
    pub swizzle: u32,
}

/// What must be true of the compiled code of the author's choice.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct BuildClaims {
    /// Instructions that must occur.
    pub instructions: Vec<String>,
    /// Registers a thread may use.
    pub max_registers: Option<u32>,
    /// Bytes of registers that may be spilled.
    pub max_spill_bytes: Option<u32>,
    /// Bytes of shared memory that a block may use.
    pub max_smem_bytes: Option<u32>,
    /// What the compiler may remark that it gives away; nothing else.
    pub allow_losses: Vec<Loss>,
}

/// A buffer shared by the launches of a kernel.
#[derive(Clone, Debug)]
pub struct Scratch {
    /// Its name.
    pub name: String,
    /// Its size.
    pub bytes: Expr,
}

/// A tunable and its values.
#[derive(Clone, Debug, PartialEq)]
pub struct Tunable {
    /// Its name.
    pub name: String,
    /// Its values; at least one, each once.
    pub values: Vec<Value>,
}

/// A library that computes the same thing.
#[derive(Clone, Debug, PartialEq)]
pub struct Baseline {
    /// Its name: the file's, without ending.
    pub name: String,
    /// One line for people.
    pub summary: String,
    /// What computes.
    pub program: BaselineProgram,
    /// The packages it needs, with versions.
    pub packages: Vec<String>,
    /// About how much `warpsmith setup` downloads for it.
    pub size_mb: u32,
    /// Seconds that a script may take to prepare, where it asks for more than usual.
    pub start_s: Option<u32>,
    /// What a workload must satisfy to be served.
    pub requires: Vec<Expr>,
}

/// What computes in a baseline.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum BaselineProgram {
    /// A Python script, by its path in the lab (`baselines/x.py`).
    Script(String),
    /// NVIDIA's cuBLASLt, called by the process that owns the device.
    CublasLt(MatrixProduct),
}

/// C = A B (or A Bᵀ) on row-major matrices, by the names of the lab's tensors.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MatrixProduct {
    /// A, of shape M,K.
    pub a: String,
    /// B, of shape K,N, or N,K where it is transposed.
    pub b: String,
    /// C, of shape M,N.
    pub c: String,
    /// Whether B is N,K.
    pub b_transposed: bool,
}

impl Lab {
    /// Loads a lab from its files; reports everything that is wrong with them, not just the first.
    pub fn parse(files: &LabFiles) -> Result<Self, LabErrors> {
        load::parse(files)
    }

    /// Says what is to be said of tolerances within which an answer may be visibly wrong; such that zeros would
    /// pass are refused when the lab is read.
    pub fn tolerance_doubt(&self) -> Option<String> {
        // Of a whole answer, errors that are independent of each other leave far less than of one element.
        const MOST: f64 = 0.01;
        const MOST_OF_AN_ELEMENT: f64 = 0.05;
        let outputs = self.tensors.iter().filter(|tensor| tensor.role == Role::Output);
        let epsilon = outputs
            .flat_map(|tensor| match &tensor.dtype {
                ElementType::Fixed(dtype) => vec![*dtype],
                ElementType::ByAxis { of, .. } => of.clone(),
            })
            .map(DType::epsilon)
            .fold(0.0, f64::max);
        let widest =
            self.inputs.iter().max_by(|a, b| a.tolerance_scale.total_cmp(&b.tolerance_scale))?;
        let share = |eps: f64| eps * widest.tolerance_scale * epsilon;
        let (norm, element) = (share(self.tolerance.norm_eps), share(self.tolerance.element_eps));
        let mut doubts = Vec::new();
        if norm > MOST {
            doubts.push(format!("a whole answer be wrong by {}", percent(norm)));
        }
        if element > MOST_OF_AN_ELEMENT {
            doubts.push(format!("one element be wrong by {}", percent(element)));
        }
        (!doubts.is_empty()).then(|| {
            format!(
                "the tolerance lets {} (inputs `{}`); `warpsmith calibrate` proposes another",
                doubts.join(", and "),
                widest.name
            )
        })
    }

    /// Returns a kernel by name.
    pub fn kernel(&self, name: &str) -> Option<&Kernel> {
        self.kernels.iter().find(|kernel| kernel.name == name)
    }

    /// Returns the packages that a script as the reference needs.
    pub fn reference_packages(&self) -> (&[String], u32) {
        match &self.reference.program {
            ReferenceProgram::Script(script) => (&script.packages, script.size_mb),
            ReferenceProgram::Function { .. } => (&[], 0),
        }
    }

    /// Returns every shape that a command may name: the workloads, then the extra ones.
    pub fn shapes(&self) -> impl Iterator<Item = &Workload> {
        self.workloads.iter().chain(&self.extra)
    }

    /// Returns a workload by name.
    pub fn workload(&self, name: &str) -> Option<&Workload> {
        self.shapes().find(|workload| workload.name == name)
    }

    /// Returns a baseline by name.
    pub fn baseline(&self, name: &str) -> Option<&Baseline> {
        self.baselines.iter().find(|baseline| baseline.name == name)
    }

    /// Returns the work that a workload is.
    pub fn work(&self, workload: &Workload) -> Result<WorkSize, EvalError> {
        let number = |expr: &Expr| {
            let value = expr.eval(&|name| workload.lookup(name))?;
            value.as_f64().ok_or_else(|| EvalError(format!("`{}`: not a number", expr.text())))
        };
        Ok(WorkSize { flops: number(&self.work.flops)?, bytes: number(&self.work.bytes)? })
    }

    /// Returns the element type whose arithmetic peak a workload is held against: the least precise one
    /// of all tensors. Where an input has 16 bits, the matrix units multiply it, whatever the type in
    /// which the sums are kept and written.
    pub fn arithmetic_dtype(&self, workload: &Workload) -> DType {
        self.tensors
            .iter()
            .map(|tensor| tensor.dtype_on(workload))
            .max_by(|a, b| a.epsilon().total_cmp(&b.epsilon()))
            .expect("a lab that loads has an output")
    }
}

impl Tensor {
    /// Returns the element type on a workload.
    pub fn dtype_on(&self, workload: &Workload) -> DType {
        match &self.dtype {
            ElementType::Fixed(dtype) => *dtype,
            ElementType::ByAxis { axis, of } => {
                let value = workload.axis(axis).and_then(|value| usize::try_from(value).ok());
                let dtype = value.and_then(|value| of.get(value));
                *dtype.expect("a validated workload chooses a type")
            }
        }
    }

    /// Returns the extents on a workload; each is at least 1.
    pub fn extents(&self, workload: &Workload) -> Result<Vec<u64>, EvalError> {
        let extent = |expr: &Expr| match expr.eval_int(&|name| workload.lookup(name))? {
            value if value > 0 => Ok(value.unsigned_abs()),
            value => Err(EvalError(format!(
                "`{}` is {value}; an extent of `{}` must be at least 1",
                expr.text(),
                self.name
            ))),
        };
        self.shape.iter().map(extent).collect()
    }
}

impl Workload {
    /// Makes a shape with the lab's scalars.
    pub fn new(name: impl Into<String>, axes: Vec<(String, i64)>) -> Self {
        Self { name: name.into(), axes, scalars: Vec::new() }
    }

    /// Returns an axis's value.
    pub fn axis(&self, name: &str) -> Option<i64> {
        self.axes.iter().find(|(axis, _)| axis == name).map(|(_, value)| *value)
    }

    /// Binds the axes for expressions.
    pub fn lookup(&self, name: &str) -> Option<Value> {
        self.axis(name).map(Value::Int)
    }
}

/// Binds every name that launches and scratch buffers may use.
pub fn lookup_all<'a>(
    workload: &'a Workload,
    params: &'a Params,
    device: &'a DeviceInfo,
) -> impl Fn(&str) -> Option<Value> + 'a {
    move |name| {
        workload
            .lookup(name)
            .or_else(|| params.get(name).cloned())
            .or_else(|| device.constant(name).map(Value::Int))
    }
}

impl Kernel {
    /// Returns the number of configurations before constraints.
    pub fn cartesian(&self) -> u128 {
        space::cartesian(&self.tunables)
    }

    /// Returns the author's choice of parameters, where every search starts.
    pub fn seed_params(&self) -> Params {
        self.default.clone()
    }

    /// Says whether the kernel serves a workload.
    pub fn serves(&self, workload: &Workload) -> Result<bool, EvalError> {
        match &self.front {
            Some(front) => Ok(front.route(workload)?.is_some()),
            None => all_true(&self.requires, &|name| workload.lookup(name)),
        }
    }

    /// Says whether parameters satisfy every constraint on this device.
    pub fn allows(&self, params: &Params, device: &DeviceInfo) -> Result<bool, EvalError> {
        all_true(&self.constraints, &|name| {
            params.get(name).cloned().or_else(|| device.constant(name).map(Value::Int))
        })
    }
}

impl Baseline {
    /// Says whether the baseline serves a workload.
    pub fn serves(&self, workload: &Workload) -> Result<bool, EvalError> {
        all_true(&self.requires, &|name| workload.lookup(name))
    }
}

fn all_true(
    conditions: &[Expr],
    lookup: &dyn Fn(&str) -> Option<Value>,
) -> Result<bool, EvalError> {
    for condition in conditions {
        if !condition.eval_bool(lookup)? {
            return Ok(false);
        }
    }
    Ok(true)
}
