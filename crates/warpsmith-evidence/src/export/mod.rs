//! Files for people and for other tools.
//!
//! [`export`] writes them into a folder; each also has a function of its own. `micro_log.csv`,
//! `micro_best.json`, `evo_log.csv` and `evo_best.json` are the microbenchmark's and the search's
//! logs and their best; the latter are what [`read_best`] takes seeds from. `evidence.json` is
//! everything. `dispatch.json` says which configuration to use on which shape. `ncu_profile.csv` and
//! `.ncu-rep` files are a profiler's own. Kernel Tuner
//! caches and T4 results carry the searched spaces to other tuners' tools, and FlashInfer traces what came
//! of kernels to that collection.

mod best;
mod dispatch;
mod evidence;
mod flashinfer;
mod interchange;
mod kernel_tuner;
mod log;
mod part;
mod profile;
mod t4;

use std::io::Write;
use std::path::{Path, PathBuf};

use warpsmith_model::{Fidelity, RunRecord};

use crate::error::StoreError;
use crate::selection::{self, Limits};
use crate::store::Store;

pub use best::{best_list, read_best, write_best};
pub use dispatch::dispatch_table;
pub use evidence::{collect_evidence, read_evidence, write_evidence};
pub use flashinfer::flashinfer_traces;
pub use log::write_log;
pub use part::Part;

/// What to write.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Format {
    /// `micro_log.csv` and `evo_log.csv`.
    Logs,
    /// `micro_best.json` and `evo_best.json`.
    Best,
    /// `evidence.json`.
    Evidence,
    /// `kernel_tuner/KERNEL@WORKLOAD.json`, for every kernel with tunables.
    KernelTuner,
    /// `t4/KERNEL@WORKLOAD.json`, for every kernel with tunables.
    T4,
    /// `dispatch.json`, for a run whose finalists were measured against each other.
    Dispatch,
    /// `ncu_profile.csv` and `ncu/KERNEL@WORKLOAD.{csv,ncu-rep}`, for every profile.
    Profile,
    /// `flashinfer/traces/DEFINITION.jsonl` and `flashinfer/solutions/DEFINITION/NAME.json`, for every kernel
    /// that went through the full gate.
    FlashInfer,
}

impl Format {
    /// Every format.
    pub const ALL: [Self; 8] = [
        Self::Logs,
        Self::Best,
        Self::Evidence,
        Self::KernelTuner,
        Self::T4,
        Self::Dispatch,
        Self::Profile,
        Self::FlashInfer,
    ];

    /// Returns the name used in flags.
    pub fn name(self) -> &'static str {
        match self {
            Self::Logs => "logs",
            Self::Best => "best",
            Self::Evidence => "evidence",
            Self::KernelTuner => "kernel-tuner",
            Self::T4 => "t4",
            Self::Dispatch => "dispatch",
            Self::Profile => "profile",
            Self::FlashInfer => "flashinfer",
        }
    }
}

/// How many of the best a list holds.
pub const BEST_LENGTH: usize = 10;

/// Why a file could not be written or read.
#[derive(Debug, thiserror::Error)]
pub enum ExportError {
    /// The store failed.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The file cannot be written.
    #[error("cannot write `{}`", .path.display())]
    Write {
        /// The file.
        path: PathBuf,
        /// Why.
        #[source]
        source: std::io::Error,
    },
    /// What would be replaced is a database, perhaps the evidence itself.
    #[error("`{}` belongs to a database, perhaps the evidence itself, and was left as it is: name another file", .path.display())]
    Database {
        /// The file.
        path: PathBuf,
    },
    /// The file cannot be read.
    #[error("cannot read `{}`", .path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// Why.
        #[source]
        source: std::io::Error,
    },
    /// The file is not what it should be.
    #[error("`{}` is not {expected}", .path.display())]
    Malformed {
        /// The file.
        path: PathBuf,
        /// What it should be.
        expected: &'static str,
        /// What the parser said, with line and column.
        #[source]
        source: serde_json::Error,
    },
    /// The file has a format of a later version.
    #[error("`{}` has format {found}, and this version of Warpsmith knows {known}: upgrade Warpsmith, or write the file again with this version", .path.display())]
    Version {
        /// The file.
        path: PathBuf,
        /// The file's format.
        found: u32,
        /// The format that this version knows.
        known: u32,
    },
}

/// Writes the files of a run into a folder, which is made when it is not there, and returns their
/// paths. A file of the same name is replaced once its successor is complete.
pub fn export(
    store: &Store,
    record: &RunRecord,
    folder: &Path,
    formats: &[Format],
) -> Result<Vec<PathBuf>, ExportError> {
    let mut written = Vec::new();
    for format in formats {
        match format {
            Format::Dispatch => dispatch::write_dispatch(store, record, folder, &mut written)?,
            Format::Profile => profile::write_profiles(store, record, folder, &mut written)?,
            Format::FlashInfer => {
                flashinfer::write_flashinfer(store, record, folder, &mut written)?;
            }
            Format::Logs => write_logs(store, record, folder, &mut written)?,
            Format::Best => write_bests(store, record, folder, &mut written)?,
            Format::Evidence => {
                let path = folder.join("evidence.json");
                let mut part = Part::begin(&path)?;
                write_evidence(store, record, &path, &mut part)?;
                part.finish()?;
                written.push(path);
            }
            Format::KernelTuner => {
                let (folder, layout) = (folder.join("kernel_tuner"), &kernel_tuner::LAYOUT);
                interchange::write_spaces(store, record, &folder, layout, &mut written)?;
            }
            Format::T4 => {
                let (folder, layout) = (folder.join("t4"), &t4::LAYOUT);
                interchange::write_spaces(store, record, &folder, layout, &mut written)?;
            }
        }
    }
    Ok(written)
}

fn write_logs(
    store: &Store,
    record: &RunRecord,
    folder: &Path,
    written: &mut Vec<PathBuf>,
) -> Result<(), ExportError> {
    let logs: [(&str, &[Fidelity]); 2] =
        [("micro_log.csv", &[Fidelity::Micro]), ("evo_log.csv", &[Fidelity::Rank, Fidelity::Full])];
    for (name, fidelities) in logs {
        let path = folder.join(name);
        write_log(store, record, fidelities, &path)?;
        written.push(path);
    }
    Ok(())
}

fn write_bests(
    store: &Store,
    record: &RunRecord,
    folder: &Path,
    written: &mut Vec<PathBuf>,
) -> Result<(), ExportError> {
    let comparisons = store.comparisons(&record.id)?;
    let selection = selection::select(store, record, &comparisons, None, Limits::USUAL)?;
    let summaries = selection.summaries(store, record)?;
    let environment = store.environment(&record.environment)?;
    for (name, fidelities) in [
        ("micro_best.json", &[Fidelity::Micro][..]),
        ("evo_best.json", &[Fidelity::Full, Fidelity::Rank][..]),
    ] {
        let list = best_list(record, &environment, &summaries, &comparisons, fidelities);
        let path = folder.join(name);
        write_best(&path, &list)?;
        written.push(path);
    }
    Ok(())
}

/// Writes a file beside the one of that name, and puts it in its place when it is complete.
fn replace(
    path: &Path,
    write: impl FnOnce(&mut dyn Write) -> std::io::Result<()>,
) -> Result<(), ExportError> {
    let mut part = Part::begin(path)?;
    let outcome = write(&mut part);
    outcome.map_err(|source| ExportError::Write { path: path.to_path_buf(), source })?;
    part.finish()
}

fn replace_json<T: serde::Serialize>(path: &Path, value: &T) -> Result<(), ExportError> {
    replace(path, |writer| {
        serde_json::to_writer_pretty(&mut *writer, value)?;
        writer.write_all(b"\n")
    })
}

/// Reads a JSON file and makes sure that its format is known.
fn read_json<T: serde::de::DeserializeOwned>(
    path: &Path,
    expected: &'static str,
    format: impl FnOnce(&T) -> u32,
) -> Result<T, ExportError> {
    let path_buf = || path.to_path_buf();
    let text = std::fs::read_to_string(path)
        .map_err(|source| ExportError::Read { path: path_buf(), source })?;
    let malformed = |source| ExportError::Malformed { path: path_buf(), expected, source };
    let value: T = match serde_json::from_str(&text) {
        Ok(value) => value,
        Err(source) => {
            // A later format is likely to have other fields; say that rather than which ones.
            return Err(match later_format(&text) {
                Some(found) => version_error(path, found),
                None => malformed(source),
            });
        }
    };
    match format(&value) {
        warpsmith_model::FORMAT_VERSION => Ok(value),
        found => Err(version_error(path, found)),
    }
}

fn later_format(text: &str) -> Option<u32> {
    let value: serde_json::Value = serde_json::from_str(text).ok()?;
    let found = u32::try_from(value.get("format")?.as_u64()?).ok()?;
    (found > warpsmith_model::FORMAT_VERSION).then_some(found)
}

fn version_error(path: &Path, found: u32) -> ExportError {
    ExportError::Version { path: path.to_path_buf(), found, known: warpsmith_model::FORMAT_VERSION }
}
