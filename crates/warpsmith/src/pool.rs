//! Compiling ahead and measuring one at a time.
//!
//! [`Pool::submit`] queues requests, [`Pool::next`] answers them in order. Compilers run in
//! parallel and fill the artifact cache; one worker process measures. On the CPU target the
//! compilers would disturb the measurement, so a whole batch is compiled before the first of it is
//! measured; a machine-wide lock keeps the compilers of other campaigns away too.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::sync::{Mutex, Once};

use anyhow::{Context, Result};
use warpsmith_device::bind;
use warpsmith_device::compile_unit;
use warpsmith_device::cpu::{Quiet, QuietGuard, quiet_lock, quiet_lock_path};
use warpsmith_device::target::Unit;
use warpsmith_model::lab::{Grid, Kernel, lookup_all};
use warpsmith_model::{
    Answer, Ask, Blob, BlobId, Build, DeviceInfo, Expr, Finding, Hasher, Lab, Outcome, Request,
    Trial, TrialId,
};

use crate::output::say;
use crate::project::Project;
use crate::worker_client::Worker;

/// Requests on their way to the worker.
#[derive(Debug)]
pub struct Pool {
    project: Project,
    device: DeviceInfo,
    worker: Worker,
    queue: VecDeque<Queued>,
    twins: HashMap<BlobId, Trial>,
}

#[derive(Debug)]
struct Queued {
    request: Request,
    kernel: Kernel,
    compiled: bool,
}

impl Pool {
    /// Starts a pool over a worker.
    pub fn new(project: &Project, device: &DeviceInfo, worker: Worker) -> Self {
        Self {
            project: project.clone(),
            device: device.clone(),
            worker,
            queue: VecDeque::new(),
            twins: HashMap::new(),
        }
    }

    /// Returns how many more requests would keep the compilers busy.
    pub fn idle(&self) -> usize {
        if self.queue.is_empty() { 2 * self.device.threads as usize } else { 0 }
    }

    /// Queues a request.
    pub fn submit(&mut self, kernel: &Kernel, request: Request) {
        self.queue.push_back(Queued { request, kernel: kernel.clone(), compiled: false });
    }

    /// Forgets what is queued; used when the budget is spent.
    pub fn clear(&mut self) {
        self.queue.clear();
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
        if self.queue.iter().any(|queued| !queued.compiled) {
            self.compile_queue(lab)?;
        }
        let Some(queued) = self.queue.pop_front() else { return Ok(None) };
        let finding = match self.twin_of(lab, &queued) {
            Some(twin) => twin,
            None => match self.worker.ask(&Ask::Evaluate(Box::new(queued.request.clone())))? {
                Answer::Finding(finding) => *finding,
                other => anyhow::bail!("the worker answered an evaluation with {other:?}"),
            },
        };
        self.remember(lab, &queued.kernel, &finding.trial);
        Ok(Some(finding))
    }

    /// Asks the worker something else than an evaluation.
    pub fn ask(&mut self, ask: &Ask) -> Result<Answer> {
        self.worker.ask(ask)
    }

    /// Remembers a trial, so that an identical binary is not measured again.
    pub fn remember(&mut self, lab: &Lab, kernel: &Kernel, trial: &Trial) {
        // What failed for a reason outside of the binary must be tried again.
        let telling = !matches!(trial.outcome, Outcome::CompileFailed { .. });
        let binaries: Vec<BlobId> = trial.builds.iter().map(|build| build.binary).collect();
        let original = trial.same_binary_as.is_none() && !binaries.is_empty();
        if telling
            && original
            && let Some(key) = self.twin_key(lab, kernel, trial, &binaries)
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
        for unit in self.units(lab, &queued.kernel, request)? {
            let artifact = compile_unit(&self.project.artifacts(), &unit).ok()?;
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
        let asked = Trial {
            format: warpsmith_model::FORMAT_VERSION,
            id: request.job.trial,
            job: request.job.clone(),
            environment: warpsmith_model::EnvironmentId::of(b""),
            builds: Vec::new(),
            outcome: Outcome::Passed { measurements: Vec::new() },
            same_binary_as: None,
            wall_s: 0.0,
            launch_s: 0.0,
            notes: Vec::new(),
        };
        let key = self.twin_key(lab, &queued.kernel, &asked, &binaries)?;
        let twin = self.twins.get(&key)?;
        let trial = Trial {
            environment: twin.environment,
            builds,
            outcome: twin.outcome.clone(),
            same_binary_as: Some(twin.id),
            ..asked
        };
        (twin.id != trial.id).then_some(Finding { trial, blobs })
    }

    /// Identifies what really runs: the binaries, the launches and the scratch, by workload.
    fn twin_key(
        &self,
        lab: &Lab,
        kernel: &Kernel,
        trial: &Trial,
        binaries: &[BlobId],
    ) -> Option<BlobId> {
        let mut hasher = Hasher::new("twin");
        hasher.part(trial.job.fidelity.name().as_bytes());
        for binary in binaries {
            hasher.part(binary.to_string().as_bytes());
        }
        for name in &trial.job.workloads {
            let workload = lab.workload(name)?;
            let lookup = lookup_all(workload, &trial.job.candidate.params, &self.device);
            hasher.part(name.as_bytes());
            for launch in &kernel.launches {
                let blocks = launch.blocks.eval_int(&lookup).ok()?;
                let chunk = launch.chunk.eval_int(&lookup).ok()?;
                hasher.part(format!("{} {blocks} {chunk}", launch.entry).as_bytes());
                for extent in launch.grid.iter().flat_map(grid_extents) {
                    hasher.part(&extent.eval_int(&lookup).ok()?.to_le_bytes());
                }
            }
            for scratch in &kernel.scratch {
                hasher.part(&scratch.bytes.eval_int(&lookup).ok()?.to_le_bytes());
            }
        }
        Some(hasher.into())
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
        let _quiet = quiet(Quiet::Compiling)?;
        let waiting = Mutex::new(units.into_iter());
        std::thread::scope(|scope| {
            for _ in 0..self.device.threads.max(1) {
                scope.spawn(|| {
                    loop {
                        let unit = waiting.lock().ok().and_then(|mut units| units.next());
                        let Some(unit) = unit else { break };
                        // The worker compiles again what failed here, and reports it with its log.
                        let _reported_by_the_worker = compile_unit(&artifacts, &unit);
                    }
                });
            }
        });
        for queued in &mut self.queue {
            queued.compiled = true;
        }
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

/// Everything that a CUDA launch's extents are made of.
fn grid_extents(grid: &Grid) -> impl Iterator<Item = &Expr> {
    let Grid { grid, block, cluster, smem } = grid;
    grid.iter().chain(block).chain(cluster).chain([smem])
}

/// Waits until the machine is quiet enough, and keeps it so; says so the first time it waits.
pub fn quiet(purpose: Quiet) -> Result<QuietGuard> {
    let path = quiet_lock_path();
    static TOLD: Once = Once::new();
    let tell = || TOLD.call_once(|| say("  waiting for another campaign on this machine"));
    quiet_lock(&path, purpose, tell).with_context(|| format!("cannot lock {}", path.display()))
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
