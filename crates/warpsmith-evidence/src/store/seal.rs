//! Hashes of rows: written with each, checked whenever it is read.
//!
//! SQLite notices damage to its own structure, and none to what it keeps: a flipped bit in a sample is
//! another sample. So every row that holds evidence, or indexes it, has the BLAKE3 hash of all its columns
//! beside it, numbers of rows that it refers to included. The row of a trial answers for its measurements,
//! too. Texts and files need no column: their ids are the hashes of what they hold.
//!
//! A row without a hash was written by a version that had none. It is read as it is, and counted by
//! [`Store::examine`](super::Store::examine).

use std::ops::Range;

use rusqlite::Row;
use rusqlite::types::{Value, ValueRef};
use warpsmith_model::{BlobId, Hasher};

/// A table whose rows are sealed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Table {
    Environments,
    Runs,
    Ceilings,
    Trials,
    TrialDocuments,
    RunTrials,
    Documents,
    Profiles,
}

impl Table {
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Environments => "environments",
            Self::Runs => "runs",
            Self::Ceilings => "ceilings",
            Self::Trials => "trials",
            Self::TrialDocuments => "trial_documents",
            Self::RunTrials => "run_trials",
            Self::Documents => "documents",
            Self::Profiles => "profiles",
        }
    }

    /// The columns that the hash covers, in its order. A released list is never edited: rows that were
    /// written with it would look damaged.
    pub(super) fn columns(self) -> &'static [&'static str] {
        match self {
            Self::Environments => &["id", "document"],
            Self::Runs => &[
                "number",
                "id",
                "lab",
                "lab_id",
                "environment",
                "started_unix_s",
                "status",
                "document",
            ],
            Self::Ceilings => &["run", "environment", "measured_unix_s", "document"],
            Self::Trials => &[
                "number",
                "id",
                "candidate",
                "kernel",
                "params",
                "origin",
                "fidelity",
                "workloads",
                "lab_id",
                "environment",
                "verdict",
                "message",
                "same_binary_as",
                "compile_s",
                "launch_s",
                "wall_s",
            ],
            Self::TrialDocuments => &["trial", "document"],
            Self::RunTrials => &["run", "seq", "trial", "question", "at_unix_s", "adopted"],
            Self::Documents => &["run", "kind", "document"],
            Self::Profiles => &["run", "candidate", "environment", "document"],
        }
    }

    /// Returns what a query selects to check a row: the columns that the hash covers, then the hash.
    pub(super) fn selected(self) -> String {
        let alias = self.name();
        let columns = self.columns().iter().chain(&["hash"]);
        columns.map(|column| format!("{alias}.{column}")).collect::<Vec<_>>().join(", ")
    }

    /// Returns the statement that writes a row with its hash.
    pub(super) fn insert(self, how: &str) -> String {
        let columns = self.columns();
        let marks: Vec<String> = (1..=columns.len() + 1).map(|idx| format!("?{idx}")).collect();
        format!(
            "{how} INTO {} ({}, hash) VALUES ({})",
            self.name(),
            columns.join(", "),
            marks.join(", ")
        )
    }

    /// The place of the first column behind the hash.
    pub(super) fn next(self) -> usize {
        self.columns().len() + 1
    }

    /// Says whether a row is what was written, and whether it can be told at all. What
    /// [`Self::selected`] selects begins at column `first`.
    pub(super) fn look(self, row: &Row<'_>, first: usize) -> rusqlite::Result<Look> {
        let hash = first + self.columns().len();
        let mut seal = Seal::new(self);
        seal.add_columns(row, first..hash)?;
        seal.look(row.get_ref(hash)?)
    }
}

/// The columns of a measurement, all of which its trial's hash covers.
pub(super) const MEASUREMENT: [&str; 12] = [
    "trial",
    "idx",
    "workload",
    "low_s",
    "median_s",
    "high_s",
    "samples",
    "share",
    "element_eps",
    "norm_eps",
    "stop",
    "launch_floor_s",
];

/// What a look at a row found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Look {
    /// It is what was written.
    Intact,
    /// Nobody wrote a hash.
    Unsigned,
    /// It is something else.
    Altered,
}

/// A hash in the making.
pub(super) struct Seal(Hasher);

impl Seal {
    pub(super) fn new(table: Table) -> Self {
        Self(Hasher::new(&format!("evidence {}", table.name())))
    }

    /// Returns the hash of a row that is about to be written.
    pub(super) fn of(table: Table, values: &[Value]) -> String {
        let mut seal = Self::new(table);
        seal.add_values(values);
        seal.finish()
    }

    pub(super) fn add_values(&mut self, values: &[Value]) {
        for value in values {
            self.add(ValueRef::from(value));
        }
    }

    /// Adds columns of a row.
    pub(super) fn add_columns(
        &mut self,
        row: &Row<'_>,
        columns: Range<usize>,
    ) -> rusqlite::Result<()> {
        for column in columns {
            self.add(row.get_ref(column)?);
        }
        Ok(())
    }

    fn add(&mut self, value: ValueRef<'_>) {
        match value {
            ValueRef::Null => self.part(b'n', &[]),
            ValueRef::Integer(value) => self.part(b'i', &value.to_le_bytes()),
            // SQLite keeps -0 as 0.
            ValueRef::Real(value) => self.part(b'r', &(value + 0.0).to_bits().to_le_bytes()),
            ValueRef::Text(text) => self.part(b't', text),
            ValueRef::Blob(bytes) => self.part(b'b', bytes),
        }
    }

    fn part(&mut self, kind: u8, bytes: &[u8]) {
        self.0.part(&[kind]).part(bytes);
    }

    pub(super) fn finish(self) -> String {
        BlobId::from(self.0).to_string()
    }

    /// Holds it against what is stored.
    pub(super) fn look(self, stored: ValueRef<'_>) -> rusqlite::Result<Look> {
        Ok(match stored {
            ValueRef::Null => Look::Unsigned,
            // Compared as bytes: what is damaged need not be text any more.
            ValueRef::Text(stored) if stored == self.finish().as_bytes() => Look::Intact,
            _ => Look::Altered,
        })
    }
}

/// A text as a column's value.
pub(super) fn text(text: impl Into<String>) -> Value {
    Value::Text(text.into())
}
