//! Sleeping on a word that two processes share.

use std::sync::atomic::AtomicU32;
use std::time::Duration;

/// Sleeps until somebody wakes the word, while it still has the expected value; returns early at the
/// timeout, on a signal, or for no reason. Callers look at the word again and decide.
pub(crate) fn wait(word: &AtomicU32, expected: u32, timeout: Option<Duration>) {
    let timespec = timeout.map(|timeout| libc::timespec {
        tv_sec: timeout.as_secs() as libc::time_t,
        tv_nsec: libc::c_long::from(timeout.subsec_nanos() as i32),
    });
    let timespec_pointer = timespec.as_ref().map_or(std::ptr::null(), std::ptr::from_ref);
    // SAFETY: `word` is a live, aligned 32-bit word and the timeout, if any, outlives the call. The
    // result is not looked at: each way of failing is a reason to look at the word again.
    unsafe {
        libc::syscall(libc::SYS_futex, word.as_ptr(), libc::FUTEX_WAIT, expected, timespec_pointer);
    }
}

/// Wakes everybody who sleeps on the word.
pub(crate) fn wake_all(word: &AtomicU32) {
    // SAFETY: `word` is a live, aligned 32-bit word; waking has no other precondition.
    unsafe {
        libc::syscall(libc::SYS_futex, word.as_ptr(), libc::FUTEX_WAKE, i32::MAX);
    }
}
