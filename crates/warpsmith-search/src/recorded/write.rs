//! Writing recorded spaces in the formats that they are read from.

use serde_json::{Map, Value as Json, json};
use warpsmith_model::Value;

use super::{Entry, Failure, Measured, Recorded};

impl Recorded {
    /// Writes a Kernel Tuner cache.
    pub fn kernel_tuner_cache(&self) -> Json {
        let tunables = self.space().tunables();
        let values: Map<String, Json> =
            tunables.iter().map(|tunable| (tunable.name.clone(), json!(tunable.values))).collect();
        let cache: Map<String, Json> = self
            .configurations()
            .map(|(configuration, entry)| {
                let texts: Vec<String> =
                    configuration.iter().map(|(_, value)| python(value)).collect();
                (texts.join(","), cache_entry(&configuration, entry))
            })
            .collect();
        json!({
            "device_name": self.device,
            "kernel_name": self.kernel,
            "problem_size": self.problem_size,
            "tune_params_keys": tunables.iter().map(|tunable| &tunable.name).collect::<Vec<_>>(),
            "tune_params": values,
            "objective": "time",
            "cache": cache,
        })
    }

    /// Writes T4 results, version 1.0.0. The format has no place for the names of the kernel and
    /// of the device.
    pub fn t4_results(&self) -> Json {
        let results: Vec<Json> = self
            .configurations()
            .map(|(configuration, entry)| result_entry(&configuration, entry))
            .collect();
        json!({
            // Spelt like this in the format.
            "metadata": { "timeunit": "miliseconds" },
            "results": results,
            "schema_version": "1.0.0",
        })
    }

    fn configurations(&self) -> impl Iterator<Item = (Vec<(&str, &Value)>, &Entry)> {
        self.entries().iter().enumerate().map(|(index, entry)| {
            let point = self.space().point_at(index as u128);
            let named = self.space().tunables().iter().zip(&point).map(|(tunable, value)| {
                (tunable.name.as_str(), &tunable.values[usize::from(*value)])
            });
            (named.collect(), entry)
        })
    }
}

fn cache_entry(configuration: &[(&str, &Value)], entry: &Entry) -> Json {
    let mut fields: Map<String, Json> =
        configuration.iter().map(|(name, value)| (name.to_string(), json!(value))).collect();
    fields.insert("time".to_string(), time(&entry.measured));
    if let Measured::Times { samples_ms, .. } = &entry.measured
        && !samples_ms.is_empty()
    {
        fields.insert("times".to_string(), json!(samples_ms));
    }
    let spent = entry.spent_ms;
    for (name, milliseconds) in [
        ("compile_time", spent.compile),
        ("verification_time", spent.verification),
        ("benchmark_time", spent.benchmark),
        ("strategy_time", spent.strategy),
        ("framework_time", spent.framework),
    ] {
        fields.insert(name.to_string(), json!(milliseconds));
    }
    if let Some(timestamp) = &entry.timestamp {
        fields.insert("timestamp".to_string(), json!(timestamp));
    }
    Json::Object(fields)
}

fn result_entry(configuration: &[(&str, &Value)], entry: &Entry) -> Json {
    let named: Map<String, Json> =
        configuration.iter().map(|(name, value)| (name.to_string(), json!(value))).collect();
    let spent = entry.spent_ms;
    let mut times = json!({
        "compilation": spent.compile,
        "benchmark": spent.benchmark,
        "framework": spent.framework,
        "search_algorithm": spent.strategy,
        "validation": spent.verification,
    });
    let (invalidity, correctness, unit) = match &entry.measured {
        Measured::Times { samples_ms, .. } => {
            if !samples_ms.is_empty() {
                times["runtimes"] = json!(samples_ms);
            }
            ("correct", 1, "ms")
        }
        Measured::Failed(failure) => (invalidity(*failure), 0, ""),
    };
    let mut result = json!({
        "configuration": named,
        "times": times,
        "invalidity": invalidity,
        "correctness": correctness,
        "measurements": [{ "name": "time", "value": time(&entry.measured), "unit": unit }],
        "objectives": ["time"],
    });
    if let Some(timestamp) = &entry.timestamp {
        result["timestamp"] = json!(timestamp);
    }
    result
}

/// Kernel Tuner has names for fewer kinds of failure than there are.
fn time(measured: &Measured) -> Json {
    match measured {
        Measured::Times { time_ms, .. } => json!(time_ms),
        Measured::Failed(Failure::Compile) => json!("CompilationFailedConfig"),
        Measured::Failed(Failure::Constraints) => json!("InvalidConfig"),
        Measured::Failed(Failure::Runtime | Failure::Timeout | Failure::Correctness) => {
            json!("RuntimeFailedConfig")
        }
    }
}

fn invalidity(failure: Failure) -> &'static str {
    match failure {
        Failure::Compile => "compile",
        Failure::Runtime => "runtime",
        Failure::Timeout => "timeout",
        Failure::Correctness => "correctness",
        Failure::Constraints => "constraints",
    }
}

/// Writes a value as Python's `str` does.
fn python(value: &Value) -> String {
    match value {
        Value::Bool(true) => "True".to_string(),
        Value::Bool(false) => "False".to_string(),
        other => other.to_string(),
    }
}
