//! Bad luck and bad input: each gets a clear message, and nothing recorded is lost.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, Stdio};

use crate::support::{Project, kill, processes_with, text, wait_for};

/// Far more trials than it stores before it is killed.
const LONG: [&str; 8] = ["tune", "labs/probe", "--budget", "400", "--time", "4", "--seed", "1"];

const QUICK: [&str; 8] = ["tune", "labs/probe", "--budget", "4", "--time", "600", "--seed", "1"];

#[test]
fn a_corrupt_store_is_named_and_left_alone() {
    let project = Project::new();
    fs::create_dir_all(project.path().join("evidence")).expect("a folder");
    let garbage = vec![0x5a_u8; 8192];
    fs::write(project.database(), &garbage).expect("written");
    let said = project.fails(2, &QUICK);
    assert!(said.contains("evidence.db"), "{said}");
    assert_eq!(fs::read(project.database()).expect("still there"), garbage);
}

#[test]
fn a_store_of_a_newer_version_is_refused() {
    let project = Project::new();
    project.ok(&QUICK);
    let bump = Command::new("python3")
        .arg("-c")
        .arg("import sqlite3,sys; c=sqlite3.connect(sys.argv[1]); c.execute('PRAGMA user_version=999')")
        .arg(project.database())
        .output()
        .expect("python3 runs");
    assert!(bump.status.success(), "{}", text(&bump.stderr));
    let said = project.fails(2, &["runs"]);
    assert!(said.contains("999") || said.contains("newer"), "{said}");
}

#[test]
fn an_evidence_folder_that_cannot_be_made_is_named() {
    let project = Project::new();
    // A file where the folder should be: what a read-only place is to everyone, root included.
    fs::write(project.path().join("evidence"), "in the way").expect("written");
    let said = project.fails(2, &QUICK);
    assert!(said.contains("evidence"), "{said}");
    assert!(said.contains("--evidence"), "{said}");
}

#[test]
fn a_result_that_cannot_be_written_is_an_error() {
    let project = Project::new();
    // Takes nothing, like a file on a disk that is full.
    let full = fs::OpenOptions::new().write(true).open("/dev/full").expect("it is there");
    let output = project.command(&["schema", "lab"]).stdout(full).stderr(Stdio::piped()).output();
    let output = output.expect("the program starts");
    assert_eq!(output.status.code(), Some(2));
    assert!(text(&output.stderr).contains("cannot write"), "{}", text(&output.stderr));
}

#[test]
fn a_full_disk_stops_the_campaign_and_keeps_what_was_recorded() {
    let project = Project::new();
    let mount = project.path().join("small");
    fs::create_dir(&mount).expect("a folder");
    let mounted = Command::new("mount")
        .args(["-t", "tmpfs", "-o", "size=448k", "tmpfs"])
        .arg(&mount)
        .output()
        .expect("mount runs");
    assert!(
        mounted.status.success(),
        "this test needs a small tmpfs, and so root: {}",
        text(&mounted.stderr)
    );
    let evidence = mount.display().to_string();
    let arguments = [
        "tune",
        "labs/probe",
        "--budget",
        "400",
        "--time",
        "1200",
        "--seed",
        "1",
        "--evidence",
        &evidence,
    ];
    let output = project.run(&arguments);
    let said = text(&output.stderr);
    let listed = project.run(&["runs", "--evidence", &evidence]);
    let unmounted = Command::new("umount").arg("-l").arg(&mount).status().expect("umount runs");
    assert!(unmounted.success());
    assert_eq!(output.status.code(), Some(2), "{said}");
    assert!(said.contains("full"), "{said}");
    assert!(listed.status.success(), "{}", text(&listed.stderr));
    assert!(text(&listed.stdout).contains("probe"), "{}", text(&listed.stdout));
}

#[test]
fn two_campaigns_share_one_store() {
    let project = Project::new();
    let start = |seed: &str| {
        project
            .command(&["tune", "labs/probe", "--budget", "5", "--time", "600", "--seed", seed])
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("the program starts")
    };
    let (one, other) = (start("1"), start("2"));
    for campaign in [one, other] {
        let output = campaign.wait_with_output().expect("it ends");
        assert!(output.status.success(), "{}", text(&output.stderr));
    }
    let runs = project.json(&["runs"]);
    let finished = runs["runs"].as_array().expect("runs");
    assert_eq!(finished.len(), 2, "{runs}");
    assert!(finished.iter().all(|run| run["status"]["status"] == "finished"), "{runs}");
}

#[test]
fn an_edited_lab_is_not_resumed() {
    let project = Project::new();
    project.killed_after(1, &LONG);
    let manifest = project.lab().join("lab.toml");
    let text = fs::read_to_string(&manifest).expect("the manifest");
    fs::write(&manifest, format!("{text}\n# a remark\n")).expect("written");
    let said = project.fails(2, &["resume", "latest"]);
    assert!(said.contains("was edited"), "{said}");
    assert!(said.contains("hint"), "{said}");
}

#[test]
fn what_cannot_be_resumed_is_left_as_it_is() {
    let project = Project::new();
    let kernel = ["check", "labs/probe", "--kernel", "00_naive", "--quick", "--time", "0.05"];
    project.ok(&kernel);
    let said = project.fails(2, &["resume"]);
    assert!(said.contains("there is no run to resume"), "{said}");
    assert!(said.contains("is a `check` run"), "{said}");
    assert_eq!(project.statuses(), ["finished"]);

    // A run that can be resumed is found behind one that cannot.
    project.killed_after(1, &LONG);
    let killed = project.store().run("latest").expect("a run").id;
    project.ok(&kernel);
    assert_eq!(project.statuses(), ["finished", "interrupted", "finished"]);
    let check = project.store().run("latest").expect("a run").id;
    let said = project.fails(2, &["resume", &check.0]);
    assert!(said.contains("is a `check` run"), "{said}");
    let resumed = project.json(&["resume"]);
    assert_eq!(resumed["run"], killed.0);
    assert_eq!(project.statuses(), ["finished", "finished", "finished"]);
    let said = project.fails(2, &["resume", &killed.0]);
    assert!(said.contains("has finished"), "{said}");
    assert_eq!(project.statuses(), ["finished", "finished", "finished"]);
}

#[test]
fn no_compiler_on_the_machine_is_said() {
    let project = Project::new();
    let output = project
        .command(&["check", "labs/probe"])
        .env("PATH", "/nonexistent")
        .output()
        .expect("the program starts");
    let said = text(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{said}");
    assert!(said.contains("`cc`") && said.contains("PATH"), "{said}");
}

/// Puts a program named `cc` first on the path.
fn with_compiler(project: &Project, script: &str) -> String {
    let bin = project.path().join("bin");
    fs::create_dir_all(&bin).expect("a folder");
    let cc = bin.join("cc");
    fs::write(&cc, script).expect("written");
    fs::set_permissions(&cc, fs::Permissions::from_mode(0o755)).expect("executable");
    format!("{}:{}", bin.display(), std::env::var("PATH").expect("a path"))
}

/// The real compiler for everything but one configuration.
fn mostly_good_compiler(evil: &str) -> String {
    format!(
        "#!/bin/sh\nfor a in \"$@\"; do case \"$a\" in --version) exec /usr/bin/cc \"$@\";; esac; \
         done\n{evil}\nexec /usr/bin/cc \"$@\"\n"
    )
}

#[test]
fn a_compiler_killed_in_the_middle_costs_one_trial_at_most() {
    let project = Project::new();
    let path = with_compiler(&project, &mostly_good_compiler("sleep 0.3"));
    let campaign = project
        .command(&["tune", "labs/probe", "--budget", "6", "--time", "600", "--seed", "1"])
        .env("PATH", path)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the program starts");
    let bin = project.path().join("bin/cc").display().to_string();
    // One that compiles; earlier it is asked for its version.
    let compilers = || processes_with(&[&bin, "-shared"]);
    wait_for("a compiler", || !compilers().is_empty());
    for pid in compilers() {
        kill(pid);
    }
    let output = campaign.wait_with_output().expect("it ends");
    let said = text(&output.stderr);
    // The lab's own reference may have been what was killed; then the message says so.
    let told = said.contains("compil");
    assert!(output.status.success() || told, "{said}");
    assert!(project.run(&["runs"]).status.success());
}

#[test]
fn cheats_in_the_middle_of_a_campaign_cost_one_trial_each() {
    let project = Project::new();
    let contract = project.lab().join("kernels");
    let tunable = fs::read_dir(&contract)
        .expect("kernels")
        .flatten()
        .map(|entry| entry.path())
        .filter(|path| path.extension().is_some_and(|ending| ending == "toml"))
        .find(|path| fs::read_to_string(path).expect("text").contains("[tunables]"))
        .expect("a kernel with tunables");
    inject_cheats(&tunable);
    let summary = project.json(&[
        "tune",
        "labs/probe",
        "--kernel",
        tunable.file_stem().and_then(|stem| stem.to_str()).expect("a name"),
        "--strategy",
        "exhaustive",
        "--budget",
        "400",
        "--time",
        "1200",
        "--seed-from",
        "none",
    ]);
    assert_eq!(summary["winner"]["params"]["CHEAT"], 0, "{summary}");
    let store = project.store();
    let run = store.run("latest").expect("a run");
    let verdicts: std::collections::BTreeSet<&str> = store
        .summaries(&run.id)
        .expect("trials")
        .iter()
        .map(|trial| trial.verdict.name())
        .collect();
    for verdict in ["passed", "incorrect", "crashed", "timed_out", "compile_failed"] {
        assert!(verdicts.contains(verdict), "no trial was {verdict}: {verdicts:?}");
    }
}

/// Gives a kernel a tunable that turns it into a cheat of every kind.
fn inject_cheats(contract: &Path) {
    let text = fs::read_to_string(contract).expect("a contract");
    let mut text = text.replace("[tunables]", "[tunables]\nCHEAT = [0, 1, 2, 3, 4]");
    text = text.replace("default = {", "default = { CHEAT = 0,");
    // One configuration of each kind is enough; the one that loops costs its whole deadline.
    text = text
        .replace("constraints = [", "constraints = [\"CHEAT == 0 or ROWS * VEC_BYTES == 64\", ");
    assert!(text.contains("CHEAT == 0 or"), "the contract has constraints");
    fs::write(contract, text).expect("written");
    let source = contract.with_extension("c");
    let code = fs::read_to_string(&source).expect("a source");
    let open = code.rfind("block_end) {").expect("the kernel's body") + "block_end) {".len();
    let cheats = "\n#if CHEAT == 1\n    return;\n#elif CHEAT == 2\n    *(volatile int *)8 = 0;\n\
                  #elif CHEAT == 3\n    for (volatile int spin = 1; spin;) {}\n\
                  #elif CHEAT == 4\n    this is not C;\n#endif\n";
    fs::write(&source, format!("{}{cheats}{}", &code[..open], &code[open..])).expect("written");
}
