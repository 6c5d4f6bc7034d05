//! Why warps wait, in the profiler's terms and in words.

use serde::{Deserialize, Serialize};

/// Why a warp did not issue an instruction in a cycle; the last two are no waiting at all.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Stall {
    /// For data from global or local memory.
    LongScoreboard,
    /// For data from shared memory, or a result of the special-function unit.
    ShortScoreboard,
    /// For room in the queue of global and local memory.
    LgThrottle,
    /// For room in the queue of shared memory and special functions.
    MioThrottle,
    /// For room in the queue of textures.
    TexThrottle,
    /// For stores to leave before the warp ends.
    Drain,
    /// For the other warps of the block.
    Barrier,
    /// For a memory fence.
    Membar,
    /// Asleep by its own wish.
    Sleeping,
    /// For the matrix units of the warp group.
    Gmma,
    /// For a busy arithmetic pipe.
    MathPipeThrottle,
    /// For the fixed latency of the instruction before.
    Wait,
    /// For the dispatcher.
    DispatchStall,
    /// For instructions to arrive.
    NoInstruction,
    /// For constants to arrive.
    ImcMiss,
    /// For a branch to be resolved.
    BranchResolving,
    /// For anything else.
    Misc,
    /// Ready, but another warp was chosen.
    NotSelected,
    /// Issued an instruction.
    Selected,
}

/// What kinds of waiting have in common.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum StallGroup {
    /// For global memory.
    Memory,
    /// For shared memory.
    Shared,
    /// For other warps.
    Synchronisation,
    /// For the matrix units.
    Tensor,
    /// For arithmetic.
    Arithmetic,
    /// For instructions and constants.
    Instructions,
    /// None: the warp issued, or could have.
    Busy,
}

impl Stall {
    /// Every reason.
    pub const ALL: [Self; 19] = [
        Self::LongScoreboard,
        Self::ShortScoreboard,
        Self::LgThrottle,
        Self::MioThrottle,
        Self::TexThrottle,
        Self::Drain,
        Self::Barrier,
        Self::Membar,
        Self::Sleeping,
        Self::Gmma,
        Self::MathPipeThrottle,
        Self::Wait,
        Self::DispatchStall,
        Self::NoInstruction,
        Self::ImcMiss,
        Self::BranchResolving,
        Self::Misc,
        Self::NotSelected,
        Self::Selected,
    ];

    /// Returns the name in the profiler's metrics.
    pub fn name(self) -> &'static str {
        match self {
            Self::LongScoreboard => "long_scoreboard",
            Self::ShortScoreboard => "short_scoreboard",
            Self::LgThrottle => "lg_throttle",
            Self::MioThrottle => "mio_throttle",
            Self::TexThrottle => "tex_throttle",
            Self::Drain => "drain",
            Self::Barrier => "barrier",
            Self::Membar => "membar",
            Self::Sleeping => "sleeping",
            Self::Gmma => "gmma",
            Self::MathPipeThrottle => "math_pipe_throttle",
            Self::Wait => "wait",
            Self::DispatchStall => "dispatch_stall",
            Self::NoInstruction => "no_instruction",
            Self::ImcMiss => "imc_miss",
            Self::BranchResolving => "branch_resolving",
            Self::Misc => "misc",
            Self::NotSelected => "not_selected",
            Self::Selected => "selected",
        }
    }

    /// Says what the warp waits for.
    pub fn words(self) -> &'static str {
        match self {
            Self::LongScoreboard => "data from global or local memory",
            Self::ShortScoreboard => "data from shared memory or special functions",
            Self::LgThrottle => "room in the queue of global memory",
            Self::MioThrottle => "room in the queue of shared memory",
            Self::TexThrottle => "room in the queue of textures",
            Self::Drain => "stores to leave",
            Self::Barrier => "other warps at a barrier",
            Self::Membar => "a memory fence",
            Self::Sleeping => "asleep",
            Self::Gmma => "the matrix units",
            Self::MathPipeThrottle => "a busy arithmetic pipe",
            Self::Wait => "the fixed latency of an instruction",
            Self::DispatchStall => "the dispatcher",
            Self::NoInstruction => "instructions to arrive",
            Self::ImcMiss => "constants to arrive",
            Self::BranchResolving => "a branch",
            Self::Misc => "something else",
            Self::NotSelected => "nothing (another warp was chosen)",
            Self::Selected => "nothing (an instruction was issued)",
        }
    }

    /// Returns what the reason has in common with others.
    pub fn group(self) -> StallGroup {
        match self {
            Self::LongScoreboard | Self::LgThrottle | Self::TexThrottle | Self::Drain => {
                StallGroup::Memory
            }
            Self::ShortScoreboard | Self::MioThrottle => StallGroup::Shared,
            Self::Barrier | Self::Membar | Self::Sleeping => StallGroup::Synchronisation,
            Self::Gmma => StallGroup::Tensor,
            Self::MathPipeThrottle | Self::Wait | Self::DispatchStall | Self::Misc => {
                StallGroup::Arithmetic
            }
            Self::NoInstruction | Self::ImcMiss | Self::BranchResolving => StallGroup::Instructions,
            Self::NotSelected | Self::Selected => StallGroup::Busy,
        }
    }

    /// Says what may help against it.
    pub fn advice(self) -> Option<&'static str> {
        Some(match self {
            Self::LongScoreboard => {
                "start loads earlier: more stages of asynchronous copies (cp.async, TMA), or more \
                 warps per multiprocessor to hide their latency"
            }
            Self::LgThrottle => "load wider (16 bytes a thread) so that fewer requests are queued",
            Self::TexThrottle => "use fewer texture or surface accesses",
            Self::Drain => "store through shared memory with TMA, or spread the stores out",
            Self::ShortScoreboard => {
                "keep more in registers, load fragments with ldmatrix, and look for bank conflicts"
            }
            Self::MioThrottle => {
                "issue fewer and wider shared-memory instructions; move special functions (exp) \
                 away from each other"
            }
            Self::Barrier => {
                "replace block-wide barriers by mbarriers or named barriers between producer and \
                 consumer warps, or make the work of the warps even"
            }
            Self::Membar => "use fewer or narrower memory fences",
            Self::Sleeping => "wait on a barrier instead of sleeping",
            Self::Gmma => {
                "keep more than one group of matrix instructions in flight (wait for all but the \
                 last), or let a second consumer warp group compute meanwhile"
            }
            Self::MathPipeThrottle => {
                "the arithmetic pipe is the limit: use the matrix units, or cheaper instructions"
            }
            Self::Wait => "unroll, so that independent instructions stand between dependent ones",
            Self::NoInstruction => {
                "make the inner loop smaller: it does not fit the instruction cache"
            }
            Self::ImcMiss => "pass constants as macros or keep them in registers",
            Self::BranchResolving => "remove branches from the inner loop",
            Self::DispatchStall | Self::Misc | Self::NotSelected | Self::Selected => return None,
        })
    }
}
