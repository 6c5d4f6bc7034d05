//! The space of parameters that a kernel's tunables span.

use super::Tunable;
use crate::{Expr, Value};

/// Spaces beyond this are not searched while a lab is loaded.
const MAX_CONFIGURATIONS: u128 = 1_000_000;

/// Whether any configuration satisfies all constraints.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Emptiness {
    /// Some configuration does.
    NotEmpty,
    /// None satisfies the constraint with this index.
    Because(usize),
    /// Each constraint is satisfied by some, but no configuration by all.
    Together,
    /// There are too many configurations to look at.
    TooLargeToTell,
}

/// Returns the number of configurations before constraints.
pub(super) fn cartesian(tunables: &[Tunable]) -> u128 {
    tunables
        .iter()
        .fold(1u128, |product, tunable| product.saturating_mul(tunable.values.len() as u128))
}

/// Finds out whether any configuration satisfies all constraints. A constraint that has no value
/// on a configuration is not satisfied by it.
pub(super) fn emptiness(tunables: &[Tunable], constraints: &[&Expr]) -> Emptiness {
    if cartesian(tunables) > MAX_CONFIGURATIONS {
        return Emptiness::TooLargeToTell;
    }
    let alone = constraints.iter().position(|constraint| !is_satisfiable(tunables, &[constraint]));
    match alone {
        Some(culprit) => Emptiness::Because(culprit),
        None if is_satisfiable(tunables, constraints) => Emptiness::NotEmpty,
        None => Emptiness::Together,
    }
}

/// Walks over the values of the tunables that the constraints mention, and no others, until a
/// configuration satisfies all constraints.
fn is_satisfiable(tunables: &[Tunable], constraints: &[&Expr]) -> bool {
    let mentioned: Vec<&Tunable> = tunables
        .iter()
        .filter(|tunable| {
            constraints.iter().any(|expr| expr.names().contains(&tunable.name.as_str()))
        })
        .collect();
    if mentioned.iter().any(|tunable| tunable.values.is_empty()) {
        return false;
    }
    let position_of = |name: &str| mentioned.iter().position(|tunable| tunable.name == name);
    let positions: Vec<Vec<Option<usize>>> = constraints
        .iter()
        .map(|expr| expr.names().into_iter().map(position_of).collect())
        .collect();
    let mut digits = vec![0usize; mentioned.len()];
    loop {
        let holds = |(expr, positions): (&&Expr, &Vec<Option<usize>>)| {
            let values: Option<Vec<Value>> = positions
                .iter()
                .map(|position| position.map(|at| mentioned[at].values[digits[at]].clone()))
                .collect();
            values.is_some_and(|values| expr.eval_bool_with(&values) == Ok(true))
        };
        if constraints.iter().zip(&positions).all(holds) {
            return true;
        }
        // The digits count through all combinations, the last one fastest.
        let Some(idx) =
            (0..digits.len()).rev().find(|idx| digits[*idx] + 1 < mentioned[*idx].values.len())
        else {
            return false;
        };
        digits[idx] += 1;
        digits[idx + 1..].fill(0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(constraints: &[&str], expected: Emptiness) {
        let values = |values: &[i64]| values.iter().copied().map(Value::Int).collect();
        let tunables = [
            Tunable { name: "A".to_string(), values: values(&[1, 2, 3]) },
            Tunable { name: "B".to_string(), values: values(&[0, 10]) },
            Tunable { name: "UNUSED".to_string(), values: values(&[5]) },
        ];
        let exprs: Vec<Expr> =
            constraints.iter().map(|text| Expr::parse(text).expect("valid")).collect();
        let exprs: Vec<&Expr> = exprs.iter().collect();
        assert_eq!(emptiness(&tunables, &exprs), expected, "for {constraints:?}");
    }

    #[test]
    fn an_empty_space_names_its_cause() {
        check(&[], Emptiness::NotEmpty);
        check(&["A > 2", "B == 10"], Emptiness::NotEmpty);
        check(&["A > 1", "A > 3"], Emptiness::Because(1));
        check(&["A > 2", "A < 2"], Emptiness::Together);
        check(&["A // B > 5"], Emptiness::Because(0));
        check(&["False"], Emptiness::Because(0));
    }
}
