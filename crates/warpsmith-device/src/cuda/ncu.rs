//! Nsight Compute: finds it, lets it watch a program, and reads what it recorded.
//!
//! The profiler replays every launch many times, once for each set of counters, so its durations are
//! never compared with the clock's. Where it is missing or may not read the counters, that is said
//! with what to do about it, and a diagnosis goes on without.

use std::ffi::OsString;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use warpsmith_model::diagnose::table::{self, LaunchRow, TableError};

use super::toolkit;
use crate::target::{Fault, Watched};

/// How to get the profiler.
pub const HOW_TO_GET: &str = "install Nsight Compute (package `cuda-nsight-compute` or \
    `nsight-compute` of NVIDIA's repository, or https://developer.nvidia.com/nsight-compute) and put \
    `ncu` on PATH";

/// What to do about a profiler that does not work.
const HOW_TO_TRY: &str =
    "`ncu --version` shows whether it works at all, and `warpsmith profile` tries again";

/// How to let a user read the counters.
pub const HOW_TO_ALLOW: &str = "put the line `options nvidia NVreg_RestrictProfilingToAdminUsers=0` \
    into /etc/modprobe.d/nvidia-profiling.conf and load the driver again (or reboot), or run as root \
    with the capability CAP_SYS_ADMIN (a container needs --cap-add=SYS_ADMIN)";

/// Where the driver says who may read the counters.
const DRIVER_PARAMS: &str = "/proc/driver/nvidia/params";
/// How long reading a report may take; it needs no device.
const IMPORT_DEADLINE: Duration = Duration::from_secs(60);
/// How often it is looked whether the profiler has ended.
const LOOK: Duration = Duration::from_millis(5);
/// As much of what the profiler said as a message quotes.
const QUOTED_CHARS: usize = 400;

/// The profiler.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ncu {
    /// The program.
    pub path: PathBuf,
    /// Its version.
    pub version: String,
}

/// What it recorded of a program.
#[derive(Clone, Debug, PartialEq)]
pub struct Recording {
    /// The launches, in order.
    pub launches: Vec<LaunchRow>,
    /// The table that they were read from.
    pub csv: String,
    /// The report, for its own viewer.
    pub report: Vec<u8>,
}

/// Why there is no recording. Whatever goes wrong with the profiler, a diagnosis goes on without
/// counters and says this.
#[derive(Debug, thiserror::Error)]
#[error("{reason}; {how}")]
pub struct NoRecording {
    /// Why.
    pub reason: String,
    /// What to do.
    pub how: String,
}

impl NoRecording {
    fn new(reason: impl Into<String>, how: &str) -> Self {
        Self { reason: reason.into(), how: how.to_string() }
    }

    /// The profiler at this path does not do what it should.
    fn failed(path: &Path, why: impl std::fmt::Display) -> Self {
        Self::new(format!("the profiler {} failed: {why}", path.display()), HOW_TO_TRY)
    }
}

/// Finds the profiler: on `PATH`, in `CUDA_HOME`, and where its installers put it.
pub fn find() -> Result<Ncu, NoRecording> {
    let looked = places();
    let path = looked
        .iter()
        .find(|path| path.is_file())
        .ok_or_else(|| NoRecording::new("the profiler `ncu` was not found", HOW_TO_GET))?;
    let output = Command::new(path).arg("--version").stdin(Stdio::null()).output();
    let output = output.map_err(|error| NoRecording::failed(path, error))?;
    let words = String::from_utf8_lossy(&output.stdout).to_string();
    Ok(Ncu { path: path.clone(), version: version_in(&words) })
}

fn places() -> Vec<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    // Somebody who names a toolkit means all of it.
    let mut folders: Vec<PathBuf> =
        toolkit::preferred().map(|root| root.join("bin")).into_iter().collect();
    folders.extend(std::env::split_paths(&path));
    folders.extend(std::env::var_os("CUDA_HOME").map(|home| PathBuf::from(home).join("bin")));
    folders.push(PathBuf::from("/usr/local/cuda/bin"));
    let versions = fs::read_dir("/opt/nvidia/nsight-compute").into_iter().flatten().flatten();
    let mut versions: Vec<PathBuf> = versions.map(|entry| entry.path()).collect();
    // The newest first.
    versions.sort();
    folders.extend(versions.into_iter().rev());
    folders.into_iter().map(|folder| folder.join("ncu")).collect()
}

fn version_in(words: &str) -> String {
    let line = words.lines().find_map(|line| line.trim().strip_prefix("Version "));
    line.unwrap_or("unknown").trim().to_string()
}

/// Who may read the counters, as the driver says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Permission {
    /// Everybody.
    Everybody,
    /// Root with the capability CAP_SYS_ADMIN alone.
    AdminOnly,
    /// The driver does not say.
    Unknown,
}

/// Asks the driver who may read the counters.
pub fn permission() -> Permission {
    permission_in(&fs::read_to_string(DRIVER_PARAMS).unwrap_or_default())
}

fn permission_in(params: &str) -> Permission {
    let value = params.lines().find_map(|line| line.trim().strip_prefix("RmProfilingAdminOnly:"));
    match value.map(str::trim) {
        Some("0") => Permission::Everybody,
        Some(_) => Permission::AdminOnly,
        None => Permission::Unknown,
    }
}

/// Lets the profiler watch a program. `watch` runs the program under the watcher that it is given and
/// lets it end; `folder` takes what the profiler writes.
pub fn record(
    ncu: &Ncu,
    folder: &Path,
    watch: impl FnOnce(&[OsString]) -> Result<Watched, Fault>,
) -> Result<Recording, NoRecording> {
    let (log, export) = (folder.join("ncu.log"), folder.join("profile"));
    let report = folder.join("profile.ncu-rep");
    let failed = |fault: Fault| NoRecording::failed(&ncu.path, in_full(&fault));
    let watched = watch(&watcher(ncu, &log, &export)).map_err(failed)?;
    let said = fs::read_to_string(&log).unwrap_or_default();
    if let Err(forbidden @ TableError::Forbidden) = table::parse(&said) {
        return Err(NoRecording::new(forbidden.to_string(), HOW_TO_ALLOW));
    }
    if let Some(fault) = watched.fault {
        let reason = format!("the kernel did not run under the profiler: {fault}");
        return Err(NoRecording::new(reason, &quoted(&said)));
    }
    if !report.is_file() {
        let ended = watched.status.map_or("did not end in time".to_string(), |it| it.to_string());
        let reason = format!("{} wrote no report ({ended})", ncu.path.display());
        return Err(NoRecording::new(reason, &quoted(&said)));
    }
    let csv = import(ncu, &report, folder, IMPORT_DEADLINE).map_err(failed)?;
    let launches = table::parse(&csv).map_err(|error| {
        let how = match error {
            TableError::Forbidden => HOW_TO_ALLOW.to_string(),
            _ => quoted(&said),
        };
        NoRecording::new(error.to_string(), &how)
    })?;
    let report = fs::read(&report).map_err(|error| {
        NoRecording::failed(&ncu.path, format!("{}: {error}", report.display()))
    })?;
    Ok(Recording { launches, csv, report })
}

/// Says a fault with what caused it.
fn in_full(fault: &Fault) -> String {
    match std::error::Error::source(fault) {
        Some(cause) => format!("{fault}: {cause}"),
        None => fault.to_string(),
    }
}

fn quoted(said: &str) -> String {
    let words: Vec<&str> = said.split_whitespace().collect();
    let start: String = words.join(" ").chars().take(QUOTED_CHARS).collect();
    match start.is_empty() {
        true => "it said nothing".to_string(),
        false => format!("it said: {start}"),
    }
}

/// The profiler with its arguments, in front of the program that it watches.
fn watcher(ncu: &Ncu, log: &Path, export: &Path) -> Vec<OsString> {
    let mut command: Vec<OsString> = vec![ncu.path.clone().into()];
    command.extend(
        [
            // Whoever runs this may have settings of their own.
            "--config-file",
            "off",
            "--target-processes",
            "all",
            // Clocks as the times were taken with, caches cold as they were taken with.
            "--clock-control",
            "none",
            "--cache-control",
            "all",
            "--set",
            "full",
            "--force-overwrite",
            "--log-file",
        ]
        .map(OsString::from),
    );
    command.extend([log.into(), "--export".into(), export.into()]);
    command
}

/// Prints a report as a table.
fn import(ncu: &Ncu, report: &Path, folder: &Path, deadline: Duration) -> Result<String, Fault> {
    let failed = running(&ncu.path);
    let path = folder.join("profile.csv");
    let mut child = Command::new(&ncu.path)
        .args(["--config-file", "off", "--csv", "--page", "raw", "--print-units", "base"])
        .arg("--import")
        .arg(report)
        .stdin(Stdio::null())
        .stdout(File::create(&path).map_err(&failed)?)
        .stderr(Stdio::null())
        .spawn()
        .map_err(&failed)?;
    let started = Instant::now();
    while child.try_wait().map_err(&failed)?.is_none() {
        if started.elapsed() > deadline {
            // It may have ended just now; both are well.
            let _ = child.kill();
            child.wait().map_err(&failed)?;
            return Err(Fault::TimedOut { limit_s: deadline.as_secs_f64() });
        }
        std::thread::sleep(LOOK);
    }
    // Whatever its status, what it printed says more.
    let bytes = fs::read(&path).map_err(&failed)?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

fn running(what: &Path) -> impl Fn(std::io::Error) -> Fault {
    let what = format!("using {}", what.display());
    move |source| Fault::Broken { what: what.clone(), source }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    const TABLE: &str = "\"ID\",\"Kernel Name\",\"gpu__time_duration.sum\"\n\"\",\"\",\"ns\"\n\
                         \"0\",\"saxpy\",\"2,688\"\n";

    /// A program that takes the profiler's place: with `--import` it prints a table, else it logs
    /// `said` and writes a report unless that is empty.
    fn stand_in(folder: &Path, said: &str, report: &str, table: &str) -> Ncu {
        let path = folder.join("ncu");
        let script = format!(
            "#!/bin/sh\nimport=\nwhile [ $# -gt 0 ]; do case $1 in\n\
             --version) echo 'Version 2099.1.0.0 (build 1)'; exit;;\n\
             --import) import=1;;\n--log-file) log=$2; shift;;\n--export) out=$2; shift;;\n\
             esac; shift; done\n\
             if [ $import ]; then cat '{0}/table'; exit; fi\n\
             printf '%s' '{said}' > $log\n[ -z '{report}' ] || printf '%s' '{report}' > $out.ncu-rep\n",
            folder.display()
        );
        fs::write(folder.join("table"), table).expect("a table");
        fs::write(&path, script).expect("a script");
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).expect("executable");
        Ncu { path, version: "2099".to_string() }
    }

    fn recorded(said: &str, report: &str, table: &str) -> Result<Recording, NoRecording> {
        let folder = tempfile::tempdir().expect("a folder");
        let ncu = stand_in(folder.path(), said, report, table);
        record(&ncu, folder.path(), |watcher| {
            let status = Command::new(&watcher[0]).args(&watcher[1..]).arg("true").status();
            Ok(Watched { status: Some(status.expect("it runs")), n_run: 1, fault: None })
        })
    }

    #[test]
    fn a_recording_has_the_report_the_table_and_the_launches() {
        let recording = recorded("==PROF== fine", "REPORT", TABLE).expect("a recording");
        assert_eq!(recording.report, b"REPORT");
        assert_eq!(recording.csv, TABLE);
        assert_eq!(recording.launches.len(), 1);
        assert_eq!(recording.launches[0].kernel, "saxpy");
        assert!((recording.launches[0].metrics["gpu__time_duration.sum"] - 2.688e-6).abs() < 1e-12);
    }

    #[test]
    fn why_there_is_no_recording_is_said_with_what_to_do() {
        let check = |said: &str, report: &str, table: &str, expected: &[&str]| {
            let found = recorded(said, report, table).expect_err("no recording").to_string();
            for words in expected {
                assert!(found.contains(words), "`{words}` is not in `{found}`");
            }
        };
        let forbidden = "==ERROR== ERR_NVGPUCTRPERM - The user does not have permission";
        let how = ["NVreg_RestrictProfilingToAdminUsers=0", "CAP_SYS_ADMIN"];
        check(forbidden, "", "", &how);
        check(forbidden, "REPORT", TABLE, &how);
        check("==ERROR== out of luck", "", "", &["wrote no report", "out of luck"]);
        check("", "", "", &["wrote no report", "said nothing"]);
        check("==PROF== fine", "REPORT", "", &["no table of metrics", "fine"]);
        check("==PROF== fine", "REPORT", &TABLE[..TABLE.len() - 10], &["cut off"]);
    }

    #[test]
    fn a_profiler_that_cannot_be_run_or_hangs_is_told() {
        let folder = tempfile::tempdir().expect("a folder");
        let ncu = stand_in(folder.path(), "", "REPORT", TABLE);
        let broken = || Fault::Broken {
            what: "starting the device process".to_string(),
            source: std::io::Error::other("no such program"),
        };
        let found = record(&ncu, folder.path(), |_| Err(broken())).expect_err("no recording");
        assert!(found.reason.contains("starting the device process: no such program"), "{found}");
        // It writes its report, and is gone when that is to be read.
        let found = record(&ncu, folder.path(), |watcher| {
            let status = Command::new(&watcher[0]).args(&watcher[1..]).status();
            fs::remove_file(&watcher[0]).expect("removed");
            Ok(Watched { status: status.ok(), n_run: 1, fault: None })
        });
        let found = found.expect_err("no recording");
        assert!(found.reason.contains("failed: using"), "{found}");
        // It does not come to an end.
        fs::write(&ncu.path, "#!/bin/sh\nexec sleep 60\n").expect("a script");
        fs::set_permissions(&ncu.path, fs::Permissions::from_mode(0o755)).expect("executable");
        let soon = Duration::from_millis(50);
        let found = import(&ncu, &ncu.path, folder.path(), soon).expect_err("no table");
        assert!(matches!(found, Fault::TimedOut { .. }), "{found}");
    }

    #[test]
    fn a_kernel_that_crashes_under_the_profiler_is_told() {
        let folder = tempfile::tempdir().expect("a folder");
        let ncu = stand_in(folder.path(), "", "", "");
        let cause = warpsmith_model::CrashCause::Device { message: "misaligned".to_string() };
        let crashed = || Ok(Watched { status: None, n_run: 0, fault: Some(Fault::Crashed(cause)) });
        let found = record(&ncu, folder.path(), |_| crashed()).expect_err("no recording");
        assert!(found.to_string().contains("misaligned"), "{found}");
    }

    #[test]
    fn the_driver_says_who_may_look() {
        let check = |params: &str, expected| assert_eq!(permission_in(params), expected);
        check("", Permission::Unknown);
        check("ResmanDebugLevel: 4294967295\nRmProfilingAdminOnly: 1\n", Permission::AdminOnly);
        check("RmProfilingAdminOnly: 0\n", Permission::Everybody);
    }

    #[test]
    fn the_version_is_found_in_its_words() {
        let words = "NVIDIA (R) Nsight Compute Command Line Profiler\n\
                     Copyright (c) 2018-2025 NVIDIA Corporation\n\
                     Version 2025.3.1.0 (build 36398880) (public-release)\n";
        assert_eq!(version_in(words), "2025.3.1.0 (build 36398880) (public-release)");
        assert_eq!(version_in(""), "unknown");
    }
}
