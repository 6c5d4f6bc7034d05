//! Many results in few lines: the README's headline, and the shapes of the attention lab with and without a mask.

use std::path::Path;

use anyhow::{Context, Result, bail};
use serde_json::Value;
use warpsmith_model::stats;

use crate::tables::{ratio, stored, text, time};
use crate::times_table::over_best_library;

/// What the README's rows are called, and the stored results that they come from; those of GPUs end in `-cuda`.
const ROWS: [(&str, &str); 6] = [
    ("attention, 512 to 2,048 tokens, f16 and bf16", "attention-small-cuda"),
    ("attention, 16,384 tokens, head dimension 64, bf16", "attention-large-d64-cuda"),
    ("attention, 16,384 tokens, head dimension 128, bf16", "attention-large-d128-cuda"),
    ("matrix product, f16", "gemm-cuda"),
    ("attention, f32", "attention"),
    ("matrix product, f32", "gemm"),
];

/// Where the results of CPU labs are from, which they do not say themselves.
const CPU: &str = "2 cores of an AMD EPYC";

/// The results of the attention lab that `pairs` shows, with what each is about.
const SIZES: [(&str, &str); 3] = [
    ("attention-small-cuda", "small shapes"),
    ("attention-large-d64-cuda", "16,384 tokens, head dimension 64"),
    ("attention-large-d128-cuda", "16,384 tokens, head dimension 128"),
];

/// A row per result: against whom, on how many workloads, and the speed-up over the best library on each.
pub fn headline(root: &Path) -> Result<String> {
    let mut lines = vec![
        "| kernel | machine | compared with | workloads | speed-up over the best of them: geometric mean (least to most) |"
            .to_string(),
        "|---|---|---|--:|--:|".to_string(),
    ];
    for (title, name) in ROWS {
        let Some(result) = stored(root, name)? else { continue };
        let is_cuda = name.ends_with("-cuda");
        let (machine, libraries, speedups) = match is_cuda {
            true => {
                (text(&result["device"]), libraries_on_a_gpu(&result), speedups_on_a_gpu(&result)?)
            }
            false => {
                let libraries = libraries_on_a_cpu(root, &result)?;
                let speedups = speedups_on_a_cpu(&result, &libraries);
                (CPU.to_string(), libraries, speedups)
            }
        };
        let least = speedups.iter().copied().fold(f64::INFINITY, f64::min);
        let most = speedups.iter().copied().fold(0.0, f64::max);
        let mean = stats::geomean(&speedups).with_context(|| format!("{name} has no library"))?;
        let libraries: Vec<&str> = libraries.iter().map(|it| called(it)).collect();
        lines.push(format!(
            "| {title} | {machine} | {} | {} | **{mean:.2}×** ({least:.2} to {most:.2}) |",
            libraries.join(", "),
            speedups.len(),
        ));
    }
    Ok(lines.join("\n"))
}

/// What a reader who does not know the labs calls a baseline.
fn called(baseline: &str) -> &str {
    match baseline {
        "sdpa_flash" => "FlashAttention-2",
        "sdpa_cudnn" => "cuDNN",
        "sdpa_efficient" => "PyTorch's memory-efficient attention",
        "fa3" => "FlashAttention-3",
        "triton_swept" => "Triton",
        "cublaslt" => "cuBLASLt",
        "cublas" => "cuBLAS",
        "cutlass" => "CUTLASS",
        "numpy" => "NumPy",
        "onnxruntime" => "ONNX Runtime",
        other => other,
    }
}

fn libraries_on_a_gpu(result: &Value) -> Vec<String> {
    let all = result["times"][0]["times"].as_array().map_or(&[][..], Vec::as_slice);
    all.iter().filter(|it| it["is_baseline"] == true).map(|it| text(&it["label"])).collect()
}

/// The speed-up over the best library on each workload.
fn speedups_on_a_gpu(result: &Value) -> Result<Vec<f64>> {
    let mut speedups = Vec::new();
    for row in result["times"].as_array().context("the result has no times")? {
        let times = row["times"].as_array().context("no times")?;
        let Some((_, cell)) = over_best_library(result, row, times) else { continue };
        speedups.push(cell["speedup"]["mid"].as_f64().context("no speed-up")?);
    }
    Ok(speedups)
}

/// A CPU lab's winner is compared with rungs, too; what is a library has a manifest.
fn libraries_on_a_cpu(root: &Path, result: &Value) -> Result<Vec<String>> {
    let speedups = result["speedups"].as_array().context("the result has no speed-ups")?;
    let folder = root.join("labs").join(text(&result["lab"])).join("baselines");
    let is_library = |name: &String| folder.join(format!("{name}.toml")).is_file();
    Ok(speedups.iter().map(|it| text(&it["over"])).filter(is_library).collect())
}

/// The speed-up over the best library on each workload, which is the least one.
fn speedups_on_a_cpu(result: &Value, libraries: &[String]) -> Vec<f64> {
    let list = |value: &Value| value.as_array().cloned().unwrap_or_default();
    let speedups = list(&result["speedups"]);
    let over = |workload: &Value, library: &String| {
        let speedup = speedups.iter().find(|it| it["over"] == **library)?;
        let cells = list(&speedup["workloads"]);
        let cell = cells.iter().find(|cell| cell["workload"] == workload["workload"])?;
        cell["speedup"]["mid"].as_f64()
    };
    let workloads = list(&result["workloads"]);
    let least = workloads.iter().filter_map(|workload| {
        libraries.iter().filter_map(|library| over(workload, library)).min_by(f64::total_cmp)
    });
    least.collect()
}

/// A row per shape of the attention lab: time, rate and speed-up without and with a causal mask; the means below.
pub fn pairs(root: &Path) -> Result<String> {
    let mut lines = Vec::new();
    let mut means = Vec::new();
    for (name, title) in SIZES {
        let Some(result) = stored(root, name)? else { continue };
        if lines.is_empty() {
            lines.extend([
                format!(
                    "{}; times are medians of interleaved rounds, cold; the ratio is over the best library on that shape",
                    text(&result["device"])
                ),
                String::new(),
                "| shape | time | rate | over the best library | causal: time | rate | over the best library |"
                    .to_string(),
                "|---|--:|--:|--:|--:|--:|--:|".to_string(),
            ]);
        }
        let rows = result["times"].as_array().context("the result has no times")?;
        let named = |wanted: &str| rows.iter().find(|row| text(&row["workload"]) == wanted);
        for row in rows {
            let workload = text(&row["workload"]);
            if workload.contains("_causal") {
                continue;
            }
            // `b1h8s512d64_bf16` and `b1h8s512d64_causal_bf16`.
            let Some((shape, dtype)) = workload.split_once('_') else {
                bail!("workload {workload} of {name} names no type");
            };
            let masked = named(&format!("{shape}_causal_{dtype}"));
            let masked = masked.with_context(|| format!("{workload} has no causal twin"))?;
            lines.push(format!(
                "| {shape}, {dtype} | {} | {} |",
                cells(&result, row)?,
                cells(&result, masked)?
            ));
        }
        if let Some(mean) = stats::geomean(&speedups_on_a_gpu(&result)?) {
            means.push(format!("{mean:.2}× on {title}"));
        }
    }
    lines.extend([
        String::new(),
        format!("Over the best library, geometric means: {}.", means.join("; ")),
    ]);
    Ok(lines.join("\n"))
}

fn cells(result: &Value, row: &Value) -> Result<String> {
    let times = row["times"].as_array().context("no times")?;
    let own_s =
        times.first().and_then(|it| it["median_s"].as_f64()).context("the first has no time")?;
    let flops = row["flops"].as_f64().context("no operations")?;
    let over = over_best_library(result, row, times)
        .map_or_else(|| "–".to_string(), |(label, cell)| format!("{} {label}", ratio(&cell)));
    Ok(format!("{} | {:.0} TFLOP/s | {over}", time(own_s), flops / own_s / 1e12))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_best_library_on_a_cpu_is_the_one_that_is_hardest_to_beat() {
        let over = |library: &str, a: f64, b: f64| {
            let cell = |workload: &str, mid: f64| json!({ "workload": workload, "speedup": { "mid": mid } });
            json!({ "over": library, "workloads": [cell("a", a), cell("b", b)] })
        };
        let result = json!({
            "speedups": [over("rung", 0.1, 0.1), over("x", 2.0, 1.5), over("y", 1.2, 3.0)],
            "workloads": [{ "workload": "a" }, { "workload": "b" }],
        });
        let speedups = speedups_on_a_cpu(&result, &["x".to_string(), "y".to_string()]);
        assert_eq!(speedups, [1.2, 1.5]);
    }
}
