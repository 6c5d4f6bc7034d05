//! How many blocks fit on a multiprocessor, from what the code uses; for diagnoses without counters.

/// What a multiprocessor of an architecture holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Multiprocessor {
    /// Warps at most.
    pub warps: u32,
    /// Blocks at most.
    pub blocks: u32,
    /// Registers.
    pub registers: u32,
    /// Bytes of shared memory.
    pub smem_bytes: u32,
}

/// Registers are handed out to warps in portions of this many, on every architecture listed below.
const REGISTER_PORTION: u32 = 256;
/// Bytes of shared memory that the system keeps in each block, since compute capability 8.0.
const SYSTEM_SMEM_BYTES: u32 = 1024;
/// Warps share registers by quarter of a multiprocessor.
const QUARTERS: u32 = 4;
const WARP_THREADS: u32 = 32;

/// Returns what a multiprocessor holds, as the CUDA programming guide states it ("Technical
/// specifications per compute capability"); none for an architecture that is not known here.
pub fn multiprocessor(arch: &str) -> Option<Multiprocessor> {
    let (warps, blocks, smem_kib) = match arch.trim_end_matches(['a', 'f']) {
        "sm_80" => (64, 32, 164),
        "sm_86" => (48, 16, 100),
        "sm_89" => (48, 24, 100),
        "sm_90" => (64, 32, 228),
        "sm_100" => (64, 32, 228),
        "sm_120" => (48, 24, 100),
        _ => return None,
    };
    Some(Multiprocessor { warps, blocks, registers: 65536, smem_bytes: smem_kib << 10 })
}

/// The blocks that fit, and why not more.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Occupancy {
    /// Blocks on a multiprocessor at once.
    pub blocks: u32,
    /// The share of its warps that they make.
    pub share: f64,
    /// What keeps it from holding more.
    pub limiter: &'static str,
}

/// Computes how many blocks fit; none where a block does not fit at all.
pub fn occupancy(
    holds: Multiprocessor,
    threads: u32,
    registers: u32,
    smem_bytes: u32,
) -> Option<Occupancy> {
    let warps = threads.div_ceil(WARP_THREADS).max(1);
    let warp_registers =
        (registers * WARP_THREADS).next_multiple_of(REGISTER_PORTION).max(REGISTER_PORTION);
    let warps_by_registers = (holds.registers / QUARTERS / warp_registers) * QUARTERS;
    let block_smem = (smem_bytes + SYSTEM_SMEM_BYTES).max(1);
    let (blocks, limiter) = [
        // Of equal limits the first is named: what is full is not worth changing the others for.
        (holds.warps / warps, "the number of warps"),
        (holds.blocks, "the number of blocks"),
        (warps_by_registers / warps, "registers"),
        (holds.smem_bytes / block_smem, "shared memory"),
    ]
    .into_iter()
    .min_by_key(|(blocks, _)| *blocks)?;
    let share = f64::from(blocks * warps) / f64::from(holds.warps);
    (blocks > 0).then_some(Occupancy { blocks, share, limiter })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What the profiler said of launches on an sm_90, and arithmetic on paper.
    #[test]
    fn blocks_that_fit_are_counted() {
        let check = |threads, registers, smem, blocks, limiter: &str| {
            let holds = multiprocessor("sm_90a").expect("known");
            let found = occupancy(holds, threads, registers, smem).expect("it fits");
            assert_eq!((found.blocks, found.limiter), (blocks, limiter), "{threads} {registers}");
        };
        check(256, 32, 0, 8, "the number of warps");
        check(128, 40, 0, 12, "registers");
        check(384, 168, 164_096, 1, "registers");
        check(256, 128, 112_000, 2, "registers");
        check(128, 64, 112_000, 2, "shared memory");
        check(1024, 16, 0, 2, "the number of warps");
        check(32, 16, 0, 32, "the number of blocks");
        let holds = multiprocessor("sm_90a").expect("known");
        assert_eq!(occupancy(holds, 1024, 255, 0), None, "a block that does not fit");
        assert_eq!(multiprocessor("sm_10"), None);
    }
}
