//! Thin, owned wrappers around the system calls that the CPU target needs.
//!
//! Nothing here knows about kernels, tensors or trials. Every wrapper returns `io::Result` and owns
//! what it opened, so that the floors above contain little `unsafe`.

pub(crate) mod files;
pub(crate) mod futex;
pub(crate) mod memory;
pub(crate) mod process;
pub(crate) mod socket;

use std::io;

/// Turns the `-1` of a C call into the error that it stands for.
pub(crate) fn check(result: libc::c_int) -> io::Result<libc::c_int> {
    if result == -1 { Err(io::Error::last_os_error()) } else { Ok(result) }
}
