//! Tests of what is one candidate's outcome and not the end of a run.

use std::cell::Cell;
use std::rc::Rc;

use warpsmith_device::target::Fault;
use warpsmith_model::{CrashCause, Value, Verdict};

use super::*;
use crate::testing::{corpus, environment, lab_with, machine, request, with_fast};

/// Evaluates `10_fast` after additions to its contract, with parameters.
fn evaluated(
    change: impl FnOnce(&mut String),
    params: &[(&str, Value)],
    fidelity: Fidelity,
) -> Outcome {
    let lab = lab_with(|files| change(files.get_mut("kernels/10_fast.toml").expect("there")));
    let mut fake = machine();
    let environment = environment(&fake);
    let kernel = lab.kernel("10_fast").expect("there").clone();
    let mut request = request(&lab, fidelity, &["small", "large"]);
    for (name, value) in params {
        request.job.candidate.params.0.insert((*name).to_string(), value.clone());
    }
    evaluate(&mut fake, &mut corpus(), &lab, &kernel, &request, &environment, None)
        .unwrap_or_else(|error| panic!("we broke: {error:?}"))
        .trial
        .outcome
}

#[test]
fn whom_somebody_kills_is_tried_once_more() {
    let tried = |kills: u32| {
        let left = Rc::new(Cell::new(kills));
        let mut fake = with_fast(machine(), move |call, _| {
            if left.get() > 0 {
                left.set(left.get() - 1);
                return Err(Fault::Crashed(CrashCause::from_outside()));
            }
            Ok(5e-10 * 16384.0 * call.share())
        });
        let lab = lab_with(|_| ());
        let environment = environment(&fake);
        let kernel = lab.kernel("10_fast").expect("there").clone();
        let request = request(&lab, Fidelity::Rank, &["small"]);
        evaluate(&mut fake, &mut corpus(), &lab, &kernel, &request, &environment, None)
            .unwrap_or_else(|error| panic!("we broke: {error:?}"))
            .trial
    };
    let once = tried(1);
    assert_eq!(once.outcome.verdict(), Verdict::Passed, "{}", once.outcome.describe());
    assert!(once.notes.iter().any(|note| note.starts_with("tried once more")), "{:?}", once.notes);
    let always = tried(u32::MAX);
    assert_eq!(always.outcome.verdict(), Verdict::Crashed);
    assert!(always.outcome.describe().contains("from outside"), "{}", always.outcome.describe());
}

#[test]
fn a_reference_that_somebody_kills_again_and_again_is_an_outcome() {
    let mut fake = machine();
    fake.kernel("reference.c", |_| Err(Fault::Crashed(CrashCause::from_outside())));
    let lab = lab_with(|_| ());
    let environment = environment(&fake);
    let kernel = lab.kernel("10_fast").expect("there").clone();
    let request = request(&lab, Fidelity::Full, &["small"]);
    let (mut corpus, lab) = (corpus(), &lab);
    let found = evaluate(&mut fake, &mut corpus, lab, &kernel, &request, &environment, None);
    // What is asked for before a candidate is looked at cannot be blamed on one.
    match found {
        Ok(found) => assert!(found.trial.outcome.describe().contains("from outside")),
        Err(error) => assert!(matches!(error, GateError::Target { .. }), "{error:?}"),
    }
}

#[test]
fn launches_that_cannot_be_are_outcomes() {
    let tunables = "\n[tunables]\nBAD = [0, 1]\n[search]\ndefault = { BAD = 0 }\n";
    let with = |blocks: &str, more: &str| {
        let (blocks, more) = (blocks.to_string(), more.to_string());
        move |contract: &mut String| {
            *contract = contract.replace("ceil_div(N, 64)", &blocks);
            contract.push_str(&more);
            contract.push_str(tunables);
        }
    };
    let scratch = "\n[[scratch]]\nname = \"room\"\nbytes = \"64 + BAD * 2 ** 45\"\n";
    let huge = "\n[[scratch]]\nname = \"room\"\nbytes = \"64 * (1 + BAD * 2 ** 60)\"\n";
    for (blocks, more, expected) in [
        ("1 + BAD * 2 ** 62", "", "blocks"),
        ("1 + BAD * 2 ** 41", "", "are the most"),
        ("(1 + BAD * 2 ** 62) * (1 + BAD * 7)", "", "overflow"),
        ("N // (1 - BAD)", "", "division by zero"),
        ("ceil_div(N, 64)", "chunk = \"4 // (1 - BAD)\"\n", "division by zero"),
        ("ceil_div(N, 64)", scratch, "are the most"),
        ("ceil_div(N, 64)", huge, "overflow"),
    ] {
        for fidelity in [Fidelity::Micro, Fidelity::Rank, Fidelity::Full] {
            let outcome = evaluated(with(blocks, more), &[("BAD", Value::Int(1))], fidelity);
            let words = outcome.describe();
            assert_eq!(outcome.verdict(), Verdict::Crashed, "{blocks}: {words}");
            assert!(words.contains("no launch is possible"), "{words}");
            assert!(words.contains(expected), "{words}");
        }
    }
}

#[test]
fn a_condition_without_a_value_on_a_drawn_shape_is_an_outcome() {
    let outcome = evaluated(
        |contract| {
            let requires = "requires = [\"1 // (1 if N == 1 or N >= 1000 else 0) == 1\"]\n";
            *contract = contract.replace("flags   =", &format!("{requires}flags   ="));
        },
        &[],
        Fidelity::Full,
    );
    assert_eq!(outcome.verdict(), Verdict::Crashed);
    let words = outcome.describe();
    assert!(words.contains("its `requires` has no value on drawn"), "{words}");
}

#[test]
fn flags_and_compilers_that_are_not_allowed_do_not_compile() {
    let tunables = "\n[tunables]\nCFLAGS = [\"\", \"-O1 -wrapper env\"]\nCC = [\"cc\", \"./cc\"]\n\
                    NAME = [\"x\", \"y\"]\n\
                    [search]\ndefault = { CFLAGS = \"\", CC = \"cc\", NAME = \"x\" }\n";
    let text = |text: &str| Value::Str(text.to_string());
    for (name, value, expected) in [
        ("CFLAGS", "-O1 -wrapper env", "the flag `-wrapper` in the `CFLAGS` of 10_fast.toml"),
        ("CC", "./cc", "`CC` is `./cc`"),
        ("NAME", "x\n#include", "cannot be a macro"),
    ] {
        let params = [(name, text(value))];
        let outcome = evaluated(|it| it.push_str(tunables), &params, Fidelity::Rank);
        match &outcome {
            Outcome::CompileFailed { message, .. } => {
                assert!(message.contains(expected), "{message}")
            }
            other => panic!("{}", other.describe()),
        }
    }
    let outcome = evaluated(|it| it.push_str(tunables), &[], Fidelity::Rank);
    assert_eq!(outcome.verdict(), Verdict::Passed, "{}", outcome.describe());
}
