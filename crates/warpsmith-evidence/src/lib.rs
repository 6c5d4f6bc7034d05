//! The evidence: one SQLite file that keeps every trial, and what can be read out of it.
//!
//! [`Store`] records and returns; it derives nothing. [`derive`] holds the pure functions from
//! records and summaries to rankings, standings and curves. [`export`] writes the files that people
//! and other tools know; [`report`] renders the page.
//!
//! ```text
//! Store::open(path)                    for campaigns; makes the file, readable by its owner alone
//!      ::open_as(path, Access::Umask)  the same, readable by whom the umask lets
//!      ::open_read_only(path)          for queries
//!   recording, each one durable transaction:
//!      put_environment(&Environment) -> EnvironmentId      before start_run and append
//!      start_run(&RunRecord)   take_up(&RunId)   finish_run(&RunId, &RunStatus)
//!      append(&RunId, &Finding, at_unix_s) -> seq          trial and texts together
//!      find_trial(&Question) -> Option<Trial>              an earlier answer, from any run
//!      adopt(&RunId, &Trial, at_unix_s) -> seq             takes it over
//!      put_ceilings(&RunId, &Ceilings, at)   ceilings_of(&EnvironmentId) -> [Result<Ceilings>]
//!      put_profile(&RunId, &ProfileRecord, &[FileBlob])    newest_profile(&CandidateId, &EnvironmentId)
//!      put_comparison   put_chain   put_document(&RunId, kind, &Value)
//!   reading:
//!      runs() -> [RunSummary]          newest first; runs_or_damage() where some may be damaged
//!      run("latest" | name | beginning) -> RunRecord
//!      summaries(&RunId) -> [TrialSummary]                 no samples; fast
//!      trials(&RunId) -> [RunTrial]    trial(id | beginning) -> Trial     every sample
//!      blob(&BlobId)   texts(&[RunTrial])   environment   ceilings   comparisons   chain
//!      profiles   file(&BlobId)   documents   document_kinds   runs_of(&TrialId)
//!      each_summary(&RunId, f)   each_trial(&RunId, f)     the same, one at a time
//!      examine() -> Examination { checked, faults }        verify() -> [fault]
//!
//! Whatever is read is held against the hash that was written with it; see `store/seal.rs`.
//!
//! derive::leaderboard(&record, &summaries, Fidelity) -> Leaderboard { entries, baselines, unranked }
//!       ::best_by_kernel(&board)       ::best_by_workload(&board, &summaries)
//!       ::winner(&record, &summaries, &comparisons) -> Option<Winner>    the winner and its times, for everybody
//!       ::standings(&comparison, against) -> [Standing]    paired speed-ups, ties called ties
//!       ::micro_agreement(&summaries)  ::failures(&summaries)
//!       ::convergence(&record, &summaries, &board)
//!       ::parameter_effects(&kernel_record, &summaries, &board)
//!       ::roofline_points(&lab_record, &ceilings, &summary)
//!
//! export::export(&store, &record, folder, &[Format]) -> [path]      read_best(path) -> BestList
//! ```
//!
//! Deliberately absent: clocks (the caller says when), devices, and any way to delete evidence.

pub mod derive;
mod error;
pub mod export;
pub mod report;
mod schema;
mod selection;
mod store;
mod summary;
mod utc;

pub use error::StoreError;
pub use selection::{FailureTotals, FidelityTotals, Limits, Totals};
pub use store::{Access, Checked, Examination, Question, RunSummary, Store};
pub use summary::{TrialSummary, WorkloadTime, workload_times};
pub use utc::{utc_minute, utc_stamp, utc_text};
