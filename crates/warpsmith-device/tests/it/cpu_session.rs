//! Sessions of the CPU target: results, batches, blocks, memory, upkeep.

use crate::support::*;
use std::sync::Arc;
use warpsmith_device::cpu::{Cpu, CpuConfig};
use warpsmith_device::poison::{Poison, is_poison};
use warpsmith_device::target::{
    Argument, Calls, CaseId, Conditions, Extent, Fault, LaunchPlan, Program, Target,
};
use warpsmith_model::DType;

#[test]
fn a_good_kernel_computes_the_right_values() {
    let mut bench = Bench::new();
    for elements in [1, 15, 16, 17, 1000, 100_000] {
        let mut session = bench.open(&good_kernel(), elements).expect("opens");
        let clocked = session.launch(&[0], &Extent::All).expect("runs");
        assert!(clocked.elapsed_s > 0.0);
        assert_eq!(floats(session.output(0, 2)), expected(elements));
        assert_eq!(session.overwritten_guard(0), None);
    }
}

#[test]
fn outputs_are_poisoned_until_written() {
    let mut bench = Bench::new();
    let mut session = bench.open(&kernel(""), 100).expect("opens");
    session.launch(&[0], &Extent::All).expect("runs");
    assert!(session.output(0, 2).chunks(4).all(|element| is_poison(DType::F32, element)));
}

#[test]
fn a_kernel_finds_in_its_output_what_the_harness_chose() {
    let mut bench = Bench::new();
    let mut session = bench.open(&kernel(""), 100).expect("opens");
    let poison = Poison::Finite { is_negative: true, noise: 77 };
    session.poison(0, poison);
    session.launch(&[0], &Extent::All).expect("runs");
    let value = f32::from_bits(poison.bits(DType::F32) as u32);
    assert!(value < -1e18 && value.is_finite());
    assert_eq!(floats(session.output(0, 2)), [value; 100]);
    // For one launch; the next is as usual.
    session.launch(&[0], &Extent::All).expect("runs");
    assert!(session.output(0, 2).chunks(4).all(|element| is_poison(DType::F32, element)));
}

#[test]
fn scratch_is_never_empty_and_never_what_an_earlier_launch_left() {
    let mut bench = Bench::new();
    let body = "    for (int64_t i = begin; i < end; i++) z[i] = ((uint8_t *)scratch)[i];\n    \
                for (int64_t i = begin; i < end; i++) ((uint8_t *)scratch)[i] = 7;";
    let source = format!(
        "#include <stdint.h>\nvoid kernel(const float *x, const float *y, float *z, int64_t n, float a, \
         void *scratch, int64_t begin, int64_t end) {{\n{body}\n}}\n"
    );
    let mut unit = unit(&source);
    unit.signature.push(Argument::Scratch);
    let artifact = bench.cpu.compile(&unit).expect("compiles");
    let program = Program { scratch: vec![1000], ..program(artifact, 1000) };
    let case = bench.stage(1000);
    let mut session = bench.cpu.open(&program, &[case], DEADLINE).expect("opens");
    let mut seen = Vec::new();
    for _ in 0..3 {
        session.launch(&[0], &Extent::All).expect("runs");
        let found = floats(session.output(0, 2));
        let usual = found.iter().filter(|byte| [0.0, 7.0].contains(byte)).count();
        assert!(usual < 100, "{found:?}");
        assert!(!seen.contains(&found));
        seen.push(found);
    }
}

/// A kernel that computed the first block of every call was right as long as chunks were single blocks.
#[test]
fn a_call_gets_as_many_blocks_as_the_next_launch_says() {
    let mut bench = Bench::with_threads(Some(1));
    let artifact = bench.compile(&kernel("    z[begin] = (float)(end - begin);"));
    let mut program = program(artifact, 1000);
    program.launches[0].chunk = 4;
    let case = bench.stage(1000);
    let mut session = bench.cpu.open(&program, &[case], DEADLINE).expect("opens");
    let mut calls = |calls: Calls| -> Vec<(usize, f32)> {
        session.next_launch(Conditions { calls, keeps_scratch: false });
        session.launch(&[0], &Extent::All).expect("runs");
        let output = floats(session.output(0, 2)).into_iter().enumerate();
        output.filter(|(_, blocks)| !blocks.is_nan()).collect()
    };
    assert_eq!(calls(Calls::Whole), [(0, 1000.0)]);
    let several = calls(Calls::Chunks(7));
    assert!(several.iter().any(|(_, blocks)| *blocks > 4.0), "{several:?}");
    assert!(several.iter().all(|(begin, blocks)| begin % 4 == 0 && blocks % 4.0 == 0.0));
    assert_eq!(several.iter().map(|(_, blocks)| blocks).sum::<f32>(), 1000.0);
    assert_ne!(calls(Calls::Chunks(8)), several);
    // For one launch; the next is as usual.
    calls(Calls::Whole);
    session.launch(&[0], &Extent::All).expect("runs");
    let output = floats(session.output(0, 2));
    assert!(output.iter().step_by(4).all(|blocks| *blocks == 4.0));
}

#[test]
fn scratch_is_kept_for_the_launch_that_shall_find_it() {
    let mut bench = Bench::new();
    let source = "#include <stdint.h>\nvoid kernel(const float *x, const float *y, float *z, int64_t n, \
                  float a, void *all, int64_t begin, int64_t end) {\n    float *scratch = all;\n    \
                  for (int64_t i = begin; i < end; i++) { z[i] = scratch[i]; scratch[i] = 7; }\n}\n";
    let mut unit = unit(source);
    unit.signature.push(Argument::Scratch);
    let artifact = bench.cpu.compile(&unit).expect("compiles");
    let program = Program { scratch: vec![400], ..program(artifact, 100) };
    let case = bench.stage(100);
    let mut session = bench.cpu.open(&program, &[case], DEADLINE).expect("opens");
    for (keeps_scratch, is_found) in [(true, false), (true, true), (false, false), (true, true)] {
        session.next_launch(Conditions { calls: Calls::Chunk, keeps_scratch });
        session.launch(&[0], &Extent::All).expect("runs");
        let found = floats(session.output(0, 2)).iter().filter(|value| **value == 7.0).count();
        assert_eq!(found == 100, is_found, "{found}");
    }
}

#[test]
fn a_batch_runs_its_cases_in_order_and_a_case_can_run_again() {
    let mut bench = Bench::new();
    let artifact = bench.compile(&good_kernel());
    let program = program(artifact, 500);
    let cases: Vec<CaseId> = (0..3).map(|_| bench.stage(500)).collect();
    let mut session = bench.cpu.open(&program, &cases, DEADLINE).expect("opens");
    session.launch(&[2, 0], &Extent::All).expect("runs");
    assert_eq!(floats(session.output(2, 2)), expected(500));
    assert_eq!(floats(session.output(0, 2)), expected(500));
    for _ in 0..50 {
        session.launch(&[0, 1, 1, 0], &Extent::All).expect("runs");
    }
    assert_eq!(floats(session.output(0, 2)), expected(500));
    assert_eq!(floats(session.output(1, 2)), expected(500));
}

#[test]
fn listed_blocks_alone_are_run() {
    let mut bench = Bench::new();
    let mut session = bench.open(&good_kernel(), 100).expect("opens");
    session.launch(&[0], &Extent::Blocks(vec![3, 4, 5, 99, 0])).expect("runs");
    let output = floats(session.output(0, 2));
    let written: Vec<usize> = (0..100).filter(|idx| !output[*idx].is_nan()).collect();
    assert_eq!(written, [0, 3, 4, 5, 99]);
}

/// Two launches with a barrier between: the first fills the scratch buffer, the second reads parts of
/// it that other threads wrote.
const TWO_LAUNCHES: &str = "#include <stdint.h>\n\
    void fill(const float *x, const float *y, float *z, int64_t n, float a, void *scratch,\n\
    \x20         int64_t begin, int64_t end) {\n\
    \x20   for (int64_t i = begin; i < end; i++) ((float *)scratch)[i] = a * x[i];\n}\n\
    void reverse(const float *x, const float *y, float *z, int64_t n, float a, void *scratch,\n\
    \x20            int64_t begin, int64_t end) {\n\
    \x20   for (int64_t i = begin; i < end; i++) z[i] = ((float *)scratch)[n - 1 - i] + y[i];\n}\n";

fn two_launches(bench: &mut Bench, elements: u64) -> Program {
    let mut unit = unit(TWO_LAUNCHES);
    unit.entries = vec!["reverse".to_string(), "fill".to_string()];
    unit.signature.push(Argument::Scratch);
    let artifact = bench.cpu.compile(&unit).expect("compiles");
    let blocks = elements as i64;
    Program {
        scratch: vec![elements * 4],
        launches: vec![
            LaunchPlan { entry: 1, blocks, chunk: 1 },
            LaunchPlan { entry: 0, blocks, chunk: 1 },
        ],
        ..program(artifact, elements)
    }
}

#[test]
fn launches_wait_for_each_other_and_share_scratch() {
    let mut bench = Bench::new();
    let program = two_launches(&mut bench, 2000);
    let cases: Vec<CaseId> = (0..3).map(|_| bench.stage(2000)).collect();
    let mut session = bench.cpu.open(&program, &cases, DEADLINE).expect("opens");
    let mut reversed = expected(2000);
    reversed.reverse();
    for _ in 0..20 {
        session.launch(&[0, 1, 2], &Extent::All).expect("runs");
        for case in 0..3 {
            assert_eq!(floats(session.output(case, 2)), reversed);
            session.poison(case, Poison::Nan);
        }
    }
    session.launch(&[0, 1], &Extent::Blocks(vec![1999])).expect("runs");
    for case in 0..2 {
        let output = floats(session.output(case, 2));
        assert_eq!(output[1999], 1.0);
        assert!(output[..1999].iter().all(|value| value.is_nan()));
    }
}

#[test]
fn one_thread_is_enough() {
    let mut bench = Bench::with_threads(Some(1));
    assert_eq!(bench.cpu.info().threads, 1);
    let mut session = bench.open(&good_kernel(), 1000).expect("opens");
    session.launch(&[0], &Extent::All).expect("runs");
    assert_eq!(floats(session.output(0, 2)), expected(1000));
}

#[test]
fn more_threads_than_processors_are_refused() {
    let config = CpuConfig {
        cache_dir: std::env::temp_dir(),
        runner_exe: Some(runner_exe()),
        threads: Some(1 << 20),
    };
    assert!(matches!(Cpu::new(config), Err(Fault::Unavailable(_))));
}

#[test]
fn mistakes_of_the_caller_are_errors_and_not_crashes() {
    let mut bench = Bench::new();
    let artifact = bench.compile(&good_kernel());
    let program = program(artifact, 100);
    let (case, other) = (bench.stage(100), bench.stage(101));
    let check = |result: Result<(), Fault>| {
        assert!(matches!(result, Err(Fault::Broken { .. })), "{result:?}");
    };
    check(bench.cpu.stage(&tensors(100), &Arc::new(vec![vec![0; 400]])).map(|_| ()));
    check(bench.cpu.stage(&tensors(100), &Arc::new(vec![vec![0; 400], vec![0; 399]])).map(|_| ()));
    check(bench.cpu.open(&program, &[other], DEADLINE).map(|_| ()));
    check(bench.cpu.open(&program, &[CaseId(99)], DEADLINE).map(|_| ()));
    let mut session = bench.cpu.open(&program, &[case], DEADLINE).expect("opens");
    check(session.launch(&[1], &Extent::All).map(|_| ()));
    check(session.launch(&[0], &Extent::Blocks(vec![0; 1 << 20])).map(|_| ()));
    check(session.launch(&[0], &Extent::Blocks(vec![100])).map(|_| ()));
    check(session.launch(&[0], &Extent::Blocks(vec![-1])).map(|_| ()));
    session.launch(&[0], &Extent::All).expect("still runs");
    bench.cpu.unstage(case);
    session.launch(&[0], &Extent::All).expect("a session keeps its cases");
    check(bench.cpu.open(&program, &[case], DEADLINE).map(|_| ()));
}

#[test]
fn staged_inputs_do_not_change() {
    let mut bench = Bench::new();
    let case = bench.stage(1000);
    assert_eq!(bench.cpu.changed_input(case), None);
}

#[test]
fn the_environment_names_the_machine_and_stays_the_same() {
    let bench = Bench::new();
    let environment = bench.cpu.environment();
    assert!(environment.system.starts_with("Linux "), "{}", environment.system);
    let names: Vec<&str> =
        environment.compilers.iter().map(|compiler| compiler.name.as_str()).collect();
    assert_eq!(names, ["cc", "gcc", "clang"]);
    assert_eq!(environment.id(), Bench::new().cpu.environment().id());
}

#[test]
fn launches_are_timed_and_counted() {
    let mut bench = Bench::new();
    // About 20 ms, by the candidate's own clock; the harness's must agree.
    let body = "    struct timespec t0, t;\n    clock_gettime(CLOCK_MONOTONIC, &t0);\n    \
                do clock_gettime(CLOCK_MONOTONIC, &t);\n    \
                while ((t.tv_sec - t0.tv_sec) * 1e9 + (t.tv_nsec - t0.tv_nsec) < 20e6);";
    let source = format!("#include <time.h>\n{}", kernel(body));
    let artifact = bench.compile(&source);
    let mut program = program(artifact, 16);
    program.launches[0].blocks = 1;
    let case = bench.stage(16);
    let mut session = bench.cpu.open(&program, &[case], DEADLINE).expect("opens");
    let rate = bench.cpu.info().ticks_per_s;
    // Something else may run between the readings of the clock and of the counter; not every time.
    let agrees = (0..50).any(|_| {
        let clocked = session.launch(&[0], &Extent::All).expect("runs");
        assert!(clocked.elapsed_s >= 0.02, "{clocked:?}");
        assert_eq!(clocked.ticks.is_some(), rate.is_some(), "{clocked:?}");
        // Where there is no counter there is nothing to agree.
        let ratio =
            clocked.ticks.zip(rate).map(|(ticks, rate)| ticks as f64 / rate / clocked.elapsed_s);
        ratio.is_none_or(|ratio| (ratio - 1.0).abs() < 0.01)
    });
    assert!(agrees, "the counter disagrees with the clock");
}
