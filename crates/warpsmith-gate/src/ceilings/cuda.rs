//! Measures what a CUDA device can do at most, with kernels that go through the same compiler, launch
//! and clock as every candidate.

use std::time::Duration;

use warpsmith_device::cuda::own;
use warpsmith_device::target::{Artifact, CaseId, Extent, Fault, Program, Session, Target};
use warpsmith_model::{Ceilings, CudaInfo, stats};

use crate::error::GateError;

const DEADLINE: Duration = Duration::from_secs(30);
/// Floats of the arrays that memory is read from and written to: 256 MiB each, beyond every cache.
const FAR_FLOATS: u64 = 64 << 20;
/// Floats of an array that stays in the second-level cache: 8 MiB.
const NEAR_FLOATS: u64 = 2 << 20;
const READINGS: usize = 6;
/// Empty launches whose median is the floor, back to back in one reading.
const EMPTY_LAUNCHES: usize = 48;
/// Operations of one step of one block of `matrix`.
const MATRIX_STEP: f64 = 64.0 * 256.0 * 16.0 * 2.0 * 4.0;
const MATRIX_STEPS: i64 = 2000;
const FMA_STEPS: i64 = 4000;
const CACHE_STEPS: i64 = 16;
const THREADS: u32 = 256;

/// Measures the ceilings.
pub(crate) fn measure(target: &mut dyn Target, info: &CudaInfo) -> Result<Ceilings, GateError> {
    let artifact = compile(target, info)?;
    let launch_floor_s = floor_with(target, &artifact)?;
    let sms = info.sms;
    let near = own::plans(NEAR_FLOATS);
    let case = own::stage(target, &near).map_err(staging)?;
    let blocks = sms * 8;
    let threads = f64::from(blocks * THREADS);
    let mut best = |entry: &str, grid: u32, block: u32, steps: i64, work: f64| {
        let program = own::program(&artifact, &near, entry, grid, block, steps);
        Ok::<f64, GateError>(work / fastest(target, &program, case, entry)?)
    };
    let fma_work = threads * 16.0 * 2.0 * FMA_STEPS as f64;
    let f32_flops_per_s = best("fma_f32", blocks, THREADS, FMA_STEPS, fma_work)?;
    let f64_flops_per_s = best("fma_f64", blocks, THREADS, FMA_STEPS / 4, fma_work / 4.0)?;
    let matrix_work = f64::from(sms * 2) * MATRIX_STEP * MATRIX_STEPS as f64;
    let matrix_flops_per_s = best("matrix", sms * 2, 128, MATRIX_STEPS, matrix_work)?;
    let cache_work = NEAR_FLOATS as f64 * 4.0 * CACHE_STEPS as f64;
    let cache_bytes_per_s = best("cache_read", blocks, THREADS, CACHE_STEPS, cache_work)?;
    target.unstage(case);

    let far = own::plans(FAR_FLOATS);
    let case = own::stage(target, &far).map_err(staging)?;
    let copy = own::program(&artifact, &far, "copy", sms * 16, THREADS, 0);
    let memory_bytes_per_s = FAR_FLOATS as f64 * 8.0 / fastest(target, &copy, case, "copy")?;
    target.unstage(case);
    Ok(Ceilings {
        f32_flops_per_s,
        f64_flops_per_s,
        matrix_flops_per_s: Some(matrix_flops_per_s),
        memory_bytes_per_s,
        cache_bytes_per_s: cache_bytes_per_s.max(memory_bytes_per_s),
        launch_floor_s,
        busy: false,
        newest: None,
    })
}

/// Measures the time of an empty launch alone.
pub(crate) fn launch_floor(target: &mut dyn Target, info: &CudaInfo) -> Result<f64, GateError> {
    let artifact = compile(target, info)?;
    floor_with(target, &artifact)
}

fn floor_with(target: &mut dyn Target, artifact: &Artifact) -> Result<f64, GateError> {
    let plans = own::plans(1024);
    let case = own::stage(target, &plans).map_err(staging)?;
    let program = own::program(artifact, &plans, "empty", 1, 32, 0);
    let cases = vec![case; EMPTY_LAUNCHES];
    let opened = target.open(&program, &cases, DEADLINE);
    let mut session = opened.map_err(|source| failed("empty", source))?;
    let slots: Vec<usize> = (0..EMPTY_LAUNCHES).collect();
    let mut samples_s = Vec::new();
    for _ in 0..READINGS {
        let clocked = session.launch(&slots, &Extent::All);
        let clocked = clocked.map_err(|source| failed("empty", source))?;
        samples_s.push(clocked.elapsed_s / EMPTY_LAUNCHES as f64);
    }
    drop(session);
    target.unstage(case);
    Ok(stats::median(&samples_s).expect("there were launches"))
}

fn compile(target: &mut dyn Target, info: &CudaInfo) -> Result<Artifact, GateError> {
    own::compile(target, info, "ceilings.cu", own::CEILINGS)
        .map_err(|source| failed("compiling", source))
}

fn fastest(
    target: &mut dyn Target,
    program: &Program,
    case: CaseId,
    entry: &str,
) -> Result<f64, GateError> {
    let opened = target.open(program, &[case], DEADLINE);
    let mut session: Box<dyn Session> = opened.map_err(|source| failed(entry, source))?;
    let mut best_s = f64::INFINITY;
    for _ in 0..READINGS {
        let clocked = session.launch(&[0], &Extent::All).map_err(|source| failed(entry, source))?;
        best_s = best_s.min(clocked.elapsed_s);
    }
    Ok(best_s)
}

fn staging(source: Fault) -> GateError {
    failed("staging inputs", source)
}

fn failed(what: &str, source: Fault) -> GateError {
    GateError::Target { doing: format!("measuring the device's ceilings ({what})"), source }
}
