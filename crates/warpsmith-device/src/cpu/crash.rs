//! Why a candidate's process ended, in words.

use warpsmith_model::CrashCause;

use super::layout::{Arena, GUARD_BYTES, Owner, Region};
use crate::sys::process::ChildState;
use crate::target::TensorPlan;

/// What a runner's signal handler wrote. A claim: the candidate may have written it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Description {
    /// The signal.
    pub(crate) signal: i32,
    /// The signal's code.
    pub(crate) code: i32,
    /// The address that faulted, or the number of the system call.
    pub(crate) detail: u64,
}

/// The memory of the process that ended.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Memory<'a> {
    /// Its layout.
    pub(crate) arena: &'a Arena,
    /// Its first address.
    pub(crate) arena_start: u64,
    /// The program's tensors.
    pub(crate) tensors: &'a [TensorPlan],
}

/// Explains an end that the process described.
pub(crate) fn explain_description(description: Description, memory: Memory<'_>) -> CrashCause {
    // The kernel sets this code for faults that have no address: a misaligned vector access, say.
    const NO_ADDRESS: i32 = 128;
    match description.signal {
        libc::SIGSYS => CrashCause::Forbidden { syscall: syscall_name(description.detail) },
        libc::SIGSEGV | libc::SIGBUS if description.code != NO_ADDRESS => {
            explain_address(description.detail, memory)
        }
        signal => CrashCause::Signal { name: signal_name(signal) },
    }
}

/// Explains an end that the process did not describe.
pub(crate) fn explain_state(state: ChildState) -> CrashCause {
    match state {
        ChildState::Exited(status) => CrashCause::Exited { status },
        // Not described: the call was made with all signals blocked (as when a thread is started), or
        // by the conventions of another architecture.
        ChildState::Killed(libc::SIGSYS) => {
            CrashCause::Forbidden { syscall: "of unknown number".to_string() }
        }
        ChildState::Killed(signal) if is_foreign(signal) => CrashCause::from_outside(),
        ChildState::Killed(signal) => CrashCause::Signal { name: signal_name(signal) },
        ChildState::Running | ChildState::Stopped => {
            CrashCause::Signal { name: "an unknown signal".to_string() }
        }
    }
}

/// Says whether a signal that ended a candidate, a compiler or one of our processes is somebody else's doing: no
/// limit of ours sends it, and confined processes may not signal anybody.
pub fn is_foreign(signal: libc::c_int) -> bool {
    matches!(signal, libc::SIGKILL | libc::SIGTERM | libc::SIGHUP | libc::SIGINT)
}

fn explain_address(address: u64, memory: Memory<'_>) -> CrashCause {
    let bad_address = CrashCause::BadAddress { address };
    let Some(at) = address.checked_sub(memory.arena_start) else { return bad_address };
    let near = |region: &&Region| {
        let first = (region.at - GUARD_BYTES) as u64;
        let end = (region.at + region.block.mapped_bytes + GUARD_BYTES) as u64;
        (first..end).contains(&at)
    };
    let Some(region) = memory.arena.regions.iter().find(near) else { return bad_address };
    let offset = at as i64 - region.content_at() as i64;
    let is_inside = (0..region.block.bytes as i64).contains(&offset);
    let name_of = |tensor: usize| memory.tensors[tensor].name.clone();
    match region.owner {
        Owner::Input(_, tensor) if is_inside => CrashCause::WroteInput { tensor: name_of(tensor) },
        Owner::Input(_, tensor) | Owner::Output(_, tensor) => {
            CrashCause::OutOfBounds { tensor: name_of(tensor), offset }
        }
        Owner::Scratch(idx) => CrashCause::OutOfBounds { tensor: format!("scratch {idx}"), offset },
        Owner::Stack(_) => CrashCause::Signal { name: "SIGSEGV (stack overflow)".to_string() },
    }
}

/// Returns the name of a signal.
pub(crate) fn signal_name(signal: i32) -> String {
    let name = match signal {
        libc::SIGHUP => "SIGHUP",
        libc::SIGINT => "SIGINT",
        libc::SIGQUIT => "SIGQUIT",
        libc::SIGILL => "SIGILL",
        libc::SIGTRAP => "SIGTRAP",
        libc::SIGABRT => "SIGABRT",
        libc::SIGBUS => "SIGBUS",
        libc::SIGFPE => "SIGFPE",
        libc::SIGKILL => "SIGKILL",
        libc::SIGSEGV => "SIGSEGV",
        libc::SIGPIPE => "SIGPIPE",
        libc::SIGALRM => "SIGALRM",
        libc::SIGTERM => "SIGTERM",
        libc::SIGXCPU => "SIGXCPU",
        libc::SIGXFSZ => "SIGXFSZ",
        other => return format!("signal {other}"),
    };
    name.to_string()
}

/// Names the system calls that candidates are likely to try; the rest go by number.
fn syscall_name(number: u64) -> String {
    macro_rules! names {
        ($($name:ident)*) => { [$((libc::$name, stringify!($name)),)*] };
    }
    let common = names! {
        SYS_read SYS_write SYS_openat SYS_close SYS_fstat SYS_lseek SYS_mmap SYS_mprotect SYS_munmap
        SYS_rt_sigaction SYS_rt_sigprocmask SYS_ioctl SYS_pread64 SYS_pwrite64 SYS_readv SYS_writev
        SYS_mremap SYS_madvise SYS_shmget SYS_shmat SYS_dup SYS_dup3 SYS_setitimer SYS_getpid
        SYS_socket SYS_connect SYS_accept SYS_sendto SYS_recvfrom SYS_sendmsg SYS_recvmsg SYS_bind
        SYS_listen SYS_socketpair SYS_clone SYS_clone3 SYS_execve SYS_execveat SYS_kill SYS_tkill
        SYS_tgkill SYS_uname SYS_fcntl SYS_ftruncate SYS_getcwd SYS_chdir SYS_mkdirat SYS_unlinkat
        SYS_renameat2 SYS_linkat SYS_symlinkat SYS_fchmodat SYS_getrlimit SYS_setrlimit
        SYS_prlimit64 SYS_getrusage SYS_sysinfo SYS_ptrace SYS_getuid SYS_setuid SYS_prctl
        SYS_mount SYS_umount2 SYS_reboot SYS_init_module SYS_bpf SYS_perf_event_open SYS_seccomp
        SYS_memfd_create SYS_userfaultfd SYS_pidfd_open SYS_pidfd_getfd SYS_process_vm_readv
        SYS_process_vm_writev SYS_io_uring_setup SYS_getrandom SYS_sched_setaffinity
        SYS_sched_setscheduler SYS_setpriority SYS_timer_create SYS_timerfd_create SYS_eventfd2
        SYS_epoll_create1 SYS_inotify_init1 SYS_pipe2 SYS_newfstatat SYS_statx SYS_faccessat
        SYS_readlinkat SYS_getdents64 SYS_wait4 SYS_unshare SYS_setns SYS_membarrier SYS_rseq
    };
    #[cfg(target_arch = "x86_64")]
    let of_this_machine = names! {
        SYS_open SYS_fork SYS_vfork SYS_pipe SYS_stat SYS_access SYS_poll SYS_select SYS_pause
        SYS_alarm SYS_dup2 SYS_mkdir SYS_unlink SYS_rename SYS_creat SYS_readlink SYS_arch_prctl
    };
    #[cfg(not(target_arch = "x86_64"))]
    let of_this_machine: [(libc::c_long, &str); 0] = [];
    common
        .iter()
        .chain(&of_this_machine)
        .find(|(known, _)| *known as u64 == number)
        .map_or_else(|| format!("number {number}"), |(_, name)| name["SYS_".len()..].to_string())
}

#[cfg(test)]
mod tests {
    use warpsmith_model::DType;
    use warpsmith_model::lab::Role;

    use super::super::layout;
    use super::*;

    #[test]
    fn addresses_are_explained_by_what_lies_there() {
        let tensor = |name: &str, role| TensorPlan {
            name: name.to_string(),
            shape: vec![16],
            dtype: DType::F32,
            role,
        };
        let tensors = [tensor("x", Role::Input), tensor("z", Role::Output)];
        let arena = layout::arena(&tensors, 1, &[64], 1);
        let memory = Memory { arena: &arena, arena_start: 1 << 40, tensors: &tensors };
        let start_of = |idx: usize| (1 << 40) + arena.regions[idx].content_at() as u64;
        let check = |address: u64, expected: &str| {
            assert_eq!(explain_address(address, memory).to_string(), expected);
        };
        check(start_of(0) + 64, "touched `x` out of bounds, at byte 64");
        check(start_of(0) - 5000, "touched `x` out of bounds, at byte -5000");
        check(start_of(0) + 12, "wrote to the input `x`");
        check(start_of(1) + 64, "touched `z` out of bounds, at byte 64");
        check(start_of(2) + 70, "touched `scratch 0` out of bounds, at byte 70");
        check(start_of(3) - 8, "killed by SIGSEGV (stack overflow)");
        check(0, "touched the bad address 0x0");
        check(u64::MAX, "touched the bad address 0xffffffffffffffff");
    }

    #[test]
    fn system_calls_have_names_or_numbers() {
        assert_eq!(syscall_name(libc::SYS_execve as u64), "execve");
        assert_eq!(syscall_name(99_999), "number 99999");
    }
}
