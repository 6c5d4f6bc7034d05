//! Spaces and recorded spaces of other tuners on the command line: counted, converted, refused.

use std::io::Write;

use flate2::Compression;
use flate2::write::GzEncoder;
use serde_json::{Value, json};

use crate::support::{Project, text};

fn data(path: &str) -> String {
    format!("{}/../warpsmith-search/tests/data/{path}", env!("CARGO_MANIFEST_DIR"))
}

fn keys(document: &Value) -> Vec<&str> {
    document.as_object().expect("an object").keys().map(String::as_str).collect()
}

#[test]
fn a_space_is_counted_sampled_and_listed() {
    let project = Project::new();
    let expdist = data("spaces/expdist.json");
    let counted = project.json(&["space", &expdist]);
    assert_eq!(keys(&counted), ["cartesian", "name", "peak_rss_bytes", "seconds", "valid"]);
    assert_eq!((&counted["name"], &counted["valid"]), (&json!("expdist"), &json!(504_000)));
    // Kernel Tuner limits the product of the block sizes by itself; the file does not.
    let limit = ["--constraint", "block_size_x * block_size_y <= 1024"];
    let limited = project.json(&["space", &expdist, limit[0], limit[1]]);
    assert_eq!(limited["valid"], 294_000);

    let sample = ["space", &expdist, "--sample", "5", "--seed", "7"];
    let drawn = project.ok(&sample);
    assert_eq!(drawn.lines().count(), 5);
    assert_eq!(project.ok(&sample), drawn, "a seed decides");
    for line in drawn.lines() {
        let params: Value = serde_json::from_str(line).expect("JSON");
        assert_eq!(keys(&params).len(), 10, "{params}");
    }
    let small = project.path().join("small.json");
    let document = json!({
        "name": "small",
        "params": { "I": [1, 2], "F": [0.5, 1.5], "B": [true, false], "S": ["a", "b"] },
        "constraints": ["S != 'b' or B", "F < I"],
    });
    std::fs::write(&small, document.to_string()).expect("written");
    let listed = project.ok(&["space", "small.json", "--list"]);
    assert_eq!(listed.lines().count(), 9, "{listed}");
    assert!(listed.contains(r#"{"B":true,"F":1.5,"I":2,"S":"b"}"#), "{listed}");
    let lab = project.json(&["space", "labs/probe"]);
    assert!(lab["valid"].as_u64() > Some(0), "{lab}");
}

#[test]
fn a_cuda_space_is_counted_for_an_architecture_without_a_gpu() {
    let project = Project::new();
    let lab = format!("{}/../../labs/gemm", env!("CARGO_MANIFEST_DIR"));
    let of = |arch: &str| {
        let kernel = ["--target", "cuda", "--kernel", "20_mma_pipelined", "--arch", arch];
        project.json(&[&["space", &lab][..], &kernel].concat())["valid"].as_u64()
    };
    // Shared memory is a part of its constraints, and there is less of it on the smaller ones.
    assert!(of("sm_89") > Some(0) && of("sm_90a") > of("sm_89"));

    let said = project.fails(2, &["space", &lab, "--target", "cuda", "--arch", "sm_1"]);
    assert!(said.contains("unknown architecture `sm_1`") && said.contains("sm_90a"), "{said}");
    let said = project.fails(2, &["space", "labs/probe", "--arch", "sm_90a"]);
    assert!(said.contains("--arch is for the labs of a GPU"), "{said}");
    let said = project.fails(2, &["space", &data("spaces/hotspot.json"), "--arch", "sm_90a"]);
    assert!(said.contains("--arch is for the labs of a GPU"), "{said}");
}

#[test]
fn spaces_that_are_none_are_named_with_the_reason() {
    let project = Project::new();
    let check = |document: Value, words: &[&str]| {
        std::fs::write(project.path().join("bad.json"), document.to_string()).expect("written");
        let said = project.fails(2, &["space", "bad.json"]);
        for word in words.iter().chain(&["bad.json"]) {
            assert!(said.contains(word), "`{word}` is not in\n{said}");
        }
    };
    let space = |params: Value, constraints: Value| json!({ "name": "x", "params": params, "constraints": constraints });
    check(space(json!({"A": [1, 2]}), json!(["A < C"])), &["`C`", "A < C"]);
    check(space(json!({"A": [0, 1]}), json!(["4 % A == 0"])), &["A=0", "division by zero"]);
    check(space(json!({"A": [1, 2]}), json!(["A > 2"])), &["no configuration", "A > 2"]);
    check(space(json!({"A": [1, 1]}), json!([])), &["`A`", "twice"]);
    check(space(json!({"A": []}), json!([])), &["`A`", "no values"]);
    check(space(json!({"A": [1]}), json!(["A <"])), &["A <"]);
    check(space(json!({"A": [[1]]}), json!([])), &["params.A"]);
    check(json!({"other": 1}), &["params"]);
    let said = project.fails(2, &["space", "nowhere.json"]);
    assert!(said.contains("nowhere.json"), "{said}");
    let said = project.fails(2, &["space", &data("spaces/hotspot.json"), "--constraint", "1 <"]);
    assert!(said.contains("--constraint"), "{said}");
}

#[test]
fn recorded_spaces_are_converted_there_and_back() {
    let project = Project::new();
    let cache = data("recorded/convolution_A100_extract_kernel_tuner.json");
    let results = data("recorded/convolution_A100_extract_t4.json");
    let read = |name: &str| -> Value {
        let bytes = std::fs::read(project.path().join(name)).expect("a file");
        serde_json::from_slice(&bytes).expect("JSON")
    };
    let convert = |from: &str, to: &str, format: &str| {
        let told = project.json(&["convert", from, to, "--format", format]);
        assert_eq!(told["entries"], 8, "{told}");
    };
    convert(&cache, "a.json.gz", "t4");
    convert("a.json.gz", "b.json", "kernel-tuner");
    convert(&cache, "c.json", "kernel-tuner");
    // T4 has no list of the parameters, so keys are in another order afterwards; what they are the keys
    // of is the same.
    let entries = |document: Value| {
        let cache = document["cache"].as_object().expect("entries").clone();
        let mut texts: Vec<String> = cache.values().map(ToString::to_string).collect();
        texts.sort();
        texts
    };
    assert_eq!(entries(read("b.json")), entries(read("c.json")));
    convert(&results, "d.json", "t4");
    convert("d.json", "e.json", "kernel-tuner");
    convert("e.json", "f.json", "t4");
    assert_eq!(read("d.json"), read("f.json"));

    let t1 = data("spaces/hotspot_t1_extract.json");
    project.ok(&["convert", &t1, "space.json", "--format", "space"]);
    let (ours, theirs) = (project.json(&["space", "space.json"]), project.json(&["space", &t1]));
    assert_eq!((&ours["valid"], &ours["cartesian"]), (&theirs["valid"], &theirs["cartesian"]));
    let said = project.fails(2, &["convert", &t1, "x.json", "--format", "t4"]);
    assert!(said.contains("hotspot_t1_extract.json"), "{said}");
    assert!(!project.path().join("x.json").exists());
    let said = project.fails(2, &["convert", &cache, "no/such/folder.json", "--format", "t4"]);
    assert!(said.contains("no/such/folder.json"), "{said}");
}

#[test]
fn simulations_have_the_promised_fields_and_stand_any_budget() {
    let project = Project::new();
    let cache = data("recorded/convolution_A100_extract_kernel_tuner.json");
    let budgets = ["--budget", "1", "3", "1000000000000"];
    let mut arguments = vec!["simulate", "--cache", &cache, "--strategy", "random", "auto"];
    arguments.extend(budgets);
    arguments.extend(["--repeats", "2", "--plot", "curves.svg"]);
    let document = project.json(&arguments);
    assert_eq!(keys(&document), ["rows"]);
    let rows = document["rows"].as_array().expect("rows");
    assert_eq!(rows.len(), 9, "{document}");
    for row in rows {
        let fields =
            ["budget", "cache", "mean", "median", "p10", "repeats", "sem", "strategy", "worst"];
        assert_eq!(keys(row), fields);
    }
    let beyond = rows.iter().filter(|row| row["budget"] == 1_000_000_000_000u64);
    for row in beyond {
        assert!((row["mean"].as_f64().expect("a number") - 1.0).abs() < 1e-9, "{row}");
    }
    let drawn = std::fs::read_to_string(project.path().join("curves.svg")).expect("a drawing");
    assert_eq!(drawn.matches("<polyline").count(), 3);
    let scored = project.json(&["simulate", "--cache", &cache, "--repeats", "2", "--score"]);
    assert!(scored["scores"][0]["score"].is_number(), "{scored}");
    assert!(project.ok(&["simulate", "--cache", &cache, "--repeats", "2"]).contains('█'));
    let watched = ["simulate", "--cache", &cache, "--repeats", "2", "--budget", "60", "--until"];
    let watched = |until: &[&'static str]| [&watched[..], until].concat();
    let ended = project.json(&watched(&["stalled:5", "expected:0.5"]));
    let endings = ended["endings"].as_array().expect("endings");
    assert_eq!(endings.len(), 2, "{ended}");
    for ending in endings {
        let evaluations = ending["evaluations"].as_f64().expect("a number");
        assert!((5.0..=60.0).contains(&evaluations), "{ended}");
    }
    let said = project.fails(2, &watched(&["roofline:5"]));
    assert!(said.contains("neither a roofline nor baselines"), "{said}");
    let said = project.fails(2, &["simulate", "--cache", &cache, "--budget", "0"]);
    assert!(said.contains("--budget"), "{said}");
    let said = project.fails(2, &["simulate", "--cache", &cache, "--strategy", "luck"]);
    assert!(said.contains("luck"), "{said}");
}

#[test]
fn files_that_are_no_recorded_spaces_are_refused_with_the_reason() {
    let project = Project::new();
    let whole = std::fs::read(data("recorded/convolution_A100_extract_kernel_tuner.json"));
    let whole = whole.expect("the test's data");
    let mut squeezed = GzEncoder::new(Vec::new(), Compression::default());
    squeezed.write_all(&whole).expect("memory");
    let squeezed = squeezed.finish().expect("memory");
    // 100 MB of spaces in 100 kB.
    let mut bomb = GzEncoder::new(Vec::new(), Compression::best());
    let spaces = vec![b' '; 1 << 20];
    for _ in 0..100 {
        bomb.write_all(&spaces).expect("memory");
    }
    let bomb = bomb.finish().expect("memory");
    let t4 = br#"{"schema_version": "2.0.0", "results": [{}]}"#.to_vec();
    for (name, bytes, word) in [
        ("empty.json", Vec::new(), "empty"),
        ("text.json", b"hello".to_vec(), "not a Kernel Tuner cache"),
        ("cut.json", whole[..whole.len() / 2].to_vec(), "not a Kernel Tuner cache"),
        ("cut.json.gz", squeezed[..squeezed.len() / 2].to_vec(), "cannot read"),
        ("bomb.json.gz", bomb, "decompresses to more than"),
        ("later.json", t4, "2.0.0"),
        ("other.json", b"{\"a\": 1}".to_vec(), "neither"),
    ] {
        std::fs::write(project.path().join(name), bytes).expect("written");
        for arguments in [
            &["simulate", "--cache", name, "--repeats", "1"][..],
            &["convert", name, "out.json", "--format", "t4"],
        ] {
            let output = project.run(arguments);
            let said = text(&output.stderr);
            assert_eq!(output.status.code(), Some(2), "{arguments:?} said\n{said}");
            assert!(said.contains(word) && said.contains(name), "{arguments:?} said\n{said}");
        }
    }
    let said = project.fails(2, &["simulate", "--cache", "."]);
    assert!(said.contains("folder"), "{said}");
}
