//! The ranking of one run at one fidelity.

use std::collections::{HashMap, HashSet};

use warpsmith_model::stats::{Interval, geomean};
use warpsmith_model::{CandidateId, Fidelity, RunRecord, TrialId, Verdict};

use crate::summary::TrialSummary;

/// A ranking.
#[derive(Clone, Debug, PartialEq)]
pub struct Leaderboard<'a> {
    /// How the times were taken.
    pub fidelity: Fidelity,
    /// The workloads that a score covers, in the lab's order.
    pub workloads: Vec<String>,
    /// Candidates with a score, fastest first.
    pub entries: Vec<Entry<'a>>,
    /// Libraries with a score, fastest first; they never win.
    pub baselines: Vec<Entry<'a>>,
    /// Passed trials without a score, in the order of the run.
    pub unranked: Vec<Unranked<'a>>,
}

/// A place in the ranking.
#[derive(Clone, Debug, PartialEq)]
pub struct Entry<'a> {
    /// The trial.
    pub trial: &'a TrialSummary,
    /// The geometric mean of the medians over the board's workloads, in seconds. The ends are the
    /// geometric means of the medians' ends: at least 95 %, rather more.
    pub score_s: Interval,
    /// Other trials of the run that built to the same binaries.
    pub twins: Vec<&'a TrialSummary>,
}

/// A passed trial that cannot be ranked.
#[derive(Clone, Debug, PartialEq)]
pub struct Unranked<'a> {
    /// The trial.
    pub trial: &'a TrialSummary,
    /// The workloads of the board on which it has no time.
    pub missing: Vec<String>,
}

/// Ranks the passed trials of a run at one fidelity.
pub fn leaderboard<'a>(
    record: &RunRecord,
    trials: &'a [TrialSummary],
    fidelity: Fidelity,
) -> Leaderboard<'a> {
    let workloads = board_workloads(record, trials, fidelity);
    let mut board = Leaderboard {
        fidelity,
        workloads,
        entries: Vec::new(),
        baselines: Vec::new(),
        unranked: Vec::new(),
    };
    let mut by_original: HashMap<TrialId, usize> = HashMap::new();
    let mut ranked: HashSet<CandidateId> = HashSet::new();
    let mut entries: Vec<Entry<'a>> = Vec::new();
    let passed = trials
        .iter()
        .filter(|trial| trial.fidelity == fidelity && trial.verdict == Verdict::Passed);
    for trial in passed {
        let Some(score_s) = score(trial, &board.workloads) else {
            let has_time = |workload: &&String| trial.time(workload).is_none();
            let missing = board.workloads.iter().filter(has_time).cloned().collect();
            board.unranked.push(Unranked { trial, missing });
            continue;
        };
        if !ranked.insert(trial.candidate) {
            continue;
        }
        // The first of several twins in this run stands for them all.
        let original = trial.same_binary_as.unwrap_or(trial.id);
        match by_original.get(&original) {
            Some(idx) => entries[*idx].twins.push(trial),
            None => {
                by_original.insert(original, entries.len());
                entries.push(Entry { trial, score_s, twins: Vec::new() });
            }
        }
    }
    // A stable sort: of equal scores the earlier trial stays first.
    entries.sort_by(|a, b| a.score_s.mid.total_cmp(&b.score_s.mid));
    (board.baselines, board.entries) =
        entries.into_iter().partition(|entry| entry.trial.is_baseline());
    board
}

/// Returns the best entry of every kernel, in the order of the names: the ladder's steps.
pub fn best_by_kernel<'b, 'a>(board: &'b Leaderboard<'a>) -> Vec<&'b Entry<'a>> {
    let mut seen = HashSet::new();
    let mut best: Vec<&Entry<'a>> =
        board.entries.iter().filter(|entry| seen.insert(entry.trial.kernel.as_str())).collect();
    best.sort_by(|a, b| a.trial.kernel.cmp(&b.trial.kernel));
    best
}

/// Returns the fastest candidate on every workload of a board, ranked or not: what to use when one
/// kernel does not have to serve all shapes. Workloads on which nothing has passed are left out.
pub fn best_by_workload<'a>(
    board: &Leaderboard<'a>,
    trials: &'a [TrialSummary],
) -> Vec<(String, &'a TrialSummary)> {
    let candidates: Vec<&TrialSummary> = trials
        .iter()
        .filter(|trial| trial.fidelity == board.fidelity && !trial.is_baseline())
        .collect();
    board
        .workloads
        .iter()
        .filter_map(|workload| {
            let timed = candidates
                .iter()
                .filter_map(|trial| Some((trial.time(workload)?.median_s.mid, *trial)));
            let (_, best) = timed.min_by(|(a, _), (b, _)| a.total_cmp(b))?;
            Some((workload.clone(), best))
        })
        .collect()
}

/// Returns the score of a trial over these workloads; none when it has no time on one of them.
pub(crate) fn score(trial: &TrialSummary, workloads: &[String]) -> Option<Interval> {
    let medians: Vec<Interval> = workloads
        .iter()
        .map(|workload| trial.time(workload).map(|time| time.median_s))
        .collect::<Option<_>>()?;
    let mean = |part: fn(&Interval) -> f64| geomean(&medians.iter().map(part).collect::<Vec<_>>());
    Some(Interval {
        low: mean(|median| median.low)?,
        mid: mean(|median| median.mid)?,
        high: mean(|median| median.high)?,
    })
}

/// The workloads that any candidate was asked to run at a fidelity, in the lab's order.
fn board_workloads(record: &RunRecord, trials: &[TrialSummary], fidelity: Fidelity) -> Vec<String> {
    let asked: HashSet<&String> = trials
        .iter()
        .filter(|trial| trial.fidelity == fidelity && !trial.is_baseline())
        .flat_map(|trial| &trial.workloads)
        .collect();
    let known = record.lab.shapes().map(|workload| &workload.name);
    known.filter(|name| asked.contains(name)).cloned().collect()
}
