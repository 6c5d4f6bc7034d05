//! Who says what is right: the reference and the oracle, compiled and run.

use std::sync::Arc;
use std::time::Duration;

use warpsmith_device::baseline::{Call, ScriptReference};
use warpsmith_device::poison::Poison;
use warpsmith_device::target::{
    Artifact, CaseId, Contents, Extent, Fault, Program, Target, TensorPlan, Unit,
};
use warpsmith_device::trace;
use warpsmith_model::lab::{ReferenceProgram, Role, TargetKind, Workload};
use warpsmith_model::{DType, Lab};

use super::CorpusOptions;
use super::store::Store;
use crate::bind;
use crate::check;
use crate::element::widen_bytes;
use crate::error::GateError;

/// Who answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Answer {
    /// The reference, in f64.
    Reference,
    /// The oracle, with a sample of the reference beside it.
    Oracle,
}

impl Answer {
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Reference => "the reference",
            Self::Oracle => "the oracle",
        }
    }
}

/// The reference answers a whole shape when that takes less than this.
const CHEAP_REFERENCE_S: f64 = 0.3;
/// A CUDA kernel takes microseconds, and one reading of the clock wants dozens of contents.
const CHEAP_REFERENCE_BESIDE_CUDA_S: f64 = 0.01;

/// The reference and the oracle, compiled, and what is known of their speed.
#[derive(Debug)]
pub(super) struct Authorities {
    reference: ReferenceHost,
    oracle: Vec<(Unit, Artifact)>,
    pub(super) store: Option<Store>,
    /// The first thing that went wrong with the store: it is a cache, and no answer depends on it.
    pub(super) store_trouble: Option<GateError>,
    launch_deadline: Duration,
    compile_deadline: Duration,
    /// Work (see `work_units`) a second, the best seen on a proof.
    pub(super) reference_rate: f64,
    pub(super) oracle_rate: f64,
}

/// What runs the reference.
#[derive(Debug)]
enum ReferenceHost {
    /// The target, as it runs kernels.
    Compiled(Artifact),
    /// An interpreter.
    Script(Box<ScriptReference>),
}

/// What a run of an authority left: `outputs[case][output]`, outputs counted among themselves.
#[derive(Debug)]
pub(super) struct Ran {
    pub(super) outputs: Vec<Vec<Vec<u8>>>,
    /// Seconds of each case's fastest launch.
    pub(super) elapsed_s: Vec<f64>,
}

impl Authorities {
    pub(super) fn compile(
        target: &mut dyn Target,
        lab: &Lab,
        options: &CorpusOptions,
    ) -> Result<Self, GateError> {
        let reference =
            match (&lab.reference.program, bind::reference_unit(lab, options.compile_deadline)) {
                (ReferenceProgram::Script(script), _) => {
                    let threads = target.info().threads;
                    let path = &lab.reference.path;
                    let started = ScriptReference::start(&options.python, path, script, threads);
                    let started = started
                        .map_err(|fault| refused_fault(lab, "loading the reference", fault))?;
                    ReferenceHost::Script(Box::new(started))
                }
                (ReferenceProgram::Function { .. }, unit) => {
                    let unit = unit.expect("a function is compiled");
                    let compiled = target.compile(&unit);
                    let compiled = compiled
                        .map_err(|fault| refused_fault(lab, "compiling the reference", fault))?;
                    ReferenceHost::Compiled(compiled)
                }
            };
        let (store, store_trouble) = match options.cache_dir.clone().map(Store::open).transpose() {
            Ok(store) => (store, None),
            Err(error) => (None, Some(error)),
        };
        Ok(Self {
            reference,
            oracle: Vec::new(),
            store,
            store_trouble,
            launch_deadline: options.launch_deadline,
            compile_deadline: options.compile_deadline,
            reference_rate: 0.0,
            oracle_rate: 0.0,
        })
    }

    /// Decides who answers for a real workload.
    pub(super) fn answer_for(&self, lab: &Lab, shape: &Workload) -> Result<Answer, GateError> {
        if lab.oracle.is_none() {
            return Ok(Answer::Reference);
        }
        let reference_s = work_units(lab, shape)? / self.reference_rate;
        let cheap_s = match lab.target {
            TargetKind::Cpu => CHEAP_REFERENCE_S,
            TargetKind::Cuda => CHEAP_REFERENCE_BESIDE_CUDA_S,
        };
        Ok(if reference_s < cheap_s { Answer::Reference } else { Answer::Oracle })
    }

    /// Estimates the seconds of one answer.
    pub(super) fn estimate_s(&self, lab: &Lab, shape: &Workload) -> Result<f64, GateError> {
        let rate = match self.answer_for(lab, shape)? {
            Answer::Reference => self.reference_rate,
            Answer::Oracle => self.oracle_rate,
        };
        Ok(work_units(lab, shape)? / rate)
    }

    pub(super) fn reference_program(
        &self,
        lab: &Lab,
        shape: &Workload,
    ) -> Result<Program, GateError> {
        match &self.reference {
            ReferenceHost::Compiled(artifact) => {
                bind::reference_program(lab, shape, artifact.clone())
            }
            ReferenceHost::Script(_) => {
                let reason = "its reference is a script, which has no blocks";
                Err(GateError::refused(&lab.name, reason))
            }
        }
    }

    /// Names what computes in the reference: answers of another binary, or of other libraries, are others.
    pub(super) fn reference_identity(&self) -> String {
        match &self.reference {
            ReferenceHost::Compiled(artifact) => artifact.binary.to_string(),
            ReferenceHost::Script(script) => script.versions().to_string(),
        }
    }

    /// Returns the oracle, compiled for a shape, with its author's choice of parameters.
    pub(super) fn oracle_program(
        &mut self,
        target: &mut dyn Target,
        lab: &Lab,
        shape: &Workload,
    ) -> Result<Program, GateError> {
        let name = oracle_name(lab);
        let kernel = lab.kernel(name).ok_or_else(|| {
            GateError::refused(&lab.name, format!("its oracle `{name}` does not exist"))
        })?;
        let served = kernel.serves(shape).map_err(|source| GateError::Expression {
            what: format!("`requires` of the oracle `{name}`"),
            source,
        })?;
        if !served {
            let reason = format!(
                "its oracle `{name}` does not serve {}; the oracle must serve every shape",
                bind::describe_shape(shape)
            );
            return Err(GateError::refused(&lab.name, reason));
        }
        let (params, deadline) = (&kernel.default, self.compile_deadline);
        let mut unit = bind::kernel_unit(lab, kernel, params, shape, target.info(), deadline)?;
        if lab.target == TargetKind::Cuda {
            // Its answers shall not be limited by the outputs' own precision.
            unit.defines.push(("WS_ORACLE".to_string(), "1".to_string()));
        }
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
        let mut program =
            bind::kernel_program(lab, kernel, params, shape, target.info(), artifact)?;
        if lab.target == TargetKind::Cuda {
            for tensor in program.tensors.iter_mut().filter(|tensor| tensor.role == Role::Output) {
                tensor.dtype = oracle_dtype(tensor.dtype);
            }
        }
        Ok(program)
    }

    /// Runs the reference on contents of the lab's own types, widened.
    pub(super) fn run_reference(
        &mut self,
        target: &mut dyn Target,
        lab: &Lab,
        shape: &Workload,
        contents: &[&[Vec<u8>]],
        extents: &[Extent],
        times: usize,
    ) -> Result<Ran, GateError> {
        let _step = trace::step("running the reference");
        let plans = bind::tensor_plans(lab, shape)?;
        let inputs: Vec<&TensorPlan> =
            plans.iter().filter(|plan| plan.role == Role::Input).collect();
        let widening = trace::step("widening inputs");
        let wide: Vec<Contents> = contents
            .iter()
            .map(|tensors| {
                let widen_one =
                    |(plan, bytes): (&&TensorPlan, &Vec<u8>)| widen_bytes(plan.dtype, bytes);
                Arc::new(inputs.iter().zip(*tensors).map(widen_one).collect())
            })
            .collect();
        drop(widening);
        if matches!(self.reference, ReferenceHost::Script(_)) {
            return self.run_script(lab, shape, &plans, &wide, times);
        }
        let program = self.reference_program(lab, shape)?;
        let run = Run { program: &program, who: "the reference", extents, times };
        self.run_staged(target, lab, shape, run, &program.tensors, &wide)
    }

    /// Runs the script on whole shapes; every time must give the same.
    fn run_script(
        &mut self,
        lab: &Lab,
        shape: &Workload,
        plans: &[TensorPlan],
        contents: &[Contents],
        times: usize,
    ) -> Result<Ran, GateError> {
        let scalars = bind::scalar_values(lab, shape)?;
        let names = lab.scalars.iter().map(|scalar| scalar.name.clone());
        let call = Call {
            axes: shape.axes.clone(),
            scalars: names.zip(scalars).collect(),
            tensors: bind::widened(plans),
        };
        let ReferenceHost::Script(script) = &mut self.reference else {
            return Err(GateError::refused(&lab.name, "its reference is no script"));
        };
        let work = work_units(lab, shape)?;
        let doing = format!("the reference on {}", bind::describe_shape(shape));
        let outputs = outputs_of(&call.tensors);
        let mut ran = Ran { outputs: Vec::new(), elapsed_s: Vec::new() };
        for inputs in contents {
            let mut ask = || {
                let answer = script.run(&call, inputs, self.launch_deadline);
                answer.map_err(|fault| refused_fault(lab, &doing, fault))
            };
            let (first, mut elapsed_s) = ask()?;
            for _ in 1..times {
                let (again, again_s) = ask()?;
                elapsed_s = again_s.min(elapsed_s);
                for (plan, (first, again)) in outputs.iter().zip(first.iter().zip(&again)) {
                    if check::compare_bits(plan, first, again).is_err() {
                        let reason =
                            format!("{doing}: `{}` is not the same when it runs twice", plan.name);
                        return Err(GateError::refused(&lab.name, reason));
                    }
                }
            }
            // An interpreter is slow on small shapes, where the proofs are; real ones tell its speed.
            self.reference_rate = self.reference_rate.max(work / elapsed_s.max(1e-9));
            ran.outputs.push(first);
            ran.elapsed_s.push(elapsed_s);
        }
        Ok(ran)
    }

    /// Stages contents for one run alone.
    pub(super) fn run_staged(
        &self,
        target: &mut dyn Target,
        lab: &Lab,
        shape: &Workload,
        run: Run<'_>,
        plans: &[TensorPlan],
        contents: &[Contents],
    ) -> Result<Ran, GateError> {
        let mut ids = Vec::new();
        let mut staged = Ok(());
        let staging = trace::step("staging inputs of an authority");
        for tensors in contents {
            match target.stage(plans, tensors) {
                Ok(id) => ids.push(id),
                Err(source) => {
                    let doing = format!("staging inputs of `{}`", shape.name);
                    staged = Err(GateError::Target { doing, source });
                    break;
                }
            }
        }
        drop(staging);
        let ran = staged.and_then(|()| self.run(target, lab, shape, run, &ids));
        for id in ids {
            target.unstage(id);
        }
        ran
    }

    /// Runs an authority on staged cases, each as often as asked; every time must give the same. One that
    /// somebody else kills is run once more.
    pub(super) fn run(
        &self,
        target: &mut dyn Target,
        lab: &Lab,
        shape: &Workload,
        run: Run<'_>,
        ids: &[CaseId],
    ) -> Result<Ran, GateError> {
        match self.run_once(target, lab, shape, run, ids) {
            Err(GateError::Target { source: Fault::Crashed(_), .. }) => {
                self.run_once(target, lab, shape, run, ids)
            }
            ran => ran,
        }
    }

    fn run_once(
        &self,
        target: &mut dyn Target,
        lab: &Lab,
        shape: &Workload,
        run: Run<'_>,
        ids: &[CaseId],
    ) -> Result<Ran, GateError> {
        let doing = format!("{} on {}", run.who, bind::describe_shape(shape));
        let broken = |fault: Fault| refused_fault(lab, &doing, fault);
        let mut session = target.open(run.program, ids, self.launch_deadline).map_err(broken)?;
        let outputs = bind::indices_of(&run.program.tensors, Role::Output);
        let mut ran = Ran { outputs: Vec::new(), elapsed_s: Vec::new() };
        for case in 0..ids.len() {
            let extent = &run.extents[case % run.extents.len()];
            let mut elapsed_s = session.launch(&[case], extent).map_err(broken)?.elapsed_s;
            if let Some(tensor) = session.overwritten_guard(case) {
                let name = &run.program.tensors[tensor].name;
                let reason = format!("{doing}: it wrote beside `{name}`");
                return Err(GateError::refused(&lab.name, reason));
            }
            let first: Vec<Vec<u8>> =
                outputs.iter().map(|tensor| session.output(case, *tensor).to_vec()).collect();
            for _ in 1..run.times {
                session.poison(case, Poison::Nan);
                let again_s = session.launch(&[case], extent).map_err(broken)?.elapsed_s;
                elapsed_s = elapsed_s.min(again_s);
                for (tensor, first) in outputs.iter().zip(&first) {
                    let plan = &run.program.tensors[*tensor];
                    if check::compare_bits(plan, first, session.output(case, *tensor)).is_err() {
                        let name = &plan.name;
                        let reason =
                            format!("{doing}: `{name}` is not the same when it runs twice");
                        return Err(GateError::refused(&lab.name, reason));
                    }
                }
            }
            ran.outputs.push(first);
            ran.elapsed_s.push(elapsed_s);
        }
        Ok(ran)
    }
}

/// Returns the name of the oracle, for those that are asked only where there is one.
pub(super) fn oracle_name(lab: &Lab) -> &str {
    lab.oracle.as_deref().unwrap_or("none")
}

/// Returns the type in which a CUDA oracle answers for outputs of a type.
fn oracle_dtype(dtype: DType) -> DType {
    match dtype {
        DType::F16 | DType::Bf16 | DType::F32 => DType::F32,
        DType::F64 => DType::F64,
    }
}

/// One run of an authority.
#[derive(Clone, Copy, Debug)]
pub(super) struct Run<'a> {
    pub(super) program: &'a Program,
    pub(super) who: &'a str,
    /// What to launch of each case, or of all when there is one.
    pub(super) extents: &'a [Extent],
    pub(super) times: usize,
}

/// Turns a fault of the reference or the oracle into a refusal of the lab, unless we broke.
fn refused_fault(lab: &Lab, doing: &str, fault: Fault) -> GateError {
    match fault {
        Fault::Compile { message, log } => {
            GateError::refused(&lab.name, format!("{doing} failed: {message}\n{log}"))
        }
        // No fault of the lab's.
        Fault::Crashed(cause) if cause.is_from_outside() => {
            GateError::Target { doing: doing.to_string(), source: Fault::Crashed(cause) }
        }
        Fault::Crashed(_) | Fault::TimedOut { .. } => {
            GateError::refused(&lab.name, format!("{doing}: {fault}"))
        }
        Fault::Unavailable(_) | Fault::Broken { .. } => {
            GateError::Target { doing: doing.to_string(), source: fault }
        }
    }
}

/// Returns the size of a shape's work: operations and bytes together, so that labs that only move
/// data have a rate too.
pub(super) fn work_units(lab: &Lab, shape: &Workload) -> Result<f64, GateError> {
    let work = bind::work_size(lab, shape)?;
    Ok((work.flops + work.bytes).max(1.0))
}

pub(super) fn outputs_of(plans: &[TensorPlan]) -> Vec<TensorPlan> {
    plans.iter().filter(|plan| plan.role == Role::Output).cloned().collect()
}
