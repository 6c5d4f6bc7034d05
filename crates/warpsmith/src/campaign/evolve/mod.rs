//! The loop of an evolution: ask, judge, evaluate, make durable, learn.
//!
//! [`evolve`] is the loop. [`Bench`] is what it needs of a campaign: somebody who evaluates,
//! compares and keeps records. [`Replies`] are the calls that were stored before, and the models
//! that answer when those are used up; so a resumed evolution and a replayed one are the same loop
//! over stored calls.

mod bench;
mod budget;
mod finish;
mod replay;
mod tally;
#[cfg(test)]
mod tests;

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::time::Instant;

use anyhow::{Context, Result, bail};
use warpsmith_model::lab::{Kernel, Lab, TargetKind};
use warpsmith_model::{
    Blob, BlobId, CallAnswer, CallRecord, CandidateId, Ceilings, CounterSource, CrashCause,
    DeviceInfo, EvolveSettings, FORMAT_VERSION, Fidelity, InsightFrom, Operator, Origin, Outcome,
    Params, ProfileRecord, ReplyVerdict, Trial, TunableRecord, Usage,
};
use warpsmith_search::evolve::{
    Completion, Evolution, EvolutionConfig, LlmError, Member, PlannedCall, Proposed, Rejected,
    Standing, diagnosis, failure, insight,
};
use warpsmith_search::{
    EvolutionarySettings, Proposal, Space, Strategy, StrategyConfig, score, strategy,
};

use super::ConfiguredKernel;
use crate::interrupt::Interrupted;
use crate::llm::Panel;

pub use budget::{EvolutionBudget, EvolutionEnd};
pub use finish::{EvolvedSummary, write_kernel};
pub use replay::{Again, Replayed, replay};
pub use tally::Tally;

/// After so many calls in a row without an answer nobody is there.
const MAX_FAILED_IN_A_ROW: u32 = 5;

/// What the loop needs of a campaign.
pub trait Bench {
    /// Evaluates a candidate at the rank fidelity.
    fn evaluate(&mut self, kernel: &Kernel, params: &Params, origin: Origin) -> Result<Evaluated>;

    /// Says whether a challenger is faster than the best so far, in interleaved rounds.
    fn is_faster(&mut self, challenger: &ConfiguredKernel, best: &ConfiguredKernel)
    -> Result<bool>;

    /// Profiles a candidate that a prompt is about to describe, or finds its profile.
    fn profile(&mut self, winner: &ConfiguredKernel, trial: &Trial) -> Result<ProfileRecord>;

    /// Returns the valid configurations of a kernel.
    fn space(&self, kernel: &Kernel) -> Result<Space>;

    /// Makes a call durable.
    fn keep_call(&mut self, call: &CallRecord, texts: &[Blob]) -> Result<()>;

    /// Stops cleanly when the user asked to.
    fn stop_if_asked(&self) -> Result<()>;
}

/// What became of a candidate.
#[derive(Clone, Debug)]
pub struct Evaluated {
    /// The trial.
    pub trial: Trial,
    /// What the compiler said, where it refused.
    pub log: Option<String>,
}

/// What an evolution starts from.
#[derive(Clone, Debug)]
pub struct Start {
    /// The lab.
    pub lab: Arc<Lab>,
    /// The kernel to evolve.
    pub kernel: Kernel,
    /// The trial of its author's choice.
    pub seed_trial: Trial,
    /// The machine.
    pub device: DeviceInfo,
    /// What it can do at most.
    pub ceilings: Ceilings,
    /// The part of prompts that never changes.
    pub task: String,
    /// Determines every random choice.
    pub seed: u64,
    /// What was asked.
    pub settings: EvolveSettings,
    /// When to stop.
    pub budget: EvolutionBudget,
}

/// A source that was the best at some time.
#[derive(Clone, Debug)]
pub struct Accepted {
    /// The kernel with its parameters.
    pub winner: ConfiguredKernel,
    /// Where it came from.
    pub origin: Origin,
    /// Its trial.
    pub trial: Trial,
}

/// What an evolution came to.
#[derive(Debug)]
pub struct Evolved {
    /// The start and every best after it, in order. The start is the seed, or the first correct candidate
    /// where the seed is wrong; none where nothing was correct.
    pub accepted: Vec<Accepted>,
    /// What happened, counted.
    pub tally: Tally,
    /// Why it stopped.
    pub stop: EvolutionEnd,
}

/// Stored calls, then models.
#[derive(Debug)]
pub struct Replies<'a> {
    /// Calls that were made before, with the texts of their replies.
    pub stored: VecDeque<(CallRecord, Option<String>)>,
    /// Who answers after those; none where the stored ones are all there is.
    pub panel: Option<&'a Panel>,
}

/// Runs an evolution to the end of its budget, or of the stored calls where there is no panel.
/// `watch` is told after every call.
pub fn evolve(
    start: &Start,
    bench: &mut dyn Bench,
    mut replies: Replies<'_>,
    watch: &mut dyn FnMut(&Tally),
) -> Result<Evolved> {
    let seed_s = score(&start.seed_trial).time_s();
    let seed = seed_s.map(|_| Accepted {
        winner: ConfiguredKernel {
            kernel: start.kernel.clone(),
            params: start.kernel.default.clone(),
        },
        origin: Origin::Seed,
        trial: start.seed_trial.clone(),
    });
    let mut evolution = Evolution::new(config(start), seed_member(start, seed_s));
    let mut accepted = Vec::from_iter(seed);
    // Who may be described in a prompt: everybody who was ever valid.
    let mut valid: HashMap<CandidateId, (ConfiguredKernel, Trial)> = accepted
        .iter()
        .map(|it| (it.trial.job.candidate.id, (it.winner.clone(), it.trial.clone())))
        .collect();
    let mut tally = Tally::new(seed_s);
    let mut failed_in_a_row = 0;
    let started = Instant::now();
    let stop = loop {
        if let Some(stop) = start.budget.is_spent(&tally, started.elapsed()) {
            break stop;
        }
        bench.stop_if_asked()?;
        if replies.stored.is_empty() && replies.panel.is_none() {
            break EvolutionEnd::Replies;
        }
        if start.wants_profiles() {
            look_closer(start, bench, &mut evolution, &valid, &mut tally)?;
        }
        let plan = evolution.plan();
        let is_live = replies.stored.is_empty();
        let (call, judged) = replies.next(&evolution, &plan, bench)?;
        tally.waited_s += if is_live { call.provider_s } else { 0.0 };
        evolution.called(&plan, call.cost, call.usage.tokens());
        tally.called(&call);
        match judged {
            Judged::Failed(reason) => {
                failed_in_a_row += 1;
                if failed_in_a_row >= MAX_FAILED_IN_A_ROW && replies.stored.is_empty() {
                    bail!(
                        "{failed_in_a_row} calls in a row had no answer; the last: {reason}\nhint: \
                         everything so far is recorded; `warpsmith resume` goes on"
                    );
                }
            }
            Judged::Rejected(rejected) => {
                failed_in_a_row = 0;
                evolution.rejected(&rejected);
            }
            Judged::Proposed(proposed) => {
                failed_in_a_row = 0;
                let began = Instant::now();
                let candidate = Attempt { start, plan: &plan, proposed: &proposed, call: &call };
                let timed = candidate.run(bench, &mut evolution, &mut accepted, &mut tally)?;
                valid.extend(timed.map(|it| (it.1.job.candidate.id, it)));
                tally.evaluation_s += began.elapsed().as_secs_f64();
            }
        }
        tally.elapsed_s = started.elapsed().as_secs_f64();
        watch(&tally);
    };
    tally.elapsed_s = started.elapsed().as_secs_f64();
    Ok(Evolved { accepted, tally, stop })
}

impl Start {
    /// Says whether prompts have more to say of a source's limits than its times do.
    fn wants_profiles(&self) -> bool {
        self.settings.insight_from != InsightFrom::Times && self.lab.target == TargetKind::Cuda
    }
}

/// Profiles whoever the next prompt describes, each once.
fn look_closer(
    start: &Start,
    bench: &mut dyn Bench,
    evolution: &mut Evolution,
    valid: &HashMap<CandidateId, (ConfiguredKernel, Trial)>,
    tally: &mut Tally,
) -> Result<()> {
    for id in evolution.unprofiled() {
        let began = Instant::now();
        let (winner, trial) = valid.get(&id).context("a valid member has a trial")?;
        let record = bench.profile(winner, trial)?;
        let is_counted = |it: &warpsmith_model::WorkloadProfile| {
            matches!(it.counters, CounterSource::Ncu { .. })
        };
        tally.profiled(record.workloads.iter().all(is_counted));
        evolution.inform(id, &insight(&start.lab, &record, &start.device, &start.ceilings));
        tally.evaluation_s += began.elapsed().as_secs_f64();
    }
    Ok(())
}

fn config(start: &Start) -> EvolutionConfig {
    EvolutionConfig {
        mode: start.settings.mode,
        seed: start.seed,
        feedback: start.settings.feedback,
        models: start.settings.models.clone(),
        policy: start.settings.policy,
        lab: Arc::clone(&start.lab),
        kernel: start.kernel.clone(),
        task: start.task.clone(),
    }
}

fn seed_member(start: &Start, time_s: Option<f64>) -> Member {
    let standing = match time_s {
        Some(time_s) => Standing::Valid {
            time_s,
            params: start.kernel.default.to_string(),
            diagnosis: diagnosis(&start.lab, &start.seed_trial, &start.ceilings),
            insight: None,
        },
        None => Standing::Invalid { failure: start.seed_trial.outcome.describe() },
    };
    Member {
        id: start.seed_trial.job.candidate.id,
        call: None,
        title: start.kernel.name.clone(),
        thought: "baseline".to_string(),
        source: start.kernel.source.clone(),
        standing,
    }
}

/// What a call came to, before anything was compiled.
enum Judged {
    Failed(String),
    Rejected(Rejected),
    Proposed(Box<Proposed>),
}

impl Replies<'_> {
    /// Returns the next call: a stored one that must fit, or a new one that is then made durable.
    fn next(
        &mut self,
        evolution: &Evolution,
        plan: &PlannedCall,
        bench: &mut dyn Bench,
    ) -> Result<(CallRecord, Judged)> {
        if let Some((call, reply)) = self.stored.pop_front() {
            fits(&call, plan)?;
            let judged = judge(evolution, &call.answer, reply.as_deref());
            if let (CallAnswer::Replied { verdict, .. }, now) = (&call.answer, &judged)
                && verdict_of(now).as_ref() != Some(verdict)
            {
                bail!(
                    "call {} was judged differently when it was made\nhint: this version of \
                     warpsmith decides otherwise; use the one that made the run",
                    call.number
                );
            }
            if let Some(panel) = self.panel {
                panel.asked_before(&call.model);
            }
            return Ok((call, judged));
        }
        let Some(panel) = self.panel else { bail!("there are no more stored calls") };
        let began = Instant::now();
        let prompt = Blob::new(plan.prompt.to_string());
        let mut texts = Vec::new();
        let (answer, judged, usage, retries) = match panel.ask(&plan.model, &plan.prompt) {
            Ok(Completion { text, usage, retries, .. }) => {
                let judged = match evolution.judge(&text) {
                    Ok(proposed) => Judged::Proposed(Box::new(proposed)),
                    Err(rejected) => Judged::Rejected(rejected),
                };
                let verdict = verdict_of(&judged).expect("a reply has a verdict");
                if let Judged::Proposed(proposed) = &judged {
                    texts.push(Blob::new(proposed.kernel.source.clone()));
                }
                let reply = Blob::new(text);
                let answer = CallAnswer::Replied { reply: reply.id, verdict };
                texts.push(reply);
                (answer, judged, usage, retries)
            }
            Err(LlmError::Failed { reason, retries }) => {
                // What was sent was used, as far as anybody can tell.
                let usage = Usage { output_tokens: 0, ..Usage::estimate(&plan.prompt, "") };
                let answer = CallAnswer::Failed { reason: reason.clone() };
                (answer, Judged::Failed(reason), usage, retries)
            }
            Err(LlmError::Refused { reason }) => bail!("model `{}`: {reason}", plan.model),
            Err(LlmError::Cancelled) => return Err(Interrupted.into()),
        };
        let call = CallRecord {
            format: FORMAT_VERSION,
            number: plan.number,
            operator: plan.operator,
            parents: plan.parents.clone(),
            model: plan.model.clone(),
            prompt: prompt.id,
            usage,
            cost: panel.cost(&plan.model, &usage),
            provider_s: began.elapsed().as_secs_f64(),
            retries,
            answer,
        };
        texts.push(prompt);
        bench.keep_call(&call, &texts)?;
        Ok((call, judged))
    }
}

/// A stored call belongs to this plan or the replay is none.
fn fits(call: &CallRecord, plan: &PlannedCall) -> Result<()> {
    let prompt = BlobId::of(plan.prompt.to_string().as_bytes());
    let differs = [
        ("its number", call.number != plan.number),
        ("the operator", call.operator != plan.operator),
        ("the parents", call.parents != plan.parents),
        ("the model", call.model != plan.model),
        ("the prompt", call.prompt != prompt),
    ];
    match differs.iter().find(|(_, is_different)| *is_different) {
        None => Ok(()),
        Some((what, _)) => bail!(
            "call {} cannot be repeated: {what} would be another now\nhint: this version of \
             warpsmith decides otherwise; use the one that made the run",
            call.number
        ),
    }
}

fn judge(evolution: &Evolution, answer: &CallAnswer, reply: Option<&str>) -> Judged {
    match (answer, reply) {
        (CallAnswer::Replied { .. }, Some(text)) => match evolution.judge(text) {
            Ok(proposed) => Judged::Proposed(Box::new(proposed)),
            Err(rejected) => Judged::Rejected(rejected),
        },
        (CallAnswer::Failed { reason }, _) => Judged::Failed(reason.clone()),
        (CallAnswer::Replied { .. }, None) => Judged::Failed("its reply is not stored".to_string()),
    }
}

fn verdict_of(judged: &Judged) -> Option<ReplyVerdict> {
    match judged {
        Judged::Failed(_) => None,
        Judged::Rejected(Rejected { reason, detail }) => {
            Some(ReplyVerdict::Rejected { reason: *reason, detail: detail.clone() })
        }
        Judged::Proposed(proposed) => {
            let record = |tunable: &warpsmith_model::lab::Tunable| TunableRecord {
                name: tunable.name.clone(),
                values: tunable.values.clone(),
            };
            Some(ReplyVerdict::Proposed {
                kernel: proposed.kernel.name.clone(),
                title: proposed.title.clone(),
                thought: proposed.thought.clone(),
                source: BlobId::of(proposed.kernel.source.as_bytes()),
                tunables: proposed.tunables.iter().map(record).collect(),
            })
        }
    }
}

/// A candidate on its way through evaluation.
struct Attempt<'a> {
    start: &'a Start,
    plan: &'a PlannedCall,
    proposed: &'a Proposed,
    call: &'a CallRecord,
}

impl Attempt<'_> {
    /// Evaluates, tunes, challenges the best, and learns. Returns the source with its best parameters and
    /// their trial where it is valid.
    fn run(
        &self,
        bench: &mut dyn Bench,
        evolution: &mut Evolution,
        accepted: &mut Vec<Accepted>,
        tally: &mut Tally,
    ) -> Result<Option<(ConfiguredKernel, Trial)>> {
        let kernel = &self.proposed.kernel;
        let first = bench.evaluate(kernel, &kernel.default, self.origin())?;
        if first.trial.same_binary_as.is_some() {
            tally.twins += 1;
            evolution.twin(self.plan, self.proposed);
            return Ok(None);
        }
        let is_timed = score(&first.trial).time_s().is_some();
        let trial = if is_timed || is_of_its_parameters(&first.trial.outcome) {
            self.tuned(bench, first.trial.clone(), tally)?
        } else {
            first.trial.clone()
        };
        tally.evaluated(&trial);
        let Some(time_s) = score(&trial).time_s() else {
            let said = failure(&first.trial.outcome, first.log.as_deref());
            let failure = said.unwrap_or_else(|| "it has no time on some workload".to_string());
            let standing = Standing::Invalid { failure };
            let member = self.member(&first.trial, standing);
            evolution.observe(self.plan, self.proposed, member, false);
            return Ok(None);
        };
        let params = trial.job.candidate.params.clone();
        let winner = ConfiguredKernel { kernel: kernel.clone(), params: params.clone() };
        let is_best = match (accepted.last(), evolution.best().time_s()) {
            (Some(best), Some(best_s)) => {
                time_s < best_s && bench.is_faster(&winner, &best.winner)?
            }
            // The first that is correct has nobody to be held against.
            _ => true,
        };
        tally.timed(time_s, is_best);
        let standing = Standing::Valid {
            time_s,
            params: params.to_string(),
            diagnosis: diagnosis(&self.start.lab, &trial, &self.start.ceilings),
            insight: None,
        };
        let member = self.member(&trial, standing);
        evolution.observe(self.plan, self.proposed, member, is_best);
        if is_best {
            let (winner, trial) = (winner.clone(), trial.clone());
            accepted.push(Accepted { winner, origin: self.origin(), trial });
        }
        Ok(Some((winner, trial)))
    }

    fn origin(&self) -> Origin {
        Origin::Evolved {
            parents: self.plan.parents.clone(),
            operator: operator_name(self.plan.operator),
            call: self.call.id(),
        }
    }

    fn member(&self, trial: &Trial, standing: Standing) -> Member {
        Member {
            id: trial.job.candidate.id,
            call: Some(self.plan.number),
            title: self.proposed.title.clone(),
            thought: self.proposed.thought.clone(),
            source: self.proposed.kernel.source.clone(),
            standing,
        }
    }

    /// Tries a few configurations of a source, so that a good structure is not judged by one bad
    /// number; returns the best trial.
    fn tuned(&self, bench: &mut dyn Bench, first: Trial, tally: &mut Tally) -> Result<Trial> {
        let kernel = &self.proposed.kernel;
        if self.start.settings.tune_trials == 0 || kernel.tunables.is_empty() {
            return Ok(first);
        }
        let space = bench.space(kernel)?;
        let config = StrategyConfig {
            seed: self.start.seed ^ u64::from(self.plan.number),
            kernel: kernel.name.clone(),
            fidelity: Fidelity::Rank,
            seeds: vec![Proposal { params: kernel.default.clone(), origin: self.origin() }],
            expand: self.proposed.tunables.iter().map(|it| it.name.clone()).collect(),
            evolution: EvolutionarySettings::STANDARD,
        };
        let mut proposer = strategy(Strategy::Evolutionary, Arc::new(space), config)?;
        proposer.observe(&first.job, score(&first));
        let mut best = first;
        for _ in 0..self.start.settings.tune_trials {
            bench.stop_if_asked()?;
            let Some(proposal) = proposer.propose(1)?.pop() else { break };
            let trial = bench.evaluate(kernel, &proposal.params, self.origin())?.trial;
            tally.tuning_trials += 1;
            proposer.observe(&trial.job, score(&trial));
            if score(&trial) < score(&best) {
                best = trial;
            }
        }
        Ok(best)
    }
}

/// Says whether other parameters of the same source may succeed: a tile that does not fit into the
/// registers or the shared memory, or that an assertion of the source refuses, is one of several.
/// What computes something wrong does so with other tiles too.
fn is_of_its_parameters(outcome: &Outcome) -> bool {
    match outcome {
        Outcome::CompileFailed { .. } => true,
        Outcome::Crashed { cause, .. } => {
            matches!(cause, CrashCause::Device { .. } | CrashCause::NotLoadable { .. })
        }
        Outcome::TimedOut { .. }
        | Outcome::Incorrect { .. }
        | Outcome::Implausible { .. }
        | Outcome::Passed { .. } => false,
    }
}

fn operator_name(operator: Operator) -> String {
    operator.name().to_string()
}
