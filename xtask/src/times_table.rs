//! Times of kernels and libraries on a GPU, side by side.

use anyhow::{Context, Result};
use serde_json::{Value, json};
use warpsmith_model::stats;

use crate::tables::{ratio, text, time};

/// A row per workload: every contender's time, and the first one's speed-up over the best library. Below it the mean
/// of these, the run's ceilings, and the gate that the kernels passed in it.
pub fn times_table(result: &Value) -> Result<String> {
    let rows = result["times"].as_array().context("the result has no times")?;
    let first = rows.first().context("the result has no workloads")?;
    let labels: Vec<&Value> =
        first["times"].as_array().context("no times")?.iter().map(|it| &it["label"]).collect();
    let own = text(labels.first().context("nobody was compared")?);
    let mut head = "| workload | rate | of the roofline |".to_string();
    let mut rule = "|---|--:|--:|".to_string();
    for label in &labels {
        head += &format!(" {} |", text(label));
        rule += "--:|";
    }
    let mut lines = vec![
        format!(
            "{}; times are medians of interleaved rounds; rate and ratio are `{own}`'s",
            text(&result["device"])
        ),
        String::new(),
        head + " over the best library |",
        rule + "--:|",
    ];
    let mut speedups = Vec::new();
    for row in rows {
        let times = row["times"].as_array().context("no times")?;
        let own_s = times.first().and_then(|it| it["median_s"].as_f64());
        let rate = own_s.zip(row["flops"].as_f64()).map_or_else(
            || "–".to_string(),
            |(time_s, flops)| format!("{:.1} TFLOP/s", flops / time_s / 1e12),
        );
        let share = own_s.zip(row["roofline_s"].as_f64()).map_or_else(
            || "–".to_string(),
            |(time_s, least_s)| format!("{:.0} %", 100.0 * least_s / time_s),
        );
        let mut line = format!("| {} | {rate} | {share} |", text(&row["workload"]));
        for it in times {
            line += &format!(" {} |", it["median_s"].as_f64().map_or("–".to_string(), time));
        }
        let best = over_best_library(result, row, times);
        if let Some((_, cell)) = &best {
            speedups.extend(cell["speedup"]["mid"].as_f64());
        }
        let words =
            best.map_or("–".to_string(), |(label, cell)| format!("{} {label}", ratio(&cell)));
        lines.push(format!("{line} {words} |"));
    }
    lines.push(String::new());
    lines.extend(below(result, &speedups));
    Ok(lines.join("\n"))
}

/// The fastest library of a row, and the comparison of the first contender with it.
pub fn over_best_library(result: &Value, row: &Value, times: &[Value]) -> Option<(String, Value)> {
    let (_, label) = times
        .iter()
        .filter(|it| it["is_baseline"] == true)
        .filter_map(|it| Some((it["median_s"].as_f64()?, text(&it["label"]))))
        .min_by(|a, b| a.0.total_cmp(&b.0))?;
    if result.get("rounds").is_some() {
        let cell = speedup_in_rounds(&result["rounds"], &row["workload"], &label)?;
        return Some((label, cell));
    }
    // Results from before rounds were kept.
    let speedup = result["speedups"].as_array()?.iter().find(|it| text(&it["over"]) == label)?;
    let cells = speedup["workloads"].as_array()?;
    let cell = cells.iter().find(|cell| cell["workload"] == row["workload"])?;
    Some((label, cell.clone()))
}

/// The speed-up of the first contender over another one on a workload, with its interval and verdict.
fn speedup_in_rounds(rounds: &Value, workload: &Value, over: &str) -> Option<Value> {
    let on = rounds["workloads"].as_array()?.iter().find(|on| on["workload"] == *workload)?;
    let samples_s = |idx: usize| -> Option<Vec<f64>> {
        on["samples_s"][idx].as_array()?.iter().map(Value::as_f64).collect()
    };
    let rival = rounds["contenders"].as_array()?.iter().position(|label| text(label) == over)?;
    let speedup = stats::paired_speedup(&samples_s(0)?, &samples_s(rival)?)?;
    Some(json!({ "speedup": speedup, "verdict": stats::judge(speedup) }))
}

/// What is said below the rows, in one paragraph.
fn below(result: &Value, speedups: &[f64]) -> Vec<String> {
    let mut lines = Vec::new();
    if speedups.len() > 1 {
        let mean_log = speedups.iter().map(|it| it.ln()).sum::<f64>() / speedups.len() as f64;
        let mean = mean_log.exp();
        lines.push(format!("Over the best library, geometric mean: {mean:.2}×."));
    }
    let ceiling = |name: &str| result["ceilings"][name].as_f64();
    if let (Some(matrix), Some(memory), Some(launch_s)) =
        (ceiling("matrix_flops_per_s"), ceiling("memory_bytes_per_s"), ceiling("launch_floor_s"))
    {
        lines.push(format!(
            "Ceilings, measured in the same run: matrix units {:.0} TFLOP/s, memory {:.2} TB/s; an empty \
             launch {:.2} µs.",
            matrix / 1e12,
            memory / 1e12,
            launch_s * 1e6
        ));
    }
    for gate in result["gates"].as_array().map_or(&[][..], Vec::as_slice) {
        let notes = gate["notes"].as_array().map_or(&[][..], Vec::as_slice);
        let found: Vec<String> = notes
            .iter()
            .filter_map(|note| text(note).strip_prefix("sanitizers: ").map(str::to_string))
            .collect();
        let found =
            if found.is_empty() { "without sanitizers".to_string() } else { found.join("; ") };
        lines.push(format!(
            "The full gate, in the same run: `{}` {} on these workloads; {found}.",
            text(&gate["kernel"]),
            text(&gate["verdict"])
        ));
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    fn result() -> Value {
        let times = |own_s: f64, slow_s: f64, fast_s: f64| {
            json!([
                { "label": "front", "median_s": own_s, "is_baseline": false },
                { "label": "slow", "median_s": slow_s, "is_baseline": true },
                { "label": "fast", "median_s": fast_s, "is_baseline": true },
            ])
        };
        let speedup = |over: &str, a: f64, b: f64| {
            let cell = |workload: &str, mid: f64| {
                json!({ "workload": workload, "verdict": "faster",
                        "speedup": { "low": mid, "mid": mid, "high": mid } })
            };
            json!({ "over": over, "workloads": [cell("a", a), cell("b", b)] })
        };
        json!({
            "device": "some GPU",
            "times": [
                { "workload": "a", "times": times(1e-6, 9e-6, 2e-6) },
                { "workload": "b", "times": times(1e-6, 9e-6, 8e-6) },
            ],
            "speedups": [speedup("slow", 9.0, 9.0), speedup("fast", 2.0, 8.0)],
        })
    }

    #[test]
    fn ratios_come_from_the_rounds_where_they_are_kept() {
        let mut result = result();
        let on = |workload: &str| json!({ "workload": workload, "samples_s": [[1.0, 1.0, 1.0], [], [3.0, 2.5, 2.0]] });
        let contenders = ["front", "slow", "fast"];
        result["rounds"] = json!({ "contenders": contenders, "workloads": [on("a"), on("b")] });
        let table = times_table(&result).expect("a whole result");
        assert_eq!(table.matches("2.50× [2.00, 3.00] fast").count(), 2, "{table}");
    }

    #[test]
    fn the_mean_is_that_of_the_best_library_on_each_workload() {
        let table = times_table(&result()).expect("a whole result");
        assert!(table.contains("2.00× [2.00, 2.00] fast"), "{table}");
        assert!(table.ends_with("geometric mean: 4.00×."), "{table}");
    }

    #[test]
    fn a_gate_without_sanitizers_says_so() {
        let mut result = result();
        result["gates"] = json!([{ "kernel": "front", "verdict": "passed", "notes": [] }]);
        let table = times_table(&result).expect("a whole result");
        assert!(table.ends_with("passed on these workloads; without sanitizers."), "{table}");
        let notes = ["racecheck did not finish on small", "memcheck found nothing on odd"];
        result["gates"][0]["notes"] = json!(notes.map(|note| format!("sanitizers: {note}")));
        let table = times_table(&result).expect("a whole result");
        let expected = format!("workloads; {}.", notes.join("; "));
        assert!(table.ends_with(&expected), "{table}");
    }
}
