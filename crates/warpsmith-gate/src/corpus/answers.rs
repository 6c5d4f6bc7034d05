//! Right answers for contents: asked of the reference or the oracle, or taken from the store.

use std::sync::Arc;
use warpsmith_device::poison::is_poison;
use warpsmith_device::target::{CaseId, Contents, Extent, Program, Target, TensorPlan};
use warpsmith_model::lab::{Inputs, Workload};
use warpsmith_model::rng::Rng;
use warpsmith_model::{BlobId, DType, Hasher, Lab};

use super::authority::{Answer, Authorities, Run, oracle_name, outputs_of, work_units};
use super::store::Stored;
use super::{Case, SetKey};
use crate::bind;
use crate::check::{self, Coverage, ErrorBudget, Expected, LEAST_ROW, Values};
use crate::element::{least_normal, widen};
use crate::error::GateError;
use crate::inputs;

/// About how long the sample of the reference beside one answer of the oracle may take.
const SAMPLE_S: f64 = 0.02;
/// And how many blocks it has at least and at most.
const LEAST_SAMPLED_BLOCKS: i64 = 4;
const MOST_SAMPLED_BLOCKS: i64 = 4096;
/// Contents that show the usual size of an output with very few elements.
const FLOOR_DRAWS: usize = 8;
/// Changes whenever the contents that a seed stands for change.
const GENERATOR_VERSION: &[u8] = b"inputs 1";

/// Inputs that are both staged and at hand.
#[derive(Debug)]
pub(super) struct StagedContents {
    pub(super) id: CaseId,
    pub(super) contents: Contents,
    pub(super) seed: u64,
}

/// A right answer and what it took.
#[derive(Debug)]
pub(super) struct Answered {
    pub(super) expected: Vec<Expected>,
    pub(super) answer_s: f64,
    pub(super) sampled_blocks: u64,
}

impl Authorities {
    /// Answers for several contents, from the store where it has them.
    pub(super) fn answers(
        &mut self,
        target: &mut dyn Target,
        lab: &Lab,
        shape: &Workload,
        key: &SetKey,
        staged: &[StagedContents],
        floors: &[f64],
    ) -> Result<Vec<Answered>, GateError> {
        let oracle = match key.answer {
            Answer::Reference => None,
            Answer::Oracle => Some(self.oracle_program(target, lab, shape)?),
        };
        let identity = match &oracle {
            None => self.reference_identity(),
            Some(program) => program.artifact.binary.to_string(),
        };
        let outputs = outputs_of(&bind::tensor_plans(lab, shape)?);
        let names: Vec<String> =
            staged.iter().map(|one| store_name(lab, key, &identity, one.seed)).collect();
        let mut found: Vec<Option<Stored>> = names
            .iter()
            .map(|name| self.store.as_ref().and_then(|store| store.load(name, &outputs)))
            .collect();
        let missing: Vec<usize> = (0..staged.len()).filter(|idx| found[*idx].is_none()).collect();
        if !missing.is_empty() {
            let asked: Vec<&StagedContents> = missing.iter().map(|idx| &staged[*idx]).collect();
            let stored = match &oracle {
                None => self.ask_reference(target, lab, shape, &asked)?,
                Some(program) => {
                    self.ask_oracle(target, lab, shape, program, key.inputs, &asked)?
                }
            };
            // Nobody asks again for a shape that was drawn, and to write an answer can take longer than to compute it.
            let mut known = lab.proofs.iter().chain(lab.shapes());
            let is_drawn = !known.any(|known| known.axes == shape.axes);
            let store = self.store.as_ref().filter(|_| !is_drawn && shape.scalars.is_empty());
            for (idx, stored) in missing.into_iter().zip(stored) {
                if let Some(store) = store {
                    // The next run works it out again, which costs time and nothing else.
                    let saved = store.save(&names[idx], &stored);
                    self.store_trouble = self.store_trouble.take().or(saved.err());
                }
                found[idx] = Some(stored);
            }
        }
        found
            .into_iter()
            .flatten()
            .map(|stored| prepare(lab, shape, key, &outputs, stored, floors))
            .collect()
    }

    /// Returns the usual size of the elements of each output, where the output has so few that it
    /// does not show it itself: a single sum may happen to be nearly zero, and an error of a few
    /// roundings of its terms is then large against it. Zero for all other outputs.
    pub(super) fn floors(
        &mut self,
        target: &mut dyn Target,
        lab: &Lab,
        shape: &Workload,
        inputs: usize,
        seed: u64,
        answer: Answer,
    ) -> Result<Vec<f64>, GateError> {
        let plans = bind::tensor_plans(lab, shape)?;
        let outputs = outputs_of(&plans);
        if outputs.iter().all(|plan| plan.elements() >= LEAST_ROW) {
            return Ok(vec![0.0; outputs.len()]);
        }
        let name = format!("{} (usual size)", lab.inputs[inputs].name);
        let drawn: Vec<Contents> = (0..FLOOR_DRAWS)
            .map(|idx| {
                let seed = inputs::content_seed(seed, &shape.axes, &name, idx);
                Arc::new(inputs::contents(&plans, &lab.inputs[inputs], seed))
            })
            .collect();
        let mut oracle_outputs = outputs.clone();
        let ran = match answer {
            Answer::Reference => {
                let contents: Vec<&[Vec<u8>]> = drawn.iter().map(|one| one.as_slice()).collect();
                self.run_reference(target, lab, shape, &contents, &[Extent::All], 1)?
            }
            Answer::Oracle => {
                let program = self.oracle_program(target, lab, shape)?;
                oracle_outputs = outputs_of(&program.tensors);
                let extents = [Extent::All];
                let run = Run { program: &program, who: "the oracle", extents: &extents, times: 1 };
                self.run_staged(target, lab, shape, run, &plans, &drawn)?
            }
        };
        let dtype_of = |output: usize| match answer {
            Answer::Reference => DType::F64,
            Answer::Oracle => oracle_outputs[output].dtype,
        };
        Ok(outputs
            .iter()
            .enumerate()
            .map(|(output, plan)| {
                if plan.elements() >= LEAST_ROW {
                    return 0.0;
                }
                let values: Vec<f64> = ran
                    .outputs
                    .iter()
                    .flat_map(|case| widen(dtype_of(output), &case[output]))
                    .collect();
                let count = values.len();
                Values::Double(values).rms(0..count)
            })
            .collect())
    }

    fn ask_reference(
        &mut self,
        target: &mut dyn Target,
        lab: &Lab,
        shape: &Workload,
        staged: &[&StagedContents],
    ) -> Result<Vec<Stored>, GateError> {
        let contents: Vec<&[Vec<u8>]> = staged.iter().map(|one| one.contents.as_slice()).collect();
        let ran = self.run_reference(target, lab, shape, &contents, &[Extent::All], 1)?;
        let stored = |(outputs, answer_s): (&Vec<Vec<u8>>, &f64)| Stored {
            answer_s: *answer_s,
            sampled_blocks: 0,
            values: outputs.iter().map(|bytes| Values::from_bytes(DType::F64, bytes)).collect(),
        };
        Ok(ran.outputs.iter().zip(&ran.elapsed_s).map(stored).collect())
    }

    /// Lets the oracle answer and compares a random sample of the reference's blocks with it, other
    /// blocks for each content.
    fn ask_oracle(
        &mut self,
        target: &mut dyn Target,
        lab: &Lab,
        shape: &Workload,
        program: &Program,
        inputs: usize,
        staged: &[&StagedContents],
    ) -> Result<Vec<Stored>, GateError> {
        let ids: Vec<CaseId> = staged.iter().map(|one| one.id).collect();
        let run = Run { program, who: "the oracle", extents: &[Extent::All], times: 1 };
        let ran = self.run(target, lab, shape, run, &ids)?;

        let blocks = self.reference_program(lab, shape)?.launches[0].blocks;
        let reference_s = work_units(lab, shape)? / self.reference_rate;
        let affordable = (blocks as f64 * SAMPLE_S / reference_s) as i64;
        let count = affordable.clamp(LEAST_SAMPLED_BLOCKS, MOST_SAMPLED_BLOCKS);
        let samples: Vec<Extent> = staged
            .iter()
            .map(|one| {
                let mut rng = Rng::derive(one.seed, "sampled blocks");
                Extent::Blocks(choose_blocks(blocks, count, &mut rng))
            })
            .collect();
        let contents: Vec<&[Vec<u8>]> = staged.iter().map(|one| one.contents.as_slice()).collect();
        let sampled = self.run_reference(target, lab, shape, &contents, &samples, 1)?;

        let plans = outputs_of(&program.tensors);
        let lab_plans = outputs_of(&bind::tensor_plans(lab, shape)?);
        let mut stored = Vec::new();
        for (case, one) in staged.iter().enumerate() {
            let mut values = Vec::new();
            for (output, plan) in plans.iter().enumerate() {
                let answer = Values::from_bytes(plan.dtype, &ran.outputs[case][output]);
                let partial = &sampled.outputs[case][output];
                let agreed = agree(lab, &lab.inputs[inputs], &lab_plans[output], answer, partial);
                values.push(
                    agreed
                        .map_err(|what| disagreement(lab, shape, inputs, plan, one.seed, &what))?,
                );
            }
            let sampled_blocks = count.min(blocks) as u64;
            stored.push(Stored { answer_s: ran.elapsed_s[case], sampled_blocks, values });
        }
        Ok(stored)
    }
}

impl Authorities {
    /// Asks the reference for an element that a candidate and the oracle disagree about, or for its neighbours;
    /// fails where it is the oracle that is wrong. Where no block that lies about there writes the element,
    /// nothing is known.
    pub(super) fn confirm(
        &mut self,
        target: &mut dyn Target,
        lab: &Lab,
        case: &Case,
        output: usize,
        position: usize,
    ) -> Result<(), GateError> {
        if self.answer_for(lab, &case.shape)? == Answer::Reference {
            return Ok(());
        }
        let (shape, expected) = (&case.shape, &case.expected[output]);
        let plans = bind::tensor_plans(lab, shape)?;
        let blocks = self.reference_program(lab, shape)?.launches[0].blocks;
        // Blocks usually write their outputs in order.
        let share = position as f64 / expected.values().len() as f64;
        let block = ((share * blocks as f64) as i64).min(blocks - 1);
        let chosen: Vec<i64> =
            (block - 1..=block + 1).filter(|it| (0..blocks).contains(it)).collect();
        let contents = case.contents(lab, &plans);
        let extents = [Extent::Blocks(chosen)];
        let ran = self.run_reference(target, lab, shape, &[&contents], &extents, 1)?;
        let partial = &ran.outputs[0][output];
        let size = DType::F64.size();
        if is_poison(DType::F64, &partial[position * size..(position + 1) * size]) {
            return Ok(());
        }
        let answer = expected.values().clone();
        let inputs = &lab.inputs[case.inputs];
        agree(lab, inputs, expected.plan(), answer, partial).map(|_| ()).map_err(|what| {
            let plan = expected.plan();
            disagreement(lab, shape, case.inputs, plan, case.seed, &what)
        })
    }
}

/// Says that the oracle is wrong.
fn disagreement(
    lab: &Lab,
    shape: &Workload,
    inputs: usize,
    plan: &TensorPlan,
    seed: u64,
    what: &str,
) -> GateError {
    let reason = format!(
        "the oracle `{}` disagrees with the reference in `{}` on {} with `{}` inputs (seed {seed}): {what}",
        oracle_name(lab),
        plan.name,
        bind::describe_shape(shape),
        lab.inputs[inputs].name,
    );
    GateError::refused(&lab.name, reason)
}

/// Names an answer by everything that it depends on.
fn store_name(lab: &Lab, key: &SetKey, identity: &str, seed: u64) -> String {
    let mut hasher = Hasher::new("expected outputs");
    hasher
        .part(GENERATOR_VERSION)
        .part(lab.id.to_string().as_bytes())
        .part(identity.as_bytes())
        .part(lab.inputs[key.inputs].name.as_bytes())
        .part(&seed.to_le_bytes());
    for value in &key.axes {
        hasher.part(&value.to_le_bytes());
    }
    for bits in &key.scalars {
        hasher.part(b"scalar").part(&bits.to_le_bytes());
    }
    BlobId::from(hasher).to_string()
}

/// Makes an answer ready to judge by, unless it is not finite.
fn prepare(
    lab: &Lab,
    shape: &Workload,
    key: &SetKey,
    outputs: &[TensorPlan],
    stored: Stored,
    floors: &[f64],
) -> Result<Answered, GateError> {
    let Stored { answer_s, sampled_blocks, values } = stored;
    let mut expected = Vec::new();
    for ((plan, values), floor) in outputs.iter().zip(values).zip(floors) {
        expected.push(Expected::new(plan, values, *floor).map_err(|bad| {
            let reason = format!(
                "{} gives {} at {:?} of `{}` on {} with `{}` inputs; expected outputs must be \
                 finite, since a NaN would match anything",
                key.answer.name(),
                bad.value,
                bad.index,
                plan.name,
                bind::describe_shape(shape),
                lab.inputs[key.inputs].name,
            );
            GateError::refused(&lab.name, reason)
        })?);
    }
    Ok(Answered { expected, answer_s, sampled_blocks })
}

/// Compares the oracle's answer with what the reference wrote of it; returns the answer, or a disagreement
/// in words. The reference's elements are judged by the oracle's: the bound is symmetric, and the
/// oracle's output is whole, so its rows have a scale.
fn agree(
    lab: &Lab,
    inputs: &Inputs,
    plan: &TensorPlan,
    oracle: Values,
    reference: &[u8],
) -> Result<Values, String> {
    let wide = TensorPlan { dtype: DType::F64, ..plan.clone() };
    let oracle = Expected::new(&wide, oracle, least_normal(plan.dtype))
        .map_err(|bad| format!("the oracle gives {} at {:?}", bad.value, bad.index))?;
    let budget = ErrorBudget::new(&lab.tolerance, inputs.tolerance_scale, plan.dtype);
    match check::compare(reference, &oracle, &budget, &Coverage::Written) {
        Ok(_) => Ok(oracle.into_values()),
        Err(wrong) => Err(format!(
            "the oracle says {} at {:?}, the reference {} ({:.1}x the bound)",
            wrong.expected, wrong.index, wrong.got, wrong.excess
        )),
    }
}

/// Chooses distinct blocks, in order.
pub(super) fn choose_blocks(blocks: i64, count: i64, rng: &mut Rng) -> Vec<i64> {
    if count >= blocks {
        return (0..blocks).collect();
    }
    let mut chosen = std::collections::BTreeSet::new();
    while (chosen.len() as i64) < count {
        chosen.insert(rng.below(blocks as usize) as i64);
    }
    chosen.into_iter().collect()
}
