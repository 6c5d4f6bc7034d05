//! Statistics of timings: medians, their intervals, paired ratios, rank correlation.

use serde::{Deserialize, Serialize};

use crate::rng::Rng;

/// An interval that holds the true value with the stated confidence (95 % everywhere here).
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Interval {
    /// The lower end.
    pub low: f64,
    /// The best guess.
    pub mid: f64,
    /// The upper end.
    pub high: f64,
}

impl Interval {
    /// Returns the width over the best guess.
    pub fn relative_width(&self) -> f64 {
        (self.high - self.low) / self.mid
    }
}

/// What a paired comparison says of A against B.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Comparison {
    /// The interval lies above 1.
    Faster,
    /// The interval lies below 1.
    Slower,
    /// The interval holds 1 and is narrow: any difference is too small to matter.
    Tie,
    /// The interval holds 1 and is wide: measure longer.
    Unclear,
}

/// A speed-up within this share of 1 is too small to matter.
pub const TIE_BAND: f64 = 0.02;

/// Judges the interval of a speed-up (B's time over A's).
pub fn judge(speedup: Interval) -> Comparison {
    let inside = |value: f64| (value - 1.0).abs() <= TIE_BAND;
    if inside(speedup.low) && inside(speedup.high) {
        Comparison::Tie
    } else if speedup.low > 1.0 {
        Comparison::Faster
    } else if speedup.high < 1.0 {
        Comparison::Slower
    } else {
        Comparison::Unclear
    }
}

/// Returns the median; none for no values.
pub fn median(values: &[f64]) -> Option<f64> {
    quantile(values, 0.5)
}

/// Returns a quantile by linear interpolation between order statistics; none for no values.
pub fn quantile(values: &[f64], share: f64) -> Option<f64> {
    let sorted = sorted(values);
    let last = sorted.len().checked_sub(1)?;
    let position = share.clamp(0.0, 1.0) * last as f64;
    let below = position.floor() as usize;
    let above = (below + 1).min(last);
    Some(sorted[below] + (sorted[above] - sorted[below]) * (position - below as f64))
}

/// Returns the median and its distribution-free 95 % interval from order statistics.
///
/// The interval's ends are the order statistics whose ranks are the 2.5 % and 97.5 % quantiles of
/// a binomial with n trials at one half, by the normal approximation (Le Boudec, "Performance
/// Evaluation of Computer and Communication Systems", 2010, theorem 2.1). With fewer than six
/// values no such interval exists; the extremes stand in for it.
pub fn median_interval(values: &[f64]) -> Option<Interval> {
    let mid = median(values)?;
    let sorted = sorted(values);
    let n = sorted.len();
    let (low, high) = if n < 6 {
        (0, n - 1)
    } else {
        let half_width = 0.98 * (n as f64).sqrt();
        let low = (n as f64 / 2.0 - half_width).floor().max(1.0) as usize - 1;
        let high = ((n as f64 / 2.0 + half_width).ceil() as usize).min(n - 1);
        (low, high)
    };
    Some(Interval { low: sorted[low], mid, high: sorted[high] })
}

/// Returns the speed-up of A over B (B's time over A's) from paired rounds: the median ratio with its
/// distribution-free interval. A percentile bootstrap would leave the extremes of few rounds out: of seven
/// it covers 87 %. None when there are no pairs.
pub fn paired_speedup(a_s: &[f64], b_s: &[f64]) -> Option<Interval> {
    median_interval(&ratios(a_s, b_s))
}

fn ratios(a_s: &[f64], b_s: &[f64]) -> Vec<f64> {
    a_s.iter().zip(b_s).map(|(a, b)| b / a).collect()
}

/// Returns the interval of the geometric mean over several workloads of their median speed-ups, by a
/// percentile bootstrap (Efron and Tibshirani, 1993, chapter 13): rounds are resampled within each
/// workload. Resampling is seeded, so the same samples always give the same interval. That of a single
/// workload is its own.
pub fn paired_geomean_speedup(per_workload: &[(Vec<f64>, Vec<f64>)]) -> Option<Interval> {
    if let [(a_s, b_s)] = per_workload {
        return paired_speedup(a_s, b_s);
    }
    let ratios: Vec<Vec<f64>> = per_workload.iter().map(|(a_s, b_s)| ratios(a_s, b_s)).collect();
    if ratios.is_empty() || ratios.iter().any(Vec::is_empty) {
        return None;
    }
    let combine = |picks: &[Vec<f64>]| {
        let medians: Vec<f64> = picks.iter().filter_map(|pick| median(pick)).collect();
        geomean(&medians).unwrap_or(f64::NAN)
    };
    let mid = combine(&ratios);
    let mut rng = Rng::derive(0, "paired_geomean_speedup");
    let mut estimates: Vec<f64> = (0..BOOTSTRAP_ROUNDS)
        .map(|_| {
            let picks: Vec<Vec<f64>> =
                ratios.iter().map(|values| resample(&mut rng, values)).collect();
            combine(&picks)
        })
        .collect();
    estimates.sort_by(f64::total_cmp);
    Some(Interval { low: quantile(&estimates, 0.025)?, mid, high: quantile(&estimates, 0.975)? })
}

const BOOTSTRAP_ROUNDS: usize = 1000;

fn resample(rng: &mut Rng, values: &[f64]) -> Vec<f64> {
    (0..values.len()).map(|_| values[rng.below(values.len())]).collect()
}

/// Returns the geometric mean; none for no values.
pub fn geomean(values: &[f64]) -> Option<f64> {
    if values.is_empty() {
        return None;
    }
    Some((values.iter().map(|value| value.ln()).sum::<f64>() / values.len() as f64).exp())
}

/// Returns Spearman's rank correlation, with ties at their mean rank; none for fewer than three
/// pairs or when one side is constant.
pub fn spearman(a: &[f64], b: &[f64]) -> Option<f64> {
    if a.len() != b.len() || a.len() < 3 {
        return None;
    }
    pearson(&ranks(a), &ranks(b))
}

fn pearson(a: &[f64], b: &[f64]) -> Option<f64> {
    let mean = |values: &[f64]| values.iter().sum::<f64>() / values.len() as f64;
    let (mean_a, mean_b) = (mean(a), mean(b));
    let mut covariance = 0.0;
    let (mut variance_a, mut variance_b) = (0.0, 0.0);
    for (x, y) in a.iter().zip(b) {
        covariance += (x - mean_a) * (y - mean_b);
        variance_a += (x - mean_a).powi(2);
        variance_b += (y - mean_b).powi(2);
    }
    let scale = (variance_a * variance_b).sqrt();
    (scale > 0.0).then(|| covariance / scale)
}

fn ranks(values: &[f64]) -> Vec<f64> {
    let mut order: Vec<usize> = (0..values.len()).collect();
    order.sort_by(|i, j| values[*i].total_cmp(&values[*j]));
    let mut ranks = vec![0.0; values.len()];
    let mut start = 0;
    while start < order.len() {
        let mut end = start + 1;
        while end < order.len() && values[order[end]] == values[order[start]] {
            end += 1;
        }
        for idx in &order[start..end] {
            ranks[*idx] = (start + end - 1) as f64 / 2.0;
        }
        start = end;
    }
    ranks
}

fn sorted(values: &[f64]) -> Vec<f64> {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    sorted
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn medians_interpolate() {
        assert_eq!(median(&[]), None);
        assert_eq!(median(&[3.0]), Some(3.0));
        assert_eq!(median(&[4.0, 1.0, 2.0, 3.0]), Some(2.5));
    }

    #[test]
    fn the_medians_interval_covers_it_as_often_as_it_says() {
        // 1000 experiments of 25 uniform values, whose true median is one half.
        let mut rng = Rng::new(11);
        let covered = (0..1000)
            .filter(|_| {
                let values: Vec<f64> = (0..25).map(|_| rng.unit()).collect();
                let interval = median_interval(&values).expect("values");
                interval.low <= 0.5 && 0.5 <= interval.high
            })
            .count();
        assert!((930..=990).contains(&covered), "covered {covered} of 1000");
    }

    #[test]
    fn intervals_of_few_rounds_cover_as_often_as_they_say() {
        let mut rng = Rng::new(5);
        let mut rounds = |n: usize| -> (Vec<f64>, Vec<f64>) {
            let mut times = || (0..n).map(|_| 1.0 + 0.1 * rng.unit()).collect();
            (times(), times())
        };
        // Both take equally long, so the true ratio is 1.
        let mut covered = |n_rounds: usize, n_workloads: usize| {
            let holds_one = |interval: Interval| interval.low <= 1.0 && 1.0 <= interval.high;
            (0..400)
                .filter(|_| {
                    let on: Vec<_> = (0..n_workloads).map(|_| rounds(n_rounds)).collect();
                    holds_one(paired_geomean_speedup(&on).expect("rounds"))
                })
                .count() as f64
                / 400.0
        };
        for (n_rounds, n_workloads) in
            [(6, 1), (7, 1), (9, 1), (15, 1), (40, 1), (7, 2), (7, 4), (15, 4)]
        {
            let share = covered(n_rounds, n_workloads);
            assert!(share >= 0.93, "{n_workloads} x {n_rounds}: {share}");
        }
    }

    #[test]
    fn equal_candidates_tie_and_different_ones_do_not() {
        let mut rng = Rng::new(3);
        let noisy = |rng: &mut Rng, base: f64| -> Vec<f64> {
            (0..40).map(|_| base * (1.0 + 0.01 * rng.unit())).collect()
        };
        let (a, b, c) = (noisy(&mut rng, 1.0), noisy(&mut rng, 1.0), noisy(&mut rng, 1.3));
        assert_eq!(judge(paired_speedup(&a, &b).expect("pairs")), Comparison::Tie);
        assert_eq!(judge(paired_speedup(&a, &c).expect("pairs")), Comparison::Faster);
        assert_eq!(judge(paired_speedup(&c, &a).expect("pairs")), Comparison::Slower);
        let wild: Vec<f64> = (0..10).map(|_| 0.5 + rng.unit()).collect();
        assert_eq!(judge(paired_speedup(&a, &wild).expect("pairs")), Comparison::Unclear);
    }

    #[test]
    fn rank_correlation_sees_order_only() {
        assert_eq!(spearman(&[1.0, 2.0, 3.0], &[10.0, 100.0, 1000.0]), Some(1.0));
        assert_eq!(spearman(&[1.0, 2.0, 3.0], &[3.0, 2.0, 1.0]), Some(-1.0));
        assert_eq!(spearman(&[1.0, 1.0, 1.0], &[3.0, 2.0, 1.0]), None);
    }
}
