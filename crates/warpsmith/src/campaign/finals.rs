//! Decisions: who wins the search, whether it holds, and how it compares.

use std::collections::BTreeMap;
use std::ops::RangeInclusive;

use anyhow::{Context, Result, anyhow, bail};
use warpsmith_evidence::derive::{Standing, dispatch, standings};
use warpsmith_evidence::export;
use warpsmith_model::lab::Kernel;
use warpsmith_model::stats::Comparison;
use warpsmith_model::{
    Answer, Ask, CompareRequest, ComparisonPurpose, ComparisonRecord, ContenderKind,
    ContenderRequest, Fidelity, Goal, MissingBaseline, Objective, Origin, Params, Trial,
};
use warpsmith_search::score;

use super::objective::ObjectiveScore;
use super::{Campaign, passed, restore, system_seed};
use crate::damage::{all_intact, intact};
use crate::kernel_text::kernel_text;
use crate::output::{Progress, counted, say};
use crate::winner_table::WinnerTable;

/// A kernel with parameters.
#[derive(Clone, Debug)]
pub struct ConfiguredKernel {
    /// The kernel.
    pub kernel: Kernel,
    /// Its parameters.
    pub params: Params,
}

/// The best of a search after a paired re-measurement, the winner first.
#[derive(Debug)]
pub struct Finalists {
    /// In the order of preference.
    pub ranked: Vec<ConfiguredKernel>,
}

/// How many of the search's best are measured against each other: so many at least, and those near the best
/// up to so many.
const FINALISTS: RangeInclusive<usize> = 3..=8;

/// How many of each workload's, where every workload has a winner of its own.
const FINALISTS_EACH: RangeInclusive<usize> = 2..=6;

/// How much longer than the best a search may have seen one that comes to the finals: its few readings of
/// short launches are off by that much.
const NEAR_THE_BEST: f64 = 1.05;

/// Rounds of it at least.
const FINAL_ROUNDS: u32 = 5;

/// Seconds of paired measurement for the finalists, on each workload.
const FINAL_BUDGET_S: f64 = 0.6;

/// Rounds of the comparison of rungs at least, and its seconds on each workload.
const RUNG_ROUNDS: u32 = 4;
const RUNG_BUDGET_S: f64 = 0.3;

impl Campaign {
    /// Measures rungs against each other with their authors' parameters; returns the fastest.
    pub fn fastest_rung(&mut self, mut rungs: Vec<Kernel>) -> Result<Kernel> {
        if rungs.len() < 2 {
            return rungs.pop().context("there is a rung to choose");
        }
        let record = match self.stored_comparison(ComparisonPurpose::Ladder)? {
            Some(record) => record,
            None => {
                let contenders = rungs
                    .iter()
                    .map(|kernel| self.winner(kernel, &kernel.default).contender(&kernel.name))
                    .collect();
                let workloads = self.served(&rungs[0])?;
                let purpose = ComparisonPurpose::Ladder;
                self.compare_now(purpose, contenders, workloads, RUNG_ROUNDS, RUNG_BUDGET_S)?
            }
        };
        // How much faster the first is than each of the others; less than one where it is slower.
        let slowest_lead = standings(&record, 0)
            .into_iter()
            .filter_map(|other| Some((other.label.clone(), other.speedup?.mid)))
            .min_by(|a, b| a.1.total_cmp(&b.1));
        let fastest = match slowest_lead {
            Some((label, lead)) if lead < 1.0 => rungs.into_iter().find(|it| it.name == label),
            _ => rungs.into_iter().next(),
        };
        fastest.context("the fastest rung is one of those that were compared")
    }

    /// Measures the search's best and the author's choice against each other, interleaved. The
    /// author's choice stays the winner unless somebody is really faster: a noisy best is not one.
    pub fn finalists(&mut self, kernel: &Kernel, trials: &[Trial]) -> Result<Finalists> {
        let objective = self.settings.objective;
        let best = shortlist(objective, trials);
        if best.is_empty() {
            bail!("no configuration of `{}` passed", kernel.name);
        }
        let mut finalists: Vec<ConfiguredKernel> = vec![self.winner(kernel, &kernel.default)];
        let mut of_author =
            trials.iter().filter(|trial| trial.job.candidate.params == kernel.default).peekable();
        let default_passed = of_author.peek().is_some() && of_author.all(passed);
        if !default_passed {
            finalists.clear();
        }
        for params in best {
            if !finalists.iter().any(|known| known.params == *params) {
                finalists.push(self.winner(kernel, params));
            }
        }
        if finalists.len() == 1 {
            return Ok(Finalists { ranked: finalists });
        }
        let record = match self.stored_comparison(ComparisonPurpose::Finalists)? {
            Some(record) => record,
            None => {
                let contenders = finalists
                    .iter()
                    .map(|finalist| finalist.contender(&finalist.label()))
                    .collect();
                let workloads = self.served(kernel)?;
                let purpose = ComparisonPurpose::Finalists;
                self.compare_now(purpose, contenders, workloads, FINAL_ROUNDS, FINAL_BUDGET_S)?
            }
        };
        let mut ranked: Vec<(f64, ConfiguredKernel)> = Vec::new();
        for (idx, finalist) in finalists.into_iter().enumerate() {
            let against_first = standings(&record, idx).into_iter().next();
            let gain = match against_first {
                _ if idx == 0 => 1.0,
                Some(first) => gain(objective, &first),
                None => 0.0,
            };
            ranked.push((gain, finalist));
        }
        // Stable, so that the author's choice stays ahead of whoever only ties with it.
        ranked.sort_by(|a, b| b.0.total_cmp(&a.0));
        Ok(Finalists { ranked: ranked.into_iter().map(|(_, finalist)| finalist).collect() })
    }

    /// Puts finalists through the full gate until one holds.
    pub fn verify(&mut self, finalists: Finalists) -> Result<(ConfiguredKernel, Trial)> {
        for finalist in finalists.ranked {
            self.stop_if_asked()?;
            let trial = self.full_trial(&finalist)?;
            if passed(&trial) {
                return Ok((finalist, trial));
            }
            say(format!(
                "  {} fails the full gate: {}",
                finalist.label(),
                trial.outcome.describe()
            ));
        }
        bail!("no finalist passes the full gate; `warpsmith show {}` has the reasons", self.run)
    }

    /// Puts the choice for every workload through the full gate, and chooses again where one fails.
    /// There is nothing to choose where only one configuration came to the finals.
    pub fn verify_choices(&mut self, kernel: &Kernel) -> Result<()> {
        let Some(record) = self.stored_comparison(ComparisonPurpose::Finalists)? else {
            return Ok(());
        };
        let (mut verified, mut refused): (Vec<usize>, Vec<usize>) = Default::default();
        loop {
            let choices = dispatch(&record, &|idx| !refused.contains(&idx));
            let open = choices.iter().find(|choice| !verified.contains(&choice.contender));
            let Some(open) = open.map(|choice| choice.contender) else { return Ok(()) };
            let ContenderKind::Kernel { params, .. } = &record.contenders[open].kind else {
                bail!("a baseline was chosen");
            };
            self.stop_if_asked()?;
            let choice = self.winner(kernel, params);
            let trial = self.full_trial(&choice)?;
            if passed(&trial) {
                verified.push(open);
            } else {
                let reason = trial.outcome.describe();
                say(format!("  {} fails the full gate: {reason}", choice.label()));
                refused.push(open);
            }
        }
    }

    /// Returns which configuration to use on which workload, as `warpsmith export` writes it; none
    /// where only one configuration came to the finals.
    pub fn dispatch_table(&self) -> Result<Option<serde_json::Value>> {
        let record = self.store.run(&self.run.0)?;
        let trials = self.store.summaries(&self.run)?;
        let comparisons = self.store.comparisons(&self.run)?;
        let device = &self.environment.device.name;
        Ok(export::dispatch_table(&record, device, &trials, &comparisons))
    }

    /// Returns the winner of this run as its evidence has it: what the report and the exports say of it.
    pub fn recorded_winner(&self) -> Result<Option<WinnerTable>> {
        WinnerTable::read(&self.store, &self.store.run(&self.run.0)?)
    }

    /// Evaluates a candidate at full fidelity, or finds it so evaluated in this run.
    pub fn full_trial(&mut self, winner: &ConfiguredKernel) -> Result<Trial> {
        let workloads = self.served(&winner.kernel)?;
        let origin = if winner.params == winner.kernel.default {
            Origin::Seed
        } else {
            Origin::Tuned { strategy: self.settings.strategy.clone() }
        };
        let request =
            self.request(&winner.kernel, &winner.params, origin, Fidelity::Full, workloads)?;
        self.evaluate(&winner.kernel, request)
    }

    /// Compares the winner with the author's choice, the naive rung and every baseline.
    pub fn compare_winner(&mut self, winner: &ConfiguredKernel) -> Result<ComparisonRecord> {
        if let Some(record) = self.stored_comparison(ComparisonPurpose::Final)? {
            return Ok(record);
        }
        let mut contenders = vec![winner.contender(&winner.kernel.name)];
        if winner.params != winner.kernel.default {
            let author = self.winner(&winner.kernel, &winner.kernel.default);
            contenders.push(author.contender(&format!("{} (author's)", winner.kernel.name)));
        }
        let naive = self.loaded.lab.oracle.clone();
        if let Some(naive) = naive.filter(|naive| *naive != winner.kernel.name) {
            let kernel = self.kernel(&naive)?;
            let params = kernel.default.clone();
            contenders.push(self.winner(&kernel, &params).contender(&naive));
        }
        contenders.extend(self.baseline_contenders());
        let workloads = self.served(&winner.kernel)?;
        self.compare_now(
            ComparisonPurpose::Final,
            contenders,
            workloads,
            self.settings.compare_rounds,
            self.settings.compare_s,
        )
    }

    /// The lab's baselines as contenders; the worker says which are missing.
    pub fn baseline_contenders(&self) -> Vec<ContenderRequest> {
        let python = self.project.python();
        self.loaded
            .lab
            .baselines
            .iter()
            .map(|baseline| ContenderRequest::Baseline {
                name: baseline.name.clone(),
                python: python.clone(),
            })
            .collect()
    }

    /// Runs a comparison with inputs that nobody could know beforehand, and makes it durable.
    pub fn compare_now(
        &mut self,
        purpose: ComparisonPurpose,
        contenders: Vec<ContenderRequest>,
        workloads: Vec<String>,
        min_rounds: u32,
        budget_s: f64,
    ) -> Result<ComparisonRecord> {
        // The seed of a run that only compares was drawn for it, and the chain's answers serve again.
        let seed = match self.settings.goal {
            Goal::Compare => self.settings.seed,
            _ => system_seed()?,
        };
        let request = CompareRequest {
            lab: self.lab_ref(seed),
            purpose,
            contenders,
            workloads,
            min_rounds,
            budget_s,
            launch_deadline_s: 60.0,
        };
        self.pool.compile_contenders(&self.loaded.lab, &request);
        let (name, n_contenders) = (purpose.name(), request.contenders.len());
        let mut progress = Progress::new(name, request.workloads.len() as u64);
        progress.note(&format!("{n_contenders} contenders"));
        let interrupt = self.interrupt.clone();
        let answer = self.pool.ask_while(&Ask::Compare(Box::new(request)), &mut |done| {
            if done.is_some() {
                progress.step(&format!("{n_contenders} contenders"));
            }
            !interrupt.asked()
        })?;
        match answer {
            Answer::Compared(record) => {
                // Without those that are not installed.
                let (n_there, n_workloads) = (record.contenders.len(), record.workloads.len());
                progress.finish(&format!(
                    "{} on {}",
                    counted(n_there, "contender"),
                    counted(n_workloads, "workload")
                ));
                self.store.put_comparison(&self.run, &record)?;
                Ok(*record)
            }
            other => bail!("the worker answered a comparison with {other:?}"),
        }
    }

    /// Returns the comparison of a purpose that this run already made.
    pub fn stored_comparison(
        &self,
        purpose: ComparisonPurpose,
    ) -> Result<Option<ComparisonRecord>> {
        let stored = self.store.comparisons(&self.run)?;
        Ok(stored.into_iter().find(|record| record.purpose == purpose))
    }

    /// Finds the winner of an earlier run of the same lab, which passed the full gate.
    pub fn winner_of(&self, run: &str) -> Result<ConfiguredKernel> {
        let record = self.store.run(run)?;
        let gated = |winner: &WinnerTable| winner.trial.job.fidelity == Fidelity::Full;
        let winner = WinnerTable::read(&self.store, &record)?.filter(gated).with_context(|| {
            format!("run {} has no winner: nothing passed its full gate", record.id)
        })?;
        let candidate = &winner.trial.job.candidate;
        let kernel = match self.loaded.lab.kernel(&candidate.kernel) {
            Some(kernel) => kernel.clone(),
            None => restore(&self.store, &self.loaded.lab, &record.id, candidate)?,
        };
        Ok(self.winner(&kernel, &candidate.params))
    }

    /// Returns what earlier runs of this lab on this device chose, of kernels that the lab still has: the
    /// winners of their finals, one for each workload where they say so. The newest first.
    pub fn chosen_before(&self) -> Result<Vec<ConfiguredKernel>> {
        let mut found = Vec::new();
        for run in all_intact(self.store.runs_or_damage()?)? {
            let record = run.record;
            let is_same = record.lab.id == self.loaded.lab.id
                && record.environment == self.environment_id
                && record.id != self.run;
            if !is_same {
                continue;
            }
            let comparisons = intact(self.store.comparisons(&record.id))?;
            for comparison in comparisons.into_iter().flatten() {
                if comparison.purpose != ComparisonPurpose::Finalists {
                    continue;
                }
                for choice in dispatch(&comparison, &|_| true) {
                    let chosen = &comparison.contenders[choice.contender].kind;
                    if let ContenderKind::Kernel { kernel, params, .. } = chosen
                        && let Some(kernel) = self.loaded.lab.kernel(kernel)
                    {
                        found.push(self.winner(kernel, params));
                    }
                }
            }
        }
        Ok(found)
    }

    /// Finds the candidate of a trial, by its name or the beginning of it.
    pub fn candidate_of(&self, trial: &str) -> Result<ConfiguredKernel> {
        let trial = self.store.trial(trial)?;
        if trial.job.lab != self.loaded.lab.id {
            bail!(
                "trial {} is of another lab, or of this one before it was edited\nhint: `warpsmith \
                 show {}` says which",
                trial.id.short(),
                trial.id.short()
            );
        }
        let candidate = &trial.job.candidate;
        // Runs that took the trial over need not know what its source is made of.
        let mut kernel = Err(anyhow!("no run holds trial {}", trial.id.short()));
        for run in self.store.runs_of(&trial.id)? {
            kernel = restore(&self.store, &self.loaded.lab, &run, candidate);
            if kernel.is_ok() {
                break;
            }
        }
        Ok(self.winner(&kernel?, &candidate.params))
    }

    /// Binds a kernel to parameters.
    pub fn winner(&self, kernel: &Kernel, params: &Params) -> ConfiguredKernel {
        ConfiguredKernel { kernel: kernel.clone(), params: params.clone() }
    }
}

impl ConfiguredKernel {
    /// Says which it is, in one line.
    pub fn label(&self) -> String {
        if self.params.0.is_empty() {
            self.kernel.name.clone()
        } else {
            format!("{} ({})", self.kernel.name, self.params)
        }
    }

    /// Says which it is as a command would: the parameters that differ from the author's.
    pub fn short_label(&self) -> String {
        let is_own = |(name, value): &(&String, &warpsmith_model::Value)| {
            self.kernel.default.get(name) != Some(value)
        };
        let differing: Vec<String> = (self.params.0.iter().filter(is_own))
            .map(|(name, value)| format!("{name}={value}"))
            .collect();
        match differing.is_empty() {
            true => self.kernel.name.clone(),
            false => format!("{}:{}", self.kernel.name, differing.join(",")),
        }
    }

    /// Enters it into a comparison.
    pub fn contender(&self, label: &str) -> ContenderRequest {
        ContenderRequest::Kernel {
            label: label.to_string(),
            kernel: kernel_text(&self.kernel),
            params: self.params.clone(),
        }
    }
}

/// Returns the best of a search for an objective, without repetition, the best first.
fn shortlist(objective: Objective, trials: &[Trial]) -> Vec<&Params> {
    let mut groups: BTreeMap<&[String], Vec<&Trial>> = BTreeMap::new();
    for trial in trials.iter().filter(|trial| score(trial).time_s().is_some()) {
        // A search for every workload on its own has trials that cannot be compared.
        let group = match objective {
            Objective::Dispatch => trial.job.workloads.as_slice(),
            Objective::Time | Objective::Geomean | Objective::Worst => &[],
        };
        groups.entry(group).or_default().push(trial);
    }
    let scores = ObjectiveScore::after(objective, trials);
    let wanted = if objective == Objective::Dispatch { FINALISTS_EACH } else { FINALISTS };
    let mut best: Vec<&Params> = Vec::new();
    for mut group in groups.into_values() {
        group.sort_by_key(|trial| scores.score(trial));
        let scored = |trial: &Trial| scores.score(trial).time_s().unwrap_or(f64::INFINITY);
        let near_s = group.first().map_or(0.0, |trial| scored(trial) * NEAR_THE_BEST);
        let mut own: Vec<&Params> = Vec::new();
        for trial in group {
            let params = &trial.job.candidate.params;
            let is_wanted =
                own.len() < *wanted.start() || own.len() < *wanted.end() && scored(trial) <= near_s;
            if is_wanted && !own.contains(&params) {
                own.push(params);
            }
        }
        best.extend(own);
    }
    let mut seen: Vec<&Params> = Vec::new();
    best.retain(|params| {
        let is_new = !seen.contains(params);
        seen.push(params);
        is_new
    });
    best
}

/// Returns how much better a finalist is than the first one, which it is held against; at most 1 where
/// it is not shown to be faster.
fn gain(objective: Objective, first: &Standing) -> f64 {
    let shown = |speedup: f64, is_shown: bool| if is_shown { speedup } else { speedup.min(1.0) };
    if objective != Objective::Worst {
        return match first.speedup.zip(first.verdict) {
            Some((speedup, verdict)) => shown(speedup.mid, verdict == Comparison::Faster),
            None => 0.0,
        };
    }
    let speedups: Option<Vec<f64>> =
        first.workloads.iter().map(|on| Some(on.speedup?.mid)).collect();
    let worst = speedups.and_then(|all| all.into_iter().min_by(f64::total_cmp));
    let is_shown = first.workloads.iter().all(|on| on.verdict == Some(Comparison::Faster));
    worst.map_or(0.0, |worst| shown(worst, is_shown))
}

/// Says that a baseline is missing and how to get it.
pub fn missing_words(missing: &MissingBaseline) -> String {
    format!("{} is not available: {}; to get it: {}", missing.name, missing.reason, missing.how)
}

#[cfg(test)]
mod tests {
    use super::super::testing::{Conditions, params, trial};
    use super::*;

    fn finalists(times_s: &[f64]) -> usize {
        let trials: Vec<Trial> = (1..)
            .zip(times_s)
            .map(|(tile, time_s)| trial(tile, *time_s, *time_s, Conditions::default()))
            .collect();
        shortlist(Objective::Time, &trials).len()
    }

    #[test]
    fn the_finals_have_room_for_all_that_a_search_cannot_tell_from_the_best() {
        assert_eq!(finalists(&[1e-3, 2e-3]), 2);
        assert_eq!(finalists(&[1e-3, 1.1e-3, 1.2e-3, 1.3e-3]), 3);
        assert_eq!(finalists(&[1.3e-3, 1.01e-3, 1.02e-3, 1e-3, 1.03e-3]), 4);
        assert_eq!(finalists(&[1e-3; 12]), 8);
        let trials = [2.0e-3, 1e-3]
            .map(|time_s| trial((time_s * 1e3) as i64, time_s, time_s, Conditions::default()));
        assert_eq!(shortlist(Objective::Time, &trials), [&params(1), &params(2)]);
    }
}
