//! kill -9 at any moment: nothing recorded is lost, nothing is done twice.

use std::collections::BTreeSet;
use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};
use std::time::Duration;

use warpsmith_evidence::Store;
use warpsmith_model::rng::Rng;
use warpsmith_model::{
    CrashCause, Fidelity, Finding, Outcome, RunId, RunRecord, RunStatus, Trial, TrialId,
};

use crate::support::{Project, kill, processes_with, wait_for};

const KILLS: usize = 50;

#[test]
fn fifty_kills_lose_no_trial_and_repeat_none() {
    let project = Project::new();
    let mut rng = Rng::new(20);
    let mut known: BTreeSet<(String, String)> = BTreeSet::new();
    let begin = ["tune", "labs/probe", "--budget", "400", "--time", "600", "--seed", "5"];
    let mut started = false;
    for round in 0..KILLS {
        let arguments: &[&str] = if started { &["resume", "latest"] } else { &begin };
        let mut campaign = project
            .command(arguments)
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .expect("the program starts");
        std::thread::sleep(Duration::from_millis(20 + (rng.unit() * 700.0) as u64));
        let ended = campaign.try_wait().expect("its status");
        campaign.kill().expect("it can be killed");
        campaign.wait().expect("it is gone");
        if let Some(status) = ended {
            assert!(status.success(), "round {round}: {status}");
            // The whole space was searched; begin again, so that every round kills something.
            started = false;
            known.clear();
            continue;
        }
        // Before a run is recorded there is nothing to lose, and nothing to resume; nor is there when it
        // was killed after its last word.
        started = project.store_if_made().is_some_and(|store| {
            let runs = store.runs().expect("its runs");
            runs.first().is_some_and(|run| run.record.status.name() == "interrupted")
        });
        if !started {
            known.clear();
            continue;
        }
        let evaluations = project.evaluations();
        let distinct: BTreeSet<_> = evaluations.iter().cloned().collect();
        assert_eq!(distinct.len(), evaluations.len(), "round {round}: something was done twice");
        assert!(distinct.is_superset(&known), "round {round}: a trial was lost");
        known = distinct;
    }
    if started {
        project.ok(&["resume", "latest"]);
    }
    let evaluations = project.evaluations();
    let distinct: BTreeSet<_> = evaluations.iter().cloned().collect();
    assert_eq!(distinct.len(), evaluations.len());
    assert!(distinct.is_superset(&known), "a trial was lost by the last resume");
}

/// What is said of a run by the listing, `show`, the exported evidence and the report.
fn said_of_the_newest_run(project: &Project) -> [String; 4] {
    let listed = project.json(&["runs"])["runs"][0]["status"]["status"].to_string();
    let shown = project.ok(&["show", "latest"]);
    let files = project.json(&["export", "latest", "--format", "json"]);
    let path = project.path().join(files["files"][0].as_str().expect("a path"));
    let text = std::fs::read_to_string(path).expect("the file");
    let exported: serde_json::Value = serde_json::from_str(&text).expect("JSON");
    let report = project.path().join("report.html");
    project.ok(&["report", "latest", "--out", &report.display().to_string()]);
    let report = std::fs::read_to_string(report).expect("the report");
    [listed, shown, exported["run"]["status"]["status"].to_string(), report]
}

#[test]
fn a_run_whose_process_was_killed_is_told_from_one_that_goes_on() {
    let project = Project::new();
    let mut campaign = project
        .command(&["tune", "labs/probe", "--budget", "400", "--time", "600", "--seed", "5"])
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .expect("the program starts");
    wait_for("a stored trial", || stored(&project) >= 2);
    let [listed, shown, exported, report] = said_of_the_newest_run(&project);
    let name = project.json(&["runs"])["runs"][0]["run"].as_str().expect("a name").to_string();
    let refusals = [name.as_str(), "latest"].map(|run| project.fails(2, &["resume", run]));
    campaign.kill().expect("it can be killed");
    campaign.wait().expect("it is gone");
    assert_eq!((listed.as_str(), exported.as_str()), ("\"running\"", "\"running\""));
    assert!(shown.contains("running"), "{shown}");
    assert!(report.contains("had not ended when this report was made"));
    for refusal in refusals {
        assert!(refusal.contains("still goes on in another process"), "{refusal}");
    }

    let [listed, shown, exported, report] = said_of_the_newest_run(&project);
    assert_eq!((listed.as_str(), exported.as_str()), ("\"interrupted\"", "\"interrupted\""));
    assert!(shown.contains("interrupted"), "{shown}");
    assert!(report.contains("The run was interrupted"));
    // As of the last that is known of it.
    let runs = project.store().runs().expect("its runs");
    assert_eq!(runs[0].record.status.ended_unix_s(), runs[0].last_trial_unix_s);
}

#[test]
fn a_killed_worker_is_replaced_and_the_campaign_goes_on() {
    let project = Project::new();
    let evidence = project.path().join("evidence").display().to_string();
    let campaign = project
        .command(&[
            "tune",
            "labs/probe",
            "--budget",
            "12",
            "--time",
            "600",
            "--evidence",
            &evidence,
        ])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the program starts");
    wait_for("a stored trial", || stored(&project) >= 2);
    for pid in processes_with(&["__worker", &evidence]) {
        kill(pid);
    }
    let output = campaign.wait_with_output().expect("it ends");
    let said = crate::support::text(&output.stderr);
    assert!(output.status.success(), "{said}");
    assert!(said.contains("the worker was lost"), "{said}");
    assert!(stored(&project) >= 12);
}

#[test]
fn a_worker_that_is_ended_again_and_again_was_ended_from_outside() {
    let project = Project::new();
    let evidence = project.path().join("evidence").display().to_string();
    let mut campaign = project
        .command(&["check", "labs/probe", "--evidence", &evidence])
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the program starts");
    while campaign.try_wait().expect("its state").is_none() {
        for pid in processes_with(&["__worker", &evidence]) {
            // It may be gone already.
            let _ = Command::new("kill").args(["-TERM", &pid.to_string()]).output();
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    let output = campaign.wait_with_output().expect("it ended");
    let said = crate::support::text(&output.stderr);
    assert!(!output.status.success(), "{said}");
    assert!(said.contains("was killed 2 times") && said.contains("signal: 15"), "{said}");
    assert!(!said.contains("defect"), "{said}");
}

/// The system kills processes when memory runs out; what it killed was once the candidate's verdict for ever.
#[test]
fn what_was_ended_from_outside_is_asked_again_by_later_runs_and_by_resume() {
    let project = Project::new();
    let tune = ["tune", "labs/probe", "--budget", "1", "--seed", "5", "--seed-from", "none"];
    project.ok(&tune);
    let store = Store::open(&project.database()).expect("opens");
    let first = store.run("latest").expect("a run");
    let trials = store.trials(&first.id).expect("its trials");
    // The same run again, whose every evaluation was ended.
    let second = RunRecord {
        id: RunId("probe-ended".to_string()),
        started_unix_s: first.started_unix_s + 0.5,
        status: RunStatus::Running,
        ..first.clone()
    };
    store.start_run(&second).expect("a run");
    for (idx, stored) in trials.iter().enumerate() {
        let id = TrialId::of(format!("ended {idx}").as_bytes());
        let cause = CrashCause::from_outside();
        let mut trial = Trial {
            id,
            outcome: Outcome::Crashed { workload: "small".to_string(), cause },
            ..stored.trial.clone()
        };
        trial.job.trial = id;
        let finding = Finding { trial, blobs: Vec::new() };
        store.append(&second.id, &finding, second.started_unix_s).expect("recorded");
    }
    let status = RunStatus::Interrupted { ended_unix_s: second.started_unix_s };
    store.finish_run(&second.id, &status).expect("interrupted");
    drop(store);

    project.ok(&["resume", "probe-ended"]);
    let store = project.store();
    let full = |run: &RunId| {
        let trials = store.trials(run).expect("its trials");
        let verdicts = trials.iter().filter(|it| it.trial.job.fidelity == Fidelity::Full);
        verdicts.map(|it| it.trial.outcome.verdict().name()).collect::<Vec<_>>()
    };
    assert_eq!(full(&second.id), ["crashed", "passed"]);
    drop(project.ok(&tune));
    let newest = store.run("latest").expect("a run");
    for stored in store.trials(&newest.id).expect("its trials") {
        assert!(!stored.trial.outcome.is_from_outside(), "{:?}", stored.trial.outcome);
    }
    assert_eq!(project.json(&["verify"])["faults"].as_array().map(Vec::len), Some(0));
}

#[test]
fn a_comparison_that_is_asked_to_stop_does_not_go_on_to_its_end() {
    let project = Project::new();
    // So many rounds take longer than anybody waits.
    let mut campaign = project
        .command(&["compare", "labs/probe", "--rounds", "100000000"])
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the program starts");
    let mut said = BufReader::new(campaign.stderr.take().expect("it is piped")).lines();
    let begun = |line: Option<std::io::Result<String>>| {
        line.expect("it compares before it ends").expect("text").contains("compare: ")
    };
    while !begun(said.next()) {}
    let pid = campaign.id().to_string();
    assert!(Command::new("kill").args(["-TERM", &pid]).status().expect("kill").success());
    let status = campaign.wait().expect("it ends");
    assert_eq!(status.code(), Some(143));
    assert_eq!(project.statuses(), ["interrupted"]);
}

fn stored(project: &Project) -> usize {
    let Some(store) = project.store_if_made() else { return 0 };
    store.run("latest").ok().and_then(|run| store.trials(&run.id).ok()).map_or(0, |all| all.len())
}
