//! Identity by content: of a lab's files and of a candidate.

use super::{Kernel, Lab, LabFiles, TargetKind};
use crate::{CandidateId, Hasher, LabId, Params};

/// Returns the identity of a lab's files. Prose does not count, and neither does the front: what is
/// generated from the evidence must not turn that evidence into another lab's. (A front's own identity, as
/// a candidate, is its text and the kernels that it names.)
pub(super) fn lab_id(files: &LabFiles, target: TargetKind) -> LabId {
    let mut hasher = Hasher::new("lab");
    let counts =
        |path: &str| !path.ends_with(".md") && path != "front.toml" && !is_foreign(path, target);
    for (path, text) in files.iter().filter(|(path, _)| counts(path)) {
        hasher.part(path.as_bytes()).part(text.as_bytes());
    }
    hasher.into()
}

/// Says whether a file is a shared header that no kernel for this target can include: an edit of one for
/// CUDA must not turn the evidence of a lab for the CPU into another lab's.
pub(super) fn is_foreign(path: &str, target: TargetKind) -> bool {
    target == TargetKind::Cpu && path.starts_with("../include/") && path.ends_with(".cuh")
}

/// Returns the identity of a candidate: everything that decides what is compiled and how it is
/// launched.
pub fn candidate_id(
    lab: &Lab,
    kernel: &Kernel,
    params: &Params,
    compiler_version: &str,
) -> CandidateId {
    let mut hasher = Hasher::new("candidate");
    hasher
        .part(interface(lab).as_bytes())
        .part(kernel.contract.as_bytes())
        .part(kernel.source.as_bytes())
        .part(params.key().as_bytes())
        .part(compiler_version.as_bytes());
    for (name, text) in &lab.headers {
        hasher.part(name.as_bytes()).part(text.as_bytes());
    }
    hasher.into()
}

/// Returns the arguments of the lab's kernels, in words.
fn interface(lab: &Lab) -> String {
    let tensors = lab.tensors.iter().map(|it| format!("{:?} {:?} {}", it.role, it.dtype, it.name));
    let axes = lab.axes.iter().map(|axis| format!("axis {axis}"));
    let scalars = lab
        .scalars
        .iter()
        .map(|it| format!("scalar {:?} {} {}", it.dtype, it.name, it.value.text()));
    tensors.chain(axes).chain(scalars).collect::<Vec<_>>().join("\n")
}
