//! What went wrong, by kind.

use std::collections::BTreeMap;

use warpsmith_model::Verdict;

use crate::summary::TrialSummary;

/// The trials of a run that failed in one way.
#[derive(Clone, Debug, PartialEq)]
pub struct FailureGroup<'a> {
    /// The way.
    pub verdict: Verdict,
    /// Their number, by kernel.
    pub by_kernel: BTreeMap<String, usize>,
    /// What was said and how often, most frequent first.
    pub messages: Vec<(String, usize)>,
    /// The trials, in the order of the run.
    pub trials: Vec<&'a TrialSummary>,
}

/// Groups the trials of a run that did not pass, most frequent first.
pub fn failures(trials: &[TrialSummary]) -> Vec<FailureGroup<'_>> {
    let mut by_verdict: BTreeMap<Verdict, Vec<&TrialSummary>> = BTreeMap::new();
    for trial in trials.iter().filter(|trial| trial.verdict != Verdict::Passed) {
        by_verdict.entry(trial.verdict).or_default().push(trial);
    }
    let mut groups: Vec<FailureGroup<'_>> = by_verdict
        .into_iter()
        .map(|(verdict, trials)| {
            let mut by_kernel = BTreeMap::new();
            let mut messages: BTreeMap<&str, usize> = BTreeMap::new();
            for trial in &trials {
                *by_kernel.entry(trial.kernel.clone()).or_default() += 1;
                *messages.entry(&trial.message).or_default() += 1;
            }
            let mut messages: Vec<(String, usize)> =
                messages.into_iter().map(|(text, count)| (text.to_string(), count)).collect();
            messages.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
            FailureGroup { verdict, by_kernel, messages, trials }
        })
        .collect();
    groups.sort_by_key(|group| std::cmp::Reverse(group.trials.len()));
    groups
}
