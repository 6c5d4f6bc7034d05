//! `warpsmith evolve`: let language models rewrite a kernel.

use std::path::PathBuf;

use anyhow::{Result, bail};
use clap::Args;
use warpsmith_model::lab::TargetKind;
use warpsmith_model::{EvolutionMode, EvolveSettings, Goal, InsightFrom, RunSettings};

use super::{Context, ablate, plain_settings, seed_or_random, summary, with_campaign};
use crate::campaign::evolve::{Evolved, EvolvedSummary, Replies, evolve};
use crate::campaign::{Campaign, passed};
use crate::interrupt::Interrupt;
use crate::labdir;
use crate::llm::{self, Panel};
use crate::output::{Progress, json, result, say};

/// Let language models rewrite a kernel, on the same gate and clock as everything else
///
/// Asks models for new versions of a kernel's source, feeds back what failed and what limits the
/// best, tunes what a source declares, and accepts a new best only when it is faster in interleaved
/// rounds. Every prompt and reply is evidence; `warpsmith replay` repeats an evolution without a
/// model. docs/evolve.md explains the configuration.
#[derive(Debug, Args)]
pub struct EvolveArgs {
    /// Folder of the lab
    lab: PathBuf,
    /// Kernel to start from
    #[arg(long, value_name = "NAME")]
    kernel: String,
    /// What goes into prompts: free, insight, full or best-of-n
    #[arg(long, default_value = "full", value_name = "MODE")]
    mode: EvolutionMode,
    /// Calls of a model at most; each is a trial, whatever comes of it
    #[arg(long, default_value_t = 45, value_name = "N")]
    trials: u32,
    /// Tokens at most, in and out together; by default without a limit
    #[arg(long, value_name = "N")]
    tokens: Option<u64>,
    /// Money at most, in the currency of the configured prices; by default without a limit
    #[arg(long, value_name = "AMOUNT")]
    money: Option<f64>,
    /// Seconds at most, models and evaluation together
    #[arg(long, default_value_t = 3600.0, value_name = "SECONDS")]
    time: f64,
    /// Configuration of the models
    #[arg(long, default_value = "warpsmith-models.toml", value_name = "FILE")]
    models: PathBuf,
    /// Seed of every decision; by default from the system's randomness, and recorded
    #[arg(long, value_name = "N")]
    seed: Option<u64>,
    /// Further configurations to try of each new source that has tunables
    #[arg(long, default_value_t = 6, value_name = "N")]
    tune: u32,
    /// Keep failures out of prompts, as the published method does
    #[arg(long)]
    no_feedback: bool,
    /// Keep the profiler's counters out of prompts on CUDA; the compiler's report stays
    #[arg(long)]
    no_counters: bool,
    /// Seconds that a batch of launches of a candidate may take; 20 by default
    #[arg(long, value_name = "SECONDS")]
    deadline: Option<f64>,
    /// Workload that matters; by default all of the lab's (repeatable)
    #[arg(long, value_name = "NAME")]
    workload: Vec<String>,
    /// Run every mode with the same budget and compare them
    #[arg(long)]
    ablate: bool,
    /// Evolutions of each mode in an ablation
    #[arg(long, default_value_t = 1, value_name = "N", requires = "ablate")]
    repeats: u32,
    /// Folder for the winner's source; by default beside the evidence
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// Leave memcheck, racecheck and initcheck out of the winner's gate on CUDA; the evidence says so
    #[arg(long)]
    no_sanitizer: bool,
}

pub fn run(context: &Context, arguments: EvolveArgs) -> Result<()> {
    let lab = labdir::load(&labdir::for_target(&arguments.lab, context.target)?)?.lab;
    let settings = settings(&arguments, lab.target)?;
    if arguments.ablate {
        return ablate::run(context, &arguments.lab, &settings, arguments.repeats);
    }
    let out = arguments.out.clone();
    let (summary, evolved) =
        with_campaign(context, &arguments.lab, settings, |campaign| steps(campaign, out))?;
    show(context, &summary, &evolved)
}

fn settings(arguments: &EvolveArgs, target: TargetKind) -> Result<RunSettings> {
    if arguments.trials == 0 || arguments.tokens == Some(0) || arguments.repeats == 0 {
        bail!("--trials, --tokens and --repeats must be at least 1");
    }
    for (flag, value) in [
        ("--time", Some(arguments.time)),
        ("--money", arguments.money),
        ("--deadline", arguments.deadline),
    ] {
        if let Some(value) = value.filter(|value| !(value.is_finite() && *value > 0.0)) {
            bail!("{flag} is {value}, but must be a positive number");
        }
    }
    // Fails before any work on a configuration or a key that is not there.
    let models = llm::read(&arguments.models)?;
    let panel = Panel::load(&arguments.models, &Interrupt::default())?;
    if arguments.money.is_some() && !panel.has_prices() {
        bail!(
            "--money cannot be kept: no model in {} has a price\nhint: set `price_in` and \
             `price_out`, or limit --tokens",
            arguments.models.display()
        );
    }
    Ok(RunSettings {
        kernel: Some(arguments.kernel.clone()),
        strategy: "evolutionary".to_string(),
        budget_trials: arguments.trials,
        budget_s: arguments.time,
        seed: seed_or_random(arguments.seed)?,
        launch_deadline_s: arguments.deadline,
        workloads: arguments.workload.clone(),
        sanitize: !arguments.no_sanitizer,
        evolve: Some(EvolveSettings {
            mode: arguments.mode,
            tokens: arguments.tokens,
            money: arguments.money,
            tune_trials: arguments.tune,
            feedback: !arguments.no_feedback,
            models: models.choices(),
            policy: models.policy,
            models_file: std::path::absolute(&arguments.models)?,
            insight_from: match (target, arguments.no_counters) {
                (TargetKind::Cpu, _) => InsightFrom::Times,
                (TargetKind::Cuda, true) => InsightFrom::Code,
                (TargetKind::Cuda, false) => InsightFrom::Counters,
            },
        }),
        ..plain_settings(Goal::Evolve, &arguments.lab)?
    })
}

/// Proves, evolves, verifies, compares and reports; also what `resume` does for such a run.
pub fn steps(
    campaign: &mut Campaign,
    out: Option<PathBuf>,
) -> Result<(summary::Summary, EvolvedSummary)> {
    let evolved = evolve_only(campaign, SeedMay::BeWrong)?;
    let (best, full) = campaign.verify_evolved(&evolved)?;
    say(format!("  {:<9} {} passes on every workload", "gate", best.winner.label()));
    let seed = &evolved.accepted[0];
    let comparison = campaign.compare_evolved(&best, seed)?;
    let ceilings = campaign.ceilings()?;
    let source = campaign.write_evolved(&best.winner.kernel, out)?;
    let report = super::report::write_last(campaign, None)?;
    let summary = summary::Summary::of(
        campaign,
        &best.winner,
        &full,
        Some(comparison),
        ceilings,
        Some(report),
    )?;
    let is_evolved = best.is_evolved();
    let evolved = EvolvedSummary { tally: evolved.tally, stop: evolved.stop, is_evolved, source };
    Ok((summary, evolved))
}

/// What is asked of the kernel that an evolution starts from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SeedMay {
    /// A signature without contents will do.
    BeWrong,
    /// Speed-ups are counted from it.
    NotBeWrong,
}

/// Proves and evolves, without the verification of the best.
pub fn evolve_only(campaign: &mut Campaign, seed: SeedMay) -> Result<Evolved> {
    summary::announce(campaign);
    campaign.require_sanitizers()?;
    let chain = campaign.prove()?;
    summary::say_chain(&chain);
    let start = campaign.begin_evolution()?;
    if !passed(&start.seed_trial) {
        let (kernel, why) = (&start.kernel.name, start.seed_trial.outcome.describe());
        if seed == SeedMay::NotBeWrong {
            bail!(
                "the kernel `{kernel}` does not pass with its author's parameters, so there is nothing \
                 that modes can be compared by: {why}\nhint: `warpsmith evolve` without --ablate starts \
                 from it all the same; its winner can then be the seed of an ablation"
            );
        }
        say(format!("  `{kernel}` is not correct ({why}); the first correct source is the start"));
    }
    let panel = Panel::load(&start.settings.models_file, &campaign.interrupt())?;
    let replies = Replies { panel: Some(&panel), ..campaign.stored_calls()? };
    let name = start.settings.mode.name();
    let mut progress = Progress::new(name, u64::from(start.budget.trials));
    let evolved = evolve(&start, campaign, replies, &mut |tally| progress.step(&tally.words()))?;
    progress.finish(&evolved.tally.words());
    Ok(evolved)
}

/// Prints the summary as a person or a program wants it.
pub fn show(context: &Context, summary: &summary::Summary, evolved: &EvolvedSummary) -> Result<()> {
    if context.json {
        let mut document = summary.to_json();
        document["evolution"] = evolved.to_json();
        json(&document)
    } else {
        result(summary.render());
        result("");
        result(evolved.render());
        Ok(())
    }
}
