//! A process that has a context on the device, seen from the worker: start it, ask it, replace it.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::io::{self, Write};
use std::net::Shutdown;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::{Condvar, Mutex, PoisonError};
use std::time::{Duration, Instant};

use warpsmith_model::CrashCause;

use super::session::LEFT_BEHIND;
use super::wire::{Ask, FailureKind, Floor, Reply};
use super::{DEVICE_ARGUMENT, FINISH_LOOK, PATIENCE, broken, misuse, module_of, session_plan};
use crate::cpu::crash::is_foreign;
use crate::parallel;
use crate::sys::memory::{Mapping, MemoryFile};
use crate::sys::process;
use crate::sys::socket::{receive_message, send_descriptors, send_message};
use crate::target::{CaseId, Fault, Program};

/// How long a process may take to end after it hung up: the driver clears its context away meanwhile.
const LAST_BREATH: Duration = Duration::from_secs(5);

/// How long somebody waits for the memory of processes that were killed.
const CLEARING: Duration = Duration::from_secs(15);

/// How many processes were killed and have not ended: their contexts hold memory of the device until then.
static N_CLEARING: Mutex<usize> = Mutex::new(0);
static CLEARED: Condvar = Condvar::new();

/// Waits until all that were killed have ended, or for this long; false where there were none.
fn wait_for_the_killed(limit: Duration) -> bool {
    let n_clearing = N_CLEARING.lock().unwrap_or_else(PoisonError::into_inner);
    if *n_clearing == 0 {
        return false;
    }
    let waited = CLEARED.wait_timeout_while(n_clearing, limit, |n_clearing| *n_clearing > 0);
    drop(waited.unwrap_or_else(PoisonError::into_inner));
    true
}

fn count_killed(change: impl FnOnce(&mut usize)) {
    change(&mut N_CLEARING.lock().unwrap_or_else(PoisonError::into_inner));
    CLEARED.notify_all();
}

/// Says whether a failure may be for want of what killed processes still hold, and the question may be asked again:
/// a process that did not come as far as having a context has done nothing, and what did not fit was not kept.
fn is_for_want_of_room(ask: &Ask, talked: &io::Result<Reply>) -> bool {
    let Ok(Reply::Failed(failure)) = talked else { return false };
    let is_kept = matches!(ask, Ask::Stage { .. } | Ask::StageShared { .. } | Ask::Open { .. });
    failure.kind == FailureKind::NoDevice
        || is_kept && failure.message.contains("CUDA_ERROR_OUT_OF_MEMORY")
}

/// A process with a context, and its successors.
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
    /// There until it is waited for.
    child: Option<Child>,
    socket: UnixStream,
    /// The numbers of the windows that it has.
    windows: BTreeSet<u64>,
}

/// Memory that a device process puts outputs into.
#[derive(Debug)]
pub(super) struct Window {
    pub(super) number: u64,
    pub(super) bytes: usize,
    /// Up to where somebody may have put something since the window was made or given back.
    used_bytes: usize,
    mapping: Mapping,
    file: MemoryFile,
}

/// The windows of all processes: their pages are there already when the next session gets them.
#[derive(Debug, Default)]
pub(super) struct Windows {
    idle: Vec<Window>,
    /// The numbers of those that are in use or idle.
    known: BTreeSet<u64>,
    n_made: u64,
}

impl Windows {
    /// Returns a window of at least this size; one that was given back, if it is large enough.
    pub(super) fn take(&mut self, bytes: usize) -> Result<Window, Fault> {
        let fitting = (0..self.idle.len()).filter(|idx| self.idle[*idx].bytes >= bytes);
        if let Some(idx) = fitting.min_by_key(|idx| self.idle[*idx].bytes) {
            return Ok(self.idle.swap_remove(idx));
        }
        // What is too small now was for smaller outputs, which are over or fit into this one.
        for too_small in self.idle.drain(..) {
            self.known.remove(&too_small.number);
        }
        let sharing = broken("sharing memory with the device process");
        let file = MemoryFile::create(c"warpsmith outputs", bytes).map_err(&sharing)?;
        let mapping = Mapping::shared(file.as_fd(), bytes).map_err(&sharing)?;
        let number = self.n_made;
        self.n_made += 1;
        self.known.insert(number);
        Ok(Window { number, bytes, used_bytes: 0, mapping, file })
    }

    /// Takes a window back, for the next session. That one may be a rival's, whose process sees what is in the
    /// window, where the device sees all of the host's memory a kernel too; so nothing is.
    pub(super) fn give_back(&mut self, mut window: Window) {
        window.clear();
        self.idle.push(window);
    }
}

impl Window {
    /// Returns what the process put there.
    pub(super) fn content(&self) -> &[u8] {
        // SAFETY: the mapping is readable, and the process writes only while a fetch is asked for, which
        // takes the session that owns this window exclusively.
        unsafe { self.mapping.content() }
    }

    /// Remembers that the process is asked to put something there, up to this many bytes from the beginning.
    pub(super) fn will_hold(&mut self, bytes: usize) {
        self.used_bytes = self.used_bytes.max(bytes.min(self.bytes));
    }

    /// Overwrites whatever may be there.
    fn clear(&mut self) {
        // SAFETY: the mapping is writable. The session that had the window is over, so nobody reads it, and
        // no process writes: it does so only while a fetch is asked for.
        let content = unsafe { self.mapping.content_mut() };
        parallel::fill(&mut content[..self.used_bytes], 1, |_, piece| piece.fill(LEFT_BEHIND));
        self.used_bytes = 0;
    }
}

impl Running {
    /// Returns how a process that hung up has ended; none where it has not, for so long.
    fn ended(mut self) -> Option<ExitStatus> {
        let hung_up = Instant::now();
        while hung_up.elapsed() < LAST_BREATH {
            if let Some(status) = self.child.as_mut()?.try_wait().ok()? {
                // There is nothing left to kill.
                self.child = None;
                return Some(status);
            }
            std::thread::sleep(FINISH_LOOK);
        }
        None
    }
}

/// Says why a process ended that nobody here has ended.
fn why_ended(status: Option<ExitStatus>, error: &io::Error) -> CrashCause {
    match status {
        // Device code sends no signals.
        Some(status) if status.signal().is_some_and(is_foreign) => CrashCause::from_outside(),
        Some(status) => {
            CrashCause::Device { message: format!("the device process ended: {status} ({error})") }
        }
        None => CrashCause::Device { message: format!("the device process ended: {error}") },
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let Some(mut child) = self.child.take() else { return };
        // A watcher does not take along what it watches.
        process::kill_descendants(child.id() as i32);
        // Fails only for a process that has ended already.
        let _ = child.kill();
        // The driver takes its time to clear a context away, and only those who lack room wait for that.
        count_killed(|n_clearing| *n_clearing += 1);
        let wait = move || {
            let _ = child.wait();
            count_killed(|n_clearing| *n_clearing -= 1);
        };
        if std::thread::Builder::new().spawn(wait).is_err() {
            // The child is nobody's now, and ends all the same.
            count_killed(|n_clearing| *n_clearing -= 1);
        }
    }
}

impl DeviceProcess {
    /// A process that is started when it is first asked something.
    pub(super) fn new(exe: Option<PathBuf>, watcher: &[OsString]) -> Self {
        Self { exe, watcher: watcher.to_vec(), running: None, number: 0 }
    }

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
            self.running = Some(Running { child: Some(child), socket, windows: BTreeSet::new() });
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
        // The process itself sees to it that it ends with its parent, which is the watcher.
        // SAFETY: between `fork` and `exec` the closure only makes a system call; it allocates nothing.
        unsafe { command.pre_exec(process::die_with_parent) };
        Ok(command)
    }

    /// Takes in the inputs of a case.
    pub(super) fn stage(&mut self, case: usize, contents: &[Vec<u8>]) -> Result<(), Fault> {
        let sizes = contents.iter().map(Vec::len).collect();
        let payload: Vec<&[u8]> = contents.iter().map(Vec::as_slice).collect();
        self.ask(&Ask::Stage { case, sizes }, &payload, PATIENCE)?;
        Ok(())
    }

    /// The same, from memory that holds them one behind the other.
    pub(super) fn stage_shared(
        &mut self,
        case: usize,
        contents: &[Vec<u8>],
        file: &MemoryFile,
    ) -> Result<(), Fault> {
        self.alive()?;
        let sizes = contents.iter().map(Vec::len).collect();
        self.ask_sharing(&Ask::StageShared { case, sizes }, file.as_fd())?;
        Ok(())
    }

    /// Makes sure that the process has a window, and none that nobody else has any longer.
    pub(super) fn share(&mut self, window: &Window, windows: &Windows) -> Result<(), Fault> {
        self.alive()?;
        let Some(running) = &mut self.running else { return Err(misuse("no device process")) };
        let gone: Vec<u64> = running.windows.difference(&windows.known).copied().collect();
        running.windows.retain(|number| windows.known.contains(number));
        let is_new = running.windows.insert(window.number);
        for window in gone {
            self.ask(&Ask::Unshare { window }, &[], PATIENCE)?;
        }
        if is_new {
            let ask = Ask::Share { window: window.number, bytes: window.bytes };
            self.ask_sharing(&ask, window.file.as_fd())?;
        }
        Ok(())
    }

    /// Says from now on what memory is like for those who watch.
    pub(super) fn lay_floor(&mut self, floor: Floor) -> Result<(), Fault> {
        self.ask(&Ask::Watched { floor }, &[], PATIENCE)?;
        Ok(())
    }

    /// Runs a program on a case, without a clock, so often in one loaded module, and forgets both.
    pub(super) fn run(
        &mut self,
        program: &Program,
        case: CaseId,
        launches: usize,
        contents: &[Vec<u8>],
        deadline: Duration,
    ) -> Result<(), Fault> {
        let module = module_of(program)?;
        self.stage(case.0, contents)?;
        let session = 0;
        // Each launch has inputs and outputs of its own, which nobody has touched.
        let plan = Box::new(session_plan(program, &vec![case; launches], module.len()));
        self.ask(&Ask::Open { session, plan }, &[&module], PATIENCE.max(deadline))?;
        for slot in 0..launches {
            self.ask(&Ask::Watch { session, slot }, &[], deadline)?;
        }
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
            let ended = running.child.as_mut().map(Child::try_wait).transpose().map_err(&ending)?;
            if let Some(Some(status)) = ended {
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
        let talked = self.talk_with_room(ask, payload, None, deadline)?;
        self.understand(talked, deadline)
    }

    /// Asks, with a descriptor behind the question.
    fn ask_sharing(&mut self, ask: &Ask, descriptor: BorrowedFd<'_>) -> Result<Reply, Fault> {
        let talked = self.talk_with_room(ask, &[], Some(descriptor), PATIENCE)?;
        self.understand(talked, PATIENCE)
    }

    /// Talks, and talks again where room was lacking that killed processes have given back meanwhile: what they took
    /// is not for whoever comes after them to answer for.
    fn talk_with_room(
        &mut self,
        ask: &Ask,
        payload: &[&[u8]],
        descriptor: Option<BorrowedFd<'_>>,
        deadline: Duration,
    ) -> Result<io::Result<Reply>, Fault> {
        self.alive()?;
        let talked = self.talk(ask, payload, descriptor, deadline);
        if !is_for_want_of_room(ask, &talked) || !wait_for_the_killed(CLEARING) {
            return Ok(talked);
        }
        if matches!(&talked, Ok(Reply::Failed(failure)) if failure.kind == FailureKind::NoDevice) {
            self.running = None;
            self.alive()?;
        }
        Ok(self.talk(ask, payload, descriptor, deadline))
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
                let running = self.running.take();
                let is_late =
                    matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut);
                Err(match is_late {
                    true => Fault::TimedOut { limit_s: deadline.as_secs_f64() },
                    false => Fault::Crashed(why_ended(running.and_then(Running::ended), &error)),
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

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn whom_somebody_else_killed_is_told_from_who_ended() {
        let folder = tempfile::tempdir().expect("a folder");
        let check = |script: &str, expected: &str, is_from_outside: bool| {
            let exe = folder.path().join("device");
            fs::write(&exe, format!("#!/bin/sh\n{script}\n")).expect("a script");
            fs::set_permissions(&exe, fs::Permissions::from_mode(0o755)).expect("executable");
            let mut process = DeviceProcess::new(Some(exe), &[]);
            match process.ask(&Ask::Limits, &[], PATIENCE) {
                Err(Fault::Crashed(cause)) => {
                    assert_eq!(cause.is_from_outside(), is_from_outside, "{cause}");
                    assert!(cause.to_string().contains(expected), "{cause}");
                }
                other => panic!("{other:?}"),
            }
            assert!(process.running.is_none(), "the next question starts another one");
        };
        check("kill -KILL $$", "from outside", true);
        check("kill -TERM $$", "from outside", true);
        check("kill -USR1 $$", "signal: 10", false);
        check("exit 3", "exit status: 3", false);
        // Late is late, whatever becomes of it.
        let exe = folder.path().join("device");
        fs::write(&exe, "#!/bin/sh\nexec sleep 60\n").expect("a script");
        let mut process = DeviceProcess::new(Some(exe), &[]);
        let late = process.ask(&Ask::Limits, &[], Duration::from_millis(50));
        assert!(matches!(late, Err(Fault::TimedOut { .. })), "{late:?}");
    }

    #[test]
    fn whoever_lacks_room_waits_for_those_that_were_killed() {
        let failed = |kind, message: &str| {
            let message = message.to_string();
            Ok(Reply::Failed(super::super::wire::ServerFailure { kind, message }))
        };
        let full = "allocating: out of memory (CUDA_ERROR_OUT_OF_MEMORY)";
        let stage = Ask::Stage { case: 0, sizes: Vec::new() };
        assert!(is_for_want_of_room(&stage, &failed(FailureKind::OutOfMemory, full)));
        assert!(is_for_want_of_room(&Ask::Describe, &failed(FailureKind::NoDevice, "none")));
        assert!(!is_for_want_of_room(&stage, &failed(FailureKind::Broken, "no such case")));
        assert!(!is_for_want_of_room(&Ask::Limits, &failed(FailureKind::OutOfMemory, full)));

        let mut process = DeviceProcess::new(Some("/bin/sleep".into()), &["/bin/sleep".into()]);
        process.alive().expect("started");
        drop(process);
        wait_for_the_killed(Duration::from_secs(20));
        assert!(!wait_for_the_killed(Duration::from_secs(20)), "all of them have ended");
    }

    #[test]
    fn a_watcher_ends_with_whoever_started_it() {
        let watcher = ["/bin/sh", "-c", "exec sleep 60"].map(OsString::from);
        // The system looks at the thread.
        let started = std::thread::spawn(move || {
            let mut process = DeviceProcess::new(Some(PathBuf::from("/bin/sh")), &watcher);
            process.alive().map(|_| process)
        });
        let mut process = started.join().expect("no panic").expect("started");
        let ended = process.running.take().and_then(Running::ended).expect("it ended");
        assert_eq!(ended.signal(), Some(libc::SIGKILL));
    }

    #[test]
    fn a_window_that_was_given_back_holds_nothing_of_whoever_had_it() {
        let mut windows = Windows::default();
        let mut window = windows.take(1000).expect("memory");
        window.will_hold(700);
        // As the device process does, which has the file too.
        window.file.write_at(&[42; 700], 0).expect("written");
        assert!(window.content()[..700].iter().all(|byte| *byte == 42));
        let number = window.number;
        windows.give_back(window);
        let window = windows.take(900).expect("memory");
        assert_eq!(window.number, number, "memory is used again");
        assert!(!window.content().contains(&42));
        assert_eq!(window.used_bytes, 0);
        // Larger than any that is there: those are forgotten, and whoever has them is told so.
        let larger = windows.take(2000).expect("memory");
        assert_ne!(larger.number, number);
        windows.give_back(window);
        assert_eq!(windows.take(100).expect("memory").number, number);
    }
}
