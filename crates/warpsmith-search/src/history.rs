//! What a proposer knows: which configurations are taken, by proposal or by observation.

use std::collections::HashSet;
use std::sync::Arc;

use warpsmith_model::{Fidelity, Job};

use crate::Space;

/// The configurations of a space that need not be proposed any more.
#[derive(Debug)]
pub(crate) struct History {
    pub(crate) space: Arc<Space>,
    kernel: String,
    fidelity: Fidelity,
    taken: HashSet<u128>,
}

impl History {
    /// Starts with nothing taken.
    pub(crate) fn new(space: Arc<Space>, kernel: String, fidelity: Fidelity) -> Self {
        Self { space, kernel, fidelity, taken: HashSet::new() }
    }

    /// Takes a configuration; false when it was taken before.
    pub(crate) fn take(&mut self, index: u128) -> bool {
        self.taken.insert(index)
    }

    /// Says whether a configuration is taken.
    pub(crate) fn is_taken(&self, index: u128) -> bool {
        self.taken.contains(&index)
    }

    /// Returns how many configurations are taken.
    pub(crate) fn len(&self) -> usize {
        self.taken.len()
    }

    /// Says whether every configuration is taken.
    pub(crate) fn is_exhausted(&self) -> bool {
        self.taken.len() as u128 == self.space.len()
    }

    /// Takes the configuration of a finding and returns it. None for findings that say nothing
    /// here: of another kernel, at another fidelity (they never mix in one statistic), or of
    /// parameters outside of the space.
    pub(crate) fn recognise(&mut self, job: &Job) -> Option<u128> {
        if job.candidate.kernel != self.kernel || job.fidelity != self.fidelity {
            return None;
        }
        let index = self.space.index_of(&job.candidate.params)?;
        self.taken.insert(index);
        Some(index)
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use warpsmith_model::{
        BlobId, Candidate, CandidateId, EnvironmentId, ErrorSize, FORMAT_VERSION, Job, LabId,
        Measurement, Origin, Outcome, Params, StopReason, Trial, TrialId,
    };

    use super::*;

    /// Makes a trial at the rank fidelity.
    pub(crate) fn trial(
        kernel: &str,
        params: Params,
        workloads: &[&str],
        outcome: Outcome,
    ) -> Trial {
        let candidate = Candidate {
            id: CandidateId::of(params.key().as_bytes()),
            kernel: kernel.to_string(),
            source: BlobId::of(b"source"),
            params,
            origin: Origin::Seed,
        };
        let id = TrialId::of(b"trial");
        let job = Job {
            trial: id,
            lab: LabId::of(b"lab"),
            candidate,
            workloads: workloads.iter().map(ToString::to_string).collect(),
            fidelity: Fidelity::Rank,
            seed: 0,
        };
        Trial {
            format: FORMAT_VERSION,
            id,
            job,
            environment: EnvironmentId::of(b"environment"),
            builds: Vec::new(),
            outcome,
            same_binary_as: None,
            wall_s: 0.0,
            launch_s: 0.0,
            notes: Vec::new(),
        }
    }

    /// Makes a passed outcome of these samples by workload.
    pub(crate) fn passed(samples: &[(&str, &[f64])]) -> Outcome {
        let measurements = samples.iter().map(|(workload, times)| measurement(workload, times));
        Outcome::Passed { measurements: measurements.collect() }
    }

    /// Makes a converged measurement.
    pub(crate) fn measurement(workload: &str, samples_s: &[f64]) -> Measurement {
        Measurement {
            disturbed_s: Vec::new(),
            warm_s: Vec::new(),
            device_state: None,
            workload: workload.to_string(),
            samples_s: samples_s.to_vec(),
            batch: 1,
            ticks: Vec::new(),
            share: 1.0,
            error: ErrorSize::default(),
            stop: StopReason::Converged,
            launch_floor_s: 0.0,
        }
    }

    #[test]
    fn only_findings_of_the_same_kernel_fidelity_and_space_count() {
        let space = Space::new(&[], &[], &|_| None).expect("the space of no tunables");
        let mut history = History::new(Arc::new(space), "mine".to_string(), Fidelity::Rank);
        let mut check = |kernel: &str, fidelity: Fidelity, name: Option<&str>, expected| {
            let pairs = name.map(|name| (name.to_string(), warpsmith_model::Value::Int(1)));
            let mut trial = trial(kernel, pairs.into_iter().collect(), &["a"], passed(&[]));
            trial.job.fidelity = fidelity;
            assert_eq!(history.recognise(&trial.job), expected, "{kernel} {fidelity:?} {name:?}");
        };
        check("other", Fidelity::Rank, None, None);
        check("mine", Fidelity::Micro, None, None);
        check("mine", Fidelity::Rank, Some("X"), None);
        check("mine", Fidelity::Rank, None, Some(0));
        assert!(history.is_exhausted() && !history.take(0));
    }
}
