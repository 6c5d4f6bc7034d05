//! Measures what a plain implementation in the output's own precision is off by, to propose tolerances.
//!
//! The plain implementation is the lab's reference, compiled again with `float` in place of `double`: the same
//! sums in the same order, every one rounded to single precision, and the output rounded to its type. Where
//! outputs are f64 the reference is that itself; it is compiled to sum in another order instead. Both run on
//! the same contents, on proof shapes and the workloads, on large ones a sample of blocks.

use std::sync::Arc;

use warpsmith_device::poison::is_poison;
use warpsmith_device::target::{Contents, Extent, Fault, Program, Target, TensorPlan, Unit};
use warpsmith_model::lab::{Role, Workload};
use warpsmith_model::rng::Rng;
use warpsmith_model::{DType, ErrorSize, Lab};

use super::CorpusOptions;
use super::answers::choose_blocks;
use super::authority::{Answer, Authorities, Run, outputs_of, work_units};
use crate::bind;
use crate::check::{self, Coverage, ErrorBudget, Expected, Values};
use crate::element::{narrow, widen};
use crate::error::GateError;
use crate::inputs;

/// Seconds of the reference for one content; on larger shapes a sample of blocks must do.
const SAMPLE_S: f64 = 0.05;
const LEAST_BLOCKS: i64 = 16;
/// Contents of each small shape and distribution.
const DRAWS: usize = 2;

/// Makes a C source compute in single precision. Headers that it may include come first, so that they keep
/// their own `double`; `tgmath.h` chooses the functions for `float`.
const IN_SINGLE: &str = "#include <float.h>\n#include <limits.h>\n#include <math.h>\n#include <stdbool.h>\n\
    #include <stddef.h>\n#include <stdint.h>\n#include <stdlib.h>\n#include <string.h>\n#include <tgmath.h>\n\
    #define double float\n#line 1\n";

/// What a plain implementation is off by under one distribution.
#[derive(Clone, Debug, PartialEq)]
pub struct PlainOffset {
    /// The name of the distribution.
    pub inputs: String,
    /// The worst error of an element and the worst norm, in units of the output type's epsilon.
    pub worst: ErrorSize,
    /// The shape with the worst element.
    pub at: String,
    /// What is wrong with the plain implementation there, where it is beyond any tolerance.
    pub beyond: Option<String>,
}

/// Runs the reference and its plain twin on these shapes, under every distribution of the lab.
pub fn plain_offsets(
    target: &mut dyn Target,
    lab: &Lab,
    shapes: &[Workload],
    options: &CorpusOptions,
    seed: u64,
) -> Result<Vec<PlainOffset>, GateError> {
    let Some(unit) = plain_unit(lab, options) else {
        let reason = "its reference is a script, which cannot be compiled in another precision; set the \
                      tolerances by a plain kernel's errors, which `warpsmith check` prints";
        return Err(GateError::refused(&lab.name, reason));
    };
    let mut plain = Plain {
        authorities: Authorities::compile(target, lab, options)?,
        dtype: plain_dtype(lab),
        artifact: target.compile(&unit).map_err(|fault| {
            let doing = "compiling the reference in the outputs' precision";
            match fault {
                Fault::Compile { message, log } => {
                    GateError::refused(&lab.name, format!("{doing} failed: {message}\n{log}"))
                }
                source => GateError::Target { doing: doing.to_string(), source },
            }
        })?,
    };
    let mut offsets: Vec<PlainOffset> = lab
        .inputs
        .iter()
        .map(|inputs| PlainOffset {
            inputs: inputs.name.clone(),
            worst: ErrorSize::default(),
            at: String::new(),
            beyond: None,
        })
        .collect();
    for shape in shapes {
        let shape = bind::with_drawn_scalars(lab, shape, seed)?;
        for (idx, offset) in offsets.iter_mut().enumerate() {
            // Large shapes have elements enough to show the worst.
            let is_small = lab.proofs.iter().any(|proof| proof.axes == shape.axes);
            for draw in 0..if is_small { DRAWS } else { 1 } {
                plain.measure(target, lab, &shape, idx, seed.wrapping_add(draw as u64), offset)?;
            }
        }
    }
    Ok(offsets)
}

struct Plain {
    authorities: Authorities,
    dtype: DType,
    artifact: warpsmith_device::target::Artifact,
}

/// The type that a plain implementation computes in.
fn plain_dtype(lab: &Lab) -> DType {
    let shape = &lab.workloads[0];
    let mut outputs = lab.tensors.iter().filter(|tensor| tensor.role == Role::Output);
    match outputs.all(|tensor| tensor.dtype_on(shape) == DType::F64) {
        true => DType::F64,
        false => DType::F32,
    }
}

fn plain_unit(lab: &Lab, options: &CorpusOptions) -> Option<Unit> {
    let mut unit = bind::reference_unit(lab, options.compile_deadline)?;
    if plain_dtype(lab) == DType::F64 {
        let reorders = "-O3 -march=native -fassociative-math -fno-signed-zeros -fno-trapping-math \
                        -ffp-contract=fast -lm";
        unit.flags = reorders.split_whitespace().map(str::to_string).collect();
    } else {
        // What the harness appends is in double precision as ever.
        unit.source = format!("{IN_SINGLE}{}\n#undef double\n", unit.source);
        unit.signature = bind::reference_signature(lab, DType::F32);
        unit.flags.push("-fsingle-precision-constant".to_string());
    }
    unit.file_name = format!("plain_{}", unit.file_name);
    Some(unit)
}

impl Plain {
    fn measure(
        &mut self,
        target: &mut dyn Target,
        lab: &Lab,
        shape: &Workload,
        inputs: usize,
        seed: u64,
        offset: &mut PlainOffset,
    ) -> Result<(), GateError> {
        let plans = bind::tensor_plans(lab, shape)?;
        let distribution = &lab.inputs[inputs];
        let seed = inputs::content_seed(seed, &shape.axes, &distribution.name, 0);
        let contents = inputs::contents(&plans, distribution, seed);
        let extent = self.extent(lab, shape, seed)?;
        let extents = std::slice::from_ref(&extent);
        let right = self.authorities.run_reference(target, lab, shape, &[&contents], extents, 1)?;
        if extent == Extent::All {
            let rate = work_units(lab, shape)? / right.elapsed_s[0].max(1e-9);
            self.authorities.reference_rate = self.authorities.reference_rate.max(rate);
        }
        let program = self.program(lab, shape)?;
        let input_plans = plans.iter().filter(|plan| plan.role == Role::Input);
        let own: Contents = Arc::new(
            input_plans
                .zip(&contents)
                .map(|(plan, bytes)| narrow(self.dtype, &widen(plan.dtype, bytes)))
                .collect(),
        );
        let run =
            Run { program: &program, who: "the reference in plain precision", extents, times: 1 };
        let plain =
            self.authorities.run_staged(target, lab, shape, run, &program.tensors, &[own])?;
        let floors =
            self.authorities.floors(target, lab, shape, inputs, seed, Answer::Reference)?;
        let outputs = outputs_of(&plans);
        for (idx, plan) in outputs.iter().enumerate() {
            let (right, plain) = (&right.outputs[0][idx], &plain.outputs[0][idx]);
            let floor = floors[idx];
            let (plan, right, plain) = if extent == Extent::All {
                (plan.clone(), widen(DType::F64, right), widen(self.dtype, plain))
            } else {
                written(plan, right, self.dtype, plain)
            };
            let measured = off_by(lab, shape, &plan, right, &plain, floor)?;
            let place = bind::describe_shape(shape);
            match measured {
                Ok(error) => {
                    if error.element_eps > offset.worst.element_eps || offset.at.is_empty() {
                        offset.at = place;
                    }
                    offset.worst = offset.worst.worse(error);
                }
                Err(wrong) => offset.beyond = Some(format!("{wrong} on {place}")),
            }
        }
        Ok(())
    }

    /// Returns all blocks where the reference is quick, else a sample of them.
    fn extent(&self, lab: &Lab, shape: &Workload, seed: u64) -> Result<Extent, GateError> {
        let blocks = self.authorities.reference_program(lab, shape)?.launches[0].blocks;
        let rate = self.authorities.reference_rate;
        if rate == 0.0 {
            return Ok(Extent::All);
        }
        let affordable = (blocks as f64 * SAMPLE_S * rate / work_units(lab, shape)?) as i64;
        let count = affordable.max(LEAST_BLOCKS);
        if count >= blocks {
            return Ok(Extent::All);
        }
        let mut rng = Rng::derive(seed, "calibrated blocks");
        Ok(Extent::Blocks(choose_blocks(blocks, count, &mut rng)))
    }

    fn program(&self, lab: &Lab, shape: &Workload) -> Result<Program, GateError> {
        let mut program = bind::reference_program(lab, shape, self.artifact.clone())?;
        for tensor in &mut program.tensors {
            tensor.dtype = self.dtype;
        }
        Ok(program)
    }
}

/// Gathers the elements that a sample of blocks wrote, whole rows of them where blocks write rows.
fn written(
    plan: &TensorPlan,
    right: &[u8],
    dtype: DType,
    plain: &[u8],
) -> (TensorPlan, Vec<f64>, Vec<f64>) {
    let wide = DType::F64.size();
    let kept: Vec<usize> = (0..plan.elements())
        .filter(|idx| !is_poison(DType::F64, &right[idx * wide..(idx + 1) * wide]))
        .collect();
    let (right, plain) = (widen(DType::F64, right), widen(dtype, plain));
    let row = plan.shape.last().map_or(1, |extent| *extent as usize);
    let is_rows = plan.shape.len() > 1 && kept.len().is_multiple_of(row);
    let shape = match is_rows {
        true => vec![(kept.len() / row) as u64, row as u64],
        false => vec![kept.len() as u64],
    };
    let pick = |values: &[f64]| kept.iter().map(|idx| values[*idx]).collect();
    (TensorPlan { shape, ..plan.clone() }, pick(&right), pick(&plain))
}

/// Returns how far a plain output is off once it is rounded to its type, or what is wrong with it.
fn off_by(
    lab: &Lab,
    shape: &Workload,
    plan: &TensorPlan,
    right: Vec<f64>,
    plain: &[f64],
    floor: f64,
) -> Result<Result<ErrorSize, String>, GateError> {
    let expected = Expected::new(plan, Values::Double(right), floor).map_err(|bad| {
        let place = bind::describe_shape(shape);
        let reason = format!("the reference gives {} at {:?} on {place}", bad.value, bad.index);
        GateError::refused(&lab.name, reason)
    })?;
    let anything = ErrorBudget { element: f64::MAX, norm: f64::MAX, epsilon: plan.dtype.epsilon() };
    let bytes = narrow(plan.dtype, plain);
    let compared = check::compare(&bytes, &expected, &anything, &Coverage::Whole);
    Ok(compared.map_err(|wrong| format!("{} where {} is right", wrong.got, wrong.expected)))
}

/// Tolerances that follow from what a plain implementation is off by.
#[derive(Clone, Debug, PartialEq)]
pub struct ProposedTolerances {
    /// For each element.
    pub element_eps: f64,
    /// For the whole.
    pub norm_eps: f64,
    /// What widens both, for each distribution.
    pub scales: Vec<f64>,
}

/// Distributions that are off by less than this times the first one's error share its tolerance; others have
/// a wider one of their own, so that they do not widen everybody's.
const SHARED: f64 = 3.0;
/// Roundings that every implementation may add: of the output, and of an input or a factor.
const ROUNDINGS: (f64, f64) = (1.0, 0.5);

/// Proposes tolerances: so many times what a plain implementation is off by, and a rounding.
pub fn propose(offsets: &[PlainOffset], safety: f64) -> ProposedTolerances {
    let sizes = |offset: &PlainOffset| {
        (
            safety * offset.worst.element_eps + ROUNDINGS.0,
            safety * offset.worst.norm_eps + ROUNDINGS.1,
        )
    };
    let first = offsets.first().map_or((ROUNDINGS.0, ROUNDINGS.1), sizes);
    let is_shared = |size: &(f64, f64)| size.0 <= SHARED * first.0 && size.1 <= SHARED * first.1;
    let (element, norm) = offsets
        .iter()
        .map(sizes)
        .filter(is_shared)
        .fold(first, |most, size| (most.0.max(size.0), most.1.max(size.1)));
    let (element_eps, norm_eps) = (two_digits_up(element), two_digits_up(norm));
    let scales = offsets
        .iter()
        .map(sizes)
        .map(|size| two_digits_up((size.0 / element_eps).max(size.1 / norm_eps).max(1.0)))
        .collect();
    ProposedTolerances { element_eps, norm_eps, scales }
}

/// Rounds up to two digits.
fn two_digits_up(value: f64) -> f64 {
    let unit = 10f64.powf(value.log10().floor() - 1.0);
    let digits = (value / unit - 1e-9).ceil();
    // Division by a power of ten gives the nearest number to the decimal one.
    if unit < 1.0 { digits / (1.0 / unit).round() } else { digits * unit.round() }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn offset(element_eps: f64, norm_eps: f64) -> PlainOffset {
        PlainOffset {
            inputs: "some".to_string(),
            worst: ErrorSize { element_eps, norm_eps, ..ErrorSize::default() },
            at: String::new(),
            beyond: None,
        }
    }

    #[test]
    fn a_distribution_that_is_much_worse_widens_its_own_tolerance_alone() {
        let proposal = propose(&[offset(10.0, 1.0), offset(20.0, 1.5), offset(410.0, 30.0)], 2.0);
        assert_eq!((proposal.element_eps, proposal.norm_eps), (41.0, 3.5));
        assert_eq!(proposal.scales, [1.0, 1.0, 21.0]);
    }

    #[test]
    fn an_exact_implementation_may_still_round() {
        let proposal = propose(&[offset(0.0, 0.0)], 2.0);
        assert_eq!((proposal.element_eps, proposal.norm_eps), (1.0, 0.5));
        assert_eq!(proposal.scales, [1.0]);
    }

    #[test]
    fn proposals_have_two_digits_and_are_never_too_small() {
        for (value, rounded) in [
            (0.123, 0.13),
            (1.0, 1.0),
            (9.91, 10.0),
            (41.0, 41.0),
            (123.0, 130.0),
            (4567.0, 4600.0),
        ] {
            assert_eq!(two_digits_up(value), rounded, "{value}");
        }
    }
}
