//! The C library's heap, which candidates may use.

use std::io;

/// What is allocated and given back, so that the heap of a thread shrinks: more than the library keeps at hand.
const BLOCKS: usize = 8;
const BLOCK_BYTES: usize = 100 << 10;

/// Lets the C library look up the system's policy on memory, which it does once, when the heap of a thread that is
/// not the first one shrinks. It opens a file for that, which no thread may do once a candidate runs, so a kernel
/// that gave back two buffers would be ended for something that it did not do.
pub(super) fn look_up_policy() -> io::Result<()> {
    let shrink = || {
        // SAFETY: what was allocated is given back once.
        unsafe {
            let blocks: [_; BLOCKS] = std::array::from_fn(|_| libc::malloc(BLOCK_BYTES));
            for block in blocks.into_iter().rev() {
                libc::free(std::hint::black_box(block));
            }
        }
    };
    let thread = std::thread::Builder::new().spawn(shrink)?;
    thread.join().map_err(|_| io::Error::other("a thread that used the heap panicked"))
}

/// Fills what is allocated, and what is given back, with noise from now on, as in a process that has been at work
/// for a while; a kernel could take the zeros of a new one for granted.
pub(super) fn hold_noise(noise: u8) {
    // Zero would switch it off.
    let byte = libc::c_int::from(noise.max(1));
    // SAFETY: has no preconditions. A library that knows no such setting refuses it.
    unsafe { libc::mallopt(libc::M_PERTURB, byte) };
}
