//! One file per subcommand: its arguments and what it does.

mod ablate;
mod build;
mod calibrate;
pub(crate) mod check;
mod clock;
pub(crate) mod compare;
mod convert;
mod curves;
mod doctor;
mod evidence;
mod evolve;
mod export;
mod fastp;
mod front;
mod import;
mod mcp;
mod micro;
mod new;
pub(crate) mod profile;
mod replace;
mod replay;
mod report;
mod resume;
mod run;
mod runs;
mod schema;
mod setup;
mod show;
mod simulate;
mod space;
pub(crate) mod summary;
mod tune;
mod verify;

use std::path::PathBuf;

use anyhow::Result;
use clap::{Args, Parser, Subcommand};
use warpsmith_evidence::export::ExportError;
use warpsmith_evidence::{Access, StoreError};
use warpsmith_model::lab::TargetKind;
use warpsmith_model::{Goal, Lab, Objective, RunSettings, RunStatus, SeedFrom, Until, suggest};

use crate::campaign::{Campaign, check_until, kernel_of, now_unix_s, refuse_front, system_seed};
use crate::interrupt::{self, Interrupt, Interrupted};
use crate::labdir;
use crate::project::Project;

/// Make compute kernels fast, and prove it
///
/// A lab says what to compute. Warpsmith ranks configurations by microbenchmark, searches their
/// parameters, gates every candidate for correctness, times it honestly, compares it with
/// libraries and keeps all evidence. Start with `warpsmith run labs/attention`.
#[derive(Debug, Parser)]
#[command(name = "warpsmith", version, propagate_version = true, max_term_width = 100)]
pub struct Cli {
    #[command(flatten)]
    common: Common,
    #[command(subcommand)]
    command: Command,
}

/// Flags that every command takes
#[derive(Debug, Args)]
struct Common {
    /// Print the result as JSON on standard output
    #[arg(long, global = true)]
    json: bool,
    /// Folder of the evidence
    #[arg(long, global = true, value_name = "DIR", default_value = "evidence")]
    evidence: PathBuf,
    /// Folder of caches and optional parts, all of which can be made again
    #[arg(long, global = true, value_name = "DIR", default_value = ".warpsmith")]
    work_dir: PathBuf,
    /// Let others read evidence that is made, as far as the umask does; by default its owner alone can.
    /// What is there keeps its permissions
    #[arg(long, global = true)]
    shared: bool,
    /// What to run on, cpu or cuda, where a lab has both
    #[arg(long, global = true, value_name = "NAME")]
    target: Option<TargetKind>,
    /// Folder of the CUDA toolkit; by default the first that is found
    #[arg(long, global = true, value_name = "DIR")]
    cuda_home: Option<PathBuf>,
}

#[derive(Debug, Subcommand)]
enum Command {
    Run(run::RunArgs),
    Check(check::CheckArgs),
    Calibrate(calibrate::CalibrateArgs),
    Micro(micro::MicroArgs),
    Tune(tune::TuneArgs),
    Evolve(evolve::EvolveArgs),
    Replay(replay::ReplayArgs),
    Compare(compare::CompareArgs),
    Front(front::FrontArgs),
    Profile(profile::ProfileArgs),
    Report(report::ReportArgs),
    Export(export::ExportArgs),
    Convert(convert::ConvertArgs),
    Evidence(evidence::EvidenceArgs),
    Runs(runs::RunsArgs),
    Show(show::ShowArgs),
    Simulate(simulate::SimulateArgs),
    Space(space::SpaceArgs),
    Resume(resume::ResumeArgs),
    New(new::NewArgs),
    Import(import::ImportArgs),
    Fastp(fastp::FastpArgs),
    Doctor(doctor::DoctorArgs),
    Mcp(mcp::McpArgs),
    Schema(schema::SchemaArgs),
    Setup(setup::SetupArgs),
    Build(build::BuildArgs),
    Verify(verify::VerifyArgs),
    /// Answer a campaign's questions, one JSON line each
    #[command(name = "__worker", hide = true)]
    Worker,
}

/// What every command is given.
#[derive(Debug)]
pub struct Context {
    /// Where things are kept.
    pub project: Project,
    /// Whether the result is wanted as JSON.
    pub json: bool,
    /// The target that was asked for.
    pub target: Option<TargetKind>,
}

/// Runs the command that was asked for.
pub fn dispatch(cli: Cli) -> Result<()> {
    if let Some(root) = &cli.common.cuda_home {
        warpsmith_device::cuda::toolkit::prefer(&std::path::absolute(root)?);
    }
    let context = Context {
        project: Project {
            evidence_dir: cli.common.evidence,
            work_dir: cli.common.work_dir,
            access: if cli.common.shared { Access::Umask } else { Access::Owner },
        },
        json: cli.common.json,
        target: cli.common.target,
    };
    match cli.command {
        Command::Run(arguments) => run::run(&context, arguments),
        Command::Check(arguments) => check::run(&context, arguments),
        Command::Calibrate(arguments) => calibrate::run(&context, arguments),
        Command::Micro(arguments) => micro::run(&context, arguments),
        Command::Tune(arguments) => tune::run(&context, arguments),
        Command::Evolve(arguments) => evolve::run(&context, arguments),
        Command::Replay(arguments) => replay::run(&context, arguments),
        Command::Compare(arguments) => compare::run(&context, arguments),
        Command::Front(arguments) => front::run(&context, arguments),
        Command::Profile(arguments) => profile::run(&context, arguments),
        Command::Report(arguments) => report::run(&context, arguments),
        Command::Export(arguments) => export::run(&context, arguments),
        Command::Convert(arguments) => convert::run(&context, arguments),
        Command::Evidence(arguments) => evidence::run(&context, arguments),
        Command::Runs(arguments) => runs::run(&context, arguments),
        Command::Show(arguments) => show::run(&context, arguments),
        Command::Simulate(arguments) => simulate::run(&context, arguments),
        Command::Space(arguments) => space::run(&context, arguments),
        Command::Resume(arguments) => resume::run(&context, arguments),
        Command::New(arguments) => new::run(&context, arguments),
        Command::Import(arguments) => import::run(&context, arguments),
        Command::Fastp(arguments) => fastp::run(&context, arguments),
        Command::Doctor(arguments) => doctor::run(&context, arguments),
        Command::Mcp(arguments) => mcp::run(&context, arguments),
        Command::Schema(arguments) => schema::run(&context, arguments),
        Command::Setup(arguments) => setup::run(&context, arguments),
        Command::Build(arguments) => build::run(&context, arguments),
        Command::Verify(arguments) => verify::run(&context, arguments),
        Command::Worker => {
            crate::worker::serve(&context.project, context.target.unwrap_or_default())
        }
    }
}

/// The outcome that exit status 1 stands for: we did our work, and the answer is no.
#[derive(Debug, thiserror::Error)]
pub enum CliFailure {
    /// A candidate failed the gate.
    #[error("{0}")]
    Candidate(String),
    /// The evidence is not what was recorded.
    #[error("{0}")]
    Damaged(String),
    /// The user stopped the campaign.
    #[error(
        "stopped on request; everything so far is recorded\nhint: `warpsmith resume {0}` goes on"
    )]
    Stopped(String),
}

/// Returns the exit status of an error. Whichever command comes across damage, it is the evidence that failed.
pub fn exit_code(error: &anyhow::Error) -> u8 {
    let is_damage = error.chain().any(|cause| {
        let direct = cause.downcast_ref::<StoreError>();
        let exported = cause.downcast_ref().and_then(|export| match export {
            ExportError::Store(error) => Some(error),
            _ => None,
        });
        direct.or(exported).is_some_and(StoreError::is_damage)
    });
    match error.downcast_ref::<CliFailure>() {
        Some(failed) => failed.exit_code(),
        None if is_damage => 1,
        None => 2,
    }
}

impl CliFailure {
    fn exit_code(&self) -> u8 {
        match self {
            Self::Candidate(_) | Self::Damaged(_) => 1,
            Self::Stopped(_) => interrupt::exit_status(),
        }
    }
}

/// Flags of the commands that search
#[derive(Debug, Args)]
pub struct SearchArgs {
    /// Kernel to tune; by default the rung that ranks best with its author's parameters
    #[arg(long, value_name = "NAME")]
    pub kernel: Option<String>,
    /// Search strategy: auto, gaussian, surrogate, evolutionary, annealing, local, random or
    /// exhaustive
    #[arg(long, default_value = "auto", value_name = "NAME")]
    pub strategy: String,
    /// Search trials at most
    #[arg(long, default_value_t = 24, value_name = "N")]
    pub budget: u32,
    /// Seconds of searching at most, compiling included
    #[arg(long, default_value_t = 25.0, value_name = "SECONDS")]
    pub time: f64,
    /// Seed of every decision; by default from the system's randomness, and recorded
    #[arg(long, value_name = "N")]
    pub seed: Option<u64>,
    /// What to make small over the workloads: time (their geometric mean, also called geomean), worst
    /// (the worst ratio to the author's choice) or dispatch (each on its own, with a table of winners)
    #[arg(long, default_value = "time", value_name = "NAME")]
    pub objective: String,
    /// Stop early: stalled:N (N trials without improvement), expected:P (no configuration is expected to
    /// gain P %), roofline:P or baseline:NAME:P (within P % of it); repeatable, the first that holds
    #[arg(long, value_name = "CONDITION")]
    pub until: Vec<String>,
    /// Where the first proposals come from: micro, none, store (the winners of all earlier runs), a run,
    /// or a file (*_best.json, Kernel Tuner cache, T4 results)
    #[arg(long, default_value = "micro", value_name = "SOURCE")]
    pub seed_from: String,
    /// How many of the best of these are proposed first
    #[arg(long, default_value_t = 5, value_name = "K")]
    pub top_k: u32,
    /// Configurations that the microbenchmark runs at most
    #[arg(long, default_value_t = 16, value_name = "N")]
    pub micro_limit: u32,
    /// Measure again what earlier runs measured in the same environment
    #[arg(long)]
    pub fresh: bool,
    /// Workload that matters; by default all of the lab's (repeatable)
    #[arg(long, value_name = "NAME")]
    pub workload: Vec<String>,
    /// Leave memcheck, racecheck and initcheck out of the winner's gate on CUDA; the evidence says so
    #[arg(long)]
    pub no_sanitizer: bool,
}

impl SearchArgs {
    /// Turns flags into settings.
    pub fn settings(self, goal: Goal, lab: &std::path::Path) -> Result<RunSettings> {
        if !(self.time.is_finite() && self.time > 0.0) {
            anyhow::bail!("--time is {}, but must be a positive number of seconds", self.time);
        }
        if self.budget == 0 || self.top_k == 0 || self.micro_limit == 0 {
            anyhow::bail!("--budget, --top-k and --micro-limit must be at least 1");
        }
        let seed_from = match self.seed_from.as_str() {
            "micro" => SeedFrom::Micro,
            "none" => SeedFrom::None,
            "store" => SeedFrom::Store,
            // A run may be resumed from another folder.
            file if std::path::Path::new(file).is_file() => {
                SeedFrom::Run(std::path::absolute(file)?.display().to_string())
            }
            run => SeedFrom::Run(run.to_string()),
        };
        // Fail before any work on a name that nobody knows.
        let _known: warpsmith_search::Strategy =
            self.strategy.parse().map_err(anyhow::Error::msg)?;
        let objective: Objective = self.objective.parse().map_err(anyhow::Error::msg)?;
        let until = self.until.iter().map(|text| text.parse()).collect::<Result<Vec<Until>, _>>();
        let until = until.map_err(|error| anyhow::anyhow!("--until: {error}"))?;
        Ok(RunSettings {
            kernel: self.kernel,
            strategy: self.strategy,
            budget_trials: self.budget,
            budget_s: self.time,
            seed: seed_or_random(self.seed)?,
            seed_from,
            top_k: self.top_k,
            micro_limit: self.micro_limit,
            reuse: !self.fresh,
            workloads: self.workload,
            sanitize: !self.no_sanitizer,
            objective,
            until,
            ..plain_settings(goal, lab)?
        })
    }
}

/// Settings of a command that does not search.
pub fn plain_settings(goal: Goal, lab: &std::path::Path) -> Result<RunSettings> {
    Ok(RunSettings {
        goal,
        lab_dir: std::path::absolute(lab)?,
        kernel: None,
        strategy: "auto".to_string(),
        budget_trials: 0,
        budget_s: 0.0,
        seed: system_seed()?,
        seed_from: SeedFrom::None,
        top_k: 0,
        micro_limit: 0,
        reuse: false,
        compare_rounds: 5,
        compare_s: 1.0,
        hopeless_ratio: 1.5,
        launch_deadline_s: None,
        workloads: Vec::new(),
        sanitize: true,
        evolve: None,
        out: None,
        objective: Objective::Time,
        until: Vec::new(),
    })
}

fn seed_or_random(seed: Option<u64>) -> Result<u64> {
    seed.map_or_else(system_seed, Ok)
}

/// Starts a campaign, lets `steps` do its work, and records how it ended whatever happens.
pub fn with_campaign<T>(
    context: &Context,
    lab: &std::path::Path,
    settings: RunSettings,
    steps: impl FnOnce(&mut Campaign) -> Result<T>,
) -> Result<T> {
    let loaded = labdir::load(&labdir::for_target(lab, context.target)?)?;
    check_workloads(&loaded.lab, &settings.workloads)?;
    check_until(&loaded.lab, &settings)?;
    if let Some(name) = &settings.kernel {
        let kernel = kernel_of(&loaded.lab, name)?;
        if settings.goal.searches() {
            refuse_front(kernel)?;
        }
    }
    let settings = RunSettings { lab_dir: loaded.dir.clone(), ..settings };
    let interrupt = Interrupt::listen()?;
    let campaign = Campaign::start(&context.project, loaded, settings, interrupt)?;
    to_the_end(campaign, steps)
}

/// Refuses names that are no workloads of the lab.
pub fn check_workloads(lab: &Lab, names: &[String]) -> Result<()> {
    for name in names {
        if lab.workload(name).is_none() {
            let known: Vec<&str> = lab.shapes().map(|it| it.name.as_str()).collect();
            let meant = suggest::closest(name, known.iter().copied());
            let meant = meant.map_or_else(String::new, |meant| format!("did you mean `{meant}`? "));
            anyhow::bail!(
                "the lab has no workload `{name}`\nhint: {meant}it has {}",
                known.join(", ")
            );
        }
    }
    Ok(())
}

/// Returns the names in their order, each once: what is asked for twice is done once.
pub fn each_once(names: &[String]) -> Vec<String> {
    let mut once: Vec<String> = Vec::new();
    for name in names {
        if !once.contains(name) {
            once.push(name.clone());
        }
    }
    once
}

/// Lets `steps` do its work and records how it ended.
pub fn to_the_end<T>(
    mut campaign: Campaign,
    steps: impl FnOnce(&mut Campaign) -> Result<T>,
) -> Result<T> {
    let outcome = steps(&mut campaign);
    let ended_unix_s = now_unix_s();
    match outcome {
        Ok(value) => {
            campaign.finish(RunStatus::Finished { ended_unix_s })?;
            Ok(value)
        }
        Err(error) if error.is::<Interrupted>() => {
            campaign.finish(RunStatus::Interrupted { ended_unix_s })?;
            Err(CliFailure::Stopped(campaign.run.to_string()).into())
        }
        Err(error) => {
            let reason = format!("{error:#}");
            // The first error is the one to show; a store that cannot take it any more is most
            // likely its cause.
            let _shown_below = campaign.finish(RunStatus::Failed { ended_unix_s, reason });
            Err(error)
        }
    }
}
