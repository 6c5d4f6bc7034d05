//! The CPU target: C kernels, compiled by the machine's compilers, run by threads that the harness
//! owns in a process that can do nothing but compute.
//!
//! [`Cpu`] is the [`Target`]. [`compile_unit`] compiles without a target, for processes that only fill
//! the cache. [`runner_main`] is what a binary calls when it finds itself started as a runner:
//!
//! ```no_run
//! use warpsmith_device::cpu::{RUNNER_ARGUMENT, runner_main};
//! if std::env::args().nth(1).as_deref() == Some(RUNNER_ARGUMENT) {
//!     runner_main();
//! }
//! ```
//!
//! Three processes take part in a trial: the compiler's, confined to a folder; the worker's, which
//! owns the inputs, the expected outputs and the clock; and the runner's, which has the candidate and
//! the memory that the candidate may see.

pub(crate) mod artifacts;
mod capacity;
mod compile;
pub(crate) mod compiler_rights;
mod control;
pub(crate) mod crash;
mod elf;
mod idle;
mod info;
mod inputs;
mod layout;
mod opening;
mod outputs;
mod plan;
pub mod poison;
mod prelude;
mod pulse;
mod quiet;
mod runner;
mod session;
pub(crate) mod toolchain;
mod waiting;

use std::cell::RefCell;
use std::collections::{BTreeMap, HashMap};
use std::fs;
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::path::PathBuf;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use warpsmith_model::lab::Role;
use warpsmith_model::{BlobId, CrashCause, DeviceInfo, Environment, Guard, Isolation};

pub use artifacts::{WorkFolder, build_dir, make_private};
pub(crate) use compile::write_below;
pub use compile::{compile_unit, expect_many};
pub use crash::is_foreign;
pub use quiet::{
    Holder, PATIENCE, Quiet, QuietGuard, device_lock_paths, quiet_lock, quiet_lock_path,
    quiet_lock_within,
};
pub use runner::{RUNNER_ARGUMENT, runner_main};
pub use toolchain::compilers;

use crate::sys::memory::MemoryFile;
use crate::sys::process::allowed_cpus;
use crate::system_seed;
use crate::target::{
    Artifact, CaseId, Contents, Fault, Program, Session, Surroundings, Target, TensorPlan, Unit,
};
use control::{ControlPage, stage};
use elf::Deferred;
use idle::{Idle, SharedIdle};
use inputs::{InputShelf, Inputs};
use layout::{Owner, Region};
use outputs::{Outputs, Shelf};
use plan::{Hello, OverlayPlan, ProgramPlan, RunnerPlan, Source};
use pulse::Pulse;
use session::{CpuSession, Parts, StartedRunner, start_runner};

/// How a CPU target is set up.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CpuConfig {
    /// The folder of the artifact cache.
    pub cache_dir: PathBuf,
    /// The executable that serves as runner; this process's own when absent.
    pub runner_exe: Option<PathBuf>,
    /// The number of threads that run a kernel; as many as this process may use when absent.
    pub threads: Option<u32>,
}

/// This machine's processor.
///
/// A session's process ends with the session, with this process, and with the thread that opened it,
/// whichever is first.
#[derive(Debug)]
pub struct Cpu {
    config: CpuConfig,
    info: DeviceInfo,
    isolation: Isolation,
    /// Why memory files cannot be sealed, if they cannot.
    no_sealing: Option<String>,
    cpus: Vec<usize>,
    cases: BTreeMap<usize, Case>,
    next_case: usize,
    /// Copies of artifacts that nobody can change, by the hash of the bytes that were compiled.
    artifacts: HashMap<BlobId, Loadable>,
    shelf: Shelf,
    input_shelf: InputShelf,
    /// What the harness itself costs; started with the first session.
    idle: Option<SharedIdle>,
    /// Started when it is first asked.
    pulse: Option<Pulse>,
    /// A runner that waits for its plan.
    spare: Option<StartedRunner>,
}

/// Inputs in memory, of which runners get copies.
#[derive(Debug)]
struct Case {
    contents: Contents,
    tensors: Vec<TensorPlan>,
}

/// An artifact as a runner gets it: without constructors for the loader to call.
#[derive(Debug)]
struct Loadable {
    file: MemoryFile,
    bytes: usize,
    deferred: Deferred,
}

/// Room for the lists of a command: cases of a batch, blocks of a partial launch.
const CONTROL_WORDS: usize = 1 << 14;

/// Copies of artifacts that are kept, and their bytes; a campaign returns to few of them.
const ARTIFACTS_KEPT: usize = 32;
const ARTIFACT_BYTES_KEPT: usize = 64 << 20;

/// How long a runner may take to come to life. Generous, because no candidate has a part in it and
/// the machine may be busy; the candidate's own deadline begins when it is loaded.
const START_DEADLINE: Duration = Duration::from_secs(60);

impl Cpu {
    /// Sets the target up: looks at the machine and starts one runner to see how well candidates can
    /// be confined.
    pub fn new(config: CpuConfig) -> Result<Self, Fault> {
        let mut cpus = allowed_cpus().map_err(broken("asking for this process's processors"))?;
        let available = std::thread::available_parallelism().map_or(1, |count| count.get());
        let threads = config.threads.map_or(available, |threads| threads as usize);
        if threads == 0 || threads > cpus.len() {
            return Err(Fault::Unavailable(format!(
                "{threads} threads were asked for, but this process may use {} processor(s); ask for \
                 fewer",
                cpus.len()
            )));
        }
        cpus.truncate(threads);
        artifacts::sweep(&config.cache_dir);
        let sealed = MemoryFile::create(c"warpsmith-probe", 1).and_then(|file| file.seal());
        let no_sealing = sealed.err().map(|error| format!("sealing a memory file: {error}"));
        let isolation = isolation_of(&probe(&config, &cpus)?, no_sealing.as_deref());
        Ok(Self {
            info: info::device_info(threads as u32),
            config,
            isolation,
            no_sealing,
            cpus,
            cases: BTreeMap::new(),
            next_case: 0,
            artifacts: HashMap::new(),
            shelf: Shelf::default(),
            input_shelf: InputShelf::default(),
            idle: None,
            pulse: None,
            spare: None,
        })
    }

    /// Returns what confines candidates on this machine.
    pub fn isolation(&self) -> &Isolation {
        &self.isolation
    }

    /// Describes the machine, its compilers and its protections.
    pub fn environment(&self) -> Environment {
        info::environment(self.info.clone(), self.isolation.clone())
    }

    /// Returns the runner that was started ahead, if it still lives, or starts one.
    fn take_runner(&mut self) -> Result<StartedRunner, Fault> {
        if let Some(mut spare) = self.spare.take()
            && spare.lives()
        {
            return Ok(spare);
        }
        start_runner(self.config.runner_exe.as_deref()).map_err(broken("starting a runner"))
    }

    /// Returns what measures the harness's own cost, started when it is first asked for.
    fn idle(&mut self) -> Result<SharedIdle, Fault> {
        if let Some(idle) = self.idle.take_if(|idle| !idle.borrow().is_lost()) {
            self.idle = Some(Rc::clone(&idle));
            return Ok(idle);
        }
        let measuring = broken("measuring what the harness itself costs");
        let mut runner = self.take_runner()?;
        let arena = layout::arena(&[], 0, &[], self.cpus.len());
        let plan = session_plan(None, &arena, 0, &self.cpus);
        let (control_file, page) = ControlPage::create(CONTROL_WORDS).map_err(&measuring)?;
        let outputs = Outputs::create(arena, &[], 0, &mut Shelf::default()).map_err(&measuring)?;
        let hello = runner
            .instruct(&plan, &[control_file.as_fd()], START_DEADLINE)
            .map_err(|error| start_fault(&mut runner, &page, error))?;
        let session = CpuSession::begin(Parts {
            runner,
            page,
            outputs,
            inputs: None,
            arena_start: hello.arena_start,
            n_cases: 0,
            n_slots: 0,
            launches: Vec::new(),
            n_threads: self.cpus.len() as u32,
            deadline: START_DEADLINE,
            idle: None,
        })?;
        let idle = Rc::new(RefCell::new(Idle::start(session)?));
        self.idle = Some(Rc::clone(&idle));
        Ok(idle)
    }

    /// Returns a copy of the artifact that nobody can change, after checking that it is the one that
    /// was compiled.
    fn sealed_artifact(&mut self, artifact: &Artifact) -> Result<&Loadable, Fault> {
        if !self.artifacts.contains_key(&artifact.binary) {
            let failed = |source| Fault::Broken {
                what: format!("loading {}", artifact.path.display()),
                source,
            };
            let mut bytes = fs::read(&artifact.path).map_err(failed)?;
            if BlobId::of(&bytes) != artifact.binary {
                return Err(failed(io::Error::other("its content is not what was compiled")));
            }
            let deferred = elf::defer_constructors(&mut bytes)
                .map_err(|message| Fault::Crashed(CrashCause::NotLoadable { message }))?;
            let file = MemoryFile::create(c"warpsmith-artifact", bytes.len()).map_err(failed)?;
            file.write_at(&bytes, 0).map_err(failed)?;
            if self.no_sealing.is_none() {
                file.seal().map_err(failed)?;
            }
            let kept: usize = self.artifacts.values().map(|kept| kept.bytes).sum();
            if self.artifacts.len() >= ARTIFACTS_KEPT || kept + bytes.len() > ARTIFACT_BYTES_KEPT {
                self.artifacts.clear();
            }
            let loadable = Loadable { file, bytes: bytes.len(), deferred };
            self.artifacts.insert(artifact.binary, loadable);
        }
        Ok(&self.artifacts[&artifact.binary])
    }
}

impl Target for Cpu {
    fn info(&self) -> &DeviceInfo {
        &self.info
    }

    fn compile(&mut self, unit: &Unit) -> Result<Artifact, Fault> {
        compile_unit(&self.config.cache_dir, unit)
    }

    fn stage(&mut self, tensors: &[TensorPlan], contents: &Contents) -> Result<CaseId, Fault> {
        let inputs = tensors.iter().filter(|tensor| tensor.role == Role::Input);
        if !inputs.map(TensorPlan::bytes).eq(contents.iter().map(Vec::len)) {
            return Err(misuse("the contents of a case do not have the sizes of its inputs"));
        }
        let id = self.next_case;
        self.next_case += 1;
        let (contents, tensors) = (Arc::clone(contents), tensors.to_vec());
        self.cases.insert(id, Case { contents, tensors });
        Ok(CaseId(id))
    }

    fn changed_input(&self, _case: CaseId) -> Option<usize> {
        // Runners get copies, which are looked at when a launch has ended.
        None
    }

    fn unstage(&mut self, case: CaseId) {
        self.cases.remove(&case.0);
    }

    fn speed(&mut self) -> Option<f64> {
        if self.pulse.is_none() {
            self.pulse = Pulse::start(&self.cpus);
        }
        self.pulse.as_mut().map(Pulse::speed)
    }

    fn open(
        &mut self,
        program: &Program,
        cases: &[CaseId],
        deadline: Duration,
    ) -> Result<Box<dyn Session>, Fault> {
        self.open_few(Surroundings::Fresh, program, cases, cases.len(), deadline)
    }

    fn open_in(
        &mut self,
        surroundings: Surroundings,
        program: &Program,
        cases: &[CaseId],
        deadline: Duration,
    ) -> Result<Box<dyn Session>, Fault> {
        self.open_few(surroundings, program, cases, cases.len(), deadline)
    }

    fn open_few(
        &mut self,
        surroundings: Surroundings,
        program: &Program,
        cases: &[CaseId],
        together: usize,
        deadline: Duration,
    ) -> Result<Box<dyn Session>, Fault> {
        match self.open_once(surroundings, program, cases, together, deadline) {
            // Somebody else's doing, before the candidate did anything.
            Err(Fault::Crashed(cause)) if cause.is_from_outside() => {
                self.open_once(surroundings, program, cases, together, deadline)
            }
            opened => opened,
        }
    }
}

impl Cpu {
    fn open_once(
        &mut self,
        surroundings: Surroundings,
        program: &Program,
        cases: &[CaseId],
        together: usize,
        deadline: Duration,
    ) -> Result<Box<dyn Session>, Fault> {
        check_program(program)?;
        let n_slots = together.min(cases.len());
        let idle = self.idle()?;
        let mut runner = self.take_runner()?;
        let arena = layout::arena(&program.tensors, n_slots, &program.scratch, self.cpus.len());
        let loadable = self.sealed_artifact(&program.artifact)?;
        let deferred = loadable.deferred.clone();
        let artifact_file = loadable.file.reopen().map_err(broken("opening a compiled kernel"))?;
        let mut plan = session_plan(Some((program, deferred)), &arena, n_slots, &self.cpus);
        // A process here is always new; that somebody was in it before shows in its heap.
        plan.heap_noise = (surroundings == Surroundings::Kept).then(|| system_seed() as u8);
        let preparing = broken("preparing a session");
        let (control_file, page) = ControlPage::create(CONTROL_WORDS).map_err(&preparing)?;
        let mut outputs = Outputs::create(arena, &program.tensors, cases.len(), &mut self.shelf)
            .map_err(capacity::memory_fault)?;
        let mut contents = Vec::new();
        for case in cases {
            let staged = self.cases.get(&case.0).ok_or_else(|| misuse("a case is not staged"))?;
            if staged.tensors != program.tensors {
                return Err(misuse("a case was staged for other tensors than the program's"));
            }
            contents.push(Arc::clone(&staged.contents));
        }
        let mut inputs = Inputs::create(&program.tensors, contents, n_slots, &mut self.input_shelf)
            .map_err(capacity::memory_fault)?;
        outputs.clear();
        inputs.clear();
        let files: [BorrowedFd<'_>; 4] = [
            control_file.as_fd(),
            artifact_file.as_fd(),
            outputs.descriptor(),
            inputs.descriptor(),
        ];
        let hello = runner
            .instruct(&plan, &files, START_DEADLINE)
            .map_err(|error| start_fault(&mut runner, &page, error))?;
        // A protection that is silently gone would make the environment's record a lie.
        let isolation = isolation_of(&hello, self.no_sealing.as_deref());
        if isolation != self.isolation {
            let source = io::Error::other(format!("{isolation:?}, not {:?}", self.isolation));
            return Err(Fault::Broken { what: "confining a runner".to_string(), source });
        }
        let session = CpuSession::begin(Parts {
            runner,
            page,
            outputs,
            inputs: Some(inputs),
            arena_start: hello.arena_start,
            n_cases: cases.len(),
            n_slots,
            launches: program.launches.clone(),
            n_threads: self.cpus.len() as u32,
            deadline,
            idle: Some(idle),
        })?;
        // The next runner comes to life while this one's first launch is judged; readings of the clock
        // wait until the processors have their speed again. Without it the next session starts one.
        self.spare = start_runner(self.config.runner_exe.as_deref()).ok();
        Ok(Box::new(session))
    }
}

/// Refuses programs whose numbers no session could be made from.
fn check_program(program: &Program) -> Result<(), Fault> {
    if program.tensors.iter().any(|tensor| tensor.bytes() == 0) {
        return Err(misuse("a tensor is empty"));
    }
    if program.launches.iter().any(|launch| launch.blocks < 0 || launch.blocks > i64::MAX / 4) {
        return Err(misuse("a launch has an impossible number of blocks"));
    }
    if let Some(message) = capacity::lacking(&program.scratch) {
        return Err(Fault::Crashed(CrashCause::NotLoadable { message }));
    }
    Ok(())
}

/// Says why a runner did not come to life, before it loaded anything: whoever killed it, the memory that its
/// session asks for, or we.
fn start_fault(runner: &mut StartedRunner, page: &ControlPage, error: io::Error) -> Fault {
    if let Some(cause) = runner.killed() {
        return Fault::Crashed(cause);
    }
    if let Some(mut message) = failure(page)
        && message.ends_with(&io::Error::from_raw_os_error(libc::ENOMEM).to_string())
    {
        message += &capacity::limits_in_words();
        return Fault::Crashed(CrashCause::NotLoadable { message });
    }
    broken_start(runner, page, error)
}

/// Says that a runner did not come to life by our doing, or the machine's.
fn broken_start(runner: &mut StartedRunner, page: &ControlPage, error: io::Error) -> Fault {
    let limits = capacity::limits_in_words();
    let (what, source) = match failure(page) {
        Some(message) => ("starting a runner".to_string(), format!("{message}{limits}")),
        // Without memory it may end before it can say why.
        None => {
            (format!("starting a runner: {}", runner.describe_end()), format!("{error}{limits}"))
        }
    };
    Fault::Broken { what, source: io::Error::new(error.kind(), source) }
}

/// Returns what a runner says of its own failure.
fn failure(page: &ControlPage) -> Option<String> {
    let control = page.control();
    (control.stage.load(Ordering::Acquire) == stage::BROKEN).then(|| control.message())
}

/// Puts a session into words that its runner understands.
fn session_plan(
    program: Option<(&Program, Deferred)>,
    arena: &layout::Arena,
    n_slots: usize,
    cpus: &[usize],
) -> RunnerPlan {
    let mut tensors = vec![Vec::new(); n_slots];
    let (mut scratch, mut stacks, mut overlays) = (Vec::new(), Vec::new(), Vec::new());
    for region in &arena.regions {
        let Region { owner, at, block, file_offset } = *region;
        let source = match owner {
            Owner::Input(slot, _) => {
                tensors[slot].push(region.content_at());
                Source::Inputs(file_offset)
            }
            Owner::Output(slot, _) => {
                tensors[slot].push(region.content_at());
                Source::Outputs(file_offset)
            }
            Owner::Scratch(_) => {
                scratch.push(region.content_at());
                Source::Outputs(file_offset)
            }
            Owner::Stack(_) => {
                stacks.push(region.content_at());
                Source::Stack
            }
        };
        overlays.push(OverlayPlan { at, bytes: block.mapped_bytes, source });
    }
    let program = program.map(|(program, deferred)| ProgramPlan {
        slots: tensors,
        is_output: program.tensors.iter().map(|tensor| tensor.role == Role::Output).collect(),
        deferred,
        axes: program.axes.clone(),
        scalar_bits: program.scalars.iter().map(|value| value.to_bits()).collect(),
        scratch,
        launches: program
            .launches
            .iter()
            .map(|launch| (launch.entry, launch.blocks, launch.chunk))
            .collect(),
    });
    RunnerPlan {
        worker: std::process::id(),
        cpus: cpus.to_vec(),
        control_words: CONTROL_WORDS,
        arena_bytes: arena.bytes,
        overlays,
        stacks,
        heap_noise: None,
        program,
    }
}

/// Finds out what confines candidates, by confining a runner that has none.
fn probe(config: &CpuConfig, cpus: &[usize]) -> Result<Hello, Fault> {
    let probing = broken("finding out how well candidates can be confined");
    let mut runner =
        start_runner(config.runner_exe.as_deref()).map_err(broken("starting a runner"))?;
    let (control_file, page) = ControlPage::create(0).map_err(&probing)?;
    let plan = RunnerPlan {
        worker: std::process::id(),
        cpus: cpus.to_vec(),
        control_words: 0,
        arena_bytes: 0,
        overlays: Vec::new(),
        stacks: Vec::new(),
        heap_noise: None,
        program: None,
    };
    runner
        .instruct(&plan, &[control_file.as_fd()], START_DEADLINE)
        .map_err(|error| broken_start(&mut runner, &page, error))
}

/// Puts together what a runner says of itself and what this process knows.
fn isolation_of(hello: &Hello, no_sealing: Option<&str>) -> Isolation {
    Isolation {
        seccomp: guard(hello.no_seccomp.clone()),
        landlock: guard(hello.no_landlock.clone()),
        rlimits: guard(hello.no_rlimits.clone()),
        sealed_inputs: guard(no_sealing.map(str::to_string)),
        privileges: guard(hello.privileged.clone()),
    }
}

fn guard(missing: Option<String>) -> Guard {
    missing.map_or(Guard::Active, |reason| Guard::Missing { reason })
}

/// Names what was being done when an error came.
fn broken(doing: &'static str) -> impl Fn(io::Error) -> Fault {
    move |source| Fault::Broken { what: doing.to_string(), source }
}

/// An error of the caller's.
fn misuse(message: &'static str) -> Fault {
    let source = io::Error::new(io::ErrorKind::InvalidInput, message);
    Fault::Broken { what: "using the CPU target".to_string(), source }
}
