//! Drives the hardware: compiles programs, runs them in processes of their own, and reads the clock.
//!
//! What happens to a program:
//!
//! 1. [`compile_unit`] finds a unit in the artifact cache, by the hash of everything that goes into it, or runs
//!    its compiler in a confined process and keeps what that left.
//! 2. The target stages inputs, once for any number of programs.
//! 3. It opens a session: a process that has loaded the program and sees the inputs. The memory around outputs
//!    is guarded, and outputs hold [`poison`].
//! 4. The session launches under the harness's clock, freezes the process, and shows what lies in its outputs.
//! 5. Dropping the session ends the process, unless starting one takes longer than can be waited for: candidates
//!    that a GPU ranks share one, and so do the sessions of a Python that has imported a library.
//!
//! A crash, a hang or whatever else goes wrong is a fault, whoever is to blame.
//!
//! Three types matter, all of [`target`]: [`Target`](target::Target) and [`Session`](target::Session) are the
//! seam, [`Fault`](target::Fault) says why something could not be done. [`cpu`] implements the two with
//! processes that can do nothing but compute, [`cuda`] with a process that owns the GPU, [`baseline`] with a
//! Python interpreter that runs a library.
//!
//! ```no_run
//! use std::time::Duration;
//! use warpsmith_device::target::{Contents, Extent, Fault, Program, Target};
//!
//! fn time_once(
//!     target: &mut dyn Target,
//!     program: &Program,
//!     contents: &Contents,
//! ) -> Result<f64, Fault> {
//!     let case = target.stage(&program.tensors, contents)?;
//!     let mut session = target.open(program, &[case], Duration::from_secs(10))?;
//!     Ok(session.launch(&[0], &Extent::All)?.elapsed_s)
//! }
//! ```
//!
//! The only crate with `unsafe`. Deliberately absent: labs' answers, tolerances and verdicts. Nothing here
//! knows whether an output is right; that is the gate's crate.

pub mod baseline;
pub mod cpu;
pub mod cuda;
pub mod parallel;
mod sys;
pub mod target;
pub mod trace;
pub mod wide;

use std::hash::{BuildHasher, Hasher, RandomState};

pub use cpu::poison;

/// Compiles a unit for the target that its compiler is for, or finds it in the cache. Needs no target
/// and may be called by several threads and processes at once.
pub fn compile_unit(
    cache_dir: &std::path::Path,
    unit: &target::Unit,
) -> Result<target::Artifact, target::Fault> {
    if [cuda::COMPILER, cuda::NVCC].contains(&unit.compiler.as_str()) {
        cuda::compile_unit(cache_dir, None, unit)
    } else {
        cpu::compile_unit(cache_dir, unit)
    }
}

/// Has this process keep memory that it frees, for what it makes next: worth it for one that makes large buffers
/// over and over.
pub fn keep_freed_memory() {
    sys::memory::keep_freed();
}

/// Asks the kernel to end this process when the one that started it ends, however that ends: a
/// worker without its campaign would go on measuring for nobody, and disturb the next.
pub fn die_with_parent() -> std::io::Result<()> {
    sys::process::die_with_parent()
}

/// Lets a write beyond the limit on the sizes of files (`ulimit -f`) fail, as it does where a disk is full, instead
/// of ending this process.
pub fn survive_file_limit() {
    sys::process::survive_file_limit();
}

/// Returns the bytes of memory that programs could still get; none where the system does not say.
pub fn available_memory_bytes() -> Option<usize> {
    sys::memory::available_bytes()
}

/// Returns the processor time of this process and of its ended children, in seconds.
pub fn processor_s() -> f64 {
    sys::process::processor_s()
}

/// Returns a number from the system's randomness (the standard library seeds its hash tables with
/// it), for choices that no candidate may foresee.
pub fn system_seed() -> u64 {
    RandomState::new().build_hasher().finish()
}

/// Kills everything that this process started, and what that started: workers, candidates, compilers.
/// Whoever waits for one of them learns that it was killed.
pub fn kill_children() {
    sys::process::kill_descendants(std::process::id() as i32);
}
