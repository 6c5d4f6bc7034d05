use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

use warpsmith_model::rng::Rng;
use warpsmith_model::{CrashCause, Guard, MismatchKind, Stage, StopReason, Trial, Verdict, stats};

use super::*;
use crate::fake::Fake;
use crate::target::{CaseId, Fault};
use crate::testing::{corpus, environment, lab, lab_with, machine, request, with_fast};

const BOTH: [&str; 2] = ["small", "large"];

fn ceilings(flops_per_s: f64) -> Ceilings {
    Ceilings {
        matrix_flops_per_s: None,
        f32_flops_per_s: flops_per_s,
        f64_flops_per_s: flops_per_s,
        memory_bytes_per_s: 1e12,
        cache_bytes_per_s: 1e14,
        launch_floor_s: 1e-8,
    }
}

fn trial(fake: &mut Fake, fidelity: Fidelity) -> Trial {
    let lab = lab();
    let request = request(&lab, fidelity, &BOTH);
    run(fake, &lab, &request)
}

fn run(fake: &mut Fake, lab: &Lab, request: &Request) -> Trial {
    let environment = environment(fake);
    let kernel = lab.kernel("10_fast").expect("there").clone();
    let ceilings = ceilings(1e12);
    evaluate(fake, &mut corpus(), lab, &kernel, request, &environment, Some(&ceilings))
        .unwrap_or_else(|error| panic!("we broke: {error:?}"))
        .trial
}

fn mismatch(trial: &Trial) -> (MismatchKind, Stage) {
    match &trial.outcome {
        Outcome::Incorrect { mismatch } => (mismatch.kind, mismatch.stage),
        other => panic!("incorrect, not {}", other.describe()),
    }
}

#[test]
fn a_right_kernel_passes_every_fidelity_with_its_true_times() {
    for fidelity in [Fidelity::Micro, Fidelity::Rank, Fidelity::Full] {
        let trial = trial(&mut machine(), fidelity);
        let measurements = trial.outcome.measurements();
        assert_eq!(measurements.len(), 2, "{fidelity:?}: {}", trial.outcome.describe());
        for (measurement, elements) in measurements.iter().zip([4096.0, 16384.0]) {
            let median = stats::median(&measurement.samples_s).expect("samples");
            let true_s = elements * 5e-10;
            assert!((median / true_s - 1.0).abs() < 1e-6, "{fidelity:?}: {median} for {true_s}");
            assert_eq!(measurement.stop, StopReason::Converged);
            assert_eq!(measurement.samples_s.len(), measurement.ticks.len());
            // A wave of a small workload may be all of it.
            assert!(measurement.share == 1.0 || fidelity == Fidelity::Micro);
        }
        assert!(trial.launch_s > 0.0 && trial.notes.is_empty(), "{:?}", trial.notes);
        assert_eq!(trial.builds.len(), 1);
    }
}

#[test]
fn every_way_of_being_wrong_is_found_where_it_happens() {
    let wrong = |change: fn(&mut Vec<f64>)| {
        let mut fake = with_fast(machine(), move |_, values| {
            change(values);
            Ok(1e-6)
        });
        mismatch(&trial(&mut fake, Fidelity::Rank))
    };
    assert_eq!(wrong(|out| out[5] += 1e-3), (MismatchKind::Element, Stage::Gate));
    assert_eq!(wrong(|out| out.fill(0.0)), (MismatchKind::Element, Stage::Gate));
    assert_eq!(wrong(|out| out[5] = f64::NAN), (MismatchKind::NotFinite, Stage::Gate));
    assert_eq!(wrong(|out| out[5] = f64::INFINITY), (MismatchKind::NotFinite, Stage::Gate));
    let mut silent = machine();
    silent.kernel("10_fast.c", |_| Ok(1e-6));
    for fidelity in [Fidelity::Micro, Fidelity::Rank] {
        let found = mismatch(&trial(&mut silent, fidelity));
        assert_eq!(found, (MismatchKind::NotWritten, Stage::Gate));
    }
}

#[test]
fn right_at_first_and_wrong_later_is_found_in_the_timed_outputs() {
    for fidelity in [Fidelity::Micro, Fidelity::Rank] {
        let mut fake = with_fast(machine(), |call, values| {
            if call.launch >= 2 {
                values.iter_mut().for_each(|value| *value += 1.0);
            }
            Ok(1e-3 * call.share())
        });
        let found = mismatch(&trial(&mut fake, fidelity));
        assert_eq!(found, (MismatchKind::Element, Stage::Timing), "{fidelity:?}");
    }
}

#[test]
fn an_answer_that_is_remembered_is_wrong_for_the_next_input() {
    let mut memory: Option<(usize, Vec<f64>)> = None;
    let mut fake = with_fast(machine(), move |call, values| {
        match &memory {
            Some((session, answer)) if *session == call.session => values.clone_from(answer),
            _ => memory = Some((call.session, values.clone())),
        }
        Ok(1e-6)
    });
    let found = mismatch(&trial(&mut fake, Fidelity::Rank));
    assert_eq!(found, (MismatchKind::Element, Stage::Timing));
}

#[test]
fn no_case_is_launched_twice_in_a_session_that_is_timed() {
    let seen: Rc<RefCell<BTreeMap<usize, Vec<CaseId>>>> = Rc::default();
    let log = Rc::clone(&seen);
    let mut fake = with_fast(machine(), move |call, _| {
        log.borrow_mut().entry(call.session).or_default().push(call.case);
        Ok(2e-5 * (1.0 + (call.launch / 15 % 2) as f64))
    });
    trial(&mut fake, Fidelity::Rank);
    assert!(seen.borrow().len() > 4, "noise asks for several sessions");
    for (session, cases) in seen.borrow().iter() {
        let distinct: BTreeSet<&CaseId> = cases.iter().collect();
        assert_eq!(distinct.len(), cases.len(), "session {session}");
    }
}

#[test]
fn the_full_gate_finds_what_ranking_cannot() {
    let check = |name: &str,
                 expected: (MismatchKind, Stage),
                 run: fn(&mut crate::fake::FakeCall<'_>, &mut Vec<f64>)| {
        let fake = || {
            with_fast(machine(), move |call, values| {
                run(call, values);
                Ok(values.len() as f64 * 5e-10)
            })
        };
        let ranked = trial(&mut fake(), Fidelity::Rank);
        assert_eq!(ranked.outcome.verdict(), Verdict::Passed, "{name}");
        assert_eq!(mismatch(&trial(&mut fake(), Fidelity::Full)), expected, "{name}");
    };
    check("odd shapes", (MismatchKind::Element, Stage::Proof), |_, values| {
        if values.len() % 2 == 1 {
            *values.last_mut().expect("not empty") += 1e5;
        }
    });
    check("other distributions", (MismatchKind::Element, Stage::Proof), |call, values| {
        if call.input(0).iter().any(|x| x.abs() > 100.0) {
            values.iter_mut().for_each(|value| *value *= 1.001);
        }
    });
    check("the same input again", (MismatchKind::NotRepeatable, Stage::Repeat), |call, values| {
        // Within tolerance, but not the same: what a race looks like.
        if call.launch % 2 == 1 {
            values.iter_mut().for_each(|value| *value *= 1.0 + 1.2e-7);
        }
    });
    check("another process", (MismatchKind::NotRepeatable, Stage::Repeat), |call, values| {
        if values.len() > 4000 && call.session % 2 == 1 {
            values.iter_mut().for_each(|value| *value *= 1.0 + 1.2e-7);
        }
    });
    check("an input", (MismatchKind::InputChanged, Stage::Proof), |call, values| {
        if values.len() < 2000 {
            call.change_input(0);
        }
    });
}

#[test]
fn writing_beside_an_output_is_found() {
    let mut fake = with_fast(machine(), |call, _| {
        call.overwrite_guard(2);
        Ok(1e-6)
    });
    let trial = trial(&mut fake, Fidelity::Rank);
    assert_eq!(mismatch(&trial), (MismatchKind::GuardOverwritten, Stage::Gate));
    serde_json::to_string(&trial).expect("a trial is always JSON");
}

#[test]
fn inputs_are_hashed_at_every_fidelity_where_they_are_not_sealed() {
    let lab = lab();
    let mut fake = with_fast(machine(), |call, _| {
        call.change_input(1);
        Ok(1e-6)
    });
    let mut environment = environment(&fake);
    environment.isolation.sealed_inputs = Guard::Missing { reason: "an old kernel".to_string() };
    let kernel = lab.kernel("10_fast").expect("there");
    let request = request(&lab, Fidelity::Rank, &BOTH);
    let ceilings = ceilings(1e12);
    let finding =
        evaluate(&mut fake, &mut corpus(), &lab, kernel, &request, &environment, Some(&ceilings));
    let trial = finding.expect("data").trial;
    assert_eq!(mismatch(&trial), (MismatchKind::InputChanged, Stage::Gate));
    assert_eq!(trial.notes, ["ran without sealed inputs: an old kernel"]);
}

#[test]
fn a_hopeless_candidate_is_given_up_and_its_other_workloads_are_skipped() {
    let lab = lab();
    let mut request = request(&lab, Fidelity::Rank, &BOTH);
    request.limits.incumbent_s = [("small".to_string(), 1e-4)].into();
    let mut fake = with_fast(machine(), |_, _| Ok(1e-3));
    let trial = run(&mut fake, &lab, &request);
    let measurements = trial.outcome.measurements();
    assert_eq!(measurements.len(), 1);
    assert_eq!(measurements[0].stop, StopReason::Hopeless);
    assert_eq!(measurements[0].samples_s.len(), 2);
}

#[test]
fn noise_uses_the_budget_up_and_is_said() {
    let mut rng = Rng::new(5);
    let mut fake = with_fast(machine(), move |_, _| Ok(1e-2 * (1.0 + rng.unit())));
    let trial = trial(&mut fake, Fidelity::Rank);
    let measurement = &trial.outcome.measurements()[0];
    assert_eq!(measurement.stop, StopReason::Budget);
    assert_eq!(measurement.samples_s.len(), 16);
    assert!(trial.notes[0].contains("noisy"), "{:?}", trial.notes);
}

#[test]
fn short_launches_are_batched() {
    let trial = trial(&mut machine(), Fidelity::Rank);
    let batches: Vec<u32> = trial.outcome.measurements().iter().map(|m| m.batch).collect();
    assert_eq!(batches, [15, 15], "64 cases: one to warm up on and four readings");
}

#[test]
fn faster_than_the_machine_can_be_is_implausible_unless_the_ceilings_were_too_low() {
    let lab = lab();
    let request = request(&lab, Fidelity::Rank, &BOTH);
    let kernel = lab.kernel("10_fast").expect("there");
    let outcome = |probe_s: f64| {
        let mut fake = machine();
        fake.kernel("ceilings.c", move |_| Ok(probe_s));
        let environment = environment(&fake);
        let mut corpus = corpus();
        // 2 operations in half a nanosecond is four times a peak of 1e9.
        let low = ceilings(1e9);
        evaluate(&mut fake, &mut corpus, &lab, kernel, &request, &environment, Some(&low))
            .expect("data")
            .trial
            .outcome
    };
    let implausible = outcome(10.0);
    assert!(
        matches!(&implausible, Outcome::Implausible { workload, .. } if workload == "small"),
        "{}",
        implausible.describe()
    );
    assert_eq!(outcome(1e-6).verdict(), Verdict::Passed);
}

#[test]
fn faults_become_outcomes() {
    let verdict = |fault: fn() -> Fault| {
        let mut fake = with_fast(machine(), move |_, _| Err(fault()));
        trial(&mut fake, Fidelity::Rank).outcome.verdict()
    };
    assert_eq!(verdict(|| Fault::TimedOut { limit_s: 1.0 }), Verdict::TimedOut);
    assert_eq!(verdict(|| Fault::Crashed(CrashCause::Exited { status: 3 })), Verdict::Crashed);
    let lab = lab();
    let request = request(&lab, Fidelity::Rank, &BOTH);
    let mut uncompiled = machine();
    let mut kernel = lab.kernel("10_fast").expect("there").clone();
    kernel.name = "20_unknown".to_string();
    let environment = environment(&uncompiled);
    let finding = evaluate(
        &mut uncompiled,
        &mut corpus(),
        &lab,
        &kernel,
        &request,
        &environment,
        Some(&ceilings(1e12)),
    )
    .expect("data");
    match finding.trial.outcome {
        Outcome::CompileFailed { message, log } => {
            assert!(message.contains("nobody said"));
            assert!(finding.blobs.iter().any(|blob| blob.id == log));
        }
        other => panic!("compile failed, not {}", other.describe()),
    }
}

#[test]
fn our_own_failures_are_errors_with_words() {
    let lab = lab_with(|files| {
        let contract = files.get_mut("kernels/10_fast.toml").expect("there");
        contract.insert_str(0, "requires = [\"N > 5000\"]\n");
    });
    let kernel = lab.kernel("10_fast").expect("there");
    let mut fake = machine();
    let environment = environment(&fake);
    let mut error = |workloads: &[&str]| {
        let request = request(&lab, Fidelity::Rank, workloads);
        evaluate(&mut fake, &mut corpus(), &lab, kernel, &request, &environment, None)
            .expect_err("an error")
            .to_string()
    };
    assert!(error(&["small"]).contains("does not serve workload `small`"));
    assert_eq!(error(&["smal"]), "lab `blend` has no workload `smal`");
    assert_eq!(error(&[]), "the job for `10_fast` names no workload");
}

#[test]
fn a_shape_that_is_not_served_is_named_in_the_notes() {
    let lab = lab_with(|files| {
        let contract = files.get_mut("kernels/10_fast.toml").expect("there");
        contract.insert_str(0, "requires = [\"N % 2 == 0\"]\n");
    });
    let trial = run(&mut machine(), &lab, &request(&lab, Fidelity::Full, &BOTH));
    assert_eq!(trial.outcome.verdict(), Verdict::Passed);
    assert_eq!(trial.notes.len(), 2, "{:?}", trial.notes);
    assert!(trial.notes[0].contains("one (N=1)"));
}
