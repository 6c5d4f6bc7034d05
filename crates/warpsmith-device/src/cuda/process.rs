//! The process that owns the device, seen from the worker: start it, ask it, replace it.

use std::ffi::OsString;
use std::io::{self, Write};
use std::net::Shutdown;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use warpsmith_model::CrashCause;

use super::wire::{Ask, FailureKind, Reply};
use super::{DEVICE_ARGUMENT, FINISH_LOOK, PATIENCE, broken, module_of, session_plan};
use crate::sys::memory::{Mapping, MemoryFile};
use crate::sys::process;
use crate::sys::socket::{receive_message, send_descriptors, send_message};
use crate::target::{CaseId, Fault, Program};

/// The process that owns the device, and its successors.
#[derive(Debug)]
pub(super) struct DeviceProcess {
    pub(super) exe: Option<PathBuf>,
    /// A program, with its arguments, that runs the process and watches it; empty for none.
    pub(super) watcher: Vec<OsString>,
    pub(super) running: Option<Running>,
    /// Counts the processes: what one of them held, the next one does not.
    pub(super) number: u64,
}

#[derive(Debug)]
pub(super) struct Running {
    child: Child,
    socket: UnixStream,
    /// Shared memory that no session uses at the moment; its pages are there already.
    idle: Vec<Window>,
    /// Counts what was ever shared.
    n_windows: u64,
}

/// Memory that the device process puts outputs into.
#[derive(Debug)]
pub(super) struct Window {
    pub(super) number: u64,
    pub(super) bytes: usize,
    mapping: Mapping,
}

impl Window {
    /// Returns what the process put there.
    pub(super) fn content(&self) -> &[u8] {
        // SAFETY: the mapping is readable, and the process writes only while a fetch is asked for, which
        // takes the session that owns this window exclusively.
        unsafe { self.mapping.content() }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // A watcher does not take along what it watches.
        process::kill_descendants(self.child.id() as i32);
        // Both fail only for a process that has ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl DeviceProcess {
    /// Makes sure that a process runs; returns its number.
    pub(super) fn alive(&mut self) -> Result<u64, Fault> {
        if self.running.is_none() {
            let starting = broken("starting the device process");
            let (socket, theirs) = UnixStream::pair().map_err(&starting)?;
            let child = self
                .command()?
                .arg(DEVICE_ARGUMENT)
                .stdin(Stdio::from(OwnedFd::from(theirs)))
                .stdout(Stdio::null())
                .spawn()
                .map_err(&starting)?;
            self.number += 1;
            self.running = Some(Running { child, socket, idle: Vec::new(), n_windows: 0 });
        }
        Ok(self.number)
    }

    /// The command that starts the process, alone or under its watcher.
    pub(super) fn command(&self) -> Result<Command, Fault> {
        let own = Path::new("/proc/self/exe");
        let exe = self.exe.as_deref().unwrap_or(own);
        let Some((watcher, arguments)) = self.watcher.split_first() else {
            return Ok(Command::new(exe));
        };
        // To the watcher, the link would be the watcher itself.
        let exe = exe.canonicalize().map_err(broken("finding this program's file"))?;
        let mut command = Command::new(watcher);
        command.args(arguments).arg(exe);
        Ok(command)
    }

    /// Takes in the inputs of a case.
    pub(super) fn stage(
        &mut self,
        case: usize,
        contents: &[Vec<u8>],
        judged: bool,
    ) -> Result<(), Fault> {
        let sizes = contents.iter().map(Vec::len).collect();
        let payload: Vec<&[u8]> = contents.iter().map(Vec::as_slice).collect();
        self.ask(&Ask::Stage { case, sizes, judged }, &payload, PATIENCE)?;
        Ok(())
    }

    /// Returns memory of at least this size that is shared with the process; what was given back before,
    /// if it is large enough.
    pub(super) fn window(&mut self, bytes: usize) -> Result<Window, Fault> {
        self.alive()?;
        let sharing = broken("sharing memory with the device process");
        let running = self.running.as_mut();
        let running = running.ok_or_else(|| sharing(io::Error::other("no process")))?;
        if let Some(idx) = running.idle.iter().position(|window| window.bytes >= bytes) {
            return Ok(running.idle.swap_remove(idx));
        }
        // What is too small now was for smaller outputs, which are over or fit into this one.
        let too_small = std::mem::take(&mut running.idle);
        let number = running.n_windows;
        running.n_windows += 1;
        for window in too_small {
            self.ask(&Ask::Unshare { window: window.number }, &[], PATIENCE)?;
        }
        let file = MemoryFile::create(c"warpsmith outputs", bytes).map_err(&sharing)?;
        let mapping = Mapping::shared(file.as_fd(), bytes).map_err(&sharing)?;
        self.ask_sharing(&Ask::Share { window: number, bytes }, file.as_fd())?;
        Ok(Window { number, bytes, mapping })
    }

    /// Takes memory back, for the next session.
    pub(super) fn give_back(&mut self, window: Window) {
        if let Some(running) = &mut self.running {
            running.idle.push(window);
        }
    }

    /// Runs a program once on a case, without a clock, and forgets both.
    pub(super) fn run_once(
        &mut self,
        program: &Program,
        case: CaseId,
        contents: &[Vec<u8>],
        deadline: Duration,
    ) -> Result<(), Fault> {
        let module = module_of(program)?;
        self.stage(case.0, contents, false)?;
        let session = 0;
        let plan = Box::new(session_plan(program, &[case], module.len()));
        self.ask(&Ask::Open { session, plan }, &[&module], PATIENCE.max(deadline))?;
        self.ask(&Ask::Watch { session, slot: 0 }, &[], deadline)?;
        self.ask(&Ask::Close { session }, &[], PATIENCE)?;
        self.ask(&Ask::Unstage { case: case.0 }, &[], PATIENCE)?;
        Ok(())
    }

    /// Lets the process end by itself, so that its watcher can say what it saw; none when it was ended
    /// already, or did not end in time.
    pub(super) fn finish(&mut self, deadline: Duration) -> Result<Option<ExitStatus>, Fault> {
        let Some(running) = &mut self.running else { return Ok(None) };
        let ending = broken("ending the device process");
        running.socket.shutdown(Shutdown::Both).map_err(&ending)?;
        let started = Instant::now();
        while started.elapsed() < deadline {
            if let Some(status) = running.child.try_wait().map_err(&ending)? {
                self.running = None;
                return Ok(Some(status));
            }
            std::thread::sleep(FINISH_LOOK);
        }
        self.running = None;
        Ok(None)
    }

    /// Asks, with bytes behind the question, and returns the answer. A process that does not answer in
    /// time is ended.
    pub(super) fn ask(
        &mut self,
        ask: &Ask,
        payload: &[&[u8]],
        deadline: Duration,
    ) -> Result<Reply, Fault> {
        self.alive()?;
        let talked = self.talk(ask, payload, None, deadline);
        self.understand(talked, deadline)
    }

    /// Asks, with a descriptor behind the question.
    fn ask_sharing(&mut self, ask: &Ask, descriptor: BorrowedFd<'_>) -> Result<Reply, Fault> {
        let talked = self.talk(ask, &[], Some(descriptor), PATIENCE);
        self.understand(talked, PATIENCE)
    }

    /// Tells what an answer, or its absence, means.
    fn understand(
        &mut self,
        talked: io::Result<Reply>,
        deadline: Duration,
    ) -> Result<Reply, Fault> {
        match talked {
            Ok(Reply::Failed(failure)) => {
                let message = failure.message;
                Err(match failure.kind {
                    FailureKind::Refused => Fault::Crashed(CrashCause::NotLoadable { message }),
                    FailureKind::Faulted => {
                        // It ends by itself; a watcher has yet to say what it saw.
                        if self.watcher.is_empty() {
                            self.running = None;
                        }
                        Fault::Crashed(CrashCause::Device { message })
                    }
                    FailureKind::OutOfMemory => Fault::Unavailable(format!(
                        "the device is out of memory: {message}; choose smaller workloads"
                    )),
                    FailureKind::NoLibrary => Fault::Unavailable(message),
                    FailureKind::NoDevice => {
                        self.running = None;
                        Fault::Unavailable(message)
                    }
                    FailureKind::Broken => {
                        self.running = None;
                        let what = "using the device".to_string();
                        Fault::Broken { what, source: io::Error::other(message) }
                    }
                })
            }
            Ok(reply) => Ok(reply),
            Err(error) => {
                // Whatever it is doing, nobody waits for it any longer.
                self.running = None;
                let is_late =
                    matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut);
                Err(match is_late {
                    true => Fault::TimedOut { limit_s: deadline.as_secs_f64() },
                    false => Fault::Crashed(CrashCause::Device {
                        message: format!("the device process ended: {error}"),
                    }),
                })
            }
        }
    }

    fn talk(
        &mut self,
        ask: &Ask,
        payload: &[&[u8]],
        descriptor: Option<BorrowedFd<'_>>,
        deadline: Duration,
    ) -> io::Result<Reply> {
        let running = self.running.as_mut().ok_or_else(|| io::Error::other("no process"))?;
        let deadline = deadline.max(Duration::from_millis(1));
        running.socket.set_read_timeout(Some(deadline))?;
        running.socket.set_write_timeout(Some(deadline.max(PATIENCE)))?;
        send_message(&mut running.socket, ask)?;
        for bytes in payload {
            running.socket.write_all(bytes)?;
        }
        if let Some(descriptor) = descriptor {
            send_descriptors(&running.socket, &[descriptor])?;
        }
        receive_message(&mut running.socket)
    }
}
