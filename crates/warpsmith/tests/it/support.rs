//! A project in a temporary folder, and the program to run in it.

use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;
use tempfile::TempDir;
use warpsmith_evidence::Store;

/// A project with a small lab of its own.
pub(crate) struct Project {
    dir: TempDir,
}

impl Project {
    /// Makes a project around the lab that `warpsmith new` writes.
    pub(crate) fn new() -> Self {
        let project = Self { dir: TempDir::new().expect("a temporary folder") };
        let made = project.run(&["new", "probe"]);
        assert!(made.status.success(), "{}", text(&made.stderr));
        project
    }

    /// Makes an environment the project's own, as `warpsmith setup` would.
    pub(crate) fn use_python(&self, environment: &Path) {
        let own = self.path().join(".warpsmith");
        std::fs::create_dir_all(&own).expect("made");
        std::os::unix::fs::symlink(environment, own.join("venv")).expect("linked");
    }

    pub(crate) fn path(&self) -> &Path {
        self.dir.path()
    }

    pub(crate) fn lab(&self) -> PathBuf {
        self.path().join("labs/probe")
    }

    /// The program, to be run in the project's folder.
    pub(crate) fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_warpsmith"));
        command.args(arguments).current_dir(self.path()).stdin(Stdio::null());
        command
    }

    pub(crate) fn run(&self, arguments: &[&str]) -> Output {
        self.command(arguments).output().expect("the program starts")
    }

    /// Runs, expects success, and returns what it printed.
    pub(crate) fn ok(&self, arguments: &[&str]) -> String {
        let output = self.run(arguments);
        assert!(
            output.status.success(),
            "warpsmith {arguments:?} exited with {}\n{}",
            output.status,
            text(&output.stderr)
        );
        text(&output.stdout)
    }

    /// Runs with `--json`, expects success, and returns the document.
    pub(crate) fn json(&self, arguments: &[&str]) -> Value {
        let mut all = arguments.to_vec();
        all.push("--json");
        let printed = self.ok(&all);
        serde_json::from_str(&printed).unwrap_or_else(|error| panic!("{error}: {printed}"))
    }

    /// Runs, expects this exit status, and returns what it said.
    pub(crate) fn fails(&self, status: i32, arguments: &[&str]) -> String {
        let output = self.run(arguments);
        let said = text(&output.stderr);
        assert_eq!(output.status.code(), Some(status), "warpsmith {arguments:?} said\n{said}");
        said
    }

    /// Starts a campaign and kills it when it has stored this many trials.
    pub(crate) fn killed_after(&self, trials: usize, arguments: &[&str]) {
        let n_runs = || self.store_if_made().and_then(|store| Some(store.runs().ok()?.len()));
        let before = n_runs().unwrap_or(0);
        let mut campaign = self
            .command(arguments)
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .expect("the program starts");
        let stored = || {
            let store = self.store_if_made()?;
            let run = store.run("latest").ok()?;
            Some(store.trials(&run.id).ok()?.len())
        };
        wait_for("trials", || {
            n_runs().is_some_and(|runs| runs > before)
                && stored().is_some_and(|stored| stored >= trials)
        });
        campaign.kill().expect("it can be killed");
        campaign.wait().expect("it is gone");
    }

    /// The status of every run, newest first.
    pub(crate) fn statuses(&self) -> Vec<String> {
        let runs = self.store().runs().expect("its runs");
        runs.iter().map(|run| run.record.status.name().to_string()).collect()
    }

    pub(crate) fn database(&self) -> PathBuf {
        self.path().join("evidence/evidence.db")
    }

    pub(crate) fn store(&self) -> Store {
        Store::open_read_only(&self.database()).expect("the store opens")
    }

    /// The store once there is one: a campaign that was killed while it made the file has none.
    pub(crate) fn store_if_made(&self) -> Option<Store> {
        Store::open_read_only(&self.database()).ok()
    }

    /// The evaluations of the newest run, as (candidate, fidelity) in order.
    pub(crate) fn evaluations(&self) -> Vec<(String, String)> {
        let store = self.store();
        let run = store.run("latest").expect("a run");
        store
            .trials(&run.id)
            .expect("its trials")
            .into_iter()
            .map(|stored| {
                let job = stored.trial.job;
                (job.candidate.id.to_string(), job.fidelity.name().to_string())
            })
            .collect()
    }
}

pub(crate) fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// Waits until a condition holds.
pub(crate) fn wait_for(what: &str, mut condition: impl FnMut() -> bool) {
    let start = Instant::now();
    while !condition() {
        // Campaigns wait for each other on a machine, and it may be a busy one.
        assert!(start.elapsed() < Duration::from_secs(300), "waited five minutes for {what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// The processes whose command line holds both words, by the /proc file system.
pub(crate) fn processes_with(words: &[&str]) -> Vec<u32> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir("/proc").expect("/proc").flatten() {
        let Some(pid) = entry.file_name().to_str().and_then(|name| name.parse().ok()) else {
            continue;
        };
        let Ok(line) = std::fs::read(entry.path().join("cmdline")) else { continue };
        let line = text(&line);
        if words.iter().all(|word| line.contains(word)) {
            found.push(pid);
        }
    }
    found
}

pub(crate) fn kill(pid: u32) {
    // The process may have ended by itself in the meantime.
    let _gone = Command::new("kill").args(["-9", &pid.to_string()]).output();
}
