//! Reading: whole trials one by one or by run, and summaries without their samples.

use std::collections::BTreeSet;
use std::fmt::Display;
use std::str::FromStr;

use rusqlite::fallible_streaming_iterator::FallibleStreamingIterator;
use rusqlite::types::{Type, Value};
use rusqlite::{Row, params};
use serde::de::DeserializeOwned;
use serde::de::value::{Error as ValueError, StrDeserializer};
use warpsmith_model::stats::Interval;
use warpsmith_model::{
    Blob, BlobId, CandidateId, Ceilings, ChainRecord, ComparisonRecord, EnvironmentId, ErrorSize,
    Fidelity, LabId, RunId, RunTrial, Trial, TrialId,
};

use super::seal::{Look, MEASUREMENT, Seal, Table};
use super::write::{json_text, named_blobs};
use super::writers::WRITER;
use super::{Store, shown};
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
    /// Returns the newest trial that answers a question, from whichever run; one that was ended from outside
    /// answers nothing. All that a run takes over with it is checked, since it would be part of that run: its
    /// document, its summary and its texts.
    pub fn find_trial(&self, question: &Question<'_>) -> Result<Option<Trial>, StoreError> {
        let found = self.rows(
            "SELECT number, id FROM trials
             WHERE candidate = ?1 AND fidelity = ?2 AND lab_id = ?3 AND environment = ?4
                   AND workloads = ?5
             ORDER BY number DESC",
            params![
                question.candidate.to_string(),
                question.fidelity.name(),
                question.lab.to_string(),
                question.environment.to_string(),
                json_text(&question.workloads)
            ],
            |row| Ok((row.get::<_, i64>(0)?, shown(row, 1))),
        )?;
        for (number, id) in found {
            let trial = self.answer_numbered(number, &id, question)?;
            if !trial.outcome.is_from_outside() {
                return Ok(Some(trial));
            }
        }
        Ok(None)
    }

    /// Returns a trial that the index names as the answer to a question, with all of it checked.
    fn answer_numbered(
        &self,
        number: i64,
        id: &str,
        question: &Question<'_>,
    ) -> Result<Trial, StoreError> {
        let trial = self.trial_numbered(number, id)?;
        // It was found by columns beside it, which a disk can damage as well.
        let job = &trial.job;
        let is_answer = job.candidate.id == question.candidate
            && job.fidelity == question.fidelity
            && job.lab == question.lab
            && trial.environment == question.environment
            && job.workloads == question.workloads;
        let (look, _) = self.look_at_entry(number)?;
        if !is_answer || look == Some(Look::Altered) {
            return Err(self.altered(format!("the index entry of trial {}", trial.id.short())));
        }
        for text in named_blobs(&trial) {
            self.blob(&text)?;
        }
        Ok(trial)
    }

    /// Returns a trial by its id, or by a beginning that no other trial's id shares.
    pub fn trial(&self, asked: &str) -> Result<Trial, StoreError> {
        let id = self.resolve_trial(asked)?;
        let number = self
            .first_row("SELECT number FROM trials WHERE id = ?1", [&id], |row| row.get(0))?
            .ok_or_else(|| StoreError::UnknownTrial {
                path: self.path.clone(),
                asked: id.clone(),
            })?;
        self.trial_numbered(number, &id)
    }

    fn trial_numbered(&self, number: i64, id: &str) -> Result<Trial, StoreError> {
        let what = || format!("trial {}", id.get(..12).unwrap_or(id));
        let found =
            self.sealed(Table::TrialDocuments, "", "WHERE trial = ?1", [number], what, |row| {
                row.get::<_, String>(1)
            })?;
        let document = found.into_iter().next().ok_or_else(|| StoreError::Corrupt {
            path: self.path.clone(),
            detail: format!("trial {id} has lost its document"),
        })?;
        let trial: Trial = self.parse(&document, what)?;
        match trial.id.to_string() == id {
            true => Ok(trial),
            false => Err(self.altered(what())),
        }
    }

    /// Looks at a trial's entry in the index with its measurements; returns what these are. There is no look
    /// where there is no entry.
    pub(super) fn look_at_entry(&self, number: i64) -> Result<EntryLook, StoreError> {
        let failed = |error| self.failed(error);
        let mut times = Vec::new();
        let mut measured: Vec<Value> = Vec::new();
        let sql = format!(
            "SELECT {} FROM measurements WHERE trial = ?1 ORDER BY idx",
            MEASUREMENT.join(", ")
        );
        self.each_row(&sql, [number], |row| {
            for column in 0..MEASUREMENT.len() {
                measured.push(row.get(column).map_err(failed)?);
            }
            times.push(read_time(row));
            Ok::<(), StoreError>(())
        })?;
        let sql = format!("SELECT {} FROM trials WHERE number = ?1", Table::Trials.selected());
        let mut look = None;
        self.each_row(&sql, [number], |row| {
            let hash = Table::Trials.columns().len();
            let mut seal = Seal::new(Table::Trials);
            seal.add_columns(row, 0..hash).map_err(failed)?;
            seal.add_values(&measured);
            look = Some(seal.look(row.get_ref(hash).map_err(failed)?).map_err(failed)?);
            Ok::<(), StoreError>(())
        })?;
        Ok((look, times))
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
        let mut trials = Vec::new();
        self.each_trial(run, |trial| {
            trials.push(trial);
            Ok::<(), StoreError>(())
        })?;
        Ok(trials)
    }

    /// Hands out the trials of a run with every sample, in order, one at a time: memory need not hold
    /// them all.
    pub fn each_trial<E: From<StoreError>>(
        &self,
        run: &RunId,
        mut each: impl FnMut(RunTrial) -> Result<(), E>,
    ) -> Result<(), E> {
        let number = self.run_number(run)?;
        self.refuse_lost_places(run, number)?;
        let mut expected = 0;
        self.each_trial_where(run, "", [number], |trial| {
            self.refuse_gap(run, &mut expected, trial.seq)?;
            each(trial)
        })
    }

    /// A run's trials are numbered without a gap; where there is one, a row was lost.
    fn refuse_gap(&self, run: &RunId, expected: &mut u64, seq: u64) -> Result<(), StoreError> {
        if seq != *expected {
            return Err(self.altered(format!("trial {expected} of run `{run}`")));
        }
        *expected += 1;
        Ok(())
    }

    /// Refuses a run some of whose places cannot be found. A row whose run or number a disk has changed stands
    /// in the wrong place, and a search for the run's rows may end before it, without an error; what is found
    /// has no gap, and is fewer. The index of questions is in another order and names every row too, so the two
    /// do not lose the same ones.
    fn refuse_lost_places(&self, run: &RunId, number: i64) -> Result<(), StoreError> {
        let sql =
            format!("SELECT {PLACES}, {PLACES_BY_QUESTION} FROM (SELECT ?1 AS number) AS runs");
        let counts = self.first_row(&sql, [number], |row| Ok((row.get(0)?, row.get(1)?)))?;
        match counts {
            Some((found, indexed)) => self.refuse_other_count(run, found, indexed),
            None => Ok(()),
        }
    }

    /// Refuses a run whose rows and the index of them are not as many.
    pub(super) fn refuse_other_count(
        &self,
        run: &RunId,
        found: u64,
        indexed: u64,
    ) -> Result<(), StoreError> {
        if found == indexed {
            return Ok(());
        }
        let detail =
            format!("run `{run}`: {found} of its trials are found, and its index has {indexed}");
        Err(StoreError::Corrupt { path: self.path.clone(), detail })
    }

    /// Hands out the trials of a run at some places, in order.
    pub fn trials_at(&self, run: &RunId, places: &[u64]) -> Result<Vec<RunTrial>, StoreError> {
        let _snapshot = self.snapshot()?;
        let number = self.run_number(run)?;
        self.refuse_lost_places(run, number)?;
        let mut trials = Vec::with_capacity(places.len());
        for place in places {
            let params = params![number, *place as i64];
            self.each_trial_where(run, "AND run_trials.seq = ?2", params, |trial| {
                trials.push(trial);
                Ok::<(), StoreError>(())
            })?;
        }
        Ok(trials)
    }

    /// Hands out the trials of one kernel, or of all, at one fidelity, in order, one at a time.
    pub(crate) fn each_trial_at<E: From<StoreError>>(
        &self,
        run: &RunId,
        kernel: Option<&str>,
        fidelity: Fidelity,
        each: impl FnMut(RunTrial) -> Result<(), E>,
    ) -> Result<(), E> {
        let number = self.run_number(run)?;
        self.refuse_lost_places(run, number)?;
        let which = "AND run_trials.trial IN
                     (SELECT number FROM trials WHERE kernel = coalesce(?2, kernel) AND fidelity = ?3)";
        let params = params![number, kernel, fidelity.name()];
        self.each_trial_where(run, which, params, each)
    }

    fn each_trial_where<E: From<StoreError>>(
        &self,
        run: &RunId,
        which: &str,
        params: impl rusqlite::Params,
        mut each: impl FnMut(RunTrial) -> Result<(), E>,
    ) -> Result<(), E> {
        let (place, document) = (Table::RunTrials, Table::TrialDocuments);
        let sql = format!(
            "SELECT {}, {} FROM run_trials
             LEFT JOIN trial_documents ON trial_documents.trial = run_trials.trial
             WHERE run_trials.run = ?1 {which} ORDER BY run_trials.seq",
            place.selected(),
            document.selected()
        );
        self.each_row(&sql, params, |row| {
            let read = || -> rusqlite::Result<_> {
                let look = [place.look(row, 0)?, document.look(row, place.next())?];
                Ok((row.get::<_, u64>(1)?, look.contains(&Look::Altered)))
            };
            let (seq, is_altered) = read().map_err(|error| self.failed(error))?;
            let what = || format!("trial {seq} of run `{run}`");
            if is_altered {
                return Err(self.altered(what()).into());
            }
            let read = || -> rusqlite::Result<_> {
                let text: String = row.get(place.next() + 1)?;
                Ok((row.get(4)?, row.get(5)?, text))
            };
            let (at_unix_s, adopted, text) = read().map_err(|error| self.failed(error))?;
            let trial = self.parse(&text, what)?;
            each(RunTrial { seq, at_unix_s, adopted, trial })
        })
    }

    /// Returns the trials of a run without their samples, in order; parses no document.
    pub fn summaries(&self, run: &RunId) -> Result<Vec<TrialSummary>, StoreError> {
        let mut summaries = Vec::new();
        self.each_summary(run, |summary| {
            summaries.push(summary);
            Ok::<(), StoreError>(())
        })?;
        Ok(summaries)
    }

    /// Hands out the trials of a run without their samples, in order, one at a time.
    pub fn each_summary<E: From<StoreError>>(
        &self,
        run: &RunId,
        mut each: impl FnMut(TrialSummary) -> Result<(), E>,
    ) -> Result<(), E> {
        let failed = |error| self.failed(error);
        // One state for both statements; ends when it is dropped.
        let _snapshot = self.snapshot()?;
        let number = self.run_number(run)?;
        self.refuse_lost_places(run, number)?;
        let measured: Vec<String> =
            MEASUREMENT.iter().map(|column| format!("measurements.{column}")).collect();
        // Two queries side by side: both are in the order of the run.
        let mut select = self
            .connection
            .prepare_cached(&format!(
                "SELECT {} FROM run_trials JOIN measurements
                     ON measurements.trial = run_trials.trial
                 WHERE run_trials.run = ?1 ORDER BY run_trials.seq, measurements.idx",
                measured.join(", ")
            ))
            .map_err(failed)?;
        let mut measurements = select.query([number]).map_err(failed)?;
        measurements.advance().map_err(failed)?;
        let mut expected = 0;
        let (place, trial) = (Table::RunTrials, Table::Trials);
        let sql = format!(
            "SELECT {}, {} FROM run_trials LEFT JOIN trials ON trials.number = run_trials.trial
             WHERE run_trials.run = ?1 ORDER BY run_trials.seq",
            place.selected(),
            trial.selected()
        );
        self.each_row(&sql, [number], |row| {
            let what = || -> Result<String, StoreError> {
                let seq: i64 = row.get(1).map_err(failed)?;
                Ok(format!("the summary of trial {seq} of run `{run}`"))
            };
            let trial_number: i64 = row.get(2).map_err(failed)?;
            let hash = place.next() + trial.columns().len();
            let mut is_altered = place.look(row, 0).map_err(failed)? == Look::Altered;
            let mut seal = Seal::new(trial);
            seal.add_columns(row, place.next()..hash).map_err(failed)?;
            let mut times = Vec::new();
            while let Some(measurement) = measurements.get() {
                if measurement.get::<_, i64>(0).map_err(failed)? != trial_number {
                    break;
                }
                seal.add_columns(measurement, 0..MEASUREMENT.len()).map_err(failed)?;
                // What cannot be read is altered, where the hash says so.
                times.push(read_time(measurement));
                measurements.advance().map_err(failed)?;
            }
            is_altered |=
                seal.look(row.get_ref(hash).map_err(failed)?).map_err(failed)? == Look::Altered;
            if is_altered {
                return Err(self.altered(what()?).into());
            }
            let mut summary = read_summary(row, place.next()).map_err(failed)?;
            self.refuse_gap(run, &mut expected, summary.seq)?;
            summary.times = times.into_iter().collect::<rusqlite::Result<_>>().map_err(failed)?;
            each(summary)
        })
    }

    /// Returns a stored text.
    pub fn blob(&self, id: &BlobId) -> Result<String, StoreError> {
        let what = || format!("the text {}", id.short());
        let found = self.first_row(
            "SELECT content FROM blobs WHERE id = ?1",
            [id.to_string()],
            // As bytes: what is damaged need not be text any more.
            |row| Ok(row.get_ref(0)?.as_bytes()?.to_vec()),
        )?;
        let content =
            found.ok_or_else(|| StoreError::UnknownBlob { path: self.path.clone(), blob: *id })?;
        if BlobId::of(&content) != *id {
            return Err(self.altered(what()));
        }
        String::from_utf8(content).map_err(|_| self.altered(what()))
    }

    /// Returns the texts that these trials name: their sources and what compilers said.
    pub fn texts(&self, trials: &[RunTrial]) -> Result<Vec<Blob>, StoreError> {
        let named: BTreeSet<BlobId> =
            trials.iter().flat_map(|run_trial| named_blobs(&run_trial.trial)).collect();
        named.into_iter().map(|id| Ok(Blob { id, text: self.blob(&id)? })).collect()
    }

    /// Returns the ceilings that a run is held against.
    pub fn ceilings(&self, run: &RunId) -> Result<Option<Ceilings>, StoreError> {
        let what = || ceilings_words(&run.0);
        let found = self.sealed(
            Table::Ceilings,
            "",
            "WHERE run = ?1",
            [self.run_number(run)?],
            what,
            |row| row.get::<_, String>(3),
        )?;
        found.first().map(|document| self.parse(document, what)).transpose()
    }

    /// Returns what every run showed of an environment, the newest last. Each may be damaged by itself.
    pub fn ceilings_of(
        &self,
        environment: &EnvironmentId,
    ) -> Result<Vec<Result<Ceilings, StoreError>>, StoreError> {
        let found = self.sealed_each(
            Table::Ceilings,
            ", (SELECT id FROM runs WHERE number = ceilings.run)",
            "WHERE environment = ?1 ORDER BY measured_unix_s",
            [environment.to_string()],
            |row| ceilings_words(&shown(row, Table::Ceilings.next())),
            |row| Ok((row.get::<_, String>(3)?, shown(row, Table::Ceilings.next()))),
        )?;
        let parse =
            |(document, run): (String, String)| self.parse(&document, || ceilings_words(&run));
        Ok(found.into_iter().map(|found| found.and_then(parse)).collect())
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
        let what = || format!("a {kind} of run `{run}`");
        let texts: Vec<String> = self.sealed(
            Table::Documents,
            "",
            "WHERE run = ?1 AND kind = ?2 ORDER BY number",
            params![self.run_number(run)?, kind],
            what,
            |row| row.get(2),
        )?;
        texts.iter().map(|text| self.parse(text, what)).collect()
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

/// The number of a run's places, by the table and by the index of questions that SQLite keeps for its `UNIQUE`.
pub(super) const PLACES: &str = "(SELECT count(*) FROM main.run_trials INDEXED BY \
                                 sqlite_autoindex_run_trials_1 WHERE run = runs.number)";
pub(super) const PLACES_BY_QUESTION: &str = "(SELECT count(*) FROM main.run_trials INDEXED BY sqlite_autoindex_run_trials_2 \
     WHERE run = runs.number)";

/// What a look at an entry of the index found, and the measurements that it answers for.
pub(super) type EntryLook = (Option<Look>, Vec<rusqlite::Result<WorkloadTime>>);

fn ceilings_words(run: &str) -> String {
    format!("the ceilings of run `{run}`")
}

/// Reads a trial whose columns, in the order in which they are sealed, begin at `first`, behind those of
/// its place in the run.
fn read_summary(row: &Row<'_>, first: usize) -> rusqlite::Result<TrialSummary> {
    Ok(TrialSummary {
        seq: row.get(1)?,
        at_unix_s: row.get(4)?,
        adopted: row.get(5)?,
        id: from_text(row, first + 1)?,
        candidate: from_text(row, first + 2)?,
        kernel: row.get(first + 3)?,
        params: from_json(row, first + 4)?,
        origin: from_json(row, first + 5)?,
        fidelity: from_name(row, first + 6)?,
        workloads: from_json(row, first + 7)?,
        verdict: from_name(row, first + 10)?,
        message: row.get(first + 11)?,
        same_binary_as: row
            .get::<_, Option<String>>(first + 12)?
            .map(|text| text.parse().map_err(|error: String| bad_column(first + 12, error)))
            .transpose()?,
        compile_s: row.get(first + 13)?,
        launch_s: row.get(first + 14)?,
        wall_s: row.get(first + 15)?,
        times: Vec::new(),
    })
}

/// Reads a measurement whose columns are those of [`MEASUREMENT`].
pub(super) fn read_time(row: &Row<'_>) -> rusqlite::Result<WorkloadTime> {
    Ok(WorkloadTime {
        workload: row.get(2)?,
        median_s: Interval { low: row.get(3)?, mid: row.get(4)?, high: row.get(5)? },
        samples: row.get(6)?,
        share: row.get(7)?,
        error: ErrorSize {
            element_eps: row.get(8)?,
            norm_eps: row.get(9)?,
            ..ErrorSize::default()
        },
        stop: from_name(row, 10)?,
        launch_floor_s: row.get(11)?,
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
