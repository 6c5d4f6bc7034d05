//! What a search is for, when it ends and where it begins: real compiler, real processes.

use serde_json::Value;

use crate::support::Project;

/// The flags of a short search of the scaffold's tunable kernel.
fn tune<'a>(further: &[&'a str]) -> Vec<&'a str> {
    let short = ["tune", "labs/probe", "--time", "60", "--seed", "3"];
    short.into_iter().chain(further.iter().copied()).collect()
}

/// The stored settings of the newest run.
fn settings(project: &Project) -> Value {
    let record = project.store().run("latest").expect("a run");
    serde_json::to_value(record.settings).expect("JSON")
}

#[test]
fn a_dispatch_table_has_a_verified_winner_for_every_workload_and_resumes_to_the_same() {
    let project = Project::new();
    let until =
        ["--budget", "6", "--objective", "dispatch", "--until", "stalled:5", "--seed-from", "none"];
    let summary = project.json(&tune(&until));
    let run = summary["run"].as_str().expect("a run");
    assert_eq!(settings(&project)["objective"], "dispatch");
    assert_eq!(settings(&project)["until"][0]["stalled"]["trials"], 5);

    let store = project.store();
    let record = store.run(run).expect("the run");
    let searched: Vec<Vec<String>> = store
        .trials(&record.id)
        .expect("trials")
        .into_iter()
        .filter(|stored| stored.trial.job.fidelity == warpsmith_model::Fidelity::Rank)
        .map(|stored| stored.trial.job.workloads)
        .collect();
    let alone = searched.iter().filter(|workloads| workloads.len() == 1).count();
    assert!(alone >= record.lab.workloads.len(), "{searched:?}");

    let rows = summary["dispatch"]["workloads"].as_array().expect("rows");
    assert_eq!(rows.len(), record.lab.workloads.len(), "{summary}");
    let files = project.json(&["export", run, "--format", "dispatch"]);
    let path = project.path().join(files["files"][0].as_str().expect("a path"));
    let written: Value =
        serde_json::from_slice(&std::fs::read(path).expect("the file")).expect("JSON");
    assert_eq!(written, summary["dispatch"]);
    assert!(written["workloads"][0]["axes"].is_object(), "{written}");

    // As a process leaves it that is killed right before its end.
    let writable = warpsmith_evidence::Store::open(&project.database()).expect("the store opens");
    writable.finish_run(&record.id, &warpsmith_model::RunStatus::Running).expect("written");
    drop(writable);
    let before = project.evaluations();
    let again = project.json(&["resume", run]);
    assert_eq!(project.evaluations(), before, "nothing that was recorded is done again");
    assert_eq!(again["winner"], summary["winner"]);
    assert_eq!(again["dispatch"], summary["dispatch"]);
    assert_eq!(settings(&project)["objective"], "dispatch");
}

#[test]
fn a_search_that_stalls_ends_before_its_budget() {
    let project = Project::new();
    let said = project.run(&tune(&[
        "--budget",
        "12",
        "--until",
        "stalled:1",
        "--objective",
        "worst",
        "--json",
    ]));
    let text = crate::support::text(&said.stderr);
    assert!(said.status.success(), "{text}");
    // Twelve trials that all improve on the one before happen once in 479 million searches.
    assert!(text.contains("ends early: stalled:1 holds"), "{text}");
    let ranked = project.evaluations().iter().filter(|(_, fidelity)| fidelity == "rank").count();
    assert!(ranked < 12, "{ranked} trials");
}

#[test]
fn earlier_winners_and_other_tuners_files_are_where_a_search_begins() {
    let project = Project::new();
    let first = project.json(&tune(&["--seed-from", "none", "--budget", "6"]));
    let run = first["run"].as_str().expect("a run");
    let files = project.json(&["export", run, "--format", "kernel-tuner"]);
    let cache = files["files"].as_array().and_then(|files| files.last()).expect("a cache").clone();
    let cache = cache.as_str().expect("a path");
    let results = project.json(&["export", run, "--format", "t4"]);
    let results = results["files"].as_array().and_then(|files| files.last()).expect("results");
    let kernel = first["winner"]["kernel"].as_str().expect("a kernel");
    let workload = first["workloads"][0]["workload"].as_str().expect("a workload").to_string();

    for source in ["store", cache, results.as_str().expect("a path")] {
        let further = ["--kernel", kernel, "--seed-from", source, "--fresh", "--top-k", "2"];
        project.json(&[&tune(&further)[..], &["--workload", &workload, "--budget", "4"]].concat());
        let store = project.store();
        let latest = store.run("latest").expect("a run");
        let origins: Vec<Value> = store
            .trials(&latest.id)
            .expect("trials")
            .into_iter()
            .filter(|stored| stored.trial.job.fidelity == warpsmith_model::Fidelity::Rank)
            .map(|stored| serde_json::to_value(stored.trial.job.candidate.origin).expect("JSON"))
            .collect();
        let priors = origins.iter().filter(|origin| origin["strategy"] == "prior").count();
        // The author's choice may be one of the two; a prior is tried early and then left behind.
        assert!(priors <= 2, "{source}: {origins:?}");
        assert!(origins.len() > priors, "{source}: {origins:?}");
        // A file names its two best, of which the author's choice is one at most; the store may name that alone.
        let is_author = first["winner"]["params"] == latest_default(&latest, kernel);
        assert!(priors >= 1 || (source == "store" && is_author), "{source}: {origins:?}");
    }
    std::fs::write(project.path().join("other.json"), OTHER_CACHE).expect("written");
    let said = project.fails(2, &tune(&["--kernel", kernel, "--seed-from", "other.json"]));
    assert!(said.contains("other.json") && said.contains("ELSEWHERE"), "{said}");
    std::fs::write(project.path().join("cut.json"), &OTHER_CACHE[..40]).expect("written");
    let said = project.fails(2, &tune(&["--kernel", kernel, "--seed-from", "cut.json"]));
    assert!(said.contains("cut.json") && said.contains("hint"), "{said}");
}

const OTHER_CACHE: &str = r#"{"tune_params_keys": ["ELSEWHERE"], "tune_params": {"ELSEWHERE": [1]},
 "cache": {"1": {"ELSEWHERE": 1, "time": 1.0}}}"#;

fn latest_default(record: &warpsmith_model::RunRecord, kernel: &str) -> Value {
    let kernel = record.lab.kernels.iter().find(|it| it.name == kernel).expect("the kernel");
    serde_json::to_value(&kernel.default).expect("JSON")
}

#[test]
fn conditions_and_objectives_that_mean_nothing_are_refused_before_any_work() {
    let project = Project::new();
    for (flag, value, word) in [
        ("--until", "forever", "stalled:TRIALS"),
        ("--until", "stalled:0", "at least 1"),
        ("--until", "roofline:100", "below 100"),
        ("--until", "baseline:none:5", "baseline"),
        ("--objective", "beauty", "dispatch"),
    ] {
        let said = project.fails(2, &tune(&[flag, value]));
        assert!(said.contains(word), "{flag} {value} said\n{said}");
    }
    assert!(!project.database().exists(), "nothing was begun");
}
