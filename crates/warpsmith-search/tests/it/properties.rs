//! A space is what brute force says it is.

use std::collections::HashSet;

use proptest::prelude::*;
use warpsmith_model::lab::Tunable;
use warpsmith_model::rng::Rng;
use warpsmith_model::{Expr, Params, Value};
use warpsmith_search::{Neighbourhood, Space, SpaceError};

const NAMES: [&str; 5] = ["A", "B", "C", "D", "E"];

/// What one configuration is, by trying every constraint on it.
#[derive(Debug, PartialEq)]
enum Status {
    Valid,
    Excluded,
    Undecidable,
}

fn status(params: &Params, constraints: &[Expr]) -> Status {
    let lookup = |name: &str| params.get(name).cloned();
    let answers: Vec<_> = constraints.iter().map(|expr| expr.eval_bool(&lookup)).collect();
    if answers.contains(&Ok(false)) {
        Status::Excluded
    } else if answers.iter().any(Result::is_err) {
        Status::Undecidable
    } else {
        Status::Valid
    }
}

fn brute_force(tunables: &[Tunable]) -> Vec<Params> {
    let mut all = vec![Params::default()];
    for tunable in tunables {
        let extend = |params: &Params| {
            let extended = tunable.values.iter().map(|value| {
                let mut params = params.clone();
                params.0.insert(tunable.name.clone(), value.clone());
                params
            });
            extended.collect::<Vec<Params>>()
        };
        all = all.iter().flat_map(extend).collect();
    }
    all
}

fn tunables() -> impl Strategy<Value = Vec<Tunable>> {
    let values = proptest::collection::hash_set(0i64..9, 1..5);
    proptest::collection::vec(values, 1..=NAMES.len()).prop_map(|lists| {
        let named = NAMES.iter().zip(lists);
        named
            .map(|(name, values)| {
                let mut values: Vec<i64> = values.into_iter().collect();
                values.sort_unstable();
                Tunable {
                    name: name.to_string(),
                    values: values.into_iter().map(Value::Int).collect(),
                }
            })
            .collect()
    })
}

/// Constraints over the first `n` names, some of which divide by zero for some values.
fn constraints(n: usize) -> impl Strategy<Value = Vec<Expr>> {
    let one = (0..8usize, 0..n, 0..n, 0..n, 0i64..12).prop_map(|(form, a, b, c, limit)| {
        let (a, b, c) = (NAMES[a], NAMES[b], NAMES[c]);
        let text = match form {
            0 => format!("{a} + {b} >= {limit}"),
            1 => format!("{a} * {b} * {c} <= {limit} * 4"),
            2 => format!("{a} % {b} == 0"),
            3 => format!("{b} != 0"),
            4 => format!("{a} != {limit} or {b} <= {c}"),
            5 => format!("({a} + {limit}) // {b} < 6"),
            6 => format!("{a} <= {b} < {c} + 5"),
            _ => format!("{limit} > 1"),
        };
        Expr::parse(&text).expect("an expression")
    });
    proptest::collection::vec(one, 0..4)
}

fn cases() -> impl Strategy<Value = (Vec<Tunable>, Vec<Expr>)> {
    tunables().prop_flat_map(|tunables| {
        let n = tunables.len();
        (Just(tunables), constraints(n))
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 512, ..ProptestConfig::default() })]

    #[test]
    fn a_space_equals_brute_force((tunables, constraints) in cases()) {
        let all = brute_force(&tunables);
        let statuses: Vec<Status> = all.iter().map(|params| status(params, &constraints)).collect();
        let space = match Space::new(&tunables, &constraints, &|_| None) {
            Ok(space) => space,
            Err(SpaceError::Undecidable { constraint, params, .. }) => {
                let expr = Expr::parse(&constraint).expect("it was parsed before");
                prop_assert!(expr.eval_bool(&|name| params.get(name).cloned()).is_err());
                // A group that is empty may leave another group's trouble without consequence.
                prop_assert!(!statuses.contains(&Status::Valid) || statuses.contains(&Status::Undecidable));
                return Ok(());
            }
            Err(SpaceError::Empty { .. }) => {
                prop_assert!(!statuses.contains(&Status::Valid), "{constraints:?}");
                return Ok(());
            }
            Err(other) => panic!("{other}"),
        };
        prop_assert!(!statuses.contains(&Status::Undecidable));
        prop_assert_eq!(space.cartesian(), all.len() as u128);
        let valid = statuses.iter().filter(|status| **status == Status::Valid).count();
        prop_assert_eq!(space.len(), valid as u128);
        for (params, status) in all.iter().zip(&statuses) {
            prop_assert_eq!(space.contains(params), *status == Status::Valid, "{}", params);
        }

        let listed: Vec<Params> = space.iter().collect();
        for (index, params) in listed.iter().enumerate() {
            prop_assert_eq!(&space.get(index as u128).expect("below the length"), params);
            prop_assert_eq!(space.index_of(params), Some(index as u128));
        }
        prop_assert_eq!(space.get(space.len()), None);
    }

    #[test]
    fn samples_are_valid((tunables, constraints) in cases(), seed in any::<u64>()) {
        if let Ok(space) = Space::new(&tunables, &constraints, &|_| None) {
            let mut rng = Rng::new(seed);
            for _ in 0..20 {
                prop_assert_eq!(status(&space.sample(&mut rng), &constraints), Status::Valid);
            }
        }
    }

    #[test]
    fn neighbours_are_the_valid_configurations_at_distance_one((tunables, constraints) in cases()) {
        if let Ok(space) = Space::new(&tunables, &constraints, &|_| None) {
            let all: Vec<Params> = space.iter().collect();
            for params in all.iter().take(30) {
                let neighbours = space.neighbours(params, Neighbourhood::Any);
                let found: HashSet<String> = neighbours.iter().map(Params::key).collect();
                prop_assert_eq!(found.len(), neighbours.len(), "each once");
                let expected: HashSet<String> = all
                    .iter()
                    .filter(|other| differences(params, other).len() == 1)
                    .map(Params::key)
                    .collect();
                prop_assert_eq!(&found, &expected);

                for adjacent in space.neighbours(params, Neighbourhood::Adjacent) {
                    prop_assert!(found.contains(&adjacent.key()));
                    let name = &differences(params, &adjacent)[0];
                    let between = all.iter().filter(|other| {
                        differences(params, other) == [name.clone()]
                            && is_between(&other.0[name], &params.0[name], &adjacent.0[name])
                    });
                    prop_assert_eq!(between.count(), 0, "nothing valid lies between");
                }
            }
        }
    }
}

fn differences(a: &Params, b: &Params) -> Vec<String> {
    a.0.iter()
        .filter(|(name, value)| b.get(name) != Some(value))
        .map(|(name, _)| name.clone())
        .collect()
}

fn is_between(value: &Value, a: &Value, b: &Value) -> bool {
    (a < value && value < b) || (b < value && value < a)
}

#[test]
fn samples_are_uniform() {
    let tunable =
        |name: &str| Tunable { name: name.to_string(), values: (0..6).map(Value::Int).collect() };
    let constraints = [Expr::parse("A + B < 6").expect("an expression")];
    let tunables = [tunable("A"), tunable("B"), tunable("C")];
    let space = Space::new(&tunables, &constraints, &|_| None).expect("a space");
    let cells = space.len() as usize;
    assert_eq!(cells, 126);
    let mut counts = vec![0.0; cells];
    let mut rng = Rng::new(5);
    for _ in 0..cells * 100 {
        let index = space.index_of(&space.sample(&mut rng)).expect("valid");
        counts[index as usize] += 1.0;
    }
    // Chi-squared with 125 degrees of freedom; 180 is beyond its 0.1 % point.
    let chi_squared: f64 = counts.iter().map(|count: &f64| (count - 100.0).powi(2) / 100.0).sum();
    assert!(chi_squared < 180.0, "chi-squared {chi_squared}");
}
