//! What ends a search before its budget does.

use std::collections::BTreeMap;

use anyhow::{Context, Result, bail};
use warpsmith_gate::bind;
use warpsmith_model::lab::Kernel;
use warpsmith_model::stats::{geomean, median};
use warpsmith_model::{
    ComparisonPurpose, ComparisonRecord, ContenderKind, ContenderRequest, Lab, PairedRounds,
    RunSettings, Trial, Until, roofline, suggest,
};
use warpsmith_search::Strategy;

use super::objective::medians;
use super::{Campaign, missing_words};
use crate::output::say;

/// Rounds of the measurement of a baseline that a search is to come close to, at least, and its
/// seconds on each workload.
const BASELINE_ROUNDS: u32 = 5;
const BASELINE_BUDGET_S: f64 = 0.6;

/// A condition with everything that it depends on.
#[derive(Clone, Debug)]
pub struct StopCondition {
    until: Until,
    /// The times at which the best is good enough, by workload; none for a condition on progress.
    target_s: BTreeMap<String, f64>,
}

impl StopCondition {
    /// Says whether it depends on what the strategy expects.
    pub fn asks_model(&self) -> bool {
        matches!(self.until, Until::Expected { .. })
    }

    /// Says whether the search may end: `since_progress` trials have passed since the best got better, and
    /// the strategy expects to save `outlook` of the best time with the next one, if it says so.
    pub fn is_met(
        &self,
        best: Option<&Trial>,
        since_progress: usize,
        outlook: Option<f64>,
    ) -> bool {
        let Some(best) = best else { return false };
        match self.until {
            Until::Stalled { trials } => return since_progress >= trials as usize,
            Until::Expected { percent } => {
                return outlook.is_some_and(|gain| gain < percent / 100.0);
            }
            Until::Roofline { .. } | Until::Baseline { .. } => {}
        }
        let times = medians(best);
        let ratio = |(workload, target_s): (&String, &f64)| {
            times.get(workload).map(|time_s| time_s / target_s)
        };
        // Only the workloads of this search count; a search for one shape has times on that alone.
        let ratios: Vec<f64> = self.target_s.iter().filter_map(ratio).collect();
        geomean(&ratios).is_some_and(|ratio| ratio <= 1.0)
    }

    /// Says which condition it is, as on the command line.
    pub fn words(&self) -> String {
        self.until.to_string()
    }
}

/// Refuses conditions on baselines that the lab does not have, or on expectations that the strategy has not.
pub fn check_until(lab: &Lab, settings: &RunSettings) -> Result<()> {
    for until in &settings.until {
        if let Until::Expected { .. } = until
            && settings.strategy.parse::<Strategy>().is_ok_and(|strategy| !strategy.has_model())
        {
            let with = Strategy::ALL.into_iter().filter(|strategy| strategy.has_model());
            let with: Vec<&str> = with.map(Strategy::name).collect();
            bail!(
                "--until {until}: the strategy `{}` expects nothing of what it proposes\nhint: {} do",
                settings.strategy,
                with.join(", ")
            );
        }
        let Until::Baseline { name, .. } = until else { continue };
        if lab.baselines.iter().any(|baseline| baseline.name == *name) {
            continue;
        }
        let known: Vec<&str> = lab.baselines.iter().map(|it| it.name.as_str()).collect();
        if known.is_empty() {
            bail!("--until {until}: the lab has no baselines");
        }
        let meant = suggest::closest(name, known.iter().copied());
        let meant = meant.map_or_else(String::new, |meant| format!("did you mean `{meant}`? "));
        bail!(
            "--until {until}: the lab has no baseline `{name}`\nhint: {meant}it has {}",
            known.join(", ")
        );
    }
    Ok(())
}

impl Campaign {
    /// Prepares the conditions that end the search of a kernel; measures what they refer to.
    pub fn stops(&mut self, kernel: &Kernel) -> Result<Vec<StopCondition>> {
        let mut stops = Vec::new();
        for until in self.settings.until.clone() {
            let target_s = match &until {
                Until::Stalled { .. } | Until::Expected { .. } => BTreeMap::new(),
                Until::Roofline { percent } => self.roofline_times(1.0 - percent / 100.0)?,
                Until::Baseline { name, percent } => {
                    let mut times = self.baseline_times(kernel, name)?;
                    times.values_mut().for_each(|time_s| *time_s *= 1.0 + percent / 100.0);
                    times
                }
            };
            stops.push(StopCondition { until, target_s });
        }
        Ok(stops)
    }

    /// Returns the times at which this share of the roofline's rate is reached, by workload.
    fn roofline_times(&self, share: f64) -> Result<BTreeMap<String, f64>> {
        let ceilings = self.store.ceilings(&self.run)?;
        let ceilings = ceilings.context("the machine's ceilings are measured before the search")?;
        let lab = &self.loaded.lab;
        let mut times = BTreeMap::new();
        for workload in lab.shapes() {
            let work = bind::work_size(lab, workload)?;
            let roof_s = roofline::roofline_s(&ceilings, work, lab.arithmetic_dtype(workload));
            times.insert(workload.name.clone(), roof_s / share);
        }
        Ok(times)
    }

    /// Measures a baseline beside the author's choice, or finds it measured in this run; returns its
    /// median times by workload.
    fn baseline_times(&mut self, kernel: &Kernel, name: &str) -> Result<BTreeMap<String, f64>> {
        let is_it = |record: &ComparisonRecord| {
            let place = place_of(record, name);
            let has_times = place.is_some_and(|place| !times_of(record, place).is_empty());
            record.purpose == ComparisonPurpose::Ladder && has_times
        };
        let record = match self.store.comparisons(&self.run)?.into_iter().find(is_it) {
            Some(record) => record,
            None => {
                let author = self.winner(kernel, &kernel.default).contender(&kernel.name);
                let all = self.baseline_contenders();
                let wanted = all.into_iter().filter(|contender| {
                    matches!(contender, ContenderRequest::Baseline { name: own, .. } if own == name)
                });
                let contenders = std::iter::once(author).chain(wanted).collect();
                let workloads = self.served(kernel)?;
                let purpose = ComparisonPurpose::Ladder;
                self.compare_now(
                    purpose,
                    contenders,
                    workloads,
                    BASELINE_ROUNDS,
                    BASELINE_BUDGET_S,
                )?
            }
        };
        if let Some(missing) = record.missing.iter().find(|missing| missing.name == name) {
            bail!("--until baseline:{name} cannot be decided: {}", missing_words(missing));
        }
        let place = place_of(&record, name)
            .with_context(|| format!("the comparison with `{name}` has no times of it"))?;
        let times = times_of(&record, place);
        let reasons: Vec<String> = record
            .workloads
            .iter()
            .filter_map(|rounds| {
                let absent = rounds.absent.iter().find(|absent| absent.contender == place)?;
                Some(format!("{} on {}: {}", name, rounds.workload, absent.reason))
            })
            .collect();
        if times.is_empty() {
            bail!("--until baseline:{name} cannot be decided\n{}", reasons.join("\n"));
        }
        for reason in reasons {
            say(format!("  {reason}; the other workloads decide"));
        }
        Ok(times)
    }
}

/// Returns the median times of a contender, by workload on which it has any.
fn times_of(record: &ComparisonRecord, place: usize) -> BTreeMap<String, f64> {
    let time = |rounds: &PairedRounds| {
        Some((rounds.workload.clone(), median(rounds.samples_s.get(place)?)?))
    };
    record.workloads.iter().filter_map(time).collect()
}

fn place_of(record: &ComparisonRecord, name: &str) -> Option<usize> {
    record.contenders.iter().position(
        |contender| matches!(&contender.kind, ContenderKind::Baseline { name: own } if own == name),
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::campaign::testing::{Conditions, trial};

    fn stop(text: &str, target_s: &[(&str, f64)]) -> StopCondition {
        let target_s = target_s.iter().map(|(name, time_s)| (name.to_string(), *time_s)).collect();
        StopCondition { until: text.parse().expect("a condition"), target_s }
    }

    #[test]
    fn a_search_stalls_after_so_many_trials_without_a_better_one() {
        let best = trial(1, 1e-3, 4e-3, Conditions::default());
        let stalled = stop("stalled:3", &[]);
        assert!(!stalled.is_met(Some(&best), 2, None) && stalled.is_met(Some(&best), 3, None));
        assert!(
            !stalled.is_met(None, 100, None),
            "nothing passed, so there is nothing to settle for"
        );
    }

    #[test]
    fn a_search_ends_when_its_model_expects_too_little() {
        let best = trial(1, 1e-3, 4e-3, Conditions::default());
        let little = stop("expected:0.5", &[]);
        assert!(little.is_met(Some(&best), 0, Some(0.0049)));
        assert!(!little.is_met(Some(&best), 0, Some(0.0051)));
        assert!(!little.is_met(Some(&best), 1000, None), "no model, no expectation");
    }

    #[test]
    fn a_target_is_met_by_the_mean_over_the_workloads_of_the_search() {
        let best = trial(1, 1e-3, 4e-3, Conditions::default());
        // Twice as fast as asked on one, 1.9 times as slow on the other.
        let near = stop("roofline:10", &[("small", 2e-3), ("large", 4e-3 / 1.9)]);
        assert!(near.is_met(Some(&best), 0, None));
        let far = stop("baseline:lib:0", &[("small", 2e-3), ("large", 4e-3 / 2.1)]);
        assert!(!far.is_met(Some(&best), 1000, None));
        let other = stop("roofline:10", &[("elsewhere", 1.0)]);
        assert!(!other.is_met(Some(&best), 0, None), "no workload in common decides nothing");
    }
}
