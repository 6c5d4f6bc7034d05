//! The tables, and how an older file becomes a current one.
//!
//! Documents (JSON) are the evidence. The columns beside them, and the whole of `measurements`, are
//! an index over the documents, so that a listing of ten thousand trials parses none of them;
//! [`crate::Store::verify`] derives them again and compares.

use std::collections::BTreeMap;
use std::path::Path;

use rusqlite::{Connection, Transaction, TransactionBehavior};

use crate::error::{StoreError, from_sqlite};

/// Marks the file as ours ("WSEV"); `file` and the next program that opens it can tell.
pub(crate) const APPLICATION_ID: i32 = 0x5753_4556;

/// The steps from an empty file to the current format; a file's `user_version` counts the steps
/// that it has seen. A step that was released is never edited: a change is a new step.
pub(crate) const MIGRATIONS: &[&str] =
    &[include_str!("schema/1.sql"), include_str!("schema/2.sql"), include_str!("schema/3.sql")];

/// What makes a file that has seen this many steps look current to queries alone, without a change to it:
/// temporary tables and views, which are in the connection's memory and found before the file's own.
const OVERLAYS: &[(usize, &str)] =
    &[(1, include_str!("schema/overlay_1.sql")), (2, include_str!("schema/overlay_2.sql"))];

/// What a file is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Identity {
    /// An empty database, or a file of no bytes.
    Empty,
    /// A store that has seen this many steps.
    Store(usize),
}

/// Looks at a file without changing it.
pub(crate) fn identify(
    connection: &Connection,
    path: &Path,
    migrations: &[&str],
) -> Result<Identity, StoreError> {
    // One transaction for all that is read: a store that another process makes in between must be
    // seen before or after its first step, never without a mark and yet with tables.
    let transaction = Transaction::new_unchecked(connection, TransactionBehavior::Deferred)
        .map_err(|error| from_sqlite(path, error))?;
    identify_in(&transaction, path, migrations)
}

fn identify_in(
    connection: &Transaction<'_>,
    path: &Path,
    migrations: &[&str],
) -> Result<Identity, StoreError> {
    let failed = |error| from_sqlite(path, error);
    let application: i32 =
        connection.query_row("PRAGMA application_id", [], |row| row.get(0)).map_err(failed)?;
    let version: i64 =
        connection.query_row("PRAGMA user_version", [], |row| row.get(0)).map_err(failed)?;
    let tables: i64 = connection
        .query_row("SELECT count(*) FROM sqlite_schema", [], |row| row.get(0))
        .map_err(failed)?;
    if application == 0 && version == 0 && tables == 0 {
        return Ok(Identity::Empty);
    }
    if application != APPLICATION_ID {
        let why = "a database of another program".to_string();
        return Err(StoreError::NotAStore { path: path.to_path_buf(), why });
    }
    match usize::try_from(version) {
        Ok(seen) if seen <= migrations.len() => {
            refuse_other_tables(connection, path, migrations, seen)?;
            Ok(Identity::Store(seen))
        }
        _ => Err(StoreError::Newer {
            path: path.to_path_buf(),
            found: u32::try_from(version).unwrap_or(u32::MAX),
            known: migrations.len() as u32,
        }),
    }
}

/// The columns of tables, by the tables' names.
type Columns = BTreeMap<String, Vec<String>>;

/// Holds the tables against what so many steps make: the number that counts them is as easily damaged as
/// anything else, and a step that is taken twice, or left out, ruins the file. Tables that no step makes, such as
/// those of `ANALYZE`, are nobody's business.
fn refuse_other_tables(
    connection: &Connection,
    path: &Path,
    migrations: &[&str],
    seen: usize,
) -> Result<(), StoreError> {
    let made_by = |steps: &[&str]| -> rusqlite::Result<Columns> {
        let made = Connection::open_in_memory()?;
        steps.iter().try_for_each(|step| made.execute_batch(step))?;
        columns(&made)
    };
    let look = || -> rusqlite::Result<_> {
        Ok((columns(connection)?, made_by(&migrations[..seen])?, made_by(migrations)?))
    };
    let (mut found, expected, current) = look().map_err(|error| from_sqlite(path, error))?;
    found.retain(|table, _| current.contains_key(table));
    if found != expected {
        let detail = format!("it says that it has format {seen}, and its tables are others");
        return Err(StoreError::Corrupt { path: path.to_path_buf(), detail });
    }
    Ok(())
}

fn columns(connection: &Connection) -> rusqlite::Result<Columns> {
    let mut columns = Columns::new();
    let mut select = connection.prepare(
        "SELECT tables.name, info.name FROM main.sqlite_schema AS tables
         JOIN pragma_table_info(tables.name, 'main') AS info
         WHERE tables.type = 'table' ORDER BY tables.name, info.cid",
    )?;
    let mut rows = select.query([])?;
    while let Some(row) = rows.next()? {
        columns.entry(row.get(0)?).or_default().push(row.get(1)?);
    }
    Ok(columns)
}

/// Applies the steps that a file has not seen, all of them or none.
pub(crate) fn migrate(
    connection: &Connection,
    path: &Path,
    migrations: &[&str],
) -> Result<(), StoreError> {
    let failed = |error| from_sqlite(path, error);
    let transaction =
        Transaction::new_unchecked(connection, TransactionBehavior::Immediate).map_err(failed)?;
    // Looked at again under the lock: another process may have been here first.
    let seen = match identify_in(&transaction, path, migrations)? {
        Identity::Empty => 0,
        Identity::Store(seen) => seen,
    };
    for step in &migrations[seen..] {
        transaction.execute_batch(step).map_err(failed)?;
    }
    if seen < migrations.len() {
        transaction.pragma_update(None, "application_id", APPLICATION_ID).map_err(failed)?;
        transaction.pragma_update(None, "user_version", migrations.len() as i64).map_err(failed)?;
    }
    transaction.commit().map_err(failed)
}

/// Lets an older file be read as if it had seen all steps.
pub(crate) fn overlay(connection: &Connection, path: &Path, seen: usize) -> Result<(), StoreError> {
    if let Some((_, sql)) = OVERLAYS.iter().find(|(step, _)| *step == seen) {
        connection.execute_batch(sql).map_err(|error| from_sqlite(path, error))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    const PATH: &str = "test.db";

    /// Two formats of a store that never was.
    const STEPS: [&str; 2] = [
        "CREATE TABLE notes (text TEXT NOT NULL) STRICT;",
        "ALTER TABLE notes ADD COLUMN author TEXT NOT NULL DEFAULT 'unknown';",
    ];

    fn identified(connection: &Connection, steps: &[&str]) -> Result<Identity, StoreError> {
        identify(connection, Path::new(PATH), steps)
    }

    #[test]
    fn an_older_file_is_brought_up_to_date_and_keeps_its_content() {
        let connection = Connection::open_in_memory().expect("memory");
        assert_eq!(identified(&connection, &STEPS).expect("empty"), Identity::Empty);
        migrate(&connection, Path::new(PATH), &STEPS[..1]).expect("the first format");
        connection.execute("INSERT INTO notes VALUES ('kept')", []).expect("content");
        assert_eq!(identified(&connection, &STEPS).expect("older"), Identity::Store(1));
        for _ in 0..2 {
            migrate(&connection, Path::new(PATH), &STEPS).expect("the second format");
            assert_eq!(identified(&connection, &STEPS).expect("current"), Identity::Store(2));
        }
        let read = |row: &rusqlite::Row<'_>| Ok((row.get(0)?, row.get(1)?));
        let row: (String, String) =
            connection.query_row("SELECT text, author FROM notes", [], read).expect("a row");
        assert_eq!(row, ("kept".to_string(), "unknown".to_string()));
        let newer = identified(&connection, &STEPS[..1]).expect_err("newer");
        assert!(matches!(newer, StoreError::Newer { found: 2, known: 1, .. }), "{newer}");
    }

    #[test]
    fn a_step_that_fails_changes_nothing() {
        let connection = Connection::open_in_memory().expect("memory");
        let broken = [STEPS[0], "CREATE TABLE later (x INT) STRICT; ALTER TABLE nothing ADD y;"];
        migrate(&connection, Path::new(PATH), &broken).expect_err("the second step");
        assert_eq!(identified(&connection, &broken).expect("as before"), Identity::Empty);
    }

    /// Every older format must have an overlay, or queries of its files would fail.
    #[test]
    fn an_older_file_can_be_read_as_a_current_one_without_a_change() {
        let columns = |connection: &Connection, table: &str| -> Vec<String> {
            let mut select = connection
                .prepare(&format!("SELECT * FROM {table} LIMIT 0"))
                .expect("the table is there");
            let names = select.column_names().map(str::to_string).collect();
            let _none = select.query([]).expect("it can be read");
            names
        };
        let current = Connection::open_in_memory().expect("memory");
        migrate(&current, Path::new(PATH), MIGRATIONS).expect("all steps");
        let tables: Vec<String> = current
            .prepare("SELECT name FROM sqlite_schema WHERE type = 'table'")
            .and_then(|mut select| select.query_map([], |row| row.get(0))?.collect())
            .expect("tables");
        for seen in 1..MIGRATIONS.len() {
            let older = Connection::open_in_memory().expect("memory");
            migrate(&older, Path::new(PATH), &MIGRATIONS[..seen]).expect("some steps");
            overlay(&older, Path::new(PATH), seen).expect("an overlay");
            for table in &tables {
                assert_eq!(columns(&older, table), columns(&current, table), "{table} of {seen}");
            }
        }
    }

    #[test]
    fn the_current_format_is_made_from_nothing() {
        let connection = Connection::open_in_memory().expect("memory");
        migrate(&connection, Path::new(PATH), MIGRATIONS).expect("all steps");
        let version = identified(&connection, MIGRATIONS).expect("current");
        assert_eq!(version, Identity::Store(MIGRATIONS.len()));
    }
}
