//! The device process: owns the CUDA context, holds inputs and outputs, launches and reads the clock.
//!
//! It is a process of its own because a kernel that faults takes the whole context along, and one that
//! hangs can only be ended with its process. The worker then starts another one and goes on. Candidates
//! are device code: nothing of theirs runs here, so the clock and the launches are the harness's.

use std::collections::HashMap;
use std::io;
use std::os::fd::{FromRawFd, OwnedFd};
use std::os::unix::net::UnixStream;

use cudarc::driver::sys::CUresult;

use super::driver::{self, Argument, Buffer, Context, DriverError, Extents, MapShape, Module};
use super::monitor::Monitor;
use super::wire::{
    self, Ask, Caches, Failure, FailureKind, GUARD_BYTES, Reply, ScalarWire, SessionPlan,
    TensorWire,
};
use crate::cpu::poison::{self, INPUT_SLACK};
use crate::sys::process;
use crate::sys::socket::{receive_message, send_message};

/// The first argument that makes a binary call [`device_main`].
pub const DEVICE_ARGUMENT: &str = "__cuda";

/// Bytes that are written between readings, as a multiple of the cache.
const FLUSH_FACTOR: usize = 2;

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
    let mut device = Device::open();
    loop {
        let ask: Ask = receive_message(&mut socket)?;
        let payload = match &ask {
            Ask::Stage { sizes, .. } => wire::receive_bytes(&mut socket, sizes.iter().sum())?,
            Ask::Open { plan, .. } => wire::receive_bytes(&mut socket, plan.module_bytes)?,
            _ => Vec::new(),
        };
        let answered = match &mut device {
            Ok(device) => device.answer(&ask, &payload),
            Err(failure) => Err(failure.clone()),
        };
        match answered {
            Ok((reply, bytes)) => {
                send_message(&mut socket, &reply)?;
                io::Write::write_all(&mut socket, &bytes)?;
            }
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

type Answered = Result<(Reply, Vec<u8>), Failure>;

struct Device {
    context: Context,
    /// What can be asked how the device is, or why nothing can.
    monitor: Result<Monitor, String>,
    l2_bytes: u64,
    buffers: Buffers,
    /// Inputs on the device, and what they should be.
    cases: HashMap<usize, Vec<(Buffer, Vec<u8>)>>,
    sessions: HashMap<u64, Session>,
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
    buffers: Buffers,
    /// Unloaded after everything that refers to it.
    _module: Module,
    functions: Vec<cudarc::driver::sys::CUfunction>,
    scratch: Vec<Buffer>,
    /// By slot, the outputs in tensor order.
    outputs: Vec<Vec<Buffer>>,
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
        let (_, l2_bytes, _) = context.describe().map_err(failure)?;
        let monitor = context.bus_id().map_err(|error| error.to_string());
        Ok(Self {
            context,
            monitor: monitor.and_then(|bus_id| Monitor::open(&bus_id)),
            l2_bytes,
            buffers: Buffers::Guarded,
            cases: HashMap::new(),
            sessions: HashMap::new(),
        })
    }

    fn answer(&mut self, ask: &Ask, payload: &[u8]) -> Answered {
        let done = (Reply::Done, Vec::new());
        Ok(match ask {
            Ask::Describe => {
                let (name, l2_bytes, mut info) = self.context.describe().map_err(failure)?;
                info.unmonitored = self.monitor.as_ref().err().cloned();
                (Reply::Device { name, l2_bytes, info }, Vec::new())
            }
            Ask::Strip => {
                self.buffers = Buffers::Bare;
                done
            }
            Ask::Stage { case, sizes } => {
                self.stage(*case, sizes, payload)?;
                done
            }
            Ask::Unstage { case } => {
                self.cases.remove(case);
                done
            }
            Ask::Changed { case } => (Reply::Changed(self.changed(*case)?), Vec::new()),
            Ask::Open { session, plan } => {
                let opened = self.prepare(plan, payload)?;
                self.sessions.insert(*session, opened);
                done
            }
            Ask::Launch { session, slots, caches } => {
                let seconds = self.launch(*session, slots, *caches)?;
                let state = self.monitor.as_ref().ok().map(Monitor::state);
                (Reply::Clocked { seconds, state }, Vec::new())
            }
            Ask::Limits => {
                (Reply::Limits(self.monitor.as_ref().ok().map(Monitor::limits)), Vec::new())
            }
            Ask::Watch { session, slot } => {
                let session = self.session(*session)?;
                let mut arguments = [session.arguments(*slot, &self.cases)?];
                session.enqueue(self.context.stream, &mut arguments).map_err(failure)?;
                self.context.synchronize().map_err(failure)?;
                done
            }
            Ask::Fetch { session, slot } => {
                let bytes = self.fetch(*session, *slot)?;
                (Reply::Bytes(bytes.len()), bytes)
            }
            Ask::Poison { session, slot } => {
                self.session(*session)?.poison(*slot)?;
                done
            }
            Ask::Close { session } => {
                self.sessions.remove(session);
                done
            }
        })
    }

    fn stage(&mut self, case: usize, sizes: &[usize], payload: &[u8]) -> Result<(), Failure> {
        let mut inputs = Vec::new();
        let mut rest = payload;
        for size in sizes {
            let (content, after) = rest.split_at(*size);
            rest = after;
            let guard_bytes = self.buffers.guard_bytes();
            let buffer = Buffer::new(size + 2 * guard_bytes).map_err(failure)?;
            if self.buffers == Buffers::Guarded {
                // What lies beside an input is NaN in every element type.
                buffer.fill(0, buffer.bytes, &[INPUT_SLACK]).map_err(failure)?;
            }
            buffer.write(guard_bytes, content).map_err(failure)?;
            inputs.push((buffer, content.to_vec()));
        }
        self.cases.insert(case, inputs);
        Ok(())
    }

    fn changed(&self, case: usize) -> Result<Option<usize>, Failure> {
        let inputs = self.cases.get(&case).ok_or_else(no_case)?;
        for (idx, (buffer, expected)) in inputs.iter().enumerate() {
            let mut region = vec![0; buffer.bytes];
            buffer.read(0, &mut region).map_err(failure)?;
            let guard_bytes = self.buffers.guard_bytes();
            let content = guard_bytes..guard_bytes + expected.len();
            let is_slack = |byte: &u8| *byte == INPUT_SLACK;
            let guards_hold = region[..content.start].iter().all(is_slack)
                && region[content.end..].iter().all(is_slack);
            if !guards_hold || region[content] != *expected {
                return Ok(Some(idx));
            }
        }
        Ok(None)
    }

    fn prepare(&self, plan: &SessionPlan, module: &[u8]) -> Result<Session, Failure> {
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
                let message =
                    format!("`{entry}` takes {taken} parameters; the lab passes {passed}");
                return Err(Failure { kind: FailureKind::Refused, message });
            }
            driver::allow_shared_memory(function, launch.smem).map_err(failure)?;
            functions.push(function);
        }
        let mut scratch = Vec::new();
        for bytes in &plan.scratch {
            let buffer = Buffer::new(*bytes as usize).map_err(failure)?;
            if self.buffers == Buffers::Guarded {
                // Contents that no kernel should rely on.
                buffer.fill(0, buffer.bytes, &[0xff]).map_err(failure)?;
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
        let plan = plan.clone();
        let session = Session { plan, buffers, _module: module, functions, scratch, outputs };
        if buffers == Buffers::Guarded {
            for slot in 0..session.plan.cases.len() {
                session.poison(slot)?;
            }
        }
        Ok(session)
    }

    /// Runs slots one after the other, as one graph; returns the seconds that its last replay took.
    fn launch(&mut self, session: u64, slots: &[usize], caches: Caches) -> Result<f64, Failure> {
        let session = self.sessions.get(&session).ok_or_else(no_session)?;
        let mut arguments = Vec::new();
        for slot in slots {
            arguments.push(session.arguments(*slot, &self.cases)?);
        }
        let stream = self.context.stream;
        let graph = self.context.capture(|| session.enqueue(stream, &mut arguments));
        let graph = graph.map_err(failure)?;
        match caches {
            Caches::Cold => {
                let flush_bytes = FLUSH_FACTOR * (self.l2_bytes as usize).max(1 << 20);
                self.context.flush_cache(flush_bytes).map_err(failure)?;
            }
            Caches::Warm => {
                self.context.replay(&graph).map_err(failure)?;
            }
        }
        let seconds = self.context.replay(&graph).map_err(failure)?;
        self.context.synchronize().map_err(failure)?;
        Ok(seconds)
    }

    fn session(&self, session: u64) -> Result<&Session, Failure> {
        self.sessions.get(&session).ok_or_else(no_session)
    }

    fn fetch(&self, session: u64, slot: usize) -> Result<Vec<u8>, Failure> {
        let outputs = self.session(session)?.outputs.get(slot).ok_or_else(no_case)?;
        let mut bytes = vec![0; outputs.iter().map(|output| output.bytes).sum()];
        let mut at = 0;
        for output in outputs {
            output.read(0, &mut bytes[at..at + output.bytes]).map_err(failure)?;
            at += output.bytes;
        }
        Ok(bytes)
    }
}

impl Session {
    fn output_tensors(&self) -> impl Iterator<Item = &TensorWire> {
        self.plan.tensors.iter().filter(|tensor| tensor.is_output)
    }

    fn poison(&self, slot: usize) -> Result<(), Failure> {
        if self.buffers == Buffers::Bare {
            let message = "bare buffers have no guards to poison".to_string();
            return Err(Failure { kind: FailureKind::Broken, message });
        }
        let outputs = self.outputs.get(slot).ok_or_else(no_case)?;
        let mut canary = vec![0; GUARD_BYTES];
        poison::fill_canary(&mut canary);
        for (output, tensor) in outputs.iter().zip(self.output_tensors()) {
            let element = &poison::poison_bits(tensor.dtype).to_le_bytes()[..tensor.dtype.size()];
            output.write(0, &canary).map_err(failure)?;
            output.fill(GUARD_BYTES, tensor.bytes, element).map_err(failure)?;
            output.write(GUARD_BYTES + tensor.bytes, &canary).map_err(failure)?;
        }
        Ok(())
    }

    /// Puts the launches into the stream, once for each list of arguments.
    fn enqueue(
        &self,
        stream: cudarc::driver::sys::CUstream,
        arguments: &mut [Vec<Argument>],
    ) -> Result<(), DriverError> {
        for arguments in arguments {
            for (launch, function) in self.plan.launches.iter().zip(&self.functions) {
                let extents = Extents {
                    grid: launch.grid,
                    block: launch.block,
                    cluster: launch.cluster,
                    smem: launch.smem,
                };
                driver::launch(stream, *function, extents, arguments)?;
            }
        }
        Ok(())
    }

    fn arguments(
        &self,
        slot: usize,
        cases: &HashMap<usize, Vec<(Buffer, Vec<u8>)>>,
    ) -> Result<Vec<Argument>, Failure> {
        let case = self.plan.cases.get(slot).ok_or_else(no_case)?;
        let mut inputs = cases.get(case).ok_or_else(no_case)?.iter();
        let mut outputs = self.outputs[slot].iter();
        let mut tensors = Vec::new();
        for tensor in &self.plan.tensors {
            let buffer = match tensor.is_output {
                true => outputs.next(),
                false => inputs.next().map(|(buffer, _)| buffer),
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

fn no_session() -> Failure {
    Failure { kind: FailureKind::Broken, message: "there is no session".to_string() }
}

fn no_case() -> Failure {
    Failure { kind: FailureKind::Broken, message: "there is no such case".to_string() }
}

/// Tells what a failed call means for the candidate.
fn failure(error: DriverError) -> Failure {
    use CUresult as code;
    let kind = match error.code {
        code::CUDA_ERROR_OUT_OF_MEMORY => FailureKind::OutOfMemory,
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
        _ => FailureKind::Broken,
    };
    Failure { kind, message: error.to_string() }
}
