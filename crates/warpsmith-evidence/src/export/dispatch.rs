//! `dispatch.json`: which configuration to use on which shape.

use std::path::{Path, PathBuf};

use serde_json::{Map, Value as Json, json};
use warpsmith_model::{
    ComparisonPurpose, ComparisonRecord, ContenderKind, FORMAT_VERSION, Fidelity, Params,
    RunRecord, Verdict,
};

use super::{ExportError, replace_json};
use crate::derive::dispatch;
use crate::selection::{self, Limits};
use crate::store::Store;
use crate::summary::TrialSummary;

/// Builds the table from the paired rounds of the finalists; none where a run has none. Only
/// configurations that passed the full gate are in it.
pub fn dispatch_table(
    record: &RunRecord,
    device: &str,
    trials: &[TrialSummary],
    comparisons: &[ComparisonRecord],
) -> Option<Json> {
    let finalists = |record: &&ComparisonRecord| record.purpose == ComparisonPurpose::Finalists;
    let comparison = comparisons.iter().rev().find(finalists)?;
    let is_verified = |idx: usize| match kernel_of(comparison, idx) {
        Some((kernel, params)) => trials.iter().any(|trial| {
            trial.fidelity == Fidelity::Full
                && trial.verdict == Verdict::Passed
                && trial.kernel == *kernel
                && trial.params == *params
        }),
        None => false,
    };
    let choices = dispatch(comparison, &is_verified);
    let workloads: Vec<Json> = choices
        .iter()
        .filter_map(|choice| {
            let (kernel, params) = kernel_of(comparison, choice.contender)?;
            let workload = record.lab.workload(&choice.workload)?;
            let axes: Map<String, Json> =
                workload.axes.iter().map(|(name, size)| (name.clone(), json!(size))).collect();
            Some(json!({
                "workload": choice.workload, "axes": axes, "kernel": kernel, "params": params,
                "time_s": choice.time_s, "speedup": choice.speedup,
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
