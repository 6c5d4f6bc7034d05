//! Builds a store of many made-up trials and prints how long reading takes, and what a durable
//! commit costs on the disk of `FOLDER`.
//!
//! `cargo run --release -p warpsmith-evidence --example many_trials -- [COUNT [FOLDER]]`

#[path = "../tests/it/fixture.rs"]
mod fixture;

use std::time::Instant;

use fixture::{START, Sketch, ceilings, comparison, measurement, record, store_with_run};
use warpsmith_evidence::{Question, Store, derive, export};
use warpsmith_model::{Fidelity, Finding, Outcome, rng::Rng};

/// Samples on each workload: what adaptive timing takes on a noisy machine.
const SAMPLES: usize = 40;

#[expect(clippy::print_stdout, reason = "the timings are the result")]
fn report(what: &str, limit_s: f64, start: Instant) {
    let elapsed_s = start.elapsed().as_secs_f64();
    let verdict = if elapsed_s <= limit_s { "" } else { "   <-- over its limit" };
    println!("{what:<58} {:>9.1} ms  (limit {:>6.0} ms){verdict}", elapsed_s * 1e3, limit_s * 1e3);
}

#[expect(clippy::print_stdout, reason = "the timings are the result")]
fn main() {
    let count: u64 = match std::env::args().nth(1) {
        Some(text) => text.parse().expect("COUNT is a number"),
        None => 10_000,
    };
    let parent = std::env::args_os().nth(2).map_or_else(std::env::temp_dir, Into::into);
    let folder = tempfile::tempdir_in(parent).expect("a folder");
    let (store, run) = store_with_run(folder.path(), "tiles-1");
    store.put_ceilings(&run.id, &ceilings(), START).expect("kept");
    let mut rng = Rng::new(5);
    let findings: Vec<Finding> = (0..count).map(|salt| finding(salt, &mut rng)).collect();

    let start = Instant::now();
    for finding in &findings {
        store.append(&run.id, finding, START + finding.trial.job.seed as f64).expect("recorded");
    }
    let each_ms = start.elapsed().as_secs_f64() * 1e3 / count as f64;
    println!("{count} trials of {SAMPLES} samples on 2 workloads");
    println!("append, durable: {each_ms:.2} ms a trial");
    store.put_comparison(&run.id, &comparison(&[(8, 1e-5), (16, 1.1e-5)], 2e-5)).expect("kept");
    drop(store);
    let size = std::fs::metadata(folder.path().join("evidence.db")).expect("the file").len();
    println!("file: {:.1} KB a trial", size as f64 / 1e3 / count as f64);

    let path = folder.path().join("evidence.db");
    let start = Instant::now();
    let store = Store::open_read_only(&path).expect("the store");
    let runs = store.runs().expect("runs");
    report("open and list runs", 0.2, start);
    assert_eq!(runs[0].trials, count);

    let start = Instant::now();
    let store = Store::open_read_only(&path).expect("the store");
    store.run("latest").expect("the run");
    let asked = findings[findings.len() / 2].trial.id.short();
    store.trial(&asked).expect("the trial");
    report("open and show one trial", 0.2, start);

    let start = Instant::now();
    let store = Store::open_read_only(&path).expect("the store");
    let record_ = store.run("latest").expect("the run");
    let summaries = store.summaries(&record_.id).expect("summaries");
    let board = derive::leaderboard(&record_, &summaries, Fidelity::Rank);
    report("open and show a run: summaries and ranking", 0.2, start);

    let start = Instant::now();
    let comparisons = store.comparisons(&record_.id).expect("comparisons");
    derive::winner(&record_, &summaries, &comparisons).expect("a winner");
    derive::standings(&comparisons[0], 0);
    derive::convergence(&record_, &summaries, &board);
    derive::failures(&summaries);
    derive::micro_agreement(&summaries);
    for kernel in &record_.lab.kernels {
        derive::parameter_effects(kernel, &summaries, &board);
    }
    let ceilings = store.ceilings(&record_.id).expect("ceilings").expect("measured");
    for entry in &board.entries {
        derive::roofline_points(&record_.lab, &ceilings, entry.trial);
    }
    report("every derivation", 0.5, start);

    let start = Instant::now();
    let trials = store.trials(&record_.id).expect("trials");
    let texts = store.texts(&trials).expect("texts");
    report("every trial with every sample, and its texts", 1.0, start);
    println!("({} trials, {} texts)", trials.len(), texts.len());

    let out = folder.path().join("out");
    for format in export::Format::ALL {
        let start = Instant::now();
        export::export(&store, &record_, &out, &[format]).expect("written");
        report(&format!("export {}", format.name()), 3.0, start);
    }

    let start = Instant::now();
    let faults = store.verify().expect("checked");
    report("verify", 10.0, start);
    assert_eq!(faults, Vec::<String>::new());

    replay(&path, &findings[..findings.len().min(200)]);
}

/// What a campaign does that was run before: find every answer and take it over.
fn replay(path: &std::path::Path, findings: &[Finding]) {
    let start = Instant::now();
    let store = Store::open(path).expect("the store");
    let second = record("tiles-2", START + 1e6);
    store.start_run(&second).expect("a run");
    for finding in findings {
        let job = &finding.trial.job;
        let question = Question {
            candidate: job.candidate.id,
            fidelity: job.fidelity,
            workloads: &job.workloads,
            environment: finding.trial.environment,
            lab: job.lab,
        };
        let found = store.find_trial(&question).expect("a search").expect("an answer");
        store.adopt(&second.id, &found, START + 1e6).expect("adopted");
    }
    report(&format!("find and adopt {} trials", findings.len()), 2.0, start);
}

fn finding(salt: u64, rng: &mut Rng) -> Finding {
    let time_s = 1e-5 * (1.0 + rng.unit());
    let fidelity = if salt.is_multiple_of(4) { Fidelity::Micro } else { Fidelity::Rank };
    let mut measurements = vec![measurement("small", time_s, SAMPLES)];
    if fidelity == Fidelity::Rank {
        measurements.push(measurement("large", time_s * 10.0, SAMPLES));
    }
    let outcome = match salt % 50 {
        1 => fixture::crashed(),
        2 => fixture::compile_failed(),
        _ => Outcome::Passed { measurements },
    };
    // Most micro trials are followed by a trial of the same candidate at the search's fidelity.
    let sketch = Sketch { salt, fidelity, outcome, ..Sketch::tile(8 << (salt % 4), 1.0, 1.0) };
    let mut finding = sketch.finding();
    finding.trial.job.seed = salt;
    finding
}
