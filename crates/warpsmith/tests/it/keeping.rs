//! How evidence is kept: who may read it, what ends a run in order, what was changed, what cannot be written.

use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Command, Stdio};

use crate::support::{Project, text, wait_for};

fn mode(path: &Path) -> u32 {
    std::fs::metadata(path).expect("it is there").permissions().mode() & 0o777
}

/// A project with the evidence of one check.
fn checked(arguments: &[&str]) -> Project {
    let project = Project::new();
    let mut all = vec!["check", "labs/probe", "--kernel", "00_naive", "--quick"];
    all.extend(arguments);
    project.ok(&all);
    project
}

#[test]
fn hanging_up_and_terminating_end_a_run_as_ctrl_c_does() {
    for (signal, status) in [("INT", 130), ("TERM", 143), ("HUP", 129)] {
        let project = Project::new();
        // Whoever runs the tests may have chosen to ignore some of them.
        let mut campaign = Command::new("env")
            .args(["--default-signal=INT,TERM,HUP", env!("CARGO_BIN_EXE_warpsmith")])
            .args(["tune", "labs/probe", "--budget", "400", "--time", "600", "--seed", "5"])
            .current_dir(project.path())
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .expect("the program starts");
        let n_trials = || {
            let store = project.store_if_made()?;
            let run = store.run("latest").ok()?;
            Some(store.trials(&run.id).ok()?.len())
        };
        wait_for("trials", || n_trials().is_some_and(|trials| trials >= 2));
        let pid = campaign.id().to_string();
        let sent = Command::new("kill").args([&format!("-{signal}"), &pid]).status();
        assert!(sent.expect("kill runs").success());
        let ended = campaign.wait().expect("it ends");
        let mut said = String::new();
        let stderr = campaign.stderr.as_mut().expect("it is piped");
        std::io::Read::read_to_string(stderr, &mut said).expect("text");
        assert_eq!((ended.code(), ended.signal()), (Some(status), None), "{signal}: {said}");
        assert!(said.contains("stopped on request"), "{signal}: {said}");
        assert_eq!(project.statuses(), ["interrupted"], "{signal}");
        // Whatever was begun is recorded, or is not there.
        assert_eq!(project.store().verify().expect("checked"), Vec::<String>::new());
        assert_eq!(project.json(&["verify"])["sound"], true);
    }
}

#[test]
fn a_run_that_nohup_started_outlives_its_terminal() {
    let project = Project::new();
    let mut campaign = Command::new("env")
        .args(["--ignore-signal=HUP", env!("CARGO_BIN_EXE_warpsmith")])
        .args(["tune", "labs/probe", "--budget", "400", "--time", "600", "--seed", "5"])
        .current_dir(project.path())
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .expect("the program starts");
    let n_trials = || {
        let store = project.store_if_made()?;
        let run = store.run("latest").ok()?;
        Some(store.trials(&run.id).ok()?.len())
    };
    let reaches = |trials: usize| n_trials().is_some_and(|there| there >= trials);
    wait_for("trials", || reaches(2));
    let pid = campaign.id().to_string();
    let sent = Command::new("kill").args(["-HUP", &pid]).status();
    assert!(sent.expect("kill runs").success());
    let before = n_trials().expect("a run");
    wait_for("more trials", || reaches(before + 3));
    campaign.kill().expect("it still runs");
    campaign.wait().expect("it is gone");
}

#[test]
fn evidence_is_its_owners_alone_unless_asked() {
    let project = checked(&[]);
    project.ok(&["report"]);
    project.ok(&["export", "latest"]);
    let mut seen = 0;
    let mut folders = vec![project.path().join("evidence")];
    while let Some(folder) = folders.pop() {
        assert_eq!(mode(&folder), 0o700, "{}", folder.display());
        for entry in std::fs::read_dir(&folder).expect("the folder").flatten() {
            if entry.path().is_dir() {
                folders.push(entry.path());
                continue;
            }
            assert_eq!(mode(&entry.path()) & 0o077, 0, "{}", entry.path().display());
            seen += 1;
        }
    }
    assert!(seen >= 6, "{seen} files");
    assert_eq!(project.json(&["verify"])["readable_by_others"], false);

    let shared = checked(&["--shared"]);
    // As the umask lets them, which is for the folder as for any other.
    let plain = shared.path().join("plain");
    std::fs::create_dir(&plain).expect("made");
    assert_eq!(mode(&shared.path().join("evidence")), mode(&plain));
    let file = plain.join("file");
    std::fs::write(&file, "").expect("written");
    assert_eq!(mode(&shared.database()), mode(&file) & 0o644);
}

#[test]
fn what_was_changed_is_found_and_named() {
    let project = checked(&[]);
    let sound = project.json(&["verify"]);
    assert_eq!((sound["sound"].as_bool(), sound["unsigned"].as_u64()), (Some(true), Some(0)));
    let trials = sound["checked"].as_array().expect("a list");
    assert!(trials.iter().any(|one| one["kind"] == "trials" && one["rows"] != 0), "{sound}");
    // One bit of one digit of the trial's own time, wherever it lies in the file.
    let mut bytes = std::fs::read(project.database()).expect("the file");
    let needle = b"\"wall_s\":";
    let at = bytes.windows(needle.len()).position(|window| window == needle).expect("a time");
    bytes[at + needle.len()] ^= 1;
    std::fs::write(project.database(), bytes).expect("damaged");
    let output = project.run(&["verify", "--json"]);
    assert_eq!(output.status.code(), Some(1), "{}", text(&output.stderr));
    let found: serde_json::Value = serde_json::from_slice(&output.stdout).expect("JSON");
    assert_eq!(found["sound"], false);
    let faults = found["faults"].to_string();
    assert!(faults.contains("is not what was recorded"), "{faults}");
    let mut bytes = std::fs::read(project.database()).expect("the file");
    let sound = bytes.clone();
    bytes[3] ^= 1;
    std::fs::write(project.database(), bytes).expect("a damaged header");
    project.fails(1, &["verify"]);
    std::fs::write(project.database(), sound).expect("as before");
    for arguments in [&["report"][..], &["show"], &["export", "latest", "--format", "json"]] {
        let said = project.fails(1, arguments);
        assert!(
            said.contains("not what was recorded") && said.contains("warpsmith verify"),
            "{said}"
        );
    }
}

/// What a disk did to an earlier run costs that run, and no later one.
#[test]
fn a_later_run_leaves_out_what_is_damaged() {
    let project = Project::new();
    let tune = ["tune", "labs/probe", "--budget", "2", "--micro-limit", "2", "--seed", "5"];
    project.ok(&tune);
    let mut bytes = std::fs::read(project.database()).expect("the file");
    // One bit of one digit in each trial, and the same in what the run says of itself.
    for needle in [&b"\"wall_s\":"[..], b"\"budget_trials\":"] {
        let places: Vec<usize> =
            (0..bytes.len()).filter(|at| bytes[*at..].starts_with(needle)).collect();
        assert!(!places.is_empty());
        places.into_iter().for_each(|at| bytes[at + needle.len()] ^= 1);
    }
    std::fs::write(project.database(), bytes).expect("damaged");
    let output = project.run(&tune);
    let said = text(&output.stderr);
    assert!(output.status.success(), "{said}");
    assert!(said.contains("note: left out: trial "), "{said}");
    let output = project.run(&["runs", "--json"]);
    assert_eq!(output.status.code(), Some(1), "{}", text(&output.stderr));
    let listed: serde_json::Value = serde_json::from_slice(&output.stdout).expect("JSON");
    assert_eq!(listed["runs"].as_array().map(Vec::len), Some(1), "{listed}");
    assert!(
        listed["damaged"][0].as_str().is_some_and(|it| it.starts_with("run `probe-")),
        "{listed}"
    );
    project.ok(&["report"]);
}

#[test]
fn results_go_to_standard_output_where_nothing_can_be_written() {
    let project = checked(&[]);
    let page = project.ok(&["report", "--out", "-"]);
    assert!(page.starts_with("<!doctype html>") && page.trim_end().ends_with("</html>"));
    let everything = project.ok(&["export", "latest", "--format", "json", "--out", "-"]);
    let everything: serde_json::Value = serde_json::from_str(&everything).expect("JSON");
    assert!(everything["trials"].as_array().is_some_and(|trials| !trials.is_empty()));
    // Whoever reads it has seen enough.
    let export = ["export", "latest", "--format", "json", "--out", "-"];
    let (reader, writer) = std::io::pipe().expect("a pipe");
    drop(reader);
    let output = project.command(&export).stdout(writer).output().expect("it ends");
    assert!(output.status.success() && output.stderr.is_empty(), "{output:?}");
    let said = project.fails(2, &["export", "latest", "--out", "-"]);
    assert!(said.contains("--format json"), "{said}");
}

/// A slip of the hand costs no evidence and no source.
#[test]
fn only_what_a_command_wrote_itself_is_replaced() {
    let project = checked(&[]);
    let database = project.database();
    let database = database.to_str().expect("text");
    let source = std::fs::read_dir(project.lab().join("kernels"))
        .expect("kernels")
        .map(|entry| entry.expect("an entry").path())
        .find(|path| path.extension().is_some_and(|extension| extension == "c"))
        .expect("a source");
    let text_before = std::fs::read_to_string(&source).expect("a source");
    let source = source.to_str().expect("text");
    for target in [database, source] {
        let said = project.fails(2, &["report", "--out", target]);
        assert!(
            said.contains("left as it is") && said.contains("hint: name another file"),
            "{said}"
        );
        let said = project.fails(2, &["run", "labs/probe", "--report", target]);
        assert!(said.contains("left as it is"), "{said}");
    }
    assert_eq!(project.json(&["verify"])["sound"], true);
    assert_eq!(project.statuses().len(), 1, "a run began, whose report could not be written");
    assert_eq!(std::fs::read_to_string(source).expect("a source"), text_before);
    project.ok(&["report", "--out", "page.html"]);
    project.ok(&["report", "--out", "page.html"]);

    let space = project.path().join("in.json");
    std::fs::write(&space, r#"{"name": "s", "params": {"A": [1, 2]}}"#).expect("written");
    let convert = ["convert", "in.json", "out.json", "--format", "space"];
    project.ok(&convert);
    let said = project.fails(2, &convert);
    assert!(said.contains("--force"), "{said}");
    project.ok(&[&convert[..], &["--force"]].concat());
    let said = project.fails(2, &["convert", "in.json", database, "--format", "space", "--force"]);
    assert!(said.contains("belongs to a database"), "{said}");
    assert_eq!(project.json(&["verify"])["sound"], true);
}

/// Many exports of one run at the same time leave whole files, and nothing else.
#[test]
fn exports_at_the_same_time_do_not_mix() {
    let project = checked(&[]);
    let start = || {
        let mut command = project.command(&["export", "latest", "--format", "all"]);
        command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().expect("it starts")
    };
    let exports: Vec<_> = (0..6).map(|_| start()).collect();
    for export in exports {
        let output = export.wait_with_output().expect("it ends");
        assert!(output.status.success(), "{}", text(&output.stderr));
    }
    let folder = project.json(&["export", "latest"])["files"][0].to_string();
    let folder = project.path().join(folder.trim_matches('"'));
    let folder = folder.parent().expect("a folder");
    for entry in std::fs::read_dir(folder).expect("the folder").flatten() {
        let name = entry.file_name().to_string_lossy().into_owned();
        assert!(!name.contains(".part"), "{name} was left behind");
        if name.ends_with(".json") {
            let text = std::fs::read_to_string(entry.path()).expect("the file");
            serde_json::from_str::<serde_json::Value>(&text).expect("whole");
        }
    }
}
