//! A Gaussian process over levels.
//!
//! The covariance is a product over the dimensions of Matérn functions of order 3/2, each with a
//! length of its own, so that dimensions that do not matter are learned to be ignored. Since a
//! dimension has few levels, the functions are tables, and a covariance is a product of look-ups.

use warpsmith_model::rng::Rng;

use super::{Features, Prediction};

/// The logarithm of the variance of the noise relative to the signal's that is expected before
/// anything is known, 1 %, and how wrong that may be: times are repeatable to better than this,
/// but what a smooth function cannot follow is noise to it.
const NOISE: (f64, f64) = (-4.6, 1.5);

/// How wrong the expected logarithm of a length may be.
const LENGTH_DEVIATION: f64 = 0.7;

/// Lengths and noises beyond these make no difference.
const LENGTH_LIMITS: (f64, f64) = (-3.0, 4.0);
const NOISE_LIMITS: (f64, f64) = (-12.0, 0.5);

/// The lengths over which times are alike, and how much of a time is noise: natural logarithms.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Scales {
    /// By dimension, where 1 is the whole range of the dimension.
    log_lengths: Vec<f64>,
    /// The variance of the noise relative to that of the signal.
    log_noise: f64,
}

impl Scales {
    /// Returns what is expected before anything is known.
    pub(crate) fn expected(features: &Features) -> Self {
        let dimensions = features.dimensions.len();
        Self { log_lengths: vec![expected_length(dimensions); dimensions], log_noise: NOISE.0 }
    }

    /// Climbs to scales under which the observations are likelier, one scale after the other.
    pub(crate) fn improved(
        &self,
        features: &Features,
        x: &[&[u8]],
        y: &[f64],
        rounds: usize,
        rng: &mut Rng,
    ) -> Self {
        let mut best = self.clone();
        let Some(fit) = Gaussian::fit(features, x, y, &best) else {
            return best;
        };
        let mut likelihood = fit.log_likelihood + best.log_prior();
        let scales = best.log_lengths.len() + 1;
        let mut steps = vec![0.7; scales];
        for round in 0..rounds {
            let which = round % scales;
            let sign = if rng.below(2) == 0 { 1.0 } else { -1.0 };
            let mut has_improved = false;
            for step in [sign * steps[which], -sign * steps[which]] {
                let moved = best.moved(which, step);
                let Some(fit) = Gaussian::fit(features, x, y, &moved) else {
                    continue;
                };
                if fit.log_likelihood + moved.log_prior() > likelihood {
                    likelihood = fit.log_likelihood + moved.log_prior();
                    best = moved;
                    has_improved = true;
                    break;
                }
            }
            steps[which] *= if has_improved { 1.3 } else { 0.6 };
        }
        best
    }

    fn moved(&self, which: usize, step: f64) -> Self {
        let mut moved = self.clone();
        match moved.log_lengths.get_mut(which) {
            Some(length) => *length = (*length + step).clamp(LENGTH_LIMITS.0, LENGTH_LIMITS.1),
            None => {
                moved.log_noise = (moved.log_noise + step).clamp(NOISE_LIMITS.0, NOISE_LIMITS.1)
            }
        }
        moved
    }

    fn log_prior(&self) -> f64 {
        let expected = expected_length(self.log_lengths.len());
        let lengths = self.log_lengths.iter().map(|length| (length - expected) / LENGTH_DEVIATION);
        let noise = (self.log_noise - NOISE.0) / NOISE.1;
        -0.5 * lengths.chain(std::iter::once(noise)).map(|z| z * z).sum::<f64>()
    }
}

/// Two random configurations differ in most dimensions, so the more dimensions, the longer the
/// lengths under which they are still alike: the distance grows like the root.
fn expected_length(dimensions: usize) -> f64 {
    (0.7 * (dimensions as f64).sqrt()).ln()
}

/// A process that has seen observations.
#[derive(Debug)]
pub(crate) struct Gaussian<'a> {
    tables: Vec<Table>,
    x: Vec<&'a [u8]>,
    /// The lower triangle of the root of the covariances, by rows.
    root: Vec<f64>,
    weights: Vec<f64>,
    mean: f64,
    variance: f64,
    log_likelihood: f64,
}

/// The correlations of the pairs of levels of a dimension.
#[derive(Debug)]
struct Table {
    count: usize,
    pairs: Vec<f64>,
}

impl<'a> Gaussian<'a> {
    /// Learns from observations; none when the arithmetic breaks down.
    pub(crate) fn fit(
        features: &Features,
        x: &[&'a [u8]],
        y: &[f64],
        scales: &Scales,
    ) -> Option<Self> {
        let n = x.len();
        let tables = tables(features, scales);
        let mut root = vec![0.0; n * n];
        for row in 0..n {
            for column in 0..row {
                root[row * n + column] = correlation(&tables, x[row], x[column]);
            }
            // A little more than the noise keeps the root real.
            root[row * n + row] = 1.0 + scales.log_noise.exp() + 1e-8;
        }
        take_root(&mut root, n)?;
        // The mean is estimated too, by generalised least squares.
        let ones = solve_lower(&root, n, &vec![1.0; n]);
        let white = solve_lower(&root, n, y);
        let mean = dot(&ones, &white) / dot(&ones, &ones);
        let residual: Vec<f64> = white.iter().zip(&ones).map(|(w, one)| w - mean * one).collect();
        let variance = (dot(&residual, &residual) / n as f64).max(1e-12);
        let log_root: f64 = (0..n).map(|idx| root[idx * n + idx].ln()).sum();
        let log_likelihood = -0.5 * n as f64 * variance.ln() - log_root;
        let weights = solve_upper(&root, n, residual);
        Some(Self { tables, x: x.to_vec(), root, weights, mean, variance, log_likelihood })
    }

    /// Predicts the mean alone, which is cheap.
    pub(crate) fn mean(&self, levels: &[u8]) -> f64 {
        let pairs = self.x.iter().zip(&self.weights);
        self.mean
            + pairs.map(|(x, weight)| weight * correlation(&self.tables, x, levels)).sum::<f64>()
    }

    /// Predicts the mean and the deviation.
    pub(crate) fn predict(&self, levels: &[u8]) -> Prediction {
        let correlations: Vec<f64> =
            self.x.iter().map(|x| correlation(&self.tables, x, levels)).collect();
        let white = solve_lower(&self.root, self.x.len(), &correlations);
        let variance = self.variance * (1.0 - dot(&white, &white)).max(1e-9);
        let mean = self.mean + dot(&correlations, &self.weights);
        Prediction { mean, deviation: variance.sqrt() }
    }
}

fn tables(features: &Features, scales: &Scales) -> Vec<Table> {
    let table = |(dimension, log_length): (&super::features::Dimension, &f64)| {
        let count = dimension.count;
        let matern = |a: usize, b: usize| {
            let apart = dimension.distance(a as u8, b as u8);
            let distance = 3f64.sqrt() * apart / log_length.exp();
            (1.0 + distance) * (-distance).exp()
        };
        let pairs = (0..count * count).map(|pair| matern(pair / count, pair % count)).collect();
        Table { count, pairs }
    };
    features.dimensions.iter().zip(&scales.log_lengths).map(table).collect()
}

fn correlation(tables: &[Table], a: &[u8], b: &[u8]) -> f64 {
    let mut product = 1.0;
    for (table, (a, b)) in tables.iter().zip(a.iter().zip(b)) {
        product *= table.pairs[usize::from(*a) * table.count + usize::from(*b)];
    }
    product
}

/// Takes the root of a symmetric matrix in place (Cholesky); none when it has none.
fn take_root(matrix: &mut [f64], n: usize) -> Option<()> {
    for row in 0..n {
        let (above, from_row) = matrix.split_at_mut(row * n);
        for column in 0..row {
            let other = &above[column * n..column * n + column + 1];
            let rest = from_row[column] - dot(&from_row[..column], &other[..column]);
            from_row[column] = rest / other[column];
        }
        let rest = from_row[row] - dot(&from_row[..row], &from_row[..row]);
        if rest.is_nan() || rest <= 0.0 {
            return None;
        }
        from_row[row] = rest.sqrt();
    }
    Some(())
}

fn solve_lower(root: &[f64], n: usize, right: &[f64]) -> Vec<f64> {
    let mut solution = vec![0.0; n];
    for row in 0..n {
        let coefficients = &root[row * n..row * n + row + 1];
        let rest = right[row] - dot(&coefficients[..row], &solution[..row]);
        solution[row] = rest / coefficients[row];
    }
    solution
}

fn solve_upper(root: &[f64], n: usize, mut right: Vec<f64>) -> Vec<f64> {
    for row in (0..n).rev() {
        let coefficients = &root[row * n..row * n + row + 1];
        right[row] /= coefficients[row];
        let solved = right[row];
        right[..row].iter_mut().zip(coefficients).for_each(|(left, c)| *left -= c * solved);
    }
    right
}

/// Four sums at once, since additions in order cannot overlap.
fn dot(a: &[f64], b: &[f64]) -> f64 {
    let (a_fours, b_fours) = (a.chunks_exact(4), b.chunks_exact(4));
    let rest: f64 = a_fours.remainder().iter().zip(b_fours.remainder()).map(|(a, b)| a * b).sum();
    let mut sums = [0.0; 4];
    for (a, b) in a_fours.zip(b_fours) {
        sums.iter_mut().zip(a.iter().zip(b)).for_each(|(sum, (a, b))| *sum += a * b);
    }
    sums.iter().sum::<f64>() + rest
}

#[cfg(test)]
mod tests {
    use warpsmith_model::Value;
    use warpsmith_model::lab::Tunable;

    use super::*;
    use crate::Space;

    fn features() -> Features {
        let tunable = |name: &str| Tunable {
            name: name.to_string(),
            values: [1, 2, 4, 8, 16].map(Value::Int).to_vec(),
        };
        let space = Space::new(&[tunable("A"), tunable("B")], &[], &|_| None).expect("a space");
        Features::of(&space)
    }

    #[test]
    fn observations_are_remembered_and_uncertainty_grows_away_from_them() {
        let features = features();
        let x: Vec<Vec<u8>> = vec![vec![0, 0], vec![2, 1], vec![4, 4]];
        let x: Vec<&[u8]> = x.iter().map(Vec::as_slice).collect();
        let y = [1.0, -1.0, 0.5];
        let scales = Scales { log_noise: -12.0, ..Scales::expected(&features) };
        let process = Gaussian::fit(&features, &x, &y, &scales).expect("a fit");
        for (x, y) in x.iter().zip(y) {
            let Prediction { mean, deviation } = process.predict(x);
            assert!((mean - y).abs() < 1e-3 && deviation < 0.02, "{mean} ± {deviation}, not {y}");
            assert!((process.mean(x) - mean).abs() < 1e-9);
        }
        assert!(process.predict(&[0, 4]).deviation > process.predict(&[0, 1]).deviation);
    }

    #[test]
    fn dimensions_that_do_not_matter_get_long_lengths() {
        let features = features();
        let grid: Vec<Vec<u8>> = (0..25).map(|idx| vec![idx / 5, idx % 5]).collect();
        let x: Vec<&[u8]> = grid.iter().map(Vec::as_slice).collect();
        let y: Vec<f64> = grid.iter().map(|levels| (f64::from(levels[0]) * 2.0).sin()).collect();
        let start = Scales::expected(&features);
        let scales = start.improved(&features, &x, &y, 60, &mut Rng::new(1));
        assert!(scales.log_lengths[1] > scales.log_lengths[0] + 1.0, "{scales:?}");
    }
}
