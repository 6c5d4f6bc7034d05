//! Checking a whole store: SQLite's own structure, every hash, the index against the documents, and that
//! whatever a document names is there.
//!
//! Rows are read one at a time, so that memory does not grow with the store, and what cannot be read is one
//! more fault: a check that ends at the first damage finds no second.

use std::collections::BTreeSet;

use rusqlite::{Row, params};
use warpsmith_model::{BlobId, CallRecord, ProfileRecord, RunRecord, Trial};

use super::profiles::named_files;
use super::seal::{Look, Table};
use super::write::{TrialRow, named_blobs, question};
use super::writers::WRITER;
use super::{Store, shown};
use crate::error::StoreError;
use crate::summary::workload_times;

/// What a check of a whole store found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Examination {
    /// What was read, kind by kind.
    pub checked: Vec<Checked>,
    /// What is wrong, in words; nothing for a sound store.
    pub faults: Vec<String>,
}

/// How much of one kind was read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Checked {
    /// What it is, in words.
    pub kind: &'static str,
    /// How many there are.
    pub rows: u64,
    /// How many were written by a version that wrote no hashes: whether they were changed cannot be told,
    /// beyond what contradicts itself.
    pub unsigned: u64,
}

impl Examination {
    /// Returns how many rows have no hash.
    pub fn unsigned(&self) -> u64 {
        self.checked.iter().map(|checked| checked.unsigned).sum()
    }

    /// Keeps an error as one more fault, and goes on.
    fn note(&mut self, outcome: Result<(), StoreError>) {
        if let Err(error) = outcome {
            self.faults.push(error.to_string());
        }
    }
}

impl Store {
    /// Checks the whole file and returns what is wrong with it, in words; nothing for a sound one.
    pub fn verify(&self) -> Result<Vec<String>, StoreError> {
        Ok(self.examine()?.faults)
    }

    /// Checks the whole file. Reads everything, so it takes seconds where there are many trials.
    pub fn examine(&self) -> Result<Examination, StoreError> {
        let mut found = Examination::default();
        // One state of the file, whoever writes to it meanwhile.
        let _snapshot = self.snapshot()?;
        let structure = self.structure(&mut found.faults);
        found.note(structure);
        let environments =
            self.look_at(Table::Environments, "environments", "id", &mut found, |_| Ok(None));
        found.note(environments);
        let runs = self.examine_runs(&mut found);
        found.note(runs);
        let trials = self.examine_trials(&mut found);
        found.note(trials);
        let places = self.examine_places(&mut found);
        found.note(places);
        let ceilings = self.examine_ceilings(&mut found);
        found.note(ceilings);
        let documents = self.examine_documents(&mut found);
        found.note(documents);
        let profiles = self.examine_profiles(&mut found);
        found.note(profiles);
        for (kind, one, table) in [("texts", "text", "blobs"), ("files", "file", "files")] {
            let contents = self.examine_contents(kind, one, table, &mut found);
            found.note(contents);
        }
        Ok(found)
    }

    /// Makes sure that rows which no trial's place answers for can be found: of a damaged page they vanish
    /// without a trace, and a run without ceilings or comparisons is a run as well. There are few of them.
    /// Places of trials are counted wherever they are read.
    pub fn refuse_lost_rows(&self) -> Result<(), StoreError> {
        self.refuse_lost_rows_of(&[Table::Runs, Table::Ceilings, Table::Documents])
    }

    pub(super) fn refuse_lost_rows_of(&self, tables: &[Table]) -> Result<(), StoreError> {
        for table in tables {
            let sql = format!("PRAGMA main.integrity_check({})", table.name());
            let lines = self.rows(&sql, [], |row| row.get::<_, String>(0))?;
            if let Some(line) = lines.into_iter().find(|line| line != "ok") {
                let detail = format!("table `{}`: {line}", table.name());
                return Err(StoreError::Corrupt { path: self.path.clone(), detail });
            }
        }
        Ok(())
    }

    fn structure(&self, faults: &mut Vec<String>) -> Result<(), StoreError> {
        let lines = self.rows("PRAGMA main.integrity_check", [], |row| row.get::<_, String>(0))?;
        faults.extend(lines.into_iter().filter(|line| line != "ok"));
        faults.extend(self.rows("PRAGMA main.foreign_key_check", [], |row| {
            Ok(format!("a row of `{}` refers to nothing", row.get::<_, String>(0)?))
        })?);
        Ok(())
    }

    /// Holds every row of a table against its hash, and an intact one against whatever else `examine` knows
    /// of it. `name` is the column that names a row in messages.
    fn look_at(
        &self,
        table: Table,
        kind: &'static str,
        name: &str,
        found: &mut Examination,
        examine: impl Fn(&Row<'_>) -> Result<Option<String>, StoreError>,
    ) -> Result<(), StoreError> {
        let sql = format!(
            "SELECT {}, CAST({}.{name} AS TEXT) FROM {}",
            table.selected(),
            table.name(),
            table.name()
        );
        let (mut rows, mut unsigned) = (0, 0);
        let faults = &mut found.faults;
        let outcome = self.each_row(&sql, [], |row| {
            rows += 1;
            let look = table.look(row, 0).map_err(|error| self.failed(error))?;
            let name = shown(row, table.next());
            unsigned += u64::from(look == Look::Unsigned);
            if look == Look::Altered {
                faults.push(format!("{} {name} is not what was recorded", singular(table)));
                return Ok(());
            }
            match examine(row) {
                Ok(None) => {}
                Ok(Some(fault)) => faults.push(format!("{} {name}: {fault}", singular(table))),
                Err(error) => faults.push(format!("{} {name}: {error}", singular(table))),
            }
            Ok(())
        });
        found.checked.push(Checked { kind, rows, unsigned });
        outcome
    }

    fn examine_runs(&self, found: &mut Examination) -> Result<(), StoreError> {
        self.look_at(Table::Runs, "runs", "id", found, |row| {
            let failed = |error| self.failed(error);
            let column = |idx: usize| row.get::<_, String>(idx).map_err(failed);
            let document = column(7)?;
            let record: RunRecord = self.parse(&document, || "its document".to_string())?;
            let _status: warpsmith_model::RunStatus =
                self.parse(&column(6)?, || "its status".to_string())?;
            let started_unix_s: f64 = row.get(5).map_err(failed)?;
            let agrees = record.id.0 == column(1)?
                && record.lab.name == column(2)?
                && record.lab.id.to_string() == column(3)?
                && record.environment.to_string() == column(4)?
                && record.started_unix_s == started_unix_s;
            Ok((!agrees).then(|| "its columns disagree with its document".to_string()))
        })
    }

    fn examine_trials(&self, found: &mut Examination) -> Result<(), StoreError> {
        let numbers: Vec<i64> =
            self.rows("SELECT number FROM trials ORDER BY number", [], |row| row.get(0))?;
        let mut documents = Checked { kind: "trials", rows: 0, unsigned: 0 };
        let mut index = Checked { kind: "index entries of trials", rows: 0, unsigned: 0 };
        for number in numbers {
            match self.examine_trial(number) {
                Ok((looks, faults)) => {
                    for (checked, look) in [(&mut documents, looks[0]), (&mut index, looks[1])] {
                        checked.rows += u64::from(look.is_some());
                        checked.unsigned += u64::from(look == Some(Look::Unsigned));
                    }
                    found.faults.extend(faults);
                }
                Err(error) => found.faults.push(format!("trial number {number}: {error}")),
            }
        }
        found.checked.extend([documents, index]);
        Ok(())
    }

    /// Returns what a look at a trial's document and at its index entry found, and what is wrong.
    fn examine_trial(&self, number: i64) -> Result<([Option<Look>; 2], Vec<String>), StoreError> {
        let failed = |error| self.failed(error);
        let mut faults = Vec::new();
        let (entry_look, times) = self.look_at_entry(number)?;
        let mut entry = None;
        let sql = format!("SELECT {} FROM trials WHERE number = ?1", Table::Trials.selected());
        self.each_row(&sql, [number], |row| {
            entry = Some((shown(row, 1), read_row(row)));
            Ok::<(), StoreError>(())
        })?;
        let mut document = None;
        let table = Table::TrialDocuments;
        let sql = format!("SELECT {} FROM trial_documents WHERE trial = ?1", table.selected());
        self.each_row(&sql, [number], |row| {
            let look = table.look(row, 0).map_err(failed)?;
            document = Some((look, row.get::<_, String>(1)));
            Ok::<(), StoreError>(())
        })?;
        let (Some(entry_look), Some((name, row))) = (entry_look, entry) else {
            return Ok(([None, None], vec![format!("the entry of trial number {number} is gone")]));
        };
        if entry_look == Look::Altered {
            faults.push(format!("the index entry of trial {name} is not what was recorded"));
        }
        let Some((look, text)) = document else {
            faults.push(format!("trial {name} has lost its document"));
            return Ok(([None, Some(entry_look)], faults));
        };
        let looks = [Some(look), Some(entry_look)];
        if look == Look::Altered {
            faults.push(format!("trial {name} is not what was recorded"));
            return Ok((looks, faults));
        }
        let trial: Trial = match text.map_err(failed).map(|text| serde_json::from_str(&text)) {
            Ok(Ok(trial)) => trial,
            Ok(Err(error)) => {
                faults.push(format!("trial {name} cannot be understood: {error}"));
                return Ok((looks, faults));
            }
            Err(error) => {
                faults.push(format!("trial {name} cannot be read: {error}"));
                return Ok((looks, faults));
            }
        };
        if entry_look != Look::Altered {
            let times = times.into_iter().collect::<rusqlite::Result<Vec<_>>>();
            // A signed entry is what a version wrote; a later one may derive another interval from the
            // same samples, or say the same in other words.
            let agrees = row.map_err(failed).is_ok_and(|row| {
                let own = TrialRow::of(&trial);
                TrialRow { message: row.message.clone(), ..own } == row
            });
            let is_timed = entry_look == Look::Intact
                || times.map_err(failed).is_ok_and(|times| times == workload_times(&trial));
            if !(agrees && is_timed) {
                faults.push(format!("the index disagrees with the document of trial {name}"));
            }
        }
        for id in named_blobs(&trial) {
            self.note_missing("blobs", &id, &format!("trial {name}"), &mut faults)?;
        }
        Ok((looks, faults))
    }

    fn note_missing(
        &self,
        table: &str,
        id: &BlobId,
        who: &str,
        faults: &mut Vec<String>,
    ) -> Result<(), StoreError> {
        let is_there = self
            .connection
            .prepare_cached(&format!("SELECT 1 FROM {table} WHERE id = ?1"))
            .and_then(|mut select| select.exists([id.to_string()]))
            .map_err(|error| self.failed(error))?;
        if !is_there {
            faults.push(format!("{who} names {id} of `{table}`, which is not there"));
        }
        Ok(())
    }

    /// The places of trials in runs: each sealed, without a gap, under the question that the trial answers.
    fn examine_places(&self, found: &mut Examination) -> Result<(), StoreError> {
        self.look_at(Table::RunTrials, "places of trials in runs", "run", found, |row| {
            let failed = |error| self.failed(error);
            let (trial, asked): (i64, String) =
                (row.get(2).map_err(failed)?, row.get(3).map_err(failed)?);
            let seq: u64 = row.get(1).map_err(failed)?;
            let known = self.first_row(
                "SELECT candidate, fidelity, workloads FROM trials WHERE number = ?1",
                [trial],
                |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)),
            )?;
            let known: Option<(String, String, String)> = known;
            Ok(match known {
                None => Some("one of its trials is not there".to_string()),
                Some((candidate, fidelity, workloads)) => {
                    // Whoever asks again has a place for each time before.
                    let is_own = (0..=seq)
                        .any(|times| question(&candidate, &fidelity, &workloads, times) == asked);
                    let why = "one of its trials answers another question than it was asked";
                    (!is_own).then(|| why.to_string())
                }
            })
        })?;
        let gaps = self.rows(
            "SELECT runs.id FROM run_trials JOIN runs ON runs.number = run_trials.run
             GROUP BY run HAVING min(seq) <> 0 OR max(seq) <> count(*) - 1",
            [],
            |row| row.get::<_, String>(0),
        )?;
        let gap = |run| format!("run {run} has a gap where a trial was");
        found.faults.extend(gaps.into_iter().map(gap));
        Ok(())
    }

    fn examine_ceilings(&self, found: &mut Examination) -> Result<(), StoreError> {
        self.look_at(Table::Ceilings, "ceilings", "run", found, |row| {
            let document: String = row.get(3).map_err(|error| self.failed(error))?;
            let _ceilings: warpsmith_model::Ceilings =
                self.parse(&document, || "its document".to_string())?;
            Ok(None)
        })
    }

    fn examine_documents(&self, found: &mut Examination) -> Result<(), StoreError> {
        let kind = "comparisons, chains of trust and other documents";
        self.look_at(Table::Documents, kind, "number", found, |row| {
            let failed = |error| self.failed(error);
            let (kind, document): (String, String) =
                (row.get(1).map_err(failed)?, row.get(2).map_err(failed)?);
            let what = || format!("its document, a {kind},");
            let mut faults = Vec::new();
            match kind.as_str() {
                Self::COMPARISON => {
                    self.parse::<warpsmith_model::ComparisonRecord>(&document, what)?;
                }
                Self::CHAIN => {
                    self.parse::<warpsmith_model::ChainRecord>(&document, what)?;
                }
                WRITER => {
                    self.parse::<warpsmith_model::Writer>(&document, what)?;
                }
                Self::CALL => {
                    let call: CallRecord = self.parse(&document, what)?;
                    for id in call.texts() {
                        self.note_missing("blobs", &id, "it", &mut faults)?;
                    }
                }
                _ => {
                    self.parse::<serde_json::Value>(&document, what)?;
                }
            }
            Ok((!faults.is_empty()).then(|| faults.join("; ")))
        })
    }

    fn examine_profiles(&self, found: &mut Examination) -> Result<(), StoreError> {
        self.look_at(Table::Profiles, "profiles", "number", found, |row| {
            let failed = |error| self.failed(error);
            let column = |idx: usize| row.get::<_, String>(idx).map_err(failed);
            let profile: ProfileRecord = self.parse(&column(3)?, || "its document".to_string())?;
            let mut faults = Vec::new();
            let named: BTreeSet<BlobId> = named_files(&profile);
            for id in named {
                self.note_missing("files", &id, "it", &mut faults)?;
            }
            if profile.candidate.to_string() != column(1)?
                || profile.environment.to_string() != column(2)?
            {
                faults.push("its columns disagree with its document".to_string());
            }
            Ok((!faults.is_empty()).then(|| faults.join("; ")))
        })
    }

    /// What is kept under the hash of its content.
    fn examine_contents(
        &self,
        kind: &'static str,
        one: &str,
        table: &str,
        found: &mut Examination,
    ) -> Result<(), StoreError> {
        let mut rows = 0;
        let faults = &mut found.faults;
        let outcome =
            self.each_row(&format!("SELECT id, content FROM {table}"), params![], |row| {
                rows += 1;
                let read = |idx: usize| -> rusqlite::Result<Vec<u8>> {
                    Ok(row.get_ref(idx)?.as_bytes()?.to_vec())
                };
                let (id, content) = read(0)
                    .and_then(|id| Ok((id, read(1)?)))
                    .map_err(|error| self.failed(error))?;
                if BlobId::of(&content).to_string().as_bytes() != id {
                    let id = String::from_utf8_lossy(&id);
                    faults.push(format!("the {one} {id} is not what its id says"));
                }
                Ok(())
            });
        found.checked.push(Checked { kind, rows, unsigned: 0 });
        outcome
    }
}

/// One row of a table, as the beginning of a sentence that names it.
fn singular(table: Table) -> &'static str {
    match table {
        Table::Environments => "environment",
        Table::Runs => "run",
        Table::Ceilings => "the ceilings of run number",
        Table::Trials => "the index entry of trial",
        Table::TrialDocuments => "trial",
        Table::RunTrials => "a trial's place in run number",
        Table::Documents => "document number",
        Table::Profiles => "profile number",
    }
}

/// Reads a trial's columns; they begin behind its number.
fn read_row(row: &Row<'_>) -> rusqlite::Result<TrialRow> {
    Ok(TrialRow {
        id: row.get(1)?,
        candidate: row.get(2)?,
        kernel: row.get(3)?,
        params: row.get(4)?,
        origin: row.get(5)?,
        fidelity: row.get(6)?,
        workloads: row.get(7)?,
        lab_id: row.get(8)?,
        environment: row.get(9)?,
        verdict: row.get(10)?,
        message: row.get(11)?,
        same_binary_as: row.get(12)?,
        compile_s: row.get(13)?,
        launch_s: row.get(14)?,
        wall_s: row.get(15)?,
    })
}
