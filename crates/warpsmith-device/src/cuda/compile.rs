//! Turns a CUDA [`Unit`] into an [`Artifact`]: machine code for one architecture.

use std::io::{Read, Write};
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use warpsmith_model::{BlobId, CrashCause, Hasher};

use super::nvrtc::{COMPILE_ARGUMENT, CompileJob, CompileReport};
use super::toolkit::{self, Toolkit};
use super::{identity, nvcc};
use crate::cpu::artifacts;
use crate::target::{Artifact, Fault, Unit};

/// The name that units for this compiler carry.
pub const COMPILER: &str = "nvrtc";

/// What the compiler makes.
const BINARY_FILE: &str = "kernel.cubin";

/// Options before the unit's own: the language, and the resource report in the log.
const BASE_OPTIONS: [&str; 2] = ["-std=c++17", "--ptxas-options=-v"];

/// Returns the words for the run-time compiler of this machine: its version and its content.
pub(super) fn describe(parts_dir: &Path) -> Result<String, Fault> {
    let toolkit = toolkit::find(parts_dir)?;
    let version = identity::nvrtc_version(&toolkit)?.to_string();
    Ok(identity::words(&version, &identity::nvrtc_content(&toolkit)?))
}

/// Compiles a unit, or finds it in the cache. The process that compiles is `executable`, or this one's
/// own.
pub fn compile_unit(
    cache_dir: &Path,
    executable: Option<&Path>,
    unit: &Unit,
) -> Result<Artifact, Fault> {
    if unit.compiler == nvcc::NVCC {
        return nvcc::compile_unit(cache_dir, unit);
    }
    let parts_dir = cache_dir.parent().unwrap_or(cache_dir);
    let toolkit = toolkit::find(parts_dir)?;
    let options = options(unit, &toolkit);
    let key = key(unit, &identity::nvrtc_content(&toolkit)?, &options);
    artifacts::find_or_build(cache_dir, &key, unit.deadline, || {
        let folder = artifacts::WorkFolder::create(&artifacts::build_dir(cache_dir))
            .map_err(artifacts::building_in(cache_dir))?;
        let real = |path: &Path| path.canonicalize().unwrap_or_else(|_| path.to_path_buf());
        let library_dir = toolkit.nvrtc.parent().unwrap_or(Path::new("/"));
        let job = CompileJob {
            readable: vec![real(&toolkit.root), real(&toolkit.include), real(library_dir)],
            library: toolkit.nvrtc,
            file_name: unit.file_name.clone(),
            source: unit.source.clone(),
            headers: unit.headers.clone(),
            options: options.clone(),
            output: folder.path().join(BINARY_FILE),
            cpu_limit_s: unit.deadline.as_secs() + 2,
        };
        let started = Instant::now();
        let report = match run(executable, &job, unit.deadline) {
            // Somebody else's doing, so it is tried once more.
            Err(Fault::Crashed(cause)) if cause.is_from_outside() => {
                run(executable, &job, unit.deadline)?
            }
            report => report?,
        };
        let compile_s = started.elapsed().as_secs_f64();
        if !report.succeeded {
            let message = first_error(&report.log);
            return Err(Fault::Compile { message, log: report.log });
        }
        check_entries(unit, &report.log)?;
        let command = std::iter::once(COMPILER.to_string()).chain(options).collect();
        let bytes = match artifacts::take(&job.output) {
            Ok(bytes) => bytes,
            Err(message) => return Err(Fault::Compile { message, log: report.log }),
        };
        artifacts::store(cache_dir, &key, &bytes, command, report.log, compile_s)
            .map_err(artifacts::building_in(cache_dir))
    })
}

/// Makes sure that the compiler's report has every kernel that is to be launched.
pub(super) fn check_entries(unit: &Unit, log: &str) -> Result<(), Fault> {
    let found = resources(log);
    for entry in &unit.entries {
        if !found.iter().any(|function| function.entry == *entry) {
            let message = format!(
                "{}: there is no kernel `{entry}` (is it `extern \"C\" __global__`?)",
                unit.file_name
            );
            return Err(Fault::Compile { message, log: log.to_string() });
        }
    }
    Ok(())
}

fn options(unit: &Unit, toolkit: &Toolkit) -> Vec<String> {
    let defines = unit.defines.iter().map(|(name, value)| format!("-D{name}={value}"));
    let include = format!("-I{}", toolkit.include.display());
    BASE_OPTIONS
        .iter()
        .map(|option| (*option).to_string())
        .chain([include])
        .chain(unit.flags.iter().cloned())
        .chain(defines)
        .collect()
}

fn key(unit: &Unit, compiler: &BlobId, options: &[String]) -> BlobId {
    let mut hasher = Hasher::new("cuda unit");
    hasher.part(compiler.to_string().as_bytes());
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

/// Runs the compile process with a deadline.
fn run(
    executable: Option<&Path>,
    job: &CompileJob,
    deadline: Duration,
) -> Result<CompileReport, Fault> {
    let broken = |source| Fault::Broken { what: "running the compile process".to_string(), source };
    let mut child = Command::new(executable.unwrap_or(Path::new("/proc/self/exe")))
        .arg(COMPILE_ARGUMENT)
        // The library loads a second one by name.
        .env("LD_LIBRARY_PATH", job.library.parent().unwrap_or(Path::new("")))
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .map_err(broken)?;
    let text = serde_json::to_vec(job).map_err(|error| broken(error.into()))?;
    let mut to = child.stdin.take().expect("standard input is piped");
    let mut from = child.stdout.take().expect("standard output is piped");
    // A process that dies early closes its side; the answer, or its absence, says more than that.
    let _ = to.write_all(&text);
    drop(to);
    let reader = std::thread::spawn(move || {
        let mut answer = Vec::new();
        let _ = from.read_to_end(&mut answer);
        answer
    });
    let started = Instant::now();
    let status = loop {
        if let Some(status) = child.try_wait().map_err(broken)? {
            break status;
        }
        if started.elapsed() > deadline {
            // It may have ended just now; both are well.
            let _ = child.kill();
            child.wait().map_err(broken)?;
            return Err(Fault::TimedOut { limit_s: deadline.as_secs_f64() });
        }
        std::thread::sleep(Duration::from_millis(2));
    };
    if status.signal() == Some(libc::SIGKILL) {
        return Err(Fault::Crashed(CrashCause::from_outside()));
    }
    let answer = reader.join().unwrap_or_default();
    serde_json::from_slice(&answer).map_err(|_| Fault::Compile {
        message: format!(
            "the compiler ended with {status}: it went beyond its limits on memory and processor \
             time, or crashed"
        ),
        log: String::new(),
    })
}

/// Returns the first error of a log, in one line.
pub(super) fn first_error(log: &str) -> String {
    let is_error = |line: &&str| line.contains("error");
    let line = log.lines().find(is_error).or_else(|| log.lines().find(|line| !line.is_empty()));
    line.unwrap_or("the compiler gave no reason").trim().to_string()
}

/// What one kernel function uses.
#[derive(Clone, Debug, Default, PartialEq, Eq, serde::Serialize)]
pub struct Resources {
    /// The function.
    pub entry: String,
    /// Registers of a thread.
    pub registers: u32,
    /// Bytes of registers that are spilled to memory and read back.
    pub spill_bytes: u32,
    /// Bytes of static shared memory.
    pub static_smem_bytes: u32,
    /// Bytes of stack.
    pub stack_bytes: u32,
}

/// What every message of the assembler's report begins with.
const REPORT: &str = "ptxas info";

/// Reads the assembler's resource report. A source can have the compiler print whatever it likes in a warning,
/// before the assembler has its say: only the report's own lines count, and of a function the last.
pub fn resources(log: &str) -> Vec<Resources> {
    let mut found: Vec<Resources> = Vec::new();
    for line in log.lines() {
        // What a message goes on with is indented, behind the assembler's name if NVRTC passes it on.
        if !line.starts_with("ptxas ") && !line.starts_with(' ') {
            continue;
        }
        let number_before = |what: &str| -> u32 {
            line.find(what)
                .and_then(|at| line[..at].trim_end().rsplit([' ', ',']).next())
                .and_then(|word| word.parse().ok())
                .unwrap_or(0)
        };
        let quoted = line.split('\'').nth(1);
        if line.contains("Compiling entry function")
            && line.starts_with(REPORT)
            && let Some(entry) = quoted
        {
            found.retain(|function| function.entry != entry);
            found.push(Resources { entry: entry.to_string(), ..Resources::default() });
        } else if let Some(last) = found.last_mut() {
            if line.contains("bytes stack frame") {
                last.stack_bytes = number_before("bytes stack frame");
                last.spill_bytes =
                    number_before("bytes spill stores") + number_before("bytes spill loads");
            }
            if line.starts_with(REPORT) && line.contains("registers") && line.contains("Used") {
                last.registers = number_before("registers");
                last.static_smem_bytes = number_before("bytes smem");
            }
        }
    }
    found
}

#[cfg(test)]
#[test]
fn resources_are_read_from_the_report() {
    let log = "ptxas info    : Compiling entry function 'attention_fwd' for 'sm_90a'\n\
               ptxas info    : Function properties for attention_fwd\n    \
               16 bytes stack frame, 8 bytes spill stores, 4 bytes spill loads\n\
               ptxas info    : Used 96 registers, used 1 barriers, 1024 bytes smem, 16 bytes \
               cumulative stack size";
    let expected = Resources {
        entry: "attention_fwd".to_string(),
        registers: 96,
        spill_bytes: 12,
        static_smem_bytes: 1024,
        stack_bytes: 16,
    };
    assert_eq!(resources(log), std::slice::from_ref(&expected));
    // What a source has the compiler say.
    let words = "rows.cu(1): warning #1105-D: #warning directive: Compiling entry function 'attention_fwd'\n\
                 rows.cu(2): warning #1105-D: #warning directive: Used 255 registers\n\
                 ptxas info    : Compiling entry function 'attention_fwd' for 'sm_90a'\n\
                 ptxas info    : Used 255 registers";
    assert_eq!(resources(&format!("{words}\n{log}")), [expected]);
}
