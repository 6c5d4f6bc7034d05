//! Compilers on this machine, and processes of theirs that cannot reach beyond their folder.

use std::collections::HashMap;
use std::ffi::OsString;
use std::fs::{self, File};
use std::io::{self, Read, Seek};
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::{LazyLock, Mutex, PoisonError};
use std::time::{Duration, Instant, SystemTime};

use landlock::{
    ABI, Access, AccessFs, AccessNet, BitFlags, CompatLevel, Compatible, Ruleset, RulesetAttr,
    RulesetCreatedAttr, path_beneath_rules,
};
use warpsmith_model::Compiler;

use super::compiler_rights::{self, Filters};
use super::crash;
use crate::sys::memory::MemoryFile;
use crate::sys::process::{ChildState, OwnedChild};
use crate::sys::{check, process};
use crate::target::Fault;

/// The names that are looked for when the compilers of a machine are listed.
const KNOWN_NAMES: [&str; 3] = ["cc", "gcc", "clang"];

/// How long a compiler may take to say its version.
const VERSION_DEADLINE: Duration = Duration::from_secs(10);

/// What a compiler may occupy: each of its processes has so many addresses, and all together so much memory.
const MEMORY_BYTES: u64 = 4 << 30;

/// How often somebody looks how much memory all of them have: it takes a tenth of a millisecond.
const LOOK_EVERY: Duration = Duration::from_millis(50);

/// The size of the largest file that a compiler may write, its complaints included.
const FILE_BYTES: u64 = 256 << 20;

/// The part of a compiler's complaints that is kept.
const LOG_BYTES: u64 = 256 << 10;

/// What every compiler may read: programs, libraries and headers of the system, and the few files
/// that the dynamic loader and the drivers look at. Not `/etc` as a whole: it holds secrets.
const READABLE: [&str; 18] = [
    "/usr",
    "/bin",
    "/sbin",
    "/lib",
    "/lib32",
    "/lib64",
    "/libx32",
    "/opt",
    "/nix/store",
    "/gnu/store",
    "/etc/ld.so.cache",
    "/etc/alternatives",
    "/etc/os-release",
    "/etc/lsb-release",
    "/etc/debian_version",
    "/proc/cpuinfo",
    "/sys/devices/system/cpu",
    "/dev/urandom",
];

/// A compiler.
#[derive(Clone, Debug)]
pub(crate) struct Tool {
    /// Where it is.
    pub(crate) path: PathBuf,
    /// The first line that it says of its version.
    pub(crate) version: String,
}

/// Lists the compilers on `PATH`; one that does not work is not listed.
pub fn compilers() -> Vec<Compiler> {
    KNOWN_NAMES
        .iter()
        .filter_map(|name| {
            let tool = find(name).ok()?;
            Some(Compiler { name: (*name).to_string(), version: tool.version })
        })
        .collect()
}

/// Finds a compiler by its name on `PATH`, or by its path.
pub(crate) fn find(name: &str) -> Result<Tool, Fault> {
    let path = locate(name).ok_or_else(|| {
        Fault::Unavailable(format!(
            "`{name}` was not found on PATH; install it, or leave it out of `CC`"
        ))
    })?;
    let version = version(&path)?;
    Ok(Tool { path, version })
}

fn locate(name: &str) -> Option<PathBuf> {
    if name.contains('/') {
        return Some(PathBuf::from(name)).filter(|path| is_program(path));
    }
    let path = std::env::var_os("PATH")?;
    std::env::split_paths(&path).map(|folder| folder.join(name)).find(|path| is_program(path))
}

fn is_program(path: &Path) -> bool {
    use std::os::unix::fs::PermissionsExt;
    fs::metadata(path)
        .is_ok_and(|metadata| metadata.is_file() && metadata.permissions().mode() & 0o111 != 0)
}

/// Returns what the compiler says of its version; asked once per process and state of the file.
fn version(path: &Path) -> Result<String, Fault> {
    type Known = HashMap<(PathBuf, SystemTime, u64), String>;
    static KNOWN: LazyLock<Mutex<Known>> = LazyLock::new(Mutex::default);
    let broken = |source| Fault::Broken { what: format!("asking {}", path.display()), source };
    let metadata = fs::metadata(path).map_err(broken)?;
    let modified = metadata.modified().map_err(broken)?;
    let key = (path.to_path_buf(), modified, metadata.len());
    if let Some(version) = KNOWN.lock().unwrap_or_else(PoisonError::into_inner).get(&key) {
        return Ok(version.clone());
    }
    let output = ask_version(path).map_err(broken)?;
    let failed = |why: &str| Fault::Unavailable(format!("`{} --version`: {why}", path.display()));
    if output.end != End::Exited(0) {
        return Err(failed(&output.end.in_words()));
    }
    let line = output.log.lines().next().map(str::trim).unwrap_or_default();
    if line.is_empty() {
        return Err(failed("it says nothing"));
    }
    let version = line.to_string();
    KNOWN.lock().unwrap_or_else(PoisonError::into_inner).insert(key, version.clone());
    Ok(version)
}

/// What a confined process left.
#[derive(Debug)]
pub(crate) struct Output {
    /// How it ended.
    pub(crate) end: End,
    /// What it printed, cut when very long.
    pub(crate) log: String,
}

/// How a confined process ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum End {
    /// By itself, with this status.
    Exited(i32),
    /// By this signal, which was not ours.
    Killed(i32),
    /// It was killed at this deadline.
    TimedOut(Duration),
    /// It was killed when its processes had more than this many bytes of memory together.
    TookMemory(u64),
}

impl End {
    /// Says whether somebody else ended it.
    pub(crate) fn is_foreign(self) -> bool {
        matches!(self, Self::Killed(signal) if crash::is_foreign(signal))
    }

    /// Says what happened to the compiler.
    pub(crate) fn in_words(self) -> String {
        match self {
            Self::Exited(status) => format!("the compiler failed with status {status}"),
            Self::Killed(signal) => {
                format!("the compiler was killed by {}", crash::signal_name(signal))
            }
            Self::TimedOut(deadline) => {
                format!("the compiler did not finish within {} s", deadline.as_secs_f64())
            }
            Self::TookMemory(bytes) => format!(
                "the compiler and what it started took more than {} GiB of memory together",
                bytes >> 30
            ),
        }
    }
}

/// Runs a compiler in a folder, where alone it may write, and kills it and all of its children at
/// the deadline. It may read the system's folders, and one more if that is given. A compiler that somebody
/// else kills is run once more.
pub(crate) fn run(
    program: &Path,
    arguments: &[String],
    folder: &Path,
    readable: Option<&Path>,
    deadline: Duration,
) -> io::Result<Output> {
    let once = |name: &str| {
        let log =
            File::options().read(true).write(true).create_new(true).open(folder.join(name))?;
        confined(program, arguments, Some(folder), readable, deadline, log)
    };
    let output = once("log.txt")?;
    // A program may have been killed after it had complained of something; that costs a second attempt, and no
    // verdict rests on it.
    let is_claimed = is_failure(output.end) && kill_report(&output.log) != KillReport::None;
    if output.end.is_foreign() || is_claimed { once("second-log.txt") } else { Ok(output) }
}

/// Says whether a program ended by itself and says that it failed.
fn is_failure(end: End) -> bool {
    matches!(end, End::Exited(status) if status != 0)
}

/// Says whose doing it is that a compiler could not be started: a command that is longer than the system takes is
/// made of a candidate's flags and values, anything else is the machine's.
pub(crate) fn start_fault(program: &Path, arguments: &[String], source: io::Error) -> Fault {
    if source.kind() != io::ErrorKind::ArgumentListTooLong {
        return Fault::Broken { what: format!("running {}", program.display()), source };
    }
    let bytes: usize = arguments.iter().map(String::len).sum();
    let longest = arguments.iter().map(String::len).max().unwrap_or(0);
    let message = format!(
        "its flags and values make a command that the system does not take: {} arguments with {bytes} bytes, \
         the longest with {longest}; give fewer or shorter ones",
        arguments.len()
    );
    Fault::Compile { message, log: String::new() }
}

/// Asks a compiler for its version. It may write nowhere, so nothing is left behind by somebody who
/// is killed meanwhile.
pub(crate) fn ask_version(program: &Path) -> io::Result<Output> {
    let once = || {
        let log = MemoryFile::create(c"compiler-version", 0)?.into_file();
        confined(program, &["--version".to_string()], None, None, VERSION_DEADLINE, log)
    };
    let output = once()?;
    if output.end.is_foreign() { once() } else { Ok(output) }
}

/// What a compiler's words say of a program of its own that was killed outright.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum KillReport {
    /// The driver says so, and nobody else can have.
    Certain,
    /// Words like the driver's are there, among others: they may be a source's.
    Claimed,
    None,
}

/// Says whether a compiler reports that one of the programs that it runs was killed outright.
///
/// A source can have nearly any words printed: `#error` quotes it, `#line` names its file, strings of `.error` and
/// of `_Static_assert` may hold line breaks, and an assembler's `.print` adds nothing of its own. What a source
/// cannot do is to fail without a complaint of somebody about something. So a driver's report must be all that
/// was said, to the letter.
fn kill_report(said: &str) -> KillReport {
    // The shell of a compiler that is a script says so, too; nobody complains in one word.
    let is_shells = |line: &str| ["", "Killed", "Terminated"].contains(&line.trim());
    let mut lines = said.lines().filter(|line| !is_shells(line));
    let is_first = lines.next().is_some_and(is_kill_line);
    match is_first && lines.all(is_behind_a_kill) {
        true => KillReport::Certain,
        false if said.lines().any(is_kill_line) => KillReport::Claimed,
        false => KillReport::None,
    }
}

/// Says whether a line is a driver's, on a program that was killed.
fn is_kill_line(line: &str) -> bool {
    let is_name = |text: &str| {
        let is_part = |c: char| c.is_ascii_alphanumeric() || "+-_./".contains(c);
        !text.is_empty() && text.chars().all(is_part)
    };
    let Some((who, what)) = line.split_once(": ") else { return false };
    let of_gcc = || {
        let what = what.strip_prefix("fatal error: ")?;
        let killed = what.strip_prefix("Killed signal terminated program ");
        if let Some(program) =
            killed.or_else(|| what.strip_prefix("Terminated signal terminated program "))
        {
            return Some(program);
        }
        let killed = what.strip_suffix(" terminated with signal 9 [Killed]");
        killed.or_else(|| what.strip_suffix(" terminated with signal 15 [Terminated]"))
    };
    let of_clang = ["Killed", "Terminated"]
        .iter()
        .any(|signal| what.strip_prefix("error: unable to execute command: ") == Some(signal));
    is_name(who) && (of_clang || of_gcc().is_some_and(is_name))
}

/// Says whether a line is one that drivers write when a program of theirs was killed.
fn is_behind_a_kill(line: &str) -> bool {
    let is_plain = |who: &str| !who.contains([' ', ':']);
    is_kill_line(line)
        || line == "compilation terminated."
        || line.strip_suffix(": error: lto-wrapper failed").is_some_and(is_plain)
        || line == "collect2: error: ld returned 1 exit status"
        || ["linker", "assembler"].iter().any(|program| {
            let end = format!(
                ": error: {program} command failed due to signal (use -v to see invocation)"
            );
            line.strip_suffix(&end).is_some_and(is_plain)
        })
}

fn confined(
    program: &Path,
    arguments: &[String],
    folder: Option<&Path>,
    readable: Option<&Path>,
    deadline: Duration,
    log: File,
) -> io::Result<Output> {
    let rules = file_rules(program, folder, readable).map_err(io::Error::other)?;
    let filters = compiler_rights::filters()?;
    let mut command = Command::new(program);
    command
        .args(arguments)
        .current_dir(folder.unwrap_or(Path::new("/")))
        .env_clear()
        .env("PATH", std::env::var_os("PATH").unwrap_or_else(|| OsString::from("/usr/bin:/bin")))
        .envs(folder.map(|folder| ("TMPDIR", folder)))
        .env("LC_ALL", "C")
        .env("SOURCE_DATE_EPOCH", "0")
        .env("CCACHE_DISABLE", "1")
        .stdin(Stdio::null())
        .stdout(log.try_clone()?)
        .stderr(log.try_clone()?)
        .process_group(0);
    let cpu_limit_s = deadline.as_secs() + 2;
    // SAFETY: between `fork` and `exec` the closure only makes system calls; it allocates nothing.
    unsafe {
        command.pre_exec(move || {
            process::die_with_parent()?;
            process::limit(libc::RLIMIT_CORE, 0)?;
            process::limit_cpu_time(cpu_limit_s)?;
            process::limit(libc::RLIMIT_AS, MEMORY_BYTES)?;
            process::limit(libc::RLIMIT_FSIZE, FILE_BYTES)?;
            process::forgo_new_privileges()?;
            if let Some(rules) = &rules {
                let result = libc::syscall(libc::SYS_landlock_restrict_self, rules.as_raw_fd(), 0);
                check(result as libc::c_int)?;
            }
            filters.map_or(Ok(()), Filters::install)
        });
    }
    let started = Instant::now();
    let mut child = OwnedChild::new(command.spawn()?);
    let mut looked = started;
    let end = loop {
        match child.poll()? {
            ChildState::Running | ChildState::Stopped => {}
            ChildState::Exited(status) => break End::Exited(status),
            ChildState::Killed(signal) => break End::Killed(signal),
        }
        let mut reason = None;
        if started.elapsed() >= deadline {
            reason = Some(End::TimedOut(deadline));
        } else if looked.elapsed() >= LOOK_EVERY {
            looked = Instant::now();
            let bytes = process::memory_of_tree(child.pid());
            reason = (bytes > MEMORY_BYTES).then_some(End::TookMemory(MEMORY_BYTES));
        }
        if let Some(end) = reason {
            // Those that a system without filters let leave the group.
            process::kill_descendants(child.pid());
            child.kill()?;
            break end;
        }
        std::thread::sleep(Duration::from_millis(1));
    };
    let log = read_log(log)?;
    // Compilers go on to say so when an assembler or a linker of theirs is killed.
    let is_killed = is_failure(end) && kill_report(&log) == KillReport::Certain;
    Ok(Output { end: if is_killed { End::Killed(libc::SIGKILL) } else { end }, log })
}

/// Prepares the rules that confine a compiler; none where the kernel cannot enforce any.
fn file_rules(
    program: &Path,
    folder: Option<&Path>,
    readable_too: Option<&Path>,
) -> Result<Option<OwnedFd>, landlock::RulesetError> {
    const KNOWN: ABI = ABI::V5;
    let program = fs::canonicalize(program).unwrap_or_else(|_| program.to_path_buf());
    let mut readable: Vec<PathBuf> = READABLE.iter().map(PathBuf::from).collect();
    // A compiler outside of the system's folders brings its own libraries and headers; its prefix
    // as a whole may be somebody's home.
    if let Some(prefix) = program.parent().filter(|bin| bin.ends_with("bin")).and_then(Path::parent)
    {
        // The last two are of CUDA's toolkit.
        let parts = ["bin", "lib", "lib64", "libexec", "include", "share", "nvvm", "targets"];
        readable.extend(parts.iter().map(|part| prefix.join(part)));
    }
    readable.push(program);
    readable.extend(readable_too.map(Path::to_path_buf));
    readable.retain(|path| path.exists());
    let rules = Ruleset::default()
        .set_compatibility(CompatLevel::BestEffort)
        .handle_access(AccessFs::from_all(KNOWN))?
        .handle_access(AccessNet::from_all(KNOWN))?
        .create()?
        .add_rules(path_beneath_rules(readable, AccessFs::from_read(KNOWN)))?
        .add_rules(path_beneath_rules(folder, in_its_folder()))?
        .add_rules(path_beneath_rules(["/dev/null"], AccessFs::from_all(KNOWN)))?;
    Ok(rules.into())
}

/// What a compiler may do in its folder: make and remove files and folders. Not links, pipes and devices, and
/// nothing that it wrote is a program.
fn in_its_folder() -> BitFlags<AccessFs> {
    AccessFs::ReadFile
        | AccessFs::ReadDir
        | AccessFs::WriteFile
        | AccessFs::Truncate
        | AccessFs::MakeReg
        | AccessFs::MakeDir
        | AccessFs::RemoveFile
        | AccessFs::RemoveDir
        | AccessFs::Refer
}

/// Reads what was printed, up to a limit, and says when something is missing.
fn read_log(mut file: File) -> io::Result<String> {
    let printed = file.metadata()?.len();
    let mut bytes = Vec::new();
    file.rewind()?;
    file.take(LOG_BYTES).read_to_end(&mut bytes)?;
    let mut log = String::from_utf8_lossy(&bytes).into_owned();
    if printed > LOG_BYTES {
        log.push_str(&format!("\n[cut: the first {LOG_BYTES} of {printed} bytes]\n"));
    }
    Ok(log)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_missing_compiler_is_unavailable_with_advice() {
        let fault = find("no-such-compiler").expect_err("it does not exist");
        assert_eq!(
            fault.to_string(),
            "`no-such-compiler` was not found on PATH; install it, or leave it out of `CC`"
        );
    }

    #[test]
    fn gcc_and_clang_say_their_versions() {
        for name in ["gcc", "clang"] {
            let tool = find(name).expect("the tests need gcc and clang");
            assert!(tool.version.contains(name), "{}", tool.version);
        }
    }

    #[test]
    fn a_killed_program_is_believed_of_a_driver_that_says_nothing_else() {
        let check =
            |said: &str, expected: KillReport| assert_eq!(kill_report(said), expected, "{said}");
        for said in [
            "gcc: fatal error: Killed signal terminated program cc1\ncompilation terminated.\n",
            "collect2: fatal error: ld terminated with signal 9 [Killed]\ncompilation terminated.\n",
            "Killed\nclang: error: unable to execute command: Killed\n\
             clang: error: linker command failed due to signal (use -v to see invocation)\n",
            "lto-wrapper: fatal error: gcc terminated with signal 15 [Terminated]\n\
             compilation terminated.\n/usr/bin/ld: error: lto-wrapper failed\n\
             collect2: error: ld returned 1 exit status\n",
        ] {
            check(said, KillReport::Certain);
        }
        let line = "gcc: fatal error: Killed signal terminated program cc1";
        // What the assembler says of `.print` with the line and an instruction that is none.
        check(&format!("{line}\nk.s: Assembler messages:\nk.s:1: Error: x\n"), KillReport::Claimed);
        check(&format!("k.s: Assembler messages:\nk.s:1: Error: x\n{line}\n"), KillReport::Claimed);
        // `#line 1 "…"` with the line as the file's name, and with a line break behind it.
        check(&format!("{line}:1:2: error: #error x\n"), KillReport::None);
        check(&format!("{line}\nx:1:2: error: #error x\n"), KillReport::Claimed);
        check(&format!("k.c:1:2: error: #error {line}\n"), KillReport::None);
        check(
            "gcc: fatal error: Segmentation fault signal terminated program cc1\n",
            KillReport::None,
        );
    }

    /// What a source printed was once believed, and its candidate asked again for ever.
    #[test]
    fn a_source_cannot_pretend_that_its_compiler_was_killed() {
        let line = "gcc: fatal error: Killed signal terminated program cc1";
        for source in [
            format!("__asm__(\".print \\\"{line}\\\"\\n.no_such_thing\\n\");\n"),
            format!("__asm__(\".no_such_thing\\n.print \\\"{line}\\\"\\n\");\n"),
            format!("__asm__(\".error \\\"x\\\\n{line}\\\"\\n\");\n"),
            format!("#line 1 \"{line}\\n\"\n#error no\n"),
            format!("_Static_assert(0, \"\\n{line}\\n\");\n"),
        ] {
            let folder = tempfile::tempdir().expect("a folder");
            fs::write(folder.path().join("k.c"), &source).expect("a source");
            let gcc = find("gcc").expect("the tests need gcc");
            let arguments = ["-c", "k.c", "-o", "k.o"].map(str::to_string);
            let deadline = Duration::from_secs(60);
            let output = run(&gcc.path, &arguments, folder.path(), None, deadline).expect("it ran");
            assert!(is_failure(output.end), "{source}: {:?}\n{}", output.end, output.log);
        }
    }

    #[test]
    fn who_is_asked_for_a_version_can_write_nowhere() {
        let folder = tempfile::tempdir().expect("a folder");
        let program = folder.path().join("fake-cc");
        // Beside itself, where this user may write.
        let script = "#!/bin/sh\necho fake 1.0\necho left >${0%/*}/left.txt || echo refused\n";
        fs::write(&program, script).expect("a script");
        let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
        fs::set_permissions(&program, mode).expect("a program");
        let output = ask_version(&program).expect("it ran");
        assert_eq!(output.end, End::Exited(0), "{}", output.log);
        assert!(output.log.starts_with("fake 1.0\n"), "{}", output.log);
        assert!(output.log.ends_with("refused\n"), "{}", output.log);
        assert!(!folder.path().join("left.txt").exists());
    }
}
