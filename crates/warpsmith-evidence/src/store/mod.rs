//! One SQLite file that keeps every trial.
//!
//! Writes are whole transactions, and on the disk when the call returns: the file is in WAL mode
//! with `synchronous=FULL`, so neither `kill -9` nor a power cut takes back what was acknowledged.
//! `NORMAL` would lose the last trials to a power cut, after the search has already learned from
//! them. The difference is one `fsync` a trial, 4 to 9 ms on a busy cloud disk
//! (`examples/many_trials.rs` measures it), against the hundreds that a trial takes.
//! Several processes can write to one store; each waits for the other.
//!
//! Deliberately absent: a clock (times are given by the caller) and any way to delete evidence.
//! WAL needs shared memory, so a store does not belong on a network file system that several
//! machines write to.

mod calls;
mod open;
mod profiles;
mod read;
mod runs;
mod seal;
mod verify;
mod write;
mod writers;

use std::path::{Path, PathBuf};

use rusqlite::{Connection, Params, Row, Transaction, TransactionBehavior};

use crate::error::{StoreError, from_sqlite};
use seal::{Look, Table};

pub use open::Access;
pub use read::Question;
pub use runs::RunSummary;
pub use verify::{Checked, Examination};
pub(crate) use write::named_blobs;

/// An open store.
#[derive(Debug)]
pub struct Store {
    connection: Connection,
    path: PathBuf,
}

impl Store {
    /// Returns the file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    fn failed(&self, error: rusqlite::Error) -> StoreError {
        from_sqlite(&self.path, error)
    }

    fn document_failed(
        &self,
        what: impl Into<String>,
    ) -> impl FnOnce(serde_json::Error) -> StoreError {
        let (path, what) = (self.path.clone(), what.into());
        move |source| StoreError::Document { path, what, source }
    }

    /// Begins a write; the lock is taken at once, so that two writers wait instead of failing.
    fn begin(&self) -> Result<Transaction<'_>, StoreError> {
        Transaction::new_unchecked(&self.connection, TransactionBehavior::Immediate)
            .map_err(|error| self.failed(error))
    }

    /// Begins a read of several statements that all see one state.
    fn snapshot(&self) -> Result<Transaction<'_>, StoreError> {
        Transaction::new_unchecked(&self.connection, TransactionBehavior::Deferred)
            .map_err(|error| self.failed(error))
    }

    fn altered(&self, what: impl Into<String>) -> StoreError {
        StoreError::Altered { path: self.path.clone(), what: what.into() }
    }

    /// Reads rows of a table, each of which is checked before anything is read of it; one that is not what was
    /// recorded is an error. See [`Self::sealed_each`].
    fn sealed<T>(
        &self,
        table: Table,
        extra: &str,
        rest: &str,
        params: impl Params,
        what: impl Fn() -> String,
        read: impl FnMut(&Row<'_>) -> rusqlite::Result<T>,
    ) -> Result<Vec<T>, StoreError> {
        self.sealed_each(table, extra, rest, params, |_| what(), read)?.into_iter().collect()
    }

    /// Reads rows of a table, each of which is checked before anything is read of it, and may be damaged by
    /// itself. `rest` is what follows the table's name; `what` names a row, `read` reads it: both find the
    /// table's columns first, then the hash, then `extra`.
    fn sealed_each<T>(
        &self,
        table: Table,
        extra: &str,
        rest: &str,
        params: impl Params,
        what: impl Fn(&Row<'_>) -> String,
        mut read: impl FnMut(&Row<'_>) -> rusqlite::Result<T>,
    ) -> Result<Vec<Result<T, StoreError>>, StoreError> {
        let sql = format!("SELECT {}{extra} FROM {} {rest}", table.selected(), table.name());
        let mut values = Vec::new();
        self.each_row(&sql, params, |row| {
            let look = table.look(row, 0).map_err(|error| self.failed(error))?;
            values.push(match look {
                Look::Altered => Err(self.altered(what(row))),
                Look::Intact | Look::Unsigned => read(row).map_err(|error| self.failed(error)),
            });
            Ok::<(), StoreError>(())
        })?;
        Ok(values)
    }

    /// Reads rows one by one, so that none of them is kept.
    fn each_row<E: From<StoreError>>(
        &self,
        sql: &str,
        params: impl Params,
        mut each: impl FnMut(&Row<'_>) -> Result<(), E>,
    ) -> Result<(), E> {
        let mut statement =
            self.connection.prepare_cached(sql).map_err(|error| self.failed(error))?;
        let mut rows = statement.query(params).map_err(|error| self.failed(error))?;
        while let Some(row) = rows.next().map_err(|error| self.failed(error))? {
            each(row)?;
        }
        Ok(())
    }

    fn rows<T>(
        &self,
        sql: &str,
        params: impl Params,
        read: impl FnMut(&Row<'_>) -> rusqlite::Result<T>,
    ) -> Result<Vec<T>, StoreError> {
        let mut statement =
            self.connection.prepare_cached(sql).map_err(|error| self.failed(error))?;
        let rows = statement.query_map(params, read).map_err(|error| self.failed(error))?;
        rows.collect::<rusqlite::Result<_>>().map_err(|error| self.failed(error))
    }

    fn first_row<T>(
        &self,
        sql: &str,
        params: impl Params,
        read: impl FnMut(&Row<'_>) -> rusqlite::Result<T>,
    ) -> Result<Option<T>, StoreError> {
        Ok(self.rows(sql, params, read)?.into_iter().next())
    }
}

/// Returns a column of a row whatever it holds: what is damaged need not be text any more.
fn shown(row: &Row<'_>, column: usize) -> String {
    let bytes = row.get_ref(column).ok().and_then(|value| value.as_bytes().ok());
    String::from_utf8_lossy(bytes.unwrap_or(b"?")).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// SQLite's own limit stands in for the disk's end.
    #[test]
    fn a_full_disk_is_called_one() {
        let folder = tempfile::tempdir().expect("a folder");
        let store = Store::open(&folder.path().join("evidence.db")).expect("a store");
        store.connection.pragma_update(None, "max_page_count", 30).expect("a limit");
        let fill = "INSERT INTO blobs (id, content) VALUES (?1, zeroblob(100000) || 'x')";
        let error = (0..30)
            .find_map(|idx| store.connection.execute(fill, [idx.to_string()]).err())
            .map(|error| store.failed(error))
            .expect("it ran full");
        assert!(matches!(error, StoreError::Full { .. }), "{error}");
    }

    #[test]
    fn acknowledged_means_synced() {
        let folder = tempfile::tempdir().expect("a folder");
        let store = Store::open(&folder.path().join("evidence.db")).expect("a store");
        let setting = |name: &str| {
            let read = |row: &Row<'_>| row.get::<_, rusqlite::types::Value>(0);
            store.first_row(&format!("PRAGMA {name}"), [], read).expect(name).expect(name)
        };
        assert_eq!(setting("journal_mode"), rusqlite::types::Value::Text("wal".to_string()));
        const FULL: i64 = 2;
        assert_eq!(setting("synchronous"), rusqlite::types::Value::Integer(FULL));
        assert_eq!(setting("foreign_keys"), rusqlite::types::Value::Integer(1));
    }
}
