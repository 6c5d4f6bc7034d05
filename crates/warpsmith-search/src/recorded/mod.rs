//! Spaces that somebody measured completely: search can be judged on them without a device.
//!
//! [`Recorded::read`] takes a Kernel Tuner cache or a T4 results file, whichever it is;
//! [`Recorded::kernel_tuner_cache`] and [`Recorded::t4_results`] write them again. The space is
//! what the file lists, failures included: configurations that violate a constraint are not in it.
//!
//! Metrics that a user added to a file are functions of the time, and are not kept.
//!
//! The time of a configuration is the median of its samples where the file has them, else the
//! single number that it gives.

mod read;
mod write;

use std::sync::Arc;

use warpsmith_model::stats::median;
use warpsmith_model::{
    BlobId, Candidate, CandidateId, EnvironmentId, ErrorSize, FORMAT_VERSION, Fidelity, Finding,
    Job, LabId, Measurement, Outcome, StopReason, Trial, TrialId,
};

use crate::space::{Space, SpaceError};
use crate::{EvolutionarySettings, Proposal, StrategyConfig};

/// A space with what became of each of its configurations.
#[derive(Clone, Debug)]
pub struct Recorded {
    /// The kernel's name, as far as the file has one.
    pub kernel: String,
    /// The device's name, as far as the file has one.
    pub device: String,
    /// The problem's size as the file has it; null where it has none.
    pub problem_size: serde_json::Value,
    space: Arc<Space>,
    /// By index of the space.
    entries: Vec<Entry>,
    optimum_ms: f64,
}

/// What became of one configuration. Times are milliseconds, as in the files.
#[derive(Clone, Debug, PartialEq)]
pub struct Entry {
    /// The times, or why there are none.
    pub measured: Measured,
    /// What was spent on it.
    pub spent_ms: Spent,
    /// When it was measured, as the file has it.
    pub timestamp: Option<String>,
}

/// The times of a configuration, or why there are none.
#[derive(Clone, Debug, PartialEq)]
pub enum Measured {
    /// It ran.
    Times {
        /// The number that the file gives for the configuration, usually the mean.
        time_ms: f64,
        /// The samples; empty where the file has none.
        samples_ms: Vec<f64>,
    },
    /// It did not.
    Failed(Failure),
}

/// Why a configuration has no time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Failure {
    /// It did not compile.
    Compile,
    /// It did not run.
    Runtime,
    /// It took too long.
    Timeout,
    /// Its result was wrong.
    Correctness,
    /// It violates a constraint.
    Constraints,
}

/// Milliseconds by what they were spent on.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Spent {
    /// On compiling.
    pub compile: f64,
    /// On checking the result.
    pub verification: f64,
    /// On launches.
    pub benchmark: f64,
    /// On choosing the configuration.
    pub strategy: f64,
    /// On everything else.
    pub framework: f64,
}

/// Why a file is not a recorded space.
#[derive(Debug, thiserror::Error)]
pub enum RecordedError {
    /// Nothing is in it.
    #[error("the file is empty")]
    NoBytes,
    /// It ends too early, is not JSON, or has something else where a field is expected.
    #[error("not a Kernel Tuner cache or a T4 results file")]
    Malformed(#[from] serde_json::Error),
    /// It is JSON, but of something else.
    #[error(
        "neither a Kernel Tuner cache, which has `cache` and `tune_params_keys`, nor a T4 results \
         file, which has `results`"
    )]
    Unknown,
    /// The format has changed since.
    #[error("T4 results of version {found}; this version of Warpsmith reads 1.x")]
    Version {
        /// The file's version.
        found: String,
    },
    /// There is nothing to search.
    #[error("no configuration is recorded")]
    NoEntries,
    /// Every configuration failed, so that there is no optimum.
    #[error("none of the {entries} recorded configurations has a time")]
    NoTimes {
        /// How many there are.
        entries: usize,
    },
    /// An entry lacks a parameter that others have.
    #[error("configuration {number} has no value for `{name}`")]
    MissingParameter {
        /// Its place in the file, from 1.
        number: usize,
        /// The parameter.
        name: String,
    },
    /// Two entries are about the same configuration.
    #[error("configuration {number} repeats an earlier one")]
    Repeated {
        /// Its place in the file, from 1.
        number: usize,
    },
    /// A time is not a positive number.
    #[error("configuration {number} has the time {time_ms}, which is not a positive number")]
    BadTime {
        /// Its place in the file, from 1.
        number: usize,
        /// The time.
        time_ms: f64,
    },
    /// The parameters do not make a space.
    #[error(transparent)]
    Space(#[from] SpaceError),
}

impl Recorded {
    /// Reads a Kernel Tuner cache or a T4 results file.
    pub fn read(bytes: &[u8]) -> Result<Self, RecordedError> {
        read::recorded(bytes)
    }

    /// Returns the space of everything that was recorded.
    pub fn space(&self) -> &Arc<Space> {
        &self.space
    }

    /// Returns what became of the configuration at an index of the space.
    pub fn entry(&self, index: u128) -> Option<&Entry> {
        self.entries.get(usize::try_from(index).ok()?)
    }

    /// Returns everything recorded, by index of the space.
    pub fn entries(&self) -> &[Entry] {
        &self.entries
    }

    /// Returns the least time of all.
    pub fn optimum_ms(&self) -> f64 {
        self.optimum_ms
    }

    /// Returns the times of the configurations that have one, from least to greatest.
    pub fn sorted_times_ms(&self) -> Vec<f64> {
        let mut times: Vec<f64> = self.entries.iter().filter_map(Entry::time_ms).collect();
        times.sort_by(f64::total_cmp);
        times
    }

    /// Returns the settings of a strategy for this space, with nothing known beforehand.
    pub fn config(&self, seed: u64) -> StrategyConfig {
        StrategyConfig {
            seed,
            kernel: self.kernel.clone(),
            fidelity: Fidelity::Rank,
            seeds: Vec::new(),
            expand: Vec::new(),
            evolution: EvolutionarySettings::STANDARD,
        }
    }

    /// Answers a proposal as a worker would have; none when it is outside of the space.
    pub fn evaluate(&self, proposal: &Proposal) -> Option<Finding> {
        let entry = self.entry(self.space.index_of(&proposal.params)?)?;
        Some(self.finding(proposal, entry))
    }

    fn finding(&self, proposal: &Proposal, entry: &Entry) -> Finding {
        let workload = "recorded".to_string();
        let outcome = match entry.time_ms() {
            None => Outcome::TimedOut { workload: workload.clone(), limit_s: 1.0 },
            Some(time_ms) => Outcome::Passed {
                measurements: vec![Measurement {
                    disturbed_s: Vec::new(),
                    workload: workload.clone(),
                    samples_s: vec![time_ms * 1e-3],
                    warm_s: Vec::new(),
                    device_state: None,
                    batch: 1,
                    ticks: Vec::new(),
                    share: 1.0,
                    error: ErrorSize::default(),
                    stop: StopReason::Converged,
                    launch_floor_s: 0.0,
                }],
            },
        };
        let id = TrialId::of(b"recorded");
        let candidate = Candidate {
            id: CandidateId::of(b"recorded"),
            kernel: self.kernel.clone(),
            source: BlobId::of(b""),
            params: proposal.params.clone(),
            origin: proposal.origin.clone(),
        };
        let job = Job {
            trial: id,
            lab: LabId::of(b"recorded"),
            candidate,
            workloads: vec![workload],
            fidelity: Fidelity::Rank,
            seed: 0,
        };
        let trial = Trial {
            format: FORMAT_VERSION,
            id,
            job,
            environment: EnvironmentId::of(b"recorded"),
            builds: Vec::new(),
            outcome,
            same_binary_as: None,
            wall_s: 0.0,
            launch_s: 0.0,
            notes: Vec::new(),
        };
        Finding { trial, blobs: Vec::new() }
    }
}

impl Entry {
    /// Returns the time that counts: the median of the samples where there are any, else the
    /// number that the file gives; none for a failure.
    pub fn time_ms(&self) -> Option<f64> {
        match &self.measured {
            Measured::Times { time_ms, samples_ms } => Some(median(samples_ms).unwrap_or(*time_ms)),
            Measured::Failed(_) => None,
        }
    }
}
