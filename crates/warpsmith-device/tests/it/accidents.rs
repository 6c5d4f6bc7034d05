//! What happens to a session is told apart from what its candidate does: somebody kills its process while it
//! starts, or it asks for more memory than there is.

use std::fs;
use std::path::Path;
use std::process::Command;

use tempfile::TempDir;
use warpsmith_device::cpu::{Cpu, CpuConfig};
use warpsmith_device::target::{Extent, Fault, Program, Session, Target};
use warpsmith_model::CrashCause;

use crate::support::*;

/// A target whose runners are killed while they start: those of these numbers. The first tells how well
/// candidates can be confined.
fn with_killed_runners(folder: &Path, condition: &str) -> Cpu {
    let script = folder.join("runner");
    let count = folder.join("count");
    let text = format!(
        "echo x >>{count}\nn=$(/usr/bin/wc -l <{count})\n[ {condition} ] && kill -9 $$\n\
         exec {runner} \"$@\"",
        count = count.display(),
        runner = runner_exe().display()
    );
    write_script(&script, &text);
    let cache_dir = folder.join("cache");
    Cpu::new(CpuConfig { cache_dir, runner_exe: Some(script), threads: None }).expect("a target")
}

fn open(cpu: &mut Cpu, scratch: Vec<u64>) -> Result<Box<dyn Session>, Fault> {
    let artifact = cpu.compile(&unit(&good_kernel())).expect("it compiles");
    let x = vec![0; 4 * 1000];
    let case = cpu.stage(&tensors(1000), &std::sync::Arc::new(vec![x.clone(), x])).expect("staged");
    let program = Program { scratch, ..program(artifact, 1000) };
    cpu.open(&program, &[case], DEADLINE)
}

#[test]
fn a_runner_killed_while_it_starts_is_replaced() {
    // The one that measures the harness, the candidate's own, and one that was started ahead.
    for number in 2..=4 {
        let folder = TempDir::new().expect("a folder");
        let mut cpu = with_killed_runners(folder.path(), &format!("$n -eq {number}"));
        for _ in 0..2 {
            let opened = open(&mut cpu, Vec::new());
            let mut session = opened.unwrap_or_else(|fault| panic!("{number}: {fault:?}"));
            session.launch(&[0], &Extent::All).expect("it runs");
        }
        let starts = fs::read_to_string(folder.path().join("count")).expect("counted");
        assert!(starts.lines().count() > number, "{number}");
    }
}

#[test]
fn runners_that_are_killed_again_and_again_are_a_crash_from_outside() {
    let folder = TempDir::new().expect("a folder");
    let mut cpu = with_killed_runners(folder.path(), "$n -gt 1");
    match open(&mut cpu, Vec::new()) {
        Err(Fault::Crashed(cause)) => assert!(cause.is_from_outside(), "{cause}"),
        Err(other) => panic!("{other:?}"),
        Ok(_) => panic!("there is no runner"),
    }
}

#[test]
fn more_scratch_than_there_is_memory_is_the_candidates_crash() {
    let mut bench = Bench::new();
    for scratch in [vec![1 << 45], vec![u64::MAX], vec![1 << 62, 1 << 62], vec![1 << 40]] {
        match open(&mut bench.cpu, scratch.clone()) {
            Err(Fault::Crashed(CrashCause::NotLoadable { message })) => {
                assert!(message.contains("bytes of memory are available"), "{message}");
            }
            Err(other) => panic!("{scratch:?}: {other:?}"),
            Ok(_) => panic!("{scratch:?}: there is not that much memory"),
        }
    }
    open(&mut bench.cpu, vec![1 << 20]).expect("there is a MiB");
}

/// Runs one of these tests again, by itself, under a limit of the shell's; says whether that is where this one
/// already runs.
fn is_limited(test: &str, limit: &str) -> bool {
    const MARK: &str = "WARPSMITH_TEST_LIMITED";
    if std::env::var_os(MARK).is_some() {
        return true;
    }
    let this = std::env::current_exe().expect("this test");
    let mut shell = Command::new("sh");
    shell.args(["-c", &format!("{limit} && exec \"$0\" --exact \"$1\" --nocapture")]);
    let output = shell.arg(this).arg(format!("accidents::{test}")).env(MARK, "1").output();
    let output = output.expect("a shell");
    let said = String::from_utf8_lossy(&output.stdout) + String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && said.contains("1 passed"), "{said}");
    false
}

#[test]
fn scratch_beyond_the_limit_on_files_is_the_candidates_crash() {
    let name = "scratch_beyond_the_limit_on_files_is_the_candidates_crash";
    if !is_limited(name, "ulimit -f 20000") {
        return;
    }
    warpsmith_device::survive_file_limit();
    let mut bench = Bench::new();
    match open(&mut bench.cpu, vec![64 << 20]) {
        Err(Fault::Crashed(CrashCause::NotLoadable { message })) => {
            assert!(message.contains("`ulimit -f`"), "{message}");
        }
        Err(other) => panic!("{other:?}"),
        Ok(_) => panic!("there is no such file"),
    }
    open(&mut bench.cpu, vec![1 << 20]).expect("a MiB is within the limit");
}

#[test]
fn too_few_addresses_for_a_runner_are_told() {
    if !is_limited("too_few_addresses_for_a_runner_are_told", "ulimit -v 3145728") {
        return;
    }
    let folder = TempDir::new().expect("a folder");
    let cache_dir = folder.path().to_path_buf();
    let target = Cpu::new(CpuConfig { cache_dir, runner_exe: Some(runner_exe()), threads: None });
    let fault = target.expect_err("a runner needs more");
    let said = match &fault {
        Fault::Broken { source, .. } => format!("{fault}: {source}"),
        other => panic!("{other:?}"),
    };
    assert!(said.contains("3221225472 bytes of addresses (`ulimit -v`)"), "{said}");
}
