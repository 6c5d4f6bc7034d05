//! What a search is for, when it ends and where it begins: real compiler, real processes.

use serde_json::Value;

use crate::support::Project;

/// The flags of a short search of the scaffold's tunable kernel.
fn tune<'a>(further: &[&'a str]) -> Vec<&'a str> {
    // The number of trials ends it; on a busy machine a minute may not be enough for them.
    let short = ["tune", "labs/probe", "--time", "1200", "--seed", "3"];
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

    // As a process leaves it that is stopped right before its end.
    let writable = warpsmith_evidence::Store::open(&project.database()).expect("the store opens");
    let stopped = warpsmith_model::RunStatus::Interrupted { ended_unix_s: 1.0 };
    writable.finish_run(&record.id, &stopped).expect("written");
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

/// The arguments of a search of at most three trials, on the smaller workload, until a condition holds.
fn until_arguments(condition: &str) -> Vec<&str> {
    let what = ["tune", "labs/probe", "--kernel", "10_vector", "--workload", "n256d1024"];
    let how = ["--seed-from", "none", "--seed", "3", "--fresh", "--budget", "3", "--time", "600"];
    [&what[..], &how, &["--until", condition]].concat()
}

/// Searches until a condition holds; returns what was said and how many trials there were.
fn tune_until(project: &Project, condition: &str) -> (String, usize) {
    let said = project.run(&until_arguments(condition));
    let text = crate::support::text(&said.stderr);
    assert!(said.status.success(), "{text}");
    let ranked = project.evaluations().iter().filter(|(_, fidelity)| fidelity == "rank").count();
    (text, ranked)
}

#[test]
fn a_search_ends_when_its_best_is_close_enough_to_the_roofline() {
    let project = Project::new();
    let manifest = project.lab().join("lab.toml");
    let text = std::fs::read_to_string(&manifest).expect("the manifest");
    // Without bytes the roofline is the arithmetic peak, which two operations for two accesses never reach.
    let without_bytes = text.replace("(2 * N * D + D) * 4", "4");
    assert_ne!(without_bytes, text);
    std::fs::write(&manifest, without_bytes).expect("written");

    let (said, ranked) = tune_until(&project, "roofline:99.999");
    assert!(said.contains("ends early: roofline:99.999 holds"), "{said}");
    assert_eq!(ranked, 1, "a hundred-thousandth of the peak is had at once");
    let (said, ranked) = tune_until(&project, "roofline:0");
    assert!(!said.contains("ends early"), "{said}");
    assert_eq!(ranked, 3, "the whole peak never");
}

/// A library that is slow beyond doubt, and a stand-in for NumPy, so that the test needs no packages.
const PLAIN_TOML: &str = r#"
format = 1
summary = "Python, one element at a time"
script = "plain.py"
packages = []
size_mb = 1
"#;
const PLAIN_PY: &str = r#"
def prepare(axes, scalars, threads):
    return scalars["scale"], axes["D"]

def run(state, inputs, outputs):
    scale, columns = state
    x, bias, y = inputs["x"], inputs["bias"], outputs["y"]
    for i in range(len(y)):
        y[i] = scale * x[i] + bias[i % columns]
"#;
const NUMPY_PY: &str = r#"
class Flat:
    def __init__(self, view):
        self.view = view
    def reshape(self, shape):
        return self.view

def frombuffer(memory, dtype, count):
    return Flat(memoryview(memory)[: count * 4].cast("f"))
"#;

fn add_slow_baseline(project: &Project) {
    use std::os::unix::fs::PermissionsExt;
    let write = |path: &str, text: &str| {
        let path = project.path().join(path);
        std::fs::create_dir_all(path.parent().expect("a folder")).expect("made");
        std::fs::write(&path, text).expect("written");
        path
    };
    write("labs/probe/baselines/plain.toml", PLAIN_TOML);
    write("labs/probe/baselines/plain.py", PLAIN_PY);
    let packages = write("packages/numpy.py", NUMPY_PY);
    let packages = packages.parent().expect("a folder").display().to_string();
    let script = format!("#!/bin/sh\nPYTHONPATH={packages} exec python3 -S \"$@\"\n");
    let python = write(".warpsmith/venv/bin/python", &script);
    std::fs::set_permissions(&python, std::fs::Permissions::from_mode(0o755)).expect("allowed");
}

#[test]
fn a_search_ends_when_its_best_is_close_enough_to_a_baseline() {
    let project = Project::new();
    add_slow_baseline(&project);
    let (said, ranked) = tune_until(&project, "baseline:plain:0");
    assert!(said.contains("ends early: baseline:plain:0 holds"), "{said}");
    assert_eq!(ranked, 1, "anything compiled is faster");
    // A million times faster: a fraction of the time that an empty launch takes.
    let (said, ranked) = tune_until(&project, "baseline:plain:-99.9999");
    assert!(!said.contains("ends early"), "{said}");
    assert_eq!(ranked, 3);

    // As a process leaves it that is stopped right before its end; the baseline is not measured again.
    let run = project.store().run("latest").expect("a run").id;
    let writable = warpsmith_evidence::Store::open(&project.database()).expect("the store opens");
    let before = writable.comparisons(&run).expect("comparisons").len();
    let stopped = warpsmith_model::RunStatus::Interrupted { ended_unix_s: 1.0 };
    writable.finish_run(&run, &stopped).expect("written");
    drop(writable);
    project.json(&["resume", &run.0]);
    assert_eq!(project.store().comparisons(&run).expect("comparisons").len(), before);

    // Before anything is ranked, and with the reason: a module that is not there, or a wrong result.
    let spoil = |path: &str, text: &str, word: &str| {
        let path = project.path().join(path);
        let good = std::fs::read_to_string(&path).expect("the file");
        std::fs::write(&path, text).expect("written");
        let said = project.fails(2, &until_arguments("baseline:plain:0"));
        assert!(said.contains("baseline:plain") && said.contains(word), "{said}");
        assert!(project.evaluations().is_empty(), "{said}");
        std::fs::write(&path, good).expect("written");
    };
    spoil("packages/numpy.py", "import nothing_like_it\n", "nothing_like_it");
    let wrong = PLAIN_PY.replace("scale * x[i]", "x[i]");
    spoil("labs/probe/baselines/plain.py", &wrong, "n256d1024: incorrect");
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
        ("--until", "expected:0", "above 0"),
        ("--until", "baseline:none:5", "baseline"),
        ("--objective", "beauty", "dispatch"),
    ] {
        let said = project.fails(2, &tune(&[flag, value]));
        assert!(said.contains(word), "{flag} {value} said\n{said}");
    }
    let said = project.fails(2, &tune(&["--strategy", "random", "--until", "expected:1"]));
    assert!(said.contains("`random` expects nothing") && said.contains("gaussian"), "{said}");
    assert!(!project.database().exists(), "nothing was begun");
}

#[test]
fn a_search_whose_model_expects_too_little_ends_before_its_budget() {
    let project = Project::new();
    let contract = project.lab().join("kernels/10_vector.toml");
    let text = std::fs::read_to_string(&contract).expect("the contract");
    let rows = text.lines().find(|line| line.starts_with("ROWS")).expect("a tunable");
    let wider = text.replacen(rows, "ROWS = [1, 2, 4, 8, 16, 32, 64, 128]", 1);
    std::fs::write(&contract, wider).expect("written");
    let limits = ["--until", "expected:99", "--budget", "14", "--workload", "n256d1024"];
    let said = project.run(&tune(&[&limits[..], &["--seed-from", "none", "--json"]].concat()));
    let text = crate::support::text(&said.stderr);
    assert!(said.status.success(), "{text}");
    // After the first eight there is a model, which does not expect to save almost everything.
    assert!(text.contains("ends early: expected:99 holds"), "{text}");
    let ranked = project.evaluations().iter().filter(|(_, fidelity)| fidelity == "rank").count();
    assert!((8..14).contains(&ranked), "{ranked} trials");
}

#[test]
fn a_front_launches_what_was_fastest_and_is_gated_like_any_kernel() {
    let project = Project::new();
    let made = project.json(&["front", "labs/probe", "--time", "0.1", "--rounds", "3"]);
    let routes = made["routes"].as_array().expect("routes");
    let lab = std::fs::read_to_string(project.lab().join("lab.toml")).expect("the lab");
    assert_eq!(routes.len(), lab.matches("[[workload]]").count(), "{made}");
    let file = project.lab().join("front.toml");
    let text = std::fs::read_to_string(&file).expect("the front");
    assert_eq!(text.matches("[[route]]").count(), routes.len(), "{text}");

    // With a workload named, the choices for the others stay, with what is said of them.
    let names: Vec<&str> = routes.iter().filter_map(|it| it["workload"].as_str()).collect();
    let other = project.path().join("other.toml");
    let changed = text.replace(&format!("# {}: ", names[1]), &format!("# {}: once ", names[1]));
    std::fs::write(&other, &changed).expect("a file");
    let one = ["front", "labs/probe", "00_naive", "--workload", names[0], "--time", "0.1"];
    let again = project.json(&[&one[..], &["--rounds", "3", "--out", "other.toml"]].concat());
    assert_eq!(again["routes"].as_array().map(Vec::len), Some(1), "{again}");
    let merged = std::fs::read_to_string(&other).expect("the front");
    assert_eq!(merged.matches("[[route]]").count(), routes.len(), "{merged}");
    let parts = |text: &str| text.split("\n\n").map(str::to_string).collect::<Vec<_>>();
    assert_eq!(parts(&merged)[2..], parts(&changed)[2..], "{merged}");
    assert!(parts(&merged)[1].contains("kernel = \"00_naive\""), "{merged}");
    // Unless they were measured on something else, which is said before anything is measured.
    let elsewhere = changed.replacen("measured on ", "measured on an abacus, not ", 1);
    std::fs::write(&other, elsewhere).expect("a file");
    let said = project.fails(2, &[&one[..], &["--out", "other.toml"]].concat());
    assert!(said.contains("were measured on an abacus") && said.contains("hint: "), "{said}");

    // It is a kernel like any other: gated on shapes between the workloads, compared, counted.
    let checks = project.json(&["check", "labs/probe", "--kernel", "front"]);
    assert_eq!(checks["checks"][0]["verdict"], "passed", "{checks}");
    let arguments =
        ["compare", "labs/probe", "front", "00_naive", "--time", "0.1", "--rounds", "3"];
    let compared = project.json(&arguments);
    assert_eq!(compared["record"]["contenders"][0]["label"], "front", "{compared}");
    let trial = checks["checks"][0]["trial"].as_str().expect("a trial");

    // A front that was edited since is not the one of the trial.
    let other = text.replace("The fastest rung", "Another rung");
    std::fs::write(&file, other).expect("edited");
    let said = project.fails(2, &["compare", "labs/probe", &format!("trial:{trial}"), "00_naive"]);
    assert!(said.contains("was edited since"), "{said}");

    // It has no parameters to search; that is said before there is a run.
    let before = project.statuses().len();
    for command in ["tune", "run", "micro", "evidence"] {
        let said = project.fails(2, &[command, "labs/probe", "--kernel", "front"]);
        assert!(said.contains("`front` cannot be searched"), "{said}");
        assert!(said.contains("`warpsmith front` chooses anew"), "{said}");
    }
    assert_eq!(project.statuses().len(), before);

    // It has no source to evolve, and cannot be a part of itself.
    let said = project.fails(2, &["front", "labs/probe", "--exact", "Q"]);
    assert!(said.contains("no such axis") && said.contains("N, D"), "{said}");
    let said = project.fails(2, &["front", "labs/probe", "--out", "nowhere/front.toml"]);
    assert!(said.contains("there is no folder nowhere"), "{said}");
    let said = project.fails(2, &["front", "labs/probe", "front"]);
    assert!(said.contains("cannot be chosen itself"), "{said}");
    std::fs::write(&file, "format = 1\n").expect("broken");
    let said = project.fails(2, &["check", "labs/probe"]);
    assert!(said.contains("front.toml"), "{said}");
}

#[test]
fn an_extra_shape_is_searched_where_it_is_named_and_nowhere_else() {
    let project = Project::new();
    let manifest = project.lab().join("lab.toml");
    let text = std::fs::read_to_string(&manifest).expect("the lab");
    let extra = "[[extra]]\nname = \"further\"\naxes = { N = 100, D = 512 }\n\n[[proof]]";
    std::fs::write(&manifest, text.replacen("[[proof]]", extra, 1)).expect("written");
    let named = ["--workload", "further", "--until", "roofline:99", "--budget", "4"];
    let tuned = project.json(&tune(&named));
    assert_eq!(tuned["workloads"][0]["workload"], "further", "{tuned}");

    // Whoever reads the evidence finds it.
    let run = tuned["run"].as_str().expect("a run");
    let files = project.json(&["export", run, "--format", "kernel-tuner"]);
    let files = files["files"].as_array().expect("files");
    assert!(files.iter().any(|file| file.to_string().contains("@further")), "{files:?}");
    let report = project.json(&["report", run]);
    let report = project.path().join(report["report"].as_str().expect("a path"));
    let html = std::fs::read_to_string(report).expect("the report");
    assert!(html.contains(">further<"), "the table of trials has a column for it");

    let checks = project.json(&["check", "labs/probe", "--kernel", "00_naive", "--quick"]);
    assert!(!checks.to_string().contains("further"), "{checks}");
}
