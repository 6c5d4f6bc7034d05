//! The device process: owns the CUDA context, holds inputs and outputs, launches and reads the clock.
//!
//! It is a process of its own because a kernel that faults takes the whole context along, and one that
//! hangs can only be ended with its process. The worker then starts another one and goes on. Candidates
//! are device code: nothing of theirs runs here, so the clock and the launches are the harness's.

use std::collections::HashMap;
use std::io;
use std::os::fd::{AsFd, FromRawFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::rc::Rc;

use cudarc::driver::sys::{CUfunction, CUresult, CUstream};
use warpsmith_model::{DeviceState, stats};

use super::cublaslt::{Library, Matrices, Product, Proposal};
use super::digest::{Digester, WORD_BYTES};
use super::driver::{self, Argument, Buffer, Context, DriverError, Extents, MapShape, Module};
use super::monitor::Monitor;
use super::stamps::Stamps;
use super::wire::{
    self, Ask, Clock, Failure, FailureKind, GUARD_BYTES, GemmWire, Reply, ScalarWire, SessionPlan,
    TensorWire,
};
use crate::cpu::poison::{self, INPUT_SLACK, Poison};
use crate::sys::memory::Mapping;
use crate::sys::process;
use crate::sys::socket::{receive_descriptors, receive_message, send_message};
use crate::trace;

/// The first argument that makes a binary call [`device_main`].
pub const DEVICE_ARGUMENT: &str = "__cuda";

/// Bytes that are written between readings, as a multiple of the cache.
const FLUSH_FACTOR: usize = 2;

/// Launches that warm the caches before a warm reading.
const WARM_UPS: usize = 4;

/// How often each algorithm that a library proposes is timed before one is chosen.
const CHOOSING_ROUNDS: usize = 5;
/// What NVIDIA recommends as workspace of cuBLAS: more on Hopper and later than before.
const WORKSPACE_BYTES: usize = 32 << 20;
const HOPPER_WORKSPACE_BYTES: usize = 64 << 20;
/// Every byte of memory that a kernel is given or gives back: NaN in every element type.
const LEFT_BEHIND: u8 = 0xff;

/// Serves one worker. A binary calls this, before anything else, when its first argument is
/// [`DEVICE_ARGUMENT`].
pub fn device_main() -> ! {
    let status = match serve() {
        Ok(()) => 0,
        // The worker is gone, or going.
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => 0,
        Err(error) => {
            eprintln!("warpsmith device process: {error}");
            1
        }
    };
    std::process::exit(status);
}

fn serve() -> io::Result<()> {
    process::die_with_parent()?;
    // SAFETY: the worker made standard input a socket and nothing else in this process uses it.
    let mut socket = UnixStream::from(unsafe { OwnedFd::from_raw_fd(0) });
    let opening = trace::step("opening the context");
    let mut device = Device::open();
    drop(opening);
    loop {
        let ask: Ask = receive_message(&mut socket)?;
        let payload = match &ask {
            Ask::Stage { sizes, .. } => wire::receive_bytes(&mut socket, sizes.iter().sum())?,
            Ask::Open { plan, .. } => wire::receive_bytes(&mut socket, plan.module_bytes)?,
            _ => Vec::new(),
        };
        let shared = match &ask {
            Ask::Share { bytes, .. } => {
                let descriptor = receive_descriptors(&socket, 1)?.remove(0);
                Some(Mapping::shared(descriptor.as_fd(), *bytes)?)
            }
            _ => None,
        };
        let answered = match &mut device {
            Ok(device) => device.answer(&ask, &payload, shared),
            Err(failure) => Err(failure.clone()),
        };
        match answered {
            Ok(reply) => send_message(&mut socket, &reply)?,
            Err(failure) => {
                let is_lost = failure.kind == FailureKind::Faulted;
                send_message(&mut socket, &Reply::Failed(failure))?;
                if is_lost {
                    return Ok(());
                }
            }
        }
    }
}

type Answered = Result<Reply, Failure>;

struct Device {
    context: Context,
    /// What can be asked how the device is, or why nothing can.
    monitor: Result<Monitor, String>,
    l2_bytes: u64,
    sms: u32,
    smem_per_block: u32,
    /// Made when cycles are first asked for.
    stamps: Option<Stamps>,
    buffers: Buffers,
    /// Inputs on the device.
    cases: HashMap<usize, Vec<Input>>,
    /// Made when the first inputs are staged that will be judged.
    digester: Option<Digester>,
    /// What copies are timed with.
    copied: Option<[Buffer; 2]>,
    /// Memory that is shared with the worker, for outputs.
    windows: HashMap<u64, Mapping>,
    sessions: HashMap<u64, Session>,
    /// Loaded when the first session needs it.
    library: Option<Rc<Library>>,
    /// Algorithms that were chosen, with the words for them: every session of a product uses the same.
    choices: Vec<(GemmWire, Proposal, String)>,
}

/// An input on the device.
struct Input {
    buffer: Buffer,
    /// Of the buffer as it was staged; none when nobody will ask whether it changed.
    digest: Option<u64>,
}

/// What buffers are like.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Buffers {
    /// Between guards, and filled before a kernel sees them.
    Guarded,
    /// As large as they must be, and untouched except for inputs.
    Bare,
}

impl Buffers {
    /// Returns the bytes on either side of a tensor.
    fn guard_bytes(self) -> usize {
        match self {
            Self::Guarded => GUARD_BYTES,
            Self::Bare => 0,
        }
    }
}

struct Session {
    plan: SessionPlan,
    work: Work,
    buffers: Buffers,
    scratch: Vec<Buffer>,
    /// By slot, the outputs in tensor order.
    outputs: Vec<Vec<Buffer>>,
}

/// What a session runs.
enum Work {
    Kernel {
        /// Unloaded after everything that refers to it.
        _module: Module,
        functions: Vec<CUfunction>,
    },
    /// A library's product of the tensors at these places.
    Product { product: Product, a: usize, b: usize, c: usize },
}

impl Device {
    fn open() -> Result<Self, Failure> {
        if !driver::is_present() {
            let message = "there is no CUDA driver on this machine (libcuda.so.1): install NVIDIA's driver, or run \
                 the lab's CPU kernels without --target cuda".to_string();
            return Err(Failure { kind: FailureKind::NoDevice, message });
        }
        let context = Context::open()
            .map_err(|error| Failure { kind: FailureKind::NoDevice, message: error.to_string() })?;
        let (_, l2_bytes, info) = context.describe().map_err(failure)?;
        let monitor = context.bus_id().map_err(|error| error.to_string());
        Ok(Self {
            context,
            monitor: monitor.and_then(|bus_id| Monitor::open(&bus_id)),
            l2_bytes,
            sms: info.sms,
            smem_per_block: info.smem_per_block,
            stamps: None,
            buffers: Buffers::Guarded,
            cases: HashMap::new(),
            digester: None,
            copied: None,
            windows: HashMap::new(),
            sessions: HashMap::new(),
            library: None,
            choices: Vec::new(),
        })
    }

    fn answer(&mut self, ask: &Ask, payload: &[u8], shared: Option<Mapping>) -> Answered {
        Ok(match ask {
            Ask::Describe => {
                let (name, l2_bytes, mut info) = self.context.describe().map_err(failure)?;
                info.unmonitored = self.monitor.as_ref().err().cloned();
                let ticks_per_s = self.context.ticks_per_s().map_err(failure)?;
                Reply::Device { name, l2_bytes, ticks_per_s, info }
            }
            Ask::Strip => {
                self.buffers = Buffers::Bare;
                Reply::Done
            }
            Ask::Stage { case, sizes, judged } => {
                self.stage(*case, sizes, payload, *judged)?;
                Reply::Done
            }
            Ask::Unstage { case } => {
                self.cases.remove(case);
                Reply::Done
            }
            Ask::Changed { case } => Reply::Changed(self.changed(*case)?),
            Ask::Open { session, plan } => {
                let (opened, remark) = self.prepare(plan, payload)?;
                self.sessions.insert(*session, opened);
                Reply::Opened { remark }
            }
            Ask::Launch { session, slots, clock } => self.launch(*session, slots, *clock)?,
            Ask::Copy { bytes } => {
                let seconds = self.time_copy(*bytes)?;
                Reply::Clocked { seconds, state: self.state() }
            }
            Ask::Limits => Reply::Limits(self.monitor.as_ref().ok().map(Monitor::limits)),
            Ask::Watch { session, slot } => {
                let session = self.session(*session)?;
                let mut arguments = [session.arguments(*slot, &self.cases)?];
                session.enqueue(self.context.stream, &mut arguments).map_err(failure)?;
                self.context.synchronize().map_err(failure)?;
                Reply::Done
            }
            Ask::Share { window, .. } => {
                self.windows.extend(shared.map(|mapping| (*window, mapping)));
                Reply::Done
            }
            Ask::Unshare { window } => {
                self.windows.remove(window);
                Reply::Done
            }
            Ask::Fetch { session, slot, window, offset } => {
                self.fetch(*session, *slot, *window, *offset)?;
                Reply::Done
            }
            Ask::Poison { session, slot, poison } => {
                self.session(*session)?.poison(*slot, *poison)?;
                Reply::Done
            }
            Ask::Close { session } => {
                if let Some(closed) = self.sessions.remove(session) {
                    closed.scrub()?;
                }
                Reply::Done
            }
        })
    }

    fn stage(
        &mut self,
        case: usize,
        sizes: &[usize],
        payload: &[u8],
        judged: bool,
    ) -> Result<(), Failure> {
        if judged && self.digester.is_none() {
            self.digester = Some(Digester::new(self.sms).map_err(failure)?);
        }
        let mut inputs = Vec::new();
        let mut rest = payload;
        for size in sizes {
            let (content, after) = rest.split_at(*size);
            rest = after;
            let guard_bytes = self.buffers.guard_bytes();
            let bytes = match self.buffers {
                Buffers::Guarded => (size + 2 * guard_bytes).next_multiple_of(WORD_BYTES),
                Buffers::Bare => *size,
            };
            let buffer = Buffer::new(bytes).map_err(failure)?;
            if self.buffers == Buffers::Guarded {
                // What lies beside an input is NaN in every element type.
                buffer.fill(0, buffer.bytes, &[INPUT_SLACK]).map_err(failure)?;
            }
            buffer.write(guard_bytes, content).map_err(failure)?;
            let digest = match &self.digester {
                Some(digester) if judged => {
                    Some(digester.of(&self.context, &buffer).map_err(failure)?)
                }
                _ => None,
            };
            inputs.push(Input { buffer, digest });
        }
        self.cases.insert(case, inputs);
        Ok(())
    }

    /// Returns the first input of a case that is not what was staged, or whose guards are not.
    fn changed(&self, case: usize) -> Result<Option<usize>, Failure> {
        let inputs = self.cases.get(&case).ok_or_else(no_case)?;
        for (idx, input) in inputs.iter().enumerate() {
            let now = match &self.digester {
                Some(digester) => Some(digester.of(&self.context, &input.buffer).map_err(failure)?),
                None => None,
            };
            if now.is_none() || now != input.digest {
                return Ok(Some(idx));
            }
        }
        Ok(None)
    }

    fn prepare(
        &mut self,
        plan: &SessionPlan,
        module: &[u8],
    ) -> Result<(Session, Option<String>), Failure> {
        let (work, proposals) = match &plan.gemm {
            None => (load_kernel(plan, module, self.smem_per_block)?, Vec::new()),
            Some(gemm) => self.describe_product(gemm)?,
        };
        let mut scratch = Vec::new();
        for bytes in &plan.scratch {
            let buffer =
                Buffer::new(*bytes as usize).map_err(|error| scratch_failure(error, *bytes))?;
            if self.buffers == Buffers::Guarded {
                // Contents that no kernel should rely on.
                buffer.fill(0, buffer.bytes, &[LEFT_BEHIND]).map_err(failure)?;
            }
            scratch.push(buffer);
        }
        let mut outputs = Vec::new();
        for _ in &plan.cases {
            let mut of_case = Vec::new();
            for tensor in plan.tensors.iter().filter(|tensor| tensor.is_output) {
                let bytes = tensor.bytes + 2 * self.buffers.guard_bytes();
                of_case.push(Buffer::new(bytes).map_err(failure)?);
            }
            outputs.push(of_case);
        }
        let buffers = self.buffers;
        let mut session = Session { plan: plan.clone(), work, buffers, scratch, outputs };
        let mut remark = None;
        if let (Some(gemm), false) = (&plan.gemm, plan.cases.is_empty()) {
            remark = Some(self.choose(&mut session, gemm, &proposals)?);
        }
        if buffers == Buffers::Guarded {
            for slot in 0..plan.cases.len() {
                session.poison(slot, Poison::Nan)?;
            }
        }
        Ok((session, remark))
    }

    /// Describes a product to the library, which is loaded if it is not yet; returns what the library
    /// proposes, too.
    fn describe_product(&mut self, gemm: &GemmWire) -> Result<(Work, Vec<Proposal>), Failure> {
        let library = self.library(&gemm.library)?;
        let (_, _, info) = self.context.describe().map_err(failure)?;
        let generation = info.arch.trim_start_matches("sm_").trim_end_matches(char::is_alphabetic);
        let workspace_bytes = match generation.parse::<u32>() {
            Ok(90..) => HOPPER_WORKSPACE_BYTES,
            _ => WORKSPACE_BYTES,
        };
        let (product, proposals) = Product::new(library, gemm, workspace_bytes).map_err(failure)?;
        Ok((Work::Product { product, a: gemm.a, b: gemm.b, c: gemm.c }, proposals))
    }

    fn library(&mut self, path: &Path) -> Result<Rc<Library>, Failure> {
        if let Some(library) = self.library.as_ref().filter(|library| library.path() == path) {
            return Ok(Rc::clone(library));
        }
        let loaded = Library::load(path)
            .map_err(|message| Failure { kind: FailureKind::NoLibrary, message })?;
        let library = Rc::new(loaded);
        self.library = Some(Rc::clone(&library));
        Ok(library)
    }

    /// Times what the library proposes, under the clock that kernels are timed with, and keeps the
    /// fastest, as a careful user of the library would; says which it is.
    fn choose(
        &mut self,
        session: &mut Session,
        gemm: &GemmWire,
        proposals: &[Proposal],
    ) -> Result<String, Failure> {
        let known = self.choices.iter().find(|(known, _, _)| known == gemm);
        if let (Some((_, chosen, words)), Work::Product { product, .. }) =
            (known, &mut session.work)
        {
            product.choose(*chosen);
            return Ok(words.clone());
        }
        let stream = self.context.stream;
        let mut arguments = [session.arguments(0, &self.cases)?];
        let mut running = Vec::new();
        for (place, proposal) in proposals.iter().enumerate() {
            session.take(*proposal);
            // The first call loads code, which has no place in a graph. What the library proposes and
            // then refuses to run is not chosen.
            if session.enqueue(stream, &mut arguments).is_ok() {
                self.context.synchronize().map_err(failure)?;
                let graph = self.context.capture(|| session.enqueue(stream, &mut arguments));
                running.push((place, graph.map_err(failure)?, Vec::new()));
            }
        }
        for _ in 0..CHOOSING_ROUNDS {
            for (_, graph, samples_s) in &mut running {
                self.flush_cache()?;
                samples_s.push(self.context.replay(graph).map_err(failure)?);
            }
        }
        let typical_s = |samples_s: &[f64]| stats::median(samples_s).unwrap_or(f64::INFINITY);
        let fastest = running
            .iter()
            .min_by(|(_, _, one), (_, _, other)| typical_s(one).total_cmp(&typical_s(other)));
        let Some((place, _, _)) = fastest else {
            let message = "cuBLASLt runs none of the algorithms that it proposes".to_string();
            return Err(Failure { kind: FailureKind::Refused, message });
        };
        let chosen = proposals[*place];
        session.take(chosen);
        let words = match &session.work {
            Work::Product { product, .. } => product.words(place + 1, proposals.len()),
            Work::Kernel { .. } => String::new(),
        };
        self.choices.push((gemm.clone(), chosen, words.clone()));
        Ok(words)
    }

    fn flush_cache(&mut self) -> Result<(), Failure> {
        let flush_bytes = FLUSH_FACTOR * (self.l2_bytes as usize).max(1 << 20);
        self.context.flush_cache(flush_bytes).map_err(failure)
    }

    /// Runs slots one after the other, as one graph; returns what the clock says of its last replay.
    fn launch(&mut self, session: u64, slots: &[usize], clock: Clock) -> Result<Reply, Failure> {
        if clock == Clock::Cycles && self.stamps.is_none() {
            self.stamps = Some(Stamps::new(&self.context, self.sms).map_err(failure)?);
        }
        let session = self.sessions.get(&session).ok_or_else(no_session)?;
        let mut arguments = Vec::new();
        for slot in slots {
            arguments.push(session.arguments(*slot, &self.cases)?);
        }
        let stream = self.context.stream;
        let stamps = self.stamps.as_ref().filter(|_| clock == Clock::Cycles);
        let graph = self.context.capture(|| {
            let mut enqueue = || session.enqueue(stream, &mut arguments);
            match stamps {
                Some(stamps) => stamps.around(stream, enqueue),
                None => enqueue(),
            }
        });
        let graph = graph.map_err(failure)?;
        if clock == Clock::Warm {
            // Several times, as the flush below: what is timed gets into the queue meanwhile.
            for _ in 0..WARM_UPS {
                self.context.enqueue(&graph).map_err(failure)?;
            }
        } else {
            let flush_bytes = FLUSH_FACTOR * (self.l2_bytes as usize).max(1 << 20);
            self.context.flush_cache(flush_bytes).map_err(failure)?;
        }
        if let Some(stamps) = stamps {
            stamps.reset().map_err(failure)?;
        }
        let seconds = self.context.replay(&graph).map_err(failure)?;
        self.context.synchronize().map_err(failure)?;
        let state = self.state();
        Ok(match stamps {
            Some(stamps) => Reply::Counted { ticks: stamps.cycles().map_err(failure)?, state },
            None => Reply::Clocked { seconds, state },
        })
    }

    /// Times a copy with the clock and the care that launches get.
    fn time_copy(&mut self, bytes: usize) -> Result<f64, Failure> {
        let stream = self.context.stream;
        let buffers = match self.copied.take() {
            Some(buffers) if buffers[0].bytes == bytes => buffers,
            _ => {
                let make = || Buffer::new(bytes).map_err(failure);
                let [from, to] = [make()?, make()?];
                // Memory that was never touched is slower.
                to.copy_from(&from, stream).map_err(failure)?;
                self.context.synchronize().map_err(failure)?;
                [from, to]
            }
        };
        let [from, to] = self.copied.insert(buffers);
        let graph = self.context.capture(|| to.copy_from(from, stream)).map_err(failure)?;
        self.flush_cache()?;
        let seconds = self.context.replay(&graph).map_err(failure)?;
        self.context.synchronize().map_err(failure)?;
        Ok(seconds)
    }

    /// Says how the device is; none where it cannot be asked.
    fn state(&self) -> Option<DeviceState> {
        self.monitor.as_ref().ok().map(Monitor::state)
    }

    fn session(&self, session: u64) -> Result<&Session, Failure> {
        self.sessions.get(&session).ok_or_else(no_session)
    }

    fn fetch(
        &mut self,
        session: u64,
        slot: usize,
        window: u64,
        offset: usize,
    ) -> Result<(), Failure> {
        let session = self.sessions.get(&session).ok_or_else(no_session)?;
        let outputs = session.outputs.get(slot).ok_or_else(no_case)?;
        let window = self.windows.get_mut(&window).ok_or_else(no_window)?;
        // SAFETY: the mapping is writable, and the worker waits for the answer before it looks.
        let mut rest = unsafe { window.content_mut() }.get_mut(offset..).ok_or_else(no_window)?;
        for output in outputs {
            let (region, after) = rest.split_at_mut_checked(output.bytes).ok_or_else(no_window)?;
            output.read(0, region).map_err(failure)?;
            rest = after;
        }
        Ok(())
    }
}

impl Session {
    fn output_tensors(&self) -> impl Iterator<Item = &TensorWire> {
        self.plan.tensors.iter().filter(|tensor| tensor.is_output)
    }

    fn poison(&self, slot: usize, poison: Poison) -> Result<(), Failure> {
        if self.buffers == Buffers::Bare {
            let message = "bare buffers have no guards to poison".to_string();
            return Err(Failure { kind: FailureKind::Broken, message });
        }
        let outputs = self.outputs.get(slot).ok_or_else(no_case)?;
        let mut canary = vec![0; GUARD_BYTES];
        poison::fill_canary(&mut canary);
        for (output, tensor) in outputs.iter().zip(self.output_tensors()) {
            let element = &poison.bits(tensor.dtype).to_le_bytes()[..tensor.dtype.size()];
            output.write(0, &canary).map_err(failure)?;
            output.fill(GUARD_BYTES, tensor.bytes, element).map_err(failure)?;
            output.write(GUARD_BYTES + tensor.bytes, &canary).map_err(failure)?;
        }
        Ok(())
    }

    /// Overwrites what the session computed before its memory is freed: it may be the oracle's right
    /// answers, and whoever is given the memory next must not find them.
    fn scrub(&self) -> Result<(), Failure> {
        for buffer in self.scratch.iter().chain(self.outputs.iter().flatten()) {
            buffer.fill(0, buffer.bytes, &[LEFT_BEHIND]).map_err(failure)?;
        }
        Ok(())
    }

    /// Puts the launches into the stream, once for each list of arguments.
    fn enqueue(
        &self,
        stream: CUstream,
        arguments: &mut [Vec<Argument>],
    ) -> Result<(), DriverError> {
        for arguments in arguments {
            match &self.work {
                Work::Kernel { functions, .. } => {
                    for (launch, function) in self.plan.launches.iter().zip(functions) {
                        let extents = Extents {
                            grid: launch.grid,
                            block: launch.block,
                            cluster: launch.cluster,
                            smem: launch.smem,
                        };
                        driver::launch(stream, *function, extents, arguments)?;
                    }
                }
                Work::Product { product, a, b, c } => {
                    let at = |place: usize| match arguments[place] {
                        Argument::Pointer(at) => at,
                        _ => unreachable!("tensors come first among the arguments"),
                    };
                    let matrices = Matrices { a: at(*a), b: at(*b), c: at(*c) };
                    product.enqueue(stream, matrices)?;
                }
            }
        }
        Ok(())
    }

    /// Computes by another of the algorithms that a library proposes.
    fn take(&mut self, proposal: Proposal) {
        if let Work::Product { product, .. } = &mut self.work {
            product.choose(proposal);
        }
    }

    fn arguments(
        &self,
        slot: usize,
        cases: &HashMap<usize, Vec<Input>>,
    ) -> Result<Vec<Argument>, Failure> {
        let case = self.plan.cases.get(slot).ok_or_else(no_case)?;
        let mut inputs = cases.get(case).ok_or_else(no_case)?.iter();
        let mut outputs = self.outputs[slot].iter();
        let mut tensors = Vec::new();
        for tensor in &self.plan.tensors {
            let buffer = match tensor.is_output {
                true => outputs.next(),
                false => inputs.next().map(|input| &input.buffer),
            };
            let guard_bytes = self.buffers.guard_bytes() as u64;
            tensors.push(buffer.ok_or_else(no_case)?.at + guard_bytes);
        }
        let mut arguments: Vec<Argument> = tensors.iter().copied().map(Argument::Pointer).collect();
        arguments.extend(self.plan.axes.iter().map(|value| Argument::Int(*value as i32)));
        arguments.extend(self.plan.scalars.iter().map(|scalar| match scalar {
            ScalarWire::Single(value) => Argument::Single(*value),
            ScalarWire::Double(bits) => Argument::Double(f64::from_bits(*bits)),
            ScalarWire::Long(value) => Argument::Long(*value),
        }));
        arguments.extend(self.scratch.iter().map(|buffer| Argument::Pointer(buffer.at)));
        for map in &self.plan.maps {
            let shape = MapShape {
                dtype: self.plan.tensors[map.tensor].dtype,
                extents: map.extents.clone(),
                box_extents: map.box_extents.clone(),
                swizzle: map.swizzle,
            };
            arguments.push(driver::tensor_map(tensors[map.tensor], &shape).map_err(failure)?);
        }
        Ok(arguments)
    }
}

fn load_kernel(plan: &SessionPlan, module: &[u8], smem_per_block: u32) -> Result<Work, Failure> {
    let module = Module::load(module).map_err(failure)?;
    let mut functions = Vec::new();
    for launch in &plan.launches {
        let function = module.function(&launch.entry).map_err(failure)?;
        let passed = plan.tensors.len()
            + plan.axes.len()
            + plan.scalars.len()
            + plan.scratch.len()
            + plan.maps.len();
        let taken = driver::count_parameters(function);
        if taken != passed {
            let entry = &launch.entry;
            let message = format!("`{entry}` takes {taken} parameters; the lab passes {passed}");
            return Err(Failure { kind: FailureKind::Refused, message });
        }
        if launch.smem > smem_per_block {
            let message = format!(
                "`{}` wants {} bytes of dynamic shared memory; a block of this device gets at most \
                 {smem_per_block}: let `constraints` say so, with SMEM_PER_BLOCK",
                launch.entry, launch.smem
            );
            return Err(Failure { kind: FailureKind::Refused, message });
        }
        driver::allow_shared_memory(function, launch.smem).map_err(failure)?;
        driver::allow_clusters(function, launch.cluster.iter().product()).map_err(failure)?;
        functions.push(function);
    }
    Ok(Work::Kernel { _module: module, functions })
}

fn no_session() -> Failure {
    Failure { kind: FailureKind::Broken, message: "there is no session".to_string() }
}

fn no_window() -> Failure {
    let message = "there is no shared memory for these outputs".to_string();
    Failure { kind: FailureKind::Broken, message }
}

fn no_case() -> Failure {
    Failure { kind: FailureKind::Broken, message: "there is no such case".to_string() }
}

/// Tells what a failed call means for the candidate.
/// How much scratch memory a kernel wants is its own affair, unlike the inputs and outputs of a workload.
fn scratch_failure(error: DriverError, bytes: u64) -> Failure {
    let Failure { kind, message } = failure(error);
    match kind {
        FailureKind::OutOfMemory => {
            let message = format!("{bytes} bytes of scratch memory are not to be had: {message}");
            Failure { kind: FailureKind::Refused, message }
        }
        kind => Failure { kind, message },
    }
}

fn failure(error: DriverError) -> Failure {
    use CUresult as code;
    let kind = match error.code {
        // A module whose variables, or a kernel whose stack, the device cannot hold is the candidate's
        // doing; too many inputs and outputs are not.
        code::CUDA_ERROR_OUT_OF_MEMORY if !driver::is_about_a_kernel(error.doing) => {
            FailureKind::OutOfMemory
        }
        code::CUDA_ERROR_INVALID_VALUE
        | code::CUDA_ERROR_INVALID_IMAGE
        | code::CUDA_ERROR_NOT_FOUND
        | code::CUDA_ERROR_NO_BINARY_FOR_GPU
        | code::CUDA_ERROR_INVALID_CLUSTER_SIZE
        | code::CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES
        | code::CUDA_ERROR_INVALID_SOURCE => FailureKind::Refused,
        code::CUDA_ERROR_ILLEGAL_ADDRESS
        | code::CUDA_ERROR_LAUNCH_FAILED
        | code::CUDA_ERROR_LAUNCH_TIMEOUT
        | code::CUDA_ERROR_MISALIGNED_ADDRESS
        | code::CUDA_ERROR_INVALID_ADDRESS_SPACE
        | code::CUDA_ERROR_INVALID_PC
        | code::CUDA_ERROR_HARDWARE_STACK_ERROR
        | code::CUDA_ERROR_ILLEGAL_INSTRUCTION
        | code::CUDA_ERROR_ASSERT
        | code::CUDA_ERROR_TENSOR_MEMORY_LEAK => FailureKind::Faulted,
        // Whatever it is called, a kernel was running.
        _ if error.doing == driver::RUNNING => FailureKind::Faulted,
        _ if driver::is_about_a_kernel(error.doing) => FailureKind::Refused,
        _ => FailureKind::Broken,
    };
    Failure { kind, message: error.to_string() }
}
