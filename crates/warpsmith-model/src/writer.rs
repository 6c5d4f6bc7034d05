//! Which process writes to a run, in words that stay true after its end.

use serde::{Deserialize, Serialize};

/// A process, named so that no other one is taken for it: process ids are given again, after a restart of
/// the machine and within it, and mean something within their namespace alone.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "by")]
pub enum Writer {
    /// A process of Linux.
    Process {
        /// The machine's start that it belongs to.
        boot: String,
        /// The namespace in which its number counts.
        namespace: String,
        /// Its number.
        pid: u32,
        /// When it began, in the kernel's ticks since the machine's start.
        started_ticks: u64,
    },
    /// Somebody whom the system gives no such name.
    Nameless,
}
