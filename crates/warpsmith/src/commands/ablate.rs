//! `warpsmith evolve --ablate`: every mode with the same budget, and whether it made a difference.

use std::path::Path;

use anyhow::{Context as _, Result};
use serde_json::{Value as Json, json};
use warpsmith_model::significance::{fisher_p, holm, permutation_p};
use warpsmith_model::stats::{geomean, median};
use warpsmith_model::{EvolutionMode, EvolveSettings, RunSettings};

use super::{Context, evolve, with_campaign};
use crate::campaign::evolve::Tally;
use crate::output::{self, DIM, Table, paint, result, say};

/// A difference below this is called significant.
const SIGNIFICANT: f64 = 0.05;

/// What one mode came to, over all of its repeats.
struct Arm {
    mode: EvolutionMode,
    runs: Vec<String>,
    /// One per repeat.
    tallies: Vec<Tally>,
    /// One per repeat: of the best that passed the full gate over the seed, in paired rounds.
    confirmed: Vec<f64>,
}

impl Arm {
    fn sum(&self, part: impl Fn(&Tally) -> u32) -> u32 {
        self.tallies.iter().map(part).sum()
    }

    /// The speed-ups of everything that was correct, by ranked times.
    fn speedups(&self) -> Vec<f64> {
        let of = |tally: &Tally| {
            tally.times_s.iter().map(|time_s| tally.seed_s / time_s).collect::<Vec<_>>()
        };
        self.tallies.iter().flat_map(of).collect()
    }

    fn best(&self) -> f64 {
        self.confirmed.iter().copied().fold(1.0, f64::max)
    }

    fn tokens(&self) -> u64 {
        self.tallies.iter().map(Tally::tokens).sum()
    }

    fn cost(&self) -> f64 {
        self.tallies.iter().map(|tally| tally.cost).sum()
    }
}

/// A difference between two modes.
struct Difference {
    modes: (EvolutionMode, EvolutionMode),
    speed_p: Option<f64>,
    validity_p: Option<f64>,
}

/// Runs every mode `repeats` times and compares.
pub fn run(context: &Context, lab: &Path, settings: &RunSettings, repeats: u32) -> Result<()> {
    let base = settings.evolve.clone().context("an ablation is an evolution")?;
    let mut arms: Vec<Arm> = EvolutionMode::ALL
        .map(|mode| Arm { mode, runs: Vec::new(), tallies: Vec::new(), confirmed: Vec::new() })
        .into();
    // Modes take turns, so that a machine or a service that changes does so for all of them.
    for repeat in 0..repeats {
        for arm in &mut arms {
            say(format!("{} ({} of {repeats})", arm.mode.name(), repeat + 1));
            let settings = RunSettings {
                seed: settings.seed.wrapping_add(u64::from(repeat)),
                evolve: Some(EvolveSettings { mode: arm.mode, ..base.clone() }),
                ..settings.clone()
            };
            with_campaign(context, lab, settings, |campaign| {
                let evolved = evolve::evolve_only(campaign)?;
                let (best, _) = campaign.verify_evolved(&evolved)?;
                let confirmed = campaign.speedup_over(&best, &evolved.accepted[0])?;
                super::report::write(campaign, None)?;
                arm.runs.push(campaign.run.to_string());
                arm.tallies.push(evolved.tally);
                arm.confirmed.push(confirmed);
                Ok(())
            })?;
        }
    }
    let differences = differences(&arms);
    if context.json {
        let arms: Vec<Json> = arms.iter().map(arm_json).collect();
        let differences: Vec<Json> = differences.iter().map(difference_json).collect();
        output::json(&json!({ "repeats": repeats, "modes": arms, "differences": differences }))
    } else {
        show(&arms, &differences);
        Ok(())
    }
}

/// Tests every pair of modes, corrected for the number of pairs.
fn differences(arms: &[Arm]) -> Vec<Difference> {
    let mut pairs = Vec::new();
    for (idx, one) in arms.iter().enumerate() {
        pairs.extend(arms[idx + 1..].iter().map(|other| (one, other)));
    }
    let speed: Vec<_> =
        pairs.iter().map(|(a, b)| permutation_p(&a.speedups(), &b.speedups())).collect();
    let correct = |arm: &Arm| (arm.sum(|it| it.correct), arm.sum(|it| it.calls));
    let validity: Vec<_> = pairs
        .iter()
        .map(|(a, b)| {
            let ((a, n_a), (b, n_b)) = (correct(a), correct(b));
            fisher_p(a, n_a, b, n_b)
        })
        .collect();
    let (speed, validity) = (holm(&speed), holm(&validity));
    let of = |(idx, (a, b)): (usize, &(&Arm, &Arm))| Difference {
        modes: (a.mode, b.mode),
        speed_p: speed[idx],
        validity_p: validity[idx],
    };
    pairs.iter().enumerate().map(of).collect()
}

fn arm_json(arm: &Arm) -> Json {
    json!({
        "mode": arm.mode.name(),
        "runs": arm.runs,
        "calls": arm.sum(|it| it.calls),
        "parsed": arm.sum(|it| it.parsed),
        "compiled": arm.sum(|it| it.compiled),
        "correct": arm.sum(|it| it.correct),
        "faster": arm.sum(|it| it.faster),
        "validity": share(arm),
        "median_speedup": median(&arm.speedups()),
        "best_speedups": arm.confirmed,
        "best_speedup": arm.best(),
        "mean_best_speedup": geomean(&arm.confirmed),
        "tokens": arm.tokens(),
        "cost": arm.cost(),
    })
}

fn difference_json(difference: &Difference) -> Json {
    let is_significant = |p: Option<f64>| p.map(|p| p < SIGNIFICANT);
    json!({
        "modes": [difference.modes.0.name(), difference.modes.1.name()],
        "speed_p": difference.speed_p,
        "speed_differs": is_significant(difference.speed_p),
        "validity_p": difference.validity_p,
        "validity_differs": is_significant(difference.validity_p),
    })
}

fn share(arm: &Arm) -> f64 {
    let calls = arm.sum(|it| it.calls);
    if calls == 0 { 0.0 } else { f64::from(arm.sum(|it| it.correct)) / f64::from(calls) }
}

fn show(arms: &[Arm], differences: &[Difference]) {
    let headings =
        ["mode", "calls", "valid", "median speed-up", "best speed-up", "tokens", "cost", "runs"];
    let mut table = Table::new(&headings, &[1, 2, 3, 4, 5, 6]);
    for arm in arms {
        let median = median(&arm.speedups());
        table.row(vec![
            arm.mode.name().to_string(),
            arm.sum(|it| it.calls).to_string(),
            format!("{:.0} %", 100.0 * share(arm)),
            median.map_or_else(|| paint(DIM, "-"), |it| format!("{it:.2}x")),
            format!("{:.2}x", arm.best()),
            arm.tokens().to_string(),
            format!("{:.4}", arm.cost()),
            arm.runs.join(" "),
        ]);
    }
    result(table.render());
    result("");
    let mut table = Table::new(&["modes", "speed", "validity"], &[]);
    let words = |p: Option<f64>| match p {
        None => "too few to tell".to_string(),
        Some(p) if p < SIGNIFICANT => format!("differ (p {p:.4})"),
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
