//! The steps of a campaign, each of which does only what the evidence lacks.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use warpsmith_device::cuda;
use warpsmith_gate::bind;
use warpsmith_model::lab::{Kernel, Lab, TargetKind, Workload};
use warpsmith_model::{
    Answer, Ask, Candidate, ChainRecord, Environment, Fidelity, Objective, Origin, PROGRESS,
    Params, Trial, Value, suggest, units,
};
use warpsmith_search::{
    EvolutionarySettings, Proposal, Proposer, Score, Space, Strategy, StrategyConfig, score,
    strategy,
};

use super::Campaign;
use super::objective::{ObjectiveScore, medians};
use super::until::StopCondition;
use crate::interrupt::Interrupted;
use crate::output::{Progress, say};
use crate::pool::TimeSpent;

/// How long a search may go on.
#[derive(Clone, Copy, Debug)]
pub struct SearchBudget {
    /// Trials at most, those already stored included.
    pub trials: u64,
    /// Seconds at most, from the beginning or from being resumed; compiling counts.
    pub seconds: f64,
}

/// Rungs whose ranked times are within this ratio of the best are measured against each other.
const CLOSE_RUNGS: f64 = 1.4;

impl Campaign {
    /// Proves the chain of trust on every workload, or finds it proven in this run.
    pub fn prove(&mut self) -> Result<ChainRecord> {
        self.prove_on(self.wanted().map(|workload| workload.name.clone()).collect())
    }

    /// Proves the chain of trust on some workloads, or finds it proven in this run.
    pub fn prove_on(&mut self, workloads: Vec<String>) -> Result<ChainRecord> {
        if let Some(record) = self.store.chain(&self.run)? {
            return Ok(record);
        }
        match self.ask(&Ask::Chain { lab: self.lab_ref(self.settings.seed), workloads })? {
            Answer::Chain(record) => {
                self.store.put_chain(&self.run, &record)?;
                Ok(*record)
            }
            other => bail!("the worker answered a question for the chain with {other:?}"),
        }
    }

    /// Proves the chain of trust while the author's choice of a kernel compiles: proving keeps one processor
    /// busy at most times, and times nothing that is kept. Timing waits for the compilers.
    pub fn prove_beside_compiling(&mut self, kernel: &Kernel) -> Result<ChainRecord> {
        let is_new = self.store.chain(&self.run)?.is_none();
        let can_build = self.unavailable(kernel, &kernel.default).is_none();
        let compiling = if is_new && can_build && !kernel.tunables.is_empty() {
            let (workloads, params) = (self.served(kernel)?, &kernel.default);
            let request = self.request(kernel, params, Origin::Seed, Fidelity::Rank, workloads)?;
            self.pool.compile_early(&self.loaded.lab, kernel, &request)
        } else {
            None
        };
        let record = self.prove()?;
        if compiling.is_some_and(|thread| thread.join().is_err()) {
            bail!("the thread that compiles `{}` ahead has panicked", kernel.name);
        }
        Ok(record)
    }

    /// Ranks every rung of the ladder with its author's parameters, the last first, so that the
    /// slow ones are soon given up.
    pub fn ladder(&mut self) -> Result<Vec<Trial>> {
        let mut trials: Vec<Trial> = Vec::new();
        // A front is no rung: it launches the others.
        let rungs = self.loaded.lab.kernels.iter().filter(|kernel| kernel.front.is_none());
        let kernels: Vec<Kernel> = rungs.rev().cloned().collect();
        let mut progress = Progress::new("ladder", kernels.len() as u64);
        for kernel in &kernels {
            self.stop_if_asked()?;
            if let Some(reason) = self.unavailable(kernel, &kernel.default) {
                say(format!("  {} is left out: {reason}", kernel.name));
                continue;
            }
            let workloads = self.served(kernel)?;
            if workloads.is_empty() {
                continue;
            }
            progress.note(&kernel.name);
            let mut request =
                self.request(kernel, &kernel.default, Origin::Seed, Fidelity::Rank, workloads)?;
            request.limits.incumbent_s = incumbent(&trials);
            let trial = self.evaluate(kernel, request)?;
            trials.push(trial);
            progress.step(&best_words(best_of(&trials)));
        }
        progress.finish(&format!("{}{}", best_words(best_of(&trials)), what(best_of(&trials))));
        Ok(trials)
    }

    /// Returns the kernel to tune: the one that was asked for, else the rung with tunables that is
    /// fastest with its author's parameters. Rungs that rank close are measured against each other:
    /// ranking one after the other, a busy moment of the machine would decide.
    pub fn kernel_to_tune(&mut self, ladder: &[Trial]) -> Result<Kernel> {
        if let Some(name) = &self.settings.kernel {
            return self.kernel(name);
        }
        let mut ranked: Vec<(Score, &Kernel)> = ladder
            .iter()
            .filter_map(|trial| {
                let kernel = self.loaded.lab.kernel(&trial.job.candidate.kernel)?;
                Some((score(trial), kernel))
            })
            .filter(|(score, _)| score.time_s().is_some())
            .collect();
        ranked.sort_by_key(|(score, _)| *score);
        let tunable: Vec<(f64, Kernel)> = ranked
            .iter()
            .filter(|(_, kernel)| !kernel.tunables.is_empty())
            .filter_map(|(score, kernel)| Some((score.time_s()?, (*kernel).clone())))
            .collect();
        let Some((best_s, _)) = tunable.first() else {
            return match ranked.first() {
                Some((_, kernel)) => Ok((*kernel).clone()),
                None => bail!(
                    "no kernel of the lab passes on all of its workloads\nhint: `warpsmith check \
                     {}` says what is wrong with each",
                    self.settings.lab_dir.display()
                ),
            };
        };
        let close = |time_s: &f64| *time_s <= CLOSE_RUNGS * best_s;
        let rungs = tunable.iter().filter(|(time_s, _)| close(time_s)).map(|(_, it)| it.clone());
        self.fastest_rung(rungs.collect())
    }

    /// Returns a kernel of the lab by name.
    pub fn kernel(&self, name: &str) -> Result<Kernel> {
        kernel_of(&self.loaded.lab, name).cloned()
    }

    /// Ranks configurations by microbenchmark and returns the trials.
    pub fn micro(&mut self, kernel: &Kernel) -> Result<Vec<Trial>> {
        let workloads = self.micro_workloads(kernel)?;
        let space = self.space(kernel)?;
        let limit = u128::from(self.settings.micro_limit).min(space.len()) as u64;
        let whole = space.len() <= u128::from(self.settings.micro_limit);
        let kind = if whole { Strategy::Exhaustive } else { Strategy::Random };
        let config = StrategyConfig {
            seed: self.settings.seed,
            kernel: kernel.name.clone(),
            fidelity: Fidelity::Micro,
            seeds: self.author_seed(kernel),
            expand: Vec::new(),
            evolution: EvolutionarySettings::STANDARD,
        };
        let proposer = strategy(kind, Arc::new(space), config)?;
        let plan = SearchPlan {
            name: "micro",
            fidelity: Fidelity::Micro,
            workloads,
            budget: SearchBudget { trials: limit, seconds: f64::INFINITY },
            objective: Objective::Time,
            stops: Vec::new(),
        };
        self.search(kernel, proposer, plan)
    }

    /// Searches at the rank fidelity for the objective and returns the trials.
    pub fn tune(
        &mut self,
        kernel: &Kernel,
        seeds: Vec<Proposal>,
        stops: &[StopCondition],
    ) -> Result<Vec<Trial>> {
        let workloads = self.served(kernel)?;
        let whole = SearchBudget {
            trials: self.settings.budget_trials.into(),
            seconds: self.settings.budget_s,
        };
        if self.settings.objective != Objective::Dispatch {
            return self.tune_for("tune", kernel, &seeds, workloads, whole, stops);
        }
        // Every workload on its own: who cannot win on one shape may on another, and nobody is
        // measured on shapes that it was not proposed for. What wins on one is tried on the next.
        let started = Instant::now();
        let mut trials = Vec::new();
        let mut seeds = seeds;
        for (idx, workload) in workloads.iter().enumerate() {
            let left = (workloads.len() - idx) as u64;
            let spent = trials.len() as u64;
            let share = SearchBudget {
                trials: (whole.trials.saturating_sub(spent) / left).max(1),
                seconds: (whole.seconds - started.elapsed().as_secs_f64()) / left as f64,
            };
            let asked = vec![workload.clone()];
            let own = self.tune_for(workload, kernel, &seeds, asked, share, stops)?;
            if let Some(best) = best_of(&own) {
                let Candidate { params, origin, .. } = best.job.candidate.clone();
                seeds.retain(|seed| seed.params != params);
                seeds.insert(0, Proposal { params, origin });
            }
            trials.extend(own);
        }
        Ok(trials)
    }

    fn tune_for(
        &mut self,
        name: &str,
        kernel: &Kernel,
        seeds: &[Proposal],
        workloads: Vec<String>,
        budget: SearchBudget,
        stops: &[StopCondition],
    ) -> Result<Vec<Trial>> {
        let space = self.space(kernel)?;
        let trials = u128::from(budget.trials).min(space.len()) as u64;
        let kind: Strategy = self.settings.strategy.parse().map_err(anyhow::Error::msg)?;
        let author = self.author_seed(kernel);
        let others = seeds.iter().filter(|seed| seed.params != kernel.default).cloned();
        let seeds = author.into_iter().chain(others).collect();
        let config = StrategyConfig {
            seed: self.settings.seed,
            kernel: kernel.name.clone(),
            fidelity: Fidelity::Rank,
            seeds,
            expand: kernel.expand.clone(),
            evolution: EvolutionarySettings::STANDARD,
        };
        let proposer = strategy(kind, Arc::new(space), config)?;
        let plan = SearchPlan {
            name,
            fidelity: Fidelity::Rank,
            workloads,
            budget: SearchBudget { trials, ..budget },
            objective: self.settings.objective,
            stops: stops.to_vec(),
        };
        self.search(kernel, proposer, plan)
    }

    /// The loop at the heart of it: propose, evaluate, make durable, learn.
    fn search(
        &mut self,
        kernel: &Kernel,
        mut proposer: Box<dyn Proposer>,
        plan: SearchPlan<'_>,
    ) -> Result<Vec<Trial>> {
        let SearchPlan { name, fidelity, workloads, budget, objective, stops } = plan;
        let mut trials = Trials::new(objective);
        for trial in self.stored(fidelity)? {
            if trial.job.candidate.kernel == kernel.name && trial.job.workloads == workloads {
                trials.push(trial, &mut *proposer);
            }
        }
        let started = Instant::now();
        let n_known = trials.len();
        let _before = self.pool.take_spent();
        let mut progress = Progress::new(name, budget.trials);
        for _ in 0..trials.len() {
            progress.step(&trials.best_words());
        }
        while (trials.len() as u64) < budget.trials
            && started.elapsed().as_secs_f64() < budget.seconds
        {
            self.stop_if_asked()?;
            let asks_model = stops.iter().any(StopCondition::asks_model);
            let outlook = if asks_model { proposer.outlook() } else { None };
            let is_met =
                |stop: &&StopCondition| stop.is_met(trials.best(), trials.since(), outlook);
            if let Some(met) = stops.iter().find(is_met) {
                say(format!("  {name} ends early: {} holds", met.words()));
                break;
            }
            let room = (budget.trials - trials.len() as u64) as usize;
            let room = room.saturating_sub(self.pool.queued());
            let proposals = proposer.propose(self.pool.idle().min(room))?;
            let none_left = proposals.is_empty();
            for proposal in proposals {
                let mut request = self.request(
                    kernel,
                    &proposal.params,
                    proposal.origin,
                    fidelity,
                    workloads.clone(),
                )?;
                request.limits.incumbent_s = trials.incumbent();
                request.limits.hopeless_ratio =
                    trials.objective.hopeless_ratio(request.limits.hopeless_ratio);
                match self.known(kernel, &request)? {
                    Some(trial) => {
                        trials.push(trial, &mut *proposer);
                        progress.step(&trials.best_words());
                    }
                    None => self.pool.submit(&self.loaded.lab, kernel, request),
                }
            }
            self.pool.set_incumbent(&trials.incumbent());
            let Some(finding) = self.pool.next(&self.loaded.lab)? else {
                if none_left {
                    break;
                }
                continue;
            };
            let trial = self.keep(kernel, finding)?;
            trials.push(trial, &mut *proposer);
            progress.step(&trials.best_words());
        }
        self.pool.clear();
        let pace = Pace::new(trials.len() - n_known, started.elapsed(), self.pool.take_spent());
        let words = pace.words();
        self.pace = Some(pace);
        let best = format!("{}{}", trials.best_words(), what(trials.best()));
        progress.finish(&format!("{} trials, {best}{words}", trials.len()));
        Ok(trials.all)
    }

    /// The author's parameters as a seed, where this machine can build them.
    fn author_seed(&self, kernel: &Kernel) -> Vec<Proposal> {
        let params = kernel.default.clone();
        match self.unavailable(kernel, &params) {
            Some(_) => Vec::new(),
            None => vec![Proposal { params, origin: Origin::Seed }],
        }
    }

    /// Returns the valid configurations of a kernel that this machine can build.
    pub fn space(&self, kernel: &Kernel) -> Result<Space> {
        space_on(&self.environment, kernel)
    }

    /// Says why a kernel cannot be built for this device with these parameters.
    pub fn unavailable(&self, kernel: &Kernel, params: &Params) -> Option<String> {
        if self.loaded.lab.target == TargetKind::Cuda
            && let Err(reason) = bind::architecture(kernel, &self.environment.device)
        {
            return Some(reason.to_string());
        }
        let compiler = self.compiler(kernel, params);
        if self.has_compiler(&compiler) {
            return None;
        }
        let why = match self.loaded.lab.target {
            TargetKind::Cpu => None,
            TargetKind::Cuda => cuda::missing_compiler(&self.project.work_dir, &compiler),
        };
        Some(why.unwrap_or_else(|| format!("`{compiler}` was not found on PATH")))
    }

    fn has_compiler(&self, name: &str) -> bool {
        has_compiler(&self.environment, name)
    }

    /// The workloads that matter in this run.
    fn wanted(&self) -> impl Iterator<Item = &Workload> {
        let chosen = &self.settings.workloads;
        let lab = &self.loaded.lab;
        let extra = lab.extra.iter().filter(|_| !chosen.is_empty());
        lab.workloads
            .iter()
            .chain(extra)
            .filter(move |workload| chosen.is_empty() || chosen.contains(&workload.name))
    }

    /// Returns the names of the workloads that a kernel serves, of those that matter.
    pub fn served(&self, kernel: &Kernel) -> Result<Vec<String>> {
        let mut names = Vec::new();
        for workload in self.wanted() {
            if kernel.serves(workload)? {
                names.push(workload.name.clone());
            }
        }
        Ok(names)
    }

    fn micro_workloads(&self, kernel: &Kernel) -> Result<Vec<String>> {
        let served = self.served(kernel)?;
        let wanted = &self.loaded.lab.micro_workloads;
        let mut names: Vec<String> =
            served.iter().filter(|name| wanted.contains(name)).cloned().collect();
        // Whoever chose other workloads wants the ranking for one of those.
        if names.is_empty() && !self.settings.workloads.is_empty() {
            names.extend(served.first().cloned());
        }
        if names.is_empty() {
            bail!(
                "kernel `{}` serves none of the lab's micro workloads ({})",
                kernel.name,
                wanted.join(", ")
            );
        }
        Ok(names)
    }

    /// Stops cleanly when the user asked to.
    pub fn stop_if_asked(&self) -> Result<()> {
        if self.interrupt.asked() { Err(Interrupted.into()) } else { Ok(()) }
    }
}

/// Returns a kernel of a lab by name.
pub fn kernel_of<'a>(lab: &'a Lab, name: &str) -> Result<&'a Kernel> {
    lab.kernel(name).with_context(|| {
        let names: Vec<&str> = lab.kernels.iter().map(|kernel| kernel.name.as_str()).collect();
        let meant = suggest::closest(name, names.iter().copied());
        let meant = meant.map_or_else(String::new, |meant| format!("did you mean `{meant}`? "));
        format!("the lab has no kernel `{name}`\nhint: {meant}it has {}", names.join(", "))
    })
}

/// Returns a kernel of a lab by name, unless it is a front: that has no source to write anew.
pub fn rung_of<'a>(lab: &'a Lab, name: &str) -> Result<&'a Kernel> {
    let kernel = kernel_of(lab, name)?;
    if kernel.front.is_some() {
        bail!(
            "`{name}` has no source of its own: it launches the lab's other kernels\nhint: name one of \
             those that its front.toml names"
        );
    }
    Ok(kernel)
}

/// Refuses to search a front, which has no parameters: each of its routes has those that were chosen.
pub fn refuse_front(kernel: &Kernel) -> Result<()> {
    let Some(front) = &kernel.front else { return Ok(()) };
    let routed: BTreeSet<&str> = front.routes.iter().map(|it| it.kernel.name.as_str()).collect();
    let routed: Vec<&str> = routed.into_iter().collect();
    bail!(
        "`{}` cannot be searched: it has no parameters and no source of its own, and launches what \
         front.toml names\nhint: search those ({}), then `warpsmith front` chooses anew; `warpsmith \
         compare --full` proves and measures the front as it is",
        kernel.name,
        routed.join(", ")
    );
}

/// Returns the valid configurations of a kernel that an environment can build.
pub fn space_on(environment: &Environment, kernel: &Kernel) -> Result<Space> {
    let mut tunables = kernel.tunables.clone();
    for tunable in &mut tunables {
        if tunable.name == "CC" {
            tunable.values.retain(|value| has_compiler(environment, &value.to_string()));
            if tunable.values.is_empty() {
                bail!("none of the compilers that `{}` names in CC was found on PATH", kernel.name);
            }
        }
    }
    let constants = |name: &str| environment.device.constant(name).map(Value::Int);
    Space::new(&tunables, &kernel.constraints, &constants)
        .with_context(|| format!("the space of kernel `{}`", kernel.name))
}

fn has_compiler(environment: &Environment, name: &str) -> bool {
    environment.compilers.iter().any(|known| known.name == name)
}

/// How fast a search went and what it waited for.
#[derive(Clone, Copy, Debug, serde::Serialize)]
pub struct Pace {
    /// Trials that were evaluated.
    trials: usize,
    /// How long that took, from the first proposal on.
    seconds: f64,
    /// While the worker answered.
    measuring_s: f64,
    /// While there was nothing to do but wait for compilers.
    compiling_s: f64,
}

impl Pace {
    fn new(trials: usize, took: Duration, spent: TimeSpent) -> Self {
        Self {
            trials,
            seconds: took.as_secs_f64(),
            measuring_s: spent.measuring.as_secs_f64(),
            compiling_s: spent.compiling.as_secs_f64(),
        }
    }

    /// Says it; nothing of a search that was too short to tell.
    fn words(&self) -> String {
        if self.trials == 0 || self.seconds < 1.0 {
            return String::new();
        }
        format!(
            " ({:.1} a second; {:.0} % measuring, {:.0} % waiting for compilers)",
            self.trials as f64 / self.seconds,
            100.0 * self.measuring_s / self.seconds,
            100.0 * self.compiling_s / self.seconds,
        )
    }
}

/// What a search is for and how far it may go.
struct SearchPlan<'a> {
    name: &'a str,
    fidelity: Fidelity,
    workloads: Vec<String>,
    budget: SearchBudget,
    objective: Objective,
    stops: Vec<StopCondition>,
}

/// The trials of a search, and which of them is the best so far: to look through all of them for each
/// would take longer than to replay them.
#[derive(Debug)]
struct Trials {
    objective: ObjectiveScore,
    all: Vec<Trial>,
    best: Option<(Score, usize)>,
    /// The last best that was progress, by what the objective makes small.
    progress: Option<(f64, usize)>,
}

impl Trials {
    fn new(objective: Objective) -> Self {
        Self {
            objective: ObjectiveScore::new(objective),
            all: Vec::new(),
            best: None,
            progress: None,
        }
    }

    fn len(&self) -> usize {
        self.all.len()
    }

    /// Returns how many trials there were since the last progress.
    fn since(&self) -> usize {
        self.progress.map_or(self.all.len(), |(_, idx)| self.all.len() - 1 - idx)
    }

    /// Takes a trial and tells the proposer how good it is.
    fn push(&mut self, trial: Trial, proposer: &mut dyn Proposer) {
        self.objective.learn(&trial);
        let score = self.objective.score(&trial);
        proposer.observe(&trial.job, score);
        let is_better = self.best.is_none_or(|(best, _)| score < best);
        if let Some(time_s) = score.time_s().filter(|_| is_better) {
            self.best = Some((score, self.all.len()));
            if self.progress.is_none_or(|(last_s, _)| time_s < PROGRESS * last_s) {
                self.progress = Some((time_s, self.all.len()));
            }
        }
        self.all.push(trial);
    }

    fn best(&self) -> Option<&Trial> {
        self.best.map(|(_, idx)| &self.all[idx])
    }

    fn incumbent(&self) -> BTreeMap<String, f64> {
        self.objective.incumbent(self.best())
    }

    fn best_words(&self) -> String {
        let words = best_words(self.best());
        match self.best().and_then(|best| self.objective.words(best)) {
            Some(worst) => format!("{words}, {worst}"),
            None => words,
        }
    }
}

/// Returns the median times of the best complete trial, by workload.
pub fn incumbent(trials: &[Trial]) -> BTreeMap<String, f64> {
    best_of(trials).map(medians).unwrap_or_default()
}

/// Returns the trial with the best score, if any is complete.
pub fn best_of(trials: &[Trial]) -> Option<&Trial> {
    trials
        .iter()
        .filter(|trial| score(trial).time_s().is_some())
        .min_by(|a, b| score(a).cmp(&score(b)))
}

/// Says what the time of the best is: those of the steps of a run are different quantities.
fn what(best: Option<&Trial>) -> String {
    let Some(job) = best.map(|best| &best.job) else { return String::new() };
    let on = match job.workloads.as_slice() {
        [one] => format!("on {one}"),
        all => format!("geometric mean of {} workloads", all.len()),
    };
    match job.fidelity {
        Fidelity::Micro => format!("; one wave scaled to the whole, {on}"),
        Fidelity::Rank => format!("; a few readings, {on}"),
        Fidelity::Full => format!("; full gate, {on}"),
    }
}

fn best_words(best: Option<&Trial>) -> String {
    match best {
        Some(best) => {
            let time_s = score(best).time_s().unwrap_or(f64::NAN);
            let candidate = &best.job.candidate;
            format!("best {} {} ({})", units::time(time_s), candidate.kernel, candidate.params)
        }
        None => "none passed yet".to_string(),
    }
}

#[cfg(test)]
mod tests {
    use warpsmith_search::ProposeError;

    use super::*;
    use crate::campaign::testing::{Conditions, trial};

    struct Nobody;

    impl Proposer for Nobody {
        fn propose(&mut self, _n: usize) -> Result<Vec<Proposal>, ProposeError> {
            Ok(Vec::new())
        }

        fn observe(&mut self, _job: &warpsmith_model::Job, _score: Score) {}
    }

    #[test]
    fn many_small_steps_are_progress_and_each_of_them_is_not() {
        let mut trials = Trials::new(Objective::Time);
        let mut since = Vec::new();
        for (tile, share) in [1.0, 0.995, 0.992, 0.985, 1.2, 0.9].into_iter().enumerate() {
            let trial = trial(tile as i64, share * 1e-3, share * 4e-3, Conditions::default());
            trials.push(trial, &mut Nobody);
            since.push(trials.since());
        }
        assert_eq!(since, [0, 1, 2, 0, 1, 0]);
    }
}
