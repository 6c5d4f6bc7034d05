//! What is recorded comes back as it was, once, and in order.

use warpsmith_evidence::{Question, Store, StoreError};
use warpsmith_model::{
    BlobId, ChainRecord, Fidelity, Mismatch, MismatchKind, Outcome, RunId, RunStatus, Stage,
};

use crate::fixture::{
    START, Sketch, ceilings, comparison, compile_failed, crashed, environment, passed, record,
    source, store_with_run,
};

#[test]
fn trials_come_back_as_they_were_and_in_order() {
    let folder = tempfile::tempdir().expect("a folder");
    let (store, record) = store_with_run(folder.path(), "tiles-1");
    let findings = [
        Sketch::tile(8, 1e-5, 1e-4).finding(),
        Sketch { outcome: crashed(), salt: 1, ..Sketch::tile(16, 1.0, 1.0) }.finding(),
        Sketch { outcome: compile_failed(), salt: 2, ..Sketch::tile(32, 1.0, 1.0) }.finding(),
    ];
    for (idx, finding) in findings.iter().enumerate() {
        let seq = store.append(&record.id, finding, START + idx as f64).expect("recorded");
        assert_eq!(seq, idx as u64);
    }
    let reopened = Store::open_read_only(store.path()).expect("the same store");
    let trials = reopened.trials(&record.id).expect("trials");
    assert_eq!(trials.len(), 3);
    for (run_trial, finding) in trials.iter().zip(&findings) {
        assert_eq!(run_trial.trial, finding.trial);
        assert_eq!(run_trial.at_unix_s, START + run_trial.seq as f64);
        assert_eq!(reopened.trial(&finding.trial.id.to_string()).expect("by id"), finding.trial);
        assert_eq!(reopened.trial(&finding.trial.id.short()).expect("by part"), finding.trial);
    }
    assert_eq!(reopened.blob(&source().id).expect("the source"), source().text);
    assert_eq!(reopened.verify().expect("checked"), Vec::<String>::new());
}

#[test]
fn summaries_agree_with_the_trials() {
    let folder = tempfile::tempdir().expect("a folder");
    let (store, record) = store_with_run(folder.path(), "tiles-1");
    let finding = Sketch::tile(8, 1e-5, 1e-4).finding();
    store.append(&record.id, &finding, START + 5.0).expect("recorded");
    let summaries = store.summaries(&record.id).expect("summaries");
    let [summary] = summaries.as_slice() else { panic!("one summary, got {summaries:?}") };
    assert_eq!(summary.params, finding.trial.job.candidate.params);
    assert_eq!(summary.origin, finding.trial.job.candidate.origin);
    assert_eq!(summary.workloads, ["small", "large"]);
    assert_eq!(summary.times, warpsmith_evidence::workload_times(&finding.trial));
    assert_eq!(summary.times[1].samples, 9);
    assert_eq!(summary.compile_s, 0.25);
    assert!((summary.times[0].median_s.mid - 1e-5).abs() < 1e-12);
}

#[test]
fn the_same_question_is_recorded_once_in_a_run() {
    let folder = tempfile::tempdir().expect("a folder");
    let (store, record) = store_with_run(folder.path(), "tiles-1");
    let finding = Sketch::tile(8, 1e-5, 1e-4).finding();
    store.append(&record.id, &finding, START).expect("recorded");
    let mut again = finding.clone();
    again.trial.id = warpsmith_model::TrialId::of(b"another evaluation");
    again.trial.job.trial = again.trial.id;
    for twice in [&finding, &again] {
        let error = store.append(&record.id, twice, START).expect_err("twice");
        assert!(matches!(error, StoreError::AlreadyRecorded { .. }), "{error}");
    }
    let full = Sketch { fidelity: Fidelity::Full, ..Sketch::tile(8, 1e-5, 1e-4) }.finding();
    store.append(&record.id, &full, START).expect("another fidelity is another question");
    assert_eq!(store.trials(&record.id).expect("trials").len(), 2);
}

/// Who was killed by the system said nothing, and once answered for its candidate for ever.
#[test]
fn an_evaluation_that_was_ended_from_outside_answers_nothing() {
    let folder = tempfile::tempdir().expect("a folder");
    let (store, record) = store_with_run(folder.path(), "tiles-1");
    let answer = Sketch::tile(8, 1e-5, 1e-4).finding();
    let ended = |name: &str| {
        let mut finding = answer.clone();
        let cause = warpsmith_model::CrashCause::from_outside();
        finding.trial.outcome = Outcome::Crashed { workload: "small".to_string(), cause };
        finding.trial.id = warpsmith_model::TrialId::of(name.as_bytes());
        finding.trial.job.trial = finding.trial.id;
        finding
    };
    let job = &answer.trial.job;
    let question = Question {
        candidate: job.candidate.id,
        fidelity: job.fidelity,
        workloads: &job.workloads,
        environment: answer.trial.environment,
        lab: job.lab,
    };
    for name in ["once", "twice"] {
        store.append(&record.id, &ended(name), START).expect("recorded");
        assert_eq!(store.find_trial(&question).expect("sound"), None);
    }
    store.append(&record.id, &answer, START).expect("asked again");
    assert_eq!(store.find_trial(&question).expect("sound"), Some(answer.trial.clone()));
    let error = store.append(&record.id, &ended("late"), START).expect_err("an answer stands");
    assert!(matches!(error, StoreError::AlreadyRecorded { .. }), "{error}");

    let second = crate::fixture::record("tiles-2", START + 9.0);
    store.start_run(&second).expect("a run");
    store.append(&second.id, &ended("newest"), START + 9.0).expect("recorded");
    assert_eq!(store.find_trial(&question).expect("sound"), Some(answer.trial.clone()));
    store.adopt(&second.id, &answer.trial, START + 9.0).expect("taken over");
    assert_eq!(store.verify().expect("checked"), Vec::<String>::new());
}

#[test]
fn a_later_run_finds_and_adopts_an_earlier_trial() {
    let folder = tempfile::tempdir().expect("a folder");
    let (store, first) = store_with_run(folder.path(), "tiles-1");
    let finding = Sketch::tile(8, 1e-5, 1e-4).finding();
    store.append(&first.id, &finding, START).expect("recorded");
    let second = record("tiles-2", START + 100.0);
    store.start_run(&second).expect("a second run");
    let job = &finding.trial.job;
    let question = Question {
        candidate: job.candidate.id,
        fidelity: Fidelity::Rank,
        workloads: &job.workloads,
        environment: environment().id(),
        lab: job.lab,
    };
    let found = store.find_trial(&question).expect("a search").expect("the earlier trial");
    assert_eq!(found, finding.trial);
    for other in [
        Question { fidelity: Fidelity::Full, ..question.clone() },
        Question { workloads: &job.workloads[..1], ..question.clone() },
        Question { lab: warpsmith_model::LabId::of(b"edited"), ..question.clone() },
        Question { environment: warpsmith_model::EnvironmentId::of(b"moved"), ..question.clone() },
    ] {
        assert_eq!(store.find_trial(&other).expect("a search"), None, "{other:?}");
    }
    store.adopt(&second.id, &found, START + 101.0).expect("adopted");
    let error = store.adopt(&second.id, &found, START + 102.0).expect_err("adopted twice");
    assert!(matches!(error, StoreError::AlreadyRecorded { .. }), "{error}");
    let summaries = store.summaries(&second.id).expect("summaries");
    assert!(summaries[0].adopted && summaries[0].times.len() == 2, "{summaries:?}");
    assert_eq!(
        store.runs_of(&finding.trial.id).expect("runs"),
        [first.id.clone(), second.id.clone()]
    );
    let next = Sketch::tile(64, 1e-5, 1e-4).finding();
    store.append(&first.id, &next, START).expect("the first run goes on");
    let runs = store.runs().expect("runs");
    let counts: Vec<(&str, u64, u64, u64)> = runs
        .iter()
        .map(|run| (run.record.id.0.as_str(), run.trials, run.passed, run.adopted))
        .collect();
    assert_eq!(counts, [("tiles-2", 1, 1, 1), ("tiles-1", 2, 2, 0)]);
}

#[test]
fn a_finding_that_contradicts_itself_is_refused_and_leaves_nothing_behind() {
    let folder = tempfile::tempdir().expect("a folder");
    let (store, record) = store_with_run(folder.path(), "tiles-1");
    let sound = || Sketch::tile(8, 1e-5, 1e-4).finding();

    let mut forged_text = sound();
    forged_text.blobs[0].text.push('x');
    let mut no_source = sound();
    no_source.blobs.remove(0);
    let mut other_job = sound();
    other_job.trial.id = warpsmith_model::TrialId::of(b"other");
    let mut not_finite = sound();
    not_finite.trial.outcome = Outcome::Incorrect {
        mismatch: Mismatch {
            kind: MismatchKind::NotFinite,
            stage: Stage::Gate,
            workload: "small".to_string(),
            inputs: "normal".to_string(),
            seed: 1,
            tensor: "o".to_string(),
            index: vec![0],
            got: "NaN".to_string(),
            expected: "1".to_string(),
            excess: f64::INFINITY,
            wrong: 1,
            total: 1,
        },
    };
    let mut untimed = sound();
    untimed.trial.outcome = passed(&[("small", 1e-5)]);
    if let Outcome::Passed { measurements } = &mut untimed.trial.outcome {
        measurements[0].samples_s.clear();
    }
    for (finding, expected) in [
        (forged_text, "is not what its id"),
        (no_source, "which came with no trial"),
        (other_job, "answers another job"),
        (not_finite, "not finite"),
        (untimed, "no samples"),
    ] {
        let error = store.append(&record.id, &finding, START).expect_err(expected).to_string();
        assert!(error.contains(expected), "expected `{expected}` in `{error}`");
    }
    assert!(store.trials(&record.id).expect("trials").is_empty());
    let error = store.blob(&source().id).expect_err("rolled back");
    assert!(matches!(error, StoreError::UnknownBlob { .. }), "{error}");
    store.append(&record.id, &sound(), START).expect("the store goes on");
}

#[test]
fn runs_end_go_on_and_are_found_by_part_of_their_name() {
    let folder = tempfile::tempdir().expect("a folder");
    let (store, first) = store_with_run(folder.path(), "attention-20260101-120000-aaaa");
    for (name, after) in [("attention-20260102-120000-bbbb", 9.0), ("gemm-20260103-1-cccc", 5.0)] {
        store.start_run(&record(name, START + after)).expect("a run");
    }
    let error = store.start_run(&first).expect_err("a name is used once");
    assert!(matches!(error, StoreError::RunExists { .. }), "{error}");

    let found = |asked: &str| store.run(asked).map(|record| record.id.0);
    assert_eq!(found("latest").expect("the newest"), "attention-20260102-120000-bbbb");
    assert_eq!(found("gemm").expect("a beginning"), "gemm-20260103-1-cccc");
    assert_eq!(found(&first.id.0).expect("a name"), first.id.0);
    let said = |asked: &str| found(asked).expect_err(asked).to_string();
    assert!(said("attention").contains("any of 2 runs"), "{}", said("attention"));
    for misspelt in ["atention-2026", "gemm-20260103-1-ccc1"] {
        assert!(said(misspelt).contains("did you mean `"), "{}", said(misspelt));
    }
    assert!(!said("softmax").contains("did you mean"), "{}", said("softmax"));

    for status in [
        RunStatus::Interrupted { ended_unix_s: START + 1.0 },
        RunStatus::Running,
        RunStatus::Failed { ended_unix_s: START + 2.0, reason: "disk full".to_string() },
        RunStatus::Finished { ended_unix_s: START + 3.0 },
    ] {
        store.finish_run(&first.id, &status).expect("kept");
        assert_eq!(store.run(&first.id.0).expect("the run").status, status);
    }
    let nobody = RunId("nobody".to_string());
    let finding = Sketch::tile(8, 1.0, 1.0).finding();
    for error in [
        store.finish_run(&nobody, &RunStatus::Running).expect_err("unknown"),
        store.append(&nobody, &finding, START).expect_err("unknown"),
        store.put_ceilings(&nobody, &ceilings(), START).expect_err("unknown"),
        store.put_document(&nobody, "note", &serde_json::json!("x")).expect_err("unknown"),
        store.summaries(&nobody).expect_err("unknown"),
        store.trials(&nobody).expect_err("unknown"),
        store.comparisons(&nobody).expect_err("unknown"),
    ] {
        assert!(matches!(error, StoreError::UnknownRun { .. }), "{error}");
    }
}

#[test]
fn trials_are_found_by_a_beginning_that_no_other_shares() {
    let folder = tempfile::tempdir().expect("a folder");
    let (store, record) = store_with_run(folder.path(), "tiles-1");
    for salt in 0..40 {
        let finding = Sketch { salt, ..Sketch::tile(8, 1e-5, 1e-4) }.finding();
        store.append(&record.id, &finding, START).expect("recorded");
    }
    // Forty ids share sixteen first digits.
    let shared = "0123456789abcdef".chars().find(|digit| {
        matches!(store.trial(&digit.to_string()), Err(StoreError::AmbiguousTrial { .. }))
    });
    assert!(shared.is_some(), "no first digit is shared");
    for unknown in ["", "xyz", "%", "ffffffffffffffff"] {
        let error = store.trial(unknown).expect_err(unknown);
        assert!(matches!(error, StoreError::UnknownTrial { .. }), "{error}");
    }
}

#[test]
fn comparisons_ceilings_and_documents_come_back() {
    let folder = tempfile::tempdir().expect("a folder");
    let (store, record) = store_with_run(folder.path(), "tiles-1");
    let run = &record.id;
    let (one, two) = (comparison(&[(8, 1e-5)], 2e-5), comparison(&[(16, 1e-5)], 2e-5));
    store.put_comparison(run, &one).expect("kept");
    store.put_comparison(run, &two).expect("kept");
    assert_eq!(store.comparisons(run).expect("comparisons"), [one, two]);

    assert_eq!(store.ceilings(run).expect("none yet"), None);
    store.put_ceilings(run, &ceilings(), START).expect("kept");
    assert_eq!(store.ceilings(run).expect("ceilings"), Some(ceilings()));
    let known = store.ceilings_of(&record.environment).expect("ceilings");
    let known: Vec<_> = known.into_iter().map(|known| known.expect("sound")).collect();
    assert_eq!(known, [ceilings()]);

    let chain = ChainRecord { format: 1, wall_s: 2.5, ..ChainRecord::default() };
    store.put_chain(run, &chain).expect("kept");
    assert_eq!(store.chain(run).expect("a chain"), Some(chain));
    for note in ["first", "second"] {
        store.put_document(run, "note", &serde_json::json!(note)).expect("kept");
    }
    assert_eq!(store.documents(run, "note").expect("notes"), ["first", "second"]);
    assert_eq!(store.document_kinds(run).expect("kinds"), ["chain", "comparison", "note"]);
    assert_eq!(store.environment(&record.environment).expect("it"), environment());
    let error = store.blob(&BlobId::of(b"nothing")).expect_err("unknown");
    assert!(matches!(error, StoreError::UnknownBlob { .. }), "{error}");
}
