//! How good a trial is: the one number that search compares.

use std::cmp::Ordering;

use warpsmith_model::stats::{geomean, median};
use warpsmith_model::{Measurement, Outcome, StopReason, Trial};

/// The worth of a trial; less is better. Every complete trial is better than every abandoned one,
/// and every abandoned one is better than every failure.
#[derive(Clone, Copy, Debug)]
pub enum Score {
    /// Right and timed on every workload that was asked.
    Complete {
        /// The geometric mean over the workloads of their median times.
        time_s: f64,
    },
    /// Right, but given up as hopeless; its time on all workloads is unknown, and bad.
    Abandoned {
        /// On how many workloads it was timed before it was given up.
        measured: usize,
        /// The geometric mean of the median times on those alone; comparable only with others
        /// that were measured on the same workloads.
        time_s: f64,
    },
    /// Did not compile, did not run, was wrong or was too good to be true.
    Failed,
}

impl Score {
    /// Returns the time of a complete trial.
    pub fn time_s(self) -> Option<f64> {
        match self {
            Self::Complete { time_s } => Some(time_s),
            Self::Abandoned { .. } | Self::Failed => None,
        }
    }
}

impl Ord for Score {
    fn cmp(&self, other: &Self) -> Ordering {
        match (self, other) {
            (Self::Complete { time_s: a }, Self::Complete { time_s: b }) => a.total_cmp(b),
            (
                Self::Abandoned { measured: a, time_s: a_s },
                Self::Abandoned { measured: b, time_s: b_s },
            ) => b.cmp(a).then(a_s.total_cmp(b_s)),
            (a, b) => a.class().cmp(&b.class()),
        }
    }
}

impl PartialOrd for Score {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Score {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for Score {}

impl Score {
    fn class(self) -> u8 {
        match self {
            Self::Complete { .. } => 0,
            Self::Abandoned { .. } => 1,
            Self::Failed => 2,
        }
    }
}

/// Scores a trial.
pub fn score(trial: &Trial) -> Score {
    let Outcome::Passed { measurements } = &trial.outcome else {
        return Score::Failed;
    };
    let Some(time_s) = geomean_of_medians(measurements) else {
        return Score::Failed;
    };
    let timed_everywhere = trial.job.workloads.iter().all(|workload| {
        measurements.iter().any(|measurement| {
            measurement.workload == *workload && measurement.stop != StopReason::Hopeless
        })
    });
    if timed_everywhere {
        Score::Complete { time_s }
    } else {
        Score::Abandoned { measured: measurements.len(), time_s }
    }
}

/// None where there is nothing to compare by: no measurement, no samples, or times that are not
/// positive numbers.
fn geomean_of_medians(measurements: &[Measurement]) -> Option<f64> {
    let medians: Option<Vec<f64>> = measurements
        .iter()
        .map(|measurement| median(&measurement.samples_s).filter(|time_s| *time_s > 0.0))
        .collect();
    geomean(&medians?).filter(|time_s| time_s.is_finite())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::history::tests::{measurement, passed, trial};

    fn check(outcome: Outcome, expected: Score) {
        let actual = score(&trial("kernel", Default::default(), &["a", "b"], outcome));
        match (actual.time_s(), expected.time_s()) {
            (Some(actual), Some(expected)) => {
                assert!((actual / expected - 1.0).abs() < 1e-12, "{actual} is not {expected}");
            }
            _ => assert_eq!(actual, expected),
        }
    }

    #[test]
    fn a_complete_trial_scores_the_geometric_mean_of_its_medians() {
        check(passed(&[("a", &[1.0, 2.0, 90.0]), ("b", &[8.0])]), Score::Complete { time_s: 4.0 });
    }

    #[test]
    fn a_trial_that_lacks_a_workload_is_abandoned() {
        check(passed(&[("a", &[2.0])]), Score::Abandoned { measured: 1, time_s: 2.0 });
    }

    #[test]
    fn a_trial_that_was_stopped_as_hopeless_is_abandoned() {
        let mut slow = measurement("b", &[1.0]);
        slow.stop = StopReason::Hopeless;
        let outcome = Outcome::Passed { measurements: vec![measurement("a", &[1.0]), slow] };
        check(outcome, Score::Abandoned { measured: 2, time_s: 1.0 });
    }

    #[test]
    fn anything_else_failed() {
        check(Outcome::TimedOut { workload: "a".to_string(), limit_s: 1.0 }, Score::Failed);
        let implausible = Outcome::Implausible {
            workload: "a".to_string(),
            time_s: 1.0,
            floor_s: 2.0,
            measurements: vec![measurement("a", &[1.0]), measurement("b", &[1.0])],
        };
        check(implausible, Score::Failed);
        check(passed(&[]), Score::Failed);
        check(passed(&[("a", &[]), ("b", &[1.0])]), Score::Failed);
        check(passed(&[("a", &[f64::NAN]), ("b", &[1.0])]), Score::Failed);
        check(passed(&[("a", &[0.0]), ("b", &[1.0])]), Score::Failed);
    }

    #[test]
    fn complete_beats_abandoned_beats_failed() {
        let ascending = [
            Score::Complete { time_s: 1.0 },
            Score::Complete { time_s: 100.0 },
            Score::Abandoned { measured: 2, time_s: 5.0 },
            Score::Abandoned { measured: 1, time_s: 0.5 },
            Score::Abandoned { measured: 1, time_s: 0.6 },
            Score::Failed,
        ];
        assert!(ascending.windows(2).all(|pair| pair[0] < pair[1]), "{ascending:?}");
    }
}
