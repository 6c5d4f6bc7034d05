//! Fatal signals, described on the control page before they end the process.

use std::io;
use std::sync::atomic::{AtomicPtr, Ordering};

use crate::cpu::control::Control;
use crate::sys::check;

/// Where the handler writes; set before a handler can run.
static CONTROL: AtomicPtr<Control> = AtomicPtr::new(std::ptr::null_mut());

/// The size of a handler's stack: the kernel saves all vector registers on it, which takes up to
/// 11 KiB with the widest ones of today.
const HANDLER_STACK_BYTES: usize = 64 << 10;

/// The status of a runner that described its end.
const DESCRIBED: i32 = 121;

/// Catches the signals that a candidate's mistakes raise.
pub(super) fn catch_fatal(control: &'static Control) -> io::Result<()> {
    CONTROL.store(std::ptr::from_ref(control).cast_mut(), Ordering::Release);
    for signal in [libc::SIGSEGV, libc::SIGBUS, libc::SIGFPE, libc::SIGILL, libc::SIGSYS] {
        // SAFETY: all zeros is a valid `sigaction`; the handler only does what a handler may.
        unsafe {
            let mut action: libc::sigaction = std::mem::zeroed();
            action.sa_sigaction = describe as *const () as usize;
            action.sa_flags = libc::SA_SIGINFO | libc::SA_ONSTACK;
            check(libc::sigaction(signal, &raw const action, std::ptr::null_mut()))?;
        }
    }
    Ok(())
}

/// Gives this thread a stack for handlers, so that an overflow of its own stack can be described.
pub(super) fn use_own_stack() -> io::Result<()> {
    // The first allocation of a thread makes the allocator ask the system for a heap and the number
    // of processors; it is made here, while the thread may still ask.
    let memory = Box::leak(vec![0u8; HANDLER_STACK_BYTES].into_boxed_slice());
    let stack = libc::stack_t {
        ss_sp: memory.as_mut_ptr().cast(),
        ss_flags: 0,
        ss_size: HANDLER_STACK_BYTES,
    };
    // SAFETY: the memory is leaked, so it outlives every handler.
    check(unsafe { libc::sigaltstack(&raw const stack, std::ptr::null_mut()) })?;
    Ok(())
}

extern "C" fn describe(
    signal: libc::c_int,
    info: *mut libc::siginfo_t,
    _context: *mut libc::c_void,
) {
    // SAFETY: the control page is never unmapped by the harness; if the candidate did that, this
    // faults and the kernel ends the process.
    let control = unsafe { &*CONTROL.load(Ordering::Acquire) };
    let is_first =
        control.crash_state.compare_exchange(0, 1, Ordering::AcqRel, Ordering::Acquire).is_ok();
    if is_first {
        // SAFETY: the kernel passes a valid description. The C library has no accessor for the
        // number of a system call; it follows the call's address, which begins the union at 16.
        let (code, detail) = unsafe {
            let code = (*info).si_code;
            if signal == libc::SIGSYS {
                (code, u64::from(info.cast::<u8>().add(24).cast::<u32>().read()))
            } else {
                (code, (*info).si_addr() as u64)
            }
        };
        control.crash_signal.store(signal as u32, Ordering::Relaxed);
        control.crash_code.store(code as u32, Ordering::Relaxed);
        control.crash_detail.store(detail, Ordering::Relaxed);
        control.crash_state.store(2, Ordering::Release);
        control.ring();
        // SAFETY: ends the process without running anything of the candidate's.
        unsafe { libc::_exit(DESCRIBED) };
    }
    // Another thread is describing the end of the process and must not be cut short.
    loop {
        // SAFETY: has no preconditions.
        unsafe { libc::sched_yield() };
    }
}
