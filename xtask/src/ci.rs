//! Everything that CI checks, as one local command.

use std::path::Path;
use std::process::Command;
use std::time::Instant;

use anyhow::{Context, Result, bail};

use crate::tidy;

/// Formats, lints, tidies, builds and tests everything.
pub fn run() -> Result<()> {
    let root = tidy::root();
    provision_tools()?;
    step(&root, "format", "cargo", &["fmt", "--all", "--check"])?;
    tidy::run()?;
    step(
        &root,
        "lint",
        "cargo",
        &["clippy", "--profile", PROFILE, "--workspace", "--all-targets", "--", "-D", "warnings"],
    )?;
    step(
        &root,
        "build",
        "cargo",
        &["build", "--profile", PROFILE, "--workspace", "--bins", "--tests"],
    )?;
    cuda(&root)?;
    emulate(&root)?;
    tests(&root)?;
    clock(&root)?;
    browser(&root)?;
    mcp(&root)?;
    println!("ci: everything passed");
    Ok(())
}

/// One profile for every step, so that everything is compiled once.
const PROFILE: &str = "ci";

fn program(root: &Path) -> std::path::PathBuf {
    root.join("target").join(PROFILE).join("warpsmith")
}

/// The tests inside of crates side by side; the others one at a time: many of them measure, and two measurements at
/// once are none.
fn tests(root: &Path) -> Result<()> {
    let of = |targets: &[&'static str]| {
        [&["test", "--profile", PROFILE, "--workspace"][..], targets].concat()
    };
    step(root, "unit tests", "cargo", &of(&["--lib", "--bins"]))?;
    step(root, "tests", "cargo", &of(&["--test", "*", "--", "--test-threads=1"]))?;
    step(root, "documentation tests", "cargo", &of(&["--doc"]))
}

/// Debian packages that the tests use and that a fresh machine may lack. As root they are
/// installed; otherwise the message says how. Nothing is skipped.
const TOOLS: [(&str, &str); 3] = [("g++", "g++"), ("clang", "clang"), ("chromium", "chromium")];

fn provision_tools() -> Result<()> {
    let mut missing: Vec<&str> = TOOLS
        .iter()
        .filter(|(program, _)| !on_path(program))
        .map(|(_, package)| *package)
        .collect();
    // `warpsmith setup` makes virtual environments; Debian's Python comes without the means.
    let ensurepip = Command::new("python3").args(["-c", "import ensurepip"]).output();
    if !ensurepip.is_ok_and(|output| output.status.success()) {
        missing.push("python3-venv");
    }
    if missing.is_empty() {
        return Ok(());
    }
    let hint = format!(
        "install {} (on Debian: apt-get install {})",
        missing.join(" and "),
        missing.join(" ")
    );
    let is_root = Command::new("id").arg("-u").output().is_ok_and(|out| out.stdout == b"0\n");
    if !is_root || !on_path("apt-get") {
        bail!("the tests need tools that are not on PATH: {hint}");
    }
    println!("ci: installing {}", missing.join(", "));
    let root = tidy::root();
    // A mirror may fail once, and a fresh machine may be busy updating itself.
    let patient = ["-o", "Acquire::Retries=5", "-o", "DPkg::Lock::Timeout=300"];
    step(&root, "apt-get update", "apt-get", &[&patient[..], &["update", "-qq"]].concat())?;
    let mut install = patient.to_vec();
    install.extend(["install", "-y", "-qq", "--no-install-recommends"]);
    install.extend(&missing);
    step(&root, "apt-get install", "apt-get", &install).context(hint)
}

/// Every CUDA kernel, and a sample of its configurations, compiles for the architectures that it is for,
/// and the compiled code is what its contract claims. Needs no GPU.
fn cuda(root: &Path) -> Result<()> {
    let warpsmith = program(root);
    let warpsmith = warpsmith.to_string_lossy();
    step(root, "cuda compilers", &warpsmith, &["setup", "cuda", "--yes"])?;
    for lab in ["saxpy", "rmsnorm", "gemm", "attention"] {
        let dir = format!("labs/{lab}");
        step(root, "cuda build", &warpsmith, &["build", &dir, "--sample", "1"])?;
        step(root, "cuda build", &warpsmith, &["build", &dir, "--arch", "sm_80"])?;
    }
    // The one that asks for nvcc.
    step(root, "cuda build", &warpsmith, &["build", "tests/nvcc", "--sample", "2"])?;
    // What they remark about sources that provoke it. The whole workspace, as in the step with all tests: a
    // package alone would have its dependencies built a second time.
    let remarks =
        ["test", "--profile", PROFILE, "--workspace", "--test", "it", "--", "--ignored", "remarks"];
    step(root, "cuda remarks", "cargo", &remarks)?;
    cutlass(root)
}

/// CUTLASS's templates, from the headers that `setup cuda` provides, compile to code that uses the tensor
/// cores, for both layouts of the second matrix. One configuration: each takes the better part of a minute.
fn cutlass(root: &Path) -> Result<()> {
    let python = root.join(".warpsmith/cuda/bin/python");
    let script = "labs/gemm/cuda/baselines/cutlass.py";
    step(root, "cutlass", &python.to_string_lossy(), &[script, "--check", "3"])
}

/// The attention kernels' own sources on an emulated multiprocessor, under schedules that look for trouble.
fn emulate(root: &Path) -> Result<()> {
    step(root, "emulate", "python3", &["tests/emulate/run.py", "--quick"])
}

/// Every lab's best kernel compared with itself, in every place of the list: a tie, or no claim of a
/// comparison is worth anything.
fn clock(root: &Path) -> Result<()> {
    let warpsmith = program(root);
    step(root, "clock", &warpsmith.to_string_lossy(), &["doctor", "--clock"])
}

/// The report in a real browser.
fn browser(root: &Path) -> Result<()> {
    let dir = root.join("tests/browser");
    step(&dir, "npm ci", "npm", &["ci", "--no-audit", "--no-fund", "--silent"])?;
    step(&dir, "browser", "npm", &["test", "--silent"])
}

/// The server for coding agents, driven by a client that shares no code with it.
fn mcp(root: &Path) -> Result<()> {
    let warpsmith = program(root);
    let folder = root.join("target/mcp");
    let arguments = [warpsmith.to_string_lossy(), folder.to_string_lossy()];
    step(root, "mcp client", "tests/mcp/run.sh", &[&arguments[0], &arguments[1]])
}

fn step(dir: &Path, name: &str, program: &str, arguments: &[&str]) -> Result<()> {
    println!("ci: {name}: {program} {}", arguments.join(" "));
    let start = Instant::now();
    let status = Command::new(program)
        .args(arguments)
        .current_dir(dir)
        .env("DEBIAN_FRONTEND", "noninteractive")
        .env("WARPSMITH_PROFILE", PROFILE)
        .status()
        .with_context(|| format!("cannot run {program}"))?;
    if !status.success() {
        bail!("{name} failed ({status})");
    }
    println!("ci: {name}: ok in {:.0} s", start.elapsed().as_secs_f64());
    Ok(())
}

fn on_path(program: &str) -> bool {
    std::env::var_os("PATH")
        .is_some_and(|path| std::env::split_paths(&path).any(|dir| dir.join(program).is_file()))
}
