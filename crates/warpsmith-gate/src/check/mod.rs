//! Judges outputs against what was expected of them.
//!
//! [`Expected`] holds the right answer of one output tensor with the scale of each of its rows,
//! computed once; [`compare`] judges the bytes that a launch left. Two bounds apply, both in units
//! of the output type's epsilon: each element's error against the larger of its own size and its
//! row's root mean square, and the norm of all errors against the norm of the answer. NaN compares
//! equal to nothing, and an expected NaN is an error of the lab, never a wildcard.
//!
//! A row is the last axis, because elements of one row usually have one scale. Longer rows are judged
//! in equal chunks of at most [`FLAT_ROW`] elements, so that a region of small values is not excused
//! by large ones far away; tensors with one axis in chunks of just so many, because that is where the
//! scales of their inputs change; rows shorter than [`LEAST_ROW`]
//! are joined along the axes before, because the root mean square of two or three elements says
//! little about the sums that they came from. The positions on such a short axis may be different things (a
//! sum, a least, a most), so each has a scale of its own, where there are rows enough.

mod scan;

use warpsmith_device::parallel;
use warpsmith_device::poison::is_poison;
use warpsmith_device::target::TensorPlan;
use warpsmith_model::lab::Tolerance;
use warpsmith_model::rng::Rng;
use warpsmith_model::{BudgetShare, DType, ErrorSize, Mismatch, MismatchKind, PlainError, Stage};

use crate::element::{element_at, least_normal, widen, widen_to_single};
use crate::inputs::FLAT_ROW;

/// Rows shorter than this are joined.
pub const LEAST_ROW: usize = 8;

/// The positions on a short axis have scales of their own where there are this many rows: of a few sums one may
/// happen to be nearly zero, of four seldom all.
const LEAST_ROWS: usize = 4;

/// The largest `excess` that is reported; beyond it, how wrong a value is says nothing more, and
/// infinity is not JSON.
const MOST_EXCESS: f64 = 1e9;

/// The right answer of one output tensor.
#[derive(Clone, Debug, PartialEq)]
pub struct Expected {
    plan: TensorPlan,
    values: Values,
    chunks: Chunks,
    /// The root mean square of each chunk, or of each position on a short last axis in it, never below the
    /// floor.
    scales: Vec<f64>,
}

/// The elements of a right answer: doubles when the reference computed them, singles when the
/// oracle did (its own type holds no more).
#[derive(Clone, Debug, PartialEq)]
pub enum Values {
    /// Single precision.
    Single(Vec<f32>),
    /// Double precision.
    Double(Vec<f64>),
}

impl Values {
    /// Takes the bytes of a tensor over, exactly; f64 stays double, all other types become single.
    pub fn from_bytes(dtype: DType, bytes: &[u8]) -> Self {
        match dtype {
            DType::F64 => Self::Double(widen(dtype, bytes)),
            _ => Self::Single(widen_to_single(dtype, bytes)),
        }
    }

    /// Returns the number of elements.
    pub fn len(&self) -> usize {
        match self {
            Self::Single(values) => values.len(),
            Self::Double(values) => values.len(),
        }
    }

    /// Says whether there are no elements.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns one element.
    pub fn get(&self, idx: usize) -> f64 {
        match self {
            Self::Single(values) => f64::from(values[idx]),
            Self::Double(values) => values[idx],
        }
    }

    /// Returns the root mean square of a range.
    pub fn rms(&self, range: std::ops::Range<usize>) -> f64 {
        let count = range.len().max(1) as f64;
        let squares: f64 = match self {
            Self::Single(values) => values[range].iter().map(|v| f64::from(*v).powi(2)).sum(),
            Self::Double(values) => values[range].iter().map(|v| v * v).sum(),
        };
        (squares / count).sqrt()
    }

    /// Returns the root mean square of the elements of a range at one position of an axis that long.
    fn rms_at(&self, range: std::ops::Range<usize>, width: usize, position: usize) -> f64 {
        if width == 1 {
            return self.rms(range);
        }
        let positions = range.filter(|idx| idx % width == position);
        let (count, squares) = positions.fold((0usize, 0.0), |(count, squares), idx| {
            (count + 1, squares + self.get(idx).powi(2))
        });
        (squares / count.max(1) as f64).sqrt()
    }
}

/// Expected elements must be smaller than this: the squares of larger ones are not finite.
const LARGEST: f64 = 1e150;

/// An expected element that is not finite, or so large that its square is not.
#[derive(Clone, Debug, PartialEq)]
pub struct NotFinite {
    /// Where.
    pub index: Vec<u64>,
    /// What stands there.
    pub value: f64,
}

impl Expected {
    /// Prepares an answer. `floor` is the usual size of an element where the answer itself is too
    /// small to show it (see the corpus), else 0.
    pub fn new(plan: &TensorPlan, values: Values, floor: f64) -> Result<Self, NotFinite> {
        assert_eq!(values.len(), plan.elements(), "as many expected elements as the tensor has");
        let chunks = Chunks::of(&plan.shape);
        let floor = floor.max(least_normal(plan.dtype));
        let width = chunks.width;
        let mut scales = vec![0.0; chunks.count() * width];
        parallel::fill_from(&mut scales, 1, values.len(), |start, piece| {
            for (idx, scale) in piece.iter_mut().enumerate() {
                let idx = start + idx;
                *scale = values.rms_at(chunks.range(idx / width), width, idx % width);
            }
        });
        // The largest element of a chunk is at most its root mean square times the root of its length.
        let is_sound = |value: f64| value.abs() < LARGEST;
        let unsound = (0..scales.len())
            .filter(|idx| {
                let bound = scales[*idx] * (chunks.range(idx / width).len() as f64).sqrt();
                !is_sound(bound)
            })
            .flat_map(|idx| chunks.range(idx / width))
            .find(|idx| !is_sound(values.get(*idx)));
        if let Some(idx) = unsound {
            return Err(NotFinite { index: index_of(&plan.shape, idx), value: values.get(idx) });
        }
        scales.iter_mut().for_each(|scale| *scale = scale.max(floor));
        Ok(Self { plan: plan.clone(), values, chunks, scales })
    }

    /// Returns the tensor that this is the answer for.
    pub fn plan(&self) -> &TensorPlan {
        &self.plan
    }

    /// Returns the elements.
    pub fn values(&self) -> &Values {
        &self.values
    }

    /// Returns the elements alone.
    pub fn into_values(self) -> Values {
        self.values
    }

    /// Returns the scale of an element of a chunk.
    fn scale(&self, chunk: usize, idx: usize) -> f64 {
        let width = self.chunks.width;
        self.scales[chunk * width + idx % width]
    }

    /// Returns about how many bytes of memory the answer takes.
    pub fn memory_bytes(&self) -> usize {
        let element = if matches!(self.values, Values::Single(_)) { 4 } else { 8 };
        self.values.len() * element + self.scales.len() * 8
    }

    /// Chooses chunks at random, neighbours together, that hold about this share of the elements.
    pub fn sample(&self, share: f64, rng: &mut Rng) -> Coverage {
        const TOGETHER: usize = 16;
        let groups = self.chunks.count().div_ceil(TOGETHER);
        let wanted = ((groups as f64 * share).ceil() as usize).clamp(1, groups);
        if wanted == groups {
            return Coverage::Whole;
        }
        let mut chosen: Vec<usize> = (0..groups).collect();
        rng.shuffle(&mut chosen);
        chosen.truncate(wanted);
        chosen.sort_unstable();
        let chunks = chosen
            .iter()
            .flat_map(|group| group * TOGETHER..((group + 1) * TOGETHER).min(self.chunks.count()))
            .collect();
        Coverage::Chunks(chunks)
    }
}

/// Which elements are judged.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Coverage {
    /// All.
    Whole,
    /// Those of these chunks.
    Chunks(Vec<usize>),
    /// Those that are no longer poison; there must be one.
    Written,
}

/// How far off an output may be.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ErrorBudget {
    /// The largest error of an element over its scale.
    pub element: f64,
    /// The largest norm of the error over the norm of the answer.
    pub norm: f64,
    /// The distance from 1 to the next number of the output's type.
    pub epsilon: f64,
}

impl ErrorBudget {
    /// Returns the budget of an output type; `scale` widens both bounds.
    pub fn new(tolerance: &Tolerance, scale: f64, dtype: DType) -> Self {
        let epsilon = dtype.epsilon();
        Self {
            element: tolerance.element_eps * scale * epsilon,
            norm: tolerance.norm_eps * scale * epsilon,
            epsilon,
        }
    }

    /// Returns the budget in units of epsilon.
    pub fn allowed(&self) -> ErrorSize {
        ErrorSize {
            element_eps: self.element / self.epsilon,
            norm_eps: self.norm / self.epsilon,
            plain: None,
            of_budget: None,
        }
    }

    /// Returns the size of an error that is within it.
    fn error_size(&self, worst: f64, norm: f64, plain: PlainError) -> ErrorSize {
        ErrorSize {
            element_eps: worst / self.epsilon,
            norm_eps: norm / self.epsilon,
            plain: Some(plain),
            of_budget: Some(BudgetShare {
                element: share(worst, self.element),
                norm: share(norm, self.norm),
            }),
        }
    }
}

/// Returns the share of a bound that an error uses up; no error uses up none, not even of nothing.
fn share(error: f64, bound: f64) -> f64 {
    if error == 0.0 { 0.0 } else { error / bound }
}

/// A wrong output, before it is known where in the gate it was found.
#[derive(Clone, Debug, PartialEq)]
pub struct Wrong {
    /// What was wrong.
    pub kind: MismatchKind,
    /// The worst element's index.
    pub index: Vec<u64>,
    /// What stands there.
    pub got: f64,
    /// What was expected there.
    pub expected: f64,
    /// The error over its bound.
    pub excess: f64,
    /// How many elements were wrong.
    pub wrong: u64,
    /// Of how many that were judged.
    pub total: u64,
}

/// Where in the gate an output was judged.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JudgedOutput {
    /// The stage.
    pub stage: Stage,
    /// The shape, in words.
    pub workload: String,
    /// The name of the input distribution.
    pub inputs: String,
    /// The seed of the contents.
    pub seed: u64,
}

impl Wrong {
    /// Says where it was found.
    pub fn at(self, place: &JudgedOutput, tensor: &str) -> Mismatch {
        Mismatch {
            kind: self.kind,
            stage: place.stage,
            workload: place.workload.clone(),
            inputs: place.inputs.clone(),
            seed: place.seed,
            tensor: tensor.to_string(),
            index: self.index,
            got: self.got.to_string(),
            expected: self.expected.to_string(),
            excess: self.excess.min(MOST_EXCESS),
            wrong: self.wrong,
            total: self.total,
        }
    }
}

/// Judges an output's bytes. Returns the size of its error, or what is wrong.
pub fn compare(
    out: &[u8],
    expected: &Expected,
    budget: &ErrorBudget,
    coverage: &Coverage,
) -> Result<ErrorSize, Wrong> {
    let all_chunks: Vec<usize>;
    let chunks = match coverage {
        Coverage::Whole => {
            all_chunks = (0..expected.chunks.count()).collect();
            &all_chunks
        }
        Coverage::Chunks(chunks) => chunks,
        Coverage::Written => return compare_carefully(out, expected, budget, coverage),
    };
    let found = scan::scan(out, expected, chunks);
    let norm = found.error_norm / found.answer_norm;
    // A NaN or an infinity anywhere makes the sum of squares not finite.
    let passes =
        found.error_norm.is_finite() && found.worst <= budget.element && norm <= budget.norm;
    if passes {
        return Ok(budget.error_size(found.worst, norm, found.plain));
    }
    compare_carefully(out, expected, budget, coverage)
}

/// Compares two outputs of the same input, bit for bit.
pub fn compare_bits(plan: &TensorPlan, first: &[u8], again: &[u8]) -> Result<(), Wrong> {
    if first == again {
        return Ok(());
    }
    let size = plan.dtype.size();
    let differs =
        |idx: &usize| first[idx * size..(idx + 1) * size] != again[idx * size..(idx + 1) * size];
    let differing: Vec<usize> = (0..plan.elements()).filter(differs).collect();
    let idx = *differing.first().expect("unequal bytes lie in some element");
    Err(Wrong {
        kind: MismatchKind::NotRepeatable,
        index: index_of(&plan.shape, idx),
        got: element_at(plan.dtype, again, idx),
        expected: element_at(plan.dtype, first, idx),
        excess: MOST_EXCESS,
        wrong: differing.len() as u64,
        total: plan.elements() as u64,
    })
}

/// Judges element by element: for outputs that failed the quick way, and for partial ones.
fn compare_carefully(
    out: &[u8],
    expected: &Expected,
    budget: &ErrorBudget,
    coverage: &Coverage,
) -> Result<ErrorSize, Wrong> {
    let plan = &expected.plan;
    let chunks: Vec<usize> = match coverage {
        Coverage::Chunks(chunks) => chunks.clone(),
        Coverage::Whole => (0..expected.chunks.count()).collect(),
        Coverage::Written => written_chunks(out, expected),
    };
    let size = plan.dtype.size();
    let mut unwritten = Tally::default();
    let mut not_finite = Tally::default();
    let mut off = Tally::default();
    let (mut worst, mut worst_idx) = (0.0f64, 0);
    let (mut error_squares, mut answer_squares) = (0.0f64, 0.0f64);
    let mut plain = PlainError::default();
    let mut judged = 0u64;
    for chunk in chunks {
        for idx in expected.chunks.range(chunk) {
            let scale = expected.scale(chunk, idx);
            if is_poison(plan.dtype, &out[idx * size..(idx + 1) * size]) {
                unwritten.add(idx);
                continue;
            }
            judged += 1;
            let got = element_at(plan.dtype, out, idx);
            if !got.is_finite() {
                not_finite.add(idx);
                continue;
            }
            let want = expected.values.get(idx);
            plain = plain.worse(PlainError::of(got, want));
            let ratio = (got - want).abs() / want.abs().max(scale);
            if ratio > budget.element {
                off.add(idx);
            }
            if ratio > worst {
                (worst, worst_idx) = (ratio, idx);
            }
            error_squares += (got - want).powi(2);
            answer_squares += scale.powi(2);
        }
    }
    let wrong = |kind, tally: &Tally, idx: usize, excess: f64, total: u64| {
        Err(Wrong {
            kind,
            index: index_of(&plan.shape, idx),
            got: element_at(plan.dtype, out, idx),
            expected: expected.values.get(idx),
            excess,
            wrong: tally.count,
            total,
        })
    };
    let partial = *coverage == Coverage::Written;
    if judged == 0 {
        // Chunks without anything written were not even looked at.
        let total = plan.elements() as u64;
        let all = Tally { count: total, first: 0 };
        return wrong(MismatchKind::NotWritten, &all, 0, MOST_EXCESS, total);
    }
    if unwritten.count > 0 && !partial {
        let total = judged + unwritten.count;
        return wrong(MismatchKind::NotWritten, &unwritten, unwritten.first, MOST_EXCESS, total);
    }
    if not_finite.count > 0 {
        return wrong(MismatchKind::NotFinite, &not_finite, not_finite.first, MOST_EXCESS, judged);
    }
    if off.count > 0 {
        return wrong(MismatchKind::Element, &off, worst_idx, worst / budget.element, judged);
    }
    let norm = error_squares.sqrt() / answer_squares.sqrt();
    if norm > budget.norm {
        let all = Tally { count: judged, first: 0 };
        return wrong(MismatchKind::Norm, &all, worst_idx, norm / budget.norm, judged);
    }
    Ok(budget.error_size(worst, norm, plain))
}

/// Returns the chunks in which anything is written.
fn written_chunks(out: &[u8], expected: &Expected) -> Vec<usize> {
    let (dtype, size) = (expected.plan.dtype, expected.plan.dtype.size());
    let all: Vec<usize> = (0..expected.chunks.count()).collect();
    let is_written = |chunk: &usize| {
        let range = expected.chunks.range(*chunk);
        let mut elements = out[range.start * size..range.end * size].chunks_exact(size);
        elements.any(|element| !is_poison(dtype, element))
    };
    let parts = parallel::map_pieces(&all, expected.values.len(), |chunks| {
        chunks.iter().copied().filter(is_written).collect::<Vec<usize>>()
    });
    parts.concat()
}

#[derive(Default)]
struct Tally {
    count: u64,
    first: usize,
}

impl Tally {
    fn add(&mut self, idx: usize) {
        if self.count == 0 {
            self.first = idx;
        }
        self.count += 1;
    }
}

/// Returns the index of the element at a position.
pub(crate) fn index_of(shape: &[u64], position: usize) -> Vec<u64> {
    let mut rest = position as u64;
    let mut index: Vec<u64> = shape
        .iter()
        .rev()
        .map(|extent| {
            let place = rest % extent;
            rest /= extent;
            place
        })
        .collect();
    index.reverse();
    index
}

/// The division of a tensor into chunks that share a scale.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Chunks {
    rows: usize,
    row_len: usize,
    per_row: usize,
    /// Whether the tensor has one axis, whose chunks are all of one length, but for the last.
    is_flat: bool,
    /// Positions on the last axis that have scales of their own; 1 is none.
    width: usize,
}

impl Chunks {
    fn of(shape: &[u64]) -> Self {
        let elements: usize = shape.iter().product::<u64>() as usize;
        let joined = |least: usize| {
            let mut row_len = 1;
            for extent in shape.iter().rev() {
                row_len *= *extent as usize;
                if row_len >= least {
                    break;
                }
            }
            row_len.max(1)
        };
        let is_flat = shape.len() == 1;
        let last = shape.last().map_or(1, |extent| *extent as usize);
        // With fewer rows a position has too few elements to show its size.
        let is_split = !is_flat && (2..LEAST_ROW).contains(&last) && elements >= LEAST_ROWS * last;
        let width = if is_split { last } else { 1 };
        let row_len = joined(LEAST_ROW * width);
        let per_row = if is_flat {
            // What is left over at the end and too short to have a scale is judged with what is before it.
            let left_over = usize::from(row_len % FLAT_ROW >= LEAST_ROW);
            (row_len / FLAT_ROW + left_over).max(1)
        } else {
            row_len.div_ceil(FLAT_ROW)
        };
        Self { rows: elements / row_len, row_len, per_row, is_flat, width }
    }

    fn count(&self) -> usize {
        self.rows * self.per_row
    }

    fn range(&self, idx: usize) -> std::ops::Range<usize> {
        let (row, part) = (idx / self.per_row, idx % self.per_row);
        let at = |part: usize| {
            let is_even = !self.is_flat || part == self.per_row;
            let in_row = if is_even { part * self.row_len / self.per_row } else { part * FLAT_ROW };
            row * self.row_len + in_row
        };
        at(part)..at(part + 1)
    }
}

#[cfg(test)]
mod tests;
