//! `dispatch.json`: which configuration to use on which shape.

use std::path::{Path, PathBuf};

use serde_json::{Map, Value as Json, json};
use warpsmith_model::{
    ComparisonPurpose, ComparisonRecord, ContenderKind, FORMAT_VERSION, Params, RunRecord,
};

use super::{ExportError, replace_json};
use crate::derive::{dispatch, measured_in, trial_of_record};
use crate::selection::{self, Limits};
use crate::store::Store;
use crate::summary::TrialSummary;

/// Builds the table from the paired rounds of the finalists; none where a run has none. Only
/// configurations that passed the full gate are in it. The rounds choose and give the speed-up; the time is
/// that of the full gate, as everywhere where a configuration's time is named.
pub fn dispatch_table(
    record: &RunRecord,
    device: &str,
    trials: &[TrialSummary],
    comparisons: &[ComparisonRecord],
) -> Option<Json> {
    let finalists = |record: &&ComparisonRecord| record.purpose == ComparisonPurpose::Finalists;
    let comparison = comparisons.iter().rev().find(finalists)?;
    let of_record = |idx: usize| {
        let (kernel, params) = kernel_of(comparison, idx)?;
        trial_of_record(trials, kernel, params)
    };
    let choices = dispatch(comparison, &|idx| of_record(idx).is_some());
    let workloads: Vec<Json> = choices
        .iter()
        .filter_map(|choice| {
            let (kernel, params) = kernel_of(comparison, choice.contender)?;
            let workload = record.lab.workload(&choice.workload)?;
            let trial = of_record(choice.contender)?;
            let gated = trial.time(&choice.workload).map(|time| time.median_s);
            let from = gated.map_or("the finals' rounds", |_| measured_in(trial.fidelity));
            let axes: Map<String, Json> =
                workload.axes.iter().map(|(name, size)| (name.clone(), json!(size))).collect();
            Some(json!({
                "workload": choice.workload, "axes": axes, "kernel": kernel, "params": params,
                "time_s": gated.unwrap_or(choice.time_s), "time_from": from, "trial": trial.id,
                "speedup": choice.speedup, "speedup_from": "the finals' rounds",
                "time_in_the_rounds_s": choice.time_s,
            }))
        })
        .collect();
    let over = comparison.contenders.first().map(|first| &first.label);
    Some(json!({
        "format": FORMAT_VERSION, "run": record.id, "lab": record.lab.name, "device": device,
        "speedup_over": over, "workloads": workloads,
    }))
}

fn kernel_of(comparison: &ComparisonRecord, idx: usize) -> Option<(&String, &Params)> {
    match &comparison.contenders.get(idx)?.kind {
        ContenderKind::Kernel { kernel, params, .. } => Some((kernel, params)),
        ContenderKind::Baseline { .. } => None,
    }
}

/// Writes the table of a run that has one.
pub(super) fn write_dispatch(
    store: &Store,
    record: &RunRecord,
    folder: &Path,
    written: &mut Vec<PathBuf>,
) -> Result<(), ExportError> {
    let device = store.environment(&record.environment)?.device.name;
    let comparisons = store.comparisons(&record.id)?;
    let trials = selection::select(store, record, &comparisons, None, Limits::USUAL)?
        .summaries(store, record)?;
    if let Some(table) = dispatch_table(record, &device, &trials, &comparisons) {
        let path = folder.join("dispatch.json");
        replace_json(&path, &table)?;
        written.push(path);
    }
    Ok(())
}
