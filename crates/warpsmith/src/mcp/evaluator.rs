//! The one thread that measures.
//!
//! Jobs wait in line, since two measurements would disturb each other. A job that is not wanted any
//! more is stopped by killing what it started (worker, candidate, compiler): the thread then finds
//! its question unanswered, gives up, and takes the next job.

use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow};
use tokio::sync::{mpsc, oneshot};

use super::answers::Reply;
use super::catalog::Catalog;
use super::session::McpSession;
use crate::interrupt::{Interrupt, Interrupted};
use crate::output::say;
use crate::project::Project;

/// What a job does with the session; it says what it is doing to `Watch`.
pub type Work = Box<dyn FnOnce(&mut McpSession, &Watch) -> Result<Reply> + Send>;

/// How often what a stopped job started is looked for again: it may have been starting something.
const KILL_EVERY: Duration = Duration::from_millis(50);
/// Jobs that may wait: an agent that hands in more has lost count.
const MAX_WAITING: usize = 16;
/// How long the end of a session may take; recording it takes milliseconds.
const LONGEST_END: Duration = Duration::from_secs(10);

/// Where a job says what it is doing now.
#[derive(Debug)]
pub struct Watch(mpsc::UnboundedSender<String>);

impl Watch {
    /// Says what is being done.
    pub fn say(&self, words: impl Into<String>) {
        // Nobody may be listening any more.
        let _gone = self.0.send(words.into());
    }
}

/// A job that was handed in.
#[derive(Debug)]
pub struct Ticket {
    number: u64,
    /// What it is doing, in words.
    pub steps: mpsc::UnboundedReceiver<String>,
    /// What came of it.
    pub done: oneshot::Receiver<Result<Reply>>,
}

/// The thread and its line.
#[derive(Debug)]
pub struct Evaluator {
    shared: Arc<Shared>,
    thread: Mutex<Option<JoinHandle<()>>>,
}

#[derive(Debug)]
struct Shared {
    line: Mutex<WaitingQueue>,
    changed: Condvar,
    interrupt: Interrupt,
}

#[derive(Default)]
struct WaitingQueue {
    waiting: VecDeque<Job>,
    running: Option<u64>,
    handed_in: u64,
    is_stopped: bool,
    has_ended: bool,
}

impl std::fmt::Debug for WaitingQueue {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("WaitingQueue")
            .field("waiting", &self.waiting.len())
            .field("running", &self.running)
            .finish_non_exhaustive()
    }
}

struct Job {
    number: u64,
    work: Work,
    watch: Watch,
    done: oneshot::Sender<Result<Reply>>,
}

impl Evaluator {
    /// Starts the thread. It lives as long as the server: a worker dies with the thread that started it.
    pub fn start(project: &Project, catalog: &Catalog) -> Result<Self> {
        let interrupt = Interrupt::at_once();
        let shared = Arc::new(Shared {
            line: Mutex::default(),
            changed: Condvar::new(),
            interrupt: interrupt.clone(),
        });
        let session = McpSession::new(project, catalog, interrupt);
        let thread = std::thread::Builder::new()
            .name("evaluator".to_string())
            .spawn({
                let shared = Arc::clone(&shared);
                move || work_through(&shared, session)
            })
            .context("cannot start the thread that evaluates")?;
        Ok(Self { shared, thread: Mutex::new(Some(thread)) })
    }

    /// Puts a job at the end of the line.
    pub fn hand_in(&self, work: Work) -> Ticket {
        let (watch, steps) = mpsc::unbounded_channel();
        let (done, answer) = oneshot::channel();
        let mut line = self.shared.line();
        line.handed_in += 1;
        let number = line.handed_in;
        let job = Job { number, work, watch: Watch(watch), done };
        let ahead = line.waiting.len() + usize::from(line.running.is_some());
        if ahead > 0 {
            job.watch.say(format!("waiting: {ahead} evaluation(s) are before this one"));
        }
        if line.is_stopped {
            job.give_up();
        } else if line.waiting.len() >= MAX_WAITING {
            let _gone = job.done.send(Err(anyhow!(
                "{MAX_WAITING} evaluations wait already\nhint: wait for their answers, or cancel some"
            )));
        } else {
            line.waiting.push_back(job);
        }
        drop(line);
        self.shared.changed.notify_all();
        Ticket { number, steps, done: answer }
    }

    /// Stops a job, whether it waits or runs. Called again and again until the job has said that it is
    /// done, it also stops what the job was just starting.
    pub fn cancel(&self, ticket: &Ticket) {
        let mut line = self.shared.line();
        if let Some(place) = line.waiting.iter().position(|job| job.number == ticket.number) {
            if let Some(job) = line.waiting.remove(place) {
                job.give_up();
            }
        } else if line.running == Some(ticket.number) {
            // Under the lock, so that the next job cannot begin in between and be the one that is hit.
            self.shared.interrupt.ask();
            warpsmith_device::kill_children();
        }
    }

    /// Stops everything and takes no more jobs; does not wait.
    pub fn stop(&self) {
        let mut line = self.shared.line();
        line.is_stopped = true;
        line.waiting.drain(..).for_each(Job::give_up);
        if line.running.is_some() {
            self.shared.interrupt.ask();
            warpsmith_device::kill_children();
        }
        drop(line);
        self.shared.changed.notify_all();
    }

    /// Waits until the thread has closed its session, but not for ever: the agent is gone. Only after
    /// [`Evaluator::stop`].
    pub fn wait(&self) {
        let started = Instant::now();
        while !self.shared.line().has_ended {
            if started.elapsed() > LONGEST_END {
                say("what was running does not end; every trial that was answered is recorded");
                return;
            }
            self.stop();
            std::thread::sleep(KILL_EVERY);
        }
        let thread = self.thread.lock().unwrap_or_else(PoisonError::into_inner).take();
        if thread.is_some_and(|thread| thread.join().is_err()) {
            say("the thread that evaluates ended in a panic; everything that was recorded is kept");
        }
    }
}

impl Job {
    fn give_up(self) {
        // Whoever handed it in may be gone.
        let _gone = self.done.send(Err(Interrupted.into()));
    }
}

impl Shared {
    fn line(&self) -> MutexGuard<'_, WaitingQueue> {
        self.line.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits for a job; none when there will be no more.
    fn next(&self) -> Option<Job> {
        let wait = |line: &mut WaitingQueue| line.waiting.is_empty() && !line.is_stopped;
        let waited = self.changed.wait_while(self.line(), wait);
        let mut line = waited.unwrap_or_else(PoisonError::into_inner);
        let job = line.waiting.pop_front()?;
        self.interrupt.clear();
        line.running = Some(job.number);
        Some(job)
    }
}

fn work_through(shared: &Shared, mut session: McpSession) {
    while let Some(Job { number: _, work, watch, done }) = shared.next() {
        let outcome = catch_unwind(AssertUnwindSafe(|| work(&mut session, &watch)));
        shared.line().running = None;
        let outcome = outcome.unwrap_or_else(|_| {
            session.forget();
            Err(anyhow!("this is a defect of warpsmith: the evaluation ended in a panic"))
        });
        let _gone = done.send(outcome);
    }
    // Nothing is killed any more: the run's end is recorded in peace.
    shared.line().running = None;
    session.close();
    shared.line().has_ended = true;
}
