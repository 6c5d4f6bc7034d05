//! The floating-point settings of a thread: rounding, flushing of small numbers, traps.
//!
//! The calling conventions say that a function leaves them as it found them. One that does not would
//! change what runs next on the thread, in this harness as in the program that it was made for.

/// Brings this thread's settings back to what a process begins with; returns whether they were others.
#[cfg(target_arch = "x86_64")]
pub(super) fn restore() -> bool {
    /// Everything masked, to nearest, nothing flushed; the lowest six bits are sticky flags.
    const VECTOR: u32 = 0x1f80;
    const FLAGS: u32 = 0x3f;
    /// Everything masked, to nearest, 64 bits of mantissa.
    const X87: u16 = 0x037f;
    let (mut vector, mut x87) = (0u32, 0u16);
    // SAFETY: both store a control register where they are told to.
    unsafe {
        std::arch::asm!(
            "stmxcsr [{vector}]",
            "fnstcw [{x87}]",
            vector = in(reg) &raw mut vector,
            x87 = in(reg) &raw mut x87,
            options(nostack, preserves_flags)
        );
    }
    let is_changed = vector & !FLAGS != VECTOR || x87 != X87;
    if is_changed {
        (vector, x87) = (VECTOR, X87);
        // SAFETY: both load a control register with what every process begins with.
        unsafe {
            std::arch::asm!(
                "ldmxcsr [{vector}]",
                "fldcw [{x87}]",
                vector = in(reg) &raw const vector,
                x87 = in(reg) &raw const x87,
                options(nostack, preserves_flags, readonly)
            );
        }
    }
    is_changed
}

/// The same on other machines.
#[cfg(target_arch = "aarch64")]
pub(super) fn restore() -> bool {
    let settings: u64;
    // SAFETY: reads a control register.
    unsafe { std::arch::asm!("mrs {}, fpcr", out(reg) settings, options(nomem, nostack)) };
    if settings != 0 {
        // SAFETY: loads the control register with what every process begins with.
        unsafe { std::arch::asm!("msr fpcr, {}", in(reg) 0u64, options(nomem, nostack)) };
    }
    settings != 0
}

/// Nothing is known of the settings of these machines.
#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
pub(super) fn restore() -> bool {
    false
}
