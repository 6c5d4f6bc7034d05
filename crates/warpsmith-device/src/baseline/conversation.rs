//! Lines to a Python interpreter and lines back, with a deadline on each.

use std::io::{self, Read, Write};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::os::unix::fs::FileExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{ChildStdin, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

use warpsmith_model::CrashCause;

use super::broken;
use crate::sys::memory::MemoryFile;
use crate::sys::process::{ChildState, OwnedChild};
use crate::target::Fault;

/// What of the interpreter's standard error is quoted when it ends.
const QUOTED_BYTES: usize = 2000;

/// How long an interpreter, whose library may have memory of the device to look after, may take to stand
/// still or to end.
const STOP_DEADLINE: Duration = Duration::from_secs(30);

/// A running interpreter; killed when dropped.
#[derive(Debug)]
pub(super) struct Conversation {
    child: OwnedChild,
    to: ChildStdin,
    from: ChildStdout,
    unread: Vec<u8>,
    errors: MemoryFile,
    role: Role,
}

/// What an interpreter is started for.
#[derive(Clone, Debug)]
pub(super) struct Role {
    /// The program that it runs.
    pub(super) program: String,
    /// What the program is told on its command line.
    pub(super) arguments: Vec<PathBuf>,
    /// What messages call it.
    pub(super) name: &'static str,
    /// The packages that it needs.
    pub(super) packages: Vec<String>,
}

/// What an answer carries.
#[derive(Debug)]
pub(super) struct Answer {
    /// Seconds by the device's clock, where it has one.
    pub(super) seconds: Option<f64>,
    /// What the script says of how it computes, once it is prepared.
    pub(super) remark: Option<String>,
    /// Everything that was said.
    pub(super) said: serde_json::Value,
}

impl Conversation {
    /// Starts an interpreter that inherits these files.
    pub(super) fn start(
        interpreter: &Path,
        threads: u32,
        fds: &[BorrowedFd<'_>],
        role: Role,
    ) -> Result<Self, Fault> {
        let errors = MemoryFile::create(c"baseline errors", 0)
            .map_err(|source| broken("making room for Python's messages", source))?;
        let errors_copy = errors
            .as_fd()
            .try_clone_to_owned()
            .map_err(|source| broken("sharing the room for Python's messages", source))?;
        let inherited: Vec<i32> = fds.iter().map(AsRawFd::as_raw_fd).collect();
        let threads = threads.to_string();
        let mut command = Command::new(interpreter);
        command
            .args(["-u", "-c", &role.program])
            .args(&role.arguments)
            .env("OMP_NUM_THREADS", &threads)
            .env("OPENBLAS_NUM_THREADS", &threads)
            .env("MKL_NUM_THREADS", &threads)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::from(errors_copy))
            .process_group(0);
        // SAFETY: between fork and exec only `prctl` and `fcntl` are called, which are
        // async-signal-safe.
        unsafe {
            command.pre_exec(move || {
                // A frozen interpreter would not notice that nobody speaks to it any more.
                if libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL) == -1 {
                    return Err(io::Error::last_os_error());
                }
                for fd in &inherited {
                    if libc::fcntl(*fd, libc::F_SETFD, 0) == -1 {
                        return Err(io::Error::last_os_error());
                    }
                }
                Ok(())
            });
        }
        let mut child = command.spawn().map_err(|error| {
            Fault::Unavailable(format!(
                "cannot start Python as {}: {error}; `warpsmith setup baselines` makes one with \
                 the packages that labs need",
                interpreter.display()
            ))
        })?;
        let to = child.stdin.take().expect("standard input is piped");
        let from = child.stdout.take().expect("standard output is piped");
        Ok(Self { child: OwnedChild::new(child), to, from, unread: Vec::new(), errors, role })
    }

    /// Says a line and waits for the answer.
    pub(super) fn ask(&mut self, line: &str, deadline: Duration) -> Result<Answer, Fault> {
        self.say(format!("{line}\n").as_bytes())?;
        let until = Instant::now() + deadline;
        let answer = self.read_line(until, deadline)?;
        let answer: serde_json::Value = serde_json::from_str(&answer)
            .map_err(|error| broken("understanding what Python says", io::Error::other(error)))?;
        if let Some(module) = answer["missing"].as_str() {
            return Err(Fault::Unavailable(format!(
                "the Python module `{module}` is missing; {} needs {}",
                self.role.name,
                self.role.packages.join(", ")
            )));
        }
        if let Some(reason) = answer["unavailable"].as_str() {
            return Err(Fault::Unavailable(reason.to_string()));
        }
        if let Some(message) = answer["raised"].as_str() {
            return Err(Fault::Crashed(CrashCause::Raised { message: message.to_string() }));
        }
        Ok(Answer {
            seconds: answer["seconds"].as_f64(),
            remark: answer["remark"].as_str().map(str::to_string),
            said: answer,
        })
    }

    /// Says bytes that belong to the line that follows or that was said before them.
    pub(super) fn say(&mut self, bytes: &[u8]) -> Result<(), Fault> {
        let said = self.to.write_all(bytes);
        if said.is_err() {
            return Err(self.ended());
        }
        Ok(())
    }

    /// Reads bytes that follow an answer.
    pub(super) fn hear(&mut self, count: usize, deadline: Duration) -> Result<Vec<u8>, Fault> {
        let until = Instant::now() + deadline;
        while self.unread.len() < count {
            self.read_more(until, deadline)?;
        }
        Ok(self.unread.drain(..count).collect())
    }

    /// Stops every thread of the interpreter and waits until they stand.
    pub(super) fn freeze(&mut self) -> Result<(), Fault> {
        let stopped = self.child.signal(libc::SIGSTOP);
        let stopped = stopped.and_then(|()| self.child.wait_for_stop(STOP_DEADLINE));
        match stopped.map_err(|source| broken("freezing Python", source))? {
            ChildState::Stopped => Ok(()),
            ChildState::Running => {
                let late = io::Error::new(io::ErrorKind::TimedOut, "it goes on");
                Err(broken("freezing Python", late))
            }
            _ => Err(self.ended()),
        }
    }

    /// Lets the interpreter go on.
    pub(super) fn thaw(&self) -> Result<(), Fault> {
        self.child.signal(libc::SIGCONT).map_err(|source| broken("waking Python", source))
    }

    fn read_line(&mut self, until: Instant, deadline: Duration) -> Result<String, Fault> {
        loop {
            if let Some(end) = self.unread.iter().position(|byte| *byte == b'\n') {
                let line: Vec<u8> = self.unread.drain(..=end).collect();
                return Ok(String::from_utf8_lossy(&line).to_string());
            }
            self.read_more(until, deadline)?;
        }
    }

    fn read_more(&mut self, until: Instant, deadline: Duration) -> Result<(), Fault> {
        if !self.wait_readable(until)? {
            self.child.kill().map_err(|source| broken("ending Python", source))?;
            return Err(Fault::TimedOut { limit_s: deadline.as_secs_f64() });
        }
        let mut buffer = [0u8; 1 << 16];
        match self.from.read(&mut buffer) {
            Ok(0) => return Err(self.ended()),
            Ok(count) => self.unread.extend(&buffer[..count]),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(source) => return Err(broken("reading from Python", source)),
        }
        Ok(())
    }

    /// Waits for something to read; false when the time is over.
    fn wait_readable(&self, until: Instant) -> Result<bool, Fault> {
        loop {
            let left = until.saturating_duration_since(Instant::now());
            let mut poll =
                libc::pollfd { fd: self.from.as_raw_fd(), events: libc::POLLIN, revents: 0 };
            let milliseconds = i32::try_from(left.as_millis() + 1).unwrap_or(i32::MAX);
            // SAFETY: `poll` is one valid entry and lives through the call.
            let ready = unsafe { libc::poll(&raw mut poll, 1, milliseconds) };
            match ready {
                0 if Instant::now() >= until => return Ok(false),
                0 => {}
                1.. => return Ok(true),
                _ => {
                    let error = io::Error::last_os_error();
                    if error.kind() != io::ErrorKind::Interrupted {
                        return Err(broken("waiting for Python", error));
                    }
                }
            }
        }
    }

    /// Says how the interpreter ended: it closed its side, so it has, or is about to.
    fn ended(&mut self) -> Fault {
        match self.child.wait_for_stop(STOP_DEADLINE) {
            Ok(ChildState::Killed(signal)) => {
                Fault::Crashed(CrashCause::Signal { name: format!("signal {signal}") })
            }
            Ok(_) => Fault::Crashed(CrashCause::Raised { message: self.last_words() }),
            Err(source) => broken("waiting for Python's end", source),
        }
    }

    /// Returns the end of what the interpreter wrote to its standard error.
    fn last_words(&self) -> String {
        let text = self.errors.as_fd().try_clone_to_owned().and_then(|fd| {
            let file = std::fs::File::from(fd);
            let length = file.metadata()?.len();
            let start = length.saturating_sub(QUOTED_BYTES as u64);
            let mut bytes = vec![0; (length - start) as usize];
            file.read_exact_at(&mut bytes, start)?;
            Ok(String::from_utf8_lossy(&bytes).trim().to_string())
        });
        match text {
            Ok(text) if !text.is_empty() => text,
            _ => "Python ended without a word".to_string(),
        }
    }
}
