//! The server for coding agents, from end to end: raw messages on real pipes, real compiler, real gate.

use std::collections::VecDeque;
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::support::{Project, processes_with, text, wait_for};

/// Longer than anything here takes, on a machine that is busy with other campaigns.
const PATIENCE: Duration = Duration::from_secs(240);

/// An agent's side of a server.
struct Agent {
    server: Child,
    input: Option<ChildStdin>,
    lines: Receiver<String>,
    next_id: u64,
    /// What arrived beside the answers.
    told: VecDeque<Value>,
}

impl Agent {
    /// Starts a server in a project and greets it.
    fn arrive(project: &Project) -> Self {
        let mut agent = Self::start(project);
        let hello = agent.request(
            "initialize",
            json!({
                "protocolVersion": "2025-06-18", "capabilities": {},
                "clientInfo": { "name": "test", "version": "0" },
            }),
        );
        let answer = agent.answer(hello);
        assert_eq!(answer["result"]["serverInfo"]["name"], "warpsmith", "{answer}");
        assert!(
            answer["result"]["instructions"].as_str().is_some_and(|it| it.contains("list_labs"))
        );
        agent.send(&json!({ "jsonrpc": "2.0", "method": "notifications/initialized" }));
        agent
    }

    fn start(project: &Project) -> Self {
        let mut command = project.command(&["mcp"]);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut server = command.spawn().expect("the program starts");
        let stdout = server.stdout.take().expect("it is piped");
        let (sender, lines) = channel();
        std::thread::spawn(move || {
            for line in BufReader::new(stdout).lines().map_while(Result::ok) {
                if sender.send(line).is_err() {
                    break;
                }
            }
        });
        let input = server.stdin.take();
        Self { server, input, lines, next_id: 0, told: VecDeque::new() }
    }

    fn send(&mut self, message: &Value) {
        self.send_line(&message.to_string());
    }

    fn send_line(&mut self, line: &str) {
        let input = self.input.as_mut().expect("the input is open");
        writeln!(input, "{line}").and_then(|()| input.flush()).expect("the server listens");
    }

    fn request(&mut self, method: &str, params: Value) -> u64 {
        self.next_id += 1;
        let id = self.next_id;
        self.send(&json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params }));
        id
    }

    /// Calls a tool and asks to be told how far it is.
    fn call(&mut self, tool: &str, arguments: Value) -> u64 {
        let token = self.next_id + 1;
        let meta = json!({ "progressToken": token });
        self.request("tools/call", json!({ "name": tool, "arguments": arguments, "_meta": meta }))
    }

    /// Returns the next message; every line must be one of the protocol's.
    fn next(&mut self) -> Value {
        let line = self.lines.recv_timeout(PATIENCE).expect("the server says something");
        let message: Value =
            serde_json::from_str(&line).unwrap_or_else(|error| panic!("{error}: {line}"));
        assert_eq!(message["jsonrpc"], "2.0", "{message}");
        message
    }

    /// Waits for the answer to a request.
    fn answer(&mut self, id: u64) -> Value {
        loop {
            let message = self.next();
            if message["id"] == id {
                return message;
            }
            self.told.push_back(message);
        }
    }

    /// Calls a tool, expects that it was served, and returns its structured answer.
    fn ask(&mut self, tool: &str, arguments: Value) -> Value {
        let id = self.call(tool, arguments);
        let answer = self.answer(id);
        let result = &answer["result"];
        assert_eq!(result["isError"], false, "{tool}: {answer}");
        assert!(result["content"][0]["text"].as_str().is_some_and(|it| !it.is_empty()), "{answer}");
        result["structuredContent"].clone()
    }

    /// Calls a tool, expects that it was refused, and returns the words.
    fn refused(&mut self, tool: &str, arguments: Value) -> String {
        let id = self.call(tool, arguments);
        let answer = self.answer(id);
        assert_eq!(answer["result"]["isError"], true, "{tool}: {answer}");
        answer["result"]["content"][0]["text"].as_str().expect("words").to_string()
    }

    /// Waits until the server says that it does something.
    fn hears(&mut self, words: &str) {
        let is_it = |message: &Value| {
            message["params"]["message"].as_str().is_some_and(|it| it.contains(words))
        };
        if self.told.iter().any(is_it) {
            return;
        }
        loop {
            let message = self.next();
            let found = is_it(&message);
            assert!(message.get("result").is_none(), "an answer before `{words}`: {message}");
            self.told.push_back(message);
            if found {
                return;
            }
        }
    }

    /// Hangs up and waits for the server's end.
    fn leave(mut self) {
        drop(self.input.take());
        let start = Instant::now();
        let status = loop {
            if let Some(status) = self.server.try_wait().expect("it can be waited for") {
                break status;
            }
            assert!(start.elapsed() < PATIENCE, "the server stays alone");
            std::thread::sleep(Duration::from_millis(10));
        };
        assert!(status.success(), "{status}");
    }
}

impl Drop for Agent {
    fn drop(&mut self) {
        // Gone already, unless a test failed.
        let _gone = self.server.kill();
        let _reaped = self.server.wait();
    }
}

/// The scaffold's kernel with another body of its inner loop.
fn source(body: &str) -> String {
    format!(
        "#include <stdint.h>\n\
         void probe(const float *x, const float *bias, float *y, int64_t n, int64_t d, float scale,\n\
         \x20          int64_t block_begin, int64_t block_end) {{\n    (void)n;\n\
         \x20   for (int64_t row = block_begin; row < block_end; row++) {{\n\
         \x20       for (int64_t i = 0; i < d; i++) {{\n            {body}\n        }}\n    }}\n}}\n"
    )
}

const RIGHT: &str = "y[row * d + i] = bias[i] + x[row * d + i] * scale;";
const WRONG: &str = "y[row * d + i] = bias[i] - x[row * d + i] * scale;";

fn candidate(source: &str) -> Value {
    json!({ "lab": "probe", "kernel": "00_naive", "source": source, "title": "of a test" })
}

fn with(mut arguments: Value, name: &str, value: Value) -> Value {
    arguments[name] = value;
    arguments
}

/// Copies the lab of known cheats into a project.
fn add_cheats(project: &Project) {
    let from = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../labs/_cheats");
    let to = project.path().join("labs/_cheats");
    for folder in ["", "kernels", "include"] {
        std::fs::create_dir_all(to.join(folder)).expect("a folder");
        for entry in std::fs::read_dir(from.join(folder)).expect("the cheats").flatten() {
            if entry.path().is_file() {
                let copy = to.join(folder).join(entry.file_name());
                std::fs::copy(entry.path(), copy).expect("copied");
            }
        }
    }
}

fn cheat(project: &Project, name: &str) -> Value {
    let path = project.path().join("labs/_cheats/kernels").join(name);
    let source = std::fs::read_to_string(path).expect("a cheat");
    json!({ "lab": "_cheats", "kernel": "000_naive", "source": source })
}

#[test]
fn an_agent_gets_what_is_right_onto_the_leaderboard_and_nothing_else() {
    let project = Project::new();
    let manifest = project.lab().join("lab.toml");
    let extra = "[[extra]]\nname = \"wide\"\naxes = { N = 8, D = 4096 }\n\n[ranges]";
    let text = std::fs::read_to_string(&manifest).expect("a manifest").replace("[ranges]", extra);
    std::fs::write(&manifest, text).expect("written");
    let mut agent = Agent::arrive(&project);
    let id = agent.request("tools/list", json!({}));
    let tools = agent.answer(id)["result"]["tools"].clone();
    let names: Vec<&str> =
        tools.as_array().expect("a list").iter().filter_map(|it| it["name"].as_str()).collect();
    assert_eq!(
        names,
        ["list_labs", "read_kernel", "evaluate", "profile", "compare", "leaderboard", "read_trial"]
    );
    for tool in tools.as_array().expect("a list") {
        assert_eq!(tool["inputSchema"]["type"], "object", "{tool}");
        assert!(tool["annotations"]["readOnlyHint"].is_boolean(), "{tool}");
        for (name, property) in tool["inputSchema"]["properties"].as_object().expect("properties") {
            assert!(property["description"].is_string(), "`{name}` of {tool} is not explained");
        }
    }

    let labs = agent.ask("list_labs", json!({}));
    assert_eq!(labs["labs"][0]["lab"], "probe", "{labs}");
    assert_eq!(labs["labs"][0]["extra"], json!(["wide"]), "{labs}");
    let kernel = agent.ask("read_kernel", json!({ "lab": "probe", "kernel": "00_naive" }));
    assert!(kernel["source"].as_str().is_some_and(|it| it.contains("void probe")), "{kernel}");
    assert!(kernel["contract"].as_str().is_some_and(|it| it.contains("[[launch]]")), "{kernel}");
    assert!(agent.ask("leaderboard", json!({ "lab": "probe" }))["places"] == json!([]));

    // Right, at the quick gate: an idea, and not yet on the board.
    let good = agent.ask("evaluate", candidate(&source(RIGHT)));
    assert_eq!(good["verdict"], "passed", "{good}");
    assert!(good["time_s"].as_f64().is_some_and(|it| it > 0.0), "{good}");
    assert!(good["over_base"]["speedup"].as_f64().is_some_and(|it| it > 0.0), "{good}");
    assert!(good["workloads"][0]["share_of_roofline"].is_number(), "{good}");
    agent.hears("proving");
    agent.hears("compiling");
    let numbers: Vec<f64> =
        agent.told.iter().filter_map(|it| it["params"]["progress"].as_f64()).collect();
    assert!(numbers.is_sorted_by(|a, b| a < b), "progress only ever grows: {numbers:?}");
    assert_eq!(agent.ask("leaderboard", json!({ "lab": "probe" }))["places"], json!([]));

    // Wrong: where, and by how much.
    let wrong = agent.ask("evaluate", candidate(&source(WRONG)));
    assert_eq!(wrong["verdict"], "incorrect", "{wrong}");
    let mismatch = &wrong["failure"]["mismatch"];
    assert!(mismatch["index"].is_array() && mismatch["excess"].is_number(), "{wrong}");
    // What does not compile: the first errors.
    let broken = agent.ask("evaluate", candidate(&source("y[0] = nothing;")));
    assert_eq!(broken["verdict"], "compile_failed", "{broken}");
    let said = broken["failure"]["compiler"].as_str().expect("words");
    assert!(said.contains("nothing"), "{said}");
    // Out of bounds: which tensor.
    let past = source(RIGHT).replace("i < d", "i < d + 4096");
    let past = agent.ask("evaluate", candidate(&past));
    assert!(past["verdict"] == "crashed" || past["verdict"] == "incorrect", "{past}");

    // The full gate is what counts; asked again, it is not measured again.
    let full = agent.ask("evaluate", with(candidate(&source(RIGHT)), "gate", json!("full")));
    assert_eq!((&full["verdict"], &full["place"]), (&json!("passed"), &json!(1)), "{full}");
    let wrong_too = with(candidate(&source(WRONG)), "gate", json!("full"));
    assert_eq!(agent.ask("evaluate", wrong_too)["verdict"], "incorrect");
    let board = agent.ask("leaderboard", json!({ "lab": "probe" }));
    assert_eq!(board["places"].as_array().map(Vec::len), Some(1), "{board}");
    assert_eq!(board["places"][0]["trial"], full["trial"]);

    // A kernel of the lab with other parameters, and a comparison of both.
    let tuned = json!({ "lab": "probe", "kernel": "10_vector" });
    assert_eq!(agent.ask("evaluate", tuned)["verdict"], "passed");
    let trial = full["trial"].as_str().expect("an id").to_string();
    let contenders = json!(["00_naive", format!("trial:{trial}")]);
    let compared = agent.ask("compare", json!({ "lab": "probe", "contenders": contenders }));
    assert!(compared["speedups"][0]["overall"]["mid"].is_number(), "{compared}");
    let profile = agent.ask("profile", candidate(&source(RIGHT)));
    assert!(profile["diagnosis"][0].as_str().is_some_and(|it| it.contains("n256d1024")));

    // What is on record, by tool and by address.
    let read = agent.ask("read_trial", json!({ "trial": &trial[..12], "source": true }));
    assert_eq!(read["source"], source(RIGHT));
    let run = full["run"].as_str().expect("a run").to_string();
    for (uri, words) in [
        (format!("warpsmith://trials/{trial}/source"), "void probe"),
        (format!("warpsmith://trials/{trial}"), "samples_s"),
        ("warpsmith://labs/probe/kernels/00_naive.toml".to_string(), "[[launch]]"),
        (format!("warpsmith://runs/{run}/report"), "<html"),
    ] {
        let id = agent.request("resources/read", json!({ "uri": uri }));
        let answer = agent.answer(id);
        let text = answer["result"]["contents"][0]["text"].as_str().unwrap_or_default();
        assert!(text.contains(words), "`{words}` is not at {uri}: {answer}");
    }
    let id = agent.request("resources/list", json!({}));
    let listed = agent.answer(id)["result"]["resources"].to_string();
    assert!(listed.contains("warpsmith://labs/probe/lab.toml") && listed.contains(&run));
    agent.leave();

    // The other commands see the session as they see every run.
    assert_eq!(project.statuses(), ["finished"]);
    let shown = project.json(&["show", &run]);
    assert!(shown["trials"].as_array().is_some_and(|it| it.len() >= 6), "{shown}");
    let source_again = project.ok(&["show", &trial, "--source"]);
    assert!(source_again.contains(RIGHT), "{source_again}");
    project.ok(&["report", &run]);
    assert!(project.fails(2, &["resume", &run]).contains("session of a coding agent"));
}

#[test]
fn no_cheat_of_an_agent_passes() {
    let project = Project::new();
    add_cheats(&project);
    let mut agent = Agent::arrive(&project);
    for (name, verdict) in [
        ("101_writes_zeros.c", "incorrect"),
        ("413_honest_until_timed.c", "incorrect"),
        ("701_reads_a_file.c", "crashed"),
        ("605_writes_an_input.c", "crashed"),
    ] {
        let answer = agent.ask("evaluate", with(cheat(&project, name), "gate", json!("full")));
        assert_eq!(answer["verdict"], verdict, "{name}: {answer}");
    }
    for (name, words) in
        [("904_includes_a_secret.c", "forbidden include"), ("902_other_name.c", "does not define")]
    {
        let said = agent.refused("evaluate", cheat(&project, name));
        assert!(said.contains(words), "{name}: {said}");
    }
    let board = agent.ask("leaderboard", json!({ "lab": "_cheats" }));
    assert_eq!(board["places"], json!([]), "{board}");
    agent.leave();
}

#[test]
fn bad_calls_are_answered_with_what_to_do() {
    let project = Project::new();
    std::fs::write(project.path().join("secret.txt"), "secret").expect("written");
    std::os::unix::fs::symlink("/etc/hostname", project.path().join("link.c")).expect("a link");
    std::fs::write(project.path().join("mine.c"), source(RIGHT)).expect("written");
    let mut agent = Agent::arrive(&project);
    let naive = || json!({ "lab": "probe", "kernel": "00_naive" });
    for (tool, arguments, words) in [
        ("evaluate", json!({ "lab": "prob", "kernel": "00_naive" }), "did you mean `probe`"),
        ("evaluate", json!({ "lab": "../probe", "kernel": "00_naive" }), "no lab `../probe`"),
        ("evaluate", json!({ "lab": "/etc", "kernel": "00_naive" }), "no lab `/etc`"),
        ("read_kernel", json!({ "lab": "probe", "kernel": "99_none" }), "no kernel `99_none`"),
        ("read_kernel", json!({ "lab": "probe", "kernel": "../../x" }), "no kernel"),
        ("evaluate", with(naive(), "file", json!("../mine.c")), "does not lead into the project"),
        ("evaluate", with(naive(), "file", json!("/etc/passwd")), "does not lead into the project"),
        ("evaluate", with(naive(), "file", json!("secret.txt")), "not read as a source"),
        ("evaluate", with(naive(), "file", json!("link.c")), "leads out of the project"),
        ("evaluate", with(naive(), "file", json!("none.c")), "cannot find"),
        ("evaluate", with(naive(), "source", json!("x".repeat(70_000))), "too large"),
        ("evaluate", with(naive(), "contract", json!("x")), "keeps the contract"),
        ("evaluate", with(naive(), "sauce", json!("x")), "no argument `sauce`"),
        ("evaluate", with(naive(), "source", json!(7)), "not understood"),
        ("evaluate", with(naive(), "gate", json!("none")), "not understood"),
        ("evaluate", json!({ "lab": "probe" }), "missing field `kernel`"),
        ("evaluate", with(naive(), "params", json!({ "NO": 1 })), "no tunable `NO`"),
        (
            "evaluate",
            with(candidate(&source(RIGHT)), "tunables", json!({ "lower": [1] })),
            "no name of a tunable",
        ),
        ("evaluate", candidate("int nothing;"), "does not define `probe`"),
        ("evaluate", candidate("#include \"/etc/passwd\"\nvoid probe(void);"), "forbidden include"),
        ("compare", json!({ "lab": "probe", "contenders": [] }), "needs two"),
        ("compare", json!({ "lab": "probe", "contenders": ["00_naive", "x"] }), "no kernel `x`"),
        ("read_trial", json!({ "trial": "../../x" }), "x"),
    ] {
        let said = agent.refused(tool, arguments.clone());
        assert!(said.contains(words), "`{words}` is not in what {tool} said:\n{said}");
    }
    for uri in ["warpsmith://labs/probe/../../secret.txt", "file:///etc/passwd", "warpsmith://x/y"]
    {
        let id = agent.request("resources/read", json!({ "uri": uri }));
        let answer = agent.answer(id);
        assert!(answer["error"]["message"].is_string(), "{uri}: {answer}");
    }
    let id = agent.request("tools/call", json!({ "name": "rm", "arguments": {} }));
    let answer = agent.answer(id);
    assert!(answer["error"]["message"].as_str().is_some_and(|it| it.contains("list_labs")));
    let id = agent.request("no/such/method", json!({}));
    assert!(agent.answer(id)["error"].is_object());
    // Lines that are no messages do not end the conversation, and neither does an endless one.
    agent.send_line("this is no JSON");
    agent.send_line("{\"jsonrpc\":\"2.0\",\"id\":true}");
    agent.send_line(&format!("{{\"jsonrpc\":\"2.0\",\"x\":\"{}\"}}", "y".repeat(17 << 20)));
    let mine = agent.ask("evaluate", with(naive(), "file", json!("mine.c")));
    assert_eq!(mine["verdict"], "passed", "{mine}");
    agent.leave();
}

#[test]
fn a_cancelled_evaluation_ends_soon_and_the_next_one_runs() {
    let project = Project::new();
    add_cheats(&project);
    let mut agent = Agent::arrive(&project);
    let honest = cheat(&project, "001_honest_vector.c");
    let first = agent.ask("evaluate", honest.clone());
    assert_eq!(first["verdict"], "passed", "{first}");
    agent.told.clear();

    let endless = agent.call("evaluate", cheat(&project, "800_loops_forever.c"));
    agent.hears("compiling");
    // Another one waits behind it, and says so.
    let waiting = agent.call("evaluate", json!({ "lab": "_cheats", "kernel": "000_naive" }));
    agent.hears("waiting: 1");
    wait_for("the candidate", || !runners(&project).is_empty());
    let cancelled = Instant::now();
    let params = json!({ "requestId": endless, "reason": "not wanted" });
    agent.send(&json!({ "jsonrpc": "2.0", "method": "notifications/cancelled", "params": params }));
    let answer = agent.answer(waiting);
    assert_eq!(answer["result"]["structuredContent"]["verdict"], "passed", "{answer}");
    assert!(agent.told.iter().all(|it| it["id"] != endless), "a cancelled call has no answer");
    let took = cancelled.elapsed();
    assert!(took < PATIENCE, "the next evaluation ended after {took:?}");
    // A compiler that comes to no end is stopped too.
    let bomb = agent.call("evaluate", cheat(&project, "908_expands_without_end.c"));
    wait_for("the compiler", || !in_project(&project, &["cc1"]).is_empty());
    let params = json!({ "requestId": bomb });
    agent.send(&json!({ "jsonrpc": "2.0", "method": "notifications/cancelled", "params": params }));
    wait_for("the compiler's end", || in_project(&project, &["cc1"]).is_empty());
    let labs = agent.ask("list_labs", json!({}));
    assert_eq!(labs["unlisted"], json!(["_cheats"]), "{labs}");
    // The run went on, and holds what was measured before and after.
    let trials = project.store().run("latest").and_then(|it| project.store().trials(&it.id));
    let kernels: Vec<String> =
        trials.expect("trials").iter().map(|it| it.trial.job.candidate.kernel.clone()).collect();
    assert_eq!(kernels.len(), 2, "{kernels:?}");
    assert_eq!(project.store().runs().expect("runs").len(), 1);
    agent.leave();
}

#[test]
fn an_agent_that_goes_away_leaves_nothing_running_and_loses_nothing() {
    let project = Project::new();
    add_cheats(&project);
    let mut agent = Agent::arrive(&project);
    let first = agent.ask("evaluate", cheat(&project, "001_honest_vector.c"));
    let endless = cheat(&project, "800_loops_forever.c");
    agent.told.clear();
    agent.call("evaluate", endless.clone());
    agent.hears("compiling");
    wait_for("the candidate", || !runners(&project).is_empty());
    agent.leave();
    wait_for("the end of every process", || ours(&project).is_empty());
    assert_eq!(project.statuses(), ["finished"]);
    let trial = first["trial"].as_str().expect("an id");
    assert!(project.ok(&["show", trial]).contains("passed"));

    // Killed outright, it takes its worker and the candidate with it.
    let mut agent = Agent::arrive(&project);
    agent.call("evaluate", endless);
    agent.hears("compiling");
    wait_for("the candidate", || !runners(&project).is_empty());
    agent.server.kill().expect("it can be killed");
    wait_for("the end of every process", || ours(&project).is_empty());
    assert!(project.ok(&["show", trial]).contains("passed"));

    // Asked by a signal, it ends in order although its input is open.
    let mut agent = Agent::arrive(&project);
    let id = agent.server.id().to_string();
    assert!(Command::new("kill").args(["-TERM", &id]).status().is_ok_and(|it| it.success()));
    wait_for("the server's end", || agent.server.try_wait().is_ok_and(|it| it.is_some()));
    assert!(agent.server.wait().is_ok_and(|status| status.success()));
}

#[test]
fn without_an_agent_the_server_says_what_it_is_for() {
    let project = Project::new();
    let output = project.run(&["mcp"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(text(&output.stderr).contains("docs/mcp.md"), "{}", text(&output.stderr));
    assert!(output.stdout.is_empty());
    assert!(project.fails(2, &["mcp", "--labs", "nowhere"]).contains("nowhere"));
    assert!(project.fails(2, &["mcp", "--labs", "labs/probe"]).contains("folder around it"));
}

/// The processes that run candidates of a project.
fn runners(project: &Project) -> Vec<u32> {
    in_project(project, &["__runner"])
}

/// Every process that a server in a project started, and the server.
fn ours(project: &Project) -> Vec<u32> {
    [in_project(project, &["__runner"]), in_project(project, &["__worker"])].concat()
}

fn in_project(project: &Project, words: &[&str]) -> Vec<u32> {
    let here = project.path().canonicalize().expect("the project's folder");
    let is_here = |pid: &u32| {
        std::fs::read_link(format!("/proc/{pid}/cwd")).is_ok_and(|cwd| cwd.starts_with(&here))
    };
    processes_with(words).into_iter().filter(is_here).collect()
}
