//! Whether two groups differ by more than chance, without assuming a distribution.

use crate::rng::Rng;
use crate::stats::median;

/// Shuffles of a permutation test: the least p that can be shown is one in this many.
const SHUFFLES: u32 = 4999;

/// Returns the two-sided p of the difference between two groups' medians, by shuffling who belongs
/// where (a Monte Carlo permutation test; the observed order counts as one of the shuffles, after
/// Phipson and Smyth, "Permutation P-values should never be zero", 2010). None where a group has
/// fewer than two values: nothing can be said of them.
pub fn permutation_p(a: &[f64], b: &[f64]) -> Option<f64> {
    if a.len() < 2 || b.len() < 2 {
        return None;
    }
    let distance = |a: &[f64], b: &[f64]| Some((median(a)? - median(b)?).abs());
    let observed = distance(a, b)?;
    let mut all: Vec<f64> = a.iter().chain(b).copied().collect();
    let mut rng = Rng::new(0x5157);
    let mut as_far = 1;
    for _ in 0..SHUFFLES {
        rng.shuffle(&mut all);
        let (one, other) = all.split_at(a.len());
        // Sums in another order differ in their last digits.
        if distance(one, other)? >= observed * (1.0 - 1e-12) {
            as_far += 1;
        }
    }
    Some(f64::from(as_far) / f64::from(SHUFFLES + 1))
}

/// Returns the two-sided p of a difference between two shares, `a` of `n_a` and `b` of `n_b`
/// (Fisher's exact test: the chance of every table that is no more likely than this one).
pub fn fisher_p(a: u32, n_a: u32, b: u32, n_b: u32) -> Option<f64> {
    if n_a == 0 || n_b == 0 || a > n_a || b > n_b {
        return None;
    }
    let hits = a + b;
    let log_factorial = |n: u32| (2..=n).map(|k| f64::from(k).ln()).sum::<f64>();
    let log_choose = |n: u32, k: u32| log_factorial(n) - log_factorial(k) - log_factorial(n - k);
    let log_chance =
        |x: u32| log_choose(n_a, x) + log_choose(n_b, hits - x) - log_choose(n_a + n_b, hits);
    let observed = log_chance(a);
    let chances = (hits.saturating_sub(n_b)..=hits.min(n_a)).map(log_chance);
    let p: f64 = chances.filter(|chance| *chance <= observed + 1e-9).map(f64::exp).sum();
    Some(p.min(1.0))
}

/// Corrects several p for having looked so often (Holm, "A simple sequentially rejective multiple
/// test procedure", 1979). What is none stays none and does not count.
pub fn holm(values: &[Option<f64>]) -> Vec<Option<f64>> {
    let mut order: Vec<usize> = (0..values.len()).filter(|idx| values[*idx].is_some()).collect();
    order.sort_by(|one, other| values[*one].partial_cmp(&values[*other]).expect("p is a number"));
    let mut corrected = values.to_vec();
    let mut least: f64 = 0.0;
    for (place, idx) in order.iter().enumerate() {
        let p = values[*idx].unwrap_or(1.0) * (order.len() - place) as f64;
        least = least.max(p.min(1.0));
        corrected[*idx] = Some(least);
    }
    corrected
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn groups_that_differ_are_told_from_groups_that_do_not() {
        let low: Vec<f64> = (0..10).map(|i| 1.0 + 0.01 * f64::from(i)).collect();
        let high: Vec<f64> = low.iter().map(|value| value + 1.0).collect();
        assert!(permutation_p(&low, &high).expect("a p") < 0.001);
        assert!(permutation_p(&low, &low).expect("a p") > 0.9);
        assert_eq!(permutation_p(&low, &[1.0]), None);
    }

    #[test]
    fn fishers_test_gives_the_published_value() {
        // The lady tasting tea: 3 of 4 against 1 of 4 (Fisher, 1935) is p = 0.486, two-sided.
        let p = fisher_p(3, 4, 1, 4).expect("a p");
        assert!((p - 34.0 / 70.0).abs() < 1e-9, "{p}");
        assert!(fisher_p(40, 45, 10, 45).expect("a p") < 1e-6);
        assert_eq!(fisher_p(0, 0, 1, 2), None);
        assert!((fisher_p(0, 5, 0, 5).expect("a p") - 1.0).abs() < 1e-9);
    }

    #[test]
    fn several_looks_are_corrected() {
        let close = |found: &[Option<f64>], expected: &[Option<f64>]| {
            for (found, expected) in found.iter().zip(expected) {
                match (found, expected) {
                    (Some(a), Some(b)) => assert!((a - b).abs() < 1e-12, "{a} {b}"),
                    (a, b) => assert_eq!(a, b),
                }
            }
        };
        let values = [Some(0.01), None, Some(0.04), Some(0.03)];
        close(&holm(&values), &[Some(0.03), None, Some(0.06), Some(0.06)]);
    }
}
