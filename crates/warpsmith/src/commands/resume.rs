//! `warpsmith resume`: go on where a run stopped.

use anyhow::{Result, bail};
use clap::Args;
use warpsmith_model::Goal;

use super::{Context, evidence, evolve, micro, run, to_the_end, tune};
use crate::campaign::Campaign;
use crate::interrupt::Interrupt;
use crate::output::say;

/// Go on where a run was stopped or killed
///
/// Nothing that was recorded is done again. The lab must not have changed, and the run must not go on in
/// another process. Runs of `run`, `tune`, `micro`, `evolve` and `evidence` can be resumed; the other commands
/// are quicker to start again.
#[derive(Debug, Args)]
pub struct ResumeArgs {
    /// Run, by name or unique beginning; `latest` is the newest that can be resumed
    #[arg(default_value = "latest")]
    run: String,
}

pub fn run(context: &Context, arguments: ResumeArgs) -> Result<()> {
    let interrupt = Interrupt::listen()?;
    let campaign = Campaign::resume(&context.project, &arguments.run, interrupt)?;
    say(format!("resuming {} with {} stored trials", campaign.run, campaign.n_stored()));
    match campaign.settings.goal {
        Goal::Run => {
            let summary = to_the_end(campaign, |campaign| run::whole_job(campaign, None))?;
            run::show(context, &summary)
        }
        Goal::Tune => {
            let summary = to_the_end(campaign, tune::steps)?;
            run::show(context, &summary)
        }
        Goal::Evolve => {
            let steps = |campaign: &mut Campaign| evolve::steps(campaign, None);
            let (summary, evolved) = to_the_end(campaign, steps)?;
            evolve::show(context, &summary, &evolved)
        }
        Goal::Micro => {
            let run = campaign.run.clone();
            let trials = to_the_end(campaign, micro::steps)?;
            micro::show(context, &run.0, trials, 15)
        }
        Goal::Evidence => {
            let bundled = to_the_end(campaign, evidence::steps)?;
            evidence::show(context, &bundled)
        }
        goal @ (Goal::Check | Goal::Compare | Goal::Profile | Goal::Mcp) => {
            bail!("a `{}` run cannot be resumed, and was", goal.name())
        }
    }
}
