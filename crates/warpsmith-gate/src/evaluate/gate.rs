//! The full gate: small shapes against the reference, real shapes under every affordable
//! distribution, and the same input again.

use std::sync::Arc;

use warpsmith_device::poison::Poison;
use warpsmith_device::target::{Calls, Conditions, Extent, Program, Session};
use warpsmith_model::lab::{Role, Scalar, ScalarDraw, Workload};
use warpsmith_model::rng::Rng;
use warpsmith_model::{ErrorSize, LEFT_OUT_NOTE, Stage};

use super::bench::{Bench, Look, Stop, Subject};
use super::choices::choices;
use super::proportions::proportions;
use super::shapes;
use crate::bind;
use crate::check;
use crate::corpus::{Case, Want};

/// Seconds that the answers for the further distributions of one workload may cost. Where they cost more,
/// fewer are checked there, but never none; which is drawn, and noted.
const FURTHER_DISTRIBUTIONS_S: f64 = 1.0;

/// All blocks of a workload are given to one call where that takes a thread no longer than this.
const MOST_WHOLE_S: f64 = 2.0;

/// What outputs hold before a repeated launch: so many kinds of numbers.
const POISONS: usize = 4;

/// Judges the candidate on every proof shape and on drawn ones, under every distribution, twice; of a front
/// also what it launches elsewhere.
pub(super) fn small_shapes(bench: &mut Bench<'_>) -> Result<(), Stop> {
    let lab = bench.lab;
    let mut shapes = Vec::new();
    for shape in &lab.proofs {
        if bench.subject.serves(shape)? {
            shapes.push(bind::with_drawn_scalars(lab, shape, bench.seed)?);
        } else {
            bench.notes.push(format!(
                "{LEFT_OUT_NOTE}does not serve the proof shape {}, so it was not checked there",
                bind::describe_shape(shape)
            ));
        }
    }
    shapes.extend(shapes::small(bench)?);
    for shape in &shapes {
        small_shape(bench, bench.subject, shape)?;
    }
    for scalar in lab.scalars.iter().filter(|scalar| scalar.draw == ScalarDraw::Fixed) {
        bench.notes.push(format!(
            "{LEFT_OUT_NOTE}was given no other `{}` than the lab's `{}`, so one that knows it passes; add \
             `draw = {{ values = [..] }}` to the scalar in lab.toml",
            scalar.name,
            scalar.value.text()
        ));
    }
    let is_usual =
        |scalar: &&Scalar| matches!(scalar.draw, ScalarDraw::Drawn { is_stated: false, .. });
    for scalar in lab.scalars.iter().filter(is_usual) {
        bench.notes.push(format!(
            "{LEFT_OUT_NOTE}was given no `{}` but somewhat smaller ones than the lab's, none of another sign, larger or zero; \
             say which it must be right for with `draw = {{ factors = [..], values = [..] }}` at the scalar in \
             lab.toml",
            scalar.name
        ));
    }
    for choice in choices(bench.subject, &shapes)? {
        // On these shapes and contents another choice has left its answers where it ran.
        bench.leave();
        for shape in &choice.elsewhere {
            small_shape(bench, choice.subject(), shape).map_err(|stop| stop.by(&choice.label()))?;
        }
    }
    Ok(())
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
    // Again, in another order, so that every address has other contents, and with outputs that hold numbers: a
    // kernel that reads what it shall write may be right beside NaN. Each case sees large ones of either sign,
    // or ordinary ones and zeros; all four where there is no other case.
    let mut order: Vec<usize> = slots.iter().rev().copied().collect();
    let (turns, stride) = if slots.len() == 1 { (POISONS, 1) } else { (POISONS / 2, 2) };
    let first_poison = bench.rng.below(POISONS);
    for turn in 0..turns {
        for slot in &slots {
            let poison = match (first_poison + slot + turn * stride) % POISONS {
                0 => Poison::finite(true, &mut bench.rng),
                1 => Poison::ordinary(&mut bench.rng),
                2 => Poison::finite(false, &mut bench.rng),
                _ => Poison::Zero,
            };
            session.poison(*slot, poison);
        }
        let is_kept = turn % 2 == 1;
        // One by one where scratch is kept: every case is then where the one before it was, and what that
        // packed is still there.
        let together = if is_kept && !program.scratch.is_empty() { 1 } else { order.len() };
        for slots in order.chunks(together) {
            let calls = match is_kept {
                true => Calls::Whole,
                false => Calls::Chunks(bench.rng.next_u64() as u16),
            };
            let conditions = Conditions { calls, keeps_scratch: is_kept };
            session.next_launch(conditions);
            bench.launch(&mut *session, slots, &Extent::All, &name)?;
            // All of them are looked at before any is launched again.
            let mut regrouped = Vec::new();
            for slot in slots {
                let (case, first) = (&cases[*slot], &first[*slot]);
                if !same_or_regrouped(bench, &*session, *slot, case, &program, first)? {
                    regrouped.push((*slot, outputs(&*session, *slot, &program)));
                }
            }
            for (slot, left) in regrouped {
                let left = Left { first: &first[slot], again: &left };
                steady(bench, &mut *session, slot, &cases[slot], &program, conditions, &left)?;
            }
        }
        let middle = order.len() / 2;
        order.rotate_left(middle);
    }
    Ok(())
}

/// Judges the candidate on a shape near a real workload, a little shorter along every axis, under a
/// distribution that is not timed: a kernel could rely on that one where shapes are large.
pub(super) fn near_workload(bench: &mut Bench<'_>, workload: &Workload) -> Result<(), Stop> {
    let Some(shape) = shapes::shorter(bench, workload)? else { return Ok(()) };
    let mut rng = Rng::derive(bench.seed, &format!("inputs near {}", workload.name));
    let inputs = match bench.lab.inputs.len() - 1 {
        0 => 0,
        further => 1 + rng.below(further),
    };
    further_shape(bench, &shape, inputs)
}

/// Judges the candidate on shapes that differ from a workload along one axis, on larger ones than the lab's
/// ranges hold, up to and beyond the workloads, and on thin, square and overlong ones; each under some
/// distribution.
pub(super) fn further_shapes(bench: &mut Bench<'_>, workloads: &[Workload]) -> Result<(), Stop> {
    let mut drawn = shapes::one_axis(bench, workloads)?;
    drawn.extend(shapes::larger(bench, workloads)?);
    drawn.extend(shapes::combined(bench, workloads)?);
    drawn.extend(proportions(bench, workloads)?);
    let mut unseen = choices(bench.subject, &drawn)?;
    unseen.retain(|choice| !choice.is_chosen);
    for choice in &unseen {
        match shapes::routed_to(bench, choice, workloads)? {
            Some(shape) => drawn.push(shape),
            None => bench.notes.push(format!(
                "{LEFT_OUT_NOTE}launches {} on no shape that was drawn beside the workloads, so it was checked on \
                 these and on small shapes alone",
                choice.label()
            )),
        }
    }
    let mut rng = Rng::derive(bench.seed, "inputs of further shapes");
    for shape in &drawn {
        let inputs = rng.below(bench.lab.inputs.len());
        further_shape(bench, shape, inputs)?;
    }
    Ok(())
}

fn further_shape(bench: &mut Bench<'_>, shape: &Workload, inputs: usize) -> Result<(), Stop> {
    let program = bench.program(shape)?;
    let (lab, seed) = (bench.lab, bench.seed);
    let want = Want::Exactly(1);
    let cases = bench.corpus.cases(bench.target, lab, shape, inputs, seed, want)?;
    let mut session = bench.open(&program, &cases)?;
    bench.launch(&mut *session, &[0], &Extent::All, &bind::describe_shape(shape))?;
    bench.judge(&*session, 0, &cases[0], &program, Stage::Gate, Look::All)?;
    Ok(())
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
    let GateCases { own: cases, rescaled } = gate_cases(bench, workload)?;
    let name = &workload.name;
    let mut gated = Gated { error: ErrorSize::default(), fastest_s: f64::INFINITY };

    let mut session = bench.open(&program, &cases)?;
    let mut first = Vec::new();
    for (slot, case) in cases.iter().enumerate() {
        let clocked = bench.launch(&mut *session, &[slot], &Extent::All, name)?;
        gated.fastest_s = gated.fastest_s.min(clocked.elapsed_s);
        let judged = bench.judge(&*session, slot, case, &program, Stage::Gate, Look::All)?;
        gated.error = gated.error.worse(judged);
        if slot == 0 {
            first = outputs(&*session, slot, &program);
        }
    }
    let is_negative = bench.rng.below(2) == 0;
    session.poison(0, Poison::finite(is_negative, &mut bench.rng));
    // Scratch holds what the last of the cases left, whose inputs were where these are now.
    let chunks = Calls::Chunks(bench.rng.next_u64() as u16);
    let mut repeats = vec![Conditions { calls: chunks, keeps_scratch: true }];
    // A call that gets all blocks has one thread work while all others wait, so this is for what is quick.
    if gated.fastest_s * (bench.target.info().threads as f64) < MOST_WHOLE_S {
        repeats.push(Conditions { calls: Calls::Whole, keeps_scratch: false });
    }
    for conditions in repeats {
        session.next_launch(conditions);
        bench.launch(&mut *session, &[0], &Extent::All, name)?;
        if !same_or_regrouped(bench, &*session, 0, &cases[0], &program, &first)? {
            let again = outputs(&*session, 0, &program);
            let left = Left { first: &first, again: &again };
            steady(bench, &mut *session, 0, &cases[0], &program, conditions, &left)?;
        }
        session.poison(0, Poison::finite(!is_negative, &mut bench.rng));
    }
    drop(session);

    // A fresh process, with another case before it.
    let two = [Arc::clone(&cases[1]), Arc::clone(&cases[0])];
    let mut session = bench.open(&program, &two)?;
    session.poison(0, Poison::ordinary(&mut bench.rng));
    session.poison(1, Poison::finite(!is_negative, &mut bench.rng));
    bench.launch(&mut *session, &[0, 1], &Extent::All, name)?;
    bench.judge(&*session, 0, &two[0], &program, Stage::Repeat, Look::All)?;
    same_again(bench, &*session, 1, &two[1], &program, &first)?;
    drop(session);

    if let Some(case) = rescaled {
        let program = bench.program(&case.shape)?;
        let mut session = bench.open(&program, std::slice::from_ref(&case))?;
        bench.launch(&mut *session, &[0], &Extent::All, name)?;
        bench.judge(&*session, 0, &case, &program, Stage::Gate, Look::All)?;
    }
    Ok(gated)
}

/// What a candidate is judged on at a real workload.
struct GateCases {
    /// With the lab's scalars.
    own: Vec<Arc<Case>>,
    /// With others, where the lab has scalars that vary.
    rescaled: Option<Arc<Case>>,
}

/// Returns two contents of the first distribution and one of each other, as far as answers are cheap. One of
/// the others, where the lab has scalars that vary, with other scalars: a kernel could know a workload's own.
fn gate_cases(bench: &mut Bench<'_>, workload: &Workload) -> Result<GateCases, Stop> {
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
    let varied = bind::with_drawn_scalars(lab, workload, seed)?;
    let mut rescaled = None;
    if !varied.scalars.is_empty() {
        let mut rng = Rng::derive(seed, &format!("other scalars {}", workload.name));
        let inputs = match further.len() {
            0 => 0,
            count => further.swap_remove(rng.below(count)),
        };
        let drawn =
            bench.corpus.cases(bench.target, lab, &varied, inputs, seed, Want::Exactly(1))?;
        rescaled = drawn.into_iter().next();
    }
    for inputs in further {
        let want = Want::Exactly(1);
        cases.extend(bench.corpus.cases(bench.target, lab, workload, inputs, seed, want)?);
    }
    Ok(GateCases { own: cases, rescaled })
}

fn outputs(session: &dyn Session, slot: usize, program: &Program) -> Vec<Vec<u8>> {
    bind::indices_of(&program.tensors, Role::Output)
        .into_iter()
        .map(|tensor| session.output(slot, tensor).to_vec())
        .collect()
}

/// Judges a launch on a case that was launched before: it must leave the same bits, and nothing beside them.
fn same_again(
    bench: &mut Bench<'_>,
    session: &dyn Session,
    slot: usize,
    case: &Case,
    program: &Program,
    first: &[Vec<u8>],
) -> Result<(), Stop> {
    bench.judge_beside(session, slot, case, program, Stage::Repeat)?;
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

/// Judges a repeat whose blocks were grouped into other calls than those of the first launch. Returns whether it
/// left the same bits; if not, its answer is right all the same. A library that looks at how much a call is given
/// sums in another order, and that is no race.
fn same_or_regrouped(
    bench: &mut Bench<'_>,
    session: &dyn Session,
    slot: usize,
    case: &Case,
    program: &Program,
    first: &[Vec<u8>],
) -> Result<bool, Stop> {
    let is_same = outputs(session, slot, program).as_slice() == first;
    // On a device whose launches have no calls, nothing was grouped in another way.
    if is_same || bench.target.info().cuda.is_some() {
        same_again(bench, session, slot, case, program, first)?;
        return Ok(true);
    }
    bench.judge(session, slot, case, program, Stage::Repeat, Look::All)?;
    Ok(false)
}

/// What launches on one case left that differ in how blocks were grouped.
struct Left<'a> {
    /// With the calls that the contract asks for.
    first: &'a [Vec<u8>],
    /// With other calls.
    again: &'a [Vec<u8>],
}

/// Judges what depends on how blocks are grouped: where they are grouped as they were in an earlier launch, the
/// bits must be those of that launch.
fn steady(
    bench: &mut Bench<'_>,
    session: &mut dyn Session,
    slot: usize,
    case: &Case,
    program: &Program,
    conditions: Conditions,
    left: &Left<'_>,
) -> Result<(), Stop> {
    let of_first = (Conditions { calls: Calls::Chunk, ..conditions }, left.first);
    let again = match conditions.calls {
        Calls::Whole => vec![(conditions, left.again), of_first],
        // Which thread comes first decides where irregular groups begin, so none of them is sure to return.
        Calls::Chunks(_) | Calls::Chunk => vec![of_first],
    };
    for (conditions, bits) in again {
        session.poison(slot, Poison::ordinary(&mut bench.rng));
        session.next_launch(conditions);
        bench.launch(session, &[slot], &Extent::All, &case.shape.name)?;
        same_again(bench, session, slot, case, program, bits)?;
    }
    Ok(())
}
