//! What each tunable does on its own: marginal medians over everything else that was tried.

use warpsmith_model::stats::median;
use warpsmith_model::{KernelRecord, Value, Verdict};

use super::leaderboard::{Leaderboard, score};
use crate::summary::TrialSummary;

/// What one tunable of a kernel does.
#[derive(Clone, Debug, PartialEq)]
pub struct ParameterEffect {
    /// The kernel.
    pub kernel: String,
    /// The tunable.
    pub name: String,
    /// One per value of the contract, in its order.
    pub values: Vec<ValueEffect>,
    /// The largest marginal median over the least; none when fewer than two values have one.
    pub spread: Option<f64>,
}

/// What one value of a tunable goes with.
#[derive(Clone, Debug, PartialEq)]
pub struct ValueEffect {
    /// The value.
    pub value: Value,
    /// How many trials had it.
    pub trials: usize,
    /// How many of them failed.
    pub failed: usize,
    /// The median score of those that have one, in seconds.
    pub median_s: Option<f64>,
    /// The best score, in seconds.
    pub best_s: Option<f64>,
}

/// Returns the effects of a kernel's tunables on a board, the largest spread first. Tunables with
/// one value are left out.
pub fn parameter_effects(
    kernel: &KernelRecord,
    trials: &[TrialSummary],
    board: &Leaderboard<'_>,
) -> Vec<ParameterEffect> {
    let trials: Vec<(&TrialSummary, Option<f64>)> = trials
        .iter()
        .filter(|trial| trial.fidelity == board.fidelity && trial.kernel == kernel.name)
        .filter(|trial| !trial.is_baseline())
        .map(|trial| (trial, score(trial, &board.workloads).map(|score| score.mid)))
        .collect();
    let mut effects: Vec<ParameterEffect> = kernel
        .tunables
        .iter()
        .filter(|tunable| tunable.values.len() > 1)
        .map(|tunable| {
            let effect = |value: &Value| value_effect(&tunable.name, value, &trials);
            let values: Vec<ValueEffect> = tunable.values.iter().map(effect).collect();
            let medians: Vec<f64> = values.iter().filter_map(|value| value.median_s).collect();
            let least = medians.iter().copied().fold(f64::INFINITY, f64::min);
            let most = medians.iter().copied().fold(0.0, f64::max);
            ParameterEffect {
                kernel: kernel.name.clone(),
                name: tunable.name.clone(),
                values,
                spread: (medians.len() > 1).then(|| most / least),
            }
        })
        .collect();
    effects.sort_by(|a, b| b.spread.unwrap_or(0.0).total_cmp(&a.spread.unwrap_or(0.0)));
    effects
}

fn value_effect(name: &str, value: &Value, trials: &[(&TrialSummary, Option<f64>)]) -> ValueEffect {
    let having: Vec<&(&TrialSummary, Option<f64>)> =
        trials.iter().filter(|(trial, _)| trial.params.get(name) == Some(value)).collect();
    let scores: Vec<f64> = having.iter().filter_map(|(_, score)| *score).collect();
    ValueEffect {
        value: value.clone(),
        trials: having.len(),
        failed: having.iter().filter(|(trial, _)| trial.verdict != Verdict::Passed).count(),
        median_s: median(&scores),
        best_s: scores.iter().copied().min_by(f64::total_cmp),
    }
}
