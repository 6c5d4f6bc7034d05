//! What can go wrong with a store, in words that say what to do.

use std::path::{Path, PathBuf};

use rusqlite::ErrorCode;
use warpsmith_model::{BlobId, EnvironmentId, RunId, TrialId};

/// Why the store could not do what was asked. Nothing that was recorded before is ever lost to one
/// of these: a write either happened as a whole or not at all.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// There is no file yet.
    #[error("no evidence at `{}`: start a campaign first, or name another file", .path.display())]
    Missing {
        /// The file.
        path: PathBuf,
    },
    /// There is a file of no bytes.
    #[error("`{}` is empty: no run was recorded in it yet, or it was cut off, and then a copy has what it was", .path.display())]
    Empty {
        /// The file.
        path: PathBuf,
    },
    /// The file is something else.
    #[error("`{}` is not an evidence store ({why}); it was left as it is: name another file, or move this one away", .path.display())]
    NotAStore {
        /// The file.
        path: PathBuf,
        /// What it is instead.
        why: String,
    },
    /// The file was written by a later version.
    #[error("`{}` has format {found}, and this version of Warpsmith knows formats up to {known}: upgrade Warpsmith, or name another file", .path.display())]
    Newer {
        /// The file.
        path: PathBuf,
        /// The file's format.
        found: u32,
        /// The last format that this version knows.
        known: u32,
    },
    /// The file's content is broken.
    #[error("`{}` is damaged ({detail}); it was left as it is: `warpsmith verify` lists what is broken; restore it from a copy, or move it away together with its `-wal` file to start afresh (`sqlite3 FILE .recover` may rescue the rest)", .path.display())]
    Corrupt {
        /// The file.
        path: PathBuf,
        /// What was noticed.
        detail: String,
    },
    /// A row is not what was written: its hash, or the id that is its hash, is another one.
    #[error("{what} in `{}` is not what was recorded: its hash is another one, so a disk or a program has changed it; `warpsmith verify` lists everything that is damaged, and a copy of the file has what it was", .path.display())]
    Altered {
        /// The file.
        path: PathBuf,
        /// Which document.
        what: String,
    },
    /// The file or its folder may not be written to.
    #[error("`{}` cannot be written ({why}): make the file and its folder writable, or name another file", .path.display())]
    ReadOnly {
        /// The file.
        path: PathBuf,
        /// What was noticed.
        why: String,
    },
    /// The file or its folder may not be read, or the folder cannot be made.
    #[error("cannot open `{}` ({why})", .path.display())]
    CannotOpen {
        /// The file.
        path: PathBuf,
        /// What was noticed.
        why: String,
    },
    /// There is no room left, or the system refused to write.
    #[error("cannot write to `{}` ({why}): free some space; everything recorded so far is kept, and `warpsmith resume` goes on with a run that this ended", .path.display())]
    Full {
        /// The file.
        path: PathBuf,
        /// What was noticed.
        why: String,
    },
    /// Another process held the store for too long.
    #[error("`{}` has been locked by another process for minutes: wait for it or end it; everything recorded so far is kept, and `warpsmith resume` goes on with a run that this ended", .path.display())]
    Busy {
        /// The file.
        path: PathBuf,
    },
    /// No run has this name.
    #[error("no run `{asked}` in `{}`{}; `warpsmith runs` lists them", .path.display(), did_you_mean(.suggestion.as_deref()))]
    UnknownRun {
        /// The file.
        path: PathBuf,
        /// What was asked for.
        asked: String,
        /// A name that is near.
        suggestion: Option<String>,
    },
    /// Several runs' names begin like this.
    #[error("`{asked}` may be any of {} runs ({}): give more of the name", .matches.len(), listed(.matches))]
    AmbiguousRun {
        /// What was asked for.
        asked: String,
        /// The names, newest first.
        matches: Vec<String>,
    },
    /// No trial has this id.
    #[error("no trial `{asked}` in `{}`: give at least the first digits of a trial's id, as `warpsmith show` prints them", .path.display())]
    UnknownTrial {
        /// The file.
        path: PathBuf,
        /// What was asked for.
        asked: String,
    },
    /// Several trials' ids begin like this.
    #[error("`{asked}` may be any of {} trials ({}): give more digits", .matches.len(), listed(.matches))]
    AmbiguousTrial {
        /// What was asked for.
        asked: String,
        /// The ids.
        matches: Vec<String>,
    },
    /// No such text is stored.
    #[error("no text {blob} in `{}`", .path.display())]
    UnknownBlob {
        /// The file.
        path: PathBuf,
        /// What was asked for.
        blob: BlobId,
    },
    /// No such environment is stored.
    #[error("no environment {environment} in `{}`: put it there before its runs and trials", .path.display())]
    UnknownEnvironment {
        /// The file.
        path: PathBuf,
        /// What was asked for.
        environment: EnvironmentId,
    },
    /// A run of this name exists.
    #[error("the run `{run}` exists already")]
    RunExists {
        /// The run.
        run: RunId,
    },
    /// The run has a trial of this candidate, fidelity and list of workloads already.
    #[error("trial {trial} would be recorded twice in run `{run}`")]
    AlreadyRecorded {
        /// The trial that was not recorded.
        trial: TrialId,
        /// The run.
        run: RunId,
    },
    /// What was to be recorded contradicts itself.
    #[error("trial {trial} was not recorded: {why}")]
    Inconsistent {
        /// The trial.
        trial: TrialId,
        /// What is wrong with it.
        why: String,
    },
    /// A stored document is not what it should be, or a document cannot be stored.
    #[error("{what} in `{}` cannot be understood", .path.display())]
    Document {
        /// The file.
        path: PathBuf,
        /// Which document.
        what: String,
        /// What the parser said.
        #[source]
        source: serde_json::Error,
    },
    /// Anything else that SQLite says.
    #[error("the store `{}` failed", .path.display())]
    Sqlite {
        /// The file.
        path: PathBuf,
        /// What SQLite said.
        #[source]
        source: rusqlite::Error,
    },
}

impl StoreError {
    /// Says whether something that was recorded is not what it was, or is gone: what else there is can still be
    /// used.
    pub fn is_damage(&self) -> bool {
        matches!(
            self,
            Self::Corrupt { .. }
                | Self::Altered { .. }
                | Self::Document { .. }
                | Self::UnknownBlob { .. }
        )
    }
}

fn did_you_mean(suggestion: Option<&str>) -> String {
    suggestion.map(|name| format!("; did you mean `{name}`?")).unwrap_or_default()
}

/// Lists a few names; a person needs to see that there are several, not all of them.
fn listed(names: &[String]) -> String {
    const SHOWN: usize = 4;
    let mut text = names.iter().take(SHOWN).cloned().collect::<Vec<_>>().join(", ");
    if names.len() > SHOWN {
        text.push_str(", …");
    }
    text
}

/// Sorts SQLite's errors by who must act.
pub(crate) fn from_sqlite(path: &Path, error: rusqlite::Error) -> StoreError {
    let path = path.to_path_buf();
    let why = error.to_string();
    match error.sqlite_error_code() {
        Some(ErrorCode::DatabaseCorrupt) => StoreError::Corrupt { path, detail: why },
        Some(ErrorCode::NotADatabase) => StoreError::NotAStore { path, why },
        Some(ErrorCode::ReadOnly | ErrorCode::PermissionDenied) => {
            StoreError::ReadOnly { path, why }
        }
        Some(ErrorCode::CannotOpen) => StoreError::CannotOpen { path, why },
        Some(ErrorCode::DiskFull) => StoreError::Full { path, why },
        Some(ErrorCode::SystemIoFailure) if is_write_failure(&error) => {
            StoreError::Full { path, why }
        }
        Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => StoreError::Busy { path },
        _ if matches!(
            error,
            rusqlite::Error::FromSqlConversionFailure(..)
                | rusqlite::Error::InvalidColumnType(..)
                | rusqlite::Error::IntegralValueOutOfRange(..)
        ) =>
        {
            StoreError::Corrupt { path, detail: why }
        }
        _ => StoreError::Sqlite { path, source: error },
    }
}

/// A quota or a limit on file sizes shows as a failed write, not as a full disk.
fn is_write_failure(error: &rusqlite::Error) -> bool {
    use rusqlite::ffi;
    let failures = [
        ffi::SQLITE_IOERR_WRITE,
        ffi::SQLITE_IOERR_FSYNC,
        ffi::SQLITE_IOERR_DIR_FSYNC,
        ffi::SQLITE_IOERR_TRUNCATE,
        ffi::SQLITE_IOERR_SHMSIZE,
    ];
    error.sqlite_error().is_some_and(|error| failures.contains(&error.extended_code))
}
