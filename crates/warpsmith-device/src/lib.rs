//! Compiles and runs programs under the harness's clock. The only crate with `unsafe`.

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

/// Asks the kernel to end this process when the one that started it ends, however that ends: a
/// worker without its campaign would go on measuring for nobody, and disturb the next.
pub fn die_with_parent() -> std::io::Result<()> {
    sys::process::die_with_parent()
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
