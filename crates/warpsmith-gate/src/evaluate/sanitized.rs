//! Tests of what sanitizers are shown, and of what becomes of what they say.

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::rc::Rc;

use warpsmith_device::target::{Fault, Flaw, Program, Sanitized, Sanitizer};
use warpsmith_model::{Trial, Verdict};

use super::tests::{BOTH, run, trial};
use super::*;
use crate::fake::Fake;
use crate::testing::{blend, corpus, environment, lab, lab_with, machine, request};

/// Returns the verdict of the full gate where sanitizers say this of `10_fast`.
fn sanitized(
    judge: impl FnMut(Sanitizer, &Program) -> Result<Sanitized, Fault> + 'static,
) -> (Trial, Fake) {
    let mut fake = machine();
    fake.sanitizer(judge);
    let trial = trial(&mut fake, Fidelity::Full);
    (trial, fake)
}

fn elements(program: &Program) -> usize {
    program.tensors[0].elements()
}

/// Leaves out the names of drawn shapes, which differ from run to run.
fn without_drawn(text: &str) -> String {
    let mut parts = text.split(", drawn (");
    let first = parts.next().unwrap_or_default().to_string();
    parts.fold(first, |said, part| said + part.split_once(')').map_or("", |(_, rest)| rest))
}

/// Returns what sanitizers said, in order, without the names of drawn shapes.
fn sanitizer_notes(trial: &Trial) -> Vec<String> {
    trial.sanitizer_notes().map(without_drawn).collect()
}

#[test]
fn sanitizers_see_the_proof_shapes_drawn_ones_and_the_least_workload() {
    let seen: Rc<RefCell<Vec<(Sanitizer, usize)>>> = Rc::default();
    let log = Rc::clone(&seen);
    let (trial, _) = sanitized(move |tool, program| {
        log.borrow_mut().push((tool, elements(program)));
        Ok(Sanitized::Clean)
    });
    assert_eq!(trial.outcome.verdict(), Verdict::Passed);
    let drawn: Vec<usize> = seen.borrow()[2..5].iter().map(|it| it.1).collect();
    assert!(drawn.iter().all(|elements| (1..=300).contains(elements)), "{drawn:?}");
    let small = [&[1, 1023], drawn.as_slice()].concat();
    for tool in Sanitizer::ALL {
        let of_tool: Vec<usize> =
            seen.borrow().iter().filter(|it| it.0 == tool).map(|it| it.1).collect();
        assert_eq!(of_tool[..6], [small.as_slice(), &[4096]].concat());
        // Whether a race shows is a matter of luck, in every launch, so racecheck is run once more.
        let (again, further) = of_tool[6..].split_at(of_tool.len() - 6 - 17 * small.len());
        assert_eq!(again, if tool == Sanitizer::Racecheck { small.as_slice() } else { &[] });
        // Neighbours, which share a loaded module: a kernel may behave in the first launch of one alone.
        let of_each = small.iter().flat_map(|elements| [*elements; 17]);
        assert_eq!(further, of_each.collect::<Vec<_>>());
    }
    assert_eq!(
        sanitizer_notes(&trial),
        ["memcheck, racecheck, initcheck found nothing on one, odd, small (fake 1)"]
    );
    assert_eq!(trial.notes.iter().filter(|note| note.contains("drawn (N=")).count(), 1);
}

#[test]
fn sanitizers_see_what_no_manifest_says() {
    let contents: Rc<RefCell<BTreeSet<Vec<u8>>>> = Rc::default();
    let of_proofs: Rc<RefCell<BTreeSet<u64>>> = Rc::default();
    for _ in 0..24 {
        let mut fake = machine();
        let (seen, scalars) = (Rc::clone(&contents), Rc::clone(&of_proofs));
        fake.sanitizer_of_inputs(move |_, program, inputs| {
            if elements(program) == 1023 {
                scalars.borrow_mut().insert(program.scalars[0].to_bits());
                seen.borrow_mut().insert(inputs[0].clone());
            }
            Ok(Sanitized::Clean)
        });
        let trial = trial(&mut fake, Fidelity::Full);
        assert_eq!(trial.outcome.verdict(), Verdict::Passed, "{}", trial.outcome.describe());
    }
    assert!(!of_proofs.borrow().contains(&1.5f64.to_bits()), "the lab's own value is known");
    // The same seed has the same contents; two dozen draws of one distribution do not happen.
    assert_eq!(contents.borrow().len(), 2);
}

/// Returns the verdict on a front that launches `20_wide` and `30_flat` on large workloads alone.
fn front_of_three(
    judge: impl FnMut(Sanitizer, &Program) -> Result<Sanitized, Fault> + 'static,
    wide: impl Fn(usize, f64) -> f64 + 'static,
) -> Trial {
    let lab = lab_with(|files| {
        for name in ["20_wide", "30_flat"] {
            for ending in ["toml", "c"] {
                let text = files[&format!("kernels/10_fast.{ending}")].clone();
                files.insert(format!("kernels/{name}.{ending}"), text);
            }
        }
        let route = |elements: u32, kernel: &str| {
            format!(
                "[[route]]\nnear = {{ N = {elements} }}\nkernel = \"{kernel}\"\nparams = {{}}\n"
            )
        };
        let head = "format = 1\nsummary = \"The fastest on each shape\"\nexact = []\n";
        let large = [route(16384, "20_wide"), route(65536, "30_flat"), route(99999, "20_wide")];
        let routes = [route(4096, "10_fast"), large.concat()].concat();
        files.insert("front.toml".to_string(), [head, &routes].concat());
    });
    let mut fake = machine();
    fake.kernel("20_wide.c", move |call| {
        let mut values = blend(call);
        let elements = values.len();
        values.iter_mut().for_each(|value| *value = wide(elements, *value));
        call.set_output(2, &values);
        Ok(values.len() as f64 * 5e-10 * call.share())
    });
    fake.kernel("30_flat.c", |call| {
        let values = blend(call);
        call.set_output(2, &values);
        Ok(values.len() as f64 * 5e-10 * call.share())
    });
    fake.sanitizer(judge);
    let environment = environment(&fake);
    let front = lab.kernel("front").expect("there").clone();
    let request = request(&lab, Fidelity::Full, &BOTH);
    evaluate(&mut fake, &mut corpus(), &lab, &front, &request, &environment, None)
        .unwrap_or_else(|error| panic!("we broke: {error:?}"))
        .trial
}

#[test]
fn sanitizers_see_what_a_front_launches_on_large_shapes_alone() {
    let trial = front_of_three(|_, _| Ok(Sanitized::Clean), |_, value| value);
    assert_eq!(trial.outcome.verdict(), Verdict::Passed, "{}", trial.outcome.describe());
    assert_eq!(
        sanitizer_notes(&trial),
        [
            "memcheck, racecheck, initcheck found nothing on one, odd, small (fake 1)",
            "memcheck, racecheck, initcheck found nothing in 10 runs of what it launches on other \
             shapes: `20_wide`, `30_flat` (fake 1)",
        ]
    );
    let trial = front_of_three(
        |_, program| {
            let (message, report) = ("race".to_string(), "the whole story".to_string());
            let is_flat = program.artifact.path.ends_with("30_flat.c");
            let flaw = Flaw { message, report };
            Ok(if is_flat { Sanitized::Flagged(flaw) } else { Sanitized::Clean })
        },
        |_, value| value,
    );
    assert_eq!(
        without_drawn(&trial.outcome.describe()),
        "crashed on one, odd by `30_flat` with no tunables: memcheck: race"
    );
}

#[test]
fn what_a_front_launches_on_large_shapes_alone_must_be_right_on_small_ones() {
    let is_round = |elements: usize| elements.is_power_of_two() && elements > 1;
    let forgets_remainders =
        move |elements: usize, value: f64| if is_round(elements) { value } else { value + 9.0 };
    let trial = front_of_three(|_, _| Ok(Sanitized::Clean), forgets_remainders);
    let said = trial.outcome.describe();
    assert_eq!(trial.outcome.verdict(), Verdict::Incorrect, "{said}");
    assert!(said.contains("by `20_wide` with no tunables"), "{said}");
}

#[test]
fn what_a_sanitizer_flags_is_the_outcome_with_its_line() {
    let (trial, fake) = sanitized(|tool, program| {
        if tool != Sanitizer::Racecheck || elements(program) < 4096 {
            return Ok(Sanitized::Clean);
        }
        let has_lines = program.artifact.command.contains(&"-lines".to_string());
        let place = if has_lines { "10_fast.c:7" } else { "blend+0x70" };
        let (message, report) = (format!("race at {place}"), "the whole story".to_string());
        Ok(Sanitized::Flagged(Flaw { message, report }))
    });
    assert_eq!(trial.outcome.verdict(), Verdict::Crashed);
    assert_eq!(
        without_drawn(&trial.outcome.describe()),
        "crashed on one, odd, small: racecheck: race at 10_fast.c:7"
    );
    assert!(fake.compiled().iter().any(|unit| unit.flags.contains(&"-lines".to_string())));
    assert_eq!(trial.builds.len(), 1, "the build with lines is not the candidate's");
    let text = serde_json::to_string(&trial).expect("JSON");
    assert_eq!(serde_json::from_str::<Trial>(&text).expect("read back"), trial);
}

#[test]
fn a_race_that_shows_in_few_launches_is_found() {
    let mut launches = 0;
    let (trial, _) = sanitized(move |tool, program| {
        launches += usize::from(tool == Sanitizer::Racecheck && elements(program) == 1023);
        let (message, report) = ("race".to_string(), "the whole story".to_string());
        let shows = tool == Sanitizer::Racecheck && launches % 9 == 8;
        Ok(if shows { Sanitized::Flagged(Flaw { message, report }) } else { Sanitized::Clean })
    });
    let said = without_drawn(&trial.outcome.describe());
    assert_eq!(said, "crashed on one, odd: racecheck: race");
}

#[test]
fn a_sanitizer_that_comes_to_no_end_is_a_verdict_on_small_shapes_and_a_note_on_real_ones() {
    let unfinished = |least: usize| {
        sanitized(move |tool, program| {
            let is_slow = tool == Sanitizer::Racecheck && elements(program) >= least;
            Ok(if is_slow { Sanitized::Unfinished { limit_s: 9.0 } } else { Sanitized::Clean })
        })
        .0
    };
    assert_eq!(
        without_drawn(&unfinished(1000).outcome.describe()),
        "timed out on one, odd, under racecheck: no answer within 9 s"
    );
    let trial = unfinished(4096);
    assert_eq!(trial.outcome.verdict(), Verdict::Passed);
    let notes = sanitizer_notes(&trial);
    assert_eq!(
        notes,
        [
            "racecheck did not finish within 9 s on small",
            "memcheck, initcheck found nothing on one, odd, small (fake 1)",
            "racecheck found nothing on one, odd (fake 1)",
        ]
    );
}

#[test]
fn small_shapes_have_two_minutes_where_no_workload_is_small_enough() {
    let seconds = |flops: &str| -> Vec<u64> {
        let lab = lab_with(|files| {
            let manifest = files.get_mut("lab.toml").expect("there");
            *manifest = manifest.replace("flops = \"2 * N\"", &format!("flops = \"{flops}\""));
        });
        let mut fake = machine();
        fake.sanitizer(|_, _| Ok(Sanitized::Clean));
        let environment = environment(&fake);
        let kernel = lab.kernel("10_fast").expect("there").clone();
        let request = request(&lab, Fidelity::Full, &BOTH);
        evaluate(&mut fake, &mut corpus(), &lab, &kernel, &request, &environment, None)
            .unwrap_or_else(|error| panic!("we broke: {error:?}"));
        fake.sanitizer_deadlines().iter().map(std::time::Duration::as_secs).collect()
    };
    // Three tools, and racecheck once more.
    assert_eq!(seconds("2 * N"), [60; 4]);
    assert_eq!(seconds("10 ** 6 * N"), [120; 4]);
}

#[test]
fn a_doubtful_or_broken_sanitizer_is_never_a_clean_one() {
    let (trial, _) = sanitized(|tool, _| match tool {
        Sanitizer::Racecheck => Ok(Sanitized::Doubtful("lost count of barriers".to_string())),
        _ => Ok(Sanitized::Clean),
    });
    let notes = sanitizer_notes(&trial);
    assert_eq!(
        notes,
        [
            "racecheck is in doubt about one, odd, small: lost count of barriers",
            "memcheck, initcheck found nothing on one, odd, small (fake 1)",
        ]
    );
    let mut fake = machine();
    fake.sanitizer(|_, _| Err(Fault::Unavailable("it does not start".to_string())));
    let lab = lab();
    let request = request(&lab, Fidelity::Full, &BOTH);
    let kernel = lab.kernel("10_fast").expect("there");
    let environment = environment(&fake);
    let error = evaluate(&mut fake, &mut corpus(), &lab, kernel, &request, &environment, None)
        .expect_err("we broke");
    assert_eq!(error.to_string(), "running `10_fast` under memcheck");
}

#[test]
fn leaving_sanitizers_out_is_recorded() {
    let lab = lab();
    let mut request = request(&lab, Fidelity::Full, &BOTH);
    request.limits.sanitize = false;
    let mut fake = machine();
    fake.sanitizer(|_, _| panic!("nobody asked for it"));
    let trial = run(&mut fake, &lab, &request);
    assert_eq!(trial.outcome.verdict(), Verdict::Passed);
    assert_eq!(trial.notes, ["sanitizers: ran without sanitizers (--no-sanitizer)"]);
    // Where there are none, nothing was left out.
    assert!(run(&mut machine(), &lab, &request).notes.is_empty());
}
