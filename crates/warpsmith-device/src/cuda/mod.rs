//! The CUDA target: kernels compiled for the device at run time, run by a process that owns the device.
//!
//! [`Cuda`] is the [`Target`]. It has a CPU target inside, for the lab's reference, which is plain C:
//! what is compiled by a C compiler runs there. The device belongs to processes of their own
//! ([`device_main`]), which a fault or a hang of a kernel takes along. One of them lives as long as the
//! target, for the oracle, libraries and ranking; whoever is judged or timed for the record gets another.
//! [`compile_main`] is what a binary calls when it finds itself started as a compile process.

mod arena;
mod compile;
mod controls;
mod cublaslt;
mod driver;
mod failure;
pub mod identity;
pub mod limits;
pub mod loops;
mod mapped;
mod monitor;
pub mod ncu;
mod nvcc;
mod nvrtc;
pub mod own;
mod process;
mod ranges;
pub mod readiness;
mod remote;
pub mod sanitizer;
pub mod sass;
mod server;
mod session;
mod stamps;
pub mod toolkit;
mod vault;
mod watch;
mod wire;

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

use warpsmith_model::lab::{Role, ScalarType};
use warpsmith_model::{Compiler, CudaInfo, DeviceInfo, Environment, Guard};

pub use compile::{COMPILER, Resources, compile_unit, resources};
pub use nvcc::NVCC;
pub use nvrtc::{COMPILE_ARGUMENT, compile_main};
pub use server::{DEVICE_ARGUMENT, device_main};

use crate::cpu::{Cpu, CpuConfig};
use crate::sys::memory::MemoryFile;
use crate::target::{
    Artifact, CaseId, Contents, Fault, GridProgram, Program, Sanitized, Sanitizer, Sanitizers,
    Session, Surroundings, Target, TensorPlan, Unit, Watched,
};
use crate::trace;
use process::{DeviceProcess, Windows};
use remote::{ChangedInputs, CudaSession, Inputs, SessionHost};
use wire::{Ask, Floor, GemmWire, LaunchWire, MapWire, Reply, ScalarWire, SessionPlan, TensorWire};

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
pub const CUBLASLT: &str = "cublaslt";

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

/// Processes that open their contexts ahead. More would not come sooner: the driver opens one after the
/// other, some 0.2 s each, and each takes about half a gibibyte of the device's memory.
const SPARES: usize = 2;

/// How often it is looked whether a watched process has ended.
const FINISH_LOOK: Duration = Duration::from_millis(5);

/// An NVIDIA GPU.
#[derive(Debug)]
pub struct Cuda {
    config: CudaConfig,
    host: Cpu,
    info: DeviceInfo,
    /// Lives as long as this does, unless a kernel takes it along.
    device: Arc<Mutex<DeviceProcess>>,
    /// Whether inputs are out of reach of writes while a kernel runs.
    seals_inputs: bool,
    /// The process of the last session that had one of its own.
    own: Option<Arc<Mutex<DeviceProcess>>>,
    /// Processes that opened their contexts ahead.
    spares: Vec<DeviceProcess>,
    windows: Arc<Mutex<Windows>>,
    /// Inputs that a kernel changed, by their case.
    changed: ChangedInputs,
    cases: BTreeMap<usize, Staged>,
    next_case: usize,
    next_session: u64,
    /// Sanitizers that were seen to flag what they are there to find.
    sighted: Vec<Sanitizer>,
}

/// Inputs, kept here because a device process may have to be replaced.
#[derive(Debug)]
struct Staged {
    tensors: Vec<TensorPlan>,
    contents: Contents,
    /// The same for processes of sessions, once one asked.
    file: Arc<OnceLock<MemoryFile>>,
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
        let mut process = DeviceProcess::new(config.device_exe.clone(), &[]);
        let described = process.ask(&Ask::Describe, &[], PATIENCE)?;
        let Reply::Device { name, l2_bytes, ticks_per_s, mut info, seals_inputs } = described
        else {
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
            seals_inputs,
            own: None,
            spares: Vec::new(),
            windows: Arc::default(),
            changed: Arc::default(),
            cases: BTreeMap::new(),
            next_case: 0,
            next_session: 0,
            sighted: Vec::new(),
        })
    }

    /// Describes the machine, its compilers and its protections.
    pub fn environment(&self) -> Environment {
        let mut environment = self.host.environment();
        environment.device = self.info.clone();
        environment.compilers.extend(compilers(self.parts_dir()));
        // The other protections are the host's, for the reference; a candidate is device code, which makes
        // no system calls and opens no files.
        environment.isolation.sealed_inputs = match self.seals_inputs {
            true => Guard::Active,
            false => Guard::Missing {
                reason:
                    "this driver cannot map device memory for reading alone; inputs are compared \
                     after each launch"
                        .to_string(),
            },
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

    /// Opens a session in the process that lives as long as this target and that others used before.
    fn open_shared(
        &mut self,
        program: &Program,
        cases: &[CaseId],
        deadline: Duration,
    ) -> Result<Box<dyn Session>, Fault> {
        let device = Arc::clone(&self.device);
        let mut process = device.lock().unwrap_or_else(PoisonError::into_inner);
        let number = process.alive()?;
        for case in cases {
            let staged = self.cases.get_mut(&case.0).ok_or_else(not_staged)?;
            if staged.on_device != Some(number) {
                process.stage(case.0, &staged.contents)?;
                staged.on_device = Some(number);
            }
        }
        drop(process);
        self.open_in_process(device, program, cases, deadline, Vec::new())
    }

    /// Opens a session in a process of its own. Inputs get there when they are launched.
    fn open_alone(
        &mut self,
        program: &Program,
        cases: &[CaseId],
        deadline: Duration,
        device: Arc<Mutex<DeviceProcess>>,
    ) -> Result<Box<dyn Session>, Fault> {
        let contents = cases.iter().map(|case| {
            let staged = self.cases.get(&case.0).ok_or_else(not_staged)?;
            let (contents, file) = (Arc::clone(&staged.contents), Arc::clone(&staged.file));
            Ok(Some(Inputs { contents, file }))
        });
        let contents = contents.collect::<Result<Vec<_>, Fault>>()?;
        self.open_in_process(device, program, cases, deadline, contents)
    }

    fn open_in_process(
        &mut self,
        device: Arc<Mutex<DeviceProcess>>,
        program: &Program,
        cases: &[CaseId],
        deadline: Duration,
        to_stage: Vec<Option<Inputs>>,
    ) -> Result<Box<dyn Session>, Fault> {
        let session = self.next_session;
        self.next_session += 1;
        // What somebody did to their own copies before is not for whoever opens this session to answer for.
        let mut changed = self.changed.lock().unwrap_or_else(PoisonError::into_inner);
        changed.retain(|case, _| !cases.contains(&CaseId(*case)));
        drop(changed);
        let place = SessionHost {
            device,
            session,
            deadline,
            ticks_per_s: self.info.ticks_per_s.unwrap_or(1e9),
            windows: Arc::clone(&self.windows),
            changed: Arc::clone(&self.changed),
            to_stage,
        };
        Ok(Box::new(CudaSession::open(place, program, cases)?))
    }

    /// Returns a process that nobody has used yet, and starts the next ones: opening a context takes a third
    /// of a second, which passes while this one is at work.
    fn fresh_process(&mut self) -> Result<DeviceProcess, Fault> {
        let make = || DeviceProcess::new(self.config.device_exe.clone(), &[]);
        let mut process = match self.spares.is_empty() {
            true => make(),
            false => self.spares.remove(0),
        };
        process.alive()?;
        while self.spares.len() < SPARES {
            let mut spare = make();
            // One that does not start now is tried again by whoever needs it.
            if spare.alive().is_err() {
                break;
            }
            self.spares.push(spare);
        }
        // Whatever befell a process before a candidate is let in is not the candidate's doing.
        if process.ask(&Ask::Describe, &[], PATIENCE).is_err() {
            process = make();
            process.ask(&Ask::Describe, &[], PATIENCE).map_err(|fault| match fault {
                Fault::Crashed(cause) => {
                    misuse(&format!("a device process does not start: {cause}"))
                }
                Fault::TimedOut { limit_s } => {
                    misuse(&format!("a device process does not start within {limit_s} s"))
                }
                other => other,
            })?;
        }
        Ok(process)
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
            file: Arc::default(),
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
        // What is staged is out of a kernel's reach; it is its own copy that a kernel changes.
        let changed = self.changed.lock().unwrap_or_else(PoisonError::into_inner);
        let input = *changed.get(&case.0)?;
        (0..staged.tensors.len()).filter(|idx| staged.tensors[*idx].role == Role::Input).nth(input)
    }

    fn unstage(&mut self, case: CaseId) {
        let Some(staged) = self.cases.remove(&case.0) else { return };
        self.changed.lock().unwrap_or_else(PoisonError::into_inner).remove(&case.0);
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
        self.watch_on(watcher, Floor::Guarded, runs, deadline)
    }

    fn sanitizers(&self) -> Result<Option<Sanitizers>, Fault> {
        sanitizer::describe(self.parts_dir()).map(Some)
    }

    fn remarks(&self, artifact: &Artifact) -> Vec<String> {
        let functions =
            toolkit::find(self.parts_dir()).and_then(|toolkit| sass::functions(&toolkit, artifact));
        sass::remarks(functions)
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
            self.open_shared(program, cases, deadline)
        } else {
            self.open_on_host(program, cases, deadline)
        }
    }

    fn open_in(
        &mut self,
        surroundings: Surroundings,
        program: &Program,
        cases: &[CaseId],
        deadline: Duration,
    ) -> Result<Box<dyn Session>, Fault> {
        // Libraries are trusted, and what they choose is chosen once.
        if surroundings == Surroundings::Shared || program.grid.is_none() {
            return self.open(program, cases, deadline);
        }
        let kept = self.own.take().filter(|process| {
            let process = process.lock().unwrap_or_else(PoisonError::into_inner);
            surroundings == Surroundings::Kept && process.running.is_some()
        });
        let device = match kept {
            Some(device) => device,
            None => Arc::new(Mutex::new(self.fresh_process()?)),
        };
        self.own = Some(Arc::clone(&device));
        self.open_alone(program, cases, deadline, device)
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
