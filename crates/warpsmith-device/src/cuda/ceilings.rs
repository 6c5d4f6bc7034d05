//! Measures what a CUDA device can do at most, with kernels that go through the same compiler, launch
//! and clock as every candidate.

use std::sync::Arc;
use std::time::Duration;

use warpsmith_model::lab::Role;
use warpsmith_model::{Ceilings, CudaInfo, DType, stats};

use super::COMPILER;
use crate::error::DeviceError;
use crate::target::{
    Artifact, CaseId, Extent, Fault, GridLaunch, GridProgram, Program, Session, Target, TensorPlan,
    Unit,
};

pub(super) const SOURCE: &str = include_str!("ceilings.cu");
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
pub(crate) fn measure(target: &mut dyn Target, info: &CudaInfo) -> Result<Ceilings, DeviceError> {
    let artifact = compile(target, info)?;
    let launch_floor_s = floor_with(target, &artifact)?;
    let sms = info.sms;
    let near = plans(NEAR_FLOATS);
    let case = stage(target, &near)?;
    let blocks = sms * 8;
    let threads = f64::from(blocks * THREADS);
    let mut best = |entry: &str, grid: u32, block: u32, steps: i64, work: f64| {
        let program = program(&artifact, &near, entry, grid, block, steps);
        Ok::<f64, DeviceError>(work / fastest(target, &program, case, entry)?)
    };
    let fma_work = threads * 16.0 * 2.0 * FMA_STEPS as f64;
    let f32_flops_per_s = best("fma_f32", blocks, THREADS, FMA_STEPS, fma_work)?;
    let f64_flops_per_s = best("fma_f64", blocks, THREADS, FMA_STEPS / 4, fma_work / 4.0)?;
    let matrix_work = f64::from(sms * 2) * MATRIX_STEP * MATRIX_STEPS as f64;
    let matrix_flops_per_s = best("matrix", sms * 2, 128, MATRIX_STEPS, matrix_work)?;
    let cache_work = NEAR_FLOATS as f64 * 4.0 * CACHE_STEPS as f64;
    let cache_bytes_per_s = best("cache_read", blocks, THREADS, CACHE_STEPS, cache_work)?;
    target.unstage(case);

    let far = plans(FAR_FLOATS);
    let case = stage(target, &far)?;
    let copy = program(&artifact, &far, "copy", sms * 16, THREADS, 0);
    let memory_bytes_per_s = FAR_FLOATS as f64 * 8.0 / fastest(target, &copy, case, "copy")?;
    target.unstage(case);
    Ok(Ceilings {
        f32_flops_per_s,
        f64_flops_per_s,
        matrix_flops_per_s: Some(matrix_flops_per_s),
        memory_bytes_per_s,
        cache_bytes_per_s: cache_bytes_per_s.max(memory_bytes_per_s),
        launch_floor_s,
        newest: None,
    })
}

/// Measures the time of an empty launch alone.
pub(crate) fn launch_floor(target: &mut dyn Target, info: &CudaInfo) -> Result<f64, DeviceError> {
    let artifact = compile(target, info)?;
    floor_with(target, &artifact)
}

fn floor_with(target: &mut dyn Target, artifact: &Artifact) -> Result<f64, DeviceError> {
    let plans = plans(1024);
    let case = stage(target, &plans)?;
    let program = program(artifact, &plans, "empty", 1, 32, 0);
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

fn compile(target: &mut dyn Target, info: &CudaInfo) -> Result<Artifact, DeviceError> {
    compile_source(target, info, "ceilings.cu", SOURCE)
}

/// Compiles a source of ours, whose kernels take arrays of inputs and outputs, their floats, and steps.
pub(super) fn compile_source(
    target: &mut dyn Target,
    info: &CudaInfo,
    file_name: &str,
    source: &str,
) -> Result<Artifact, DeviceError> {
    let unit = Unit {
        file_name: file_name.to_string(),
        source: source.to_string(),
        headers: Vec::new(),
        entries: Vec::new(),
        signature: Vec::new(),
        defines: Vec::new(),
        compiler: COMPILER.to_string(),
        flags: vec![format!("--gpu-architecture={}", info.arch)],
        deadline: DEADLINE,
    };
    target.compile(&unit).map_err(|source| failed("compiling", source))
}

/// Describes an input and an output of this many floats.
pub(super) fn plans(floats: u64) -> Vec<TensorPlan> {
    [("x", Role::Input), ("z", Role::Output)]
        .map(|(name, role)| TensorPlan {
            name: name.to_string(),
            shape: vec![floats],
            dtype: DType::F32,
            role,
        })
        .to_vec()
}

/// Stages an input.
pub(super) fn stage(target: &mut dyn Target, plans: &[TensorPlan]) -> Result<CaseId, DeviceError> {
    // Values around a half, all different: the power that arithmetic draws depends on the data.
    let value =
        |idx: usize| 0.5f32 + ((idx.wrapping_mul(2_654_435_761) >> 8) & 0xffff) as f32 * 1e-6;
    let content: Vec<u8> =
        (0..plans[0].elements()).flat_map(|idx| value(idx).to_ne_bytes()).collect();
    target.stage(plans, &Arc::new(vec![content])).map_err(|source| failed("staging inputs", source))
}

/// Binds one launch.
pub(super) fn program(
    artifact: &Artifact,
    plans: &[TensorPlan],
    entry: &str,
    grid: u32,
    block: u32,
    steps: i64,
) -> Program {
    Program {
        artifact: artifact.clone(),
        tensors: plans.to_vec(),
        axes: vec![plans[0].elements() as i64, steps],
        scalars: Vec::new(),
        scratch: Vec::new(),
        launches: Vec::new(),
        grid: Some(GridProgram {
            launches: vec![GridLaunch {
                entry: entry.to_string(),
                grid: [grid, 1, 1],
                block: [block, 1, 1],
                cluster: [1, 1, 1],
                smem_bytes: 0,
            }],
            maps: Vec::new(),
            scalar_types: Vec::new(),
        }),
        gemm: None,
    }
}

fn fastest(
    target: &mut dyn Target,
    program: &Program,
    case: CaseId,
    entry: &str,
) -> Result<f64, DeviceError> {
    let opened = target.open(program, &[case], DEADLINE);
    let mut session: Box<dyn Session> = opened.map_err(|source| failed(entry, source))?;
    let mut best_s = f64::INFINITY;
    for _ in 0..READINGS {
        let clocked = session.launch(&[0], &Extent::All).map_err(|source| failed(entry, source))?;
        best_s = best_s.min(clocked.elapsed_s);
    }
    Ok(best_s)
}

fn failed(what: &str, source: Fault) -> DeviceError {
    DeviceError::Target { doing: format!("measuring the device's ceilings ({what})"), source }
}
