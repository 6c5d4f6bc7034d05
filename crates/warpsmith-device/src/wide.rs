//! Loops that are compiled twice, for every processor and for those with AVX2, so that a crate without
//! `unsafe` can have them: calling what was compiled for more than every processor takes some.

/// A loop that gains from wider vectors than every processor has.
pub trait WideLoop {
    /// What it finds.
    type Output;

    /// Runs the loop. To be `#[inline(always)]`, like what it calls: what is not inlined is compiled for
    /// every processor alone.
    fn run(self) -> Self::Output;
}

/// Runs a loop with the widest vectors that the processor has.
pub fn run<L: WideLoop>(wide_loop: L) -> L::Output {
    #[cfg(target_arch = "x86_64")]
    if std::arch::is_x86_feature_detected!("avx2") {
        // SAFETY: the processor has the one feature that the function asks for.
        return unsafe { run_avx2(wide_loop) };
    }
    wide_loop.run()
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2")]
fn run_avx2<L: WideLoop>(wide_loop: L) -> L::Output {
    wide_loop.run()
}
