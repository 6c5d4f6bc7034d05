//! Trials as a table: one line each, one column per tunable and per workload.

use std::collections::BTreeSet;
use std::io::{self, Write};

use warpsmith_model::{Fidelity, Origin, RunRecord};

use crate::derive::{Leaderboard, leaderboard, score};
use crate::summary::TrialSummary;
use crate::utc::utc_text;

/// The columns before those of the tunables and the workloads.
const COLUMNS: [&str; 17] = [
    "seq",
    "time_utc",
    "fidelity",
    "kernel",
    "origin",
    "verdict",
    "score_s",
    "score_low_s",
    "score_high_s",
    "compile_s",
    "launch_s",
    "wall_s",
    "adopted",
    "trial",
    "candidate",
    "same_binary_as",
    "message",
];

/// Writes the trials of some fidelities as CSV (RFC 4180), in the order of the run. A score is over
/// all workloads of its own fidelity's ranking, and empty where the trial has none.
pub fn write_log(
    record: &RunRecord,
    trials: &[TrialSummary],
    fidelities: &[Fidelity],
    writer: &mut dyn Write,
) -> io::Result<()> {
    let boards: Vec<Leaderboard<'_>> =
        fidelities.iter().map(|fidelity| leaderboard(record, trials, *fidelity)).collect();
    let logged: Vec<&TrialSummary> =
        trials.iter().filter(|trial| fidelities.contains(&trial.fidelity)).collect();
    let tunables: BTreeSet<&str> =
        logged.iter().flat_map(|trial| trial.params.0.keys().map(String::as_str)).collect();
    let timed: BTreeSet<&str> = logged
        .iter()
        .flat_map(|trial| trial.times.iter().map(|time| time.workload.as_str()))
        .collect();
    let mut table = csv::Writer::from_writer(writer);
    let header = COLUMNS
        .iter()
        .map(|name| (*name).to_string())
        .chain(tunables.iter().map(|name| format!("param.{name}")))
        .chain(timed.iter().map(|name| format!("time_s.{name}")));
    table.write_record(header)?;
    for trial in logged {
        let board = boards.iter().find(|board| board.fidelity == trial.fidelity);
        let mut line = fixed_cells(trial, board);
        line.extend(tunables.iter().map(|name| text(trial.params.get(name))));
        line.extend(timed.iter().map(|name| text(trial.time(name).map(|time| time.median_s.mid))));
        table.write_record(&line)?;
    }
    table.flush()
}

fn fixed_cells(trial: &TrialSummary, board: Option<&Leaderboard<'_>>) -> Vec<String> {
    let score = board.and_then(|board| score(trial, &board.workloads));
    vec![
        trial.seq.to_string(),
        utc_text(trial.at_unix_s),
        trial.fidelity.name().to_string(),
        trial.kernel.clone(),
        origin_text(&trial.origin),
        trial.verdict.name().to_string(),
        text(score.map(|score| score.mid)),
        text(score.map(|score| score.low)),
        text(score.map(|score| score.high)),
        trial.compile_s.to_string(),
        trial.launch_s.to_string(),
        trial.wall_s.to_string(),
        trial.adopted.to_string(),
        trial.id.to_string(),
        trial.candidate.to_string(),
        text(trial.same_binary_as),
        trial.message.clone(),
    ]
}

fn text(value: Option<impl ToString>) -> String {
    value.map(|value| value.to_string()).unwrap_or_default()
}

fn origin_text(origin: &Origin) -> String {
    match origin {
        Origin::Seed => "seed".to_string(),
        Origin::Micro => "micro".to_string(),
        Origin::Tuned { strategy } => format!("tuned:{strategy}"),
        Origin::Evolved { operator, .. } => format!("evolved:{operator}"),
        Origin::Manual => "manual".to_string(),
        Origin::Baseline => "baseline".to_string(),
    }
}
