//! Building a space: validation, grouping and enumeration.

use std::collections::BTreeMap;

use warpsmith_model::lab::Tunable;
use warpsmith_model::rng::Rng;
use warpsmith_model::{EvalError, Expr, Params, Value};

use super::order::{Filter, best_order};
use super::{Group, Point, Space, SpaceError, TunableColumn};

/// The most value indices that one group may store: half a gibibyte.
const MAX_STORED: usize = 1 << 28;

/// Constraints over at most this many combinations remember their answers, one byte each.
const MAX_REMEMBERED: usize = 1 << 20;

/// Combinations tried to estimate how much a constraint excludes.
const ESTIMATE_SAMPLES: usize = 128;

/// A group of at most this many combinations is walked in the order of its tunables: to find a better order
/// takes longer than to try all of them.
const FEW_COMBINATIONS: usize = 4 * ESTIMATE_SAMPLES;

pub(super) fn space(
    tunables: &[Tunable],
    constraints: &[Expr],
    constants: &dyn Fn(&str) -> Option<Value>,
) -> Result<Space, SpaceError> {
    let cartesian = validate(tunables)?;
    let mut constraints = resolve(tunables, constraints, constants)?;
    refuse_unsatisfiable(tunables, &mut constraints)?;

    let mut groups = Vec::new();
    let mut places = vec![None; tunables.len()];
    let mut len = 1;
    for members in connected(tunables, &constraints) {
        let own: Vec<Constraint> =
            constraints.extract_if(.., |constraint| constraint.touches(&members)).collect();
        let group = enumerate(tunables, &members, own)?;
        for (column, tunable) in group.columns.iter().enumerate() {
            places[*tunable] = Some(TunableColumn { group: groups.len(), column });
        }
        // Cannot overflow: there are at most as many valid configurations as configurations.
        len *= group.len() as u128;
        groups.push(group);
    }
    let ascending = tunables.iter().map(|tunable| ascending(&tunable.values)).collect();
    Ok(Space { tunables: tunables.to_vec(), ascending, groups, places, cartesian, len })
}

/// Makes the space of exactly the points that are listed, in any order and without repetition.
pub(super) fn listed(tunables: &[Tunable], points: &[Point]) -> Result<Space, SpaceError> {
    let cartesian = validate(tunables)?;
    let columns: Vec<usize> =
        (0..tunables.len()).filter(|idx| tunables[*idx].values.len() > 1).collect();
    if points.is_empty() {
        return Err(SpaceError::Empty { constraints: vec!["the list".to_string()] });
    }
    let mut places = vec![None; tunables.len()];
    let mut groups = Vec::new();
    let mut len = 1;
    if !columns.is_empty() {
        let mut rows: Vec<Vec<u16>> = points
            .iter()
            .map(|point| columns.iter().map(|column| point[*column]).collect())
            .collect();
        rows.sort_unstable();
        rows.dedup();
        len = rows.len() as u128;
        for (column, tunable) in columns.iter().enumerate() {
            places[*tunable] = Some(TunableColumn { group: 0, column });
        }
        groups.push(Group { columns, rows: rows.concat() });
    }
    let ascending = tunables.iter().map(|tunable| ascending(&tunable.values)).collect();
    Ok(Space { tunables: tunables.to_vec(), ascending, groups, places, cartesian, len })
}

/// Checks the tunables alone and returns the size of their product.
fn validate(tunables: &[Tunable]) -> Result<u128, SpaceError> {
    let mut cartesian: u128 = 1;
    for (idx, Tunable { name, values }) in tunables.iter().enumerate() {
        let tunable = || name.clone();
        if tunables[..idx].iter().any(|earlier| earlier.name == *name) {
            return Err(SpaceError::DuplicateTunable { tunable: tunable() });
        }
        if values.is_empty() {
            return Err(SpaceError::NoValues { tunable: tunable() });
        }
        if values.len() > usize::from(u16::MAX) + 1 {
            return Err(SpaceError::TooManyValues { tunable: tunable(), count: values.len() });
        }
        if values.iter().any(|value| matches!(value, Value::Float(number) if number.is_nan())) {
            return Err(SpaceError::NotANumber { tunable: tunable() });
        }
        if let Some(value) = first_duplicate(values) {
            return Err(SpaceError::DuplicateValue { tunable: tunable(), value: value.clone() });
        }
        cartesian =
            cartesian.checked_mul(values.len() as u128).ok_or_else(|| SpaceError::TooLarge {
                what: "its tunables have 2^128 combinations or more".to_string(),
            })?;
    }
    Ok(cartesian)
}

fn first_duplicate(values: &[Value]) -> Option<&Value> {
    let mut sorted: Vec<&Value> = values.iter().collect();
    // `Value` is ordered once NaN is excluded.
    sorted.sort_by(|a, b| a.partial_cmp(b).unwrap_or(std::cmp::Ordering::Equal));
    sorted.windows(2).find(|pair| pair[0] == pair[1]).map(|pair| pair[0])
}

/// Returns the value indices from least to greatest number; none when some value is no number.
fn ascending(values: &[Value]) -> Option<Vec<u16>> {
    let numbers: Option<Vec<f64>> = values.iter().map(Value::as_f64).collect();
    let numbers = numbers?;
    let mut order: Vec<u16> = (0..numbers.len() as u32).map(|idx| idx as u16).collect();
    order.sort_by(|a, b| numbers[usize::from(*a)].total_cmp(&numbers[usize::from(*b)]));
    Some(order)
}

/// A constraint whose constants are bound and that knows which arguments vary.
struct Constraint<'a> {
    expr: &'a Expr,
    /// The values of its names, in the expression's own order.
    arguments: Vec<Value>,
    /// The same where all of them are integers, whatever the tunables are; else empty.
    integers: Vec<i64>,
    /// The arguments that are tunables with a choice.
    varying: Vec<Varying>,
    /// The arguments that are tunables at all, for messages.
    mentions: Vec<usize>,
    /// The answers so far, by combination of the varying tunables; empty when they are too many.
    remembered: Vec<Answer>,
}

#[derive(Clone, Copy)]
struct Varying {
    argument: usize,
    tunable: usize,
    /// How far apart two neighbouring values are in `remembered`.
    stride: usize,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Answer {
    Unasked,
    Passes,
    Excludes,
    Undecidable,
}

impl Constraint<'_> {
    fn touches(&self, members: &[usize]) -> bool {
        self.varying.iter().any(|varying| members.contains(&varying.tunable))
    }

    /// Answers for the current point.
    fn answer(&mut self, tunables: &[Tunable], point: &[u16]) -> Answer {
        let key: usize = self
            .varying
            .iter()
            .map(|varying| usize::from(point[varying.tunable]) * varying.stride)
            .sum();
        match self.remembered.get(key) {
            Some(Answer::Unasked) => {
                let answer = self.ask(tunables, point);
                self.remembered[key] = answer;
                answer
            }
            Some(known) => *known,
            None => self.ask(tunables, point),
        }
    }

    fn ask(&mut self, tunables: &[Tunable], point: &[u16]) -> Answer {
        match self.ask_integers(tunables, point) {
            Some(true) => return Answer::Passes,
            Some(false) => return Answer::Excludes,
            None => {}
        }
        match self.evaluate(tunables, point) {
            Ok(true) => Answer::Passes,
            Ok(false) => Answer::Excludes,
            Err(_) => Answer::Undecidable,
        }
    }

    /// Answers quickly, where that can be done.
    fn ask_integers(&mut self, tunables: &[Tunable], point: &[u16]) -> Option<bool> {
        if self.integers.is_empty() {
            return None;
        }
        for Varying { argument, tunable, .. } in &self.varying {
            match tunables[*tunable].values[usize::from(point[*tunable])] {
                Value::Int(value) => self.integers[*argument] = value,
                _ => return None,
            }
        }
        self.expr.eval_bool_integers(&self.integers)
    }

    fn evaluate(&mut self, tunables: &[Tunable], point: &[u16]) -> Result<bool, EvalError> {
        for Varying { argument, tunable, .. } in &self.varying {
            let value = &tunables[*tunable].values[usize::from(point[*tunable])];
            self.arguments[*argument].clone_from(value);
        }
        self.expr.eval_bool_with(&self.arguments)
    }

    /// Says why the constraint has no value at a point.
    fn undecidable(&mut self, tunables: &[Tunable], point: &[u16]) -> SpaceError {
        let source = self.evaluate(tunables, point).expect_err("it had no value a moment ago");
        let mentioned = self.mentions.iter().map(|idx| {
            let Tunable { name, values } = &tunables[*idx];
            (name.clone(), values[usize::from(point[*idx])].clone())
        });
        let params = mentioned.collect::<Params>();
        SpaceError::Undecidable { constraint: self.expr.text().to_string(), params, source }
    }
}

/// Binds every name of every constraint.
fn resolve<'a>(
    tunables: &[Tunable],
    constraints: &'a [Expr],
    constants: &dyn Fn(&str) -> Option<Value>,
) -> Result<Vec<Constraint<'a>>, SpaceError> {
    let by_name: BTreeMap<&str, usize> =
        tunables.iter().enumerate().map(|(idx, tunable)| (tunable.name.as_str(), idx)).collect();
    let resolve_one = |expr: &'a Expr| {
        let mut arguments = Vec::new();
        let mut varying = Vec::new();
        let mut mentions = Vec::new();
        let mut combinations: usize = 1;
        for (argument, name) in expr.names().into_iter().enumerate() {
            if let Some(tunable) = by_name.get(name).copied() {
                let values = &tunables[tunable].values;
                arguments.push(values[0].clone());
                mentions.push(tunable);
                if values.len() > 1 {
                    varying.push(Varying { argument, tunable, stride: combinations });
                    combinations = combinations.saturating_mul(values.len());
                }
            } else if let Some(value) = constants(name) {
                arguments.push(value);
            } else {
                return Err(SpaceError::UnknownName {
                    constraint: expr.text().to_string(),
                    name: name.to_string(),
                });
            }
        }
        let mut remembered = Vec::new();
        if combinations <= MAX_REMEMBERED {
            remembered.resize(combinations, Answer::Unasked);
        } else {
            // Nothing to look up; a product of sizes that overflowed must not become an index.
            varying.iter_mut().for_each(|varying| varying.stride = 0);
        }
        let integer = |value: &Value| match value {
            Value::Int(value) => Some(*value),
            _ => None,
        };
        let integers: Option<Vec<i64>> = arguments.iter().map(integer).collect();
        let integers = integers.unwrap_or_default();
        Ok(Constraint { expr, arguments, integers, varying, mentions, remembered })
    };
    constraints.iter().map(resolve_one).collect()
}

/// Decides the constraints that have no choice and takes them off the list.
fn refuse_unsatisfiable(
    tunables: &[Tunable],
    constraints: &mut Vec<Constraint<'_>>,
) -> Result<(), SpaceError> {
    let point = vec![0; tunables.len()];
    let fixed: Vec<Constraint> =
        constraints.extract_if(.., |constraint| constraint.varying.is_empty()).collect();
    let mut undecidable = None;
    for mut constraint in fixed {
        match constraint.answer(tunables, &point) {
            Answer::Passes | Answer::Unasked => {}
            Answer::Excludes => {
                return Err(SpaceError::Empty {
                    constraints: vec![constraint.expr.text().to_string()],
                });
            }
            Answer::Undecidable => undecidable = undecidable.or(Some(constraint)),
        }
    }
    undecidable.map_or(Ok(()), |mut constraint| Err(constraint.undecidable(tunables, &point)))
}

/// Returns the sets of tunables that constraints tie together; tunables without a choice are in
/// none of them. Sets are ordered by their first tunable, and sorted.
fn connected(tunables: &[Tunable], constraints: &[Constraint<'_>]) -> Vec<Vec<usize>> {
    let mut label: Vec<usize> = (0..tunables.len()).collect();
    for constraint in constraints {
        let labels: Vec<usize> =
            constraint.varying.iter().map(|varying| label[varying.tunable]).collect();
        let least = labels.iter().copied().min().expect("only constraints with a choice are left");
        label.iter_mut().filter(|own| labels.contains(own)).for_each(|own| *own = least);
    }
    let mut sets: BTreeMap<usize, Vec<usize>> = BTreeMap::new();
    for (idx, tunable) in tunables.iter().enumerate() {
        if tunable.values.len() > 1 {
            sets.entry(label[idx]).or_default().push(idx);
        }
    }
    sets.into_values().collect()
}

/// Finds the valid combinations of a group.
fn enumerate(
    tunables: &[Tunable],
    members: &[usize],
    mut constraints: Vec<Constraint<'_>>,
) -> Result<Group, SpaceError> {
    let sizes = members.iter().map(|idx| tunables[*idx].values.len());
    let columns = if sizes.fold(1, usize::saturating_mul) <= FEW_COMBINATIONS {
        members.to_vec()
    } else {
        binding_order(tunables, members, &mut constraints)
    };
    let depth_of = |varying: &Varying| columns.iter().position(|idx| *idx == varying.tunable);
    let mut by_depth: Vec<Vec<Constraint>> = columns.iter().map(|_| Vec::new()).collect();
    let texts: Vec<&str> = constraints.iter().map(|constraint| constraint.expr.text()).collect();
    for constraint in constraints {
        let last = constraint.varying.iter().filter_map(depth_of).max();
        by_depth[last.expect("a group's constraint mentions the group")].push(constraint);
    }
    let mut search = Search {
        tunables,
        columns: &columns,
        constraints: by_depth,
        point: vec![0; tunables.len()],
        undecided: None,
        rows: Vec::new(),
    };
    search.descend(0)?;
    let rows = search.rows;
    if rows.is_empty() {
        let constraints = texts.into_iter().map(str::to_string).collect();
        return Err(SpaceError::Empty { constraints });
    }
    Ok(Group { columns, rows })
}

fn binding_order(
    tunables: &[Tunable],
    members: &[usize],
    constraints: &mut [Constraint<'_>],
) -> Vec<usize> {
    let bit = |tunable: usize| members.iter().position(|idx| *idx == tunable);
    let mut rng = Rng::derive(0, "binding order");
    let mut point = vec![0; tunables.len()];
    let mut filters = Vec::new();
    for constraint in constraints {
        let mut passed = 0;
        for _ in 0..ESTIMATE_SAMPLES {
            for varying in &constraint.varying {
                point[varying.tunable] = rng.below(tunables[varying.tunable].values.len()) as u16;
            }
            passed += usize::from(constraint.answer(tunables, &point) != Answer::Excludes);
        }
        // Laplace's rule of succession: never seen to pass is not the same as impossible.
        let passes = (passed + 1) as f64 / (ESTIMATE_SAMPLES + 2) as f64;
        let needs = constraint.varying.iter().filter_map(|varying| bit(varying.tunable));
        filters.push(Filter { needs: needs.fold(0, |bits, idx| bits | 1 << idx), passes });
    }
    let sizes: Vec<usize> = members.iter().map(|idx| tunables[*idx].values.len()).collect();
    best_order(&sizes, &filters).into_iter().map(|idx| members[idx]).collect()
}

/// A depth-first walk over the partial configurations of one group.
struct Search<'a> {
    tunables: &'a [Tunable],
    columns: &'a [usize],
    /// By depth: the constraints whose last tunable is bound there.
    constraints: Vec<Vec<Constraint<'a>>>,
    point: Vec<u16>,
    /// The first constraint on the current path that has no value, as depth and place. It matters
    /// only when no constraint further down excludes the configuration.
    undecided: Option<(usize, usize)>,
    rows: Vec<u16>,
}

impl Search<'_> {
    fn descend(&mut self, depth: usize) -> Result<(), SpaceError> {
        let Some(tunable) = self.columns.get(depth).copied() else {
            return self.keep();
        };
        for value in 0..self.tunables[tunable].values.len() {
            self.point[tunable] = value as u16;
            if self.passes(depth) {
                self.descend(depth + 1)?;
            }
            if self.undecided.is_some_and(|(found_at, _)| found_at == depth) {
                self.undecided = None;
            }
        }
        Ok(())
    }

    /// Says whether the constraints that are decided at this depth let the point pass.
    fn passes(&mut self, depth: usize) -> bool {
        for (place, constraint) in self.constraints[depth].iter_mut().enumerate() {
            match constraint.answer(self.tunables, &self.point) {
                Answer::Passes | Answer::Unasked => {}
                Answer::Excludes => return false,
                Answer::Undecidable => self.undecided = self.undecided.or(Some((depth, place))),
            }
        }
        true
    }

    fn keep(&mut self) -> Result<(), SpaceError> {
        if let Some((depth, place)) = self.undecided {
            return Err(self.constraints[depth][place].undecidable(self.tunables, &self.point));
        }
        if self.rows.len() + self.columns.len() > MAX_STORED {
            let names: Vec<&str> =
                self.columns.iter().map(|idx| self.tunables[*idx].name.as_str()).collect();
            let count = MAX_STORED / self.columns.len();
            let what = format!("more than {count} combinations of {} are valid", names.join(", "));
            return Err(SpaceError::TooLarge { what });
        }
        self.rows.extend(self.columns.iter().map(|idx| self.point[*idx]));
        Ok(())
    }
}
