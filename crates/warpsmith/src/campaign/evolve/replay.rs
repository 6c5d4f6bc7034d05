//! Repeats an evolution from its stored calls: without a model, and where that is asked for without
//! a device.
//!
//! Decisions follow the stored findings, so they are the same; every operator, parent, model, prompt
//! and verdict is held against the stored one, and a difference is an error. With a device, each
//! candidate is evaluated once more beside that, and what came out otherwise is listed.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use anyhow::{Context, Result, bail};
use warpsmith_evidence::Store;
use warpsmith_model::lab::Kernel;
use warpsmith_model::{
    Blob, BlobId, CallRecord, ComparisonRecord, Environment, Fidelity, Hasher, Origin, Params,
    ProfileRecord, RunId, RunSettings, Trial, Verdict,
};
use warpsmith_search::evolve::task;
use warpsmith_search::{Space, score};

use super::bench::{is_between, log_of, shows_faster};
use super::finish::stored_replies;
use super::{Bench, Evaluated, EvolutionBudget, Evolved, Start, Tally, evolve};
use crate::campaign::steps::space_on;
use crate::campaign::{Campaign, ConfiguredKernel};
use crate::labdir;

/// What a replay came to.
#[derive(Debug)]
pub struct Replayed {
    /// What happened, counted.
    pub tally: Tally,
    /// The best at the end.
    pub best: Option<ConfiguredKernel>,
    /// A hash of every decision: equal for equal replays.
    pub decisions: BlobId,
    /// The candidates that were evaluated once more, in order; none without a device.
    pub again: Vec<Again>,
}

/// A candidate that was evaluated once more.
#[derive(Clone, Debug)]
pub struct Again {
    /// The kernel.
    pub kernel: String,
    /// Its parameters.
    pub params: Params,
    /// The verdict and the time that are stored.
    pub then: (Verdict, Option<f64>),
    /// The verdict and the time now.
    pub now: (Verdict, Option<f64>),
}

/// Repeats the evolution of a run; on a campaign's device too where one is given.
pub fn replay(store: &Store, run: &RunId, campaign: Option<&mut Campaign>) -> Result<Replayed> {
    let record = store.run(&run.0)?;
    let settings: RunSettings = serde_json::from_value(serde_json::to_value(&record.settings)?)
        .with_context(|| format!("the settings of {run} cannot be read"))?;
    let Some(evolve_settings) = settings.evolve.clone() else {
        bail!("{run} is a `{}` run; only `evolve` runs can be replayed", settings.goal.name());
    };
    let stored_start = store.evolution(run)?.with_context(|| {
        format!("{run} ended before its evolution began, so there is nothing to replay")
    })?;
    let lab = labdir::load(&settings.lab_dir)?.lab;
    if lab.id != record.lab.id {
        bail!(
            "the lab in {} was edited since {run}\nhint: undo the edit",
            settings.lab_dir.display()
        );
    }
    let kernel = lab.kernel(&stored_start.kernel).cloned();
    let kernel =
        kernel.with_context(|| format!("the lab has no kernel `{}`", stored_start.kernel))?;
    let environment = store.environment(&record.environment)?;
    let stored = Stored::read(store, run, &environment)?;
    let seed_trial = store.trial(&stored_start.seed_trial.to_string())?;
    let replies = stored_replies(store, run)?;
    let decisions = digest(&replies.stored.iter().map(|(call, _)| call).collect::<Vec<_>>());
    let workloads = seed_trial.job.workloads.clone();
    let start = Start {
        task: task(&lab, &kernel, &workloads, &environment.device),
        lab: Arc::new(lab),
        kernel,
        seed_trial,
        device: environment.device.clone(),
        ceilings: stored_start.ceilings,
        seed: settings.seed,
        settings: evolve_settings,
        // Everything that is stored, and no more.
        budget: EvolutionBudget {
            trials: u32::MAX,
            tokens: None,
            money: None,
            seconds: f64::INFINITY,
        },
    };
    let mut bench = Repeat { stored, campaign, again: Vec::new() };
    let Evolved { accepted, tally, .. } = evolve(&start, &mut bench, replies, &mut |_| {})?;
    let best = accepted.last().map(|best| best.winner.clone());
    let mut hasher = Hasher::new("evolution");
    hasher.part(decisions.to_string().as_bytes());
    for best in &accepted {
        hasher.part(best.winner.label().as_bytes()).part(best.trial.id.to_string().as_bytes());
    }
    Ok(Replayed { tally, best, decisions: hasher.into(), again: bench.again })
}

/// Hashes what calls were decided to be and judged to be worth.
fn digest(calls: &[&CallRecord]) -> BlobId {
    let mut hasher = Hasher::new("decisions");
    for call in calls {
        hasher.part(call.text().as_bytes());
    }
    hasher.into()
}

/// The findings of a run.
#[derive(Debug)]
struct Stored {
    environment: Environment,
    trials: HashMap<(String, String), Trial>,
    logs: BTreeMap<BlobId, String>,
    comparisons: Vec<ComparisonRecord>,
    profiles: Vec<ProfileRecord>,
}

impl Stored {
    fn read(store: &Store, run: &RunId, environment: &Environment) -> Result<Self> {
        let mut trials = HashMap::new();
        let mut logs = BTreeMap::new();
        for stored in store.trials(run)? {
            let trial = stored.trial;
            if trial.job.fidelity != Fidelity::Rank {
                continue;
            }
            if let Some(log) = log_of(&trial) {
                logs.insert(log, store.blob(&log)?);
            }
            let candidate = &trial.job.candidate;
            trials.insert((candidate.kernel.clone(), candidate.params.key()), trial);
        }
        let (comparisons, profiles) = (store.comparisons(run)?, store.profiles(run)?);
        Ok(Self { environment: environment.clone(), trials, logs, comparisons, profiles })
    }
}

/// Answers with what is stored, and evaluates once more where there is a device.
struct Repeat<'a> {
    stored: Stored,
    campaign: Option<&'a mut Campaign>,
    again: Vec<Again>,
}

impl Bench for Repeat<'_> {
    fn evaluate(&mut self, kernel: &Kernel, params: &Params, origin: Origin) -> Result<Evaluated> {
        let key = (kernel.name.clone(), params.key());
        let Some(trial) = self.stored.trials.get(&key).cloned() else {
            bail!(
                "the run has no trial of {} ({params}): it ended before that\nhint: `warpsmith \
                 resume` finishes a run",
                kernel.name
            );
        };
        if let Some(campaign) = &mut self.campaign {
            let now = Bench::evaluate(&mut **campaign, kernel, params, origin)?.trial;
            let seen = |trial: &Trial| (trial.outcome.verdict(), score(trial).time_s());
            self.again.push(Again {
                kernel: kernel.name.clone(),
                params: params.clone(),
                then: seen(&trial),
                now: seen(&now),
            });
        }
        let log = log_of(&trial).and_then(|log| self.stored.logs.get(&log).cloned());
        Ok(Evaluated { trial, log })
    }

    fn is_faster(
        &mut self,
        challenger: &ConfiguredKernel,
        best: &ConfiguredKernel,
    ) -> Result<bool> {
        let known = self.stored.comparisons.iter().find(|it| is_between(it, challenger, best));
        let known = known.with_context(|| {
            format!("the run has no comparison of {} with {}", challenger.label(), best.label())
        })?;
        shows_faster(known)
    }

    fn profile(&mut self, winner: &ConfiguredKernel, trial: &Trial) -> Result<ProfileRecord> {
        let candidate = trial.job.candidate.id;
        let known = self.stored.profiles.iter().find(|it| it.candidate == candidate);
        known.cloned().with_context(|| {
            format!(
                "the run has no profile of {}: it ended before that\nhint: `warpsmith resume` finishes \
                 a run",
                winner.label()
            )
        })
    }

    fn space(&self, kernel: &Kernel) -> Result<Space> {
        space_on(&self.stored.environment, kernel)
    }

    fn keep_call(&mut self, _: &CallRecord, _: &[Blob]) -> Result<()> {
        bail!("a replay makes no calls")
    }

    fn stop_if_asked(&self) -> Result<()> {
        self.campaign.as_ref().map_or(Ok(()), |campaign| campaign.stop_if_asked())
    }
}
