//! Evolutions from end to end: real compiler, real gate, recorded replies and a real server.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};

use serde_json::Value;

use crate::support::{Project, text};

const KEY: &str = "sk-integration-42-secret";

/// The scaffold's naive kernel with another body of its inner loop, and something before it.
fn reply(name: &str, before: &str, body: &str) -> String {
    format!(
        "name: {name}\ncode:\n```c\n#include <stdint.h>\n{before}\n\
         void probe(const float *x, const float *bias, float *y, int64_t n, int64_t d, float scale,\n\
         \x20          int64_t block_begin, int64_t block_end) {{\n    (void)n;\n\
         \x20   for (int64_t row = block_begin; row < block_end; row++) {{\n\
         \x20       for (int64_t i = 0; i < d; i++) {{\n            {body}\n        }}\n    }}\n}}\n```\n\
         thought: {name} <script>alert(1)</script>\n"
    )
}

fn right(name: &str, before: &str) -> String {
    reply(name, before, "y[row * d + i] = bias[i] + x[row * d + i] * scale;")
}

fn replies() -> Vec<String> {
    vec![
        right("sum the other way round", "static const int one = 1;"),
        "I would rather not.".to_string(),
        reply("no such name", "", "y[row * d + i] = nothing[i];"),
        reply("wrong sign", "", "y[row * d + i] = scale * x[row * d + i] - bias[i];"),
        right("past the end", "").replace("i < d; i++", "i <= d; i++"),
        right("tuned", "").replace("i++", "i += STEP") + "tunables:\nSTEP = [1]\n",
    ]
}

fn write_tape(project: &Project, replies: &[String]) {
    let tape: String = replies.iter().map(|reply| format!("=== reply\n{reply}\n")).collect();
    std::fs::write(project.path().join("tape"), tape).expect("written");
    let models = "[[model]]\nname = \"tape\"\nprovider = \"recorded\"\nfile = \"tape\"\n";
    std::fs::write(project.path().join("models.toml"), models).expect("written");
}

fn arguments(trials: &'static str) -> Vec<&'static str> {
    let mut all = vec!["evolve", "labs/probe", "--kernel", "00_naive", "--models", "models.toml"];
    all.extend(["--trials", trials, "--seed", "5", "--time", "300"]);
    all
}

fn check_funnel(tally: &Value) {
    let count = |name: &str| tally[name].as_u64().expect("a count");
    assert_eq!(tally["rejected"], serde_json::json!({ "no code": 1 }), "{tally}");
    let funnel = ["calls", "unanswered", "parsed", "compiled", "correct"].map(count);
    // The compiler may make the same program of the seed and of what only looks different; such a
    // twin is not a candidate of its own.
    let twins = count("twins");
    assert_eq!(funnel, [6, 0, 5, 4 - twins, 2 - twins], "{tally}");
}

#[test]
fn an_evolution_is_gated_reported_resumed_and_replayed() {
    let project = Project::new();
    // The recording ends too early: that stops the run with words, and everything is kept.
    write_tape(&project, &replies()[..3]);
    let said = project.fails(2, &arguments("6"));
    assert!(said.contains("no more than 3 replies"), "{said}");
    assert_eq!(project.json(&["runs"])["runs"][0]["status"]["status"], "failed");
    write_tape(&project, &replies());
    let resumed = project.json(&["resume"]);
    check_funnel(&resumed["evolution"]["tally"]);
    let run = resumed["run"].as_str().expect("a run").to_string();
    assert_eq!(
        project.store().calls(&project.store().run(&run).expect("it").id).expect("calls").len(),
        6
    );

    let source = resumed["evolution"]["source"].as_str().expect("a path");
    assert!(project.path().join(source).is_file(), "{source}");
    let report = project.path().join(resumed["report"].as_str().expect("a path"));
    let html = std::fs::read_to_string(report).expect("the report");
    for words in
        ["How the source evolved", "Lineage", "I would rather not.", "wrong sign", "Prompt"]
    {
        assert!(html.contains(words), "`{words}` is not in the report");
    }
    assert!(!html.contains("<script>alert(1)"), "a thought is text");

    let first = project.json(&["replay", &run, "--fake-device"]);
    let second = project.json(&["replay", &run, "--fake-device"]);
    assert_eq!(first["decisions"], second["decisions"]);
    check_funnel(&first["tally"]);
    let again = project.json(&["replay", &run]);
    assert_eq!(again["decisions"], first["decisions"]);
    assert!(again["again"].as_array().is_some_and(|list| list.len() >= 4), "{again}");

    // Another source, another lab: the replay says so instead of deciding otherwise.
    let kernel = project.lab().join("kernels/00_naive.c");
    let source = std::fs::read_to_string(&kernel).expect("a source");
    std::fs::write(&kernel, format!("{source}\n// edited\n")).expect("written");
    let said = project.fails(2, &["replay", &run, "--fake-device"]);
    assert!(said.contains("was edited"), "{said}");
}

/// Adds a kernel to the lab that is right and so slow that anything is faster.
fn add_slow_kernel(project: &Project) {
    let kernels = project.lab().join("kernels");
    let slow = right("slow", "").replace(
        "y[row * d + i] = bias",
        "for (volatile int pause = 0; pause < 30; pause++) {}\n            y[row * d + i] = bias",
    );
    let code = slow.split("```").nth(1).expect("a block of code");
    let code = code.trim_start_matches("c\n");
    std::fs::write(kernels.join("05_slow.c"), code).expect("written");
    std::fs::copy(kernels.join("00_naive.toml"), kernels.join("05_slow.toml")).expect("copied");
}

#[test]
fn a_winner_that_a_model_wrote_is_exported_and_compared_from_the_evidence() {
    let project = Project::new();
    add_slow_kernel(&project);
    let tuned = right("stepped", "").replace("i++", "i += STEP") + "tunables:\nSTEP = [1]\n";
    write_tape(&project, &[tuned]);
    let mut evolve = vec!["evolve", "labs/probe", "--kernel", "05_slow", "--models", "models.toml"];
    evolve.extend(["--trials", "1", "--seed", "5"]);
    let evolved = project.json(&evolve);
    assert_eq!(evolved["evolution"]["is_evolved"], true, "{evolved}");
    let run = evolved["run"].as_str().expect("a run").to_string();

    let files = project.json(&["export", &run, "--out", "exported"]);
    let files = files["files"].to_string();
    for file in ["exported/e000_stepped.c", "exported/e000_stepped.toml"] {
        assert!(files.contains(file), "{file} is not in {files}");
    }
    // What was exported is a kernel that the lab takes.
    let source = ["--source", "exported/e000_stepped.c"];
    let contract = ["--contract", "exported/e000_stepped.toml", "--quick"];
    project.ok(&[&["check", "labs/probe"][..], &source, &contract].concat());

    // By its run, and by its trial.
    let trial = evolved["winner"]["trial"].as_str().expect("a trial");
    for contender in [format!("run:{run}"), format!("trial:{trial}")] {
        let compared =
            project.json(&["compare", "labs/probe", &contender, "05_slow", "--time", "0.3"]);
        assert_eq!(compared["speedups"][0]["verdict"], "faster", "{contender}: {compared}");
    }
    let edited = project.lab().join("kernels/05_slow.c");
    let text = std::fs::read_to_string(&edited).expect("a source");
    std::fs::write(&edited, format!("{text}\n// edited\n")).expect("written");
    let trial = format!("trial:{trial}");
    let said = project.fails(2, &["compare", "labs/probe", &trial, "00_naive"]);
    assert!(said.contains("before it was edited"), "{said}");
}

#[test]
fn an_ablation_gives_every_mode_the_same_budget_and_keeps_the_comparison() {
    let project = Project::new();
    add_slow_kernel(&project);
    write_tape(&project, &[right("plain", ""), "no code".to_string()]);
    let mut evolve = vec!["evolve", "labs/probe", "--kernel", "05_slow", "--models", "models.toml"];
    evolve.extend(["--trials", "2", "--seed", "5", "--workload", "n256d1024", "--ablate"]);
    let ablated = project.json(&evolve);
    let modes = ablated["modes"].as_array().expect("modes");
    let names: Vec<&str> = modes.iter().filter_map(|it| it["mode"].as_str()).collect();
    assert_eq!(names, ["free", "insight", "full", "best-of-n"], "{ablated}");
    for mode in modes {
        assert_eq!((&mode["calls"], &mode["correct"]), (&2.into(), &1.into()), "{mode}");
    }
    assert_eq!(project.statuses(), ["finished"; 4]);
    let store = project.store();
    let last = store.run("latest").expect("a run").id;
    let kept = store.ablation(&last).expect("readable").expect("kept");
    assert_eq!(kept.arms.len(), 4);
    // How large they are is the machine's affair.
    assert!(kept.arms.iter().all(|arm| arm.best_speedups.iter().all(|it| *it > 0.0)), "{kept:?}");
    let report = project.path().join(ablated["report"].as_str().expect("a path"));
    assert!(std::fs::read_to_string(report).expect("the report").contains("best-of-n"));
}

/// Reads a request to the end of its body; an answer before that could reset the connection.
fn read_request(stream: &mut TcpStream) {
    let mut reader = BufReader::new(stream);
    let mut length = 0;
    loop {
        let mut line = String::new();
        reader.read_line(&mut line).expect("a line of the head");
        let line = line.trim_end().to_ascii_lowercase();
        if let Some(value) = line.strip_prefix("content-length:") {
            length = value.trim().parse().expect("a number");
        }
        if line.is_empty() {
            break;
        }
    }
    let mut body = vec![0; length];
    reader.read_exact(&mut body).expect("the body");
}

#[test]
fn no_key_reaches_the_evidence() {
    let project = Project::new();
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let url = format!("http://{}", listener.local_addr().expect("an address"));
    std::thread::spawn(move || {
        for (number, mut stream) in listener.incoming().flatten().enumerate() {
            read_request(&mut stream);
            let text = match number {
                0 => format!("Your key is {KEY}."),
                _ => right(KEY, &format!("// {KEY}\nstatic const char k[] = \"{KEY}\";")),
            };
            let body = serde_json::json!({
                "choices": [{ "message": { "content": text }, "finish_reason": "stop" }],
                "usage": { "prompt_tokens": 1000, "completion_tokens": 500 },
            });
            let body = body.to_string();
            let head = format!(
                "HTTP/1.1 200 ok\r\nx-key: {KEY}\r\ncontent-length: {}\r\nconnection: close\r\n\r\n",
                body.len()
            );
            let _gone =
                stream.write_all(head.as_bytes()).and_then(|()| stream.write_all(body.as_bytes()));
        }
    });
    let models = format!(
        "[[model]]\nname = \"server\"\nprovider = \"openai\"\nmodel = \"m\"\nbase_url = \"{url}\"\n\
         key_env = \"PROBE_KEY\"\nprice_in = 10\nprice_out = 20\n"
    );
    std::fs::write(project.path().join("models.toml"), models).expect("written");
    let said = project.fails(2, &arguments("9"));
    assert!(said.contains("PROBE_KEY") && said.contains("not set"), "{said}");
    // Each call costs 0.02: the third passes 0.05, and there is no fourth.
    let output = project
        .command(&arguments("9"))
        .args(["--money", "0.05", "--json"])
        .env("PROBE_KEY", KEY)
        .output()
        .expect("the program starts");
    assert!(output.status.success(), "{}", text(&output.stderr));
    let summary: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    assert_eq!(summary["evolution"]["tally"]["calls"], 3, "{summary}");
    assert_eq!(summary["evolution"]["stop"], "the budget of money is spent");
    let mut looked_at = 0;
    let mut folders = vec![project.path().to_path_buf()];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).expect("a folder").flatten() {
            let path = entry.path();
            if path.is_dir() {
                folders.push(path);
                continue;
            }
            let bytes = std::fs::read(&path).unwrap_or_default();
            looked_at += 1;
            let found = bytes.windows(KEY.len()).any(|window| window == KEY.as_bytes());
            assert!(!found, "the key is in {}", path.display());
        }
    }
    assert!(looked_at > 5);
    assert!(!text(&output.stderr).contains(KEY) && !text(&output.stdout).contains(KEY));
}

#[test]
fn bad_input_is_told_what_and_where() {
    let project = Project::new();
    let check = |arguments: &[&str], words: &[&str]| {
        let said = project.fails(2, arguments);
        for word in words {
            assert!(said.contains(word), "`{word}` is not in what {arguments:?} said:\n{said}");
        }
    };
    let kernel = ["evolve", "labs/probe", "--kernel", "00_naive"];
    check(&kernel, &["warpsmith-models.toml", "--models", "docs/evolve.md"]);
    write_tape(&project, &replies());
    let with = |more: &[&'static str]| -> Vec<&'static str> {
        kernel
            .iter()
            .copied()
            .chain(["--models", "models.toml"])
            .chain(more.iter().copied())
            .collect()
    };
    check(&with(&["--mode", "wild"]), &["wild", "best-of-n"]);
    check(&with(&["--trials", "0"]), &["--trials"]);
    check(&with(&["--money=-1"]), &["--money"]);
    check(&with(&["--money", "3"]), &["price_in"]);
    check(&with(&["--time", "0"]), &["--time"]);
    check(&with(&["--repeats", "2"]), &["--ablate"]);
    check(&with(&["--workload", "none"]), &["no workload `none`"]);
    let unknown = ["evolve", "labs/probe", "--kernel", "01_none", "--models", "models.toml"];
    check(&unknown, &["01_none", "00_naive"]);
    std::fs::write(project.path().join("models.toml"), "[[model]]\nname = 3\n").expect("written");
    check(&with(&[]), &["models.toml", "not valid"]);
    project.ok(&["check", "labs/probe", "--kernel", "00_naive", "--quick"]);
    check(&["replay"], &["only `evolve` runs can be replayed"]);
}
