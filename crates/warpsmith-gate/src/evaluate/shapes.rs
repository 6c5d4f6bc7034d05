//! The shapes that the full gate draws: small ones from the lab's ranges, larger ones between these and the
//! workloads and beyond, and ones near a workload.
//!
//! Extents are drawn by their logarithm, since kernels change their ways with the order of magnitude, and in
//! classes (odd, even, multiples of vectors and tiles, powers of two), since those are what kernels treat differently. Axes that list
//! values keep to these. What a kernel serves is up to its `requires`, and what was left out is noted.

use warpsmith_model::lab::{ElementType, Kernel, Range, Workload};
use warpsmith_model::rng::Rng;
use warpsmith_model::{LEFT_OUT_NOTE, Lab, Params};

use super::bench::{Bench, Stop, Subject};
use super::choices::FrontMember;
use crate::bind;
use crate::error::GateError;

/// What shapes that are drawn from the lab's ranges are called.
pub(super) const DRAWN: &str = "drawn";
/// How many there are of them.
const SMALL_SHAPES: usize = 6;
/// Draws until that many are found that the kernel serves.
const MOST_DRAWS: usize = 200;
/// Draws until a larger shape is found that is served and affordable.
pub(super) const MOST_LARGER_DRAWS: usize = 60;
/// How far from a workload's extents those of a shape near it may lie: a quarter, or this much.
const NEAR: i64 = 8;
/// Shapes that differ from a workload along one axis, where answers are cheap; at least one always.
const LEAST_ONE_AXIS: usize = 6;
/// Larger shapes at most.
const MOST_LARGER: usize = 12;
/// Shapes that combine extents of different workloads, at most.
const MOST_COMBINED: usize = 2;
/// Neighbouring extents of workloads that are closer than this leave nothing between them that shapes near
/// them do not cover.
const LEAST_GAP: f64 = 1.25;
/// A gap in which an extent may be this many times another is divided.
const MOST_GAP: f64 = 4.0;
/// How far beyond the largest workload an extent may lie, and the work and the bytes of a whole shape.
pub(super) const BEYOND: i64 = 2;
pub(super) const MOST_WORK: f64 = 1.5;
/// What the answers for larger shapes may cost: this share of one answer on every workload, or these
/// seconds. The same for shapes that differ along one axis.
const SHARE_OF_ANSWERS: f64 = 0.5;
pub(super) const ANSWERS_S: f64 = 0.25;

/// What an extent is made of, where kernels look at that.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Class {
    Odd,
    /// Even, but no multiple of eight.
    Even,
    /// A multiple of eight, or of a larger power of two.
    Eights,
    /// A power of two.
    Power,
    /// A multiple of 128, or of a larger power of two.
    Tiles,
    Any,
}

const CLASSES: [Class; 6] =
    [Class::Odd, Class::Even, Class::Eights, Class::Power, Class::Tiles, Class::Any];

/// Draws an integer between two, both included, evenly over its logarithm.
pub(super) fn log_uniform(least: i64, most: i64, rng: &mut Rng) -> i64 {
    let (low, high) = (least.max(1) as f64, (most.max(1) + 1) as f64);
    let drawn = (low.ln() + rng.unit() * (high / low).ln()).exp() as i64;
    drawn.clamp(least, most)
}

/// Moves an extent to the nearest of a class that lies between two, both included; none where there is none.
fn snap(value: i64, class: Class, least: i64, most: i64, rng: &mut Rng) -> Option<i64> {
    let step = match class {
        Class::Any => return Some(value),
        Class::Power => {
            let powers = (0..i64::BITS - 2).map(|exponent| 1i64 << exponent);
            return powers
                .filter(|power| (least..=most).contains(power))
                .min_by_key(|power| (power - value).abs());
        }
        Class::Odd | Class::Even => 2,
        // The widest vectors and tiles that fit between the bounds have their turn, too.
        Class::Eights => 8 << rng.below(4),
        Class::Tiles => 128 << rng.below(6),
    };
    let fits = |value: &i64| {
        (least..=most).contains(value)
            && match class {
                Class::Odd => value % 2 != 0,
                Class::Even => value % 2 == 0 && value % 8 != 0,
                Class::Tiles => value % 128 == 0,
                Class::Eights | Class::Power | Class::Any => value % 8 == 0,
            }
    };
    let below = value.div_euclid(step) * step;
    let further = [below, below + step, below - step, below + 2 * step, below + 1, below - 1];
    let least_step = if class == Class::Tiles { 128 } else { 8 };
    let narrow = value.div_euclid(least_step) * least_step;
    let candidates = further.into_iter().chain([narrow, narrow + least_step]).filter(fits);
    candidates.min_by_key(|candidate| (candidate - value).abs())
}

/// Draws an extent of a class between two, both included; of any class where there is none.
fn draw_between(least: i64, most: i64, class: Class, rng: &mut Rng) -> i64 {
    let drawn = log_uniform(least, most, rng);
    snap(drawn, class, least, most, rng).unwrap_or(drawn)
}

/// How coarse the multiples become that are drawn where a kernel serves no others: 2 to the power of one less.
const COARSENESSES: usize = 20;

/// Returns how coarse the multiples of a draw are, of so many draws: the first are any numbers. A kernel that
/// asks for multiples of 65536 would else be drawn nothing, and what it promises would not be looked at.
pub(super) fn coarseness(draw: usize, most_draws: usize) -> u32 {
    (draw * COARSENESSES / most_draws) as u32
}

/// Moves an extent to a multiple of a power of two between two bounds, both included; of the coarsest that
/// has one there.
pub(super) fn coarsen(value: i64, coarseness: u32, least: i64, most: i64) -> i64 {
    let multiple = |exponent: u32| {
        let below = (value >> exponent) << exponent;
        [below, below + (1 << exponent)].into_iter().find(|it| (least..=most).contains(it))
    };
    (1..=coarseness).rev().find_map(multiple).unwrap_or(value)
}

/// Draws small shapes from the lab's ranges, and notes where there are fewer than there should be.
pub(super) fn small(bench: &mut Bench<'_>) -> Result<Vec<Workload>, Stop> {
    if bench.lab.ranges.is_empty() {
        let note = "the lab states no [ranges], so no further shapes were drawn";
        bench.notes.push(note.to_string());
        return Ok(Vec::new());
    }
    let shapes = small_ones(bench)?;
    if shapes.len() < SMALL_SHAPES {
        bench.notes.push(format!(
            "{LEFT_OUT_NOTE}serves {} of {MOST_DRAWS} shapes drawn from the lab's ranges; checked on these",
            shapes.len()
        ));
    }
    Ok(shapes)
}

/// Returns this many of the shapes that [`small`] draws, which no candidate could foresee; all, where there are
/// fewer.
pub(super) fn some_small(bench: &mut Bench<'_>, count: usize) -> Result<Vec<Workload>, Stop> {
    if bench.lab.ranges.is_empty() {
        return Ok(Vec::new());
    }
    let mut shapes = small_ones(bench)?;
    bench.rng.shuffle(&mut shapes);
    shapes.truncate(count);
    Ok(shapes)
}

fn small_ones(bench: &Bench<'_>) -> Result<Vec<Workload>, GateError> {
    let lab = bench.lab;
    let mut rng = Rng::derive(bench.seed, "drawn shapes");
    let mut classes = CLASSES;
    rng.shuffle(&mut classes);
    let mut shapes: Vec<Workload> = Vec::new();
    for draw in 0..MOST_DRAWS {
        if shapes.len() == SMALL_SHAPES {
            break;
        }
        let class = classes[draw % classes.len()];
        let axes = lab.ranges.iter().map(|(axis, range)| {
            let value = match range {
                // Half of them evenly: most of a range lies at its upper end.
                Range::Span { min, max } => {
                    let drawn = match rng.below(2) {
                        0 => min + rng.below((max - min + 1) as usize) as i64,
                        _ => draw_between(*min, *max, class, &mut rng),
                    };
                    coarsen(drawn, coarseness(draw, MOST_DRAWS), *min, *max)
                }
                Range::Values(values) => values[rng.below(values.len())],
            };
            (axis.clone(), value)
        });
        let shape = Workload::new(DRAWN, axes.collect());
        if !shapes.contains(&shape) && bench.subject.serves(&shape)? {
            shapes.push(shape);
        }
    }
    shapes.iter().map(|shape| bind::with_drawn_scalars(lab, shape, bench.seed)).collect()
}

/// An axis with the parts of it that shapes are drawn from.
struct Axis {
    name: String,
    /// What the lab's range allows for the smallest shapes.
    small: Vec<i64>,
    is_span: bool,
    /// Between the range and the workloads, between these, and beyond: bounds, both included.
    gaps: Vec<(i64, i64)>,
}

fn axes_of(bench: &Bench<'_>) -> Vec<Axis> {
    let lab = bench.lab;
    let parts = |(name, range): &(String, Range)| {
        let (min, max) = match range {
            Range::Span { min, max } => (min, max),
            Range::Values(values) => {
                let (name, small) = (name.clone(), values.clone());
                return Axis { name, small, is_span: false, gaps: Vec::new() };
            }
        };
        let mut marks: Vec<i64> = vec![*max];
        if !chooses_a_type(lab, name) {
            marks.extend(lab.workloads.iter().filter_map(|it| it.axis(name)).filter(|it| it > max));
            marks.sort_unstable();
            let largest = marks.last().copied().unwrap_or(*max);
            marks.push(largest.saturating_mul(BEYOND) + 1);
        }
        let gaps = marks.windows(2).flat_map(|pair| {
            let (least, most) = (pair[0] + 1, pair[1] - 1);
            let is_wide = pair[1] as f64 >= LEAST_GAP * pair[0].max(1) as f64;
            if is_wide && least <= most { pieces(least, most) } else { Vec::new() }
        });
        Axis { name: name.clone(), gaps: gaps.collect(), small: vec![*min, *max], is_span: true }
    };
    lab.ranges.iter().map(parts).collect()
}

/// Says whether an axis chooses an element type: beyond its range it has no meaning.
pub(super) fn chooses_a_type(lab: &Lab, axis: &str) -> bool {
    lab.tensors
        .iter()
        .any(|tensor| matches!(&tensor.dtype, ElementType::ByAxis { axis: by, .. } if by == axis))
}

/// Divides a gap evenly, by its logarithm, into pieces that are not too wide.
fn pieces(least: i64, most: i64) -> Vec<(i64, i64)> {
    let ratio = (most + 1) as f64 / least as f64;
    let count = (ratio.ln() / MOST_GAP.ln()).ceil().max(1.0) as i32;
    let bound = |idx: i32| match idx {
        idx if idx == count => most + 1,
        idx => (least as f64 * ratio.powf(f64::from(idx) / f64::from(count))).round() as i64,
    };
    let all = (0..count).map(|idx| (bound(idx), bound(idx + 1) - 1));
    all.filter(|(least, most)| least <= most).collect()
}

/// Draws shapes above the ranges, so that on every axis something lies in every gap: between the ranges and
/// the workloads, between workloads, and beyond the largest. As many as answers are affordable for.
pub(super) fn larger(bench: &mut Bench<'_>, workloads: &[Workload]) -> Result<Vec<Workload>, Stop> {
    let axes = axes_of(bench);
    let mut rng = Rng::derive(bench.seed, "larger shapes");
    let mut open: Vec<(usize, usize)> = axes
        .iter()
        .enumerate()
        .flat_map(|(axis, parts)| (0..parts.gaps.len()).map(move |gap| (axis, gap)))
        .collect();
    rng.shuffle(&mut open);
    let limit = Limit::of(bench, workloads)?;
    let mut left_s = limit.answers_s;
    let mut classes = CLASSES;
    rng.shuffle(&mut classes);
    let mut shapes: Vec<Workload> = Vec::new();
    let mut left_out = Vec::new();
    while let Some((axis, gap)) = open.pop() {
        let mut found = None;
        // Nobody leaves nothing to those that come after, small as theirs may be.
        let share_s = 2.0 * left_s / (open.len() + 2) as f64;
        for draw in 0..MOST_LARGER_DRAWS {
            if shapes.len() == MOST_LARGER {
                break;
            }
            // Other axes seek what is open, too, at first; small extents are always affordable.
            let ambition = 1.0 - draw as f64 / MOST_LARGER_DRAWS as f64;
            let class = classes[shapes.len() % classes.len()];
            let coarse = coarseness(draw, MOST_LARGER_DRAWS);
            let shape = draw_larger(&axes, (axis, gap), &open, ambition, (class, coarse), &mut rng);
            if !bench.subject.serves(&shape)? || !limit.allows(bench, &shape)? {
                continue;
            }
            let answer_s = answer_s(bench, &shape)?;
            if answer_s <= share_s {
                left_s -= answer_s;
                found = Some(shape);
                break;
            }
        }
        match found {
            Some(shape) => {
                open.retain(|(axis, gap)| {
                    let (least, most) = axes[*axis].gaps[*gap];
                    let value = shape.axis(&axes[*axis].name);
                    !value.is_some_and(|value| (least..=most).contains(&value))
                });
                shapes.push(bind::with_drawn_scalars(bench.lab, &shape, bench.seed)?);
            }
            None => {
                let (least, most) = axes[axis].gaps[gap];
                left_out.push(format!("{} from {least} to {most}", axes[axis].name));
            }
        }
    }
    if !left_out.is_empty() {
        left_out.sort();
        bench.notes.push(format!(
            "{LEFT_OUT_NOTE}no larger shape was drawn with {}: not served, or the answers would cost too much",
            left_out.join(", ")
        ));
    }
    Ok(shapes)
}

/// Draws a shape with one axis in a gap; each other axis lies in a gap of its own that nothing lies in yet,
/// or anywhere, or, the lower the ambition, among the small extents. Extents are of one class or of several,
/// and multiples as coarse as is said.
fn draw_larger(
    axes: &[Axis],
    (axis, gap): (usize, usize),
    open: &[(usize, usize)],
    ambition: f64,
    (one_class, coarse): (Class, u32),
    rng: &mut Rng,
) -> Workload {
    let is_mixed = rng.below(2) == 0;
    let values = axes.iter().enumerate().map(|(idx, parts)| {
        let class = if is_mixed { CLASSES[rng.below(CLASSES.len())] } else { one_class };
        let value = if idx == axis {
            let (least, most) = parts.gaps[gap];
            coarsen(draw_between(least, most, class, rng), coarse, least, most)
        } else if !parts.is_span {
            parts.small[rng.below(parts.small.len())]
        } else {
            let own: Vec<usize> =
                open.iter().filter(|(axis, _)| *axis == idx).map(|(_, gap)| *gap).collect();
            let (least, most) = match own.as_slice() {
                [] => (parts.small[0], parts.small[1]),
                _ if rng.unit() > ambition => (parts.small[0], parts.small[1]),
                own => parts.gaps[own[rng.below(own.len())]],
            };
            coarsen(draw_between(least, most, class, rng), coarse, least, most)
        };
        (parts.name.clone(), value)
    });
    Workload::new("larger", values.collect())
}

/// Draws a shape that is no workload and on which a front launches this choice of its own, as large as the
/// workloads at most; none where nothing was found that is affordable.
pub(super) fn routed_to(
    bench: &mut Bench<'_>,
    choice: &FrontMember<'_>,
    workloads: &[Workload],
) -> Result<Option<Workload>, Stop> {
    let lab = bench.lab;
    let mut rng = Rng::derive(bench.seed, &format!("shapes for {}", choice.label()));
    let limit = Limit::of(bench, workloads)?;
    let bounds: Vec<(&String, &Range, i64)> = lab
        .ranges
        .iter()
        .map(|(axis, range)| {
            let extents = lab.workloads.iter().filter_map(|it| it.axis(axis));
            (axis, range, extents.max().unwrap_or(1))
        })
        .collect();
    for draw in 0..MOST_DRAWS {
        let coarse = coarseness(draw, MOST_DRAWS);
        let axes = bounds.iter().map(|(axis, range, largest)| {
            let value = match range {
                Range::Values(values) => values[rng.below(values.len())],
                Range::Span { min, max } => {
                    let most = if chooses_a_type(lab, axis) { *max } else { *max.max(largest) };
                    let class = CLASSES[rng.below(CLASSES.len())];
                    coarsen(draw_between(*min, most, class, &mut rng), coarse, *min, most)
                }
            };
            ((*axis).clone(), value)
        });
        let shape = Workload::new("larger", axes.collect());
        let is_workload = lab.workloads.iter().any(|workload| workload.axes == shape.axes);
        if is_workload || !limit.allows(bench, &shape)? || !bench.subject.serves(&shape)? {
            continue;
        }
        let is_it = launches(bench.subject, &shape, Some((choice.kernel, choice.params)))?;
        if is_it && answer_s(bench, &shape)? <= limit.answers_s {
            return Ok(Some(bind::with_drawn_scalars(lab, &shape, bench.seed)?));
        }
    }
    Ok(None)
}

/// Draws shapes whose axes have extents of different workloads: a kernel could know which extents come
/// together. As many as answers are affordable for, within half of what other further shapes may cost.
pub(super) fn combined(
    bench: &mut Bench<'_>,
    workloads: &[Workload],
) -> Result<Vec<Workload>, Stop> {
    let lab = bench.lab;
    let mut rng = Rng::derive(bench.seed, "combined extents");
    let limit = Limit::of(bench, workloads)?;
    let mut left_s = limit.answers_s / 2.0;
    let mut shapes: Vec<Workload> = Vec::new();
    for _ in 0..MOST_LARGER_DRAWS {
        if shapes.len() == MOST_COMBINED {
            break;
        }
        let mut shape = lab.workloads[rng.below(lab.workloads.len())].clone();
        shape.name = "combined".to_string();
        for (axis, extent) in &mut shape.axes {
            let other = &lab.workloads[rng.below(lab.workloads.len())];
            *extent = other.axis(axis).unwrap_or(*extent);
        }
        let is_known = |known: &Workload| known.axes == shape.axes;
        if lab.workloads.iter().chain(&shapes).any(is_known)
            || !limit.allows(bench, &shape)?
            || !bench.subject.serves(&shape)?
        {
            continue;
        }
        let answer_s = answer_s(bench, &shape)?;
        if answer_s <= left_s {
            left_s -= answer_s;
            shapes.push(bind::with_drawn_scalars(lab, &shape, bench.seed)?);
        }
    }
    Ok(shapes)
}

/// What a larger shape, and the answers for all of them, may cost.
pub(super) struct Limit {
    work: f64,
    bytes: f64,
    pub(super) answers_s: f64,
}

impl Limit {
    pub(super) fn of(bench: &mut Bench<'_>, workloads: &[Workload]) -> Result<Self, Stop> {
        let mut limit = Self { work: 0.0, bytes: 0.0, answers_s: 0.0 };
        for workload in &bench.lab.workloads {
            let size = bind::work_size(bench.lab, workload)?;
            limit.work = limit.work.max(MOST_WORK * (size.flops + size.bytes));
            limit.bytes = limit.bytes.max(MOST_WORK * bind::total_bytes(bench.lab, workload)?);
        }
        limit.answers_s = allowance_s(bench, workloads)?;
        Ok(limit)
    }

    /// Says whether a shape is one of the lab's at all, and no larger than what the lab's machine is made for.
    pub(super) fn allows(&self, bench: &Bench<'_>, shape: &Workload) -> Result<bool, GateError> {
        if !bind::is_shape(bench.lab, shape) {
            return Ok(false);
        }
        let size = bind::work_size(bench.lab, shape)?;
        Ok(size.flops + size.bytes <= self.work
            && bind::total_bytes(bench.lab, shape)? <= self.bytes)
    }
}

/// Returns the seconds that the answers for one kind of further shapes may cost.
fn allowance_s(bench: &mut Bench<'_>, workloads: &[Workload]) -> Result<f64, GateError> {
    let mut all_s = 0.0;
    for workload in workloads {
        all_s += answer_s(bench, workload)?;
    }
    Ok((SHARE_OF_ANSWERS * all_s).max(ANSWERS_S))
}

pub(super) fn answer_s(bench: &mut Bench<'_>, shape: &Workload) -> Result<f64, GateError> {
    bench.corpus.answer_s(bench.target, bench.lab, shape, bench.seed)
}

/// Draws a shape near a workload: every axis that spans a range is a little shorter. Proof shapes and drawn
/// ones are small and workloads are round, so a kernel could look after remainders in the small ones and rely
/// on round extents in all others. None where there is no axis that could be shorter.
pub(super) fn shorter(
    bench: &mut Bench<'_>,
    workload: &Workload,
) -> Result<Option<Workload>, Stop> {
    let mut rng = Rng::derive(bench.seed, &format!("near {}", workload.name));
    let least_of = |axis: &str, value: i64| match range_of(bench, axis) {
        Some(Range::Span { min, .. }) => (value - (value / 4).max(NEAR)).max(*min),
        Some(Range::Values(_)) | None => value,
    };
    let spans: Vec<(String, i64, i64)> = workload
        .axes
        .iter()
        .map(|(axis, value)| (axis.clone(), least_of(axis, *value), *value))
        .collect();
    if spans.iter().all(|(_, least, value)| least >= value) {
        return Ok(None);
    }
    let launched = bench.subject.launched_on(workload)?;
    for draw in 0..MOST_DRAWS {
        let mut shorter = |least: i64, value: i64| {
            let drawn = least + rng.below((value - least) as usize) as i64;
            // Odd at first: a multiple of nothing that kernels like. Some serve such multiples alone.
            match draw {
                0 if (drawn | 1) < value => drawn | 1,
                _ => coarsen(drawn, coarseness(draw, MOST_DRAWS), least, value - 1),
            }
        };
        let axes = spans
            .iter()
            .map(|(axis, least, value)| {
                let extent = if least < value { shorter(*least, *value) } else { *value };
                (axis.clone(), extent)
            })
            .collect();
        let shape = Workload::new(format!("near {}", workload.name), axes);
        // Of a front what it launches on the workload is the question, not what it launches beside it.
        if bench.subject.serves(&shape)? && launches(bench.subject, &shape, launched)? {
            return Ok(Some(bind::with_drawn_scalars(bench.lab, &shape, bench.seed)?));
        }
    }
    let what = match launched {
        Some((kernel, _)) if kernel.name != bench.subject.name() => format!(
            "launches `{}` on {}, and on none of {MOST_DRAWS} shapes drawn near it, so that was checked on no \
             other of that size",
            kernel.name, workload.name
        ),
        _ => format!(
            "serves none of {MOST_DRAWS} shapes drawn near {}, so it was checked on no other of that size",
            workload.name
        ),
    };
    bench.notes.push(format!("{LEFT_OUT_NOTE}{what}"));
    Ok(None)
}

/// Says whether this is what is launched on a shape.
fn launches(
    subject: Subject<'_>,
    shape: &Workload,
    wanted: Option<(&Kernel, &Params)>,
) -> Result<bool, GateError> {
    let named = |(kernel, params): (&Kernel, &Params)| (kernel.name.clone(), params.clone());
    Ok(subject.launched_on(shape)?.map(named) == wanted.map(named))
}

fn range_of<'a>(bench: &Bench<'a>, axis: &str) -> Option<&'a Range> {
    bench.lab.ranges.iter().find(|(name, _)| name == axis).map(|(_, range)| range)
}

/// Draws shapes that differ from a workload along one axis: a little longer or shorter, odd, even or whole
/// vectors. At least one for all workloads together, and more as far as answers are cheap.
pub(super) fn one_axis(
    bench: &mut Bench<'_>,
    workloads: &[Workload],
) -> Result<Vec<Workload>, Stop> {
    let mut rng = Rng::derive(bench.seed, "one axis");
    // Every workload in turn, and every way to differ in turn, along every axis in turn: those that come first
    // are the ones that are affordable, and they differ in all three.
    let mut ways: Vec<(bool, Class)> = [true, false]
        .into_iter()
        .flat_map(|is_longer| {
            [Class::Odd, Class::Even, Class::Eights].map(move |class| (is_longer, class))
        })
        .collect();
    let spans: Vec<(String, i64)> = bench
        .lab
        .ranges
        .iter()
        .filter_map(|(axis, range)| match range {
            Range::Span { min, .. } => Some((axis.clone(), *min)),
            Range::Values(_) => None,
        })
        .collect();
    let mut order: Vec<usize> = (0..workloads.len()).collect();
    let mut turns = Vec::new();
    for (axis, min) in &spans {
        rng.shuffle(&mut ways);
        for (turn, (is_longer, class)) in ways.iter().enumerate() {
            if turn % workloads.len().max(1) == 0 {
                rng.shuffle(&mut order);
            }
            let workload = order[turn % order.len()];
            turns.push((turn, workload, axis.clone(), *min, *is_longer, *class));
        }
    }
    rng.shuffle(&mut turns);
    turns.sort_by_key(|(turn, ..)| *turn);
    let wanted = LEAST_ONE_AXIS.max(workloads.len());
    let mut left_s = allowance_s(bench, workloads)?;
    let mut shapes: Vec<Workload> = Vec::new();
    for (_, workload, axis, min, is_longer, class) in turns {
        if shapes.len() == wanted {
            break;
        }
        let workload = &workloads[workload];
        let Some(value) = workload.axis(&axis) else { continue };
        let reach = (value / 4).max(NEAR);
        let (least, most) = match is_longer {
            true => (value + 1, value + reach),
            false => ((value - reach).max(min), value - 1),
        };
        if least > most {
            continue;
        }
        let drawn = log_uniform(least, most, &mut rng);
        let Some(extent) = snap(drawn, class, least, most, &mut rng) else { continue };
        let mut served = None;
        for coarse in 0..COARSENESSES as u32 {
            // What a kernel serves may be multiples of more than a class is.
            let extent = coarsen(extent, coarse, least, most);
            let mut shape = workload.clone();
            shape.name = format!("near {}", workload.name);
            for (name, value) in &mut shape.axes {
                if *name == axis {
                    *value = extent;
                }
            }
            if bind::is_shape(bench.lab, &shape) && bench.subject.serves(&shape)? {
                served = Some(shape);
                break;
            }
        }
        let Some(shape) = served else { continue };
        let answer_s = answer_s(bench, &shape)?;
        if answer_s > left_s && !shapes.is_empty() {
            continue;
        }
        left_s -= answer_s;
        shapes.push(bind::with_drawn_scalars(bench.lab, &shape, bench.seed)?);
    }
    Ok(shapes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn extents_are_drawn_over_all_orders_of_magnitude() {
        let mut rng = Rng::new(3);
        let drawn: Vec<i64> = (0..4000).map(|_| log_uniform(1, 10_000, &mut rng)).collect();
        for (least, most) in [(1, 9), (10, 99), (100, 999), (1000, 10_000)] {
            let share = drawn.iter().filter(|it| (least..=most).contains(*it)).count();
            assert!((700..1300).contains(&share), "{share} from {least} to {most}");
        }
        assert!((0..100).all(|_| log_uniform(7, 7, &mut rng) == 7));
    }

    #[test]
    fn wide_gaps_are_divided_without_a_hole() {
        assert_eq!(pieces(100, 350), [(100, 350)]);
        assert_eq!(pieces(5, 5), [(5, 5)]);
        for (least, most) in [(1, 1), (61, 1023), (201, 100_000), (2, 33_000_000)] {
            let all = pieces(least, most);
            assert_eq!((all[0].0, all[all.len() - 1].1), (least, most));
            assert!(all.windows(2).all(|pair| pair[0].1 + 1 == pair[1].0), "{all:?}");
            assert!(all.iter().all(|(low, high)| *high as f64 / *low as f64 <= MOST_GAP * 1.5));
        }
    }

    #[test]
    fn an_extent_is_moved_to_the_coarsest_multiple_that_fits() {
        assert_eq!(coarsen(1999, 0, 1536, 2047), 1999);
        assert_eq!(coarsen(1999, 9, 1536, 2047), 1536);
        assert_eq!(coarsen(1537, 9, 1537, 2047), 1792, "512 has none there, 256 has");
        assert_eq!(coarsen(7, 19, 7, 7), 7);
        assert_eq!(coarseness(0, MOST_DRAWS), 0);
        assert!((1 << coarseness(MOST_DRAWS - 1, MOST_DRAWS)) >= 65_536);
        assert!((1 << coarseness(MOST_LARGER_DRAWS - 1, MOST_LARGER_DRAWS)) >= 65_536);
    }

    #[test]
    fn an_extent_is_moved_to_its_class_within_its_bounds() {
        let mut rng = Rng::new(4);
        for _ in 0..2000 {
            let least = 1 + rng.below(300) as i64;
            let most = least + rng.below(300) as i64;
            let value = log_uniform(least, most, &mut rng);
            for class in CLASSES {
                let Some(moved) = snap(value, class, least, most, &mut rng) else {
                    let is_wide = matches!(class, Class::Power | Class::Tiles);
                    assert!(is_wide || most - least < 16, "{class:?} from {least} to {most}");
                    continue;
                };
                assert!((least..=most).contains(&moved));
                match class {
                    Class::Odd => assert!(moved % 2 == 1, "{moved}"),
                    Class::Even => assert!(moved % 2 == 0 && moved % 8 != 0, "{moved}"),
                    Class::Eights => assert!(moved % 8 == 0, "{moved}"),
                    Class::Power => assert!(moved.count_ones() == 1, "{moved}"),
                    Class::Tiles => assert!(moved % 128 == 0, "{moved}"),
                    Class::Any => assert_eq!(moved, value),
                }
            }
        }
    }
}
