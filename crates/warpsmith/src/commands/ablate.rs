//! `warpsmith evolve --ablate`: every mode with the same budget, and whether it made a difference.

use std::path::Path;

use anyhow::{Context as _, Result};
use serde_json::{Value as Json, json};
use warpsmith_evidence::Store;
use warpsmith_model::{
    AblationArm, AblationDifference, AblationRecord, EvolutionMode, EvolveSettings, FORMAT_VERSION,
    RunSettings, SIGNIFICANT_P,
};

use super::{Context, evolve, with_campaign};
use crate::output::{self, DIM, Table, paint, result, say};

/// Runs every mode `repeats` times and compares. The last run's evidence and report hold the result.
pub fn run(context: &Context, lab: &Path, settings: &RunSettings, repeats: u32) -> Result<()> {
    let base = settings.evolve.clone().context("an ablation is an evolution")?;
    let empty = |mode| AblationArm {
        mode,
        runs: Vec::new(),
        calls: 0,
        correct: 0,
        speedups: Vec::new(),
        best_speedups: Vec::new(),
        tokens: 0,
        cost: 0.0,
    };
    let mut record = AblationRecord {
        format: FORMAT_VERSION,
        kernel: settings.kernel.clone().unwrap_or_default(),
        repeats,
        arms: EvolutionMode::ALL.map(empty).into(),
    };
    let mut report = None;
    // Modes take turns, so that a machine or a service that changes does so for all of them.
    for repeat in 0..repeats {
        for idx in 0..record.arms.len() {
            let mode = record.arms[idx].mode;
            say(format!("{} ({} of {repeats})", mode.name(), repeat + 1));
            let is_last = repeat + 1 == repeats && idx + 1 == record.arms.len();
            let settings = RunSettings {
                seed: settings.seed.wrapping_add(u64::from(repeat)),
                evolve: Some(EvolveSettings { mode, ..base.clone() }),
                ..settings.clone()
            };
            with_campaign(context, lab, settings, |campaign| {
                let evolved = evolve::evolve_only(campaign, evolve::SeedMay::NotBeWrong)?;
                let (best, _) = campaign.verify_evolved(&evolved)?;
                let speedup = campaign.speedup_over(&best, &evolved.accepted[0])?;
                let (arm, tally) = (&mut record.arms[idx], &evolved.tally);
                arm.runs.push(campaign.run.clone());
                arm.calls += tally.calls;
                arm.correct += tally.correct;
                if let Some(start_s) = tally.start_s {
                    arm.speedups.extend(tally.times_s.iter().map(|time_s| start_s / time_s));
                }
                arm.best_speedups.push(speedup);
                arm.tokens += tally.tokens();
                arm.cost += tally.cost;
                if is_last {
                    let document = serde_json::to_value(&record)?;
                    campaign.store.put_document(&campaign.run, Store::ABLATION, &document)?;
                }
                report = Some(super::report::write_last(campaign, None)?);
                Ok(())
            })?;
        }
    }
    let differences = record.differences();
    if context.json {
        let arms: Vec<Json> = record.arms.iter().map(arm_json).collect();
        let differences: Vec<Json> = differences.iter().map(difference_json).collect();
        output::json(&json!({
            "kernel": record.kernel,
            "repeats": repeats,
            "modes": arms,
            "differences": differences,
            "report": report,
        }))
    } else {
        show(&record.arms, &differences);
        if let Some(report) = report {
            result(format!("\nreport {}", report.display()));
        }
        Ok(())
    }
}

fn arm_json(arm: &AblationArm) -> Json {
    json!({
        "mode": arm.mode.name(),
        "runs": arm.runs,
        "calls": arm.calls,
        "correct": arm.correct,
        "validity": arm.validity(),
        "median_speedup": arm.median_speedup(),
        "best_speedup": arm.best_speedup(),
        "best_speedups": arm.best_speedups,
        "tokens": arm.tokens,
        "cost": arm.cost,
    })
}

fn difference_json(difference: &AblationDifference) -> Json {
    let is_significant = |p: Option<f64>| p.map(|p| p < SIGNIFICANT_P);
    json!({
        "modes": [difference.modes.0.name(), difference.modes.1.name()],
        "speed_p": difference.speed_p,
        "speed_differs": is_significant(difference.speed_p),
        "validity_p": difference.validity_p,
        "validity_differs": is_significant(difference.validity_p),
    })
}

fn show(arms: &[AblationArm], differences: &[AblationDifference]) {
    let headings = ["mode", "calls", "valid", "median speed-up", "best speed-up", "tokens", "cost"];
    let mut table = Table::new(&headings, &[1, 2, 3, 4, 5, 6]);
    let ratio =
        |value: Option<f64>| value.map_or_else(|| paint(DIM, "-"), |it| format!("{it:.2}x"));
    for arm in arms {
        table.row(vec![
            arm.mode.name().to_string(),
            arm.calls.to_string(),
            format!("{:.0} %", 100.0 * arm.validity()),
            ratio(arm.median_speedup()),
            ratio(arm.best_speedup()),
            arm.tokens.to_string(),
            format!("{:.4}", arm.cost),
        ]);
    }
    result(table.render());
    result("");
    let mut table = Table::new(&["modes", "speed", "validity"], &[]);
    let words = |p: Option<f64>| match p {
        None => "too few to tell".to_string(),
        Some(p) if p < SIGNIFICANT_P => format!("differ (p {p:.4})"),
        Some(p) => format!("no difference shown (p {p:.2})"),
    };
    for difference in differences {
        let (one, other) = difference.modes;
        table.row(vec![
            format!("{} and {}", one.name(), other.name()),
            words(difference.speed_p),
            words(difference.validity_p),
        ]);
    }
    result(table.render());
    result(
        "  The median is over everything correct, by ranked times; the best is over the seed, in \
         paired rounds, after the full gate.\n  p is corrected for the number of pairs. Candidates \
         of one evolution build on each other: with few repeats it is a hint.",
    );
}
