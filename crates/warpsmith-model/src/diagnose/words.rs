//! A diagnosis as a few lines of text, for whoever writes the next version of a kernel.

use super::{Diagnosis, Scene, StallGroup, diagnose};
use crate::{CounterSource, WorkloadProfile};

/// Reasons to wait that are worth a line each.
const MOST_STALLS: usize = 4;

/// Says what holds a kernel back on a workload: what bounds it, every fact, what warps wait for and what
/// to try. The first line says what all of this rests on.
pub fn words(profile: &WorkloadProfile, scene: &Scene<'_>) -> Vec<String> {
    let Diagnosis { bound, because, facts, stalls, advice, .. } = diagnose(profile, scene);
    let name = &profile.workload;
    let rests_on = match &profile.counters {
        CounterSource::Ncu { version, .. } => {
            // The rest of it names a build.
            let version = version.split_whitespace().next().unwrap_or_default();
            format!("on {name}, counted by ncu {version}:")
        }
        CounterSource::Missing { reason, .. } => format!("on {name}, without counters ({reason}):"),
    };
    let mut lines = vec![rests_on, format!("{}: {because}", bound.words())];
    lines.extend(facts.iter().map(|fact| format!("{}: {}", fact.name, fact.words)));
    let waits = stalls.iter().filter(|stall| stall.reason.group() != StallGroup::Busy);
    for stall in waits.take(MOST_STALLS) {
        lines.push(format!("warps wait {:.0} % for {}", 100.0 * stall.share, stall.reason.words()));
    }
    lines.extend(advice.iter().map(|advice| format!("try: {advice}")));
    lines
}
