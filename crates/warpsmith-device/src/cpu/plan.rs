//! What a worker tells a runner before it starts, and what the runner answers.
//!
//! Both are private to one version of one binary: the runner is the worker's own executable.

use serde::{Deserialize, Serialize};

use super::elf::Deferred;

/// Everything that a runner needs to know. Open files follow: the control page, then (with a
/// program) the artifact, the outputs with scratch, and the inputs.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct RunnerPlan {
    /// The process that must be alive for the runner to go on.
    pub(crate) worker: u32,
    /// One thread per processor, pinned to it.
    pub(crate) cpus: Vec<usize>,
    /// Words behind the control page.
    pub(crate) control_words: usize,
    /// Bytes to reserve.
    pub(crate) arena_bytes: usize,
    /// What lies in the arena.
    pub(crate) overlays: Vec<OverlayPlan>,
    /// From the arena's start to the bottom of each thread's stack.
    pub(crate) stacks: Vec<usize>,
    /// What the heap is filled with that is allocated and given back, as if somebody had used it before.
    pub(crate) heap_noise: Option<u8>,
    /// What to run; absent when the runner shall only say how well it is confined, or, with stacks for
    /// threads, when it is there to show what commands cost by themselves.
    pub(crate) program: Option<ProgramPlan>,
}

/// One block of the arena.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct OverlayPlan {
    /// From the arena's start.
    pub(crate) at: usize,
    /// Its size.
    pub(crate) bytes: usize,
    /// What it shows.
    pub(crate) source: Source,
}

/// What a block shows.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum Source {
    /// A part of the inputs: the offset.
    Inputs(usize),
    /// A part of the outputs, or scratch: the offset.
    Outputs(usize),
    /// Memory of its own, present when touched.
    Stack,
}

/// A program in the arena's terms.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct ProgramPlan {
    /// For each slot, from the arena's start to each tensor.
    pub(crate) slots: Vec<Vec<usize>>,
    /// Which tensors are outputs.
    pub(crate) is_output: Vec<bool>,
    /// The values of the axes.
    pub(crate) axes: Vec<i64>,
    /// The bits of the values of the scalars (`f64`); text would lose NaN and infinity.
    pub(crate) scalar_bits: Vec<u64>,
    /// From the arena's start to each scratch buffer.
    pub(crate) scratch: Vec<usize>,
    /// What the loader does not run.
    pub(crate) deferred: Deferred,
    /// The launches: entry, blocks, chunk.
    pub(crate) launches: Vec<(usize, i64, i64)>,
}

/// What a runner says of itself before the candidate is loaded.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Hello {
    /// The arena's first address.
    pub(crate) arena_start: u64,
    /// Why there is no filter on system calls, if there is none.
    pub(crate) no_seccomp: Option<String>,
    /// Why the file system is open to it, if it is.
    pub(crate) no_landlock: Option<String>,
    /// Why its resources are not limited, if they are not.
    pub(crate) no_rlimits: Option<String>,
    /// Which privileges it could not give up, if any.
    pub(crate) privileged: Option<String>,
}
