//! The lineage, the funnel and the cost of an evolution, from its calls and trials.

use std::collections::{BTreeMap, HashMap};

use warpsmith_model::stats::Comparison;
use warpsmith_model::{
    BlobId, CallAnswer, CallRecord, CandidateId, ComparisonPurpose, ComparisonRecord,
    ContenderKind, EvolutionStart, Fidelity, Origin, Rejection, ReplyVerdict, Verdict,
};

use super::leaderboard::score;
use super::standings::standings;
use crate::summary::TrialSummary;

/// An evolution.
#[derive(Clone, Debug, PartialEq)]
pub struct Evolution<'a> {
    /// The trial of the seed.
    pub seed: Option<&'a TrialSummary>,
    /// The seed's ranked time.
    pub seed_s: Option<f64>,
    /// The time that speed-ups are counted from: the seed's, or that of the first correct source where the
    /// seed is wrong.
    pub start_s: Option<f64>,
    /// One per call, in order.
    pub steps: Vec<Step<'a>>,
    /// What became of all calls.
    pub funnel: Funnel,
}

/// A call and what became of it.
#[derive(Clone, Debug, PartialEq)]
pub struct Step<'a> {
    /// The call.
    pub call: &'a CallRecord,
    /// Its ranked trials: the source with its own numbers first, then others.
    pub trials: Vec<&'a TrialSummary>,
    /// The trial with the best time.
    pub best: Option<&'a TrialSummary>,
    /// The ranked time of the best.
    pub time_s: Option<f64>,
    /// How far it came.
    pub fate: StepFate,
    /// The steps that it was made of; none stands for the seed.
    pub parents: Vec<Option<usize>>,
    /// The best ranked time that was accepted, after this step.
    pub best_so_far_s: Option<f64>,
    /// Tokens of this call and all before it.
    pub tokens: u64,
    /// The cost of this call and all before it.
    pub cost: f64,
}

/// How far a call came, from nowhere to the best.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum StepFate {
    /// The provider failed.
    Unanswered,
    /// The reply holds no candidate.
    Rejected,
    /// The candidate was not evaluated before the run ended.
    Pending,
    /// The candidate compiled to an earlier one's program.
    Twin,
    /// The compiler refused it.
    NotCompiled,
    /// It compiled and failed the gate.
    Wrong,
    /// It passed the gate.
    Correct,
    /// Its ranked time is below the seed's.
    Faster,
    /// It took the best's place in paired rounds.
    Accepted,
}

/// How many calls came how far; each count includes those that came further.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Funnel {
    /// Calls.
    pub calls: usize,
    /// With a reply.
    pub answered: usize,
    /// With a candidate that is new.
    pub parsed: usize,
    /// Whose candidate compiled to an earlier one's program; they came no further.
    pub twins: usize,
    /// Whose candidate compiled.
    pub compiled: usize,
    /// Whose candidate passed the gate.
    pub correct: usize,
    /// Whose candidate ranks before the seed.
    pub faster: usize,
    /// Whose candidate became the best.
    pub accepted: usize,
    /// Replies without a candidate, by reason.
    pub rejected: BTreeMap<Rejection, usize>,
}

/// Follows every call of an evolution.
pub fn evolution<'a>(
    start: &EvolutionStart,
    calls: &'a [CallRecord],
    trials: &'a [TrialSummary],
    comparisons: &[ComparisonRecord],
) -> Evolution<'a> {
    let seed = trials.iter().find(|trial| trial.id == start.seed_trial);
    let workloads = seed.map(|trial| trial.workloads.clone()).unwrap_or_default();
    let time = |trial: &TrialSummary| score(trial, &workloads).map(|interval| interval.mid);
    let seed_s = seed.and_then(time);
    let mut by_call: HashMap<BlobId, Vec<&TrialSummary>> = HashMap::new();
    for trial in trials.iter().filter(|trial| trial.fidelity == Fidelity::Rank) {
        if let Origin::Evolved { call, .. } = &trial.origin {
            by_call.entry(*call).or_default().push(trial);
        }
    }
    let mut made_by: HashMap<CandidateId, Option<usize>> = HashMap::new();
    made_by.extend(seed.map(|trial| (trial.candidate, None)));
    let mut steps: Vec<Step<'a>> = Vec::new();
    let mut funnel = Funnel { calls: calls.len(), ..Funnel::default() };
    let (mut tokens, mut cost, mut best_so_far_s, mut start_s) = (0, 0.0, seed_s, seed_s);
    for (idx, call) in calls.iter().enumerate() {
        let trials = by_call.remove(&call.id()).unwrap_or_default();
        made_by.extend(trials.iter().map(|trial| (trial.candidate, Some(idx))));
        let timed = trials.iter().filter_map(|trial| Some((time(trial)?, *trial)));
        let best = timed.min_by(|one, other| one.0.total_cmp(&other.0));
        let time_s = best.map(|(time_s, _)| time_s);
        let mut fate = fate(call, &trials, time_s, start_s, comparisons);
        if fate == StepFate::Correct && start_s.is_none() && time_s.is_some() {
            // The first that is correct takes the place of a seed that is not, without a challenge.
            fate = StepFate::Accepted;
            start_s = time_s;
        }
        funnel.count(call, fate);
        tokens += call.usage.tokens();
        cost += call.cost;
        if fate == StepFate::Accepted {
            best_so_far_s = best.map(|(time_s, _)| time_s);
        }
        let parents = call.parents.iter().filter_map(|id| made_by.get(id).copied()).collect();
        steps.push(Step {
            call,
            best: best.map(|(_, trial)| trial),
            time_s: best.map(|(time_s, _)| time_s),
            trials,
            fate,
            parents,
            best_so_far_s,
            tokens,
            cost,
        });
    }
    Evolution { seed, seed_s, start_s, steps, funnel }
}

fn fate(
    call: &CallRecord,
    trials: &[&TrialSummary],
    time_s: Option<f64>,
    seed_s: Option<f64>,
    comparisons: &[ComparisonRecord],
) -> StepFate {
    let kernel = match &call.answer {
        CallAnswer::Failed { .. } => return StepFate::Unanswered,
        CallAnswer::Replied { verdict: ReplyVerdict::Rejected { .. }, .. } => {
            return StepFate::Rejected;
        }
        CallAnswer::Replied { verdict: ReplyVerdict::Proposed { kernel, .. }, .. } => kernel,
    };
    let Some(first) = trials.first() else { return StepFate::Pending };
    if first.same_binary_as.is_some() {
        return StepFate::Twin;
    }
    // Where the first configuration does not fit, another one of the same source may.
    let passed = trials.iter().find(|trial| trial.verdict == Verdict::Passed);
    match passed.unwrap_or(first).verdict {
        Verdict::CompileFailed => return StepFate::NotCompiled,
        Verdict::Passed => {}
        _ => return StepFate::Wrong,
    }
    if comparisons.iter().any(|record| accepts(record, kernel)) {
        return StepFate::Accepted;
    }
    match time_s.zip(seed_s) {
        Some((time_s, seed_s)) if time_s < seed_s => StepFate::Faster,
        _ => StepFate::Correct,
    }
}

/// Says whether a challenge made this kernel the best.
fn accepts(record: &ComparisonRecord, kernel: &str) -> bool {
    let is_challenger = record.contenders.get(1).is_some_and(
        |it| matches!(&it.kind, ContenderKind::Kernel { kernel: name, .. } if name == kernel),
    );
    record.purpose == ComparisonPurpose::NewBest
        && is_challenger
        && standings(record, 1).first().is_some_and(|best| {
            best.verdict == Some(Comparison::Faster) && best.covered == record.workloads.len()
        })
}

impl Funnel {
    fn count(&mut self, call: &CallRecord, fate: StepFate) {
        if let CallAnswer::Replied { verdict: ReplyVerdict::Rejected { reason, .. }, .. } =
            &call.answer
        {
            *self.rejected.entry(*reason).or_default() += 1;
        }
        self.answered += usize::from(fate > StepFate::Unanswered);
        self.parsed += usize::from(fate > StepFate::Rejected);
        self.twins += usize::from(fate == StepFate::Twin);
        self.compiled += usize::from(fate > StepFate::NotCompiled);
        self.correct += usize::from(fate > StepFate::Wrong);
        self.faster += usize::from(fate > StepFate::Correct);
        self.accepted += usize::from(fate == StepFate::Accepted);
    }
}
