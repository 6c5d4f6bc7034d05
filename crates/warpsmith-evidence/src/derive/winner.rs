//! Who won, and how that was decided.

use warpsmith_model::stats::Comparison;
use warpsmith_model::{ComparisonRecord, ContenderKind, Fidelity, RunRecord};

use super::leaderboard::{Entry, leaderboard};
use super::standings::standings;
use crate::summary::TrialSummary;

/// The winner of a run.
#[derive(Clone, Debug, PartialEq)]
pub struct Winner<'a> {
    /// Its place in the ranking of `fidelity`.
    pub entry: Entry<'a>,
    /// The fidelity of the entry's times.
    pub fidelity: Fidelity,
    /// How it was chosen.
    pub decision: Decision,
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

/// Returns the winner of a run: by the last comparison that has kernels in it, or else by the
/// ranking at `Full`, or else at `Rank`. A baseline never wins, and neither does a time of `Micro`.
pub fn winner<'a>(
    record: &RunRecord,
    trials: &'a [TrialSummary],
    comparisons: &[ComparisonRecord],
) -> Option<Winner<'a>> {
    let boards =
        [Fidelity::Full, Fidelity::Rank].map(|fidelity| leaderboard(record, trials, fidelity));
    for (comparison_idx, comparison) in comparisons.iter().enumerate().rev() {
        let Some((contender, ties)) = first_of(comparison) else { continue };
        let is_it =
            |entry: &&Entry<'_>| is_contender(entry, &comparison.contenders[contender].kind);
        let found = boards.iter().find_map(|board| {
            board.entries.iter().find(is_it).map(|entry| (board.fidelity, entry))
        });
        if let Some((fidelity, entry)) = found {
            let decision = Decision::Paired { comparison: comparison_idx, contender, ties };
            return Some(Winner { entry: entry.clone(), fidelity, decision });
        }
    }
    boards.into_iter().find_map(|board| {
        let fidelity = board.fidelity;
        let entry = board.entries.into_iter().next()?;
        Some(Winner { entry, fidelity, decision: Decision::Ranked })
    })
}

/// Returns the fastest kernel of a comparison and the kernels that tie with it. The first contender
/// keeps its place unless another one is shown to be faster: a noisy winner is none.
fn first_of(comparison: &ComparisonRecord) -> Option<(usize, Vec<usize>)> {
    let is_kernel =
        |idx: &usize| matches!(comparison.contenders[*idx].kind, ContenderKind::Kernel { .. });
    let incumbent = (0..comparison.contenders.len()).find(is_kernel)?;
    let n_workloads = comparison.workloads.len();
    let faster = standings(comparison, incumbent)
        .into_iter()
        .filter(|standing| is_kernel(&standing.contender) && standing.covered == n_workloads)
        .filter(|standing| standing.verdict == Some(Comparison::Slower))
        .filter_map(|standing| Some((standing.speedup?.mid, standing.contender)))
        .min_by(|(a, _), (b, _)| a.total_cmp(b));
    let first = faster.map_or(incumbent, |(_, contender)| contender);
    let ties = standings(comparison, first)
        .into_iter()
        .filter(|standing| is_kernel(&standing.contender) && standing.contender != first)
        .filter(|standing| matches!(standing.verdict, Some(Comparison::Tie | Comparison::Unclear)))
        .map(|standing| standing.contender)
        .collect();
    Some((first, ties))
}

fn is_contender(entry: &Entry<'_>, kind: &ContenderKind) -> bool {
    match kind {
        ContenderKind::Kernel { kernel, params, .. } => std::iter::once(&entry.trial)
            .chain(&entry.twins)
            .any(|trial| trial.kernel == *kernel && trial.params == *params),
        ContenderKind::Baseline { .. } => false,
    }
}
