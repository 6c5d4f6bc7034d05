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
    assert!(!html.contains("had not ended"), "it is the last step of its run");

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
fn a_search_tells_the_speed_up_of_its_winner() {
    let project = Project::new();
    let until = ["--budget", "8", "--time", "600"];
    let tune = ["tune", "labs/probe", "--kernel", "10_vector"];
    let summary = project.json(&[&tune[..], &until].concat());
    let winner = summary["winner"]["params"].as_object().expect("parameters");
    let speedups = summary["speedups"].as_array().expect("a list");
    assert!(!speedups.is_empty(), "{summary}");
    for speedup in speedups {
        let of = speedup["of"].as_str().expect("a label");
        for (name, value) in winner {
            assert!(of.contains(&format!("{name}={value}")), "{of} is not the winner: {summary}");
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
        ["tune", "labs/probe", "--budget", "6", "--time", "600", "--seed", "3", "--json"];
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

#[test]
fn a_bundle_that_was_stopped_is_finished_in_its_folder() {
    let project = Project::new();
    let arguments = ["evidence", "labs/probe", "--budget", "4", "--time", "5", "--out", "bundle"];
    project.killed_after(1, &arguments);
    let bundle = project.path().join("bundle");
    assert!(bundle.join("unfinished.json").is_file() && !bundle.join("index.json").exists());
    // Nobody else's bundle goes there.
    let said = project.fails(2, &arguments);
    assert!(said.contains("unfinished bundle of probe-"), "{said}");
    assert!(said.contains("warpsmith resume probe-"), "{said}");
    let index = project.json(&["resume"]);
    assert_eq!(index["lab_edited_since"], false, "{index}");
    let source = |path: &std::path::Path| std::fs::read_to_string(path).expect("a source");
    let kernel = "kernels/00_naive.c";
    assert_eq!(source(&bundle.join("lab").join(kernel)), source(&project.lab().join(kernel)));
    assert!(bundle.join("index.json").is_file());
    assert!(!bundle.join("unfinished.json").exists());
    let files = index["files"].as_array().expect("files");
    assert!(files.iter().all(|file| file["path"] != "unfinished.json"), "{index}");
    let runs = project.json(&["runs"]);
    assert_eq!(runs["runs"].as_array().map(Vec::len), Some(1), "{runs}");
    assert_eq!(runs["runs"][0]["status"]["status"], "finished", "{runs}");
}

#[test]
fn a_comparison_with_a_wrong_kernel_says_so_and_fails() {
    let project = Project::new();
    let source = project.lab().join("kernels/10_vector.c");
    let text = std::fs::read_to_string(&source).expect("a source");
    let wrong = text.replace("scale *", "2 * scale *");
    assert_ne!(wrong, text, "the scaffold's kernel scales something");
    std::fs::write(&source, wrong).expect("written");
    let arguments = ["compare", "labs/probe", "00_naive", "10_vector", "--time", "0.05"];
    let output = project.run(&arguments);
    let (printed, said) =
        (crate::support::text(&output.stdout), crate::support::text(&output.stderr));
    assert_eq!(output.status.code(), Some(1), "{printed}{said}");
    assert!(printed.contains("incorrect") && !printed.contains("not served"), "{printed}");
    assert!(said.contains("no times for 10_vector on n256d1024 (incorrect)"), "{said}");
    // What is asked for twice is done once, and whoever is right is no failure.
    let workload = "n256d1024";
    let twice = ["compare", "labs/probe", "00_naive", "--workload", workload];
    let twice = [&twice[..], &["--workload", workload, "--time", "0.05"]].concat();
    let compared = project.json(&twice);
    assert_eq!(compared["times"].as_array().map(Vec::len), Some(1), "{compared}");
    // One alone has no speed-up, but a time.
    let printed = project.ok(&twice);
    assert!(printed.contains("time of 00_naive") && printed.contains("s .. "), "{printed}");
}

#[test]
fn a_full_comparison_gates_first_and_measures_the_extra_shapes_too() {
    let project = Project::new();
    let manifest = project.lab().join("lab.toml");
    let text = std::fs::read_to_string(&manifest).expect("a manifest");
    let extra = "[[extra]]\nname = \"wide\"\naxes = { N = 8, D = 4096 }\n\n[ranges]";
    std::fs::write(&manifest, text.replace("[ranges]", extra)).expect("written");
    let full = ["compare", "labs/probe", "10_vector", "00_naive", "--full", "--time", "0.05"];
    let compared = project.json(&full);
    let gates = compared["gates"].as_array().expect("gates");
    let verdicts: Vec<_> = gates.iter().map(|gate| (&gate["kernel"], &gate["verdict"])).collect();
    assert_eq!(format!("{verdicts:?}").matches("passed").count(), 2, "{verdicts:?}");
    let times = compared["times"].as_array().expect("times");
    assert!(times.iter().any(|row| row["workload"] == "wide"), "{compared}");
    // With nobody named the oracle, which may take very long, is left out.
    let alone = project.json(&["compare", "labs/probe", "--full", "--time", "0.05"]);
    let labels = alone["record"]["contenders"].as_array().expect("contenders");
    assert!(labels.iter().all(|it| it["label"] != "00_naive"), "{alone}");
    let printed = project.ok(&full);
    assert!(printed.contains("of the roofline") && printed.contains("launch "), "{printed}");

    // Who fails the gate gets no time.
    let source = project.lab().join("kernels/10_vector.c");
    let text = std::fs::read_to_string(&source).expect("a source");
    std::fs::write(&source, text.replace("scale *", "2 * scale *")).expect("written");
    let said = project.fails(1, &full);
    assert!(said.contains("`10_vector` fails the full gate and is not compared"), "{said}");
}

/// The times of one winner: from `run --json`, `show --json`, the report, the exports and `dispatch.json`.
#[test]
fn every_output_of_a_run_names_the_same_winner_and_the_same_times() {
    let project = Project::new();
    let search = ["--budget", "6", "--time", "600", "--compare-time", "0.1"];
    let report = ["--objective", "dispatch", "--report", "report.html"];
    let run = ["run", "labs/probe", "--kernel", "10_vector"];
    let summary = project.json(&[&run[..], &search, &report].concat());
    let name = summary["run"].as_str().expect("a run");
    assert_eq!(summary["winner"]["time_from"], "the full gate");
    let shown = project.json(&["show", name]);
    for field in ["kernel", "params", "trial", "time_s", "time_from"] {
        assert_eq!(shown["winner"][field], summary["winner"][field], "{field}");
    }
    assert_eq!(shown["winner"]["workloads"], summary["workloads"]);
    project.json(&["export", name, "--format", "all", "--out", "out"]);
    let read = |file: &str| {
        std::fs::read_to_string(project.path().join(file)).expect("a file that was written")
    };
    let json =
        |file: &str| -> serde_json::Value { serde_json::from_str(&read(file)).expect("JSON") };
    // A format that the run has nothing for was once silence and success.
    let said = project.fails(2, &["export", name, "--format", "profile"]);
    assert!(said.contains("has no files of a profiler") && said.contains("hint: "), "{said}");
    let best = &json("out/evo_best.json")["entries"][0];
    assert_eq!(best["params"], summary["winner"]["params"]);
    let (page, text) = (read("report.html"), project.ok(&["show", name]));
    let dispatch = summary["dispatch"]["workloads"].as_array().cloned().unwrap_or_default();
    for row in summary["workloads"].as_array().expect("workloads") {
        let workload = row["workload"].as_str().expect("a name");
        let time_s = row["time_s"].as_f64().expect("a time");
        let is_same = |found: &serde_json::Value| {
            found.as_f64().is_some_and(|found| (found / time_s - 1.0).abs() < 1e-12)
        };
        assert!(is_same(&best["time_s"][workload]), "{workload}: {best}");
        let words = warpsmith_model::units::time(time_s);
        assert!(text.contains(&words), "{words} is not in `show`:\n{text}");
        assert!(page.contains(&format!("<td class='num'>{words}</td>")), "{words} in the report");
        let chosen = dispatch.iter().find(|it| it["workload"] == row["workload"]);
        if let Some(chosen) = chosen.filter(|it| it["params"] == summary["winner"]["params"]) {
            assert!(is_same(&chosen["time_s"]["mid"]), "dispatch.json: {chosen}");
        }
    }
}
