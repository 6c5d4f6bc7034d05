//! Where the first proposals of a search come from: the microbenchmark, earlier runs, other tuners.
//!
//! A prior is weighed, never trusted: its best few are proposed first, and from then on they count
//! for what they measured here.

use std::path::Path;

use anyhow::{Context, Result, bail};
use warpsmith_evidence::{StoreError, export};
use warpsmith_model::lab::Kernel;
use warpsmith_model::{Fidelity, Goal, Origin, Params, RunRecord, SeedFrom, Trial};
use warpsmith_search::recorded::RecordedError;
use warpsmith_search::{Proposal, Recorded, Space, score};

use super::Campaign;
use crate::damage::{all_intact, intact};
use crate::output::say;
use crate::recorded_file;

/// Earlier runs that are asked for their winners, the newest first.
const MOST_RUNS: usize = 200;

/// What a win on the same device counts, where one on another device counts 1: the same kernel
/// often wants the same tiles elsewhere, but not as often as on the device that it was tuned on.
const SAME_DEVICE: u32 = 3;

impl Campaign {
    /// Returns the configurations that the search of a kernel begins with, the most promising first,
    /// from where the settings say.
    pub fn seeds(&mut self, kernel: &Kernel) -> Result<Vec<Proposal>> {
        let limit = self.settings.top_k as usize;
        let space = self.space(kernel)?;
        let (mut found, origin) = match self.settings.seed_from.clone() {
            SeedFrom::None => return Ok(Vec::new()),
            SeedFrom::Micro => (top_k(&self.micro(kernel)?, limit), Origin::Micro),
            SeedFrom::Store => (self.winners_elsewhere(kernel)?, prior()),
            SeedFrom::Run(source) if Path::new(&source).is_file() => {
                (from_file(Path::new(&source), kernel, &space)?, prior())
            }
            SeedFrom::Run(source) => (self.best_of_run(kernel, &source)?, prior()),
        };
        // A seed from another machine or an older contract may not exist here.
        found.retain(|params| space.contains(params));
        found.truncate(limit);
        Ok(found.into_iter().map(|params| Proposal { params, origin: origin.clone() }).collect())
    }

    /// Returns the best of one run.
    fn best_of_run(&self, kernel: &Kernel, run: &str) -> Result<Vec<Params>> {
        let record = self.store.run(run)?;
        let (found, _) = self.best_params(&record, kernel)?;
        if found.is_empty() {
            bail!("{run} holds no seeds for kernel `{}`", kernel.name);
        }
        Ok(found)
    }

    /// Returns the winners of every earlier run of the kernel, on whatever shapes and devices: those
    /// with the most wins first, a win on this device counting more, and of equals the newest.
    fn winners_elsewhere(&self, kernel: &Kernel) -> Result<Vec<Params>> {
        let mut votes: Vec<(u32, Params)> = Vec::new();
        let mut n_runs = 0;
        let runs = all_intact(self.store.runs_or_damage()?)?.into_iter().map(|run| run.record);
        let is_search = |record: &RunRecord| {
            let goal = record.settings.get("goal").and_then(|goal| goal.as_str());
            record.id != self.run
                && record.lab.name == self.loaded.lab.name
                && [Goal::Run.name(), Goal::Tune.name()].map(Some).contains(&goal)
        };
        for record in runs.filter(is_search).take(MOST_RUNS) {
            let found = intact(self.best_params(&record, kernel))?;
            let Some((winner, device)) =
                found.and_then(|(best, device)| Some((best.into_iter().next()?, device)))
            else {
                continue;
            };
            n_runs += 1;
            let weight = if device == self.environment.device.name { SAME_DEVICE } else { 1 };
            match votes.iter_mut().find(|(_, params)| *params == winner) {
                Some((sum, _)) => *sum += weight,
                None => votes.push((weight, winner)),
            }
        }
        say(format!(
            "  {:<9} {n_runs} earlier runs of {} name {} winners",
            "priors",
            kernel.name,
            votes.len()
        ));
        // Stable, so that of equals the newest stays first.
        votes.sort_by_key(|(sum, _)| std::cmp::Reverse(*sum));
        Ok(votes.into_iter().map(|(_, params)| params).collect())
    }

    /// Returns the best parameters of a kernel in a run, its winner first, and the device's name.
    fn best_params(
        &self,
        record: &RunRecord,
        kernel: &Kernel,
    ) -> Result<(Vec<Params>, String), StoreError> {
        let store = &self.store;
        let environment = store.environment(&record.environment)?;
        let trials = store.summaries(&record.id)?;
        let comparisons = store.comparisons(&record.id)?;
        let fidelities = [Fidelity::Rank, Fidelity::Micro];
        let list = export::best_list(record, &environment, &trials, &comparisons, &fidelities);
        Ok((of_kernel(list.entries, kernel), environment.device.name))
    }
}

fn prior() -> Origin {
    Origin::Tuned { strategy: "prior".to_string() }
}

fn of_kernel(entries: Vec<warpsmith_model::BestEntry>, kernel: &Kernel) -> Vec<Params> {
    let own = entries.into_iter().filter(|entry| entry.kernel == kernel.name);
    own.map(|entry| entry.params).collect()
}

/// Returns the parameters of the best microbenchmarks, the best first.
fn top_k(trials: &[Trial], k: usize) -> Vec<Params> {
    debug_assert!(trials.iter().all(|trial| trial.job.fidelity == Fidelity::Micro));
    let mut complete: Vec<&Trial> =
        trials.iter().filter(|trial| score(trial).time_s().is_some()).collect();
    complete.sort_by_key(|trial| score(trial));
    complete.iter().take(k).map(|trial| trial.job.candidate.params.clone()).collect()
}

/// Returns the best configurations of a `*_best.json` file, a Kernel Tuner cache or T4 results.
fn from_file(path: &Path, kernel: &Kernel, space: &Space) -> Result<Vec<Params>> {
    let shown = path.display();
    let found = match Recorded::read(&recorded_file::read(path)?) {
        Ok(recorded) => from_recorded(&recorded, kernel, space)
            .with_context(|| format!("cannot take seeds from {shown}"))?,
        // JSON, but of something else.
        Err(RecordedError::Unknown) => of_kernel(export::read_best(path)?.entries, kernel),
        Err(error) => {
            return Err(error).with_context(|| {
                format!(
                    "cannot take seeds from {shown}\nhint: seeds are a `*_best.json` file of \
                     `warpsmith export`, a Kernel Tuner cache or T4 results"
                )
            });
        }
    };
    if !found.iter().any(|params| space.contains(params)) {
        bail!("{shown} holds no seeds that are valid for kernel `{}` on this machine", kernel.name);
    }
    Ok(found)
}

/// Returns what a recorded space says of a kernel's own tunables, the fastest first. Tunables that
/// the file does not have keep the author's value.
fn from_recorded(recorded: &Recorded, kernel: &Kernel, space: &Space) -> Result<Vec<Params>> {
    let has = |name: &str| recorded.space().tunables().iter().any(|known| known.name == name);
    let shared: Vec<&str> =
        kernel.tunables.iter().map(|it| it.name.as_str()).filter(|name| has(name)).collect();
    if shared.is_empty() {
        let names = |tunables: &[warpsmith_model::lab::Tunable]| {
            tunables.iter().map(|it| it.name.clone()).collect::<Vec<_>>().join(", ")
        };
        bail!(
            "its parameters ({}) are none of kernel `{}` ({})",
            names(recorded.space().tunables()),
            kernel.name,
            names(&kernel.tunables)
        );
    }
    let mut timed: Vec<(f64, u128)> = recorded
        .entries()
        .iter()
        .zip(0..)
        .filter_map(|(entry, index)| Some((entry.time_ms()?, index)))
        .collect();
    timed.sort_by(|a, b| a.0.total_cmp(&b.0));
    let mut found: Vec<Params> = Vec::new();
    for (_, index) in timed {
        let theirs = recorded.space().get(index).context("an entry has an index of its space")?;
        let mut params = kernel.default.clone();
        for name in &shared {
            if let Some(value) = theirs.get(name) {
                params.0.insert(name.to_string(), value.clone());
            }
        }
        if space.contains(&params) && !found.contains(&params) {
            found.push(params);
        }
        if found.len() == export::BEST_LENGTH {
            break;
        }
    }
    Ok(found)
}
