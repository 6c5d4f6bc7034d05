//! What a compiler, and everything that it starts, may not ask the system for.
//!
//! A compiler needs too many system calls to list, and other ones with every version, so this names what it
//! may not make: what reaches other processes, the network or the machine, what leaves something behind that
//! no file is, and what leads out of the group of processes in which a compiler is ended with all its
//! children. What is forbidden fails, as it does where a user lacks the right.
//!
//! Landlock, beside this, closes the file system.

use std::collections::BTreeMap;
use std::io;
use std::sync::LazyLock;

use seccompiler::{
    BpfProgram, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompFilter,
    SeccompRule, TargetArch,
};

/// Calls that are forbidden whatever their arguments.
const FORBIDDEN: &[i64] = &[
    // Other processes: signals and handles, reading and changing them.
    libc::SYS_kill,
    libc::SYS_tkill,
    libc::SYS_tgkill,
    libc::SYS_rt_sigqueueinfo,
    libc::SYS_rt_tgsigqueueinfo,
    libc::SYS_pidfd_open,
    libc::SYS_pidfd_send_signal,
    libc::SYS_pidfd_getfd,
    libc::SYS_ptrace,
    libc::SYS_process_vm_readv,
    libc::SYS_process_vm_writev,
    libc::SYS_process_madvise,
    libc::SYS_process_mrelease,
    libc::SYS_kcmp,
    libc::SYS_migrate_pages,
    libc::SYS_move_pages,
    libc::SYS_setpriority,
    libc::SYS_ioprio_set,
    libc::SYS_sched_setaffinity,
    libc::SYS_sched_setattr,
    libc::SYS_sched_setparam,
    libc::SYS_sched_setscheduler,
    // Leaving the group that is ended together.
    libc::SYS_setsid,
    libc::SYS_setpgid,
    // The network, and other ways to speak to somebody.
    libc::SYS_socket,
    libc::SYS_socketpair,
    libc::SYS_mq_open,
    libc::SYS_mq_unlink,
    libc::SYS_msgget,
    libc::SYS_msgctl,
    libc::SYS_msgsnd,
    libc::SYS_msgrcv,
    libc::SYS_semget,
    libc::SYS_semctl,
    libc::SYS_semop,
    libc::SYS_semtimedop,
    libc::SYS_shmget,
    libc::SYS_shmctl,
    libc::SYS_shmat,
    libc::SYS_add_key,
    libc::SYS_request_key,
    libc::SYS_keyctl,
    // Files that are none: links lead elsewhere, pipes are waited for, devices never end.
    libc::SYS_symlinkat,
    libc::SYS_mknodat,
    // What files are, and whose: the file system's rules speak of contents alone.
    libc::SYS_fchmod,
    libc::SYS_fchmodat,
    SYS_FCHMODAT2,
    libc::SYS_fchown,
    libc::SYS_fchownat,
    libc::SYS_utimensat,
    libc::SYS_setxattr,
    libc::SYS_lsetxattr,
    libc::SYS_fsetxattr,
    libc::SYS_removexattr,
    libc::SYS_lremovexattr,
    libc::SYS_fremovexattr,
    // Requests that no filter sees, and programs for the kernel.
    libc::SYS_io_uring_setup,
    libc::SYS_io_uring_enter,
    libc::SYS_io_uring_register,
    libc::SYS_bpf,
    libc::SYS_perf_event_open,
    libc::SYS_userfaultfd,
    // Other views of the system.
    libc::SYS_unshare,
    libc::SYS_setns,
    libc::SYS_mount,
    libc::SYS_umount2,
    libc::SYS_pivot_root,
    libc::SYS_chroot,
    libc::SYS_move_mount,
    libc::SYS_open_tree,
    libc::SYS_mount_setattr,
    libc::SYS_fsopen,
    libc::SYS_fsconfig,
    libc::SYS_fsmount,
    libc::SYS_fspick,
    libc::SYS_open_by_handle_at,
    libc::SYS_name_to_handle_at,
    libc::SYS_fanotify_init,
    libc::SYS_fanotify_mark,
    // The machine.
    libc::SYS_acct,
    libc::SYS_adjtimex,
    libc::SYS_clock_adjtime,
    libc::SYS_clock_settime,
    libc::SYS_settimeofday,
    libc::SYS_delete_module,
    libc::SYS_init_module,
    libc::SYS_finit_module,
    libc::SYS_kexec_load,
    libc::SYS_quotactl,
    libc::SYS_reboot,
    libc::SYS_sethostname,
    libc::SYS_setdomainname,
    libc::SYS_swapon,
    libc::SYS_swapoff,
    libc::SYS_syslog,
    libc::SYS_vhangup,
];

#[cfg(target_arch = "x86_64")]
const FORBIDDEN_HERE: &[i64] = &[
    libc::SYS_chmod,
    libc::SYS_chown,
    libc::SYS_lchown,
    libc::SYS_utime,
    libc::SYS_utimes,
    libc::SYS_futimesat,
    libc::SYS_symlink,
    libc::SYS_mknod,
    libc::SYS_iopl,
    libc::SYS_ioperm,
    libc::SYS_kexec_file_load,
    libc::SYS_modify_ldt,
];
#[cfg(not(target_arch = "x86_64"))]
const FORBIDDEN_HERE: &[i64] = &[];

/// Linux 6.6 and later; the same on every kind of processor.
const SYS_FCHMODAT2: i64 = 452;

/// Who gets a signal when a file can be read, and which: any process of this user, and any signal.
const FORBIDDEN_FCNTL: [i32; 3] = [libc::F_SETOWN, F_SETSIG, F_SETOWN_EX];
const F_SETSIG: i32 = 10;
const F_SETOWN_EX: i32 = 15;

/// The same by another call, and typing on somebody's terminal.
const FORBIDDEN_IOCTL: [u32; 4] =
    [FIOSETOWN, SIOCSPGRP, libc::TIOCSTI as u32, libc::TIOCLINUX as u32];
const FIOSETOWN: u32 = 0x8901;
const SIOCSPGRP: u32 = 0x8902;

/// New namespaces, in which a process has rights that it does not have outside, and children that are
/// somebody else's.
const FORBIDDEN_CLONE: [i32; 9] = [
    libc::CLONE_NEWNS,
    libc::CLONE_NEWCGROUP,
    libc::CLONE_NEWUTS,
    libc::CLONE_NEWIPC,
    libc::CLONE_NEWUSER,
    libc::CLONE_NEWPID,
    libc::CLONE_NEWNET,
    libc::CLONE_NEWTIME,
    libc::CLONE_PARENT,
];

/// Filters that are ready to be installed; an error where there are none for this machine.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Filters(&'static [BpfProgram]);

/// Returns the filters for a compiler; none on a kind of processor that has none.
pub(crate) fn filters() -> io::Result<Option<Filters>> {
    static FILTERS: LazyLock<Result<Vec<BpfProgram>, String>> = LazyLock::new(make);
    if TargetArch::try_from(std::env::consts::ARCH).is_err() {
        return Ok(None);
    }
    match &*FILTERS {
        Ok(programs) => Ok(Some(Filters(programs))),
        Err(why) => Err(io::Error::other(format!("the filter for compilers: {why}"))),
    }
}

impl Filters {
    /// Forbids this thread, and everything that it starts, what a compiler may not do. Only makes system
    /// calls, so it can be used between `fork` and `exec`.
    pub(crate) fn install(self) -> io::Result<()> {
        for program in self.0 {
            if seccompiler::apply_filter(program).is_err() {
                let error = io::Error::last_os_error();
                // A kernel without filters; what candidates lack there is part of the environment's record.
                return if error.raw_os_error() == Some(libc::EINVAL) {
                    Ok(())
                } else {
                    Err(error)
                };
            }
        }
        Ok(())
    }
}

fn make() -> Result<Vec<BpfProgram>, String> {
    let refused = SeccompAction::Errno(libc::EPERM as u32);
    // Its flags are in memory, where no filter can look; C libraries then make the call that can be filtered.
    let unknown = SeccompAction::Errno(libc::ENOSYS as u32);
    let clone3 = BTreeMap::from([(libc::SYS_clone3, Vec::new())]);
    Ok(vec![program(rules()?, refused)?, program(clone3, unknown)?])
}

type Rules = BTreeMap<i64, Vec<SeccompRule>>;

fn rules() -> Result<Rules, String> {
    let mut rules: Rules =
        FORBIDDEN.iter().chain(FORBIDDEN_HERE).map(|call| (*call, Vec::new())).collect();
    let any_of = |argument: u8, operators: &mut dyn Iterator<Item = (SeccompCmpOp, u64)>| {
        operators
            .map(|(operator, value)| {
                let condition =
                    SeccompCondition::new(argument, SeccompCmpArgLen::Dword, operator, value);
                condition.and_then(|one| SeccompRule::new(vec![one])).map_err(text)
            })
            .collect::<Result<Vec<_>, String>>()
    };
    let mut equal = FORBIDDEN_FCNTL.iter().map(|command| (SeccompCmpOp::Eq, *command as u64));
    rules.insert(libc::SYS_fcntl, any_of(1, &mut equal)?);
    let mut equal = FORBIDDEN_IOCTL.iter().map(|request| (SeccompCmpOp::Eq, u64::from(*request)));
    rules.insert(libc::SYS_ioctl, any_of(1, &mut equal)?);
    let bit = |flag: &i32| {
        let flag = u64::from(*flag as u32);
        (SeccompCmpOp::MaskedEq(flag), flag)
    };
    rules.insert(libc::SYS_clone, any_of(0, &mut FORBIDDEN_CLONE.iter().map(bit))?);
    // Its own limits are a compiler's to lower; another process's limit on time would kill it.
    rules.insert(libc::SYS_prlimit64, any_of(0, &mut [(SeccompCmpOp::Ne, 0)].into_iter())?);
    Ok(rules)
}

/// Translates rules: what they name ends with `action`, everything else is allowed.
fn program(rules: Rules, action: SeccompAction) -> Result<BpfProgram, String> {
    let arch: TargetArch = std::env::consts::ARCH.try_into().map_err(text)?;
    let filter = SeccompFilter::new(rules, SeccompAction::Allow, action, arch).map_err(text)?;
    let program: BpfProgram = filter.try_into().map_err(text)?;
    Ok(without_x32(program))
}

/// Refuses the calls of the x32 convention, which have other numbers under the same architecture.
#[cfg(target_arch = "x86_64")]
fn without_x32(program: BpfProgram) -> BpfProgram {
    use seccompiler::sock_filter;
    /// The bit in their numbers.
    const X32: u32 = 0x4000_0000;
    let refused = libc::SECCOMP_RET_ERRNO | libc::EPERM as u32;
    // Load the number; refuse it where it has the bit; else go on with the program.
    let load = sock_filter {
        code: (libc::BPF_LD | libc::BPF_W | libc::BPF_ABS) as u16,
        jt: 0,
        jf: 0,
        k: 0,
    };
    let compare = sock_filter {
        code: (libc::BPF_JMP | libc::BPF_JGE | libc::BPF_K) as u16,
        jt: 0,
        jf: 1,
        k: X32,
    };
    let refuse =
        sock_filter { code: (libc::BPF_RET | libc::BPF_K) as u16, jt: 0, jf: 0, k: refused };
    [load, compare, refuse].into_iter().chain(program).collect()
}

#[cfg(not(target_arch = "x86_64"))]
fn without_x32(program: BpfProgram) -> BpfProgram {
    program
}

fn text(error: impl std::fmt::Display) -> String {
    error.to_string()
}
