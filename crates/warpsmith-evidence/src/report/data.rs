//! What a report is made from, and what is derived from it once for all sections.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};

use warpsmith_model::roofline::{self, Nearness, WorkSize};
use warpsmith_model::stats::Interval;
use warpsmith_model::{
    AblationRecord, BlobId, CallRecord, Ceilings, ChainRecord, ComparisonPurpose, ComparisonRecord,
    ContenderKind, Environment, EvolutionStart, Fidelity, LabRecord, Params, ProfileRecord,
    RunRecord, RunTrial, WorkloadRecord,
};

use super::words;
use crate::derive::{self, Decision, Leaderboard, Standing, score};
use crate::selection::{self, Totals};
use crate::summary::TrialSummary;

/// Everything that a report is made from: the evidence of one run.
#[derive(Clone, Debug, PartialEq)]
pub struct ReportData {
    /// The run: lab, settings, date.
    pub run: RunRecord,
    /// The machine, the tools and the protections.
    pub environment: Environment,
    /// What the machine can do at most; none when it was not measured.
    pub ceilings: Option<Ceilings>,
    /// How the lab's expected outputs were established; none when that was not recorded.
    pub chain: Option<ChainRecord>,
    /// The trials, in order; of a very large run, those that are shown.
    pub trials: Vec<RunTrial>,
    /// What the run has beside these; none where they are all.
    pub rest: Option<Rest>,
    /// The paired comparisons, in order; the last one that was meant as final is the headline.
    pub comparisons: Vec<ComparisonRecord>,
    /// Profiles of this run's kernels: its own, and the newest of its winner from whichever run.
    pub profiles: Vec<ProfileRecord>,
    /// What an evolution started from; none for any other run.
    pub evolution: Option<EvolutionStart>,
    /// The modes of evolution side by side, where the run ended such a comparison.
    pub ablation: Option<AblationRecord>,
    /// The calls of language models, in order.
    pub calls: Vec<CallRecord>,
    /// Sources and compiler logs that trials name, and the texts of calls.
    pub texts: BTreeMap<BlobId, String>,
}

/// What is told of a run that is too large to show every trial.
#[derive(Clone, Debug, PartialEq)]
pub struct Rest {
    /// What there is of all trials.
    pub totals: Totals,
    /// The places of the shown trials that are a fair sample of all.
    pub sample: BTreeSet<u64>,
}

/// The trials without their samples, in the same order; apart from [`View`], which borrows them.
pub(super) fn summarise(data: &ReportData) -> Vec<TrialSummary> {
    data.trials.iter().map(TrialSummary::of).collect()
}

/// A report's data with everything derived that more than one section needs.
#[derive(Debug)]
pub(super) struct View<'a> {
    pub(super) data: &'a ReportData,
    pub(super) lab: &'a LabRecord,
    columns: Vec<&'a WorkloadRecord>,
    pub(super) summaries: &'a [TrialSummary],
    /// What there is of all trials, shown or not.
    pub(super) totals: Totals,
    /// Trials that distributions are drawn from: all of them, or a fair sample where the page has a part.
    pub(super) sample: Cow<'a, [TrialSummary]>,
    /// One per trial, in the same order.
    pub(super) scores: Vec<Score>,
    /// The ranking at the fidelity whose trials show the search; none without candidates.
    pub(super) board: Option<Leaderboard<'a>>,
    pub(super) winner: Option<RecommendedKernel<'a>>,
    pub(super) comparison: Option<ComparisonView<'a>>,
}

/// The worth of one trial.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Score {
    /// The geometric mean of the medians over the workloads of its fidelity.
    pub(super) time_s: Option<f64>,
    /// How much faster than the author's choice for the same kernel at the same fidelity.
    pub(super) speedup: Option<f64>,
}

/// The kernel that the run recommends.
#[derive(Debug)]
pub(super) struct RecommendedKernel<'a> {
    pub(super) kernel: &'a str,
    pub(super) params: &'a Params,
    /// How it was chosen, as the end of a sentence that begins with its name.
    pub(super) because: &'static str,
    /// Its most thorough trial.
    pub(super) trial: &'a TrialSummary,
    /// Kernels of the deciding comparison that it is not shown to be faster than.
    pub(super) ties: Vec<&'a str>,
    /// The median's interval on each of the lab's workloads, from `trial`.
    pub(super) time_s: Vec<Option<Interval>>,
    /// The geometric mean of the medians.
    pub(super) score_s: Interval,
}

/// The headline comparison, with every ratio computed.
#[derive(Debug)]
pub(super) struct ComparisonView<'a> {
    pub(super) record: &'a ComparisonRecord,
    /// The contender that the others are held against: the winner where it takes part, else the first.
    pub(super) against: usize,
    /// Whether it speaks of the winner, or of its first contender in a run that has no winner.
    pub(super) is_headline: bool,
    /// One per contender, in the record's order.
    pub(super) standings: Vec<Standing>,
    /// The part that each contender plays.
    pub(super) parts: Vec<Part>,
}

impl ComparisonView<'_> {
    /// Returns the contenders in the order to show them: the one that the others are held against
    /// first, then the naive rung, then the other kernels, then libraries.
    pub(super) fn ordered(&self) -> impl Iterator<Item = (&Standing, Part)> {
        let mut order: Vec<usize> = (0..self.standings.len()).collect();
        order.sort_by_key(|idx| match self.parts[*idx] {
            _ if *idx == self.against => 0,
            Part::Winner => 0,
            Part::Naive => 1,
            Part::Kernel => 2,
            Part::Baseline(_) => 3,
        });
        order.into_iter().map(|idx| (&self.standings[idx], self.parts[idx]))
    }
}

/// The part that a contender plays; decides its colour and its shape.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Part {
    Winner,
    Naive,
    Kernel,
    Baseline(usize),
}

impl<'a> View<'a> {
    pub(super) fn new(data: &'a ReportData, summaries: &'a [TrialSummary]) -> Self {
        let run = &data.run;
        let board = [Fidelity::Rank, Fidelity::Full, Fidelity::Micro]
            .into_iter()
            .find(|fidelity| summaries.iter().any(|t| t.fidelity == *fidelity && !t.is_baseline()))
            .map(|fidelity| derive::leaderboard(run, summaries, fidelity));
        let decided = derive::winner(run, summaries, &data.comparisons);
        let comparison = comparison_view(data, decided.as_ref());
        let winner = decided.map(|decided| winner_view(data, decided));
        let scores = scores(data, summaries);
        let asked = |extra: &&WorkloadRecord| {
            summaries.iter().any(|trial| trial.workloads.contains(&extra.name))
        };
        let columns = run.lab.workloads.iter().chain(run.lab.extra.iter().filter(asked)).collect();
        let (totals, sample) = match &data.rest {
            None => (selection::totals_of(run, summaries), Cow::Borrowed(summaries)),
            Some(rest) => {
                let sampled = summaries.iter().filter(|trial| rest.sample.contains(&trial.seq));
                (rest.totals.clone(), Cow::Owned(sampled.cloned().collect()))
            }
        };
        Self {
            data,
            lab: &run.lab,
            columns,
            summaries,
            totals,
            sample,
            scores,
            board,
            winner,
            comparison,
        }
    }

    /// Says that something is drawn from a part of the trials, where it is.
    pub(super) fn sampled(&self, what: &str) -> Option<String> {
        self.data.rest.as_ref().map(|_| {
            let (shown, all) = (words::count(self.sample.len()), words::count(self.totals.trials));
            format!(
                "{what} from a sample of {shown} of the run’s {all} trials, drawn by candidate."
            )
        })
    }

    /// Returns what the comparison's subject is called in verdicts.
    pub(super) fn subject(&self) -> &'static str {
        match self.winner {
            Some(_) if self.comparison.as_ref().is_some_and(|it| it.is_headline) => "winner",
            _ => "first",
        }
    }

    /// Returns the shapes that the table of trials has a column for: the workloads, and those of the extra
    /// ones that a trial was asked for.
    pub(super) fn columns(&self) -> &[&'a WorkloadRecord] {
        &self.columns
    }

    /// Says what a time means on this machine: how near it comes to the measured ceiling that binds.
    pub(super) fn nearness(&self, workload: &WorkloadRecord, time_s: f64) -> Option<Nearness> {
        let ceilings = self.data.ceilings.as_ref()?;
        let caches_bytes = self.data.environment.device.caches_bytes();
        let dtype = self.lab.arithmetic_dtype();
        let near = roofline::nearness(ceilings, work_size(workload), dtype, caches_bytes, time_s);
        near.share.is_finite().then_some(near)
    }
}

pub(super) fn work_size(workload: &WorkloadRecord) -> WorkSize {
    WorkSize { flops: workload.flops, bytes: workload.bytes }
}

fn scores(data: &ReportData, summaries: &[TrialSummary]) -> Vec<Score> {
    let boards = [Fidelity::Micro, Fidelity::Rank, Fidelity::Full]
        .map(|fidelity| (fidelity, derive::leaderboard(&data.run, summaries, fidelity).workloads));
    let mut scores: Vec<Score> = summaries
        .iter()
        .map(|trial| {
            let board = boards.iter().find(|(fidelity, _)| *fidelity == trial.fidelity);
            let workloads = board.map(|(_, workloads)| workloads.as_slice());
            let has_workloads = workloads.filter(|workloads| !workloads.is_empty());
            let time_s = has_workloads.and_then(|workloads| score(trial, workloads));
            Score { time_s: time_s.map(|score| score.mid), speedup: None }
        })
        .collect();
    let mut seeds: BTreeMap<(&str, Fidelity), f64> = BTreeMap::new();
    for (trial, score) in summaries.iter().zip(&scores) {
        let kernel = data.run.lab.kernel(&trial.kernel);
        let is_seed = kernel.is_some_and(|kernel| kernel.default == trial.params);
        if let (true, Some(time_s)) = (is_seed && !trial.is_baseline(), score.time_s) {
            seeds.entry((&trial.kernel, trial.fidelity)).or_insert(time_s);
        }
    }
    for (trial, score) in summaries.iter().zip(&mut scores) {
        let seed_s = seeds.get(&(trial.kernel.as_str(), trial.fidelity));
        score.speedup = seed_s.zip(score.time_s).map(|(seed_s, time_s)| seed_s / time_s);
    }
    scores
}

/// Takes the last comparison that holds the winner against others, or else the last one.
fn comparison_view<'a>(
    data: &'a ReportData,
    winner: Option<&derive::Winner<'_>>,
) -> Option<ComparisonView<'a>> {
    let is_final = |record: &&ComparisonRecord| record.purpose == ComparisonPurpose::Final;
    let is_of_winners = |record: &&ComparisonRecord| {
        !matches!(record.purpose, ComparisonPurpose::Ladder | ComparisonPurpose::NewBest)
    };
    let comparisons = || data.comparisons.iter();
    let record = comparisons().rfind(is_final).or_else(|| comparisons().rfind(is_of_winners))?;
    if record.contenders.is_empty() || record.workloads.is_empty() {
        return None;
    }
    let winner_idx =
        winner.and_then(|it| derive::place(record, &it.trial.kernel, &it.trial.params));
    let against = winner_idx.unwrap_or(0);
    let is_headline = winner.is_none() || winner_idx.is_some();
    let standings = derive::standings(record, against);
    let mut n_baselines = 0;
    let parts = record
        .contenders
        .iter()
        .enumerate()
        .map(|(idx, contender)| match &contender.kind {
            ContenderKind::Baseline { .. } => {
                n_baselines += 1;
                Part::Baseline(n_baselines - 1)
            }
            ContenderKind::Kernel { .. } if idx == against && is_headline => Part::Winner,
            ContenderKind::Kernel { kernel, .. } if *kernel == data.run.lab.oracle => Part::Naive,
            ContenderKind::Kernel { .. } => Part::Kernel,
        })
        .collect();
    Some(ComparisonView { record, against, is_headline, standings, parts })
}

fn winner_view<'a>(data: &'a ReportData, decided: derive::Winner<'a>) -> RecommendedKernel<'a> {
    let trial = decided.trial;
    let (because, ties) = match (&decided.decision, decided.fidelity) {
        (Decision::Paired { comparison, ties, .. }, _) => {
            let contenders = &data.comparisons[*comparison].contenders;
            let ties = ties.iter().map(|idx| contenders[*idx].label.as_str()).collect();
            ("is the winner", ties)
        }
        (Decision::Ranked, Fidelity::Full) => {
            ("is the fastest that passed the full gate", Vec::new())
        }
        (Decision::Ranked, _) => ("is the fastest in the search’s ranking", Vec::new()),
    };
    let workloads = data.run.lab.workloads.iter();
    let time_s =
        workloads.map(|workload| decided.time(&workload.name).map(|it| it.median_s)).collect();
    let (kernel, params, score_s) = (&trial.kernel, &trial.params, decided.score_s);
    RecommendedKernel { kernel, params, because, trial, ties, time_s, score_s }
}
