//! The files of a lab as they are written: what serde reads and what JSON Schema describes.
//!
//! Nothing here is checked beyond its type; `manifest`, `contract` and `baseline` do that, with
//! the places that [`Located`] keeps.

use std::borrow::{Borrow, Cow};
use std::ops::{Deref, Range};

use indexmap::IndexMap;
use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::{Deserialize, Deserializer};

use super::{
    CudaCompiler, Distribution, ElementType, Imported, Role, ScalarType, TargetKind, Tolerance,
};
use crate::{Loss, Value, Verdict};

/// A value and its place in the file.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Located<T>(toml::Spanned<T>);

/// A table whose keys are chosen by the author, in the order of the file.
pub(super) type Entries<T> = IndexMap<Located<String>, Located<T>>;

impl<T> Located<T> {
    pub(super) fn span(&self) -> Range<usize> {
        self.0.span()
    }

    pub(super) fn into_inner(self) -> T {
        self.0.into_inner()
    }
}

impl<T> Deref for Located<T> {
    type Target = T;

    fn deref(&self) -> &T {
        self.0.get_ref()
    }
}

impl Borrow<str> for Located<String> {
    fn borrow(&self) -> &str {
        self
    }
}

impl<'de, T: Deserialize<'de>> Deserialize<'de> for Located<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        toml::Spanned::deserialize(deserializer).map(Self)
    }
}

impl<T: JsonSchema> JsonSchema for Located<T> {
    fn inline_schema() -> bool {
        T::inline_schema()
    }

    fn schema_name() -> Cow<'static, str> {
        T::schema_name()
    }

    fn schema_id() -> Cow<'static, str> {
        T::schema_id()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        T::json_schema(generator)
    }
}

/// `lab.toml`: what is computed, on which shapes, how right it must be.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(title = "Warpsmith lab")]
pub(super) struct LabFile {
    /// The format version: 1.
    #[expect(dead_code, reason = "the reader looks at it before it reads the rest")]
    pub(super) format: u32,
    /// The lab's name, an identifier.
    pub(super) name: Located<String>,
    /// What the lab's kernels run on: `cpu` (when absent) or `cuda`.
    #[serde(default)]
    pub(super) target: Option<Located<TargetKind>>,
    /// One line for people.
    pub(super) title: Located<String>,
    /// The problem that the lab was imported from.
    #[serde(default)]
    pub(super) imported: Option<Imported>,
    /// Integers that a workload fixes, in argument order.
    pub(super) axes: Vec<Located<String>>,
    /// The tensors, in argument order.
    #[serde(default)]
    pub(super) tensor: Vec<TensorFile>,
    /// Numbers passed by value, after the axes in argument order.
    #[serde(default)]
    pub(super) scalar: Vec<ScalarFile>,
    /// What is right, in f64; slow and obviously right.
    pub(super) reference: ReferenceFile,
    /// The kernel that the reference proves and that then proves the rest; absent where the reference is
    /// a script, which answers on every shape itself.
    #[serde(default)]
    pub(super) oracle: Option<OracleFile>,
    /// The work that a workload is.
    pub(super) work: WorkFile,
    /// How right outputs must be, in units of the output type's epsilon.
    pub(super) tolerance: Located<Tolerance>,
    /// Ways to fill the inputs; the first one is used for timing, the gate uses them all.
    #[serde(default)]
    pub(super) inputs: Vec<InputsFile>,
    /// The shapes that matter: gated, timed, scored.
    #[serde(default)]
    pub(super) workload: Vec<WorkloadFile>,
    /// Further shapes, which are measured only where a command names them.
    #[serde(default)]
    pub(super) extra: Vec<WorkloadFile>,
    /// Small shapes on which the reference checks every kernel directly.
    #[serde(default)]
    pub(super) proof: Vec<WorkloadFile>,
    /// Where the full gate draws further small shapes from; every axis or none.
    #[serde(default)]
    pub(super) ranges: Option<Located<Entries<RangeFile>>>,
    /// Settings of the microbenchmark.
    #[serde(default)]
    pub(super) micro: Option<MicroFile>,
}

/// A tensor.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct TensorFile {
    /// A C identifier.
    pub(super) name: Located<String>,
    /// Its extents: expressions over the axes.
    pub(super) shape: Located<Vec<Located<String>>>,
    /// Its element type, or one for each value of an axis.
    pub(super) dtype: Located<ElementType>,
    /// Whether kernels read or write it.
    pub(super) role: Role,
}

/// A number passed by value.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct ScalarFile {
    /// A C identifier.
    pub(super) name: Located<String>,
    /// Its type.
    pub(super) dtype: ScalarType,
    /// Its value on the workloads: an expression over the axes.
    pub(super) value: Located<String>,
    /// What the gate gives it on other shapes, so that no kernel can know it. When absent, a floating-point
    /// scalar is its value times a number between 0.5 and 0.95, and an integer never varies.
    #[serde(default)]
    pub(super) draw: Option<Located<ScalarDrawFile>>,
}

/// What a scalar is drawn from: `factors`, `values`, or either in turn.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct ScalarDrawFile {
    /// The least and the greatest number that its value is multiplied by.
    pub(super) factors: Option<[f64; 2]>,
    /// One of these; a single one without `factors` says that it never varies.
    pub(super) values: Option<Vec<f64>>,
}

/// The reference.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct ReferenceFile {
    /// The file, relative to the lab's folder: C, or Python where it ends in `.py`.
    pub(super) source: Located<String>,
    /// The C function; absent for a script.
    #[serde(default)]
    pub(super) entry: Option<Located<String>>,
    /// How many blocks a shape has: an expression over the axes; absent for a script.
    #[serde(default)]
    pub(super) blocks: Option<Located<String>>,
    /// Packages that a script needs, with versions.
    #[serde(default)]
    pub(super) packages: Vec<String>,
    /// About how many megabytes their installation downloads.
    #[serde(default)]
    pub(super) size_mb: u32,
}

/// The oracle.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct OracleFile {
    /// A kernel of this lab.
    pub(super) kernel: Located<String>,
}

/// What a workload asks of the machine.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct WorkFile {
    /// Floating-point operations: an expression over the axes.
    pub(super) flops: Located<String>,
    /// The least bytes that must move: an expression over the axes.
    pub(super) bytes: Located<String>,
}

/// A named way to fill the inputs.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct InputsFile {
    /// Its name.
    pub(super) name: Located<String>,
    /// The distribution of every tensor that `tensors` does not name.
    pub(super) default: Located<Distribution>,
    /// Distributions of single tensors.
    #[serde(default)]
    pub(super) tensors: Entries<Distribution>,
    /// Widens both tolerances.
    #[serde(default)]
    pub(super) tolerance_scale: Option<Located<f64>>,
}

/// A shape with a name.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct WorkloadFile {
    /// Its name.
    pub(super) name: Located<String>,
    /// The value of every axis.
    pub(super) axes: Located<Entries<i64>>,
}

/// The values that an axis may take: `min` and `max`, or `values`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct RangeFile {
    /// The least.
    pub(super) min: Option<i64>,
    /// The greatest.
    pub(super) max: Option<i64>,
    /// These alone.
    pub(super) values: Option<Vec<i64>>,
}

/// Settings of the microbenchmark.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct MicroFile {
    /// The names of the workloads that it runs; the first workload when absent.
    pub(super) workloads: Located<Vec<Located<String>>>,
}

/// `front.toml`: which kernel, with which parameters, serves which shape.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(title = "Warpsmith front")]
pub(super) struct FrontFile {
    /// The format version: 1.
    #[expect(dead_code, reason = "the reader looks at it before it reads the rest")]
    pub(super) format: u32,
    /// One line for people.
    pub(super) summary: Located<String>,
    /// Axes in which a route and a shape should agree, before distance counts.
    #[serde(default)]
    pub(super) exact: Vec<Located<String>>,
    /// The choices; a shape takes the nearest whose kernel serves it.
    #[serde(default)]
    pub(super) route: Vec<RouteFile>,
}

/// A choice for a shape and its surroundings.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct RouteFile {
    /// The shape: a value for every axis.
    pub(super) near: Located<Entries<i64>>,
    /// The kernel.
    pub(super) kernel: Located<String>,
    /// A value for each of its tunables.
    #[serde(default)]
    pub(super) params: Entries<Value>,
}

/// `kernels/NAME.toml`: launches, tunables, constraints.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(title = "Warpsmith kernel contract")]
pub(super) struct ContractFile {
    /// The format version: 1.
    #[expect(dead_code, reason = "the reader looks at it before it reads the rest")]
    pub(super) format: u32,
    /// What the kernel runs on: `cpu` or `cuda`, as its lab says.
    pub(super) target: Located<String>,
    /// One line for people.
    pub(super) summary: Located<String>,
    /// Appended to the compiler's command line.
    #[serde(default)]
    pub(super) flags: Vec<Located<String>>,
    /// Axes that arrive as macros too; one build per distinct value.
    #[serde(default)]
    pub(super) specialize: Vec<Located<String>>,
    /// What a workload must satisfy to be served: expressions over the axes.
    #[serde(default)]
    pub(super) requires: Vec<Located<String>>,
    /// What parameters must satisfy: expressions over tunables and device constants.
    #[serde(default)]
    pub(super) constraints: Vec<Located<String>>,
    /// Calls of the kernel's functions; they run in order and are timed as one.
    #[serde(default)]
    pub(super) launch: Vec<LaunchFile>,
    /// Buffers shared by all threads and launches.
    #[serde(default)]
    pub(super) scratch: Vec<ScratchFile>,
    /// Values that arrive as macros; `CC` and `CFLAGS` choose compiler and flags instead.
    #[serde(default)]
    pub(super) tunables: Entries<Vec<Located<Value>>>,
    /// The author's choice and the search's hints; needed when there are tunables.
    #[serde(default)]
    pub(super) search: Option<Located<SearchFile>>,
    /// For known cheats: the verdict that the gate must give.
    #[serde(default)]
    pub(super) expect: Option<Verdict>,
    /// CUDA: the least architecture that it runs on (`sm_80`, `sm_90a`).
    #[serde(default)]
    pub(super) arch: Option<Located<String>>,
    /// CUDA: what compiles it, `nvrtc` (unless said otherwise) or `nvcc`.
    #[serde(default)]
    pub(super) compiler: Option<Located<CudaCompiler>>,
    /// CUDA: descriptors for the copy engine, passed after the scratch buffers.
    #[serde(default)]
    pub(super) tma: Vec<TensorMapFile>,
    /// CUDA: what must be true of the compiled code of the author's choice.
    #[serde(default)]
    pub(super) build: Option<Located<BuildFile>>,
}

/// A descriptor of a tensor for the copy engine.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct TensorMapFile {
    /// An identifier.
    pub(super) name: Located<String>,
    /// The tensor that it describes.
    pub(super) tensor: Located<String>,
    /// The tensor's extents as the engine shall see them, outermost first: expressions.
    pub(super) shape: Located<Vec<Located<String>>>,
    /// The extents of what is copied at a time: expressions.
    #[serde(rename = "box")]
    pub(super) box_: Located<Vec<Located<String>>>,
    /// The swizzle in bytes: 0, 32, 64 or 128.
    pub(super) swizzle: Located<u32>,
}

/// What must be true of compiled code.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct BuildFile {
    /// Instructions of the machine that must occur (`HMMA`, `LDGSTS`).
    #[serde(default)]
    pub(super) instructions: Vec<String>,
    /// Registers a thread may use.
    #[serde(default)]
    pub(super) max_registers: Option<u32>,
    /// Bytes of registers that may be spilled.
    #[serde(default)]
    pub(super) max_spill_bytes: Option<u32>,
    /// Bytes of shared memory, static and dynamic, that a block may use.
    #[serde(default)]
    pub(super) max_smem_bytes: Option<u32>,
    /// What the compiler may remark; any other remark that it gives performance away breaks the claim.
    #[serde(default)]
    pub(super) allow_losses: Vec<Loss>,
}

/// One call of a kernel function over all of its blocks.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct LaunchFile {
    /// The C function.
    pub(super) entry: Located<String>,
    /// CPU: how many blocks: an expression over axes, tunables and device constants.
    #[serde(default)]
    pub(super) blocks: Option<Located<String>>,
    /// CPU: blocks handed to a thread at a time: an expression; 1 when absent.
    #[serde(default)]
    pub(super) chunk: Option<Located<String>>,
    /// CUDA: the grid, one to three expressions.
    #[serde(default)]
    pub(super) grid: Option<Located<Vec<Located<String>>>>,
    /// CUDA: the block, one to three expressions.
    #[serde(default)]
    pub(super) block: Option<Located<Vec<Located<String>>>>,
    /// CUDA: the cluster, one to three expressions; one block when absent.
    #[serde(default)]
    pub(super) cluster: Option<Located<Vec<Located<String>>>>,
    /// CUDA: bytes of dynamic shared memory: an expression; 0 when absent.
    #[serde(default)]
    pub(super) smem: Option<Located<String>>,
}

/// A buffer shared by the launches of a kernel.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct ScratchFile {
    /// A C identifier.
    pub(super) name: Located<String>,
    /// Its size: an expression over axes, tunables and device constants.
    pub(super) bytes: Located<String>,
}

/// The author's choice and hints to the search.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct SearchFile {
    /// A value for every tunable.
    pub(super) default: Located<Entries<Value>>,
    /// Tunables to vary around the microbenchmark's best.
    #[serde(default)]
    pub(super) expand: Vec<Located<String>>,
}

/// `baselines/NAME.toml`: a library that computes the same thing.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(title = "Warpsmith baseline")]
pub(super) struct BaselineFile {
    /// The format version: 1.
    #[expect(dead_code, reason = "the reader looks at it before it reads the rest")]
    pub(super) format: u32,
    /// One line for people.
    pub(super) summary: Located<String>,
    /// What runs it: a Python script, unless said otherwise, or a library that the harness calls itself.
    pub(super) kind: Option<Located<BaselineKind>>,
    /// The Python file, relative to `baselines/`; for `kind = "python"`.
    pub(super) script: Option<Located<String>>,
    /// Which tensors are multiplied; for `kind = "cublaslt"`.
    pub(super) gemm: Option<Located<GemmFile>>,
    /// Packages that it needs, with versions.
    #[serde(default)]
    pub(super) packages: Vec<String>,
    /// About how many megabytes their installation downloads.
    #[serde(default)]
    pub(super) size_mb: u32,
    /// Seconds that a script may take to import its libraries and prepare, where two minutes are too few.
    pub(super) start_s: Option<Located<u32>>,
    /// What a workload must satisfy to be served: expressions over the axes.
    #[serde(default)]
    pub(super) requires: Vec<Located<String>>,
}

/// What runs a baseline.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub(super) enum BaselineKind {
    /// A script of the lab.
    Python,
    /// NVIDIA's cuBLASLt, called by the process that owns the device.
    CublasLt,
}

/// `[gemm]` of a baseline: C = A B, on row-major matrices.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct GemmFile {
    /// The tensor A, of shape M,K.
    pub(super) a: Located<String>,
    /// The tensor B, of shape K,N.
    pub(super) b: Located<String>,
    /// The tensor C, of shape M,N.
    pub(super) c: Located<String>,
    /// Whether B is N,K instead: C = A Bᵀ.
    #[serde(default)]
    pub(super) b_transposed: bool,
}

/// The kinds of file that have a JSON Schema.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SchemaKind {
    /// `lab.toml`.
    Lab,
    /// `kernels/NAME.toml`.
    Contract,
    /// `baselines/NAME.toml`.
    Baseline,
    /// `front.toml`.
    Front,
}

/// Returns the JSON Schema of a kind of file, for editors.
pub fn schema(kind: SchemaKind) -> serde_json::Value {
    match kind {
        SchemaKind::Lab => schemars::schema_for!(LabFile),
        SchemaKind::Contract => schemars::schema_for!(ContractFile),
        SchemaKind::Baseline => schemars::schema_for!(BaselineFile),
        SchemaKind::Front => schemars::schema_for!(FrontFile),
    }
    .into()
}
