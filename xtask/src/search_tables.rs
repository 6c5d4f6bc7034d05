//! The tables of docs/search.md that hold Warpsmith against other tuners; `bench/search.py` writes what they
//! are rendered from.

use anyhow::{Context, Result};
use serde_json::Value;

use crate::tables::{number, text, time};

/// A row per space: what is in it and how long each tool takes to build it.
pub fn spaces(result: &Value) -> Result<String> {
    let mut lines = vec![
        "| space | combinations | valid | Warpsmith | Kernel Tuner | pyATF | times faster than the better | memory, Kernel Tuner's |"
            .to_string(),
        "|---|--:|--:|--:|--:|--:|--:|--:|".to_string(),
    ];
    for row in rows(result)? {
        // Both are at least the processor time of the construction, which nobody measures alone.
        let own = number(&row["warpsmith_build_s"])?.min(number(&row["warpsmith_process_cpu_s"])?);
        let tuner = number(&row["kernel_tuner_cpu_s"])?;
        let atf = row["pyatf_cpu_s"].as_f64();
        let better = atf.map_or(tuner, |atf| atf.min(tuner));
        let atf = match (atf, row["pyatf_gave_up_s"].as_f64()) {
            (Some(seconds), _) => time(seconds),
            (None, Some(limit)) => format!("> {limit:.0} s"),
            (None, None) => "failed".to_string(),
        };
        let megabytes =
            |field: &str| Ok::<_, anyhow::Error>(format!("{:.0} MB", number(&row[field])? / 1e6));
        lines.push(format!(
            "| {} | {} | {} | {} | {} | {atf} | {:.0} | {}, {} |",
            text(&row["space"]),
            text(&row["cartesian"]),
            text(&row["valid"]),
            time(own),
            time(tuner),
            better / own,
            megabytes("warpsmith_peak_rss_bytes")?,
            megabytes("kernel_tuner_peak_rss_bytes")?,
        ));
    }
    Ok(lines.join("\n"))
}

/// A row per tuner and strategy: the mean over the recorded spaces after each budget.
pub fn tuners(result: &Value) -> Result<String> {
    let budgets: Vec<String> =
        result["budgets"].as_array().context("no budgets")?.iter().map(text).collect();
    let mut head = "| tuner | strategy |".to_string();
    head.extend(budgets.iter().map(|budget| format!(" {budget} |")));
    head += " processor time of a search |";
    let mut lines = vec![head, format!("|---|---|{}--:|", "--:|".repeat(budgets.len()))];
    let mut seen: Vec<(String, String)> = Vec::new();
    for row in rows(result)? {
        let names = (text(&row["tuner"]), text(&row["strategy"]));
        if !seen.contains(&names) {
            seen.push(names);
        }
    }
    for (tuner, strategy) in seen {
        let own: Vec<&Value> = rows(result)?
            .iter()
            .filter(|row| text(&row["tuner"]) == tuner && text(&row["strategy"]) == strategy)
            .collect();
        let mean = |value: &dyn Fn(&Value) -> Result<f64>| {
            let all = own.iter().map(|row| value(row)).collect::<Result<Vec<f64>>>()?;
            Ok::<_, anyhow::Error>(all.iter().sum::<f64>() / all.len() as f64)
        };
        let mut line = format!("| {tuner} | {strategy} |");
        for budget in &budgets {
            line += &format!(" {:.3} |", mean(&|row| number(&row["means"][budget]))?);
        }
        let seconds = match own.iter().all(|row| row["cpu_s_per_search"].is_number()) {
            true => time(mean(&|row| number(&row["cpu_s_per_search"]))?),
            false => String::new(),
        };
        lines.push(format!("{line} {seconds} |"));
    }
    Ok(lines.join("\n"))
}

/// Rows per round of tuning a real kernel with both.
pub fn kernel(result: &Value) -> Result<String> {
    let mut lines = vec![
        format!(
            "`{}` on {}: {} configurations, {} evaluations at most, one compiler.",
            text(&result["kernel"]),
            text(&result["workload"]),
            text(&result["configurations"]),
            text(&result["budget"])
        ),
        String::new(),
        "| round | tuner | evaluations | from nothing to a winner | its search alone | first within 2 % of its best | speed-up of its winner over Kernel Tuner's |"
            .to_string(),
        "|--:|---|--:|--:|--:|--:|--:|".to_string(),
    ];
    let rounds = result["rounds"].as_array().context("the result has no rounds")?;
    for (idx, round) in rounds.iter().enumerate() {
        let own = round["warpsmith"].as_array().context("a round has no searches of ours")?;
        for search in own.iter().chain([&round["kernel_tuner"]]) {
            let name = match search.get("until") {
                None => "Kernel Tuner".to_string(),
                Some(_) => own_name(search),
            };
            let speedup = search.get("speedup").map_or(Ok(String::new()), ratio)?;
            let known = |field: &str| search[field].as_f64().map_or_else(String::new, time);
            lines.push(format!(
                "| {} | {name} | {} | {} | {} | {} | {speedup} |",
                idx + 1,
                text(&search["evaluations"]),
                time(number(&search["wall_s"])?),
                known("searched_s"),
                known("settled_s"),
            ));
        }
    }
    lines.extend(
        ["", "| | times faster than Kernel Tuner, by round | median |", "|---|---|--:|"]
            .map(String::from),
    );
    for idx in
        0..rounds.first().map_or(0, |round| round["warpsmith"].as_array().map_or(0, Vec::len))
    {
        let name = own_name(&rounds[0]["warpsmith"][idx]);
        let ratio = |round: &Value| {
            Ok(number(&round["kernel_tuner"]["wall_s"])?
                / number(&round["warpsmith"][idx]["wall_s"])?)
        };
        let mut ratios: Vec<f64> = rounds.iter().map(ratio).collect::<Result<_>>()?;
        let by_round: Vec<String> = ratios.iter().map(|ratio| format!("{ratio:.2}")).collect();
        ratios.sort_by(f64::total_cmp);
        let middle = (ratios[(ratios.len() - 1) / 2] + ratios[ratios.len() / 2]) / 2.0;
        lines.push(format!("| {name} | {} | {middle:.2} |", by_round.join(", ")));
    }
    Ok(lines.join("\n"))
}

/// What one of our searches is called.
fn own_name(search: &Value) -> String {
    let until = search["until"].as_str().map(|until| format!(", `--until {until}`"));
    format!("Warpsmith{}", until.unwrap_or_default())
}

/// A row per condition: evaluations and quality where it ends searches, the means over the spaces and each.
pub fn endings(result: &Value) -> Result<String> {
    let endings = result["endings"].as_array().context("the result has no endings")?;
    let distinct = |field: &str| {
        let mut values: Vec<String> = Vec::new();
        for row in endings {
            if !values.contains(&text(&row[field])) {
                values.push(text(&row[field]));
            }
        }
        values
    };
    let caches = distinct("cache");
    let mut head = "| ends with | evaluations, mean | quality, mean |".to_string();
    head.extend(caches.iter().map(|cache| format!(" {cache} |")));
    let mut lines = vec![head, format!("|---|--:|--:|{}", "--:|".repeat(caches.len()))];
    for until in distinct("until") {
        let own: Vec<&Value> = endings.iter().filter(|row| text(&row["until"]) == until).collect();
        let mean = |field: &str| {
            let sum: f64 = own.iter().map(|row| number(&row[field])).sum::<Result<f64>>()?;
            Ok::<f64, anyhow::Error>(sum / own.len() as f64)
        };
        let mut line =
            format!("| `{until}` | {:.0} | {:.3} |", mean("evaluations")?, mean("mean")?);
        for row in own {
            line += &format!(
                " {:.3} after {:.0} |",
                number(&row["mean"])?,
                number(&row["evaluations"])?
            );
        }
        lines.push(line);
    }
    Ok(lines.join("\n"))
}

fn ratio(speedup: &Value) -> Result<String> {
    if speedup["same"].as_bool() == Some(true) {
        return Ok("the same".to_string());
    }
    let [mid, low, high] = [&speedup["mid"], &speedup["low"], &speedup["high"]].map(number);
    Ok(format!("{:.2} [{:.2}, {:.2}]", mid?, low?, high?))
}

fn rows(result: &Value) -> Result<&Vec<Value>> {
    result["rows"].as_array().context("the result has no rows")
}
