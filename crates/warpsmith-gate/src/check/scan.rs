//! The quick way through an output that is right: one pass that vectorises.

use std::marker::PhantomData;

use warpsmith_device::parallel;
use warpsmith_device::wide::{self, WideLoop};
use warpsmith_model::{DType, PlainError};

use super::{Expected, Values};
use crate::element::{Bf16, Element, F16};

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
    wide::run(Pass { out, values, expected, chunks, element: PhantomData::<O> })
}

/// One pass over chunks of an output whose elements are `O`.
struct Pass<'a, O, E> {
    out: &'a [u8],
    values: &'a [E],
    expected: &'a Expected,
    chunks: &'a [usize],
    element: PhantomData<O>,
}

impl<O: Element, E: Element> WideLoop for Pass<'_, O, E> {
    type Output = Scan;

    #[inline(always)]
    fn run(self) -> Scan {
        scan_body::<O, E>(self.out, self.values, self.expected, self.chunks)
    }
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
    let mut lanes = Lanes::default();
    let mut answer_squares = 0f64;
    for chunk in chunks {
        let range = expected.chunks.range(*chunk);
        if expected.chunks.width > 1 {
            for idx in range {
                let scale = expected.scale(*chunk, idx);
                answer_squares += scale * scale;
                let got = O::read(&out[idx * O::SIZE..(idx + 1) * O::SIZE]).widen();
                lanes.step(idx % LANES, got, values[idx].widen(), scale, 1.0 / scale);
            }
            continue;
        }
        let scale = expected.scales[*chunk];
        let inverse = 1.0 / scale;
        answer_squares += scale * scale * range.len() as f64;
        let got_bytes = &out[range.start * O::SIZE..range.end * O::SIZE];
        let want = &values[range];
        let mut got_groups = got_bytes.chunks_exact(O::SIZE * LANES);
        let mut want_groups = want.chunks_exact(LANES);
        for (got, want) in (&mut got_groups).zip(&mut want_groups) {
            for lane in 0..LANES {
                let got = O::read(&got[lane * O::SIZE..(lane + 1) * O::SIZE]).widen();
                lanes.step(lane, got, want[lane].widen(), scale, inverse);
            }
        }
        let rest = got_groups.remainder().chunks_exact(O::SIZE).zip(want_groups.remainder());
        for (lane, (got, want)) in rest.enumerate() {
            lanes.step(lane, O::read(got).widen(), want.widen(), scale, inverse);
        }
    }
    let most = |lanes: [f64; LANES]| lanes.into_iter().fold(0.0, f64::max);
    Scan {
        worst: most(lanes.worst),
        error_norm: lanes.squares.iter().sum::<f64>().sqrt(),
        answer_norm: answer_squares.sqrt(),
        plain: PlainError {
            absolute: most(lanes.absolute),
            // JSON has no infinity.
            relative: most(lanes.relative).min(f64::MAX),
        },
    }
}

/// Sums and maxima, each in its own register.
#[derive(Default)]
struct Lanes {
    worst: [f64; LANES],
    squares: [f64; LANES],
    absolute: [f64; LANES],
    relative: [f64; LANES],
}

impl Lanes {
    /// Takes an element in. `inverse` is that of the scale: divisions are most of what a pass costs, and the
    /// relative error needs one already. NaN is larger than nothing; an expected zero has no relative error.
    #[inline(always)]
    fn step(&mut self, lane: usize, got: f64, want: f64, scale: f64, inverse: f64) {
        let error = (got - want).abs();
        let size = want.abs();
        let relative = error / size;
        let ratio = if size > scale { relative } else { error * inverse };
        let larger = |value: f64, most: f64| if value > most { value } else { most };
        self.worst[lane] = larger(ratio, self.worst[lane]);
        self.squares[lane] += error * error;
        self.absolute[lane] = larger(error, self.absolute[lane]);
        let counted = if size > 0.0 { relative } else { 0.0 };
        self.relative[lane] = larger(counted, self.relative[lane]);
    }
}
