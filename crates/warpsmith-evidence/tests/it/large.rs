//! Runs that are too large to show every trial: what is counted is exact, what is best is there, and the rest
//! is in an export.

use std::path::Path;

use warpsmith_evidence::export::{Format, collect_evidence, export, read_best, read_evidence};
use warpsmith_evidence::report::{gather, gather_within, render};
use warpsmith_evidence::{Limits, Store};
use warpsmith_model::{Fidelity, RunRecord};

use crate::fixture::{
    START, Sketch, comparison, compile_failed, crashed, passed, store_with_run, tile_params,
};

const TRIALS: u64 = 240;
const LIMITS: Limits = Limits { whole: 50, sampled: 40, best: [10, 5, 2], newest: 5, few: 10 };

/// A run whose best trials lie anywhere, and whose winner was decided in paired rounds.
fn large_run(folder: &Path) -> (Store, RunRecord) {
    let (store, record) = store_with_run(folder, "tiles-1");
    for salt in 0..TRIALS {
        let time_s = 1e-5 * (1.0 + (salt * 7919 % 1000) as f64 / 100.0);
        let tile = [8, 16, 32, 64][salt as usize % 4];
        let outcome = match salt % 10 {
            3 => crashed(),
            4 => compile_failed(),
            _ => passed(&[("small", time_s), ("large", time_s * 10.0)]),
        };
        let fidelity = if salt % 6 == 0 { Fidelity::Micro } else { Fidelity::Rank };
        let sketch = Sketch { salt, outcome, fidelity, ..Sketch::tile(tile, 1.0, 1.0) };
        store.append(&record.id, &sketch.finding(), START + salt as f64).expect("recorded");
    }
    let winner = Sketch {
        salt: TRIALS,
        params: tile_params(16, true, "-O3 -funroll-loops"),
        fidelity: Fidelity::Full,
        ..Sketch::tile(16, 9e-6, 9e-5)
    };
    store.append(&record.id, &winner.finding(), START + TRIALS as f64).expect("recorded");
    store.put_comparison(&record.id, &comparison(&[(16, 1e-5), (8, 2e-5)], 3e-5)).expect("kept");
    (store, record)
}

#[test]
fn a_large_run_is_shown_in_part_and_counted_as_a_whole() {
    let folder = tempfile::tempdir().expect("a folder");
    let (store, record) = large_run(folder.path());
    let whole = gather(&store, &record.id).expect("everything");
    assert!(whole.rest.is_none());
    let part = gather_within(&store, &record.id, LIMITS).expect("a part");
    let rest = part.rest.clone().expect("there is more");
    assert_eq!(rest.totals.trials as u64, TRIALS + 1);
    let shown = part.trials.len() as u64;
    assert!(shown < TRIALS && shown > 40, "{shown} trials are shown");
    assert!(!rest.sample.is_empty() && (rest.sample.len() as u64) < shown);

    let (whole_page, page) = (render(&whole), render(&part));
    assert!(page.len() < whole_page.len());
    let words = format!("Showing {shown} of 241 trials");
    assert!(page.contains(&words), "no `{words}`");
    assert!(page.contains("warpsmith export tiles-1 --format csv"));
    assert!(!whole_page.contains("Showing"));
    // What is counted, and who won, is the same on both pages.
    let section = |page: &str, id: &str| {
        let from = page.find(&format!("<section id='{id}'")).expect("a section");
        page[from..].split("</section>").next().expect("its end").to_string()
    };
    for id in ["failures", "trust"] {
        assert_eq!(section(&page, id), section(&whole_page, id), "{id}");
    }
    let first_words = |page: &str| {
        let section = section(page, "convergence");
        section.split("</p>").next().expect("a paragraph").to_string()
    };
    assert_eq!(first_words(&page), first_words(&whole_page));
    let ladder = |page: &str| {
        let section = section(page, "convergence");
        section[section.find("The best of each kernel").expect("a table")..].to_string()
    };
    assert_eq!(ladder(&page), ladder(&whole_page));
}

#[test]
fn the_same_run_is_always_shown_by_the_same_trials() {
    let folder = tempfile::tempdir().expect("a folder");
    let (store, record) = large_run(folder.path());
    let [one, other] = [0, 1].map(|_| gather_within(&store, &record.id, LIMITS).expect("a part"));
    assert_eq!(one, other);
}

#[test]
fn exports_hold_every_trial_though_none_is_kept() {
    let folder = tempfile::tempdir().expect("a folder");
    let (store, record) = large_run(folder.path());
    let out = folder.path().join("out");
    let formats = [Format::Logs, Format::Best, Format::Evidence, Format::KernelTuner, Format::T4];
    export(&store, &record, &out, &formats).expect("written");
    let lines = |name: &str| {
        let text = std::fs::read_to_string(out.join(name)).expect("a log");
        text.lines().count() as u64 - 1
    };
    assert_eq!(lines("micro_log.csv") + lines("evo_log.csv"), TRIALS + 1);
    let evidence = read_evidence(&out.join("evidence.json")).expect("everything");
    assert_eq!(evidence, collect_evidence(&store, &record).expect("collected"));
    let best = read_best(&out.join("evo_best.json")).expect("a list");
    assert_eq!(best.entries[0].params, tile_params(16, true, "-O3 -funroll-loops"));
    let json = |name: &str| -> serde_json::Value {
        let text = std::fs::read_to_string(out.join(name)).expect("a file");
        serde_json::from_str(&text).expect("JSON")
    };
    let ranked =
        evidence.trials.iter().filter(|it| it.trial.job.fidelity == Fidelity::Rank).count();
    let t4 = json("t4/10_tile@small.json");
    assert_eq!(t4["results"].as_array().map(Vec::len), Some(ranked));
    // A cache is keyed by the parameters, of which there are four.
    let cache = json("kernel_tuner/10_tile@large.json");
    assert_eq!(cache["cache"].as_object().map(serde_json::Map::len), Some(4));
}
