//! What a search over several workloads makes small, as one number for each trial.
//!
//! By itself a trial has the [`score`] of the geometric mean of its times. Another objective gives it
//! another one; proposers learn that, with the parameters, and what is stored is the trial itself.

use std::collections::BTreeMap;

use warpsmith_model::stats::median;
use warpsmith_model::{Objective, Trial};
use warpsmith_search::{Score, score};

/// A candidate that is this much slower than the best allows on one workload cannot have a better
/// worst workload. The margin is for the noise of ranking, whose intervals are 5 % wide.
const CANNOT_WIN: f64 = 1.1;

/// An objective, with what it needs to know to judge trials of one kernel.
#[derive(Clone, Debug)]
pub struct ObjectiveScore {
    objective: Objective,
    /// The times that ratios are relative to, by workload: those of the first complete trial, which
    /// is the author's choice unless that failed. They stay, so that all ratios of a search are
    /// relative to the same.
    reference_s: BTreeMap<String, f64>,
}

impl ObjectiveScore {
    /// Scores by an objective, with nothing measured yet.
    pub fn new(objective: Objective) -> Self {
        Self { objective, reference_s: BTreeMap::new() }
    }

    /// Scores by an objective after the trials of a search, in their order.
    pub fn after(objective: Objective, trials: &[Trial]) -> Self {
        let mut scores = Self::new(objective);
        trials.iter().for_each(|trial| scores.learn(trial));
        scores
    }

    /// Takes note of a trial that others may be relative to.
    pub fn learn(&mut self, trial: &Trial) {
        if self.objective == Objective::Worst
            && self.reference_s.is_empty()
            && score(trial).time_s().is_some()
        {
            self.reference_s = medians(trial);
        }
    }

    /// Returns how good a trial is; less is better.
    pub fn score(&self, trial: &Trial) -> Score {
        match self.worst_ratio(trial) {
            Some(ratio) => Score::Complete { time_s: ratio },
            None => score(trial),
        }
    }

    /// Returns the times beyond which a candidate need not be measured on, by workload.
    pub fn incumbent(&self, best: Option<&Trial>) -> BTreeMap<String, f64> {
        let Some(best) = best else { return BTreeMap::new() };
        match self.worst_ratio(best) {
            Some(ratio) => {
                let reference = self.reference_s.iter();
                reference.map(|(workload, time_s)| (workload.clone(), ratio * time_s)).collect()
            }
            None => medians(best),
        }
    }

    /// Returns how many times slower than [`Self::incumbent`] is hopeless.
    pub fn hopeless_ratio(&self, usual: f64) -> f64 {
        if self.objective == Objective::Worst { CANNOT_WIN } else { usual }
    }

    /// Says how good the best is.
    pub fn words(&self, best: &Trial) -> Option<String> {
        let ratio = self.worst_ratio(best)?;
        Some(format!("{ratio:.3} of the first trial's time on the worst workload"))
    }

    /// None for another objective, and for a trial that is not complete.
    fn worst_ratio(&self, trial: &Trial) -> Option<f64> {
        if self.objective != Objective::Worst || score(trial).time_s().is_none() {
            return None;
        }
        let times = medians(trial);
        let ratio = |(workload, reference_s): (&String, &f64)| {
            times.get(workload).map(|time_s| time_s / reference_s)
        };
        let ratios: Option<Vec<f64>> = self.reference_s.iter().map(ratio).collect();
        ratios?.into_iter().max_by(f64::total_cmp)
    }
}

/// Returns the median times of a trial, by workload.
pub fn medians(trial: &Trial) -> BTreeMap<String, f64> {
    trial
        .outcome
        .measurements()
        .iter()
        .filter_map(|m| Some((m.workload.clone(), median(&m.samples_s)?)))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::campaign::testing::{Conditions, trial};

    /// The author's choice, and one that is much better on one workload and worse on the other.
    fn two() -> [Trial; 2] {
        [trial(1, 1e-3, 4e-3, Conditions::default()), trial(2, 2e-4, 4.8e-3, Conditions::default())]
    }

    #[test]
    fn the_worst_workload_decides_where_the_mean_would_decide_otherwise() {
        let trials = two();
        let mean = ObjectiveScore::after(Objective::Time, &trials);
        assert!(mean.score(&trials[1]) < mean.score(&trials[0]));
        let worst = ObjectiveScore::after(Objective::Worst, &trials);
        assert!(worst.score(&trials[0]) < worst.score(&trials[1]));
        let ratio = worst.score(&trials[1]).time_s().expect("complete");
        assert!((ratio - 1.2).abs() < 1e-6, "{ratio}");
    }

    #[test]
    fn who_cannot_win_is_not_measured_on_every_shape() {
        let author = trial(1, 1e-3, 4e-3, Conditions::default());
        let scores = ObjectiveScore::after(Objective::Worst, std::slice::from_ref(&author));
        // 20 % slower on the first shape: nothing on the second can make up for that.
        let limits = |usual| Conditions {
            incumbent_s: scores.incumbent(Some(&author)),
            hopeless_ratio: scores.hopeless_ratio(usual),
            ..Conditions::default()
        };
        let slow = trial(2, 1.2e-3, 1e-3, limits(1.5));
        assert_eq!(slow.outcome.measurements().len(), 1, "{:?}", slow.outcome);
        assert!(scores.score(&slow) > scores.score(&author));
        let quick = trial(3, 0.9e-3, 3.9e-3, limits(1.5));
        assert_eq!(quick.outcome.measurements().len(), 2);
        assert!(scores.score(&quick) < scores.score(&author));
        // The mean can be made up for, so there only the hopeless are given up.
        let mean = ObjectiveScore::new(Objective::Time);
        assert_eq!(mean.hopeless_ratio(1.5), 1.5);
    }
}
