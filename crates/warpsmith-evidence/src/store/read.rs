//! Reading: whole trials one by one or by run, and summaries without their samples.

use std::collections::{BTreeSet, HashMap};
use std::fmt::Display;
use std::str::FromStr;

use rusqlite::types::Type;
use rusqlite::{Row, params};
use serde::de::DeserializeOwned;
use serde::de::value::{Error as ValueError, StrDeserializer};
use warpsmith_model::stats::Interval;
use warpsmith_model::{
    Blob, BlobId, CandidateId, Ceilings, ChainRecord, ComparisonRecord, EnvironmentId, ErrorSize,
    Fidelity, LabId, RunId, RunTrial, Trial, TrialId,
};

use super::Store;
use super::write::{json_text, named_blobs};
use super::writers::WRITER;
use crate::error::StoreError;
use crate::summary::{TrialSummary, WorkloadTime};

/// What a trial must have answered to be worth reusing.
#[derive(Clone, Debug, PartialEq)]
pub struct Question<'a> {
    /// Of whom.
    pub candidate: CandidateId,
    /// How thoroughly.
    pub fidelity: Fidelity,
    /// On which workloads, in order.
    pub workloads: &'a [String],
    /// Where.
    pub environment: EnvironmentId,
    /// Judged by which state of the lab.
    pub lab: LabId,
}

impl Store {
    /// Returns the newest trial that answers a question, from whichever run.
    pub fn find_trial(&self, question: &Question<'_>) -> Result<Option<Trial>, StoreError> {
        let document: Option<String> = self.first_row(
            "SELECT document FROM trials JOIN trial_documents ON trial = number
             WHERE candidate = ?1 AND fidelity = ?2 AND lab_id = ?3 AND environment = ?4
                   AND workloads = ?5
             ORDER BY number DESC LIMIT 1",
            params![
                question.candidate.to_string(),
                question.fidelity.name(),
                question.lab.to_string(),
                question.environment.to_string(),
                json_text(&question.workloads)
            ],
            |row| row.get(0),
        )?;
        document.map(|document| self.parse(&document, || "a trial".to_string())).transpose()
    }

    /// Returns a trial by its id, or by a beginning that no other trial's id shares.
    pub fn trial(&self, asked: &str) -> Result<Trial, StoreError> {
        let id = self.resolve_trial(asked)?;
        let document: Option<String> = self.first_row(
            "SELECT document FROM trials JOIN trial_documents ON trial = number WHERE id = ?1",
            [&id],
            |row| row.get(0),
        )?;
        let document = document.ok_or_else(|| StoreError::Corrupt {
            path: self.path.clone(),
            detail: format!("trial {id} has lost its document"),
        })?;
        self.parse(&document, || format!("trial {id}"))
    }

    fn resolve_trial(&self, asked: &str) -> Result<String, StoreError> {
        let unknown =
            || StoreError::UnknownTrial { path: self.path.clone(), asked: asked.to_string() };
        let asked_lower = asked.to_ascii_lowercase();
        if asked.is_empty() || !asked.chars().all(|digit| digit.is_ascii_hexdigit()) {
            return Err(unknown());
        }
        // `g` follows the last hexadecimal digit.
        let mut matches: Vec<String> = self.rows(
            "SELECT id FROM trials WHERE id >= ?1 AND id < ?1 || 'g' ORDER BY id LIMIT 10",
            [&asked_lower],
            |row| row.get(0),
        )?;
        match matches.len() {
            0 => Err(unknown()),
            1 => Ok(matches.remove(0)),
            _ => {
                let matches = matches.iter().map(|id| id.chars().take(16).collect()).collect();
                Err(StoreError::AmbiguousTrial { asked: asked.to_string(), matches })
            }
        }
    }

    /// Returns the runs that hold a trial, oldest first.
    pub fn runs_of(&self, trial: &TrialId) -> Result<Vec<RunId>, StoreError> {
        self.rows(
            "SELECT r.id FROM trials t JOIN run_trials rt ON rt.trial = t.number
             JOIN runs r ON r.number = rt.run WHERE t.id = ?1 ORDER BY r.number",
            [trial.to_string()],
            |row| row.get(0).map(RunId),
        )
    }

    /// Returns the trials of a run with every sample, in order.
    pub fn trials(&self, run: &RunId) -> Result<Vec<RunTrial>, StoreError> {
        let rows = self.rows(
            "SELECT rt.seq, rt.at_unix_s, rt.adopted, d.document
             FROM run_trials rt JOIN trial_documents d ON d.trial = rt.trial
             WHERE rt.run = ?1 ORDER BY rt.seq",
            [self.run_number(run)?],
            |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?, row.get::<_, String>(3)?)),
        )?;
        rows.into_iter()
            .map(|(seq, at_unix_s, adopted, document)| {
                let trial = self.parse(&document, || format!("trial {seq} of run `{run}`"))?;
                Ok(RunTrial { seq, at_unix_s, adopted, trial })
            })
            .collect()
    }

    /// Returns the trials of a run without their samples, in order; parses no document.
    pub fn summaries(&self, run: &RunId) -> Result<Vec<TrialSummary>, StoreError> {
        // One state for both statements; ends when it is dropped.
        let _snapshot = self.snapshot()?;
        let number = self.run_number(run)?;
        let mut numbers = Vec::new();
        let mut summaries = self.rows(
            "SELECT t.number, rt.seq, rt.at_unix_s, rt.adopted, t.id, t.candidate, t.kernel,
                    t.params, t.origin, t.fidelity, t.workloads, t.verdict, t.message,
                    t.same_binary_as, t.compile_s, t.launch_s, t.wall_s
             FROM run_trials rt JOIN trials t ON t.number = rt.trial
             WHERE rt.run = ?1 ORDER BY rt.seq",
            [number],
            |row| {
                numbers.push(row.get::<_, i64>(0)?);
                read_summary(row)
            },
        )?;
        let place: HashMap<i64, usize> =
            numbers.iter().enumerate().map(|(idx, number)| (*number, idx)).collect();
        let times = self.rows(
            "SELECT m.trial, m.workload, m.low_s, m.median_s, m.high_s, m.samples, m.share,
                    m.element_eps, m.norm_eps, m.stop, m.launch_floor_s
             FROM run_trials rt JOIN measurements m ON m.trial = rt.trial
             WHERE rt.run = ?1 ORDER BY rt.seq, m.idx",
            [number],
            |row| Ok((row.get::<_, i64>(0)?, read_time(row)?)),
        )?;
        for (number, time) in times {
            if let Some(idx) = place.get(&number) {
                summaries[*idx].times.push(time);
            }
        }
        Ok(summaries)
    }

    /// Returns a stored text.
    pub fn blob(&self, id: &BlobId) -> Result<String, StoreError> {
        self.first_row("SELECT content FROM blobs WHERE id = ?1", [id.to_string()], |row| {
            row.get(0)
        })?
        .ok_or_else(|| StoreError::UnknownBlob { path: self.path.clone(), blob: *id })
    }

    /// Returns the texts that these trials name: their sources and what compilers said.
    pub fn texts(&self, trials: &[RunTrial]) -> Result<Vec<Blob>, StoreError> {
        let named: BTreeSet<BlobId> =
            trials.iter().flat_map(|run_trial| named_blobs(&run_trial.trial)).collect();
        named.into_iter().map(|id| Ok(Blob { id, text: self.blob(&id)? })).collect()
    }

    /// Returns the ceilings that a run is held against.
    pub fn ceilings(&self, run: &RunId) -> Result<Option<Ceilings>, StoreError> {
        let document: Option<String> = self.first_row(
            "SELECT document FROM ceilings WHERE run = ?1",
            [self.run_number(run)?],
            |row| row.get(0),
        )?;
        document.map(|document| self.parse(&document, || "ceilings".to_string())).transpose()
    }

    /// Returns the newest ceilings of an environment, from whichever run, and when they were
    /// measured, in seconds since 1970.
    pub fn newest_ceilings(
        &self,
        environment: &EnvironmentId,
    ) -> Result<Option<(Ceilings, f64)>, StoreError> {
        let found: Option<(String, f64)> = self.first_row(
            "SELECT document, measured_unix_s FROM ceilings WHERE environment = ?1
             ORDER BY measured_unix_s DESC LIMIT 1",
            [environment.to_string()],
            |row| Ok((row.get(0)?, row.get(1)?)),
        )?;
        found
            .map(|(document, at)| Ok((self.parse(&document, || "ceilings".to_string())?, at)))
            .transpose()
    }

    /// Returns the comparisons of a run, in order.
    pub fn comparisons(&self, run: &RunId) -> Result<Vec<ComparisonRecord>, StoreError> {
        self.parsed_documents(run, Self::COMPARISON)
    }

    /// Returns what a run's reference and oracle proved, as last recorded.
    pub fn chain(&self, run: &RunId) -> Result<Option<ChainRecord>, StoreError> {
        Ok(self.parsed_documents(run, Self::CHAIN)?.pop())
    }

    /// Returns the documents of one kind, in order.
    pub fn documents(&self, run: &RunId, kind: &str) -> Result<Vec<serde_json::Value>, StoreError> {
        self.parsed_documents(run, kind)
    }

    /// Returns the kinds of documents that a run has, beside the store's own.
    pub fn document_kinds(&self, run: &RunId) -> Result<Vec<String>, StoreError> {
        self.rows(
            "SELECT DISTINCT kind FROM documents WHERE run = ?1 AND kind <> ?2 ORDER BY kind",
            params![self.run_number(run)?, WRITER],
            |row| row.get(0),
        )
    }

    fn parsed_documents<T: DeserializeOwned>(
        &self,
        run: &RunId,
        kind: &str,
    ) -> Result<Vec<T>, StoreError> {
        let texts: Vec<String> = self.rows(
            "SELECT document FROM documents WHERE run = ?1 AND kind = ?2 ORDER BY number",
            params![self.run_number(run)?, kind],
            |row| row.get(0),
        )?;
        texts.iter().map(|text| self.parse(text, || format!("a {kind} of run `{run}`"))).collect()
    }

    pub(super) fn parse<T: DeserializeOwned>(
        &self,
        document: &str,
        what: impl FnOnce() -> String,
    ) -> Result<T, StoreError> {
        serde_json::from_str(document).map_err(|source| StoreError::Document {
            path: self.path.clone(),
            what: what(),
            source,
        })
    }
}

fn read_summary(row: &Row<'_>) -> rusqlite::Result<TrialSummary> {
    Ok(TrialSummary {
        seq: row.get(1)?,
        at_unix_s: row.get(2)?,
        adopted: row.get(3)?,
        id: from_text(row, 4)?,
        candidate: from_text(row, 5)?,
        kernel: row.get(6)?,
        params: from_json(row, 7)?,
        origin: from_json(row, 8)?,
        fidelity: from_name(row, 9)?,
        workloads: from_json(row, 10)?,
        verdict: from_name(row, 11)?,
        message: row.get(12)?,
        same_binary_as: row
            .get::<_, Option<String>>(13)?
            .map(|text| text.parse().map_err(|error: String| bad_column(13, error)))
            .transpose()?,
        compile_s: row.get(14)?,
        launch_s: row.get(15)?,
        wall_s: row.get(16)?,
        times: Vec::new(),
    })
}

pub(super) fn read_time(row: &Row<'_>) -> rusqlite::Result<WorkloadTime> {
    Ok(WorkloadTime {
        workload: row.get(1)?,
        median_s: Interval { low: row.get(2)?, mid: row.get(3)?, high: row.get(4)? },
        samples: row.get(5)?,
        share: row.get(6)?,
        error: ErrorSize {
            element_eps: row.get(7)?,
            norm_eps: row.get(8)?,
            ..ErrorSize::default()
        },
        stop: from_name(row, 9)?,
        launch_floor_s: row.get(10)?,
    })
}

fn from_text<T: FromStr<Err = String>>(row: &Row<'_>, column: usize) -> rusqlite::Result<T> {
    let text = row.get_ref(column)?.as_str()?;
    text.parse().map_err(|error: String| bad_column(column, error))
}

fn from_json<T: DeserializeOwned>(row: &Row<'_>, column: usize) -> rusqlite::Result<T> {
    let text = row.get_ref(column)?.as_str()?;
    serde_json::from_str(text).map_err(|error| bad_column(column, error))
}

/// Reads an enum without payload by its name.
fn from_name<T: DeserializeOwned>(row: &Row<'_>, column: usize) -> rusqlite::Result<T> {
    let text = row.get_ref(column)?.as_str()?;
    T::deserialize(StrDeserializer::<ValueError>::new(text))
        .map_err(|error| bad_column(column, error))
}

fn bad_column(column: usize, error: impl Display) -> rusqlite::Error {
    rusqlite::Error::FromSqlConversionFailure(column, Type::Text, error.to_string().into())
}
