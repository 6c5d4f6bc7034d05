//! Walking from neighbour to neighbour: local search with restarts, and simulated annealing.
//!
//! Both stand on one configuration and propose its neighbours. Local search moves to whatever is
//! better, and starts anew at random once all neighbours are known. Annealing also moves to what is
//! a little worse, the less so the longer it has been going on.

use std::collections::HashSet;

use warpsmith_model::Job;
use warpsmith_model::rng::Rng;

use crate::history::History;
use crate::space::Neighbourhood;
use crate::walk::{Opening, Walk, take_opening};
use crate::{Proposal, ProposeError, Proposer, Score, Strategy};

/// The temperature of annealing at the beginning, in natural logarithms of time: one in e of the
/// steps to a configuration that takes 1.3 times as long is taken, about what neighbours differ by.
const FIRST_TEMPERATURE: f64 = 0.26;

/// The number of observations after which the temperature has halved; it falls like 1/n, since a
/// proposer does not know how many there will be.
const COOLING: f64 = 10.0;

#[derive(Debug)]
pub(crate) struct Climber {
    strategy: Strategy,
    history: History,
    opening: Opening,
    walk: Walk,
    seed: u64,
    /// What was observed, which is less than what is taken: only this is the same again after a
    /// resumption.
    observed: HashSet<u128>,
    /// Where it stands.
    current: Option<(u128, Score)>,
}

impl Climber {
    /// Makes a local search, or annealing when `strategy` says so.
    pub(crate) fn new(
        strategy: Strategy,
        history: History,
        opening: Opening,
        walk: Walk,
        seed: u64,
    ) -> Self {
        let observed = HashSet::new();
        Self { strategy, history, opening, walk, seed, observed, current: None }
    }

    fn propose_one(&mut self) -> Option<Proposal> {
        if self.history.is_exhausted() {
            return None;
        }
        if let Some(proposal) = take_opening(&mut self.opening, &mut self.history) {
            return Some(proposal);
        }
        let mut rng = Rng::derive(self.seed, &format!("proposal {}", self.history.len()));
        let index = match self.neighbour(&mut rng) {
            Some(index) => index,
            None => self.walk.take_next(&mut self.history)?,
        };
        self.history.take(index);
        let params = self.history.space.params_of(&self.history.space.point_at(index));
        Some(Proposal { params, origin: self.strategy.origin() })
    }

    /// Picks a neighbour of where it stands that is not taken yet.
    fn neighbour(&self, rng: &mut Rng) -> Option<u128> {
        let (current, _) = self.current?;
        let mut free = self.neighbours(current);
        free.retain(|index| !self.history.is_taken(*index));
        (!free.is_empty()).then(|| free[rng.below(free.len())])
    }

    fn neighbours(&self, index: u128) -> Vec<u128> {
        let space = &self.history.space;
        space.neighbour_indices(&space.point_at(index), Neighbourhood::Any)
    }

    fn moves_to(&self, new: Score, current: u128, old: Score) -> bool {
        let (Some(new_s), Some(old_s)) = (new.time_s(), old.time_s()) else {
            return new < old;
        };
        if new_s <= old_s {
            return true;
        }
        if self.strategy == Strategy::Annealing {
            let count = self.observed.len();
            let temperature = FIRST_TEMPERATURE / (1.0 + count as f64 / COOLING);
            let mut rng = Rng::derive(self.seed, &format!("acceptance {count}"));
            if rng.unit() < (-(new_s / old_s).ln() / temperature).exp() {
                return true;
            }
        }
        // Nothing is left here; whatever came in is where to start anew.
        self.neighbours(current).iter().all(|index| self.observed.contains(index))
    }
}

impl Proposer for Climber {
    fn propose(&mut self, n: usize) -> Result<Vec<Proposal>, ProposeError> {
        Ok(std::iter::from_fn(|| self.propose_one()).take(n).collect())
    }

    fn observe(&mut self, job: &Job, score: Score) {
        let Some(index) = self.history.recognise(job) else {
            return;
        };
        self.observed.insert(index);
        let moves = match self.current {
            // A failure is no place to stand on.
            None => score.time_s().is_some(),
            Some((current, old)) => self.moves_to(score, current, old),
        };
        if moves {
            self.current = Some((index, score));
        }
    }
}
