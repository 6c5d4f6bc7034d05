//! fast_p over a set of problems: the share that is right and faster than p times the baseline.
//!
//! The measure of KernelBench (Ouyang et al., 2025): a problem counts at `p` when its kernel is correct and
//! the baseline's time over the kernel's is above `p`. At 0 it is the share of problems that are solved.

/// The values of p that are reported.
pub const FAST_P: [f64; 6] = [0.0, 0.5, 0.8, 1.0, 1.5, 2.0];

/// Returns the share of problems whose speed-up is above `p`; a problem without one is not solved. None
/// where there are no problems.
pub fn fast_p(speedups: &[Option<f64>], p: f64) -> Option<f64> {
    let counted = speedups.iter().flatten().filter(|speedup| **speedup > p).count();
    (!speedups.is_empty()).then(|| counted as f64 / speedups.len() as f64)
}

#[cfg(test)]
mod tests {
    use super::fast_p;

    #[test]
    fn problems_without_a_right_kernel_count_against_the_share() {
        let speedups = [Some(0.9), Some(1.0), Some(3.0), None];
        let check = |p: f64, expected: f64| assert_eq!(fast_p(&speedups, p), Some(expected), "{p}");
        check(0.0, 0.75);
        check(0.8, 0.75);
        check(0.9, 0.5);
        check(1.0, 0.25);
        check(3.0, 0.0);
        assert_eq!(fast_p(&[], 1.0), None);
    }
}
