//! What was acknowledged stays, whatever happens to the process or to the disk.

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use warpsmith_evidence::{Store, StoreError};
use warpsmith_model::{RunId, rng::Rng};

use crate::fixture::{START, Sketch, environment, record, store_with_run};

/// Where the child process finds its store.
const STORE: &str = "WARPSMITH_TEST_STORE";
/// Where the child's trials begin, so that they differ from those of the children before it.
const SALT: &str = "WARPSMITH_TEST_SALT";

/// The other process of the tests below: appends trials for ever, and prints each one's id once
/// the store has acknowledged it.
#[test]
#[ignore = "the child process of the other tests in this file"]
#[expect(clippy::print_stdout, reason = "the parent reads the ids")]
fn child_appends_until_it_is_stopped() {
    let path = PathBuf::from(std::env::var_os(STORE).expect("started by its parent"));
    let first: u64 = std::env::var(SALT).expect("started by its parent").parse().expect("a number");
    let store = Store::open(&path).expect("the parent's store");
    for salt in first.. {
        let finding = Sketch { salt, ..Sketch::tile(8, 1e-5, 1e-4) }.finding();
        match store.append(&RunId("tiles-1".to_string()), &finding, START) {
            Ok(_) => println!("recorded {}", finding.trial.id),
            Err(error) => {
                println!("refused {error}");
                // The store must be usable after a failed write.
                println!("readable {}", store.runs().expect("runs")[0].trials);
                return;
            }
        }
    }
}

fn child_command(program: &Path) -> Command {
    let mut command = Command::new(program);
    command.stdout(Stdio::piped()).stderr(Stdio::null());
    command
}

const CHILD_ARGUMENTS: [&str; 4] =
    ["--exact", "durability::child_appends_until_it_is_stopped", "--ignored", "--nocapture"];

/// Reads a whole id from a line of the child's.
fn acknowledged_id(line: &str) -> Option<String> {
    let (_, id) = line.split_once("recorded ")?;
    (id.len() == 64).then(|| id.to_string())
}

/// Kills the child when a test fails half-way.
struct Killed(Child);

impl Drop for Killed {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn nothing_acknowledged_is_lost_to_kill_nine() {
    const KILLS: u64 = 20;
    let folder = tempfile::tempdir().expect("a folder");
    let (store, record) = store_with_run(folder.path(), "tiles-1");
    let path = store.path().to_path_buf();
    drop(store);
    let mut rng = Rng::derive(0, "kill");
    let mut acknowledged: Vec<String> = Vec::new();
    for kill in 0..KILLS {
        let program = std::env::current_exe().expect("this test");
        let mut child = child_command(&program)
            .args(CHILD_ARGUMENTS)
            .env(STORE, &path)
            .env(SALT, (kill * 1_000_000).to_string())
            .spawn()
            .map(Killed)
            .expect("a child");
        let mut lines = BufReader::new(child.0.stdout.take().expect("piped")).lines();
        let mut seen = 0;
        let enough = 1 + rng.below(12);
        while seen < enough {
            let line = lines.next().expect("the child goes on").expect("readable");
            seen += usize::from(acknowledged_id(&line).is_some());
            acknowledged.extend(acknowledged_id(&line));
        }
        // In the middle of one of the next appends, wherever that happens to be.
        std::thread::sleep(Duration::from_micros(rng.below(6000) as u64));
        child.0.kill().expect("killed");
        child.0.wait().expect("gone");
        // What it printed before it died counts as well; a torn last line does not.
        acknowledged.extend(lines.map_while(Result::ok).filter_map(|line| acknowledged_id(&line)));

        let store = Store::open(&path).expect("the store opens after a kill");
        assert_eq!(store.verify().expect("checked"), Vec::<String>::new(), "after kill {kill}");
        for id in &acknowledged {
            store.trial(id).unwrap_or_else(|error| panic!("after kill {kill}: {error}"));
        }
    }
    let stored = Store::open_read_only(&path).expect("the store");
    let n_stored = stored.summaries(&record.id).expect("summaries").len();
    assert!(acknowledged.len() >= KILLS as usize, "the children got nothing done");
    assert!(n_stored >= acknowledged.len(), "{n_stored} of {}", acknowledged.len());
}

/// A limit on file sizes stands in for a full disk: the system refuses the write either way.
#[test]
fn a_full_disk_is_reported_and_loses_nothing() {
    let folder = tempfile::tempdir().expect("a folder");
    let (store, record) = store_with_run(folder.path(), "tiles-1");
    let path = store.path().to_path_buf();
    drop(store);
    let program = std::env::current_exe().expect("this test");
    // The shell ignores the signal that comes with the limit, and so does what it becomes.
    let script = "trap '' XFSZ; ulimit -f 1024; exec \"$0\" \"$@\"";
    let output = child_command(Path::new("bash"))
        .args(["-c", script])
        .arg(program)
        .args(CHILD_ARGUMENTS)
        .env(STORE, &path)
        .env(SALT, "0")
        .output()
        .expect("a child with a limit");
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    let acknowledged: Vec<String> = said.lines().filter_map(acknowledged_id).collect();
    assert!(!acknowledged.is_empty(), "nothing fitted: {said}");
    let refusal = said.lines().find(|line| line.contains("refused ")).expect("it ran full");
    assert!(refusal.contains("evidence.db"), "names the file: {refusal}");
    assert!(refusal.contains("everything recorded so far is kept"), "{refusal}");
    assert!(said.contains(&format!("readable {}", acknowledged.len())), "{said}");

    let store = Store::open(&path).expect("the store opens again");
    assert_eq!(store.verify().expect("checked"), Vec::<String>::new());
    for id in &acknowledged {
        store.trial(id).expect("kept");
    }
    let next = Sketch { salt: 1 << 40, ..Sketch::tile(8, 1e-5, 1e-4) }.finding();
    store.append(&record.id, &next, START).expect("goes on once there is room");
}

/// A power cut leaves whatever was not synced; a torn end of the log is the worst of it.
#[test]
fn a_torn_log_costs_only_what_was_never_acknowledged() {
    let folder = tempfile::tempdir().expect("a folder");
    let (store, record) = store_with_run(folder.path(), "tiles-1");
    let findings: Vec<_> =
        (0..5).map(|salt| Sketch { salt, ..Sketch::tile(8, 1e-5, 1e-4) }.finding()).collect();
    for finding in &findings[..4] {
        store.append(&record.id, finding, START).expect("recorded");
    }
    let wal = folder.path().join("evidence.db-wal");
    let whole = std::fs::metadata(&wal).expect("a log").len();
    store.append(&record.id, &findings[4], START).expect("recorded");
    let later = std::fs::metadata(&wal).expect("a log").len();
    // The files as they would be found: the log ends in the middle of the fifth trial.
    let torn = tempfile::tempdir().expect("another folder");
    let torn_path = torn.path().join("evidence.db");
    std::fs::copy(store.path(), &torn_path).expect("a copy");
    let mut log = std::fs::read(&wal).expect("the log");
    log.truncate(((whole + later) / 2) as usize);
    std::fs::write(torn.path().join("evidence.db-wal"), log).expect("a torn log");

    let survivor = Store::open(&torn_path).expect("opens");
    assert_eq!(survivor.verify().expect("checked"), Vec::<String>::new());
    let ids: Vec<_> =
        survivor.trials(&record.id).expect("trials").iter().map(|trial| trial.trial.id).collect();
    assert_eq!(ids, findings[..4].iter().map(|finding| finding.trial.id).collect::<Vec<_>>());
}

#[test]
fn an_environment_must_be_known_before_its_runs() {
    let folder = tempfile::tempdir().expect("a folder");
    let store = Store::open(&folder.path().join("evidence.db")).expect("a store");
    let error = store.start_run(&record("early", START)).expect_err("no environment");
    assert!(matches!(error, StoreError::UnknownEnvironment { .. }), "{error}");
    store.put_environment(&environment()).expect("kept");
    store.put_environment(&environment()).expect("kept once");
    store.start_run(&record("early", START)).expect("a run");
}
