//! Judging strategies on recorded spaces.
//!
//! [`replay`] lets a strategy search a [`Recorded`] space and notes the best time after each
//! evaluation. [`QualitySummary::of`] condenses many replays, [`random_exact`] is what random search reaches,
//! in closed form, and [`Methodology`] scores a search over its whole course.
//!
//! An evaluation is the first visit to a configuration, whether it succeeded or failed. Quality is
//! the optimum over the best time so far: 1 is the optimum, and 0 means that nothing ran yet.

use std::sync::Arc;

use warpsmith_model::stats::median;
use warpsmith_model::{PROGRESS, Until};

use crate::recorded::Recorded;
use crate::{ProposeError, Strategy, score, strategy};

/// How a search went.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Course {
    /// The best time in milliseconds after each evaluation; infinite until something ran.
    pub best_ms: Vec<f64>,
    /// The share of the best time that the strategy expected to save with each of them, before it was made; none
    /// where it had no model. Shorter than the times where the space was exhausted.
    pub outlook: Vec<Option<f64>>,
}

impl Course {
    /// Returns after how many evaluations a search ends that watches its own course; none if that did not
    /// come, or the condition is about something else.
    pub fn end(&self, until: &Until) -> Option<usize> {
        match *until {
            Until::Stalled { trials } => {
                let mut progress: Option<(f64, usize)> = None;
                for (idx, best_ms) in self.best_ms.iter().enumerate() {
                    let (last_ms, last) = progress.unwrap_or((f64::INFINITY, idx));
                    if *best_ms < PROGRESS * last_ms {
                        progress = Some((*best_ms, idx));
                    } else if best_ms.is_finite() && idx - last >= trials as usize {
                        return Some(idx + 1);
                    }
                }
                None
            }
            // What was expected of an evaluation decides whether it takes place.
            Until::Expected { percent } => self
                .outlook
                .iter()
                .position(|outlook| outlook.is_some_and(|gain| gain < percent / 100.0)),
            Until::Roofline { .. } | Until::Baseline { .. } => None,
        }
    }
}

/// Runs a strategy for this many evaluations, or until nothing is left.
pub fn replay(
    recorded: &Recorded,
    kind: Strategy,
    seed: u64,
    evaluations: usize,
) -> Result<Course, ProposeError> {
    let mut proposer = strategy(kind, Arc::clone(recorded.space()), recorded.config(seed))?;
    let mut best_ms = f64::INFINITY;
    let mut course = Course::default();
    while course.best_ms.len() < evaluations {
        let outlook = proposer.outlook();
        let Some(proposal) = proposer.propose(1)?.pop() else {
            break;
        };
        course.outlook.push(outlook);
        let finding = recorded.evaluate(&proposal).expect("proposals are within the space");
        let score = score(&finding.trial);
        if let Some(time_s) = score.time_s() {
            best_ms = best_ms.min(time_s * 1e3);
        }
        course.best_ms.push(best_ms);
        proposer.observe(&finding.trial.job, score);
    }
    // A space that is exhausted does not get better.
    course.best_ms.resize(evaluations, best_ms);
    Ok(course)
}

/// Returns the quality that a best time stands for.
pub fn quality(recorded: &Recorded, best_ms: f64) -> f64 {
    // Rounding between seconds and milliseconds must not beat the optimum.
    (recorded.optimum_ms() / best_ms).min(1.0)
}

/// Returns what random search without repetition reaches after `k` evaluations, exactly.
///
/// The i-th best (from 0) of n configurations is the best of the k drawn with probability
/// `C(n - i - 1, k - 1) / C(n, k)`.
pub fn random_exact(recorded: &Recorded, k: usize) -> QualitySummary {
    let n = recorded.entries().len();
    let k = k.min(n);
    let mut probability = k as f64 / n as f64;
    let mut summary = QualitySummary { mean: 0.0, sem: 0.0, median: 0.0, p10: 0.0, worst: 0.0 };
    // The chance that the best drawn is this good or better.
    let mut reached = 0.0;
    for (i, time_ms) in recorded.sorted_times_ms().iter().enumerate() {
        let quality = recorded.optimum_ms() / time_ms;
        summary.mean += probability * quality;
        let before = reached;
        reached += probability;
        if before < 0.5 && reached >= 0.5 {
            summary.median = quality;
        }
        if before < 0.9 && reached >= 0.9 {
            summary.p10 = quality;
        }
        // All k can be worse than this one only while k others are left.
        if i + k == n {
            summary.worst = quality;
        }
        let left = (n - i - 1) as f64;
        if left < 1.0 {
            break;
        }
        probability *= (left - (k as f64 - 1.0)).max(0.0) / left;
    }
    summary
}

/// What many repeats of a search reached.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct QualitySummary {
    /// The mean quality.
    pub mean: f64,
    /// The standard error of the mean; 0 for a single repeat.
    pub sem: f64,
    /// The median quality.
    pub median: f64,
    /// The quality that nine of ten repeats exceed.
    pub p10: f64,
    /// The worst quality.
    pub worst: f64,
}

impl QualitySummary {
    /// Summarises qualities; none when there are none.
    pub fn of(qualities: &[f64]) -> Option<Self> {
        let n = qualities.len() as f64;
        let mut sorted = qualities.to_vec();
        sorted.sort_by(f64::total_cmp);
        let mean = sorted.iter().sum::<f64>() / n;
        let squares: f64 = sorted.iter().map(|quality| (quality - mean).powi(2)).sum();
        let sem = if n > 1.0 { (squares / (n - 1.0) / n).sqrt() } else { 0.0 };
        let p10 = *sorted.get((0.1 * (n - 1.0)).floor() as usize)?;
        Some(Self { mean, sem, median: median(&sorted)?, p10, worst: *sorted.first()? })
    }
}

/// The score of the auto-tuning community: how much of the distance between random search and the
/// optimum a search closes, averaged over its course.
///
/// With V the N valid times from greatest to least, f the optimum and m the median, random search
/// is expected to hold `R(k) = V[min(N - 1, round(k (N + 1) / (k + 1)))]` after k evaluations. The
/// course is judged from where random search has come half of the way from m to f to where it has
/// come 96 % of it (Willemsen and others, "A methodology for comparing optimization algorithms for
/// auto-tuning", 2024, on the axis of evaluations).
#[derive(Clone, Debug)]
pub struct Methodology {
    descending_ms: Vec<f64>,
    first: usize,
    last: usize,
}

impl Methodology {
    /// Prepares to score searches of a space.
    pub fn of(recorded: &Recorded) -> Self {
        let mut descending_ms = recorded.sorted_times_ms();
        descending_ms.reverse();
        let optimum = recorded.optimum_ms();
        let middle = median(&descending_ms).unwrap_or(optimum);
        let n = descending_ms.len();
        let evaluations = |share: f64| {
            let cut = optimum + (1.0 - share) * (middle - optimum);
            let idx = descending_ms.iter().position(|ms| *ms <= cut).unwrap_or(n - 1);
            (idx as f64 / (n + 1 - idx) as f64).ceil().max(1.0) as usize
        };
        let (first, last) = (evaluations(0.5), evaluations(0.96));
        Self { descending_ms, first, last: last.max(first) }
    }

    /// Returns how many evaluations the judged course has.
    pub fn evaluations(&self) -> usize {
        self.last
    }

    /// Scores courses of best times, each at least as long as [`Self::evaluations`]: 0 is random
    /// search, 1 the optimum at once. Until something ran, the worst time stands in.
    pub fn score(&self, courses: &[Vec<f64>]) -> f64 {
        let n = self.descending_ms.len();
        let (worst, optimum) = (self.descending_ms[0], self.descending_ms[n - 1]);
        let mut sum = 0.0;
        for k in self.first..=self.last {
            let place = (k as f64 * (n + 1) as f64 / (k + 1) as f64).round() as usize;
            let random = self.descending_ms[place.min(n - 1)];
            let reached: f64 = courses.iter().map(|course| course[k - 1].min(worst)).sum();
            let reached = reached / courses.len() as f64;
            // Where random search is at the optimum there is no distance left to close.
            sum += if random > optimum { (reached - random) / (optimum - random) } else { 1.0 };
        }
        sum / (self.last - self.first + 1) as f64
    }
}
