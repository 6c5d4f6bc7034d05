//! The roofline: the least time that measured ceilings allow.

use serde::{Deserialize, Serialize};

use crate::{Ceilings, DType, units};

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

/// A measured ceiling.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Ceiling {
    /// Operations a second.
    Arithmetic,
    /// Bytes a second from and to memory.
    Memory,
}

impl Ceiling {
    /// Returns the name used in tables.
    pub fn name(self) -> &'static str {
        match self {
            Self::Arithmetic => "arithmetic",
            Self::Memory => "memory",
        }
    }
}

/// How near a time comes to the ceiling that binds.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Nearness {
    /// The roofline's time over the measured one.
    pub share: f64,
    /// The ceiling that binds.
    pub ceiling: Ceiling,
    /// Whether everything that the workload touches has room in the caches, so that memory's speed need
    /// not bind it.
    pub fits_caches: bool,
}

/// So much above a ceiling is the ceiling's own error: two measurements of it differ by that.
pub const CEILING_ERROR: f64 = 0.05;

/// Returns how near a time comes to the ceiling that binds; `caches_bytes` is what a device's caches hold
/// ([`DeviceInfo::caches_bytes`](crate::DeviceInfo::caches_bytes)).
pub fn nearness(
    ceilings: &Ceilings,
    work: WorkSize,
    dtype: DType,
    caches_bytes: u64,
    time_s: f64,
) -> Nearness {
    let arithmetic_s = work.flops / peak_flops(ceilings, dtype);
    let least_s = roofline_s(ceilings, work, dtype);
    let ceiling = if arithmetic_s >= least_s { Ceiling::Arithmetic } else { Ceiling::Memory };
    let fits_caches = work.bytes <= caches_bytes as f64;
    Nearness { share: least_s / time_s, ceiling, fits_caches }
}

impl Nearness {
    /// Says it in a cell of a table: a percentage up to the ceiling, and a word above it.
    pub fn words(&self) -> String {
        if self.share <= 1.0 {
            return units::percent(self.share);
        }
        match self.ceiling {
            Ceiling::Memory if self.fits_caches => "in caches".to_string(),
            _ if self.share <= 1.0 + CEILING_ERROR => "at the ceiling".to_string(),
            _ => "above the ceiling".to_string(),
        }
    }

    /// Says what a word instead of a percentage means; none for a percentage.
    pub fn why(&self) -> Option<String> {
        if self.share <= 1.0 {
            return None;
        }
        let multiple = units::ratio(self.share);
        Some(match self.ceiling {
            Ceiling::Memory if self.fits_caches => format!(
                "in caches: all data fit there, and move at up to {multiple} the speed of memory, so memory is no \
                 ceiling here"
            ),
            _ if self.share <= 1.0 + CEILING_ERROR => format!(
                "at the ceiling: up to {multiple} of it, which is within the {} by which two measurements of a \
                 ceiling differ",
                units::percent(CEILING_ERROR)
            ),
            Ceiling::Memory => format!(
                "above the ceiling: up to {multiple} of what memory reached when it was measured, which was too \
                 little (another program may have kept it busy)"
            ),
            Ceiling::Arithmetic => format!(
                "above the ceiling: up to {multiple} of what multiply-adds reached when they were measured; matrix \
                 units, fewer operations than the lab counts, or a busy machine at that time can explain it"
            ),
        })
    }
}

/// Returns what the words in a table's cells mean, each kind once, with the largest multiple.
pub fn nearness_notes<'a>(cells: impl IntoIterator<Item = &'a Nearness>) -> Vec<String> {
    let mut kinds: Vec<&Nearness> = Vec::new();
    for cell in cells.into_iter().filter(|cell| cell.share > 1.0) {
        match kinds.iter_mut().find(|kind| kind.words() == cell.words()) {
            Some(kind) if kind.share < cell.share => *kind = cell,
            Some(_) => {}
            None => kinds.push(cell),
        }
    }
    kinds.into_iter().filter_map(Nearness::why).collect()
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
            busy: false,
            newest: None,
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

    /// "137 % of the roofline" was once printed without a word.
    #[test]
    fn nothing_above_a_ceiling_is_a_percentage() {
        let ceilings = Ceilings { memory_bytes_per_s: 1e9, ..ceilings(None) };
        let words = |bytes: f64, time_s: f64| {
            let work = WorkSize { flops: 0.0, bytes };
            let near = nearness(&ceilings, work, DType::F32, 1 << 20, time_s);
            (near.words(), near.why().is_some())
        };
        assert_eq!(words(1e9, 2.0), ("50 %".to_string(), false));
        assert_eq!(words(1e6, 0.5e-3), ("in caches".to_string(), true));
        assert_eq!(words(1e9, 0.98), ("at the ceiling".to_string(), true));
        assert_eq!(words(1e9, 0.73), ("above the ceiling".to_string(), true));
        let arithmetic = WorkSize { flops: 60.0, bytes: 1.0 };
        let near = nearness(&ceilings, arithmetic, DType::F32, 1 << 20, 0.5);
        assert_eq!(
            (near.ceiling, near.words().as_str()),
            (Ceiling::Arithmetic, "above the ceiling")
        );
    }

    #[test]
    fn each_word_of_a_table_is_explained_once() {
        let near = |share: f64| Nearness { share, ceiling: Ceiling::Memory, fits_caches: true };
        let notes = nearness_notes(&[near(0.5), near(1.2), near(1.4)]);
        assert_eq!(notes.len(), 1, "{notes:?}");
        assert!(notes[0].starts_with("in caches: ") && notes[0].contains("1.40x"), "{notes:?}");
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
