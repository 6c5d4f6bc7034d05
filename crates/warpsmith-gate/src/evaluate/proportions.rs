//! Shapes whose extents stand in a proportion that others drawn for the full gate seldom have.
//!
//! Kernels choose by combinations of extents: one row of a long tensor (decoding), a square, all of them beyond
//! the workloads. Where each extent is drawn by itself, such combinations hardly ever come up, so they are drawn
//! on purpose: at most nine shapes, as far as answers are affordable. Extents beyond the reach of these and of
//! [`super::shapes`] are not looked at, and what could not be drawn is noted.

use warpsmith_model::lab::{Range, Workload};
use warpsmith_model::rng::Rng;
use warpsmith_model::{LEFT_OUT_NOTE, Lab};

use super::bench::{Bench, Stop};
use super::shapes::{
    ANSWERS_S, Limit, MOST_LARGER_DRAWS, MOST_WORK, answer_s, chooses_a_type, coarsen, coarseness,
    log_uniform,
};
use crate::bind;

/// Thin shapes at most; two for each axis, where a lab has no more than three.
const MOST_THIN: usize = 6;
/// A thin extent is the least of its range, or at most this much more.
const THIN: i64 = 7;
/// What the extents of a resized workload are multiples of: these parts of the largest power of two in them. A
/// quarter keeps multiples of tiles, and is for a workload with equal extents, where there is one; finer parts
/// give more numbers that are no power of two.
const COARSE_PARTS: i64 = 4;
const FINE_PARTS: i64 = 16;

/// An axis whose extent is free.
#[derive(Clone, Copy, Debug)]
struct Span<'a> {
    axis: &'a str,
    min: i64,
}

/// A proportion that extents may have to each other.
#[derive(Clone, Copy, Debug)]
enum Proportion<'a> {
    /// Every extent is larger than the largest workload's.
    Beyond,
    /// One extent is the least, or almost; all others are about a workload's.
    Thin { span: Span<'a>, is_least: bool },
    /// Extents that are equal in a workload are equal, and of another size.
    Resized { parts: i64 },
}

impl Proportion<'_> {
    fn label(self) -> String {
        match self {
            Self::Beyond => "all extents beyond the largest workload".to_string(),
            Self::Thin { span, .. } => {
                format!("a small {} beside extents like a workload's", span.axis)
            }
            Self::Resized { .. } => "the equal extents of a workload at another size".to_string(),
        }
    }
}

/// Draws the shapes of each proportion that the lab and the candidate allow, one for each.
pub(super) fn proportions(
    bench: &mut Bench<'_>,
    workloads: &[Workload],
) -> Result<Vec<Workload>, Stop> {
    let lab = bench.lab;
    let spans = spans_of(lab);
    let Some(largest) = largest(lab, workloads)? else { return Ok(Vec::new()) };
    if spans.is_empty() {
        return Ok(Vec::new());
    }
    let mut rng = Rng::derive(bench.seed, "proportions of extents");
    let limit = Limit::of(bench, workloads)?;
    let mut left_s = limit.answers_s;
    // Beyond the largest workload an answer costs more than all further shapes together may, where few
    // workloads are as large. It is one shape, so it has an allowance of its own.
    let beyond_s = (MOST_WORK * answer_s(bench, &largest)?).max(ANSWERS_S);
    let mut shapes: Vec<Workload> = Vec::new();
    let mut left_out: Vec<String> = Vec::new();
    for proportion in all_proportions(lab, &spans, &mut rng) {
        let is_beyond = matches!(proportion, Proportion::Beyond);
        let mut found = None;
        for draw in 0..MOST_LARGER_DRAWS {
            let coarse = coarseness(draw, MOST_LARGER_DRAWS);
            let of = Drawn { workloads: &lab.workloads, largest: &largest, spans: &spans };
            let shape = of.draw(proportion, coarse, &mut rng);
            let is_known = |known: &Workload| known.axes == shape.axes;
            if lab.workloads.iter().chain(&shapes).any(is_known)
                || !bench.subject.serves(&shape)?
                || !limit.allows(bench, &shape)?
            {
                continue;
            }
            let answer_s = answer_s(bench, &shape)?;
            if answer_s <= if is_beyond { beyond_s } else { left_s } {
                if !is_beyond {
                    left_s -= answer_s;
                }
                found = Some(shape);
                break;
            }
        }
        match found {
            Some(shape) => shapes.push(bind::with_drawn_scalars(lab, &shape, bench.seed)?),
            None if left_out.contains(&proportion.label()) => {}
            None => left_out.push(proportion.label()),
        }
    }
    if !left_out.is_empty() {
        left_out.sort();
        bench.notes.push(format!(
            "{LEFT_OUT_NOTE}too few shapes were drawn with {}: not served, or the answers would cost too much",
            left_out.join(", ")
        ));
    }
    Ok(shapes)
}

fn spans_of(lab: &Lab) -> Vec<Span<'_>> {
    let span = |(axis, range): &'_ (String, Range)| match range {
        Range::Span { min, .. } if !chooses_a_type(lab, axis) => Some(*min),
        Range::Span { .. } | Range::Values(_) => None,
    };
    let spans = lab.ranges.iter().filter_map(|it| span(it).map(|min| (&it.0, min)));
    spans.map(|(axis, min)| Span { axis, min }).collect()
}

fn largest(lab: &Lab, workloads: &[Workload]) -> Result<Option<Workload>, Stop> {
    let mut largest: Option<(f64, &Workload)> = None;
    for workload in workloads {
        let size = bind::work_size(lab, workload)?;
        let work = size.flops + size.bytes;
        if largest.is_none_or(|(most, _)| work > most) {
            largest = Some((work, workload));
        }
    }
    Ok(largest.map(|(_, workload)| workload.clone()))
}

fn all_proportions<'a>(lab: &Lab, spans: &[Span<'a>], rng: &mut Rng) -> Vec<Proportion<'a>> {
    let mut all = vec![Proportion::Beyond];
    // Of a lab with one axis, thin shapes are the small ones.
    if lab.axes.len() > 1 {
        let mut order = spans.to_vec();
        rng.shuffle(&mut order);
        let turns = [true, false].into_iter();
        let thin = turns.flat_map(|is_least| {
            order.iter().map(move |span| Proportion::Thin { span: *span, is_least })
        });
        all.extend(thin.take(MOST_THIN));
    }
    // Those that come last are left out where answers are dear, so it is one of each kind that comes first.
    let middle = all.len().div_ceil(2);
    all.insert(middle, Proportion::Resized { parts: COARSE_PARTS });
    all.push(Proportion::Resized { parts: FINE_PARTS });
    all
}

/// What shapes are drawn from.
struct Drawn<'a> {
    workloads: &'a [Workload],
    largest: &'a Workload,
    spans: &'a [Span<'a>],
}

impl Drawn<'_> {
    fn draw(&self, proportion: Proportion<'_>, coarse: u32, rng: &mut Rng) -> Workload {
        match proportion {
            Proportion::Beyond => self.beyond(coarse, rng),
            Proportion::Thin { span, is_least } => self.thin(span, is_least, coarse, rng),
            Proportion::Resized { parts } => self.resized(parts, rng),
        }
    }

    /// Makes every extent of the largest workload longer, by as much as keeps a product within its limit; but for
    /// those so small that one more would be too much.
    fn beyond(&self, coarse: u32, rng: &mut Rng) -> Workload {
        let factor = MOST_WORK.powf(1.0 / self.spans.len() as f64);
        self.moved(self.largest, "beyond", |_, value| {
            match (value + 1, (value as f64 * factor) as i64) {
                (least, most) if least > most => value,
                (least, most) => coarsen(between(least, most, rng), coarse, least, most),
            }
        })
    }

    /// Makes one extent of a workload small; the others stay in half of the draws, else each is moved or not.
    fn thin(&self, thin: Span<'_>, is_least: bool, coarse: u32, rng: &mut Rng) -> Workload {
        let base = &self.workloads[rng.below(self.workloads.len())];
        let stay = rng.below(2) == 0;
        self.moved(base, "thin", |span, value| {
            if span.axis == thin.axis {
                let drawn = match is_least {
                    true => span.min,
                    false => log_uniform(span.min, span.min + THIN, rng),
                };
                // A kernel may serve multiples alone: the least of these is thin, too.
                let step = 1i64 << coarse;
                return drawn.div_euclid(step).max(0) * step
                    + if drawn % step == 0 { 0 } else { step };
            }
            if stay || rng.below(2) == 0 {
                return value;
            }
            let (least, most) = ((value * 3 / 4).max(span.min), value.saturating_mul(2));
            coarsen(log_uniform(least, most, rng), coarse, least, most)
        })
    }

    /// Gives a workload another size: each distinct extent a multiple of some part of the largest power of two in
    /// it, from half of it to five quarters.
    fn resized(&self, parts: i64, rng: &mut Rng) -> Workload {
        let base = self.to_resize(parts, rng);
        let mut known: Vec<(i64, i64)> = Vec::new();
        self.moved(base, "resized", |_, value| {
            if let Some((_, resized)) = known.iter().find(|(from, _)| *from == value) {
                return *resized;
            }
            let least = self.spans.iter().map(|span| span.min).max().unwrap_or(1);
            let step = ((value & value.wrapping_neg()) / parts).max(1);
            let multiple = value / step;
            let multiples: Vec<i64> = ((multiple / 2).max(1)..=multiple * 5 / 4)
                .filter(|it| *it != multiple && it * step >= least)
                .collect();
            let resized = match multiples.len() {
                0 => value,
                count => multiples[rng.below(count)] * step,
            };
            known.push((value, resized));
            resized
        })
    }

    fn to_resize(&self, parts: i64, rng: &mut Rng) -> &Workload {
        let has_equal = |workload: &&Workload| {
            let extents: Vec<_> = self.spans.iter().map(|span| workload.axis(span.axis)).collect();
            (1..extents.len()).any(|idx| extents[..idx].contains(&extents[idx]))
        };
        let equal: Vec<&Workload> = self.workloads.iter().filter(has_equal).collect();
        if !equal.is_empty() && (parts == COARSE_PARTS || rng.below(2) == 0) {
            return equal[rng.below(equal.len())];
        }
        &self.workloads[rng.below(self.workloads.len())]
    }

    fn moved(
        &self,
        base: &Workload,
        name: &str,
        mut extent: impl FnMut(&Span<'_>, i64) -> i64,
    ) -> Workload {
        let axes = base.axes.iter().map(|(axis, value)| {
            let span = self.spans.iter().find(|span| span.axis == axis.as_str());
            (axis.clone(), span.map_or(*value, |span| extent(span, *value)))
        });
        Workload::new(name, axes.collect())
    }
}

fn between(least: i64, most: i64, rng: &mut Rng) -> i64 {
    least + rng.below((most - least + 1) as usize) as i64
}

#[cfg(test)]
mod tests {
    use super::*;

    const M: Span<'_> = Span { axis: "M", min: 1 };
    const SPANS: [Span<'_>; 3] = [M, Span { axis: "N", min: 16 }, Span { axis: "K", min: 1 }];

    fn product(m: i64, n: i64, k: i64) -> Workload {
        let axes = [("M", m), ("N", n), ("K", k)];
        Workload::new("product", axes.map(|(axis, extent)| (axis.to_string(), extent)).to_vec())
    }

    fn extents(shape: &Workload) -> Vec<i64> {
        shape.axes.iter().map(|(_, extent)| *extent).collect()
    }

    /// Draws shapes of one proportion, beside workloads like those of a matrix product.
    fn drawn(proportion: Proportion<'_>, coarse: u32) -> Vec<Vec<i64>> {
        let workloads =
            [product(256, 256, 256), product(1024, 1024, 1024), product(1000, 1001, 999)];
        let of = Drawn { workloads: &workloads, largest: &workloads[1], spans: &SPANS };
        let mut rng = Rng::new(5);
        (0..400).map(|_| extents(&of.draw(proportion, coarse, &mut rng))).collect()
    }

    fn share(shapes: &[Vec<i64>], is_it: impl Fn(&[i64]) -> bool) -> f64 {
        shapes.iter().filter(|shape| is_it(shape)).count() as f64 / shapes.len() as f64
    }

    #[test]
    fn every_extent_is_beyond_the_largest_workload_and_the_work_within_its_limit() {
        for coarse in [0, 5, 19] {
            let shapes = drawn(Proportion::Beyond, coarse);
            let work = |it: &[i64]| it.iter().product::<i64>() as f64 / 1024f64.powi(3);
            assert_eq!(share(&shapes, |it| it.iter().all(|extent| *extent > 1024)), 1.0);
            assert_eq!(share(&shapes, |it| work(it) <= MOST_WORK), 1.0);
        }
        let shapes = drawn(Proportion::Beyond, 19);
        assert_eq!(share(&shapes, |it| it.iter().all(|extent| *extent == 1152)), 1.0);
    }

    #[test]
    fn an_extent_that_one_more_would_double_stays_while_others_go_beyond() {
        let workloads = [product(1, 64, 1024)];
        let of = Drawn { workloads: &workloads, largest: &workloads[0], spans: &SPANS };
        let shape = extents(&of.draw(Proportion::Beyond, 0, &mut Rng::new(5)));
        assert!(shape[0] == 1 && shape[1] > 64 && shape[2] > 1024, "{shape:?}");
    }

    #[test]
    fn one_extent_is_small_where_all_others_are_about_a_workloads() {
        let exactly = drawn(Proportion::Thin { span: M, is_least: true }, 0);
        assert_eq!(share(&exactly, |it| it[0] == 1 && it[1] >= 192 && it[2] >= 192), 1.0);
        assert!(share(&exactly, |it| it[1] == it[2]) > 0.3, "a workload's own extents");
        assert!(share(&exactly, |it| it[1] != it[2]) > 0.2, "and others");
        let about = drawn(Proportion::Thin { span: M, is_least: false }, 0);
        assert_eq!(share(&about, |it| (1..=8).contains(&it[0])), 1.0);
        assert!(share(&about, |it| it[0] > 2) > 0.2);
    }

    #[test]
    fn the_least_multiple_is_thin_where_a_kernel_serves_multiples_alone() {
        let shapes = drawn(Proportion::Thin { span: M, is_least: true }, 6);
        assert_eq!(share(&shapes, |it| it[0] == 64 && it[1] >= 192), 1.0);
    }

    #[test]
    fn equal_extents_move_together_and_keep_coarse_multiples() {
        for (parts, least) in [(COARSE_PARTS, 0.55), (FINE_PARTS, 0.5)] {
            let shapes = drawn(Proportion::Resized { parts }, 0);
            let is_new_square =
                |it: &[i64]| it[0] == it[1] && it[1] == it[2] && it[0].count_ones() > 1;
            assert!(share(&shapes, is_new_square) > least, "{parts}");
            assert_eq!(share(&shapes, |it| it.contains(&256) && it.contains(&1024)), 0.0);
        }
        let shapes = drawn(Proportion::Resized { parts: COARSE_PARTS }, 0);
        let is_tiled = |it: &[i64]| it[0] % 64 == 0 && it[0].count_ones() > 1;
        assert!(share(&shapes, is_tiled) > 0.4);
    }

    #[test]
    fn as_many_shapes_are_drawn_however_many_axes_a_lab_has() {
        let mut lab = crate::testing::lab();
        let mut rng = Rng::new(6);
        assert_eq!(all_proportions(&lab, &[M], &mut rng).len(), 3, "one axis, nothing thin");
        lab.axes = ["M", "N", "K", "L"].map(str::to_string).to_vec();
        assert_eq!(all_proportions(&lab, &SPANS[..2], &mut rng).len(), 7);
        assert_eq!(all_proportions(&lab, &SPANS, &mut rng).len(), 9);
        assert_eq!(all_proportions(&lab, &[M; 5], &mut rng).len(), 9);
    }
}
