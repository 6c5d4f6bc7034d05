//! What is evaluated: candidates, jobs and the request that travels to a worker.

use std::collections::BTreeMap;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use crate::{BlobId, CandidateId, LabId, Params, TrialId};

/// One kernel source with one choice of parameters.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Candidate {
    /// Identity by content: source, headers, parameters, contract and compiler.
    pub id: CandidateId,
    /// The kernel's name in its lab (`30_register_tile`), or the baseline's.
    pub kernel: String,
    /// The source text, in the blob store.
    pub source: BlobId,
    /// The value of every tunable.
    pub params: Params,
    /// Where the candidate came from.
    pub origin: Origin,
}

/// Where a candidate came from.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "kind")]
pub enum Origin {
    /// The author's own choice of parameters.
    Seed,
    /// The microbenchmark's sweep.
    Micro,
    /// A search strategy's proposal.
    Tuned {
        /// The strategy's name.
        strategy: String,
    },
    /// A source that a language model wrote.
    Evolved {
        /// The candidates that the prompt showed as parents.
        parents: Vec<CandidateId>,
        /// How the source was made of them (`crossover`).
        operator: String,
        /// The call: a text that names prompt and reply.
        call: BlobId,
    },
    /// A person or an agent asked for this one.
    Manual,
    /// A library; never entered as a winner.
    Baseline,
}

/// How much evidence is wanted, from cheap to thorough.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Fidelity {
    /// One wave of blocks on the cycle counter, checked.
    Micro,
    /// Correctness on one seed and short adaptive timing.
    Rank,
    /// Every check of the gate, every workload, long timing.
    Full,
}

impl Fidelity {
    /// Returns the name used in tables, files and flags.
    pub fn name(self) -> &'static str {
        match self {
            Self::Micro => "micro",
            Self::Rank => "rank",
            Self::Full => "full",
        }
    }
}

/// One evaluation that was asked for.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Job {
    /// The identity that the answer will carry.
    pub trial: TrialId,
    /// The state of the lab's files that the candidate is judged by.
    pub lab: LabId,
    /// What to evaluate.
    pub candidate: Candidate,
    /// The names of the workloads to run, in the order to run them.
    pub workloads: Vec<String>,
    /// How thoroughly.
    pub fidelity: Fidelity,
    /// Determines the contents of the inputs; drawn from the system's randomness for `Full`.
    pub seed: u64,
}

/// A kernel as text: what a worker needs beyond the lab itself.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct KernelText {
    /// The kernel's name.
    pub name: String,
    /// The contract's text (TOML).
    pub contract: String,
    /// The source's text (C).
    pub source: String,
}

/// What the campaign sends to a worker: one JSON line.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Request {
    /// The document's format version.
    pub format: u32,
    /// The lab's folder; the worker refuses to run when its content is not `job.lab`.
    pub lab_dir: PathBuf,
    /// The kernel to evaluate; absent for a baseline, which is found by name in the lab.
    pub kernel: Option<KernelText>,
    /// What is asked.
    pub job: Job,
    /// Limits on the candidate's process and on the time spent.
    pub limits: RequestLimits,
}

/// Limits on one evaluation.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RequestLimits {
    /// Seconds that a single batch of launches may take before its process is killed.
    pub launch_deadline_s: f64,
    /// Seconds that a compiler may take.
    pub compile_deadline_s: f64,
    /// Seconds of timing spent at most on one workload.
    pub timing_budget_s: f64,
    /// The median times of the best candidate so far, by workload; a candidate that is clearly
    /// slower than `hopeless_ratio` times these is abandoned early.
    pub incumbent_s: BTreeMap<String, f64>,
    /// How many times slower than the incumbent is hopeless.
    pub hopeless_ratio: f64,
    /// Whether the full gate runs the candidate under sanitizers, where its target has some.
    pub sanitize: bool,
}

impl Default for RequestLimits {
    fn default() -> Self {
        Self {
            launch_deadline_s: 20.0,
            compile_deadline_s: 60.0,
            timing_budget_s: 1.0,
            incumbent_s: BTreeMap::new(),
            hopeless_ratio: 2.0,
            sanitize: true,
        }
    }
}
