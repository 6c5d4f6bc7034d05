//! Collects what a report shows from the evidence.

use warpsmith_model::RunId;

use super::ReportData;
use crate::{Store, StoreError};

/// Reads everything that the report of a run shows.
pub fn gather(store: &Store, run: &RunId) -> Result<ReportData, StoreError> {
    let record = store.run(&run.0)?;
    let trials = store.trials(run)?;
    let texts = store.texts(&trials)?.into_iter().map(|blob| (blob.id, blob.text)).collect();
    Ok(ReportData {
        environment: store.environment(&record.environment)?,
        ceilings: store.ceilings(run)?,
        chain: store.chain(run)?,
        comparisons: store.comparisons(run)?,
        run: record,
        trials,
        texts,
    })
}
