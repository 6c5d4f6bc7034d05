use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

use warpsmith_model::CrashCause;
use warpsmith_model::rng::Rng;
use warpsmith_model::stats::{Comparison, judge, paired_speedup};

use super::*;
use crate::fake::Fake;
use crate::testing::{corpus, lab, lab_with, machine, with_fast};

fn options(lab: &Lab) -> CompareOptions {
    CompareOptions {
        purpose: ComparisonPurpose::Final,
        workloads: lab.workloads.iter().map(|workload| workload.name.clone()).collect(),
        seed: 3,
        min_rounds: 6,
        budget_s: 5.0,
        launch_deadline: Duration::from_secs(1),
        compile_deadline: Duration::from_secs(1),
    }
}

/// Compares `10_fast` with the oracle.
fn record(fake: &mut Fake, lab: &Lab) -> ComparisonRecord {
    let entrants: Vec<Entrant<'_>> = ["10_fast", "00_naive"]
        .iter()
        .map(|name| {
            let kernel = lab.kernel(name).expect("there");
            let params = &kernel.default;
            let kind = EntrantKind::Kernel { kernel, params, candidate: None };
            Entrant { label: name, kind }
        })
        .collect();
    let options = options(lab);
    compare(fake, &mut corpus(), lab, Path::new("."), &entrants, &options, &mut |_| ())
        .expect("compared")
}

#[test]
fn rounds_stay_aligned_and_show_the_true_ratio_through_common_noise() {
    // The machine slows down and recovers, by half, for everybody at once.
    let lab = lab();
    let mut fake = machine();
    let launches = Rc::new(Cell::new(0.0f64));
    for (file, seconds) in [("10_fast.c", 1e-3), ("00_naive.c", 2e-3)] {
        let launches = Rc::clone(&launches);
        let mut rng = Rng::new(1);
        fake.kernel(file, move |call| {
            let values = crate::testing::blend(call);
            call.set_output(2, &values);
            launches.set(launches.get() + 1.0);
            let load = 1.25 + 0.25 * (launches.get() / 100.0).sin();
            Ok(seconds * load * (1.0 + 0.01 * rng.unit()))
        });
    }
    let record = record(&mut fake, &lab);
    assert_eq!(record.contenders.len(), 2);
    assert!(record.missing.is_empty());
    for rounds in &record.workloads {
        let [fast, naive] = rounds.samples_s.as_slice() else { panic!("two contenders") };
        assert!(fast.len() >= 6 && fast.len() == naive.len());
        let speedup = paired_speedup(fast, naive).expect("rounds");
        assert_eq!(judge(speedup), Comparison::Faster);
        assert!((speedup.mid - 2.0).abs() < 0.05, "{speedup:?}");
    }
}

#[test]
fn contenders_share_readings_whose_ends_nobody_can_foresee() {
    let lab = lab();
    let mut fake = machine();
    // By kernel and session, the launches of each reading.
    type Launches = BTreeMap<usize, BTreeMap<usize, usize>>;
    let seen: [Rc<RefCell<Launches>>; 2] = Default::default();
    for (file, log) in ["10_fast.c", "00_naive.c"].into_iter().zip(&seen) {
        let log = Rc::clone(log);
        let mut rng = Rng::new(1);
        fake.kernel(file, move |call| {
            let values = crate::testing::blend(call);
            call.set_output(2, &values);
            let mut log = log.borrow_mut();
            *log.entry(call.session).or_default().entry(call.reading).or_default() += 1;
            Ok(1e-4 * (1.0 + rng.unit()))
        });
    }
    record(&mut fake, &lab);
    // The oracle has other sessions, too, which are the corpus's.
    let timed = |log: &Rc<RefCell<Launches>>| -> Vec<Vec<usize>> {
        let log = log.borrow();
        let of_sessions = log.values().map(|readings| readings.values().copied().collect());
        of_sessions.filter(|readings: &Vec<usize>| readings.iter().any(|it| *it > 1)).collect()
    };
    let [fast, naive] = seen.each_ref().map(timed);
    assert_eq!(fast, naive, "all have the same in a round");
    let counts: BTreeSet<usize> =
        fast.iter().flat_map(|readings| &readings[1..]).copied().collect();
    assert!(counts.len() > 3, "{counts:?}");
    assert!(counts.iter().any(|it| it % 2 == 0) && counts.iter().any(|it| it % 2 == 1));
}

#[test]
fn a_contender_that_turns_wrong_has_no_times() {
    let lab = lab();
    let mut fake = with_fast(machine(), |call, values| {
        if call.launch == 3 && values.len() == 4096 {
            values[7] = 0.123;
        }
        Ok(1e-3)
    });
    let record = record(&mut fake, &lab);
    let [small, large] = record.workloads.as_slice() else { panic!("two workloads") };
    assert_eq!(small.absent.len(), 1);
    assert_eq!(small.absent[0].contender, 0);
    assert!(small.absent[0].reason.contains("out of tolerance"), "{}", small.absent[0].reason);
    assert_eq!(small.absent[0].verdict, Some(Verdict::Incorrect));
    assert_eq!(small.absent[0].word(), "incorrect");
    assert!(small.samples_s[0].is_empty() && !small.samples_s[1].is_empty());
    assert!(large.absent.is_empty());
}

/// Kills the process of `10_fast` at one of its launches, and at every later one that is named.
fn with_kills(at: &'static [u64]) -> Fake {
    let launches = Rc::new(Cell::new(0));
    with_fast(machine(), move |_, _| {
        launches.set(launches.get() + 1);
        if at.contains(&launches.get()) {
            return Err(Fault::Crashed(CrashCause::from_outside()));
        }
        Ok(1e-3)
    })
}

#[test]
fn a_contender_whose_process_somebody_kills_tries_again_once() {
    let lab = lab();
    // When its session opens, and in a round.
    for at in [&[1][..], &[3]] {
        let record = record(&mut with_kills(at), &lab);
        for rounds in &record.workloads {
            assert!(rounds.absent.is_empty(), "{:?}", rounds.absent);
            assert_eq!(rounds.samples_s[0].len(), rounds.samples_s[1].len(), "killed at {at:?}");
        }
    }
    for at in [&[1, 2][..], &[3, 4], &[3, 5]] {
        let record = record(&mut with_kills(at), &lab);
        let [absent] = record.workloads[0].absent.as_slice() else { panic!("killed at {at:?}") };
        assert!(absent.reason.contains("from outside"), "{}", absent.reason);
    }
}

#[test]
fn who_changes_an_input_is_found_whenever_it_does() {
    // In its first launch, which is judged at once, and in one of those that are timed.
    for in_launch in [0, 4] {
        let lab = lab();
        let mut fake = with_fast(machine(), move |call, values| {
            if call.launch == in_launch && values.len() == 4096 {
                call.change_input(1);
            }
            Ok(1e-3)
        });
        let record = record(&mut fake, &lab);
        let [small, large] = record.workloads.as_slice() else { panic!("two workloads") };
        assert_eq!(small.absent.len(), 1, "{:?}", small.absent);
        assert_eq!(small.absent[0].contender, 0);
        assert!(small.absent[0].reason.contains("input"), "{}", small.absent[0].reason);
        assert_eq!(small.absent[0].verdict, Some(Verdict::Incorrect));
        assert!(small.samples_s[0].is_empty() && !small.samples_s[1].is_empty());
        assert!(large.absent.is_empty());
    }
}

#[test]
fn a_contender_that_crashes_or_does_not_serve_is_absent_with_the_reason() {
    let lab = lab_with(|files| {
        let contract = files.get_mut("kernels/10_fast.toml").expect("there");
        contract.insert_str(0, "requires = [\"N > 5000\"]\n");
    });
    let mut fake = with_fast(machine(), |_, _| Err(Fault::TimedOut { limit_s: 1.0 }));
    let record = record(&mut fake, &lab);
    let reasons: Vec<&str> =
        record.workloads.iter().map(|rounds| rounds.absent[0].reason.as_str()).collect();
    assert_eq!(
        reasons,
        ["does not serve this workload", "timed out on large: no answer within 1 s"]
    );
    let words: Vec<String> =
        record.workloads.iter().map(|rounds| rounds.absent[0].word()).collect();
    assert_eq!(words, ["not served", "timed out"]);
    assert!(record.workloads.iter().all(|rounds| rounds.samples_s[1].len() >= 6));
}

#[test]
fn a_baseline_without_its_python_is_missing_and_the_rest_goes_on() {
    let lab = lab_with(|files| {
        let text =
            "format = 1\nsummary = \"x\"\nscript = \"x.py\"\npackages = [\"numpy\"]\nsize_mb = 1\n";
        files.insert("baselines/x.toml".to_string(), text.to_string());
        files.insert("baselines/x.py".to_string(), String::new());
    });
    let folder = tempfile::tempdir().expect("a folder");
    std::fs::create_dir(folder.path().join("baselines")).expect("made");
    std::fs::write(folder.path().join("baselines/x.py"), "").expect("written");
    let kernel = lab.kernel("10_fast").expect("there");
    let python = Path::new("/nonexistent/python");
    let entrants = [
        Entrant {
            label: "fast",
            kind: EntrantKind::Kernel { kernel, params: &kernel.default, candidate: None },
        },
        Entrant {
            label: "x",
            kind: EntrantKind::Baseline { baseline: lab.baseline("x").expect("there"), python },
        },
    ];
    let options = options(&lab);
    let mut machine = machine();
    let dir = folder.path();
    let record = compare(&mut machine, &mut corpus(), &lab, dir, &entrants, &options, &mut |_| ())
        .expect("compared");
    assert_eq!(record.contenders.len(), 1);
    assert_eq!(record.missing[0].name, "x");
    assert!(record.missing[0].reason.contains("/nonexistent/python"), "{:?}", record.missing);
    assert_eq!(record.workloads.len(), 2);
}
