//! Who won, how that was decided, and which measurement its times are from.
//!
//! Every place that names a run's winner or a time of it asks here: the terminal's summary, `show`, the
//! report and the exports. The rule is in docs/measuring.md ("The number of a winner").

use warpsmith_model::stats::{Comparison, Interval};
use warpsmith_model::{
    ComparisonPurpose, ComparisonRecord, ContenderKind, Fidelity, Goal, Params, RunRecord, Verdict,
};

use super::leaderboard::{Entry, Leaderboard, leaderboard};
use super::standings::standings;
use crate::summary::{TrialSummary, WorkloadTime};

/// The winner of a run.
#[derive(Clone, Debug, PartialEq)]
pub struct Winner<'a> {
    /// The trial that its times are from.
    pub trial: &'a TrialSummary,
    /// The geometric mean of its medians over the workloads that were asked for, in seconds.
    pub score_s: Interval,
    /// Its place in the ranking of `fidelity`.
    pub entry: Entry<'a>,
    /// The fidelity of its times.
    pub fidelity: Fidelity,
    /// How it was chosen.
    pub decision: Decision,
}

impl Winner<'_> {
    /// Returns its time on a workload: the number of this winner on it, wherever one is named.
    pub fn time(&self, workload: &str) -> Option<&WorkloadTime> {
        self.trial.time(workload)
    }
}

/// How a winner was chosen.
#[derive(Clone, Debug, PartialEq)]
pub enum Decision {
    /// By paired rounds.
    Paired {
        /// Index into the run's comparisons.
        comparison: usize,
        /// Index into the comparison's contenders.
        contender: usize,
        /// Contenders that the winner is not shown to be faster than, baselines aside.
        ties: Vec<usize>,
    },
    /// By the ranking alone: its first place has not been held against the others in paired rounds.
    Ranked,
}

/// Returns the winner of a run. Who passed the full gate wins over everybody who did not; nobody wins with
/// times of the microbenchmark, and no baseline does. Among those, the last comparison decides that has
/// one of them in it; without one, the ranking does.
pub fn winner<'a>(
    record: &RunRecord,
    trials: &'a [TrialSummary],
    comparisons: &[ComparisonRecord],
) -> Option<Winner<'a>> {
    [Fidelity::Full, Fidelity::Rank].into_iter().find_map(|fidelity| {
        let board = leaderboard(record, trials, fidelity);
        paired(record, &board, comparisons).or_else(|| ranked(&board))
    })
}

/// Returns the trial that the times of a configuration are from: the one that passed the full gate.
pub fn trial_of_record<'a>(
    trials: &'a [TrialSummary],
    kernel: &str,
    params: &Params,
) -> Option<&'a TrialSummary> {
    trials.iter().find(|trial| {
        trial.fidelity == Fidelity::Full
            && trial.verdict == Verdict::Passed
            && trial.kernel == kernel
            && trial.params == *params
    })
}

/// Returns which contender of a comparison a configuration is.
pub fn place(comparison: &ComparisonRecord, kernel: &str, params: &Params) -> Option<usize> {
    comparison.contenders.iter().position(|contender| match &contender.kind {
        ContenderKind::Kernel { kernel: its_kernel, params: its_params, .. } => {
            its_kernel == kernel && its_params == params
        }
        ContenderKind::Baseline { .. } => false,
    })
}

/// Says which measurement the times of a fidelity are from, as a table's note has it.
pub fn measured_in(fidelity: Fidelity) -> &'static str {
    match fidelity {
        Fidelity::Full => "the full gate",
        Fidelity::Rank => "the search, at rank fidelity",
        Fidelity::Micro => "the microbenchmark",
    }
}

fn ranked<'a>(board: &Leaderboard<'a>) -> Option<Winner<'a>> {
    let entry = board.entries.first()?.clone();
    let (trial, score_s) = (entry.trial, entry.score_s);
    Some(Winner { trial, score_s, entry, fidelity: board.fidelity, decision: Decision::Ranked })
}

fn paired<'a>(
    record: &RunRecord,
    board: &Leaderboard<'a>,
    comparisons: &[ComparisonRecord],
) -> Option<Winner<'a>> {
    comparisons.iter().enumerate().rev().find_map(|(comparison_idx, comparison)| {
        let contender =
            first_of(record, comparison, &|idx| found(board, comparison, idx).is_some())?;
        let (entry, trial) = found(board, comparison, contender)?;
        let decision = Decision::Paired {
            comparison: comparison_idx,
            contender,
            ties: not_beaten(comparison, contender),
        };
        Some(Winner {
            trial,
            score_s: entry.score_s,
            entry: entry.clone(),
            fidelity: board.fidelity,
            decision,
        })
    })
}

/// Finds a contender's place in a ranking and its own trial: of twins, the place has the first one's.
fn found<'b, 'a>(
    board: &'b Leaderboard<'a>,
    comparison: &ComparisonRecord,
    contender: usize,
) -> Option<(&'b Entry<'a>, &'a TrialSummary)> {
    let ContenderKind::Kernel { kernel, params, .. } = &comparison.contenders[contender].kind
    else {
        return None;
    };
    board.entries.iter().find_map(|entry| {
        let own = std::iter::once(&entry.trial)
            .chain(&entry.twins)
            .find(|trial| trial.kernel == *kernel && trial.params == *params)?;
        Some((entry, *own))
    })
}

/// Returns the kernel that a comparison is won by, of those that may win. What a search holds against
/// others in the end is its winner, whatever comes of it. Elsewhere it is the kernel with the largest gain
/// over the first; one that is not shown to be faster has none, since a noisy winner is none.
fn first_of(
    record: &RunRecord,
    comparison: &ComparisonRecord,
    may_win: &dyn Fn(usize) -> bool,
) -> Option<usize> {
    let is_kernel =
        |idx: &usize| matches!(comparison.contenders[*idx].kind, ContenderKind::Kernel { .. });
    let kernels: Vec<usize> = (0..comparison.contenders.len()).filter(is_kernel).collect();
    let incumbent = *kernels.first()?;
    if !kernels.iter().any(|idx| may_win(*idx)) {
        return None;
    }
    if comparison.purpose == ComparisonPurpose::Final && searches(record) {
        return Some(incumbent).filter(|idx| may_win(*idx));
    }
    let n_workloads = comparison.workloads.len();
    let mut gains: Vec<(f64, usize)> = standings(comparison, incumbent)
        .into_iter()
        .filter(|standing| is_kernel(&standing.contender) && may_win(standing.contender))
        .map(|standing| {
            let gain = match (standing.speedup, standing.verdict) {
                _ if standing.contender == incumbent => 1.0,
                _ if standing.covered < n_workloads => 0.0,
                // The verdict is on the incumbent.
                (Some(over), Some(Comparison::Slower)) => 1.0 / over.mid,
                (Some(over), _) => (1.0 / over.mid).min(1.0),
                (None, _) => 0.0,
            };
            (gain, standing.contender)
        })
        .collect();
    // A stable sort: of equal gains the earlier contender stays first.
    gains.sort_by(|a, b| b.0.total_cmp(&a.0));
    gains.first().map(|(_, contender)| *contender)
}

/// Says whether a run searched for its winner; older evidence does not say what it was for.
fn searches(record: &RunRecord) -> bool {
    let goal = record.settings.get("goal").cloned();
    goal.and_then(|goal| serde_json::from_value::<Goal>(goal).ok()).is_some_and(Goal::searches)
}

/// Returns the kernels of a comparison that one of them is not shown to be faster than.
fn not_beaten(comparison: &ComparisonRecord, first: usize) -> Vec<usize> {
    standings(comparison, first)
        .into_iter()
        .filter(|standing| !standing.is_baseline && standing.contender != first)
        .filter(|standing| standing.verdict.is_some_and(|verdict| verdict != Comparison::Faster))
        .map(|standing| standing.contender)
        .collect()
}
