use std::cell::Cell;
use std::rc::Rc;

use warpsmith_model::Stage;

use super::*;
use crate::testing::{blend, corpus, lab, machine};

fn refusal(result: Result<ChainRecord, GateError>) -> String {
    match result.expect_err("the lab is refused") {
        GateError::LabRefused { reason, .. } => reason,
        other => panic!("refused, not {other:?}"),
    }
}

#[test]
fn a_sound_lab_leaves_a_record_of_its_chain() {
    let lab = lab();
    let record = corpus().check_chain(&mut machine(), &lab, 1).expect("sound");
    let tensors: Vec<&str> = record.sensitivity.iter().map(|s| s.tensor.as_str()).collect();
    assert_eq!(tensors, ["x", "y"]);
    assert!(record.sensitivity.iter().all(|entry| entry.relative_change > 0.1));
    // Two proofs, two distributions.
    assert_eq!(record.proofs.len(), 4);
    assert!(record.proofs.iter().all(|proof| proof.error.element_eps <= 1.0));
    let by_reference: Vec<bool> = record.authorities.iter().map(|a| a.by_reference).collect();
    assert_eq!(by_reference, [true, true]);
    assert!(record.authorities.iter().all(|a| a.contents == MOST_CONTENTS as u32));
}

#[test]
fn a_reference_that_is_not_finite_is_refused() {
    let mut fake = machine();
    fake.kernel("reference.c", |call| {
        let mut values = blend(call);
        *values.last_mut().expect("not empty") = f64::NAN;
        call.set_output(2, &values);
        Ok(1e-6)
    });
    let reason = refusal(corpus().check_chain(&mut fake, &lab(), 1));
    assert!(reason.contains("must be finite"), "{reason}");
}

#[test]
fn a_reference_that_changes_its_mind_is_refused() {
    let mut fake = machine();
    fake.kernel("reference.c", |call| {
        let mut values = blend(call);
        values[0] += call.launch as f64;
        call.set_output(2, &values);
        Ok(1e-6)
    });
    let reason = refusal(corpus().check_chain(&mut fake, &lab(), 1));
    assert!(reason.contains("not the same when it runs twice"), "{reason}");
}

#[test]
fn a_lab_that_ignores_an_input_is_refused() {
    let mut fake = machine();
    for file in ["reference.c", "00_naive.c"] {
        fake.kernel(file, |call| {
            let values = call.input(0);
            call.set_output(2, &values);
            Ok(1e-6)
        });
    }
    let reason = refusal(corpus().check_chain(&mut fake, &lab(), 1));
    assert!(reason.contains("hardly depends on the input `y`"), "{reason}");
}

#[test]
fn an_oracle_that_is_wrong_on_a_proof_is_refused() {
    let mut fake = machine();
    fake.kernel("00_naive.c", |call| {
        let mut values = blend(call);
        if values.len() == 1023 {
            values[1000] *= 1.001;
        }
        call.set_output(2, &values);
        Ok(1e-6)
    });
    let reason = refusal(corpus().check_chain(&mut fake, &lab(), 1));
    assert!(reason.contains("oracle `00_naive`") && reason.contains("[1000]"), "{reason}");
    let words = "its oracle `00_naive` is not what the reference says: elements out of tolerance: ";
    assert!(reason.contains(words) && reason.contains("`warpsmith calibrate LAB`"), "{reason}");
}

#[test]
fn an_oracle_that_is_wrong_on_a_real_shape_only_is_found_by_the_sample() {
    // A reference this slow lets the oracle answer; the oracle is wrong wherever it is large.
    let mut fake = machine();
    fake.kernel("reference.c", |call| {
        let values = blend(call);
        call.set_output(2, &values);
        Ok(values.len() as f64 * 1e-3 * call.share())
    });
    let record = corpus().check_chain(&mut fake, &lab(), 1).expect("sound");
    assert!(record.authorities.iter().all(|a| !a.by_reference && a.sampled_blocks >= 4));

    fake.kernel("00_naive.c", |call| {
        let mut values = blend(call);
        if values.len() > 4000 {
            values.iter_mut().for_each(|value| *value *= 1.001);
        }
        call.set_output(2, &values);
        Ok(1e-6)
    });
    let reason = refusal(corpus().check_chain(&mut fake, &lab(), 1));
    assert!(reason.contains("disagrees with the reference"), "{reason}");
}

#[test]
fn faults_of_the_reference_are_refusals_with_its_words() {
    let mut fake = machine();
    fake.kernel("reference.c", |_| Err(warpsmith_device::target::Fault::TimedOut { limit_s: 3.0 }));
    let reason = refusal(corpus().check_chain(&mut fake, &lab(), 1));
    assert!(reason.contains("the reference on one (N=1 a=") && reason.contains("3 s"), "{reason}");
}

#[test]
fn the_same_seed_gives_the_same_cases_and_another_seed_others() {
    let (lab, mut fake, mut corpus) = (lab(), machine(), corpus());
    let mut seeds = |seed: u64| -> Vec<u64> {
        let want = Want::Exactly(3);
        corpus
            .cases(&mut fake, &lab, &lab.workloads[0], 0, seed, want)
            .expect("cases")
            .iter()
            .map(|case| case.seed)
            .collect()
    };
    assert_eq!(seeds(1), seeds(1));
    assert_ne!(seeds(1), seeds(2));
}

#[test]
fn what_was_used_least_recently_makes_room() {
    let (lab, mut fake) = (lab(), machine());
    let mut corpus =
        Corpus::new(CorpusOptions { memory_bytes: 4 << 20, ..CorpusOptions::new(None) });
    let large = &lab.workloads[1];
    for seed in 0..10 {
        let cases = corpus.cases(&mut fake, &lab, large, 0, seed, Want::Exactly(8));
        assert_eq!(cases.expect("cases").len(), 8);
    }
    // A case is 192 KiB of inputs and answers (answers by the reference are doubles).
    assert!(fake.staged() < 8 * 4, "{} cases staged", fake.staged());
    corpus.clear(&mut fake);
    assert_eq!(fake.staged(), 0);
}

#[test]
fn answers_are_taken_from_disk_and_not_computed_again() {
    let (lab, mut fake) = (lab(), machine());
    let runs = Rc::new(Cell::new(0));
    let count = Rc::clone(&runs);
    fake.kernel("reference.c", move |call| {
        count.set(count.get() + 1);
        let values = blend(call);
        call.set_output(2, &values);
        Ok(1e-6)
    });
    let folder = tempfile::tempdir().expect("a folder");
    let mut expected = Vec::new();
    let mut runs_for_cases = Vec::new();
    for _ in 0..2 {
        let mut corpus = Corpus::new(CorpusOptions::new(Some(folder.path().join("expected"))));
        corpus.proof_cases(&mut fake, &lab, &lab.proofs[1], 1).expect("cases");
        let before = runs.get();
        let want = Want::Exactly(5);
        let cases = corpus.cases(&mut fake, &lab, &lab.workloads[0], 0, 1, want).expect("cases");
        runs_for_cases.push(runs.get() - before);
        expected.push(cases.iter().map(|case| case.expected.clone()).collect::<Vec<_>>());
        let place = cases[0].place(&lab, Stage::Gate);
        assert_eq!((place.workload.as_str(), place.inputs.as_str()), ("small (N=4096)", "normal"));
    }
    assert_eq!(runs_for_cases, [5, 0]);
    assert_eq!(expected[0], expected[1]);
}

/// A cache saves time; a full disk must not cost the run that it would have made longer.
#[test]
fn answers_that_cannot_be_kept_are_used_all_the_same() {
    let (lab, mut fake) = (lab(), machine());
    let folder = tempfile::tempdir().expect("a folder");
    let in_the_way = folder.path().join("file");
    std::fs::write(&in_the_way, "").expect("written");
    for (dir, is_lost_later) in
        [(in_the_way.join("expected"), false), (folder.path().join("expected"), true)]
    {
        let mut corpus = Corpus::new(CorpusOptions::new(Some(dir.clone())));
        corpus.proof_cases(&mut fake, &lab, &lab.proofs[1], 1).expect("cases");
        if is_lost_later {
            assert!(corpus.cache_trouble().is_none());
            std::fs::remove_dir_all(&dir).expect("gone");
        }
        let want = Want::Exactly(3);
        let cases = corpus.cases(&mut fake, &lab, &lab.workloads[0], 0, 1, want).expect("cases");
        assert_eq!(cases.len(), 3);
        let trouble = corpus.cache_trouble().expect("known").to_string();
        assert!(trouble.contains(&dir.display().to_string()), "{trouble}");
    }
}

#[test]
fn small_shapes_get_many_contents_and_large_ones_few() {
    let check = |case_s: f64, megabytes: usize, expected: usize| {
        assert_eq!(contents_that_pay(1.0, 192 << 20, case_s, megabytes << 20), expected);
    };
    check(1e-5, 0, 64);
    check(0.02, 0, 50);
    check(0.1, 1, 10);
    check(2.0, 1, 3);
    check(1e-3, 48, 4);
    check(1e-3, 1000, 3);
}

#[test]
fn one_session_is_enough_for_a_trial_unless_answers_are_dear() {
    let lab = lab();
    let plans = bind::tensor_plans(&lab, &lab.workloads[0]).expect("bound");
    for (case_s, expected) in
        [(0.001, 64), (0.04, 7), (0.15, SESSION_CONTENTS), (0.25, 4), (2.0, 3)]
    {
        let set = CaseSet { case_s, ..CaseSet::default() };
        assert_eq!(set.contents_that_pay(&lab, &plans, 1.0, false), expected, "{case_s} s");
        let without_hurry = set.contents_that_pay(&lab, &plans, f64::INFINITY, false);
        assert_eq!(without_hurry, MOST_CONTENTS, "{case_s} s");
    }
    // On a GPU a comparison is worth more answers.
    let lab = Lab { target: TargetKind::Cuda, ..lab };
    for (answer_s, evaluated, compared) in
        [(0.01, 64, 33), (0.1, 10, 33), (0.2, 5, 20), (2.0, 3, 3)]
    {
        let set = CaseSet { answer_s, ..CaseSet::default() };
        assert_eq!(set.contents_that_pay(&lab, &plans, 1.0, false), evaluated, "{answer_s} s");
        assert_eq!(set.contents_that_pay(&lab, &plans, 1.0, true), compared, "{answer_s} s");
    }
}
