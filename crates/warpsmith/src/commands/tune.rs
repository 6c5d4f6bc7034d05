//! `warpsmith tune`: search the parameters of one kernel.

use std::path::PathBuf;

use anyhow::Result;
use clap::Args;
use warpsmith_model::{ComparisonPurpose, Goal};

use super::{Context, SearchArgs, run, summary, with_campaign};
use crate::campaign::Campaign;

/// Search the parameters of a kernel and verify the winner
///
/// Like `run`, for one kernel and without the comparison with baselines.
#[derive(Debug, Args)]
pub struct TuneArgs {
    /// Folder of the lab
    lab: PathBuf,
    #[command(flatten)]
    search: SearchArgs,
}

pub fn run(context: &Context, arguments: TuneArgs) -> Result<()> {
    let settings = arguments.search.settings(Goal::Tune, &arguments.lab)?;
    let summary = with_campaign(context, &arguments.lab, settings, steps)?;
    run::show(context, &summary)
}

/// Proves, searches and verifies; also what `resume` does for such a run.
pub fn steps(campaign: &mut Campaign) -> Result<summary::Summary> {
    summary::announce(campaign);
    campaign.require_sanitizers()?;
    let kernel = match campaign.settings.kernel.clone() {
        Some(name) => {
            let kernel = campaign.kernel(&name)?;
            campaign.prove_beside_compiling(&kernel)?;
            campaign.ceilings()?;
            kernel
        }
        None => {
            campaign.prove()?;
            campaign.ceilings()?;
            let ladder = campaign.ladder()?;
            campaign.kernel_to_tune(&ladder)?
        }
    };
    let (winner, full) = run::search_and_verify(campaign, &kernel)?;
    let ceilings = campaign.ceilings()?;
    let comparison = campaign.stored_comparison(ComparisonPurpose::Finalists)?;
    summary::Summary::of(campaign, &winner, &full, comparison, ceilings, None)
}
