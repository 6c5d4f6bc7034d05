//! How good the strategies are on recorded spaces.

use warpsmith_search::{Proposer, Strategy, score};

use crate::simulated::{Simulated, show};

const SEEDS: u64 = 30;

/// Returns optimum over best after each number of evaluations; 1 is the optimum.
fn quality(simulated: &Simulated, proposer: &mut dyn Proposer, after: &[usize]) -> Vec<f64> {
    let mut best_s = f64::INFINITY;
    let mut quality = Vec::new();
    for evaluation in 1..=after.iter().copied().max().expect("some number") {
        let proposals = proposer.propose(1).expect("parameter search does not fail");
        let finding = simulated.evaluate(&proposals[0]);
        best_s = score(&finding.trial).time_s().map_or(best_s, |time_s| best_s.min(time_s));
        show(&mut *proposer, &finding);
        if after.contains(&evaluation) {
            quality.push(simulated.optimum_s / best_s);
        }
    }
    quality
}

pub(crate) fn mean_quality(simulated: &Simulated, kind: Strategy, after: &[usize]) -> Vec<f64> {
    let mut sums = vec![0.0; after.len()];
    for seed in 0..SEEDS {
        let one = quality(simulated, simulated.proposer(kind, seed).as_mut(), after);
        sums.iter_mut().zip(one).for_each(|(sum, quality)| *sum += quality);
    }
    sums.iter().map(|sum| sum / SEEDS as f64).collect()
}

/// Returns the exact expectation of optimum over best after `k` of `n` configurations drawn without
/// replacement: the i-th best (from 0) is the best drawn with probability
/// `C(n - i - 1, k - 1) / C(n, k)`.
fn expected_quality_of_random(simulated: &Simulated, k: usize) -> f64 {
    let (mut times_s, n) = simulated.all_times_s();
    times_s.sort_by(f64::total_cmp);
    let mut probability = k as f64 / n as f64;
    let mut expected = 0.0;
    for (i, time_s) in times_s.iter().enumerate() {
        expected += probability * simulated.optimum_s / time_s;
        let left = (n - i - 1) as f64;
        probability *= (left - (k as f64 - 1.0)).max(0.0) / left;
    }
    expected
}

fn check(name: &str) {
    let simulated = Simulated::recorded(name);
    let after = [50, 100];
    let evolutionary = mean_quality(&simulated, Strategy::Evolutionary, &after);
    for (k, quality) in after.into_iter().zip(evolutionary) {
        let random = expected_quality_of_random(&simulated, k);
        assert!(
            quality > random,
            "{name} after {k}: evolutionary reaches {quality:.3} of the optimum, random {random:.3}"
        );
    }
}

#[test]
fn evolution_beats_random_on_recorded_spaces() {
    check("convolution_A100");
    check("dedispersion_A100");
    check("pnpoly_RTX3090");
}

#[test]
fn the_random_strategy_is_as_good_as_random() {
    let simulated = Simulated::recorded("convolution_A100");
    let mean = mean_quality(&simulated, Strategy::Random, &[100])[0];
    let expected = expected_quality_of_random(&simulated, 100);
    assert!((mean - expected).abs() < 0.03, "{mean:.3}, expected {expected:.3}");
}
