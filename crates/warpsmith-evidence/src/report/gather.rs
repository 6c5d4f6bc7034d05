//! Collects what a report shows from the evidence.

use warpsmith_model::{ComparisonRecord, ProfileRecord, RunId, RunRecord, RunTrial};

use super::{ReportData, Rest};
use crate::derive;
use crate::selection::{self, Limits};
use crate::summary::TrialSummary;
use crate::{Store, StoreError};

/// Reads everything that the report of a run shows. Memory does not grow with the number of trials: of a very
/// large run a part is read.
pub fn gather(store: &Store, run: &RunId) -> Result<ReportData, StoreError> {
    gather_within(store, run, Limits::USUAL)
}

/// The same with other limits.
pub fn gather_within(store: &Store, run: &RunId, limits: Limits) -> Result<ReportData, StoreError> {
    store.refuse_lost_rows()?;
    let record = store.run(&run.0)?;
    let comparisons = store.comparisons(run)?;
    let evolution = store.evolution(run)?;
    let seed_trial = evolution.as_ref().map(|start| start.seed_trial);
    let selection = selection::select(store, &record, &comparisons, seed_trial, limits)?;
    let (trials, rest) = match selection.selected {
        None => (store.trials(run)?, None),
        Some(selected) => {
            let places: Vec<u64> = selected.places.into_iter().collect();
            let rest = Rest { totals: selection.totals, sample: selected.sample };
            (store.trials_at(run, &places)?, Some(rest))
        }
    };
    let calls = store.calls(run)?;
    let mut texts = store.call_texts(&calls)?;
    texts.extend(store.texts(&trials)?.into_iter().map(|blob| (blob.id, blob.text)));
    Ok(ReportData {
        profiles: profiles(store, &record, &trials, &comparisons)?,
        environment: store.environment(&record.environment)?,
        ceilings: store.ceilings(run)?,
        chain: store.chain(run)?,
        comparisons,
        run: record,
        evolution,
        ablation: store.ablation(run)?,
        calls,
        trials,
        rest,
        texts,
    })
}

/// Returns the run's own profiles, and the newest of its winner where it was profiled later by itself.
fn profiles(
    store: &Store,
    record: &RunRecord,
    trials: &[RunTrial],
    comparisons: &[ComparisonRecord],
) -> Result<Vec<ProfileRecord>, StoreError> {
    let mut profiles = store.profiles(&record.id)?;
    let summaries: Vec<TrialSummary> = trials.iter().map(TrialSummary::of).collect();
    if let Some(winner) = derive::winner(record, &summaries, comparisons) {
        let candidate = winner.trial.candidate;
        if !profiles.iter().any(|profile| profile.candidate == candidate) {
            match store.newest_profile(&candidate, &record.environment) {
                // Another run's, which the report can do without.
                Err(error) if error.is_damage() => {}
                found => profiles.extend(found?),
            }
        }
    }
    Ok(profiles)
}
