//! Files of other tuners: read, written again, refused when broken; and replayed.

use proptest::prelude::*;
use warpsmith_search::recorded::{Failure, Measured, Recorded};
use warpsmith_search::simulate::{
    Course, Methodology, QualitySummary, quality, random_exact, replay,
};
use warpsmith_search::{SpaceSpec, Strategy};

use crate::simulated::show;

fn file(folder: &str, name: &str) -> Vec<u8> {
    let path = format!("{}/tests/data/{folder}/{name}.json", env!("CARGO_MANIFEST_DIR"));
    std::fs::read(path).expect("the test's data")
}

fn kernel_tuner() -> Vec<u8> {
    file("recorded", "convolution_A100_extract_kernel_tuner")
}

fn t4() -> Vec<u8> {
    file("recorded", "convolution_A100_extract_t4")
}

#[test]
fn both_formats_tell_the_same() {
    let (cache, results) = (Recorded::read(&kernel_tuner()), Recorded::read(&t4()));
    let (cache, results) = (cache.expect("a cache"), results.expect("results"));
    assert_eq!(cache.device, "NVIDIA A100-PCIE-40GB");
    assert_eq!(cache.kernel, "convolution_kernel");
    assert_eq!((cache.entries().len(), results.entries().len()), (8, 8));
    for params in cache.space().iter() {
        let entry = |recorded: &Recorded| {
            let index = recorded.space().index_of(&params).expect("in both");
            recorded.entry(index).expect("an entry").clone()
        };
        assert_eq!(entry(&cache).measured, entry(&results).measured, "{params}");
        assert_eq!(entry(&cache).timestamp, entry(&results).timestamp, "{params}");
    }
    let failed = |failure| move |e: &&_| entry_failed(e, failure);
    assert_eq!(cache.entries().iter().filter(failed(Failure::Compile)).count(), 1);
    assert_eq!(cache.entries().iter().filter(failed(Failure::Runtime)).count(), 1);
}

fn entry_failed(entry: &warpsmith_search::recorded::Entry, failure: Failure) -> bool {
    entry.measured == Measured::Failed(failure)
}

#[test]
fn what_is_written_reads_the_same_again() {
    for bytes in [kernel_tuner(), t4()] {
        let recorded = Recorded::read(&bytes).expect("a recorded space");
        for written in [recorded.kernel_tuner_cache(), recorded.t4_results()] {
            let again = Recorded::read(written.to_string().as_bytes()).expect("what we wrote");
            assert_eq!(again.entries().len(), recorded.entries().len());
            for (index, params) in recorded.space().iter().enumerate() {
                let there = again.space().index_of(&params).expect("the same configurations");
                assert_eq!(again.entry(there), recorded.entry(index as u128), "{params}");
            }
        }
    }
}

#[test]
fn a_cache_keeps_its_document() {
    let original: serde_json::Value = serde_json::from_slice(&kernel_tuner()).expect("JSON");
    let recorded = Recorded::read(&kernel_tuner()).expect("a cache");
    let written = recorded.kernel_tuner_cache();
    for field in ["device_name", "kernel_name", "problem_size", "tune_params_keys", "tune_params"] {
        assert_eq!(written[field], original[field], "{field}");
    }
    let cache = original["cache"].as_object().expect("entries");
    for (key, entry) in cache {
        // A metric of the user's is a function of the time, and not kept.
        let fields = entry.as_object().expect("an entry").iter();
        for (field, value) in fields.filter(|(field, _)| *field != "GFLOP/s") {
            let own = &written["cache"][key][field];
            let same = own == value || (own.is_number() && own.as_f64() == value.as_f64());
            assert!(same, "{key} {field}: {own} is not {value}");
        }
    }
}

fn check_error(bytes: &[u8], expected: &str) {
    let error = Recorded::read(bytes).expect_err("not a recorded space");
    assert_eq!(error.to_string(), expected);
}

#[test]
fn mistakes_are_named() {
    let malformed = "not a Kernel Tuner cache or a T4 results file";
    check_error(b"", "the file is empty");
    check_error(b" \n\t", "the file is empty");
    check_error(b"{", malformed);
    check_error(b"\x1f\x8b\x08\xff", malformed);
    check_error(b"[1, 2]", malformed);
    check_error("[".repeat(100_000).as_bytes(), malformed);
    check_error(
        br#"{"x": {"y": 1}}"#,
        "neither a Kernel Tuner cache, which has `cache` and `tune_params_keys`, nor a T4 results \
         file, which has `results`",
    );
    check_error(
        br#"{"schema_version": "2.0.0", "results": []}"#,
        "T4 results of version 2.0.0; this version of Warpsmith reads 1.x",
    );
    check_error(br#"{"results": []}"#, "no configuration is recorded");
    let cache = |entries: &str| {
        format!(r#"{{"tune_params_keys": ["A"], "tune_params": {{}}, "cache": {{{entries}}}}}"#)
    };
    let failed = r#""1": {"A": 1, "time": "RuntimeFailedConfig"}"#;
    check_error(cache(failed).as_bytes(), "none of the 1 recorded configurations has a time");
    let missing = r#""1": {"B": 1, "time": 1.0}"#;
    check_error(cache(missing).as_bytes(), "configuration 1 has no value for `A`");
    let twice = r#""1": {"A": 1, "time": 1.0}, "2": {"A": 1, "time": 2.0}"#;
    check_error(cache(twice).as_bytes(), "configuration 2 repeats an earlier one");
    let negative = r#""1": {"A": 1, "time": -1.0}"#;
    check_error(
        cache(negative).as_bytes(),
        "configuration 1 has the time -1, which is not a positive number",
    );
}

#[test]
fn the_order_of_a_document_does_not_matter() {
    let document: serde_json::Value = serde_json::from_slice(&kernel_tuner()).expect("JSON");
    // Sorted by name, the entries come before the list of the parameters.
    let sorted = document.to_string();
    assert!(sorted.find("\"cache\"") < sorted.find("\"tune_params_keys\""));
    let recorded = Recorded::read(sorted.as_bytes()).expect("a cache");
    assert_eq!(recorded.entries().len(), 8);
}

proptest! {
    #[test]
    fn broken_files_are_refused_and_never_a_panic(end in 0usize..6000, at in 0usize..6000, byte: u8) {
        for mut bytes in [kernel_tuner(), t4(), file("spaces", "hotspot_t1_extract")] {
            if let Some(hit) = bytes.get_mut(at) {
                *hit = byte;
            }
            let _any_answer = Recorded::read(&bytes);
            let _any_answer = SpaceSpec::read(&bytes).map(|spec| spec.tunables.len());
            bytes.truncate(end.min(bytes.len() - 2));
            prop_assert!(Recorded::read(&bytes).is_err());
        }
    }
}

#[test]
fn a_t1_file_is_the_space_that_it_describes() {
    let spec = SpaceSpec::read(&file("spaces", "hotspot_t1_extract")).expect("a space");
    let space = spec.space().expect("a space");
    assert_eq!(spec.name, "hotspot");
    assert_eq!((space.cartesian(), space.len()), (4_440_000, 82_984));
}

/// A space of so many configurations whose times are 1, 2, 3 and so on; every fifth one failed.
fn staircase(count: usize) -> Recorded {
    let entries: Vec<String> = (0..count)
        .map(|idx| {
            let time = if idx % 5 == 4 {
                "\"RuntimeFailedConfig\"".into()
            } else {
                format!("{}.0", idx + 1)
            };
            format!(r#""{idx}": {{"A": {idx}, "time": {time}}}"#)
        })
        .collect();
    let text = format!(
        r#"{{"tune_params_keys": ["A"], "tune_params": {{}}, "cache": {{{}}}}}"#,
        entries.join(", ")
    );
    Recorded::read(text.as_bytes()).expect("a cache")
}

#[test]
fn the_closed_form_of_random_search_is_what_random_search_does() {
    let recorded = staircase(40);
    for k in [1, 3, 10, 40, 100] {
        let qualities: Vec<f64> = (0..3000)
            .map(|seed| {
                let course = replay(&recorded, Strategy::Random, seed, k).expect("a replay");
                quality(&recorded, course.best_ms[k - 1])
            })
            .collect();
        let (found, exact) =
            (QualitySummary::of(&qualities).expect("repeats"), random_exact(&recorded, k));
        let close = |a: f64, b: f64| (a - b).abs() <= 4.0 * found.sem + 1e-9;
        assert!(close(found.mean, exact.mean), "after {k}: {found:?}, exactly {exact:?}");
        assert!((found.median - exact.median).abs() < 0.1, "after {k}: {found:?}, {exact:?}");
        assert!(found.worst >= exact.worst - 1e-12, "after {k}: {found:?}, {exact:?}");
    }
}

#[test]
fn the_score_is_0_for_random_search_and_1_for_the_optimum_at_once() {
    let recorded = staircase(400);
    let methodology = Methodology::of(&recorded);
    let evaluations = methodology.evaluations();
    let at_once = vec![vec![recorded.optimum_ms(); evaluations]];
    assert!((methodology.score(&at_once) - 1.0).abs() < 1e-12);
    let courses: Vec<Vec<f64>> = (0..300)
        .map(|seed| {
            replay(&recorded, Strategy::Random, seed, evaluations).expect("a replay").best_ms
        })
        .collect();
    // Failures cost random search some of its evaluations, which the baseline does not know.
    assert!(methodology.score(&courses).abs() < 0.5, "{}", methodology.score(&courses));
}

#[test]
fn a_course_ends_when_it_stalls_or_when_too_little_is_expected() {
    let course = Course {
        // Nothing runs at first; the fourth is better by less than a percent.
        best_ms: vec![f64::INFINITY, f64::INFINITY, 10.0, 9.95, 9.95, 8.0, 8.0, 8.0],
        outlook: vec![None, None, None, Some(0.2), Some(0.01), Some(0.03), Some(0.004), Some(0.0)],
    };
    let end = |until: &str| course.end(&until.parse().expect(until));
    assert_eq!(end("stalled:1"), Some(4));
    assert_eq!(end("stalled:2"), Some(5));
    assert_eq!(end("stalled:3"), None);
    assert_eq!(end("expected:2"), Some(4), "the fifth is not made");
    assert_eq!(end("expected:0.5"), Some(6));
    assert_eq!(end("roofline:5"), None);
}

#[test]
fn a_search_expects_less_and_less_and_asking_changes_nothing() {
    let simulated = crate::simulated::Simulated::recorded("pnpoly_RTX3090");
    let (mut asked, mut unasked) =
        (simulated.proposer(Strategy::Auto, 3), simulated.proposer(Strategy::Auto, 3));
    // One that is resumed: it has proposed nothing, and hears of what was stored.
    let mut resumed = simulated.proposer(Strategy::Auto, 3);
    let mut outlooks = Vec::new();
    for _ in 0..60 {
        outlooks.push(asked.outlook());
        let proposals = asked.propose(1).expect("a proposal");
        assert_eq!(proposals, unasked.propose(1).expect("a proposal"));
        let finding = simulated.evaluate(&proposals[0]);
        show(&mut *asked, &finding);
        show(&mut *unasked, &finding);
        show(&mut *resumed, &finding);
    }
    assert_eq!(asked.outlook(), resumed.outlook());
    assert!(outlooks[..8].iter().all(Option::is_none), "{outlooks:?}");
    let mean = |outlooks: &[Option<f64>]| {
        outlooks.iter().map(|outlook| outlook.expect("a model")).sum::<f64>() / 10.0
    };
    let (early, late) = (mean(&outlooks[8..18]), mean(&outlooks[50..]));
    assert!(early > 3.0 * late && late >= 0.0, "{early} {late}");
    assert_eq!(simulated.proposer(Strategy::Random, 3).outlook(), None);
}

#[test]
fn the_default_strategy_beats_random_search_far_and_wide() {
    for (name, enough) in [("convolution_A100", 0.87), ("pnpoly_RTX3090", 0.98)] {
        let simulated = crate::simulated::Simulated::recorded(name);
        let mean = crate::replay::mean_quality(&simulated, Strategy::Auto, &[100])[0];
        assert!(mean > enough, "{name}: {mean:.3}");
    }
}
