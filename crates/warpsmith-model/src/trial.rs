//! What was learned: trials, outcomes and measurements. Raw values only; medians, speed-ups and
//! rooflines are computed on read.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::{BlobId, DeviceState, EnvironmentId, Job, TrialId, text, units};

/// Everything that was learned from evaluating one candidate once.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Trial {
    /// The document's format version.
    pub format: u32,
    /// Identity; equal to the job's.
    pub id: TrialId,
    /// What was asked.
    pub job: Job,
    /// The environment it ran in.
    pub environment: EnvironmentId,
    /// One entry per build of the source (one per distinct value of the specialised axes).
    pub builds: Vec<Build>,
    /// What came of it.
    pub outcome: Outcome,
    /// An earlier trial whose binaries and launches are identical; its outcome was taken over.
    pub same_binary_as: Option<TrialId>,
    /// Seconds from the request to the answer.
    pub wall_s: f64,
    /// Seconds of `wall_s` spent inside launches of the candidate.
    pub launch_s: f64,
    /// Things a person should know about this trial, in words.
    pub notes: Vec<String>,
}

/// One compilation.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Build {
    /// The hash of the binary that was loaded.
    pub binary: BlobId,
    /// The compiler and its flags, as run.
    pub command: Vec<String>,
    /// Seconds that the compiler took when it ran.
    pub compile_s: f64,
    /// Whether the artifact was already in the cache.
    pub cached: bool,
    /// What the compiler said.
    pub log: BlobId,
}

/// What came of an evaluation. A failing candidate is data.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "verdict")]
pub enum Outcome {
    /// The compiler rejected the source or was stopped.
    CompileFailed {
        /// The first error, in one line.
        message: String,
        /// Everything the compiler said.
        log: BlobId,
    },
    /// The candidate's process died or did what it may not do.
    Crashed {
        /// The workload it ran.
        workload: String,
        /// What happened.
        cause: CrashCause,
    },
    /// The candidate did not finish in time.
    TimedOut {
        /// The workload it ran.
        workload: String,
        /// The limit it passed.
        limit_s: f64,
    },
    /// The output is wrong.
    Incorrect {
        /// Where and by how much.
        mismatch: Mismatch,
    },
    /// Right, but faster than the machine can be; kept for a person to look at.
    Implausible {
        /// The workload with the impossible time.
        workload: String,
        /// The fastest reading.
        time_s: f64,
        /// The least time that the measured ceilings allow.
        floor_s: f64,
        /// What was measured.
        measurements: Vec<Measurement>,
    },
    /// Right on everything that was asked, and timed.
    Passed {
        /// One per workload that was run, in order. Shorter than the job's list when the
        /// candidate was abandoned as hopeless.
        measurements: Vec<Measurement>,
    },
}

/// How the notes on sanitizers begin: on which shapes a trial ran under them, or why it did not.
pub const SANITIZER_NOTE: &str = "sanitizers: ";

/// How a note begins that says on what a candidate was not checked, because it does not serve it.
pub const LEFT_OUT_NOTE: &str = "left out: ";

impl Trial {
    /// Returns what the trial's notes say of sanitizers.
    pub fn sanitizer_notes(&self) -> impl Iterator<Item = &str> {
        self.notes.iter().filter_map(|note| note.strip_prefix(SANITIZER_NOTE))
    }

    /// Returns what a person should know of a gate beside its verdict: what it left out, and what
    /// sanitizers say.
    pub fn gate_notes(&self) -> impl Iterator<Item = &str> {
        let left_out = self.notes.iter().filter_map(|note| note.strip_prefix(LEFT_OUT_NOTE));
        left_out.chain(self.sanitizer_notes())
    }
}

impl Outcome {
    /// Returns the verdict alone.
    pub fn verdict(&self) -> Verdict {
        match self {
            Self::CompileFailed { .. } => Verdict::CompileFailed,
            Self::Crashed { .. } => Verdict::Crashed,
            Self::TimedOut { .. } => Verdict::TimedOut,
            Self::Incorrect { .. } => Verdict::Incorrect,
            Self::Implausible { .. } => Verdict::Implausible,
            Self::Passed { .. } => Verdict::Passed,
        }
    }

    /// Returns the measurements of a passed trial; no other outcome has times that count.
    pub fn measurements(&self) -> &[Measurement] {
        match self {
            Self::Passed { measurements } => measurements,
            _ => &[],
        }
    }

    /// Says whether somebody else ended the evaluation, which then tells nothing of the candidate: it must be
    /// asked again.
    pub fn is_from_outside(&self) -> bool {
        matches!(self, Self::Crashed { cause, .. } if cause.is_from_outside())
    }

    /// Says in one line what happened.
    pub fn describe(&self) -> String {
        // A compiler quotes its source, and a script raises what it likes.
        text::printable(&self.words()).into_owned()
    }

    fn words(&self) -> String {
        match self {
            Self::CompileFailed { message, .. } => format!("compile failed: {message}"),
            Self::Crashed { workload, cause } => format!("crashed on {workload}: {cause}"),
            Self::TimedOut { workload, limit_s } => {
                format!("timed out on {workload}: no answer within {limit_s} s")
            }
            Self::Incorrect { mismatch } => format!("incorrect: {mismatch}"),
            Self::Implausible { workload, time_s, floor_s, .. } => format!(
                "implausible on {workload}: {time_s:.3e} s is below the floor of {floor_s:.3e} s \
                 that the measured ceilings allow"
            ),
            Self::Passed { measurements } => {
                format!("passed on {} workload(s)", measurements.len())
            }
        }
    }
}

/// An outcome without its evidence; what a cheat's contract must state.
#[derive(
    Clone,
    Copy,
    Debug,
    PartialEq,
    Eq,
    PartialOrd,
    Ord,
    Hash,
    Serialize,
    Deserialize,
    schemars::JsonSchema,
)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// See [`Outcome::CompileFailed`].
    CompileFailed,
    /// See [`Outcome::Crashed`].
    Crashed,
    /// See [`Outcome::TimedOut`].
    TimedOut,
    /// See [`Outcome::Incorrect`].
    Incorrect,
    /// See [`Outcome::Implausible`].
    Implausible,
    /// See [`Outcome::Passed`].
    Passed,
}

impl Verdict {
    /// Returns the name used in tables and files.
    pub fn name(self) -> &'static str {
        match self {
            Self::CompileFailed => "compile_failed",
            Self::Crashed => "crashed",
            Self::TimedOut => "timed_out",
            Self::Incorrect => "incorrect",
            Self::Implausible => "implausible",
            Self::Passed => "passed",
        }
    }
}

/// Why a candidate's process ended.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "cause")]
pub enum CrashCause {
    /// A signal that no more specific cause explains.
    Signal {
        /// Its name (`SIGFPE`).
        name: String,
    },
    /// An access outside of a tensor.
    OutOfBounds {
        /// The tensor whose guard was touched.
        tensor: String,
        /// Bytes from the tensor's beginning.
        offset: i64,
    },
    /// A write to an input.
    WroteInput {
        /// The input.
        tensor: String,
    },
    /// A fault at an address that belongs to no tensor.
    BadAddress {
        /// The address.
        address: u64,
    },
    /// A system call that candidates may not make.
    Forbidden {
        /// Its name or number.
        syscall: String,
    },
    /// The process left by itself.
    Exited {
        /// Its exit status.
        status: i32,
    },
    /// The process said that it was done and did not stand still when it was told to.
    Restless {
        /// How long it had for that.
        limit_s: f64,
    },
    /// A function returned with another rounding mode, or another floating-point setting, than it found.
    FloatingPoint,
    /// The artifact could not be loaded (an undefined symbol, say).
    NotLoadable {
        /// The loader's message.
        message: String,
    },
    /// A fault on the device, in the driver's words.
    Device {
        /// The words.
        message: String,
    },
    /// A sanitizer saw it do what no kernel may do, whatever its outputs were.
    Sanitizer {
        /// The tool (`racecheck`).
        tool: String,
        /// What and where, in one line.
        message: String,
        /// The tool's own report.
        report: String,
    },
    /// A baseline's script raised an exception.
    Raised {
        /// The exception, in words.
        message: String,
    },
}

/// Says what a kernel did that ends in a system call whose name few recognise. The C library asks about
/// its file before it prints the first byte.
fn forbidden_words(syscall: &str) -> &'static str {
    match syscall {
        "write" | "writev" | "fstat" | "newfstatat" | "ioctl" => " (a kernel may not print)",
        "open" | "openat" | "read" | "creat" => " (a kernel may not use files)",
        "clone" | "clone3" | "fork" | "vfork" | "execve" | "execveat" => {
            " (a kernel may not start threads or programs)"
        }
        _ => "",
    }
}

/// How a process ends that neither we nor its own doing ended. The record keeps the words.
const KILLED_FROM_OUTSIDE: &str =
    "a signal from outside: by the system, where memory ran out, or by a person";

impl CrashCause {
    /// The cause where somebody else ended the process: no limit of ours sends such a signal, and nobody may
    /// send it to itself.
    pub fn from_outside() -> Self {
        Self::Signal { name: KILLED_FROM_OUTSIDE.to_string() }
    }

    /// Says whether somebody else killed the process.
    pub fn is_from_outside(&self) -> bool {
        matches!(self, Self::Signal { name } if name == KILLED_FROM_OUTSIDE)
    }
}

impl fmt::Display for CrashCause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Signal { name } => write!(f, "killed by {name}"),
            Self::OutOfBounds { tensor, offset } => {
                write!(f, "touched `{tensor}` out of bounds, at byte {offset}")
            }
            Self::WroteInput { tensor } => write!(f, "wrote to the input `{tensor}`"),
            Self::BadAddress { address } => write!(f, "touched the bad address {address:#x}"),
            Self::Forbidden { syscall } => {
                let what = forbidden_words(syscall);
                write!(f, "made the forbidden system call {syscall}{what}")
            }
            Self::Exited { status } => write!(f, "left its process with status {status}"),
            Self::Restless { limit_s } => {
                write!(f, "said that it was done and went on for more than {limit_s} s")
            }
            Self::FloatingPoint => f.write_str(
                "returned with another rounding mode or floating-point setting than it found; restore \
                 what you change (with -ffast-math, -Ofast and -funsafe-math-optimizations some compilers \
                 link a constructor that flushes small numbers to zero: name the single optimisations \
                 instead, such as -fassociative-math -fno-signed-zeros -fno-trapping-math)",
            ),
            Self::NotLoadable { message } => write!(f, "could not be loaded: {message}"),
            Self::Device { message } => write!(f, "faulted on the device: {message}"),
            Self::Sanitizer { tool, message, .. } => write!(f, "{tool}: {message}"),
            Self::Raised { message } => write!(f, "raised an exception: {message}"),
        }
    }
}

/// Where in the gate something was found.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Stage {
    /// Against the reference on a small shape.
    Proof,
    /// On the workload itself, before timing.
    Gate,
    /// The same input again.
    Repeat,
    /// An output of a launch that was timed.
    Timing,
}

/// A wrong output: where, by how much, under which conditions.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Mismatch {
    /// What was wrong.
    pub kind: MismatchKind,
    /// Where in the gate.
    pub stage: Stage,
    /// The workload (or proof shape) and its axes, in words.
    pub workload: String,
    /// The name of the input distribution.
    pub inputs: String,
    /// The seed of the input's contents.
    pub seed: u64,
    /// The output tensor.
    pub tensor: String,
    /// The worst element's index.
    pub index: Vec<u64>,
    /// What the candidate wrote there; text, because NaN is not JSON.
    pub got: String,
    /// What was expected there.
    pub expected: String,
    /// The error over its bound; more than 1 fails.
    pub excess: f64,
    /// How many elements were wrong.
    pub wrong: u64,
    /// Of how many.
    pub total: u64,
}

/// The ways of being wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum MismatchKind {
    /// Some elements are further off than their bound.
    Element,
    /// Each element is within its bound, but their sum is not.
    Norm,
    /// Some elements were never written.
    NotWritten,
    /// Some elements are infinite or not a number.
    NotFinite,
    /// The same input gave another output.
    NotRepeatable,
    /// The bytes beside a tensor were changed.
    GuardOverwritten,
    /// The contents of an input changed.
    InputChanged,
}

impl fmt::Display for Mismatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let what = match self.kind {
            MismatchKind::Element => "elements out of tolerance",
            MismatchKind::Norm => "the error's norm is out of tolerance",
            MismatchKind::NotWritten => "elements never written",
            MismatchKind::NotFinite => "elements not finite",
            MismatchKind::NotRepeatable => "elements differ between two runs on the same input",
            MismatchKind::GuardOverwritten => "bytes beside the tensor overwritten",
            MismatchKind::InputChanged => "input changed",
        };
        let Self { wrong, total, tensor, workload, inputs, index, got, expected, .. } = self;
        let place = format!("`{tensor}` on {workload} ({inputs} inputs)");
        match self.kind {
            // Bytes, of which no element can be named.
            MismatchKind::GuardOverwritten | MismatchKind::InputChanged => {
                write!(f, "{what}: {place}")
            }
            // These are wrong whatever the bound is.
            MismatchKind::NotWritten | MismatchKind::NotFinite => write!(
                f,
                "{what}: {wrong} of {total} in {place}, worst at {index:?}: got {got}, expected {expected}"
            ),
            MismatchKind::Element | MismatchKind::Norm | MismatchKind::NotRepeatable => write!(
                f,
                "{what}: {wrong} of {total} in {place}, worst at {index:?}: got {got}, expected \
                 {expected}, {} times the bound",
                excess_words(self.excess)
            ),
        }
    }
}

/// Says how many times a bound an error is: near it with the digits that tell so, far from it without.
fn excess_words(excess: f64) -> String {
    match excess {
        near if near < 10.0 => format!("{near:.3}"),
        far if far < 1e5 => format!("{far:.0}"),
        beyond => format!("{beyond:.0e}"),
    }
}

/// The times of one candidate on one workload.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Measurement {
    /// The workload's name.
    pub workload: String,
    /// Seconds per launch, one value per timed batch, in the order they were taken.
    pub samples_s: Vec<f64>,
    /// Seconds per launch of the batches that were taken again, because something else slowed the
    /// device at the time.
    #[serde(default)]
    pub disturbed_s: Vec<f64>,
    /// Seconds per launch of the same input again and again, with whatever that leaves in the caches; empty
    /// where it was not measured. The samples above are taken with cold caches, as far as the target can.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub warm_s: Vec<f64>,
    /// What the device said of itself over `samples_s`; none where it says nothing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub device_state: Option<DeviceState>,
    /// Launches in each batch at most; a batch has two thirds of them at least.
    pub batch: u32,
    /// Ticks of the cycle counter per launch for the same batches; empty where there is none.
    pub ticks: Vec<u64>,
    /// The share of the workload's blocks that ran: 1 except at the micro fidelity, whose samples
    /// are already scaled to the whole.
    pub share: f64,
    /// The worst error seen on this workload.
    pub error: ErrorSize,
    /// Why timing stopped.
    pub stop: StopReason,
    /// Seconds of an empty launch by the same means: what the harness itself costs.
    pub launch_floor_s: f64,
}

/// The size of the worst error, in units of the output type's epsilon.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ErrorSize {
    /// The largest element's error over epsilon times its scale.
    pub element_eps: f64,
    /// The error's norm over epsilon times the reference's norm.
    pub norm_eps: f64,
    /// The same in plain numbers; none where it is a bound, and in evidence from before it was kept.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub plain: Option<PlainError>,
    /// The same as shares of what the inputs' own distribution allows; none where it is a bound, and in
    /// evidence from before it was kept. The worst share need not be that of the worst error: a
    /// distribution may have a wider budget than the others.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub of_budget: Option<BudgetShare>,
}

/// How much of its budget an error uses up: more than 1 of either fails.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct BudgetShare {
    /// The largest element's error over what an element may be off.
    pub element: f64,
    /// The error's norm over what it may be.
    pub norm: f64,
}

impl BudgetShare {
    /// Returns the larger share of each kind.
    pub fn worse(self, other: Self) -> Self {
        Self { element: self.element.max(other.element), norm: self.norm.max(other.norm) }
    }

    /// Returns the share that is nearer to failing.
    pub fn worst(self) -> f64 {
        self.element.max(self.norm)
    }
}

impl ErrorSize {
    /// Says in short how large it is and which share of its budget it uses up: the element's, or the norm's where
    /// that is the larger share.
    pub fn describe(&self) -> String {
        match self.of_budget {
            None => format!("{:.1} eps", self.element_eps),
            Some(share) if share.norm > share.element => {
                format!("{:.1} eps (norm), {} of budget", self.norm_eps, units::percent(share.norm))
            }
            Some(share) => {
                format!("{:.1} eps, {} of budget", self.element_eps, units::percent(share.element))
            }
        }
    }
}

/// The size of the largest error, without regard to a type or a row.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct PlainError {
    /// The largest difference from what was expected.
    pub absolute: f64,
    /// The largest difference over the size of what was expected, where that is not zero.
    pub relative: f64,
}

impl PlainError {
    /// Returns the error of a number that should be another; JSON has no infinity.
    pub fn of(got: f64, expected: f64) -> Self {
        let absolute = (got - expected).abs();
        let relative = if expected == 0.0 { 0.0 } else { absolute / expected.abs() };
        Self { absolute, relative: relative.min(f64::MAX) }
    }

    /// Returns the larger error of each kind.
    pub fn worse(self, other: Self) -> Self {
        Self {
            absolute: self.absolute.max(other.absolute),
            relative: self.relative.max(other.relative),
        }
    }
}

impl ErrorSize {
    /// Returns the larger error of each kind.
    pub fn worse(self, other: Self) -> Self {
        let plain = match (self.plain, other.plain) {
            (Some(one), Some(other)) => Some(one.worse(other)),
            (one, other) => one.or(other),
        };
        let of_budget = match (self.of_budget, other.of_budget) {
            (Some(one), Some(other)) => Some(one.worse(other)),
            (one, other) => one.or(other),
        };
        Self {
            element_eps: self.element_eps.max(other.element_eps),
            norm_eps: self.norm_eps.max(other.norm_eps),
            plain,
            of_budget,
        }
    }
}

/// Why timing stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum StopReason {
    /// The median's interval is narrow enough.
    Converged,
    /// The time for it was used up first.
    Budget,
    /// The candidate cannot win any more.
    Hopeless,
}

/// What a worker answers: one JSON line.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Finding {
    /// The trial.
    pub trial: Trial,
    /// The byte strings that the trial names and the store may not have yet.
    pub blobs: Vec<Blob>,
}

/// A text that a trial refers to by hash.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Blob {
    /// The hash of `text`.
    pub id: BlobId,
    /// The content.
    pub text: String,
}

impl Blob {
    /// Makes a blob and its identity.
    pub fn new(text: String) -> Self {
        Self { id: BlobId::of(text.as_bytes()), text }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mismatch_says_what_is_known_of_it_and_no_more() {
        let check = |kind: MismatchKind, expected: &str| {
            let mismatch = Mismatch {
                kind,
                stage: Stage::Gate,
                workload: "small (N=8)".to_string(),
                inputs: "normal".to_string(),
                seed: 1,
                tensor: "y".to_string(),
                index: vec![3],
                got: "NaN".to_string(),
                expected: "1".to_string(),
                excess: 1e9,
                wrong: 2,
                total: 8,
            };
            assert_eq!(mismatch.to_string(), expected);
        };
        check(
            MismatchKind::GuardOverwritten,
            "bytes beside the tensor overwritten: `y` on small (N=8) (normal inputs)",
        );
        check(
            MismatchKind::NotFinite,
            "elements not finite: 2 of 8 in `y` on small (N=8) (normal inputs), worst at [3]: got NaN, \
             expected 1",
        );
    }

    #[test]
    fn a_forbidden_system_call_is_explained_where_its_name_is_not_enough() {
        let check = |syscall: &str, expected: &str| {
            let cause = CrashCause::Forbidden { syscall: syscall.to_string() };
            assert_eq!(cause.to_string(), format!("made the forbidden system call {expected}"));
        };
        check("newfstatat", "newfstatat (a kernel may not print)");
        check("clone", "clone (a kernel may not start threads or programs)");
        check("mprotect", "mprotect");
    }
}
