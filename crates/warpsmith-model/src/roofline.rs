//! The roofline: the least time that measured ceilings allow.

use crate::{Ceilings, DType};

/// The work of one workload, evaluated.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct WorkSize {
    /// Floating-point operations.
    pub flops: f64,
    /// The least bytes that must move.
    pub bytes: f64,
}

/// A measured time may undercut the floor by this share before it is called implausible: the
/// ceilings are themselves measured, and repeat within a few percent on a busy machine.
pub const PLAUSIBILITY_MARGIN: f64 = 0.10;

/// Returns the least time that the ceilings allow, with everything in the nearest caches. A time
/// below it cannot be real.
pub fn plausible_floor_s(ceilings: &Ceilings, work: WorkSize, dtype: DType) -> f64 {
    (work.flops / peak_flops(ceilings, dtype)).max(work.bytes / ceilings.cache_bytes_per_s)
}

/// Returns the roofline's time: the larger of arithmetic at its peak and of memory at its peak.
pub fn roofline_s(ceilings: &Ceilings, work: WorkSize, dtype: DType) -> f64 {
    (work.flops / peak_flops(ceilings, dtype)).max(work.bytes / ceilings.memory_bytes_per_s)
}

/// Returns the share of the arithmetic peak that a time reaches.
pub fn share_of_peak(ceilings: &Ceilings, work: WorkSize, dtype: DType, time_s: f64) -> f64 {
    work.flops / time_s / peak_flops(ceilings, dtype)
}

/// Returns the arithmetic peak for an element type; the half types are computed by the matrix units
/// where there are any, else in single precision.
pub fn peak_flops(ceilings: &Ceilings, dtype: DType) -> f64 {
    match dtype {
        DType::F16 | DType::Bf16 => ceilings.matrix_flops_per_s.unwrap_or(ceilings.f32_flops_per_s),
        DType::F32 => ceilings.f32_flops_per_s,
        DType::F64 => ceilings.f64_flops_per_s,
    }
}
