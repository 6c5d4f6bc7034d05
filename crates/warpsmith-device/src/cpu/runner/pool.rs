//! The threads that run a candidate.

use std::ffi::c_void;
use std::io;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicI64, AtomicU32, Ordering};

use seccompiler::BpfProgram;

use super::{acquire, confine, floating_point, signals, spin_or_sleep_until, spin_until};
use crate::cpu::control::{Control, ControlPage, Line, Part, calls_from_code, unpack_slots};
use crate::cpu::layout::STACK_BYTES;
use crate::cpu::plan::RunnerPlan;
use crate::sys::{futex, process};
use crate::target::Calls;

/// The shim around a kernel function; the compiler module writes it.
pub(super) type Entry = unsafe extern "C" fn(
    tensors: *const usize,
    axes: *const i64,
    scalars: *const f64,
    scratch: *const usize,
    begin: i64,
    end: i64,
);

/// One launch.
#[derive(Debug)]
pub(super) struct Launch {
    pub(super) entry: Entry,
    pub(super) blocks: i64,
    pub(super) chunk: i64,
}

/// A loaded program with the addresses of its cases.
#[derive(Debug)]
pub(super) struct Loaded {
    /// For each slot and each case, a pointer for each tensor.
    pub(super) tensors: Vec<Vec<Vec<usize>>>,
    pub(super) axes: Vec<i64>,
    pub(super) scalars: Vec<f64>,
    pub(super) scratch: Vec<usize>,
    pub(super) launches: Vec<Launch>,
}

/// The threads' common state.
#[derive(Debug)]
pub(super) struct Pool {
    page: &'static ControlPage,
    cpus: Vec<usize>,
    program: OnceLock<Loaded>,
    /// The filter on system calls that each thread installs on itself.
    filter: Option<BpfProgram>,
    /// Why a thread could not install it.
    unfiltered: OnceLock<String>,
    /// Threads that wait for their first command.
    started: AtomicU32,
    /// An `errno` of a thread that could not be pinned.
    start_error: AtomicU32,
    /// The next block, or the index of the next listed block.
    next: Line<AtomicI64>,
    /// Threads that have arrived at the barrier.
    arrived: Line<AtomicU32>,
    /// Counts the times that the barrier opened.
    turn: Line<AtomicU32>,
}

impl Pool {
    /// Starts one pinned thread per processor, on the stacks that the plan put into the arena.
    pub(super) fn start(
        page: &'static ControlPage,
        plan: &RunnerPlan,
        arena: usize,
        filter: Option<BpfProgram>,
    ) -> io::Result<&'static Self> {
        let pool: &'static Self = Box::leak(Box::new(Self {
            page,
            cpus: plan.cpus.clone(),
            program: OnceLock::new(),
            filter,
            unfiltered: OnceLock::new(),
            started: AtomicU32::new(0),
            start_error: AtomicU32::new(0),
            next: Line::default(),
            arrived: Line::default(),
            turn: Line::default(),
        }));
        for (idx, stack) in plan.stacks.iter().enumerate() {
            let seat = Box::leak(Box::new(Seat { pool, idx }));
            start_thread(arena + stack, seat)?;
        }
        let n_threads = plan.stacks.len() as u32;
        spin_until(|| acquire(&pool.started) == n_threads);
        match acquire(&pool.start_error) {
            0 => Ok(pool),
            errno => Err(io::Error::from_raw_os_error(errno as i32)),
        }
    }

    /// Returns why the threads are not filtered, if one of them is not.
    pub(super) fn unfiltered(&self) -> Option<String> {
        self.unfiltered.get().cloned()
    }

    /// Hands the program to the threads; they take it with the first command.
    pub(super) fn publish(&self, program: Loaded) {
        // Called once, so it is never set already.
        let _ = self.program.set(program);
    }

    fn serve(&self, idx: usize) -> ! {
        if let Err(error) = process::pin(self.cpus[idx]).and_then(|()| signals::use_own_stack()) {
            self.start_error.store(error.raw_os_error().unwrap_or(1) as u32, Ordering::Relaxed);
        }
        if let Some(filter) = &self.filter
            && let Err(why) = confine::install(filter)
        {
            // The first one's reason stands for all.
            let _ = self.unfiltered.set(why);
        }
        floating_point::restore();
        self.started.fetch_add(1, Ordering::Release);
        let control = self.page.control();
        let mut finished = 0;
        loop {
            let number = next_command(control, finished);
            control.ready.0.fetch_add(1, Ordering::AcqRel);
            spin_or_sleep_until(|| acquire(&control.go.0) == number);
            if let Some(program) = self.program.get() {
                self.run(control, program);
            }
            self.finish(control, number);
            finished = number;
        }
    }

    /// Runs one command; returns when this thread finds nothing more to do.
    fn run(&self, control: &Control, program: &Loaded) {
        let words = self.page.words();
        let n_cases = (control.n_cases.load(Ordering::Relaxed) as usize).min(words.len());
        let (cases, words) = words.split_at(n_cases);
        let n_blocks = (control.n_blocks.load(Ordering::Relaxed) as usize).min(words.len());
        let listed = &words[..n_blocks];
        let n_launches = program.launches.len();
        let part = Part::from_code(control.part.load(Ordering::Relaxed));
        let launches = match part {
            Part::All => &program.launches[..],
            Part::Prologue => &program.launches[..n_launches.saturating_sub(1)],
            Part::Blocks => &program.launches[n_launches.saturating_sub(1)..],
        };
        let calls = calls_from_code(control.calls.load(Ordering::Relaxed));
        let mut first = true;
        for case in cases {
            let (inputs, outputs) = unpack_slots(case.load(Ordering::Relaxed));
            let tensors = program.tensors.get(inputs).and_then(|slots| slots.get(outputs));
            let Some(tensors) = tensors else { continue };
            for launch in launches {
                if !first {
                    self.barrier();
                }
                first = false;
                let call = |begin: i64, end: i64| {
                    // SAFETY: the pointers are valid for the shim's signature; what the kernel does
                    // with them is what this process is for.
                    unsafe {
                        (launch.entry)(
                            tensors.as_ptr(),
                            program.axes.as_ptr(),
                            program.scalars.as_ptr(),
                            program.scratch.as_ptr(),
                            begin,
                            end,
                        );
                    }
                    if floating_point::restore() {
                        control.unrestored.store(1, Ordering::Relaxed);
                    }
                };
                if part == Part::Blocks {
                    self.share_listed(listed, launch.chunk, call);
                } else {
                    self.share_all(launch.blocks, launch.chunk, calls, call);
                }
            }
        }
    }

    /// Takes chunks of blocks until none are left. A call may get several: a kernel that looks at the first
    /// block alone is right as long as chunks are single blocks. And the last may come first: a kernel in which
    /// some blocks wait for others may never end then.
    fn share_all(&self, blocks: i64, chunk: i64, calls: Calls, call: impl Fn(i64, i64)) {
        let n_chunks = blocks / chunk + i64::from(blocks % chunk != 0);
        let mut noise = match calls {
            Calls::Chunks(noise) => u32::from(noise),
            Calls::Chunk | Calls::Whole => 0,
        };
        let is_backwards = noise & 1 == 1;
        loop {
            let taken = match calls {
                Calls::Chunk => 1,
                Calls::Whole => n_chunks.max(1),
                Calls::Chunks(_) => few_chunks(&mut noise),
            };
            let first = self.next.0.fetch_add(taken, Ordering::Relaxed);
            if first >= n_chunks {
                return;
            }
            let last = n_chunks.min(first + taken);
            let (first, last) =
                if is_backwards { (n_chunks - last, n_chunks - first) } else { (first, last) };
            call(first * chunk, blocks.min(last * chunk));
        }
    }

    /// Takes chunks of the listed blocks until none are left; neighbours in a chunk become one call,
    /// as they would in a launch of all blocks.
    fn share_listed(&self, listed: &[AtomicI64], chunk: i64, call: impl Fn(i64, i64)) {
        loop {
            let begin = self.next.0.fetch_add(chunk, Ordering::Relaxed) as usize;
            if begin >= listed.len() {
                return;
            }
            let taken = &listed[begin..listed.len().min(begin + chunk as usize)];
            let mut blocks = taken.iter().map(|block| block.load(Ordering::Relaxed)).peekable();
            while let Some(first) = blocks.next() {
                let mut end = first.saturating_add(1);
                while blocks.next_if_eq(&end).is_some() {
                    end += 1;
                }
                call(first, end);
            }
        }
    }

    /// Waits until every thread is here.
    fn barrier(&self) {
        let turn = acquire(&self.turn.0);
        if self.is_last_to_arrive() {
            self.turn.0.store(turn.wrapping_add(1), Ordering::Release);
        } else {
            spin_until(|| acquire(&self.turn.0) != turn);
        }
    }

    /// Waits until every thread is here, and tells the worker.
    fn finish(&self, control: &Control, number: u32) {
        if self.is_last_to_arrive() {
            control.done.0.store(number, Ordering::Release);
            control.ring();
        } else {
            spin_or_sleep_until(|| acquire(&control.done.0) == number);
        }
    }

    /// Arrives; the last thread prepares the next launch while the others cannot look.
    fn is_last_to_arrive(&self) -> bool {
        let is_last = self.arrived.0.fetch_add(1, Ordering::AcqRel) + 1 == self.cpus.len() as u32;
        if is_last {
            self.arrived.0.store(0, Ordering::Relaxed);
            self.next.0.store(0, Ordering::Relaxed);
            self.page.control().over.0.fetch_add(1, Ordering::Release);
        }
        is_last
    }
}

/// Sleeps until there is a command newer than the finished one; returns its number.
fn next_command(control: &Control, finished: u32) -> u32 {
    loop {
        let armed = acquire(&control.armed.0);
        if armed != finished {
            return armed;
        }
        futex::wait(&control.armed.0, armed, None);
    }
}

/// What a new thread is told.
struct Seat {
    pool: &'static Pool,
    idx: usize,
}

/// Starts a thread on a given stack. The standard library cannot do this, and the worker wants to
/// know where the stacks are, so that it can tell an overflow from another bad address.
fn start_thread(stack: usize, seat: &'static Seat) -> io::Result<()> {
    extern "C" fn thread(seat: *mut c_void) -> *mut c_void {
        // SAFETY: the pointer is the leaked seat that was passed below.
        let seat = unsafe { &*seat.cast_const().cast::<Seat>() };
        seat.pool.serve(seat.idx)
    }
    let code = |result: i32| match result {
        0 => Ok(()),
        errno => Err(io::Error::from_raw_os_error(errno)),
    };
    let argument = std::ptr::from_ref(seat).cast_mut().cast();
    // SAFETY: the attributes are initialised before use; the stack is mapped, writable, used by
    // nobody else, and lasts as long as the process; the argument is leaked.
    unsafe {
        let mut attributes: libc::pthread_attr_t = std::mem::zeroed();
        let mut thread_id: libc::pthread_t = std::mem::zeroed();
        code(libc::pthread_attr_init(&raw mut attributes))?;
        code(libc::pthread_attr_setstack(&raw mut attributes, stack as *mut c_void, STACK_BYTES))?;
        code(libc::pthread_create(&raw mut thread_id, &raw const attributes, thread, argument))
    }
}

/// Draws how many chunks a call gets.
fn few_chunks(noise: &mut u32) -> i64 {
    const MOST_CHUNKS: u32 = 8;
    // The upper bits of a linear congruential generator (Knuth's constants).
    *noise = noise.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
    i64::from(1 + (*noise >> 16) % MOST_CHUNKS)
}
