//! The shapes that a lab's expressions are tried on when it is loaded.

use super::{Tensor, Workload};
use crate::{EvalError, Expr};

/// No workload's tensors may take more than this together: 1 TiB.
pub(super) const MAX_BYTES: u128 = 1 << 40;

/// A shape to try expressions on.
#[derive(Clone, Debug)]
pub(super) struct Shape {
    /// What the shape is, in words.
    pub(super) label: String,
    /// The axes; complete and in order.
    pub(super) workload: Workload,
}

impl Shape {
    /// Returns the shapes of workloads and proofs.
    pub(super) fn of(workloads: &[Workload], proofs: &[Workload]) -> Vec<Self> {
        let label = |kind: &str, workload: &Workload| Self {
            label: format!("{kind} `{}`", workload.name),
            workload: workload.clone(),
        };
        let workloads = workloads.iter().map(|workload| label("workload", workload));
        workloads.chain(proofs.iter().map(|proof| label("proof", proof))).collect()
    }
}

/// Returns what is wrong on the first shape where something is, with the shape's label.
pub(super) fn first_failure<'a>(
    shapes: impl IntoIterator<Item = &'a Shape>,
    check: impl Fn(&Workload) -> Result<(), String>,
) -> Option<String> {
    shapes.into_iter().find_map(|shape| {
        check(&shape.workload).err().map(|problem| format!("on {}: {problem}", shape.label))
    })
}

/// Checks that an expression over the axes is a positive integer.
pub(super) fn check_positive(expr: &Expr, workload: &Workload) -> Result<(), String> {
    match expr.eval_int(&|name| workload.lookup(name)) {
        Ok(value) if value > 0 => Ok(()),
        Ok(value) => Err(format!("`{}` is {value}; it must be at least 1", expr.text())),
        Err(EvalError(message)) => Err(message),
    }
}

/// Returns the bytes of all tensors together; none where an extent has no value,
/// which is reported elsewhere.
pub(super) fn total_bytes(tensors: &[Tensor], workload: &Workload) -> Option<u128> {
    tensors.iter().try_fold(0u128, |total, tensor| {
        let extents = tensor.extents(workload).ok()?;
        let bytes =
            extents.iter().fold(tensor.dtype_on(workload).size() as u128, |bytes, extent| {
                bytes.saturating_mul(u128::from(*extent))
            });
        Some(total.saturating_add(bytes))
    })
}
