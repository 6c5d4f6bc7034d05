//! Before and after the loop: what an evolution starts from, and whether its best holds.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Context, Result, bail};
use serde_json::{Value as Json, json};
use warpsmith_evidence::derive::standings;
use warpsmith_evidence::export::Part;
use warpsmith_model::lab::{Kernel, TargetKind};
use warpsmith_model::{
    ComparisonPurpose, ComparisonRecord, EvolutionStart, FORMAT_VERSION, Fidelity, Origin, Trial,
};
use warpsmith_search::evolve::task;

use super::{Accepted, Bench, EvolutionBudget, EvolutionEnd, Evolved, Replies, Start, Tally};
use crate::campaign::{Campaign, passed, rung_of};
use crate::output::say;

impl Campaign {
    /// Measures what an evolution starts from, or finds it in this run.
    pub fn begin_evolution(&mut self) -> Result<Start> {
        let settings = self.settings.evolve.clone().context("the run is no evolution")?;
        let name = self.settings.kernel.clone().context("an evolution names its kernel")?;
        let kernel = rung_of(&self.loaded.lab, &name)?.clone();
        if let Some(reason) = self.unavailable(&kernel, &kernel.default) {
            bail!("`{name}` cannot be evolved here: {reason}");
        }
        let workloads = self.served(&kernel)?;
        if workloads.is_empty() {
            bail!("kernel `{name}` serves none of the workloads that were asked for");
        }
        let stored = self.store.evolution(&self.run)?;
        let ceilings = match &stored {
            Some(start) => start.ceilings.clone(),
            None => self.ceilings()?,
        };
        let seed_trial = Bench::evaluate(self, &kernel, &kernel.default, Origin::Seed)?.trial;
        if stored.is_none() {
            self.store.put_evolution(
                &self.run,
                &EvolutionStart {
                    format: FORMAT_VERSION,
                    kernel: name,
                    seed_trial: seed_trial.id,
                    ceilings: ceilings.clone(),
                },
            )?;
        }
        let budget = EvolutionBudget {
            trials: self.settings.budget_trials,
            tokens: settings.tokens,
            money: settings.money,
            seconds: self.settings.budget_s,
        };
        let lab = Arc::new(self.loaded.lab.clone());
        Ok(Start {
            task: task(&lab, &kernel, &workloads, &self.environment.device),
            lab,
            kernel,
            seed_trial,
            device: self.environment.device.clone(),
            ceilings,
            seed: self.settings.seed,
            settings,
            budget,
        })
    }

    /// Returns the calls that this run made before, with their replies.
    pub fn stored_calls(&self) -> Result<Replies<'static>> {
        stored_replies(&self.store, &self.run)
    }

    /// Puts the bests through the full gate, the last first, until one holds. The seed is the last
    /// resort: it was not written by a model.
    pub fn verify_evolved(&mut self, evolved: &Evolved) -> Result<(Accepted, Trial)> {
        for best in evolved.accepted.iter().rev() {
            self.stop_if_asked()?;
            let kernel = &best.winner.kernel;
            let workloads = self.served(kernel)?;
            let request = self.request(
                kernel,
                &best.winner.params,
                best.origin.clone(),
                Fidelity::Full,
                workloads,
            )?;
            let trial = Campaign::evaluate(self, kernel, request)?;
            if passed(&trial) {
                return Ok((best.clone(), trial));
            }
            let label = best.winner.label();
            say(format!("  {label} fails the full gate: {}", trial.outcome.describe()));
        }
        if evolved.accepted.is_empty() {
            bail!(
                "neither the seed nor anything that the models wrote is correct; `warpsmith show {}` has \
                 the reasons",
                self.run
            );
        }
        bail!("nothing passes the full gate; `warpsmith show {}` has the reasons", self.run)
    }

    /// Compares an evolution's best with its start, the naive rung and every baseline.
    pub fn compare_evolved(
        &mut self,
        best: &Accepted,
        seed: &Accepted,
    ) -> Result<ComparisonRecord> {
        if let Some(record) = self.stored_comparison(ComparisonPurpose::Final)? {
            return Ok(record);
        }
        let mut contenders = vec![best.winner.contender(&best.winner.kernel.name)];
        if best.winner.kernel.name != seed.winner.kernel.name {
            contenders.push(seed.winner.contender(&seed.start_label()));
        }
        let there = [&best.winner.kernel.name, &seed.winner.kernel.name];
        let naive = self.loaded.lab.oracle.clone();
        if let Some(naive) = naive.filter(|naive| !there.contains(&naive)) {
            let kernel = self.kernel(&naive)?;
            contenders.push(self.winner(&kernel, &kernel.default).contender(&naive));
        }
        contenders.extend(self.baseline_contenders());
        let workloads = self.served(&best.winner.kernel)?;
        let (rounds, seconds) = (self.settings.compare_rounds, self.settings.compare_s);
        self.compare_now(ComparisonPurpose::Final, contenders, workloads, rounds, seconds)
    }

    /// Returns how much faster than the seed an evolution's best is, in paired rounds; 1 for the seed
    /// itself.
    pub fn speedup_over(&mut self, best: &Accepted, seed: &Accepted) -> Result<f64> {
        if best.winner.kernel.name == seed.winner.kernel.name {
            return Ok(1.0);
        }
        let contenders = vec![
            best.winner.contender(&best.winner.kernel.name),
            seed.winner.contender(&seed.start_label()),
        ];
        let workloads = self.served(&best.winner.kernel)?;
        let (rounds, seconds) = (self.settings.compare_rounds, self.settings.compare_s);
        let record =
            self.compare_now(ComparisonPurpose::Final, contenders, workloads, rounds, seconds)?;
        let speedup = standings(&record, 0).get(1).and_then(|seed| seed.speedup);
        speedup.map(|it| it.mid).context("the comparison with the seed has no times")
    }

    /// Writes the source and the contract of an evolution's best beside the evidence.
    pub fn write_evolved(&self, kernel: &Kernel, dir: Option<PathBuf>) -> Result<PathBuf> {
        let dir = dir.unwrap_or_else(|| self.project.evidence_dir.join(&self.run.0));
        let [source, _] = write_kernel(kernel, self.loaded.lab.target, &dir)?;
        Ok(source)
    }
}

impl Accepted {
    /// Says whether a model wrote it.
    pub fn is_evolved(&self) -> bool {
        matches!(self.origin, Origin::Evolved { .. })
    }

    /// What a comparison calls it where it is what an evolution started from.
    fn start_label(&self) -> String {
        let what = if self.is_evolved() { "first correct one" } else { "seed" };
        format!("{} ({what})", self.winner.kernel.name)
    }
}

/// Writes the source and the contract of a kernel into a folder, as a lab has them; returns both paths.
pub fn write_kernel(kernel: &Kernel, target: TargetKind, dir: &Path) -> Result<[PathBuf; 2]> {
    let ending = match target {
        TargetKind::Cpu => "c",
        TargetKind::Cuda => "cu",
    };
    let source = dir.join(format!("{}.{ending}", kernel.name));
    let contract = source.with_extension("toml");
    for (path, text) in [(&source, &kernel.source), (&contract, &kernel.contract)] {
        let cannot = || format!("cannot write {}", path.display());
        let mut part = Part::begin(path)?;
        part.write_all(text.as_bytes()).with_context(cannot)?;
        part.finish()?;
    }
    Ok([source, contract])
}

/// Returns the calls of a run, with their replies.
pub(super) fn stored_replies(
    store: &warpsmith_evidence::Store,
    run: &warpsmith_model::RunId,
) -> Result<Replies<'static>> {
    let mut stored = std::collections::VecDeque::new();
    for call in store.calls(run)? {
        let reply = match &call.answer {
            warpsmith_model::CallAnswer::Replied { reply, .. } => Some(store.blob(reply)?),
            warpsmith_model::CallAnswer::Failed { .. } => None,
        };
        stored.push_back((call, reply));
    }
    Ok(Replies { stored, panel: None })
}

/// What an evolution adds to the summary of a campaign.
#[derive(Debug)]
pub struct EvolvedSummary {
    /// What happened, counted.
    pub tally: Tally,
    /// Why it stopped.
    pub stop: EvolutionEnd,
    /// Whether the winner was written by a model, or is the seed.
    pub is_evolved: bool,
    /// The winner's source.
    pub source: PathBuf,
}

impl EvolvedSummary {
    /// Renders for people.
    pub fn render(&self) -> String {
        let tally = &self.tally;
        let rejected: u32 = tally.rejected.values().sum();
        let mut lines = vec![format!(
            "  {} calls: {} unanswered, {rejected} without a candidate, {} parsed, {} twins, {} \
             compiled, {} correct, {} faster than {}, {} accepted as the best",
            tally.calls,
            tally.unanswered,
            tally.parsed,
            tally.twins,
            tally.compiled,
            tally.correct,
            tally.faster,
            if tally.from_seed { "the seed" } else { "the first correct one" },
            tally.accepted
        )];
        for (reason, count) in &tally.rejected {
            lines.push(format!("    {count} x {}", reason.name()));
        }
        lines.push(format!(
            "  {} tokens in, {} out{}; cost {:.4}; {:.1} ms a trial beside provider and evaluation",
            tally.input_tokens,
            tally.output_tokens,
            if tally.estimated > 0 { " (estimated where the provider did not say)" } else { "" },
            tally.cost,
            1e3 * tally.overhead_s()
        ));
        lines.push(format!("  stopped: {}", self.stop.words()));
        if !self.is_evolved {
            lines.push("  no evolved kernel was shown to be faster: the seed stays".to_string());
        }
        lines.push(format!("  source: {}", self.source.display()));
        lines.join("\n")
    }

    /// Renders for programs.
    pub fn to_json(&self) -> Json {
        json!({
            "tally": self.tally.to_json(),
            "stop": self.stop.words(),
            "is_evolved": self.is_evolved,
            "source": self.source,
        })
    }
}
