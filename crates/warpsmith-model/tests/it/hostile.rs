//! Seeded mutation fuzzing for a moment, so that every run of the tests covers what `fuzz/` covers
//! at length: whatever the text, the answer is a value or an error, never a panic.

use std::time::{Duration, Instant};

use warpsmith_model::lab::{Lab, parse_kernel};
use warpsmith_model::rng::Rng;
use warpsmith_model::{Expr, Value};

use crate::edits::good_lab;

const SEED: u64 = 7;
const TIME_FOR_EACH: Duration = Duration::from_secs(1);
const LEAST_ROUNDS: usize = 200;

/// Runs rounds until the time is up, but a fair number even on a slow machine.
fn for_a_moment(mut round: impl FnMut(&mut Rng)) {
    let mut rng = Rng::new(SEED);
    let start = Instant::now();
    let mut n_rounds = 0;
    while n_rounds < LEAST_ROUNDS || start.elapsed() < TIME_FOR_EACH {
        round(&mut rng);
        n_rounds += 1;
    }
}

/// Changes a text in one to four places: deletes, repeats, inserts or swaps pieces of it.
fn mutate(rng: &mut Rng, text: &str) -> String {
    const PIECES: [&str; 32] = [
        "(",
        ")",
        "[",
        "]",
        "{",
        "}",
        "\"",
        "'",
        "\\",
        "\n",
        "=",
        ",",
        "**",
        "//",
        "not ",
        " in ",
        " if ",
        " else ",
        "0",
        "-1",
        "9223372036854775807",
        "1e999",
        "nan",
        "true",
        "N",
        "BLOCK",
        "é",
        "\u{0}",
        "#",
        ".",
        "_",
        "\u{feff}",
    ];
    let mut letters: Vec<char> = text.chars().collect();
    for _ in 0..1 + rng.below(4) {
        let at = rng.below(letters.len() + 1);
        let end = (at + rng.below(12)).min(letters.len());
        match rng.below(4) {
            0 => {
                letters.drain(at..end);
            }
            1 => {
                let copy = letters[at..end].to_vec();
                letters.splice(at..at, copy);
            }
            2 => {
                letters.splice(at..at, PIECES[rng.below(PIECES.len())].chars());
            }
            _ => {
                letters.splice(at..end, PIECES[rng.below(PIECES.len())].chars());
            }
        }
    }
    letters.into_iter().collect()
}

#[test]
fn expressions_survive_mutation() {
    const TEXTS: [&str; 5] = [
        "QUERY_VECTORS * max(KEY_TILE, DIM_TILE) < (32 if VEC_BYTES == 64 else 16)",
        "1 < A <= 0x1f and CC in ['gcc', \"clang\"] or not B",
        "ceil_div(N, BLOCK) * -2 ** -1_0 % 3.5e2 // .5",
        "round(A / 3) + int(1e18) ** abs(-B)",
        "x not in (1, 2.0, True,)",
    ];
    for_a_moment(|rng| {
        let mut text = TEXTS[rng.below(TEXTS.len())].to_string();
        for _ in 0..1 + rng.below(3) {
            text = mutate(rng, &text);
        }
        match Expr::parse(&text) {
            Ok(expr) => {
                let value = [Value::Int(3), Value::Float(-0.5), Value::Str("gcc".to_string())];
                let pick = value[rng.below(3)].clone();
                let _ = expr.eval(&|_| Some(pick.clone()));
                let _ = expr.eval_int(&|_| Some(Value::Int(i64::MIN)));
            }
            Err(error) => assert!(error.offset <= text.len(), "{error} at {}", error.offset),
        }
    });
}

#[test]
fn contracts_survive_mutation() {
    let files = good_lab();
    let lab = Lab::parse(&files).unwrap_or_else(|errors| panic!("{errors}"));
    for_a_moment(|rng| {
        let contract = mutate(rng, &files["kernels/10_fast.toml"]);
        if let Err(errors) = parse_kernel(&lab, "10_fast", &contract, "") {
            assert!(!errors.0.is_empty(), "an error without a reason for:\n{contract}");
            let _ = errors.to_string();
        }
    });
}

#[test]
fn labs_survive_mutation() {
    let good = good_lab();
    let paths: Vec<String> = good.keys().cloned().collect();
    for_a_moment(|rng| {
        let mut files = good.clone();
        let path = &paths[rng.below(paths.len())];
        let text = mutate(rng, &files[path]);
        files.insert(path.clone(), text);
        if let Err(errors) = Lab::parse(&files) {
            assert!(!errors.0.is_empty(), "an error without a reason for:\n{}", files[path]);
            let _ = errors.to_string();
        }
    });
}
