//! What a comparison says: paired speed-ups with their intervals, and ties called ties.

use warpsmith_model::stats::{
    Comparison, Interval, judge, median_interval, paired_geomean_speedup, paired_speedup,
};
use warpsmith_model::{ComparisonRecord, ContenderKind, units};

/// One contender against another.
#[derive(Clone, Debug, PartialEq)]
pub struct Standing {
    /// Index into the comparison's contenders.
    pub contender: usize,
    /// The contender's name.
    pub label: String,
    /// Whether it is a library.
    pub is_baseline: bool,
    /// One per workload of the comparison, in its order.
    pub workloads: Vec<WorkloadStanding>,
    /// The speed-up of the one it is held against over this contender: the geometric mean over the
    /// workloads that both have times on. Above 1, this contender is the slower one.
    pub speedup: Option<Interval>,
    /// What `speedup` says of the one it is held against.
    pub verdict: Option<Comparison>,
    /// How many workloads `speedup` covers.
    pub covered: usize,
}

/// One contender against another on one workload.
#[derive(Clone, Debug, PartialEq)]
pub struct WorkloadStanding {
    /// The workload.
    pub workload: String,
    /// The contender's own median, in seconds; none where it has no times.
    pub time_s: Option<Interval>,
    /// The speed-up of the one it is held against over this contender.
    pub speedup: Option<Interval>,
    /// What `speedup` says of the one it is held against.
    pub verdict: Option<Comparison>,
    /// Why there are no times.
    pub absent: Option<String>,
}

/// Holds every contender of a comparison against one of them, which is part of the answer too (at
/// exactly 1). Empty when there is no such contender.
pub fn standings(comparison: &ComparisonRecord, against: usize) -> Vec<Standing> {
    if against >= comparison.contenders.len() {
        return Vec::new();
    }
    comparison
        .contenders
        .iter()
        .enumerate()
        .map(|(idx, contender)| {
            let pairs: Vec<(Vec<f64>, Vec<f64>)> = comparison
                .workloads
                .iter()
                .filter_map(|rounds| {
                    let held = rounds.samples_s.get(against)?;
                    let own = rounds.samples_s.get(idx)?;
                    (!held.is_empty() && !own.is_empty()).then(|| (held.clone(), own.clone()))
                })
                .collect();
            let speedup = paired_geomean_speedup(&pairs);
            Standing {
                contender: idx,
                label: contender.label.clone(),
                is_baseline: matches!(contender.kind, ContenderKind::Baseline { .. }),
                workloads: workload_standings(comparison, against, idx),
                speedup,
                verdict: speedup.map(judge),
                covered: pairs.len(),
            }
        })
        .collect()
}

/// Says in words who is faster than whom: `a is 8.31x as fast as b (8.20 to 8.41)`.
pub fn sentence(first: &str, other: &Standing) -> String {
    let label = &other.label;
    let Some((speedup, verdict)) = other.speedup.zip(other.verdict) else {
        return format!("{first} and {label} have no common times");
    };
    let all = other.workloads.len();
    let on = match (other.covered, all) {
        (_, 1) => String::new(),
        (covered, all) if covered == all => format!(", mean over {all} workloads"),
        (covered, all) => format!(", mean over the {covered} of {all} workloads that both serve"),
    };
    let ratio = units::ratio(speedup.mid);
    let interval = format!("{} to {}{on}", units::ratio(speedup.low), units::ratio(speedup.high));
    match verdict {
        Comparison::Faster => format!("{first} is {ratio} as fast as {label} ({interval})"),
        Comparison::Slower => {
            format!("{first} is slower than {label}: {ratio} as fast ({interval})")
        }
        Comparison::Tie => format!("{first} and {label} tie: {ratio} as fast ({interval})"),
        Comparison::Unclear => {
            format!("{first} and {label} cannot be told apart yet: {ratio} as fast ({interval})")
        }
    }
}

fn workload_standings(
    comparison: &ComparisonRecord,
    against: usize,
    contender: usize,
) -> Vec<WorkloadStanding> {
    let none = Vec::new();
    comparison
        .workloads
        .iter()
        .map(|rounds| {
            let held = rounds.samples_s.get(against).unwrap_or(&none);
            let own = rounds.samples_s.get(contender).unwrap_or(&none);
            let speedup = paired_speedup(held, own);
            let absent = rounds.absent.iter().find(|absent| absent.contender == contender);
            WorkloadStanding {
                workload: rounds.workload.clone(),
                time_s: median_interval(own),
                speedup,
                verdict: speedup.map(judge),
                absent: absent.map(|absent| absent.reason.clone()),
            }
        })
        .collect()
}
