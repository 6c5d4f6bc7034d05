//! Strategies that learn nothing: every configuration once, in order or at random.

use std::collections::VecDeque;

use warpsmith_model::{Job, Origin};

use crate::history::History;
use crate::permutation::Permutation;
use crate::{Proposal, ProposeError, Proposer, Score, Strategy};

/// A position in an order of the whole space.
#[derive(Debug)]
pub(crate) struct Walk {
    /// None walks in the order of the space.
    shuffled: Option<Permutation>,
    next: u128,
}

impl Walk {
    /// Starts in the order of the space.
    pub(crate) fn in_order() -> Self {
        Self { shuffled: None, next: 0 }
    }

    /// Starts in the random order of a seed.
    pub(crate) fn shuffled(len: u128, seed: u64) -> Self {
        Self { shuffled: Some(Permutation::new(len, seed)), next: 0 }
    }

    /// Takes the next configuration that is not taken yet; none at the end.
    pub(crate) fn take_next(&mut self, history: &mut History) -> Option<u128> {
        while self.next < history.space.len() {
            let index = match &self.shuffled {
                Some(permutation) => permutation.apply(self.next),
                None => self.next,
            };
            self.next += 1;
            if history.take(index) {
                return Some(index);
            }
        }
        None
    }
}

/// Configurations that are proposed before anything else, each with its origin.
pub(crate) type Opening = VecDeque<(u128, Origin)>;

/// Takes the next configuration of an opening that is not taken yet.
pub(crate) fn take_opening(opening: &mut Opening, history: &mut History) -> Option<Proposal> {
    while let Some((index, origin)) = opening.pop_front() {
        if history.take(index) {
            let params = history.space.params_of(&history.space.point_at(index));
            return Some(Proposal { params, origin });
        }
    }
    None
}

/// Proposes the seeds, then the rest of the space along a walk.
#[derive(Debug)]
pub(crate) struct Walker {
    pub(crate) strategy: Strategy,
    pub(crate) history: History,
    pub(crate) opening: Opening,
    pub(crate) walk: Walk,
}

impl Proposer for Walker {
    fn propose(&mut self, n: usize) -> Result<Vec<Proposal>, ProposeError> {
        let Self { strategy, history, opening, walk } = self;
        let one = || {
            take_opening(opening, history).or_else(|| {
                let index = walk.take_next(history)?;
                let params = history.space.params_of(&history.space.point_at(index));
                Some(Proposal { params, origin: strategy.origin() })
            })
        };
        Ok(std::iter::from_fn(one).take(n).collect())
    }

    fn observe(&mut self, job: &Job, _score: Score) {
        self.history.recognise(job);
    }
}
