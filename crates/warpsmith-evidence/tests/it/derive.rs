//! What the evidence means, from stored trials to rankings.

use warpsmith_evidence::derive::{
    Bound, Choice, Decision, best_by_kernel, best_by_workload, convergence, disagreements,
    dispatch, failures, leaderboard, micro_agreement, parameter_effects, roofline_points, sentence,
    standings, winner,
};
use warpsmith_evidence::{TrialSummary, workload_times};
use warpsmith_model::stats::Comparison;
use warpsmith_model::{
    Absent, ComparisonRecord, Fidelity, Finding, Origin, Params, StopReason, Value, Verdict,
};

use crate::fixture::{
    START, Sketch, ceilings, comparison, compile_failed, crashed, measurement, passed, record,
    store_with_run, tile_params,
};

/// Stores findings one second apart and reads their summaries back.
fn summaries(findings: &[Finding]) -> Vec<TrialSummary> {
    let folder = tempfile::tempdir().expect("a folder");
    let (store, record) = store_with_run(folder.path(), "tiles-1");
    for (idx, finding) in findings.iter().enumerate() {
        store.append(&record.id, finding, START + 1.0 + idx as f64).expect("recorded");
    }
    store.summaries(&record.id).expect("summaries")
}

fn tiles<'a>(trials: impl Iterator<Item = &'a TrialSummary>) -> Vec<i64> {
    trials
        .map(|trial| match trial.params.get("TILE") {
            Some(Value::Int(tile)) => *tile,
            _ => 0,
        })
        .collect()
}

fn naive(small_s: f64, large_s: f64) -> Sketch {
    Sketch {
        kernel: "00_naive",
        params: Params::default(),
        origin: Origin::Seed,
        ..Sketch::tile(0, small_s, large_s)
    }
}

fn library(small_s: f64, large_s: f64) -> Sketch {
    Sketch { kernel: "library", origin: Origin::Baseline, ..naive(small_s, large_s) }
}

#[test]
fn the_ranking_needs_every_workload_and_never_ranks_a_library() {
    let half = Sketch { outcome: passed(&[("small", 1e-9)]), ..Sketch::tile(64, 1.0, 1.0) };
    let trials = summaries(&[
        naive(4e-5, 4e-4).finding(),
        Sketch::tile(8, 2e-5, 2e-4).finding(),
        Sketch::tile(16, 1e-5, 3e-4).finding(),
        half.finding(),
        Sketch { outcome: crashed(), ..Sketch::tile(32, 1.0, 1.0) }.finding(),
        library(1e-6, 1e-5).finding(),
        Sketch { fidelity: Fidelity::Full, ..Sketch::tile(8, 1e-7, 1e-7) }.finding(),
    ]);
    let record = record("tiles-1", START);
    let board = leaderboard(&record, &trials, Fidelity::Rank);
    assert_eq!(board.workloads, ["small", "large"]);
    assert_eq!(tiles(board.entries.iter().map(|entry| entry.trial)), [16, 8, 0]);
    // The geometric mean of 1e-5 and 3e-4.
    let score = board.entries[0].score_s;
    assert!((score.mid / 3e-9f64.sqrt() - 1.0).abs() < 1e-9, "{score:?}");
    assert!(score.low < score.mid && score.mid < score.high, "{score:?}");
    assert_eq!(board.baselines.len(), 1);
    assert_eq!(board.unranked.len(), 1);
    assert_eq!(board.unranked[0].missing, ["large"]);
    assert!(board.unranked[0].trial.is_abandoned());

    assert_eq!(tiles(best_by_kernel(&board).iter().map(|entry| entry.trial)), [0, 16]);
    let best: Vec<(String, i64)> = best_by_workload(&board, &trials)
        .into_iter()
        .map(|(workload, trial)| (workload, tiles([trial].into_iter())[0]))
        .collect();
    assert_eq!(best, [("small".to_string(), 64), ("large".to_string(), 8)]);

    // `Full` is a ranking of its own, and is asked first.
    let winner = winner(&record, &trials, &[]).expect("a winner");
    assert_eq!((winner.fidelity, winner.decision), (Fidelity::Full, Decision::Ranked));
    assert!(warpsmith_evidence::derive::winner(&record, &trials[5..6], &[]).is_none());
}

#[test]
fn twins_share_one_place() {
    let first = Sketch::tile(8, 2e-5, 2e-4).finding();
    let mut twin = Sketch::tile(16, 2e-5, 2e-4).finding();
    twin.trial.same_binary_as = Some(first.trial.id);
    let mut orphan = Sketch::tile(32, 3e-5, 3e-4).finding();
    orphan.trial.same_binary_as = Some(warpsmith_model::TrialId::of(b"of another run"));
    let trials = summaries(&[first, twin, orphan]);
    let board = leaderboard(&record("tiles-1", START), &trials, Fidelity::Rank);
    assert_eq!(tiles(board.entries.iter().map(|entry| entry.trial)), [8, 32]);
    assert_eq!(tiles(board.entries[0].twins.iter().copied()), [16]);
}

#[test]
fn the_winner_follows_paired_rounds_and_ties_are_called_ties() {
    let record = record("tiles-1", START);
    // The ranking alone would choose 8.
    let trials = summaries(&[
        Sketch::tile(8, 1.0e-5, 1e-4).finding(),
        Sketch::tile(16, 1.1e-5, 1.1e-4).finding(),
        Sketch::tile(32, 1.2e-5, 1.2e-4).finding(),
    ]);
    let check = |comparison: ComparisonRecord, tile: i64, tied: &[usize]| {
        let winner = winner(&record, &trials, &[comparison]).expect("a winner");
        assert_eq!(tiles([winner.trial].into_iter()), [tile]);
        let Decision::Paired { comparison: 0, ties, .. } = winner.decision else {
            panic!("not by the comparison: {:?}", winner.decision);
        };
        assert_eq!(ties, tied);
    };
    // Clearly faster, clearly slower, and too close to call.
    check(comparison(&[(8, 1.2e-5), (16, 1e-5)], 9e-6), 16, &[]);
    check(comparison(&[(8, 1e-5), (16, 1.2e-5)], 9e-6), 8, &[]);
    check(comparison(&[(16, 1e-5), (8, 0.995e-5), (32, 2e-5)], 9e-6), 16, &[1]);
    let only_library =
        ComparisonRecord { contenders: comparison(&[], 1.0).contenders, ..comparison(&[], 1e-5) };
    let winner = winner(&record, &trials, &[only_library]).expect("a winner");
    assert_eq!((tiles([winner.trial].into_iter())[0], winner.decision), (8, Decision::Ranked));
}

#[test]
fn standings_pair_what_both_have() {
    let mut comparison = comparison(&[(8, 1e-5)], 2e-5);
    comparison.workloads[1].samples_s[1].clear();
    comparison.workloads[1].absent.push(Absent {
        contender: 1,
        reason: "does not serve the shape".to_string(),
        verdict: None,
    });
    let standings = standings(&comparison, 0);
    let [own, library] = standings.as_slice() else { panic!("two, got {standings:?}") };
    assert_eq!((own.covered, own.verdict), (2, Some(Comparison::Tie)));
    assert_eq!((library.covered, library.verdict), (1, Some(Comparison::Faster)));
    assert!(library.is_baseline);
    let speedup = library.speedup.expect("one workload");
    assert!((speedup.mid - 2.0).abs() < 0.05, "{speedup:?}");
    assert_eq!(library.workloads[1].time_s, None);
    assert_eq!(library.workloads[1].absent.as_deref(), Some("does not serve the shape"));
    assert!(warpsmith_evidence::derive::standings(&comparison, 2).is_empty());
}

#[test]
fn the_microbenchmark_is_held_against_the_search() {
    let micro = |tile: i64, small_s: f64| {
        Sketch {
            fidelity: Fidelity::Micro,
            origin: Origin::Micro,
            outcome: passed(&[("small", small_s)]),
            ..Sketch::tile(tile, 1.0, 1.0)
        }
        .finding()
    };
    let trials = summaries(&[
        micro(8, 1e-5),
        micro(16, 2e-5),
        micro(32, 3e-5),
        micro(64, 4e-5),
        // Only `small` counts: on `large` the order is the reverse.
        Sketch::tile(8, 1.5e-5, 9e-4).finding(),
        Sketch::tile(16, 1.0e-5, 8e-4).finding(),
        Sketch::tile(32, 3.0e-5, 1e-4).finding(),
    ]);
    let agreement = micro_agreement(&trials);
    assert_eq!(agreement.pairs.len(), 3);
    assert_eq!(agreement.spearman, Some(0.5));
    assert_eq!(agreement.place_of_best, Some(1));
    assert_eq!(agreement.by_kernel[0].pairs, 3);
    assert_eq!(micro_agreement(&trials[..4]).spearman, None);
}

#[test]
fn failures_are_grouped_and_counted() {
    let failing = |tile, outcome| Sketch { outcome, ..Sketch::tile(tile, 1.0, 1.0) }.finding();
    let trials = summaries(&[
        failing(8, crashed()),
        failing(16, compile_failed()),
        failing(32, compile_failed()),
        Sketch::tile(64, 1e-5, 1e-4).finding(),
    ]);
    let groups = failures(&trials);
    let counts: Vec<(Verdict, usize)> =
        groups.iter().map(|group| (group.verdict, group.trials.len())).collect();
    assert_eq!(counts, [(Verdict::CompileFailed, 2), (Verdict::Crashed, 1)]);
    assert_eq!(groups[0].by_kernel["10_tile"], 2);
    assert_eq!(groups[0].messages.len(), 1);
    assert!(groups[1].messages[0].0.contains("out of bounds"), "{groups:?}");
}

#[test]
fn convergence_counts_failures_and_never_rises() {
    let trials = summaries(&[
        Sketch { outcome: crashed(), ..Sketch::tile(8, 1.0, 1.0) }.finding(),
        Sketch::tile(16, 4e-5, 4e-5).finding(),
        library(1e-9, 1e-9).finding(),
        Sketch::tile(32, 5e-5, 5e-5).finding(),
        Sketch::tile(64, 2e-5, 2e-5).finding(),
    ]);
    let record = record("tiles-1", START);
    let board = leaderboard(&record, &trials, Fidelity::Rank);
    let points: Vec<(usize, f64, f64, Option<i64>)> = convergence(&record, &trials, &board)
        .iter()
        .map(|point| {
            let best = point.best_s.map(|best| (best * 1e6).round() as i64);
            (point.evaluations, point.elapsed_s, point.cost_s, best)
        })
        .collect();
    let expected = [
        (1, 1.0, 1.0, None),
        (2, 2.0, 2.0, Some(40)),
        (3, 4.0, 3.0, Some(40)),
        (4, 5.0, 4.0, Some(20)),
    ];
    assert_eq!(points, expected);
}

#[test]
fn effects_are_marginal_medians() {
    let trial = |tile: i64, fast: bool, time_s: f64| {
        let sketch = Sketch::tile(tile, time_s, time_s);
        Sketch { params: tile_params(tile, fast, ""), ..sketch }.finding()
    };
    let mut failed = Sketch::tile(64, 1.0, 1.0);
    failed.outcome = crashed();
    let trials = summaries(&[
        trial(8, false, 4e-5),
        trial(8, true, 2e-5),
        trial(16, false, 8e-5),
        trial(16, true, 6e-5),
        failed.finding(),
    ]);
    let record = record("tiles-1", START);
    let board = leaderboard(&record, &trials, Fidelity::Rank);
    let effects = parameter_effects(&record.lab.kernels[1], &trials, &board);
    let names: Vec<&str> = effects.iter().map(|effect| effect.name.as_str()).collect();
    assert_eq!(names, ["TILE", "FAST", "CFLAGS"]);
    let tile = &effects[0];
    assert!((tile.spread.expect("two medians") - 7.0 / 3.0).abs() < 1e-9, "{tile:?}");
    let counts: Vec<(usize, usize)> =
        tile.values.iter().map(|value| (value.trials, value.failed)).collect();
    assert_eq!(counts, [(2, 0), (2, 0), (0, 0), (1, 1)]);
    assert_eq!(effects[2].spread, None);
}

#[test]
fn points_lie_under_the_roof() {
    let trials = summaries(&[Sketch::tile(8, 4e-3, 5e-6).finding()]);
    let record = record("tiles-1", START);
    let points = roofline_points(&record.lab, &ceilings(), &trials[0]);
    // 2e8 operations at 1e11 a second take 2 ms; 1e6 bytes at 2e10 a second take 50 µs.
    let small = &points[0];
    assert_eq!((small.bound, small.near_launch_floor), (Bound::Compute, false));
    assert!((small.share_of_roof - 0.5).abs() < 1e-9, "{small:?}");
    assert!((small.flops_per_s - 5e10).abs() < 1.0, "{small:?}");
    assert_eq!(small.intensity_flop_per_byte, 200.0);
    assert!(points[1].near_launch_floor);
}

#[test]
fn a_hopeless_candidate_is_marked_as_abandoned() {
    let mut hopeless = measurement("small", 1e-5, 3);
    hopeless.stop = StopReason::Hopeless;
    let mut finding = Sketch::tile(8, 1.0, 1.0).finding();
    finding.trial.outcome = warpsmith_model::Outcome::Passed { measurements: vec![hopeless] };
    assert_eq!(workload_times(&finding.trial)[0].stop, StopReason::Hopeless);
    let trials = summaries(&[finding, Sketch::tile(16, 1e-5, 1e-4).finding()]);
    let abandoned: Vec<bool> = trials.iter().map(TrialSummary::is_abandoned).collect();
    assert_eq!(abandoned, [true, false]);
}

#[test]
fn a_workload_goes_to_the_first_unless_another_is_shown_to_be_faster_there() {
    // Tile 16 is first; 32 is faster by far, 64 the fastest.
    let mut comparison = comparison(&[(16, 4e-3), (32, 2e-3), (64, 1e-3)], 1e-4);
    let chosen = |comparison: &ComparisonRecord, usable: &[usize]| -> Vec<usize> {
        let choices = dispatch(comparison, &|idx| usable.contains(&idx));
        choices.iter().map(|choice| choice.contender).collect()
    };
    assert_eq!(chosen(&comparison, &[0, 1, 2, 3]), [2, 2], "a baseline is never chosen");
    assert_eq!(chosen(&comparison, &[0, 1]), [1, 1], "what failed the gate is passed over");
    // On the second workload all take the same time.
    let same = comparison.workloads[1].samples_s[0].clone();
    comparison.workloads[1].samples_s = vec![same; 4];
    assert_eq!(chosen(&comparison, &[0, 1, 2, 3]), [2, 0]);
    // Half a percent in every round is enough, and more in some of them is not.
    let steady = |time_s: &f64| time_s * 0.995;
    let first = comparison.workloads[1].samples_s[0].clone();
    let mut close = comparison.clone();
    close.workloads[1].samples_s[1] = first.iter().map(steady).collect();
    close.workloads[1].samples_s[2] = (0..)
        .zip(&first)
        .map(|(round, time_s)| time_s * if round % 2 == 0 { 0.8 } else { 1.1 })
        .collect();
    assert_eq!(chosen(&close, &[0, 1, 2, 3]), [2, 1]);
    let choices = dispatch(&comparison, &|_| true);
    let speedups = |choices: &[Choice]| -> Vec<f64> {
        choices.iter().map(|choice| choice.speedup.map_or(f64::NAN, |it| it.mid)).collect()
    };
    assert!((speedups(&choices)[0] - 4.0).abs() < 0.5, "{choices:?}");
    assert!((speedups(&choices)[1] - 1.0).abs() < 1e-9, "{choices:?}");
    assert!(dispatch(&comparison, &|_| false).is_empty());
}

/// The ratio was once over the first usable contender, and labelled with the first one's name: the author's
/// choice, which no full gate had seen, was said to be exactly as fast as a winner twice as fast.
#[test]
fn speedups_of_a_dispatch_are_over_the_first_contender_also_where_it_may_not_be_chosen() {
    let mut comparison = comparison(&[(16, 4e-3), (32, 2e-3), (64, 2e-3)], 1e-4);
    let choices = dispatch(&comparison, &|idx| idx == 1);
    for choice in &choices {
        assert_eq!(choice.contender, 1);
        let speedup = choice.speedup.expect("both have times");
        assert!((speedup.mid - 2.0).abs() < 0.25, "{choices:?}");
    }
    // One that is slower than the first is chosen where nothing else may be, and says so.
    comparison.workloads[0].samples_s.swap(0, 1);
    let choices = dispatch(&comparison, &|idx| idx == 1);
    assert!(choices[0].speedup.is_some_and(|it| it.mid < 0.6), "{choices:?}");
    // Without times of the first there is no ratio.
    comparison.workloads[0].samples_s[0].clear();
    assert_eq!(dispatch(&comparison, &|_| true)[0].speedup, None);
}

/// A finalist that was fastest and failed the gate was once the report's winner, and not the terminal's.
#[test]
fn who_passed_the_full_gate_wins_over_who_did_not() {
    let record = record("tiles-1", START);
    let full = |sketch: Sketch| Sketch { fidelity: Fidelity::Full, ..sketch }.finding();
    let trials = summaries(&[
        Sketch::tile(8, 1.0e-5, 1e-4).finding(),
        Sketch::tile(16, 1.1e-5, 1.1e-4).finding(),
        full(Sketch { outcome: crashed(), ..Sketch::tile(8, 1.0, 1.0) }),
        full(Sketch::tile(16, 1.2e-5, 1.2e-4)),
    ]);
    let comparison = comparison(&[(32, 2e-5), (8, 1e-5), (16, 1.1e-5)], 9e-6);
    let winner = winner(&record, &trials, &[comparison]).expect("a winner");
    assert_eq!((tiles([winner.trial].into_iter())[0], winner.fidelity), (16, Fidelity::Full));
}

#[test]
fn what_a_search_holds_against_others_in_the_end_is_its_winner() {
    let mut record = record("tiles-1", START);
    let full =
        |tile: i64| Sketch { fidelity: Fidelity::Full, ..Sketch::tile(tile, 1e-5, 1e-4) }.finding();
    // Of a bundle all rungs pass the gate afterwards.
    let trials = summaries(&[full(8), full(16)]);
    let comparison = comparison(&[(8, 1.2e-5), (16, 1e-5)], 9e-6);
    let chosen = |record: &warpsmith_model::RunRecord| {
        let winner = winner(record, &trials, std::slice::from_ref(&comparison)).expect("a winner");
        let Decision::Paired { ties, .. } = winner.decision else { panic!("it was paired") };
        (tiles([winner.trial].into_iter())[0], ties)
    };
    assert_eq!(chosen(&record), (16, vec![]));
    record.settings.insert("goal".to_string(), serde_json::json!("run"));
    assert_eq!(chosen(&record), (8, vec![1]), "and the report says that it is not the faster one");
}

/// Both numbers were shown without a word, one 1.9 times the other.
#[test]
fn times_of_the_gate_and_of_the_rounds_that_disagree_are_said_to() {
    let said = |small_s: f64, large_s: f64| {
        let trials =
            summaries(&[
                Sketch { fidelity: Fidelity::Full, ..Sketch::tile(8, small_s, large_s) }.finding()
            ]);
        // The rounds have 10 µs on `small`, 100 µs on `large`.
        disagreements(&trials[0], &comparison(&[(8, 1e-5)], 2e-5), 0)
    };
    assert_eq!(said(1e-5, 1e-4), Vec::<String>::new());
    // Apart, but by less than machines change from minute to minute.
    assert_eq!(said(1.15e-5, 0.9e-4), Vec::<String>::new());
    let [note] = said(1.9e-5, 1e-4).try_into().expect("one note");
    let words = "disagree on small: 19.0 µs in the full gate, 10.0 µs in the comparison's rounds;";
    assert!(note.contains(words), "{note}");
    let [note] = said(0.8e-5, 2e-4).try_into().expect("one note");
    assert!(note.contains("disagree on large") && note.contains("on 1 more workload"), "{note}");
}

#[test]
fn who_is_faster_than_whom_is_said_in_a_sentence() {
    let comparison = comparison(&[(8, 1e-5), (16, 8.31e-5)], 1e-5);
    let of = standings(&comparison, 0);
    let said = |idx: usize| sentence("tile 8", &of[idx]);
    assert!(said(1).starts_with("tile 8 is 8.31x as fast as tile 16 ("), "{}", said(1));
    assert!(said(2).starts_with("tile 8 and library tie: "), "{}", said(2));
    let of = standings(&comparison, 1);
    let slower = sentence("tile 16", &of[0]);
    assert!(slower.starts_with("tile 16 is slower than tile 8: 0.12x as fast ("), "{slower}");
}
