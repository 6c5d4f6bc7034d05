//! `warpsmith micro`: rank configurations in seconds.

use std::path::PathBuf;

use anyhow::Result;
use clap::Args;
use warpsmith_model::{Goal, Trial, units};
use warpsmith_search::score;

use super::{Context, plain_settings, summary, with_campaign};
use crate::output::{BAD, BOLD, DIM, Table, json, paint, result};

/// Rank configurations of a kernel by microbenchmark
///
/// Runs one wave of blocks of every configuration on the cycle counter and checks what it wrote.
/// The best seed a search (`warpsmith tune --seed-from micro`).
#[derive(Debug, Args)]
pub struct MicroArgs {
    /// Folder of the lab
    lab: PathBuf,
    /// Kernel to rank; by default the rung that ranks best with its author's parameters
    #[arg(long, value_name = "NAME")]
    kernel: Option<String>,
    /// Configurations at most; a larger space is sampled
    #[arg(long, default_value_t = 64, value_name = "N")]
    limit: u32,
    /// Lines to print
    #[arg(long, default_value_t = 15, value_name = "K")]
    top: usize,
    /// Seed of the sample; by default from the system's randomness, and recorded
    #[arg(long, value_name = "N")]
    seed: Option<u64>,
    /// Measure again what earlier runs measured in the same environment
    #[arg(long)]
    fresh: bool,
}

pub fn run(context: &Context, arguments: MicroArgs) -> Result<()> {
    let mut settings = plain_settings(Goal::Micro, &arguments.lab)?;
    settings.kernel = arguments.kernel;
    settings.micro_limit = arguments.limit.max(1);
    settings.seed = arguments.seed.unwrap_or(settings.seed);
    settings.reuse = !arguments.fresh;
    let (run, trials) = with_campaign(context, &arguments.lab, settings, |campaign| {
        let trials = steps(campaign)?;
        Ok((campaign.run.clone(), trials))
    })?;
    show(context, &run.0, trials, arguments.top)
}

/// Proves the lab and ranks; also what `resume` does for such a run.
pub fn steps(campaign: &mut crate::campaign::Campaign) -> Result<Vec<Trial>> {
    summary::announce(campaign);
    campaign.prove()?;
    let kernel = match campaign.settings.kernel.clone() {
        Some(name) => campaign.kernel(&name)?,
        None => {
            let ladder = campaign.ladder()?;
            campaign.kernel_to_tune(&ladder)?
        }
    };
    campaign.micro(&kernel)
}

/// Prints the ranking.
pub fn show(context: &Context, run: &str, mut trials: Vec<Trial>, top: usize) -> Result<()> {
    trials.sort_by_key(score);
    if context.json {
        let rows: Vec<serde_json::Value> = trials
            .iter()
            .map(|trial| {
                serde_json::json!({
                    "trial": trial.id,
                    "kernel": trial.job.candidate.kernel,
                    "params": trial.job.candidate.params,
                    "verdict": trial.outcome.verdict(),
                    "time_s": score(trial).time_s(),
                })
            })
            .collect();
        return json(&serde_json::json!({ "run": run, "micro": rows }));
    }
    result(render(&trials, top));
    result(format!("\n  {} configurations in run {run}", trials.len()));
    Ok(())
}

/// Renders a ranking for people: what was measured, and the first of it.
fn render(trials: &[Trial], top: usize) -> String {
    let mut lines = Vec::new();
    if let Some(trial) = trials.first() {
        let job = &trial.job;
        lines.push(format!(
            "{} {} on {}",
            paint(BOLD, "micro"),
            job.candidate.kernel,
            job.workloads.join(", ")
        ));
        let words = "time: one wave of blocks, scaled to the whole launch; to rank by alone";
        lines.push(format!("  {}", paint(DIM, words)));
    }
    let best_s = trials.first().and_then(|trial| score(trial).time_s());
    let mut table = Table::new(&["rank", "time", "as fast as the best", "parameters"], &[0, 1, 2]);
    for (idx, trial) in trials.iter().take(top).enumerate() {
        let (time, ratio) = match (score(trial).time_s(), best_s) {
            (Some(time_s), Some(best_s)) => (units::time(time_s), units::ratio(best_s / time_s)),
            _ => (paint(BAD, trial.outcome.verdict().name()), String::new()),
        };
        table.row(vec![(idx + 1).to_string(), time, ratio, trial.job.candidate.params.to_string()]);
    }
    lines.push(table.render());
    lines.join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::campaign::testing::{Conditions, trial};

    /// "vs best 1.03x" stood beside what was slower, and nothing said of what it was.
    #[test]
    fn a_ranking_says_of_what_it_is_and_reads_forwards() {
        let on = |tile: i64, time_s: f64| {
            trial(
                tile,
                time_s,
                time_s,
                Conditions { workloads: &["small"], ..Conditions::default() },
            )
        };
        let text = render(&[on(1, 1e-3), on(2, 2e-3)], 5);
        let plain = anstream::adapter::strip_str(&text).to_string();
        assert!(plain.starts_with("micro 10_tile on small\n  time: one wave of blocks"), "{plain}");
        let rows: Vec<Vec<&str>> =
            plain.lines().map(|line| line.split_whitespace().collect()).collect();
        let ratios: Vec<&str> = rows[3..].iter().map(|row| row[3]).collect();
        assert_eq!(ratios, ["1.00x", "0.50x"], "{plain}");
    }
}
