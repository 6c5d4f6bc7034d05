//! What models learn from: observations with their times standardised, and which model learns
//! better from them.

use warpsmith_model::rng::Rng;

use crate::model::{Features, Forest, Gaussian, Scales};

/// Times without which models have nothing to say.
pub(crate) const MIN_TIMES: usize = 3;

/// Of what a thinned lesson keeps, the share of the best; the rest is spread over the others.
const BEST_SHARE: f64 = 0.6;

/// Parts of the observations, each of which is kept from the models once: the usual compromise
/// between models of almost everything and few fits.
const FOLDS: usize = 5;

/// Observations without which models are not compared: five folds of four.
const FEWEST_COMPARED: usize = 20;

/// By how many standard errors the forest has to be better: 2 is the usual proof.
const SHOWN: f64 = 2.0;

/// A kind of model.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Model {
    /// Regression trees, which follow jumps.
    Forest,
    /// A Gaussian process, which learns more from little where times are smooth.
    #[default]
    Gaussian,
}

/// What became of a configuration.
#[derive(Clone, Debug)]
pub(crate) struct Observed {
    pub(crate) index: u128,
    pub(crate) levels: Vec<u8>,
    /// The logarithm of the time; none for failures and for what was abandoned.
    pub(crate) log_time: Option<f64>,
}

/// Standardised observations.
#[derive(Debug)]
pub(crate) struct Lesson<'a> {
    pub(crate) x: Vec<&'a [u8]>,
    pub(crate) y: Vec<f64>,
    /// The least of `y`.
    pub(crate) best: f64,
    /// What 1 stands for in `y`: so much of the logarithm of the time.
    pub(crate) deviation: f64,
}

impl<'a> Lesson<'a> {
    /// Standardises observations; none when too few have a time.
    pub(crate) fn of(observed: &'a [Observed]) -> Option<Self> {
        let timed = || observed.iter().filter_map(|o| Some((o.levels.as_slice(), o.log_time?)));
        let (x, mut y): (Vec<&[u8]>, Vec<f64>) = timed().unzip();
        if y.len() < MIN_TIMES {
            return None;
        }
        let n = y.len() as f64;
        let mean = y.iter().sum::<f64>() / n;
        let deviation = (y.iter().map(|y| (y - mean).powi(2)).sum::<f64>() / n).sqrt().max(1e-9);
        y.iter_mut().for_each(|y| *y = (*y - mean) / deviation);
        let best = y.iter().copied().fold(f64::INFINITY, f64::min);
        Some(Self { x, y, best, deviation })
    }

    /// Leaves out what is too much for a Gaussian process: keeps the best, and of the others a few
    /// that are spread evenly over the course of the search.
    pub(crate) fn thinned(self, limit: usize) -> Self {
        let n = self.y.len();
        if n <= limit {
            return self;
        }
        let mut by_time: Vec<usize> = (0..n).collect();
        by_time.sort_by(|a, b| self.y[*a].total_cmp(&self.y[*b]));
        let (best, others) = by_time.split_at_mut((limit as f64 * BEST_SHARE) as usize);
        others.sort_unstable();
        let wanted = limit - best.len();
        let spread = (0..wanted).map(|idx| others[idx * others.len() / wanted]);
        let kept: Vec<usize> = best.iter().copied().chain(spread).collect();
        Self {
            x: kept.iter().map(|idx| self.x[*idx]).collect(),
            y: kept.iter().map(|idx| self.y[*idx]).collect(),
            best: self.best,
            deviation: self.deviation,
        }
    }

    /// Returns the model to ask: the Gaussian process unless the forest predicts observations that
    /// were kept from both better, and by more than chance explains.
    pub(crate) fn better_model(
        &self,
        features: &Features,
        scales: &Scales,
        rng: &mut Rng,
    ) -> Model {
        let n = self.y.len();
        if n < FEWEST_COMPARED {
            return Model::Gaussian;
        }
        let mut advantages = Vec::with_capacity(n);
        for fold in 0..FOLDS {
            let (unseen, seen): (Vec<usize>, Vec<usize>) =
                (0..n).partition(|idx| idx % FOLDS == fold);
            let x: Vec<&[u8]> = seen.iter().map(|idx| self.x[*idx]).collect();
            let y: Vec<f64> = seen.iter().map(|idx| self.y[*idx]).collect();
            let Some(process) = Gaussian::fit(features, &x, &y, scales) else {
                return Model::Forest;
            };
            let forest = Forest::fit(features, &x, &y, rng);
            advantages.extend(unseen.iter().map(|idx| {
                let error = |mean: f64| (mean - self.y[*idx]).powi(2);
                error(process.mean(self.x[*idx])) - error(forest.predict(self.x[*idx]).mean)
            }));
        }
        let n = n as f64;
        let mean = advantages.iter().sum::<f64>() / n;
        let squares: f64 = advantages.iter().map(|advantage| (advantage - mean).powi(2)).sum();
        let standard_error = (squares / (n - 1.0) / n).sqrt();
        if mean > SHOWN * standard_error { Model::Forest } else { Model::Gaussian }
    }
}

#[cfg(test)]
mod tests {
    use warpsmith_model::Value;
    use warpsmith_model::lab::Tunable;

    use super::*;
    use crate::Space;

    /// Compares the models on a grid of times, by the levels of three tunables of eight values.
    fn check(log_time: impl Fn(&[u8]) -> f64, expected: Model) {
        let tunable = |name: &str| Tunable {
            name: name.to_string(),
            values: (0..8).map(|exponent| Value::Int(1 << exponent)).collect(),
        };
        let tunables = ["A", "B", "C"].map(tunable);
        let space = Space::new(&tunables, &[], &|_| None).expect("a space");
        let features = Features::of(&space);
        let mut rng = Rng::new(1);
        let observed: Vec<Observed> = (0..80)
            .map(|_| {
                let index = rng.below(512) as u128;
                let levels = features.levels(&space.point_at(index));
                let log_time = Some(log_time(&levels));
                Observed { index, levels, log_time }
            })
            .collect();
        let lesson = Lesson::of(&observed).expect("enough times");
        let scales = Scales::expected(&features);
        assert_eq!(lesson.better_model(&features, &scales, &mut rng), expected);
    }

    #[test]
    fn the_forest_is_asked_where_it_is_shown_to_predict_better() {
        let smooth = |levels: &[u8]| (f64::from(levels[0]) - 3.0).powi(2) + f64::from(levels[1]);
        check(smooth, Model::Gaussian);
        // A cliff, which a smooth function undercuts on one side and overshoots on the other.
        let jump = |levels: &[u8]| f64::from(u8::from(levels[0] < 4));
        check(jump, Model::Forest);
    }

    #[test]
    fn few_times_are_no_lesson_and_equal_times_are() {
        let observed = |log_time| Observed { index: 0, levels: vec![0], log_time };
        assert!(Lesson::of(&[]).is_none());
        assert!(Lesson::of(&[observed(Some(1.0)), observed(None), observed(Some(2.0))]).is_none());
        let equal: Vec<Observed> = (0..4).map(|_| observed(Some(1.0))).collect();
        let lesson = Lesson::of(&equal).expect("a lesson");
        assert_eq!((lesson.y.as_slice(), lesson.best), ([0.0; 4].as_slice(), 0.0));
    }

    #[test]
    fn a_thinned_lesson_keeps_the_best() {
        let observed: Vec<Observed> = (0..50)
            .map(|idx| Observed {
                index: idx,
                levels: vec![idx as u8],
                log_time: Some(((idx * 7) % 50) as f64),
            })
            .collect();
        let lesson = Lesson::of(&observed).expect("a lesson");
        let best = lesson.best;
        let thinned = lesson.thinned(10);
        assert_eq!(thinned.y.len(), 10);
        assert_eq!(thinned.y.iter().copied().fold(f64::INFINITY, f64::min), best);
    }
}
