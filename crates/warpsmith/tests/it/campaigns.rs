//! Campaigns from end to end on a small lab.

use crate::support::Project;

#[test]
fn a_scaffolded_lab_passes_check_at_once() {
    let project = Project::new();
    let checks = project.json(&["check", "labs/probe"]);
    let rows = checks["checks"].as_array().expect("rows");
    assert!(rows.len() >= 2, "{checks}");
    assert!(rows.iter().all(|row| row["verdict"] == "passed"), "{checks}");
}

#[test]
fn the_whole_job_names_a_winner_and_writes_a_report() {
    let project = Project::new();
    let summary =
        project.json(&["run", "labs/probe", "--budget", "8", "--time", "5", "--seed", "7"]);
    assert!(summary["winner"]["kernel"].is_string(), "{summary}");
    assert!(summary["speedups"].as_array().is_some_and(|list| !list.is_empty()), "{summary}");
    let report = project.path().join(summary["report"].as_str().expect("a path"));
    let html = std::fs::read_to_string(&report).expect("the report");
    assert!(html.starts_with("<!DOCTYPE html>") || html.starts_with("<!doctype html>"));

    let run = summary["run"].as_str().expect("a run");
    assert!(project.ok(&["show", run]).contains("full"));
    let listed = project.json(&["runs"]);
    assert_eq!(listed["runs"][0]["status"]["status"], "finished", "{listed}");
    for format in ["csv", "json", "kernel-tuner", "t4"] {
        let files = project.json(&["export", run, "--format", format]);
        for file in files["files"].as_array().expect("files") {
            let path = project.path().join(file.as_str().expect("a path"));
            assert!(path.metadata().expect("it exists").len() > 0, "{}", path.display());
        }
    }
}

#[test]
fn a_bundle_has_everything_and_its_hashes() {
    let project = Project::new();
    let arguments = ["evidence", "labs/probe", "--budget", "4", "--time", "5", "--out", "bundle"];
    let index = project.json(&arguments);
    let kernels = index["kernels"].as_array().expect("kernels");
    assert!(kernels.len() >= 2 && kernels.iter().all(|it| it["passed"] == true), "{index}");
    let files = index["files"].as_array().expect("files");
    for wanted in ["report.html", "evidence.json", "evo_log.csv", "micro_log.csv", "lab/lab.toml"] {
        assert!(files.iter().any(|file| file["path"] == wanted), "{wanted} is not in {index}");
    }
    for file in files {
        let path = project.path().join("bundle").join(file["path"].as_str().expect("a path"));
        let content = std::fs::read(&path).expect("a file of the bundle");
        let hash = warpsmith_model::BlobId::of(&content);
        assert_eq!(file["blake3"], hash.to_string(), "{}", path.display());
    }
    // What holds one bundle takes no other.
    let again = project.run(&arguments);
    assert_eq!(again.status.code(), Some(2));
    // The run's winner is the one that was compared, whatever was gated after it.
    let winner = &index["summary"]["winner"]["kernel"];
    let run = format!("run:{}", index["run"].as_str().expect("a run"));
    let compared = project.json(&["compare", "labs/probe", &run, "--time", "0.1"]);
    assert_eq!(compared["record"]["contenders"][0]["kernel"], *winner, "{compared}");
}

#[test]
fn a_rerun_takes_over_what_the_environment_already_measured() {
    let project = Project::new();
    let arguments =
        ["tune", "labs/probe", "--budget", "6", "--time", "20", "--seed", "3", "--json"];
    project.ok(&arguments);
    let first = project.evaluations();
    project.ok(&arguments);
    let store = project.store();
    let run = store.run("latest").expect("a run");
    let trials = store.trials(&run.id).expect("trials");
    let adopted = trials.iter().filter(|trial| trial.adopted).count();
    assert!(adopted * 2 > first.len(), "{adopted} of {} were taken over", first.len());
}

#[test]
fn an_adhoc_kernel_is_judged_like_any_other() {
    let project = Project::new();
    let contract = project.lab().join("kernels/00_naive.toml");
    let source = std::fs::read_to_string(contract.with_extension("c")).expect("a source");
    let adhoc = project.path().join("adhoc.c");
    std::fs::write(&adhoc, &source).expect("written");
    let contract = contract.to_str().expect("UTF-8");
    project.ok(&["check", "labs/probe", "--source", "adhoc.c", "--contract", contract]);

    // The same kernel, made wrong by a single operator.
    let wrong = source.replace("+ bias[i]", "- bias[i]");
    assert_ne!(wrong, source, "the scaffold's kernel adds something");
    std::fs::write(&adhoc, wrong).expect("written");
    let said =
        project.fails(1, &["check", "labs/probe", "--source", "adhoc.c", "--contract", contract]);
    assert!(said.contains("incorrect"), "{said}");
}
