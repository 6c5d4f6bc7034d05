//! Breeding from the best so far.
//!
//! The population is not a generation but the best configurations observed so far, so proposals
//! can be asked for one by one or in batches, and findings may come back in any order. A child is
//! a uniform crossover of two parents, each the winner of a tournament, then mutated until it is
//! new. When nothing has improved for a while the search restarts from random configurations.

use warpsmith_model::Job;
use warpsmith_model::rng::Rng;

use crate::history::History;
use crate::space::{Neighbourhood, Point, Space};
use crate::walk::{Opening, Walk, take_opening};
use crate::{Proposal, ProposeError, Proposer, Score, Strategy};

/// The settings of the evolutionary strategy.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct EvolutionarySettings {
    /// How many of the best configurations can become parents.
    pub population: usize,
    /// How many configurations are observed before breeding begins: the seeds and what they expand
    /// to, then random ones.
    pub warm_up: usize,
    /// How many configurations compete to become a parent; 1 gives each the same chance.
    pub tournament: usize,
    /// The share of children that have two parents.
    pub crossover: f64,
    /// The share of mutations that go to an adjacent value; the others go to any value.
    pub adjacent: f64,
    /// The share of proposals that are random, so that no part of the space is never looked at.
    pub injection: f64,
    /// How many observations without improvement cause a restart.
    pub patience: usize,
}

impl EvolutionarySettings {
    /// Settings that do well on recorded spaces, and not by a hair.
    ///
    /// Tried one at a time on four recorded spaces (convolution and dedispersion on an A100, GEMM
    /// and point-in-polygon on an RTX 3090), 100 seeds each. Mean of optimum over best after 25,
    /// 50, 100 and 200 evaluations: .829, .887, .930 and .966, where random reaches .814, .847,
    /// .876 and .904. Most changes cost less than .01: a population of 4 or 6, a tournament of 5,
    /// a crossover of 0 to 1, adjacency of 0 to .75, injection of 0 to .1, patience of 30 to 1000.
    /// What costs more: a population of 12 or 16 (.012 at 50), a warm-up of 6 (.020 at 50) or 25
    /// (.018 at 25), a tournament of 1 (.014 at 50), and adjacency of 1, which loses to random on
    /// point-in-polygon at 25 and at 50.
    pub const STANDARD: Self = Self {
        population: 8,
        warm_up: 16,
        tournament: 3,
        crossover: 0.5,
        adjacent: 0.5,
        injection: 0.05,
        patience: 60,
    };

    fn validate(&self) -> Result<(), ProposeError> {
        let Self { population, warm_up, tournament, crossover, adjacent, injection, patience } =
            *self;
        let counts = [
            ("population", population),
            ("warm_up", warm_up),
            ("tournament", tournament),
            ("patience", patience),
        ];
        if let Some((setting, value)) = counts.into_iter().find(|(_, value)| *value == 0) {
            let value = value.to_string();
            return Err(ProposeError::BadSetting { setting, value, expected: "at least 1" });
        }
        let shares = [("crossover", crossover), ("adjacent", adjacent), ("injection", injection)];
        let is_share = |value: f64| (0.0..=1.0).contains(&value);
        if let Some((setting, value)) = shares.into_iter().find(|(_, value)| !is_share(*value)) {
            let value = value.to_string();
            return Err(ProposeError::BadSetting { setting, value, expected: "from 0 to 1" });
        }
        Ok(())
    }
}

/// How many children are bred, at most, to find one that is new. Each one has been mutated away
/// from the previous, so they wander off and more of them would be no better than random ones.
const MAX_BROOD: usize = 24;

#[derive(Debug)]
pub(crate) struct Evolutionary {
    history: History,
    opening: Opening,
    walk: Walk,
    settings: EvolutionarySettings,
    seed: u64,
    /// What was observed since the last restart, best first.
    ranked: Vec<Observed>,
    /// Observations since the last improvement or restart.
    since_improvement: usize,
}

#[derive(Debug)]
struct Observed {
    index: u128,
    score: Score,
}

impl Evolutionary {
    pub(crate) fn new(
        history: History,
        opening: Opening,
        walk: Walk,
        settings: EvolutionarySettings,
        seed: u64,
    ) -> Result<Self, ProposeError> {
        settings.validate()?;
        Ok(Self {
            history,
            opening,
            walk,
            settings,
            seed,
            ranked: Vec::new(),
            since_improvement: 0,
        })
    }

    fn propose_one(&mut self) -> Option<Proposal> {
        if self.history.is_exhausted() {
            return None;
        }
        if let Some(proposal) = take_opening(&mut self.opening, &mut self.history) {
            return Some(proposal);
        }
        // A fresh stream for each proposal, so that a resumed search, which has not drawn what led
        // to the stored findings, goes on as the interrupted one would have.
        let mut rng = Rng::derive(self.seed, &format!("proposal {}", self.history.len()));
        let index = self.breed(&mut rng).or_else(|| self.walk.take_next(&mut self.history))?;
        let params = self.history.space.params_of(&self.history.space.point_at(index));
        Some(Proposal { params, origin: Strategy::Evolutionary.origin() })
    }

    /// Takes a new child; none when it is too early for children, when it is a random one's turn,
    /// or when all children are taken already.
    fn breed(&mut self, rng: &mut Rng) -> Option<u128> {
        let parents = self.parents();
        let is_warm = self.ranked.len() >= self.settings.warm_up;
        if !is_warm || parents == 0 || rng.unit() < self.settings.injection {
            return None;
        }
        let space = std::sync::Arc::clone(&self.history.space);
        let mut child = space.point_at(self.select(rng, parents));
        if rng.unit() < self.settings.crossover {
            let other = space.point_at(self.select(rng, parents));
            child = crossed(&space, rng, &child, &other);
        }
        for _ in 0..MAX_BROOD {
            mutate(&space, rng, &mut child, self.settings.adjacent);
            let index = space.index_of_point(&child).expect("mutation keeps points valid");
            if self.history.take(index) {
                return Some(index);
            }
        }
        None
    }

    /// Returns how many of the best are fit to be parents: those that ran to the end.
    fn parents(&self) -> usize {
        let complete = self.ranked.partition_point(|o| o.score.time_s().is_some());
        complete.min(self.settings.population)
    }

    fn select(&self, rng: &mut Rng, parents: usize) -> u128 {
        let winner = (0..self.settings.tournament).map(|_| rng.below(parents)).min();
        self.ranked[winner.expect("a tournament has entrants")].index
    }
}

impl Proposer for Evolutionary {
    fn propose(&mut self, n: usize) -> Result<Vec<Proposal>, ProposeError> {
        Ok(std::iter::from_fn(|| self.propose_one()).take(n).collect())
    }

    fn observe(&mut self, job: &Job, score: Score) {
        let Some(index) = self.history.recognise(job) else {
            return;
        };
        let improves = self.ranked.first().is_none_or(|best| score < best.score);
        // A repeated measurement replaces the earlier one.
        self.ranked.retain(|observed| observed.index != index);
        let rank = self.ranked.partition_point(|observed| observed.score <= score);
        self.ranked.insert(rank, Observed { index, score });
        self.since_improvement = if improves { 0 } else { self.since_improvement + 1 };
        if self.since_improvement >= self.settings.patience {
            self.ranked.clear();
            self.since_improvement = 0;
        }
    }
}

/// Takes each value from either parent. Where the mixture breaks a constraint, all tunables that
/// constraints tie to it come from one parent.
fn crossed(space: &Space, rng: &mut Rng, first: &[u16], second: &[u16]) -> Point {
    let mut child: Point =
        first.iter().zip(second).map(|(a, b)| if rng.below(2) == 0 { *a } else { *b }).collect();
    for (set, tunables) in space.independent_sets().enumerate() {
        if !space.is_valid_in(set, &child) {
            let donor = if rng.below(2) == 0 { first } else { second };
            tunables.iter().for_each(|tunable| child[*tunable] = donor[*tunable]);
        }
    }
    child
}

/// Changes the value of one tunable. Where constraints leave no tunable a choice of its own, a set
/// of tunables that they tie together gets new values at once.
fn mutate(space: &Space, rng: &mut Rng, point: &mut [u16], adjacent: f64) {
    let mut tunables: Vec<usize> = (0..point.len()).collect();
    rng.shuffle(&mut tunables);
    let neighbourhood =
        if rng.unit() < adjacent { Neighbourhood::Adjacent } else { Neighbourhood::Any };
    for tunable in tunables {
        let values = space.alternatives(point, tunable, neighbourhood);
        if !values.is_empty() {
            point[tunable] = values[rng.below(values.len())];
            return;
        }
    }
    let sets = space.independent_sets().len();
    if sets > 0 {
        let set = rng.below(sets);
        space.redraw(rng, set, point);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use warpsmith_model::lab::Tunable;
    use warpsmith_model::{Expr, Fidelity, Outcome, Value};

    use super::*;
    use crate::history::tests::{passed, trial};
    use crate::score;

    fn evolutionary(
        values: &[i64],
        constraint: &str,
        settings: EvolutionarySettings,
    ) -> Evolutionary {
        let tunable = |name: &str| Tunable {
            name: name.to_string(),
            values: values.iter().copied().map(Value::Int).collect(),
        };
        let constraints = [Expr::parse(constraint).expect("an expression")];
        let tunables = [tunable("A"), tunable("B"), tunable("C")];
        let space = Arc::new(Space::new(&tunables, &constraints, &|_| None).expect("a space"));
        let walk = Walk::shuffled(space.len(), 1);
        let history = History::new(space, "kernel".to_string(), Fidelity::Rank);
        Evolutionary::new(history, Opening::new(), walk, settings, 1).expect("valid settings")
    }

    fn observe(proposer: &mut Evolutionary, proposal: &Proposal, outcome: Outcome) {
        let trial = trial("kernel", proposal.params.clone(), &["a"], outcome);
        proposer.observe(&trial.job, score(&trial));
    }

    #[test]
    fn tunables_that_can_only_change_together_do() {
        // No value of A, B or C can change alone, so single mutations lead nowhere.
        let settings =
            EvolutionarySettings { warm_up: 1, injection: 0.0, ..EvolutionarySettings::STANDARD };
        let mut proposer = evolutionary(&[1, 2, 3, 4, 5, 6], "A == B == C", settings);
        let mut proposed = 0;
        while let Some(proposal) = proposer.propose_one() {
            proposed += 1;
            observe(&mut proposer, &proposal, passed(&[("a", &[f64::from(proposed)])]));
        }
        assert_eq!(proposed, 6);
    }

    #[test]
    fn failures_are_never_parents() {
        let settings = EvolutionarySettings { warm_up: 2, ..EvolutionarySettings::STANDARD };
        let mut proposer = evolutionary(&[1, 2, 3], "A + B + C > 0", settings);
        for proposal in proposer.propose(5).expect("proposals") {
            let outcome = Outcome::TimedOut { workload: "a".to_string(), limit_s: 1.0 };
            observe(&mut proposer, &proposal, outcome);
        }
        assert_eq!((proposer.ranked.len(), proposer.parents()), (5, 0));
        let proposal = proposer.propose_one().expect("a random one");
        observe(&mut proposer, &proposal, passed(&[("a", &[1.0])]));
        assert_eq!(proposer.parents(), 1);
    }

    #[test]
    fn a_search_that_stagnates_starts_again() {
        let settings =
            EvolutionarySettings { warm_up: 2, patience: 3, ..EvolutionarySettings::STANDARD };
        let mut proposer = evolutionary(&[1, 2, 3], "A + B + C > 0", settings);
        for (time_s, left) in [(5.0, 1), (4.0, 2), (6.0, 3), (6.0, 4), (6.0, 0), (7.0, 1)] {
            let proposal = proposer.propose_one().expect("the space is larger");
            observe(&mut proposer, &proposal, passed(&[("a", &[time_s])]));
            assert_eq!(proposer.ranked.len(), left, "after {time_s}");
        }
    }
}
