//! Who says what is right: runs the reference and the oracle and prepares their answers.

use std::time::Duration;

use warpsmith_model::lab::{Role, Workload};
use warpsmith_model::rng::Rng;
use warpsmith_model::{Hasher, Lab};

use super::store::{Store, Stored};
use super::{CorpusOptions, SetKey};
use crate::bind;
use crate::check::{self, Budget, Coverage, Expected, LEAST_ROW, Values};
use crate::element::{least_normal, narrow, widen};
use crate::error::DeviceError;
use crate::inputs;
use crate::target::{Artifact, CaseId, Extent, Fault, Program, Target, TensorPlan, Unit};

/// Who answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Answer {
    /// The reference, in f64.
    Reference,
    /// The oracle, with a sample of the reference beside it.
    Oracle,
}

impl Answer {
    fn name(self) -> &'static str {
        match self {
            Self::Reference => "the reference",
            Self::Oracle => "the oracle",
        }
    }
}

/// The reference answers a whole shape when that takes less than this.
const CHEAP_REFERENCE_S: f64 = 0.3;
/// About how long the sample of the reference beside one answer of the oracle may take.
const SAMPLE_S: f64 = 0.02;
/// And how many blocks it has at least and at most.
const LEAST_SAMPLED_BLOCKS: i64 = 4;
const MOST_SAMPLED_BLOCKS: i64 = 4096;
/// Contents that show the usual size of an output with very few elements.
const FLOOR_DRAWS: usize = 8;
/// Changes whenever the contents that a seed stands for change.
const GENERATOR_VERSION: &[u8] = b"inputs 1";

/// The reference and the oracle, compiled, and what is known of their speed.
#[derive(Debug)]
pub(super) struct Authorities {
    reference: Artifact,
    oracle: Vec<(Unit, Artifact)>,
    store: Option<Store>,
    launch_deadline: Duration,
    compile_deadline: Duration,
    /// Work (see `work_units`) a second, the best seen on a proof.
    pub(super) reference_rate: f64,
    pub(super) oracle_rate: f64,
}

/// Inputs that are both staged and at hand.
#[derive(Clone, Copy, Debug)]
pub(super) struct StagedContents<'a> {
    pub(super) id: CaseId,
    pub(super) contents: &'a [Vec<u8>],
    pub(super) seed: u64,
}

/// A right answer and what it took.
#[derive(Debug)]
pub(super) struct Answered {
    pub(super) expected: Vec<Expected>,
    pub(super) answer_s: f64,
    pub(super) sampled_blocks: u64,
}

/// What a run of an authority left: `outputs[case][output]`, outputs counted among themselves.
#[derive(Debug)]
pub(super) struct Ran {
    pub(super) outputs: Vec<Vec<Vec<u8>>>,
    /// Seconds of each case's launch.
    pub(super) elapsed_s: Vec<f64>,
}

impl Authorities {
    pub(super) fn compile(
        target: &mut dyn Target,
        lab: &Lab,
        options: &CorpusOptions,
    ) -> Result<Self, DeviceError> {
        let unit = bind::reference_unit(lab, options.compile_deadline);
        let reference = target
            .compile(&unit)
            .map_err(|fault| refused_fault(lab, "compiling the reference", fault))?;
        Ok(Self {
            reference,
            oracle: Vec::new(),
            store: options.cache_dir.clone().map(Store::open).transpose()?,
            launch_deadline: options.launch_deadline,
            compile_deadline: options.compile_deadline,
            reference_rate: 0.0,
            oracle_rate: 0.0,
        })
    }

    /// Decides who answers for a real workload.
    pub(super) fn answer_for(&self, lab: &Lab, shape: &Workload) -> Result<Answer, DeviceError> {
        let reference_s = work_units(lab, shape)? / self.reference_rate;
        Ok(if reference_s < CHEAP_REFERENCE_S { Answer::Reference } else { Answer::Oracle })
    }

    /// Estimates the seconds of one answer.
    pub(super) fn estimate_s(&self, lab: &Lab, shape: &Workload) -> Result<f64, DeviceError> {
        let rate = match self.answer_for(lab, shape)? {
            Answer::Reference => self.reference_rate,
            Answer::Oracle => self.oracle_rate,
        };
        Ok(work_units(lab, shape)? / rate)
    }

    /// Answers for one content, from the store if it is there.
    pub(super) fn answer(
        &mut self,
        target: &mut dyn Target,
        lab: &Lab,
        shape: &Workload,
        key: &SetKey,
        staged: StagedContents<'_>,
        floors: &[f64],
    ) -> Result<Answered, DeviceError> {
        let program = match key.answer {
            Answer::Reference => self.reference_program(lab, shape)?,
            Answer::Oracle => self.oracle_program(target, lab, shape)?,
        };
        let outputs: Vec<TensorPlan> = outputs_of(&bind::tensor_plans(lab, shape)?);
        let mut hasher = Hasher::new("expected outputs");
        hasher
            .part(GENERATOR_VERSION)
            .part(lab.id.to_string().as_bytes())
            .part(program.artifact.binary.to_string().as_bytes())
            .part(lab.inputs[key.inputs].name.as_bytes())
            .part(&staged.seed.to_le_bytes());
        for value in &key.axes {
            hasher.part(&value.to_le_bytes());
        }
        let name = warpsmith_model::BlobId::from(hasher).to_string();
        let stored = self.store.as_ref().and_then(|store| store.load(&name, &outputs));
        let stored = match stored {
            Some(stored) => stored,
            None => {
                let stored = match key.answer {
                    Answer::Reference => self.ask_reference(target, lab, shape, staged)?,
                    Answer::Oracle => {
                        self.ask_oracle(target, lab, shape, &program, key.inputs, staged)?
                    }
                };
                if let Some(store) = &self.store {
                    store.save(&name, &stored)?;
                }
                stored
            }
        };
        let Stored { answer_s, sampled_blocks, values } = stored;
        let expected = outputs
            .iter()
            .zip(values)
            .zip(floors)
            .map(|((plan, values), floor)| {
                Expected::new(plan, values, *floor).map_err(|bad| {
                    let inputs = &lab.inputs[key.inputs].name;
                    let reason = format!(
                        "{} gives {} at {:?} of `{}` on {} with `{inputs}` inputs; expected \
                         outputs must be finite, since a NaN would match anything",
                        key.answer.name(),
                        bad.value,
                        bad.index,
                        plan.name,
                        bind::describe_shape(shape),
                    );
                    DeviceError::refused(&lab.name, reason)
                })
            })
            .collect::<Result<Vec<_>, _>>()?;
        Ok(Answered { expected, answer_s, sampled_blocks })
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
    ) -> Result<Vec<f64>, DeviceError> {
        let plans = bind::tensor_plans(lab, shape)?;
        let outputs = outputs_of(&plans);
        if outputs.iter().all(|plan| plan.elements() >= LEAST_ROW) {
            return Ok(vec![0.0; outputs.len()]);
        }
        let name = format!("{} (usual size)", lab.inputs[inputs].name);
        let drawn: Vec<Vec<Vec<u8>>> = (0..FLOOR_DRAWS)
            .map(|idx| {
                let seed = inputs::content_seed(seed, &shape.axes, &name, idx);
                inputs::contents(&plans, &lab.inputs[inputs], seed)
            })
            .collect();
        let ran = match answer {
            Answer::Reference => self.run_reference(target, lab, shape, &drawn, &Extent::All, 1)?,
            Answer::Oracle => {
                let program = self.oracle_program(target, lab, shape)?;
                let run =
                    Run { program: &program, who: "the oracle", extent: &Extent::All, times: 1 };
                self.run_staged(target, lab, shape, run, &plans, &drawn)?
            }
        };
        let dtype_of = |plan: &TensorPlan| match answer {
            Answer::Reference => warpsmith_model::DType::F64,
            Answer::Oracle => plan.dtype,
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
                    .flat_map(|case| widen(dtype_of(plan), &case[output]))
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
        staged: StagedContents<'_>,
    ) -> Result<Stored, DeviceError> {
        let contents = [staged.contents.to_vec()];
        let ran = self.run_reference(target, lab, shape, &contents, &Extent::All, 1)?;
        let values = ran.outputs[0]
            .iter()
            .map(|bytes| Values::from_bytes(warpsmith_model::DType::F64, bytes))
            .collect();
        Ok(Stored { answer_s: ran.elapsed_s[0], sampled_blocks: 0, values })
    }

    /// Lets the oracle answer and compares a random sample of the reference's blocks with it.
    fn ask_oracle(
        &mut self,
        target: &mut dyn Target,
        lab: &Lab,
        shape: &Workload,
        program: &Program,
        inputs: usize,
        staged: StagedContents<'_>,
    ) -> Result<Stored, DeviceError> {
        let run = Run { program, who: "the oracle", extent: &Extent::All, times: 1 };
        let ran = self.run(target, lab, shape, run, &[staged.id])?;
        let plans = outputs_of(&program.tensors);
        let values: Vec<Values> = plans
            .iter()
            .zip(&ran.outputs[0])
            .map(|(plan, bytes)| Values::from_bytes(plan.dtype, bytes))
            .collect();

        let blocks = self.reference_program(lab, shape)?.launches[0].blocks;
        let reference_s = work_units(lab, shape)? / self.reference_rate;
        let affordable = (blocks as f64 * SAMPLE_S / reference_s) as i64;
        let sample = choose_blocks(
            blocks,
            affordable.clamp(LEAST_SAMPLED_BLOCKS, MOST_SAMPLED_BLOCKS),
            &mut Rng::derive(staged.seed, "sampled blocks"),
        );
        let sampled_blocks = sample.len() as u64;
        let contents = [staged.contents.to_vec()];
        let extent = Extent::Blocks(sample);
        let sampled = self.run_reference(target, lab, shape, &contents, &extent, 1)?;
        for ((plan, values), partial) in plans.iter().zip(&values).zip(&sampled.outputs[0]) {
            let budget =
                Budget::new(&lab.tolerance, lab.inputs[inputs].tolerance_scale, plan.dtype);
            // The reference's blocks are judged by the oracle: the bound is symmetric, and the
            // oracle's output is whole, so its rows have a scale.
            let wide = TensorPlan { dtype: warpsmith_model::DType::F64, ..plan.clone() };
            let judged = Expected::new(&wide, values.clone(), least_normal(plan.dtype))
                .map_err(|bad| format!("the oracle gives {} at {:?}", bad.value, bad.index))
                .and_then(|oracle| {
                    check::compare(partial, &oracle, &budget, &Coverage::Written).map_err(|wrong| {
                        format!(
                            "the oracle says {} at {:?}, the reference {} ({:.1}x the bound)",
                            wrong.expected, wrong.index, wrong.got, wrong.excess
                        )
                    })
                });
            if let Err(what) = judged {
                let reason = format!(
                    "the oracle `{}` disagrees with the reference in `{}` on {} with `{}` inputs \
                     (seed {}): {what}",
                    lab.oracle,
                    plan.name,
                    bind::describe_shape(shape),
                    lab.inputs[inputs].name,
                    staged.seed
                );
                return Err(DeviceError::refused(&lab.name, reason));
            }
        }
        Ok(Stored { answer_s: ran.elapsed_s[0], sampled_blocks, values })
    }

    fn reference_program(&self, lab: &Lab, shape: &Workload) -> Result<Program, DeviceError> {
        bind::reference_program(lab, shape, self.reference.clone())
    }

    /// Returns the oracle, compiled for a shape, with its author's choice of parameters.
    pub(super) fn oracle_program(
        &mut self,
        target: &mut dyn Target,
        lab: &Lab,
        shape: &Workload,
    ) -> Result<Program, DeviceError> {
        let kernel = lab.kernel(&lab.oracle).ok_or_else(|| {
            DeviceError::refused(&lab.name, format!("its oracle `{}` does not exist", lab.oracle))
        })?;
        let served = kernel.serves(shape).map_err(|source| DeviceError::Expression {
            what: format!("`requires` of the oracle `{}`", lab.oracle),
            source,
        })?;
        if !served {
            let reason = format!(
                "its oracle `{}` does not serve {}; the oracle must serve every shape",
                lab.oracle,
                bind::describe_shape(shape)
            );
            return Err(DeviceError::refused(&lab.name, reason));
        }
        let unit = bind::kernel_unit(lab, kernel, &kernel.default, shape, self.compile_deadline)?;
        let artifact = match self.oracle.iter().find(|(known, _)| *known == unit) {
            Some((_, artifact)) => artifact.clone(),
            None => {
                let artifact = target
                    .compile(&unit)
                    .map_err(|fault| refused_fault(lab, "compiling the oracle", fault))?;
                self.oracle.push((unit, artifact.clone()));
                artifact
            }
        };
        bind::kernel_program(lab, kernel, &kernel.default, shape, target.info(), artifact)
    }

    /// Runs the reference on contents of the lab's own types, widened.
    pub(super) fn run_reference(
        &self,
        target: &mut dyn Target,
        lab: &Lab,
        shape: &Workload,
        contents: &[Vec<Vec<u8>>],
        extent: &Extent,
        times: usize,
    ) -> Result<Ran, DeviceError> {
        let program = self.reference_program(lab, shape)?;
        let plans = bind::tensor_plans(lab, shape)?;
        let inputs: Vec<&TensorPlan> =
            plans.iter().filter(|plan| plan.role == Role::Input).collect();
        let wide: Vec<Vec<Vec<u8>>> = contents
            .iter()
            .map(|tensors| {
                let widen_one = |(plan, bytes): (&&TensorPlan, &Vec<u8>)| {
                    narrow(warpsmith_model::DType::F64, &widen(plan.dtype, bytes))
                };
                inputs.iter().zip(tensors).map(widen_one).collect()
            })
            .collect();
        let run = Run { program: &program, who: "the reference", extent, times };
        self.run_staged(target, lab, shape, run, &program.tensors, &wide)
    }

    /// Stages contents for one run alone.
    fn run_staged(
        &self,
        target: &mut dyn Target,
        lab: &Lab,
        shape: &Workload,
        run: Run<'_>,
        plans: &[TensorPlan],
        contents: &[Vec<Vec<u8>>],
    ) -> Result<Ran, DeviceError> {
        let mut ids = Vec::new();
        let mut staged = Ok(());
        for tensors in contents {
            match target.stage(plans, tensors) {
                Ok(id) => ids.push(id),
                Err(source) => {
                    let doing = format!("staging inputs of `{}`", shape.name);
                    staged = Err(DeviceError::Target { doing, source });
                    break;
                }
            }
        }
        let ran = staged.and_then(|()| self.run(target, lab, shape, run, &ids));
        for id in ids {
            target.unstage(id);
        }
        ran
    }

    /// Runs an authority on staged cases, each as often as asked; every time must give the same.
    pub(super) fn run(
        &self,
        target: &mut dyn Target,
        lab: &Lab,
        shape: &Workload,
        run: Run<'_>,
        ids: &[CaseId],
    ) -> Result<Ran, DeviceError> {
        let doing = format!("{} on {}", run.who, bind::describe_shape(shape));
        let broken = |fault: Fault| refused_fault(lab, &doing, fault);
        let mut session = target.open(run.program, ids, self.launch_deadline).map_err(broken)?;
        let outputs = bind::indices_of(&run.program.tensors, Role::Output);
        let mut ran = Ran { outputs: Vec::new(), elapsed_s: Vec::new() };
        for case in 0..ids.len() {
            let clocked = session.launch(&[case], run.extent).map_err(broken)?;
            if let Some(tensor) = session.overwritten_guard(case) {
                let name = &run.program.tensors[tensor].name;
                let reason = format!("{doing}: it wrote beside `{name}`");
                return Err(DeviceError::refused(&lab.name, reason));
            }
            let first: Vec<Vec<u8>> =
                outputs.iter().map(|tensor| session.output(case, *tensor).to_vec()).collect();
            for _ in 1..run.times {
                session.poison(case);
                session.launch(&[case], run.extent).map_err(broken)?;
                for (tensor, first) in outputs.iter().zip(&first) {
                    let plan = &run.program.tensors[*tensor];
                    if check::compare_bits(plan, first, session.output(case, *tensor)).is_err() {
                        let name = &plan.name;
                        let reason =
                            format!("{doing}: `{name}` is not the same when it runs twice");
                        return Err(DeviceError::refused(&lab.name, reason));
                    }
                }
            }
            ran.outputs.push(first);
            ran.elapsed_s.push(clocked.elapsed_s);
        }
        Ok(ran)
    }
}

/// One run of an authority.
#[derive(Clone, Copy, Debug)]
pub(super) struct Run<'a> {
    pub(super) program: &'a Program,
    pub(super) who: &'a str,
    pub(super) extent: &'a Extent,
    pub(super) times: usize,
}

/// Turns a fault of the reference or the oracle into a refusal of the lab, unless we broke.
fn refused_fault(lab: &Lab, doing: &str, fault: Fault) -> DeviceError {
    match fault {
        Fault::Compile { message, log } => {
            DeviceError::refused(&lab.name, format!("{doing} failed: {message}\n{log}"))
        }
        Fault::Crashed(_) | Fault::TimedOut { .. } => {
            DeviceError::refused(&lab.name, format!("{doing}: {fault}"))
        }
        Fault::Unavailable(_) | Fault::Broken { .. } => {
            DeviceError::Target { doing: doing.to_string(), source: fault }
        }
    }
}

/// Returns the size of a shape's work: operations and bytes together, so that labs that only move
/// data have a rate too.
pub(super) fn work_units(lab: &Lab, shape: &Workload) -> Result<f64, DeviceError> {
    let work = bind::work_size(lab, shape)?;
    Ok((work.flops + work.bytes).max(1.0))
}

pub(super) fn outputs_of(plans: &[TensorPlan]) -> Vec<TensorPlan> {
    plans.iter().filter(|plan| plan.role == Role::Output).cloned().collect()
}

/// Chooses distinct blocks, in order.
fn choose_blocks(blocks: i64, count: i64, rng: &mut Rng) -> Vec<i64> {
    if count >= blocks {
        return (0..blocks).collect();
    }
    let mut chosen = std::collections::BTreeSet::new();
    while (chosen.len() as i64) < count {
        chosen.insert(rng.below(blocks as usize) as i64);
    }
    chosen.into_iter().collect()
}
