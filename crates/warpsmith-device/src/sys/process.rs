//! Child processes: signals, states, limits.

use std::io;
use std::process::Child;
use std::time::{Duration, Instant};

use super::check;
use super::memory::page_bytes;

/// What `waitpid` said about a child.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ChildState {
    /// It runs, or has nothing new to say.
    Running,
    /// It was stopped by a signal.
    Stopped,
    /// It left by itself, with this status.
    Exited(i32),
    /// A signal ended it.
    Killed(i32),
}

/// A child that leads a process group and is killed with it and reaped when dropped.
#[derive(Debug)]
pub(crate) struct OwnedChild {
    child: Child,
    end: Option<ChildState>,
}

impl OwnedChild {
    /// Takes over a child that was started as the leader of a group.
    pub(crate) fn new(child: Child) -> Self {
        Self { child, end: None }
    }

    /// Returns the process id.
    pub(crate) fn pid(&self) -> libc::pid_t {
        self.child.id() as libc::pid_t
    }

    /// Sends a signal; a child that has been reaped gets none, because its number may be another's.
    pub(crate) fn signal(&self, signal: libc::c_int) -> io::Result<()> {
        if self.end.is_none() {
            // SAFETY: the child is not reaped, so the number is still its own.
            check(unsafe { libc::kill(self.pid(), signal) })?;
        }
        Ok(())
    }

    /// Kills the child and waits until it has ended.
    pub(crate) fn kill(&mut self) -> io::Result<()> {
        self.signal(libc::SIGKILL)?;
        while self.end.is_none() {
            self.wait_with(0)?;
        }
        Ok(())
    }

    /// Returns the child's state without waiting.
    pub(crate) fn poll(&mut self) -> io::Result<ChildState> {
        self.wait_with(libc::WNOHANG)
    }

    /// Waits until the child stops or ends, for so long at most; then it is still running.
    pub(crate) fn wait_for_stop(&mut self, limit: Duration) -> io::Result<ChildState> {
        /// Stopping takes microseconds; who waits longer than this sleeps in between.
        const AWAKE: Duration = Duration::from_millis(1);
        let began = Instant::now();
        loop {
            let state = self.wait_with(libc::WNOHANG)?;
            let waited = began.elapsed();
            if state != ChildState::Running || waited > limit {
                return Ok(state);
            }
            if waited < AWAKE {
                std::thread::yield_now();
            } else {
                std::thread::sleep(AWAKE / 10);
            }
        }
    }

    fn wait_with(&mut self, options: libc::c_int) -> io::Result<ChildState> {
        if let Some(end) = self.end {
            return Ok(end);
        }
        let news = self.wait_id(libc::WEXITED | libc::WSTOPPED | libc::WNOWAIT | options)?;
        // SAFETY: `waitid` filled the structure; a process number of 0 says that there is no news.
        let (process, status) = unsafe { (news.si_pid(), news.si_status()) };
        if process == 0 {
            return Ok(ChildState::Running);
        }
        let end = match news.si_code {
            libc::CLD_STOPPED => {
                self.wait_id(libc::WSTOPPED | libc::WNOHANG)?;
                return Ok(ChildState::Stopped);
            }
            libc::CLD_EXITED => ChildState::Exited(status),
            _ => ChildState::Killed(status),
        };
        // The child may have started others, where no filter forbade it. It is not reaped yet, so the
        // number of its group cannot be another's.
        // SAFETY: takes integers only. It fails when the group has no other members.
        unsafe { libc::kill(-self.pid(), libc::SIGKILL) };
        self.wait_id(libc::WEXITED)?;
        self.end = Some(end);
        Ok(end)
    }

    fn wait_id(&self, options: libc::c_int) -> io::Result<libc::siginfo_t> {
        loop {
            // SAFETY: all zeros is a valid structure; the child is ours and not reaped.
            let (result, news) = unsafe {
                let mut news: libc::siginfo_t = std::mem::zeroed();
                let process = self.child.id();
                (libc::waitid(libc::P_PID, process, &raw mut news, options), news)
            };
            match check(result) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                other => return other.map(|_| news),
            }
        }
    }
}

impl Drop for OwnedChild {
    fn drop(&mut self) {
        // Fails only when the child is gone already, which is what it is for.
        let _ = self.kill();
    }
}

/// Limits a resource of this process; a limit that is lower already stays.
pub(crate) fn limit(resource: libc::__rlimit_resource_t, value: u64) -> io::Result<()> {
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: `limit` is a live structure; safe after `fork` too.
    check(unsafe { libc::getrlimit(resource, &raw mut limit) })?;
    let value = value.min(limit.rlim_max);
    let limit = libc::rlimit { rlim_cur: value, rlim_max: value };
    // SAFETY: `limit` is a live structure; safe after `fork` too.
    check(unsafe { libc::setrlimit(resource, &raw const limit) })?;
    Ok(())
}

/// Limits this process's processor time. The signal of the limit comes first, so that a process that is
/// killed outright was killed by somebody else.
pub(crate) fn limit_cpu_time(seconds: u64) -> io::Result<()> {
    const GRACE_S: u64 = 5;
    limit(libc::RLIMIT_CPU, seconds.saturating_add(GRACE_S))?;
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: `limit` is a live structure; safe after `fork` too.
    check(unsafe { libc::getrlimit(libc::RLIMIT_CPU, &raw mut limit) })?;
    limit.rlim_cur = seconds.min(limit.rlim_max);
    // SAFETY: `limit` is a live structure; safe after `fork` too.
    check(unsafe { libc::setrlimit(libc::RLIMIT_CPU, &raw const limit) })?;
    Ok(())
}

/// Gives up for good the right to gain rights by running a program; Landlock and seccomp ask for it.
pub(crate) fn forgo_new_privileges() -> io::Result<()> {
    // SAFETY: takes integers only; safe after `fork` too.
    check(unsafe { libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) })?;
    Ok(())
}

/// Kills everything that a process started, and what that started, as far as the system tells. Programs
/// that start others in their own way leave them behind when they are killed alone.
pub(crate) fn kill_descendants(process: libc::pid_t) {
    for child in children(process) {
        kill_descendants(child);
        // SAFETY: `kill` has no preconditions. A child that is not reaped keeps its number, and one
        // whose parent still runs was just listed.
        unsafe { libc::kill(child, libc::SIGKILL) };
    }
}

/// Returns the bytes of memory that a process and everything that it started have, as far as the system tells.
/// Memory that several of them share counts for each.
pub(crate) fn memory_of_tree(process: libc::pid_t) -> u64 {
    let text = std::fs::read_to_string(format!("/proc/{process}/statm")).unwrap_or_default();
    let pages: u64 = text.split(' ').nth(1).and_then(|pages| pages.parse().ok()).unwrap_or(0);
    let own = pages.saturating_mul(page_bytes() as u64);
    children(process).into_iter().map(memory_of_tree).fold(own, u64::saturating_add)
}

/// Lists the children of all threads of a process.
fn children(process: libc::pid_t) -> Vec<libc::pid_t> {
    let threads = std::fs::read_dir(format!("/proc/{process}/task"));
    let threads = threads.into_iter().flatten().flatten();
    let lists = threads
        .map(|thread| std::fs::read_to_string(thread.path().join("children")).unwrap_or_default());
    lists
        .flat_map(|list| {
            list.split_whitespace().filter_map(|pid| pid.parse().ok()).collect::<Vec<_>>()
        })
        .collect()
}

/// Lets a write beyond the limit on the sizes of files fail, as it does where a disk is full, instead of ending
/// this process. Programs that it starts inherit that.
pub(crate) fn survive_file_limit() {
    // SAFETY: ignoring a signal makes nothing of ours run.
    unsafe { libc::signal(libc::SIGXFSZ, libc::SIG_IGN) };
}

/// Returns a limit of this process's; none where it has none.
pub(crate) fn limited_to(resource: libc::__rlimit_resource_t) -> Option<u64> {
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: `limit` is a live structure.
    check(unsafe { libc::getrlimit(resource, &raw mut limit) }).ok()?;
    (limit.rlim_cur != libc::RLIM_INFINITY).then_some(limit.rlim_cur)
}

/// Asks the kernel to kill this process when the thread that started it ends.
pub(crate) fn die_with_parent() -> io::Result<()> {
    // SAFETY: takes integers only; safe after `fork` too.
    check(unsafe { libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL, 0, 0, 0) })?;
    Ok(())
}

/// Lets another process of this user have up to this many seconds of processor time.
pub(crate) fn allow_cpu_time(process: libc::pid_t, seconds: u64) -> io::Result<()> {
    let mut limit = libc::rlimit64 { rlim_cur: 0, rlim_max: 0 };
    let none = std::ptr::null_mut();
    // SAFETY: `limit` is a live structure and no new limit is set.
    check(unsafe { libc::prlimit64(process, libc::RLIMIT_CPU, none, &raw mut limit) })?;
    limit.rlim_cur = seconds.min(limit.rlim_max);
    // SAFETY: `limit` is a live structure and the old limit is not asked for.
    check(unsafe { libc::prlimit64(process, libc::RLIMIT_CPU, &raw const limit, none) })?;
    Ok(())
}

/// Returns the processors that this process may run on.
pub(crate) fn allowed_cpus() -> io::Result<Vec<usize>> {
    // SAFETY: all zeros is an empty set, and the call fills no more than its size.
    let set = unsafe {
        let mut set: libc::cpu_set_t = std::mem::zeroed();
        check(libc::sched_getaffinity(0, size_of_val(&set), &raw mut set))?;
        set
    };
    let n_cpus = libc::CPU_SETSIZE as usize;
    // SAFETY: the index is below the size of the set.
    Ok((0..n_cpus).filter(|cpu| unsafe { libc::CPU_ISSET(*cpu, &set) }).collect())
}

/// Binds this thread to one processor.
pub(crate) fn pin(cpu: usize) -> io::Result<()> {
    // SAFETY: all zeros is an empty set; `CPU_SET` stays inside for the numbers that a set of the
    // kernel's contained; the call reads the set only.
    let result = unsafe {
        let mut set: libc::cpu_set_t = std::mem::zeroed();
        libc::CPU_SET(cpu, &mut set);
        libc::sched_setaffinity(0, size_of_val(&set), &raw const set)
    };
    check(result).map(|_| ())
}

/// Returns the processor time of this process and of its ended children.
pub(crate) fn processor_s() -> f64 {
    let seconds = |who: libc::c_int| {
        // SAFETY: zero bytes are a valid `rusage`, and the call fills it.
        let usage = unsafe {
            let mut usage: libc::rusage = std::mem::zeroed();
            libc::getrusage(who, &raw mut usage);
            usage
        };
        [usage.ru_utime, usage.ru_stime]
            .iter()
            .map(|time| time.tv_sec as f64 + time.tv_usec as f64 * 1e-6)
            .sum::<f64>()
    };
    seconds(libc::RUSAGE_SELF) + seconds(libc::RUSAGE_CHILDREN)
}
