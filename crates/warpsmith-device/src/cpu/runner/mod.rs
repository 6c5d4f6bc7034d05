//! The process that a candidate runs in.
//!
//! A runner is the worker's own executable, started afresh, so nothing that the worker knows (inputs
//! of other sessions, expected outputs, the clock) was ever in its memory. It receives a [`RunnerPlan`] and
//! open files over a socket, builds its memory, starts its threads, gives up every right that it does
//! not need, loads the candidate without running anything of it, gives up the rights that loading took,
//! in every thread, calls the candidate's constructors, and serves commands from the control page until
//! it is killed. It owns no clock and judges nothing.

mod confine;
mod floating_point;
mod heap;
mod pool;
mod privileges;
mod signals;

use std::ffi::{CStr, CString, c_char};
use std::io;
use std::os::fd::{AsFd, AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::os::unix::net::UnixStream;
use std::sync::atomic::{AtomicU32, Ordering};

use crate::cpu::control::{ControlPage, stage};
use crate::cpu::elf::Deferred;
use crate::cpu::layout::{ARENA_ALIGNMENT, LEAD_BYTES};
use crate::cpu::plan::{Hello, OverlayPlan, ProgramPlan, RunnerPlan, Source};
use crate::sys::memory::{Mapping, Overlay};
use crate::sys::{check, futex, process, socket};

use pool::{Entry, Launch, Loaded, Pool};

/// The first argument that makes a binary call [`runner_main`].
pub const RUNNER_ARGUMENT: &str = "__runner";

/// The status of a runner that failed before it could say why.
const FAILED_EARLY: i32 = 120;

/// Serves one session as its runner. A binary calls this, before anything else, when its first
/// argument is [`RUNNER_ARGUMENT`].
pub fn runner_main() -> ! {
    let (page, outcome) = match receive() {
        Ok(received) => {
            let page = received.page;
            (page, prepare(received))
        }
        // Nobody needs this runner any more: it was started ahead of a session that never came.
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => std::process::exit(0),
        Err(error) => {
            eprintln!("warpsmith runner: {error}");
            std::process::exit(FAILED_EARLY);
        }
    };
    match outcome {
        Ok(()) => page.control().report(stage::READY, ""),
        Err(RunnerFailure::NotLoadable(message)) => {
            page.control().report(stage::NOT_LOADABLE, &message);
        }
        Err(RunnerFailure::Broken(doing, error)) => {
            page.control().report(stage::BROKEN, &format!("{doing}: {error}"));
        }
    }
    // The pool's threads do the rest; the worker ends the process.
    let never = AtomicU32::new(0);
    loop {
        futex::wait(&never, 0, None);
    }
}

/// What a worker sent.
struct Received {
    plan: RunnerPlan,
    no_landlock: Option<String>,
    /// Which privileges could not be given up.
    privileged: Option<String>,
    /// Bytes that were mapped before the plan came.
    mapped: Result<u64, String>,
    page: &'static ControlPage,
    files: Vec<OwnedFd>,
    socket: UnixStream,
}

/// Why a runner cannot serve.
enum RunnerFailure {
    NotLoadable(String),
    Broken(&'static str, io::Error),
}

/// Names what was being done when an error came.
fn broken(doing: &'static str) -> impl Fn(io::Error) -> RunnerFailure {
    move |error| RunnerFailure::Broken(doing, error)
}

fn receive() -> io::Result<Received> {
    process::die_with_parent()?;
    // SAFETY: the worker made standard input a socket and nothing else in this process uses it.
    let mut socket = UnixStream::from(unsafe { OwnedFd::from_raw_fd(0) });
    // Before the plan comes, because a runner may be started ahead of the session that it is for.
    // Landlock binds a thread and those that it starts, so it comes before the pool's.
    let mapped = confine::mapped_bytes();
    let privileged = privileges::give_up().err();
    // A change of identity made the kernel forget it.
    process::die_with_parent()?;
    process::forgo_new_privileges()?;
    let no_landlock = confine::close_file_system().err();
    let plan: RunnerPlan = socket::receive_message(&mut socket)?;
    // SAFETY: has no preconditions.
    if unsafe { libc::getppid() } != plan.worker as libc::pid_t {
        return Err(io::Error::other("the worker ended before its runner began"));
    }
    let n_files = if plan.program.is_some() { 4 } else { 1 };
    let files = socket::receive_descriptors(&socket, n_files)?;
    let page = ControlPage::map(files[0].as_fd(), plan.control_words)?;
    let page = Box::leak(Box::new(page));
    Ok(Received { plan, no_landlock, privileged, mapped, page, files, socket })
}

fn prepare(received: Received) -> Result<(), RunnerFailure> {
    let Received { plan, no_landlock, privileged, mapped, page, files, mut socket } = received;
    let arena = build_arena(&plan, &files).map_err(broken("building the arena"))?;
    let protected = arena as u64..(arena + plan.arena_bytes) as u64;
    let filter = confine::filter_for_running(&protected);
    heap::look_up_policy().map_err(broken("preparing the heap"))?;
    if let Some(noise) = plan.heap_noise {
        heap::hold_noise(noise);
    }
    let pool = Pool::start(page, &plan, arena, filter.clone().ok())
        .map_err(broken("starting the threads"))?;
    // This thread runs constructors, and must not be one processor more than the candidate may have.
    let pinned = plan.cpus.first().map_or(Ok(()), |cpu| process::pin(*cpu));
    pinned.map_err(broken("pinning the first thread"))?;
    let no_rlimits = mapped.and_then(|mapped| confine::limit_resources(&plan, mapped)).err();
    signals::catch_fatal(page.control()).map_err(broken("installing signal handlers"))?;
    let no_seccomp = filter
        .as_ref()
        .map_err(String::clone)
        .and_then(|_| pool.unfiltered().map_or(Ok(()), Err))
        .and_then(|()| confine::filter_for_loading(&protected))
        .err();
    let hello =
        Hello { arena_start: arena as u64, no_seccomp, no_landlock, no_rlimits, privileged };
    socket::send_message(&mut socket, &hello).map_err(broken("answering the worker"))?;
    let Some(program) = plan.program else {
        if plan.stacks.is_empty() {
            // Asked only how well it is confined.
            std::process::exit(0);
        }
        // Closing them would first ask the system whether they are open, in builds with debug
        // assertions, and the filter forbids asking.
        std::mem::forget((files, socket));
        return Ok(());
    };
    let artifact = files[1].as_raw_fd();
    // Their numbers are about to be closed; an owner would close them a second time.
    std::mem::forget((files, socket));
    close_all_but(artifact).map_err(broken("closing files"))?;
    let loaded = load(artifact, &program)?;
    // SAFETY: it is open and has no owner. (An owner would first ask the system whether it is open,
    // in builds with debug assertions, and the filter forbids asking.)
    unsafe { libc::close(artifact) };
    privileges::close_to_others().map_err(broken("closing this process to others"))?;
    // Nothing of the candidate has run so far. From here on this thread, too, can do nothing that
    // computing does not take.
    if let Ok(filter) = &filter {
        confine::install(filter).map_err(|why| {
            RunnerFailure::Broken("giving up the rights that loading took", io::Error::other(why))
        })?;
    }
    loaded.construct(&program.deferred);
    // Elsewhere it is the thread that loads a kernel which keeps the settings that a constructor leaves; the
    // threads here exist already, and would not show it.
    if floating_point::restore() {
        page.control().unrestored.store(1, Ordering::Relaxed);
    }
    pool.publish(place(program, loaded.entries, arena));
    Ok(())
}

/// Reserves the arena, puts everything into it, and returns its first address.
fn build_arena(plan: &RunnerPlan, files: &[OwnedFd]) -> io::Result<usize> {
    let reservation = Mapping::reserve(LEAD_BYTES + ARENA_ALIGNMENT + plan.arena_bytes)?;
    let reserved = reservation.start().as_ptr() as usize;
    let start = (reserved + LEAD_BYTES).next_multiple_of(ARENA_ALIGNMENT);
    let file = |idx: usize| {
        let missing = || io::Error::other("the plan names a file that was not sent");
        files.get(idx).map(AsFd::as_fd).ok_or_else(missing)
    };
    for OverlayPlan { at, bytes, source } in &plan.overlays {
        let what = match source {
            Source::Inputs(offset) => Overlay::ReadOnly(file(3)?, *offset),
            Source::Outputs(offset) => Overlay::Writable(file(2)?, *offset),
            Source::Stack => Overlay::Private,
        };
        reservation.overlay(start - reserved + at, *bytes, what)?;
    }
    // It lasts as long as the process.
    std::mem::forget(reservation);
    Ok(start)
}

/// Closes every open file except one.
fn close_all_but(kept: RawFd) -> io::Result<()> {
    let kept = kept as u32;
    let close_range = |first: u32, last: u32| {
        // SAFETY: no owner of a descriptor in the range is left to use or close it.
        check(unsafe { libc::syscall(libc::SYS_close_range, first, last, 0) } as libc::c_int)
    };
    if kept > 0 {
        close_range(0, kept - 1)?;
    }
    close_range(kept + 1, u32::MAX)?;
    Ok(())
}

/// A candidate in memory, of which nothing has run yet.
struct LoadedArtifact {
    /// What its addresses count from.
    base: usize,
    entries: Vec<Option<Entry>>,
}

/// Loads the artifact and finds the entries of its launches. What it needs is loaded first, so that no
/// constructor of a library calls a function that the artifact defines.
fn load(artifact: RawFd, program: &ProgramPlan) -> Result<LoadedArtifact, RunnerFailure> {
    for library in &program.deferred.libraries {
        let name = CString::new(library.as_str()).unwrap_or_default();
        // SAFETY: the worker names libraries of the system and the compilers alone.
        let loaded = unsafe { libc::dlopen(name.as_ptr(), libc::RTLD_NOW | libc::RTLD_LOCAL) };
        if loaded.is_null() {
            return Err(RunnerFailure::NotLoadable(loader_message()));
        }
    }
    let path = CString::new(format!("/proc/self/fd/{artifact}")).expect("has no zero byte");
    // SAFETY: the worker has taken its constructors out of the tables that the loader reads.
    let library = unsafe { libc::dlopen(path.as_ptr(), libc::RTLD_NOW | libc::RTLD_LOCAL) };
    if library.is_null() {
        return Err(RunnerFailure::NotLoadable(loader_message()));
    }
    // The loader's own description, whose first word is the address.
    let mut map: *const usize = std::ptr::null();
    // SAFETY: `library` is loaded, and the request stores a pointer there.
    let told = unsafe { libc::dlinfo(library, libc::RTLD_DI_LINKMAP, (&raw mut map).cast()) };
    if told != 0 || map.is_null() {
        return Err(RunnerFailure::NotLoadable(loader_message()));
    }
    // SAFETY: the description lives as long as the library.
    let base = unsafe { *map };
    let n_entries = program.launches.iter().map(|launch| launch.0 + 1).max().unwrap_or(0);
    let mut entries = vec![None; n_entries];
    for (idx, _, _) in &program.launches {
        let name = CString::new(super::compile::entry_symbol(*idx)).expect("has no zero byte");
        // SAFETY: `library` is loaded and `name` is a C string.
        let symbol = unsafe { libc::dlsym(library, name.as_ptr()) };
        if symbol.is_null() {
            return Err(RunnerFailure::NotLoadable(loader_message()));
        }
        // SAFETY: the symbol is the shim that the harness wrote, with this signature.
        entries[*idx] = Some(unsafe { std::mem::transmute::<*mut libc::c_void, Entry>(symbol) });
    }
    Ok(LoadedArtifact { base, entries })
}

impl LoadedArtifact {
    /// Calls the constructors, as the loader would have.
    fn construct(&self, deferred: &Deferred) {
        type Constructor = extern "C" fn(libc::c_int, *const *const c_char, *const *const c_char);
        let at = |address: u64| self.base.wrapping_add(address as usize);
        let table = deferred.table.map_or(0..0, |(_, count)| 0..count);
        let first = deferred.table.map_or(0, |(address, _)| address);
        let listed = table.map(|idx| {
            // SAFETY: the table lies in what was loaded, and the loader has relocated it. If its
            // description is wrong this faults, in a process that is there for it.
            unsafe { *(at(first + 8 * idx) as *const usize) }
        });
        let nothing: [*const c_char; 1] = [std::ptr::null()];
        // Zero and minus one stand for no function, in tables of some compilers.
        let functions = deferred.init.map(at).into_iter().chain(listed);
        for function in functions.filter(|address| ![0, usize::MAX].contains(address)) {
            // SAFETY: what the candidate's code does to this process is what the process is for.
            let function = unsafe { std::mem::transmute::<usize, Constructor>(function) };
            function(0, nothing.as_ptr(), nothing.as_ptr());
        }
    }
}

/// Returns what the dynamic loader last complained about.
fn loader_message() -> String {
    // SAFETY: has no preconditions.
    let message: *const c_char = unsafe { libc::dlerror() };
    if message.is_null() {
        return "the loader gives no reason".to_string();
    }
    // SAFETY: the loader returned a C string that lives until its next call.
    unsafe { CStr::from_ptr(message) }.to_string_lossy().into_owned()
}

/// Turns offsets into pointers.
fn place(program: ProgramPlan, entries: Vec<Option<Entry>>, arena: usize) -> Loaded {
    let point =
        |offsets: &[usize]| -> Vec<usize> { offsets.iter().map(|offset| arena + offset).collect() };
    let slots: Vec<Vec<usize>> = program.slots.iter().map(|slot| point(slot)).collect();
    // A case's inputs lie in one slot, its outputs in the same or another.
    let pointers = |inputs: &[usize], outputs: &[usize]| -> Vec<usize> {
        let both = inputs.iter().zip(outputs).zip(&program.is_output);
        both.map(|((input, output), is_output)| if *is_output { *output } else { *input }).collect()
    };
    let of_slot = |slot: &Vec<usize>| slots.iter().map(|outputs| pointers(slot, outputs)).collect();
    Loaded {
        tensors: slots.iter().map(of_slot).collect(),
        axes: program.axes,
        scalars: program.scalar_bits.into_iter().map(f64::from_bits).collect(),
        scratch: point(&program.scratch),
        launches: program
            .launches
            .into_iter()
            .filter_map(|(entry, blocks, chunk)| {
                let entry = entries.get(entry).copied().flatten()?;
                Some(Launch { entry, blocks, chunk: chunk.clamp(1, blocks.max(1)) })
            })
            .collect(),
    }
}

/// Waits for a condition that another thread brings about, without holding a processor that
/// somebody else could use: the worker has none of its own when there are as many threads as
/// processors.
fn spin_until(mut holds: impl FnMut() -> bool) {
    // About half a microsecond between yields; longer keeps the worker waiting after the last
    // thread is done, shorter wastes the processor on system calls.
    const CHECKS_PER_YIELD: u32 = 16;
    loop {
        for _ in 0..CHECKS_PER_YIELD {
            if holds() {
                return;
            }
            std::hint::spin_loop();
        }
        // SAFETY: has no preconditions.
        unsafe { libc::sched_yield() };
    }
}

/// Waits as [`spin_until`] does, but sleeps once the wait is long: the worker may be stopped.
fn spin_or_sleep_until(mut holds: impl FnMut() -> bool) {
    let mut checks = 0u32;
    spin_until(|| {
        checks = checks.saturating_add(1);
        if checks > 200_000 {
            std::thread::sleep(std::time::Duration::from_micros(500));
        }
        holds()
    });
}

/// Loads with the ordering that makes everything visible which the storing thread did before.
fn acquire(word: &AtomicU32) -> u32 {
    word.load(Ordering::Acquire)
}
