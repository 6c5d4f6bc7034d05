//! The device process: owns the CUDA context, holds inputs and outputs, launches and reads the clock.
//!
//! It is a process of its own because a kernel that faults takes the whole context along, and one that
//! hangs can only be ended with its process. The worker then starts another one and goes on. Candidates
//! are device code: nothing of theirs runs here, so the clock and the launches are the harness's.

use std::collections::HashMap;
use std::hash::{BuildHasher, Hasher, RandomState};
use std::io;
use std::os::fd::{AsFd, FromRawFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::rc::Rc;

use warpsmith_model::rng::Rng;
use warpsmith_model::{DeviceState, stats};

use super::cublaslt::{Library, LibraryAlgorithm, Product};
use super::driver::{self, Buffer, Context};
use super::failure::{before_any_launch, failure, no_session, no_window, scratch_failure};
use super::mapped;
use super::monitor::Monitor;
use super::ranges::Ranges;
use super::session::{ServedSession, Work, load_kernel};
use super::stamps::Stamps;
use super::vault::Vault;
use super::wire::{
    self, Ask, Clock, FailureKind, Floor, GemmWire, Reply, ServerFailure, SessionPlan,
};
use crate::poison::Poison;
use crate::sys::memory::Mapping;
use crate::sys::process;
use crate::sys::socket::{receive_descriptors, receive_message, send_message};
use crate::trace;

/// The first argument that makes a binary call [`device_main`].
pub const DEVICE_ARGUMENT: &str = "__cuda";

/// Bytes that are written between readings, as a multiple of the cache.
const FLUSH_FACTOR: usize = 2;

/// Launches that warm the caches before a warm reading.
pub(super) const WARM_UPS: usize = 4;

/// How often each algorithm that a library proposes is timed before one is chosen.
const CHOOSING_ROUNDS: usize = 5;
/// What NVIDIA recommends as workspace of cuBLAS: more on Hopper and later than before.
const WORKSPACE_BYTES: usize = 32 << 20;
const HOPPER_WORKSPACE_BYTES: usize = 64 << 20;

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
            Ask::StageShared { sizes, .. } => {
                let descriptor = receive_descriptors(&socket, 1)?.remove(0);
                Some(Mapping::shared(descriptor.as_fd(), sizes.iter().sum())?)
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

type Answered = Result<Reply, ServerFailure>;

struct Device {
    context: Context,
    /// What can be asked how the device is, or why nothing can.
    monitor: Result<Monitor, String>,
    l2_bytes: u64,
    sms: u32,
    smem_per_block: u32,
    /// Made when cycles are first asked for.
    stamps: Option<Stamps>,
    /// What memory is like where somebody watches; none where nobody does.
    watched: Option<Floor>,
    /// Inputs on the device.
    vault: Vault,
    /// Made for the first launch.
    ranges: Option<Ranges>,
    /// Whether inputs can be mapped for reading alone.
    seals_inputs: bool,
    /// Decides about addresses.
    rng: Rng,
    /// What copies are timed with.
    copied: Option<[Buffer; 2]>,
    /// Memory that is shared with the worker, for outputs.
    windows: HashMap<u64, Mapping>,
    sessions: HashMap<u64, ServedSession>,
    /// Whether anything that is not ours has run here.
    has_run: bool,
    /// Loaded when the first session needs it.
    library: Option<Rc<Library>>,
    /// Algorithms that were chosen, with the words for them: every session of a product uses the same.
    choices: Vec<(GemmWire, LibraryAlgorithm, String)>,
}

impl Device {
    fn open() -> Result<Self, ServerFailure> {
        if !driver::is_present() {
            let message = "there is no CUDA driver on this machine (libcuda.so.1): install NVIDIA's driver, or run \
                 the lab's CPU kernels without --target cuda".to_string();
            return Err(ServerFailure { kind: FailureKind::NoDevice, message });
        }
        let context = Context::open().map_err(|error| ServerFailure {
            kind: FailureKind::NoDevice,
            message: error.to_string(),
        })?;
        let (_, l2_bytes, info) = context.describe().map_err(failure)?;
        let monitor = context.bus_id().map_err(|error| error.to_string());
        let seals_inputs = mapped::can_map_for_reading(&context).map_err(failure)?;
        Ok(Self {
            context,
            monitor: monitor.and_then(|bus_id| Monitor::open(&bus_id)),
            l2_bytes,
            sms: info.sms,
            smem_per_block: info.smem_per_block,
            stamps: None,
            watched: None,
            vault: Vault::default(),
            ranges: None,
            seals_inputs,
            // The standard library seeds its hash tables with the system's randomness.
            rng: Rng::new(RandomState::new().build_hasher().finish()),
            copied: None,
            windows: HashMap::new(),
            sessions: HashMap::new(),
            has_run: false,
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
                let seals_inputs = self.seals_inputs;
                Reply::Device { name, l2_bytes, ticks_per_s, info, seals_inputs }
            }
            Ask::Watched { floor } => {
                self.watched = Some(*floor);
                Reply::Done
            }
            Ask::Stage { case, sizes } => {
                self.vault.stage(&self.context, *case, sizes, payload).map_err(failure)?;
                Reply::Done
            }
            Ask::StageShared { case, sizes } => {
                let mapping = shared.ok_or_else(no_window)?;
                // SAFETY: the worker wrote it before it asked, and nobody writes it again.
                let content = unsafe { mapping.content() };
                self.vault.stage(&self.context, *case, sizes, content).map_err(failure)?;
                Reply::Done
            }
            Ask::Unstage { case } => {
                self.vault.unstage(*case);
                Reply::Done
            }
            Ask::Open { session, plan } => {
                let (opened, remark) = self.prepare(plan, payload)?;
                self.sessions.insert(*session, opened);
                Reply::Opened { remark }
            }
            Ask::Launch { session, slots, poisons, clock } => {
                let mut launched = self.sessions.remove(session).ok_or_else(no_session)?;
                let reply = self.launch(&mut launched, slots, poisons, *clock);
                self.sessions.insert(*session, launched);
                reply?
            }
            Ask::Copy { bytes } => {
                let seconds = self.time_copy(*bytes)?;
                Reply::Clocked { seconds, state: self.state(), spoilt: Vec::new() }
            }
            Ask::Limits => Reply::Limits(self.monitor.as_ref().ok().map(Monitor::limits)),
            Ask::Watch { session, slot } => {
                let floor = self.watched.unwrap_or(Floor::Guarded);
                let session = self.sessions.get_mut(session).ok_or_else(no_session)?;
                session.lay_watched(&self.context, &self.vault, floor)?;
                let mut arguments = [session.arguments(*slot)?];
                self.has_run = true;
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
            Ask::Close { session } => {
                if let Some(closed) = self.sessions.remove(session) {
                    closed.scrub()?;
                }
                Reply::Done
            }
        })
    }

    fn prepare(
        &mut self,
        plan: &SessionPlan,
        module: &[u8],
    ) -> Result<(ServedSession, Option<String>), ServerFailure> {
        let (work, proposals) = match &plan.gemm {
            None => (load_kernel(plan, module, self.smem_per_block)?, Vec::new()),
            Some(gemm) => self.describe_product(gemm)?,
        };
        let scratch_bytes: u64 = plan.scratch.iter().sum();
        if scratch_bytes > 0 {
            // Whether there is room for it is found out before the first launch asks for all memory at once.
            Buffer::new(scratch_bytes as usize)
                .map_err(|error| scratch_failure(error, scratch_bytes))?;
        }
        let rng = Rng::new(self.rng.next_u64());
        let mut session = ServedSession::new(plan, work, module, self.smem_per_block, rng);
        let mut remark = None;
        if let (Some(gemm), false) = (&plan.gemm, plan.cases.is_empty()) {
            remark = Some(self.choose(&mut session, gemm, &proposals)?);
        }
        Ok((session, remark))
    }

    /// Lets a launch of these slots find its inputs, and nothing else.
    fn lay(
        &mut self,
        session: &mut ServedSession,
        slots: &[usize],
        poisons: &[Option<Poison>],
    ) -> Result<(), ServerFailure> {
        let ranges = match &mut self.ranges {
            Some(ranges) => ranges,
            none => none.insert(Ranges::new(self.sms, self.smem_per_block).map_err(failure)?),
        };
        let laid =
            session.lay(&self.context, &self.vault, ranges, slots, poisons, self.seals_inputs);
        match self.has_run {
            true => laid,
            false => laid.map_err(before_any_launch),
        }
    }

    /// Describes a product to the library, which is loaded if it is not yet; returns what the library
    /// proposes, too.
    fn describe_product(
        &mut self,
        gemm: &GemmWire,
    ) -> Result<(Work, Vec<LibraryAlgorithm>), ServerFailure> {
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

    fn library(&mut self, path: &Path) -> Result<Rc<Library>, ServerFailure> {
        if let Some(library) = self.library.as_ref().filter(|library| library.path() == path) {
            return Ok(Rc::clone(library));
        }
        let loaded = Library::load(path)
            .map_err(|message| ServerFailure { kind: FailureKind::NoLibrary, message })?;
        let library = Rc::new(loaded);
        self.library = Some(Rc::clone(&library));
        Ok(library)
    }

    /// Times what the library proposes, under the clock that kernels are timed with, and keeps the
    /// fastest, as a careful user of the library would; says which it is.
    fn choose(
        &mut self,
        session: &mut ServedSession,
        gemm: &GemmWire,
        proposals: &[LibraryAlgorithm],
    ) -> Result<String, ServerFailure> {
        let known = self.choices.iter().find(|(known, _, _)| known == gemm);
        if let (Some((_, chosen, words)), Work::Product { product, .. }) =
            (known, &mut session.work)
        {
            product.choose(*chosen);
            return Ok(words.clone());
        }
        let stream = self.context.stream;
        self.lay(session, &[0], &[None])?;
        let mut arguments = [session.arguments(0)?];
        let mut running = Vec::new();
        self.has_run = true;
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
            return Err(ServerFailure { kind: FailureKind::Refused, message });
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

    fn flush_cache(&mut self) -> Result<(), ServerFailure> {
        let flush_bytes = FLUSH_FACTOR * (self.l2_bytes as usize).max(1 << 20);
        self.context.flush_cache(flush_bytes).map_err(failure)
    }

    /// Runs slots one after the other, as one graph; returns what the clock says of its last replay.
    fn launch(
        &mut self,
        session: &mut ServedSession,
        slots: &[usize],
        poisons: &[Option<Poison>],
        clock: Clock,
    ) -> Result<Reply, ServerFailure> {
        if clock == Clock::Cycles && self.stamps.is_none() {
            self.stamps = Some(Stamps::new(&self.context, self.sms).map_err(failure)?);
        }
        session.refresh()?;
        self.lay(session, slots, poisons)?;
        let mut arguments = Vec::new();
        for slot in slots {
            arguments.push(session.arguments(*slot)?);
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
        self.has_run = true;
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
        let ticks = match stamps {
            Some(stamps) => Some(stamps.cycles().map_err(failure)?),
            None => None,
        };
        let spoilt = match &mut self.ranges {
            Some(ranges) => session.spoilt(&self.context, &self.vault, ranges)?,
            None => Vec::new(),
        };
        Ok(match ticks {
            Some(ticks) => Reply::Counted { ticks, state, spoilt },
            None => Reply::Clocked { seconds, state, spoilt },
        })
    }

    /// Times a copy with the clock and the care that launches get.
    fn time_copy(&mut self, bytes: usize) -> Result<f64, ServerFailure> {
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

    fn fetch(
        &mut self,
        session: u64,
        slot: usize,
        window: u64,
        offset: usize,
    ) -> Result<(), ServerFailure> {
        let session = self.sessions.get(&session).ok_or_else(no_session)?;
        let window = self.windows.get_mut(&window).ok_or_else(no_window)?;
        // SAFETY: the mapping is writable, and the worker waits for the answer before it looks.
        let rest = unsafe { window.content_mut() }.get_mut(offset..).ok_or_else(no_window)?;
        session.read_outputs(slot, rest)
    }
}
