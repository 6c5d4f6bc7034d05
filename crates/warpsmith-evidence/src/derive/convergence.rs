//! How the best time fell, trial by trial and second by second.

use warpsmith_model::{RunRecord, Verdict};

use super::leaderboard::{Leaderboard, score};
use crate::summary::TrialSummary;

/// The state after one trial.
#[derive(Clone, Debug, PartialEq)]
pub struct ConvergencePoint<'a> {
    /// The trial.
    pub trial: &'a TrialSummary,
    /// How many trials of this fidelity there were by then, failed ones included.
    pub evaluations: usize,
    /// Seconds since the run began.
    pub elapsed_s: f64,
    /// Seconds that the trials of this fidelity took by then, whoever measured them.
    pub cost_s: f64,
    /// This trial's score; none when it failed or misses a workload.
    pub score_s: Option<f64>,
    /// The best score so far.
    pub best_s: Option<f64>,
}

/// Follows the best score of a board through its run; baselines do not take part.
pub fn convergence<'a>(
    record: &RunRecord,
    trials: &'a [TrialSummary],
    board: &Leaderboard<'_>,
) -> Vec<ConvergencePoint<'a>> {
    let mut cost_s = 0.0;
    let mut best_s: Option<f64> = None;
    trials
        .iter()
        .filter(|trial| trial.fidelity == board.fidelity && !trial.is_baseline())
        .enumerate()
        .map(|(idx, trial)| {
            cost_s += trial.wall_s;
            let score_s = (trial.verdict == Verdict::Passed)
                .then(|| score(trial, &board.workloads))
                .flatten()
                .map(|score| score.mid);
            best_s = match (best_s, score_s) {
                (Some(best), Some(score)) => Some(best.min(score)),
                (best, score) => best.or(score),
            };
            ConvergencePoint {
                trial,
                evaluations: idx + 1,
                elapsed_s: (trial.at_unix_s - record.started_unix_s).max(0.0),
                cost_s,
                score_s,
                best_s,
            }
        })
        .collect()
}
