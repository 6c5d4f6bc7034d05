//! Runs and environments: beginning, ending, listing, finding by part of a name.

use rusqlite::types::Value;
use rusqlite::{ErrorCode, Row, params};
use warpsmith_model::{Environment, EnvironmentId, RunId, RunRecord, RunStatus, suggest};

use super::read::{PLACES, PLACES_BY_QUESTION};
use super::seal::{Seal, Table, text};
use super::{Store, shown};
use crate::error::StoreError;

/// One line of the list of runs.
#[derive(Clone, Debug, PartialEq)]
pub struct RunSummary {
    /// The run.
    pub record: RunRecord,
    /// How many trials it has.
    pub trials: u64,
    /// How many of them passed.
    pub passed: u64,
    /// How many of them an earlier run had measured.
    pub adopted: u64,
    /// When its last trial was recorded, in seconds since 1970.
    pub last_trial_unix_s: Option<f64>,
}

impl Store {
    /// Keeps an environment; the same one is kept once.
    pub fn put_environment(&self, environment: &Environment) -> Result<EnvironmentId, StoreError> {
        let id = environment.id();
        let document =
            serde_json::to_string(environment).map_err(self.document_failed("the environment"))?;
        self.insert(
            Table::Environments,
            "INSERT OR IGNORE",
            vec![text(id.to_string()), text(document.clone())],
        )
        .map_err(|error| self.failed(error))?;
        match self.environment(&id) {
            // The id is the hash of what it was, which is at hand.
            Err(error) if error.is_damage() => self.restore_environment(&id, document)?,
            other => drop(other?),
        }
        Ok(id)
    }

    fn restore_environment(&self, id: &EnvironmentId, document: String) -> Result<(), StoreError> {
        let seal = Seal::of(Table::Environments, &[text(id.to_string()), text(document.clone())]);
        self.connection
            .execute(
                "UPDATE environments SET document = ?2, hash = ?3 WHERE id = ?1",
                params![id.to_string(), document, seal],
            )
            .map_err(|error| self.failed(error))?;
        Ok(())
    }

    /// Returns an environment.
    pub fn environment(&self, id: &EnvironmentId) -> Result<Environment, StoreError> {
        let what = || format!("environment {}", id.short());
        let documents: Vec<String> =
            self.sealed(Table::Environments, "", "WHERE id = ?1", [id.to_string()], what, |row| {
                row.get(1)
            })?;
        let document = documents.into_iter().next().ok_or_else(|| {
            StoreError::UnknownEnvironment { path: self.path.clone(), environment: *id }
        })?;
        serde_json::from_str(&document).map_err(self.document_failed(format!("environment {id}")))
    }

    /// Records that a run begins. Its environment must have been put before.
    pub fn start_run(&self, record: &RunRecord) -> Result<(), StoreError> {
        let document = serde_json::to_string(record).map_err(self.document_failed("the run"))?;
        let status =
            serde_json::to_string(&record.status).map_err(self.document_failed("the run"))?;
        self.environment(&record.environment)?;
        let transaction = self.begin()?;
        let number = self.next_number("runs")?;
        let row = vec![
            number.into(),
            text(&record.id.0),
            text(&record.lab.name),
            text(record.lab.id.to_string()),
            text(record.environment.to_string()),
            record.started_unix_s.into(),
            text(status),
            text(document),
        ];
        self.insert(Table::Runs, "INSERT", row).map_err(|error| {
            match error.sqlite_error_code() {
                Some(ErrorCode::ConstraintViolation) => {
                    StoreError::RunExists { run: record.id.clone() }
                }
                _ => self.failed(error),
            }
        })?;
        self.note_writer(number)?;
        transaction.commit().map_err(|error| self.failed(error))
    }

    /// Records that a run goes on, in this process; unless it already does, in this one or another. Returns
    /// whether it was free: of several who ask at the same moment, one gets it.
    pub fn take_up(&self, run: &RunId) -> Result<bool, StoreError> {
        let transaction = self.begin()?;
        let number = self.run_number(run)?;
        if self.run(&run.0)?.status == RunStatus::Running {
            return Ok(false);
        }
        self.set_status(number, &RunStatus::Running)?;
        self.note_writer(number)?;
        transaction.commit().map_err(|error| self.failed(error))?;
        Ok(true)
    }

    /// Records how a run ended.
    pub fn finish_run(&self, run: &RunId, status: &RunStatus) -> Result<(), StoreError> {
        let transaction = self.begin()?;
        let number = self.run_number(run)?;
        self.set_status(number, status)?;
        transaction.commit().map_err(|error| self.failed(error))
    }

    /// Writes a run's row anew with another status. One that nobody signed stays so: what it holds was not
    /// checked when it was written.
    fn set_status(&self, number: i64, status: &RunStatus) -> Result<(), StoreError> {
        const STATUS: usize = 6;
        let status = serde_json::to_string(status).map_err(self.document_failed("the status"))?;
        let width = Table::Runs.columns().len();
        let what = || "a run".to_string();
        let rows = self.sealed(Table::Runs, "", "WHERE number = ?1", [number], what, |row| {
            let values: Vec<Value> =
                (0..width).map(|column| row.get(column)).collect::<rusqlite::Result<_>>()?;
            Ok((values, row.get::<_, Option<String>>(width)?))
        })?;
        for (mut values, hash) in rows {
            values[STATUS] = text(status.clone());
            let hash = hash.map(|_| Seal::of(Table::Runs, &values));
            self.connection
                .execute(
                    "UPDATE runs SET status = ?2, hash = ?3 WHERE number = ?1",
                    params![number, status, hash],
                )
                .map_err(|error| self.failed(error))?;
        }
        Ok(())
    }

    /// Returns every run, newest first; an error where one is damaged.
    pub fn runs(&self) -> Result<Vec<RunSummary>, StoreError> {
        self.runs_or_damage()?.into_iter().collect()
    }

    /// Returns every run, newest first, or what is damaged in its place.
    pub fn runs_or_damage(&self) -> Result<Vec<Result<RunSummary, StoreError>>, StoreError> {
        self.refuse_lost_rows_of(&[Table::Runs])?;
        let places = format!(", {PLACES}, {PLACES_BY_QUESTION}");
        let rows = self.sealed_each(
            Table::Runs,
            &[
                &places,
                ", count(trials.number), coalesce(sum(trials.verdict = 'passed'), 0),
             coalesce(sum(run_trials.adopted), 0), max(run_trials.at_unix_s)",
            ]
            .concat(),
            "LEFT JOIN run_trials ON run_trials.run = runs.number
             LEFT JOIN trials ON trials.number = run_trials.trial
             GROUP BY runs.number
             ORDER BY runs.started_unix_s DESC, runs.number DESC",
            [],
            run_words,
            |row| {
                let next = Table::Runs.next();
                let places: [u64; 2] = [row.get(next)?, row.get(next + 1)?];
                let last_trial_unix_s = row.get(next + 5)?;
                let row_of_run = RunRow::read(row, last_trial_unix_s)?;
                let counts: [u64; 3] = [row.get(next + 2)?, row.get(next + 3)?, row.get(next + 4)?];
                Ok((row_of_run, places, counts))
            },
        )?;
        let summary =
            |(row, [found, indexed], [trials, passed, adopted]): (RunRow, [u64; 2], [u64; 3])| {
                let record = self.run_record(&row)?;
                self.refuse_other_count(&record.id, found, indexed)?;
                // A place may name a trial that is not there.
                self.refuse_other_count(&record.id, trials, indexed)?;
                let last_trial_unix_s = row.last_trial_unix_s;
                Ok(RunSummary { record, trials, passed, adopted, last_trial_unix_s })
            };
        Ok(rows.into_iter().map(|row| row.and_then(summary)).collect())
    }

    /// Returns a run by its name, by a beginning that no other run shares, or the newest one for
    /// `latest`.
    pub fn run(&self, asked: &str) -> Result<RunRecord, StoreError> {
        let extra = ", (SELECT max(at_unix_s) FROM run_trials WHERE run = runs.number)";
        let read = |row: &Row<'_>| RunRow::read(row, row.get(Table::Runs.next())?);
        let found = if asked == "latest" {
            let newest = "ORDER BY started_unix_s DESC, number DESC LIMIT 1";
            self.sealed_each(Table::Runs, extra, newest, [], run_words, read)?
        } else {
            let name = self.resolve_run(asked)?;
            self.sealed_each(Table::Runs, extra, "WHERE id = ?1", [name], run_words, read)?
        };
        match found.into_iter().next() {
            Some(row) => self.run_record(&row?),
            None => Err(self.unknown_run(asked)?),
        }
    }

    fn resolve_run(&self, asked: &str) -> Result<String, StoreError> {
        let names = self.run_names()?;
        if names.iter().any(|name| name == asked) {
            return Ok(asked.to_string());
        }
        let mut matches: Vec<String> =
            names.into_iter().filter(|name| !asked.is_empty() && name.starts_with(asked)).collect();
        match matches.len() {
            0 => Err(self.unknown_run(asked)?),
            1 => Ok(matches.remove(0)),
            _ => Err(StoreError::AmbiguousRun { asked: asked.to_string(), matches }),
        }
    }

    fn run_names(&self) -> Result<Vec<String>, StoreError> {
        let sql = "SELECT id FROM runs ORDER BY started_unix_s DESC, number DESC";
        self.rows(sql, [], |row| row.get(0))
    }

    pub(super) fn unknown_run(&self, asked: &str) -> Result<StoreError, StoreError> {
        let names = self.run_names()?;
        if names.is_empty() {
            return Ok(StoreError::Missing { path: self.path.clone() });
        }
        // A misspelt beginning is as likely as a misspelt name.
        let length = asked.chars().count();
        let beginnings: Vec<String> =
            names.iter().map(|name| name.chars().take(length).collect()).collect();
        let near = suggest::closest(asked, names.iter().chain(&beginnings).map(String::as_str));
        let suggestion = near.and_then(|near| names.iter().find(|name| name.starts_with(near)));
        Ok(StoreError::UnknownRun {
            path: self.path.clone(),
            asked: asked.to_string(),
            suggestion: suggestion.cloned(),
        })
    }

    fn run_record(&self, row: &RunRow) -> Result<RunRecord, StoreError> {
        let what = || format!("run `{}`", row.name);
        let mut record: RunRecord = self.parse(&row.document, what)?;
        let recorded = self.parse(&row.status, || format!("the status of {}", what()))?;
        let last_unix_s = row.last_trial_unix_s.unwrap_or(record.started_unix_s);
        record.status = self.status_now(row.number, &row.name, recorded, last_unix_s)?;
        Ok(record)
    }

    /// Returns a run's row number.
    pub(super) fn run_number(&self, run: &RunId) -> Result<i64, StoreError> {
        let number =
            self.first_row("SELECT number FROM runs WHERE id = ?1", [&run.0], |row| row.get(0))?;
        match number {
            Some(number) => Ok(number),
            None => Err(self.unknown_run(&run.0)?),
        }
    }
}

/// What is read of a run's row.
struct RunRow {
    number: i64,
    name: String,
    status: String,
    document: String,
    last_trial_unix_s: Option<f64>,
}

impl RunRow {
    fn read(row: &Row<'_>, last_trial_unix_s: Option<f64>) -> rusqlite::Result<Self> {
        Ok(Self {
            number: row.get(0)?,
            name: row.get(1)?,
            status: row.get(6)?,
            document: row.get(7)?,
            last_trial_unix_s,
        })
    }
}

fn run_words(row: &Row<'_>) -> String {
    format!("run `{}`", shown(row, 1))
}
