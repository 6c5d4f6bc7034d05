//! A trial without its samples: what listings, rankings and charts need.

use warpsmith_model::stats::{Interval, median_interval};
use warpsmith_model::{
    CandidateId, ErrorSize, Fidelity, Origin, Params, RunTrial, StopReason, Trial, TrialId, Verdict,
};

/// A trial of a run, without its samples, builds and notes.
#[derive(Clone, Debug, PartialEq)]
pub struct TrialSummary {
    /// Its place in the run, from 0.
    pub seq: u64,
    /// When the run learned of it, in seconds since 1970.
    pub at_unix_s: f64,
    /// Whether an earlier run measured it.
    pub adopted: bool,
    /// The trial.
    pub id: TrialId,
    /// The candidate.
    pub candidate: CandidateId,
    /// The kernel's or the baseline's name.
    pub kernel: String,
    /// The value of every tunable.
    pub params: Params,
    /// Where the candidate came from.
    pub origin: Origin,
    /// How thoroughly it was evaluated.
    pub fidelity: Fidelity,
    /// The workloads that were asked for, in order.
    pub workloads: Vec<String>,
    /// What came of it.
    pub verdict: Verdict,
    /// What came of it, in one line.
    pub message: String,
    /// An earlier trial with identical binaries, whose outcome this is.
    pub same_binary_as: Option<TrialId>,
    /// Seconds that compilers ran for it.
    pub compile_s: f64,
    /// Seconds spent inside launches.
    pub launch_s: f64,
    /// Seconds from the request to the answer.
    pub wall_s: f64,
    /// The times of a passed trial, one per workload that was run, in order.
    pub times: Vec<WorkloadTime>,
}

impl TrialSummary {
    /// Summarises a whole trial; says the same as [`crate::Store::summaries`].
    pub fn of(record: &RunTrial) -> Self {
        let trial = &record.trial;
        let candidate = &trial.job.candidate;
        Self {
            seq: record.seq,
            at_unix_s: record.at_unix_s,
            adopted: record.adopted,
            id: trial.id,
            candidate: candidate.id,
            kernel: candidate.kernel.clone(),
            params: candidate.params.clone(),
            origin: candidate.origin.clone(),
            fidelity: trial.job.fidelity,
            workloads: trial.job.workloads.clone(),
            verdict: trial.outcome.verdict(),
            message: trial.outcome.describe(),
            same_binary_as: trial.same_binary_as,
            compile_s: trial.builds.iter().filter(|b| !b.cached).map(|b| b.compile_s).sum(),
            launch_s: trial.launch_s,
            wall_s: trial.wall_s,
            times: workload_times(trial),
        }
    }

    /// Returns the time on a workload.
    pub fn time(&self, workload: &str) -> Option<&WorkloadTime> {
        self.times.iter().find(|time| time.workload == workload)
    }

    /// Says whether this is a library's trial.
    pub fn is_baseline(&self) -> bool {
        self.origin == Origin::Baseline
    }

    /// Says whether timing was cut short because the candidate could not win any more.
    pub fn is_abandoned(&self) -> bool {
        self.verdict == Verdict::Passed
            && (self.times.len() < self.workloads.len()
                || self.times.iter().any(|time| time.stop == StopReason::Hopeless))
    }
}

/// The time of one trial on one workload.
#[derive(Clone, Debug, PartialEq)]
pub struct WorkloadTime {
    /// The workload's name.
    pub workload: String,
    /// The median with its 95 % interval.
    pub median_s: Interval,
    /// How many samples it is the median of.
    pub samples: u64,
    /// The share of the workload's blocks that ran.
    pub share: f64,
    /// The worst error.
    pub error: ErrorSize,
    /// Why timing stopped.
    pub stop: StopReason,
    /// Seconds of an empty launch.
    pub launch_floor_s: f64,
}

/// Derives the times of a trial from its samples.
pub fn workload_times(trial: &Trial) -> Vec<WorkloadTime> {
    trial
        .outcome
        .measurements()
        .iter()
        .filter_map(|measurement| {
            Some(WorkloadTime {
                workload: measurement.workload.clone(),
                median_s: median_interval(&measurement.samples_s)?,
                samples: measurement.samples_s.len() as u64,
                share: measurement.share,
                // The index has no columns for plain errors and for budgets; the documents have them.
                error: ErrorSize { plain: None, of_budget: None, ..measurement.error },
                stop: measurement.stop,
                launch_floor_s: measurement.launch_floor_s,
            })
        })
        .collect()
}
