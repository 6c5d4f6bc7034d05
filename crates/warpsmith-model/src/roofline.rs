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
    (work.flops / reachable_flops(ceilings, dtype)).max(work.bytes / ceilings.cache_bytes_per_s)
}

/// Returns the roofline's time: the larger of arithmetic at its peak and of memory at its peak.
pub fn roofline_s(ceilings: &Ceilings, work: WorkSize, dtype: DType) -> f64 {
    (work.flops / peak_flops(ceilings, dtype)).max(work.bytes / ceilings.memory_bytes_per_s)
}

/// Returns the share of the arithmetic peak that a time reaches.
pub fn share_of_peak(ceilings: &Ceilings, work: WorkSize, dtype: DType, time_s: f64) -> f64 {
    work.flops / time_s / peak_flops(ceilings, dtype)
}

/// Returns the arithmetic peak for the element type that a lab computes with
/// ([`Lab::arithmetic_dtype`](crate::Lab::arithmetic_dtype)); the half types are computed by the
/// matrix units where there are any, else in single precision.
pub fn peak_flops(ceilings: &Ceilings, dtype: DType) -> f64 {
    match dtype {
        DType::F16 | DType::Bf16 => ceilings.matrix_flops_per_s.unwrap_or(ceilings.f32_flops_per_s),
        DType::F32 => ceilings.f32_flops_per_s,
        DType::F64 => ceilings.f64_flops_per_s,
    }
}

/// Returns the most operations a second that results of an element type can be had with, by whatever
/// units: more than the peak of its own multiply-adds where there are matrix units. They take single
/// precision as TF32, at half the rate of 16-bit elements (NVIDIA's H100 and A100 data sheets), or in
/// three 16-bit parts; double precision they have natively or emulate in parts, for which their whole
/// rate is the only bound that needs no further measurement.
fn reachable_flops(ceilings: &Ceilings, dtype: DType) -> f64 {
    let matrix = ceilings.matrix_flops_per_s.unwrap_or(0.0);
    let by_matrix_units = match dtype {
        DType::F16 | DType::Bf16 | DType::F64 => matrix,
        DType::F32 => matrix / 2.0,
    };
    peak_flops(ceilings, dtype).max(by_matrix_units)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ceilings(matrix_flops_per_s: Option<f64>) -> Ceilings {
        Ceilings {
            f32_flops_per_s: 60.0,
            f64_flops_per_s: 30.0,
            matrix_flops_per_s,
            memory_bytes_per_s: 1.0,
            cache_bytes_per_s: 1.0,
            launch_floor_s: 0.0,
        }
    }

    #[test]
    fn nobody_is_accused_for_what_matrix_units_can_do() {
        let work = WorkSize { flops: 600.0, bytes: 0.0 };
        let floor = |matrix, dtype| plausible_floor_s(&ceilings(matrix), work, dtype);
        assert_eq!(floor(None, DType::F16), 10.0);
        assert_eq!(floor(None, DType::F32), 10.0);
        assert_eq!(floor(None, DType::F64), 20.0);
        assert_eq!(floor(Some(600.0), DType::Bf16), 1.0);
        assert_eq!(floor(Some(600.0), DType::F32), 2.0);
        assert_eq!(floor(Some(600.0), DType::F64), 1.0);
    }

    #[test]
    fn shares_are_of_the_peak_of_the_type_itself() {
        let work = WorkSize { flops: 60.0, bytes: 0.0 };
        let share = |dtype| share_of_peak(&ceilings(Some(600.0)), work, dtype, 1.0);
        assert_eq!(share(DType::F16), 0.1);
        assert_eq!(share(DType::F32), 1.0);
        assert_eq!(share(DType::F64), 2.0);
    }
}
