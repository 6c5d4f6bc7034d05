//! Collects what a report shows from the evidence.

use warpsmith_model::{ComparisonRecord, ProfileRecord, RunId, RunRecord, RunTrial};

use super::ReportData;
use crate::derive;
use crate::summary::TrialSummary;
use crate::{Store, StoreError};

/// Reads everything that the report of a run shows.
pub fn gather(store: &Store, run: &RunId) -> Result<ReportData, StoreError> {
    let record = store.run(&run.0)?;
    let trials = store.trials(run)?;
    let calls = store.calls(run)?;
    let mut texts = store.call_texts(&calls)?;
    texts.extend(store.texts(&trials)?.into_iter().map(|blob| (blob.id, blob.text)));
    let comparisons = store.comparisons(run)?;
    Ok(ReportData {
        profiles: profiles(store, &record, &trials, &comparisons)?,
        environment: store.environment(&record.environment)?,
        ceilings: store.ceilings(run)?,
        chain: store.chain(run)?,
        comparisons,
        run: record,
        evolution: store.evolution(run)?,
        ablation: store.ablation(run)?,
        calls,
        trials,
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
            profiles.extend(store.newest_profile(&candidate, &record.environment)?);
        }
    }
    Ok(profiles)
}
