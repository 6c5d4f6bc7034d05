//! What the worker asks of the device process, and what it answers. Bytes follow where a message says
//! so. Both ends are the same binary.

use std::io::{self, Read};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};
use warpsmith_model::{ClockLimit, CudaInfo, DType, DeviceState};

use crate::poison::Poison;

/// A question or an order.
#[derive(Debug, Serialize, Deserialize)]
pub(super) enum Ask {
    /// What device there is.
    Describe,
    /// From now on give kernels memory as one who watches them needs it. Comes before anything is staged.
    Watched { floor: Floor },
    /// Take in the inputs of a case; their bytes follow, one after the other.
    Stage { case: usize, sizes: Vec<usize> },
    /// The same, from memory whose descriptor follows.
    StageShared { case: usize, sizes: Vec<usize> },
    /// Forget a case.
    Unstage { case: usize },
    /// Load a module, or a library, and prepare a session; the module's bytes follow.
    Open { session: u64, plan: Box<SessionPlan> },
    /// Run these slots, one after the other, under one reading of the clock, with caches as stated. Their outputs
    /// hold this poison before, where one is asked for.
    Launch { session: u64, slots: Vec<usize>, poisons: Vec<Option<Poison>>, clock: Clock },
    /// Run a slot without a graph and a clock, for whoever watches: a profiler or a sanitizer. The first one is given
    /// memory for all slots of the session, and the module stays loaded.
    Watch { session: u64, slot: usize },
    /// Time a copy of this many bytes within the device's memory.
    Copy { bytes: usize },
    /// What holds the device's clocks back at this moment.
    Limits,
    /// Share memory of this size, whose descriptor follows, for the outputs that are fetched.
    Share { window: u64, bytes: usize },
    /// Forget shared memory.
    Unshare { window: u64 },
    /// Put the outputs of a slot into shared memory, one after the other, as the last launch left them.
    Fetch { session: u64, slot: usize, window: u64, offset: usize },
    /// End a session.
    Close { session: u64 },
}

/// What the memory of a kernel that is watched looks like. Its addresses are as far apart as anywhere else.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum Floor {
    /// As in the gate: content between guards.
    Guarded,
    /// The same, but outputs and scratch are untouched: poison would hide that they are read.
    Untouched,
    /// Every tensor is an allocation of its own: guards would hide that a kernel goes beyond it.
    Separate,
}

/// Something that a launch altered and should not have.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum Spoilt {
    /// An input, or the guard beside it: the slot, and which of the inputs.
    Input { slot: usize, input: usize },
    /// The guard beside an output: the slot, and which of the outputs.
    BesideOutput { slot: usize, output: usize },
    /// The guard beside a scratch buffer.
    BesideScratch { scratch: usize },
}

/// Which clock is read, and what the caches hold when it starts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum Clock {
    /// Events; nothing of the inputs is in the caches.
    Cold,
    /// Events; the caches hold what the same launches left there.
    Warm,
    /// The multiprocessors' cycle counters; nothing of the inputs is in the caches.
    Cycles,
}

/// Everything that a session needs.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct SessionPlan {
    /// The module's size.
    pub(super) module_bytes: usize,
    /// The staged case of each slot.
    pub(super) cases: Vec<usize>,
    /// The tensors, in argument order.
    pub(super) tensors: Vec<TensorWire>,
    pub(super) axes: Vec<i64>,
    pub(super) scalars: Vec<ScalarWire>,
    pub(super) scratch: Vec<u64>,
    pub(super) launches: Vec<LaunchWire>,
    pub(super) maps: Vec<MapWire>,
    /// A product to compute by cuBLASLt, instead of launches of a module.
    pub(super) gemm: Option<GemmWire>,
}

/// C = A B on row-major matrices; the tensors by their places.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct GemmWire {
    /// The library's file.
    pub(super) library: PathBuf,
    pub(super) a: usize,
    pub(super) b: usize,
    pub(super) c: usize,
    pub(super) m: u64,
    pub(super) n: u64,
    pub(super) k: u64,
    /// Whether B is N,K.
    pub(super) b_transposed: bool,
    /// The type of A and B.
    pub(super) dtype: DType,
    pub(super) c_dtype: DType,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct TensorWire {
    pub(super) bytes: usize,
    pub(super) dtype: DType,
    pub(super) is_output: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub(super) enum ScalarWire {
    Single(f32),
    Double(u64),
    Long(i64),
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct LaunchWire {
    pub(super) entry: String,
    pub(super) grid: [u32; 3],
    pub(super) block: [u32; 3],
    pub(super) cluster: [u32; 3],
    pub(super) smem: u32,
}

/// A tensor map, innermost extent first.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct MapWire {
    pub(super) tensor: usize,
    pub(super) extents: Vec<u64>,
    pub(super) box_extents: Vec<u32>,
    pub(super) swizzle: u32,
}

/// An answer.
#[derive(Debug, Serialize, Deserialize)]
pub(super) enum Reply {
    Done,
    Device {
        name: String,
        l2_bytes: u64,
        ticks_per_s: f64,
        info: CudaInfo,
        /// Whether inputs are mapped for reading alone while a kernel runs.
        seals_inputs: bool,
    },
    /// A session is ready; the remark is for people.
    Opened {
        remark: Option<String>,
    },
    Clocked {
        seconds: f64,
        /// How the device was right after it; none where it cannot be asked.
        state: Option<DeviceState>,
        spoilt: Vec<Spoilt>,
    },
    /// Cycles, where a multiprocessor has counted them.
    Counted {
        ticks: Option<u64>,
        state: Option<DeviceState>,
        spoilt: Vec<Spoilt>,
    },
    /// None where the device cannot be asked.
    Limits(Option<Vec<ClockLimit>>),
    Failed(ServerFailure),
}

/// Why something could not be done.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct ServerFailure {
    pub(super) kind: FailureKind,
    pub(super) message: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum FailureKind {
    /// The driver refused the module or the launch; the context lives on.
    Refused,
    /// The kernel faulted; the context is lost, and this process with it.
    Faulted,
    /// The device has too little memory left.
    OutOfMemory,
    /// There is no driver or no device.
    NoDevice,
    /// A library that the session needs cannot be used; nothing else is affected.
    NoLibrary,
    /// Anything else.
    Broken,
}

/// Receives raw bytes.
pub(super) fn receive_bytes(socket: &mut UnixStream, bytes: usize) -> io::Result<Vec<u8>> {
    let mut content = vec![0; bytes];
    socket.read_exact(&mut content)?;
    Ok(content)
}
