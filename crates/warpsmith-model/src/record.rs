//! What the evidence keeps beside trials: runs, comparisons, lists of the best.
//!
//! A record repeats what a reader needs of the lab (shapes, work, tunables), so that a report is a
//! function of the evidence alone and stays right when the lab's files move on.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::lab::{Imported, Role, Scalar, ScalarType, Tensor, Tolerance, Workload};
use crate::stats::{self, Interval};
use crate::{
    Blob, CandidateId, Ceilings, DType, Environment, EnvironmentId, EvalError, Expr, Fidelity, Lab,
    LabId, Params, ProfileRecord, RunId, Trial, TrialId, Value, Verdict,
};

/// One campaign: what was asked, where it ran, how it ended.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RunRecord {
    /// The document's format version.
    pub format: u32,
    /// The run's name.
    pub id: RunId,
    /// The lab as it was then.
    pub lab: LabRecord,
    /// The environment it ran in.
    pub environment: EnvironmentId,
    /// When it began, in seconds since 1970.
    pub started_unix_s: f64,
    /// Every setting, by name, whether it was given or left at its default.
    pub settings: BTreeMap<String, serde_json::Value>,
    /// How far it came.
    pub status: RunStatus,
}

/// How far a run came.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "status")]
pub enum RunStatus {
    /// Not ended, and a process that writes to it is there.
    Running,
    /// Not ended, and nobody here can tell whether it goes on: it is written on another machine, or was before
    /// this one started, or the evidence does not say by whom. Never recorded; it is what a reader finds.
    Unknown,
    /// Its budget or its space was used up.
    Finished {
        /// When, in seconds since 1970.
        ended_unix_s: f64,
    },
    /// Somebody stopped it, or killed it.
    Interrupted {
        /// When, in seconds since 1970; of one that was killed, when it last recorded a trial, or began.
        ended_unix_s: f64,
    },
    /// We broke.
    Failed {
        /// When, in seconds since 1970.
        ended_unix_s: f64,
        /// Why, in words.
        reason: String,
    },
}

impl RunStatus {
    /// Returns the name used in tables and files.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Running => "running",
            Self::Unknown => "unknown",
            Self::Finished { .. } => "finished",
            Self::Interrupted { .. } => "interrupted",
            Self::Failed { .. } => "failed",
        }
    }

    /// Returns when the run ended, in seconds since 1970.
    pub fn ended_unix_s(&self) -> Option<f64> {
        match self {
            Self::Running | Self::Unknown => None,
            Self::Finished { ended_unix_s }
            | Self::Interrupted { ended_unix_s }
            | Self::Failed { ended_unix_s, .. } => Some(*ended_unix_s),
        }
    }
}

/// What readers of the evidence need to know of a lab.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct LabRecord {
    /// Identity: a hash of every file.
    pub id: LabId,
    /// The lab's name.
    pub name: String,
    /// One line for people.
    pub title: String,
    /// The element type of the first output, in whose precision errors are counted.
    pub dtype: DType,
    /// The element type whose arithmetic peak the roofline uses, where it is another: that of 16-bit
    /// inputs. Older evidence has none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub arithmetic: Option<DType>,
    /// The reference's path in the lab.
    pub reference: String,
    /// The kernel that proves the rest; empty where the reference is a script, which does so itself.
    pub oracle: String,
    /// The problem that the lab was imported from. Older evidence has none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub imported: Option<Imported>,
    /// The tensors, in argument order. Older evidence has none.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tensors: Vec<TensorRecord>,
    /// The scalars with their values on the first workload, in argument order. Older evidence has none.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub scalars: Vec<ScalarRecord>,
    /// How right outputs must be.
    pub tolerance: Tolerance,
    /// The input distributions; the first is the one that is timed.
    pub inputs: Vec<InputsRecord>,
    /// The small shapes on which the reference checks every kernel directly.
    pub proofs: Vec<Workload>,
    /// The shapes that matter, in the lab's order.
    pub workloads: Vec<WorkloadRecord>,
    /// Further ones, which are measured only where a command names them. Older evidence has none.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub extra: Vec<WorkloadRecord>,
    /// The names of the workloads that the microbenchmark runs.
    pub micro_workloads: Vec<String>,
    /// The kernels, in the lab's order.
    pub kernels: Vec<KernelRecord>,
}

/// A number that kernels receive by value.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ScalarRecord {
    /// Its name.
    pub name: String,
    /// Whether it is a whole number by its type.
    pub kind: ScalarKind,
    /// Its value on the first workload.
    pub value: f64,
}

/// What kind of number a scalar is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ScalarKind {
    /// `i64`.
    Integer,
    /// `f32` or `f64`.
    Float,
}

/// A tensor.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TensorRecord {
    /// Its name.
    pub name: String,
    /// Its extents: expressions over the axes.
    pub shape: Vec<String>,
    /// Its element type on the first workload.
    pub dtype: DType,
    /// Whether kernels read or write it.
    pub role: Role,
}

/// A named way to fill the inputs.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct InputsRecord {
    /// Its name.
    pub name: String,
    /// Widens both tolerances.
    pub tolerance_scale: f64,
}

/// A workload with its work evaluated.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct WorkloadRecord {
    /// Its name.
    pub name: String,
    /// The value of every axis, in the lab's order.
    pub axes: Vec<(String, i64)>,
    /// Floating-point operations.
    pub flops: f64,
    /// The least bytes that must move.
    pub bytes: f64,
}

/// A kernel and its space.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct KernelRecord {
    /// Its name.
    pub name: String,
    /// One line for people.
    pub summary: String,
    /// The tunables, in the contract's order.
    pub tunables: Vec<TunableRecord>,
    /// The author's choice.
    pub default: Params,
    /// The workloads that it serves.
    pub serves: Vec<String>,
    /// The function of its first launch. Older evidence has none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub entry: Option<String>,
}

/// A tunable and its values.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TunableRecord {
    /// Its name.
    pub name: String,
    /// Its values, in the contract's order.
    pub values: Vec<Value>,
}

impl LabRecord {
    /// Takes from a lab what readers of the evidence need.
    pub fn of(lab: &Lab) -> Result<Self, EvalError> {
        let output = lab.tensors.iter().find(|tensor| tensor.role == Role::Output);
        let workload_record = |workload: &Workload| {
            Ok(WorkloadRecord {
                name: workload.name.clone(),
                axes: workload.axes.clone(),
                flops: eval_number(&lab.work.flops, workload)?,
                bytes: eval_number(&lab.work.bytes, workload)?,
            })
        };
        let records = |workloads: &[Workload]| {
            workloads.iter().map(workload_record).collect::<Result<Vec<_>, EvalError>>()
        };
        let kernels = lab
            .kernels
            .iter()
            .map(|kernel| {
                let mut serves = Vec::new();
                for workload in &lab.workloads {
                    if kernel.serves(workload)? {
                        serves.push(workload.name.clone());
                    }
                }
                let tunables = kernel
                    .tunables
                    .iter()
                    .map(|tunable| TunableRecord {
                        name: tunable.name.clone(),
                        values: tunable.values.clone(),
                    })
                    .collect();
                Ok(KernelRecord {
                    name: kernel.name.clone(),
                    summary: kernel.summary.clone(),
                    tunables,
                    default: kernel.default.clone(),
                    serves,
                    entry: kernel.launches.first().map(|launch| launch.entry.clone()),
                })
            })
            .collect::<Result<_, EvalError>>()?;
        let dtype = output.map_or(DType::F32, |tensor| tensor.dtype_on(&lab.workloads[0]));
        let arithmetic = lab.arithmetic_dtype(&lab.workloads[0]);
        Ok(Self {
            id: lab.id,
            name: lab.name.clone(),
            title: lab.title.clone(),
            dtype,
            arithmetic: (arithmetic != dtype).then_some(arithmetic),
            reference: lab.reference.path.clone(),
            oracle: lab.oracle.clone().unwrap_or_default(),
            imported: lab.imported.clone(),
            tensors: lab.tensors.iter().map(|tensor| tensor_record(lab, tensor)).collect(),
            scalars: lab
                .scalars
                .iter()
                .map(|scalar| scalar_record(lab, scalar))
                .collect::<Result<_, EvalError>>()?,
            tolerance: lab.tolerance,
            inputs: lab
                .inputs
                .iter()
                .map(|inputs| InputsRecord {
                    name: inputs.name.clone(),
                    tolerance_scale: inputs.tolerance_scale,
                })
                .collect(),
            proofs: lab.proofs.clone(),
            workloads: records(&lab.workloads)?,
            extra: records(&lab.extra)?,
            micro_workloads: lab.micro_workloads.clone(),
            kernels,
        })
    }

    /// Returns the element type whose arithmetic peak the roofline uses.
    pub fn arithmetic_dtype(&self) -> DType {
        self.arithmetic.unwrap_or(self.dtype)
    }

    /// Returns every shape that a run may have measured: the workloads, then the extra ones.
    pub fn shapes(&self) -> impl Iterator<Item = &WorkloadRecord> {
        self.workloads.iter().chain(&self.extra)
    }

    /// Returns a workload by name.
    pub fn workload(&self, name: &str) -> Option<&WorkloadRecord> {
        self.shapes().find(|workload| workload.name == name)
    }

    /// Returns a kernel by name.
    pub fn kernel(&self, name: &str) -> Option<&KernelRecord> {
        self.kernels.iter().find(|kernel| kernel.name == name)
    }
}

fn scalar_record(lab: &Lab, scalar: &Scalar) -> Result<ScalarRecord, EvalError> {
    Ok(ScalarRecord {
        name: scalar.name.clone(),
        kind: match scalar.dtype {
            ScalarType::I64 => ScalarKind::Integer,
            ScalarType::F32 | ScalarType::F64 => ScalarKind::Float,
        },
        value: eval_number(&scalar.value, &lab.workloads[0])?,
    })
}

fn tensor_record(lab: &Lab, tensor: &Tensor) -> TensorRecord {
    TensorRecord {
        name: tensor.name.clone(),
        shape: tensor.shape.iter().map(|extent| extent.text().to_string()).collect(),
        dtype: tensor.dtype_on(&lab.workloads[0]),
        role: tensor.role,
    }
}

fn eval_number(expr: &Expr, workload: &Workload) -> Result<f64, EvalError> {
    expr.eval(&|name| workload.lookup(name))?
        .as_f64()
        .ok_or_else(|| EvalError(format!("`{}` is not a number", expr.text())))
}

/// A trial as one run saw it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RunTrial {
    /// Its place in the run, from 0.
    pub seq: u64,
    /// When the run learned of it, in seconds since 1970.
    pub at_unix_s: f64,
    /// Whether an earlier run measured it.
    pub adopted: bool,
    /// The trial.
    pub trial: Trial,
}

/// Contenders timed in interleaved rounds under one clock: round `i` of one is comparable with
/// round `i` of every other on the same workload.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ComparisonRecord {
    /// The document's format version.
    pub format: u32,
    /// What it was for.
    pub purpose: ComparisonPurpose,
    /// Determines the contents of the inputs.
    pub seed: u64,
    /// Who was compared; the first is the one that the others are measured against.
    pub contenders: Vec<Contender>,
    /// One per workload, in order.
    pub workloads: Vec<PairedRounds>,
    /// Baselines that could not take part.
    pub missing: Vec<MissingBaseline>,
    /// How the clocks of baselines that read their own compare with the harness's; absent in evidence that
    /// is older than the measurement.
    #[serde(default)]
    pub clocks: Vec<ClockCheck>,
    /// Things a person should know about this comparison, in words.
    pub notes: Vec<String>,
}

/// The same known work, timed in turns by the harness and by a baseline's process.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ClockCheck {
    /// The baseline.
    pub baseline: String,
    /// The work: bytes that the device copies within its memory.
    pub copied_bytes: u64,
    /// Seconds by the harness's clock, round by round.
    pub harness_s: Vec<f64>,
    /// Seconds by the baseline's.
    pub baseline_s: Vec<f64>,
}

impl ClockCheck {
    /// Returns the baseline's readings over the harness's: 1 when the clocks agree.
    pub fn ratio(&self) -> Option<Interval> {
        stats::paired_speedup(&self.harness_s, &self.baseline_s)
    }

    /// Says in a line how far the clocks agree.
    pub fn describe(&self) -> String {
        let Some(ratio) = self.ratio() else {
            return format!("{}: the clocks were not compared", self.baseline);
        };
        let most = (ratio.low - 1.0).abs().max((ratio.high - 1.0).abs());
        let verdict = match stats::judge(ratio) {
            stats::Comparison::Tie => "clocks agree within",
            _ => "clocks differ by up to",
        };
        format!(
            "{}: {verdict} {:.1} % (its readings over the harness's: {:.3} [{:.3}, {:.3}], {} rounds \
             of a copy of {} MiB)",
            self.baseline,
            most * 100.0,
            ratio.mid,
            ratio.low,
            ratio.high,
            self.harness_s.len(),
            self.copied_bytes >> 20
        )
    }
}

/// What a comparison was for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ComparisonPurpose {
    /// To choose the rung that is tuned.
    Ladder,
    /// To decide whether an evolved source takes the place of the best so far, which is the first.
    NewBest,
    /// To choose a winner among the search's best.
    Finalists,
    /// To hold the winner against others; what the headline quotes.
    Final,
}

impl ComparisonPurpose {
    /// Says what it is for, in a word.
    pub fn name(self) -> &'static str {
        match self {
            Self::Ladder => "rungs",
            Self::NewBest => "best",
            Self::Finalists => "finals",
            Self::Final => "compare",
        }
    }

    /// Says what was compared, as a table's title has it.
    pub fn describe(self) -> &'static str {
        match self {
            Self::Ladder => "rungs with their authors' parameters, to choose which is tuned",
            Self::NewBest => "a new source against the best so far",
            Self::Finalists => "the search's best against each other, to choose the winner",
            Self::Final => "the comparison",
        }
    }
}

/// One side of a comparison.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Contender {
    /// The name that tables show; unique in its comparison.
    pub label: String,
    /// What it is.
    #[serde(flatten)]
    pub kind: ContenderKind,
}

/// What a contender is.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "kind")]
pub enum ContenderKind {
    /// A kernel with parameters.
    Kernel {
        /// The kernel's name.
        kernel: String,
        /// The value of every tunable.
        params: Params,
        /// The candidate, where it is known.
        candidate: Option<CandidateId>,
    },
    /// A library.
    Baseline {
        /// Its name.
        name: String,
    },
}

/// The rounds of one workload.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PairedRounds {
    /// The workload's name.
    pub workload: String,
    /// Seconds per launch, by contender and round: `samples_s[contender][round]`. Every contender
    /// has the same number of rounds, or none where it is in `absent`.
    pub samples_s: Vec<Vec<f64>>,
    /// The same for the rounds that were run again, because something else slowed the device during
    /// them.
    #[serde(default)]
    pub disturbed_s: Vec<Vec<f64>>,
    /// Contenders that have no times here.
    pub absent: Vec<Absent>,
}

/// Why a contender has no times on a workload.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Absent {
    /// Index into the comparison's contenders.
    pub contender: usize,
    /// Why: it does not serve the shape, it failed the gate, it crashed.
    pub reason: String,
    /// The verdict, where it failed; none where it does not serve the workload or where something that
    /// it needs is missing. Older evidence has none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub verdict: Option<Verdict>,
}

impl Absent {
    /// The reason of a contender that does not serve a workload.
    pub const NOT_SERVED: &'static str = "does not serve this workload";

    /// Says why in a word or two, for a table.
    pub fn word(&self) -> String {
        match self.verdict {
            Some(verdict) => verdict.name().replace('_', " "),
            None if self.reason == Self::NOT_SERVED => "not served".to_string(),
            None => "no times".to_string(),
        }
    }
}

/// A baseline that could not take part.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct MissingBaseline {
    /// Its name.
    pub name: String,
    /// Why.
    pub reason: String,
    /// What to do about it (`warpsmith setup baselines`).
    pub how: String,
}

/// The best of a run at one fidelity: what `micro_best.json` and `evo_best.json` hold, and what a
/// later run takes its seeds from. One type writes and reads the file.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct BestList {
    /// The document's format version.
    pub format: u32,
    /// The run that found them.
    pub run: RunId,
    /// The lab's name.
    pub lab: String,
    /// The state of the lab's files.
    pub lab_id: LabId,
    /// The environment of the times.
    pub environment: EnvironmentId,
    /// The device's name, for people.
    pub device: String,
    /// How the times were taken; times of different fidelities are never comparable.
    pub fidelity: Fidelity,
    /// The workloads that the score covers.
    pub workloads: Vec<String>,
    /// The best, fastest first.
    pub entries: Vec<BestEntry>,
}

/// One of the best.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct BestEntry {
    /// The kernel's name.
    pub kernel: String,
    /// The value of every tunable.
    pub params: Params,
    /// The candidate.
    pub candidate: CandidateId,
    /// The trial that says so.
    pub trial: TrialId,
    /// The geometric mean of `time_s`.
    pub score_s: f64,
    /// The median time on each workload.
    pub time_s: BTreeMap<String, f64>,
}

/// Everything that the evidence holds of one run: what `evidence.json` is.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct EvidenceExport {
    /// The document's format version.
    pub format: u32,
    /// The run.
    pub run: RunRecord,
    /// The machine, the tools and the protections.
    pub environment: Environment,
    /// What the machine can do at most; none when it was not measured.
    pub ceilings: Option<Ceilings>,
    /// The trials, in order.
    pub trials: Vec<RunTrial>,
    /// The comparisons, in order.
    pub comparisons: Vec<ComparisonRecord>,
    /// The profiles, in order, without the profiler's files.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub profiles: Vec<ProfileRecord>,
    /// Further documents, by kind and in order.
    pub documents: BTreeMap<String, Vec<serde_json::Value>>,
    /// Every text that a trial names, by identity.
    pub blobs: Vec<Blob>,
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The texts of a lab of this repository, headers included.
    fn lab_files(name: &str) -> crate::lab::LabFiles {
        let labs = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../labs");
        let mut files = crate::lab::LabFiles::new();
        for (folder, prefix) in [
            (labs.join(name), ""),
            (labs.join(name).join("kernels"), "kernels/"),
            (labs.join("include"), "../include/"),
        ] {
            for entry in std::fs::read_dir(folder).expect("a folder of the lab") {
                let path = entry.expect("an entry").path();
                let is_text =
                    path.extension().is_some_and(|it| it == "c" || it == "h" || it == "toml");
                if is_text {
                    let file = path.file_name().and_then(|it| it.to_str()).expect("a plain name");
                    let text = std::fs::read_to_string(&path).expect("text");
                    files.insert(format!("{prefix}{file}"), text);
                }
            }
        }
        files
    }

    #[test]
    fn clocks_are_said_to_agree_or_to_differ() {
        let check = |baseline_s: f64| ClockCheck {
            baseline: "library".to_string(),
            copied_bytes: 64 << 20,
            harness_s: vec![1e-4; 9],
            baseline_s: vec![baseline_s; 9],
        };
        assert_eq!(
            check(1.002e-4).describe(),
            "library: clocks agree within 0.2 % (its readings over the harness's: 1.002 [1.002, \
             1.002], 9 rounds of a copy of 64 MiB)"
        );
        assert!(check(1.2e-4).describe().starts_with("library: clocks differ by up to 20.0 %"));
        let none = ClockCheck { harness_s: Vec::new(), ..check(1.0) };
        assert_eq!(none.describe(), "library: the clocks were not compared");
    }

    #[test]
    fn a_comparison_from_before_clocks_were_compared_is_read() {
        let text = r#"{"format": 1, "purpose": "final", "seed": 1, "contenders": [],
                       "workloads": [], "missing": [], "notes": []}"#;
        let record: ComparisonRecord = serde_json::from_str(text).expect("old evidence");
        assert_eq!(record.clocks, []);
    }

    #[test]
    fn a_lab_is_recorded_with_its_work_evaluated() {
        let lab = Lab::parse(&lab_files("saxpy")).expect("the lab");
        let record = LabRecord::of(&lab).expect("every formula has a value");
        assert_eq!((record.id, record.name.as_str()), (lab.id, "saxpy"));
        assert_eq!(record.workloads.len(), lab.workloads.len());
        let all: Vec<&str> = lab.workloads.iter().map(|workload| workload.name.as_str()).collect();
        for workload in &record.workloads {
            assert!(workload.flops > 0.0 && workload.bytes > 0.0, "{workload:?}");
        }
        let naive = record.kernel("00_naive").expect("the naive kernel");
        assert!(naive.tunables.is_empty() && naive.serves == all, "{naive:?}");
        let vector = record.kernel("10_vector").expect("the second step");
        assert_eq!(vector.tunables.len(), vector.default.0.len());
        let text = serde_json::to_string(&record).expect("JSON");
        assert_eq!(serde_json::from_str::<LabRecord>(&text).expect("read back"), record);
        assert_eq!(record.arithmetic_dtype(), DType::F32);
    }

    #[test]
    fn sixteen_bit_inputs_are_held_against_the_matrix_units_whatever_the_output() {
        let mut files = lab_files("saxpy");
        let manifest = files.get("lab.toml").expect("a manifest").clone();
        let first = manifest.find("dtype = \"f32\"").expect("an f32 input");
        let mixed = format!("{}dtype = \"f16\"{}", &manifest[..first], &manifest[first + 13..]);
        files.insert("lab.toml".to_string(), mixed);
        let lab = Lab::parse(&files).expect("the lab");
        assert_eq!(lab.arithmetic_dtype(&lab.workloads[0]), DType::F16);
        let record = LabRecord::of(&lab).expect("every formula has a value");
        assert_eq!((record.dtype, record.arithmetic_dtype()), (DType::F32, DType::F16));
        let old = LabRecord { arithmetic: None, ..record };
        assert_eq!(old.arithmetic_dtype(), DType::F32);
    }

    #[test]
    fn contenders_keep_the_types_of_their_parameters() {
        let params = Params::from_iter([
            ("A".to_string(), Value::Int(1)),
            ("B".to_string(), Value::Float(1.0)),
            ("C".to_string(), Value::Bool(true)),
            ("D".to_string(), Value::Str("1".to_string())),
        ]);
        for kind in [
            ContenderKind::Kernel { kernel: "k".to_string(), params, candidate: None },
            ContenderKind::Baseline { name: "library".to_string() },
        ] {
            let contender = Contender { label: "one".to_string(), kind };
            let text = serde_json::to_string(&contender).expect("JSON");
            assert_eq!(serde_json::from_str::<Contender>(&text).expect("read back"), contender);
        }
    }
}
