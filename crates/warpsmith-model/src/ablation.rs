//! Modes of evolution side by side: what each came to, and whether they differ.

use serde::{Deserialize, Serialize};

use crate::significance::{fisher_p, holm, permutation_p};
use crate::stats::median;
use crate::{EvolutionMode, RunId};

/// Every mode with the same budget on one kernel.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct AblationRecord {
    /// The document's format version.
    pub format: u32,
    /// The kernel that was evolved.
    pub kernel: String,
    /// Evolutions of each mode.
    pub repeats: u32,
    /// One per mode.
    pub arms: Vec<AblationArm>,
}

/// What one mode came to, over all of its repeats.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct AblationArm {
    /// The mode.
    pub mode: EvolutionMode,
    /// Its runs.
    pub runs: Vec<RunId>,
    /// Calls of a model.
    pub calls: u32,
    /// Candidates that were correct.
    pub correct: u32,
    /// The speed-ups over the seed of everything correct, by ranked times.
    pub speedups: Vec<f64>,
    /// The speed-up over the seed of each run's best after the full gate, in paired rounds; 1 where
    /// the seed stayed.
    pub best_speedups: Vec<f64>,
    /// Tokens, in and out.
    pub tokens: u64,
    /// The cost by the configured prices.
    pub cost: f64,
}

impl AblationArm {
    /// Returns the share of calls that gave a correct candidate.
    pub fn validity(&self) -> f64 {
        if self.calls == 0 { 0.0 } else { f64::from(self.correct) / f64::from(self.calls) }
    }

    /// Returns the median speed-up of everything correct.
    pub fn median_speedup(&self) -> Option<f64> {
        median(&self.speedups)
    }

    /// Returns the best speed-up of all repeats.
    pub fn best_speedup(&self) -> Option<f64> {
        self.best_speedups.iter().copied().max_by(f64::total_cmp)
    }
}

/// A difference below this is called significant.
pub const SIGNIFICANT_P: f64 = 0.05;

/// Whether two modes differ.
#[derive(Clone, Debug, PartialEq)]
pub struct AblationDifference {
    /// The two.
    pub modes: (EvolutionMode, EvolutionMode),
    /// The p of a difference between the medians of their speed-ups, corrected for the number of
    /// pairs; none where there are too few.
    pub speed_p: Option<f64>,
    /// The p of a difference between their shares of correct candidates, corrected likewise.
    pub validity_p: Option<f64>,
}

impl AblationRecord {
    /// Tests every pair of modes.
    pub fn differences(&self) -> Vec<AblationDifference> {
        let mut pairs: Vec<(&AblationArm, &AblationArm)> = Vec::new();
        for (idx, one) in self.arms.iter().enumerate() {
            pairs.extend(self.arms[idx + 1..].iter().map(|other| (one, other)));
        }
        let speed = pairs.iter().map(|(a, b)| permutation_p(&a.speedups, &b.speedups));
        let speed = holm(&speed.collect::<Vec<_>>());
        let validity = pairs.iter().map(|(a, b)| fisher_p(a.correct, a.calls, b.correct, b.calls));
        let validity = holm(&validity.collect::<Vec<_>>());
        let of = |(idx, (one, other)): (usize, &(&AblationArm, &AblationArm))| AblationDifference {
            modes: (one.mode, other.mode),
            speed_p: speed[idx],
            validity_p: validity[idx],
        };
        pairs.iter().enumerate().map(of).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn arm(mode: EvolutionMode, correct: u32, speedup: f64) -> AblationArm {
        AblationArm {
            mode,
            runs: vec![RunId("r".to_string())],
            calls: 45,
            correct,
            speedups: (0..correct).map(|n| speedup + 0.001 * f64::from(n)).collect(),
            best_speedups: vec![speedup],
            tokens: 1000,
            cost: 0.5,
        }
    }

    #[test]
    fn modes_that_differ_are_told_from_modes_that_do_not() {
        let record = AblationRecord {
            format: 1,
            kernel: "k".to_string(),
            repeats: 1,
            arms: vec![
                arm(EvolutionMode::Free, 40, 2.0),
                arm(EvolutionMode::Full, 40, 1.2),
                arm(EvolutionMode::BestOfN, 10, 1.2),
            ],
        };
        let differences = record.differences();
        assert_eq!(differences.len(), 3);
        let significant = |p: Option<f64>| p.expect("a p") < SIGNIFICANT_P;
        let found: Vec<(bool, bool)> = differences
            .iter()
            .map(|it| (significant(it.speed_p), significant(it.validity_p)))
            .collect();
        assert_eq!(found[0], (true, false), "free and full: {differences:?}");
        assert_eq!(found[1], (true, true), "free and best-of-n: {differences:?}");
        assert!(found[2].1, "full and best-of-n: {differences:?}");
        let none = AblationArm {
            calls: 0,
            correct: 0,
            speedups: Vec::new(),
            ..arm(EvolutionMode::Insight, 1, 1.0)
        };
        assert_eq!((none.validity(), none.median_speedup()), (0.0, None));
    }
}
