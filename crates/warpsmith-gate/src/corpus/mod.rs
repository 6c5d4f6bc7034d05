//! The cases that candidates are judged on: generated inputs, staged on the target, with the right
//! answers held in this process alone.
//!
//! Right answers come from a chain of trust. The lab's reference (plain C over f64) is first shown
//! to be repeatable, finite and sensitive to every input; it proves the oracle kernel on the lab's
//! small shapes under every distribution; on real shapes the reference itself answers where that is
//! cheap, else the oracle does and a random sample of the reference's blocks is compared with it on
//! the very same contents. A reference that is a Python script answers on every shape itself, and there
//! is no oracle. [`Corpus::check_chain`] does and records all of this;
//! [`Corpus::cases`] hands out cases and proves the lab first if nobody has.

mod answers;
mod authority;
pub mod calibrate;
mod chain;
mod store;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use warpsmith_device::target::{CaseId, Target, TensorPlan};
use warpsmith_device::trace;
use warpsmith_model::lab::{Role, TargetKind, Workload};
use warpsmith_model::{ChainRecord, Lab, LabId, Mismatch, MismatchKind};

use crate::bind;
use crate::check::{Expected, JudgedOutput};
use crate::error::GateError;
use crate::inputs;
use answers::{Answered, StagedContents};
use authority::{Answer, Authorities};

/// Where and how large.
#[derive(Clone, Debug, PartialEq)]
pub struct CorpusOptions {
    /// The folder that keeps the oracle's and the reference's answers between runs; none keeps
    /// nothing. Candidates must not be able to read it.
    pub cache_dir: Option<PathBuf>,
    /// Bytes of inputs and answers that are kept in memory; what was used least recently goes first.
    pub memory_bytes: usize,
    /// The Python that runs references which are scripts.
    pub python: PathBuf,
    /// How long the reference or the oracle may take for one launch.
    pub launch_deadline: Duration,
    /// How long a compiler may take for them.
    pub compile_deadline: Duration,
    /// How many times the usual seconds the contents of a workload may cost. Without end, how many there are
    /// does not depend on how fast the machine is.
    pub patience: f64,
}

impl CorpusOptions {
    /// Returns options with a cache folder and a share of the memory that is free now.
    pub fn new(cache_dir: Option<PathBuf>) -> Self {
        // A quarter: inputs and answers are also copied, to a device or to a process.
        let free_bytes = warpsmith_device::available_memory_bytes().unwrap_or(0);
        Self {
            cache_dir,
            memory_bytes: (free_bytes / 4).max(LEAST_MEMORY_BYTES),
            python: PathBuf::from("python3"),
            launch_deadline: Duration::from_secs(120),
            compile_deadline: Duration::from_secs(120),
            patience: 1.0,
        }
    }
}

/// One input content with its right answer.
#[derive(Debug)]
pub struct Case {
    /// The inputs on the target that the corpus was asked with.
    pub id: CaseId,
    /// The shape.
    pub shape: Workload,
    /// Index of the input distribution in the lab.
    pub inputs: usize,
    /// The seed of the contents.
    pub seed: u64,
    /// The right answer of every output tensor, in tensor order.
    pub expected: Vec<Expected>,
}

impl Case {
    /// Generates the contents again, bit for bit.
    pub fn contents(&self, lab: &Lab, plans: &[TensorPlan]) -> Vec<Vec<u8>> {
        inputs::contents(plans, &lab.inputs[self.inputs], self.seed)
    }

    /// Says where in the gate this case is used.
    pub fn place(&self, lab: &Lab, stage: warpsmith_model::Stage) -> JudgedOutput {
        JudgedOutput {
            stage,
            workload: bind::describe_shape(&self.shape),
            inputs: lab.inputs[self.inputs].name.clone(),
            seed: self.seed,
        }
    }
}

/// How many contents of a shape are wanted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Want {
    /// This many.
    Exactly(usize),
    /// As many as pay; see [`contents_that_pay`].
    AsManyAsPay,
    /// As many as pay for numbers that are to be published.
    ForComparison,
}

/// Memory that a corpus may use however little is free: less, and the sets of a large workload would be
/// made again for every candidate.
const LEAST_MEMORY_BYTES: usize = 2 << 30;

/// Contents at least: one to warm up on and two to time.
pub const LEAST_CONTENTS: usize = 3;
/// Contents at most: the clock needs no more under one reading.
pub const MOST_CONTENTS: usize = 64;
/// Seconds that the contents of one workload may cost, beyond the least. On a processor a session launches
/// five of them, or more where one reading of the clock spans several launches, and kernels that are so
/// short have answers that take milliseconds. A CUDA kernel takes microseconds, and wants dozens.
const CONTENTS_TIME_S: f64 = 0.3;
const CONTENTS_TIME_BESIDE_CUDA_S: f64 = 1.0;
/// The same in a comparison there. One reading of a GPU's clock costs some 2 µs itself, as much as a tenth of
/// a short kernel if only two launches share it; but every output of every contender is judged.
const COMPARED_CONTENTS_TIME_S: f64 = 4.0;
const MOST_COMPARED_CONTENTS: usize = 33;
/// What one session launches may cost more: with less, every trial of a search opens a second session,
/// which costs it tens of milliseconds.
const SESSION_CONTENTS: usize = 5;
const SESSION_CONTENTS_TIME_S: f64 = 1.0;
/// Bytes of inputs and answers that the contents of one workload may take, beyond the least.
const CONTENTS_BYTES: usize = 192 << 20;
const COMPARED_CONTENTS_BYTES: usize = 1 << 30;

/// Contents that are answered in one session: as many as this many bytes, or this many.
const TOGETHER_BYTES: usize = 32 << 20;
const MOST_TOGETHER: usize = 16;

/// Returns how many different contents a workload gets, within so many seconds and bytes. Every timed launch wants
/// contents of its own, but each costs a run of the reference or the oracle and memory, so small shapes
/// get up to [`MOST_CONTENTS`] and large ones [`LEAST_CONTENTS`]; what is missing is made up for by opening
/// further sessions, whose processes know nothing of earlier ones.
pub fn contents_that_pay(time_s: f64, bytes: usize, case_s: f64, case_bytes: usize) -> usize {
    let by_time = (time_s / case_s.max(1e-9)).floor() as usize;
    let by_memory = bytes / case_bytes.max(1);
    by_time.min(by_memory).clamp(LEAST_CONTENTS, MOST_CONTENTS)
}

/// The cases of one lab at a time.
#[derive(Debug)]
pub struct Corpus {
    options: CorpusOptions,
    proven: Option<Proven>,
    sets: BTreeMap<SetKey, CaseSet>,
    uses: u64,
    launch_floor_s: Option<f64>,
}

#[derive(Debug)]
struct Proven {
    lab: LabId,
    authorities: Authorities,
    /// Absent while the proof is under way.
    record: Option<ChainRecord>,
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct SetKey {
    axes: Vec<i64>,
    /// The bits of the scalars that were drawn.
    scalars: Vec<u64>,
    inputs: usize,
    seed: u64,
    answer: Answer,
}

impl SetKey {
    fn of(lab: &Lab, shape: &Workload, inputs: usize, seed: u64, answer: Answer) -> Self {
        let scalars = shape.scalars.iter().map(|(_, value)| value.to_bits()).collect();
        Self { axes: bind::axis_values(lab, shape), scalars, inputs, seed, answer }
    }
}

#[derive(Debug, Default)]
struct CaseSet {
    cases: Vec<Arc<Case>>,
    bytes: usize,
    last_use: u64,
    /// Seconds that one answer took.
    answer_s: f64,
    /// Seconds that the first case took in all: inputs, answer, and what judging needs of it.
    case_s: f64,
    /// Blocks of the reference that were compared with the oracle, over all cases.
    sampled_blocks: u64,
    /// The usual size of the elements of each output, where it is too small to show it.
    floors: Option<Vec<f64>>,
}

impl CaseSet {
    /// Returns how many contents this workload gets, in a comparison or else in an evaluation.
    fn contents_that_pay(
        &self,
        lab: &Lab,
        plans: &[TensorPlan],
        patience: f64,
        compared: bool,
    ) -> usize {
        let case_s = match lab.target {
            TargetKind::Cpu => self.case_s,
            TargetKind::Cuda => self.answer_s,
        };
        let within = |time_s: f64, bytes: usize| {
            contents_that_pay(time_s, bytes, case_s / patience, case_bytes(plans))
        };
        let wanted = match lab.target {
            TargetKind::Cpu => within(CONTENTS_TIME_S, CONTENTS_BYTES),
            TargetKind::Cuda if compared => {
                within(COMPARED_CONTENTS_TIME_S, COMPARED_CONTENTS_BYTES)
                    .min(MOST_COMPARED_CONTENTS)
            }
            TargetKind::Cuda => within(CONTENTS_TIME_BESIDE_CUDA_S, CONTENTS_BYTES),
        };
        let a_session = within(SESSION_CONTENTS_TIME_S, CONTENTS_BYTES).min(SESSION_CONTENTS);
        wanted.max(a_session)
    }
}

impl Corpus {
    /// Makes an empty corpus.
    pub fn new(options: CorpusOptions) -> Self {
        Self { options, proven: None, sets: BTreeMap::new(), uses: 0, launch_floor_s: None }
    }

    /// Returns the first thing that went wrong with the cache of answers. Nothing depends on the cache, so it
    /// is no error: the next run has to work answers out again.
    pub fn cache_trouble(&self) -> Option<&GateError> {
        self.proven.as_ref()?.authorities.store_trouble.as_ref()
    }

    /// Proves the lab, and one content of every workload; returns what was done.
    pub fn check_chain(
        &mut self,
        target: &mut dyn Target,
        lab: &Lab,
        seed: u64,
    ) -> Result<ChainRecord, GateError> {
        let all: Vec<&Workload> = lab.workloads.iter().collect();
        chain::check_chain(self, target, lab, &all, seed)
    }

    /// Proves the lab, and one content of each of some workloads; returns what was done.
    pub fn check_chain_on(
        &mut self,
        target: &mut dyn Target,
        lab: &Lab,
        workloads: &[&Workload],
        seed: u64,
    ) -> Result<ChainRecord, GateError> {
        chain::check_chain(self, target, lab, workloads, seed)
    }

    /// Returns cases of a real workload under one distribution. The same seed gives the same cases.
    pub fn cases(
        &mut self,
        target: &mut dyn Target,
        lab: &Lab,
        workload: &Workload,
        inputs: usize,
        seed: u64,
        want: Want,
    ) -> Result<Vec<Arc<Case>>, GateError> {
        chain::prove(self, target, lab, seed)?;
        let answer = self.proven(lab).authorities.answer_for(lab, workload)?;
        self.provide(target, lab, workload, inputs, seed, answer, want)
    }

    /// Returns one case of a small shape for every distribution, answered by the reference.
    pub fn proof_cases(
        &mut self,
        target: &mut dyn Target,
        lab: &Lab,
        shape: &Workload,
        seed: u64,
    ) -> Result<Vec<Arc<Case>>, GateError> {
        chain::prove(self, target, lab, seed)?;
        self.proof_cases_unproven(target, lab, shape, seed)
    }

    fn proof_cases_unproven(
        &mut self,
        target: &mut dyn Target,
        lab: &Lab,
        shape: &Workload,
        seed: u64,
    ) -> Result<Vec<Arc<Case>>, GateError> {
        let mut cases = Vec::new();
        for inputs in 0..lab.inputs.len() {
            let want = Want::Exactly(1);
            let answer = Answer::Reference;
            cases.extend(self.provide(target, lab, shape, inputs, seed, answer, want)?);
        }
        Ok(cases)
    }

    /// Asks the reference for an element at which a candidate seems to be wrong, where the oracle answered: only a
    /// sample of what it says was compared with the reference. Fails where it is the oracle that is wrong.
    pub(crate) fn confirm(
        &mut self,
        target: &mut dyn Target,
        lab: &Lab,
        case: &Case,
        mismatch: &Mismatch,
    ) -> Result<(), GateError> {
        let is_it = |expected: &Expected| expected.plan().name == mismatch.tensor;
        let is_judged = matches!(mismatch.kind, MismatchKind::Element | MismatchKind::Norm);
        let Some(output) = case.expected.iter().position(is_it).filter(|_| is_judged) else {
            return Ok(());
        };
        let shape = &case.expected[output].plan().shape;
        let position =
            shape.iter().zip(&mismatch.index).fold(0, |sum, (extent, at)| sum * extent + at);
        chain::prove(self, target, lab, case.seed)?;
        let authorities = &mut self.proven.as_mut().expect("the lab is proven").authorities;
        authorities.confirm(target, lab, case, output, position as usize)
    }

    /// Estimates the seconds that one more answer for a workload costs.
    pub fn answer_s(
        &mut self,
        target: &mut dyn Target,
        lab: &Lab,
        workload: &Workload,
        seed: u64,
    ) -> Result<f64, GateError> {
        chain::prove(self, target, lab, seed)?;
        self.proven(lab).authorities.estimate_s(lab, workload)
    }

    /// Returns the time of an empty launch on the target, measured once.
    pub(crate) fn launch_floor_s(&mut self, target: &mut dyn Target) -> Result<f64, GateError> {
        if let Some(floor_s) = self.launch_floor_s {
            return Ok(floor_s);
        }
        let floor_s = crate::ceilings::launch_floor(target)?;
        self.launch_floor_s = Some(floor_s);
        Ok(floor_s)
    }

    /// Forgets every case and frees its memory on the target.
    pub fn clear(&mut self, target: &mut dyn Target) {
        for set in std::mem::take(&mut self.sets).into_values() {
            for case in set.cases {
                target.unstage(case.id);
            }
        }
    }

    fn proven(&self, lab: &Lab) -> &Proven {
        let proven = self.proven.as_ref().filter(|proven| proven.lab == lab.id);
        proven.expect("every path here proves the lab first")
    }

    #[expect(clippy::too_many_arguments, reason = "the context, then the parts of a set's key")]
    fn provide(
        &mut self,
        target: &mut dyn Target,
        lab: &Lab,
        shape: &Workload,
        inputs: usize,
        seed: u64,
        answer: Answer,
        want: Want,
    ) -> Result<Vec<Arc<Case>>, GateError> {
        let key = SetKey::of(lab, shape, inputs, seed, answer);
        let plans = bind::tensor_plans(lab, shape)?;
        self.uses += 1;
        let mut set = self.sets.remove(&key).unwrap_or_default();
        set.last_use = self.uses;
        let wanted = match want {
            Want::Exactly(count) => Ok(count),
            // The first case tells what a case costs.
            Want::AsManyAsPay | Want::ForComparison => {
                let compared = want == Want::ForComparison;
                self.extend(target, lab, shape, &key, &plans, &mut set, 1)
                    .map(|()| set.contents_that_pay(lab, &plans, self.options.patience, compared))
            }
        };
        let cases = wanted.and_then(|wanted| {
            self.extend(target, lab, shape, &key, &plans, &mut set, wanted)?;
            Ok(set.cases[..wanted].to_vec())
        });
        // What was made stays, even when a later one failed.
        self.sets.insert(key, set);
        cases
    }

    #[expect(clippy::too_many_arguments, reason = "the context, then what to extend")]
    fn extend(
        &mut self,
        target: &mut dyn Target,
        lab: &Lab,
        shape: &Workload,
        key: &SetKey,
        plans: &[TensorPlan],
        set: &mut CaseSet,
        wanted: usize,
    ) -> Result<(), GateError> {
        let missing = wanted.saturating_sub(set.cases.len());
        self.make_room(target, set.bytes + missing * case_bytes(plans));
        let authorities = &mut self.proven.as_mut().expect("the lab is proven").authorities;
        if set.floors.is_none() {
            let floors =
                authorities.floors(target, lab, shape, key.inputs, key.seed, key.answer)?;
            set.floors = Some(floors);
        }
        let floors = set.floors.clone().unwrap_or_default();
        let distribution = &lab.inputs[key.inputs];
        let together = (TOGETHER_BYTES / case_bytes(plans).max(1)).clamp(1, MOST_TOGETHER);
        while set.cases.len() < wanted {
            let have = set.cases.len();
            let started = Instant::now();
            let mut staged = Vec::new();
            for idx in have..wanted.min(have + together) {
                let seed = inputs::content_seed(key.seed, &shape.axes, &distribution.name, idx);
                let generating = trace::step("generating inputs");
                let contents = Arc::new(inputs::contents(plans, distribution, seed));
                drop(generating);
                match target.stage(plans, &contents) {
                    Ok(id) => staged.push(StagedContents { id, contents, seed }),
                    Err(source) => {
                        staged.iter().for_each(|one| target.unstage(one.id));
                        let doing = format!("staging inputs of `{}`", shape.name);
                        return Err(GateError::Target { doing, source });
                    }
                }
            }
            let _answering = trace::step("answering");
            let answers = authorities.answers(target, lab, shape, key, &staged, &floors);
            let answers = answers.inspect_err(|_| {
                staged.iter().for_each(|one| target.unstage(one.id));
            })?;
            let case_s = started.elapsed().as_secs_f64() / staged.len() as f64;
            for (one, answered) in staged.into_iter().zip(answers) {
                let Answered { expected, answer_s, sampled_blocks } = answered;
                if set.cases.is_empty() {
                    set.answer_s = answer_s;
                    // An answer from the store took longer once, and the next may not be there.
                    set.case_s = case_s.max(answer_s);
                }
                set.sampled_blocks += sampled_blocks;
                set.bytes += one.contents.iter().map(Vec::len).sum::<usize>()
                    + expected.iter().map(Expected::memory_bytes).sum::<usize>();
                let (id, seed) = (one.id, one.seed);
                let case = Case { id, shape: shape.clone(), inputs: key.inputs, seed, expected };
                set.cases.push(Arc::new(case));
            }
        }
        Ok(())
    }

    /// Forgets the sets that were used least recently until this many bytes fit, sparing those
    /// whose cases somebody still holds.
    fn make_room(&mut self, target: &mut dyn Target, bytes: usize) {
        while self.sets.values().map(|set| set.bytes).sum::<usize>() + bytes
            > self.options.memory_bytes
        {
            let idle = |set: &CaseSet| set.cases.iter().all(|case| Arc::strong_count(case) == 1);
            let oldest = self
                .sets
                .iter()
                .filter(|(_, set)| idle(set))
                .min_by_key(|(_, set)| set.last_use)
                .map(|(key, _)| key.clone());
            let Some(set) = oldest.and_then(|key| self.sets.remove(&key)) else { return };
            for case in set.cases {
                target.unstage(case.id);
            }
        }
    }
}

/// Returns about how many bytes a case keeps resident: its inputs, and its answers in singles.
fn case_bytes(plans: &[TensorPlan]) -> usize {
    plans
        .iter()
        .map(|plan| match plan.role {
            Role::Input => plan.bytes(),
            Role::Output => plan.elements() * plan.dtype.size().max(4),
        })
        .sum()
}

#[cfg(test)]
mod tests;
