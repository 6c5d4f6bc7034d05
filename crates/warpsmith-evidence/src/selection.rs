//! Which trials of a very large run are looked at one by one.
//!
//! A page, and whoever picks a winner, needs the best trials, not a hundred thousand of them; and memory must
//! not grow with a run. So a run is read trial by trial, twice: once for what was asked and how often what
//! happened ([`Totals`], which are exact), once for the scores. What is kept of each trial is a few bytes; what
//! is kept whole is a selection: the best of every fidelity, kernel and workload, every new best of the search,
//! contenders of comparisons, baselines, evolved sources, the first trial with each of the usual failures, the
//! newest, and a sample of candidates.
//!
//! The sample is drawn by the candidates' ids, which are hashes: every candidate is as likely as any other,
//! all trials of a candidate come together, and the same run gives the same sample. Distributions are drawn
//! from the sample alone, since the rest is not like the run.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, BinaryHeap, HashMap, HashSet};

use warpsmith_model::{
    CandidateId, ComparisonRecord, ContenderKind, Fidelity, Origin, RunRecord, TrialId, Verdict,
};

use crate::derive::score;
use crate::error::StoreError;
use crate::store::Store;
use crate::summary::TrialSummary;

/// How much of a run is looked at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Runs with no more trials than this are looked at as a whole.
    pub whole: usize,
    /// About how many trials a sample has.
    pub sampled: u64,
    /// How many of the best are taken of each fidelity, of each kernel, and on each workload.
    pub best: [usize; 3],
    /// How many of the newest are taken.
    pub newest: u64,
    /// How many are taken at most of whatever there is usually little of: new bests, baselines, contenders.
    pub few: usize,
}

impl Limits {
    /// What a page, and a person, can take.
    pub const USUAL: Self =
        Self { whole: 4000, sampled: 2000, best: [300, 20, 5], newest: 300, few: 400 };
}

/// How many different messages are counted for each kind of failure.
const MESSAGES: usize = 200;

/// What there is of a run's trials; exact, however many of them are looked at.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Totals {
    /// Trials.
    pub trials: usize,
    /// By fidelity.
    pub fidelities: BTreeMap<Fidelity, FidelityTotals>,
    /// Trials of each kernel at each fidelity, baselines aside.
    pub tried: BTreeMap<(Fidelity, String), usize>,
    /// Trials that passed the gate and were given up as too slow.
    pub abandoned: usize,
    /// What failed, by kind.
    pub failures: BTreeMap<Verdict, FailureTotals>,
}

/// The trials of one fidelity.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct FidelityTotals {
    /// All.
    pub trials: usize,
    /// Those that passed.
    pub passed: usize,
    /// Those that are no baseline's.
    pub candidates: usize,
    /// Candidates' trials with a time on every workload of the fidelity.
    pub timed: usize,
    /// Seconds that candidates' trials took.
    pub cost_s: f64,
}

/// The trials that failed in one way.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct FailureTotals {
    /// All.
    pub trials: usize,
    /// How often each message was said, and where first; of many, those that came first.
    pub messages: BTreeMap<String, (usize, u64)>,
    /// Trials whose message is none of these.
    pub others: usize,
}

/// The trials that are looked at, and what there is of all.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Selection {
    pub(crate) totals: Totals,
    /// The places of the selected trials in the run; none where the run is looked at as a whole.
    pub(crate) selected: Option<Selected>,
}

/// A part of a run's trials, by their places.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Selected {
    pub(crate) places: BTreeSet<u64>,
    /// Those of them that are a fair sample of the run.
    pub(crate) sample: BTreeSet<u64>,
}

impl Selection {
    /// Says whether a trial is looked at.
    pub(crate) fn holds(&self, place: u64) -> bool {
        self.selected.as_ref().is_none_or(|selected| selected.places.contains(&place))
    }

    /// Reads the selected trials without their samples.
    pub(crate) fn summaries(
        &self,
        store: &Store,
        run: &RunRecord,
    ) -> Result<Vec<TrialSummary>, StoreError> {
        let mut summaries = Vec::new();
        store.each_summary(&run.id, |trial| {
            if self.holds(trial.seq) {
                summaries.push(trial);
            }
            Ok::<(), StoreError>(())
        })?;
        Ok(summaries)
    }
}

/// Reads a run and selects.
pub(crate) fn select(
    store: &Store,
    run: &RunRecord,
    comparisons: &[ComparisonRecord],
    seed_trial: Option<TrialId>,
    limits: Limits,
) -> Result<Selection, StoreError> {
    let mut facts = Facts::default();
    store.each_summary(&run.id, |trial| {
        facts.note(&trial);
        Ok::<(), StoreError>(())
    })?;
    let boards = facts.boards(run);
    let mut scores = Scores::new(run, comparisons, seed_trial, limits, &boards, &mut facts);
    store.each_summary(&run.id, |trial| {
        scores.note(&trial);
        Ok::<(), StoreError>(())
    })?;
    let selected = scores.selected();
    let totals = facts.totals;
    let is_whole = totals.trials <= limits.whole;
    Ok(Selection { totals, selected: (!is_whole).then_some(selected) })
}

/// Counts trials that are all at hand.
pub(crate) fn totals_of(run: &RunRecord, trials: &[TrialSummary]) -> Totals {
    let mut facts = Facts::default();
    trials.iter().for_each(|trial| facts.note(trial));
    let boards = facts.boards(run);
    for trial in trials {
        facts.note_timed(trial, &boards);
    }
    facts.totals
}

/// The workloads that the scores of each fidelity cover.
type Boards = BTreeMap<Fidelity, Vec<String>>;

/// What can be counted before it is known which workloads a score covers.
#[derive(Default)]
struct Facts {
    totals: Totals,
    asked: BTreeMap<Fidelity, BTreeSet<String>>,
    /// The first trials that were asked for a workload at a fidelity, and the first that said something.
    firsts: BTreeSet<u64>,
}

impl Facts {
    fn note(&mut self, trial: &TrialSummary) {
        let totals = &mut self.totals;
        totals.trials += 1;
        totals.abandoned += usize::from(trial.is_abandoned());
        let of = totals.fidelities.entry(trial.fidelity).or_default();
        of.trials += 1;
        of.passed += usize::from(trial.verdict == Verdict::Passed);
        if !trial.is_baseline() {
            of.candidates += 1;
            of.cost_s += trial.wall_s;
            *totals.tried.entry((trial.fidelity, trial.kernel.clone())).or_default() += 1;
            let asked = self.asked.entry(trial.fidelity).or_default();
            for workload in &trial.workloads {
                if !asked.contains(workload) {
                    asked.insert(workload.clone());
                    self.firsts.insert(trial.seq);
                }
            }
        }
        if trial.verdict != Verdict::Passed {
            let failures = totals.failures.entry(trial.verdict).or_default();
            failures.trials += 1;
            if let Some((count, _)) = failures.messages.get_mut(&trial.message) {
                *count += 1;
            } else if failures.messages.len() < MESSAGES {
                failures.messages.insert(trial.message.clone(), (1, trial.seq));
                self.firsts.insert(trial.seq);
            } else {
                failures.others += 1;
            }
        }
    }

    /// As [`crate::derive::leaderboard`] has them: what any candidate was asked, in the lab's order.
    fn boards(&self, run: &RunRecord) -> Boards {
        let workloads = |asked: &BTreeSet<String>| {
            let names = run.lab.shapes().map(|workload| &workload.name);
            names.filter(|name| asked.contains(*name)).cloned().collect()
        };
        self.asked.iter().map(|(fidelity, asked)| (*fidelity, workloads(asked))).collect()
    }

    /// Returns the score of a candidate's trial, having counted it.
    fn note_timed(&mut self, trial: &TrialSummary, boards: &Boards) -> Option<f64> {
        if trial.is_baseline() || trial.verdict != Verdict::Passed {
            return None;
        }
        let workloads = boards.get(&trial.fidelity).filter(|workloads| !workloads.is_empty())?;
        let score_s = score(trial, workloads)?.mid;
        self.totals.fidelities.entry(trial.fidelity).or_default().timed += 1;
        Some(score_s)
    }
}

/// The least of what was noted, and where.
struct Least {
    kept: usize,
    heap: BinaryHeap<(Ordered, u64)>,
}

/// A time as a key.
#[derive(PartialEq)]
struct Ordered(f64);

impl Eq for Ordered {}

impl PartialOrd for Ordered {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Ordered {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.0.total_cmp(&other.0)
    }
}

impl Least {
    fn new(kept: usize) -> Self {
        Self { kept, heap: BinaryHeap::new() }
    }

    fn note(&mut self, time_s: f64, place: u64) {
        self.heap.push((Ordered(time_s), place));
        if self.heap.len() > self.kept {
            self.heap.pop();
        }
    }
}

/// What is selected on the second way through.
struct Scores<'a> {
    run: &'a RunRecord,
    limits: Limits,
    boards: &'a Boards,
    facts: &'a mut Facts,
    contenders: BTreeSet<(String, String)>,
    seed_trial: Option<TrialId>,
    /// A sampled candidate's id begins below this.
    threshold: u64,
    sample: BTreeSet<u64>,
    few: BTreeMap<&'static str, usize>,
    chosen: BTreeSet<u64>,
    best_s: HashMap<Fidelity, f64>,
    of_fidelity: HashMap<Fidelity, Least>,
    of_kernel: HashMap<(Fidelity, String), Least>,
    on_workload: HashMap<(Fidelity, String), Least>,
    seeds: HashSet<(Fidelity, String)>,
    /// A candidate at a fidelity, for every trial: a ranking counts the first of several alone.
    keys: Vec<u64>,
    first: HashMap<u64, u64>,
}

impl<'a> Scores<'a> {
    fn new(
        run: &'a RunRecord,
        comparisons: &[ComparisonRecord],
        seed_trial: Option<TrialId>,
        limits: Limits,
        boards: &'a Boards,
        facts: &'a mut Facts,
    ) -> Self {
        let contenders = comparisons.iter().flat_map(|comparison| &comparison.contenders);
        let contenders = contenders.filter_map(|contender| match &contender.kind {
            ContenderKind::Kernel { kernel, params, .. } => Some((kernel.clone(), params.key())),
            ContenderKind::Baseline { .. } => None,
        });
        let total = facts.totals.trials.max(1) as u64;
        Self {
            run,
            limits,
            boards,
            contenders: contenders.collect(),
            seed_trial,
            threshold: (u64::MAX / total).saturating_mul(limits.sampled),
            sample: BTreeSet::new(),
            few: BTreeMap::new(),
            chosen: facts.firsts.clone(),
            facts,
            best_s: HashMap::new(),
            of_fidelity: HashMap::new(),
            of_kernel: HashMap::new(),
            on_workload: HashMap::new(),
            seeds: HashSet::new(),
            keys: Vec::new(),
            first: HashMap::new(),
        }
    }

    /// Chooses a trial, unless there are many of its kind already.
    fn choose(&mut self, kind: &'static str, place: u64) {
        let count = self.few.entry(kind).or_default();
        *count += 1;
        if *count <= self.limits.few {
            self.chosen.insert(place);
        }
    }

    fn note(&mut self, trial: &TrialSummary) {
        let (fidelity, place, best) = (trial.fidelity, trial.seq, self.limits.best);
        let id = beginning(&trial.candidate);
        if id < self.threshold {
            self.sample.insert(place);
        }
        if trial.is_baseline() {
            self.choose("baseline", place);
        }
        if matches!(trial.origin, Origin::Evolved { .. }) || self.seed_trial == Some(trial.id) {
            // An evolution has a trial or a few for each call of a model, and its story needs them all.
            self.chosen.insert(place);
        }
        let key = id ^ (fidelity as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        self.keys.push(key);
        let score_s = self.facts.note_timed(trial, self.boards);
        if trial.is_baseline() || trial.verdict != Verdict::Passed {
            return;
        }
        if self.contenders.contains(&(trial.kernel.clone(), trial.params.key())) {
            self.choose("contender", place);
        }
        for time in &trial.times {
            let least = self.on_workload.entry((fidelity, time.workload.clone()));
            least.or_insert_with(|| Least::new(best[2])).note(time.median_s.mid, place);
        }
        let Some(score_s) = score_s else { return };
        if self.best_s.get(&fidelity).is_none_or(|best_s| score_s < *best_s) {
            self.best_s.insert(fidelity, score_s);
            self.choose("new best", place);
        }
        let kernel = self.run.lab.kernel(&trial.kernel);
        let is_default = kernel.is_some_and(|kernel| kernel.default == trial.params);
        if is_default && self.seeds.insert((fidelity, trial.kernel.clone())) {
            self.chosen.insert(place);
        }
        if *self.first.entry(key).or_insert(place) != place {
            return;
        }
        let least = self.of_fidelity.entry(fidelity).or_insert_with(|| Least::new(best[0]));
        least.note(score_s, place);
        let least = self.of_kernel.entry((fidelity, trial.kernel.clone()));
        least.or_insert_with(|| Least::new(best[1])).note(score_s, place);
    }

    fn selected(mut self) -> Selected {
        let mut places = std::mem::take(&mut self.chosen);
        places.extend(&self.sample);
        let heaps = self.of_fidelity.into_values().chain(self.of_kernel.into_values());
        for least in heaps.chain(self.on_workload.into_values()) {
            places.extend(least.heap.into_iter().map(|(_, place)| place));
        }
        let total = self.keys.len() as u64;
        places.extend(total.saturating_sub(self.limits.newest)..total);
        let firsts: Vec<u64> = places
            .iter()
            .filter_map(|place| self.first.get(self.keys.get(usize::try_from(*place).ok()?)?))
            .copied()
            .collect();
        places.extend(firsts);
        Selected { places, sample: self.sample }
    }
}

/// The first 64 bits of an id.
fn beginning(id: &CandidateId) -> u64 {
    let text = id.to_string();
    text.get(..16).and_then(|digits| u64::from_str_radix(digits, 16).ok()).unwrap_or(0)
}

impl Totals {
    /// Returns the kinds of failure, the most frequent first.
    pub(crate) fn failures_by_number(&self) -> Vec<(Verdict, &FailureTotals)> {
        let mut failures: Vec<_> = self.failures.iter().map(|(of, totals)| (*of, totals)).collect();
        failures.sort_by_key(|(_, totals)| Reverse(totals.trials));
        failures
    }

    /// Returns what there is at a fidelity.
    pub(crate) fn at(&self, fidelity: Fidelity) -> FidelityTotals {
        self.fidelities.get(&fidelity).copied().unwrap_or_default()
    }
}
