//! The quick way through an output that is right: one pass that vectorises.

use warpsmith_model::{DType, PlainError};

use super::{Expected, Values};
use crate::element::{Bf16, Element, F16};
use crate::parallel;

/// What a pass over an output found.
pub(super) struct Scan {
    /// The largest error over its scale, NaN left out.
    pub(super) worst: f64,
    /// The norm of the error; not finite when any element is not.
    pub(super) error_norm: f64,
    /// The norm of the answer over the same elements.
    pub(super) answer_norm: f64,
    /// The largest error in plain numbers, NaN left out.
    pub(super) plain: PlainError,
}

/// Passes over the chunks of an output.
pub(super) fn scan(out: &[u8], expected: &Expected, chunks: &[usize]) -> Scan {
    let elements = chunks.len() * expected.chunks.range(0).len().max(1);
    let parts = parallel::map_pieces(chunks, elements, |chunks| match &expected.values {
        Values::Single(values) => scan_from(out, values, expected, chunks),
        Values::Double(values) => scan_from(out, values, expected, chunks),
    });
    let norm = |of: fn(&Scan) -> f64| parts.iter().map(|it| of(it).powi(2)).sum::<f64>().sqrt();
    Scan {
        worst: parts.iter().map(|part| part.worst).fold(0.0, f64::max),
        error_norm: norm(|part| part.error_norm),
        answer_norm: norm(|part| part.answer_norm),
        plain: parts.iter().map(|part| part.plain).fold(PlainError::default(), PlainError::worse),
    }
}

fn scan_from<E: Element>(out: &[u8], values: &[E], expected: &Expected, chunks: &[usize]) -> Scan {
    match expected.plan.dtype {
        DType::F16 => scan_best::<F16, E>(out, values, expected, chunks),
        DType::Bf16 => scan_best::<Bf16, E>(out, values, expected, chunks),
        DType::F32 => scan_best::<f32, E>(out, values, expected, chunks),
        DType::F64 => scan_best::<f64, E>(out, values, expected, chunks),
    }
}

fn scan_best<O: Element, E: Element>(
    out: &[u8],
    values: &[E],
    expected: &Expected,
    chunks: &[usize],
) -> Scan {
    #[cfg(target_arch = "x86_64")]
    if std::arch::is_x86_feature_detected!("avx2") {
        // SAFETY: the processor has the one feature that the function asks for.
        return unsafe { scan_avx2::<O, E>(out, values, expected, chunks) };
    }
    scan_body::<O, E>(out, values, expected, chunks)
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2")]
fn scan_avx2<O: Element, E: Element>(
    out: &[u8],
    values: &[E],
    expected: &Expected,
    chunks: &[usize],
) -> Scan {
    scan_body::<O, E>(out, values, expected, chunks)
}

/// Sums and maxima run in this many independent lanes, since floating-point reductions may not be
/// reordered by the compiler. Eight doubles are two AVX2 registers each.
const LANES: usize = 8;

#[inline(always)]
fn scan_body<O: Element, E: Element>(
    out: &[u8],
    values: &[E],
    expected: &Expected,
    chunks: &[usize],
) -> Scan {
    let mut worst = [0f64; LANES];
    let mut squares = [0f64; LANES];
    let mut absolute = [0f64; LANES];
    let mut relative = [0f64; LANES];
    let mut answer_squares = 0f64;
    for chunk in chunks {
        let range = expected.chunks.range(*chunk);
        let scale = expected.scales[*chunk];
        answer_squares += scale * scale * range.len() as f64;
        let got_bytes = &out[range.start * O::SIZE..range.end * O::SIZE];
        let want = &values[range];
        let mut got_groups = got_bytes.chunks_exact(O::SIZE * LANES);
        let mut want_groups = want.chunks_exact(LANES);
        for (got, want) in (&mut got_groups).zip(&mut want_groups) {
            for lane in 0..LANES {
                let got = O::read(&got[lane * O::SIZE..(lane + 1) * O::SIZE]).widen();
                let want = want[lane].widen();
                step(got, want, scale, &mut worst[lane], &mut squares[lane]);
                keep_worse(got, want, &mut absolute[lane], &mut relative[lane]);
            }
        }
        let rest = got_groups.remainder().chunks_exact(O::SIZE).zip(want_groups.remainder());
        for (lane, (got, want)) in rest.enumerate() {
            let (got, want) = (O::read(got).widen(), want.widen());
            step(got, want, scale, &mut worst[lane], &mut squares[lane]);
            keep_worse(got, want, &mut absolute[lane], &mut relative[lane]);
        }
    }
    let most = |lanes: [f64; LANES]| lanes.into_iter().fold(0.0, f64::max);
    Scan {
        worst: most(worst),
        error_norm: squares.iter().sum::<f64>().sqrt(),
        answer_norm: answer_squares.sqrt(),
        plain: PlainError { absolute: most(absolute), relative: most(relative) },
    }
}

#[inline(always)]
fn step(got: f64, want: f64, scale: f64, worst: &mut f64, squares: &mut f64) {
    let error = (got - want).abs();
    let size = want.abs();
    let ratio = error / if size > scale { size } else { scale };
    *worst = if ratio > *worst { ratio } else { *worst };
    *squares += error * error;
}

/// Keeps the larger error of each kind. NaN is larger than nothing; an expected zero has no relative error,
/// and one that is too large for a number is as large as numbers are.
#[inline(always)]
pub(super) fn keep_worse(got: f64, want: f64, absolute: &mut f64, relative: &mut f64) {
    let error = (got - want).abs();
    let ratio = (error / want.abs()).min(f64::MAX);
    *absolute = if error > *absolute { error } else { *absolute };
    *relative = if want != 0.0 && ratio > *relative { ratio } else { *relative };
}
