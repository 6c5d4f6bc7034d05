//! A target whose kernels are Rust closures: for tests of everything that is written against
//! [`Target`] and [`Session`], with any output, any time and any fault at any moment.
//!
//! ```
//! use warpsmith_gate::fake::Fake;
//! let mut fake = Fake::new();
//! fake.kernel("00_naive.c", |call| {
//!     let x = call.input(0);
//!     call.set_output(1, &x.iter().map(|value| 2.0 * value).collect::<Vec<_>>());
//!     Ok(1e-3) // seconds
//! });
//! ```

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::path::PathBuf;
use std::rc::Rc;
use std::time::Duration;

use warpsmith_device::poison::{Poison, fill_poison};
use warpsmith_device::target::{
    Artifact, CaseId, Clocked, Contents, Extent, Fault, Program, Sanitized, Sanitizer, Sanitizers,
    Session, Surroundings, Target, TensorPlan, Unit,
};
use warpsmith_model::lab::Role;
use warpsmith_model::{BlobId, DeviceInfo, DeviceState, Hasher};

use crate::element::{narrow, widen};

type State = Rc<RefCell<dyn FnMut() -> DeviceState>>;
type Judge = Box<dyn FnMut(Sanitizer, &Program, &[Vec<u8>]) -> Result<Sanitized, Fault>>;
type Kernel = Rc<RefCell<dyn FnMut(&mut FakeCall<'_>) -> Result<f64, Fault>>>;

/// A target whose kernels are closures, found by the name of the unit's file.
pub struct Fake {
    info: DeviceInfo,
    kernels: BTreeMap<String, Kernel>,
    staged: Vec<Option<Rc<RefCell<Staged>>>>,
    sessions: usize,
    surroundings: Vec<Surroundings>,
    compiled: Vec<Unit>,
    sanitizer: Option<Judge>,
    sanitizer_deadlines: Vec<Duration>,
    compiler_log: String,
    state: Option<State>,
    warm_share: Option<f64>,
    waits: BTreeSet<String>,
}

#[derive(Debug)]
struct Staged {
    tensors: Vec<TensorPlan>,
    contents: Vec<Vec<u8>>,
    changed: Option<usize>,
}

/// One launch of a fake kernel on one case.
#[derive(Debug)]
pub struct FakeCall<'a> {
    /// The program that is launched.
    pub program: &'a Program,
    /// How much of it.
    pub extent: &'a Extent,
    /// The case.
    pub case: CaseId,
    /// How many launches this session saw before this one.
    pub launch: usize,
    /// How many readings of the clock this session saw before this one.
    pub reading: usize,
    /// How many sessions were opened on the target before this one.
    pub session: usize,
    inputs: &'a mut Staged,
    outputs: &'a mut [Vec<u8>],
    guard: &'a mut Option<usize>,
}

impl FakeCall<'_> {
    /// Returns the elements of a tensor that is an input; `tensor` counts all tensors.
    pub fn input(&self, tensor: usize) -> Vec<f64> {
        let plans = &self.inputs.tensors;
        let slot = plans[..tensor].iter().filter(|plan| plan.role == Role::Input).count();
        widen(plans[tensor].dtype, &self.inputs.contents[slot])
    }

    /// Writes the elements of a tensor that is an output; when only some blocks were launched,
    /// only their share is written, elements being spread evenly over the blocks.
    pub fn set_output(&mut self, tensor: usize, values: &[f64]) {
        let dtype = self.program.tensors[tensor].dtype;
        let bytes = narrow(dtype, values);
        let blocks = self.program.launches.last().map_or(1, |launch| launch.blocks) as usize;
        for (idx, element) in bytes.chunks_exact(dtype.size()).enumerate() {
            let block = (idx * blocks / values.len()) as i64;
            let launched = match self.extent {
                Extent::All | Extent::Counted => true,
                Extent::Blocks(chosen) => chosen.contains(&block),
            };
            if launched {
                let at = idx * dtype.size()..(idx + 1) * dtype.size();
                self.outputs[tensor][at].copy_from_slice(element);
            }
        }
    }

    /// Pretends to have written beside a tensor.
    pub fn overwrite_guard(&mut self, tensor: usize) {
        *self.guard = Some(tensor);
    }

    /// Pretends to have changed an input.
    pub fn change_input(&mut self, tensor: usize) {
        self.inputs.changed = Some(tensor);
    }

    /// Returns the share of the last launch's blocks that was launched.
    pub fn share(&self) -> f64 {
        match self.extent {
            Extent::All | Extent::Counted => 1.0,
            Extent::Blocks(chosen) => {
                let blocks = self.program.launches.last().map_or(1, |launch| launch.blocks);
                chosen.len() as f64 / blocks as f64
            }
        }
    }
}

impl Fake {
    /// Pretends to be this device.
    pub fn device(&mut self, info: DeviceInfo) {
        self.info = info;
    }

    /// Pretends that other programs have the processors for half the time of launches of this file's kernels.
    pub fn waits(&mut self, file_name: &str) {
        self.waits.insert(file_name.to_string());
    }

    /// Makes a target with two threads and no kernels.
    pub fn new() -> Self {
        let info = DeviceInfo {
            cuda: None,
            name: "fake".to_string(),
            threads: 2,
            l1d_bytes: 32 << 10,
            l2_bytes: 512 << 10,
            l3_bytes: 8 << 20,
            vector_bytes: 32,
            features: Vec::new(),
            ticks_per_s: Some(1e9),
        };
        Self {
            info,
            kernels: BTreeMap::new(),
            staged: Vec::new(),
            sessions: 0,
            surroundings: Vec::new(),
            compiled: Vec::new(),
            sanitizer: None,
            sanitizer_deadlines: Vec::new(),
            compiler_log: String::new(),
            state: None,
            warm_share: None,
            waits: BTreeSet::new(),
        }
    }

    /// Says how the device is after each launch.
    pub fn state(&mut self, state: impl FnMut() -> DeviceState + 'static) -> &mut Self {
        self.state = Some(Rc::new(RefCell::new(state)));
        self
    }

    /// Lets launches with warm caches take this share of the time of others.
    pub fn warm_share(&mut self, share: f64) -> &mut Self {
        self.warm_share = Some(share);
        self
    }

    /// Gives the target sanitizers, and says what they find in each program they are shown.
    pub fn sanitizer(
        &mut self,
        mut judge: impl FnMut(Sanitizer, &Program) -> Result<Sanitized, Fault> + 'static,
    ) -> &mut Self {
        self.sanitizer_of_inputs(move |tool, program, _| judge(tool, program))
    }

    /// The same for sanitizers that look at inputs, too.
    pub fn sanitizer_of_inputs(
        &mut self,
        judge: impl FnMut(Sanitizer, &Program, &[Vec<u8>]) -> Result<Sanitized, Fault> + 'static,
    ) -> &mut Self {
        self.sanitizer = Some(Box::new(judge));
        self
    }

    /// Returns the deadlines that the sanitizers were given so far, in order.
    pub fn sanitizer_deadlines(&self) -> &[Duration] {
        &self.sanitizer_deadlines
    }

    /// Says what a file computes and how many seconds it takes (or how it fails). Replaces what was
    /// said of the file before.
    pub fn kernel(
        &mut self,
        file_name: &str,
        run: impl FnMut(&mut FakeCall<'_>) -> Result<f64, Fault> + 'static,
    ) -> &mut Self {
        self.kernels.insert(file_name.to_string(), Rc::new(RefCell::new(run)));
        self
    }

    /// Says what the compiler says of every unit that it compiles.
    pub fn compiler_says(&mut self, log: &str) -> &mut Self {
        self.compiler_log = log.to_string();
        self
    }

    /// Returns how many sessions were opened.
    pub fn sessions(&self) -> usize {
        self.sessions
    }

    /// Returns where sessions were opened for which that was said, in order.
    pub fn surroundings(&self) -> &[Surroundings] {
        &self.surroundings
    }

    /// Returns how many cases are staged now.
    pub fn staged(&self) -> usize {
        self.staged.iter().flatten().count()
    }

    /// Returns the units that were compiled, in order.
    pub fn compiled(&self) -> &[Unit] {
        &self.compiled
    }
}

impl Default for Fake {
    fn default() -> Self {
        Self::new()
    }
}

impl fmt::Debug for Fake {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kernels: Vec<&String> = self.kernels.keys().collect();
        f.debug_struct("Fake").field("kernels", &kernels).finish_non_exhaustive()
    }
}

impl Target for Fake {
    fn info(&self) -> &DeviceInfo {
        &self.info
    }

    fn sanitizers(&self) -> Result<Option<Sanitizers>, Fault> {
        Ok(self.sanitizer.as_ref().map(|_| Sanitizers {
            version: "fake 1".to_string(),
            tools: Sanitizer::ALL.to_vec(),
            line_flags: vec!["-lines".to_string()],
        }))
    }

    fn sanitize(
        &mut self,
        tool: Sanitizer,
        runs: &[(&Program, CaseId)],
        deadline: Duration,
    ) -> Result<Sanitized, Fault> {
        self.sanitizer_deadlines.push(deadline);
        let judge = self.sanitizer.as_mut().expect("only asked where there are some");
        for (program, case) in runs {
            let staged =
                self.staged[case.0].as_ref().expect("only staged cases are shown").borrow();
            let said = judge(tool, program, &staged.contents)?;
            if said != Sanitized::Clean {
                return Ok(said);
            }
        }
        Ok(Sanitized::Clean)
    }

    fn compile(&mut self, unit: &Unit) -> Result<Artifact, Fault> {
        if !self.kernels.contains_key(&unit.file_name) {
            let message = format!("{}: nobody said what this computes", unit.file_name);
            return Err(Fault::Compile { log: message.clone(), message });
        }
        self.compiled.push(unit.clone());
        let mut hasher = Hasher::new("fake");
        hasher.part(format!("{unit:?}").as_bytes());
        Ok(Artifact {
            path: PathBuf::from(&unit.file_name),
            binary: BlobId::from(hasher),
            command: std::iter::once(&unit.compiler).chain(&unit.flags).cloned().collect(),
            log: self.compiler_log.clone(),
            compile_s: 0.0,
            cached: false,
        })
    }

    fn stage(&mut self, tensors: &[TensorPlan], contents: &Contents) -> Result<CaseId, Fault> {
        let staged =
            Staged { tensors: tensors.to_vec(), contents: contents.to_vec(), changed: None };
        self.staged.push(Some(Rc::new(RefCell::new(staged))));
        Ok(CaseId(self.staged.len() - 1))
    }

    fn changed_input(&self, case: CaseId) -> Option<usize> {
        self.staged[case.0].as_ref().and_then(|staged| staged.borrow().changed)
    }

    fn unstage(&mut self, case: CaseId) {
        self.staged[case.0] = None;
    }

    fn open_in(
        &mut self,
        surroundings: Surroundings,
        program: &Program,
        cases: &[CaseId],
        deadline: Duration,
    ) -> Result<Box<dyn Session>, Fault> {
        self.surroundings.push(surroundings);
        self.open(program, cases, deadline)
    }

    fn open(
        &mut self,
        program: &Program,
        cases: &[CaseId],
        _deadline: Duration,
    ) -> Result<Box<dyn Session>, Fault> {
        let name = program.artifact.path.to_string_lossy().to_string();
        let kernel = Rc::clone(&self.kernels[&name]);
        let cases: Vec<_> = cases
            .iter()
            .map(|case| {
                let staged = self.staged[case.0].as_ref().expect("only staged cases are opened");
                let outputs = program
                    .tensors
                    .iter()
                    .map(|plan| match plan.role {
                        Role::Input => Vec::new(),
                        Role::Output => poisoned(plan),
                    })
                    .collect();
                FakeCase { id: *case, staged: Rc::clone(staged), outputs, guard: None }
            })
            .collect();
        self.sessions += 1;
        let session = FakeSession {
            kernel,
            program: program.clone(),
            cases,
            launches: 0,
            readings: 0,
            session: self.sessions - 1,
            state: self.state.clone(),
            warm_share: self.warm_share,
            waits: self.waits.contains(&name),
        };
        Ok(Box::new(session))
    }
}

struct FakeCase {
    id: CaseId,
    staged: Rc<RefCell<Staged>>,
    outputs: Vec<Vec<u8>>,
    guard: Option<usize>,
}

struct FakeSession {
    kernel: Kernel,
    program: Program,
    cases: Vec<FakeCase>,
    launches: usize,
    readings: usize,
    session: usize,
    state: Option<State>,
    warm_share: Option<f64>,
    waits: bool,
}

impl Session for FakeSession {
    fn launch(&mut self, cases: &[usize], extent: &Extent) -> Result<Clocked, Fault> {
        let mut elapsed_s = 0.0;
        for case in cases {
            let case = &mut self.cases[*case];
            let mut call = FakeCall {
                program: &self.program,
                extent,
                case: case.id,
                launch: self.launches,
                reading: self.readings,
                session: self.session,
                inputs: &mut case.staged.borrow_mut(),
                outputs: &mut case.outputs,
                guard: &mut case.guard,
            };
            elapsed_s += (self.kernel.borrow_mut())(&mut call)?;
            self.launches += 1;
        }
        self.readings += 1;
        let state = self.state.as_ref().map(|state| (state.borrow_mut())());
        let waited_s = if self.waits { elapsed_s / 2.0 } else { 0.0 };
        Ok(Clocked { elapsed_s, ticks: Some((elapsed_s * 1e9) as u64), waited_s, state })
    }

    fn launch_warm(&mut self, cases: &[usize]) -> Result<Option<Clocked>, Fault> {
        let Some(share) = self.warm_share else { return Ok(None) };
        let clocked = self.launch(cases, &Extent::All)?;
        Ok(Some(Clocked { elapsed_s: share * clocked.elapsed_s, ..clocked }))
    }

    fn output(&self, case: usize, tensor: usize) -> &[u8] {
        &self.cases[case].outputs[tensor]
    }

    fn overwritten_guard(&self, case: usize) -> Option<usize> {
        self.cases[case].guard
    }

    fn poison(&mut self, case: usize, poison: Poison) {
        let outputs = &mut self.cases[case].outputs;
        for (plan, output) in self.program.tensors.iter().zip(outputs) {
            poison.fill(plan.dtype, output);
        }
    }
}

fn poisoned(plan: &TensorPlan) -> Vec<u8> {
    let mut bytes = vec![0; plan.bytes()];
    fill_poison(plan.dtype, &mut bytes);
    bytes
}
