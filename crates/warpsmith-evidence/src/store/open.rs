//! Opening: what the file is, whether it may be written, and which format it has.

use std::fs::{DirBuilder, OpenOptions};
use std::io::ErrorKind;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::Path;
use std::time::Duration;

use rusqlite::{Connection, ErrorCode, OpenFlags};

use super::Store;
use crate::error::{StoreError, from_sqlite};
use crate::schema::{self, Identity, MIGRATIONS};

/// How long a writer waits for another one. A transaction takes milliseconds, but other programs may hold
/// the lock, for a backup or by hand. Half a minute cost a run for 36 seconds of that.
const BUSY_TIMEOUT: Duration = Duration::from_secs(180);

/// Who may read a store that is made.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Access {
    /// Its owner alone.
    #[default]
    Owner,
    /// Whoever the umask lets.
    Umask,
}

impl Store {
    /// Opens a store for a campaign; makes the file and its folder when they are not there, for their
    /// owner alone.
    pub fn open(path: &Path) -> Result<Self, StoreError> {
        Self::open_as(path, Access::Owner)
    }

    /// Opens a store for a campaign. `access` is for what is made: a file and a folder that are there keep
    /// their permissions.
    pub fn open_as(path: &Path, access: Access) -> Result<Self, StoreError> {
        make_folder(path, access)?;
        refuse_folder(path)?;
        refuse_lone_log(path)?;
        if access == Access::Owner {
            make_private(path)?;
        }
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

    /// Opens a store for queries alone; works on files and folders that may not be written to, on full
    /// disks, and on files of every earlier format, none of which it changes.
    pub fn open_read_only(path: &Path) -> Result<Self, StoreError> {
        match path.try_exists() {
            Ok(true) => {}
            Ok(false) => return Err(StoreError::Missing { path: path.to_path_buf() }),
            // There may well be some, which is another user's.
            Err(error) => {
                let why = format!("its folder cannot be looked into: {error}");
                return Err(StoreError::CannotOpen { path: path.to_path_buf(), why });
            }
        }
        refuse_folder(path)?;
        refuse_lone_log(path)?;
        let (connection, identity) = match open_shared(path) {
            // A log (`-wal`) needs an index beside it (`-shm`), which cannot be made here, or not whole.
            Err(
                StoreError::CannotOpen { .. }
                | StoreError::ReadOnly { .. }
                | StoreError::Full { .. },
            ) => open_alone(path),
            other => other,
        }?;
        match identity {
            Identity::Store(seen) => {
                schema::overlay(&connection, path, seen)?;
                Ok(Self { connection, path: path.to_path_buf() })
            }
            Identity::Empty => Err(StoreError::Empty { path: path.to_path_buf() }),
        }
    }
}

/// Opens a file beside whoever writes to it.
fn open_shared(path: &Path) -> Result<(Connection, Identity), StoreError> {
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let connection =
        Connection::open_with_flags(path, flags).map_err(|error| from_sqlite(path, error))?;
    identified(connection, path)
}

/// Opens a file that nobody writes to, with no help of other files: a log that its last writer left is read,
/// and its index is made in memory. That takes SQLite's exclusive mode, whose lock a file that cannot be
/// written cannot have; so none is taken. Whoever writes to the store has an index beside it, with which it
/// is opened as usual.
fn open_alone(path: &Path) -> Result<(Connection, Identity), StoreError> {
    let failed = |error| from_sqlite(path, error);
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let connection = if has_pending_wal(path) {
        let connection =
            Connection::open_with_flags_and_vfs(path, flags, c"unix-none").map_err(failed)?;
        connection.pragma_update(None, "locking_mode", "EXCLUSIVE").map_err(failed)?;
        connection
    } else {
        // Without a log there would have to be an empty one; as a constant it can be read.
        let flags = flags | OpenFlags::SQLITE_OPEN_URI;
        Connection::open_with_flags(immutable_uri(path), flags).map_err(failed)?
    };
    identified(connection, path)
}

fn identified(connection: Connection, path: &Path) -> Result<(Connection, Identity), StoreError> {
    let failed = |error| from_sqlite(path, error);
    connection.busy_timeout(BUSY_TIMEOUT).map_err(failed)?;
    // Sorting must not need room on a disk that has none.
    connection.pragma_update(None, "temp_store", "MEMORY").map_err(failed)?;
    let identity = schema::identify(&connection, path, MIGRATIONS)?;
    Ok((connection, identity))
}

/// Makes the folder of a store; those around it get the permissions that folders usually get.
fn make_folder(path: &Path, access: Access) -> Result<(), StoreError> {
    let Some(folder) = path.parent().filter(|folder| !folder.as_os_str().is_empty()) else {
        return Ok(());
    };
    let failed = |error: std::io::Error| StoreError::CannotOpen {
        path: path.to_path_buf(),
        why: format!("its folder cannot be made: {error}"),
    };
    if folder.is_dir() {
        return Ok(());
    }
    if let Some(around) = folder.parent().filter(|around| !around.as_os_str().is_empty()) {
        std::fs::create_dir_all(around).map_err(failed)?;
    }
    let mut builder = DirBuilder::new();
    if access == Access::Owner {
        builder.mode(0o700);
    }
    match builder.create(folder) {
        Err(error) if error.kind() == ErrorKind::AlreadyExists && folder.is_dir() => Ok(()),
        outcome => outcome.map_err(failed),
    }
}

/// Makes an empty file that its owner alone can read, unless there is a file. SQLite gives the files beside
/// it (`-wal`, `-shm`) the same permissions.
fn make_private(path: &Path) -> Result<(), StoreError> {
    match OpenOptions::new().write(true).create_new(true).mode(0o600).open(path) {
        Ok(_) => Ok(()),
        Err(error) if error.kind() == ErrorKind::AlreadyExists => Ok(()),
        Err(error) if error.kind() == ErrorKind::StorageFull => {
            Err(StoreError::Full { path: path.to_path_buf(), why: error.to_string() })
        }
        Err(error) => {
            Err(StoreError::ReadOnly { path: path.to_path_buf(), why: error.to_string() })
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

/// Refuses a file of no bytes that has a log: SQLite would delete the log, and all that may be left is in it.
fn refuse_lone_log(path: &Path) -> Result<(), StoreError> {
    let is_empty = std::fs::metadata(path).is_ok_and(|known| known.len() == 0);
    if is_empty && has_pending_wal(path) {
        let detail = "it is empty, and there is a log beside it".to_string();
        return Err(StoreError::Corrupt { path: path.to_path_buf(), detail });
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
