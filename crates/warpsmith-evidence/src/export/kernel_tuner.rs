//! Kernel Tuner's cache files: one space, keyed by the parameters' values.

use serde_json::{Map, Value as Json, json};
use warpsmith_model::{RunTrial, Value, Verdict};

use super::interchange::{Layout, Space, milliseconds, spent, timestamp};

/// A cache file. Times are in milliseconds, `time` is the mean of `times` as everywhere in
/// Kernel Tuner, and a failed configuration has the name of its error in place of a time.
pub(super) const LAYOUT: Layout = Layout {
    head,
    member: ("cache", '{', '}'),
    entry: |space, trial| (Some(key(space, trial)), entry(space, trial)),
};

fn head(space: &Space<'_>) -> Json {
    let tunables = &space.kernel.tunables;
    let values: Map<String, Json> =
        tunables.iter().map(|tunable| (tunable.name.clone(), json!(tunable.values))).collect();
    let keys: Vec<&String> = tunables.iter().map(|tunable| &tunable.name).collect();
    json!({
        "device_name": space.environment.device.name,
        "kernel_name": space.kernel.name,
        "problem_size": space.workload.axes.iter().map(|(_, size)| *size).collect::<Vec<_>>(),
        "tune_params_keys": keys,
        "tune_params": values,
        "objective": "time",
    })
}

fn entry(space: &Space<'_>, trial: &RunTrial) -> Json {
    let spent = spent(trial);
    let mut entry: Map<String, Json> =
        space.configuration(trial).into_iter().map(|(name, value)| (name, json!(value))).collect();
    match space.measurement(trial) {
        Some(measurement) => {
            let times: Vec<f64> = measurement.samples_s.iter().copied().map(milliseconds).collect();
            let mean = times.iter().sum::<f64>() / times.len() as f64;
            entry.insert("time".to_string(), json!(mean));
            entry.insert("times".to_string(), json!(times));
        }
        None => {
            let error = error_name(trial.trial.outcome.verdict());
            entry.insert("time".to_string(), json!(error));
        }
    }
    let rest = json!({
        "compile_time": milliseconds(spent.compile_s),
        "verification_time": 0,
        "benchmark_time": milliseconds(spent.launch_s),
        "strategy_time": 0,
        "framework_time": milliseconds(spent.other_s),
        "timestamp": timestamp(trial),
    });
    if let Json::Object(rest) = rest {
        entry.extend(rest);
    }
    Json::Object(entry)
}

/// Kernel Tuner knows two kinds of failure of a configuration that satisfies the constraints. A
/// result that is wrong or not to be believed must not look like a time there.
pub(super) fn error_name(verdict: Verdict) -> &'static str {
    match verdict {
        Verdict::CompileFailed => "CompilationFailedConfig",
        Verdict::Crashed
        | Verdict::TimedOut
        | Verdict::Incorrect
        | Verdict::Implausible
        | Verdict::Passed => "RuntimeFailedConfig",
    }
}

fn key(space: &Space<'_>, trial: &RunTrial) -> String {
    let values = space.configuration(trial);
    values.iter().map(|(_, value)| python_text(value)).collect::<Vec<_>>().join(",")
}

/// Writes a value as Python's `str` does.
fn python_text(value: &Value) -> String {
    match value {
        Value::Bool(true) => "True".to_string(),
        Value::Bool(false) => "False".to_string(),
        other => other.to_string(),
    }
}
