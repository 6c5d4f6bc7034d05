//! Two measurements of one configuration that cannot both be right.

use warpsmith_model::stats::{Interval, median_interval};
use warpsmith_model::{ComparisonRecord, units};

use super::winner::measured_in;
use crate::summary::TrialSummary;

/// How far two medians may be apart without a word: a machine's clock and its other tenants change by so much from
/// minute to minute, and readings in turn with others find other things in the caches.
const APART: f64 = 1.2;

/// Says on which workloads the times of a trial are not those that the same configuration has in a comparison, as
/// its contender `contender`: the intervals do not meet, and the medians are far apart.
pub fn disagreements(
    trial: &TrialSummary,
    comparison: &ComparisonRecord,
    contender: usize,
) -> Vec<String> {
    let mut apart: Vec<(&str, Interval, Interval)> = Vec::new();
    for rounds in &comparison.workloads {
        let samples_s = rounds.samples_s.get(contender);
        let in_rounds = samples_s.and_then(|samples_s| median_interval(samples_s));
        let alone = trial.time(&rounds.workload).map(|time| time.median_s);
        let Some((alone, in_rounds)) = alone.zip(in_rounds) else { continue };
        if is_apart(alone, in_rounds) {
            apart.push((&rounds.workload, alone, in_rounds));
        }
    }
    let ratio = |alone: &Interval, in_rounds: &Interval| {
        (alone.mid / in_rounds.mid).max(in_rounds.mid / alone.mid)
    };
    apart.sort_by(|a, b| ratio(&b.1, &b.2).total_cmp(&ratio(&a.1, &a.2)));
    let Some((on, alone, in_rounds)) = apart.first() else { return Vec::new() };
    let others = match apart.len() - 1 {
        0 => String::new(),
        1 => " (and differ on 1 more workload)".to_string(),
        more => format!(" (and differ on {more} more workloads)"),
    };
    vec![format!(
        "its times disagree on {on}: {} in {}, {} in the comparison's rounds{others}; the machine was not the same \
         during both, or the kernel is not: measure again before you rely on either",
        units::time(alone.mid),
        measured_in(trial.fidelity),
        units::time(in_rounds.mid),
    )]
}

fn is_apart(one: Interval, other: Interval) -> bool {
    let (less, more) = if one.mid < other.mid { (one, other) } else { (other, one) };
    less.high < more.low && more.mid > APART * less.mid
}
