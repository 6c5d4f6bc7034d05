//! Compiling ahead and measuring one at a time.
//!
//! [`Pool::submit`] queues requests, [`Pool::next`] answers them in order. Compilers run in
//! parallel and fill the artifact cache; one worker process measures. On the CPU target the
//! compilers would disturb the measurement, so a whole batch is compiled before the first of it is
//! measured; a lock keeps the compilers of the user's other campaigns away too. A GPU is not
//! disturbed by compilers: there a [`BackgroundCompiler`] is at work all the time.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::ops::RangeInclusive;
use std::sync::{Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use anyhow::Result;
use warpsmith_device::compile_unit;
use warpsmith_device::cpu::{Quiet, expect_many};
use warpsmith_device::target::Unit;
use warpsmith_gate::{bind, evaluate};
use warpsmith_model::lab::{Grid, Kernel, Launch, Scratch, TargetKind, TensorMap, lookup_all};
use warpsmith_model::{
    Answer, Ask, Blob, BlobId, Build, Candidate, CompareRequest, ContenderRequest, CrashCause,
    DeviceInfo, Environment, EnvironmentId, Expr, Fidelity, Finding, Hasher, Lab, Outcome, Request,
    SANITIZER_NOTE, Trial, TrialId, compiler_notes,
};

use crate::background_compiler::{BackgroundCompiler, CompileFailure};
use crate::kernel_text::{COMPARED_COMPILE_DEADLINE, parse};
use crate::project::Project;
use crate::quiet::{processors, quiet_unless};
use crate::worker_client::{Worker, WorkerKilled};

/// Requests on their way to the worker.
#[derive(Debug)]
pub struct Pool {
    project: Project,
    device: DeviceInfo,
    environment: EnvironmentId,
    worker: Worker,
    queue: VecDeque<Queued>,
    twins: HashMap<BlobId, Trial>,
    /// Compilers that run beside the measurement; none where they would disturb it.
    ahead: Option<BackgroundCompiler>,
    spent: TimeSpent,
}

/// Where a pool's time went.
#[derive(Clone, Copy, Debug, Default)]
pub struct TimeSpent {
    /// While the worker answered.
    pub measuring: Duration,
    /// While there was nothing to do but wait for compilers.
    pub compiling: Duration,
}

#[derive(Debug)]
struct Queued {
    request: Request,
    kernel: Kernel,
    compiled: bool,
    /// Why one of its units could not be compiled.
    failure: Option<CompileFailure>,
    /// Its units, as the compilers ahead count them.
    tickets: Option<RangeInclusive<u64>>,
}

impl Pool {
    /// Starts a pool over a worker.
    pub fn new(project: &Project, environment: &Environment, worker: Worker) -> Self {
        let device = &environment.device;
        Self {
            project: project.clone(),
            device: device.clone(),
            environment: environment.id(),
            worker,
            queue: VecDeque::new(),
            twins: HashMap::new(),
            ahead: device.cuda.is_some().then(|| {
                let artifacts = project.artifacts();
                BackgroundCompiler::new(move |unit| compile_unit(&artifacts, unit).map(drop))
            }),
            spent: TimeSpent::default(),
        }
    }

    /// Returns how many more requests would keep the compilers busy.
    pub fn idle(&self) -> usize {
        match &self.ahead {
            Some(_) => (2 * processors()).saturating_sub(self.queue.len()),
            None if self.queue.is_empty() => 2 * processors(),
            None => 0,
        }
    }

    /// Returns how many requests wait.
    pub fn queued(&self) -> usize {
        self.queue.len()
    }

    /// Queues a request.
    pub fn submit(&mut self, lab: &Lab, kernel: &Kernel, request: Request) {
        let tickets = self
            .ahead
            .as_ref()
            .map(|ahead| ahead.compile(self.units(lab, kernel, &request).unwrap_or_default()));
        self.queue.push_back(Queued {
            request,
            kernel: kernel.clone(),
            compiled: tickets.is_some(),
            failure: None,
            tickets,
        });
    }

    /// Begins to compile a kernel that will be searched, and what all of its configurations share, while the
    /// worker does something else than timing; none where compilers run ahead by themselves. What does
    /// not compile is compiled again by whoever needs it, and reported there.
    pub fn compile_early(
        &self,
        lab: &Lab,
        kernel: &Kernel,
        request: &Request,
    ) -> Option<JoinHandle<()>> {
        if self.ahead.is_some() {
            return None;
        }
        let units = self.units(lab, kernel, request)?;
        let artifacts = self.project.artifacts();
        let interrupt = self.worker.interrupt().clone();
        Some(std::thread::spawn(move || {
            let Ok(_quiet) = quiet_unless(&interrupt, TargetKind::Cpu, Quiet::Compiling) else {
                return;
            };
            for unit in &units {
                let _missing_compiler = expect_many(&artifacts, unit);
                let _reported_later = compile_unit(&artifacts, unit);
            }
        }))
    }

    /// Begins to compile what a comparison needs, where compilers run beside the measurement. What does not
    /// compile is compiled again by the worker, and reported there.
    pub fn compile_contenders(&self, lab: &Lab, request: &CompareRequest) {
        let Some(ahead) = &self.ahead else { return };
        let (device, deadline) = (&self.device, COMPARED_COMPILE_DEADLINE);
        for contender in &request.contenders {
            let ContenderRequest::Kernel { kernel, params, .. } = contender else { continue };
            let Ok(kernel) = parse(lab, kernel) else { continue };
            let workloads = request.workloads.iter().filter_map(|name| lab.workload(name));
            let served: Vec<_> =
                workloads.filter(|it| kernel.serves(it).is_ok_and(|serves| serves)).collect();
            if let Ok(units) = bind::kernel_units(lab, &kernel, params, &served, device, deadline) {
                ahead.compile(units);
            }
        }
    }

    /// Forgets what is queued; used when the budget is spent.
    pub fn clear(&mut self) {
        self.queue.clear();
        if let Some(ahead) = &self.ahead {
            ahead.forget();
        }
    }

    /// Tells the requests that wait what the best so far takes, so that hopeless candidates are
    /// given up early.
    pub fn set_incumbent(&mut self, incumbent_s: &BTreeMap<String, f64>) {
        for queued in &mut self.queue {
            queued.request.limits.incumbent_s = incumbent_s.clone();
        }
    }

    /// Answers the next request; none when nothing is queued. A worker that dies is replaced and
    /// asked once more.
    pub fn next(&mut self, lab: &Lab) -> Result<Option<Finding>> {
        let started = Instant::now();
        if self.queue.iter().any(|queued| !queued.compiled) {
            self.compile_queue(lab)?;
        }
        let Some(mut queued) = self.queue.pop_front() else { return Ok(None) };
        if let (Some(ahead), Some(tickets)) = (&self.ahead, &queued.tickets) {
            queued.failure = ahead.wait_for(tickets);
        }
        self.spent.compiling += started.elapsed();
        let started = Instant::now();
        let known = match queued.failure {
            None => self.twin_of(lab, &queued),
            Some(CompileFailure::TimedOut { limit_s }) => Some(self.timed_out(&queued, limit_s)),
            Some(CompileFailure::Other) => None,
        };
        let finding = match known {
            Some(finding) => finding,
            None => match self.worker.ask(&Ask::Evaluate(Box::new(queued.request.clone()))) {
                Ok(Answer::Finding(finding)) => *finding,
                Ok(other) => anyhow::bail!("the worker answered an evaluation with {other:?}"),
                Err(error) if error.is::<WorkerKilled>() => self.killed(&queued, &error),
                Err(error) => return Err(error),
            },
        };
        self.spent.measuring += started.elapsed();
        self.remember(lab, &queued.kernel, &finding.trial);
        Ok(Some(finding))
    }

    /// Says where the time has gone since this was last asked.
    pub fn take_spent(&mut self) -> TimeSpent {
        std::mem::take(&mut self.spent)
    }

    /// Asks the worker something else than an evaluation; see [`Worker::ask_while`].
    pub fn ask_while(
        &mut self,
        ask: &Ask,
        go_on: &mut dyn FnMut(Option<u64>) -> bool,
    ) -> Result<Answer> {
        self.worker.ask_while(ask, go_on)
    }

    /// Remembers a trial, so that an identical binary is not measured again.
    pub fn remember(&mut self, lab: &Lab, kernel: &Kernel, trial: &Trial) {
        // What failed for a reason outside of the binary must be tried again.
        // So must what was judged with less than the gate has.
        let is_whole = !trial.notes.iter().any(|note| note.starts_with(SANITIZER_NOTE));
        let telling = match &trial.outcome {
            Outcome::CompileFailed { .. } => false,
            outcome => is_whole && !outcome.is_from_outside(),
        };
        let binaries: Vec<BlobId> = trial.builds.iter().map(|build| build.binary).collect();
        let original = trial.same_binary_as.is_none() && !binaries.is_empty();
        if telling
            && original
            && let Some(key) = twin_key(&self.device, lab, kernel, trial, &binaries)
        {
            self.twins.entry(key).or_insert_with(|| trial.clone());
        }
    }

    /// Returns the finding of an earlier trial with the same binaries and launches, made into an
    /// answer to this request.
    fn twin_of(&self, lab: &Lab, queued: &Queued) -> Option<Finding> {
        let request = &queued.request;
        let mut builds = Vec::new();
        let mut blobs = Vec::new();
        let mut notes = Vec::new();
        for unit in self.units(lab, &queued.kernel, request)? {
            let artifact = compile_unit(&self.project.artifacts(), &unit).ok()?;
            for note in compiler_notes(&artifact.log) {
                if !notes.contains(&note) {
                    notes.push(note);
                }
            }
            let log = Blob::new(artifact.log);
            builds.push(Build {
                binary: artifact.binary,
                command: artifact.command,
                compile_s: artifact.compile_s,
                cached: artifact.cached,
                log: log.id,
            });
            blobs.push(log);
        }
        let binaries: Vec<BlobId> = builds.iter().map(|build| build.binary).collect();
        let asked = self.unanswered(request);
        let key = twin_key(&self.device, lab, &queued.kernel, &asked, &binaries)?;
        let twin = self.twins.get(&key)?;
        // What was left out of the twin's gate was left out of this one's.
        for note in &twin.notes {
            if !notes.contains(note) {
                notes.push(note.clone());
            }
        }
        let trial = Trial {
            environment: twin.environment,
            builds,
            outcome: twin.outcome.clone(),
            same_binary_as: Some(twin.id),
            notes,
            ..asked
        };
        (twin.id != trial.id).then_some(Finding { trial, blobs })
    }

    /// Answers a request whose compiler came to no end: the worker's would take as long to say the same.
    fn timed_out(&self, queued: &Queued, limit_s: f64) -> Finding {
        let (outcome, log) = evaluate::compiler_timed_out(limit_s);
        let trial = Trial { outcome, wall_s: limit_s, ..self.unanswered(&queued.request) };
        Finding { trial, blobs: vec![log] }
    }

    /// Answers a request over which two workers were killed: what is tried twice is an outcome, and the next
    /// request may fare better.
    fn killed(&self, queued: &Queued, error: &anyhow::Error) -> Finding {
        let workload = queued.request.job.workloads.first().cloned().unwrap_or_default();
        let outcome = Outcome::Crashed { workload, cause: CrashCause::from_outside() };
        let notes = vec![format!("{error:#}")];
        let trial = Trial { outcome, notes, ..self.unanswered(&queued.request) };
        Finding { trial, blobs: Vec::new() }
    }

    /// A trial with everything that is known before anything was done.
    fn unanswered(&self, request: &Request) -> Trial {
        Trial {
            format: warpsmith_model::FORMAT_VERSION,
            id: request.job.trial,
            job: request.job.clone(),
            environment: self.environment,
            builds: Vec::new(),
            outcome: Outcome::Passed { measurements: Vec::new() },
            same_binary_as: None,
            wall_s: 0.0,
            launch_s: 0.0,
            notes: Vec::new(),
        }
    }

    /// Compiles everything that is queued, on all cores.
    fn compile_queue(&mut self, lab: &Lab) -> Result<()> {
        let mut units: Vec<Unit> = Vec::new();
        for queued in self.queue.iter().filter(|queued| !queued.compiled) {
            for unit in self.units(lab, &queued.kernel, &queued.request).unwrap_or_default() {
                if !units.contains(&unit) {
                    units.push(unit);
                }
            }
        }
        let artifacts = self.project.artifacts();
        let _quiet = quiet_unless(self.worker.interrupt(), TargetKind::Cpu, Quiet::Compiling)?;
        if units.len() > processors() {
            // A search: nobody else asks for more than one at a time.
            let _missing_compiler = expect_many(&artifacts, &units[0]);
        }
        let waiting = Mutex::new(units.into_iter());
        let failed: Mutex<Vec<(Unit, CompileFailure)>> = Mutex::new(Vec::new());
        std::thread::scope(|scope| {
            for _ in 0..processors() {
                scope.spawn(|| {
                    loop {
                        let unit = waiting.lock().ok().and_then(|mut units| units.next());
                        let Some(unit) = unit else { break };
                        if let Err(fault) = compile_unit(&artifacts, &unit) {
                            let mut failed = failed.lock().unwrap_or_else(PoisonError::into_inner);
                            failed.push((unit, CompileFailure::from(&fault)));
                        }
                    }
                });
            }
        });
        let failed = failed.into_inner().unwrap_or_else(PoisonError::into_inner);
        let mut queue = std::mem::take(&mut self.queue);
        for queued in queue.iter_mut().filter(|queued| !queued.compiled) {
            queued.compiled = true;
            if failed.is_empty() {
                continue;
            }
            let units = self.units(lab, &queued.kernel, &queued.request).unwrap_or_default();
            let own = failed.iter().find(|(unit, _)| units.contains(unit));
            queued.failure = own.map(|(_, failure)| *failure);
        }
        self.queue = queue;
        Ok(())
    }

    fn units(&self, lab: &Lab, kernel: &Kernel, request: &Request) -> Option<Vec<Unit>> {
        let workloads: Vec<_> =
            request.job.workloads.iter().filter_map(|name| lab.workload(name)).collect();
        bind::kernel_units(
            lab,
            kernel,
            &request.job.candidate.params,
            &workloads,
            &self.device,
            std::time::Duration::from_secs_f64(request.limits.compile_deadline_s),
        )
        .ok()
    }
}

/// Identifies what really runs and what is asked of it: the lab, the binaries, and, by workload, the
/// launches, the tensor maps and the scratch. None where no other trial can answer.
///
/// The full gate goes beyond the workloads. There a twin must keep the same promises: serve the same shapes,
/// and launch the same on all of them, whatever their extents.
fn twin_key(
    device: &DeviceInfo,
    lab: &Lab,
    kernel: &Kernel,
    trial: &Trial,
    binaries: &[BlobId],
) -> Option<BlobId> {
    let mut hasher = Hasher::new("twin");
    hasher.part(trial.job.fidelity.name().as_bytes());
    // Shapes, inputs and tolerances are the lab's.
    hasher.part(trial.job.lab.to_string().as_bytes());
    hasher.part(format!("{:?}", kernel.expect).as_bytes());
    for requirement in &kernel.requires {
        hasher.part(b"requires").part(requirement.text().as_bytes());
    }
    if trial.job.fidelity == Fidelity::Full {
        promises(&mut hasher, kernel, &trial.job.candidate)?;
    }
    for binary in binaries {
        hasher.part(binary.to_string().as_bytes());
    }
    for name in &trial.job.workloads {
        let workload = lab.workload(name)?;
        let (kernel, params) = kernel.on(workload, &trial.job.candidate.params).ok()?;
        let lookup = lookup_all(workload, params, device);
        hasher.part(name.as_bytes());
        for launch in &kernel.launches {
            let blocks = launch.blocks.eval_int(&lookup).ok()?;
            let chunk = launch.chunk.eval_int(&lookup).ok()?;
            hasher.part(format!("{} {blocks} {chunk}", launch.entry).as_bytes());
            for extent in launch.grid.iter().flat_map(grid_extents) {
                hasher.part(&extent.eval_int(&lookup).ok()?.to_le_bytes());
            }
        }
        for map in &kernel.tensor_maps {
            let TensorMap { name: _, tensor, shape, box_extents, swizzle } = map;
            hasher.part(format!("map {tensor} {} {swizzle}", shape.len()).as_bytes());
            for extent in shape.iter().chain(box_extents) {
                hasher.part(&extent.eval_int(&lookup).ok()?.to_le_bytes());
            }
        }
        for scratch in &kernel.scratch {
            hasher.part(&scratch.bytes.eval_int(&lookup).ok()?.to_le_bytes());
        }
    }
    Some(hasher.into())
}

/// Adds what a candidate does on shapes that no trial names. None where that is not known from its contract
/// and its binaries: a front launches other kernels there, and a specialised source is another binary.
fn promises(hasher: &mut Hasher, kernel: &Kernel, candidate: &Candidate) -> Option<()> {
    // Every field is looked at: one that is added later must be thought of here.
    let Kernel {
        name: _,
        summary: _,
        contract: _,
        // In the binaries, which are the same for all shapes.
        source: _,
        flags: _,
        arch: _,
        compiler: _,
        specialize,
        // Added at every fidelity.
        requires: _,
        expect: _,
        // About what may be launched at all, which the parameters passed.
        constraints: _,
        tunables: _,
        default: _,
        expand: _,
        launches,
        scratch,
        tensor_maps,
        build,
        front,
    } = kernel;
    if front.is_some() || !specialize.is_empty() {
        return None;
    }
    // Expressions over extents see the parameters, too.
    hasher.part(candidate.params.key().as_bytes());
    for launch in launches {
        let Launch { entry, blocks, chunk, grid } = launch;
        hasher.part(b"launch").part(entry.as_bytes());
        for expr in [blocks, chunk].into_iter().chain(grid.iter().flat_map(grid_extents)) {
            hasher.part(expr.text().as_bytes());
        }
    }
    for buffer in scratch {
        let Scratch { name: _, bytes } = buffer;
        hasher.part(b"scratch").part(bytes.text().as_bytes());
    }
    for map in tensor_maps {
        let TensorMap { name: _, tensor, shape, box_extents, swizzle } = map;
        hasher.part(format!("map {tensor} {} {swizzle}", shape.len()).as_bytes());
        for extent in shape.iter().chain(box_extents) {
            hasher.part(extent.text().as_bytes());
        }
    }
    hasher.part(format!("{build:?}").as_bytes());
    Some(())
}

/// Everything that a CUDA launch's extents are made of.
fn grid_extents(grid: &Grid) -> impl Iterator<Item = &Expr> {
    let Grid { grid, block, cluster, smem } = grid;
    grid.iter().chain(block).chain(cluster).chain([smem])
}

/// Names a trial: the same question in the same run is the same trial.
pub fn trial_id(
    run: &warpsmith_model::RunId,
    candidate: &warpsmith_model::CandidateId,
    fidelity: warpsmith_model::Fidelity,
    workloads: &[String],
) -> TrialId {
    let mut hasher = Hasher::new("trial");
    hasher.part(run.0.as_bytes()).part(candidate.to_string().as_bytes());
    hasher.part(fidelity.name().as_bytes());
    for workload in workloads {
        hasher.part(workload.as_bytes());
    }
    hasher.into()
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use warpsmith_model::{
        Candidate, CandidateId, FORMAT_VERSION, Fidelity, Job, Origin, RunId, TrialId,
    };

    use super::*;

    #[test]
    fn kernels_that_differ_in_a_tensor_map_are_no_twins() {
        let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../labs/gemm/cuda");
        let lab = crate::labdir::load(&dir).expect("the lab").lab;
        let kernel = lab.kernels.iter().find(|kernel| !kernel.tensor_maps.is_empty());
        let kernel = kernel.expect("a kernel that copies by tensor maps");
        let device = warpsmith_device::cuda::device_of_arch("sm_90a").expect("known");
        let workloads = vec![lab.workloads[0].name.clone()];
        let candidate = Candidate {
            id: CandidateId::of(b"candidate"),
            kernel: kernel.name.clone(),
            source: BlobId::of(b"source"),
            params: kernel.default.clone(),
            origin: Origin::Seed,
        };
        let run = RunId("run".to_string());
        let trial = Trial {
            format: FORMAT_VERSION,
            id: TrialId::of(b"trial"),
            job: Job {
                trial: trial_id(&run, &candidate.id, Fidelity::Rank, &workloads),
                lab: lab.id,
                candidate,
                workloads,
                fidelity: Fidelity::Rank,
                seed: 1,
            },
            environment: EnvironmentId::of(b""),
            builds: Vec::new(),
            outcome: Outcome::Passed { measurements: Vec::new() },
            same_binary_as: None,
            wall_s: 0.0,
            launch_s: 0.0,
            notes: Vec::new(),
        };
        let key = |kernel: &Kernel| {
            twin_key(&device, &lab, kernel, &trial, &[BlobId::of(b"code")]).expect("a key")
        };
        let plain = key(kernel);
        assert_eq!(plain, key(&kernel.clone()));
        let mut other = kernel.clone();
        other.tensor_maps[0].swizzle = if other.tensor_maps[0].swizzle == 64 { 32 } else { 64 };
        assert_ne!(plain, key(&other), "another swizzle");
        let mut other = kernel.clone();
        other.tensor_maps[0].box_extents[0] = Expr::parse("7").expect("a number");
        assert_ne!(plain, key(&other), "another box");
        let mut other = kernel.clone();
        other.tensor_maps[0].shape[0] = Expr::parse("7").expect("a number");
        assert_ne!(plain, key(&other), "another extent");
    }

    /// A kernel with the program of a narrower one was once believed without a launch.
    #[test]
    fn the_full_gate_has_no_twins_that_promise_something_else() {
        let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../labs/gemm");
        let lab = crate::labdir::load(&dir).expect("the lab").lab;
        let device = warpsmith_device::cuda::device_of_arch("sm_90a").expect("known");
        let kernel = lab.kernel("00_naive").expect("there");
        let key = |kernel: &Kernel, fidelity| {
            let trial = full_trial(&lab, kernel, fidelity);
            twin_key(&device, &lab, kernel, &trial, &[BlobId::of(b"code")])
        };
        let plain = key(kernel, Fidelity::Full).expect("a key");
        let renamed = Kernel { name: "another".to_string(), ..kernel.clone() };
        assert_eq!(key(&renamed, Fidelity::Full), Some(plain), "the same by another name");

        let expr = |text: &str| Expr::parse(text).expect("an expression");
        let narrow = Kernel { requires: vec![expr("M % 8 == 0")], ..kernel.clone() };
        for fidelity in [Fidelity::Micro, Fidelity::Rank, Fidelity::Full] {
            assert_ne!(key(&narrow, fidelity), key(kernel, fidelity), "serves other shapes");
        }
        let cheat = Kernel { expect: Some(warpsmith_model::Verdict::Incorrect), ..kernel.clone() };
        assert_ne!(key(&cheat, Fidelity::Full), Some(plain), "another verdict is expected");

        // The same on every workload, and another elsewhere.
        let mut lazy = kernel.clone();
        let known: Vec<String> =
            lab.workloads.iter().filter_map(|it| it.axis("M")).map(|m| m.to_string()).collect();
        let blocks = &kernel.launches[0].blocks;
        lazy.launches[0].blocks =
            expr(&format!("({}) if M in [{}] else 1", blocks.text(), known.join(", ")));
        assert_eq!(key(&lazy, Fidelity::Rank), key(kernel, Fidelity::Rank));
        assert_ne!(key(&lazy, Fidelity::Full), Some(plain), "other launches on other shapes");

        let specialised = Kernel { specialize: vec!["K".to_string()], ..kernel.clone() };
        assert_eq!(key(&specialised, Fidelity::Full), None, "other binaries on other shapes");
        let trial = full_trial(&lab, kernel, Fidelity::Full);
        let other_lab = Trial {
            job: Job { lab: warpsmith_model::LabId::of(b"another"), ..trial.job.clone() },
            ..trial
        };
        let of_another = twin_key(&device, &lab, kernel, &other_lab, &[BlobId::of(b"code")]);
        assert_ne!(of_another, Some(plain), "another lab has other inputs");
    }

    fn full_trial(lab: &Lab, kernel: &Kernel, fidelity: Fidelity) -> Trial {
        let workloads: Vec<String> = lab.workloads.iter().map(|it| it.name.clone()).collect();
        let candidate = Candidate {
            id: CandidateId::of(b"candidate"),
            kernel: kernel.name.clone(),
            source: BlobId::of(b"source"),
            params: kernel.default.clone(),
            origin: Origin::Seed,
        };
        let run = RunId("run".to_string());
        Trial {
            format: FORMAT_VERSION,
            id: TrialId::of(b"trial"),
            job: Job {
                trial: trial_id(&run, &candidate.id, fidelity, &workloads),
                lab: lab.id,
                candidate,
                workloads,
                fidelity,
                seed: 1,
            },
            environment: EnvironmentId::of(b""),
            builds: Vec::new(),
            outcome: Outcome::Passed { measurements: Vec::new() },
            same_binary_as: None,
            wall_s: 0.0,
            launch_s: 0.0,
            notes: Vec::new(),
        }
    }
}
