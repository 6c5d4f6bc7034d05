//! The set of a kernel's valid configurations.
//!
//! Tunables that share a constraint form a group; groups are independent of each other, so the
//! space is the product of its groups. Only the valid combinations of each group are stored, as
//! rows of value indices in lexicographic order. Counting is then a product, `get` is a division
//! per group, `index_of` a binary search per group, and sampling one draw per group; a space of
//! billions costs the memory of its largest groups.
//!
//! The order of the configurations (what `get` counts in) is fixed for given tunables and
//! constraints, but otherwise unspecified.

mod build;
mod order;

use std::fmt;

use warpsmith_model::lab::Tunable;
use warpsmith_model::rng::Rng;
use warpsmith_model::{EvalError, Expr, Params, Value};

/// The valid configurations of a kernel: at least one.
#[derive(Clone)]
pub struct Space {
    tunables: Vec<Tunable>,
    /// By tunable: its value indices from least to greatest; none when not all of its values are
    /// numbers, so that none is next to another.
    ascending: Vec<Option<Vec<u16>>>,
    groups: Vec<Group>,
    /// By tunable: its group and its column there; none for a tunable with a single value.
    places: Vec<Option<TunableColumn>>,
    cartesian: u128,
    len: u128,
}

/// A configuration as value indices, by tunable. Strategies compute with these.
pub(crate) type Point = Vec<u16>;

/// The valid combinations of tunables that constraints tie together.
#[derive(Clone, Debug)]
struct Group {
    /// The tunable of each column.
    columns: Vec<usize>,
    /// Rows of value indices, one after the other, in lexicographic order.
    rows: Vec<u16>,
}

#[derive(Clone, Copy, Debug)]
struct TunableColumn {
    group: usize,
    column: usize,
}

/// Which configurations are next to a configuration.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Neighbourhood {
    /// Those that differ in the value of one tunable.
    Any,
    /// Those that differ in one tunable by the nearest greater or the nearest lesser value that is
    /// valid there. For tunables that are not numbers, by any value.
    Adjacent,
}

/// Why tunables and constraints do not make a space.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum SpaceError {
    /// Two tunables share a name.
    #[error("the tunable `{tunable}` is listed twice")]
    DuplicateTunable {
        /// The name.
        tunable: String,
    },
    /// A tunable has nothing to choose from.
    #[error("the tunable `{tunable}` has no values")]
    NoValues {
        /// The name.
        tunable: String,
    },
    /// A tunable has more values than a space can index.
    #[error("the tunable `{tunable}` has {count} values; at most 65536 are supported")]
    TooManyValues {
        /// The name.
        tunable: String,
        /// How many.
        count: usize,
    },
    /// A value is listed twice.
    #[error("the tunable `{tunable}` lists the value `{value}` twice")]
    DuplicateValue {
        /// The name.
        tunable: String,
        /// The value.
        value: Value,
    },
    /// A value that is not equal to itself could never be looked up.
    #[error("the tunable `{tunable}` lists a value that is not a number")]
    NotANumber {
        /// The name.
        tunable: String,
    },
    /// A constraint mentions something that is neither a tunable nor a constant.
    #[error("the constraint `{constraint}` mentions `{name}`, which is no tunable and no constant")]
    UnknownName {
        /// The constraint.
        constraint: String,
        /// The name.
        name: String,
    },
    /// A constraint has no value for a configuration that no other constraint excludes.
    #[error("the constraint `{constraint}` cannot be decided for {params}")]
    Undecidable {
        /// The constraint.
        constraint: String,
        /// The values of the tunables that it mentions.
        params: Params,
        /// Why it has no value.
        #[source]
        source: EvalError,
    },
    /// Nothing is valid.
    #[error("no configuration satisfies {}", quoted(.constraints))]
    Empty {
        /// The constraints that cannot be satisfied together.
        constraints: Vec<String>,
    },
    /// More configurations than can be counted or stored.
    #[error("the space is too large: {what}")]
    TooLarge {
        /// What exceeds which limit.
        what: String,
    },
}

impl Space {
    /// Builds the space of the configurations that satisfy every constraint. Names in constraints
    /// are tunables or else `constants`.
    ///
    /// A constraint that has no value for some configuration (a division by zero, say) is an error
    /// unless another constraint excludes that configuration.
    pub fn new(
        tunables: &[Tunable],
        constraints: &[Expr],
        constants: &dyn Fn(&str) -> Option<Value>,
    ) -> Result<Self, SpaceError> {
        build::space(tunables, constraints, constants)
    }

    /// Builds the space of exactly the points that are listed: value indices, by tunable.
    pub(crate) fn listed(tunables: &[Tunable], points: &[Point]) -> Result<Self, SpaceError> {
        build::listed(tunables, points)
    }

    /// Returns the tunables, in the order they were given.
    pub fn tunables(&self) -> &[Tunable] {
        &self.tunables
    }

    /// Returns the number of configurations before constraints.
    pub fn cartesian(&self) -> u128 {
        self.cartesian
    }

    /// Returns the number of valid configurations, which is at least 1.
    #[expect(clippy::len_without_is_empty, reason = "a space is never empty")]
    pub fn len(&self) -> u128 {
        self.len
    }

    /// Returns the configuration at an index; none at or beyond the length.
    pub fn get(&self, index: u128) -> Option<Params> {
        (index < self.len).then(|| self.params_of(&self.point_at(index)))
    }

    /// Returns the index of a configuration; none when it is not valid.
    pub fn index_of(&self, params: &Params) -> Option<u128> {
        self.index_of_point(&self.point_of(params)?)
    }

    /// Says whether a configuration is valid: it names every tunable and nothing else, with values
    /// that are listed and that satisfy the constraints together.
    pub fn contains(&self, params: &Params) -> bool {
        self.index_of(params).is_some()
    }

    /// Draws a configuration; all are equally likely.
    pub fn sample(&self, rng: &mut Rng) -> Params {
        self.params_of(&self.random_point(rng))
    }

    /// Draws a point; all valid ones are equally likely.
    pub(crate) fn random_point(&self, rng: &mut Rng) -> Point {
        let mut point = self.blank();
        for group in &self.groups {
            group.copy_row(rng.below(group.len()), &mut point);
        }
        point
    }

    /// Returns a tunable's value indices from least to greatest; none when not all are numbers.
    pub(crate) fn ascending(&self, tunable: usize) -> Option<&[u16]> {
        self.ascending[tunable].as_deref()
    }

    /// Goes through all configurations in the order of their indices.
    pub fn iter(&self) -> impl Iterator<Item = Params> {
        (0..self.len).map(|index| self.params_of(&self.point_at(index)))
    }

    /// Returns the valid configurations next to one; none when that one is not valid itself.
    pub fn neighbours(&self, params: &Params, neighbourhood: Neighbourhood) -> Vec<Params> {
        let point = self.point_of(params).filter(|point| self.index_of_point(point).is_some());
        let Some(mut point) = point else {
            return Vec::new();
        };
        let mut found = Vec::new();
        for tunable in 0..self.tunables.len() {
            let value = point[tunable];
            for alternative in self.alternatives(&point, tunable, neighbourhood) {
                point[tunable] = alternative;
                found.push(self.params_of(&point));
            }
            point[tunable] = value;
        }
        found
    }

    /// Returns the indices of the valid points next to a valid point.
    pub(crate) fn neighbour_indices(
        &self,
        point: &[u16],
        neighbourhood: Neighbourhood,
    ) -> Vec<u128> {
        let mut moved = point.to_vec();
        let mut found = Vec::new();
        for tunable in 0..point.len() {
            for alternative in self.alternatives(point, tunable, neighbourhood) {
                moved[tunable] = alternative;
                found.extend(self.index_of_point(&moved));
            }
            moved[tunable] = point[tunable];
        }
        found
    }

    /// Returns the other values of one tunable for which a valid point stays valid.
    pub(crate) fn alternatives(
        &self,
        point: &[u16],
        tunable: usize,
        neighbourhood: Neighbourhood,
    ) -> Vec<u16> {
        let Some(TunableColumn { group, column }) = self.places[tunable] else {
            return Vec::new();
        };
        let group = &self.groups[group];
        let mut row = group.row_of(point);
        let current = row[column];
        let mut is_valid = |value: &u16| {
            row[column] = *value;
            group.position(&row).is_some()
        };
        match (&self.ascending[tunable], neighbourhood) {
            (Some(ascending), Neighbourhood::Adjacent) => {
                let rank = ascending.iter().position(|value| *value == current);
                let rank = rank.expect("every value has a rank");
                let lesser = ascending[..rank].iter().rev().copied().find(&mut is_valid);
                let greater = ascending[rank + 1..].iter().copied().find(&mut is_valid);
                lesser.into_iter().chain(greater).collect()
            }
            _ => (0..self.tunables[tunable].values.len() as u32)
                .map(|value| value as u16)
                .filter(|value| *value != current)
                .filter(is_valid)
                .collect(),
        }
    }

    /// Returns the sets of tunables whose values can be exchanged between two valid points without
    /// leaving the space.
    pub(crate) fn independent_sets(&self) -> impl ExactSizeIterator<Item = &[usize]> {
        self.groups.iter().map(|group| group.columns.as_slice())
    }

    /// Gives the tunables of one independent set new values, all valid ones equally likely.
    pub(crate) fn redraw(&self, rng: &mut Rng, set: usize, point: &mut [u16]) {
        let group = &self.groups[set];
        group.copy_row(rng.below(group.len()), point);
    }

    /// Says whether a point is valid as far as one independent set is concerned.
    pub(crate) fn is_valid_in(&self, set: usize, point: &[u16]) -> bool {
        let group = &self.groups[set];
        group.position(&group.row_of(point)).is_some()
    }

    /// Returns the point at an index, which must be below the length.
    pub(crate) fn point_at(&self, mut index: u128) -> Point {
        debug_assert!(index < self.len, "an index beyond the space");
        let mut point = self.blank();
        for group in self.groups.iter().rev() {
            let len = group.len() as u128;
            group.copy_row((index % len) as usize, &mut point);
            index /= len;
        }
        point
    }

    /// Returns the index of a point; none when it is not valid.
    pub(crate) fn index_of_point(&self, point: &[u16]) -> Option<u128> {
        self.groups.iter().try_fold(0, |index, group| {
            let position = group.position(&group.row_of(point))?;
            Some(index * group.len() as u128 + position as u128)
        })
    }

    /// Returns the parameters that a point stands for.
    pub(crate) fn params_of(&self, point: &[u16]) -> Params {
        let pairs = self.tunables.iter().zip(point);
        pairs.map(|(t, idx)| (t.name.clone(), t.values[usize::from(*idx)].clone())).collect()
    }

    /// Returns the point of parameters, valid or not; none when they do not name exactly the
    /// tunables, with listed values.
    pub(crate) fn point_of(&self, params: &Params) -> Option<Point> {
        if params.0.len() != self.tunables.len() {
            return None;
        }
        let index_of_value = |tunable: &Tunable| {
            let value = params.get(&tunable.name)?;
            tunable.values.iter().position(|listed| listed == value).map(|idx| idx as u16)
        };
        self.tunables.iter().map(index_of_value).collect()
    }

    fn blank(&self) -> Point {
        vec![0; self.tunables.len()]
    }
}

impl fmt::Debug for Space {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // The rows may be millions; their number is what a reader wants.
        f.debug_struct("Space")
            .field("tunables", &self.tunables.len())
            .field("cartesian", &self.cartesian)
            .field("len", &self.len)
            .finish_non_exhaustive()
    }
}

impl Group {
    fn len(&self) -> usize {
        self.rows.len() / self.columns.len()
    }

    fn row(&self, position: usize) -> &[u16] {
        let width = self.columns.len();
        &self.rows[position * width..(position + 1) * width]
    }

    fn copy_row(&self, position: usize, point: &mut [u16]) {
        for (column, value) in self.columns.iter().zip(self.row(position)) {
            point[*column] = *value;
        }
    }

    fn row_of(&self, point: &[u16]) -> Vec<u16> {
        self.columns.iter().map(|column| point[*column]).collect()
    }

    fn position(&self, row: &[u16]) -> Option<usize> {
        let (mut low, mut high) = (0, self.len());
        while low < high {
            let mid = low + (high - low) / 2;
            match self.row(mid).cmp(row) {
                std::cmp::Ordering::Less => low = mid + 1,
                std::cmp::Ordering::Greater => high = mid,
                std::cmp::Ordering::Equal => return Some(mid),
            }
        }
        None
    }
}

fn quoted(texts: &[String]) -> String {
    let quoted: Vec<String> = texts.iter().map(|text| format!("`{text}`")).collect();
    quoted.join(" and ")
}
