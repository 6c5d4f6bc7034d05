use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

use warpsmith_device::target::{CaseId, Fault, Surroundings};
use warpsmith_model::rng::Rng;
use warpsmith_model::{
    ClockLimit, CrashCause, DeviceState, Guard, MismatchKind, Span, Stage, StopReason, Trial,
    Verdict, stats,
};

use super::*;
use crate::fake::{Fake, FakeCall};
use crate::testing::{blend, corpus, environment, lab, lab_with, machine, request, with_fast};

pub(super) const BOTH: [&str; 2] = ["small", "large"];

fn ceilings(flops_per_s: f64) -> Ceilings {
    Ceilings {
        matrix_flops_per_s: None,
        f32_flops_per_s: flops_per_s,
        f64_flops_per_s: flops_per_s,
        memory_bytes_per_s: 1e12,
        cache_bytes_per_s: 1e14,
        launch_floor_s: 1e-8,
        busy: false,
        newest: None,
    }
}

pub(super) fn trial(fake: &mut Fake, fidelity: Fidelity) -> Trial {
    let lab = lab();
    let request = request(&lab, fidelity, &BOTH);
    run(fake, &lab, &request)
}

pub(super) fn run(fake: &mut Fake, lab: &Lab, request: &Request) -> Trial {
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
fn what_the_compiler_gave_away_is_noted_once() {
    let line = "ptxas info    : (C7510) Potential Performance Loss: wgmma.mma_async instructions are \
                serialized due to ill formed pipeline stage in the function 'fast'";
    for fidelity in [Fidelity::Micro, Fidelity::Rank, Fidelity::Full] {
        let mut fake = machine();
        fake.compiler_says(&format!("{line}\nptxas info    : Used 30 registers\n"));
        let notes = trial(&mut fake, fidelity).notes;
        assert_eq!(notes.len(), 1, "{notes:?}");
        assert!(notes[0].starts_with("compiler: serialized (C7510): wgmma.mma_async"), "{notes:?}");
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

/// A kernel that knew how many launches a reading has could leave the work of all of them to the last one.
#[test]
fn readings_end_where_no_kernel_can_foresee_it() {
    let seen: Rc<RefCell<BTreeMap<(usize, usize), usize>>> = Rc::default();
    let log = Rc::clone(&seen);
    let mut rng = Rng::new(2);
    let mut fake = with_fast(machine(), move |call, _| {
        *log.borrow_mut().entry((call.session, call.reading)).or_default() += 1;
        // Noise asks for several sessions.
        Ok(2e-5 * (1.0 + rng.unit()))
    });
    let trial = trial(&mut fake, Fidelity::Full);
    let measured = trial.outcome.measurements();
    let most = measured.iter().map(|it| it.batch as usize).max().expect("measured");
    assert!(most > 4, "short launches share readings: {most}");
    let counts: BTreeSet<usize> = seen.borrow().values().copied().collect();
    assert!(counts.iter().any(|it| it % 2 == 0) && counts.iter().any(|it| it % 2 == 1));
    assert!(counts.range(2..2 * most / 3).next().is_some(), "{counts:?}, of {most}");
    assert!(counts.range(2 * most / 3..most).next().is_some(), "{counts:?}, of {most}");
    assert_eq!(counts.last(), Some(&most), "never more than what a session may be opened for");
    // Whatever their number, the time is that of a launch.
    let times = measured.iter().flat_map(|it| &it.samples_s);
    assert!(times.into_iter().all(|time_s| (2e-5..4e-5).contains(time_s)));
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
        if call.input(0).iter().any(|x| x.abs() > 6.0) {
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

/// Such a kernel was once accepted: proof shapes and drawn ones are small, and workloads are round.
#[test]
fn a_kernel_that_relies_on_round_extents_where_shapes_are_large_is_found() {
    let mut fake = with_fast(machine(), |_, values| {
        if values.len() > 2000 && values.len() % 2 == 1 {
            *values.last_mut().expect("not empty") += 1e5;
        }
        Ok(values.len() as f64 * 5e-10)
    });
    let trial = trial(&mut fake, Fidelity::Full);
    assert_eq!(mismatch(&trial), (MismatchKind::Element, Stage::Gate));
    let words = trial.outcome.describe();
    assert!(words.contains("near small (N="), "{words}");
}

#[test]
fn a_kernel_that_is_wrong_between_or_beyond_the_workloads_or_at_some_multiples_is_found() {
    let found = |is_wrong: fn(usize) -> bool, seed: u64| {
        let mut fake = with_fast(machine(), move |_, values| {
            if is_wrong(values.len()) {
                values.iter_mut().for_each(|value| *value *= 1.001);
            }
            Ok(values.len() as f64 * 5e-10)
        });
        let lab = lab();
        let mut request = request(&lab, Fidelity::Full, &BOTH);
        request.job.seed = seed;
        match run(&mut fake, &lab, &request).outcome.verdict() {
            Verdict::Passed => false,
            verdict => {
                assert_eq!(verdict, Verdict::Incorrect);
                true
            }
        }
    };
    // The gaps are 301 to 4095 and 4097 to 16383, less what shapes near the workloads cover.
    let check = |what: &str, least: usize, is_wrong: fn(usize) -> bool| {
        let count = (0..6).filter(|seed| found(is_wrong, *seed)).count();
        assert!(count >= least, "{what}: found with {count} of 6 seeds");
    };
    check("between the range and the workloads", 3, |n| (1024..3072).contains(&n));
    check("between workloads", 3, |n| (5121..12288).contains(&n));
    check("beyond", 6, |n| n > 16384);
    check("whole vectors alone", 5, |n| n > 300 && n % 8 == 0 && n != 4096 && n != 16384);
}

#[test]
fn a_kernel_that_knows_a_scalar_is_found() {
    let check = |what: &str, knows: fn(usize) -> bool, stage| {
        let mut fake = with_fast(machine(), move |call, values| {
            if knows(values.len()) {
                let (x, y) = (call.input(0), call.input(1));
                let known = x.iter().zip(&y).map(|(x, y)| 1.5 * x + y);
                values.iter_mut().zip(known).for_each(|(value, known)| *value = known);
            }
            Ok(values.len() as f64 * 5e-10)
        });
        let ranked = trial(&mut fake, Fidelity::Rank);
        assert_eq!(ranked.outcome.verdict(), Verdict::Passed, "{what}");
        let judged = trial(&mut fake, Fidelity::Full);
        assert_eq!(mismatch(&judged), (MismatchKind::Element, stage), "{what}");
        assert!(judged.outcome.describe().contains(" a="), "{}", judged.outcome.describe());
    };
    check("everywhere", |_| true, Stage::Proof);
    check("on workloads alone", |n| n == 4096 || n == 16384, Stage::Gate);
    check("on large shapes that are none", |n| n > 2000 && n != 4096 && n != 16384, Stage::Gate);
}

/// Where answers took long, large shapes were once checked under the first distribution alone.
#[test]
fn a_further_distribution_is_checked_on_large_shapes_however_long_answers_take() {
    let mut fake = with_fast(machine(), |call, values| {
        let is_workload = [4096, 16384].contains(&values.len());
        if is_workload && call.input(0).iter().any(|x| x.abs() > 100.0) {
            values.iter_mut().for_each(|value| *value *= 1.001);
        }
        Ok(values.len() as f64 * 5e-10)
    });
    for name in ["reference.c", "00_naive.c"] {
        fake.kernel(name, |call| {
            let values = blend(call);
            call.set_output(2, &values);
            Ok(values.len() as f64 * 1e-3 * call.share())
        });
    }
    let found = mismatch(&trial(&mut fake, Fidelity::Full));
    assert_eq!(found, (MismatchKind::Element, Stage::Gate));
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

/// A candidate could be slow while the number of launches under a reading is estimated, so that a reading
/// holds one alone and what the harness gives away for nothing is a large part of it.
#[test]
fn readings_that_turn_out_short_are_taken_again_with_more_launches() {
    let mut launches_of_the_gate = 6;
    let mut fake = with_fast(machine(), move |call, values| {
        if values.len() == 4096 && launches_of_the_gate > 0 {
            launches_of_the_gate -= 1;
            return Ok(1e-3);
        }
        Ok(if call.launch == 0 { 1e-3 } else { 1e-5 })
    });
    let trial = trial(&mut fake, Fidelity::Full);
    let small = &trial.outcome.measurements()[0];
    assert_eq!(small.batch, 15, "64 cases: one to warm up on and four readings");
    assert!(small.samples_s.iter().all(|sample| (sample / 1e-5 - 1.0).abs() < 1e-6), "{small:?}");
}

#[test]
fn faster_than_the_machine_can_be_is_implausible_unless_the_ceilings_were_too_low() {
    let lab = lab();
    let request = request(&lab, Fidelity::Rank, &BOTH);
    let kernel = lab.kernel("10_fast").expect("there");
    let outcome = |probe_s: f64, is_busy: bool| {
        let mut fake = machine();
        if is_busy {
            fake.waits("ceilings.c");
        }
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
    let implausible = outcome(10.0, false);
    assert!(
        matches!(&implausible, Outcome::Implausible { workload, .. } if workload == "small"),
        "{}",
        implausible.describe()
    );
    assert_eq!(outcome(1e-6, false).verdict(), Verdict::Passed);
    // Where other programs take half of the machine, its ceilings accuse nobody.
    assert_eq!(outcome(10.0, true).verdict(), Verdict::Passed);
}

/// What no machine could do is implausible on a busy one, too.
#[test]
fn faster_than_any_machine_is_implausible_however_busy() {
    let lab = lab();
    let request = request(&lab, Fidelity::Rank, &BOTH);
    let mut fake = with_fast(machine(), |_, _| Ok(1e-15));
    fake.waits("ceilings.c");
    fake.kernel("ceilings.c", |_| Ok(10.0));
    assert_eq!(run(&mut fake, &lab, &request).outcome.verdict(), Verdict::Implausible);
}

/// On a busy machine the median of a kernel that left work out was a possible time, and it passed.
#[test]
fn one_impossible_reading_is_implausible_however_busy_the_machine() {
    let verdict = |fastest_s: f64| {
        let mut reading = 0;
        let mut fake = with_fast(machine(), move |call, _| {
            reading += usize::from(call.launch > 0);
            Ok(if reading % 3 == 1 { fastest_s } else { 1e-3 })
        });
        fake.kernel("ceilings.c", |_| Ok(10.0));
        let lab = lab();
        let request = request(&lab, Fidelity::Rank, &BOTH);
        run(&mut fake, &lab, &request).outcome.verdict()
    };
    assert_eq!(verdict(1e-3), Verdict::Passed);
    assert_eq!(verdict(1e-12), Verdict::Implausible);
}

#[test]
fn parameters_that_no_launch_is_possible_with_are_an_outcome() {
    let lab = lab_with(|files| {
        let contract = files.get_mut("kernels/10_fast.toml").expect("there");
        *contract = contract.replace("ceil_div(N, 64)", "ceil_div(N, 64) - SKIPPED");
        contract.push_str("[tunables]\nSKIPPED = [0, 90]\n[search]\ndefault = { SKIPPED = 0 }\n");
    });
    let mut fake = machine();
    let environment = environment(&fake);
    let kernel = lab.kernel("10_fast").expect("there").clone();
    let mut request = request(&lab, Fidelity::Rank, &BOTH);
    let skipped = ("SKIPPED".to_string(), warpsmith_model::Value::Int(90));
    request.job.candidate.params = warpsmith_model::Params([skipped].into());
    let found = evaluate(&mut fake, &mut corpus(), &lab, &kernel, &request, &environment, None)
        .unwrap_or_else(|error| panic!("we broke: {error:?}"));
    assert_eq!(
        found.trial.outcome.describe(),
        "crashed on small: could not be loaded: no launch is possible: launch `blend` on `small` has \
         -26 blocks in chunks of 1; both must be at least 1"
    );
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
    assert_eq!(trial.gate_notes().count(), 2, "check prints them");
}

#[test]
fn a_repeat_that_gives_the_same_bits_is_judged_beside_them_too() {
    let mismatch = |harm: fn(&mut FakeCall<'_>)| {
        let mut fake = with_fast(machine(), move |call, values| {
            // Every case of a small shape was launched once, and judged.
            if values.len() == 1023 && call.launch >= 2 {
                harm(call);
            }
            Ok(5e-10 * values.len() as f64 * call.share())
        });
        match trial(&mut fake, Fidelity::Full).outcome {
            Outcome::Incorrect { mismatch } => mismatch,
            other => panic!("{}", other.describe()),
        }
    };
    let beside = mismatch(|call| call.overwrite_guard(2));
    assert_eq!((beside.kind, beside.stage), (MismatchKind::GuardOverwritten, Stage::Repeat));
    let changed = mismatch(|call| call.change_input(0));
    assert_eq!((changed.kind, changed.stage), (MismatchKind::InputChanged, Stage::Repeat));
}

/// What depends on how blocks are grouped may differ in its bits where they are grouped in another way; where they
/// are grouped as they were before, it may not, however small the difference.
#[test]
fn bits_that_differ_between_launches_alike_are_no_matter_of_grouping() {
    let mut fake = with_fast(machine(), |call, values| {
        if values.len() == 1023 && call.launch >= 2 {
            values.iter_mut().for_each(|value| *value *= 1.0 + 1.5e-7);
        }
        Ok(5e-10 * values.len() as f64 * call.share())
    });
    let found = mismatch(&trial(&mut fake, Fidelity::Full));
    assert_eq!(found, (MismatchKind::NotRepeatable, Stage::Repeat));
}

#[test]
fn sessions_on_small_shapes_stay_in_one_place_and_all_others_have_their_own() {
    let mut fake = machine();
    assert_eq!(trial(&mut fake, Fidelity::Full).outcome.verdict(), Verdict::Passed);
    let surroundings = fake.surroundings();
    // Two proof shapes and six drawn ones.
    assert_eq!(surroundings[0], Surroundings::Fresh);
    assert_eq!(surroundings[1..8], [Surroundings::Kept; 7]);
    assert!(surroundings.len() > 12, "{surroundings:?}");
    assert!(surroundings[8..].iter().all(|it| *it == Surroundings::Fresh), "{surroundings:?}");
    let mut fake = machine();
    assert_eq!(trial(&mut fake, Fidelity::Rank).outcome.verdict(), Verdict::Passed);
    assert!(fake.surroundings().iter().all(|it| *it == Surroundings::Shared));
}

#[test]
fn warm_times_and_the_state_of_the_device_are_kept_beside_the_cold_ones() {
    let mut fake = machine();
    fake.warm_share(0.5);
    let mut readings = 0;
    fake.state(move || {
        readings += 1;
        // A reading under a slowdown is set aside and leaves no trace in the state.
        let is_slowed = readings % 5 == 0;
        let limit = if is_slowed { ClockLimit::HardwareThermal } else { ClockLimit::PowerCap };
        DeviceState {
            sm_clock_hz: Some(Span::of(if is_slowed { 5e8 } else { 1.98e9 })),
            limited_by: [limit].into(),
            ..DeviceState::default()
        }
    });
    let full = trial(&mut fake, Fidelity::Full);
    let mut set_aside = 0;
    for measurement in full.outcome.measurements() {
        let cold_s = stats::median(&measurement.samples_s).expect("samples");
        assert!(measurement.warm_s.len() >= 7, "{}", measurement.warm_s.len());
        for warm_s in &measurement.warm_s {
            assert!((warm_s / cold_s - 0.5).abs() < 1e-6, "{warm_s} for {cold_s}");
        }
        let state = measurement.device_state.as_ref().expect("it was asked");
        assert_eq!(state.describe(), "SM clock 1980 MHz, limited by power cap");
        set_aside += measurement.disturbed_s.len();
    }
    assert!(set_aside > 0, "{:?}", full.notes);
    let ranked = trial(&mut machine(), Fidelity::Rank);
    assert!(
        ranked
            .outcome
            .measurements()
            .iter()
            .all(|measurement| measurement.warm_s.is_empty() && measurement.device_state.is_none())
    );
}

/// Returns the trial of a front that launches `20_wide`, which serves these shapes alone, on the large workload
/// and on what is like it.
fn front_with_wide(requires: &str, wide: impl Fn(usize, f64) -> f64 + 'static) -> Trial {
    let lab = lab_with(|files| {
        for ending in ["toml", "c"] {
            let text = files[&format!("kernels/10_fast.{ending}")].clone();
            let text = text.replace("flags ", &format!("requires = [\"{requires}\"]\nflags "));
            files.insert(format!("kernels/20_wide.{ending}"), text);
        }
        let route = |elements: u32, kernel: &str| {
            format!(
                "[[route]]\nnear = {{ N = {elements} }}\nkernel = \"{kernel}\"\nparams = {{}}\n"
            )
        };
        let head = "format = 1\nsummary = \"The fastest on each shape\"\nexact = []\n";
        let routes = [route(4096, "10_fast"), route(16384, "20_wide")].concat();
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
    let environment = environment(&fake);
    let front = lab.kernel("front").expect("there").clone();
    let request = request(&lab, Fidelity::Full, &BOTH);
    evaluate(&mut fake, &mut corpus(), &lab, &front, &request, &environment, None)
        .unwrap_or_else(|error| panic!("we broke: {error:?}"))
        .trial
}

/// A front once passed with a kernel that the same check found incorrect: no shape that was drawn led to it.
#[test]
fn what_a_front_launches_is_judged_on_shapes_beside_the_workloads() {
    let right_on_the_workload = |elements: usize, value: f64| match elements {
        16384 => value,
        _ => value + 9.0,
    };
    let trial = front_with_wide("N % 512 == 0", right_on_the_workload);
    assert_eq!(trial.outcome.verdict(), Verdict::Incorrect, "{}", trial.outcome.describe());
    let trial = front_with_wide("N % 512 == 0", |_, value| value);
    assert_eq!(trial.outcome.verdict(), Verdict::Passed, "{}", trial.outcome.describe());
    assert!(trial.notes.iter().all(|note| !note.contains("20_wide")), "{:?}", trial.notes);
}

#[test]
fn what_a_front_launches_on_no_other_shape_is_noted() {
    let trial = front_with_wide("N == 16384", |_, value| value);
    assert_eq!(trial.outcome.verdict(), Verdict::Passed, "{}", trial.outcome.describe());
    let notes: Vec<&String> = trial.notes.iter().filter(|it| it.contains("20_wide")).collect();
    assert_eq!(notes.len(), 2, "{:?}", trial.notes);
    assert!(notes.iter().all(|note| note.contains("was checked on")), "{notes:?}");
}

/// Draws were once thrown away until one was served: a kernel that asks for coarse multiples was judged on the
/// workloads alone, and passed.
#[test]
fn shapes_are_drawn_that_a_kernel_of_coarse_multiples_serves() {
    let lab = lab_with(|files| {
        let text = files["kernels/10_fast.toml"].clone();
        let text = text.replace("flags ", "requires = [\"N % 1024 == 0\"]\nflags ");
        files.insert("kernels/10_fast.toml".to_string(), text);
    });
    let mut fake = with_fast(machine(), |_, values| {
        if ![4096, 16384].contains(&values.len()) {
            *values.last_mut().expect("some") += 1.0;
        }
        Ok(1e-6)
    });
    let trial = run(&mut fake, &lab, &request(&lab, Fidelity::Full, &BOTH));
    assert_eq!(mismatch(&trial), (MismatchKind::Element, Stage::Gate));
}

/// Only a sample of what the oracle answers is compared with the reference, and good kernels were blamed for
/// what it had wrong.
#[test]
fn what_the_oracle_has_wrong_is_no_kernels_fault() {
    let mut fake = machine();
    fake.kernel("reference.c", |call| {
        let values = blend(call);
        call.set_output(2, &values);
        Ok(values.len() as f64 * 1e-2 * call.share())
    });
    fake.kernel("00_naive.c", |call| {
        let mut values = blend(call);
        if values.len() > 4000 {
            values[1234] += 1.0;
        }
        call.set_output(2, &values);
        Ok(values.len() as f64 * 1e-9)
    });
    let (lab, environment) = (lab(), environment(&fake));
    let request = request(&lab, Fidelity::Rank, &BOTH);
    let kernel = lab.kernel("10_fast").expect("there").clone();
    let judged = evaluate(&mut fake, &mut corpus(), &lab, &kernel, &request, &environment, None);
    let error = judged.expect_err("the lab is at fault").to_string();
    assert!(error.contains("the oracle `00_naive` disagrees with the reference"), "{error}");
    assert!(error.contains("[1234]"), "{error}");
}

#[test]
fn a_scalar_is_drawn_from_factors_and_values_and_the_usual_ones_are_noted() {
    let with_draw = |draw: &str| {
        lab_with(|files| {
            let usual = "draw  = { factors = [0.5, 0.95] }";
            let text = files["lab.toml"].replace(usual, draw);
            files.insert("lab.toml".to_string(), text);
        })
    };
    let lab = with_draw("draw = { factors = [-2.0, 4.0], values = [0.0, 77.0] }");
    let drawn: Vec<f64> = (0..200)
        .map(|seed| {
            let drawn = crate::bind::with_drawn_scalars(&lab, &lab.proofs[0], seed);
            drawn.expect("drawn").scalars[0].1
        })
        .collect();
    for value in [0.0, 77.0] {
        let share = drawn.iter().filter(|it| **it == value).count();
        assert!((20..90).contains(&share), "{share} of {value}");
    }
    assert!(drawn.iter().any(|it| *it < -0.1) && drawn.iter().any(|it| (3.0..7.0).contains(it)));
    let lab = with_draw("");
    let trial = run(&mut machine(), &lab, &request(&lab, Fidelity::Full, &BOTH));
    let is_said = |note: &&str| note.contains("was given no `a` but somewhat smaller ones");
    assert_eq!(trial.gate_notes().filter(is_said).count(), 1, "{:?}", trial.notes);
}
