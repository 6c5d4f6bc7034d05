//! What happened, counted.

use std::collections::BTreeMap;

use serde_json::{Value as Json, json};
use warpsmith_model::{CallAnswer, CallRecord, Outcome, Rejection, ReplyVerdict, Trial, units};

/// The funnel of an evolution, and what it cost.
#[derive(Clone, Debug, PartialEq)]
pub struct Tally {
    /// Calls made: the trials of the budget.
    pub calls: u32,
    /// Calls that the provider failed.
    pub unanswered: u32,
    /// Replies without a candidate, by reason.
    pub rejected: BTreeMap<Rejection, u32>,
    /// Replies with a new candidate.
    pub parsed: u32,
    /// Of those, candidates that compiled to the program of an earlier one.
    pub twins: u32,
    /// Candidates that compiled.
    pub compiled: u32,
    /// Candidates that passed the gate.
    pub correct: u32,
    /// Candidates whose ranked time is below that of the start.
    pub faster: u32,
    /// Candidates that took the place of the best in paired rounds.
    pub accepted: u32,
    /// Evaluations beyond the first of each source.
    pub tuning_trials: u32,
    /// Sources that were profiled because a prompt described them.
    pub profiled: u32,
    /// Of those, the ones that a profiler could count nothing of.
    pub without_counters: u32,
    /// Tokens of prompts.
    pub input_tokens: u64,
    /// Tokens of replies.
    pub output_tokens: u64,
    /// Calls whose tokens were estimated.
    pub estimated: u32,
    /// What it cost.
    pub cost: f64,
    /// The ranked time of the start: the seed, or the first correct candidate where the seed is wrong.
    pub start_s: Option<f64>,
    /// Whether that is the seed.
    pub from_seed: bool,
    /// The best's ranked time.
    pub best_s: Option<f64>,
    /// The ranked times of everything that is correct, in order.
    pub times_s: Vec<f64>,
    /// Seconds that providers took.
    pub provider_s: f64,
    /// Seconds of those that this process waited: stored calls are not made again.
    pub waited_s: f64,
    /// Seconds that evaluation took.
    pub evaluation_s: f64,
    /// Seconds of the whole loop.
    pub elapsed_s: f64,
}

impl Tally {
    /// Starts from a seed of this time; none where it is wrong.
    pub fn new(seed_s: Option<f64>) -> Self {
        Self {
            calls: 0,
            unanswered: 0,
            rejected: BTreeMap::new(),
            parsed: 0,
            twins: 0,
            compiled: 0,
            correct: 0,
            faster: 0,
            accepted: 0,
            tuning_trials: 0,
            profiled: 0,
            without_counters: 0,
            input_tokens: 0,
            output_tokens: 0,
            estimated: 0,
            cost: 0.0,
            start_s: seed_s,
            from_seed: seed_s.is_some(),
            best_s: seed_s,
            times_s: Vec::new(),
            provider_s: 0.0,
            waited_s: 0.0,
            evaluation_s: 0.0,
            elapsed_s: 0.0,
        }
    }

    /// Counts a call.
    pub fn called(&mut self, call: &CallRecord) {
        self.calls += 1;
        self.input_tokens += call.usage.input_tokens;
        self.output_tokens += call.usage.output_tokens;
        self.estimated += u32::from(call.usage.estimated);
        self.cost += call.cost;
        self.provider_s += call.provider_s;
        match &call.answer {
            CallAnswer::Failed { .. } => self.unanswered += 1,
            CallAnswer::Replied { verdict: ReplyVerdict::Rejected { reason, .. }, .. } => {
                *self.rejected.entry(*reason).or_default() += 1;
            }
            CallAnswer::Replied { verdict: ReplyVerdict::Proposed { .. }, .. } => self.parsed += 1,
        }
    }

    /// Counts the first evaluation of a source.
    pub fn evaluated(&mut self, trial: &Trial) {
        if !matches!(trial.outcome, Outcome::CompileFailed { .. }) {
            self.compiled += 1;
        }
        if matches!(trial.outcome, Outcome::Passed { .. }) {
            self.correct += 1;
        }
    }

    /// Counts the time of a correct source, and whether it took the best's place.
    pub fn timed(&mut self, time_s: f64, is_best: bool) {
        self.times_s.push(time_s);
        let start_s = *self.start_s.get_or_insert(time_s);
        self.faster += u32::from(time_s < start_s);
        if is_best {
            self.accepted += 1;
            self.best_s = Some(time_s);
        }
    }

    /// Counts a profile.
    pub fn profiled(&mut self, has_counters: bool) {
        self.profiled += 1;
        self.without_counters += u32::from(!has_counters);
    }

    /// Returns all tokens.
    pub fn tokens(&self) -> u64 {
        self.input_tokens.saturating_add(self.output_tokens)
    }

    /// Returns the share of calls that gave a correct candidate.
    pub fn validity(&self) -> f64 {
        if self.calls == 0 { 0.0 } else { f64::from(self.correct) / f64::from(self.calls) }
    }

    /// Returns how much faster than the start the best is, by ranked times.
    pub fn speedup(&self) -> Option<f64> {
        Some(self.start_s? / self.best_s?)
    }

    /// Returns the seconds of a call that neither the provider nor the evaluation took.
    pub fn overhead_s(&self) -> f64 {
        let own = self.elapsed_s - self.waited_s - self.evaluation_s;
        if self.calls == 0 { 0.0 } else { own.max(0.0) / f64::from(self.calls) }
    }

    /// Says where an evolution stands, in one line.
    pub fn words(&self) -> String {
        let cost = match self.cost {
            cost if cost > 0.0 => format!(", cost {cost:.4}"),
            _ => String::new(),
        };
        let best = match self.best_s.zip(self.speedup()) {
            Some((best_s, speedup)) => {
                let start = if self.from_seed { "the seed" } else { "the first correct one" };
                format!("best {} ({speedup:.2}x {start})", units::time(best_s))
            }
            None => "nothing correct yet".to_string(),
        };
        let valid = 100.0 * self.validity();
        format!("{best}, {valid:.0} % valid, {} tokens{cost}", self.tokens())
    }

    /// Renders for programs.
    pub fn to_json(&self) -> Json {
        let rejected: BTreeMap<&str, u32> =
            self.rejected.iter().map(|(reason, count)| (reason.name(), *count)).collect();
        json!({
            "calls": self.calls,
            "unanswered": self.unanswered,
            "rejected": rejected,
            "parsed": self.parsed,
            "twins": self.twins,
            "compiled": self.compiled,
            "correct": self.correct,
            "faster": self.faster,
            "accepted": self.accepted,
            "tuning_trials": self.tuning_trials,
            "profiled": self.profiled,
            "profiled_without_counters": self.without_counters,
            "validity": self.validity(),
            "input_tokens": self.input_tokens,
            "output_tokens": self.output_tokens,
            "calls_with_estimated_tokens": self.estimated,
            "cost": self.cost,
            "start_s": self.start_s,
            "from_seed": self.from_seed,
            "best_s": self.best_s,
            "times_s": self.times_s,
            "provider_s": self.provider_s,
            "evaluation_s": self.evaluation_s,
            "overhead_s_per_trial": self.overhead_s(),
        })
    }
}
