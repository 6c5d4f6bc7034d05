//! Problems of other people as labs: a real Python with a real NumPy, which is installed once into the folder
//! of build outputs.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

use serde_json::Value;

use crate::support::{Project, text};

const PROBLEMS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/it/problems");

/// Installed on its own, so that nothing depends on what the machine has.
const NUMPY: &str = "numpy>=2,<3";

/// Returns an environment with NumPy; the first test that asks makes it, and it stays.
fn environment() -> &'static Path {
    static MADE: OnceLock<PathBuf> = OnceLock::new();
    MADE.get_or_init(|| {
        let dir = Path::new(env!("CARGO_TARGET_TMPDIR")).join("import-venv");
        let ready = dir.join("ready");
        if ready.exists() {
            return dir;
        }
        let run = |program: &Path, arguments: &[&str]| {
            let output = Command::new(program).args(arguments).output().expect("it starts");
            assert!(output.status.success(), "{program:?} {arguments:?}\n{}", text(&output.stderr));
        };
        let path = dir.display().to_string();
        run(Path::new("python3"), &["-m", "venv", "--clear", &path]);
        run(&dir.join("bin/python"), &["-m", "pip", "install", "--quiet", NUMPY]);
        std::fs::write(&ready, "").expect("written");
        dir
    })
}

/// A project whose own Python has NumPy, without a lab.
fn project() -> Project {
    let project = Project::new();
    project.use_python(environment());
    project
}

fn write(project: &Project, name: &str, content: &str) -> String {
    let path = project.path().join(name);
    std::fs::create_dir_all(path.parent().expect("a folder")).expect("made");
    std::fs::write(&path, content).expect("written");
    path.display().to_string()
}

fn example() -> String {
    format!("{PROBLEMS}/scaled_rows.py")
}

/// A right kernel for the example, with something to tune.
const KERNEL: &str = "#include <stdint.h>
void scaled_rows(const float *x, const float *weight, const float *bias, float *out, int64_t batch,
                 int64_t features, int64_t width, double slope, int64_t block_begin, int64_t block_end) {
    (void)batch;
    for (int64_t row = block_begin; row < block_end; row++) {
        for (int64_t j = 0; j < width; j++) {
            double sum = 0;
            for (int64_t i = 0; i < features; i++) {
                sum += (double)x[row * features + i] * weight[j * features + i];
            }
            sum += bias[j];
            out[row * width + j] = (float)(sum > slope * sum ? sum : slope * sum);
        }
    }
}
";
const CONTRACT: &str = "format = 1
target = \"cpu\"
summary = \"Rows in double\"
flags = [\"-O2\"]
[[launch]]
entry = \"scaled_rows\"
blocks = \"batch\"
chunk = \"CHUNK\"
[tunables]
CHUNK = [1, 4]
[search]
default = { CHUNK = 1 }
";

#[test]
fn a_numpy_module_becomes_a_lab_that_is_checked_compared_tuned_and_counted() {
    let project = project();
    // An import that was killed left its unfinished lab behind.
    write(&project, "labs/.scaled_rows.part/kernels/99_half.c", "");
    let made = project.json(&["import", "kernelbench", &example()]);
    assert!(!project.path().join("labs/scaled_rows/kernels/99_half.c").exists());
    assert!(!project.path().join("labs/.scaled_rows.part").exists());
    let notes = made["notes"].to_string();
    assert!(notes.contains("`unused` of the module"), "{notes}");
    let manifest = std::fs::read_to_string(project.path().join("labs/scaled_rows/lab.toml"))
        .expect("the manifest");
    for part in [
        "axes   = [\"batch\", \"features\", \"width\"]",
        "shape = [\"width\", \"features\"]",
        "shape = [\"batch\", \"width\"]",
        "name  = \"slope\"\ndtype = \"f64\"\nvalue = \"0.25\"",
        "axes = { batch = 24, features = 40, width = 16 }",
        "name    = \"mixed scales\"",
        "[ranges]",
    ] {
        assert!(manifest.contains(part), "`{part}` is not in\n{manifest}");
    }

    // The starting point loads, compiles and is told that it computes nothing.
    let said = project.fails(1, &["check", "labs/scaled_rows", "--quick"]);
    assert!(said.contains("00_start") && said.contains("elements never written"), "{said}");

    // A model can write it.
    let models = "[[model]]\nname = \"tape\"\nprovider = \"recorded\"\nfile = \"tape.replies\"\n";
    write(&project, "models.toml", models);
    write(&project, "tape.replies", &reply("rows", KERNEL));
    let evolve = ["evolve", "labs/scaled_rows", "--models", "models.toml", "--trials", "1"];
    let written = project.json(&[&evolve[..], &["--kernel", "00_start"]].concat());
    assert_eq!(written["winner"]["kernel"], "e000_rows", "{written}");
    assert_eq!(written["evolution"]["tally"]["from_seed"], false, "{written}");

    write(&project, "labs/scaled_rows/kernels/10_rows.c", KERNEL);
    write(&project, "labs/scaled_rows/kernels/10_rows.toml", CONTRACT);
    let checked = project.json(&["check", "labs/scaled_rows", "--kernel", "10_rows"]);
    assert_eq!(checked["checks"][0]["verdict"], "passed", "{checked}");

    // A kernel that leaves the bias out is right wherever the module's own bias, zero, is used.
    write(&project, "wrong.c", &KERNEL.replace("sum += bias[j];", "(void)bias;"));
    let wrong = ["--source", "wrong.c", "--contract", "labs/scaled_rows/kernels/10_rows.toml"];
    let said = project.fails(1, &[&["check", "labs/scaled_rows", "--quick"][..], &wrong].concat());
    assert!(said.contains("incorrect"), "{said}");

    let compared = project.json(&["compare", "labs/scaled_rows", "10_rows", "module"]);
    assert!(compared.to_string().contains("\"module\""), "{compared}");
    let fast = project.json(&["fastp", "labs/scaled_rows"]);
    assert_eq!(fast["problems"][0]["baseline"], "module", "{fast}");
    assert!(fast["problems"][0]["speedup"].as_f64().is_some_and(|it| it > 0.0), "{fast}");
    assert_eq!(fast["fast_p"][0], serde_json::json!({ "p": 0.0, "share": 1.0 }));

    // A model is told what the module computes, and its kernels are held against it.
    let faster = KERNEL.replace("double sum = 0;", "double sum = bias[j];");
    let faster = faster.replace("            sum += bias[j];\n", "");
    write(&project, "tape.replies", &reply("bias first", &faster));
    let evolved = project.json(&[&evolve[..], &["--kernel", "10_rows"]].concat());
    let store = project.store();
    let run = store.run("latest").expect("a run");
    let calls = store.calls(&run.id).expect("its calls");
    let texts = store.call_texts(&calls).expect("its texts");
    assert!(texts.values().any(|it| it.contains("class Model:")), "{evolved}");
    let trials = store.trials(&run.id).expect("its trials");
    let is_new =
        |it: &&warpsmith_model::RunTrial| it.trial.job.candidate.kernel.starts_with("e000");
    let judged = trials.iter().find(is_new).expect("the reply was tried");
    assert_eq!(judged.trial.outcome.verdict().name(), "passed", "{evolved}");

    let run = ["run", "labs/scaled_rows", "--kernel", "10_rows", "--budget", "2", "--time", "5"];
    project.ok(&run);
    let traces = exported(&project, "scaled_rows");
    let trace = &traces[0];
    assert_eq!(trace["evaluation"]["status"], "PASSED", "{trace}");
    assert_eq!(trace["workload"]["inputs"]["slope"]["value"], 0.25, "{trace}");
    let performance = &trace["evaluation"]["performance"];
    for key in ["latency_ms", "reference_latency_ms", "speedup_factor"] {
        assert!(performance[key].as_f64().is_some_and(|it| it > 0.0), "{trace}");
    }
}

/// A recorded reply with a kernel.
fn reply(name: &str, kernel: &str) -> String {
    format!("=== reply\nname: {name}\ncode:\n```c\n{kernel}```\nthought: as the module does\n")
}

/// Exports the newest run and returns its traces.
fn exported(project: &Project, definition: &str) -> Vec<Value> {
    project.ok(&["export", "latest", "--format", "flashinfer", "--out", "out"]);
    let path = project.path().join(format!("out/flashinfer/traces/{definition}.jsonl"));
    let lines = std::fs::read_to_string(path).expect("traces");
    lines.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect()
}

#[test]
fn a_definition_with_workloads_and_a_solution_becomes_a_lab_and_its_runs_traces() {
    let project = project();
    let folder = format!("{PROBLEMS}/trace");
    let output = project.run(&["import", "flashinfer", &folder, "--json"]);
    assert_eq!(output.status.code(), Some(1), "one definition is refused");
    let said = text(&output.stderr);
    assert!(said.contains("`gather` was not imported") && said.contains("int32"), "{said}");
    let made: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    let notes = made["labs"][1]["notes"].to_string();
    for part in ["w-stored was left out", "have the shape of an earlier one"] {
        assert!(notes.contains(part), "`{part}` is not in {notes}");
    }
    let kernel = "#include <stdint.h>
void scale_h48(const float *x, const float *factor, float *y, int64_t rows, int64_t hidden, float bias,
               int64_t block_begin, int64_t block_end) {
    (void)rows;
    for (int64_t row = block_begin; row < block_end; row++) {
        for (int64_t i = 0; i < hidden; i++) {
            y[row * hidden + i] = x[row * hidden + i] * factor[row] + 2.0f * bias;
        }
    }
}
";
    write(&project, "labs/scale_h48/kernels/00_start.c", kernel);
    project.ok(&["check", "labs/scale_h48"]);
    let traces = exported(&project, "scale_h48");
    assert_eq!(traces.len(), 1);
    let trace = &traces[0];
    assert_eq!(trace["definition"], "scale_h48");
    assert_eq!(trace["workload"]["uuid"], "w-256");
    assert_eq!(trace["workload"]["axes"]["rows"], 256);
    assert_eq!(
        trace["workload"]["inputs"]["bias"],
        serde_json::json!({"type": "scalar", "value": 0.5})
    );
    assert_eq!(trace["evaluation"]["status"], "PASSED");
    assert!(trace["evaluation"]["correctness"]["max_relative_error"].is_f64(), "{trace}");

    // The solution that came with it is a baseline, and right.
    let compared = project.json(&["compare", "labs/scale_h48"]).to_string();
    for name in ["\"module\"", "\"by_scale_numpy\""] {
        assert!(compared.contains(name), "{compared}");
    }
    assert!(!compared.contains("raised"), "{compared}");
}

#[test]
fn modules_that_cannot_be_labs_are_refused_with_the_reason_and_the_way_out() {
    let project = project();
    let good = std::fs::read_to_string(example()).expect("the example");
    let check = |change: &dyn Fn(&str) -> String, words: &[&str]| {
        let file = write(&project, "bad.py", &change(&good));
        let said = project.fails(2, &["import", "kernelbench", &file]);
        for word in words {
            assert!(said.contains(word), "`{word}` is not in\n{said}");
        }
        assert!(!project.path().join("labs/bad").exists(), "nothing is left of a refusal");
    };
    let replace = |from: &'static str, to: &'static str| {
        move |text: &str| {
            assert!(text.contains(from), "{from}");
            text.replace(from, to)
        }
    };
    check(&|_| "class Net:\n    pass\n".to_string(), &["no class `Model`", "Net", "hint"]);
    check(&replace("def forward", "def backward"), &["no method `forward`"]);
    check(&replace("def get_inputs", "def inputs"), &["no function `get_inputs`"]);
    check(&replace("class Model:", "class Model"), &["not Python", "line 10"]);
    check(
        &replace(
            "    return [np.random.randn",
            "    raise ValueError('no data')\n    return [np.random.randn",
        ),
        &["get_inputs() raised ValueError: no data", "problem.py, line"],
    );
    check(&replace("0.25]", "'wide']"), &["input 1 of get_inputs() is str", "get_init_inputs"]);
    check(
        &replace("randn(batch, features).astype(np.float32)", "randint(0, 9, (batch, features))"),
        &["input 0", "int64"],
    );
    check(
        &replace("        y = x", "        x = x + np.random.randn()\n        y = x"),
        &["another result the second time", "--eval"],
    );
    check(
        &replace("        y = x", "        self.bias += 1\n        y = x"),
        &["changes `bias`", "state"],
    );
    check(&replace("        y = x", "        x *= 2\n        y = x"), &["writes to its input 0"]);
    check(
        &replace("        return np.maximum(y, np.float32(slope) * y)", "        return {'y': y}"),
        &["dictionary", "tuple"],
    );
    check(
        &replace(
            "        return np.maximum(y, np.float32(slope) * y)",
            "        return y * np.nan",
        ),
        &["not finite"],
    );
    check(&replace("batch = 24", "batch = 1 << 50"), &["get_inputs()", "memory"]);
    check(&replace("        y = x", "        raise SystemExit(3)\n        y = x"), &["SystemExit"]);
    check(
        &replace("        y = x", "        import os\n        os._exit(3)\n        y = x"),
        &["ended before it had been looked at"],
    );
    check(
        &replace("import numpy as np", "import numpy as np\nimport no_such_library"),
        &["no_such_library", "missing", "--package"],
    );
}

#[test]
fn a_module_that_never_ends_is_ended_with_what_it_started() {
    let project = project();
    let good = std::fs::read_to_string(example()).expect("the example");
    let started = project.path().join("started");
    // Seconds that no other process on this machine sleeps.
    let seconds = format!("98765.{}", std::process::id());
    let endless = format!(
        "import subprocess, time\nsubprocess.Popen(['sleep', '{seconds}'])\nopen({:?}, 'w').close()\n\
         time.sleep(98765)\nbatch = 24",
        started.display().to_string()
    );
    let file = write(&project, "endless.py", &good.replace("batch = 24", &endless));
    let said = project.fails(2, &["import", "kernelbench", &file, "--deadline", "20"]);
    assert!(said.contains("within 20 s") && said.contains("--deadline"), "{said}");
    assert!(started.exists(), "it did run");
    // A signal takes a moment to arrive.
    let left = || crate::support::processes_with(&["sleep", &seconds]);
    crate::support::wait_for("its child to end", || left().is_empty());
}

/// Needs an environment with PyTorch: see CONTRIBUTING.md.
#[test]
#[ignore = "needs PyTorch, which is gigabytes: WARPSMITH_TORCH names an environment that has it"]
fn a_pytorch_module_becomes_a_lab_that_is_checked_and_compared() {
    let project = Project::new();
    let environment = std::env::var("WARPSMITH_TORCH").expect("WARPSMITH_TORCH names a folder");
    project.use_python(Path::new(&environment));
    let file = format!("{PROBLEMS}/torch_block.py");
    let said = project.fails(2, &["import", "kernelbench", &file]);
    assert!(said.contains("norm.running_mean") && said.contains("--eval"), "{said}");
    project.ok(&["import", "kernelbench", &file, "--eval"]);
    let manifest = std::fs::read_to_string(project.path().join("labs/torch_block/lab.toml"))
        .expect("the manifest");
    for part in ["\"length - 2\"", "# `conv.weight` of the module", "torch=="] {
        assert!(manifest.contains(part), "`{part}` is not in\n{manifest}");
    }
    let kernel = include_str!("problems/torch_block.c");
    write(&project, "labs/torch_block/kernels/00_start.c", kernel);
    project.ok(&["check", "labs/torch_block"]);
    let compared = project.json(&["compare", "labs/torch_block"]).to_string();
    assert!(compared.contains("\"module\"") && !compared.contains("raised"), "{compared}");
    project.ok(&["import", "kernelbench", &file, "--eval", "--target", "cuda", "--name", "gpu"]);
    assert!(project.path().join("labs/gpu/baselines/module.py").is_file());
}

#[test]
fn files_that_are_no_traces_are_refused_with_the_place() {
    let project = project();
    let copy =
        |name: &str| std::fs::read_to_string(format!("{PROBLEMS}/trace/{name}")).expect("there");
    let definition = copy("definitions/scale_h48.json");
    let workload = copy("workloads/scale_h48.jsonl").lines().next().expect("a line").to_string();
    let solution = copy("solutions/scale_numpy.json");
    let check = |definition: &str, workload: &str, solution: &str, words: &[&str]| {
        for part in ["definitions/d.json", "workloads/w.jsonl", "solutions/s.json"] {
            let content = match &part[..1] {
                "d" => definition,
                "w" => workload,
                _ => solution,
            };
            write(&project, &format!("trace/{part}"), content);
        }
        let output = project.run(&["import", "flashinfer", "trace"]);
        let said = text(&output.stderr);
        assert!(matches!(output.status.code(), Some(1 | 2)), "{said}");
        for word in words {
            assert!(said.contains(word), "`{word}` is not in\n{said}");
        }
        assert!(!project.path().join("labs/scale_h48").exists());
    };
    check("{", &workload, &solution, &["definitions/d.json", "no JSON object"]);
    check(
        &definition.replace("\"axes\"", "\"axis\""),
        &workload,
        &solution,
        &["`axes` is missing"],
    );
    check(
        &definition.replace("[\"rows\"]", "[\"row\"]"),
        &workload,
        &solution,
        &["`factor` names the axis `row`", "did you mean `rows`"],
    );
    check(
        &definition.replace("\"type\": \"var\"", "\"type\": \"free\""),
        &workload,
        &solution,
        &["`rows`", "free"],
    );
    check(&definition.replace("def run", "def walk"), &workload, &solution, &["no function `run`"]);
    check(
        &definition.replace("[:, None]", "[:, None] / 0 * np.nan"),
        &workload,
        &solution,
        &["finite"],
    );
    check(
        &definition,
        &workload.replace("\"rows\": 256", "\"row\": 256"),
        &solution,
        &["workloads/w.jsonl:1", "axis `row`", "did you mean `rows`"],
    );
    check(&definition, &workload.replace("256}", "0}"), &solution, &["`rows` is 0"]);
    check(&definition, "[1]", &solution, &["workloads/w.jsonl:1"]);
    check(&definition, "", &solution, &["none of its 0 workload(s)"]);
    check(
        &definition,
        &workload,
        &solution.replace("\"path\": \"main.py\"", "\"path\": \"../../main.py\""),
        &["solutions/s.json", "leads out of"],
    );
    check(
        &definition,
        &workload,
        &solution.replace("main.py::scale", "main.py"),
        &["FILE::FUNCTION"],
    );
    let said = project.fails(2, &["import", "flashinfer", "nowhere"]);
    assert!(said.contains("no folder `definitions`"), "{said}");
}

#[test]
fn labs_are_never_overwritten_and_names_are_checked() {
    let project = project();
    let said = project.fails(2, &["import", "kernelbench", &example(), "--name", "probe"]);
    assert!(said.contains("exists already"), "{said}");
    let said = project.fails(2, &["import", "kernelbench", &example(), "--name", "../up"]);
    assert!(said.contains("cannot name a lab"), "{said}");
    let said = project.fails(2, &["import", "kernelbench", "nowhere.py"]);
    assert!(said.contains("nowhere.py"), "{said}");
}

#[test]
fn a_lab_for_cuda_loads_without_a_gpu() {
    let project = project();
    project.ok(&["import", "kernelbench", &example(), "--target", "cuda"]);
    let dir = project.path().join("labs/scaled_rows");
    assert!(dir.join("kernels/00_start.cu").is_file());
    // A NumPy problem has nothing that it could run on a GPU.
    assert!(!dir.join("baselines").exists());
    let space = project.run(&["space", "labs/scaled_rows", "--target", "cuda"]);
    assert!(!text(&space.stderr).contains("is not valid"), "{}", text(&space.stderr));
}
