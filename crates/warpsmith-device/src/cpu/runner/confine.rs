//! What a runner gives up before it lets a candidate in.
//!
//! Each function takes away one kind of right for good. Where the kernel lacks the means, the
//! function says so, the runner goes on, and the trial's environment records what was missing.

use std::collections::BTreeMap;
use std::ops::Range;

use landlock::{
    ABI, Access, AccessFs, AccessNet, CompatLevel, Compatible, Ruleset, RulesetAttr,
    RulesetCreatedAttr, RulesetStatus, Scope, path_beneath_rules,
};
use seccompiler::{
    BpfProgram, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompFilter,
    SeccompRule, TargetArch,
};

use crate::cpu::layout::{ARENA_ALIGNMENT, LEAD_BYTES};
use crate::cpu::plan::RunnerPlan;
use crate::sys::process::limit;

/// What a candidate may allocate beside its tensors and scratch buffers.
const ALLOCATION_BYTES: u64 = 1 << 30;

/// Addresses that the C library's allocator reserves for each thread, used or not.
const HEAP_RESERVE_BYTES: u64 = 160 << 20;

/// Seconds of processor time, for when the worker neither limits it launch by launch nor kills: a day.
const CPU_TIME_S: u64 = 86_400;

/// Files that loading an artifact has open at once, with room to spare.
const OPEN_FILES: u64 = 16;

/// Where the C library and its kin are; what loading an artifact reads.
const LIBRARY_PATHS: [&str; 8] = [
    "/lib",
    "/lib32",
    "/lib64",
    "/usr/lib",
    "/usr/lib64",
    "/usr/local/lib",
    "/nix/store",
    "/etc/ld.so.cache",
];

/// The newest rules that this code knows; a kernel that has fewer enforces what it has.
const LANDLOCK_ABI: ABI = ABI::V6;

/// Closes the file system, except for reading libraries, and the network. The artifact needs no
/// exception: it is open already and has no name.
pub(super) fn close_file_system() -> Result<(), String> {
    let restrict = || {
        let existing = LIBRARY_PATHS.iter().filter(|path| std::path::Path::new(path).exists());
        Ruleset::default()
            .set_compatibility(CompatLevel::BestEffort)
            .handle_access(AccessFs::from_all(LANDLOCK_ABI))?
            .handle_access(AccessNet::from_all(LANDLOCK_ABI))?
            .scope(Scope::from_all(LANDLOCK_ABI))?
            .create()?
            .add_rules(path_beneath_rules(existing, AccessFs::from_read(LANDLOCK_ABI)))?
            .restrict_self()
    };
    match restrict().map_err(|error: landlock::RulesetError| error.to_string())?.ruleset {
        RulesetStatus::NotEnforced => Err("this kernel has no Landlock".to_string()),
        RulesetStatus::PartiallyEnforced | RulesetStatus::FullyEnforced => Ok(()),
    }
}

/// Returns the size of this process. Asked before the file system is closed.
pub(super) fn mapped_bytes() -> Result<u64, String> {
    let pages = std::fs::read_to_string("/proc/self/statm").map_err(text)?;
    let pages = pages.split(' ').next().and_then(|pages| pages.parse::<u64>().ok());
    let pages = pages.ok_or("/proc/self/statm does not begin with a number")?;
    Ok(pages * crate::sys::memory::page_bytes() as u64)
}

/// Limits memory beyond the arena and what was mapped before it, files, processes and processor time,
/// which the worker limits further, launch by launch.
pub(super) fn limit_resources(plan: &RunnerPlan, mapped: u64) -> Result<(), String> {
    let named = |name: &'static str| move |error| format!("{name}: {error}");
    let arena = (LEAD_BYTES + ARENA_ALIGNMENT + plan.arena_bytes) as u64;
    let heaps = HEAP_RESERVE_BYTES * plan.cpus.len() as u64;
    limit(libc::RLIMIT_AS, mapped + arena + heaps + ALLOCATION_BYTES)
        .map_err(named("RLIMIT_AS"))?;
    limit(libc::RLIMIT_CPU, CPU_TIME_S).map_err(named("RLIMIT_CPU"))?;
    limit(libc::RLIMIT_CORE, 0).map_err(named("RLIMIT_CORE"))?;
    limit(libc::RLIMIT_FSIZE, 0).map_err(named("RLIMIT_FSIZE"))?;
    limit(libc::RLIMIT_NPROC, 0).map_err(named("RLIMIT_NPROC"))?;
    limit(libc::RLIMIT_NOFILE, OPEN_FILES).map_err(named("RLIMIT_NOFILE"))
}

/// Leaves this thread the system calls that loading and running need. Nothing of a candidate runs under
/// it: constructors wait until [`filter_for_running`] is installed on this thread, too.
pub(super) fn filter_for_loading(arena: &Range<u64>) -> Result<(), String> {
    let mut rules = running_rules(arena)?;
    rules.insert(libc::SYS_mprotect, outside(arena, &[])?);
    for call in [
        libc::SYS_read,
        libc::SYS_pread64,
        libc::SYS_lseek,
        libc::SYS_fstat,
        libc::SYS_newfstatat,
        libc::SYS_statx,
        libc::SYS_faccessat,
        libc::SYS_readlinkat,
        libc::SYS_close,
        libc::SYS_close_range,
        libc::SYS_mmap,
        libc::SYS_getcwd,
        // For the answer to the worker; at the time that the candidate is loaded no file is open.
        libc::SYS_write,
        libc::SYS_sendto,
        libc::SYS_sendmsg,
    ] {
        rules.insert(call, vec![]);
    }
    #[cfg(target_arch = "x86_64")]
    for call in [libc::SYS_access, libc::SYS_readlink, libc::SYS_arch_prctl] {
        rules.insert(call, vec![]);
    }
    let forbidden = libc::O_ACCMODE | libc::O_CREAT | libc::O_TRUNC;
    rules.insert(libc::SYS_openat, vec![rule(&[masked(2, forbidden, 0)?])?]);
    #[cfg(target_arch = "x86_64")]
    rules.insert(libc::SYS_open, vec![rule(&[masked(1, forbidden, 0)?])?]);
    // Newer C libraries name the memory that they allocate. The others are for what comes after loading.
    let named = [libc::PR_SET_VMA, libc::PR_SET_DUMPABLE, libc::PR_SET_NO_NEW_PRIVS];
    let named: Result<_, _> = named.iter().map(|name| rule(&[equal(0, *name)?])).collect();
    rules.insert(libc::SYS_prctl, named?);
    rules.insert(libc::SYS_seccomp, vec![]);
    install(&program(rules)?)
}

/// Returns the filter that leaves the system calls that running needs.
pub(super) fn filter_for_running(arena: &Range<u64>) -> Result<BpfProgram, String> {
    program(running_rules(arena)?)
}

/// Installs a filter on this thread, for good.
pub(super) fn install(filter: &BpfProgram) -> Result<(), String> {
    seccompiler::apply_filter(filter).map_err(text)
}

type Rules = BTreeMap<i64, Vec<SeccompRule>>;

fn running_rules(arena: &Range<u64>) -> Result<Rules, String> {
    let mut rules = Rules::new();
    for call in [
        // The harness's own threads.
        libc::SYS_futex,
        libc::SYS_sched_yield,
        libc::SYS_restart_syscall,
        libc::SYS_rt_sigreturn,
        libc::SYS_exit,
        libc::SYS_exit_group,
        // The allocator.
        libc::SYS_brk,
        libc::SYS_munmap,
        libc::SYS_sched_getaffinity,
        libc::SYS_gettimeofday,
        libc::SYS_nanosleep,
        libc::SYS_getcpu,
        // What `abort` does on its way to the signal.
        libc::SYS_rt_sigprocmask,
        libc::SYS_getpid,
        libc::SYS_gettid,
    ] {
        rules.insert(call, vec![]);
    }
    // Clocks, where the kernel does not answer from user space; theirs counts for nothing. Not those of
    // other processes, whose numbers are negative: how much time another has used can be a message.
    for call in [libc::SYS_clock_gettime, libc::SYS_clock_getres, libc::SYS_clock_nanosleep] {
        rules.insert(call, vec![rule(&[at_most(0, libc::CLOCK_TAI)?])?]);
    }
    // Memory without a file and without the right to be executed. At a fixed address it could
    // replace a tensor or a guard.
    let anonymous = libc::MAP_ANONYMOUS;
    rules.insert(
        libc::SYS_mmap,
        vec![rule(&[
            masked(2, libc::PROT_EXEC, 0)?,
            masked(3, anonymous | libc::MAP_FIXED, anonymous)?,
        ])?],
    );
    // Protections in the arena stay, and hidden pages stay hidden: moving a range would unhide it.
    rules.insert(libc::SYS_mremap, outside(arena, &[masked(3, libc::MREMAP_FIXED, 0)?])?);
    rules.insert(libc::SYS_mprotect, outside(arena, &[masked(2, libc::PROT_EXEC, 0)?])?);
    // What allocators advise.
    let advice = [libc::MADV_DONTNEED, libc::MADV_FREE, libc::MADV_HUGEPAGE, libc::MADV_NOHUGEPAGE];
    let advice: Result<_, _> = advice.iter().map(|advice| rule(&[equal(2, *advice)?])).collect();
    rules.insert(libc::SYS_madvise, advice?);
    // A failed assertion complains to standard error, which is closed, and raises `SIGABRT`.
    let standard_error = || rule(&[equal(0, libc::STDERR_FILENO)?]);
    rules.insert(libc::SYS_write, vec![standard_error()?]);
    rules.insert(libc::SYS_writev, vec![standard_error()?]);
    let own_id = std::process::id() as i32;
    rules.insert(libc::SYS_tgkill, vec![rule(&[equal(0, own_id)?, equal(2, libc::SIGABRT)?])?]);
    Ok(rules)
}

/// Translates rules; whatever they do not name raises `SIGSYS`.
fn program(rules: Rules) -> Result<BpfProgram, String> {
    let arch: TargetArch = std::env::consts::ARCH.try_into().map_err(text)?;
    let filter =
        SeccompFilter::new(rules, SeccompAction::Trap, SeccompAction::Allow, arch).map_err(text)?;
    filter.try_into().map_err(text)
}

fn rule(conditions: &[SeccompCondition]) -> Result<SeccompRule, String> {
    SeccompRule::new(conditions.to_vec()).map_err(text)
}

/// The bits of an argument that the mask names have this value.
fn masked(argument: u8, mask: i32, value: i32) -> Result<SeccompCondition, String> {
    let operator = SeccompCmpOp::MaskedEq(u64::from(mask as u32));
    SeccompCondition::new(argument, SeccompCmpArgLen::Dword, operator, u64::from(value as u32))
        .map_err(text)
}

/// The conditions hold, and the range that the first two arguments name is outside of the arena.
fn outside(
    arena: &Range<u64>,
    conditions: &[SeccompCondition],
) -> Result<Vec<SeccompRule>, String> {
    let compare = |argument, operator, value| {
        SeccompCondition::new(argument, SeccompCmpArgLen::Qword, operator, value).map_err(text)
    };
    let lead_start = arena.start - LEAD_BYTES as u64;
    let behind = vec![compare(0, SeccompCmpOp::Ge, arena.end)?];
    let before = vec![
        compare(0, SeccompCmpOp::Lt, lead_start)?,
        compare(1, SeccompCmpOp::Le, LEAD_BYTES as u64)?,
    ];
    [behind, before].into_iter().map(|place| rule(&[conditions, &place].concat())).collect()
}

fn equal(argument: u8, value: i32) -> Result<SeccompCondition, String> {
    let value = u64::from(value as u32);
    SeccompCondition::new(argument, SeccompCmpArgLen::Dword, SeccompCmpOp::Eq, value).map_err(text)
}

fn at_most(argument: u8, value: i32) -> Result<SeccompCondition, String> {
    let value = u64::from(value as u32);
    SeccompCondition::new(argument, SeccompCmpArgLen::Dword, SeccompCmpOp::Le, value).map_err(text)
}

fn text(error: impl std::fmt::Display) -> String {
    error.to_string()
}
