//! A campaign as the bench of an evolution.

use anyhow::{Context, Result};
use warpsmith_evidence::derive::standings;
use warpsmith_model::lab::Kernel;
use warpsmith_model::stats::Comparison;
use warpsmith_model::{
    Blob, CallRecord, ComparisonPurpose, ComparisonRecord, ContenderKind, Fidelity, Origin,
    Outcome, Params, ProfileRecord, Trial,
};
use warpsmith_search::Space;

use super::{Bench, Evaluated};
use crate::campaign::{Campaign, ConfiguredKernel};

/// Rounds of a challenge at least, and its seconds on each workload beyond them.
const CHALLENGE_ROUNDS: u32 = 5;
const CHALLENGE_BUDGET_S: f64 = 0.5;

impl Bench for Campaign {
    fn evaluate(&mut self, kernel: &Kernel, params: &Params, origin: Origin) -> Result<Evaluated> {
        let workloads = self.served(kernel)?;
        let request = self.request(kernel, params, origin, Fidelity::Rank, workloads)?;
        let trial = Campaign::evaluate(self, kernel, request)?;
        // A trial from before a resumption is known to the run but not yet to the pool.
        self.pool.remember(&self.loaded.lab, kernel, &trial);
        let log = log_of(&trial).map(|log| self.store.blob(&log)).transpose()?;
        Ok(Evaluated { trial, log })
    }

    fn is_faster(
        &mut self,
        challenger: &ConfiguredKernel,
        best: &ConfiguredKernel,
    ) -> Result<bool> {
        let stored = self.store.comparisons(&self.run)?;
        if let Some(record) = stored.iter().find(|record| is_between(record, challenger, best)) {
            return shows_faster(record);
        }
        let contenders =
            vec![best.contender(&best.label()), challenger.contender(&challenger.label())];
        let workloads = self.served(&challenger.kernel)?;
        let purpose = ComparisonPurpose::NewBest;
        let record =
            self.compare_now(purpose, contenders, workloads, CHALLENGE_ROUNDS, CHALLENGE_BUDGET_S)?;
        shows_faster(&record)
    }

    fn profile(&mut self, winner: &ConfiguredKernel, trial: &Trial) -> Result<ProfileRecord> {
        self.profile_once(&winner.kernel, &winner.params, trial)
    }

    fn space(&self, kernel: &Kernel) -> Result<Space> {
        Campaign::space(self, kernel)
    }

    fn keep_call(&mut self, call: &CallRecord, texts: &[Blob]) -> Result<()> {
        Ok(self.store.put_call(&self.run, call, texts)?)
    }

    fn stop_if_asked(&self) -> Result<()> {
        Campaign::stop_if_asked(self)
    }
}

/// Returns the log of a trial that did not compile.
pub(super) fn log_of(trial: &Trial) -> Option<warpsmith_model::BlobId> {
    match &trial.outcome {
        Outcome::CompileFailed { log, .. } => Some(*log),
        _ => None,
    }
}

/// Says whether a comparison is the one of these two.
pub(super) fn is_between(
    record: &ComparisonRecord,
    challenger: &ConfiguredKernel,
    best: &ConfiguredKernel,
) -> bool {
    let is =
        |idx: usize, winner: &ConfiguredKernel| match record.contenders.get(idx).map(|it| &it.kind)
        {
            Some(ContenderKind::Kernel { kernel, params, .. }) => {
                *kernel == winner.kernel.name && *params == winner.params
            }
            _ => false,
        };
    record.purpose == ComparisonPurpose::NewBest && is(0, best) && is(1, challenger)
}

/// Says whether a challenge shows the challenger, its second contender, to be faster.
pub(super) fn shows_faster(record: &ComparisonRecord) -> Result<bool> {
    let standings = standings(record, 1);
    let best = standings.first().context("a challenge has two contenders")?;
    Ok(best.verdict == Some(Comparison::Faster) && best.covered == record.workloads.len())
}
