//! A configuration as the models see it: a level in each of several dimensions.

use warpsmith_model::Value;

use crate::space::Space;

/// Tunables with more values share levels: a search has too few observations to tell them apart,
/// and models keep tables of pairs of levels.
const MAX_LEVELS: usize = 64;

/// One dimension: a tunable, or a property of its values.
#[derive(Clone, Debug)]
pub(crate) struct Dimension {
    tunable: usize,
    /// By value index: the level.
    levels: Vec<u8>,
    /// How many levels there are, at least two.
    pub(crate) count: usize,
    /// Whether near levels are near values; otherwise all levels are equally far apart.
    pub(crate) is_ordered: bool,
}

impl Dimension {
    /// Returns how far apart two levels are, from 0 to 1.
    pub(crate) fn distance(&self, a: u8, b: u8) -> f64 {
        if self.is_ordered {
            f64::from(a.abs_diff(b)) / (self.count - 1) as f64
        } else {
            f64::from(u8::from(a != b))
        }
    }
}

/// The dimensions of a space: its tunables with a choice, by rank of their values, and how often
/// those values are divisible by two.
#[derive(Clone, Debug)]
pub(crate) struct Features {
    pub(crate) dimensions: Vec<Dimension>,
}

impl Features {
    /// Looks at a space.
    pub(crate) fn of(space: &Space) -> Self {
        let dimensions = (0..space.tunables().len())
            .filter(|tunable| space.tunables()[*tunable].values.len() > 1)
            .flat_map(|tunable| {
                std::iter::once(by_rank(space, tunable)).chain(by_evenness(space, tunable))
            })
            .collect();
        Self { dimensions }
    }

    /// Returns the levels of a point.
    pub(crate) fn levels(&self, point: &[u16]) -> Vec<u8> {
        let level = |dimension: &Dimension| dimension.levels[usize::from(point[dimension.tunable])];
        self.dimensions.iter().map(level).collect()
    }

    /// Returns how far apart two configurations are, summed over the dimensions.
    pub(crate) fn distance(&self, a: &[u8], b: &[u8]) -> f64 {
        let pairs = self.dimensions.iter().zip(a.iter().zip(b));
        pairs.map(|(dimension, (a, b))| dimension.distance(*a, *b)).sum()
    }
}

/// Ranks, not values: the lists that authors write are spaced so that steps matter about equally.
/// Logarithms of the values were no better on recorded spaces.
fn by_rank(space: &Space, tunable: usize) -> Dimension {
    let values = space.tunables()[tunable].values.len();
    let count = values.min(MAX_LEVELS);
    let level_of = |rank: usize| (rank * count / values) as u8;
    let mut levels: Vec<u8> = (0..values).map(level_of).collect();
    let ascending = space.ascending(tunable);
    for (rank, value) in ascending.unwrap_or_default().iter().enumerate() {
        levels[usize::from(*value)] = level_of(rank);
    }
    Dimension { tunable, levels, count, is_ordered: ascending.is_some() }
}

/// How often the values are divisible by two. Hardware works in powers of two, so 48 threads can be
/// less like 32 than 64 are. None where this follows from the rank, as for powers of two.
fn by_evenness(space: &Space, tunable: usize) -> Option<Dimension> {
    let values = &space.tunables()[tunable].values;
    let twos_of = |value: &Value| match value {
        Value::Int(number) if *number > 0 => Some(number.trailing_zeros()),
        _ => None,
    };
    let twos: Vec<u32> = values.iter().map(twos_of).collect::<Option<_>>()?;
    let ascending = space.ascending(tunable)?;
    let follows_from_rank =
        ascending.windows(2).all(|pair| twos[usize::from(pair[0])] < twos[usize::from(pair[1])]);
    let mut distinct = twos.clone();
    distinct.sort_unstable();
    distinct.dedup();
    if follows_from_rank || values.len() < 3 || distinct.len() < 2 {
        return None;
    }
    let level = |twos: &u32| distinct.partition_point(|listed| listed < twos) as u8;
    let levels = twos.iter().map(level).collect();
    Some(Dimension { tunable, levels, count: distinct.len(), is_ordered: true })
}

#[cfg(test)]
mod tests {
    use warpsmith_model::lab::Tunable;

    use super::*;

    fn check(values: Vec<Value>, expected: &[&[u8]]) {
        let tunables = [Tunable { name: "A".to_string(), values }];
        let space = Space::new(&tunables, &[], &|_| None).expect("a space");
        let features = Features::of(&space);
        let found: Vec<&[u8]> = features.dimensions.iter().map(|d| d.levels.as_slice()).collect();
        assert_eq!(found, expected, "{tunables:?}");
    }

    #[test]
    fn values_become_ranks_and_evenness_where_that_says_more() {
        let ints = |values: &[i64]| values.iter().copied().map(Value::Int).collect();
        check(ints(&[1]), &[]);
        check(ints(&[4, 1, 2]), &[&[2, 0, 1]]);
        check(ints(&[16, 32, 48, 64]), &[&[0, 1, 2, 3], &[0, 1, 0, 2]]);
        check(ints(&[0, 1, 2]), &[&[0, 1, 2]]);
        check(vec![Value::Str("b".into()), Value::Str("a".into())], &[&[0, 1]]);
        let many: Vec<i64> = (0..1000).map(|idx| 2 * idx + 1).collect();
        let levels: Vec<u8> = (0..1000).map(|idx| (idx * 64 / 1000) as u8).collect();
        check(ints(&many), &[&levels]);
    }
}
