//! Compiles units with `nvcc`, for contracts that ask for it: sources that include headers of the host's
//! C++ library, which the run-time compiler does not have.
//!
//! `nvcc` starts a dozen programs, the host's compiler among them. All of them run as a C compiler does:
//! in a folder where alone they may write, reading the toolkit and the system's programs and nothing of
//! the user's, with limits on memory, processor time and files, and ended together at the deadline.

use std::path::Path;
use std::time::Instant;

use warpsmith_model::{BlobId, CrashCause, Hasher};

use super::{identity, toolkit};
use crate::cpu::{artifacts, toolchain, write_below};
use crate::target::{Artifact, Fault, Unit};

/// The name that units for this compiler carry.
pub const NVCC: &str = "nvcc";

/// What it makes.
const BINARY_FILE: &str = "kernel.cubin";

/// The folder of the headers.
const INCLUDE_DIR: &str = "include";

/// Options before the unit's own: machine code alone, the language, the resource report in the log.
const BASE_OPTIONS: [&str; 4] = ["-cubin", "-std=c++17", "-Xptxas=-v", "-Iinclude"];

/// The host's compilers that it can work with, in the order in which they are looked for.
const HOST_COMPILERS: [&str; 2] = ["g++", "clang++"];

/// Returns the words for the `nvcc` of this machine: its version and its content.
pub(super) fn describe(parts_dir: &Path) -> Result<String, Fault> {
    let program = toolkit::find_nvcc(parts_dir)?;
    let broken = |source| Fault::Broken { what: format!("running {}", program.display()), source };
    let output = toolchain::ask_version(&program).map_err(broken)?;
    let version = version_in(&output.log).ok_or_else(|| {
        Fault::Unavailable(format!(
            "`{} --version` does not say a version: {}",
            program.display(),
            output.log.trim()
        ))
    })?;
    Ok(identity::words(&version, &identity::nvcc_content(&program)?))
}

/// Reads `Cuda compilation tools, release 13.0, V13.0.88`.
fn version_in(words: &str) -> Option<String> {
    let line = words.lines().find(|line| line.contains(", release "))?;
    let version = line.rsplit(", V").next()?.trim();
    version.starts_with(|letter: char| letter.is_ascii_digit()).then(|| version.to_string())
}

/// Compiles a unit, or finds it in the cache.
pub(super) fn compile_unit(cache_dir: &Path, unit: &Unit) -> Result<Artifact, Fault> {
    let parts_dir = cache_dir.parent().unwrap_or(cache_dir);
    let program = toolkit::find_nvcc(parts_dir)?;
    let host = host_compiler()?;
    let options = options(unit, &host.path);
    let key = key(unit, &identity::nvcc_content(&program)?, &host, &options);
    artifacts::find_or_build(cache_dir, &key, unit.deadline, || {
        let folder = artifacts::WorkFolder::create(&artifacts::build_dir(cache_dir))
            .map_err(artifacts::building_in(cache_dir))?;
        let include = folder.path().join(INCLUDE_DIR);
        std::fs::create_dir(&include).map_err(artifacts::building_in(cache_dir))?;
        for (name, text) in &unit.headers {
            write_below(&include, name, text).map_err(artifacts::building_in(cache_dir))?;
        }
        write_below(folder.path(), &unit.file_name, &unit.source)
            .map_err(artifacts::building_in(cache_dir))?;
        let started = Instant::now();
        let output = toolchain::run(&program, &options, folder.path(), None, unit.deadline)
            .map_err(|source| toolchain::start_fault(&program, &options, source))?;
        let compile_s = started.elapsed().as_secs_f64();
        match output.end {
            toolchain::End::Exited(0) => {}
            toolchain::End::TimedOut(deadline) => {
                return Err(Fault::TimedOut { limit_s: deadline.as_secs_f64() });
            }
            toolchain::End::Exited(_) => {
                let message = super::compile::first_error(&output.log);
                return Err(Fault::Compile { message, log: output.log });
            }
            end if end.is_foreign() => {
                return Err(Fault::Crashed(CrashCause::from_outside()));
            }
            end @ (toolchain::End::Killed(_) | toolchain::End::TookMemory(_)) => {
                return Err(Fault::Compile { message: end.in_words(), log: output.log });
            }
        }
        super::compile::check_entries(unit, &output.log)?;
        let bytes = match artifacts::take(&folder.path().join(BINARY_FILE)) {
            Ok(bytes) => bytes,
            Err(message) => return Err(Fault::Compile { message, log: output.log }),
        };
        let command = std::iter::once(NVCC.to_string()).chain(options).collect();
        artifacts::store(cache_dir, &key, &bytes, command, output.log, compile_s)
            .map_err(artifacts::building_in(cache_dir))
    })
}

fn host_compiler() -> Result<toolchain::Tool, Fault> {
    HOST_COMPILERS.iter().find_map(|name| toolchain::find(name).ok()).ok_or_else(|| {
        Fault::Unavailable(format!(
            "nvcc needs a C++ compiler of the host, and none of {} works here; install one (on Debian: \
             apt-get install g++)",
            HOST_COMPILERS.join(", ")
        ))
    })
}

fn options(unit: &Unit, host: &Path) -> Vec<String> {
    let defines = unit.defines.iter().map(|(name, value)| format!("-D{name}={value}"));
    let last = [format!("-ccbin={}", host.display()), "-o".to_string(), BINARY_FILE.to_string()];
    BASE_OPTIONS
        .iter()
        .map(|option| (*option).to_string())
        .chain(unit.flags.iter().cloned())
        .chain(defines)
        .chain(last)
        .chain([unit.file_name.clone()])
        .collect()
}

fn key(unit: &Unit, nvcc: &BlobId, host: &toolchain::Tool, options: &[String]) -> BlobId {
    let mut hasher = Hasher::new("nvcc unit");
    hasher.part(nvcc.to_string().as_bytes()).part(host.version.as_bytes());
    hasher.part(unit.file_name.as_bytes()).part(unit.source.as_bytes());
    hasher.part(&(options.len() as u64).to_le_bytes());
    for option in options {
        hasher.part(option.as_bytes());
    }
    for (name, text) in &unit.headers {
        hasher.part(name.as_bytes()).part(text.as_bytes());
    }
    hasher.into()
}

#[cfg(test)]
#[test]
fn the_version_is_found_in_its_words() {
    let words = "nvcc: NVIDIA (R) Cuda compiler driver\nCopyright (c) 2005-2025 NVIDIA Corporation\n\
                 Cuda compilation tools, release 13.0, V13.0.88\nBuild cuda_13.0.r13.0/compiler.1_0\n";
    assert_eq!(version_in(words).as_deref(), Some("13.0.88"));
    assert_eq!(version_in("nvcc fatal: no"), None);
}
