//! What happens to a session is told apart from what its candidate does: somebody kills its process while it
//! starts, or it asks for more memory than there is.

use std::fs;
use std::path::Path;

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
