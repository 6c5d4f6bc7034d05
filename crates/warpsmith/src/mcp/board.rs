//! The ranking of a lab over all of its runs.

use std::collections::{HashMap, HashSet};

use anyhow::Result;
use warpsmith_evidence::derive::{Entry, leaderboard};
use warpsmith_evidence::{Store, TrialSummary};
use warpsmith_model::stats::Interval;
use warpsmith_model::{
    CandidateId, EnvironmentId, Fidelity, LabId, Origin, RunId, TrialId, Verdict,
};

/// What passed at a fidelity, on one lab in one environment, fastest first.
#[derive(Clone, Debug, Default)]
pub struct Board {
    /// Where the times were taken; none where there is no run.
    pub environment: Option<EnvironmentId>,
    /// How many runs were looked at.
    pub n_runs: usize,
    /// The workloads that a score covers.
    pub workloads: Vec<String>,
    /// The places.
    pub places: Vec<BoardEntry>,
    /// Passed trials without a time on every workload.
    pub n_unranked: usize,
}

/// A place on a board.
#[derive(Clone, Debug)]
pub struct BoardEntry {
    /// The trial.
    pub trial: TrialId,
    /// The run that it is of.
    pub run: RunId,
    /// The kernel.
    pub kernel: String,
    /// Its parameters, in words.
    pub params: String,
    /// Who proposed it.
    pub origin: &'static str,
    /// The geometric mean of its medians, in seconds.
    pub score_s: Interval,
}

/// Ranks what passed on a lab, in an environment, or else in that of the lab's newest run. Times of
/// other environments or of the lab before an edit are not comparable and left out.
pub fn ranked(
    store: &Store,
    lab: LabId,
    environment: Option<EnvironmentId>,
    fidelity: Fidelity,
) -> Result<Board> {
    let mut runs = store.runs()?;
    runs.retain(|run| run.record.lab.id == lab);
    let Some(environment) = environment.or(runs.first().map(|run| run.record.environment)) else {
        return Ok(Board::default());
    };
    runs.retain(|run| run.record.environment == environment);
    let mut seen: HashSet<TrialId> = HashSet::new();
    let mut run_of: HashMap<TrialId, RunId> = HashMap::new();
    let mut trials: Vec<TrialSummary> = Vec::new();
    // Oldest first, so that a trial that was taken over belongs to the run that measured it.
    for run in runs.iter().rev() {
        for trial in store.summaries(&run.record.id)? {
            if seen.insert(trial.id) {
                run_of.insert(trial.id, run.record.id.clone());
                trials.push(trial);
            }
        }
    }
    // One wrong output is enough, whatever a luckier evaluation of the same candidate said.
    let caught: HashSet<CandidateId> = trials
        .iter()
        .filter(|it| {
            matches!(it.verdict, Verdict::Incorrect | Verdict::Crashed | Verdict::Implausible)
        })
        .map(|trial| trial.candidate)
        .collect();
    trials.retain(|trial| !caught.contains(&trial.candidate));
    let Some(newest) = runs.first() else { return Ok(Board::default()) };
    let board = leaderboard(&newest.record, &trials, fidelity);
    let place = |entry: &Entry<'_>| {
        let trial = entry.trial;
        let run = run_of.get(&trial.id)?.clone();
        Some(BoardEntry {
            trial: trial.id,
            run,
            kernel: trial.kernel.clone(),
            params: trial.params.to_string(),
            origin: origin(&trial.origin),
            score_s: entry.score_s,
        })
    };
    Ok(Board {
        environment: Some(environment),
        n_runs: runs.len(),
        places: board.entries.iter().filter_map(place).collect(),
        n_unranked: board.unranked.len(),
        workloads: board.workloads,
    })
}

fn origin(origin: &Origin) -> &'static str {
    match origin {
        Origin::Seed => "author",
        Origin::Micro | Origin::Tuned { .. } => "search",
        Origin::Evolved { .. } => "evolution",
        Origin::Manual => "agent or person",
        Origin::Baseline => "library",
    }
}
