//! The report: what the page says, what it must never say, and how large it may become.

use warpsmith_evidence::Store;
use warpsmith_evidence::report::{ReportData, gather, render};
use warpsmith_model::{Blob, ComparisonPurpose, Fidelity, Guard, Outcome, RunTrial, notes};

use sample::{HOSTILE, record, sample, sample_empty};

#[path = "../../examples/sample_report/data.rs"]
mod sample;

const SECTIONS: [&str; 10] = [
    "summary",
    "comparison",
    "trust",
    "convergence",
    "effects",
    "roofline",
    "micro",
    "failures",
    "trials",
    "environment",
];

fn check_contains(page: &str, expected: &str) {
    assert!(page.contains(expected), "the page lacks {expected:?}");
}

fn check_lacks(page: &str, unwanted: &str) {
    let at = page.find(unwanted);
    assert!(at.is_none(), "the page has {unwanted:?} at byte {at:?}");
}

#[test]
fn every_section_is_there_once_with_its_heading() {
    for page in [render(&sample(60)), render(&sample_empty())] {
        assert_eq!(page.matches("<h1>").count(), 1);
        for id in SECTIONS {
            assert_eq!(page.matches(&format!("<section id='{id}'")).count(), 1, "{id}");
            assert_eq!(page.matches(&format!("<h2 id='{id}-title'>")).count(), 1, "{id}");
            check_contains(&page, &format!("<a href='#{id}'>"));
        }
    }
}

#[test]
fn the_summary_names_the_winner_its_rivals_and_the_verdicts() {
    let page = render(&sample(60));
    check_contains(&page, "<strong>38.0x</strong> as fast as <code>00_naive</code>");
    check_contains(&page, "ties with <code>blas_loop</code>");
    check_contains(&page, "<dt>BLOCK_M</dt><dd>32</dd>");
    check_contains(&page, "over the 2 of 4 workloads it serves");
    check_contains(&page, "2026-01-31 14:25:30 UTC");
    check_contains(&page, "warpsmith run labs/attention --strategy surrogate --budget 60");
    check_contains(
        &page,
        "<strong>pytorch_sdpa</strong> did not take part: its package torch==2.9.1 is not installed. To add it: <code>warpsmith setup baselines</code>",
    );
}

/// Its notes were once in the table of trials alone, which nobody opens for a number that looks sound.
#[test]
fn the_summary_warns_of_what_is_poor_about_the_winners_own_measurement() {
    let mut data = sample(60);
    let of_the_winner = |record: &&mut RunTrial| {
        let candidate = &record.trial.job.candidate;
        record.trial.job.fidelity == Fidelity::Full && candidate.kernel == "30_register_tile"
    };
    let record = data.trials.iter_mut().find(of_the_winner).expect("the winner's gate");
    let on = record.trial.job.workloads.clone();
    record.trial.notes = on.iter().map(|on| notes::noisy(on, 0.4)).collect();
    let page = render(&data);
    let words = format!(
        "<li>The winner’s trial: noisy on {} of {} workloads (the median&#39;s interval spans up to 40 % of it",
        on.len(),
        on.len()
    );
    check_contains(&page, &words);
}

/// They were counted among those that passed, as in `show` they are not.
#[test]
fn a_kernel_whose_best_trial_was_abandoned_is_marked() {
    let mut data = sample(60);
    let mark = "abandoned as too slow</span>";
    assert!(!render(&data).contains(mark));
    for record in data.trials.iter_mut() {
        let Outcome::Passed { measurements } = &mut record.trial.outcome else { continue };
        for measurement in measurements {
            measurement.stop = warpsmith_model::StopReason::Hopeless;
        }
    }
    check_contains(&render(&data), mark);
}

/// A run on two of the lab's workloads said that all of them were proven.
#[test]
fn the_chain_of_trust_counts_the_workloads_of_the_run() {
    let mut data = sample(60);
    let chain = data.chain.as_mut().expect("a chain");
    chain.authorities.truncate(1);
    check_contains(&render(&data), "on 1 workload, with");
}

#[test]
fn every_missing_guard_is_a_warning() {
    let mut data = sample(60);
    let isolation = &mut data.environment.isolation;
    for guard in [
        &mut isolation.seccomp,
        &mut isolation.landlock,
        &mut isolation.rlimits,
        &mut isolation.sealed_inputs,
        &mut isolation.privileges,
    ] {
        *guard = Guard::Missing { reason: "the tests say so".to_string() };
    }
    let page = render(&data);
    assert_eq!(page.matches("<li>Candidates ran without ").count(), 5);
}

/// The finals begin with the author's choice; the page said of it that it is slower, in other words than the
/// terminal, which speaks of the winner.
#[test]
fn other_comparisons_are_told_from_the_winners_side() {
    let mut data = sample(60);
    let mut finals = data.comparisons.last().expect("the headline").clone();
    finals.purpose = ComparisonPurpose::Finalists;
    finals.contenders.swap(0, 1);
    finals.workloads.iter_mut().for_each(|rounds| rounds.samples_s.swap(0, 1));
    data.comparisons.insert(0, finals);
    let page = render(&data);
    let purpose = "<li>the search&#39;s best against each other, to choose the winner";
    check_contains(&page, &format!("{purpose}: 30_register_tile is 38.0x as fast as 00_naive"));
    check_lacks(&page, &format!("{purpose}: 00_naive is slower"));
}

#[test]
fn the_same_evidence_gives_the_same_page() {
    assert_eq!(render(&sample(40)), render(&sample(40)));
}

#[test]
fn the_page_asks_for_nothing_from_outside() {
    let page = render(&sample(40));
    for unwanted in
        ["src='", "href='http", "href='//", "url(", "@import", "fetch(", "XMLHttpRequest"]
    {
        check_lacks(&page, unwanted);
    }
    check_contains(&page, "default-src &#39;none&#39;");
}

#[test]
fn hostile_texts_stay_texts() {
    let page = render(&sample(10));
    for unwanted in ["<script>window", "</script><script>", "<img", "\u{1b}", "\u{0}", "\u{202e}"] {
        check_lacks(&page, unwanted);
    }
    check_contains(&page, "&lt;/script&gt;&lt;script&gt;window.hacked=1");
    check_contains(&page, "\\u003c/script\\u003e\\u003cscript\\u003ewindow.hacked=1");
    check_contains(&page, "⟨U+202E⟩");
}

#[test]
fn hostile_names_everywhere_stay_texts() {
    let mut data = sample(10);
    let hostile = || HOSTILE.to_string();
    data.run.id.0 = hostile();
    data.run.lab.title = hostile();
    data.run.lab.name = hostile();
    data.run.lab.oracle = hostile();
    data.run.lab.reference = hostile();
    data.run.lab.inputs[0].name = hostile();
    data.run.lab.proofs[0].name = hostile();
    data.run.lab.workloads[0].name = hostile();
    data.run.lab.kernels[2].summary = hostile();
    data.run.settings.insert(hostile(), hostile().into());
    data.environment.device.name = hostile();
    data.environment.compilers[0].version = hostile();
    data.environment.warpsmith = hostile();
    let comparison = &mut data.comparisons[1];
    comparison.contenders[1].label = hostile();
    comparison.workloads[0].workload = hostile();
    comparison.missing[0].how = hostile();
    comparison.notes.push(hostile());
    let chain = data.chain.as_mut().expect("the sample has one");
    chain.proofs[0].shape = hostile();
    chain.sensitivity[0].tensor = hostile();
    chain.authorities[0].workload = hostile();
    let page = render(&data);
    for unwanted in ["<script>window", "<img", "\u{1b}", "\u{0}", "\u{202e}"] {
        check_lacks(&page, unwanted);
    }
    assert_eq!(page.matches("<script").count(), 2, "the data and the page's own script");
}

#[test]
fn sections_without_data_say_so_in_words() {
    let page = render(&sample_empty());
    for words in [
        "There is no winner",
        "No paired comparison was run.",
        "How the reference proves the oracle was not recorded in this run.",
        "No candidate was tried.",
        "no parameter has an effect to show",
        "The machine’s ceilings were not measured, so there is no roofline.",
        "No microbenchmark was run.",
        "No trial was recorded.",
        "No compiler was found.",
        "The run recorded no settings.",
        "The run had not ended when this report was made.",
    ] {
        check_contains(&page, words);
    }
    check_lacks(&page, "NaN");
}

#[test]
fn a_comparison_alone_is_reported_without_a_winner() {
    let mut data = sample(0);
    data.trials.clear();
    let page = render(&data);
    check_contains(
        &page,
        "<p class='headline'><code>30_register_tile</code> is <strong>38.0x</strong>",
    );
}

#[test]
fn failures_alone_are_reported_without_charts() {
    let mut data = sample(40);
    data.trials.retain(|record| !matches!(record.trial.outcome, Outcome::Passed { .. }));
    data.comparisons.clear();
    let page = render(&data);
    check_contains(&page, "There is no winner");
    check_contains(&page, "there is nothing to plot");
    check_contains(&page, "static assertion failed");
}

#[test]
fn the_table_holds_every_trial_and_every_text_once() {
    let data = sample(60);
    let document = packed(&render(&data));
    let rows = document["rows"].as_array().expect("rows");
    assert_eq!(rows.len(), data.trials.len());
    let texts = document["texts"].as_array().expect("texts");
    assert_eq!(texts.len(), data.texts.len());
    for (row, record) in rows.iter().zip(&data.trials) {
        assert_eq!(row[0], record.seq);
        let source = row[9].as_u64().expect("a number") as usize;
        assert_eq!(texts[source][0], record.trial.job.candidate.source.short());
    }
}

#[test]
fn a_run_with_ten_megabytes_of_logs_still_fits_and_says_what_is_left_out() {
    let mut data = sample(60);
    for (idx, record) in data.trials.iter_mut().enumerate() {
        let log = Blob::new(format!("{idx}: {}", "warning: talkative\n".repeat(20_000)));
        for build in &mut record.trial.builds {
            build.log = log.id;
        }
        data.texts.insert(log.id, log.text);
    }
    let page = render(&data);
    assert!(page.len() < 15_000_000, "{} bytes", page.len());
    check_contains(&page, "bytes left out here; the evidence has them");
    check_contains(&page, "did not fit into this page");
}

#[test]
fn the_page_is_the_same_through_a_store() {
    let data = sample(30);
    let folder = tempfile::tempdir().expect("a folder");
    let store = Store::open(&folder.path().join("evidence.db")).expect("a store");
    record(&data, &store).expect("recorded");
    let gathered = gather(&store, &data.run.id).expect("gathered");
    assert_eq!(gathered.trials, data.trials);
    assert_eq!(render(&gathered), render(&data));
}

/// The JSON block of a page.
fn packed(page: &str) -> serde_json::Value {
    let begin = "<script type='application/json' id='trials-data'>";
    let start = page.find(begin).expect("the block") + begin.len();
    let end = start + page[start..].find("</script>").expect("its end");
    serde_json::from_str(&page[start..end]).expect("JSON")
}
