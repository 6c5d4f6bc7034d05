//! The CUDA target: kernels compiled for the device at run time, run by a process that owns the device.
//!
//! [`Cuda`] is the [`Target`]. It has a CPU target inside, for the lab's reference, which is plain C:
//! what is compiled by a C compiler runs there. The device itself belongs to a process of its own
//! ([`device_main`]), which a fault or a hang of a kernel takes along; the next session starts another.
//! [`compile_main`] is what a binary calls when it finds itself started as a compile process.

pub(crate) mod ceilings;
mod compile;
mod cublaslt;
mod digest;
mod driver;
pub mod identity;
pub(crate) mod limits;
pub mod loops;
mod monitor;
pub mod ncu;
mod nvcc;
mod nvrtc;
mod process;
pub mod readiness;
pub mod sanitizer;
pub mod sass;
mod server;
mod stamps;
pub mod toolkit;
mod wire;

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use warpsmith_model::lab::{Role, ScalarType};
use warpsmith_model::{Compiler, CudaInfo, DeviceInfo, Environment, Guard};

pub use compile::{COMPILER, Resources, compile_unit, resources};
pub use nvcc::NVCC;
pub use nvrtc::{COMPILE_ARGUMENT, compile_main};
pub use server::{DEVICE_ARGUMENT, device_main};

use crate::cpu::{Cpu, CpuConfig, poison};
use crate::poison::Poison;
use crate::target::{
    Artifact, CaseId, Clocked, Contents, Extent, Fault, GridProgram, Program, Sanitized, Sanitizer,
    Sanitizers, Session, Target, TensorPlan, Unit, Watched,
};
use crate::trace;
use process::{DeviceProcess, Window};
use wire::{
    Ask, Clock, GUARD_BYTES, GemmWire, LaunchWire, MapWire, Reply, ScalarWire, SessionPlan,
    TensorWire,
};

/// Describes a device of an architecture that is not at hand, for compiling: its names are known, its
/// speed is not.
pub fn device_of_arch(arch: &str) -> Option<DeviceInfo> {
    // Multiprocessors of a common device of the architecture, and shared memory as the programming guide
    // states it.
    let (sms, smem_kib) = match arch {
        "sm_80" => (108, 163),
        "sm_86" | "sm_89" => (58, 99),
        "sm_90" | "sm_90a" => (132, 227),
        "sm_100" | "sm_100a" => (148, 227),
        "sm_120" | "sm_120a" => (170, 99),
        _ => return None,
    };
    Some(DeviceInfo {
        name: arch.to_string(),
        threads: sms,
        l1d_bytes: 0,
        l2_bytes: 0,
        l3_bytes: 0,
        vector_bytes: 16,
        features: vec![arch.to_string()],
        ticks_per_s: None,
        cuda: Some(CudaInfo {
            arch: arch.to_string(),
            driver: String::new(),
            driver_version: None,
            sms,
            warp_size: 32,
            max_threads: 1024,
            smem_per_block: smem_kib << 10,
            memory_bytes: 0,
            unmonitored: None,
        }),
    })
}

/// How a CUDA target is set up.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CudaConfig {
    /// The CPU target that runs references; its cache holds the device's artifacts too.
    pub host: CpuConfig,
    /// The executable that serves as device process; this process's own when absent.
    pub device_exe: Option<PathBuf>,
}

/// The name that a unit gives as its compiler when there is nothing to compile: the program is a product
/// that cuBLASLt computes.
pub(crate) const CUBLASLT: &str = "cublaslt";

/// Says whether there is a CUDA driver on this machine.
pub fn has_driver() -> bool {
    driver::is_present()
}

/// Lists the compilers for devices; one that is not there, or does not work, is not listed.
pub fn compilers(parts_dir: &Path) -> Vec<Compiler> {
    let named = |name: &str, version: String| Compiler { name: name.to_string(), version };
    let nvrtc = compile::describe(parts_dir).map(|version| named(COMPILER, version));
    let nvcc = nvcc::describe(parts_dir).map(|version| named(NVCC, version));
    nvrtc.into_iter().chain(nvcc).collect()
}

/// Says why one of the compilers for devices cannot be used; none where it can.
pub fn missing_compiler(parts_dir: &Path, name: &str) -> Option<String> {
    let described = match name {
        NVCC => nvcc::describe(parts_dir),
        _ => compile::describe(parts_dir),
    };
    described.err().map(|fault| fault.to_string())
}

/// How long the device process may take to open its context, and for all that no candidate has a part
/// in.
const PATIENCE: Duration = Duration::from_secs(60);

/// How often it is looked whether a watched process has ended.
const FINISH_LOOK: Duration = Duration::from_millis(5);

/// An NVIDIA GPU.
#[derive(Debug)]
pub struct Cuda {
    config: CudaConfig,
    host: Cpu,
    info: DeviceInfo,
    device: Arc<Mutex<DeviceProcess>>,
    cases: BTreeMap<usize, Staged>,
    next_case: usize,
    next_session: u64,
}

/// Inputs, kept here because a device process may have to be replaced.
#[derive(Debug)]
struct Staged {
    tensors: Vec<TensorPlan>,
    contents: Contents,
    /// Where the reference sees them.
    on_host: Option<CaseId>,
    /// The device process that has them, by its number.
    on_device: Option<u64>,
}

impl Cuda {
    /// Sets the target up: starts the device process and asks what device there is.
    pub fn new(config: CudaConfig) -> Result<Self, Fault> {
        let _step = trace::step("opening the device");
        let host = Cpu::new(config.host.clone())?;
        let mut process = DeviceProcess {
            exe: config.device_exe.clone(),
            watcher: Vec::new(),
            running: None,
            number: 0,
        };
        let described = process.ask(&Ask::Describe, &[], PATIENCE)?;
        let Reply::Device { name, l2_bytes, ticks_per_s, mut info } = described else {
            return Err(misuse("the device process did not describe its device"));
        };
        let parts_dir = config.host.cache_dir.parent().unwrap_or(Path::new("."));
        readiness::check_driver(parts_dir, &info.driver)?;
        info.driver_version = readiness::driver_version();
        let info = DeviceInfo {
            name,
            threads: info.sms,
            l1d_bytes: 0,
            l2_bytes,
            l3_bytes: l2_bytes,
            vector_bytes: 16,
            features: vec![info.arch.clone()],
            ticks_per_s: Some(ticks_per_s),
            cuda: Some(info),
        };
        Ok(Self {
            config,
            host,
            info,
            device: Arc::new(Mutex::new(process)),
            cases: BTreeMap::new(),
            next_case: 0,
            next_session: 0,
        })
    }

    /// Describes the machine, its compilers and its protections.
    pub fn environment(&self) -> Environment {
        let mut environment = self.host.environment();
        environment.device = self.info.clone();
        environment.compilers.extend(compilers(self.parts_dir()));
        // The other protections are the host's, for the reference; a candidate is device code, which makes
        // no system calls and opens no files.
        environment.isolation.sealed_inputs = Guard::Missing {
            reason: "device memory cannot be sealed; inputs are compared after each launch that is judged"
                .to_string(),
        };
        environment
    }

    /// The folder of optional parts, which `warpsmith setup` fills.
    fn parts_dir(&self) -> &Path {
        self.config.host.cache_dir.parent().unwrap_or(Path::new("."))
    }

    fn process(&self) -> MutexGuard<'_, DeviceProcess> {
        self.device.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Runs as [`Target::watch`] does, with buffers that have no bytes to spare and hold nothing but inputs.
    fn watch_bare(
        &self,
        watcher: &[OsString],
        runs: &[(&Program, CaseId)],
        deadline: Duration,
    ) -> Result<Watched, Fault> {
        let mut process = self.watched_process(watcher);
        process.ask(&Ask::Strip, &[], PATIENCE)?;
        self.run_watched(process, runs, deadline)
    }

    fn watched_process(&self, watcher: &[OsString]) -> DeviceProcess {
        let exe = self.config.device_exe.clone();
        DeviceProcess { exe, watcher: watcher.to_vec(), running: None, number: 0 }
    }

    fn run_watched(
        &self,
        mut process: DeviceProcess,
        runs: &[(&Program, CaseId)],
        deadline: Duration,
    ) -> Result<Watched, Fault> {
        let mut fault = None;
        for (program, case) in runs {
            if program.grid.is_none() {
                return Err(misuse("only kernels are watched"));
            }
            let staged = self.cases.get(&case.0).ok_or_else(not_staged)?;
            let ran = process.run_once(program, *case, &staged.contents, deadline);
            match ran {
                Ok(()) => {}
                Err(crashed @ (Fault::Crashed(_) | Fault::TimedOut { .. })) => {
                    fault = Some(crashed);
                    break;
                }
                Err(other) => return Err(other),
            }
        }
        // Whatever happened, the watcher has something to say about it.
        let status = process.finish(deadline)?;
        Ok(Watched { status, fault })
    }

    /// Opens a session of the reference, on the CPU.
    fn open_on_host(
        &mut self,
        program: &Program,
        cases: &[CaseId],
        deadline: Duration,
    ) -> Result<Box<dyn Session>, Fault> {
        let mut on_host = Vec::new();
        for case in cases {
            let staged = self.cases.get_mut(&case.0).ok_or_else(not_staged)?;
            let id = match staged.on_host {
                Some(id) => id,
                None => {
                    let id = self.host.stage(&staged.tensors, &staged.contents)?;
                    staged.on_host = Some(id);
                    id
                }
            };
            on_host.push(id);
        }
        self.host.open(program, &on_host, deadline)
    }

    fn open_on_device(
        &mut self,
        program: &Program,
        cases: &[CaseId],
        deadline: Duration,
    ) -> Result<Box<dyn Session>, Fault> {
        let _step = trace::step("opening a session on the device");
        let module = match program.gemm {
            None => module_of(program)?,
            Some(_) => Vec::new(),
        };
        let mut process = self.device.lock().unwrap_or_else(PoisonError::into_inner);
        let number = process.alive()?;
        for case in cases {
            let staged = self.cases.get_mut(&case.0).ok_or_else(not_staged)?;
            if staged.on_device != Some(number) {
                process.stage(case.0, &staged.contents, true)?;
                staged.on_device = Some(number);
            }
        }
        let plan = session_plan(program, cases, module.len());
        let session = self.next_session;
        self.next_session += 1;
        let ask = Ask::Open { session, plan: Box::new(plan) };
        let Reply::Opened { remark } = process.ask(&ask, &[&module], PATIENCE)? else {
            return Err(misuse("the device process opened no session"));
        };
        let outputs: Vec<(usize, usize)> = (0..program.tensors.len())
            .filter(|idx| program.tensors[*idx].role == Role::Output)
            .map(|idx| (idx, program.tensors[idx].bytes()))
            .collect();
        let slot_bytes = outputs.iter().map(|(_, bytes)| bytes + 2 * GUARD_BYTES).sum::<usize>();
        let window = match process.window((slot_bytes * cases.len()).max(1)) {
            Ok(window) => window,
            Err(fault) => {
                let _ = process.ask(&Ask::Close { session }, &[], PATIENCE);
                return Err(fault);
            }
        };
        drop(process);
        Ok(Box::new(CudaSession {
            device: Arc::clone(&self.device),
            number,
            session,
            deadline,
            ticks_per_s: self.info.ticks_per_s.unwrap_or(1e9),
            window: Some(window),
            slot_bytes,
            fetched: vec![false; cases.len()],
            outputs,
            lost: None,
            remark,
        }))
    }
}

impl Target for Cuda {
    fn info(&self) -> &DeviceInfo {
        &self.info
    }

    fn compile(&mut self, unit: &Unit) -> Result<Artifact, Fault> {
        match unit.compiler.as_str() {
            COMPILER | NVCC => {
                let executable = self.config.device_exe.as_deref();
                compile_unit(&self.config.host.cache_dir, executable, unit)
            }
            CUBLASLT => toolkit::find_cublaslt(self.parts_dir()).map(library_artifact),
            _ => self.host.compile(unit),
        }
    }

    fn stage(&mut self, tensors: &[TensorPlan], contents: &Contents) -> Result<CaseId, Fault> {
        let id = self.next_case;
        self.next_case += 1;
        let staged = Staged {
            tensors: tensors.to_vec(),
            contents: Arc::clone(contents),
            on_host: None,
            on_device: None,
        };
        self.cases.insert(id, staged);
        Ok(CaseId(id))
    }

    fn changed_input(&self, case: CaseId) -> Option<usize> {
        let staged = self.cases.get(&case.0)?;
        if let Some(on_host) = staged.on_host {
            return self.host.changed_input(on_host);
        }
        let mut process = self.process();
        if staged.on_device != Some(process.number) || process.running.is_none() {
            return None;
        }
        let input = match process.ask(&Ask::Changed { case: case.0 }, &[], PATIENCE) {
            Ok(Reply::Changed(input)) => input?,
            // Inputs that cannot be looked at count as changed: nobody may be judged on them.
            _ => 0,
        };
        (0..staged.tensors.len()).filter(|idx| staged.tensors[*idx].role == Role::Input).nth(input)
    }

    fn unstage(&mut self, case: CaseId) {
        let Some(staged) = self.cases.remove(&case.0) else { return };
        if let Some(on_host) = staged.on_host {
            self.host.unstage(on_host);
        }
        let mut process = self.process();
        if staged.on_device == Some(process.number) && process.running.is_some() {
            // A process that cannot be told has ended, and its memory with it.
            let _ = process.ask(&Ask::Unstage { case: case.0 }, &[], PATIENCE);
        }
    }

    fn time_copy(&mut self, bytes: usize) -> Result<Option<f64>, Fault> {
        match self.process().ask(&Ask::Copy { bytes }, &[], PATIENCE)? {
            Reply::Clocked { seconds, .. } => Ok(Some(seconds)),
            _ => Err(misuse("the device process read no clock")),
        }
    }

    fn speed(&mut self) -> Option<f64> {
        let mut process = self.process();
        process.running.as_ref()?;
        // A process that does not answer says so at the next launch.
        match process.ask(&Ask::Limits, &[], PATIENCE) {
            // Clocks alone say little: under the power cap they are low whenever a kernel works hard.
            Ok(Reply::Limits(limits)) => {
                let is_slowed = limits?.iter().any(|limit| limit.is_slowdown());
                Some(if is_slowed { 0.0 } else { 1.0 })
            }
            _ => None,
        }
    }

    fn watch(
        &mut self,
        watcher: &[OsString],
        runs: &[(&Program, CaseId)],
        deadline: Duration,
    ) -> Result<Watched, Fault> {
        let process = self.watched_process(watcher);
        self.run_watched(process, runs, deadline)
    }

    fn sanitizers(&self) -> Result<Option<Sanitizers>, Fault> {
        sanitizer::describe(self.parts_dir()).map(Some)
    }

    fn sanitize(
        &mut self,
        tool: Sanitizer,
        runs: &[(&Program, CaseId)],
        deadline: Duration,
    ) -> Result<Sanitized, Fault> {
        sanitizer::check(self, tool, runs, deadline)
    }

    fn open(
        &mut self,
        program: &Program,
        cases: &[CaseId],
        deadline: Duration,
    ) -> Result<Box<dyn Session>, Fault> {
        if program.grid.is_some() || program.gemm.is_some() {
            self.open_on_device(program, cases, deadline)
        } else {
            self.open_on_host(program, cases, deadline)
        }
    }
}

/// Reads the module that a program loads, and makes sure that it is the one that was compiled.
fn module_of(program: &Program) -> Result<Vec<u8>, Fault> {
    let module = std::fs::read(&program.artifact.path).map_err(|source| Fault::Broken {
        what: format!("loading {}", program.artifact.path.display()),
        source,
    })?;
    if warpsmith_model::BlobId::of(&module) != program.artifact.binary {
        return Err(misuse("an artifact's content is not what was compiled"));
    }
    Ok(module)
}

/// A library as the artifact that a program loads. Its file is too large to read it through each time; it
/// is the user's, and no candidate's.
fn library_artifact(path: PathBuf) -> Artifact {
    let bytes = std::fs::metadata(&path).map_or(0, |meta| meta.len());
    let identity = format!("{} {bytes}", path.display());
    Artifact {
        binary: warpsmith_model::BlobId::of(identity.as_bytes()),
        command: vec![CUBLASLT.to_string(), path.display().to_string()],
        path,
        log: String::new(),
        compile_s: 0.0,
        cached: true,
    }
}

fn session_plan(program: &Program, cases: &[CaseId], module_bytes: usize) -> SessionPlan {
    let none = GridProgram { launches: Vec::new(), maps: Vec::new(), scalar_types: Vec::new() };
    let grid = program.grid.as_ref().unwrap_or(&none);
    let tensors = program.tensors.iter().map(|tensor| TensorWire {
        bytes: tensor.bytes(),
        dtype: tensor.dtype,
        is_output: tensor.role == Role::Output,
    });
    let scalars = program.scalars.iter().zip(&grid.scalar_types).map(|(value, kind)| match kind {
        ScalarType::F32 => ScalarWire::Single(*value as f32),
        ScalarType::F64 => ScalarWire::Double(value.to_bits()),
        ScalarType::I64 => ScalarWire::Long(*value as i64),
    });
    let launches = grid.launches.iter().map(|launch| LaunchWire {
        entry: launch.entry.clone(),
        grid: launch.grid,
        block: launch.block,
        cluster: launch.cluster,
        smem: launch.smem_bytes,
    });
    // The copy engine wants the innermost extent first.
    let maps = grid.maps.iter().map(|map| MapWire {
        tensor: map.tensor,
        extents: map.extents.iter().rev().copied().collect(),
        box_extents: map.box_extents.iter().rev().copied().collect(),
        swizzle: map.swizzle,
    });
    let gemm = program.gemm.map(|gemm| GemmWire {
        library: program.artifact.path.clone(),
        a: gemm.a,
        b: gemm.b,
        c: gemm.c,
        m: gemm.m,
        n: gemm.n,
        k: gemm.k,
        b_transposed: gemm.b_transposed,
        dtype: program.tensors[gemm.a].dtype,
        c_dtype: program.tensors[gemm.c].dtype,
    });
    SessionPlan {
        module_bytes,
        cases: cases.iter().map(|case| case.0).collect(),
        tensors: tensors.collect(),
        axes: program.axes.clone(),
        scalars: scalars.collect(),
        scratch: program.scratch.clone(),
        launches: launches.collect(),
        maps: maps.collect(),
        gemm,
    }
}

/// A session in the device process.
#[derive(Debug)]
struct CudaSession {
    device: Arc<Mutex<DeviceProcess>>,
    /// The process that has it.
    number: u64,
    session: u64,
    deadline: Duration,
    ticks_per_s: f64,
    /// The outputs with their guards, slot by slot, as the last launch of each left them; none after the
    /// session has given it back.
    window: Option<Window>,
    slot_bytes: usize,
    /// By slot, whether its outputs are in the window.
    fetched: Vec<bool>,
    /// The output tensors and their sizes.
    outputs: Vec<(usize, usize)>,
    /// Why the session cannot go on.
    lost: Option<String>,
    /// What a library chose.
    remark: Option<String>,
}

impl CudaSession {
    fn process(&self) -> Result<MutexGuard<'_, DeviceProcess>, Fault> {
        let process = self.device.lock().unwrap_or_else(PoisonError::into_inner);
        if process.number != self.number || process.running.is_none() {
            let source = io::Error::other("the device process that had this session has ended");
            return Err(Fault::Broken { what: "using the device".to_string(), source });
        }
        Ok(process)
    }

    fn clocked(&self, cases: &[usize], clock: Clock) -> Result<Clocked, Fault> {
        let ask = Ask::Launch { session: self.session, slots: cases.to_vec(), clock };
        match self.process()?.ask(&ask, &[], self.deadline)? {
            Reply::Clocked { seconds, state } => {
                Ok(Clocked { elapsed_s: seconds, ticks: None, state })
            }
            Reply::Counted { ticks: Some(ticks), state } => {
                let elapsed_s = ticks as f64 / self.ticks_per_s;
                Ok(Clocked { elapsed_s, ticks: Some(ticks), state })
            }
            _ => Err(misuse("the device process read no clock")),
        }
    }

    fn fetch(&mut self, slot: usize) -> Result<(), Fault> {
        let _step = trace::step("fetching outputs");
        let window = self.window.as_ref().map_or(0, |window| window.number);
        let offset = slot * self.slot_bytes;
        let ask = Ask::Fetch { session: self.session, slot, window, offset };
        self.process()?.ask(&ask, &[], PATIENCE)?;
        self.fetched[slot] = true;
        Ok(())
    }

    /// Returns an output with its guards; nothing for a slot that was never launched.
    fn region(&self, slot: usize, output: usize) -> &[u8] {
        let region_bytes = |(_, bytes): &(usize, usize)| bytes + 2 * GUARD_BYTES;
        match &self.window {
            Some(window) if self.fetched[slot] => {
                let before: usize = self.outputs[..output].iter().map(region_bytes).sum();
                let start = slot * self.slot_bytes + before;
                &window.content()[start..start + region_bytes(&self.outputs[output])]
            }
            _ => &[],
        }
    }
}

impl Session for CudaSession {
    fn launch(&mut self, cases: &[usize], extent: &Extent) -> Result<Clocked, Fault> {
        let clock = match extent {
            Extent::All => Clock::Cold,
            Extent::Counted => Clock::Cycles,
            Extent::Blocks(_) => {
                let message = "a CUDA kernel has no blocks to launch alone".to_string();
                return Err(Fault::Unavailable(message));
            }
        };
        if let Some(reason) = &self.lost {
            return Err(misuse(reason));
        }
        let clocked = self.clocked(cases, clock)?;
        for slot in cases {
            self.fetch(*slot)?;
        }
        Ok(clocked)
    }

    fn launch_warm(&mut self, cases: &[usize]) -> Result<Option<Clocked>, Fault> {
        self.clocked(cases, Clock::Warm).map(Some)
    }

    fn remark(&self) -> Option<&str> {
        self.remark.as_deref()
    }

    fn output(&self, case: usize, tensor: usize) -> &[u8] {
        let idx = self.outputs.iter().position(|(output, _)| *output == tensor);
        let idx = idx.expect("callers name an output of the program");
        let region = self.region(case, idx);
        region.get(GUARD_BYTES..region.len() - GUARD_BYTES.min(region.len())).unwrap_or_default()
    }

    fn overwritten_guard(&self, case: usize) -> Option<usize> {
        self.outputs.iter().enumerate().find_map(|(idx, (tensor, size))| {
            let region = self.region(case, idx);
            let is_intact = region.is_empty()
                || (poison::canary_intact(&region[..GUARD_BYTES])
                    && poison::canary_intact(&region[GUARD_BYTES + size..]));
            (!is_intact).then_some(*tensor)
        })
    }

    fn poison(&mut self, case: usize, poison: Poison) {
        let ask = Ask::Poison { session: self.session, slot: case, poison };
        let poisoned = self.process().and_then(|mut process| process.ask(&ask, &[], PATIENCE));
        if let Err(fault) = poisoned {
            self.lost = Some(format!("the outputs could not be poisoned: {fault}"));
        }
    }
}

impl Drop for CudaSession {
    fn drop(&mut self) {
        let window = self.window.take();
        if let Ok(mut process) = self.process() {
            // A process that cannot be told has ended, and the session with it.
            let _ = process.ask(&Ask::Close { session: self.session }, &[], PATIENCE);
            if let Some(window) = window.filter(|_| process.number == self.number) {
                process.give_back(window);
            }
        }
    }
}

fn not_staged() -> Fault {
    misuse("a case is not staged")
}

fn misuse(message: &str) -> Fault {
    let source = io::Error::new(io::ErrorKind::InvalidInput, message);
    Fault::Broken { what: "using the CUDA target".to_string(), source }
}

/// Names what was being done when an error came.
fn broken(doing: &'static str) -> impl Fn(io::Error) -> Fault {
    move |source| Fault::Broken { what: doing.to_string(), source }
}
