//! Search that is guided by models of what was observed.
//!
//! The first proposals are spread over the space. After that, a *plan* is made of the observations:
//! models are fitted, candidates are drawn (neighbours of the best, their neighbours, and random
//! configurations) and ranked by how much they are expected to improve on the best, times the
//! chance that they run at all. Failures are modelled apart from times. Proposals are taken from
//! the plan until there is reason for a new one.
//!
//! `surrogate` plans with a forest and `gaussian` with a Gaussian process. `auto` plans with the
//! Gaussian process until the forest is shown to predict better, and takes some configurations at
//! random: where the models are misled, it still goes on.

use std::collections::HashSet;
use std::sync::Arc;

use warpsmith_model::Job;
use warpsmith_model::rng::Rng;

use crate::history::History;
use crate::lesson::{Lesson, MIN_TIMES, Model, Observed};
use crate::model::{Features, Forest, Gaussian, Prediction, Scales};
use crate::space::{Neighbourhood, Point, Space};
use crate::walk::{Opening, Walk, take_opening};
use crate::{Proposal, ProposeError, Proposer, Score, Strategy};

/// Configurations that are spread over the space before models are asked. From 5 to 15 made no
/// difference beyond the noise of 100 repeats on recorded spaces.
const SPREAD: usize = 8;

/// Random configurations of which the farthest from all others is taken to spread.
const SPREAD_DRAWS: usize = 100;

/// Random configurations of which the nearest to the middle of the space is taken; it takes a millisecond,
/// once.
const MIDDLE_DRAWS: usize = 3000;

/// The best so far whose neighbours are candidates. From 2 to 10 made no difference.
const ELITES: usize = 5;

/// Candidates two or three steps away from the best.
const WANDERERS: usize = 200;

/// Candidates that are random: enough to notice a region that models think well of.
const RANDOM_PROSPECTS: usize = 64;

/// Neighbours of a single configuration at most, drawn at random where there are more.
const MAX_NEIGHBOURS: usize = 256;

/// Candidates whose deviation is computed, which is what costs: those with the best means, and all
/// strangers, which are what uncertainty is for.
const EXAMINED: usize = 100;

/// Observations that a Gaussian process takes in to predict, since its cost grows with their third
/// power.
const MAX_OBSERVATIONS: usize = 128;

/// Observations that it takes in to learn its scales, for which it is fitted dozens of times.
const MAX_SCALE_OBSERVATIONS: usize = 96;

/// By how much observations grow until the scales of the Gaussian process are fitted again.
const REFIT_GROWTH: f64 = 1.25;

/// Steps of fitting the scales, for each of them: the first time, from nothing, and each time after. Three
/// times as many later made no difference on recorded spaces, and a proposal three times as dear.
const FIRST_FIT_ROUNDS: usize = 6;
const REFIT_ROUNDS: usize = 1;

/// `auto` takes a random configuration in place of every so many-th of its own: it is then at most
/// this share behind random search, whatever the models believe.
const RANDOM_EVERY: usize = 20;

/// The share of the average in the predicted chance to run: few observations prove nothing.
const CHANCE_AVERAGE: f64 = 0.1;

#[derive(Debug)]
pub(crate) struct Guided {
    strategy: Strategy,
    history: History,
    opening: Opening,
    walk: Walk,
    seed: u64,
    features: Features,
    observed: Vec<Observed>,
    /// Proposed, but not observed yet.
    pending: Vec<Point>,
    plan: Shortlist,
    fitted: Fitted,
}

/// Candidates, the best first, for a number of observations.
#[derive(Debug, Default)]
struct Shortlist {
    observations: Option<usize>,
    candidates: Vec<u128>,
    /// By how much of the best time the first candidate is expected to be better.
    outlook: Option<f64>,
}

/// Scales, which model to ask, and from how many observations both were learned.
#[derive(Debug, Default)]
struct Fitted {
    observations: usize,
    scales: Option<Scales>,
    model: Model,
}

struct Prospect {
    index: u128,
    levels: Vec<u8>,
    is_random: bool,
}

impl Guided {
    pub(crate) fn new(
        strategy: Strategy,
        history: History,
        opening: Opening,
        walk: Walk,
        seed: u64,
    ) -> Self {
        let features = Features::of(&history.space);
        Self {
            strategy,
            history,
            opening,
            walk,
            seed,
            features,
            observed: Vec::new(),
            pending: Vec::new(),
            plan: Shortlist::default(),
            fitted: Fitted::default(),
        }
    }

    fn propose_one(&mut self) -> Option<Proposal> {
        if self.history.is_exhausted() {
            return None;
        }
        let proposal = take_opening(&mut self.opening, &mut self.history).or_else(|| {
            let index = match self.choose() {
                Some(index) => index,
                None => self.walk.take_next(&mut self.history)?,
            };
            self.history.take(index);
            let params = self.history.space.params_of(&self.history.space.point_at(index));
            Some(Proposal { params, origin: self.strategy.origin() })
        })?;
        self.pending.extend(self.history.space.point_of(&proposal.params));
        Some(proposal)
    }

    /// Chooses what to propose; none leaves it to chance.
    fn choose(&mut self) -> Option<u128> {
        let taken = self.history.len();
        let mut rng = Rng::derive(self.seed, &format!("proposal {taken}"));
        if taken == 0 {
            return Some(self.middle(&mut rng));
        }
        if taken < SPREAD {
            return self.spread(&mut rng);
        }
        let is_randoms_turn = self.strategy == Strategy::Auto && taken.is_multiple_of(RANDOM_EVERY);
        if !self.has_lesson() || is_randoms_turn {
            return None;
        }
        self.plan_anew_if_due();
        self.plan.candidates.retain(|index| !self.history.is_taken(*index));
        // Proposals of one batch learn nothing from each other, so they had better not be
        // neighbours.
        let space = &self.history.space;
        let is_apart = |index: &&u128| {
            let point = space.point_at(**index);
            self.pending.iter().all(|other| differences(&point, other) > 1)
        };
        let apart = self.plan.candidates.iter().find(is_apart);
        apart.or_else(|| self.plan.candidates.first()).copied()
    }

    /// Says whether there are times enough for a model.
    fn has_lesson(&self) -> bool {
        let timed = self.observed.iter().filter(|observed| observed.log_time.is_some());
        timed.count() >= MIN_TIMES
    }

    /// Makes a new plan where there is reason for one.
    fn plan_anew_if_due(&mut self) {
        let observations = self.planned_observations();
        if self.plan.observations != Some(observations) {
            self.plan = self.planned(observations);
        }
    }

    /// Returns how many observations the current plan is of: all at first, and later all but the
    /// last percent, since a plan for thousands is good for more than one proposal.
    fn planned_observations(&self) -> usize {
        let all = self.observed.len();
        all - all % (all / 100).max(1)
    }

    /// Returns a configuration near the middle of the space, for searches without an author's choice: lists
    /// of values reach beyond what is sensible at both ends. Of two middle values it is the greater one, so
    /// that switches are on: authors write them for what they hope to gain.
    fn middle(&self, rng: &mut Rng) -> u128 {
        let space = &self.history.space;
        let middle_value = |tunable: usize| {
            let values = space.tunables()[tunable].values.len();
            space.ascending(tunable).map_or((values / 2) as u16, |ascending| ascending[values / 2])
        };
        let middle: Point = (0..space.tunables().len()).map(middle_value).collect();
        let middle = self.features.levels(&middle);
        let draws = (0..MIDDLE_DRAWS).map(|_| {
            let point = space.random_point(rng);
            (self.features.distance(&middle, &self.features.levels(&point)), point)
        });
        let nearest = draws.min_by(|(a, _), (b, _)| a.total_cmp(b));
        let (_, point) = nearest.expect("there are draws");
        space.index_of_point(&point).expect("random points are valid")
    }

    /// Returns a configuration that is far from all others.
    fn spread(&self, rng: &mut Rng) -> Option<u128> {
        let space = &self.history.space;
        let pending: Vec<Vec<u8>> =
            self.pending.iter().map(|point| self.features.levels(point)).collect();
        let others = || self.observed.iter().map(|o| &o.levels).chain(&pending);
        let mut best: Option<(f64, u128)> = None;
        for _ in 0..SPREAD_DRAWS {
            let point = space.random_point(rng);
            let index = space.index_of_point(&point).expect("random points are valid");
            if self.history.is_taken(index) {
                continue;
            }
            let levels = self.features.levels(&point);
            let nearest = others()
                .map(|other| self.features.distance(other, &levels))
                .fold(f64::INFINITY, f64::min);
            if best.is_none_or(|(known, _)| nearest > known) {
                best = Some((nearest, index));
            }
        }
        best.map(|(_, index)| index)
    }

    /// Ranks candidates by the first so many observations.
    fn planned(&mut self, observations: usize) -> Shortlist {
        let mut rng = Rng::derive(self.seed, &format!("plan {observations}"));
        if self.strategy != Strategy::Surrogate {
            self.catch_up(observations);
        }
        let model = match self.strategy {
            Strategy::Surrogate => Model::Forest,
            Strategy::Auto => self.fitted.model,
            _ => Model::Gaussian,
        };
        let known = &self.observed[..observations];
        let space = Arc::clone(&self.history.space);
        let candidates = candidates(&space, &self.features, known, &mut rng);
        let Some(lesson) = Lesson::of(known) else {
            return Shortlist { observations: Some(observations), ..Shortlist::default() };
        };
        let (best, deviation) = (lesson.best, lesson.deviation);
        let predictions = match model {
            Model::Forest => {
                let forest = Forest::fit(&self.features, &lesson.x, &lesson.y, &mut rng);
                candidates.iter().map(|candidate| Some(forest.predict(&candidate.levels))).collect()
            }
            Model::Gaussian => {
                let lesson = lesson.thinned(MAX_OBSERVATIONS);
                self.gaussian_predictions(lesson, &candidates)
            }
        };
        let chances = chances(&self.features, known, &candidates, &mut rng);
        let worth = |prediction: &Prediction, chance: f64| {
            (prediction.expected_improvement(best) * chance).max(f64::MIN_POSITIVE).ln()
        };
        let mut ranked: Vec<(f64, u128)> = candidates
            .iter()
            .zip(predictions.iter().zip(chances))
            .filter_map(|(candidate, (prediction, chance))| {
                Some((worth(prediction.as_ref()?, chance), candidate.index))
            })
            .collect();
        ranked.sort_by(|(a, _), (b, _)| b.total_cmp(a));
        Shortlist {
            observations: Some(observations),
            outlook: ranked.first().map(|(worth, _)| worth.exp() * deviation),
            candidates: ranked.into_iter().map(|(_, index)| index).collect(),
        }
    }

    /// Predicts the candidates that are worth it.
    fn gaussian_predictions(
        &self,
        lesson: Lesson<'_>,
        candidates: &[Prospect],
    ) -> Vec<Option<Prediction>> {
        let expected = Scales::expected(&self.features);
        let scales = self.fitted.scales.as_ref().unwrap_or(&expected);
        let Some(process) = Gaussian::fit(&self.features, &lesson.x, &lesson.y, scales) else {
            return candidates.iter().map(|_| None).collect();
        };
        let means: Vec<f64> =
            candidates.iter().map(|candidate| process.mean(&candidate.levels)).collect();
        let mut sorted = means.clone();
        sorted.sort_by(f64::total_cmp);
        let limit = sorted.get(EXAMINED).copied().unwrap_or(f64::INFINITY);
        let examined = candidates.iter().zip(means).map(|(candidate, mean)| {
            (candidate.is_random || mean <= limit).then(|| process.predict(&candidate.levels))
        });
        examined.collect()
    }

    /// Fits the scales again at every number of observations at which that is due. A resumed
    /// search goes through the same numbers, and so comes to the same scales.
    fn catch_up(&mut self, observations: usize) {
        loop {
            let due = match self.fitted.observations {
                0 => SPREAD,
                last => (last as f64 * REFIT_GROWTH).ceil() as usize,
            };
            if due > observations {
                return;
            }
            self.fitted.observations = due;
            let Some(lesson) = Lesson::of(&self.observed[..due]) else {
                continue;
            };
            let lesson = lesson.thinned(MAX_SCALE_OBSERVATIONS);
            let start = self.fitted.scales.take();
            let each = if start.is_none() { FIRST_FIT_ROUNDS } else { REFIT_ROUNDS };
            let rounds = each * (self.features.dimensions.len() + 1);
            let start = start.unwrap_or_else(|| Scales::expected(&self.features));
            let mut rng = Rng::derive(self.seed, &format!("scales {due}"));
            let scales = start.improved(&self.features, &lesson.x, &lesson.y, rounds, &mut rng);
            if self.strategy == Strategy::Auto {
                self.fitted.model = lesson.better_model(&self.features, &scales, &mut rng);
            }
            self.fitted.scales = Some(scales);
        }
    }
}

impl Proposer for Guided {
    fn propose(&mut self, n: usize) -> Result<Vec<Proposal>, ProposeError> {
        Ok(std::iter::from_fn(|| self.propose_one()).take(n).collect())
    }

    fn observe(&mut self, job: &Job, score: Score) {
        let Some(index) = self.history.recognise(job) else {
            return;
        };
        let point = self.history.space.point_at(index);
        self.pending.retain(|other| *other != point);
        let log_time = score.time_s().map(f64::ln);
        let levels = self.features.levels(&point);
        match self.observed.iter_mut().find(|observed| observed.index == index) {
            // A repeated measurement replaces the earlier one.
            Some(known) => known.log_time = log_time,
            None => self.observed.push(Observed { index, levels, log_time }),
        }
    }

    fn outlook(&mut self) -> Option<f64> {
        // Of the first ones, which are spread, nothing is expected but to learn.
        if self.observed.len() < SPREAD || !self.has_lesson() {
            return None;
        }
        self.plan_anew_if_due();
        self.plan.outlook
    }
}

/// Draws candidates. What is taken already is among them, so that they are the same again in a
/// resumed search.
fn candidates(
    space: &Space,
    features: &Features,
    observed: &[Observed],
    rng: &mut Rng,
) -> Vec<Prospect> {
    let mut timed: Vec<(f64, u128)> =
        observed.iter().filter_map(|o| Some((o.log_time?, o.index))).collect();
    timed.sort_by(|a, b| a.0.total_cmp(&b.0));
    let elites: Vec<Point> =
        timed.iter().take(ELITES).map(|(_, index)| space.point_at(*index)).collect();
    let mut seen: HashSet<u128> = observed.iter().map(|observed| observed.index).collect();
    let mut found = Vec::new();
    let mut add = |index: u128, is_random: bool| {
        if seen.insert(index) {
            let levels = features.levels(&space.point_at(index));
            found.push(Prospect { index, levels, is_random });
        }
    };
    for elite in &elites {
        let mut neighbours = space.neighbour_indices(elite, Neighbourhood::Any);
        if neighbours.len() > MAX_NEIGHBOURS {
            rng.shuffle(&mut neighbours);
            neighbours.truncate(MAX_NEIGHBOURS);
        }
        neighbours.into_iter().for_each(|index| add(index, false));
    }
    for _ in 0..WANDERERS {
        let mut point = elites[rng.below(elites.len())].clone();
        for _ in 0..2 + rng.below(2) {
            let tunable = rng.below(point.len());
            let values = space.alternatives(&point, tunable, Neighbourhood::Any);
            if !values.is_empty() {
                point[tunable] = values[rng.below(values.len())];
            }
        }
        add(space.index_of_point(&point).expect("alternatives are valid"), false);
    }
    for _ in 0..RANDOM_PROSPECTS {
        let point = space.random_point(rng);
        add(space.index_of_point(&point).expect("random points are valid"), true);
    }
    found
}

/// Predicts each candidate's chance to run.
fn chances(
    features: &Features,
    observed: &[Observed],
    candidates: &[Prospect],
    rng: &mut Rng,
) -> Vec<f64> {
    let runs: Vec<f64> =
        observed.iter().map(|o| f64::from(u8::from(o.log_time.is_some()))).collect();
    let average = runs.iter().sum::<f64>() / runs.len() as f64;
    if average >= 1.0 {
        return vec![1.0; candidates.len()];
    }
    let x: Vec<&[u8]> = observed.iter().map(|observed| observed.levels.as_slice()).collect();
    let forest = Forest::fit(features, &x, &runs, rng);
    let chance = |candidate: &Prospect| {
        let own = forest.predict(&candidate.levels).mean;
        (1.0 - CHANCE_AVERAGE) * own + CHANCE_AVERAGE * average
    };
    candidates.iter().map(chance).collect()
}

fn differences(a: &[u16], b: &[u16]) -> usize {
    a.iter().zip(b).filter(|(a, b)| a != b).count()
}
