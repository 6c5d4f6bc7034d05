//! Extremely randomised trees over levels (Geurts, Ernst, Wehenkel, 2006).
//!
//! Every tree sees all observations; they differ because cuts are drawn at random, one for each
//! dimension, of which the best is taken. Trees follow jumps and interactions that smooth functions
//! cannot, and cost little with thousands of observations.

use warpsmith_model::rng::Rng;

use super::{Features, Prediction};

/// Trees of a forest: twice as many change predictions by less than they differ between seeds.
const TREES: usize = 32;

/// A forest that has seen observations.
#[derive(Debug)]
pub(crate) struct Forest {
    trees: Vec<Vec<Node>>,
}

#[derive(Clone, Copy, Debug)]
enum Node {
    /// What the observations that came here have in common.
    Leaf { mean: f64, variance: f64 },
    /// Where to go on.
    Cut { cut: Cut, below: u32, above: u32 },
}

/// A question about one level.
#[derive(Clone, Copy, Debug)]
struct Cut {
    dimension: usize,
    level: u8,
    is_ordered: bool,
}

impl Cut {
    fn is_below(self, levels: &[u8]) -> bool {
        self.holds(levels[self.dimension])
    }

    fn holds(self, own: u8) -> bool {
        if self.is_ordered { own <= self.level } else { own == self.level }
    }
}

impl Forest {
    /// Learns from observations, of which there must be some.
    pub(crate) fn fit(features: &Features, x: &[&[u8]], y: &[f64], rng: &mut Rng) -> Self {
        let column = |dimension: usize| x.iter().map(|levels| levels[dimension]).collect();
        let columns = (0..features.dimensions.len()).map(column).collect();
        let mut data = Data { features, x, columns, y, nodes: Vec::new() };
        let mut rows: Vec<usize> = (0..x.len()).collect();
        let mut tree = || {
            data.grow(&mut rows, rng);
            std::mem::take(&mut data.nodes)
        };
        Self { trees: (0..TREES).map(|_| tree()).collect() }
    }

    /// Predicts the mean, and the deviation between and within trees.
    pub(crate) fn predict(&self, levels: &[u8]) -> Prediction {
        let (mut sum, mut squares) = (0.0, 0.0);
        for tree in &self.trees {
            let mut node = tree[0];
            while let Node::Cut { cut, below, above } = node {
                node = tree[if cut.is_below(levels) { below } else { above } as usize];
            }
            if let Node::Leaf { mean, variance } = node {
                sum += mean;
                squares += mean * mean + variance;
            }
        }
        let mean = sum / TREES as f64;
        let variance = squares / TREES as f64 - mean * mean;
        Prediction { mean, deviation: variance.max(1e-9).sqrt() }
    }
}

struct Data<'a> {
    features: &'a Features,
    x: &'a [&'a [u8]],
    /// The same by dimension.
    columns: Vec<Vec<u8>>,
    y: &'a [f64],
    nodes: Vec<Node>,
}

impl Data<'_> {
    /// Grows the tree below a set of observations and returns its root.
    fn grow(&mut self, rows: &mut [usize], rng: &mut Rng) -> u32 {
        let id = self.nodes.len();
        let n = rows.len() as f64;
        let mean = rows.iter().map(|row| self.y[*row]).sum::<f64>() / n;
        let variance = rows.iter().map(|row| (self.y[*row] - mean).powi(2)).sum::<f64>() / n;
        self.nodes.push(Node::Leaf { mean, variance });
        // Rounding leaves a little variance where all are equal.
        let cut = if variance > 1e-14 { self.best_cut(rows, mean, rng) } else { None };
        if let Some(cut) = cut {
            let mut middle = 0;
            for idx in 0..rows.len() {
                if cut.is_below(self.x[rows[idx]]) {
                    rows.swap(idx, middle);
                    middle += 1;
                }
            }
            let (low, high) = rows.split_at_mut(middle);
            let (below, above) = (self.grow(low, rng), self.grow(high, rng));
            self.nodes[id] = Node::Cut { cut, below, above };
        }
        id as u32
    }

    /// Draws a cut for each dimension and returns the one that explains most.
    fn best_cut(&self, rows: &[usize], mean: f64, rng: &mut Rng) -> Option<Cut> {
        let mut best: Option<(f64, Cut)> = None;
        // Gathered once: this is where the time goes.
        let deviations: Vec<f64> = rows.iter().map(|row| self.y[*row] - mean).collect();
        let mut levels = vec![0; rows.len()];
        for (dimension, about) in self.features.dimensions.iter().enumerate() {
            let column = &self.columns[dimension];
            let (mut least, mut most) = (u8::MAX, 0);
            for (level, row) in levels.iter_mut().zip(rows) {
                *level = column[*row];
                least = least.min(*level);
                most = most.max(*level);
            }
            if least == most {
                continue;
            }
            let level = if about.is_ordered {
                least + rng.below(usize::from(most - least)) as u8
            } else {
                levels[rng.below(levels.len())]
            };
            let cut = Cut { dimension, level, is_ordered: about.is_ordered };
            let (mut count, mut sum) = (0.0, 0.0);
            for (level, deviation) in levels.iter().zip(&deviations) {
                // Without a branch, which would be mispredicted half of the time.
                let is_below = f64::from(u8::from(cut.holds(*level)));
                count += is_below;
                sum += is_below * deviation;
            }
            // The variance between the two sides; both have observations.
            let gain = sum * sum / count + sum * sum / (rows.len() as f64 - count);
            if best.is_none_or(|(known, _)| gain > known) {
                best = Some((gain, cut));
            }
        }
        best.map(|(_, cut)| cut)
    }
}

#[cfg(test)]
mod tests {
    use warpsmith_model::Value;
    use warpsmith_model::lab::Tunable;

    use super::*;
    use crate::Space;

    #[test]
    fn jumps_and_categories_are_learned() {
        let texts = ["a", "b", "c"].map(|text| Value::Str(text.to_string())).to_vec();
        let tunables = [
            Tunable { name: "A".to_string(), values: (1..=8).map(Value::Int).collect() },
            Tunable { name: "B".to_string(), values: texts },
        ];
        let space = Space::new(&tunables, &[], &|_| None).expect("a space");
        let features = Features::of(&space);
        let all: Vec<Vec<u8>> =
            (0..24).map(|index| features.levels(&space.point_at(index))).collect();
        let truth = |levels: &[u8]| {
            let last = levels[levels.len() - 1];
            f64::from(u8::from(levels[0] > 4)) + if last == 1 { 2.0 } else { 0.0 }
        };
        let x: Vec<&[u8]> = all.iter().map(Vec::as_slice).collect();
        let y: Vec<f64> = x.iter().map(|levels| truth(levels)).collect();
        let forest = Forest::fit(&features, &x, &y, &mut Rng::new(1));
        for (levels, y) in x.iter().zip(&y) {
            let Prediction { mean, .. } = forest.predict(levels);
            assert!((mean - y).abs() < 1e-9, "{levels:?}: {mean} is not {y}");
        }
    }
}
