//! The members that prompts are made of, and how parents are drawn from them.

use warpsmith_model::CandidateId;
use warpsmith_model::rng::Rng;

/// Members kept: valid first by time, then the newest invalid.
pub const POPULATION: usize = 5;

/// A source that was evaluated.
#[derive(Clone, Debug, PartialEq)]
pub struct Member {
    /// The candidate: its source with the best parameters that were found for it.
    pub id: CandidateId,
    /// The call that it came from; none for the seed.
    pub call: Option<u32>,
    /// What it is called.
    pub title: String,
    /// What its author had in mind.
    pub thought: String,
    /// Its source.
    pub source: String,
    /// What became of it.
    pub standing: Standing,
}

/// What became of a member.
#[derive(Clone, Debug, PartialEq)]
pub enum Standing {
    /// Right and timed.
    Valid {
        /// The geometric mean over the workloads of their median times.
        time_s: f64,
        /// The parameters it was timed with, in words.
        params: String,
        /// What holds it back by its times, in words.
        diagnosis: String,
        /// What a profile of it shows, in words; none as long as nobody has looked.
        insight: Option<String>,
    },
    /// Wrong, or not even that.
    Invalid {
        /// What happened, quoted.
        failure: String,
    },
}

impl Member {
    /// Returns the time of a valid member.
    pub fn time_s(&self) -> Option<f64> {
        match &self.standing {
            Standing::Valid { time_s, .. } => Some(*time_s),
            Standing::Invalid { .. } => None,
        }
    }
}

/// A small set of members around the best.
#[derive(Clone, Debug)]
pub(crate) struct Population {
    /// The best first: it keeps its place until another is shown to be faster.
    members: Vec<Member>,
}

impl Population {
    /// Starts with the seed.
    pub(crate) fn new(seed: Member) -> Self {
        Self { members: vec![seed] }
    }

    /// Returns the member that nobody was shown to be faster than.
    pub(crate) fn best(&self) -> &Member {
        &self.members[0]
    }

    /// Returns every member, in the order of their ranks.
    pub(crate) fn members(&self) -> &[Member] {
        &self.members
    }

    /// Adds what a profile of a member shows.
    pub(crate) fn inform(&mut self, id: CandidateId, text: &str) {
        for member in self.members.iter_mut().filter(|member| member.id == id) {
            if let Standing::Valid { insight, .. } = &mut member.standing {
                *insight = Some(text.to_string());
            }
        }
    }

    pub(crate) fn n_valid(&self) -> usize {
        self.members.iter().filter(|member| member.time_s().is_some()).count()
    }

    /// Takes a member in and keeps the best of all. `is_best` says that it was shown to be faster
    /// than the best so far; a better time alone does not move it to the front.
    pub(crate) fn enter(&mut self, member: Member, is_best: bool) {
        let at = if is_best { 0 } else { self.members.len() };
        self.members.insert(at, member);
        // Stable. Among the invalid the newest comes first.
        self.members[1..].sort_by(|one, other| match (one.time_s(), other.time_s()) {
            (Some(one), Some(other)) => one.total_cmp(&other),
            (Some(_), None) => std::cmp::Ordering::Less,
            (None, Some(_)) => std::cmp::Ordering::Greater,
            (None, None) => other.call.cmp(&one.call),
        });
        self.members.truncate(POPULATION);
    }

    /// Draws different valid members. A member's weight is 1 / (rank + N): its rank counts from 1,
    /// and N is the size of the population, so the best is preferred but never by more than two to
    /// one.
    pub(crate) fn draw(&self, n: usize, rng: &mut Rng) -> Vec<&Member> {
        let size = self.members.len() as f64;
        let mut left: Vec<(f64, &Member)> = self
            .members
            .iter()
            .enumerate()
            .filter(|(_, member)| member.time_s().is_some())
            .map(|(idx, member)| (1.0 / (idx as f64 + 1.0 + size), member))
            .collect();
        let mut drawn = Vec::new();
        while drawn.len() < n && !left.is_empty() {
            let weights: Vec<f64> = left.iter().map(|(weight, _)| *weight).collect();
            drawn.push(left.remove(weighted(&weights, rng)).1);
        }
        drawn
    }
}

/// Draws an index by weight. The weights are positive.
pub(crate) fn weighted(weights: &[f64], rng: &mut Rng) -> usize {
    let total: f64 = weights.iter().sum();
    let mut at = rng.unit() * total;
    for (idx, weight) in weights.iter().enumerate() {
        if at < *weight {
            return idx;
        }
        at -= weight;
    }
    weights.len() - 1
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    pub(crate) fn member(call: Option<u32>, time_s: Option<f64>) -> Member {
        let title = call.map_or("seed".to_string(), |call| format!("m{call}"));
        let standing = match time_s {
            Some(time_s) => Standing::Valid {
                time_s,
                params: "no tunables".to_string(),
                diagnosis: format!("diagnosis of {title}"),
                insight: None,
            },
            None => Standing::Invalid { failure: format!("| failure of {title}") },
        };
        Member {
            id: CandidateId::of(title.as_bytes()),
            call,
            thought: format!("thought of {title}"),
            source: format!("source of {title}"),
            title,
            standing,
        }
    }

    fn titles(population: &Population) -> Vec<&str> {
        population.members().iter().map(|member| member.title.as_str()).collect()
    }

    #[test]
    fn five_are_kept_valid_first_by_time_then_the_newest_invalid() {
        let mut population = Population::new(member(None, Some(10.0)));
        population.enter(member(Some(0), None), false);
        population.enter(member(Some(1), Some(12.0)), false);
        population.enter(member(Some(2), None), false);
        assert_eq!(titles(&population), ["seed", "m1", "m2", "m0"]);
        population.enter(member(Some(3), Some(8.0)), true);
        assert_eq!(titles(&population), ["m3", "seed", "m1", "m2", "m0"]);
        population.enter(member(Some(4), None), false);
        assert_eq!(titles(&population), ["m3", "seed", "m1", "m4", "m2"]);
        population.enter(member(Some(5), Some(9.0)), false);
        population.enter(member(Some(6), Some(11.0)), false);
        assert_eq!(titles(&population), ["m3", "m5", "seed", "m6", "m1"]);
        assert_eq!(population.n_valid(), 5);
    }

    #[test]
    fn a_better_time_alone_does_not_make_the_best() {
        let mut population = Population::new(member(None, Some(10.0)));
        population.enter(member(Some(0), Some(9.0)), false);
        assert_eq!(population.best().title, "seed");
        population.enter(member(Some(1), Some(9.5)), true);
        assert_eq!(titles(&population), ["m1", "m0", "seed"]);
    }

    #[test]
    fn parents_are_drawn_by_one_over_rank_plus_size() {
        let mut population = Population::new(member(None, Some(1.0)));
        for call in 0..4 {
            population.enter(member(Some(call), Some(2.0 + f64::from(call))), false);
        }
        let mut rng = Rng::new(7);
        let mut counts = [0u32; 5];
        const DRAWS: u32 = 100_000;
        for _ in 0..DRAWS {
            let drawn = population.draw(1, &mut rng)[0];
            counts[population.members().iter().position(|it| it == drawn).expect("a member")] += 1;
        }
        let weights: Vec<f64> = (1..=5).map(|rank| 1.0 / (f64::from(rank) + 5.0)).collect();
        let total: f64 = weights.iter().sum();
        for (count, weight) in counts.iter().zip(&weights) {
            let share = f64::from(*count) / f64::from(DRAWS);
            // Five standard deviations of a share near 0.2.
            assert!((share - weight / total).abs() < 0.0064, "{counts:?} {weights:?}");
        }
    }

    #[test]
    fn parents_differ_and_are_valid() {
        let mut population = Population::new(member(None, Some(1.0)));
        population.enter(member(Some(0), None), false);
        population.enter(member(Some(1), Some(2.0)), false);
        let mut rng = Rng::new(3);
        for _ in 0..100 {
            let drawn = population.draw(2, &mut rng);
            assert_eq!(drawn.len(), 2);
            assert_ne!(drawn[0].id, drawn[1].id);
            assert!(drawn.iter().all(|member| member.time_s().is_some()));
        }
        assert_eq!(population.draw(3, &mut rng).len(), 2);
    }
}
