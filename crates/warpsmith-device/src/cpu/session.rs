//! The worker's side of a session: starting a runner, commanding it, timing it, freezing it.
//!
//! The clock is read here, in a process that the candidate cannot reach, right before the runner's
//! threads are let go and right after the last of them says that it is done. Then the runner is
//! stopped, and only when the kernel confirms that every thread stands still does anybody look at the
//! outputs. A candidate that says `done` too early is therefore caught by what it has not written.
//!
//! Nor does it pay to say `ready` late. A candidate that has taken over a thread could compute what a
//! command asks for before it lets the clock start; but from when the runner is woken until its
//! threads are ready it is given the time that waking takes, and more is charged.

use std::io;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use warpsmith_model::CrashCause;

use super::control::{ControlPage, Part, stage};
use super::crash::{self, Description, Memory};
use super::info;
use super::layout::{Owner, Region};
use super::outputs::Outputs;
use super::plan::{Hello, Plan};
use super::runner::RUNNER_ARGUMENT;
use crate::sys::memory::page_bytes;
use crate::sys::process::{ChildState, OwnedChild, allow_cpu_time};
use crate::sys::userfault::Userfault;
use crate::sys::{futex, socket};
use crate::target::{Clocked, Extent, Fault, LaunchPlan, Session};

/// How long the worker sleeps at most before it looks whether the runner still lives. A runner that
/// crashes says so at once; this is for one that was killed.
const LOOK_EVERY: Duration = Duration::from_millis(20);

/// How long a runner may take from being woken to having all threads ready, uncharged. Waking took 27
/// to 72 µs for the faster three quarters of 2900 commands on two processors that four to six other
/// threads wanted, so medians do not hold any of it. What a busy machine adds is charged to honest
/// candidates too, like every other disturbance; 150 µs were once a seventh of a reading for a
/// candidate that took the threads over and worked meanwhile.
const WAKING: Duration = Duration::from_micros(75);

/// A runner that was started and waits for its plan.
#[derive(Debug)]
pub(crate) struct StartedRunner {
    child: OwnedChild,
    socket: UnixStream,
}

/// Starts a runner: this very executable, or another that serves as one. It shares nothing with this
/// process but a socket, and is a group of its own, so that an interrupt typed at the terminal is not
/// mistaken for a crash of the candidate.
pub(crate) fn start_runner(executable: Option<&Path>) -> io::Result<StartedRunner> {
    let (socket, theirs) = UnixStream::pair()?;
    // The link stays right when the file is replaced while we run.
    let child = Command::new(executable.unwrap_or(Path::new("/proc/self/exe")))
        .arg(RUNNER_ARGUMENT)
        .env_clear()
        .process_group(0)
        .stdin(Stdio::from(OwnedFd::from(theirs)))
        .stdout(Stdio::null())
        .spawn()?;
    Ok(StartedRunner { child: OwnedChild::new(child), socket })
}

impl StartedRunner {
    /// Says whether the runner still waits.
    pub(crate) fn lives(&mut self) -> bool {
        matches!(self.child.poll(), Ok(ChildState::Running))
    }

    /// Tells the runner what to do and hears what it says of itself, before a candidate is loaded.
    pub(crate) fn instruct(
        &mut self,
        plan: &Plan,
        files: &[BorrowedFd<'_>],
        deadline: Duration,
    ) -> io::Result<Hello> {
        self.socket.set_read_timeout(Some(deadline))?;
        self.socket.set_write_timeout(Some(deadline))?;
        socket::send_message(&mut self.socket, plan)?;
        socket::send_descriptors(&self.socket, files)?;
        socket::receive_message(&mut self.socket)
    }

    /// Receives the means to reveal inputs, which follows a runner's answer.
    pub(crate) fn receive_curtain(&mut self) -> io::Result<Userfault> {
        let mut descriptors = socket::receive_descriptors(&self.socket, 1)?;
        descriptors.pop().map(Userfault::from_descriptor).ok_or_else(|| {
            io::Error::new(io::ErrorKind::UnexpectedEof, "the runner sent no descriptor")
        })
    }

    /// Returns in words how the runner ended, for when it said nothing.
    pub(crate) fn describe_end(&mut self) -> String {
        match self.child.poll() {
            Ok(ChildState::Running | ChildState::Stopped) => "the runner does not answer".into(),
            Ok(state) => format!("the runner ended early: {}", crash::explain_state(state)),
            Err(error) => format!("the runner's state is unknown: {error}"),
        }
    }
}

/// The files and facts that a session is made of.
#[derive(Debug)]
pub(crate) struct Parts {
    /// The runner, instructed.
    pub(crate) runner: StartedRunner,
    /// The control page.
    pub(crate) page: ControlPage,
    /// The outputs of all cases, poisoned.
    pub(crate) outputs: Outputs,
    /// What reveals the inputs of a case; absent when they are visible from the beginning.
    pub(crate) curtain: Option<Userfault>,
    /// The arena's first address in the runner.
    pub(crate) arena_start: u64,
    /// How many cases there are.
    pub(crate) n_cases: usize,
    /// The program's launches.
    pub(crate) launches: Vec<LaunchPlan>,
    /// How many threads run it.
    pub(crate) n_threads: u32,
    /// How long a batch may take.
    pub(crate) deadline: Duration,
}

/// A session with a process of its own.
#[derive(Debug)]
pub(crate) struct CpuSession {
    /// Dropped first: the memory below is reused, and nobody may write it then.
    child: OwnedChild,
    page: ControlPage,
    outputs: Outputs,
    curtain: Option<Userfault>,
    /// The cases whose inputs are visible.
    revealed: Vec<bool>,
    /// The first case of the newest batch.
    current_case: usize,
    arena_start: u64,
    n_cases: usize,
    launches: Vec<LaunchPlan>,
    n_threads: u32,
    deadline: Duration,
    /// The number of the newest command.
    number: u32,
    /// Commands until the runner's allowance of processor time must be raised.
    commands_allowed: u32,
    is_frozen: bool,
}

impl CpuSession {
    /// Waits until the candidate is loaded, and freezes it.
    pub(crate) fn begin(parts: Parts) -> Result<Self, Fault> {
        let mut session = Self {
            child: parts.runner.child,
            page: parts.page,
            outputs: parts.outputs,
            revealed: vec![parts.curtain.is_none(); parts.n_cases],
            curtain: parts.curtain,
            current_case: 0,
            arena_start: parts.arena_start,
            n_cases: parts.n_cases,
            launches: parts.launches,
            n_threads: parts.n_threads,
            deadline: parts.deadline,
            number: 0,
            commands_allowed: 0,
            is_frozen: false,
        };
        session.allow_processor_time()?;
        session.wait(Instant::now(), |control| {
            control.stage.load(Ordering::Acquire) != stage::STARTING
        })?;
        let control = session.page.control();
        match control.stage.load(Ordering::Acquire) {
            stage::READY => {}
            // What breaks a runner breaks it before it answers the worker's plan. Whoever says so later
            // may be the candidate, whose constructors have run; it must not end a campaign.
            _ => {
                return Err(Fault::Crashed(CrashCause::NotLoadable { message: control.message() }));
            }
        }
        session.freeze()?;
        Ok(session)
    }

    /// Refuses batches that the session cannot run.
    fn check_batch(&self, cases: &[usize], blocks: &[i64]) -> Result<(), Fault> {
        let all_blocks = self.launches.last().map_or(0, |launch| launch.blocks);
        let message = if let Some(case) = cases.iter().find(|case| **case >= self.n_cases) {
            format!("there is no case {case}")
        } else if let Some(block) = blocks.iter().find(|block| !(0..all_blocks).contains(*block)) {
            format!("there is no block {block}")
        } else if cases.len() + blocks.len() > self.page.words().len() {
            format!("{} cases and {} blocks are too many", cases.len(), blocks.len())
        } else {
            return Ok(());
        };
        let source = io::Error::new(io::ErrorKind::InvalidInput, message);
        Err(Fault::Broken { what: "launching".to_string(), source })
    }

    /// Runs one command and returns what the clock says.
    fn command(&mut self, part: Part, cases: &[usize], blocks: &[i64]) -> Result<Clocked, Fault> {
        if self.commands_allowed == 0 {
            self.allow_processor_time()?;
        }
        self.commands_allowed -= 1;
        let began = Instant::now();
        let control = self.page.control();
        let cases_as_words = cases.iter().map(|case| *case as i64);
        for (word, value) in
            self.page.words().iter().zip(cases_as_words.chain(blocks.iter().copied()))
        {
            word.store(value, Ordering::Relaxed);
        }
        control.part.store(part.code(), Ordering::Relaxed);
        control.n_cases.store(cases.len() as u32, Ordering::Relaxed);
        control.n_blocks.store(blocks.len() as u32, Ordering::Relaxed);
        control.ready.0.store(0, Ordering::Relaxed);
        self.number = self.number.wrapping_add(1).max(1);
        let number = self.number;
        control.armed.0.store(number, Ordering::Release);
        let (clock_woken, ticks_woken) = (Instant::now(), info::ticks());
        self.thaw()?;
        let control = self.page.control();
        futex::wake_all(&control.armed.0);
        // The threads wake, and spin, before the clock starts: waking them is the harness's cost.
        self.wait_for_threads(began)?;
        let (clock_before, ticks_before) = (Instant::now(), info::ticks());
        let waking = clock_before.saturating_duration_since(clock_woken);
        let charged = waking.saturating_sub(WAKING);
        let charged_share = charged.as_secs_f64() / waking.as_secs_f64().max(f64::MIN_POSITIVE);
        let ticks_before = ticks_woken.zip(ticks_before).map(|(woken, ready)| {
            ready - (ready.saturating_sub(woken) as f64 * charged_share) as u64
        });
        self.page.control().go.0.store(number, Ordering::Release);
        let (clock_after, ticks_after) =
            self.wait(began, |control| control.done.0.load(Ordering::Acquire) == number)?;
        let elapsed = clock_after.saturating_duration_since(clock_before) + charged;
        let ticks =
            ticks_before.zip(ticks_after).map(|(before, after)| after.saturating_sub(before));
        Ok(Clocked { elapsed_s: elapsed.as_secs_f64(), ticks, state: None })
    }

    /// Waits until every thread spins. Yields instead of sleeping: this takes microseconds.
    fn wait_for_threads(&mut self, began: Instant) -> Result<(), Fault> {
        for round in 1u32.. {
            let control = self.page.control();
            if control.ready.0.load(Ordering::Acquire) >= self.n_threads {
                break;
            }
            if round % 256 == 0 {
                self.check_alive(began)?;
            }
            std::thread::yield_now();
        }
        Ok(())
    }

    /// Sleeps until the runner has done what is waited for; returns the time at which it was seen.
    ///
    /// Falls asleep before it looks at anything else: when there are as many threads as processors,
    /// one of them can only start when this one sleeps.
    fn wait(
        &mut self,
        began: Instant,
        is_done: impl Fn(&super::control::Control) -> bool,
    ) -> Result<(Instant, Option<u64>), Fault> {
        let mut remaining = self.deadline;
        loop {
            let control = self.page.control();
            let bell = control.bell.0.load(Ordering::Acquire);
            if !is_done(control) {
                futex::wait(&control.bell.0, bell, Some(remaining.min(LOOK_EVERY)));
            }
            let now = (Instant::now(), info::ticks());
            if is_done(self.page.control()) {
                return Ok(now);
            }
            remaining = self.check_alive(began)?;
        }
    }

    /// Returns the time that is left; fails when none is, or when the runner has ended.
    fn check_alive(&mut self, began: Instant) -> Result<Duration, Fault> {
        let is_described = self.page.control().crash_state.load(Ordering::Acquire) == 2;
        if is_described || !matches!(self.poll()?, ChildState::Running | ChildState::Stopped) {
            return Err(Fault::Crashed(self.explain_end()));
        }
        self.look_behind_curtain()?;
        match self.deadline.checked_sub(began.elapsed()) {
            Some(remaining) if !remaining.is_zero() => Ok(remaining),
            _ => {
                self.kill()?;
                Err(Fault::TimedOut { limit_s: self.deadline.as_secs_f64() })
            }
        }
    }

    fn explain_end(&mut self) -> CrashCause {
        let control = self.page.control();
        if control.crash_state.load(Ordering::Acquire) == 2 {
            let description = Description {
                signal: control.crash_signal.load(Ordering::Relaxed) as i32,
                code: control.crash_code.load(Ordering::Relaxed) as i32,
                detail: control.crash_detail.load(Ordering::Relaxed),
            };
            let memory = Memory {
                arena: &self.outputs.arena,
                arena_start: self.arena_start,
                tensors: &self.outputs.tensors,
            };
            return crash::explain_description(description, memory);
        }
        crash::explain_state(self.child.poll().unwrap_or(ChildState::Running))
    }

    /// Lets the runner see the inputs of these cases, from before the clock starts.
    fn reveal(&mut self, cases: &[usize]) -> Result<(), Fault> {
        self.current_case = cases.first().copied().unwrap_or(0);
        let Some(curtain) = &self.curtain else { return Ok(()) };
        for case in cases {
            if std::mem::replace(&mut self.revealed[*case], true) {
                continue;
            }
            for region in &self.outputs.arena.regions {
                if let Owner::Input(of_case, tensor) = region.owner
                    && of_case == *case
                {
                    let start = self.arena_start + region.at as u64;
                    let revealed = curtain.reveal(start, region.block.mapped_bytes as u64);
                    if let Err(error) = revealed {
                        return Err(self.explain_no_reveal(tensor, error));
                    }
                }
            }
        }
        Ok(())
    }

    /// Returns what it means that an input cannot be made visible: the runner has ended, or the candidate
    /// has put something else, or nothing, in the input's place. All else is our own failure.
    fn explain_no_reveal(&mut self, tensor: usize, error: io::Error) -> Fault {
        if !matches!(self.child.poll(), Ok(ChildState::Running | ChildState::Stopped)) {
            return Fault::Crashed(self.explain_end());
        }
        match error.raw_os_error() {
            Some(libc::ENOENT | libc::EINVAL | libc::EEXIST | libc::EFAULT) => {
                let tensor = &self.outputs.tensors[tensor].name;
                let syscall = format!("munmap or mmap on the input `{tensor}`");
                Fault::Crashed(CrashCause::Forbidden { syscall })
            }
            _ => broken("revealing inputs")(error),
        }
    }

    /// Looks whether a thread of the runner waits for a hidden page. One that belongs to another case
    /// is out of bounds for the launch that touched it. One of the current case was visible and has
    /// been taken away by the kernel, short of memory: it is made visible again.
    fn look_behind_curtain(&mut self) -> Result<(), Fault> {
        let Some(curtain) = &self.curtain else { return Ok(()) };
        let looking = broken("looking after hidden inputs");
        while let Some(address) = curtain.next_fault().map_err(&looking)? {
            let at = address.saturating_sub(self.arena_start) as usize;
            let regions = &self.outputs.arena.regions;
            let touched = regions.iter().find_map(|region| match region.owner {
                Owner::Input(case, tensor)
                    if (region.at..region.at + region.block.mapped_bytes).contains(&at) =>
                {
                    Some((case, tensor))
                }
                _ => None,
            });
            let Some((case, tensor)) = touched else { continue };
            if self.revealed[case] {
                let page = page_bytes() as u64;
                if let Err(error) = curtain.reveal(address - address % page, page) {
                    return Err(self.explain_no_reveal(tensor, error));
                }
                continue;
            }
            let own = Owner::Input(self.current_case, tensor);
            let own_start = regions.iter().find(|region| region.owner == own);
            let offset = at as i64 - own_start.map_or(0, Region::content_at) as i64;
            let tensor = self.outputs.tensors[tensor].name.clone();
            self.kill()?;
            return Err(Fault::Crashed(CrashCause::OutOfBounds { tensor, offset }));
        }
        Ok(())
    }

    /// Stops every thread of the runner and waits until they stand.
    fn freeze(&mut self) -> Result<(), Fault> {
        self.signal(libc::SIGSTOP)?;
        match self.child.wait_for_stop().map_err(broken("freezing a runner"))? {
            ChildState::Stopped => {
                self.is_frozen = true;
                Ok(())
            }
            _ => Err(Fault::Crashed(self.explain_end())),
        }
    }

    fn thaw(&mut self) -> Result<(), Fault> {
        if self.is_frozen {
            self.signal(libc::SIGCONT)?;
            self.is_frozen = false;
        }
        Ok(())
    }

    /// Raises the kernel's own limit on the runner's processor time, which holds even if this process
    /// is stopped, to what the next commands may take.
    fn allow_processor_time(&mut self) -> Result<(), Fault> {
        const COMMANDS: u32 = 16;
        self.commands_allowed = COMMANDS;
        let commands = self.number.saturating_add(COMMANDS);
        let per_command_s = self.deadline.as_secs_f64() * f64::from(self.n_threads);
        let seconds = 5.0 + per_command_s * f64::from(commands);
        allow_cpu_time(self.child.pid(), seconds.ceil() as u64)
            .map_err(broken("limiting a runner's processor time"))
    }

    fn poll(&mut self) -> Result<ChildState, Fault> {
        self.child.poll().map_err(broken("looking after a runner"))
    }

    fn kill(&mut self) -> Result<(), Fault> {
        self.child.kill().map_err(broken("ending a runner"))
    }

    fn signal(&self, signal: libc::c_int) -> Result<(), Fault> {
        self.child.signal(signal).map_err(broken("signalling a runner"))
    }
}

impl Session for CpuSession {
    fn launch(&mut self, cases: &[usize], extent: &Extent) -> Result<Clocked, Fault> {
        let blocks: &[i64] = match extent {
            // Every reading has the cycle counter's beside it.
            Extent::All | Extent::Counted => &[],
            Extent::Blocks(blocks) => blocks,
        };
        self.check_batch(cases, blocks)?;
        self.reveal(cases)?;
        let clocked = match extent {
            Extent::All | Extent::Counted => self.command(Part::All, cases, &[])?,
            Extent::Blocks(_) if self.launches.len() < 2 => {
                self.command(Part::Blocks, cases, blocks)?
            }
            // Case by case, because the cases share the scratch buffers that the earlier launches
            // fill for the last one.
            Extent::Blocks(_) => {
                let ticks = info::ticks().map(|_| 0);
                let mut sum = Clocked { elapsed_s: 0.0, ticks, state: None };
                for case in cases.chunks(1) {
                    self.command(Part::Prologue, case, &[])?;
                    let clocked = self.command(Part::Blocks, case, blocks)?;
                    sum.elapsed_s += clocked.elapsed_s;
                    sum.ticks = sum.ticks.zip(clocked.ticks).map(|(sum, ticks)| sum + ticks);
                }
                sum
            }
        };
        self.freeze()?;
        Ok(clocked)
    }

    fn output(&self, case: usize, tensor: usize) -> &[u8] {
        // Nobody writes meanwhile: the runner is frozen or dead whenever `launch` has returned.
        self.outputs.tensor(case, tensor)
    }

    fn overwritten_guard(&self, case: usize) -> Option<usize> {
        self.outputs.overwritten_guard(case)
    }

    fn poison(&mut self, case: usize) {
        self.outputs.poison(case);
    }
}

/// Names what was being done when an error came.
fn broken(doing: &'static str) -> impl Fn(io::Error) -> Fault {
    move |source| Fault::Broken { what: doing.to_string(), source }
}
