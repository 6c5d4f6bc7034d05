//! Which user a candidate runs as, and with what privileges: none.
//!
//! A harness that is started by root would otherwise run candidates as root, to whom the kernel shows
//! more of other processes than any filter on system calls takes back.

use std::io;

use crate::sys::check;

/// The user and group that own nothing, on every Linux.
const NOBODY: libc::uid_t = 65534;

/// What changing the user takes, and what the process that commands this one needs to go on signalling
/// it afterwards. Numbers from `linux/capability.h`.
const CAP_KILL: u32 = 5;
const CAP_SETGID: u32 = 6;
const CAP_SETUID: u32 = 7;
const CAP_SETPCAP: u32 = 8;
const LAST_CAPABILITY: u32 = 63;

/// Gives up the identity of root, where this process has it, and every capability. Comes before the
/// process has a second thread.
pub(super) fn give_up() -> Result<(), String> {
    // SAFETY: has no preconditions.
    let is_root = unsafe { libc::geteuid() } == 0;
    let held = effective().map_err(|error| format!("asking for capabilities: {error}"))?;
    let has = |capability: u32| held >> capability & 1 == 1;
    if has(CAP_SETPCAP) {
        for capability in 0..=LAST_CAPABILITY {
            // SAFETY: takes integers only; fails for capabilities that this kernel does not know.
            unsafe { libc::prctl(libc::PR_CAPBSET_DROP, libc::c_ulong::from(capability), 0, 0, 0) };
        }
    }
    let can_leave = [CAP_KILL, CAP_SETGID, CAP_SETUID].into_iter().all(has);
    if is_root && can_leave {
        leave_root().map_err(|error| format!("becoming nobody: {error}"))?;
    }
    drop_capabilities().map_err(|error| format!("dropping capabilities: {error}"))?;
    if is_root && !can_leave {
        return Err("candidates run as root, without capabilities: this process may not become \
                    another user's"
            .to_string());
    }
    Ok(())
}

/// Closes this process's memory and files to every other process of its user.
pub(super) fn close_to_others() -> io::Result<()> {
    set_open_to_others(false)
}

fn leave_root() -> io::Result<()> {
    // SAFETY: takes no groups, so none are read.
    check(unsafe { libc::setgroups(0, std::ptr::null()) })?;
    // SAFETY: takes integers only.
    check(unsafe { libc::setresgid(NOBODY, NOBODY, NOBODY) })?;
    // SAFETY: takes integers only.
    check(unsafe { libc::setresuid(NOBODY, NOBODY, NOBODY) })?;
    // Otherwise its own files below /proc, through which the artifact is loaded, would stay root's.
    set_open_to_others(true)
}

fn set_open_to_others(is_open: bool) -> io::Result<()> {
    // SAFETY: takes integers only.
    check(unsafe { libc::prctl(libc::PR_SET_DUMPABLE, libc::c_ulong::from(is_open), 0, 0, 0) })?;
    Ok(())
}

/// The kernel's structures for capabilities, of which the C library has no description.
#[repr(C)]
struct Header {
    version: u32,
    pid: i32,
}

#[repr(C)]
#[derive(Clone, Copy, Default)]
struct Sets {
    effective: u32,
    permitted: u32,
    inheritable: u32,
}

const VERSION_3: u32 = 0x2008_0522;

fn effective() -> io::Result<u64> {
    let mut header = Header { version: VERSION_3, pid: 0 };
    let mut sets = [Sets::default(); 2];
    // SAFETY: both structures are what this version of the call fills.
    let told = unsafe { libc::syscall(libc::SYS_capget, &raw mut header, sets.as_mut_ptr()) };
    check(told as libc::c_int)?;
    Ok(u64::from(sets[1].effective) << 32 | u64::from(sets[0].effective))
}

fn drop_capabilities() -> io::Result<()> {
    let mut header = Header { version: VERSION_3, pid: 0 };
    let none = [Sets::default(); 2];
    // SAFETY: both structures are what this version of the call reads.
    let done = unsafe { libc::syscall(libc::SYS_capset, &raw mut header, none.as_ptr()) };
    check(done as libc::c_int)?;
    Ok(())
}
