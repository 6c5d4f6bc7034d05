//! Regression models of time over the tunables of a space.
//!
//! [`Features`] turns configurations into levels; [`Gaussian`] and [`Forest`] predict a mean and a
//! deviation from them. Models see standardised logarithms of times and nothing else: they know no
//! units, no failures and no names.

mod features;
mod forest;
mod gaussian;

pub(crate) use features::Features;
pub(crate) use forest::Forest;
pub(crate) use gaussian::{Gaussian, Scales};

/// What a model expects of a configuration.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Prediction {
    pub(crate) mean: f64,
    pub(crate) deviation: f64,
}

impl Prediction {
    /// Returns by how much the configuration is expected to be below `best`, where being above
    /// counts as 0.
    pub(crate) fn expected_improvement(self, best: f64) -> f64 {
        let z = (best - self.mean) / self.deviation;
        // Below this, the exact expression is a difference of equal numbers.
        if z < -6.0 {
            return self.deviation * density(z) / (z * z);
        }
        (self.deviation * (z * share_below(z) + density(z))).max(0.0)
    }
}

/// The density of the standard normal distribution.
fn density(z: f64) -> f64 {
    (-0.5 * z * z).exp() / (2.0 * std::f64::consts::PI).sqrt()
}

/// The standard normal distribution, to 1e-7 (Abramowitz and Stegun, 26.2.17).
fn share_below(z: f64) -> f64 {
    let t = 1.0 / (1.0 + 0.231_641_9 * z.abs());
    let tail = density(z)
        * t
        * (0.319_381_530
            + t * (-0.356_563_782
                + t * (1.781_477_937 + t * (-1.821_255_978 + t * 1.330_274_429))));
    if z >= 0.0 { 1.0 - tail } else { tail }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(mean: f64, deviation: f64, expected: f64) {
        let found = Prediction { mean, deviation }.expected_improvement(0.0);
        assert!((found - expected).abs() < 1e-6, "{found} is not {expected}");
    }

    #[test]
    fn expected_improvement_is_the_mean_of_what_lies_below() {
        check(-1.0, 1e-9, 1.0);
        check(1.0, 1e-9, 0.0);
        // The mean of the positive half of a normal distribution.
        check(0.0, 1.0, 0.398_942_3);
        check(1.0, 1.0, 0.083_315_5);
        check(9.0, 1.0, 0.0);
    }
}
