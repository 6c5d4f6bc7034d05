//! Lists of the best: written by one run, read as seeds by the next.

use std::path::Path;

use warpsmith_model::{
    BestEntry, BestList, ComparisonRecord, Environment, FORMAT_VERSION, Fidelity, RunRecord,
};

use super::{BEST_LENGTH, ExportError, read_json, replace_json};
use crate::derive::{Entry, Leaderboard, leaderboard, winner};
use crate::summary::TrialSummary;

/// Lists the best of a run at the first of these fidelities that has any; the winner is first even
/// where the paired rounds and the ranking disagree. No entries when nothing passed.
pub fn best_list(
    record: &RunRecord,
    environment: &Environment,
    trials: &[TrialSummary],
    comparisons: &[ComparisonRecord],
    fidelities: &[Fidelity],
) -> BestList {
    let boards: Vec<Leaderboard<'_>> =
        fidelities.iter().map(|fidelity| leaderboard(record, trials, *fidelity)).collect();
    let board = boards.iter().find(|board| !board.entries.is_empty());
    let fidelity = board.map(|board| board.fidelity);
    let mut entries: Vec<BestEntry> =
        board.iter().flat_map(|board| &board.entries).map(|it| best_entry(it, it.trial)).collect();
    // By candidate: the winner was evaluated again, at a higher fidelity than the list's. It may be a twin
    // of the one that has the place.
    if let (Some(board), Some(winner)) = (board, winner(record, trials, comparisons)) {
        let own = |entry: &Entry<'_>| {
            std::iter::once(&entry.trial)
                .chain(&entry.twins)
                .find(|trial| trial.candidate == winner.trial.candidate)
                .map(|trial| best_entry(entry, trial))
        };
        let place = board.entries.iter().enumerate().find_map(|(idx, it)| Some((idx, own(it)?)));
        if let Some((place, own)) = place {
            entries[place] = own;
            entries[..=place].rotate_right(1);
        }
    }
    BestList {
        format: FORMAT_VERSION,
        run: record.id.clone(),
        lab: record.lab.name.clone(),
        lab_id: record.lab.id,
        environment: record.environment,
        device: environment.device.name.clone(),
        fidelity: fidelity.or(fidelities.last().copied()).unwrap_or(Fidelity::Rank),
        workloads: board.map(|board| board.workloads.clone()).unwrap_or_default(),
        entries: entries.into_iter().take(BEST_LENGTH).collect(),
    }
}

fn best_entry(entry: &Entry<'_>, trial: &TrialSummary) -> BestEntry {
    let times = trial.times.iter();
    BestEntry {
        kernel: trial.kernel.clone(),
        params: trial.params.clone(),
        candidate: trial.candidate,
        trial: trial.id,
        score_s: entry.score_s.mid,
        time_s: times.map(|time| (time.workload.clone(), time.median_s.mid)).collect(),
    }
}

/// Writes a list of the best.
pub fn write_best(path: &Path, list: &BestList) -> Result<(), ExportError> {
    replace_json(path, list)
}

/// Reads a list of the best, as [`write_best`] wrote it.
pub fn read_best(path: &Path) -> Result<BestList, ExportError> {
    let expected = "a list of the best, as `warpsmith export` writes it";
    read_json(path, expected, |list: &BestList| list.format)
}
