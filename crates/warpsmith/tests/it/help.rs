//! What a newcomer sees.

use crate::support::{Project, text};

#[test]
fn help_lists_every_command_with_one_line() {
    let help = Project::new().ok(&["--help"]);
    for command in [
        "run",
        "check",
        "micro",
        "tune",
        "compare",
        "report",
        "export",
        "runs",
        "show",
        "resume",
        "new",
        "doctor",
        "schema",
        "setup",
        "build",
        "evidence",
        "profile",
        "simulate",
        "space",
        "convert",
        "evolve",
        "replay",
        "import",
        "fastp",
        "mcp",
        "front",
        "verify",
        "calibrate",
    ] {
        assert!(help.contains(&format!("  {command} ")), "`{command}` is not in\n{help}");
    }
    assert!(!help.contains("__worker"), "inner commands stay hidden");
}

#[test]
fn usage_errors_exit_with_2_and_say_what_to_do() {
    let project = Project::new();
    let check = |arguments: &[&str], words: &[&str]| {
        let said = project.fails(2, arguments);
        for word in words {
            assert!(said.contains(word), "`{word}` is not in what {arguments:?} said:\n{said}");
        }
    };
    check(&["run", "nowhere"], &["nowhere", "no such folder", "warpsmith new"]);
    check(&["run", "labs"], &["no lab.toml"]);
    check(&["check", "labs/probe", "--kernel", "99_none"], &["99_none", "hint"]);
    check(&["check", "labs/probe", "--set", "NO=1"], &["NO"]);
    check(&["tune", "labs/probe", "--strategy", "luck"], &["luck"]);
    check(&["tune", "labs/probe", "--time", "0"], &["--time"]);
    check(&["tune", "labs/probe", "--budget", "0"], &["--budget"]);
    check(&["profile", "labs/probe"], &["labs/probe", "no folder `cuda`"]);
    check(&["profile", "labs/probe", "--target", "cpu"], &["counters are not read", "hint"]);
    check(&["profile", "labs/probe", "--source", "x.cu"], &["--contract"]);
    check(&["compare", "labs/probe", "00_naive", "99_none"], &["99_none", "hint"]);
    check(&["compare", "labs/probe", "00_naive", "10_vector:ROWS=5"], &["ROWS", "hint"]);
    check(&["tune", "labs/probe", "--kernel", "99_none"], &["99_none", "hint"]);
    check(&["micro", "labs/probe", "--kernel", "99_none"], &["99_none", "hint"]);
    check(&["frobnicate"], &["frobnicate"]);
    // Each of these once left a failed run behind, which `latest` then named.
    assert!(!project.database().exists(), "what was never begun is not in the evidence");
    let untouched = Project::new();
    for arguments in [&["runs"][..], &["show", "latest"]] {
        let said = untouched.fails(2, arguments);
        assert!(said.contains("evidence"), "{said}");
    }
}

#[test]
fn new_refuses_to_overwrite_and_refuses_bad_names() {
    let project = Project::new();
    assert!(project.fails(2, &["new", "probe"]).contains("exists already"));
    assert!(project.fails(2, &["new", "../escape"]).contains("escape"));
}

#[test]
fn the_readme_of_a_new_lab_names_the_folder_that_it_is_in() {
    let project = Project::new();
    project.ok(&["new", "other", "--into", "mine"]);
    for (readme, command) in [
        ("labs/probe/README.md", "warpsmith check labs/probe\n"),
        ("mine/other/README.md", "warpsmith check mine/other\n"),
    ] {
        let text = std::fs::read_to_string(project.path().join(readme)).expect("a README");
        assert!(text.contains(command), "`{command}` is not in\n{text}");
    }
}

#[test]
fn schemas_are_json_for_each_file() {
    let project = Project::new();
    for file in ["lab", "contract", "baseline"] {
        let schema = project.json(&["schema", file]);
        assert!(schema["properties"].is_object(), "{schema}");
    }
}

#[test]
fn doctor_names_the_machine_and_its_protections() {
    let project = Project::new();
    let report = project.ok(&["doctor"]);
    for word in ["cpu:", "compiler", "seccomp", "Landlock", "evidence"] {
        assert!(report.contains(word), "`{word}` is not in\n{report}");
    }
    assert!(project.json(&["doctor"])["environment"]["device"]["threads"].as_u64() >= Some(1));
}

#[test]
fn output_has_no_colours_in_a_pipe() {
    let project = Project::new();
    let output = project.run(&["doctor"]);
    assert!(!text(&output.stdout).contains('\u{1b}'));
}

#[test]
fn profiling_without_a_gpu_says_so() {
    let project = Project::new();
    let lab = concat!(env!("CARGO_MANIFEST_DIR"), "/../../labs/saxpy");
    // Hides a GPU where there is one.
    let output = project
        .command(&["profile", lab, "--kernel", "00_naive"])
        .env("CUDA_VISIBLE_DEVICES", "")
        .output()
        .expect("the program starts");
    let said = text(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{said}");
    assert!(said.contains("CUDA") && said.contains("error"), "{said}");
}

#[test]
fn doctor_without_a_gpu_says_what_there_is_of_the_tools() {
    let project = Project::new();
    // Hides a GPU where there is one, and a toolkit where there is one.
    let nowhere = project.path().join("nowhere").display().to_string();
    let run = |flags: &[&str]| {
        let arguments = [&["doctor", "--target", "cuda", "--cuda-home", &nowhere], flags].concat();
        let mut command = project.command(&arguments);
        command.env("CUDA_VISIBLE_DEVICES", "").env("PATH", "/usr/bin:/bin");
        command.output().expect("the program starts")
    };
    let output = run(&[]);
    let (printed, said) = (text(&output.stdout), text(&output.stderr));
    assert_eq!(output.status.code(), Some(2), "{printed}{said}");
    for words in
        ["fail gpu:", "fail toolkit: no CUDA toolkit", "profiler:", "sanitizers:", "evidence:"]
    {
        assert!(printed.contains(words), "`{words}` is not in\n{printed}");
    }
    assert!(said.contains("CUDA kernels can be compiled at most"), "{said}");
    let report: serde_json::Value = serde_json::from_slice(&run(&["--json"]).stdout).expect("JSON");
    assert!(report["environment"].is_null() && report["error"].is_string(), "{report}");
    assert!(report["sanitizer"]["error"].as_str().is_some_and(|it| it.contains("setup cuda")));
}

#[test]
fn a_comparison_that_needs_sanitizers_looks_for_them_before_there_is_a_run() {
    let project = Project::new();
    let lab = concat!(env!("CARGO_MANIFEST_DIR"), "/../../labs/saxpy");
    // Hides a GPU where there is one, and a toolkit where there is one.
    let nowhere = project.path().join("nowhere").display().to_string();
    let run = |flags: &[&str]| {
        let arguments = [&["compare", lab, "--target", "cuda", "--cuda-home", &nowhere], flags];
        let mut command = project.command(&arguments.concat());
        command.env("CUDA_VISIBLE_DEVICES", "").env("PATH", "/usr/bin:/bin");
        let output = command.output().expect("the program starts");
        assert_eq!(output.status.code(), Some(2), "{}", text(&output.stderr));
        text(&output.stderr)
    };
    let said = run(&["--full"]);
    assert!(said.contains("compute-sanitizer") && said.contains("setup cuda"), "{said}");
    assert!(!project.database().exists(), "there is a store before the tools are known");
    // Without them the next thing that is missing is told.
    for flags in [&["--full", "--no-sanitizer"][..], &[]] {
        let said = run(flags);
        assert!(!said.contains("compute-sanitizer"), "{said}");
    }
}

#[test]
fn a_kernel_for_nvcc_without_nvcc_says_what_to_do() {
    let project = Project::new();
    let lab = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/nvcc");
    let nowhere = project.path().join("nowhere").display().to_string();
    let output = project.run(&["build", lab, "--cuda-home", &nowhere]);
    let printed = text(&output.stdout);
    assert_eq!(output.status.code(), Some(1), "{printed}");
    assert!(printed.contains("nvcc was not found") && printed.contains("setup cuda"), "{printed}");
}
