//! A campaign: a run of the evidence store, a lab, a worker, and the steps that use them.
//!
//! Every step asks the evidence first and does only what is missing, so resuming a run is doing it
//! again. A trial is durable before anyone learns from it.

pub(crate) mod evolve;
mod finals;
mod objective;
mod priors;
mod profile;
mod restore;
mod resume;
mod steps;
#[cfg(test)]
pub(crate) mod testing;
mod until;

use std::collections::HashMap;
use std::time::{SystemTime, UNIX_EPOCH};

use anyhow::{Context, Result, bail};
use warpsmith_device::cuda;
use warpsmith_evidence::{Question, Store};
use warpsmith_gate::bind;
use warpsmith_model::lab::{Kernel, TargetKind};
use warpsmith_model::stats::median_interval;
use warpsmith_model::{
    Answer, Ask, Blob, BlobId, Candidate, CandidateId, Ceilings, Environment, EnvironmentId,
    FORMAT_VERSION, Fidelity, Finding, Goal, Hasher, Job, Lab, LabRecord, LabRef, Origin, Outcome,
    Params, Request, RequestLimits, RunId, RunRecord, RunSettings, RunStatus, Trial, TrialId,
};

use crate::damage::{all_intact, intact};
use crate::interrupt::Interrupt;
use crate::kernel_text::kernel_text;
use crate::labdir::LoadedLab;
use crate::pool::{Pool, trial_id};
use crate::project::Project;
use crate::worker_client::Worker;

/// Seconds of timing on one workload, for ranking: a search would rather have more trials than more
/// samples of each, and what is close is settled by paired comparison.
const RANKING_BUDGET_S: f64 = 0.2;
/// Seconds of timing on one workload, for the record.
const RECORD_BUDGET_S: f64 = 1.0;

pub(crate) use finals::{ConfiguredKernel, Finalists, missing_words};
pub(crate) use restore::restore;
pub(crate) use steps::{Pace, kernel_of, refuse_front, rung_of};
pub(crate) use until::check_until;

/// A run in progress.
#[derive(Debug)]
pub struct Campaign {
    /// Where things are kept.
    pub project: Project,
    /// What is computed.
    pub loaded: LoadedLab,
    /// What was asked.
    pub settings: RunSettings,
    /// The run's name.
    pub run: RunId,
    /// The evidence.
    pub store: Store,
    /// The machine and its tools.
    pub environment: Environment,
    environment_id: EnvironmentId,
    pool: Pool,
    interrupt: Interrupt,
    /// What this run knows, by the question: see [`trial_id`].
    trials: HashMap<TrialId, Trial>,
    /// How often an evaluation was ended from outside, by the question; each said nothing, and had a name.
    ended: HashMap<TrialId, u32>,
    /// How the last search went.
    pub pace: Option<Pace>,
}

impl Campaign {
    /// Starts a new run.
    pub fn start(
        project: &Project,
        loaded: LoadedLab,
        settings: RunSettings,
        interrupt: Interrupt,
    ) -> Result<Self> {
        let store = open_store(project)?;
        let mut worker = Worker::stopped_by(project, loaded.lab.target, &interrupt);
        let environment = ask_environment(&mut worker)?;
        let environment_id = environment.id();
        let run = new_run_id(&loaded.lab.name)?;
        store.put_environment(&environment)?;
        store.start_run(&RunRecord {
            format: FORMAT_VERSION,
            id: run.clone(),
            lab: LabRecord::of(&loaded.lab).context("the lab's formulas cannot be evaluated")?,
            environment: environment_id,
            started_unix_s: now_unix_s(),
            settings: settings_map(&settings)?,
            status: RunStatus::Running,
        })?;
        let pool = Pool::new(project, &environment, worker);
        Ok(Self {
            project: project.clone(),
            loaded,
            settings,
            run,
            store,
            environment,
            environment_id,
            pool,
            interrupt,
            trials: HashMap::new(),
            ended: HashMap::new(),
            pace: None,
        })
    }

    /// Puts one kernel through the gate.
    pub fn check(
        &mut self,
        kernel: &Kernel,
        params: &Params,
        origin: Origin,
        fidelity: Fidelity,
        adjust: impl Fn(&mut Request),
    ) -> Result<Trial> {
        let workloads = self.served(kernel)?;
        if workloads.is_empty() {
            bail!(
                "kernel `{}` serves none of the lab's workloads (see its `requires`)",
                kernel.name
            );
        }
        let mut request = self.request(kernel, params, origin, fidelity, workloads)?;
        adjust(&mut request);
        self.evaluate(kernel, request)
    }

    /// Returns the seed whose inputs the lab's kernels may share in a run on CUDA; right answers take longer
    /// than the kernels. It was drawn when the command started, so none was written for these inputs, and
    /// buffers are overwritten before the next kernel runs. Native code gets inputs of its own.
    pub fn shared_seed(&self) -> Option<u64> {
        let is_drawn = matches!(self.settings.goal, Goal::Check | Goal::Compare);
        (is_drawn && self.loaded.lab.target == TargetKind::Cuda).then_some(self.settings.seed)
    }

    /// Returns what tells whether the user asked to stop.
    pub fn interrupt(&self) -> Interrupt {
        self.interrupt.clone()
    }

    /// Makes sure that the full gate will find its sanitizers, and that they start: better now than after
    /// the search.
    pub fn require_sanitizers(&self) -> Result<()> {
        require_sanitizers(&self.project, &self.loaded.lab, &self.settings)
    }

    /// Forgets what was asked and not answered, after something was stopped in the middle.
    pub fn drop_queued(&mut self) {
        self.pool.clear();
    }

    /// Returns how many trials the run held when it was taken up.
    pub fn n_stored(&self) -> usize {
        self.trials.len()
    }

    /// Records how the run ended.
    pub fn finish(&mut self, status: RunStatus) -> Result<()> {
        self.store.finish_run(&self.run, &status)?;
        Ok(())
    }

    /// Returns the stored trials of this run at one fidelity that say something, in order.
    fn stored(&self, fidelity: Fidelity) -> Result<Vec<Trial>> {
        let trials = self.store.trials(&self.run)?;
        let wanted =
            |trial: &Trial| trial.job.fidelity == fidelity && !trial.outcome.is_from_outside();
        Ok(trials.into_iter().map(|stored| stored.trial).filter(wanted).collect())
    }

    /// Builds the request that asks for one candidate.
    fn request(
        &self,
        kernel: &Kernel,
        params: &Params,
        origin: Origin,
        fidelity: Fidelity,
        workloads: Vec<String>,
    ) -> Result<Request> {
        let candidate = Candidate {
            id: self.candidate_id(kernel, params)?,
            kernel: kernel.name.clone(),
            source: BlobId::of(kernel.source.as_bytes()),
            params: params.clone(),
            origin,
        };
        // The full gate's inputs are nobody's to know beforehand.
        let seed = match fidelity {
            Fidelity::Full => system_seed()?,
            Fidelity::Micro | Fidelity::Rank => self.settings.seed,
        };
        let usual = RequestLimits::default();
        Ok(Request {
            format: FORMAT_VERSION,
            lab_dir: self.loaded.dir.clone(),
            kernel: Some(kernel_text(kernel)),
            job: Job {
                trial: self.next_trial(&candidate.id, fidelity, &workloads),
                lab: self.loaded.lab.id,
                candidate,
                workloads,
                fidelity,
                seed,
            },
            limits: RequestLimits {
                timing_budget_s: match fidelity {
                    Fidelity::Micro | Fidelity::Rank => RANKING_BUDGET_S,
                    Fidelity::Full => RECORD_BUDGET_S,
                },
                hopeless_ratio: self.settings.hopeless_ratio,
                sanitize: self.settings.sanitize,
                launch_deadline_s: self
                    .settings
                    .launch_deadline_s
                    .unwrap_or(usual.launch_deadline_s),
                ..usual
            },
        })
    }

    /// Returns the identity of a candidate with the compiler that it will be built by.
    pub fn candidate_id(&self, kernel: &Kernel, params: &Params) -> Result<CandidateId> {
        let compiler = self.compiler(kernel, params);
        let version = self
            .environment
            .compilers
            .iter()
            .find(|known| known.name == compiler)
            .map_or("missing", |known| known.version.as_str());
        Ok(warpsmith_model::lab::candidate_id(&self.loaded.lab, kernel, params, version))
    }

    /// Returns the name of the compiler that a kernel with parameters is built by.
    pub fn compiler(&self, kernel: &Kernel, params: &Params) -> String {
        match self.loaded.lab.target {
            TargetKind::Cpu => bind::compiler_name(params),
            TargetKind::Cuda => kernel.compiler.name().to_string(),
        }
    }

    /// Evaluates one candidate now: from this run, from an earlier one, or by the worker.
    fn evaluate(&mut self, kernel: &Kernel, request: Request) -> Result<Trial> {
        if let Some(known) = self.known(kernel, &request)? {
            return Ok(known);
        }
        self.pool.submit(&self.loaded.lab, kernel, request);
        let finding = self.pool.next(&self.loaded.lab)?.context("the request was just queued")?;
        self.keep(kernel, finding)
    }

    /// Returns what the evidence already says.
    fn known(&mut self, kernel: &Kernel, request: &Request) -> Result<Option<Trial>> {
        let asked = self.asked(&request.job);
        if let Some(trial) = self.trials.get(&asked) {
            return Ok(Some(trial.clone()));
        }
        // The winner's verification is never taken from an earlier run.
        if !self.settings.reuse || request.job.fidelity == Fidelity::Full {
            return Ok(None);
        }
        let job = &request.job;
        let question = Question {
            candidate: job.candidate.id,
            fidelity: job.fidelity,
            workloads: &job.workloads,
            environment: self.environment_id,
            lab: job.lab,
        };
        // A damaged answer is none: it is measured again.
        let Some(trial) = intact(self.store.find_trial(&question))?.flatten() else {
            return Ok(None);
        };
        // An abandoned trial depends on the incumbent of its time.
        let is_abandoned =
            matches!(warpsmith_search::score(&trial), warpsmith_search::Score::Abandoned { .. });
        if is_abandoned && !still_hopeless(&trial, &request.limits) {
            return Ok(None);
        }
        self.store.adopt(&self.run, &trial, now_unix_s())?;
        self.pool.remember(&self.loaded.lab, kernel, &trial);
        self.trials.insert(asked, trial.clone());
        Ok(Some(trial))
    }

    /// Makes a finding durable and returns its trial.
    fn keep(&mut self, kernel: &Kernel, mut finding: Finding) -> Result<Trial> {
        finding.blobs.push(Blob::new(kernel.source.clone()));
        self.store.append(&self.run, &finding, now_unix_s())?;
        self.note(finding.trial.clone());
        Ok(finding.trial)
    }

    /// Remembers what this run knows. An evaluation that was ended from outside says nothing of its candidate,
    /// so it is asked again.
    fn note(&mut self, trial: Trial) {
        let asked = self.asked(&trial.job);
        if trial.outcome.is_from_outside() {
            *self.ended.entry(asked).or_default() += 1;
        } else {
            self.trials.insert(asked, trial);
        }
    }

    /// Names the question that this run asks with a job, whichever run answers it and however often it is asked.
    fn asked(&self, job: &Job) -> TrialId {
        trial_id(&self.run, &job.candidate.id, job.fidelity, &job.workloads)
    }

    /// Names the next evaluation of a question.
    fn next_trial(
        &self,
        candidate: &CandidateId,
        fidelity: Fidelity,
        workloads: &[String],
    ) -> TrialId {
        let asked = trial_id(&self.run, candidate, fidelity, workloads);
        match self.ended.get(&asked) {
            None => asked,
            Some(times) => {
                let mut hasher = Hasher::new("trial again");
                hasher.part(asked.to_string().as_bytes()).part(&times.to_le_bytes());
                hasher.into()
            }
        }
    }

    /// Measures the ceilings; called again, it looks whether they have risen. Keeps the best that was ever seen
    /// of this device and its tools: what a machine can do does not change from run to run, what it shows in
    /// two seconds does.
    pub fn ceilings(&mut self) -> Result<Ceilings> {
        let Answer::Ceilings(measured) = self.ask(&Ask::Ceilings)? else {
            bail!("the worker did not answer a question for ceilings");
        };
        let known = all_intact(self.store.ceilings_of(&self.environment_id)?)?;
        let best = known.into_iter().reduce(|best, next| best.best_of(&next));
        let best = best.map_or_else(|| measured.clone(), |best| best.best_of(&measured));
        self.store.put_ceilings(&self.run, &best, now_unix_s())?;
        Ok(best)
    }

    /// Asks the worker something else than an evaluation; ends it when the user asks to stop, since a
    /// part of such an answer is worth nothing.
    fn ask(&mut self, ask: &Ask) -> Result<Answer> {
        let interrupt = self.interrupt.clone();
        self.pool.ask_while(ask, &mut |_| !interrupt.asked())
    }

    fn lab_ref(&self, seed: u64) -> LabRef {
        LabRef { dir: self.loaded.dir.clone(), id: self.loaded.lab.id, seed }
    }
}

/// Makes sure of the sanitizers that a run with these settings needs for the full gate.
pub fn require_sanitizers(project: &Project, lab: &Lab, settings: &RunSettings) -> Result<()> {
    if settings.sanitize && lab.target == TargetKind::Cuda {
        cuda::readiness::sanitizers(&project.work_dir)?;
    }
    Ok(())
}

/// Says whether a trial that was given up would be given up against these limits too.
fn still_hopeless(trial: &Trial, limits: &RequestLimits) -> bool {
    trial.outcome.measurements().iter().any(|measurement| {
        let interval = median_interval(&measurement.samples_s);
        let incumbent_s = limits.incumbent_s.get(&measurement.workload);
        interval
            .zip(incumbent_s)
            .is_some_and(|(interval, best_s)| interval.low > limits.hopeless_ratio * best_s)
    })
}

/// Says whether a trial passed everything that it was asked.
pub fn passed(trial: &Trial) -> bool {
    matches!(trial.outcome, Outcome::Passed { .. })
}

/// Opens the evidence for writing, making its folder on the first use.
pub fn open_store(project: &Project) -> Result<Store> {
    Store::open_as(&project.database(), project.access)
        .context("hint: --evidence names another folder")
}

/// Asks a worker where it runs.
pub fn ask_environment(worker: &mut Worker) -> Result<Environment> {
    match worker.ask(&Ask::Environment)? {
        Answer::Environment(environment) => Ok(*environment),
        other => bail!("the worker answered a question for its environment with {other:?}"),
    }
}

fn settings_map(
    settings: &RunSettings,
) -> Result<std::collections::BTreeMap<String, serde_json::Value>> {
    Ok(serde_json::from_value(serde_json::to_value(settings)?)?)
}

/// Returns 64 bits that nobody could know beforehand.
fn system_random() -> Result<u64> {
    getrandom::u64().map_err(|error| anyhow::anyhow!("the system has no randomness: {error}"))
}

/// Returns a seed that nobody could know beforehand and that survives every JSON reader: those that keep
/// numbers as doubles lose bits past 2^53.
pub fn system_seed() -> Result<u64> {
    Ok(system_random()? >> 11)
}

/// Returns the time of day in seconds since 1970.
pub fn now_unix_s() -> f64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0.0, |since| since.as_secs_f64())
}

fn new_run_id(lab: &str) -> Result<RunId> {
    let stamp = warpsmith_evidence::utc_stamp(now_unix_s());
    let tag = system_random()? & 0xffff;
    Ok(RunId(format!("{lab}-{stamp}-{tag:04x}")))
}
