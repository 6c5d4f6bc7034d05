//! Compares contenders in pairs: in every round each of them launches the same cases, in an order
//! that is shuffled anew, so that whatever happens to the machine happens to all. Rounds are kept
//! aligned; what they say is for the model's statistics to compute.

mod corner;

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use warpsmith_device::baseline::Python;
use warpsmith_device::poison::Poison;
use warpsmith_device::target::{Artifact, Extent, Fault, Session, Surroundings, Target, Unit};
use warpsmith_device::{system_seed, trace};
use warpsmith_model::lab::{Baseline, BaselineProgram, Kernel, TargetKind, Workload};
use warpsmith_model::rng::Rng;
use warpsmith_model::stats::paired_speedup;
use warpsmith_model::{
    Absent, CandidateId, ClockCheck, ComparisonPurpose, ComparisonRecord, Contender, ContenderKind,
    FORMAT_VERSION, Lab, MissingBaseline, Outcome, PairedRounds, Params, Stage, Verdict, notes,
};

use self::corner::{Absence, Corner};
use crate::bind;
use crate::clock::{self, Reading, Turn};
use crate::corpus::{Case, Corpus, Want};
use crate::error::GateError;
use crate::evaluate::{
    Look, ProgramError, Stop, Subject, input_changed, judge_case, launch_outcome, output_bytes,
};

/// One side of a comparison.
#[derive(Clone, Copy, Debug)]
pub struct Entrant<'a> {
    /// The name that tables show; unique in its comparison.
    pub label: &'a str,
    /// What it is.
    pub kind: EntrantKind<'a>,
}

/// What an entrant is.
#[derive(Clone, Copy, Debug)]
pub enum EntrantKind<'a> {
    /// A kernel with parameters.
    Kernel {
        /// The kernel.
        kernel: &'a Kernel,
        /// The value of every tunable.
        params: &'a Params,
        /// The candidate, where it is known.
        candidate: Option<CandidateId>,
    },
    /// A library.
    Baseline {
        /// The baseline.
        baseline: &'a Baseline,
        /// The Python that runs it, if it is a script.
        python: &'a Path,
    },
}

/// How long to compare, and on what.
#[derive(Clone, Debug, PartialEq)]
pub struct CompareOptions {
    /// What the comparison is for.
    pub purpose: ComparisonPurpose,
    /// The names of the workloads.
    pub workloads: Vec<String>,
    /// Determines the contents of the inputs.
    pub seed: u64,
    /// Rounds at least, on each workload.
    pub min_rounds: usize,
    /// Seconds of launching and judging at most for each workload, once there are `min_rounds`; opening sessions
    /// does not count unless it takes twice as long.
    pub budget_s: f64,
    /// Seconds that a single batch of launches may take.
    pub launch_deadline: Duration,
    /// Seconds that a compiler may take.
    pub compile_deadline: Duration,
}

/// Rounds stop when every ratio's interval is narrower than this: one percent to either side.
const NARROW: f64 = 0.02;
/// More rounds say nothing that the budget is worth.
const MOST_ROUNDS: usize = 400;
/// Rounds that one opening of the sessions should give. More of them would have fewer launches each, and what a
/// reading of the clock costs would weigh more.
const ROUNDS_PER_OPENING: usize = 2;
/// What two clocks are compared by: a copy that takes about as long as a kernel, and never fits a cache.
const CLOCK_COPY_BYTES: usize = 256 << 20;
/// How often.
const CLOCK_ROUNDS: usize = 15;
/// Output bytes of all contenders' sessions together, as far as the rounds allow.
const OUTPUT_BYTES: usize = 1 << 30;

/// Compares the entrants on every workload; the first is the one that the others are measured
/// against. Outputs are judged as always, and an entrant whose output is wrong has no times. After each
/// workload, `tell` learns how many are done.
pub fn compare(
    target: &mut dyn Target,
    corpus: &mut Corpus,
    lab: &Lab,
    lab_dir: &Path,
    entrants: &[Entrant<'_>],
    options: &CompareOptions,
    tell: &mut dyn FnMut(usize),
) -> Result<ComparisonRecord, GateError> {
    let mut missing = Vec::new();
    let mut clocks = Vec::new();
    let mut sides = Vec::new();
    let mut entering: Vec<Side<'_>> =
        entrants.iter().map(|entrant| Side::new(target, lab, lab_dir, entrant)).collect();
    for side in &mut entering {
        side.start(lab, options)?;
    }
    for mut side in entering {
        match side.preflight(target, lab, options, &mut clocks)? {
            None => sides.push(side),
            Some(reason) => missing.push(MissingBaseline {
                name: side.subject.name().to_string(),
                reason,
                how: way_to_get(lab),
            }),
        }
    }
    let mut notes = Vec::new();
    let mut workloads = Vec::new();
    for name in &options.workloads {
        let workload = lab.workload(name).ok_or_else(|| GateError::UnknownWorkload {
            lab: lab.name.clone(),
            workload: name.clone(),
        })?;
        let want = Want::ForComparison;
        let mut expelled: Vec<Option<Absence>> = vec![None; sides.len()];
        let mut is_wary = false;
        let rounds = loop {
            let cases = corpus.cases(target, lab, workload, 0, options.seed, want)?;
            let floor_s = corpus.launch_floor_s(target)?;
            let ring = Ring { lab, workload, cases: &cases, options, floor_s, is_wary };
            match ring.rounds(target, &mut sides, &expelled, &mut notes)? {
                Ended::Well(rounds) => break rounds,
                // Nobody can be judged on such inputs; from the beginning with new ones.
                Ended::Spoilt(by) => {
                    corpus.clear(target);
                    match by {
                        Some((side, absence)) => expelled[side] = Some(absence),
                        None if is_wary => {
                            let message = format!("inputs of `{name}` change, and by no launch");
                            return Err(GateError::BadRequest(message));
                        }
                        None => is_wary = true,
                    }
                }
            }
        };
        workloads.push(rounds);
        tell(workloads.len());
    }
    Ok(ComparisonRecord {
        format: FORMAT_VERSION,
        purpose: options.purpose,
        seed: options.seed,
        contenders: sides.iter().map(Side::record).collect(),
        workloads,
        missing,
        clocks,
        notes,
    })
}

/// Times the same copy by the target's clock and by a baseline's own, in turns; none where there is one
/// clock for both.
fn check_clock(
    target: &mut dyn Target,
    session: &mut dyn Session,
    baseline: &str,
) -> Result<Option<ClockCheck>, Fault> {
    let mut check = ClockCheck {
        baseline: baseline.to_string(),
        copied_bytes: CLOCK_COPY_BYTES as u64,
        harness_s: Vec::new(),
        baseline_s: Vec::new(),
    };
    // The first round of either loads and allocates.
    for round in 0..=CLOCK_ROUNDS {
        let (harness_s, baseline_s) = if round % 2 == 0 {
            let harness_s = target.time_copy(CLOCK_COPY_BYTES)?;
            (harness_s, session.time_copy(CLOCK_COPY_BYTES)?)
        } else {
            let baseline_s = session.time_copy(CLOCK_COPY_BYTES)?;
            (target.time_copy(CLOCK_COPY_BYTES)?, baseline_s)
        };
        let (Some(harness_s), Some(baseline_s)) = (harness_s, baseline_s) else { return Ok(None) };
        if round > 0 {
            check.harness_s.push(harness_s);
            check.baseline_s.push(baseline_s);
        }
    }
    Ok(Some(check))
}

/// Returns the command that provides the baselines of a lab. Those for a GPU are large, and left out on
/// machines without one unless they are asked for.
fn way_to_get(lab: &Lab) -> String {
    match lab.target {
        TargetKind::Cpu => "warpsmith setup baselines".to_string(),
        TargetKind::Cuda => "warpsmith setup baselines --target cuda".to_string(),
    }
}

/// An entrant with what it needs to run.
struct Side<'a> {
    label: String,
    kind: EntrantKind<'a>,
    subject: Subject<'a>,
    python: Option<Python>,
    artifacts: Vec<(Unit, Artifact)>,
}

impl<'a> Side<'a> {
    fn new(target: &dyn Target, lab: &Lab, lab_dir: &Path, entrant: &Entrant<'a>) -> Self {
        let (subject, python) = match entrant.kind {
            EntrantKind::Kernel { kernel, params, .. } => {
                (Subject::Kernel { kernel, params }, None)
            }
            EntrantKind::Baseline { baseline, python } => {
                let python = match &baseline.program {
                    BaselineProgram::Script(_) => {
                        Some(Python::new(python, lab_dir, lab, baseline, target.info()))
                    }
                    // The target itself runs it.
                    BaselineProgram::CublasLt(_) => None,
                };
                (Subject::Baseline { baseline }, python)
            }
        };
        Self {
            label: entrant.label.to_string(),
            kind: entrant.kind,
            subject,
            python,
            artifacts: Vec::new(),
        }
    }

    fn record(&self) -> Contender {
        let kind = match self.kind {
            EntrantKind::Kernel { kernel, params, candidate } => ContenderKind::Kernel {
                kernel: kernel.name.clone(),
                params: params.clone(),
                candidate,
            },
            EntrantKind::Baseline { baseline, .. } => {
                ContenderKind::Baseline { name: baseline.name.clone() }
            }
        };
        Contender { label: self.label.clone(), kind }
    }

    /// Returns the first workload that it serves.
    fn first_served<'l>(
        &self,
        lab: &'l Lab,
        options: &CompareOptions,
    ) -> Result<Option<&'l Workload>, GateError> {
        for workload in options.workloads.iter().filter_map(|name| lab.workload(name)) {
            if self.subject.serves(workload)? {
                return Ok(Some(workload));
            }
        }
        Ok(None)
    }

    /// Starts a script's interpreter for the preflight.
    fn start(&mut self, lab: &Lab, options: &CompareOptions) -> Result<(), GateError> {
        let served = self.first_served(lab, options)?;
        let (Some(python), Some(workload)) = (&mut self.python, served) else { return Ok(()) };
        let deadline = options.compile_deadline;
        // A script that cannot be found is for the preflight to say.
        let found = self.subject.program(python, lab, workload, deadline, &mut self.artifacts);
        if let Ok(program) = found {
            python.start(&program, &[]);
        }
        Ok(())
    }

    /// Starts a baseline once, without cases, and compares its clock; returns why it cannot take part.
    fn preflight(
        &mut self,
        target: &mut dyn Target,
        lab: &Lab,
        options: &CompareOptions,
        clocks: &mut Vec<ClockCheck>,
    ) -> Result<Option<String>, GateError> {
        let is_script = self.python.is_some();
        let served = self.first_served(lab, options)?;
        let host: &mut dyn Target = match (&self.subject, &mut self.python) {
            (Subject::Kernel { .. }, _) => return Ok(None),
            (Subject::Baseline { .. }, Some(python)) => python,
            (Subject::Baseline { .. }, None) => &mut *target,
        };
        let Some(workload) = served else { return Ok(None) };
        let deadline = options.compile_deadline;
        let program = match self.subject.program(host, lab, workload, deadline, &mut self.artifacts)
        {
            Ok(program) => program,
            Err(ProgramError::Broken(error)) => return Err(error),
            Err(ProgramError::Compile(fault)) => return Ok(Some(fault.to_string())),
        };
        let opened = host.open(&program, &[], options.launch_deadline);
        let checked = opened.and_then(|mut session| {
            if is_script {
                clocks.extend(check_clock(target, &mut *session, self.subject.name())?);
            }
            Ok(())
        });
        match checked {
            Ok(()) => Ok(None),
            Err(fault @ (Fault::Unavailable(_) | Fault::Crashed(_) | Fault::TimedOut { .. })) => {
                Ok(Some(fault.to_string()))
            }
            Err(source) => {
                let doing = format!("starting the baseline `{}`", self.subject.name());
                Err(GateError::Target { doing, source })
            }
        }
    }
}

/// How the rounds of a workload ended.
enum Ended {
    Well(PairedRounds),
    /// An input has other contents than it had; whose doing it was, where that is known.
    Spoilt(Option<(usize, Absence)>),
}

/// One workload of a comparison.
struct Ring<'a> {
    lab: &'a Lab,
    workload: &'a Workload,
    cases: &'a [Arc<Case>],
    options: &'a CompareOptions,
    floor_s: f64,
    /// Inputs are looked at after every launch, which takes time, to find out who changes them.
    is_wary: bool,
}

impl Ring<'_> {
    fn rounds(
        &self,
        target: &mut dyn Target,
        sides: &mut [Side<'_>],
        expelled: &[Option<Absence>],
        notes: &mut Vec<String>,
    ) -> Result<Ended, GateError> {
        let mut corners = Vec::new();
        for (side, expelled) in sides.iter_mut().zip(expelled) {
            corners.push(match expelled {
                Some((reason, verdict)) => Corner::absent(reason, *verdict),
                None => self.enter(target, side)?,
            });
        }
        let run = self.run(target, sides, &mut corners, notes);
        for (side, corner) in sides.iter_mut().zip(&mut corners) {
            corner.session = None;
            if let Some(python) = &mut side.python {
                corner.ids.drain(..).for_each(|id| python.unstage(id));
            }
        }
        if let Some(by) = run? {
            return Ok(Ended::Spoilt(by));
        }
        let mut record = PairedRounds {
            workload: self.workload.name.clone(),
            samples_s: Vec::new(),
            disturbed_s: Vec::new(),
            absent: Vec::new(),
        };
        for (contender, corner) in corners.into_iter().enumerate() {
            match corner.absent {
                Some((reason, verdict)) => {
                    record.absent.push(Absent { contender, reason, verdict });
                    record.samples_s.push(Vec::new());
                    record.disturbed_s.push(Vec::new());
                }
                None => {
                    let remarks =
                        clock::remarks(&self.workload.name, &corner.samples_s, self.floor_s);
                    let label = &sides[contender].label;
                    notes.extend(remarks.iter().map(|remark| format!("{label}: {remark}")));
                    let workload = &self.workload.name;
                    notes.extend(corner.remark.map(|it| format!("{label}: {workload}: {it}")));
                    record.samples_s.push(corner.samples_s);
                    record.disturbed_s.push(corner.disturbed_s);
                }
            }
        }
        Ok(Ended::Well(record))
    }

    /// Compiles a side for the workload and stages what it lacks.
    fn enter(&self, target: &mut dyn Target, side: &mut Side<'_>) -> Result<Corner, GateError> {
        if !side.subject.serves(self.workload)? {
            return Ok(Corner::absent(Absent::NOT_SERVED, None));
        }
        let deadline = self.options.compile_deadline;
        let compiling = trace::step("compiling a contender");
        let compiler: &mut dyn Target = match &mut side.python {
            Some(python) => python,
            None => target,
        };
        let artifacts = &mut side.artifacts;
        let program =
            match side.subject.program(compiler, self.lab, self.workload, deadline, artifacts) {
                Ok(program) => program,
                Err(ProgramError::Broken(error @ GateError::Unlaunchable { .. })) => {
                    return Ok(Corner::absent(error.to_string(), Some(Verdict::Crashed)));
                }
                Err(ProgramError::Broken(error)) => return Err(error),
                Err(ProgramError::Compile(source @ Fault::Broken { .. })) => {
                    let doing = format!("compiling `{}`", side.subject.name());
                    return Err(GateError::Target { doing, source });
                }
                Err(ProgramError::Compile(fault @ Fault::Unavailable(_))) => {
                    return Ok(Corner::absent(fault.to_string(), None));
                }
                Err(ProgramError::Compile(fault)) => {
                    let verdict = Some(Verdict::CompileFailed);
                    return Ok(Corner::absent(fault.to_string(), verdict));
                }
            };
        drop(compiling);
        let _staging = trace::step("staging inputs for a contender");
        let mut ids = Vec::new();
        for case in self.cases {
            ids.push(match &mut side.python {
                None => case.id,
                Some(python) => {
                    let contents = Arc::new(case.contents(self.lab, &program.tensors));
                    python.stage(&program.tensors, &contents).map_err(|source| {
                        let doing = format!("staging inputs of `{}`", self.workload.name);
                        GateError::Target { doing, source }
                    })?
                }
            });
        }
        Ok(Corner { program: Some(program), ids, ..Corner::default() })
    }

    /// Runs the rounds. Returns whose doing it was, as far as that is known, where an input changed.
    fn run(
        &self,
        target: &mut dyn Target,
        sides: &mut [Side<'_>],
        corners: &mut [Corner],
        said: &mut Vec<String>,
    ) -> Result<Option<Option<(usize, Absence)>>, GateError> {
        let mut rng = Rng::new(system_seed());
        let n_cases = self.session_cases(corners);
        self.start_interpreters(sides, corners, n_cases)?;
        let started = Instant::now();
        let mut batch = None;
        let is_quiet = |target: &mut dyn Target| {
            target.speed().is_none_or(|speed| speed >= clock::UNDISTURBED_SPEED)
        };
        loop {
            let mut slots: Vec<usize> = (0..n_cases).collect();
            rng.shuffle(&mut slots);
            let (warm_up, timed) = slots.split_first().expect("a workload has cases");
            let mut fastest_s = f64::INFINITY;
            // Nobody is always the first, not even in being opened.
            let mut order: Vec<usize> = (0..corners.len()).collect();
            rng.shuffle(&mut order);
            for idx in order {
                let (side, corner) = (&mut sides[idx], &mut corners[idx]);
                let first_s = self.open(target, side, corner, n_cases, batch, *warm_up)?;
                if let Some(absence) = self.changed(target, &[*warm_up], Stage::Gate)? {
                    return Ok(Some(Some((idx, absence))));
                }
                self.judge(corner, &[*warm_up], Stage::Gate, &mut rng)?;
                fastest_s = fastest_s.min(first_s.unwrap_or(f64::INFINITY));
            }
            let batch = *batch.get_or_insert_with(|| {
                let cases = timed.len();
                clock::batch_size(Reading::LONG, fastest_s, self.floor_s, cases, ROUNDS_PER_OPENING)
            });
            if corners.iter().any(|corner| corner.launches_at_most() < batch) {
                // They were opened before anybody knew how many launches a reading takes.
                self.close(sides, corners);
                continue;
            }
            let mut launched = 0;
            let mut done = false;
            let mut rest = timed;
            let cuts = corners.iter().any(Corner::cuts_readings);
            while let Some(turn) = clock::next_reading(&mut rest, batch, cuts, &mut rng) {
                let slots = turn.slots;
                let mut order: Vec<usize> = (0..corners.len()).collect();
                rng.shuffle(&mut order);
                let mut quiet = is_quiet(target);
                for idx in order {
                    let (side, corner) = (&mut sides[idx], &mut corners[idx]);
                    let over = self.round(target, side, corner, n_cases, *warm_up, turn)?;
                    quiet &= is_quiet(target) && !corner.has_waited;
                    if self.is_wary
                        && let Some(absence) = self.changed(target, slots, Stage::Timing)?
                    {
                        return Ok(Some(Some((idx, absence))));
                    }
                    // Before anybody launches again: a later launch could mend what this one left out.
                    self.judge(&mut corners[idx], &slots[..over], Stage::Timing, &mut rng)?;
                    let (side, corner) = (&mut sides[idx], &mut corners[idx]);
                    self.end_reading(target, side, corner, n_cases, *warm_up, turn)?;
                }
                // What something else slowed is run again, but not without end.
                let patience_s = clock::PATIENCE * self.options.budget_s;
                if !turn.is_sample {
                    corners.iter_mut().for_each(Corner::forget_round);
                } else if !quiet && started.elapsed().as_secs_f64() < patience_s {
                    corners.iter_mut().for_each(Corner::set_round_aside);
                } else if !quiet {
                    let busy = notes::busy(&self.workload.name);
                    if !said.contains(&busy) {
                        said.push(busy);
                    }
                }
                launched += slots.len();
                done = self.enough(corners, started);
                if done {
                    break;
                }
            }
            if self.changed(target, &timed[..launched], Stage::Timing)?.is_some() {
                return Ok(Some(None));
            }
            self.close(sides, corners);
            if done || corners.iter().all(|corner| corner.absent.is_some()) {
                return Ok(None);
            }
        }
    }

    /// Closes the sessions of kernels. A kernel's process must not meet a case twice; a baseline is trusted.
    fn close(&self, sides: &[Side<'_>], corners: &mut [Corner]) {
        for (_, corner) in sides.iter().zip(corners).filter(|(side, _)| side.python.is_none()) {
            corner.session = None;
        }
    }

    /// Opens the sessions of scripts: the interpreters load their libraries together, and the scripts prepare
    /// one after the other, since some of them measure.
    fn start_interpreters(
        &self,
        sides: &mut [Side<'_>],
        corners: &mut [Corner],
        n_cases: usize,
    ) -> Result<(), GateError> {
        for (side, corner) in sides.iter_mut().zip(corners.iter()) {
            if let (Some(python), Some(program)) = (&mut side.python, &corner.program) {
                python.start(program, &corner.ids[..n_cases]);
            }
        }
        for (side, corner) in sides.iter_mut().zip(corners.iter_mut()) {
            let (Some(python), Some(program)) = (&mut side.python, &corner.program) else {
                continue;
            };
            let _step = trace::step("opening a baseline");
            match python.open(program, &corner.ids[..n_cases], self.options.launch_deadline) {
                Ok(session) => corner.session = Some(session),
                Err(fault) => {
                    corner.stop(launch_outcome(&side.subject, &self.workload.name, fault))?;
                }
            }
        }
        Ok(())
    }

    /// Opens a session (or makes an open one ready again) for readings of so many launches, or for none but a
    /// warm-up where nobody knows how many they take, and warms it up; returns the first time.
    fn open(
        &self,
        target: &mut dyn Target,
        side: &mut Side<'_>,
        corner: &mut Corner,
        n_cases: usize,
        batch: Option<usize>,
        warm_up: usize,
    ) -> Result<Option<f64>, GateError> {
        let (None, Some(program)) = (&corner.absent, &corner.program) else { return Ok(None) };
        let opened = match corner.session.take() {
            Some(mut session) => {
                (0..n_cases).for_each(|slot| session.poison(slot, Poison::Nan));
                Ok(session)
            }
            None => {
                let host: &mut dyn Target = match &mut side.python {
                    Some(python) => python,
                    None => target,
                };
                // No rival was there, and nothing of theirs is.
                let (ids, deadline) = (&corner.ids[..n_cases], self.options.launch_deadline);
                let started = Instant::now();
                let fresh = Surroundings::Fresh;
                let opened = host.open_few(fresh, program, ids, batch.unwrap_or(1), deadline);
                corner.opening_s += started.elapsed().as_secs_f64();
                opened
            }
        };
        let launched = opened.and_then(|mut session| {
            let clocked = session.launch(&[warm_up], &Extent::All)?;
            Ok((session, clocked.elapsed_s))
        });
        match launched {
            Ok((session, elapsed_s)) => {
                corner.remark = session.remark().map(str::to_string);
                corner.session = Some(session);
                Ok(Some(elapsed_s))
            }
            Err(fault) if corner.may_try_again(&fault) => {
                self.open(target, side, corner, n_cases, batch, warm_up)
            }
            Err(fault) => {
                corner.stop(launch_outcome(&side.subject, &self.workload.name, fault))?;
                Ok(None)
            }
        }
    }

    /// Lets launches that were cut off come to their end.
    fn end_reading(
        &self,
        target: &mut dyn Target,
        side: &mut Side<'_>,
        corner: &mut Corner,
        n_cases: usize,
        warm_up: usize,
        turn: Turn<'_>,
    ) -> Result<(), GateError> {
        let ended = corner.session.as_mut().map_or(Ok(()), |session| session.end_reading());
        match ended {
            Err(fault) if corner.may_try_again(&fault) => {
                corner.session = None;
                self.open(target, side, corner, n_cases, Some(turn.batch), warm_up)?;
            }
            Err(fault) => corner.stop(launch_outcome(&side.subject, &self.workload.name, fault))?,
            Ok(()) => {}
        }
        Ok(())
    }

    /// Launches a round, and returns how many launches of it are over; again in a new session where somebody else
    /// killed the first one's process.
    fn round(
        &self,
        target: &mut dyn Target,
        side: &mut Side<'_>,
        corner: &mut Corner,
        n_cases: usize,
        warm_up: usize,
        turn: Turn<'_>,
    ) -> Result<usize, GateError> {
        let slots = turn.slots;
        let Some(session) = &mut corner.session else { return Ok(0) };
        session.level(slots);
        let launched = match turn.is_sample {
            true => session.launch(slots, &Extent::All).map(|clocked| (clocked, slots.len())),
            false => session.launch_until(slots, turn.launches),
        };
        match launched {
            Ok((clocked, over)) => {
                // Of a reading that is no sample this is forgotten.
                corner.samples_s.push(clocked.elapsed_s / slots.len() as f64);
                corner.has_waited = clock::has_waited(&clocked);
                return Ok(over);
            }
            Err(fault) if corner.may_try_again(&fault) => {
                corner.session = None;
                self.open(target, side, corner, n_cases, Some(turn.batch), warm_up)?;
                return self.round(target, side, corner, n_cases, warm_up, turn);
            }
            Err(fault) => corner.stop(launch_outcome(&side.subject, &self.workload.name, fault))?,
        }
        Ok(0)
    }

    /// Says what is to be said of whoever changed an input, where one has been.
    fn changed(
        &self,
        target: &dyn Target,
        slots: &[usize],
        stage: Stage,
    ) -> Result<Option<Absence>, GateError> {
        let _step = trace::step("looking at inputs");
        let changed = slots.iter().find_map(|slot| {
            let case = &self.cases[*slot];
            target.changed_input(case.id).map(|tensor| (case, tensor))
        });
        let Some((case, tensor)) = changed else { return Ok(None) };
        let plans = bind::tensor_plans(self.lab, self.workload)?;
        let mismatch = input_changed(self.lab, case, &plans[tensor], stage);
        let outcome = Outcome::Incorrect { mismatch };
        Ok(Some((outcome.describe(), Some(outcome.verdict()))))
    }

    fn judge(
        &self,
        corner: &mut Corner,
        slots: &[usize],
        stage: Stage,
        rng: &mut Rng,
    ) -> Result<(), GateError> {
        let (Some(session), Some(program)) = (&corner.session, &corner.program) else {
            return Ok(());
        };
        let _step = trace::step("judging a contender");
        for slot in slots {
            let case = &self.cases[*slot];
            let judged =
                judge_case(self.lab, &**session, *slot, case, program, stage, Look::All, rng);
            if let Err(mismatch) = judged {
                return corner.stop(Stop::incorrect(*mismatch));
            }
        }
        Ok(())
    }

    /// Says whether there are enough rounds: all that were asked for, and then either every ratio
    /// is narrow or the time is up.
    fn enough(&self, corners: &[Corner], started: Instant) -> bool {
        let mut active = corners.iter().filter(|corner| corner.absent.is_none());
        let Some(first) = active.next() else { return true };
        let rounds = first.samples_s.len();
        if rounds < self.options.min_rounds.max(1) {
            return false;
        }
        let elapsed_s = started.elapsed().as_secs_f64();
        let opening_s = corners.iter().map(|corner| corner.opening_s).sum();
        let budget_s = self.options.budget_s;
        if clock::spent_s(elapsed_s, opening_s, budget_s) >= budget_s || rounds >= MOST_ROUNDS {
            return true;
        }
        active.all(|other| {
            paired_speedup(&first.samples_s, &other.samples_s)
                .is_some_and(|speedup| speedup.relative_width() <= NARROW)
        })
    }

    /// Returns how many cases every session gets.
    fn session_cases(&self, corners: &[Corner]) -> usize {
        let bytes: usize =
            corners.iter().filter_map(|corner| corner.program.as_ref()).map(output_bytes).sum();
        let by_memory = OUTPUT_BYTES / bytes.max(1);
        self.cases.len().min(by_memory.max(1 + ROUNDS_PER_OPENING))
    }
}

#[cfg(test)]
mod tests;
