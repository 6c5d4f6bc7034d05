//! The two seams of this crate: a [`Target`] compiles programs and opens [`Session`]s; a session
//! launches a program on prepared cases, under the clock, and shows what it wrote.
//!
//! Running and timing are one act: every launch is timed and every output can be looked at, so
//! there is nothing that a candidate could tell apart. The gate, the clock and the comparison are
//! written once, against sessions, for CPU candidates, Python baselines and test fakes alike.

use std::ffi::OsString;
use std::path::PathBuf;
use std::process::ExitStatus;
use std::sync::Arc;
use std::time::Duration;

use warpsmith_model::lab::{Role, ScalarType};
use warpsmith_model::{BlobId, CrashCause, DType, DeviceInfo, DeviceState};

pub use crate::poison::Poison;

/// The bytes of some input tensors, shared between whoever made them and the target that keeps them.
pub type Contents = Arc<Vec<Vec<u8>>>;

/// A device that compiles and runs kernels.
pub trait Target {
    /// Describes the device.
    fn info(&self) -> &DeviceInfo;

    /// Compiles a unit, or finds it in the artifact cache by the hash of everything that went in.
    fn compile(&mut self, unit: &Unit) -> Result<Artifact, Fault>;

    /// Makes input contents resident, once, for any number of sessions. `contents` holds the bytes
    /// of the input tensors, in the order of `tensors` (outputs skipped).
    fn stage(&mut self, tensors: &[TensorPlan], contents: &Contents) -> Result<CaseId, Fault>;

    /// Compares the inputs of a staged case with what was staged; returns the index (into the
    /// `tensors` given to [`Target::stage`]) of one whose contents changed.
    fn changed_input(&self, case: CaseId) -> Option<usize>;

    /// Forgets a staged case and frees its memory.
    fn unstage(&mut self, case: CaseId);

    /// Returns the share of its best speed that the device has at this moment, while no session
    /// runs; none where the device cannot tell.
    fn speed(&mut self) -> Option<f64> {
        None
    }

    /// Times a copy of this many bytes within the device's memory, as launches are timed; none where the
    /// target has no clock that another process could disagree with.
    fn time_copy(&mut self, _bytes: usize) -> Result<Option<f64>, Fault> {
        Ok(None)
    }

    /// Runs programs once each, one after the other, in a process that is started by `watcher` (a
    /// program with its arguments, such as a profiler) and belongs to it.
    fn watch(
        &mut self,
        _watcher: &[OsString],
        _runs: &[(&Program, CaseId)],
        _deadline: Duration,
    ) -> Result<Watched, Fault> {
        Err(Fault::Unavailable("this target cannot be watched by another program".to_string()))
    }

    /// Describes the sanitizers that kernels for this target run under in the full gate; none where there
    /// is nothing that they could see. An error where they belong to the gate and are missing.
    fn sanitizers(&self) -> Result<Option<Sanitizers>, Fault> {
        Ok(None)
    }

    /// Says what in a program's machine code a person should know before trusting what a gate found; nothing where
    /// the target cannot read machine code.
    fn remarks(&self, _artifact: &Artifact) -> Vec<String> {
        Vec::new()
    }

    /// Runs programs under a sanitizer, in this order. Neighbours that are the same program on the same case are
    /// launches of one loaded program.
    fn sanitize(
        &mut self,
        tool: Sanitizer,
        _runs: &[(&Program, CaseId)],
        _deadline: Duration,
    ) -> Result<Sanitized, Fault> {
        Err(Fault::Unavailable(format!("this target has no {}", tool.name())))
    }

    /// Starts a fresh process (or context) that has the program loaded and sees these cases.
    /// Outputs are poisoned (with NaN) before every launch. The session can launch each case any number of times,
    /// but callers that time launch each case once per session, so that no answer can be cached.
    fn open(
        &mut self,
        program: &Program,
        cases: &[CaseId],
        deadline: Duration,
    ) -> Result<Box<dyn Session>, Fault>;

    /// Opens a session as [`Target::open`] does, where nobody else has been. A target that starts a fresh
    /// process for every session has nothing to do.
    fn open_in(
        &mut self,
        _surroundings: Surroundings,
        program: &Program,
        cases: &[CaseId],
        deadline: Duration,
    ) -> Result<Box<dyn Session>, Fault> {
        self.open(program, cases, deadline)
    }

    /// Opens a session as [`Target::open_in`] does that launches no more than so many cases together. A target
    /// whose sessions share memory for their outputs needs less of it, and less has to be overwritten between
    /// them.
    fn open_few(
        &mut self,
        surroundings: Surroundings,
        program: &Program,
        cases: &[CaseId],
        _together: usize,
        deadline: Duration,
    ) -> Result<Box<dyn Session>, Fault> {
        self.open_in(surroundings, program, cases, deadline)
    }
}

/// Who was in the process that a session is opened in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Surroundings {
    /// Whoever ran before, and may have left something: good enough to choose by, never for the record.
    Shared,
    /// Nobody.
    Fresh,
    /// Those of the last session that was opened in fresh or kept surroundings, and who opens it is the same; where
    /// every session has a process of its own, one whose heap is as if somebody had used it.
    Kept,
}

/// A loaded program with its cases. Dropping it ends its process.
pub trait Session {
    /// Launches the program on these cases (indices into the list given to [`Target::open`]), back
    /// to back under one reading of the clock, then freezes the process, so that an output that
    /// becomes right after the clock stopped is not seen. Fails when the deadline passes.
    fn launch(&mut self, cases: &[usize], extent: &Extent) -> Result<Clocked, Fault>;

    /// Launches on these cases as [`Session::launch`] does, but stops the process somewhere in the middle, after about
    /// so many launches, without a word to the program before. Returns how many are over, from the first one on;
    /// the others must not be looked at. Call [`Session::end_reading`] before the next launch of anybody.
    ///
    /// Where no program can find out how many launches a reading has, it launches no more than those.
    fn launch_until(
        &mut self,
        cases: &[usize],
        launches: usize,
    ) -> Result<(Clocked, usize), Fault> {
        let clocked = self.launch(&cases[..launches], &Extent::All)?;
        Ok((clocked, launches))
    }

    /// Says whether [`Session::launch_until`] uses all of the cases that it is given.
    fn cuts_readings(&self) -> bool {
        false
    }

    /// Lets launches that were cut off come to their end, without a clock.
    fn end_reading(&mut self) -> Result<(), Fault> {
        Ok(())
    }

    /// How many different cases can be launched together: as many as there are, unless it was opened for fewer.
    fn launches_together(&self) -> usize {
        usize::MAX
    }

    /// Makes the next reading of the clock on these cases start as every other does, whoever ran before:
    /// the caches are in the same state, and what outputs hold cannot be foreseen. A device that begins
    /// every reading with cold caches may have nothing to do.
    fn level(&mut self, _cases: &[usize]) {}

    /// Launches as [`Session::launch`] does, with caches as the same launches leave them; none where a
    /// target cannot tell cold from warm. Outputs are not looked at afterwards.
    fn launch_warm(&mut self, _cases: &[usize]) -> Result<Option<Clocked>, Fault> {
        Ok(None)
    }

    /// Times a copy as [`Target::time_copy`] does, by the session's own clock; none where the harness's
    /// clock is the only one.
    fn time_copy(&mut self, _bytes: usize) -> Result<Option<f64>, Fault> {
        Ok(None)
    }

    /// Says what a person should know of how the session computes; none where there is nothing.
    fn remark(&self) -> Option<&str> {
        None
    }

    /// Says what the next launch finds that a contract leaves open. A device whose launches have no chunks, and
    /// that fills scratch as it likes, has nothing to do.
    fn next_launch(&mut self, _conditions: Conditions) {}

    /// Returns the bytes of an output tensor (`tensor` indexes `Program::tensors`) as the last
    /// launch left them. Only until another session of the target launches: outputs may share memory.
    fn output(&self, case: usize, tensor: usize) -> &[u8];

    /// Checks the bytes around the outputs; returns the index of a tensor whose surroundings were
    /// overwritten.
    fn overwritten_guard(&self, case: usize) -> Option<usize>;

    /// Sees to it that the outputs of a case hold this poison when it is launched next.
    fn poison(&mut self, case: usize, poison: Poison);
}

/// What a launch finds that no kernel may rely on. Not for launches that are timed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Conditions {
    /// How its blocks are handed out.
    pub calls: Calls,
    /// Whether scratch holds what the launch before it left there, instead of noise.
    pub keeps_scratch: bool,
}

/// How many blocks one call of a kernel's function gets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Calls {
    /// As many as the contract says.
    #[default]
    Chunk,
    /// A few times as many, now more, now fewer, from the first to the last or the other way round; the number
    /// decides.
    Chunks(u16),
    /// All of them.
    Whole,
}

/// How a watched process ended.
#[derive(Debug)]
pub struct Watched {
    /// The watcher's status; none when it did not end in time.
    pub status: Option<ExitStatus>,
    /// How many programs ran to their ends, in the order in which they were given.
    pub n_run: usize,
    /// Why not everything ran, if it did not.
    pub fault: Option<Fault>,
}

/// The sanitizers of a target.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sanitizers {
    /// The program and its version, for the record.
    pub version: String,
    /// The tools, in the order in which they are to be run.
    pub tools: Vec<Sanitizer>,
    /// Flags that make the compiler keep line numbers, without which a report names none.
    pub line_flags: Vec<String>,
}

/// A tool that sees what no output shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sanitizer {
    /// Accesses beside what was allocated.
    Memcheck,
    /// Races in shared memory.
    Racecheck,
    /// Reads of memory that nobody wrote.
    Initcheck,
}

impl Sanitizer {
    /// All of them; accesses first, since the others rely on them.
    pub const ALL: [Self; 3] = [Self::Memcheck, Self::Racecheck, Self::Initcheck];

    /// Returns the name that the tool goes by.
    pub fn name(self) -> &'static str {
        match self {
            Self::Memcheck => "memcheck",
            Self::Racecheck => "racecheck",
            Self::Initcheck => "initcheck",
        }
    }
}

/// What a sanitizer says of programs.
#[derive(Clone, Debug, PartialEq)]
pub enum Sanitized {
    /// Nothing to object to.
    Clean,
    /// A program did what it may not do.
    Flagged(Flaw),
    /// It did not end in time.
    Unfinished {
        /// The limit.
        limit_s: f64,
    },
    /// It ended, and says that it may have missed something or be mistaken; in its own words.
    Doubtful(String),
}

/// What a sanitizer objects to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Flaw {
    /// What and where, in one line.
    pub message: String,
    /// The tool's own report.
    pub report: String,
}

/// One source to compile.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unit {
    /// The name that compiler messages use for the source (`30_register_tile.c`).
    pub file_name: String,
    /// The source text.
    pub source: String,
    /// The headers on the include path, by file name.
    pub headers: Vec<(String, String)>,
    /// The functions that launches call, in order, without repetition.
    pub entries: Vec<String>,
    /// The C types of the arguments after which `block_begin` and `block_end` follow.
    pub signature: Vec<Argument>,
    /// Macros.
    pub defines: Vec<(String, String)>,
    /// The compiler's name (`cc`, `gcc`, `clang`).
    pub compiler: String,
    /// Flags, in order.
    pub flags: Vec<String>,
    /// How long the compiler may take.
    pub deadline: Duration,
}

/// One argument of a kernel function; its index is into the session's list of the same kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Argument {
    /// A pointer to a tensor.
    Tensor(DType, Role),
    /// An axis, `int64_t`.
    Axis,
    /// A scalar of this type.
    Scalar(ScalarType),
    /// A pointer to a scratch buffer.
    Scratch,
}

/// A compiled unit.
#[derive(Clone, Debug, PartialEq)]
pub struct Artifact {
    /// The file to load.
    pub path: PathBuf,
    /// The hash of the file's bytes; checked again when it is loaded.
    pub binary: BlobId,
    /// The command that made it.
    pub command: Vec<String>,
    /// What the compiler said.
    pub log: String,
    /// Seconds that the compiler took.
    pub compile_s: f64,
    /// Whether it was in the cache already.
    pub cached: bool,
}

/// An artifact bound to one workload: all it takes to launch it.
#[derive(Clone, Debug, PartialEq)]
pub struct Program {
    /// What to load.
    pub artifact: Artifact,
    /// The tensors, in argument order.
    pub tensors: Vec<TensorPlan>,
    /// The values of the axes, in argument order.
    pub axes: Vec<i64>,
    /// The values of the scalars, in argument order.
    pub scalars: Vec<f64>,
    /// The sizes of the scratch buffers in bytes, in argument order.
    pub scratch: Vec<u64>,
    /// The launches, in order.
    pub launches: Vec<LaunchPlan>,
    /// What a CUDA program has beside this; its launches are these.
    pub grid: Option<GridProgram>,
    /// The matrix product that a library computes, instead of launches.
    pub gemm: Option<GemmPlan>,
}

/// C = A B (or A Bᵀ) on row-major matrices; A, B and C are indices of tensors.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GemmPlan {
    /// A, of shape M,K.
    pub a: usize,
    /// B, of shape K,N, or N,K where it is transposed.
    pub b: usize,
    /// C, of shape M,N.
    pub c: usize,
    /// Rows of C.
    pub m: u64,
    /// Columns of C.
    pub n: u64,
    /// The length of the sums.
    pub k: u64,
    /// Whether B is N,K.
    pub b_transposed: bool,
}

/// How a CUDA program is launched.
#[derive(Clone, Debug, PartialEq)]
pub struct GridProgram {
    /// The launches, in order.
    pub launches: Vec<GridLaunch>,
    /// Descriptors for the copy engine, in argument order.
    pub maps: Vec<TensorMapPlan>,
    /// The types of the scalars, in argument order.
    pub scalar_types: Vec<ScalarType>,
}

/// One CUDA launch with its extents known.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GridLaunch {
    /// The function.
    pub entry: String,
    /// Blocks, along x, y and z.
    pub grid: [u32; 3],
    /// Threads of a block.
    pub block: [u32; 3],
    /// Blocks of a cluster.
    pub cluster: [u32; 3],
    /// Bytes of dynamic shared memory.
    pub smem_bytes: u32,
}

/// A descriptor for the copy engine with its extents known, outermost first.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TensorMapPlan {
    /// Index of the tensor.
    pub tensor: usize,
    /// Its extents.
    pub extents: Vec<u64>,
    /// The extents of what is copied at a time.
    pub box_extents: Vec<u32>,
    /// The swizzle in bytes; 0 is none.
    pub swizzle: u32,
}

/// A tensor with its extents known.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TensorPlan {
    /// Its name, for messages.
    pub name: String,
    /// Its extents.
    pub shape: Vec<u64>,
    /// Its element type.
    pub dtype: DType,
    /// Whether it is read or written.
    pub role: Role,
}

impl TensorPlan {
    /// Returns the number of elements.
    pub fn elements(&self) -> usize {
        self.shape.iter().product::<u64>() as usize
    }

    /// Returns the size in bytes.
    pub fn bytes(&self) -> usize {
        self.elements() * self.dtype.size()
    }
}

/// One launch with its extents known.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LaunchPlan {
    /// Index into `Unit::entries`.
    pub entry: usize,
    /// How many blocks.
    pub blocks: i64,
    /// How many blocks a thread takes at a time, when it is timed.
    pub chunk: i64,
}

/// How much of a program to launch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Extent {
    /// Every launch, every block.
    All,
    /// The same, on the device's own cycle counter where it has one that others cannot reach.
    Counted,
    /// Every launch but the last in full and outside of the clock; of the last these blocks alone.
    Blocks(Vec<i64>),
}

/// Inputs that a target holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct CaseId(pub usize);

/// The clock's reading of one batch.
#[derive(Clone, Debug, PartialEq)]
pub struct Clocked {
    /// Seconds for the whole batch, by the harness's clock.
    pub elapsed_s: f64,
    /// Ticks of the cycle counter, by the harness; none where there is no counter.
    pub ticks: Option<u64>,
    /// Seconds of them that one of its threads waited for a processor which other programs had.
    pub waited_s: f64,
    /// How the device was right after it; none where it does not say.
    pub state: Option<DeviceState>,
}

/// Why a target could not do what was asked.
#[derive(Debug, thiserror::Error)]
pub enum Fault {
    /// The candidate does not compile.
    #[error("does not compile: {message}")]
    Compile {
        /// The first error, in one line.
        message: String,
        /// Everything that the compiler said.
        log: String,
    },
    /// The candidate's process ended.
    #[error("crashed: {0}")]
    Crashed(CrashCause),
    /// The candidate did not finish in time.
    #[error("did not finish within {limit_s} s")]
    TimedOut {
        /// The limit.
        limit_s: f64,
    },
    /// Something that this machine lacks, with what to do about it.
    #[error("{0}")]
    Unavailable(String),
    /// We broke.
    #[error("{what}")]
    Broken {
        /// What we were doing.
        what: String,
        /// What went wrong.
        #[source]
        source: std::io::Error,
    },
}
