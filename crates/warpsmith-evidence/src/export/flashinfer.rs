//! FlashInfer-Trace: one trace for each kernel that went through the full gate, on each workload.
//!
//! The largest absolute and relative errors are those that the gate saw on the workload; `extra` has what it
//! judges by. An error that is not finite is written as the largest number, since JSON has none such. Evidence
//! from before errors were kept has the format's own word for a number that is not known, the text `NaN`: left
//! out, it would be read as no error at all. A kernel's latency is the median of its full gate, as everywhere
//! where its time is named. The speed-up is the median ratio of paired rounds with the fastest baseline, whose
//! latency is that of those rounds; both are absent where there was no comparison.

use std::collections::BTreeSet;
use std::io::Write;
use std::path::{Path, PathBuf};

use serde_json::{Map, Value as Json, json};
use warpsmith_model::lab::Role;
use warpsmith_model::stats::{median, paired_speedup};
use warpsmith_model::{
    ComparisonRecord, ContenderKind, Environment, Fidelity, Measurement, Mismatch, Origin, Outcome,
    RunRecord, RunTrial, ScalarKind, Trial, Verdict, WorkloadRecord,
};

use super::interchange::{file_name, milliseconds, timestamp};
use super::{ExportError, Part, replace_json};
use crate::store::Store;

/// Whoever wrote the solutions, as the format asks.
const AUTHOR: &str = "warpsmith";

/// Builds the traces of a run's trials, in their order.
pub fn flashinfer_traces(
    record: &RunRecord,
    environment: &Environment,
    trials: &[RunTrial],
    comparisons: &[ComparisonRecord],
) -> Vec<Json> {
    let of = |trial| traces_of(record, environment, trial, comparisons);
    trials.iter().flat_map(of).collect()
}

/// Builds the traces of one trial.
fn traces_of(
    record: &RunRecord,
    environment: &Environment,
    run_trial: &RunTrial,
    comparisons: &[ComparisonRecord],
) -> Vec<Json> {
    let mut traces = Vec::new();
    if !is_exported(&run_trial.trial) {
        return traces;
    }
    for name in &run_trial.trial.job.workloads {
        let Some(workload) = record.lab.workload(name) else { continue };
        let Some(evaluation) = evaluation(record, environment, run_trial, workload, comparisons)
        else {
            continue;
        };
        traces.push(json!({
            "definition": definition_name(record),
            "workload": workload_json(record, workload),
            "solution": solution_name(&run_trial.trial),
            "evaluation": evaluation,
        }));
    }
    traces
}

/// Writes `traces/DEFINITION.jsonl` and `solutions/DEFINITION/NAME.json`.
pub(super) fn write_flashinfer(
    store: &Store,
    record: &RunRecord,
    folder: &Path,
    written: &mut Vec<PathBuf>,
) -> Result<(), ExportError> {
    let environment = store.environment(&record.environment)?;
    let comparisons = store.comparisons(&record.id)?;
    let folder = folder.join("flashinfer");
    let definition = file_name(definition_name(record));
    let path = folder.join("traces").join(format!("{definition}.jsonl"));
    let failed = |source| ExportError::Write { path: path.clone(), source };
    // Trial by trial, and no file where there is no trace.
    let mut part: Option<Part> = None;
    let mut solutions = BTreeSet::new();
    let mut files = Vec::new();
    store.each_trial_at(&record.id, None, Fidelity::Full, |run_trial| {
        for trace in traces_of(record, &environment, &run_trial, &comparisons) {
            let part = match &mut part {
                Some(part) => part,
                None => part.insert(Part::begin(&path)?),
            };
            serde_json::to_writer(&mut *part, &trace).map_err(|error| failed(error.into()))?;
            part.write_all(b"\n").map_err(failed)?;
        }
        let trial = &run_trial.trial;
        let name = solution_name(trial);
        if is_exported(trial) && part.is_some() && solutions.insert(name.clone()) {
            let source = store.blob(&trial.job.candidate.source)?;
            let name = format!("{}.json", file_name(&name));
            let path = folder.join("solutions").join(&definition).join(name);
            replace_json(&path, &solution(record, &environment, trial, &source))?;
            files.push(path);
        }
        Ok::<(), ExportError>(())
    })?;
    if let Some(part) = part {
        part.finish()?;
        written.push(path.clone());
    }
    written.append(&mut files);
    Ok(())
}

fn is_exported(trial: &Trial) -> bool {
    trial.job.fidelity == Fidelity::Full && trial.job.candidate.origin != Origin::Baseline
}

fn definition_name(record: &RunRecord) -> &str {
    record.lab.imported.as_ref().map_or(&record.lab.name, |imported| &imported.name)
}

fn solution_name(trial: &Trial) -> String {
    let candidate = &trial.job.candidate;
    let id = candidate.id.to_string();
    format!("{}_{}", candidate.kernel, &id[..id.len().min(12)])
}

fn solution(record: &RunRecord, environment: &Environment, trial: &Trial, source: &str) -> Json {
    let candidate = &trial.job.candidate;
    let (language, ending) = match environment.device.cuda {
        Some(_) => ("cuda", "cu"),
        None => ("cpp", "c"),
    };
    let path = format!("{}.{ending}", candidate.kernel);
    // An evolved source keeps its seed's contract, and a lab's kernels compute one thing.
    let kernels = &record.lab.kernels;
    let own = record.lab.kernel(&candidate.kernel).or(kernels.first());
    let entry = own.and_then(|kernel| kernel.entry.as_deref()).unwrap_or(&record.lab.name);
    json!({
        "name": solution_name(trial),
        "definition": definition_name(record),
        "author": AUTHOR,
        "description": format!(
            "Kernel code without host code, launched by the contract of `{}`; macros: {}",
            candidate.kernel, candidate.params
        ),
        "spec": {
            "language": language,
            "target_hardware": [environment.device.name],
            "entry_point": format!("{path}::{entry}"),
            "dependencies": [],
            "destination_passing_style": true,
        },
        "sources": [{ "path": path, "content": source }],
    })
}

fn workload_json(record: &RunRecord, workload: &WorkloadRecord) -> Json {
    let axes: Map<String, Json> =
        workload.axes.iter().map(|(axis, value)| (axis.clone(), json!(value))).collect();
    let mut inputs: Map<String, Json> = record
        .lab
        .tensors
        .iter()
        .filter(|tensor| tensor.role == Role::Input)
        .map(|tensor| (tensor.name.clone(), json!({ "type": "random" })))
        .collect();
    for scalar in &record.lab.scalars {
        let value = match scalar.kind {
            ScalarKind::Integer => json!(scalar.value as i64),
            ScalarKind::Float => json!(scalar.value),
        };
        inputs.insert(scalar.name.clone(), json!({ "type": "scalar", "value": value }));
    }
    json!({ "axes": axes, "inputs": inputs, "uuid": workload.name })
}

/// Says what came of a trial on a workload; none where it was given up before it came to it.
fn evaluation(
    record: &RunRecord,
    environment: &Environment,
    run_trial: &RunTrial,
    workload: &WorkloadRecord,
    comparisons: &[ComparisonRecord],
) -> Option<Json> {
    let trial = &run_trial.trial;
    let mut evaluation = json!({
        "status": status(trial.outcome.verdict()),
        "environment": { "hardware": environment.device.name, "libs": libraries(environment) },
        "timestamp": timestamp(run_trial),
        "log": trial.outcome.describe(),
    });
    match &trial.outcome {
        Outcome::Passed { measurements } => {
            let measurement = measurements.iter().find(|it| it.workload == workload.name)?;
            evaluation["correctness"] = correctness(record, measurement);
            evaluation["performance"] = performance(trial, measurement, comparisons);
        }
        Outcome::Incorrect { mismatch } => evaluation["correctness"] = wrong(mismatch),
        _ => {}
    }
    Some(evaluation)
}

fn status(verdict: Verdict) -> &'static str {
    match verdict {
        Verdict::Passed => "PASSED",
        Verdict::Incorrect => "INCORRECT_NUMERICAL",
        Verdict::CompileFailed => "COMPILE_ERROR",
        Verdict::TimedOut => "TIMEOUT",
        // The format has no word for a time that cannot be real.
        Verdict::Crashed | Verdict::Implausible => "RUNTIME_ERROR",
    }
}

fn libraries(environment: &Environment) -> Map<String, Json> {
    let own = ("warpsmith".to_string(), json!(environment.warpsmith));
    let compilers = environment.compilers.iter().map(|it| (it.name.clone(), json!(it.version)));
    std::iter::once(own).chain(compilers).collect()
}

fn correctness(record: &RunRecord, measurement: &Measurement) -> Json {
    let error = measurement.error;
    let mut correctness = json!({
        "extra": {
            "element_eps": error.element_eps,
            "norm_eps": error.norm_eps,
            "epsilon": record.lab.dtype.epsilon(),
            "relative_to": "the larger of the element and its row's root mean square",
        },
    });
    let (absolute, relative) = match error.plain {
        Some(plain) => (number(plain.absolute), number(plain.relative)),
        None => (json!("NaN"), json!("NaN")),
    };
    correctness["max_absolute_error"] = absolute;
    correctness["max_relative_error"] = relative;
    correctness
}

fn wrong(mismatch: &Mismatch) -> Json {
    let read = |text: &str| text.parse::<f64>().unwrap_or(f64::NAN);
    let (got, expected) = (read(&mismatch.got), read(&mismatch.expected));
    let absolute = (got - expected).abs();
    json!({
        "max_absolute_error": number(absolute),
        "max_relative_error": number(absolute / expected.abs()),
        "extra": { "at": mismatch.index, "wrong": mismatch.wrong, "of": mismatch.total },
    })
}

/// What is not finite is as large as numbers are.
fn number(value: f64) -> Json {
    json!(if value.is_finite() { value } else { f64::MAX })
}

fn performance(trial: &Trial, measurement: &Measurement, comparisons: &[ComparisonRecord]) -> Json {
    let mut performance = json!({});
    if let Some(own_s) = median(&measurement.samples_s) {
        performance["latency_ms"] = json!(milliseconds(own_s));
    }
    let paired = comparisons
        .iter()
        .rev()
        .find_map(|comparison| against_baseline(comparison, trial, &measurement.workload));
    if let Some((baseline_s, speedup)) = paired {
        performance["reference_latency_ms"] = json!(milliseconds(baseline_s));
        performance["speedup_factor"] = json!(speedup);
    }
    performance
}

/// Returns the median of the fastest baseline and the kernel's speed-up over it in the same rounds.
fn against_baseline(
    comparison: &ComparisonRecord,
    trial: &Trial,
    workload: &str,
) -> Option<(f64, f64)> {
    let rounds = comparison.workloads.iter().find(|rounds| rounds.workload == workload)?;
    let samples_s = |idx: usize| rounds.samples_s.get(idx);
    let time_s = |idx: usize| median(samples_s(idx)?);
    let candidate = &trial.job.candidate;
    let own = comparison.contenders.iter().position(|contender| {
        matches!(&contender.kind, ContenderKind::Kernel { kernel, params, .. }
            if *kernel == candidate.kernel && *params == candidate.params)
    })?;
    let is_baseline =
        |idx: &usize| matches!(comparison.contenders[*idx].kind, ContenderKind::Baseline { .. });
    let (fastest_s, fastest) = (0..comparison.contenders.len())
        .filter(is_baseline)
        .filter_map(|idx| Some((time_s(idx)?, idx)))
        .min_by(|a, b| a.0.total_cmp(&b.0))?;
    let speedup = paired_speedup(samples_s(own)?, samples_s(fastest)?)?;
    Some((fastest_s, speedup.mid))
}
