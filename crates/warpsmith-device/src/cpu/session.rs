//! The worker's side of a session: starting a runner, commanding it, timing it, freezing it.
//!
//! The clock is read here, in a process that the candidate cannot reach: from when the runner is woken,
//! frozen as it was, until the kernel confirms that every thread of it stands still again. A candidate
//! that has taken over a thread could say `ready` late and `done` early, and work before and after; all
//! of that is on the clock. What waking and stopping cost by themselves is measured beside every
//! reading, with a runner that has no candidate ([`Idle`](super::idle::Idle)), and taken off.
//!
//! Only when the runner stands still does anybody look at the outputs, so a candidate that says `done`
//! too early is also caught by what it has not written. Some readings are *cut*: the runner is stopped in the
//! middle of its launches, and those that are over must have left their answers. A candidate finds on the
//! control page how many launches a reading has, and could leave the work of all to the last.

use std::io;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use warpsmith_model::CrashCause;
use warpsmith_model::lab::Role;
use warpsmith_model::rng::Rng;

use super::control::{Control, ControlPage, Part, calls_code, pack_slots, stage};
use super::crash::{self, Description, Memory};
use super::idle::SharedIdle;
use super::info;
use super::inputs::Inputs;
use super::outputs::Outputs;
use super::plan::{Hello, RunnerPlan};
use super::poison::{self, Poison};
use super::runner::RUNNER_ARGUMENT;
use super::waiting::Waiting;
use crate::sys::process::{ChildState, OwnedChild, allow_cpu_time};
use crate::sys::{futex, socket};
use crate::system_seed;
use crate::target::{Clocked, Conditions, Extent, Fault, LaunchPlan, Session};

/// How long the worker sleeps at most before it looks whether the runner still lives. A runner that
/// crashes says so at once; this is for one that was killed.
const LOOK_EVERY: Duration = Duration::from_millis(20);

/// How long a runner may take to stand still after it said that it was done. It takes some ten
/// microseconds, and milliseconds on a busy machine; all of it is on the clock.
const STOP_DEADLINE: Duration = Duration::from_secs(2);

/// At least this part of what the clock showed is charged, however much the harness itself cost: a reading
/// that is mostly harness says little, and must not say "no time".
const LEAST_PART: u64 = 4;

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
        plan: &RunnerPlan,
        files: &[BorrowedFd<'_>],
        deadline: Duration,
    ) -> io::Result<Hello> {
        self.socket.set_read_timeout(Some(deadline))?;
        self.socket.set_write_timeout(Some(deadline))?;
        socket::send_message(&mut self.socket, plan)?;
        socket::send_descriptors(&self.socket, files)?;
        socket::receive_message(&mut self.socket)
    }

    /// Returns why the runner ended, where somebody killed it; waits a moment for its end.
    pub(crate) fn killed(&mut self) -> Option<CrashCause> {
        const MOMENT: Duration = Duration::from_millis(200);
        let state = self.child.wait_for_stop(MOMENT).ok()?;
        Some(crash::explain_state(state)).filter(CrashCause::is_from_outside)
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
    /// The slots for outputs, and scratch.
    pub(crate) outputs: Outputs,
    /// The inputs of all cases, with the slots that the runner sees; none without a program.
    pub(crate) inputs: Option<Inputs>,
    /// The arena's first address in the runner.
    pub(crate) arena_start: u64,
    /// How many cases there are.
    pub(crate) n_cases: usize,
    /// How many of them can be launched together.
    pub(crate) n_slots: usize,
    /// The program's launches.
    pub(crate) launches: Vec<LaunchPlan>,
    /// How many threads run it.
    pub(crate) n_threads: u32,
    /// How long a batch may take.
    pub(crate) deadline: Duration,
    /// What the harness itself costs; none for the runner that it is measured with.
    pub(crate) idle: Option<SharedIdle>,
}

/// A session with a process of its own.
#[derive(Debug)]
pub(crate) struct CpuSession {
    /// Dropped first: the memory below is reused, and nobody may write it then.
    child: OwnedChild,
    page: ControlPage,
    outputs: Outputs,
    inputs: Option<Inputs>,
    /// Chooses what memory holds before a launch.
    rng: Rng,
    arena_start: u64,
    n_cases: usize,
    n_slots: usize,
    launches: Vec<LaunchPlan>,
    n_threads: u32,
    deadline: Duration,
    /// The number of the newest command.
    number: u32,
    /// Commands until the runner's allowance of processor time must be raised.
    commands_allowed: u32,
    is_frozen: bool,
    idle: Option<SharedIdle>,
    waiting: Waiting,
    /// What the next launch finds.
    conditions: Conditions,
    /// About how long a launch takes, as the newest reading had it.
    launch_s: Option<f64>,
    /// Whether the runner was stopped in the middle of the newest command.
    is_cut: bool,
}

/// From when a runner was woken to when it stood still again.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Span {
    /// Seconds.
    pub(crate) seconds: f64,
    /// Ticks of the cycle counter, where there is one.
    pub(crate) ticks: Option<u64>,
    /// Seconds that one of its threads waited for a processor meanwhile.
    pub(crate) waited_s: f64,
}

impl CpuSession {
    /// Waits until the candidate is loaded, and freezes it.
    pub(crate) fn begin(parts: Parts) -> Result<Self, Fault> {
        let waiting = Waiting::of(parts.runner.child.pid());
        let mut session = Self {
            waiting,
            child: parts.runner.child,
            page: parts.page,
            outputs: parts.outputs,
            inputs: parts.inputs,
            rng: Rng::new(system_seed()),
            arena_start: parts.arena_start,
            n_cases: parts.n_cases,
            n_slots: parts.n_slots,
            launches: parts.launches,
            n_threads: parts.n_threads,
            deadline: parts.deadline,
            number: 0,
            commands_allowed: 0,
            is_frozen: false,
            idle: parts.idle,
            conditions: Conditions::default(),
            launch_s: None,
            is_cut: false,
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
        // All of its threads are there now.
        session.waiting = Waiting::of(session.child.pid());
        Ok(session)
    }

    /// Refuses batches that the session cannot run.
    fn check_batch(&self, cases: &[usize], blocks: &[i64]) -> Result<(), Fault> {
        let all_blocks = self.launches.last().map_or(0, |launch| launch.blocks);
        let message = if let Some(case) = cases.iter().find(|case| **case >= self.n_cases) {
            format!("there is no case {case}")
        } else if let Some(block) = blocks.iter().find(|block| !(0..all_blocks).contains(*block)) {
            format!("there is no block {block}")
        } else if distinct(cases).len() > self.n_slots {
            format!("the session launches no more than {} cases together", self.n_slots)
        } else if cases.len() + blocks.len() > self.page.words().len() {
            format!("{} cases and {} blocks are too many", cases.len(), blocks.len())
        } else {
            return Ok(());
        };
        let source = io::Error::new(io::ErrorKind::InvalidInput, message);
        Err(Fault::Broken { what: "launching".to_string(), source })
    }

    /// Runs one command on cases, each as the slots of its inputs and outputs; freezes the runner, and
    /// returns how long both took.
    pub(crate) fn command(
        &mut self,
        part: Part,
        cases: &[(usize, usize)],
        blocks: &[i64],
    ) -> Result<Span, Fault> {
        self.command_for(part, cases, blocks, None)
    }

    /// The same, but stops the runner after so long where it is not done before.
    fn command_for(
        &mut self,
        part: Part,
        cases: &[(usize, usize)],
        blocks: &[i64],
        most: Option<Duration>,
    ) -> Result<Span, Fault> {
        if self.commands_allowed == 0 {
            self.allow_processor_time()?;
        }
        self.commands_allowed -= 1;
        let began = Instant::now();
        let control = self.page.control();
        let cases_as_words = cases.iter().map(|(inputs, outputs)| pack_slots(*inputs, *outputs));
        for (word, value) in
            self.page.words().iter().zip(cases_as_words.chain(blocks.iter().copied()))
        {
            word.store(value, Ordering::Relaxed);
        }
        control.part.store(part.code(), Ordering::Relaxed);
        control.n_cases.store(cases.len() as u32, Ordering::Relaxed);
        control.n_blocks.store(blocks.len() as u32, Ordering::Relaxed);
        control.calls.store(calls_code(self.conditions.calls), Ordering::Relaxed);
        control.ready.0.store(0, Ordering::Relaxed);
        control.over.0.store(0, Ordering::Relaxed);
        self.number = self.number.wrapping_add(1).max(1);
        let number = self.number;
        control.armed.0.store(number, Ordering::Release);
        self.waiting.since_last();
        let (clock_before, ticks_before) = (Instant::now(), info::ticks());
        self.thaw()?;
        let control = self.page.control();
        futex::wake_all(&control.armed.0);
        // All threads are awake before any of them begins, so that none works alone for a while.
        self.wait_for_threads(began)?;
        self.page.control().go.0.store(number, Ordering::Release);
        match most {
            None => self.wait(began, |control| is_done(control, number))?,
            Some(most) => self.is_cut = !self.is_done_within(most, number)?,
        }
        self.freeze()?;
        let (clock_after, ticks_after) = (Instant::now(), info::ticks());
        let ticks =
            ticks_before.zip(ticks_after).map(|(before, after)| after.saturating_sub(before));
        let (seconds, waited_s) =
            ((clock_after - clock_before).as_secs_f64(), self.waiting.since_last());
        Ok(Span { seconds, ticks, waited_s })
    }

    /// Sleeps until the runner has finished a command, or for so long; says whether it has.
    fn is_done_within(&mut self, most: Duration, number: u32) -> Result<bool, Fault> {
        let began = Instant::now();
        loop {
            let control = self.page.control();
            let bell = control.bell.0.load(Ordering::Acquire);
            let left = most.saturating_sub(began.elapsed());
            if is_done(control, number) || left.is_zero() {
                return Ok(is_done(control, number));
            }
            futex::wait(&control.bell.0, bell, Some(left.min(LOOK_EVERY)));
            self.check_alive(began)?;
        }
    }

    /// Takes off what the harness itself cost of some commands.
    fn charge(&self, span: Span, commands: u32) -> Clocked {
        let own = self.idle.as_ref().and_then(|idle| idle.borrow().least()).unwrap_or_default();
        let seconds = span.seconds - own.seconds * f64::from(commands);
        let least_s = span.seconds / LEAST_PART as f64;
        let own_ticks = own.ticks.unwrap_or(0) * u64::from(commands);
        let ticks = span.ticks.map(|all| all.saturating_sub(own_ticks).max(all / LEAST_PART));
        let waited_s = span.waited_s - own.waited_s * f64::from(commands);
        Clocked { elapsed_s: seconds.max(least_s), ticks, waited_s: waited_s.max(0.0), state: None }
    }

    /// Measures once more what the harness itself costs, under the conditions of the next reading.
    fn measure_idle(&self) -> Result<(), Fault> {
        self.idle.as_ref().map_or(Ok(()), |idle| idle.borrow_mut().measure())
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

    /// Sleeps until the runner has done what is waited for.
    ///
    /// Falls asleep before it looks at anything else: when there are as many threads as processors,
    /// one of them can only start when this one sleeps.
    fn wait(&mut self, began: Instant, is_over: impl Fn(&Control) -> bool) -> Result<(), Fault> {
        let mut remaining = self.deadline;
        loop {
            let control = self.page.control();
            let bell = control.bell.0.load(Ordering::Acquire);
            if !is_over(control) {
                futex::wait(&control.bell.0, bell, Some(remaining.min(LOOK_EVERY)));
            }
            if is_over(self.page.control()) {
                return Ok(());
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

    /// Puts inputs into slots, poisons outputs and fills scratch, so that these cases, whose outputs have
    /// slots, can be launched; returns the slots of each one's inputs and outputs.
    fn prepare(&mut self, cases: &[usize]) -> Vec<(usize, usize)> {
        let distinct = distinct(cases);
        self.outputs.prepare(&distinct, self.conditions.keeps_scratch, &mut self.rng);
        if let Some(inputs) = &mut self.inputs {
            inputs.fill(&distinct, poison::drawn_slack(&mut self.rng));
        }
        let input_slot = |case: &usize| distinct.iter().position(|known| known == case);
        let slots = |case: &usize| Some((input_slot(case)?, self.outputs.slot(*case)?));
        cases.iter().filter_map(slots).collect()
    }

    /// Looks at what a launch may not touch, where nothing stops it from doing so at once.
    fn inspect(&mut self, cases: &[usize]) -> Result<(), Fault> {
        if let Some((idx, offset)) = self.outputs.overrun_scratch() {
            let tensor = format!("scratch {idx}");
            return Err(Fault::Crashed(CrashCause::OutOfBounds { tensor, offset }));
        }
        if let Some((_, input)) =
            self.inputs.as_ref().and_then(|inputs| inputs.changed(&distinct(cases)))
        {
            let mut inputs = self.outputs.tensors.iter().filter(|it| it.role == Role::Input);
            let tensor = inputs.nth(input).map_or_else(String::new, |tensor| tensor.name.clone());
            return Err(Fault::Crashed(CrashCause::WroteInput { tensor }));
        }
        if self.page.control().unrestored.load(Ordering::Acquire) != 0 {
            return Err(Fault::Crashed(CrashCause::FloatingPoint));
        }
        Ok(())
    }

    /// Stops every thread of the runner and waits until they stand. One that does not is killed.
    fn freeze(&mut self) -> Result<(), Fault> {
        self.signal(libc::SIGSTOP)?;
        let stopped = self.child.wait_for_stop(STOP_DEADLINE);
        match stopped.map_err(broken("freezing a runner"))? {
            ChildState::Stopped => {
                self.is_frozen = true;
                Ok(())
            }
            ChildState::Running => {
                self.kill()?;
                let limit_s = STOP_DEADLINE.as_secs_f64();
                Err(Fault::Crashed(CrashCause::Restless { limit_s }))
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
        match allow_cpu_time(self.child.pid(), seconds.ceil() as u64) {
            // The runner is another user's, and this process may change its own user's limits alone. Then
            // the runner's own, wider limit has to do.
            Err(error) if error.raw_os_error() == Some(libc::EPERM) => {
                self.commands_allowed = u32::MAX;
                Ok(())
            }
            limited => limited.map_err(broken("limiting a runner's processor time")),
        }
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
        self.end_reading()?;
        // Case by case where only a part of the last launch is wanted, because the cases share the scratch
        // buffers that the earlier launches fill for it.
        let together = match extent {
            Extent::All | Extent::Counted => cases.len().max(1),
            Extent::Blocks(_) if self.launches.len() < 2 => cases.len().max(1),
            Extent::Blocks(_) => 1,
        };
        let mut sum = Span { seconds: 0.0, ticks: info::ticks().map(|_| 0), waited_s: 0.0 };
        let mut commands = 0;
        self.outputs.place(&distinct(cases));
        for cases in cases.chunks(together) {
            let placed = self.prepare(cases);
            self.measure_idle()?;
            let span = match extent {
                Extent::All | Extent::Counted => self.command(Part::All, &placed, &[])?,
                Extent::Blocks(_) => {
                    if self.launches.len() > 1 {
                        self.command(Part::Prologue, &placed, &[])?;
                    }
                    self.command(Part::Blocks, &placed, blocks)?
                }
            };
            self.inspect(cases)?;
            sum.seconds += span.seconds;
            sum.waited_s += span.waited_s;
            sum.ticks = sum.ticks.zip(span.ticks).map(|(sum, ticks)| sum + ticks);
            commands += 1;
        }
        self.conditions = Conditions::default();
        let clocked = self.charge(sum, commands);
        if *extent == Extent::All {
            self.launch_s = Some(clocked.elapsed_s / cases.len().max(1) as f64);
        }
        Ok(clocked)
    }

    fn launch_until(
        &mut self,
        cases: &[usize],
        launches: usize,
    ) -> Result<(Clocked, usize), Fault> {
        let Some(launch_s) = self.launch_s else {
            return self.launch(cases, &Extent::All).map(|clocked| (clocked, cases.len()));
        };
        self.check_batch(cases, &[])?;
        self.end_reading()?;
        self.outputs.place(&distinct(cases));
        let placed = self.prepare(cases);
        self.measure_idle()?;
        let most = Duration::from_secs_f64(launch_s * launches as f64);
        let span = self.command_for(Part::All, &placed, &[], Some(most))?;
        self.inspect(cases)?;
        self.conditions = Conditions::default();
        let over = self.page.control().over.0.load(Ordering::Acquire) as usize;
        let cases_over = (over / self.launches.len().max(1)).min(cases.len());
        Ok((self.charge(span, 1), cases_over))
    }

    fn cuts_readings(&self) -> bool {
        true
    }

    fn end_reading(&mut self) -> Result<(), Fault> {
        if !std::mem::take(&mut self.is_cut) {
            return Ok(());
        }
        let number = self.number;
        self.thaw()?;
        self.wait(Instant::now(), |control| is_done(control, number))?;
        self.freeze()
    }

    fn launches_together(&self) -> usize {
        self.n_slots
    }

    fn level(&mut self, cases: &[usize]) {
        for case in cases {
            let poison = Poison::any(&mut self.rng);
            self.outputs.poison(*case, poison);
        }
    }

    fn next_launch(&mut self, conditions: Conditions) {
        self.conditions = conditions;
    }

    fn output(&self, case: usize, tensor: usize) -> &[u8] {
        // Nobody writes meanwhile: the runner is frozen or dead whenever `launch` has returned.
        self.outputs.tensor(case, tensor)
    }

    fn overwritten_guard(&self, case: usize) -> Option<usize> {
        self.outputs.overwritten_guard(case)
    }

    fn poison(&mut self, case: usize, poison: Poison) {
        self.outputs.poison(case, poison);
    }
}

fn is_done(control: &Control, number: u32) -> bool {
    control.done.0.load(Ordering::Acquire) == number
}

/// Returns each case once, in the order in which they come.
fn distinct(cases: &[usize]) -> Vec<usize> {
    let mut distinct: Vec<usize> = Vec::new();
    for case in cases {
        if !distinct.contains(case) {
            distinct.push(*case);
        }
    }
    distinct
}

/// Names what was being done when an error came.
fn broken(doing: &'static str) -> impl Fn(io::Error) -> Fault {
    move |source| Fault::Broken { what: doing.to_string(), source }
}
