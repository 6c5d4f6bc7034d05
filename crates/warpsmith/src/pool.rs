//! Compiling ahead and measuring one at a time.
//!
//! [`Pool::submit`] queues requests, [`Pool::next`] answers them in order. Compilers run in
//! parallel and fill the artifact cache; one worker process measures. On the CPU target the
//! compilers would disturb the measurement, so a whole batch is compiled before the first of it is
//! measured; a machine-wide lock keeps the compilers of other campaigns away too. A GPU is not
//! disturbed by compilers: there they run [`Ahead`] of the measurement, all the time.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::path::Path;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, Once, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use warpsmith_device::bind;
use warpsmith_device::compile_unit;
use warpsmith_device::cpu::{Quiet, QuietGuard, quiet_lock, quiet_lock_path};
use warpsmith_device::target::Unit;
use warpsmith_model::lab::{Grid, Kernel, TargetKind, lookup_all};
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
    /// Compilers that run beside the measurement; none where they would disturb it.
    ahead: Option<Ahead>,
    spent: Spent,
}

/// Where a pool's time went.
#[derive(Clone, Copy, Debug, Default)]
pub struct Spent {
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
    /// The last of its units, as the compilers ahead count them.
    ticket: u64,
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
            ahead: device.cuda.is_some().then(|| Ahead::new(project)),
            spent: Spent::default(),
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
        let mut queued = Queued { request, kernel: kernel.clone(), compiled: false, ticket: 0 };
        queued.ticket = match &self.ahead {
            Some(ahead) => {
                queued.compiled = true;
                ahead.compile(self.units(lab, kernel, &queued.request).unwrap_or_default())
            }
            None => 0,
        };
        self.queue.push_back(queued);
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
        let Some(queued) = self.queue.pop_front() else { return Ok(None) };
        if let Some(ahead) = &self.ahead {
            ahead.wait_for(queued.ticket);
        }
        self.spent.compiling += started.elapsed();
        let started = Instant::now();
        let finding = match self.twin_of(lab, &queued) {
            Some(twin) => twin,
            None => match self.worker.ask(&Ask::Evaluate(Box::new(queued.request.clone())))? {
                Answer::Finding(finding) => *finding,
                other => anyhow::bail!("the worker answered an evaluation with {other:?}"),
            },
        };
        self.spent.measuring += started.elapsed();
        self.remember(lab, &queued.kernel, &finding.trial);
        Ok(Some(finding))
    }

    /// Says where the time has gone since this was last asked.
    pub fn take_spent(&mut self) -> Spent {
        std::mem::take(&mut self.spent)
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
        let _quiet = quiet(TargetKind::Cpu, Quiet::Compiling)?;
        let waiting = Mutex::new(units.into_iter());
        std::thread::scope(|scope| {
            for _ in 0..processors() {
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

/// Compilers that work through a list of units, in order, on all processors. Units are counted; a unit
/// is finished when it and all before it are.
#[derive(Debug)]
struct Ahead {
    list: Arc<(Mutex<List>, Condvar)>,
    threads: Vec<JoinHandle<()>>,
}

#[derive(Debug, Default)]
struct List {
    waiting: VecDeque<(u64, Unit)>,
    /// Being compiled at this moment.
    running: Vec<u64>,
    /// How many were put in.
    count: u64,
    ended: bool,
}

impl Ahead {
    fn new(project: &Project) -> Self {
        let list = Arc::new((Mutex::new(List::default()), Condvar::new()));
        let threads = (0..processors())
            .map(|_| {
                let (list, artifacts) = (Arc::clone(&list), project.artifacts());
                std::thread::spawn(move || serve(&list, &artifacts))
            })
            .collect();
        Self { list, threads }
    }

    /// Puts units on the list; returns the number of the last.
    fn compile(&self, units: Vec<Unit>) -> u64 {
        let mut list = locked(&self.list.0);
        for unit in units {
            list.count += 1;
            let number = list.count;
            list.waiting.push_back((number, unit));
        }
        self.list.1.notify_all();
        list.count
    }

    /// Waits until a unit and all before it are finished.
    fn wait_for(&self, number: u64) {
        let list = locked(&self.list.0);
        let is_unfinished = |list: &mut List| {
            let waiting = list.waiting.front().is_some_and(|(first, _)| *first <= number);
            waiting || list.running.iter().any(|running| *running <= number)
        };
        let _list =
            self.list.1.wait_while(list, is_unfinished).unwrap_or_else(PoisonError::into_inner);
    }

    /// Leaves out what was not begun.
    fn forget(&self) {
        locked(&self.list.0).waiting.clear();
    }
}

impl Drop for Ahead {
    fn drop(&mut self) {
        {
            let mut list = locked(&self.list.0);
            list.waiting.clear();
            list.ended = true;
        }
        self.list.1.notify_all();
        for thread in self.threads.drain(..) {
            // A compiler thread that panicked has nothing more to say.
            let _ = thread.join();
        }
    }
}

fn serve(list: &(Mutex<List>, Condvar), artifacts: &Path) {
    loop {
        let (number, unit) = {
            let is_idle = |list: &mut List| list.waiting.is_empty() && !list.ended;
            let waited = list.1.wait_while(locked(&list.0), is_idle);
            let mut list = waited.unwrap_or_else(PoisonError::into_inner);
            let Some(next) = list.waiting.pop_front() else { return };
            list.running.push(next.0);
            next
        };
        {
            // A campaign on the processors may be measuring. Without the lock it is disturbed, no more.
            let _quiet = quiet(TargetKind::Cpu, Quiet::Compiling).ok();
            // The worker compiles again what failed here, and reports it with its log.
            let _reported_by_the_worker = compile_unit(artifacts, &unit);
        }
        locked(&list.0).running.retain(|running| *running != number);
        list.1.notify_all();
    }
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// How many compilers can run at once.
fn processors() -> usize {
    std::thread::available_parallelism().map_or(1, |count| count.get())
}

/// Everything that a CUDA launch's extents are made of.
fn grid_extents(grid: &Grid) -> impl Iterator<Item = &Expr> {
    let Grid { grid, block, cluster, smem } = grid;
    grid.iter().chain(block).chain(cluster).chain([smem])
}

/// Waits until what a target runs on is quiet enough, and keeps it so; says so the first time it waits.
pub fn quiet(target: TargetKind, purpose: Quiet) -> Result<QuietGuard> {
    let path = match target {
        TargetKind::Cpu => quiet_lock_path(),
        // A GPU is disturbed by nothing that runs on the processors, nor disturbs it.
        TargetKind::Cuda => quiet_lock_path().with_file_name("warpsmith-quiet-cuda.lock"),
    };
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

#[cfg(test)]
mod tests {
    use super::*;

    fn unit(source: &str) -> Unit {
        Unit {
            file_name: "empty.c".to_string(),
            source: source.to_string(),
            headers: Vec::new(),
            entries: Vec::new(),
            signature: Vec::new(),
            defines: Vec::new(),
            compiler: "a compiler that is not there".to_string(),
            flags: Vec::new(),
            deadline: std::time::Duration::from_secs(1),
        }
    }

    #[test]
    fn compilers_ahead_finish_in_any_order_and_are_waited_for_in_order() {
        let folder = tempfile::tempdir().expect("a folder");
        let project = Project {
            evidence_dir: folder.path().join("evidence"),
            work_dir: folder.path().join("work"),
        };
        let ahead = Ahead::new(&project);
        let first = ahead.compile(vec![unit("a"), unit("b")]);
        let second = ahead.compile(vec![unit("c")]);
        assert_eq!((first, second), (2, 3));
        ahead.wait_for(second);
        ahead.wait_for(first);
        let list = locked(&ahead.list.0);
        assert!(list.waiting.is_empty() && list.running.is_empty());
        drop(list);
        ahead.compile((0..100).map(|idx| unit(&idx.to_string())).collect());
        ahead.forget();
        drop(ahead);
    }
}
