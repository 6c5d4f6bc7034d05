//! What a profiler counted of several kernels, side by side.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result};
use serde_json::{Value, json};

use crate::tables::text;

/// Collects the numbered profiles that `tests/gpu/measure.sh` left in a folder; none where it left none.
pub fn collect(folder: &Path) -> Result<Option<Value>> {
    let mut rows = Vec::new();
    for number in 1.. {
        let path = folder.join(format!("profile-{number}.json"));
        if !path.exists() {
            break;
        }
        let content =
            fs::read_to_string(&path).with_context(|| format!("cannot read {}", path.display()))?;
        let profile: Value = serde_json::from_str(&content)
            .with_context(|| format!("{} is not JSON", path.display()))?;
        let record = &profile["record"];
        let workloads = record["workloads"].as_array().context("a profile has no workloads")?;
        for workload in workloads {
            rows.push(json!({
                "workload": workload["workload"],
                "kernel": record["kernel"],
                "params": record["params"],
                "counters": workload["launches"][0]["counters"],
            }));
        }
    }
    Ok((!rows.is_empty()).then(|| json!({ "rows": rows })))
}

/// A row per workload and kernel: how busy the units were, and what warps waited for most.
pub fn table(result: &Value) -> Result<String> {
    let rows = result["rows"].as_array().context("the result has no rows")?;
    let mut lines = vec![
        "| workload | kernel | matrix units | special functions | issue slots | warps there \
         | multiprocessors with a block | waits, the largest |"
            .to_string(),
        "|---|---|--:|--:|--:|--:|--:|---|".to_string(),
    ];
    for row in rows {
        let counters = &row["counters"];
        let share = |name: &str| {
            let share = counters[name].as_f64();
            share.map_or_else(|| "–".to_string(), |share| format!("{:.0} %", 100.0 * share))
        };
        lines.push(format!(
            "| {} | {} | {} | {} | {} | {} | {} | {} |",
            text(&row["workload"]),
            text(&row["kernel"]),
            share("tensor_active"),
            share("xu_active"),
            share("issue_active"),
            share("occupancy"),
            share("sm_active"),
            waits(&counters["stalls"]),
        ));
    }
    Ok(lines.join("\n"))
}

/// The three largest reasons for which warps waited, as shares of all that they waited for.
fn waits(stalls: &Value) -> String {
    let Some(stalls) = stalls.as_object() else { return "–".to_string() };
    // These two are no waiting.
    let waited = |name: &str| !["selected", "not_selected"].contains(&name);
    let mut reasons: Vec<(&str, f64)> = stalls
        .iter()
        .filter(|(name, _)| waited(name))
        .filter_map(|(name, warps)| Some((name.as_str(), warps.as_f64()?)))
        .collect();
    let all: f64 = reasons.iter().map(|(_, warps)| warps).sum();
    if all == 0.0 {
        return "–".to_string();
    }
    reasons.sort_by(|a, b| b.1.total_cmp(&a.1));
    let words = reasons
        .iter()
        .take(3)
        .map(|(name, warps)| format!("{} {:.0} %", name.replace('_', " "), 100.0 * warps / all));
    words.collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_shows_shares_and_the_largest_waits_without_those_that_are_none() {
        let result = json!({ "rows": [{
            "workload": "w", "kernel": "k", "params": {},
            "counters": {
                "tensor_active": 0.25, "xu_active": 0.5, "issue_active": null, "occupancy": 0.125,
                "sm_active": 0.97,
                "stalls": { "selected": 9.0, "gmma": 3.0, "barrier": 1.0, "long_scoreboard": 0.0 },
            },
        }]});
        let table = table(&result).expect("the rows are complete");
        let row = table.lines().last().expect("there is a row");
        assert_eq!(
            row,
            "| w | k | 25 % | 50 % | – | 12 % | 97 % | gmma 75 %, barrier 25 %, long \
             scoreboard 0 % |"
        );
    }

    #[test]
    fn without_counters_a_row_says_so() {
        let result = json!({ "rows": [{ "workload": "w", "kernel": "k", "counters": null }]});
        let table = table(&result).expect("the rows are complete");
        assert!(table.ends_with("| w | k | – | – | – | – | – | – |"), "{table}");
    }
}
