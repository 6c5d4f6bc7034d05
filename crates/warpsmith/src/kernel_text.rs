//! Kernels as text, on the way from a campaign to its worker.

use std::time::Duration;

use anyhow::Result;
use warpsmith_model::lab::{Kernel, parse_kernel};
use warpsmith_model::{KernelText, Lab};

/// A kernel as the worker receives it.
pub fn kernel_text(kernel: &Kernel) -> KernelText {
    KernelText {
        name: kernel.name.clone(),
        contract: kernel.contract.clone(),
        source: kernel.source.clone(),
    }
}

/// How long a compiler may take for a contender.
pub const COMPARED_COMPILE_DEADLINE: Duration = Duration::from_secs(120);

/// Reads a kernel that a request brings along.
pub fn parse(lab: &Lab, text: &KernelText) -> Result<Kernel> {
    parse_kernel(lab, &text.name, &text.contract, &text.source)
        .map_err(|errors| anyhow::anyhow!("{errors}"))
}
