//! Results in the T4 format of the FAIR auto-tuning effort, version 1.0.0.

use serde_json::{Map, Value as Json, json};
use warpsmith_model::{RunTrial, Verdict};

use super::interchange::{Layout, Space, milliseconds, spent, timestamp};
use super::kernel_tuner::error_name;

/// A results file; times are in milliseconds, and their mean is the measured `time`.
pub(super) const LAYOUT: Layout = Layout {
    head,
    member: ("results", '[', ']'),
    entry: |space, trial| (None, result(space, trial)),
};

fn head(_space: &Space<'_>) -> Json {
    json!({
        "schema_version": "1.0.0",
        // Spelt like this in the format.
        "metadata": { "timeunit": "miliseconds" },
    })
}

fn result(space: &Space<'_>, trial: &RunTrial) -> Json {
    let spent = spent(trial);
    let verdict = trial.trial.outcome.verdict();
    let configuration: Map<String, Json> =
        space.configuration(trial).into_iter().map(|(name, value)| (name, json!(value))).collect();
    let mut times = json!({
        "compilation": milliseconds(spent.compile_s),
        "framework": milliseconds(spent.other_s),
        "search_algorithm": 0,
        "validation": 0,
    });
    let value = match space.measurement(trial) {
        Some(measurement) => {
            let runtimes: Vec<f64> =
                measurement.samples_s.iter().copied().map(milliseconds).collect();
            let mean = runtimes.iter().sum::<f64>() / runtimes.len() as f64;
            times["runtimes"] = json!(runtimes);
            json!(mean)
        }
        None => json!(error_name(verdict)),
    };
    json!({
        "timestamp": timestamp(trial),
        "configuration": configuration,
        "times": times,
        "invalidity": invalidity(verdict),
        "correctness": u8::from(verdict == Verdict::Passed),
        "measurements": [{ "name": "time", "value": value, "unit": "ms" }],
        "objectives": ["time"],
    })
}

/// A time that cannot be real is a failed check, too.
fn invalidity(verdict: Verdict) -> &'static str {
    match verdict {
        Verdict::CompileFailed => "compile",
        Verdict::Crashed => "runtime",
        Verdict::TimedOut => "timeout",
        Verdict::Incorrect | Verdict::Implausible => "correctness",
        Verdict::Passed => "correct",
    }
}
