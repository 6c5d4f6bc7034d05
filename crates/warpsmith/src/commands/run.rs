//! `warpsmith run`: the whole job.

use std::path::PathBuf;

use anyhow::Result;
use clap::Args;
use warpsmith_model::{Goal, Objective, Params, RunSettings, Trial};

use super::replace::{Product, refuse_other};
use super::{Context, SearchArgs, summary, with_campaign};
use crate::campaign::{Campaign, ConfiguredKernel};
use crate::output::{json, result, say};

/// Do the whole job on a lab: prove, rank, tune, verify, compare, report
///
/// Loads the lab, proves its reference, measures what the machine can do, ranks configurations by
/// microbenchmark, tunes from the best of them, puts the winner through the full gate on every
/// workload, compares it with the baselines, and writes one self-contained HTML report.
#[derive(Debug, Args)]
pub struct RunArgs {
    /// Folder of the lab
    lab: PathBuf,
    #[command(flatten)]
    search: SearchArgs,
    /// Seconds of comparing the winner with the baselines, on each workload
    #[arg(long, default_value_t = 1.0, value_name = "SECONDS")]
    compare_time: f64,
    /// Where to write the report; by default beside the evidence. An earlier report is replaced, any
    /// other file is not
    #[arg(long, value_name = "FILE")]
    report: Option<PathBuf>,
}

pub fn run(context: &Context, arguments: RunArgs) -> Result<()> {
    if !(arguments.compare_time.is_finite() && arguments.compare_time > 0.0) {
        let given = arguments.compare_time;
        anyhow::bail!("--compare-time is {given}, but must be a positive number of seconds");
    }
    if let Some(path) = &arguments.report {
        refuse_other(path, Product::Report)?;
    }
    let settings = RunSettings {
        compare_s: arguments.compare_time,
        ..arguments.search.settings(Goal::Run, &arguments.lab)?
    };
    let summary = with_campaign(context, &arguments.lab, settings, |campaign| {
        whole_job(campaign, arguments.report)
    })?;
    show(context, &summary)
}

/// Prints the summary as a person or a program wants it.
pub fn show(context: &Context, summary: &summary::Summary) -> Result<()> {
    if context.json {
        json(&summary.to_json())
    } else {
        result(summary.render());
        Ok(())
    }
}

/// Everything, in order; also what `resume` does for such a run.
pub fn whole_job(campaign: &mut Campaign, report: Option<PathBuf>) -> Result<summary::Summary> {
    summary::announce(campaign);
    campaign.require_sanitizers()?;
    let chain = campaign.prove()?;
    summary::say_chain(&chain);
    let first_ceilings = campaign.ceilings()?;
    say(format!("  {:<9} {}", "machine", summary::ceiling_words(&first_ceilings)));
    let ladder = campaign.ladder()?;
    let kernel = campaign.kernel_to_tune(&ladder)?;
    let (winner, full) = search_and_verify(campaign, &kernel)?;
    say(format!("  {:<9} {} passes on every workload", "gate", winner.label()));
    let comparison = campaign.compare_winner(&winner)?;
    // Once more, hours or minutes later: the peak that results are held against should be the
    // best that the machine has shown.
    let ceilings = campaign.ceilings()?;
    let changed = summary::ceiling_change(&first_ceilings, &ceilings);
    if changed.is_some() {
        let words = summary::ceiling_words(&ceilings);
        say(format!("  {:<9} {words}", "machine, measured again:"));
    }
    let report = match campaign.settings.goal {
        // Much is still to be done.
        Goal::Evidence => super::report::write(campaign, report)?,
        _ => super::report::write_last(campaign, report)?,
    };
    let mut summary =
        summary::Summary::of(campaign, &winner, &full, Some(comparison), ceilings, Some(report))?;
    summary.doubt(changed);
    Ok(summary)
}

/// Seeds, tunes, re-measures and verifies; returns the winner with its full trial.
pub fn search_and_verify(
    campaign: &mut Campaign,
    kernel: &warpsmith_model::lab::Kernel,
) -> Result<(ConfiguredKernel, Trial)> {
    if kernel.tunables.is_empty() {
        let winner = campaign.winner(kernel, &Params::default());
        let finalists = crate::campaign::Finalists { ranked: vec![winner] };
        return campaign.verify(finalists);
    }
    // First, since a condition on a baseline that is not there ends the run.
    let stops = campaign.stops(kernel)?;
    let seeds = campaign.seeds(kernel)?;
    let trials = campaign.tune(kernel, seeds, &stops)?;
    let finalists = campaign.finalists(kernel, &trials)?;
    if campaign.settings.objective == Objective::Dispatch {
        campaign.verify_choices(kernel)?;
    }
    campaign.verify(finalists)
}
