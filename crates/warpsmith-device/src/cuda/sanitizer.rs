//! NVIDIA's compute-sanitizer: finds it, runs kernels under it, and reads what it says.
//!
//! A sanitizer sees what no output shows: an access beside a buffer, a race that was lucky so far, a
//! read of memory that nobody wrote. Each of its tools runs a device process of its own. Memory there is
//! laid out as in the gate, so that a kernel cannot tell that it is watched; but for memcheck every tensor
//! is an allocation of its own, and for initcheck outputs and scratch are untouched, since guards and poison
//! would hide exactly what these look for.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use warpsmith_model::{CrashCause, CudaInfo};

use super::wire::Floor;
use super::{Cuda, broken, controls, limits, resources, toolkit};
use crate::cpu::artifacts;
use crate::target::{
    CaseId, Fault, Flaw, Program, Sanitized, Sanitizer, Sanitizers, Target, Watched,
};

/// The program.
const PROGRAM: &str = "compute-sanitizer";

/// How the program ends when it found something, so that nothing else is taken for it.
const FOUND_STATUS: i32 = 77;

/// The first version, by its year, that does not lose track of barriers that are in order.
const FIRST_TO_FOLLOW: u32 = 2026;

/// What makes the compiler say which line an instruction comes from.
const LINE_FLAG: &str = "-lineinfo";

/// How long a tool may take for the kernel that it is held against.
const CONTROL_DEADLINE: Duration = Duration::from_secs(120);

/// Finds the program: in the folder that `warpsmith setup cuda` fills (below `parts_dir`), since older
/// versions take the barriers of asynchronous copies for races; then where toolkits are, then on `PATH`.
pub fn find(parts_dir: &Path) -> Result<PathBuf, Fault> {
    let roots = toolkit::setup_roots(parts_dir).into_iter().chain(toolkit::roots(parts_dir));
    let in_toolkits =
        roots.flat_map(|root| ["bin", PROGRAM].map(|folder| root.join(folder).join(PROGRAM)));
    let path = std::env::var_os("PATH").unwrap_or_default();
    let on_path = std::env::split_paths(&path).map(|folder| folder.join(PROGRAM));
    in_toolkits.chain(on_path).find(|program| program.is_file()).ok_or_else(|| {
        Fault::Unavailable(format!(
            "the full gate on CUDA runs kernels under {PROGRAM}, which was not found; `warpsmith setup \
             cuda` provides it, or set CUDA_HOME, or leave that part of the gate out with \
             --no-sanitizer, which the evidence records"
        ))
    })
}

/// Describes the sanitizers of this machine.
pub(super) fn describe(parts_dir: &Path) -> Result<Sanitizers, Fault> {
    let program = find(parts_dir)?;
    let version = version(&program)?.ok_or_else(|| {
        Fault::Unavailable(format!(
            "`{} --version` does not say a version; `warpsmith setup cuda` provides a working one",
            program.display()
        ))
    })?;
    Ok(Sanitizers {
        version: format!("{PROGRAM} {version}"),
        tools: Sanitizer::ALL.to_vec(),
        line_flags: vec![LINE_FLAG.to_string()],
    })
}

/// Asks the program for its version; none where it does not say one.
fn version(program: &Path) -> Result<Option<String>, Fault> {
    let output = Command::new(program)
        .arg("--version")
        .stdin(Stdio::null())
        .output()
        .map_err(broken("asking the sanitizer for its version"))?;
    Ok(version_in(&String::from_utf8_lossy(&output.stdout)))
}

/// Says whether a version follows every barrier that kernels have: from CUDA 13.4 on, whose tools count
/// by years.
fn follows_barriers(version: String) -> bool {
    let year = version.split('.').next().and_then(|year| year.parse::<u32>().ok());
    year.is_some_and(|year| year >= FIRST_TO_FOLLOW)
}

fn version_in(text: &str) -> Option<String> {
    let line = text.lines().find_map(|line| line.trim().strip_prefix("Version "))?;
    line.split_whitespace().next().map(str::to_string)
}

/// Runs programs under one tool and says what it saw. A kernel that the tool cannot follow, or that does not
/// run under it, is tried once more; if a harmless kernel then runs, it is the kernel's doing.
pub(super) fn check(
    cuda: &mut Cuda,
    tool: Sanitizer,
    runs: &[(&Program, CaseId)],
    deadline: Duration,
) -> Result<Sanitized, Fault> {
    make_sure_it_sees(cuda, tool)?;
    match watched(cuda, tool, runs, deadline)? {
        Seen::Told(told) => return Ok(told),
        Seen::Refused(_) | Seen::Lost(_) => {}
    }
    let (words, is_refused) = match watched(cuda, tool, runs, deadline)? {
        Seen::Told(told) => return Ok(told),
        Seen::Refused(words) => (words, true),
        Seen::Lost(words) => (words, false),
    };
    // Older versions lose track of barriers that are in order.
    let is_trusted = is_refused || version(&find(cuda.parts_dir())?)?.is_some_and(follows_barriers);
    if !is_trusted || !runs_harmless(cuda, tool, deadline)? {
        return Ok(Sanitized::Doubtful(words));
    }
    let message = format!("{words}; twice, and other kernels run under it");
    Ok(Sanitized::Flagged(Flaw { report: message.clone(), message }))
}

/// What a run under a tool comes to.
#[derive(Debug, PartialEq)]
enum Seen {
    Told(Sanitized),
    /// The kernel failed, which it does not elsewhere.
    Refused(String),
    /// The tool says that it may have missed something or be mistaken.
    Lost(String),
}

/// Says whether a kernel of ours is clean under a tool.
fn runs_harmless(cuda: &mut Cuda, tool: Sanitizer, deadline: Duration) -> Result<bool, Fault> {
    let Some(info) = cuda.info.cuda.clone() else { return Ok(false) };
    let (program, case) = controls::harmless(cuda, &info)?;
    let seen = watched(cuda, tool, &[(&program, case)], deadline);
    cuda.unstage(case);
    Ok(matches!(seen?, Seen::Told(Sanitized::Clean)))
}

/// Makes sure, once, that a tool flags what it is there to find. It might not see the memory that kernels are
/// given here, or not know the device, and would find every kernel clean.
fn make_sure_it_sees(cuda: &mut Cuda, tool: Sanitizer) -> Result<(), Fault> {
    if cuda.sighted.contains(&tool) {
        return Ok(());
    }
    let Some(info) = cuda.info.cuda.clone() else { return Ok(()) };
    let (program, case) = controls::flawed(cuda, &info, tool)?;
    let runs = [(&program, case)];
    let mut seen = watched(cuda, tool, &runs, CONTROL_DEADLINE);
    if !matches!(seen, Ok(Seen::Told(Sanitized::Flagged(_)))) {
        seen = watched(cuda, tool, &runs, CONTROL_DEADLINE);
    }
    cuda.unstage(case);
    is_flagged(tool, &seen?)?;
    cuda.sighted.push(tool);
    Ok(())
}

/// Says that a tool is blind, unless it has flagged the kernel that it is held against.
fn is_flagged(tool: Sanitizer, seen: &Seen) -> Result<(), Fault> {
    let said = match seen {
        Seen::Told(Sanitized::Flagged(_)) => return Ok(()),
        Seen::Told(Sanitized::Clean) => "it found nothing".to_string(),
        Seen::Told(Sanitized::Unfinished { limit_s }) => {
            format!("it did not finish within {limit_s} s")
        }
        Seen::Told(Sanitized::Doubtful(words)) | Seen::Refused(words) | Seen::Lost(words) => {
            words.clone()
        }
    };
    Err(Fault::Unavailable(format!(
        "{} does not see what kernels do on this machine: one that {} was not flagged ({said}), so nothing that \
         it calls clean is; `warpsmith setup cuda` provides another version, and --no-sanitizer leaves this part of \
         the gate out, which the evidence records",
        tool.name(),
        controls::flaw(tool).words
    )))
}

/// Returns what memory must be like for a tool to see what it looks for.
fn floor(tool: Sanitizer) -> Floor {
    match tool {
        Sanitizer::Memcheck => Floor::Separate,
        Sanitizer::Racecheck => Floor::Guarded,
        Sanitizer::Initcheck => Floor::Untouched,
    }
}

fn watched(
    cuda: &mut Cuda,
    tool: Sanitizer,
    runs: &[(&Program, CaseId)],
    deadline: Duration,
) -> Result<Seen, Fault> {
    let program = find(cuda.parts_dir())?;
    let making = broken("making a folder for the sanitizer's log");
    let builds = artifacts::build_dir(&cuda.config.host.cache_dir);
    std::fs::create_dir_all(&builds).map_err(&making)?;
    let folder = artifacts::WorkFolder::create(&builds).map_err(making)?;
    // The tools take a percent sign in the name for an escape; this name has none.
    let log_path = folder.path().join("log.txt");
    let watcher = command(&program, tool, &log_path);
    let watched = cuda.watch_on(&watcher, floor(tool), runs, deadline);
    // Where it did not come as far as opening its log, there is none, and what was said is empty.
    let log = std::fs::read(&log_path).unwrap_or_default();
    let log = String::from_utf8_lossy(&log);
    let watched = watched.map_err(|fault| match fault {
        // Before anything of the candidate's ran.
        Fault::Crashed(_) | Fault::TimedOut { .. } => no_verdict(tool, &fault.to_string(), &log),
        other => other,
    })?;
    let failed = runs.get(watched.n_run).map(|(program, _)| *program);
    let crowding = failed.and_then(|program| crowding(program, cuda.info.cuda.as_ref()?));
    understand(tool, &log, watched, crowding, deadline)
}

/// Says what leaves a tool no room beside a program's launches; none where there is room.
fn crowding(program: &Program, info: &CudaInfo) -> Option<String> {
    let used = resources(&program.artifact.log);
    let launches = &program.grid.as_ref()?.launches;
    launches.iter().find_map(|launch| limits::fills_up(launch, &used, info.smem_per_block))
}

/// Reads what a tool left behind. `crowding` is what may have left it no room.
fn understand(
    tool: Sanitizer,
    log: &str,
    watched: Watched,
    crowding: Option<String>,
    deadline: Duration,
) -> Result<Seen, Fault> {
    if let Some(flaw) = first_flaw(log) {
        return Ok(match misled(log) {
            None => Seen::Told(Sanitized::Flagged(flaw)),
            Some(words) => Seen::Lost(format!("{words} (it reports: {})", flaw.message)),
        });
    }
    match watched.fault {
        Some(Fault::TimedOut { limit_s }) => {
            return Ok(Seen::Told(Sanitized::Unfinished { limit_s }));
        }
        // The gate ran the same launches without it.
        Some(Fault::Crashed(cause)) => {
            return Ok(match (&cause, crowding) {
                // A tool needs registers and memory of its own.
                (CrashCause::NotLoadable { .. }, Some(crowding)) => {
                    Seen::Told(Sanitized::Doubtful(format!(
                        "it has no room beside the kernel ({crowding}): {cause}"
                    )))
                }
                _ => Seen::Refused(format!("the kernel does not run under it: {cause}")),
            });
        }
        Some(fault) => return Err(no_verdict(tool, &fault.to_string(), log)),
        None => {}
    }
    let Some(status) = watched.status else {
        return Ok(Seen::Told(Sanitized::Unfinished { limit_s: deadline.as_secs_f64() }));
    };
    match summary(log) {
        Some(0) if status.success() => match doubt(log) {
            None => Ok(Seen::Told(Sanitized::Clean)),
            Some(words) => Ok(Seen::Lost(words)),
        },
        // It counted something that it did not print in a form that is known here.
        Some(count) if count > 0 || status.code() == Some(FOUND_STATUS) => {
            let message = format!("{count} error(s) that it does not describe");
            Ok(Seen::Told(Sanitized::Flagged(Flaw { message, report: tail(log) })))
        }
        // Every launch is over, so this may be what the kernel did to the tool.
        _ => Ok(Seen::Refused(format!(
            "it ended with {status} and without a summary: {}",
            tail(log)
        ))),
    }
}

fn command(program: &Path, tool: Sanitizer, log_path: &Path) -> Vec<OsString> {
    let found = FOUND_STATUS.to_string();
    let mut words: Vec<OsString> = vec![program.into()];
    let common = [
        ["--tool", tool.name()],
        ["--target-processes", "all"],
        ["--error-exitcode", &found],
        ["--print-limit", "5"],
        ["--demangle", "simple"],
        ["--show-backtrace", "no"],
    ];
    words.extend(common.iter().flatten().map(OsString::from));
    let own: &[&str] = match tool {
        // The harness asks the driver some things that it expects to be refused.
        Sanitizer::Memcheck => &["--leak-check", "no", "--report-api-errors", "no"],
        // Warnings are races between the lanes of a warp, which do not run in step since Volta.
        Sanitizer::Racecheck => &["--racecheck-report", "analysis", "--print-level", "warn"],
        Sanitizer::Initcheck => &[],
    };
    words.extend(own.iter().map(OsString::from));
    words.push("--log-file".into());
    words.push(log_path.into());
    words
}

fn no_verdict(tool: Sanitizer, why: &str, log: &str) -> Fault {
    let source = std::io::Error::other(format!(
        "{why}; its last words: {}; `compute-sanitizer --version` shows whether it works at all, and \
         --no-sanitizer leaves this part of the gate out",
        tail(log).replace('\n', " / ")
    ));
    Fault::Broken { what: format!("{} gave no verdict", tool.name()), source }
}

/// Lines of a log that are kept where nothing better is known.
const TAIL_LINES: usize = 6;

fn tail(log: &str) -> String {
    let lines: Vec<&str> = log.lines().filter_map(content).collect();
    lines[lines.len().saturating_sub(TAIL_LINES)..].join("\n")
}

/// Returns what the tool says in a line, with its indentation; none for other people's lines.
fn content(line: &str) -> Option<&str> {
    let said = line.trim_start().strip_prefix("=========")?;
    Some(said.strip_prefix(' ').unwrap_or(said).trim_end())
}

/// Returns how many errors a log counts at its end; none when it does not come to an end.
fn summary(log: &str) -> Option<u64> {
    log.lines().filter_map(content).find_map(|line| {
        let (_, count) = line
            .split_once("ERROR SUMMARY: ")
            .or_else(|| line.split_once("RACECHECK SUMMARY: "))?;
        count.split_whitespace().next()?.parse().ok()
    })
}

/// Returns the tool's own words where it says more than that it found nothing: that it was switched off,
/// lost track of a launch, does not know the device. Whatever it is, it is no clean bill.
fn doubt(log: &str) -> Option<String> {
    let is_usual = |line: &str| {
        line.trim().is_empty()
            || line == "COMPUTE-SANITIZER"
            || line.contains("ERROR SUMMARY: ")
            || line.contains("RACECHECK SUMMARY: ")
    };
    log.lines().filter_map(content).find(|line| !is_usual(line)).map(str::to_string)
}

/// Returns the tool's own words where it says that what it reports may be wrong: it lost track of the
/// barriers.
fn misled(log: &str) -> Option<String> {
    said(log, "Results might be incorrect")
}

fn said(log: &str, words: &str) -> Option<String> {
    log.lines().filter_map(content).find(|line| line.contains(words)).map(str::to_string)
}

/// Returns the first thing that the tool objects to.
fn first_flaw(log: &str) -> Option<Flaw> {
    let lines: Vec<&str> = log.lines().filter_map(content).collect();
    let first = lines.iter().position(|line| is_objection(line))?;
    let is_detail = |line: &&&str| line.starts_with(' ') && !line.trim().is_empty();
    let details: Vec<&str> = lines[first + 1..].iter().take_while(is_detail).copied().collect();
    let report = std::iter::once(lines[first]).chain(details.iter().copied());
    Some(Flaw {
        message: words(lines[first], &details),
        report: report.collect::<Vec<_>>().join("\n"),
    })
}

/// Says whether a line begins the report of something that a kernel did. What else a log holds is about
/// the tool itself and the process.
fn is_objection(line: &str) -> bool {
    const OBJECTIONS: [&str; 13] = [
        "Invalid ",
        "Uninitialized ",
        "Potential invalid ",
        "Race reported",
        "hazard detected",
        "Malloc/Free error",
        "Barrier error",
        "Warpgroup MMA",
        "Tensor Memory",
        "Out-of-range",
        "Misaligned",
        "Illegal ",
        "Device-side assert",
    ];
    !line.starts_with(' ') && OBJECTIONS.iter().any(|objection| line.contains(objection))
}

/// Puts a report into one line: what, where, in which function.
fn words(headline: &str, details: &[&str]) -> String {
    if let Some((_, first)) = headline.split_once("Race reported between ") {
        return race_words(first, details);
    }
    let severities = ["Error: ", "ERROR: ", "Warning: ", "WARNING: "];
    let bare = severities.iter().find_map(|severity| headline.strip_prefix(severity));
    let mut words = lower_first(bare.unwrap_or(headline).trim_end_matches(" :"));
    let place = details
        .iter()
        .find_map(|line| line.trim().strip_prefix("at "))
        .map(InstructionLocation::parse);
    if let Some(place) = place {
        words.push_str(&format!(" at {}", place.spot()));
        if place.line.is_some() {
            words.push_str(&format!(" in {}", place.function));
        }
    }
    // "Address 0x7f65 is out of bounds": the number means nothing to a reader.
    let why = details.iter().find_map(|line| {
        line.trim().strip_prefix("Address ")?.split_once(" is ").map(|(_, why)| why.trim())
    });
    if let Some(why) = why {
        words.push_str(&format!(", which is {why}"));
    }
    words
}

/// Accesses are lines like `Write access at rows+0x90 in rows.cu:12`, the first on the headline itself.
fn race_words(first: &str, details: &[&str]) -> String {
    let further = details.iter().filter_map(|line| line.trim().strip_prefix("and "));
    let accesses: Vec<(String, InstructionLocation)> = std::iter::once(first)
        .chain(further)
        .filter_map(|access| {
            let (kind, place) = access.split_once(" access at ")?;
            Some((kind.to_lowercase(), InstructionLocation::parse(place)))
        })
        .collect();
    let spots: Vec<String> =
        accesses.iter().map(|(kind, place)| format!("a {kind} at {}", place.spot())).collect();
    let mut words = format!("race between {}", spots.join(" and "));
    if let Some((_, place)) = accesses.iter().find(|(_, place)| place.line.is_some()) {
        words.push_str(&format!(" in {}", place.function));
    }
    words
}

/// Where an instruction is.
struct InstructionLocation {
    function: String,
    /// Bytes into the function (`0x90`).
    offset: Option<String>,
    /// File and line, where the code has such information.
    line: Option<String>,
}

impl InstructionLocation {
    /// Reads `rows(const float *)+0x90 in rows.cu:12 [4 hazards]`; all but the name may be missing.
    fn parse(text: &str) -> Self {
        let text = text.split(" [").next().unwrap_or(text).trim();
        let (instruction, line) = match text.rsplit_once(" in ") {
            Some((instruction, line)) if line.contains(':') => (instruction, Some(line)),
            _ => (text, None),
        };
        let (function, offset) = match instruction.rfind("+0x").or_else(|| instruction.rfind(":0x"))
        {
            Some(at) => (&instruction[..at], Some(&instruction[at + 1..])),
            None => (instruction, None),
        };
        let function = function.split('(').next().unwrap_or(function).trim();
        Self {
            function: function.to_string(),
            offset: offset.map(str::to_string),
            line: line.map(|line| line.trim().to_string()),
        }
    }

    fn spot(&self) -> String {
        match (&self.line, &self.offset) {
            (Some(line), _) => line.clone(),
            (None, Some(offset)) => format!("{}+{offset}", self.function),
            (None, None) => self.function.clone(),
        }
    }
}

fn lower_first(text: &str) -> String {
    let mut letters = text.chars();
    letters
        .next()
        .map_or_else(String::new, |first| first.to_lowercase().chain(letters).collect::<String>())
}

#[cfg(test)]
mod tests {
    use std::os::unix::process::ExitStatusExt;
    use std::process::ExitStatus;

    use super::*;

    fn check(log: &str, message: &str) {
        let flaw = first_flaw(log).unwrap_or_else(|| panic!("something is found in\n{log}"));
        assert_eq!(flaw.message, message);
        assert!(!flaw.report.is_empty() && log.contains(flaw.report.lines().next().expect("one")));
    }

    #[test]
    fn an_access_out_of_bounds_is_named_with_its_line() {
        let log = "========= COMPUTE-SANITIZER\n\
                   ========= Invalid __global__ write of size 4 bytes\n\
                   =========     at rows+0x1b0 in 600_one_past_the_end.cu:7\n\
                   =========     by thread (0,0,0) in block (12,0,0)\n\
                   =========     Address 0x7f6510c00234 is out of bounds\n\
                   =========     and is 1 bytes after the nearest allocation at 0x7f6510c00000 of size 564 bytes\n\
                   ========= \n\
                   ========= Program hit CUDA_ERROR_LAUNCH_FAILED (error 719)\n\
                   ========= ERROR SUMMARY: 13 errors\n\
                   ========= ERROR SUMMARY: 8 errors were not printed. Use --print-limit option to adjust\n";
        check(
            log,
            "invalid __global__ write of size 4 bytes at 600_one_past_the_end.cu:7 in rows, which is out \
             of bounds",
        );
        assert_eq!(summary(log), Some(13));
        assert_eq!(first_flaw(log).expect("found").report.lines().count(), 5);
    }

    #[test]
    fn a_race_is_named_with_both_of_its_sides() {
        check(
            "========= COMPUTE-SANITIZER\n\
             ========= Error: Race reported between Write access at attention_fwd+0x90 in foo.cu:12\n\
             =========     and Read access at attention_fwd+0x100 in foo.cu:20 [508 hazards]\n\
             ========= \n\
             ========= RACECHECK SUMMARY: 1 hazard displayed (1 error, 0 warnings)\n",
            "race between a write at foo.cu:12 and a read at foo.cu:20 in attention_fwd",
        );
        // The lanes of a warp: a warning to the tool, and a race all the same. No line information.
        check(
            "========= Warning: Race reported between Read access at rows(const float *, int)+0x2f0\n\
             =========     and Write access at rows(const float *, int)+0x310 [64 hazards]\n\
             =========     and Write access at rows(const float *, int)+0x350 [64 hazards]\n\
             ========= RACECHECK SUMMARY: 1 hazard displayed (0 errors, 1 warning)\n",
            "race between a read at rows+0x2f0 and a write at rows+0x310 and a write at rows+0x350",
        );
        check(
            "========= ERROR: Potential WAW hazard detected at __shared__ 0x0 in block (0,0,0) :\n\
             =========     Write Thread (0,0,0) at WAW()+0x2f0 in raceWAW.cu:20\n",
            "potential WAW hazard detected at __shared__ 0x0 in block (0,0,0)",
        );
    }

    #[test]
    fn a_read_of_what_nobody_wrote_is_named() {
        check(
            "========= COMPUTE-SANITIZER\n\
             ========= Uninitialized __global__ memory read of size 4 bytes\n\
             =========     at rows():0x70 in 502_returns_if_written.cu:6\n\
             =========     by thread (31,0,0) in block (1,0,0)\n\
             =========     Address 0x7f3c7ec000fc\n\
             =========\n\
             ========= ERROR SUMMARY: 1 error\n",
            "uninitialized __global__ memory read of size 4 bytes at 502_returns_if_written.cu:6 in rows",
        );
    }

    #[test]
    fn a_clean_log_and_one_that_does_not_end_are_told_apart() {
        let clean = "========= COMPUTE-SANITIZER\n========= ERROR SUMMARY: 0 errors\n";
        assert!(first_flaw(clean).is_none() && doubt(clean).is_none());
        assert_eq!(summary(clean), Some(0));
        let races = "========= COMPUTE-SANITIZER\n\
                     ========= RACECHECK SUMMARY: 0 hazards displayed (0 errors, 0 warnings)\n";
        assert!(first_flaw(races).is_none());
        assert_eq!(summary(races), Some(0));
        // What it says of a process that ended badly is not about a kernel.
        let broken = "========= COMPUTE-SANITIZER\n\
                      ========= Error: process didn't terminate successfully\n\
                      =========     The application may have hit an error when dereferencing memory.\n\
                      ========= Target application terminated before first instrumented API call\n";
        assert!(first_flaw(broken).is_none());
        assert_eq!(summary(broken), None);
        let fault = no_verdict(Sanitizer::Memcheck, "it ended with exit status: 255", broken);
        let source = std::error::Error::source(&fault).expect("a cause").to_string();
        assert!(source.contains("first instrumented API call"), "{source}");
    }

    #[test]
    fn doubts_of_the_tool_are_no_clean_bill() {
        let log = "========= COMPUTE-SANITIZER\n\
                   ========= Internal Sanitizer Error: The Sanitizer encountered an error while launching \
                   rows and didn't track the launch. Errors might go undetected.\n\
                   ========= ERROR SUMMARY: 0 errors\n";
        assert!(first_flaw(log).is_none());
        assert!(doubt(log).expect("a doubt").contains("didn't track the launch"));
        let off = "========= COMPUTE-SANITIZER\n\
                   ========= CUDA initialized before the Sanitizer. The Sanitizer will be disabled\n\
                   ========= ERROR SUMMARY: 0 errors\n";
        assert!(doubt(off).expect("a doubt").contains("disabled"));
        let overflow = "========= Warning: Detected overflow of tracked cuda::barrier structures. Results \
                        might be incorrect. Try using --num-cuda-barriers to fix the issue\n";
        assert!(misled(overflow).is_some() && doubt(overflow).is_some());
        assert!(first_flaw(overflow).is_none() && misled(log).is_none());
    }

    #[test]
    fn other_peoples_lines_are_not_taken_for_the_tools() {
        assert!(first_flaw("Invalid thing\n  Error: Race reported between\n").is_none());
        assert_eq!(summary("ERROR SUMMARY: 3 errors"), None);
    }

    #[test]
    fn the_version_is_read() {
        let text = "NVIDIA (R) Compute Sanitizer\nCopyright (c) 2020-2026 NVIDIA Corporation\n\
                    Version 2026.3.0.0 (build 38855100) (public-release)\n";
        assert_eq!(version_in(text).as_deref(), Some("2026.3.0.0"));
        assert_eq!(version_in("nothing"), None);
    }

    #[test]
    fn every_tool_says_by_its_status_that_it_found_something() {
        for tool in Sanitizer::ALL {
            let words = command(Path::new("/opt/compute-sanitizer"), tool, Path::new("/tmp/log"));
            let words: Vec<&str> = words.iter().filter_map(|word| word.to_str()).collect();
            let line = words.join(" ");
            assert!(line.contains(&format!("--tool {}", tool.name())), "{line}");
            assert!(line.contains("--error-exitcode 77"), "{line}");
            assert!(line.ends_with("--log-file /tmp/log"), "{line}");
        }
    }

    #[test]
    fn a_kernel_that_a_tool_cannot_launch_is_excused_where_it_leaves_no_room_alone() {
        let read = |cause: CrashCause, crowding: Option<&str>| {
            let fault = Some(Fault::Crashed(cause));
            let watched = Watched { status: None, n_run: 0, fault };
            let crowding = crowding.map(str::to_string);
            let deadline = Duration::from_secs(1);
            understand(Sanitizer::Racecheck, "", watched, crowding, deadline).expect("a reading")
        };
        let refused = || CrashCause::NotLoadable { message: "out of resources".to_string() };
        let faulted = || CrashCause::Device { message: "trap".to_string() };
        let crowding = "`rows` takes 64 registers for each of 1024 threads, all that there are";
        match read(refused(), Some(crowding)) {
            Seen::Told(Sanitized::Doubtful(words)) => {
                assert!(words.contains(crowding) && words.contains("out of resources"), "{words}");
            }
            other => panic!("{other:?}"),
        }
        for (cause, crowding) in [(refused(), None), (faulted(), None), (faulted(), Some(crowding))]
        {
            let seen = read(cause, crowding);
            assert!(matches!(seen, Seen::Refused(_)), "{seen:?}");
        }
    }

    #[test]
    fn a_tool_that_does_not_flag_its_own_flaw_is_blind() {
        let (message, report) = ("race".to_string(), String::new());
        let flagged = Seen::Told(Sanitized::Flagged(Flaw { message, report }));
        for tool in Sanitizer::ALL {
            assert!(is_flagged(tool, &flagged).is_ok());
            for seen in [
                Seen::Told(Sanitized::Clean),
                Seen::Told(Sanitized::Unfinished { limit_s: 1.0 }),
                Seen::Told(Sanitized::Doubtful("no room".to_string())),
                Seen::Refused("it traps".to_string()),
                Seen::Lost("lost track".to_string()),
            ] {
                let said = is_flagged(tool, &seen).expect_err("blind").to_string();
                assert!(said.starts_with(tool.name()), "{said}");
                assert!(said.contains(controls::flaw(tool).words), "{said}");
                assert!(said.contains("--no-sanitizer"), "{said}");
            }
        }
    }

    #[test]
    fn what_a_tool_left_behind_is_read_with_how_it_ended() {
        let read = |log: &str, status: Option<i32>, fault: Option<Fault>| {
            let status = status.map(|code| ExitStatus::from_raw(code << 8));
            let watched = Watched { status, n_run: 1, fault };
            understand(Sanitizer::Memcheck, log, watched, None, Duration::from_secs(9))
        };
        let clean = "========= COMPUTE-SANITIZER\n========= ERROR SUMMARY: 0 errors\n";
        let flagged = "========= Invalid __global__ read of size 4 bytes\n\
                       =========     at rows+0x70\n========= ERROR SUMMARY: 1 error\n";
        let told = |told| Seen::Told(told);
        assert_eq!(read(clean, Some(0), None).expect("one"), told(Sanitized::Clean));
        let found = read(flagged, Some(FOUND_STATUS), None).expect("one");
        assert!(matches!(found, Seen::Told(Sanitized::Flagged(_))), "{found:?}");
        // It says so, however the process ended.
        let crashed = Fault::Crashed(CrashCause::Device { message: "trap".to_string() });
        let found = read(flagged, None, Some(crashed)).expect("one");
        assert!(matches!(found, Seen::Told(Sanitized::Flagged(_))), "{found:?}");
        let late = Fault::TimedOut { limit_s: 3.0 };
        let unfinished = |limit_s| Seen::Told(Sanitized::Unfinished { limit_s });
        assert_eq!(read("", None, Some(late)).expect("one"), unfinished(3.0));
        assert_eq!(read("", None, None).expect("one"), unfinished(9.0));
        // Neither a clean log with a bad end nor a good end without a log is a clean bill.
        for (log, code) in [(clean, 1), ("", 0), ("", 1), (clean, FOUND_STATUS)] {
            let seen = read(log, Some(code), None);
            assert!(!matches!(seen, Ok(Seen::Told(Sanitized::Clean))), "{seen:?}");
        }
        let lost = "========= Internal Sanitizer Error: didn't track the launch\n\
                    ========= ERROR SUMMARY: 0 errors\n";
        assert!(matches!(read(lost, Some(0), None), Ok(Seen::Lost(_))));
    }
}
