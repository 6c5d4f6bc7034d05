//! `front.toml`: which kernel serves which shape.

use warpsmith_model::lab::{Lab, LabFiles, Workload, parse_kernel, scaffold};
use warpsmith_model::{Params, Value};

use crate::edits::{Edit, after};

const FRONT: &str = r#"
format  = 1
summary = "The fastest rung on each shape"
exact   = ["D"]

[[route]]
near   = { N = 64, D = 32 }
kernel = "00_naive"

[[route]]
near   = { N = 4096, D = 32 }
kernel = "10_vector"
params = { VEC_BYTES = 32, ROWS = 4 }

[[route]]
near   = { N = 64, D = 1000 }
kernel = "10_vector"
params = { VEC_BYTES = 16, ROWS = 1 }
"#;

fn files(front: &str) -> LabFiles {
    let mut files: LabFiles = scaffold("blend").expect("a lab").into_iter().collect();
    files.insert("front.toml".to_string(), front.to_string());
    files
}

fn lab() -> Lab {
    Lab::parse(&files(FRONT)).unwrap_or_else(|errors| panic!("{errors}"))
}

fn shape(n: i64, d: i64) -> Workload {
    let axes = vec![("N".to_string(), n), ("D".to_string(), d)];
    Workload::new("a shape", axes)
}

#[test]
fn a_shape_takes_the_nearest_route_that_agrees_in_exact_axes() {
    let lab = lab();
    let front = lab.kernel("front").expect("the lab has a front");
    let nothing = Params::default();
    let on = |n, d| {
        let shape = shape(n, d);
        assert!(front.serves(&shape).expect("decidable"));
        let (kernel, params) = front.on(&shape, &nothing).expect("decidable");
        (kernel.name.clone(), params.get("ROWS").cloned())
    };
    let four = Some(Value::Int(4));
    assert_eq!(on(64, 32), ("00_naive".to_string(), None));
    assert_eq!(on(1, 32), ("00_naive".to_string(), None));
    assert_eq!(on(4096, 32), ("10_vector".to_string(), four.clone()));
    assert_eq!(on(1_000_000, 32), ("10_vector".to_string(), four));
    // However far it is in the other axes.
    assert_eq!(on(1_000_000, 1000), ("10_vector".to_string(), Some(Value::Int(1))));
    // Where no route agrees, the nearest of all.
    assert_eq!(on(60, 7), ("00_naive".to_string(), None));
}

#[test]
fn routes_that_agree_in_as_many_exact_axes_as_any_may_be_reached() {
    let lab = lab();
    let front = lab.kernel("front").and_then(|kernel| kernel.front.as_ref()).expect("a front");
    let reached = |n, d| -> Vec<i64> {
        let routes = front.agreeing(&shape(n, d)).expect("decidable");
        routes.iter().map(|route| route.near[0].1 * 10_000 + route.near[1].1).collect()
    };
    assert_eq!(reached(1, 32), [640_032, 40_960_032]);
    assert_eq!(reached(1, 1000), [641_000]);
    assert_eq!(reached(1, 7), [640_032, 40_960_032, 641_000]);
}

#[test]
fn a_front_is_another_candidate_when_its_kernels_change_but_its_lab_is_the_same() {
    let plain: LabFiles = scaffold("blend").expect("a lab").into_iter().collect();
    let without = Lab::parse(&plain).expect("a valid lab");
    let lab = lab();
    assert_eq!(lab.id, without.id);
    assert_eq!(lab.kernels.len(), without.kernels.len() + 1);

    let mut edited = files(FRONT);
    edited.get_mut("kernels/10_vector.c").expect("a source").push_str("// edited\n");
    let edited = Lab::parse(&edited).expect("a valid lab");
    let id = |lab: &Lab| {
        let front = lab.kernel("front").expect("a front");
        warpsmith_model::lab::candidate_id(lab, front, &Params::default(), "cc 1")
    };
    assert_ne!(id(&lab), id(&edited));
}

#[test]
fn a_worker_reads_the_front_that_it_was_sent() {
    let plain: LabFiles = scaffold("blend").expect("a lab").into_iter().collect();
    let lab = Lab::parse(&plain).expect("a valid lab");
    let front = parse_kernel(&lab, "front", FRONT, "").expect("a valid front");
    assert_eq!(front.front.expect("routes").routes.len(), 3);
}

#[test]
fn what_is_wrong_with_a_front_is_said_with_its_place() {
    let with = |from: &str, to: &str| {
        let edited = FRONT.replacen(from, to, 1);
        assert_ne!(edited, FRONT, "`{from}` is not in the front");
        Lab::parse(&files(&edited)).expect_err("a bad front").to_string()
    };
    insta::assert_snapshot!(with("\"10_vector\"", "\"10_vektor\""), @r#"
    front.toml:12:10: the lab has no kernel `10_vektor`
       12 | kernel = "10_vektor"
          |          ^^^^^^^^^^^
     help: did you mean `10_vector`?
    "#);
    for (from, to, said) in [
        ("VEC_BYTES = 32, ", "", "front.toml:12:10: `params` has no `VEC_BYTES` of `10_vector`"),
        ("VEC_BYTES = 32", "VEC_BYTES = 33", "front.toml:13:24: `33` is no value of `VEC_BYTES`"),
        ("ROWS = 4", "ROWS = 4, DEPTH = 1", "front.toml:13:38: `10_vector` has no tunable `DEPTH`"),
        ("N = 64, ", "", "front.toml:7:10: `near` has no `N`"),
        ("N = 64, ", "N = -1, ", "front.toml:7:16: `N` must not be negative"),
        ("exact   = [\"D\"]", "exact = [\"E\"]", "front.toml:4:10: unknown axis `E`"),
        ("summary", "sumary", "unknown key `sumary`"),
    ] {
        let errors = with(from, to);
        assert!(errors.contains(said), "{errors}");
    }
}

#[test]
fn the_name_is_taken_and_an_empty_front_is_refused() {
    let contract = "format = 1\ntarget = \"cpu\"\nsummary = \"x\"\n";
    let errors = after(&[
        Edit::Write("kernels/front.toml", contract),
        Edit::Write("kernels/front.c", "void f(void) {}\n"),
    ]);
    assert!(errors.contains("a kernel cannot be called `front`"), "{errors}");
    let empty = "format = 1\nsummary = \"x\"\n";
    let errors = Lab::parse(&files(empty)).expect_err("nothing to choose").to_string();
    assert!(errors.contains("a front without a `[[route]]`"), "{errors}");
}
