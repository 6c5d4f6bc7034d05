//! What one evaluation carries along: the candidate, its builds, its sessions, its notes.

use std::sync::Arc;
use std::time::{Duration, Instant};

use warpsmith_device::cuda::CUBLASLT;
use warpsmith_device::target::{
    Artifact, CaseId, Clocked, Extent, Fault, LaunchPlan, Program, Session, Surroundings, Target,
    TensorPlan, Unit,
};
use warpsmith_device::{system_seed, trace};
use warpsmith_model::lab::{Baseline, BaselineProgram, Kernel, Role, Workload};
use warpsmith_model::rng::Rng;
use warpsmith_model::{
    Blob, Build, CrashCause, Environment, ErrorSize, Fidelity, Guard, Job, Lab, Mismatch,
    MismatchKind, Outcome, Params, Request, RequestLimits, Stage, compiler_notes,
};

use crate::bind;
use crate::check::{self, Coverage, ErrorBudget, Wrong};
use crate::clock;
use crate::corpus::{Case, Corpus};
use crate::error::GateError;

/// What one evaluation may take as a whole. Each launch has a deadline of its own; a kernel that stays below it in
/// hundreds of them would occupy the device for hours.
const EVALUATION_LIMIT: Duration = Duration::from_secs(1800);

/// Why an evaluation ends before its end.
#[derive(Debug)]
pub(crate) enum Stop {
    /// The candidate failed.
    Outcome(Box<Outcome>),
    /// We broke.
    Broken(GateError),
}

impl Stop {
    pub(crate) fn incorrect(mismatch: Mismatch) -> Self {
        Self::Outcome(Box::new(Outcome::Incorrect { mismatch }))
    }

    /// Says in the outcome which part of the candidate it was.
    pub(crate) fn by(mut self, part: &str) -> Self {
        if let Self::Outcome(outcome) = &mut self {
            let place = match &mut **outcome {
                Outcome::Incorrect { mismatch } => &mut mismatch.workload,
                Outcome::Crashed { workload, .. } | Outcome::TimedOut { workload, .. } => workload,
                _ => return self,
            };
            *place = format!("{place} by {part}");
        }
        self
    }
}

impl From<GateError> for Stop {
    fn from(error: GateError) -> Self {
        match error {
            // Other parameters, or other shapes, may be launched; this is about one candidate.
            GateError::Unlaunchable { kernel: _, workload, reason } => {
                let message = format!("no launch is possible: {reason}");
                let cause = CrashCause::NotLoadable { message };
                Self::Outcome(Box::new(Outcome::Crashed { workload, cause }))
            }
            // It went away twice, and not by what it did.
            GateError::Target { doing, source: Fault::Crashed(cause) }
                if cause.is_from_outside() =>
            {
                Self::Outcome(Box::new(Outcome::Crashed { workload: doing, cause }))
            }
            error => Self::Broken(error),
        }
    }
}

/// What is evaluated.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Subject<'a> {
    /// A kernel with parameters.
    Kernel { kernel: &'a Kernel, params: &'a Params },
    /// A library.
    Baseline { baseline: &'a Baseline },
}

impl<'a> Subject<'a> {
    /// Returns what is launched on a shape that it serves: of a front the kernel that it chooses, with
    /// parameters; none where a library is.
    pub(crate) fn launched_on(
        self,
        shape: &Workload,
    ) -> Result<Option<(&'a Kernel, &'a Params)>, GateError> {
        match self {
            Self::Kernel { kernel, params } => bind::chosen(kernel, params, shape).map(Some),
            Self::Baseline { .. } => Ok(None),
        }
    }
}

impl Subject<'_> {
    pub(crate) fn name(&self) -> &str {
        match self {
            Self::Kernel { kernel, .. } => &kernel.name,
            Self::Baseline { baseline } => &baseline.name,
        }
    }

    pub(crate) fn serves(&self, shape: &Workload) -> Result<bool, GateError> {
        let served = match self {
            Self::Kernel { kernel, .. } => kernel.serves(shape),
            Self::Baseline { baseline } => baseline.serves(shape),
        };
        served.map_err(|source| match self {
            // A shape that nobody named may be the first on which it has no value.
            Self::Kernel { kernel, .. } => {
                let shape_in_words = bind::describe_shape(shape);
                let reason = format!("its `requires` has no value on {shape_in_words}: {source}");
                let (kernel, workload) = (kernel.name.clone(), shape.name.clone());
                GateError::Unlaunchable { kernel, workload, reason }
            }
            Self::Baseline { baseline } => GateError::Expression {
                what: format!("`requires` of `{}` on `{}`", baseline.name, shape.name),
                source,
            },
        })
    }

    fn unit(
        &self,
        target: &dyn Target,
        lab: &Lab,
        shape: &Workload,
        deadline: Duration,
    ) -> Result<Unit, GateError> {
        match self {
            Self::Kernel { kernel, params } => {
                bind::kernel_unit(lab, kernel, params, shape, target.info(), deadline)
            }
            Self::Baseline { baseline } => {
                let (file_name, compiler) = match &baseline.program {
                    BaselineProgram::Script(path) => (path.clone(), String::new()),
                    BaselineProgram::CublasLt(_) => (baseline.name.clone(), CUBLASLT.to_string()),
                };
                Ok(Unit {
                    file_name,
                    source: String::new(),
                    headers: Vec::new(),
                    entries: Vec::new(),
                    signature: Vec::new(),
                    defines: Vec::new(),
                    compiler,
                    flags: Vec::new(),
                    deadline,
                })
            }
        }
    }

    fn bind(
        &self,
        target: &dyn Target,
        lab: &Lab,
        shape: &Workload,
        artifact: Artifact,
    ) -> Result<Program, GateError> {
        match self {
            Self::Kernel { kernel, params } => {
                bind::kernel_program(lab, kernel, params, shape, target.info(), artifact)
            }
            Self::Baseline { baseline } => Ok(Program {
                artifact,
                tensors: bind::tensor_plans(lab, shape)?,
                gemm: bind::baseline_gemm(lab, baseline, shape)?,
                axes: bind::axis_values(lab, shape),
                scalars: bind::scalar_values(lab, shape)?,
                scratch: Vec::new(),
                launches: vec![LaunchPlan { entry: 0, blocks: 1, chunk: 1 }],
                grid: None,
            }),
        }
    }

    /// Compiles for a shape and binds it; `artifacts` remembers what was compiled before.
    pub(crate) fn program(
        &self,
        target: &mut dyn Target,
        lab: &Lab,
        shape: &Workload,
        deadline: Duration,
        artifacts: &mut Vec<(Unit, Artifact)>,
    ) -> Result<Program, ProgramError> {
        let unit = self.unit(target, lab, shape, deadline).map_err(|error| match error {
            GateError::Uncompilable { reason, .. } => {
                ProgramError::Compile(Fault::Compile { log: reason.clone(), message: reason })
            }
            error => ProgramError::Broken(error),
        })?;
        let artifact = match artifacts.iter().find(|(known, _)| *known == unit) {
            Some((_, artifact)) => artifact.clone(),
            None => {
                let artifact = target.compile(&unit).map_err(ProgramError::Compile)?;
                artifacts.push((unit, artifact.clone()));
                artifact
            }
        };
        self.bind(target, lab, shape, artifact).map_err(ProgramError::Broken)
    }
}

/// Why there is no program.
#[derive(Debug)]
pub(crate) enum ProgramError {
    /// The target did not compile it.
    Compile(Fault),
    /// The request or the contract is wrong.
    Broken(GateError),
}

/// One evaluation under way.
pub(crate) struct Bench<'a> {
    pub(crate) lab: &'a Lab,
    pub(crate) subject: Subject<'a>,
    pub(crate) limits: &'a RequestLimits,
    pub(crate) seed: u64,
    pub(crate) corpus: &'a mut Corpus,
    /// Serves the reference, the oracle and the candidate.
    pub(crate) target: &'a mut dyn Target,
    artifacts: Vec<(Unit, Artifact)>,
    /// Seconds of an empty launch.
    pub(crate) floor_s: f64,
    /// Chooses what is looked at; no candidate can foresee it.
    pub(crate) rng: Rng,
    hash_inputs: bool,
    /// Whether sessions are opened where others have been.
    shares: bool,
    /// Whether the last session stayed where it was opened.
    stayed: bool,
    /// Whether the sessions to come may share their surroundings, since no two of them see the same contents.
    pub(crate) stays: bool,
    builds: Vec<Build>,
    blobs: Vec<Blob>,
    began: Instant,
    pub(crate) launch_s: f64,
    /// Seconds that opening sessions took.
    pub(crate) opening_s: f64,
    pub(crate) notes: Vec<String>,
}

/// What an evaluation leaves behind.
pub(crate) struct EvaluationRecord {
    pub(crate) builds: Vec<Build>,
    pub(crate) blobs: Vec<Blob>,
    pub(crate) launch_s: f64,
    pub(crate) notes: Vec<String>,
}

impl<'a> Bench<'a> {
    pub(crate) fn new(
        target: &'a mut dyn Target,
        corpus: &'a mut Corpus,
        lab: &'a Lab,
        subject: Subject<'a>,
        request: &'a Request,
        environment: &Environment,
        floor_s: f64,
    ) -> Self {
        let isolation = &environment.isolation;
        let guards = [
            ("the filter on system calls", &isolation.seccomp),
            ("file-system confinement", &isolation.landlock),
            ("resource limits", &isolation.rlimits),
            ("sealed inputs", &isolation.sealed_inputs),
            ("a user without privileges", &isolation.privileges),
        ];
        let missing = |(what, guard): &(&str, &Guard)| match guard {
            Guard::Active => None,
            Guard::Missing { reason } => Some(format!("ran without {what}: {reason}")),
        };
        let notes = guards.iter().filter_map(missing).collect();
        let sealed = isolation.sealed_inputs == Guard::Active;
        Self {
            lab,
            subject,
            limits: &request.limits,
            seed: request.job.seed,
            corpus,
            target,
            artifacts: Vec::new(),
            floor_s,
            rng: Rng::new(system_seed()),
            hash_inputs: request.job.fidelity == Fidelity::Full || !sealed,
            shares: match request.job.fidelity {
                Fidelity::Full => false,
                Fidelity::Rank | Fidelity::Micro => true,
            },
            stayed: false,
            stays: false,
            builds: Vec::new(),
            blobs: Vec::new(),
            began: Instant::now(),
            launch_s: 0.0,
            opening_s: 0.0,
            notes,
        }
    }

    /// Returns the workloads that the job names; at the micro fidelity those of the lab when it
    /// names none.
    pub(crate) fn workloads(&self, job: &Job) -> Result<Vec<Workload>, Stop> {
        let names = match job.fidelity {
            Fidelity::Micro if job.workloads.is_empty() => &self.lab.micro_workloads,
            _ => &job.workloads,
        };
        if names.is_empty() {
            let message = format!("the job for `{}` names no workload", self.subject.name());
            return Err(GateError::BadRequest(message).into());
        }
        let mut workloads = Vec::new();
        for name in names {
            let workload = self.lab.workload(name).ok_or_else(|| GateError::UnknownWorkload {
                lab: self.lab.name.clone(),
                workload: name.clone(),
            })?;
            if !self.subject.serves(workload)? {
                let subject = self.subject.name().to_string();
                return Err(GateError::NotServed { subject, workload: name.clone() }.into());
            }
            workloads.push(workload.clone());
        }
        Ok(workloads)
    }

    /// Returns the candidate, compiled for a shape.
    pub(crate) fn program(&mut self, shape: &Workload) -> Result<Program, Stop> {
        self.program_of(self.subject, shape)
    }

    /// The same for another subject: one that the candidate is made of.
    pub(crate) fn program_of(
        &mut self,
        subject: Subject<'_>,
        shape: &Workload,
    ) -> Result<Program, Stop> {
        let _step = trace::step("compiling");
        let deadline = Duration::from_secs_f64(self.limits.compile_deadline_s);
        let known = self.artifacts.len();
        let (target, artifacts) = (&mut *self.target, &mut self.artifacts);
        let program = subject.program(target, self.lab, shape, deadline, artifacts);
        for (_, artifact) in &self.artifacts[known..] {
            let log = Blob::new(artifact.log.clone());
            self.builds.push(Build {
                binary: artifact.binary,
                command: artifact.command.clone(),
                compile_s: artifact.compile_s,
                cached: artifact.cached,
                log: log.id,
            });
            // Shapes share remarks, as they share most of their code.
            for note in compiler_notes(&artifact.log) {
                if !self.notes.contains(&note) {
                    self.notes.push(note);
                }
            }
            if !self.blobs.contains(&log) {
                self.blobs.push(log);
            }
        }
        program.map_err(|error| self.no_program(error))
    }

    /// Says what it means that there is no program for a shape.
    pub(super) fn no_program(&mut self, error: ProgramError) -> Stop {
        match error {
            ProgramError::Broken(error) => error.into(),
            ProgramError::Compile(fault) => self.compile_outcome(fault),
        }
    }

    fn compile_outcome(&mut self, fault: Fault) -> Stop {
        let (message, log) = match fault {
            Fault::Compile { message, log } => (message, log),
            Fault::TimedOut { limit_s } => {
                let (outcome, log) = compiler_timed_out(limit_s);
                self.blobs.push(log);
                return Stop::Outcome(Box::new(outcome));
            }
            Fault::Crashed(cause) => (format!("the compiler was {cause}"), String::new()),
            Fault::Unavailable(_) | Fault::Broken { .. } => {
                let doing = format!("compiling `{}`", self.subject.name());
                return GateError::Target { doing, source: fault }.into();
            }
        };
        let log = Blob::new(log);
        let outcome = Outcome::CompileFailed { message, log: log.id };
        self.blobs.push(log);
        Stop::Outcome(Box::new(outcome))
    }

    /// Opens a session of the candidate on cases.
    pub(crate) fn open(
        &mut self,
        program: &Program,
        cases: &[Arc<Case>],
    ) -> Result<Box<dyn Session>, Stop> {
        let _step = trace::step("opening a session");
        let deadline = Duration::from_secs_f64(self.limits.launch_deadline_s);
        let workload = &cases[0].shape.name;
        self.has_time(workload)?;
        let ids: Vec<CaseId> = cases.iter().map(|case| case.id).collect();
        let surroundings = match (self.shares, self.stays && self.stayed) {
            (true, _) => Surroundings::Shared,
            (false, true) => Surroundings::Kept,
            (false, false) => Surroundings::Fresh,
        };
        self.stayed = self.stays;
        let started = Instant::now();
        let opened = self.target.open_in(surroundings, program, &ids, deadline);
        self.opening_s += started.elapsed().as_secs_f64();
        opened.map_err(|fault| launch_outcome(&self.subject, workload, fault))
    }

    /// Lets the next session be opened where none has been.
    pub(super) fn leave(&mut self) {
        self.stayed = false;
    }

    /// Makes sure that the evaluation as a whole has not taken too long.
    pub(crate) fn has_time(&self, workload: &str) -> Result<(), Stop> {
        in_time(self.began.elapsed(), workload)
    }

    /// Launches, and counts the time.
    pub(crate) fn launch(
        &mut self,
        session: &mut dyn Session,
        slots: &[usize],
        extent: &Extent,
        workload: &str,
    ) -> Result<Clocked, Stop> {
        let _step = trace::step("launching");
        self.has_time(workload)?;
        let clocked = session
            .launch(slots, extent)
            .map_err(|fault| launch_outcome(&self.subject, workload, fault))?;
        self.launch_s += clocked.elapsed_s;
        Ok(clocked)
    }

    /// Launches, and cuts the reading after about so many launches; returns how many are over. Counts the time.
    pub(crate) fn launch_until(
        &mut self,
        session: &mut dyn Session,
        slots: &[usize],
        launches: usize,
        workload: &str,
    ) -> Result<usize, Stop> {
        let _step = trace::step("launching");
        self.has_time(workload)?;
        let (clocked, over) = session
            .launch_until(slots, launches)
            .map_err(|fault| launch_outcome(&self.subject, workload, fault))?;
        self.launch_s += clocked.elapsed_s;
        Ok(over)
    }

    /// Lets launches that were cut off come to their end.
    pub(crate) fn end_reading(
        &mut self,
        session: &mut dyn Session,
        workload: &str,
    ) -> Result<(), Stop> {
        session.end_reading().map_err(|fault| launch_outcome(&self.subject, workload, fault))
    }

    /// Launches with caches as the same launches leave them, and counts the time; none where the target
    /// cannot tell cold from warm.
    pub(crate) fn launch_warm(
        &mut self,
        session: &mut dyn Session,
        slots: &[usize],
        workload: &str,
    ) -> Result<Option<Clocked>, Stop> {
        let clocked = session
            .launch_warm(slots)
            .map_err(|fault| launch_outcome(&self.subject, workload, fault))?;
        self.launch_s += clocked.as_ref().map_or(0.0, |clocked| clocked.elapsed_s);
        Ok(clocked)
    }

    /// Says whether the device has its speed: nothing else makes it slow.
    pub(crate) fn is_quiet(&mut self) -> bool {
        self.target.speed().is_none_or(|speed| speed >= clock::UNDISTURBED_SPEED)
    }

    /// Judges everything that a launch left of a case: the guards, the inputs, every output.
    pub(crate) fn judge(
        &mut self,
        session: &dyn Session,
        slot: usize,
        case: &Case,
        program: &Program,
        stage: Stage,
        look: Look,
    ) -> Result<ErrorSize, Stop> {
        let _step = trace::step("judging");
        self.judge_inputs(case, program, stage)?;
        let judged = judge_case(self.lab, session, slot, case, program, stage, look, &mut self.rng);
        let Err(mismatch) = judged else { return judged.map_err(|it| Stop::incorrect(*it)) };
        self.corpus.confirm(self.target, self.lab, case, &mismatch)?;
        Err(Stop::incorrect(*mismatch))
    }

    /// Judges what a launch left of all but the outputs of a case: the guards and the inputs.
    pub(crate) fn judge_beside(
        &mut self,
        session: &dyn Session,
        slot: usize,
        case: &Case,
        program: &Program,
        stage: Stage,
    ) -> Result<(), Stop> {
        self.judge_inputs(case, program, stage)?;
        judge_guards(self.lab, session, slot, case, program, stage)
            .map_err(|mismatch| Stop::incorrect(*mismatch))
    }

    fn judge_inputs(&mut self, case: &Case, program: &Program, stage: Stage) -> Result<(), Stop> {
        if self.hash_inputs
            && let Some(tensor) = self.target.changed_input(case.id)
        {
            // Every later candidate would be judged on the wrong inputs.
            self.corpus.clear(self.target);
            let plan = &program.tensors[tensor];
            return Err(Stop::incorrect(input_changed(self.lab, case, plan, stage)));
        }
        Ok(())
    }

    /// Judges the outputs of launches that were timed.
    pub(crate) fn judge_timed(
        &mut self,
        session: &dyn Session,
        cases: &[Arc<Case>],
        slots: &[usize],
        program: &Program,
        look: Look,
    ) -> Result<ErrorSize, Stop> {
        let mut worst = ErrorSize::default();
        for slot in slots {
            let error = self.judge(session, *slot, &cases[*slot], program, Stage::Timing, look)?;
            worst = worst.worse(error);
        }
        Ok(worst)
    }

    /// Returns what it leaves behind.
    pub(crate) fn finish(self) -> EvaluationRecord {
        EvaluationRecord {
            builds: self.builds,
            blobs: self.blobs,
            launch_s: self.launch_s,
            notes: self.notes,
        }
    }
}

fn in_time(spent: Duration, workload: &str) -> Result<(), Stop> {
    if spent <= EVALUATION_LIMIT {
        return Ok(());
    }
    let workload = format!("{workload}, as the whole evaluation did");
    let limit_s = EVALUATION_LIMIT.as_secs_f64();
    Err(Stop::Outcome(Box::new(Outcome::TimedOut { workload, limit_s })))
}

/// Returns the outcome of a candidate whose compiler came to no end, with the log that it names.
pub fn compiler_timed_out(limit_s: f64) -> (Outcome, Blob) {
    let log = Blob::new(String::new());
    let message = format!("the compiler did not finish within {limit_s} s");
    (Outcome::CompileFailed { message, log: log.id }, log)
}

/// Judges the guards and the outputs that a launch left of a case.
#[expect(clippy::too_many_arguments, reason = "what to judge, by what, and how closely")]
pub(crate) fn judge_case(
    lab: &Lab,
    session: &dyn Session,
    slot: usize,
    case: &Case,
    program: &Program,
    stage: Stage,
    look: Look,
    rng: &mut Rng,
) -> Result<ErrorSize, Box<Mismatch>> {
    let failed = |wrong: Wrong, tensor: &str| Box::new(wrong.at(&case.place(lab, stage), tensor));
    judge_guards(lab, session, slot, case, program, stage)?;
    let mut worst = ErrorSize::default();
    let outputs = bind::indices_of(&program.tensors, Role::Output);
    for (tensor, expected) in outputs.into_iter().zip(&case.expected) {
        let plan = expected.plan();
        let scale = lab.inputs[case.inputs].tolerance_scale;
        let budget = ErrorBudget::new(&lab.tolerance, scale, plan.dtype);
        let coverage = match look {
            Look::All => Coverage::Whole,
            Look::Written => Coverage::Written,
            Look::Share(share) => expected.sample(share, rng),
        };
        let error = check::compare(session.output(slot, tensor), expected, &budget, &coverage)
            .map_err(|wrong| failed(wrong, &plan.name))?;
        worst = worst.worse(error);
    }
    Ok(worst)
}

fn judge_guards(
    lab: &Lab,
    session: &dyn Session,
    slot: usize,
    case: &Case,
    program: &Program,
    stage: Stage,
) -> Result<(), Box<Mismatch>> {
    let Some(tensor) = session.overwritten_guard(slot) else { return Ok(()) };
    let plan = &program.tensors[tensor];
    let wrong = unequal_bytes(MismatchKind::GuardOverwritten, plan);
    Err(Box::new(wrong.at(&case.place(lab, stage), &plan.name)))
}

/// How closely outputs are looked at.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Look {
    /// Every element.
    All,
    /// Every element that was written; there must be one.
    Written,
    /// A random sample of rows with this share of the elements.
    Share(f64),
}

/// Turns a fault of a candidate's process into its outcome, unless we broke.
pub(crate) fn launch_outcome(subject: &Subject<'_>, workload: &str, fault: Fault) -> Stop {
    let workload = workload.to_string();
    let failed = |outcome: Outcome| Stop::Outcome(Box::new(outcome));
    match fault {
        Fault::Crashed(cause) => failed(Outcome::Crashed { workload, cause }),
        Fault::TimedOut { limit_s } => failed(Outcome::TimedOut { workload, limit_s }),
        Fault::Compile { .. } | Fault::Unavailable(_) | Fault::Broken { .. } => {
            let doing = format!("running `{}` on `{workload}`", subject.name());
            Stop::Broken(GateError::Target { doing, source: fault })
        }
    }
}

/// Says that a case's input has other contents than it had.
pub(crate) fn input_changed(lab: &Lab, case: &Case, plan: &TensorPlan, stage: Stage) -> Mismatch {
    unequal_bytes(MismatchKind::InputChanged, plan).at(&case.place(lab, stage), &plan.name)
}

fn unequal_bytes(kind: MismatchKind, plan: &TensorPlan) -> Wrong {
    Wrong {
        kind,
        index: vec![0; plan.shape.len()],
        got: f64::NAN,
        expected: f64::NAN,
        excess: f64::INFINITY,
        wrong: 1,
        total: plan.elements() as u64,
    }
}

#[cfg(test)]
#[test]
fn an_evaluation_that_takes_too_long_is_its_candidates_outcome() {
    assert!(in_time(EVALUATION_LIMIT, "square").is_ok());
    let Err(Stop::Outcome(outcome)) = in_time(EVALUATION_LIMIT + Duration::from_secs(1), "square")
    else {
        panic!("it is over");
    };
    assert_eq!(
        outcome.describe(),
        "timed out on square, as the whole evaluation did: no answer within 1800 s"
    );
}
