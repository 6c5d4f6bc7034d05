//! Opening: what the file is, whether it may be written, and which format it has.

use std::path::Path;
use std::time::Duration;

use rusqlite::{Connection, ErrorCode, OpenFlags};

use super::Store;
use crate::error::{StoreError, from_sqlite};
use crate::schema::{self, Identity, MIGRATIONS};

/// How long a writer waits for another one. A transaction takes milliseconds; half a minute covers
/// a laptop that was asleep in the middle of one.
const BUSY_TIMEOUT: Duration = Duration::from_secs(30);

impl Store {
    /// Opens a store for a campaign; makes the file and its folder when they are not there.
    pub fn open(path: &Path) -> Result<Self, StoreError> {
        if let Some(folder) = path.parent().filter(|folder| !folder.as_os_str().is_empty()) {
            std::fs::create_dir_all(folder).map_err(|error| StoreError::CannotOpen {
                path: path.to_path_buf(),
                why: format!("its folder cannot be made: {error}"),
            })?;
        }
        refuse_folder(path)?;
        let failed = |error| from_sqlite(path, error);
        let flags = OpenFlags::SQLITE_OPEN_READ_WRITE
            | OpenFlags::SQLITE_OPEN_CREATE
            | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let connection =
            Connection::open_with_flags(path, flags).map_err(failed).map_err(for_writing)?;
        connection.busy_timeout(BUSY_TIMEOUT).map_err(failed)?;
        // SQLite falls back to reading when the file may not be written.
        if connection.is_readonly("main").map_err(failed)? {
            let why = "the file is read-only".to_string();
            return Err(StoreError::ReadOnly { path: path.to_path_buf(), why });
        }
        schema::identify(&connection, path, MIGRATIONS).map_err(for_writing)?;
        prepare_writing(&connection).map_err(failed).map_err(for_writing)?;
        schema::migrate(&connection, path, MIGRATIONS).map_err(for_writing)?;
        Ok(Self { connection, path: path.to_path_buf() })
    }

    /// Opens a store for queries alone; works on files and folders that may not be written to.
    pub fn open_read_only(path: &Path) -> Result<Self, StoreError> {
        if !path.exists() {
            return Err(StoreError::Missing { path: path.to_path_buf() });
        }
        refuse_folder(path)?;
        let failed = |error| from_sqlite(path, error);
        let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let mut connection = Connection::open_with_flags(path, flags).map_err(failed)?;
        connection.busy_timeout(BUSY_TIMEOUT).map_err(failed)?;
        let mut identity = schema::identify(&connection, path, MIGRATIONS);
        // A log (`-wal`) needs an index beside it even for reading. Where the folder may not be
        // written to, a store that was closed properly can still be read as a constant.
        if let Err(StoreError::CannotOpen { .. } | StoreError::ReadOnly { .. }) = identity {
            if has_pending_wal(path) {
                let why = "its last writer has not closed it, and its folder is read-only: open it \
                           once where it can be written";
                return Err(StoreError::CannotOpen { path: path.to_path_buf(), why: why.into() });
            }
            let flags = flags | OpenFlags::SQLITE_OPEN_URI;
            connection = Connection::open_with_flags(immutable_uri(path), flags).map_err(failed)?;
            identity = schema::identify(&connection, path, MIGRATIONS);
        }
        match identity? {
            Identity::Store(seen) if seen == MIGRATIONS.len() => {
                Ok(Self { connection, path: path.to_path_buf() })
            }
            Identity::Store(seen) => Err(StoreError::Older {
                path: path.to_path_buf(),
                found: seen as u32,
                known: MIGRATIONS.len() as u32,
            }),
            Identity::Empty => Err(StoreError::Missing { path: path.to_path_buf() }),
        }
    }
}

fn refuse_folder(path: &Path) -> Result<(), StoreError> {
    if path.is_dir() {
        let why = "a folder".to_string();
        return Err(StoreError::NotAStore { path: path.to_path_buf(), why });
    }
    Ok(())
}

/// A file that cannot be opened for writing is, for a campaign, one that cannot be written.
fn for_writing(error: StoreError) -> StoreError {
    match error {
        StoreError::CannotOpen { path, why } => StoreError::ReadOnly { path, why },
        other => other,
    }
}

fn prepare_writing(connection: &Connection) -> rusqlite::Result<()> {
    set_wal(connection)?;
    connection.pragma_update(None, "synchronous", "FULL")?;
    connection.pragma_update(None, "foreign_keys", "ON")
}

/// Switches to WAL. Two processes that open a new file at the same moment can find each other in
/// the way here, and SQLite does not wait by itself at this point.
fn set_wal(connection: &Connection) -> rusqlite::Result<()> {
    const ATTEMPTS: u32 = 200;
    const PAUSE: Duration = Duration::from_millis(10);
    for _ in 1..ATTEMPTS {
        match connection.pragma_update(None, "journal_mode", "WAL") {
            Err(error) if error.sqlite_error_code() == Some(ErrorCode::DatabaseBusy) => {
                std::thread::sleep(PAUSE);
            }
            other => return other,
        }
    }
    connection.pragma_update(None, "journal_mode", "WAL")
}

fn has_pending_wal(path: &Path) -> bool {
    let mut wal = path.as_os_str().to_owned();
    wal.push("-wal");
    std::fs::metadata(wal).is_ok_and(|metadata| metadata.len() > 0)
}

/// Names a file as a constant, in the syntax of SQLite's URIs.
fn immutable_uri(path: &Path) -> String {
    let absolute = std::path::absolute(path).unwrap_or_else(|_| path.to_path_buf());
    let mut uri = String::from("file://");
    for byte in absolute.as_os_str().as_encoded_bytes() {
        match byte {
            b'/' | b'-' | b'_' | b'.' | b'~' => uri.push(char::from(*byte)),
            byte if byte.is_ascii_alphanumeric() => uri.push(char::from(*byte)),
            byte => uri.push_str(&format!("%{byte:02X}")),
        }
    }
    uri.push_str("?immutable=1");
    uri
}
