//! What a session measures with: one campaign, of the lab that was last asked for.
//!
//! A session is a run of the evidence store for as long as the agent stays with a lab and nobody
//! edits it. So the reference is proven once, the ceilings are measured once, and every candidate is
//! a trial of one run.

use std::collections::BTreeMap;

use anyhow::{Context, Result, bail};
use warpsmith_model::lab::{Kernel, TargetKind, Tunable};
use warpsmith_model::{
    BlobId, Ceilings, ComparisonPurpose, FORMAT_VERSION, Fidelity, Goal, Origin, Params,
    RunSettings, RunStatus, SourceRecord, Trial, TunableRecord, Value,
};
use warpsmith_search::evolve::{Rejected, Submission, submitted};

use super::answers::{self, Reply};
use super::board;
use super::catalog::{Catalog, source_file};
use super::evaluator::Watch;
use super::tools::{CandidateArgs, CompareArgs, EvaluateArgs, Gate, ProfileArgs};
use crate::campaign::{Campaign, kernel_of, now_unix_s, passed, rung_of};
use crate::commands::{check, compare, plain_settings, profile};
use crate::interrupt::Interrupt;
use crate::labdir::LoadedLab;
use crate::output::say;
use crate::project::Project;

/// A session and the campaign that it has open.
#[derive(Debug)]
pub struct McpSession {
    project: Project,
    catalog: Catalog,
    interrupt: Interrupt,
    campaign: Option<Campaign>,
}

/// A candidate as it was asked for.
#[derive(Debug)]
struct RequestedCandidate {
    kernel: Kernel,
    params: Params,
    /// What is recorded beside the trial of a source that the lab does not have.
    source: Option<SourceRecord>,
}

impl McpSession {
    /// Makes a session; nothing is started before it is needed.
    pub fn new(project: &Project, catalog: &Catalog, interrupt: Interrupt) -> Self {
        let (project, catalog) = (project.clone(), catalog.clone());
        Self { project, catalog, interrupt, campaign: None }
    }

    /// Records that the run has ended.
    pub fn close(&mut self) {
        if let Some(mut campaign) = self.campaign.take() {
            let status = RunStatus::Finished { ended_unix_s: now_unix_s() };
            if let Err(error) = campaign.finish(status) {
                say(format!("the end of {} is not recorded: {error:#}", campaign.run));
            }
        }
    }

    /// Lets go of a campaign that is in an unknown state.
    pub fn forget(&mut self) {
        if let Some(mut campaign) = self.campaign.take() {
            let reason = "the evaluation ended in a panic".to_string();
            let status = RunStatus::Failed { ended_unix_s: now_unix_s(), reason };
            if let Err(error) = campaign.finish(status) {
                say(format!("the end of {} is not recorded: {error:#}", campaign.run));
            }
        }
    }

    /// Puts a candidate through the gate.
    pub fn evaluate(&mut self, arguments: &EvaluateArgs, watch: &Watch) -> Result<Reply> {
        let asked = &arguments.candidate;
        let loaded = self.catalog.load(&asked.lab)?;
        let candidate = match candidate(&loaded, asked)? {
            Ok(candidate) => candidate,
            Err(rejected) => return Ok(answers::rejected(&rejected)),
        };
        let fidelity = match arguments.gate {
            Gate::Quick => Fidelity::Rank,
            Gate::Full => Fidelity::Full,
        };
        let campaign = self.campaign(loaded, watch)?;
        check_params(campaign, &candidate)?;
        if fidelity == Fidelity::Full {
            campaign.require_sanitizers()?;
        }
        let base = campaign.kernel(&asked.kernel)?;
        let base_trial = match (fidelity, &candidate.source) {
            (Fidelity::Rank, Some(_)) => {
                watch.say(format!("measuring `{}` to compare with", base.name));
                let (kernel, params) = (base.clone(), base.default.clone());
                Some(evaluated(
                    campaign,
                    &RequestedCandidate { kernel, params, source: None },
                    fidelity,
                )?)
            }
            _ => None,
        };
        let words = match arguments.gate {
            Gate::Quick => "compiling, checking and timing the candidate",
            Gate::Full => "the full gate: every check on every workload, then long timing",
        };
        watch.say(words);
        let trial = evaluated(campaign, &candidate, fidelity)?;
        let ceilings = ceilings(campaign)?;
        let board = board::ranked(
            &campaign.store,
            campaign.loaded.lab.id,
            Some(campaign.environment.id()),
            fidelity,
        )?;
        let log = answers::log_of(&trial).map(|log| campaign.store.blob(&log)).transpose()?;
        Ok(answers::evaluated(&answers::Evaluation {
            lab: &campaign.loaded.lab,
            run: &campaign.run,
            base: &base.name,
            trial: &trial,
            base_trial: base_trial.as_ref(),
            log: log.as_deref(),
            ceilings: &ceilings,
            board: &board,
        }))
    }

    /// Says what holds a candidate back.
    pub fn profile(&mut self, arguments: &ProfileArgs, watch: &Watch) -> Result<Reply> {
        let asked = &arguments.candidate;
        let loaded = self.catalog.load(&asked.lab)?;
        let candidate = match candidate(&loaded, asked)? {
            Ok(candidate) => candidate,
            Err(rejected) => return Ok(answers::rejected(&rejected)),
        };
        let campaign = self.campaign(loaded, watch)?;
        check_params(campaign, &candidate)?;
        watch.say("checking and timing the candidate");
        let trial = evaluated(campaign, &candidate, Fidelity::Rank)?;
        let ceilings = ceilings(campaign)?;
        if !passed(&trial) || campaign.loaded.lab.target == TargetKind::Cpu {
            let log = answers::log_of(&trial).map(|log| campaign.store.blob(&log)).transpose()?;
            let lab = &campaign.loaded.lab;
            return Ok(answers::cpu_profile(lab, &trial, &ceilings, log.as_deref()));
        }
        watch.say("running the candidate under the profiler");
        let RequestedCandidate { kernel, params, .. } = &candidate;
        let profiled = profile::profile_kernel(campaign, kernel, params, &arguments.workloads)?;
        answers::profiled(&trial, &profiled)
    }

    /// Measures contenders against each other.
    pub fn compare(&mut self, arguments: &CompareArgs, watch: &Watch) -> Result<Reply> {
        let loaded = self.catalog.load(&arguments.lab)?;
        let campaign = self.campaign(loaded, watch)?;
        let mut contenders = Vec::new();
        for name in &arguments.contenders {
            contenders.push(compare::contender(campaign, name)?);
        }
        if contenders.len() < 2 {
            bail!(
                "{} contender(s) were named, but a comparison needs two\nhint: kernels of the lab, \
                 `kernel:NAME=VALUE`, `trial:ID` of an evaluation, baselines, `run:NAME`",
                contenders.len()
            );
        }
        let workloads = compare::workloads(campaign, &arguments.workloads)?;
        watch.say("measuring in interleaved rounds");
        let (rounds, seconds) = (campaign.settings.compare_rounds, campaign.settings.compare_s);
        let purpose = ComparisonPurpose::Final;
        let record = campaign.compare_now(purpose, contenders, workloads, rounds, seconds)?;
        let ceilings = ceilings(campaign)?;
        Ok(answers::compared(
            &campaign.loaded.lab,
            &campaign.run,
            &ceilings,
            &campaign.environment.device,
            &record,
        ))
    }

    /// Returns the campaign of a lab, ready to evaluate: the one that is open, if it is of this lab as it
    /// is now, or a new one.
    fn campaign(&mut self, loaded: LoadedLab, watch: &Watch) -> Result<&mut Campaign> {
        let is_open = self.campaign.as_ref().is_some_and(|open| {
            open.loaded.dir == loaded.dir && open.loaded.lab.id == loaded.lab.id
        });
        if !is_open {
            self.close();
            watch.say("starting a worker");
            let settings = RunSettings { reuse: true, ..plain_settings(Goal::Mcp, &loaded.dir)? };
            let interrupt = self.interrupt.clone();
            self.campaign = Some(Campaign::start(&self.project, loaded, settings, interrupt)?);
        }
        let campaign = self.campaign.as_mut().context("a campaign is open")?;
        // What an earlier job left behind when it was stopped.
        campaign.drop_queued();
        if campaign.store.chain(&campaign.run)?.is_none() {
            watch.say("proving the lab's reference");
            campaign.prove()?;
        }
        if campaign.store.ceilings(&campaign.run)?.is_none() {
            watch.say("measuring what this machine can do at most");
            campaign.ceilings()?;
        }
        Ok(campaign)
    }
}

/// Makes the candidate that was asked for, or says why the source is none. Needs nothing to be started.
fn candidate(
    loaded: &LoadedLab,
    asked: &CandidateArgs,
) -> Result<Result<RequestedCandidate, Rejected>> {
    let base = kernel_of(&loaded.lab, &asked.kernel)?;
    let source = match (&asked.source, &asked.file) {
        (Some(_), Some(_)) => bail!("both `source` and `file` are given; give one of them"),
        (Some(source), None) => Some(source.clone()),
        (None, Some(file)) => Some(source_file(file)?),
        (None, None) => None,
    };
    let Some(source) = source else {
        if !asked.tunables.is_empty() {
            bail!(
                "`tunables` declares macros of a new source, and there is none\nhint: `params` \
                   chooses values of the contract's own tunables"
            );
        }
        let params = params(base, &asked.params)?;
        return Ok(Ok(RequestedCandidate { kernel: base.clone(), params, source: None }));
    };
    let base = rung_of(&loaded.lab, &asked.kernel)?;
    let title = asked.title.clone().unwrap_or_default();
    let tunables: Vec<(String, Vec<i64>)> =
        asked.tunables.iter().map(|(name, values)| (name.clone(), values.clone())).collect();
    let submission = Submission { title: &title, source: &source, tunables: &tunables };
    let (kernel, declared) = match submitted(&loaded.lab, base, &submission) {
        Ok(made) => made,
        Err(rejected) => return Ok(Err(rejected)),
    };
    let params = params(&kernel, &asked.params)?;
    let record = SourceRecord {
        format: FORMAT_VERSION,
        kernel: kernel.name.clone(),
        base: base.name.clone(),
        title,
        thought: asked.thought.clone().unwrap_or_default(),
        source: BlobId::of(source.as_bytes()),
        tunables: declared.into_iter().map(tunable_record).collect(),
    };
    Ok(Ok(RequestedCandidate { kernel, params, source: Some(record) }))
}

fn tunable_record(tunable: Tunable) -> TunableRecord {
    TunableRecord { name: tunable.name, values: tunable.values }
}

/// The author's parameters with some of them replaced.
fn params(kernel: &Kernel, asked: &BTreeMap<String, Value>) -> Result<Params> {
    let assignments: Vec<String> =
        asked.iter().map(|(name, value)| format!("{name}={value}")).collect();
    check::with_settings(kernel, &assignments)
}

/// Refuses parameters that the contract forbids or this machine cannot build.
fn check_params(campaign: &Campaign, candidate: &RequestedCandidate) -> Result<()> {
    let RequestedCandidate { kernel, params, .. } = candidate;
    if let Some(reason) = campaign.unavailable(kernel, params) {
        bail!("`{}` cannot be built here: {reason}", kernel.name);
    }
    if !kernel.tunables.is_empty() && !campaign.space(kernel)?.contains(params) {
        let constraints: Vec<&str> = kernel.constraints.iter().map(|it| it.text()).collect();
        bail!(
            "the parameters {params} violate a constraint of the contract\nhint: it demands {}",
            constraints.join("; ")
        );
    }
    Ok(())
}

/// Records what a candidate's kernel is made of and evaluates it.
fn evaluated(
    campaign: &mut Campaign,
    candidate: &RequestedCandidate,
    fidelity: Fidelity,
) -> Result<Trial> {
    let RequestedCandidate { kernel, params, source } = candidate;
    let is_authors = source.is_none() && *params == kernel.default;
    let origin = if is_authors { Origin::Seed } else { Origin::Manual };
    // Before the trial, so that a trial on record can always be made a kernel again.
    if let Some(record) = source
        && !campaign.store.sources(&campaign.run)?.contains(record)
    {
        campaign.store.put_source(&campaign.run, record)?;
    }
    campaign.check(kernel, params, origin, fidelity, |_| {})
}

fn ceilings(campaign: &Campaign) -> Result<Ceilings> {
    campaign.store.ceilings(&campaign.run)?.context("the ceilings were measured")
}
