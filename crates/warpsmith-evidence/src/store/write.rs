//! Recording: trials with their texts, adopted trials, ceilings, comparisons, documents.

use std::collections::BTreeSet;

use rusqlite::types::Value;
use rusqlite::{ErrorCode, Transaction, params, params_from_iter};
use warpsmith_model::{
    Blob, BlobId, Ceilings, ChainRecord, ComparisonRecord, Finding, Hasher, Job, Origin, Outcome,
    RunId, Trial, TrialId,
};

use super::Store;
use super::seal::{MEASUREMENT, Seal, Table, text};
use crate::error::StoreError;
use crate::summary::{WorkloadTime, workload_times};

impl Store {
    /// The kind of document under which comparisons are kept.
    pub const COMPARISON: &'static str = "comparison";

    /// The kind of document under which the chain of trust is kept.
    pub const CHAIN: &'static str = "chain";

    /// Records a trial with the texts it names as the next one of a run, and returns its place.
    /// Nothing is recorded when this fails; everything is on the disk when it returns.
    pub fn append(
        &self,
        run: &RunId,
        finding: &Finding,
        at_unix_s: f64,
    ) -> Result<u64, StoreError> {
        let trial = &finding.trial;
        let document = checked_document(trial)?;
        let transaction = self.begin()?;
        let run_number = self.run_number(run)?;
        self.environment(&trial.environment)?;
        for blob in &finding.blobs {
            self.put_blob(&transaction, trial.id, blob)?;
        }
        self.require_blobs(&transaction, trial)?;
        let trial_number = self.insert_trial(&transaction, run, trial, &document)?;
        let seq = self.link(
            &transaction,
            &Link { run, run_number, trial_number, trial: trial.id, at_unix_s, adopted: false },
            &trial.job,
        )?;
        transaction.commit().map_err(|error| self.failed(error))?;
        Ok(seq)
    }

    /// Records that a run takes over an earlier run's trial instead of measuring it again, and
    /// returns its place.
    ///
    /// The trial itself is on the disk already, and that this run took it over can be found out
    /// again; so this alone does not wait for the disk. It survives the end of the process like
    /// everything else, and a power cut once anything is appended after it.
    pub fn adopt(&self, run: &RunId, trial: &Trial, at_unix_s: f64) -> Result<u64, StoreError> {
        let set = |level: &str| {
            let changed = self.connection.pragma_update(None, "synchronous", level);
            changed.map_err(|error| self.failed(error))
        };
        set("NORMAL")?;
        let adopted = self.link_adopted(run, trial, at_unix_s);
        set("FULL")?;
        adopted
    }

    fn link_adopted(&self, run: &RunId, trial: &Trial, at_unix_s: f64) -> Result<u64, StoreError> {
        let transaction = self.begin()?;
        let run_number = self.run_number(run)?;
        let trial_number = self
            .first_row("SELECT number FROM trials WHERE id = ?1", [trial.id.to_string()], |row| {
                row.get(0)
            })?
            .ok_or_else(|| StoreError::UnknownTrial {
                path: self.path.clone(),
                asked: trial.id.to_string(),
            })?;
        let seq = self.link(
            &transaction,
            &Link { run, run_number, trial_number, trial: trial.id, at_unix_s, adopted: true },
            &trial.job,
        )?;
        transaction.commit().map_err(|error| self.failed(error))?;
        Ok(seq)
    }

    /// Records what the machine can do at most, as measured (or taken over) by a run.
    pub fn put_ceilings(
        &self,
        run: &RunId,
        ceilings: &Ceilings,
        measured_unix_s: f64,
    ) -> Result<(), StoreError> {
        let document =
            serde_json::to_string(ceilings).map_err(self.document_failed("the ceilings"))?;
        let number = self.run_number(run)?;
        let environment = self.environment_of(number)?;
        let row = vec![number.into(), text(environment), measured_unix_s.into(), text(document)];
        self.insert(Table::Ceilings, "INSERT OR REPLACE", row).map_err(|error| self.failed(error))
    }

    /// Returns the id of a run's environment.
    pub(super) fn environment_of(&self, run_number: i64) -> Result<String, StoreError> {
        self.connection
            .prepare_cached("SELECT environment FROM runs WHERE number = ?1")
            .and_then(|mut select| select.query_row([run_number], |row| row.get(0)))
            .map_err(|error| self.failed(error))
    }

    /// Records a comparison of a run.
    pub fn put_comparison(
        &self,
        run: &RunId,
        comparison: &ComparisonRecord,
    ) -> Result<(), StoreError> {
        let document =
            serde_json::to_value(comparison).map_err(self.document_failed("the comparison"))?;
        self.put_document(run, Self::COMPARISON, &document)
    }

    /// Records what a run's reference and oracle proved.
    pub fn put_chain(&self, run: &RunId, chain: &ChainRecord) -> Result<(), StoreError> {
        let document =
            serde_json::to_value(chain).map_err(self.document_failed("the chain of trust"))?;
        self.put_document(run, Self::CHAIN, &document)
    }

    /// Records a document of a run under a kind of the caller's choice.
    pub fn put_document(
        &self,
        run: &RunId,
        kind: &str,
        document: &serde_json::Value,
    ) -> Result<(), StoreError> {
        let row = vec![self.run_number(run)?.into(), text(kind), text(document.to_string())];
        self.insert(Table::Documents, "INSERT", row).map_err(|error| self.failed(error))
    }

    fn put_blob(
        &self,
        transaction: &Transaction<'_>,
        trial: TrialId,
        blob: &Blob,
    ) -> Result<(), StoreError> {
        if BlobId::of(blob.text.as_bytes()) != blob.id {
            let why = format!("a text is not what its id {} says", blob.id.short());
            return Err(StoreError::Inconsistent { trial, why });
        }
        self.put_text(transaction, blob.id, &blob.text)
    }

    /// Keeps a text once. One that was damaged since is what it was again: its id is the hash of it.
    pub(super) fn put_text(
        &self,
        transaction: &Transaction<'_>,
        id: BlobId,
        content: &str,
    ) -> Result<(), StoreError> {
        transaction
            .prepare_cached(
                "INSERT INTO blobs (id, content) VALUES (?1, ?2) ON CONFLICT (id) DO UPDATE
                 SET content = excluded.content WHERE content <> excluded.content",
            )
            .and_then(|mut insert| insert.execute(params![id.to_string(), content]))
            .map_err(|error| self.failed(error))?;
        Ok(())
    }

    /// A trial whose source or log is nowhere could never be looked at again.
    fn require_blobs(
        &self,
        transaction: &Transaction<'_>,
        trial: &Trial,
    ) -> Result<(), StoreError> {
        for blob in named_blobs(trial) {
            let known = transaction
                .prepare_cached("SELECT 1 FROM blobs WHERE id = ?1")
                .and_then(|mut select| select.exists([blob.to_string()]))
                .map_err(|error| self.failed(error))?;
            if !known {
                let why = format!("it names the text {}, which came with no trial", blob.short());
                return Err(StoreError::Inconsistent { trial: trial.id, why });
            }
        }
        Ok(())
    }

    fn insert_trial(
        &self,
        transaction: &Transaction<'_>,
        run: &RunId,
        trial: &Trial,
        document: &str,
    ) -> Result<i64, StoreError> {
        let number = self.next_number("trials")?;
        let values = TrialRow::of(trial).values(number);
        let measurements: Vec<Vec<Value>> = workload_times(trial)
            .iter()
            .enumerate()
            .map(|(idx, time)| measurement_values(number, idx, time))
            .collect();
        let mut seal = Seal::new(Table::Trials);
        seal.add_values(&values);
        measurements.iter().for_each(|values| seal.add_values(values));
        self.insert_sealed(Table::Trials, "INSERT", values, seal.finish())
            .map_err(|error| self.twice(error, trial.id, run))?;
        self.insert(Table::TrialDocuments, "INSERT", vec![number.into(), text(document)])
            .map_err(|error| self.failed(error))?;
        let marks: Vec<String> = (1..=MEASUREMENT.len()).map(|idx| format!("?{idx}")).collect();
        let sql = format!(
            "INSERT INTO measurements ({}) VALUES ({})",
            MEASUREMENT.join(", "),
            marks.join(", ")
        );
        for values in measurements {
            transaction
                .prepare_cached(&sql)
                .and_then(|mut insert| insert.execute(params_from_iter(values)))
                .map_err(|error| self.failed(error))?;
        }
        Ok(number)
    }

    /// Returns the number that the next row of a table gets; a write must have begun.
    pub(super) fn next_number(&self, table: &str) -> Result<i64, StoreError> {
        self.connection
            .prepare_cached(&format!("SELECT coalesce(max(number), 0) + 1 FROM {table}"))
            .and_then(|mut select| select.query_row([], |row| row.get(0)))
            .map_err(|error| self.failed(error))
    }

    /// Writes a row with its hash.
    pub(super) fn insert(
        &self,
        table: Table,
        how: &str,
        values: Vec<Value>,
    ) -> rusqlite::Result<()> {
        let seal = Seal::of(table, &values);
        self.insert_sealed(table, how, values, seal)
    }

    fn insert_sealed(
        &self,
        table: Table,
        how: &str,
        values: Vec<Value>,
        seal: String,
    ) -> rusqlite::Result<()> {
        let mut insert = self.connection.prepare_cached(&table.insert(how))?;
        insert.execute(params_from_iter(values.into_iter().chain([text(seal)])))?;
        Ok(())
    }

    fn link(
        &self,
        transaction: &Transaction<'_>,
        link: &Link<'_>,
        job: &Job,
    ) -> Result<u64, StoreError> {
        let question = self.free_question(link, job)?;
        let seq: u64 = transaction
            .prepare_cached("SELECT coalesce(max(seq) + 1, 0) FROM run_trials WHERE run = ?1")
            .and_then(|mut select| select.query_row([link.run_number], |row| row.get(0)))
            .map_err(|error| self.failed(error))?;
        let row = vec![
            link.run_number.into(),
            (seq as i64).into(),
            link.trial_number.into(),
            text(question),
            link.at_unix_s.into(),
            i64::from(link.adopted).into(),
        ];
        self.insert(Table::RunTrials, "INSERT", row)
            .map_err(|error| self.twice(error, link.trial, link.run))?;
        // Not the process that began the run, perhaps: several can feed one.
        self.note_writer(link.run_number)?;
        Ok(seq)
    }

    /// Returns the name under which a run's question gets this answer. One that was ended from outside
    /// answered nothing, so the question may be asked again, under a name of its own; any other answer stands.
    fn free_question(&self, link: &Link<'_>, job: &Job) -> Result<String, StoreError> {
        for times in 0.. {
            let question = question_of(job, times);
            let answer = self.first_row(
                "SELECT trial_documents.document FROM run_trials
                 JOIN trial_documents ON trial_documents.trial = run_trials.trial
                 WHERE run_trials.run = ?1 AND run_trials.question = ?2",
                params![link.run_number, question],
                |row| row.get::<_, String>(0),
            )?;
            let Some(answer) = answer else { return Ok(question) };
            let what = || "the trial that answered this question before".to_string();
            if !self.parse::<Trial>(&answer, what)?.outcome.is_from_outside() {
                return Err(StoreError::AlreadyRecorded {
                    trial: link.trial,
                    run: link.run.clone(),
                });
            }
        }
        unreachable!("a run has fewer places than there are numbers")
    }

    fn twice(&self, error: rusqlite::Error, trial: TrialId, run: &RunId) -> StoreError {
        match error.sqlite_error_code() {
            Some(ErrorCode::ConstraintViolation) => {
                StoreError::AlreadyRecorded { trial, run: run.clone() }
            }
            _ => self.failed(error),
        }
    }
}

/// A trial's place in a run, to be written.
struct Link<'a> {
    run: &'a RunId,
    run_number: i64,
    trial_number: i64,
    trial: TrialId,
    at_unix_s: f64,
    adopted: bool,
}

/// A trial as the columns hold it; a function of the document.
#[derive(Debug, PartialEq)]
pub(super) struct TrialRow {
    pub(super) id: String,
    pub(super) candidate: String,
    pub(super) kernel: String,
    pub(super) params: String,
    pub(super) origin: String,
    pub(super) fidelity: String,
    pub(super) workloads: String,
    pub(super) lab_id: String,
    pub(super) environment: String,
    pub(super) verdict: String,
    pub(super) message: String,
    pub(super) same_binary_as: Option<String>,
    pub(super) compile_s: f64,
    pub(super) launch_s: f64,
    pub(super) wall_s: f64,
}

impl TrialRow {
    pub(super) fn of(trial: &Trial) -> Self {
        let job = &trial.job;
        Self {
            id: trial.id.to_string(),
            candidate: job.candidate.id.to_string(),
            kernel: job.candidate.kernel.clone(),
            params: job.candidate.params.key(),
            origin: json_text(&job.candidate.origin),
            fidelity: job.fidelity.name().to_string(),
            workloads: json_text(&job.workloads),
            lab_id: job.lab.to_string(),
            environment: trial.environment.to_string(),
            verdict: trial.outcome.verdict().name().to_string(),
            message: trial.outcome.describe(),
            same_binary_as: trial.same_binary_as.map(|id| id.to_string()),
            // What a cached artifact took to compile belongs to the trial that compiled it.
            compile_s: trial
                .builds
                .iter()
                .filter(|build| !build.cached)
                .map(|build| build.compile_s)
                .sum(),
            launch_s: trial.launch_s,
            wall_s: trial.wall_s,
        }
    }
}

impl TrialRow {
    /// Returns the columns of the row with this number, in the order in which they are sealed.
    fn values(self, number: i64) -> Vec<Value> {
        vec![
            number.into(),
            text(self.id),
            text(self.candidate),
            text(self.kernel),
            text(self.params),
            text(self.origin),
            text(self.fidelity),
            text(self.workloads),
            text(self.lab_id),
            text(self.environment),
            text(self.verdict),
            text(self.message),
            self.same_binary_as.map_or(Value::Null, Value::Text),
            self.compile_s.into(),
            self.launch_s.into(),
            self.wall_s.into(),
        ]
    }
}

/// Returns the columns of a measurement, in the order of [`MEASUREMENT`].
fn measurement_values(trial_number: i64, idx: usize, time: &WorkloadTime) -> Vec<Value> {
    vec![
        trial_number.into(),
        (idx as i64).into(),
        text(&time.workload),
        time.median_s.low.into(),
        time.median_s.mid.into(),
        time.median_s.high.into(),
        (time.samples as i64).into(),
        time.share.into(),
        time.error.element_eps.into(),
        time.error.norm_eps.into(),
        text(plain_text(&time.stop)),
        time.launch_floor_s.into(),
    ]
}

/// Returns the trial as text, having made sure that the text says the same: JSON has no infinities
/// and no NaN, and a trial that cannot be read back is not evidence.
fn checked_document(trial: &Trial) -> Result<String, StoreError> {
    let refuse = |why: String| StoreError::Inconsistent { trial: trial.id, why };
    if trial.id != trial.job.trial {
        return Err(refuse(format!("it answers another job ({})", trial.job.trial.short())));
    }
    let document = serde_json::to_string(trial)
        .map_err(|error| refuse(format!("it cannot be written as JSON: {error}")))?;
    let again: Trial = serde_json::from_str(&document).map_err(|error| {
        refuse(format!("it would not be readable again (is a number in it not finite?): {error}"))
    })?;
    if &again != trial {
        return Err(refuse("it would read differently than it was written".to_string()));
    }
    if trial.outcome.measurements().iter().any(|measurement| measurement.samples_s.is_empty()) {
        return Err(refuse("it passed with a workload that has no samples".to_string()));
    }
    Ok(document)
}

/// The texts that a trial names.
pub(crate) fn named_blobs(trial: &Trial) -> BTreeSet<BlobId> {
    let mut named: BTreeSet<BlobId> = trial.builds.iter().map(|build| build.log).collect();
    named.insert(trial.job.candidate.source);
    if let Outcome::CompileFailed { log, .. } = &trial.outcome {
        named.insert(*log);
    }
    if let Origin::Evolved { call, .. } = &trial.job.candidate.origin {
        named.insert(*call);
    }
    named
}

/// Names what a job asks: of whom, how thoroughly, on what; each as its trial's columns have it. `times` is how
/// often it was asked before and got no answer.
pub(super) fn question(candidate: &str, fidelity: &str, workloads: &str, times: u64) -> String {
    let mut hasher = Hasher::new("question");
    hasher.part(candidate.as_bytes());
    hasher.part(fidelity.as_bytes());
    hasher.part(workloads.as_bytes());
    if times > 0 {
        hasher.part(&times.to_le_bytes());
    }
    BlobId::from(hasher).to_string()
}

fn question_of(job: &Job, times: u64) -> String {
    let candidate = job.candidate.id.to_string();
    question(&candidate, job.fidelity.name(), &json_text(&job.workloads), times)
}

/// Writes plain data as JSON.
pub(super) fn json_text<T: serde::Serialize>(value: &T) -> String {
    serde_json::to_string(value).expect("plain data always serialises")
}

/// Writes the name of an enum's variant.
pub(super) fn plain_text<T: serde::Serialize>(value: &T) -> String {
    json_text(value).trim_matches('"').to_string()
}
