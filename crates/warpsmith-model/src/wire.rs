//! What travels between a campaign and its worker: one JSON line each way, and lines that say how far a
//! long answer is.
//!
//! Evaluating a candidate is the common question ([`Request`] and [`Finding`]); the others are the
//! questions about a whole lab or machine that need the same process, since it owns the clock, the
//! inputs and the expected outputs.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use crate::{
    Ceilings, ChainRecord, ComparisonPurpose, ComparisonRecord, Environment, FileBlob, Finding,
    KernelText, LabId, Params, Request, WorkloadProfile,
};

/// A question to a worker.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Ask {
    /// What is this machine?
    Environment,
    /// What can this machine do at most?
    Ceilings,
    /// Does the reference hold, and does it prove the oracle?
    Chain {
        /// The lab.
        lab: LabRef,
        /// The workloads that will be used.
        workloads: Vec<String>,
    },
    /// What becomes of this candidate?
    Evaluate(Box<Request>),
    /// Which of these is faster?
    Compare(Box<CompareRequest>),
    /// What does this candidate do on the device?
    Profile(Box<ProfileRequest>),
}

/// A worker's answer.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Answer {
    /// To [`Ask::Environment`].
    Environment(Box<Environment>),
    /// To [`Ask::Ceilings`].
    Ceilings(Ceilings),
    /// To [`Ask::Chain`].
    Chain(Box<ChainRecord>),
    /// To [`Ask::Evaluate`].
    Finding(Box<Finding>),
    /// To [`Ask::Compare`].
    Compared(Box<ComparisonRecord>),
    /// To [`Ask::Profile`].
    Profiled(Box<Profiled>),
    /// To anything that takes long, before the answer: how far it is.
    Working {
        /// Parts that are done.
        done: u64,
        /// All parts.
        total: u64,
    },
    /// To anything: we broke, or the lab is refused. Never a candidate's failure.
    Failed {
        /// What and where and what to do.
        message: String,
        /// Whether the lab itself is at fault.
        lab_refused: bool,
    },
}

/// A lab by place and content.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LabRef {
    /// The lab's folder.
    pub dir: PathBuf,
    /// What the folder must hold.
    pub id: LabId,
    /// Determines the contents of the inputs.
    pub seed: u64,
}

/// A comparison that is asked for.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct CompareRequest {
    /// The lab; its seed comes from the system's randomness.
    pub lab: LabRef,
    /// What it is for.
    pub purpose: ComparisonPurpose,
    /// Who is compared; the first is the one that the others are measured against.
    pub contenders: Vec<ContenderRequest>,
    /// On which workloads.
    pub workloads: Vec<String>,
    /// Rounds at least, on each workload.
    pub min_rounds: u32,
    /// Seconds at most for each workload, beyond the least number of rounds.
    pub budget_s: f64,
    /// Seconds that a single batch of launches may take.
    pub launch_deadline_s: f64,
}

/// One contender.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ContenderRequest {
    /// A kernel with parameters.
    Kernel {
        /// The name that the record shows.
        label: String,
        /// Contract and source.
        kernel: KernelText,
        /// The value of every tunable.
        params: Params,
    },
    /// A baseline of the lab, by name.
    Baseline {
        /// Its name.
        name: String,
        /// The Python that runs it.
        python: PathBuf,
    },
}

/// A profile that is asked for.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ProfileRequest {
    /// The lab; its seed determines the contents of the inputs.
    pub lab: LabRef,
    /// Contract and source.
    pub kernel: KernelText,
    /// The value of every tunable.
    pub params: Params,
    /// On which workloads.
    pub workloads: Vec<String>,
    /// Whether a profiler is to count; without, the answer has what the compiler made alone.
    pub counters: bool,
}

/// A profile, yet without times: those are the clock's.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Profiled {
    /// One per workload, in order.
    pub workloads: Vec<WorkloadProfile>,
    /// The profiler's files, which the workloads name.
    pub files: Vec<FileBlob>,
}
