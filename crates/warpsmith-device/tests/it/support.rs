//! What the tests of the CPU target share: units, programs and cases of a small kernel.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use tempfile::TempDir;
use warpsmith_device::cpu::{Cpu, CpuConfig};
use warpsmith_device::target::{
    Argument, Artifact, CaseId, Clocked, Extent, Fault, LaunchPlan, Program, Session, Target,
    TensorPlan, Unit,
};
use warpsmith_model::lab::{Role, ScalarType};
use warpsmith_model::{CrashCause, DType};

/// The executable that serves as runner.
pub(crate) fn runner_exe() -> PathBuf {
    PathBuf::from(env!("CARGO_BIN_EXE_warpsmith-runner"))
}

/// A target with a cache of its own.
pub(crate) struct Bench {
    pub(crate) cpu: Cpu,
    _cache: TempDir,
}

impl Bench {
    pub(crate) fn new() -> Self {
        Self::with_threads(None)
    }

    pub(crate) fn with_threads(threads: Option<u32>) -> Self {
        let cache = tempfile::tempdir().expect("a folder");
        let cache_dir = cache.path().to_path_buf();
        let config = CpuConfig { cache_dir, runner_exe: Some(runner_exe()), threads };
        Self { cpu: Cpu::new(config).expect("a target"), _cache: cache }
    }

    /// Compiles `source`, whose function is `kernel`, for vectors `x`, `y` and `z`.
    pub(crate) fn compile(&mut self, source: &str) -> Artifact {
        self.cpu.compile(&unit(source)).expect("it compiles")
    }

    /// Opens a session on one case of `elements` elements.
    pub(crate) fn open(&mut self, source: &str, elements: u64) -> Result<Box<dyn Session>, Fault> {
        let artifact = self.compile(source);
        let program = program(artifact, elements);
        let case = self.stage(elements);
        self.cpu.open(&program, &[case], DEADLINE)
    }

    /// Stages `x[i] = i` and `y[i] = 1`.
    pub(crate) fn stage(&mut self, elements: u64) -> CaseId {
        let x = (0..elements).flat_map(|idx| (idx as f32).to_le_bytes()).collect();
        let y = (0..elements).flat_map(|_| 1f32.to_le_bytes()).collect();
        self.cpu.stage(&tensors(elements), &Arc::new(vec![x, y])).expect("staged")
    }

    /// Runs a kernel once on a thousand elements.
    pub(crate) fn run(&mut self, source: &str) -> Result<Clocked, Fault> {
        self.open(source, 1000)?.launch(&[0], &Extent::All)
    }

    /// Runs a kernel that must crash, and says why it did.
    pub(crate) fn crash(&mut self, source: &str) -> CrashCause {
        match self.run(source) {
            Err(Fault::Crashed(cause)) => cause,
            other => panic!("expected a crash, got {other:?}"),
        }
    }
}

pub(crate) const DEADLINE: Duration = Duration::from_secs(10);

/// Adds the lines around the body of a kernel that is called with one block per element.
pub(crate) fn kernel(body: &str) -> String {
    format!(
        "#include <stdint.h>\n\
         void kernel(const float *x, const float *y, float *z, int64_t n, float a,\n\
         \x20           int64_t begin, int64_t end) {{\n{body}\n}}\n"
    )
}

/// `z = a x + y`.
pub(crate) fn good_kernel() -> String {
    kernel("    for (int64_t i = begin; i < end; i++) z[i] = a * x[i] + y[i];")
}

pub(crate) fn unit(source: &str) -> Unit {
    Unit {
        file_name: "kernel.c".to_string(),
        source: source.to_string(),
        headers: Vec::new(),
        entries: vec!["kernel".to_string()],
        signature: vec![
            Argument::Tensor(DType::F32, Role::Input),
            Argument::Tensor(DType::F32, Role::Input),
            Argument::Tensor(DType::F32, Role::Output),
            Argument::Axis,
            Argument::Scalar(ScalarType::F32),
        ],
        defines: Vec::new(),
        compiler: "gcc".to_string(),
        flags: vec!["-O1".to_string()],
        deadline: Duration::from_secs(60),
    }
}

pub(crate) fn tensors(elements: u64) -> Vec<TensorPlan> {
    let tensor = |name: &str, role| TensorPlan {
        name: name.to_string(),
        shape: vec![elements],
        dtype: DType::F32,
        role,
    };
    vec![tensor("x", Role::Input), tensor("y", Role::Input), tensor("z", Role::Output)]
}

pub(crate) fn program(artifact: Artifact, elements: u64) -> Program {
    Program {
        grid: None,
        gemm: None,
        artifact,
        tensors: tensors(elements),
        axes: vec![elements as i64],
        scalars: vec![1.5],
        scratch: Vec::new(),
        launches: vec![LaunchPlan { entry: 0, blocks: elements as i64, chunk: 16 }],
    }
}

/// Reads an output as numbers.
pub(crate) fn floats(bytes: &[u8]) -> Vec<f32> {
    bytes.chunks(4).map(|four| f32::from_le_bytes(four.try_into().expect("four"))).collect()
}

/// What `z` must be.
pub(crate) fn expected(elements: u64) -> Vec<f32> {
    (0..elements).map(|idx| 1.5 * idx as f32 + 1.0).collect()
}

/// Writes a program that a shell runs.
pub(crate) fn write_script(path: &Path, text: &str) {
    use std::os::unix::fs::PermissionsExt;
    std::fs::write(path, format!("#!/bin/sh\n{text}\n")).expect("written");
    let permissions = std::fs::Permissions::from_mode(0o755);
    std::fs::set_permissions(path, permissions).expect("made executable");
}
