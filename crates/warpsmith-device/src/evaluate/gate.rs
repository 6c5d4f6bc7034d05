//! The full gate: small shapes against the reference, real shapes under every affordable
//! distribution, and the same input again.

use std::sync::Arc;

use warpsmith_model::lab::{Range, Role, Workload};
use warpsmith_model::rng::Rng;
use warpsmith_model::{ErrorSize, LEFT_OUT_NOTE, Stage};

use super::bench::{Bench, Look, Stop, Subject};
use super::choices::choices;
use crate::bind;
use crate::check;
use crate::corpus::{Case, Want};
use crate::poison::Poison;
use crate::target::{Extent, Program, Session};

/// Shapes that are drawn from the lab's ranges.
const DRAWN_SHAPES: usize = 6;
/// Draws until that many are found that the kernel serves.
const MOST_DRAWS: usize = 200;
/// How far below a workload's extents those of a shape near it may lie: a quarter, or this much.
const NEAR: i64 = 8;
/// Seconds that the answers for the further distributions of one workload may cost. Where they cost more,
/// fewer are checked there, but never none; which is drawn, and noted.
const FURTHER_DISTRIBUTIONS_S: f64 = 1.0;

/// Judges the candidate on every proof shape and on drawn ones, under every distribution, twice; of a front
/// also what it launches elsewhere.
pub(super) fn small_shapes(bench: &mut Bench<'_>) -> Result<(), Stop> {
    let lab = bench.lab;
    let mut shapes = Vec::new();
    for shape in &lab.proofs {
        if bench.subject.serves(shape)? {
            shapes.push(shape.clone());
        } else {
            bench.notes.push(format!(
                "{LEFT_OUT_NOTE}does not serve the proof shape {}, so it was not checked there",
                bind::describe_shape(shape)
            ));
        }
    }
    shapes.extend(draw_shapes(bench)?);
    for shape in &shapes {
        small_shape(bench, bench.subject, shape)?;
    }
    for choice in choices(bench.subject, &shapes)? {
        for shape in &choice.elsewhere {
            small_shape(bench, choice.subject(), shape).map_err(|stop| stop.by(&choice.label()))?;
        }
    }
    Ok(())
}

fn draw_shapes(bench: &mut Bench<'_>) -> Result<Vec<Workload>, Stop> {
    let lab = bench.lab;
    if lab.ranges.is_empty() {
        let note = "the lab states no [ranges], so no further shapes were drawn";
        bench.notes.push(note.to_string());
        return Ok(Vec::new());
    }
    let mut rng = Rng::derive(bench.seed, "drawn shapes");
    let mut shapes: Vec<Workload> = Vec::new();
    for _ in 0..MOST_DRAWS {
        if shapes.len() == DRAWN_SHAPES {
            break;
        }
        let axes: Vec<(String, i64)> =
            lab.ranges.iter().map(|(axis, range)| (axis.clone(), draw(range, &mut rng))).collect();
        let shape = Workload { name: "drawn".to_string(), axes };
        if !shapes.contains(&shape) && bench.subject.serves(&shape)? {
            shapes.push(shape);
        }
    }
    if shapes.len() < DRAWN_SHAPES {
        bench.notes.push(format!(
            "{LEFT_OUT_NOTE}serves {} of {MOST_DRAWS} shapes drawn from the lab's ranges; checked on these",
            shapes.len()
        ));
    }
    Ok(shapes)
}

fn draw(range: &Range, rng: &mut Rng) -> i64 {
    match range {
        Range::Span { min, max } => min + rng.below((max - min + 1) as usize) as i64,
        Range::Values(values) => values[rng.below(values.len())],
    }
}

fn small_shape(bench: &mut Bench<'_>, subject: Subject<'_>, shape: &Workload) -> Result<(), Stop> {
    let program = bench.program_of(subject, shape)?;
    let mut cases = bench.corpus.proof_cases(bench.target, bench.lab, shape, bench.seed)?;
    // Distributions in no order that a candidate could know.
    bench.rng.shuffle(&mut cases);
    let mut session = bench.open(&program, &cases)?;
    let slots: Vec<usize> = (0..cases.len()).collect();
    let name = bind::describe_shape(shape);
    bench.launch(&mut *session, &slots, &Extent::All, &name)?;
    let mut first = Vec::new();
    for (slot, case) in cases.iter().enumerate() {
        bench.judge(&*session, slot, case, &program, Stage::Proof, Look::All)?;
        first.push(outputs(&*session, slot, &program));
    }
    // Again, in another order, so that every address has other contents, and with outputs that hold large
    // numbers of either sign: a kernel that reads what it shall write may be right beside NaN.
    let mut order: Vec<usize> = slots.iter().rev().copied().collect();
    for turn in 0..2 {
        for slot in &slots {
            session.poison(*slot, Poison::finite((slot + turn) % 2 == 0, &mut bench.rng));
        }
        bench.launch(&mut *session, &order, &Extent::All, &name)?;
        for (slot, case) in cases.iter().enumerate() {
            same_again(bench, &*session, slot, case, &program, &first[slot])?;
        }
        let middle = order.len() / 2;
        order.rotate_left(middle);
    }
    Ok(())
}

/// Judges the candidate on a shape near a real workload, under a distribution that is not timed. Proof
/// shapes and drawn ones are small and workloads are round, so a kernel could look after remainders in
/// the small ones and rely on round extents, and on the timed distribution, in all others.
pub(super) fn near_workload(bench: &mut Bench<'_>, workload: &Workload) -> Result<(), Stop> {
    let mut rng = Rng::derive(bench.seed, &format!("near {}", workload.name));
    let Some(shape) = draw_near(bench, workload, &mut rng)? else { return Ok(()) };
    let program = bench.program(&shape)?;
    let (lab, seed) = (bench.lab, bench.seed);
    let inputs = match lab.inputs.len() - 1 {
        0 => 0,
        further => 1 + rng.below(further),
    };
    let want = Want::Exactly(1);
    let cases = bench.corpus.cases(bench.target, lab, &shape, inputs, seed, want)?;
    let mut session = bench.open(&program, &cases)?;
    bench.launch(&mut *session, &[0], &Extent::All, &bind::describe_shape(&shape))?;
    bench.judge(&*session, 0, &cases[0], &program, Stage::Gate, Look::All)?;
    Ok(())
}

/// Draws a shape that the candidate serves: every axis that spans a range is a little shorter than in the
/// workload. Axes that take certain values alone keep theirs; none where there are no others.
fn draw_near(
    bench: &mut Bench<'_>,
    workload: &Workload,
    rng: &mut Rng,
) -> Result<Option<Workload>, Stop> {
    let least_of = |axis: &str, value: i64| {
        let range = bench.lab.ranges.iter().find(|(name, _)| name == axis).map(|(_, range)| range);
        match range {
            Some(Range::Span { min, .. }) => (value - (value / 4).max(NEAR)).max(*min),
            Some(Range::Values(_)) | None => value,
        }
    };
    let spans: Vec<(String, i64, i64)> = workload
        .axes
        .iter()
        .map(|(axis, value)| (axis.clone(), least_of(axis, *value), *value))
        .collect();
    if spans.iter().all(|(_, least, value)| least >= value) {
        return Ok(None);
    }
    for draw in 0..MOST_DRAWS {
        let mut shorter = |least: i64, value: i64| {
            let drawn = least + rng.below((value - least) as usize) as i64;
            // Odd at first: a multiple of nothing that kernels like. Some serve such multiples alone.
            if draw == 0 && (drawn | 1) < value { drawn | 1 } else { drawn }
        };
        let axes = spans
            .iter()
            .map(|(axis, least, value)| {
                let extent = if least < value { shorter(*least, *value) } else { *value };
                (axis.clone(), extent)
            })
            .collect();
        let shape = Workload { name: format!("near {}", workload.name), axes };
        if bench.subject.serves(&shape)? {
            return Ok(Some(shape));
        }
    }
    bench.notes.push(format!(
        "{LEFT_OUT_NOTE}serves none of {MOST_DRAWS} shapes drawn near {}, so it was checked on no other of \
         that size",
        workload.name
    ));
    Ok(None)
}

/// What the gate saw of a candidate on a workload.
#[derive(Clone, Copy, Debug)]
pub(super) struct Gated {
    /// The worst error.
    pub(super) error: ErrorSize,
    /// The shortest launch.
    pub(super) fastest_s: f64,
}

/// Judges the candidate on a real workload.
pub(super) fn workload(bench: &mut Bench<'_>, workload: &Workload) -> Result<Gated, Stop> {
    let program = bench.program(workload)?;
    let cases = gate_cases(bench, workload)?;
    let name = &workload.name;
    let mut gated = Gated { error: ErrorSize::default(), fastest_s: f64::INFINITY };

    let mut session = bench.open(&program, &cases)?;
    for (slot, case) in cases.iter().enumerate() {
        let clocked = bench.launch(&mut *session, &[slot], &Extent::All, name)?;
        gated.fastest_s = gated.fastest_s.min(clocked.elapsed_s);
        let judged = bench.judge(&*session, slot, case, &program, Stage::Gate, Look::All)?;
        gated.error = gated.error.worse(judged);
    }
    let first = outputs(&*session, 0, &program);
    let is_negative = bench.rng.below(2) == 0;
    session.poison(0, Poison::finite(is_negative, &mut bench.rng));
    bench.launch(&mut *session, &[0], &Extent::All, name)?;
    same_again(bench, &*session, 0, &cases[0], &program, &first)?;
    drop(session);

    // A fresh process, with another case before it.
    let two = [Arc::clone(&cases[1]), Arc::clone(&cases[0])];
    let mut session = bench.open(&program, &two)?;
    session.poison(1, Poison::finite(!is_negative, &mut bench.rng));
    bench.launch(&mut *session, &[0, 1], &Extent::All, name)?;
    same_again(bench, &*session, 1, &two[1], &program, &first)?;
    Ok(gated)
}

/// Returns two contents of the first distribution and one of each other, as far as answers are cheap.
fn gate_cases(bench: &mut Bench<'_>, workload: &Workload) -> Result<Vec<Arc<Case>>, Stop> {
    let (lab, seed) = (bench.lab, bench.seed);
    let mut cases = bench.corpus.cases(bench.target, lab, workload, 0, seed, Want::Exactly(2))?;
    let mut further: Vec<usize> = (1..lab.inputs.len()).collect();
    let answer_s = bench.corpus.answer_s(bench.target, lab, workload, seed)?;
    let affordable = (FURTHER_DISTRIBUTIONS_S / answer_s.max(1e-9)) as usize;
    if affordable < further.len() {
        Rng::derive(seed, &format!("distributions of {}", workload.name)).shuffle(&mut further);
        let left_out = further.split_off(affordable.max(1));
        if !left_out.is_empty() {
            let names = |chosen: &[usize]| {
                let names: Vec<&str> =
                    chosen.iter().map(|inputs| lab.inputs[*inputs].name.as_str()).collect();
                names.join(", ")
            };
            bench.notes.push(format!(
                "{}: an answer costs {answer_s:.1} s, so of the further distributions it was checked on {}, \
                 and on small shapes only: {}",
                workload.name,
                names(&further),
                names(&left_out)
            ));
        }
    }
    for inputs in further {
        let want = Want::Exactly(1);
        cases.extend(bench.corpus.cases(bench.target, lab, workload, inputs, seed, want)?);
    }
    Ok(cases)
}

fn outputs(session: &dyn Session, slot: usize, program: &Program) -> Vec<Vec<u8>> {
    bind::indices_of(&program.tensors, Role::Output)
        .into_iter()
        .map(|tensor| session.output(slot, tensor).to_vec())
        .collect()
}

fn same_again(
    bench: &Bench<'_>,
    session: &dyn Session,
    slot: usize,
    case: &Case,
    program: &Program,
    first: &[Vec<u8>],
) -> Result<(), Stop> {
    let tensors = bind::indices_of(&program.tensors, Role::Output);
    for (tensor, first) in tensors.into_iter().zip(first) {
        let plan = &program.tensors[tensor];
        check::compare_bits(plan, first, session.output(slot, tensor)).map_err(|wrong| {
            let mismatch = wrong.at(&case.place(bench.lab, Stage::Repeat), &plan.name);
            Stop::incorrect(mismatch)
        })?;
    }
    Ok(())
}
