//! Published spaces have the published numbers of valid configurations.

use warpsmith_model::lab::Tunable;
use warpsmith_model::rng::Rng;
use warpsmith_model::{Expr, Value};
use warpsmith_search::{Space, SpaceError};

use crate::simulated::value_of;

pub(crate) fn published(name: &str, further: &[&str]) -> Space {
    let path = format!("{}/tests/data/spaces/{name}.json", env!("CARGO_MANIFEST_DIR"));
    let text = std::fs::read_to_string(path).expect("the space can be read");
    let document: serde_json::Value = serde_json::from_str(&text).expect("JSON");
    let tunables: Vec<Tunable> = document["params"]
        .as_object()
        .expect("a map of tunables")
        .iter()
        .map(|(name, values)| Tunable {
            name: name.clone(),
            values: values.as_array().expect("values").iter().map(value_of).collect(),
        })
        .collect();
    let constraints: Vec<Expr> = document["constraints"]
        .as_array()
        .expect("constraints")
        .iter()
        .map(|text| text.as_str().expect("a text"))
        .chain(further.iter().copied())
        .map(|text| Expr::parse(text).expect("an expression"))
        .collect();
    Space::new(&tunables, &constraints, &|_| None).expect("a space")
}

fn check(name: &str, cartesian: u128, valid: u128) {
    check_with(name, &[], cartesian, valid);
}

fn check_with(name: &str, further: &[&str], cartesian: u128, valid: u128) {
    let space = published(name, further);
    assert_eq!((space.cartesian(), space.len()), (cartesian, valid), "{name}");
    let mut rng = Rng::new(1);
    for _ in 0..100 {
        let params = space.sample(&mut rng);
        let index = space.index_of(&params).expect("samples are valid");
        assert_eq!(space.get(index).as_ref(), Some(&params), "{name} at {index}");
    }
    assert_eq!(space.get(valid), None);
}

#[test]
fn published_spaces_have_the_published_sizes() {
    check("dedispersion", 22_272, 11_130);
    check("clblast_xgemm_direct", 77_760, 19_952);
    check("gemm_kt_set0", 82_944, 17_472);
    check("cltune_gemm", 1_327_104, 241_600);
    check("expdist", 9_732_096, 504_000);
    // The published number includes a limit on threads that Kernel Tuner adds by itself.
    check_with("expdist", &["block_size_x * block_size_y <= 1024"], 9_732_096, 294_000);
    check("hotspot", 22_200_000, 349_853);
    check("atf_prl_2x2", 36_864, 1_200);
    check("atf_prl_4x4", 9_437_184, 10_800);
    check("atf_gaussian_conv_pow2_64", 830_131_344, 2_116_368);
}

fn ints(name: &str, values: &[i64]) -> Tunable {
    Tunable { name: name.to_string(), values: values.iter().copied().map(Value::Int).collect() }
}

fn build(tunables: &[Tunable], constraints: &[&str]) -> Result<Space, SpaceError> {
    let constraints: Vec<Expr> =
        constraints.iter().map(|text| Expr::parse(text).expect("an expression")).collect();
    Space::new(tunables, &constraints, &|name| (name == "LIMIT").then_some(Value::Int(8)))
}

fn check_error(tunables: &[Tunable], constraints: &[&str], expected: &str) {
    let error = build(tunables, constraints).expect_err("not a space");
    assert_eq!(error.to_string(), expected);
}

#[test]
fn mistakes_are_named() {
    let (a, b) = (ints("A", &[0, 1, 2]), ints("B", &[0, 1, 2]));
    let pair = [a.clone(), b.clone()];
    check_error(&[a.clone(), a.clone()], &[], "the tunable `A` is listed twice");
    check_error(&[ints("A", &[])], &[], "the tunable `A` has no values");
    check_error(&[ints("A", &[1, 2, 1])], &[], "the tunable `A` lists the value `1` twice");
    check_error(
        &[Tunable { name: "A".to_string(), values: vec![Value::Float(f64::NAN)] }],
        &[],
        "the tunable `A` lists a value that is not a number",
    );
    check_error(
        &pair,
        &["A * C <= 4"],
        "the constraint `A * C <= 4` mentions `C`, which is no tunable and no constant",
    );
    check_error(
        &pair,
        &["A > 1", "A < LIMIT - 7"],
        "no configuration satisfies `A > 1` and `A < LIMIT - 7`",
    );
    check_error(&pair, &["LIMIT > 8", "A > 0"], "no configuration satisfies `LIMIT > 8`");
    check_error(
        &pair,
        &["A % B == 0"],
        "the constraint `A % B == 0` cannot be decided for A=0 B=0",
    );
    let wide: Vec<Tunable> = (0..81).map(|idx| ints(&format!("T{idx}"), &[1, 2, 3])).collect();
    check_error(&wide, &[], "the space is too large: its tunables have 2^128 combinations or more");
}

#[test]
fn a_constraint_without_a_value_is_harmless_where_another_excludes() {
    let tunables = [ints("A", &[0, 1, 2, 3]), ints("B", &[0, 1, 2])];
    // Whichever is written first, and whichever can be decided first.
    for constraints in [["A % B == 0", "B != 0"], ["B != 0", "A % B == 0"]] {
        let space = build(&tunables, &constraints).expect("a space");
        assert_eq!(space.len(), 6, "{constraints:?}");
    }
    let tunables = [ints("A", &[0, 1, 2, 3]), ints("B", &[0, 1, 2]), ints("C", &[0, 1])];
    let space = build(&tunables, &["A % B == 0", "B + C > 2"]).expect("a space");
    assert_eq!(space.len(), 2);
}

#[test]
fn a_kernel_without_tunables_has_one_configuration() {
    let space = build(&[], &["LIMIT == 8"]).expect("a space");
    assert_eq!((space.cartesian(), space.len()), (1, 1));
    let only = space.get(0).expect("the first");
    assert!(only.0.is_empty() && space.contains(&only));
    assert_eq!(space.sample(&mut Rng::new(1)), only);
}

#[test]
fn values_are_distinguished_by_type() {
    let values = vec![Value::Int(1), Value::Float(1.0), Value::Bool(true), Value::Str("1".into())];
    let space = build(&[Tunable { name: "A".to_string(), values: values.clone() }], &[]);
    let space = space.expect("a space");
    let mut found: Vec<Value> = space.iter().map(|params| params.0["A"].clone()).collect();
    found.sort_by(|a, b| a.partial_cmp(b).expect("ordered"));
    let mut values = values;
    values.sort_by(|a, b| a.partial_cmp(b).expect("ordered"));
    assert_eq!(found, values);
}

#[test]
fn an_unconstrained_space_of_billions_of_billions_costs_nothing() {
    let tunables: Vec<Tunable> =
        (0..60).map(|idx| ints(&format!("T{idx}"), &[1, 2, 3, 4])).collect();
    let space = build(&tunables, &["T0 < T1"]).expect("a space");
    assert_eq!(space.len(), 6 * (1 << 116));
    let last = space.get(space.len() - 1).expect("the last");
    assert_eq!(space.index_of(&last), Some(space.len() - 1));
}
