//! The worker: answers a campaign's questions, one JSON line each.
//!
//! It owns what no candidate may touch: the clock, the inputs, the expected outputs. It lives as
//! long as its campaign, so that these are made once.

use std::error::Error as _;
use std::io::{BufRead, Write};
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result, bail};
use warpsmith_device::cpu::{Cpu, CpuConfig, Quiet};
use warpsmith_device::cuda::{Cuda, CudaConfig};
use warpsmith_device::target::{Fault, Target};
use warpsmith_gate::compare::{CompareOptions, Entrant, EntrantKind};
use warpsmith_gate::corpus::{Corpus, CorpusOptions};
use warpsmith_gate::error::GateError;
use warpsmith_gate::{ceilings, compare, evaluate, profile};
use warpsmith_model::lab::{Kernel, TargetKind};
use warpsmith_model::{
    Answer, Ask, Ceilings, CompareRequest, ContenderRequest, Environment, Finding, Lab, LabId,
    LabRef, ProfileRequest, Request, Verdict,
};

use crate::kernel_text::{COMPARED_COMPILE_DEADLINE, parse};
use crate::labdir;
use crate::output::{WARN, paint, say, wrapped};
use crate::project::Project;

/// Serves until the campaign hangs up.
pub fn serve(project: &Project, target: TargetKind) -> Result<()> {
    warpsmith_device::die_with_parent().context("cannot tie my life to the campaign's")?;
    warpsmith_device::keep_freed_memory();
    // A target that cannot be had is an answer like any other: the campaign says it to the user.
    let mut worker = Worker::new(project, target);
    for line in std::io::stdin().lock().lines() {
        let line = line.context("the campaign cannot be heard")?;
        let answer = match serde_json::from_str::<Ask>(&line) {
            Ok(ask) => match &mut worker {
                Ok(worker) => worker.answer(&ask).unwrap_or_else(|error| failed(&error)),
                Err(error) => failed(error),
            },
            Err(error) => Answer::Failed {
                message: format!("the question is not understood: {error}"),
                lab_refused: false,
            },
        };
        tell(&answer)?;
    }
    Ok(())
}

fn tell(answer: &Answer) -> Result<()> {
    let mut stdout = std::io::stdout().lock();
    serde_json::to_writer(&mut stdout, answer).context("the campaign does not listen")?;
    stdout.write_all(b"\n").and_then(|()| stdout.flush()).context("the campaign is gone")
}

/// Says whether an answer failed by nothing that lies in the question or in us.
fn is_killed_from_outside(error: &anyhow::Error) -> bool {
    match error.downcast_ref() {
        Some(GateError::Target { source: Fault::Crashed(cause), .. }) => cause.is_from_outside(),
        _ => false,
    }
}

fn failed(error: &anyhow::Error) -> Answer {
    let refused = matches!(error.downcast_ref(), Some(GateError::LabRefused { .. }));
    Answer::Failed { message: format!("{error:#}"), lab_refused: refused }
}

struct Worker {
    kind: TargetKind,
    target: Box<dyn Target>,
    corpus: Corpus,
    environment: Environment,
    ceilings: Option<Ceilings>,
    lab: Option<(PathBuf, Lab)>,
    artifacts: PathBuf,
    /// Whether the campaign's user heard that the cache of answers cannot be written.
    told_of_cache: bool,
}

impl Worker {
    fn new(project: &Project, kind: TargetKind) -> Result<Self> {
        let config = CpuConfig { cache_dir: project.artifacts(), runner_exe: None, threads: None };
        let (target, environment): (Box<dyn Target>, Environment) = match kind {
            TargetKind::Cpu => {
                let cpu = Cpu::new(config)?;
                let environment = cpu.environment();
                (Box::new(cpu), environment)
            }
            TargetKind::Cuda => {
                let cuda = Cuda::new(CudaConfig { host: config, device_exe: None })?;
                let environment = cuda.environment();
                (Box::new(cuda), environment)
            }
        };
        let options = CorpusOptions::new(Some(project.expected()));
        let corpus = Corpus::new(CorpusOptions { python: project.python(), ..options });
        let artifacts = project.artifacts();
        Ok(Self {
            kind,
            target,
            corpus,
            environment,
            ceilings: None,
            lab: None,
            artifacts,
            told_of_cache: false,
        })
    }

    /// Answers; once more where the first try ended because somebody else killed one of our processes.
    fn answer(&mut self, ask: &Ask) -> Result<Answer> {
        let answered = match self.answer_once(ask) {
            Err(error) if is_killed_from_outside(&error) => self.answer_once(ask),
            answered => answered,
        };
        self.tell_of_cache();
        answered
    }

    /// Says once that answers cannot be kept for the next run. The worker's standard error is the campaign's.
    fn tell_of_cache(&mut self) {
        if let (false, Some(trouble)) = (self.told_of_cache, self.corpus.cache_trouble()) {
            self.told_of_cache = true;
            let why = trouble.source().map(|why| format!(" ({why})")).unwrap_or_default();
            say(wrapped(&format!(
                "{}: right answers are not kept for the next run, which takes longer: {trouble}{why}; \
                 make room there, or name another folder with --work-dir",
                paint(WARN, "note")
            )));
        }
    }

    fn answer_once(&mut self, ask: &Ask) -> Result<Answer> {
        Ok(match ask {
            Ask::Environment => Answer::Environment(Box::new(self.environment.clone())),
            Ask::Ceilings => Answer::Ceilings(self.ceilings_now()?),
            Ask::Chain { lab, workloads } => self.chain(lab, workloads)?,
            Ask::Evaluate(request) => self.evaluate(request)?,
            Ask::Compare(request) => self.compare(request)?,
            Ask::Profile(request) => self.profile(request)?,
        })
    }

    /// Returns what the machine can do at most, measured on the first use.
    fn ceilings(&mut self) -> Result<Ceilings> {
        match &self.ceilings {
            Some(ceilings) => Ok(ceilings.clone()),
            None => self.measure_ceilings(),
        }
    }

    /// Returns the ceilings, measured again unless the machine shows that it can do no more than before.
    fn ceilings_now(&mut self) -> Result<Ceilings> {
        if let Some(known) = &self.ceilings {
            let _quiet = crate::quiet::quiet(self.kind, Quiet::Timing)?;
            if !ceilings::have_risen(&mut *self.target, known)? {
                return Ok(known.clone());
            }
        }
        self.measure_ceilings()
    }

    /// Measures the ceilings, again where they are known: a ceiling is what was reached once, so
    /// the better of the two counts.
    fn measure_ceilings(&mut self) -> Result<Ceilings> {
        let _quiet = crate::quiet::quiet(self.kind, Quiet::Timing)?;
        let measured = ceilings::measure(&mut *self.target)?;
        let best = match &self.ceilings {
            Some(known) => known.best_of(&measured),
            None => measured,
        };
        self.ceilings = Some(best.clone());
        Ok(best)
    }

    fn chain(&mut self, lab: &LabRef, workloads: &[String]) -> Result<Answer> {
        let lab_text = self.lab(&lab.dir, &lab.id)?;
        let mut wanted = Vec::new();
        for name in workloads {
            let known = lab_text.workload(name);
            wanted.push(known.with_context(|| format!("the lab has no workload `{name}`"))?);
        }
        let target = &mut *self.target;
        let record = self.corpus.check_chain_on(target, &lab_text, &wanted, lab.seed)?;
        Ok(Answer::Chain(Box::new(record)))
    }

    fn evaluate(&mut self, request: &Request) -> Result<Answer> {
        let lab = self.lab(&request.lab_dir, &request.job.lab)?;
        let text = request.kernel.as_ref().context("the request names no kernel")?;
        let kernel = parse(&lab, text)?;
        let ceilings = self.ceilings()?;
        let mut finding = self.evaluate_under(&lab, &kernel, request, &ceilings)?;
        // Ceilings that were measured in a bad moment make honest kernels look impossible. Before
        // a candidate is called so, the machine gets a second chance to show what it can do.
        if finding.trial.outcome.verdict() == Verdict::Implausible {
            let ceilings = self.measure_ceilings()?;
            finding = self.evaluate_under(&lab, &kernel, request, &ceilings)?;
        }
        Ok(Answer::Finding(Box::new(finding)))
    }

    fn evaluate_under(
        &mut self,
        lab: &Lab,
        kernel: &Kernel,
        request: &Request,
        ceilings: &Ceilings,
    ) -> Result<Finding> {
        let _quiet = crate::quiet::quiet(self.kind, Quiet::Timing)?;
        Ok(evaluate::evaluate(
            &mut *self.target,
            &mut self.corpus,
            lab,
            kernel,
            request,
            &self.environment,
            Some(ceilings),
        )?)
    }

    fn compare(&mut self, request: &CompareRequest) -> Result<Answer> {
        let lab = self.lab(&request.lab.dir, &request.lab.id)?;
        let mut kernels = Vec::new();
        for contender in &request.contenders {
            if let ContenderRequest::Kernel { kernel: text, .. } = contender {
                kernels.push(parse(&lab, text)?);
            }
        }
        let mut parsed = kernels.iter();
        let mut entrants = Vec::new();
        for contender in &request.contenders {
            entrants.push(match contender {
                ContenderRequest::Kernel { label, params, .. } => {
                    let kernel = parsed.next().context("every kernel was parsed above")?;
                    let candidate = None;
                    Entrant { label, kind: EntrantKind::Kernel { kernel, params, candidate } }
                }
                ContenderRequest::Baseline { name, python } => {
                    let known = lab.baselines.iter().find(|baseline| baseline.name == *name);
                    let baseline =
                        known.with_context(|| format!("the lab has no baseline `{name}`"))?;
                    Entrant { label: name, kind: EntrantKind::Baseline { baseline, python } }
                }
            });
        }
        let options = CompareOptions {
            purpose: request.purpose,
            workloads: request.workloads.clone(),
            seed: request.lab.seed,
            min_rounds: request.min_rounds as usize,
            budget_s: request.budget_s,
            launch_deadline: Duration::from_secs_f64(request.launch_deadline_s),
            compile_deadline: COMPARED_COMPILE_DEADLINE,
        };
        let _quiet = crate::quiet::quiet(self.kind, Quiet::Timing)?;
        let (target, corpus) = (&mut *self.target, &mut self.corpus);
        let dir = &request.lab.dir;
        let total = options.workloads.len() as u64;
        let mut told = Ok(());
        let mut working = |done: usize| {
            if told.is_ok() {
                told = tell(&Answer::Working { done: done as u64, total });
            }
        };
        let record =
            compare::compare(target, corpus, &lab, dir, &entrants, &options, &mut working)?;
        told?;
        Ok(Answer::Compared(Box::new(record)))
    }

    fn profile(&mut self, request: &ProfileRequest) -> Result<Answer> {
        let lab = self.lab(&request.lab.dir, &request.lab.id)?;
        let kernel = parse(&lab, &request.kernel)?;
        let _quiet = crate::quiet::quiet(self.kind, Quiet::Timing)?;
        let (target, corpus) = (&mut *self.target, &mut self.corpus);
        let profiled = profile::profile(target, corpus, &lab, &kernel, request, &self.artifacts)?;
        Ok(Answer::Profiled(Box::new(profiled)))
    }

    /// Returns the lab, loaded once; refuses a folder that holds something else than was asked.
    fn lab(&mut self, dir: &Path, id: &LabId) -> Result<Lab> {
        if let Some((_, lab)) =
            self.lab.as_ref().filter(|(known, lab)| known == dir && lab.id == *id)
        {
            return Ok(lab.clone());
        }
        let lab = labdir::load(dir)?.lab;
        if lab.id != *id {
            bail!(
                "the lab in {} changed while it was in use\nhint: start a new run",
                dir.display()
            );
        }
        self.lab = Some((dir.to_path_buf(), lab.clone()));
        Ok(lab)
    }
}
