//! `warpsmith micro`: rank configurations in seconds.

use std::path::PathBuf;

use anyhow::Result;
use clap::Args;
use warpsmith_model::{Goal, Trial, units};
use warpsmith_search::score;

use super::{Context, plain_settings, summary, with_campaign};
use crate::output::{BAD, Table, json, paint, result};

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
    let best_s = trials.first().and_then(|trial| score(trial).time_s());
    let mut table = Table::new(&["rank", "time", "vs best", "parameters"], &[0, 1, 2]);
    for (idx, trial) in trials.iter().take(top).enumerate() {
        let (time, ratio) = match (score(trial).time_s(), best_s) {
            (Some(time_s), Some(best_s)) => {
                (units::time(time_s), format!("{:.2}x", time_s / best_s))
            }
            _ => (paint(BAD, trial.outcome.verdict().name()), String::new()),
        };
        table.row(vec![(idx + 1).to_string(), time, ratio, trial.job.candidate.params.to_string()]);
    }
    result(table.render());
    result(format!("\n  {} configurations in run {run}", trials.len()));
    Ok(())
}
