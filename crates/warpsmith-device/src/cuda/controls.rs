//! Kernels of our own to hold sanitizers against: one that does nothing wrong, which a tool must be able to
//! run, and for each tool one that does wrong, which it must flag.

use warpsmith_model::CudaInfo;

use super::own;
use crate::target::{CaseId, Fault, Program, Sanitizer, Target};

const FLAWED: &str = include_str!("controls.cu");
/// Floats that a kernel is given.
const FLOATS: u64 = 4096;
/// Threads of the only block: several warps.
const THREADS: u32 = 256;

/// Returns a kernel that does nothing wrong, with inputs: what does not run under some tool may be the tool's
/// fault.
pub(super) fn harmless(
    target: &mut dyn Target,
    info: &CudaInfo,
) -> Result<(Program, CaseId), Fault> {
    prepare(target, info, "ceilings.cu", own::CEILINGS, "copy")
}

/// Returns a kernel that does what a tool is there to find, with inputs.
pub(super) fn flawed(
    target: &mut dyn Target,
    info: &CudaInfo,
    tool: Sanitizer,
) -> Result<(Program, CaseId), Fault> {
    prepare(target, info, "controls.cu", FLAWED, flaw(tool).entry)
}

/// What a tool is held against.
pub(super) struct Control {
    entry: &'static str,
    /// What the kernel does.
    pub(super) words: &'static str,
}

/// Returns what is wrong with the kernel for a tool.
pub(super) fn flaw(tool: Sanitizer) -> Control {
    let (entry, words) = match tool {
        Sanitizer::Memcheck => ("reads_beside", "reads one element past the end of its input"),
        Sanitizer::Racecheck => ("races", "exchanges through shared memory without a barrier"),
        Sanitizer::Initcheck => ("reads_unwritten", "reads an output that nobody wrote"),
    };
    Control { entry, words }
}

fn prepare(
    target: &mut dyn Target,
    info: &CudaInfo,
    file_name: &str,
    source: &str,
    entry: &str,
) -> Result<(Program, CaseId), Fault> {
    let artifact = own::compile(target, info, file_name, source)?;
    let plans = own::plans(FLOATS);
    let case = own::stage(target, &plans)?;
    Ok((own::program(&artifact, &plans, entry, 1, THREADS, 0), case))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_tool_has_a_kernel_of_its_own_that_does_wrong() {
        for tool in Sanitizer::ALL {
            let head =
                format!("void {}(const float *x, float *z, int n, int steps)", flaw(tool).entry);
            assert_eq!(FLAWED.matches(&head).count(), 1, "{head}");
        }
        assert_eq!(FLAWED.matches("__global__").count(), Sanitizer::ALL.len());
    }
}
