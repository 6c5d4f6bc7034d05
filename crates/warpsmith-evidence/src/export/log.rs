//! Trials as a table: one line each, one column per tunable and per workload.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use warpsmith_model::{Fidelity, Origin, RunRecord};

use super::{ExportError, Part};
use crate::derive::score;
use crate::error::StoreError;
use crate::store::Store;
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
/// all workloads of its own fidelity's ranking, and empty where the trial has none. The run is read twice,
/// trial by trial: first for the columns.
pub fn write_log(
    store: &Store,
    record: &RunRecord,
    fidelities: &[Fidelity],
    path: &Path,
) -> Result<(), ExportError> {
    let failed = |source| ExportError::Write { path: path.to_path_buf(), source };
    let mut columns = Columns::default();
    store.each_summary(&record.id, |trial| {
        if fidelities.contains(&trial.fidelity) {
            columns.note(&trial);
        }
        Ok::<(), StoreError>(())
    })?;
    let boards = columns.boards(record);
    let mut part = Part::begin(path)?;
    let mut table = csv::Writer::from_writer(&mut part);
    let header = COLUMNS
        .iter()
        .map(|name| (*name).to_string())
        .chain(columns.tunables.iter().map(|name| format!("param.{name}")))
        .chain(columns.timed.iter().map(|name| format!("time_s.{name}")));
    table.write_record(header).map_err(|error| failed(error.into()))?;
    store.each_summary(&record.id, |trial| {
        if !fidelities.contains(&trial.fidelity) {
            return Ok(());
        }
        let mut line = fixed_cells(&trial, boards.get(&trial.fidelity).map(Vec::as_slice));
        line.extend(columns.tunables.iter().map(|name| text(trial.params.get(name))));
        let time = |name: &String| text(trial.time(name).map(|time| time.median_s.mid));
        line.extend(columns.timed.iter().map(time));
        table.write_record(&line).map_err(|error| failed(error.into()))
    })?;
    table.flush().map_err(failed)?;
    drop(table);
    part.finish()
}

/// What the columns of a table hang on.
#[derive(Default)]
struct Columns {
    tunables: BTreeSet<String>,
    timed: BTreeSet<String>,
    asked: BTreeMap<Fidelity, BTreeSet<String>>,
}

impl Columns {
    fn note(&mut self, trial: &TrialSummary) {
        note(&mut self.tunables, trial.params.0.keys());
        note(&mut self.timed, trial.times.iter().map(|time| &time.workload));
        if !trial.is_baseline() {
            note(self.asked.entry(trial.fidelity).or_default(), &trial.workloads);
        }
    }

    /// The workloads of each ranking, as [`crate::derive::leaderboard`] has them.
    fn boards(&self, record: &RunRecord) -> BTreeMap<Fidelity, Vec<String>> {
        let workloads = |asked: &BTreeSet<String>| {
            let names = record.lab.shapes().map(|workload| &workload.name);
            names.filter(|name| asked.contains(*name)).cloned().collect()
        };
        self.asked.iter().map(|(fidelity, asked)| (*fidelity, workloads(asked))).collect()
    }
}

/// Adds names that are not known yet.
fn note<'a>(known: &mut BTreeSet<String>, names: impl IntoIterator<Item = &'a String>) {
    for name in names {
        if !known.contains(name) {
            known.insert(name.clone());
        }
    }
}

fn fixed_cells(trial: &TrialSummary, board: Option<&[String]>) -> Vec<String> {
    // Over no workload at all there is no score: an empty product is not a time.
    let score = board
        .filter(|workloads| !workloads.is_empty())
        .and_then(|workloads| score(trial, workloads));
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
