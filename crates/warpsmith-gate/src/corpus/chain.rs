//! Establishes the chain of trust and records it: the reference is sound, and it proves the oracle.

use std::time::Instant;

use warpsmith_device::target::{Extent, Target};
use warpsmith_device::trace;
use warpsmith_model::lab::{Role, Workload};
use warpsmith_model::{Authority, ChainRecord, DType, FORMAT_VERSION, Lab, Proof, Sensitivity};

use super::authority::{Answer, Authorities, Run, oracle_name, outputs_of, work_units};
use super::{Corpus, Proven, Want};
use crate::bind;
use crate::check::{self, Coverage, ErrorBudget};
use crate::element::{narrow, widen};
use crate::error::GateError;
use crate::inputs;

/// An output must change by at least this share of its norm when an input is drawn anew, or a
/// candidate that ignores the input would pass for right.
const LEAST_SENSITIVITY: f64 = 1e-3;

/// Proves the lab and one content of each of these workloads.
pub(super) fn check_chain(
    corpus: &mut Corpus,
    target: &mut dyn Target,
    lab: &Lab,
    workloads: &[&Workload],
    seed: u64,
) -> Result<ChainRecord, GateError> {
    let _step = trace::step("the chain of trust");
    let started = Instant::now();
    prove(corpus, target, lab, seed)?;
    let mut authorities = Vec::new();
    for workload in workloads {
        corpus.cases(target, lab, workload, 0, seed, Want::Exactly(1))?;
        let answer = corpus.proven(lab).authorities.answer_for(lab, workload)?;
        let key = super::SetKey::of(lab, workload, 0, seed, answer);
        let set = corpus.sets.get(&key).expect("the set was provided just now");
        let plans = bind::tensor_plans(lab, workload)?;
        authorities.push(Authority {
            workload: workload.name.clone(),
            by_reference: answer == Answer::Reference,
            sampled_blocks: set.sampled_blocks,
            contents: set.contents_that_pay(lab, &plans, corpus.options.patience, false) as u32,
        });
    }
    let mut record =
        corpus.proven(lab).record.clone().expect("a finished proof has left its record");
    record.authorities = authorities;
    record.wall_s = started.elapsed().as_secs_f64();
    Ok(record)
}

/// Proves the lab, unless that was done before.
pub(super) fn prove(
    corpus: &mut Corpus,
    target: &mut dyn Target,
    lab: &Lab,
    seed: u64,
) -> Result<(), GateError> {
    if corpus.proven.as_ref().is_some_and(|proven| proven.lab == lab.id) {
        return Ok(());
    }
    corpus.clear(target);
    let authorities = Authorities::compile(target, lab, &corpus.options)?;
    corpus.proven = Some(Proven { lab: lab.id, authorities, record: None });
    match prove_all(corpus, target, lab, seed) {
        Ok(record) => {
            corpus.proven.as_mut().expect("set above").record = Some(record);
            Ok(())
        }
        Err(error) => {
            corpus.proven = None;
            corpus.clear(target);
            Err(error)
        }
    }
}

fn prove_all(
    corpus: &mut Corpus,
    target: &mut dyn Target,
    lab: &Lab,
    seed: u64,
) -> Result<ChainRecord, GateError> {
    let started = Instant::now();
    if lab.proofs.is_empty() {
        let reason = "it has no [[proof]] shape on which the reference could prove a kernel";
        return Err(GateError::refused(&lab.name, reason));
    }
    let mut changes = Changes::new(lab);
    let mut proofs = Vec::new();
    for shape in &lab.proofs {
        // The oracle must take the scalars that it is given, too.
        let shape = &bind::with_drawn_scalars(lab, shape, seed)?;
        let plans = bind::tensor_plans(lab, shape)?;
        let cases = corpus.proof_cases_unproven(target, lab, shape, seed)?;
        let authorities = &mut corpus.proven.as_mut().expect("under way").authorities;
        let work = work_units(lab, shape)?;

        // The first distribution, then the same with one input after the other drawn anew.
        let base = cases[0].contents(lab, &plans);
        let mut contents = vec![base.clone()];
        let input_plans: Vec<_> = plans.iter().filter(|plan| plan.role == Role::Input).collect();
        for (idx, plan) in input_plans.iter().enumerate() {
            let other = inputs::content_seed(seed, &shape.axes, "drawn anew", idx);
            let mut redrawn = base.clone();
            redrawn[idx] = inputs::tensor_contents(plan, &lab.inputs[0].distributions[idx], other);
            contents.push(redrawn);
        }
        let contents: Vec<&[Vec<u8>]> = contents.iter().map(Vec::as_slice).collect();
        let everything = [Extent::All];
        let ran = authorities.run_reference(target, lab, shape, &contents, &everything, 2)?;
        let fastest_s = ran.elapsed_s.iter().copied().fold(f64::INFINITY, f64::min);
        authorities.reference_rate = authorities.reference_rate.max(work / fastest_s);
        changes.add(&ran.outputs);

        // The oracle on every distribution. A script answers alone: what it says is right.
        if lab.oracle.is_none() {
            continue;
        }
        let program = authorities.oracle_program(target, lab, shape)?;
        let ids: Vec<_> = cases.iter().map(|case| case.id).collect();
        let run = Run { program: &program, who: "the oracle", extents: &everything, times: 2 };
        let ran = authorities.run(target, lab, shape, run, &ids)?;
        let fastest_s = ran.elapsed_s.iter().copied().fold(f64::INFINITY, f64::min);
        authorities.oracle_rate = authorities.oracle_rate.max(work / fastest_s);
        let answered = outputs_of(&program.tensors);
        for (case, outputs) in cases.iter().zip(&ran.outputs) {
            let inputs = &lab.inputs[case.inputs];
            for ((expected, bytes), plan) in case.expected.iter().zip(outputs).zip(&answered) {
                let dtype = expected.plan().dtype;
                // An oracle may answer in a wider type than the lab's.
                let rounded;
                let bytes = if plan.dtype == dtype {
                    bytes
                } else {
                    rounded = narrow(dtype, &widen(plan.dtype, bytes));
                    &rounded
                };
                let budget = ErrorBudget::new(&lab.tolerance, inputs.tolerance_scale, dtype);
                let error = check::compare(bytes, expected, &budget, &Coverage::Whole);
                let error = error.map_err(|wrong| {
                    let place = case.place(lab, warpsmith_model::Stage::Proof);
                    let mismatch = wrong.at(&place, &expected.plan().name);
                    let reason = format!(
                        "its oracle `{}` is not what the reference says: {mismatch}\nhint: where the \
                         oracle is right, the tolerance is too tight: `warpsmith calibrate LAB` proposes \
                         one",
                        oracle_name(lab)
                    );
                    GateError::refused(&lab.name, reason)
                })?;
                proofs.push(Proof {
                    shape: bind::describe_shape(shape),
                    inputs: inputs.name.clone(),
                    error,
                    allowed: budget.allowed(),
                });
            }
        }
    }
    let sensitivity = changes.judge(lab)?;
    Ok(ChainRecord {
        format: FORMAT_VERSION,
        sensitivity,
        proofs,
        authorities: Vec::new(),
        wall_s: started.elapsed().as_secs_f64(),
    })
}

/// The largest relative change of each output for each input, over all proofs: on some shapes an
/// input may truly not matter (the scores of a softmax over a single key).
struct Changes {
    /// `changes[input][output]`.
    changes: Vec<Vec<f64>>,
}

impl Changes {
    fn new(lab: &Lab) -> Self {
        let count = |role: Role| lab.tensors.iter().filter(|tensor| tensor.role == role).count();
        Self { changes: vec![vec![0.0; count(Role::Output)]; count(Role::Input)] }
    }

    /// Takes in the outputs of a run on the base and on each redrawn input.
    fn add(&mut self, outputs: &[Vec<Vec<u8>>]) {
        let (base, redrawn) = outputs.split_first().expect("the base was run");
        for (changes, outputs) in self.changes.iter_mut().zip(redrawn) {
            for ((change, before), after) in changes.iter_mut().zip(base).zip(outputs) {
                *change = change.max(relative_change(before, after));
            }
        }
    }

    fn judge(&self, lab: &Lab) -> Result<Vec<Sensitivity>, GateError> {
        let names = |role: Role| {
            lab.tensors.iter().filter(move |tensor| tensor.role == role).map(|t| t.name.clone())
        };
        let sensitivity: Vec<Sensitivity> = names(Role::Input)
            .zip(&self.changes)
            .map(|(tensor, changes)| Sensitivity {
                tensor,
                relative_change: changes.iter().copied().fold(0.0, f64::max),
            })
            .collect();
        if let Some(deaf) =
            sensitivity.iter().find(|entry| entry.relative_change < LEAST_SENSITIVITY)
        {
            let reason = format!(
                "the output hardly depends on the input `{}`: drawing it anew changes the output \
                 by {:.1e} of its norm, less than {LEAST_SENSITIVITY:.0e}, so a kernel that ignores \
                 it would pass",
                deaf.tensor, deaf.relative_change
            );
            return Err(GateError::refused(&lab.name, reason));
        }
        for (idx, output) in names(Role::Output).enumerate() {
            let most = self.changes.iter().map(|changes| changes[idx]).fold(0.0, f64::max);
            if most < LEAST_SENSITIVITY {
                let reason = format!(
                    "the output `{output}` hardly depends on any input (by {most:.1e} of its norm \
                     at most), so a constant would pass"
                );
                return Err(GateError::refused(&lab.name, reason));
            }
        }
        Ok(sensitivity)
    }
}

fn relative_change(before: &[u8], after: &[u8]) -> f64 {
    let (before, after) = (widen(DType::F64, before), widen(DType::F64, after));
    let norm = before.iter().map(|value| value * value).sum::<f64>().sqrt();
    let change = before.iter().zip(&after).map(|(b, a)| (a - b) * (a - b)).sum::<f64>().sqrt();
    match (change > 0.0, norm > 0.0) {
        (false, _) => 0.0,
        (true, true) => change / norm,
        (true, false) => 1.0,
    }
}

#[cfg(test)]
#[test]
fn changes_are_relative_to_the_norm() {
    let bytes = |values: &[f64]| crate::element::narrow(DType::F64, values);
    let check = |before: &[f64], after: &[f64], expected: f64| {
        assert_eq!(relative_change(&bytes(before), &bytes(after)), expected);
    };
    check(&[3.0, 4.0], &[3.0, 4.0], 0.0);
    check(&[3.0, 4.0], &[3.0, 9.0], 1.0);
    check(&[0.0, 0.0], &[0.0, 1.0], 1.0);
}
