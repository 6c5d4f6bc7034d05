//! Prints what a session costs on this machine: opening, launching, closing, and the clock's reading
//! of a launch that does nothing. The argument is the number of elements of its one output.

use std::sync::Arc;
use std::time::{Duration, Instant};

use warpsmith_device::cpu::{Cpu, CpuConfig, RUNNER_ARGUMENT, runner_main};
use warpsmith_device::target::{
    Argument, Extent, Fault, LaunchPlan, Program, Target, TensorPlan, Unit,
};
use warpsmith_model::DType;
use warpsmith_model::lab::Role;

fn main() -> Result<(), Fault> {
    if std::env::args().nth(1).as_deref() == Some(RUNNER_ARGUMENT) {
        runner_main();
    }
    let elements = std::env::args().nth(1).and_then(|text| text.parse().ok()).unwrap_or(64);
    let cache_dir = std::env::temp_dir().join("warpsmith-session-cost");
    let mut cpu = Cpu::new(CpuConfig { cache_dir, runner_exe: None, threads: None })?;
    let artifact = cpu.compile(&Unit {
        file_name: "empty.c".to_string(),
        source: "void empty(float *z, long begin, long end) { }\n".to_string(),
        headers: Vec::new(),
        entries: vec!["empty".to_string()],
        signature: vec![Argument::Tensor(DType::F32, Role::Output)],
        defines: Vec::new(),
        compiler: "cc".to_string(),
        flags: vec!["-O2".to_string()],
        deadline: Duration::from_secs(60),
    })?;
    let tensors = vec![TensorPlan {
        name: "z".to_string(),
        shape: vec![elements],
        dtype: DType::F32,
        role: Role::Output,
    }];
    let case = cpu.stage(&tensors, &Arc::default())?;
    let program = Program {
        grid: None,
        gemm: None,
        artifact,
        tensors,
        axes: Vec::new(),
        scalars: Vec::new(),
        scratch: Vec::new(),
        launches: vec![LaunchPlan { entry: 0, blocks: i64::from(cpu.info().threads), chunk: 1 }],
    };
    let (mut open, mut close, mut launch, mut clock) = (vec![], vec![], vec![], vec![]);
    for _ in 0..200 {
        let began = Instant::now();
        let mut session = cpu.open(&program, &[case], Duration::from_secs(5))?;
        open.push(began.elapsed().as_secs_f64());
        for _ in 0..20 {
            let began = Instant::now();
            clock.push(session.launch(&[0], &Extent::All)?.elapsed_s);
            launch.push(began.elapsed().as_secs_f64());
        }
        let began = Instant::now();
        drop(session);
        close.push(began.elapsed().as_secs_f64());
    }
    for (name, mut samples) in [
        ("open", open),
        ("launch, round trip", launch),
        ("launch, by the clock", clock),
        ("close", close),
    ] {
        samples.sort_by(f64::total_cmp);
        let at = |share: f64| samples[((samples.len() - 1) as f64 * share) as usize] * 1e6;
        eprintln!(
            "{name:22} least {:8.1} us, median {:8.1} us, 90 % {:8.1} us",
            at(0.0),
            at(0.5),
            at(0.9)
        );
    }
    Ok(())
}
