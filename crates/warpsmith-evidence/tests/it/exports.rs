//! Files for people and for other tools.

use std::path::Path;

use serde_json::Value as Json;
use warpsmith_evidence::export::{
    ExportError, Format, collect_evidence, export, read_best, read_evidence, write_best,
};
use warpsmith_evidence::{Store, derive, report};
use warpsmith_model::{
    ComparisonPurpose, ComparisonRecord, Fidelity, Mismatch, MismatchKind, Origin, Outcome,
    RunRecord, Stage, units,
};

use crate::fixture::{
    START, Sketch, ceilings, comparison, compile_failed, crashed, passed, store_with_run,
    tile_params,
};

/// A run with everything in it.
fn full_run(folder: &Path) -> (Store, RunRecord) {
    let (store, record) = store_with_run(folder, "tiles-1");
    let micro = Sketch {
        fidelity: Fidelity::Micro,
        origin: Origin::Micro,
        outcome: passed(&[("small", 2e-5)]),
        ..Sketch::tile(8, 1.0, 1.0)
    };
    let abandoned = Sketch {
        params: tile_params(64, true, "-O3 -funroll-loops"),
        outcome: passed(&[("small", 9e-5)]),
        ..Sketch::tile(64, 1.0, 1.0)
    };
    for finding in [
        micro.finding(),
        Sketch::tile(8, 2e-5, 2e-4).finding(),
        Sketch::tile(16, 1e-5, 1e-4).finding(),
        Sketch { outcome: crashed(), ..Sketch::tile(32, 1.0, 1.0) }.finding(),
        Sketch { outcome: compile_failed(), ..Sketch::tile(64, 1.0, 1.0) }.finding(),
        abandoned.finding(),
    ] {
        store.append(&record.id, &finding, START + 1.5).expect("recorded");
    }
    store.put_ceilings(&record.id, &ceilings(), START).expect("kept");
    store.put_comparison(&record.id, &comparison(&[(16, 1e-5), (8, 2e-5)], 3e-5)).expect("kept");
    store.put_document(&record.id, "note", &serde_json::json!("hello")).expect("kept");
    (store, record)
}

fn exported(format: Format) -> (tempfile::TempDir, Vec<String>) {
    let folder = tempfile::tempdir().expect("a folder");
    let (store, record) = full_run(folder.path());
    let out = folder.path().join("out");
    let written = export(&store, &record, &out, &[format]).expect("written");
    let names = written
        .iter()
        .map(|path| path.strip_prefix(&out).expect("inside").display().to_string())
        .collect();
    (folder, names)
}

fn json(path: &Path) -> Json {
    let text = std::fs::read_to_string(path).expect("the file");
    serde_json::from_str(&text).expect("JSON")
}

#[test]
fn logs_are_tables_that_survive_commas_and_quotes() {
    let (folder, names) = exported(Format::Logs);
    assert_eq!(names, ["micro_log.csv", "evo_log.csv"]);
    let mut table = csv::Reader::from_path(folder.path().join("out/evo_log.csv")).expect("CSV");
    let header = table.headers().expect("a header").clone();
    let column = |name: &str| header.iter().position(|column| column == name).expect(name);
    let rows: Vec<csv::StringRecord> = table.records().map(|row| row.expect("a row")).collect();
    let cells =
        |name: &str| rows.iter().map(|row| row[column(name)].to_string()).collect::<Vec<_>>();
    assert_eq!(cells("verdict"), ["passed", "passed", "crashed", "compile_failed", "passed"]);
    assert_eq!(cells("param.TILE"), ["8", "16", "32", "64", "64"]);
    assert_eq!(cells("param.CFLAGS")[4], "-O3 -funroll-loops");
    assert!(cells("message")[3].contains("\"TILE\", of all things"), "{:?}", cells("message"));
    assert_eq!(cells("time_utc")[0], "2026-01-01 00:00:01");
    let scored: Vec<bool> = cells("score_s").iter().map(|cell| !cell.is_empty()).collect();
    assert_eq!(scored, [true, true, false, false, false]);
    let large: Vec<f64> =
        cells("time_s.large")[..2].iter().map(|cell| cell.parse().expect("a number")).collect();
    assert!((large[0] / 2e-4 - 1.0).abs() < 1e-9 && (large[1] / 1e-4 - 1.0).abs() < 1e-9);
    let micro = std::fs::read_to_string(folder.path().join("out/micro_log.csv")).expect("a log");
    assert_eq!(micro.lines().count(), 2, "{micro}");
}

#[test]
fn the_best_are_read_as_they_were_written() {
    let (folder, names) = exported(Format::Best);
    assert_eq!(names, ["micro_best.json", "evo_best.json"]);
    let evo = folder.path().join("out/evo_best.json");
    let list = read_best(&evo).expect("a list");
    assert_eq!((list.fidelity, list.entries.len()), (Fidelity::Rank, 2));
    assert_eq!(list.workloads, ["small", "large"]);
    assert_eq!(list.entries[0].params, tile_params(16, false, ""));
    assert_eq!(list.entries[0].time_s.len(), 2);
    let copy = folder.path().join("copy.json");
    write_best(&copy, &list).expect("written");
    assert_eq!(read_best(&copy).expect("read"), list);
    let micro = read_best(&folder.path().join("out/micro_best.json")).expect("a list");
    assert_eq!((micro.fidelity, micro.entries.len()), (Fidelity::Micro, 1));
}

#[test]
fn a_run_without_results_has_empty_lists() {
    let folder = tempfile::tempdir().expect("a folder");
    let (store, record) = store_with_run(folder.path(), "tiles-1");
    let written = export(&store, &record, folder.path(), &Format::ALL).expect("written");
    let names: Vec<_> = written.iter().filter_map(|path| path.file_name()).collect();
    let expected =
        ["micro_log.csv", "evo_log.csv", "micro_best.json", "evo_best.json", "evidence.json"];
    assert_eq!(names, expected);
    assert!(read_best(&folder.path().join("evo_best.json")).expect("a list").entries.is_empty());
}

#[test]
fn lists_that_are_not_lists_are_refused_with_the_reason() {
    let (folder, _) = exported(Format::Best);
    let good = json(&folder.path().join("out/evo_best.json"));
    let check = |change: fn(&mut Json), expected: &str| {
        let mut bad = good.clone();
        change(&mut bad);
        let path = folder.path().join("bad.json");
        std::fs::write(&path, bad.to_string()).expect("written");
        let error = read_best(&path).expect_err(expected);
        let cause = std::error::Error::source(&error).map(ToString::to_string).unwrap_or_default();
        let said = format!("{error}: {cause}");
        assert!(said.contains(expected), "expected `{expected}` in `{said}`");
        assert!(said.contains("bad.json"), "names no file: {said}");
    };
    check(|list| list["entries"][0]["parms"] = 1.into(), "unknown field `parms`");
    check(|list| list["entries"] = serde_json::json!({"16": {}}), "expected a sequence");
    check(|list| *list = serde_json::json!([1, 2]), "is not a list of the best");
    check(|list| list["format"] = 7.into(), "has format 7");
    check(
        |list| {
            list["format"] = 7.into();
            list["later"] = true.into();
        },
        "has format 7",
    );
    let error = read_best(&folder.path().join("nowhere.json")).expect_err("missing");
    assert!(matches!(error, ExportError::Read { .. }), "{error}");
}

#[test]
fn everything_is_read_as_it_was_written() {
    let folder = tempfile::tempdir().expect("a folder");
    let (store, record) = full_run(folder.path());
    export(&store, &record, folder.path(), &[Format::Evidence]).expect("written");
    let read = read_evidence(&folder.path().join("evidence.json")).expect("read");
    assert_eq!(read, collect_evidence(&store, &record).expect("collected"));
    assert_eq!((read.trials.len(), read.comparisons.len(), read.blobs.len()), (6, 1, 2));
    assert_eq!(read.documents["note"], [serde_json::json!("hello")]);
}

/// The name of a JSON value's type.
fn kind(value: &Json) -> &'static str {
    match value {
        Json::Null => "null",
        Json::Bool(_) => "boolean",
        Json::Number(_) => "number",
        Json::String(_) => "text",
        Json::Array(_) => "list",
        Json::Object(_) => "object",
    }
}

/// Reads a Kernel Tuner cache the way its simulation mode does, and returns how many
/// configurations passed and failed.
fn read_kernel_tuner(file: &Json) -> (usize, usize) {
    assert!(file["device_name"].is_string() && file["kernel_name"].is_string());
    assert!(file["problem_size"].as_array().expect("sizes").iter().all(Json::is_number));
    let keys: Vec<&str> = file["tune_params_keys"]
        .as_array()
        .expect("keys")
        .iter()
        .map(|key| key.as_str().expect("a name"))
        .collect();
    assert_eq!(file["objective"], "time");
    let mut counts = (0, 0);
    for (key, entry) in file["cache"].as_object().expect("a cache") {
        let python = |value: &Json| match value {
            Json::Bool(true) => "True".to_string(),
            Json::Bool(false) => "False".to_string(),
            Json::String(text) => text.clone(),
            other => other.to_string(),
        };
        let values: Vec<String> = keys.iter().map(|name| python(&entry[name])).collect();
        assert_eq!(*key, values.join(","));
        for name in &keys {
            let allowed = file["tune_params"][name].as_array().expect("values");
            assert!(allowed.contains(&entry[name]), "{name} of {key}");
        }
        for name in [
            "compile_time",
            "verification_time",
            "benchmark_time",
            "strategy_time",
            "framework_time",
        ] {
            assert!(entry[name].as_f64().is_some_and(|time| time >= 0.0), "{name} of {key}");
        }
        let stamp = entry["timestamp"].as_str().expect("a timestamp");
        assert!(stamp.len() >= 25 && stamp.ends_with("+00:00"), "{stamp}");
        if let Some(error) = entry["time"].as_str() {
            assert!(["CompilationFailedConfig", "RuntimeFailedConfig"].contains(&error), "{error}");
            assert!(entry.get("times").is_none());
            counts.1 += 1;
        } else {
            assert!(entry["time"].is_number());
            assert!(!entry["times"].as_array().expect("times").is_empty());
            counts.0 += 1;
        }
    }
    counts
}

/// Reads T4 results and returns how many configurations passed and failed.
fn read_t4(file: &Json) -> (usize, usize) {
    assert_eq!(file["schema_version"], "1.0.0");
    assert_eq!(file["metadata"]["timeunit"], "miliseconds");
    let mut counts = (0, 0);
    for result in file["results"].as_array().expect("results") {
        assert!(result["timestamp"].is_string() && result["configuration"].is_object());
        for name in ["compilation", "framework", "search_algorithm", "validation"] {
            assert!(result["times"][name].is_number(), "{name}");
        }
        assert_eq!(result["objectives"], serde_json::json!(["time"]));
        let measured = &result["measurements"][0];
        assert!(measured["name"] == "time" && measured["unit"].is_string());
        let passed = result["invalidity"] == "correct";
        assert_eq!(result["correctness"], u8::from(passed));
        assert_eq!(measured["value"].is_number(), passed);
        assert_eq!(result["times"].get("runtimes").is_some(), passed);
        let known = ["timeout", "compile", "runtime", "correctness", "constraints", "correct"];
        assert!(known.contains(&result["invalidity"].as_str().expect("text")), "{result}");
        counts = (counts.0 + usize::from(passed), counts.1 + usize::from(!passed));
    }
    counts
}

/// Every field of ours that theirs has too is of the same type.
fn same_shape(ours: &Json, theirs: &Json, place: &str) {
    match (ours, theirs) {
        (Json::Object(ours), Json::Object(theirs)) => {
            for (name, value) in ours {
                if let Some(other) = theirs.get(name) {
                    same_shape(value, other, &format!("{place}.{name}"));
                }
            }
        }
        (Json::Array(ours), Json::Array(theirs)) => {
            if let (Some(one), Some(other)) = (ours.first(), theirs.first()) {
                same_shape(one, other, &format!("{place}[]"));
            }
        }
        _ => assert_eq!(kind(ours), kind(theirs), "{place}"),
    }
}

fn data(name: &str) -> Json {
    json(&Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data").join(name))
}

#[test]
fn kernel_tuner_caches_read_like_real_ones() {
    let real = data("kernel_tuner_excerpt.json");
    assert_eq!(read_kernel_tuner(&real), (2, 2));
    let (folder, names) = exported(Format::KernelTuner);
    assert_eq!(names, ["kernel_tuner/10_tile@small.json", "kernel_tuner/10_tile@large.json"]);
    let small = json(&folder.path().join("out").join(&names[0]));
    let large = json(&folder.path().join("out").join(&names[1]));
    assert_eq!(read_kernel_tuner(&small), (3, 2));
    assert_eq!(read_kernel_tuner(&large), (2, 2));
    same_shape(&large, &real, "cache");
    assert_eq!(large["problem_size"], serde_json::json!([1000, 64]));
    let entry = &large["cache"]["16,False,"];
    // Milliseconds, and the mean of the samples.
    assert!((entry["time"].as_f64().expect("a time") - 0.1).abs() < 1e-6, "{entry}");
    assert_eq!(entry["compile_time"], 250.0);
    assert_eq!(large["cache"]["32,False,"]["time"], "RuntimeFailedConfig");
    assert_eq!(large["cache"]["64,False,"]["time"], "CompilationFailedConfig");
    let fields = |entry: &Json| -> Vec<String> {
        let object = entry.as_object().expect("an entry");
        object.keys().filter(|key| key.contains("time")).cloned().collect()
    };
    let real_entry = real["cache"].as_object().expect("a cache").values().next().expect("one");
    assert_eq!(fields(entry), fields(real_entry));
}

#[test]
fn t4_results_read_like_real_ones() {
    let real = data("t4_excerpt.json");
    assert_eq!(read_t4(&real), (2, 2));
    let (folder, names) = exported(Format::T4);
    assert_eq!(names, ["t4/10_tile@small.json", "t4/10_tile@large.json"]);
    let large = json(&folder.path().join("out").join(&names[1]));
    assert_eq!(read_t4(&large), (2, 2));
    same_shape(&large, &real, "results");
    let invalidities: Vec<&Json> =
        large["results"].as_array().expect("results").iter().map(|it| &it["invalidity"]).collect();
    assert_eq!(invalidities, ["correct", "correct", "runtime", "compile"]);
}

#[test]
fn a_file_is_replaced_as_a_whole_or_not_at_all() {
    let folder = tempfile::tempdir().expect("a folder");
    let (store, record) = full_run(folder.path());
    let out = folder.path().join("out");
    for _ in 0..2 {
        export(&store, &record, &out, &[Format::Logs]).expect("written");
    }
    let left: Vec<_> = std::fs::read_dir(&out).expect("out").filter_map(Result::ok).collect();
    assert_eq!(left.len(), 2, "{left:?}");
    // A folder in the file's place.
    let blocked = folder.path().join("blocked");
    std::fs::create_dir_all(blocked.join("micro_log.csv/x")).expect("folders");
    let error = export(&store, &record, &blocked, &[Format::Logs]).expect_err("in the way");
    assert!(error.to_string().contains("micro_log.csv"), "{error}");
    assert!(!blocked.join("micro_log.csv.part").exists());
}

#[test]
fn traces_say_what_came_of_each_kernel_that_went_through_the_full_gate() {
    let folder = tempfile::tempdir().expect("a folder");
    let (store, record) = full_run(folder.path());
    let full = |sketch: Sketch| Sketch { fidelity: Fidelity::Full, ..sketch }.finding();
    for finding in [
        full(Sketch::tile(16, 1e-5, 1e-4)),
        full(Sketch { outcome: crashed(), ..Sketch::tile(32, 1.0, 1.0) }),
        full(Sketch { outcome: compile_failed(), ..Sketch::tile(64, 1.0, 1.0) }),
    ] {
        store.append(&record.id, &finding, START + 2.0).expect("recorded");
    }
    let out = folder.path().join("out");
    let written = export(&store, &record, &out, &[Format::FlashInfer]).expect("written");
    // Three kernels, each with its source, and one file of traces.
    assert_eq!(written.len(), 4, "{written:?}");
    let lines = std::fs::read_to_string(&written[0]).expect("traces");
    let traces: Vec<Json> =
        lines.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
    let statuses: Vec<&str> =
        traces.iter().filter_map(|trace| trace["evaluation"]["status"].as_str()).collect();
    let expected =
        ["PASSED", "PASSED", "RUNTIME_ERROR", "RUNTIME_ERROR", "COMPILE_ERROR", "COMPILE_ERROR"];
    assert_eq!(statuses, expected, "the search's trials are not in it");
    for trace in &traces {
        let evaluation = &trace["evaluation"];
        let passed = evaluation["status"] == "PASSED";
        assert_eq!(evaluation.get("performance").is_some(), passed, "{trace}");
        assert_eq!(evaluation.get("correctness").is_some(), passed, "{trace}");
    }
    let performance = &traces[0]["evaluation"]["performance"];
    let speedup = performance["speedup_factor"].as_f64().expect("a speed-up");
    assert!((speedup - 3.0).abs() < 0.01, "{performance}");
    assert!((performance["latency_ms"].as_f64().expect("a time") - 1e-2).abs() < 1e-4);
    let solution = json(&written[1]);
    assert_eq!(solution["name"], traces[0]["solution"], "{solution}");
    assert!(solution["sources"][0]["content"].as_str().is_some_and(|it| !it.is_empty()));
}

#[test]
fn traces_have_the_largest_errors_and_no_number_that_json_lacks() {
    let folder = tempfile::tempdir().expect("a folder");
    let (store, record) = store_with_run(folder.path(), "tiles-1");
    let sketch = |tile: i64, outcome: Outcome| Sketch {
        fidelity: Fidelity::Full,
        outcome,
        ..Sketch::tile(tile, 1.0, 1.0)
    };
    let mismatch = |got: &str, expected: &str| Outcome::Incorrect {
        mismatch: Mismatch {
            kind: MismatchKind::Element,
            stage: Stage::Gate,
            workload: "small".to_string(),
            inputs: "normal".to_string(),
            seed: 1,
            tensor: "o".to_string(),
            index: vec![0],
            got: got.to_string(),
            expected: expected.to_string(),
            excess: 1e9,
            wrong: 1,
            total: 1,
        },
    };
    let right = passed(&[("small", 1e-5), ("large", 1e-4)]);
    let mut older = right.clone();
    if let Outcome::Passed { measurements } = &mut older {
        measurements.iter_mut().for_each(|it| it.error.plain = None);
    }
    let cases = [
        (right, serde_json::json!([2.5e-6, 4e-3])),
        (mismatch("1.5", "-2"), serde_json::json!([3.5, 1.75])),
        (mismatch("NaN", "1"), serde_json::json!([f64::MAX, f64::MAX])),
        (mismatch("1", "0"), serde_json::json!([1.0, f64::MAX])),
        // A number that is left out would be read as zero.
        (older, serde_json::json!(["NaN", "NaN"])),
    ];
    for (tile, (outcome, _)) in (1i64..).zip(&cases) {
        let finding = sketch(tile, outcome.clone()).finding();
        store.append(&record.id, &finding, START).expect("recorded");
    }
    let out = folder.path().join("out");
    export(&store, &record, &out, &[Format::FlashInfer]).expect("written");
    let name = format!("flashinfer/traces/{}.jsonl", record.lab.name);
    let text = std::fs::read_to_string(out.join(name)).expect("traces");
    let traces: Vec<Json> =
        text.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
    let mut seen: Vec<Json> = traces
        .iter()
        .map(|trace| &trace["evaluation"]["correctness"])
        .map(|it| serde_json::json!([it["max_absolute_error"], it["max_relative_error"]]))
        .collect();
    seen.dedup();
    assert_eq!(seen, cases.map(|(_, expected)| expected));
}

/// The report once named the time of the comparison, the terminal that of the gate, and `dispatch.json` that
/// of the finals.
#[test]
fn a_winner_has_one_time_wherever_it_is_named() {
    let folder = tempfile::tempdir().expect("a folder");
    let (store, mut record) = store_with_run(folder.path(), "tiles-1");
    record.settings.insert("goal".to_string(), serde_json::json!("tune"));
    let (small_s, large_s) = (1.234e-5, 1.357e-4);
    let full = |sketch: Sketch| Sketch { fidelity: Fidelity::Full, ..sketch }.finding();
    for finding in [
        Sketch::tile(8, 2e-5, 2e-4).finding(),
        // The search saw it faster, and the rounds slower, than the gate did.
        Sketch::tile(16, 1.1e-5, 1.1e-4).finding(),
        full(Sketch::tile(16, small_s, large_s)),
    ] {
        store.append(&record.id, &finding, START + 2.0).expect("recorded");
    }
    store.put_ceilings(&record.id, &ceilings(), START).expect("kept");
    let finals = ComparisonRecord {
        purpose: ComparisonPurpose::Finalists,
        ..comparison(&[(8, 2e-5), (16, 1.5e-5)], 3e-5)
    };
    store.put_comparison(&record.id, &finals).expect("kept");

    let trials = store.summaries(&record.id).expect("summaries");
    let comparisons = store.comparisons(&record.id).expect("comparisons");
    let winner = derive::winner(&record, &trials, &comparisons).expect("a winner");
    assert_eq!(winner.trial.params, tile_params(16, false, ""));
    assert_eq!(derive::measured_in(winner.fidelity), "the full gate");
    let expected = [("small", small_s), ("large", large_s)];
    for (workload, time_s) in expected {
        let found = winner.time(workload).expect("a time").median_s.mid;
        assert!((found / time_s - 1.0).abs() < 1e-9, "{found}");
    }

    let out = folder.path().join("out");
    export(&store, &record, &out, &Format::ALL).expect("written");
    let is = |what: &str, found: &Json, time_s: f64| {
        let found = found.as_f64().unwrap_or(f64::NAN);
        assert!((found / time_s - 1.0).abs() < 1e-9, "{what}: {found} instead of {time_s}");
    };
    let best = json(&out.join("evo_best.json"));
    assert_eq!(best["fidelity"], "full");
    let dispatch = json(&out.join("dispatch.json"));
    let traces = std::fs::read_to_string(out.join("flashinfer/traces/tiles.jsonl"));
    let traces: Vec<Json> = traces
        .expect("traces")
        .lines()
        .map(|line| serde_json::from_str(line).expect("JSON"))
        .collect();
    for (idx, (workload, time_s)) in expected.into_iter().enumerate() {
        is("evo_best.json", &best["entries"][0]["time_s"][workload], time_s);
        let row = &dispatch["workloads"][idx];
        assert_eq!(
            (&row["workload"], &row["time_from"]),
            (&Json::from(workload), &Json::from("the full gate"))
        );
        is("dispatch.json", &row["time_s"]["mid"], time_s);
        // The author's choice never had a full gate, and is what the speed-up is over nevertheless.
        assert_eq!(dispatch["speedup_over"], "tile 8");
        let speedup = row["speedup"]["mid"].as_f64().unwrap_or(f64::NAN);
        assert!((speedup / (2e-5 / 1.5e-5) - 1.0).abs() < 0.1, "{row}");
        is("traces", &traces[idx]["evaluation"]["performance"]["latency_ms"], time_s * 1e3);
    }
    let data = report::gather(&store, &record.id).expect("gathered");
    let page = report::render(&data);
    for (_, time_s) in expected {
        let cell = format!("<td class='num'>{}</td>", units::time(time_s));
        assert!(page.contains(&cell), "{cell} is not in the report");
    }
    assert!(page.contains("Times are medians of the full gate"), "the report says what they are");
}
