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
