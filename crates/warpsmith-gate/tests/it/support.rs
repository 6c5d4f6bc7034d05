//! What the tests of the gate on this machine share.

use std::path::PathBuf;

use tempfile::TempDir;
use warpsmith_device::cpu::{Cpu, CpuConfig};

/// A target with a cache of its own.
pub(crate) struct Bench {
    pub(crate) cpu: Cpu,
    _cache: TempDir,
}

impl Bench {
    pub(crate) fn new() -> Self {
        let cache = tempfile::tempdir().expect("a folder");
        let config = CpuConfig {
            cache_dir: cache.path().to_path_buf(),
            runner_exe: Some(PathBuf::from(env!("CARGO_BIN_EXE_warpsmith-gate-runner"))),
            threads: None,
        };
        Self { cpu: Cpu::new(config).expect("a target"), _cache: cache }
    }
}
