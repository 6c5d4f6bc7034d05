//! Kernels of our own: what a device can do at most is measured with them, and sanitizers are held against
//! them. They go through the same compiler, launch and clock as every candidate.

use std::sync::Arc;
use std::time::Duration;

use warpsmith_model::lab::Role;
use warpsmith_model::{CudaInfo, DType};

use super::COMPILER;
use crate::target::{
    Artifact, CaseId, Fault, GridLaunch, GridProgram, Program, Target, TensorPlan, Unit,
};

/// What ceilings are measured with; `copy` is one of its kernels.
pub const CEILINGS: &str = include_str!("ceilings.cu");
const DEADLINE: Duration = Duration::from_secs(30);

/// Compiles a source of ours, whose kernels take arrays of inputs and outputs, their floats, and steps.
pub fn compile(
    target: &mut dyn Target,
    info: &CudaInfo,
    file_name: &str,
    source: &str,
) -> Result<Artifact, Fault> {
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
    target.compile(&unit)
}

/// Describes an input and an output of this many floats.
pub fn plans(floats: u64) -> Vec<TensorPlan> {
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
pub fn stage(target: &mut dyn Target, plans: &[TensorPlan]) -> Result<CaseId, Fault> {
    // Values around a half, all different: the power that arithmetic draws depends on the data.
    let value =
        |idx: usize| 0.5f32 + ((idx.wrapping_mul(2_654_435_761) >> 8) & 0xffff) as f32 * 1e-6;
    let content: Vec<u8> =
        (0..plans[0].elements()).flat_map(|idx| value(idx).to_ne_bytes()).collect();
    target.stage(plans, &Arc::new(vec![content]))
}

/// Binds one launch.
pub fn program(
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
