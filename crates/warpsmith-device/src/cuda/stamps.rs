//! Time on the device's own cycle counters: kernels of the harness write them down right before and
//! right after a launch, on every multiprocessor. The candidate has no part in it.
//!
//! Cycles rank configurations better than seconds when launches are short: they do not depend on how
//! the device's clock rises and falls, and they begin where the multiprocessor became free, not where
//! an event was recorded.

use cudarc::driver::sys;

use super::driver::{self, Argument, Buffer, Context, Extents, Module, Result};

/// Loaded as text, which the driver compiles for the device; it ends with a zero, as the driver wants.
const KERNELS: &str = concat!(include_str!("stamps.ptx"), "\0");

/// Room for the stamps of this many multiprocessors; their numbers may have gaps.
const SLOTS: usize = 1024;
/// Threads of a stamping block: as many as a block can have, so that few fit on a multiprocessor.
const THREADS: u32 = 1024;
/// Stamping blocks for each multiprocessor: all that fit, so that each gets one.
const BLOCKS_PER_SM: u32 = 2;
/// Readings with nothing between the stamps, the least of which is taken off every other.
const FLOOR_READINGS: usize = 20;

/// The stamping kernels and what they wrote.
#[derive(Debug)]
pub(super) struct Stamps {
    before: sys::CUfunction,
    after: sys::CUfunction,
    befores: Buffer,
    afters: Buffer,
    blocks: u32,
    /// Cycles between the stamps when nothing is between them.
    floor: u64,
    _module: Module,
}

impl Stamps {
    pub(super) fn new(context: &Context, sms: u32) -> Result<Self> {
        let module = Module::load(KERNELS.as_bytes())?;
        let mut stamps = Self {
            before: module.function("warpsmith_before")?,
            after: module.function("warpsmith_after")?,
            befores: Buffer::new(8 * SLOTS)?,
            afters: Buffer::new(8 * SLOTS)?,
            blocks: BLOCKS_PER_SM * sms,
            floor: 0,
            _module: module,
        };
        let graph = context.capture(|| stamps.around(context.stream, || Ok(())))?;
        let mut floor = u64::MAX;
        for _ in 0..FLOOR_READINGS {
            stamps.reset()?;
            context.replay(&graph)?;
            floor = floor.min(stamps.cycles()?.unwrap_or(u64::MAX));
        }
        stamps.floor = if floor == u64::MAX { 0 } else { floor };
        Ok(stamps)
    }

    /// Forgets what was written.
    pub(super) fn reset(&self) -> Result<()> {
        self.befores.fill(0, self.befores.bytes, &[0])?;
        self.afters.fill(0, self.afters.bytes, &[0xff])
    }

    /// Puts the stamps into the stream, before and after what `enqueue` puts there.
    pub(super) fn around(
        &self,
        stream: sys::CUstream,
        enqueue: impl FnOnce() -> Result<()>,
    ) -> Result<()> {
        let extents = Extents {
            grid: [self.blocks, 1, 1],
            block: [THREADS, 1, 1],
            cluster: [1, 1, 1],
            smem: 0,
        };
        driver::launch(stream, self.before, extents, &mut [Argument::Pointer(self.befores.at)])?;
        enqueue()?;
        driver::launch(stream, self.after, extents, &mut [Argument::Pointer(self.afters.at)])
    }

    /// Returns the cycles between the stamps on the multiprocessor where it took longest, less what
    /// stamping takes; none when no multiprocessor has both.
    pub(super) fn cycles(&self) -> Result<Option<u64>> {
        let read = |buffer: &Buffer| {
            let mut bytes = vec![0; buffer.bytes];
            buffer.read(0, &mut bytes)?;
            let word =
                |chunk: &[u8]| chunk.iter().rev().fold(0, |sum, byte| sum << 8 | u64::from(*byte));
            Ok(bytes.chunks_exact(8).map(word).collect::<Vec<u64>>())
        };
        let (befores, afters) = (read(&self.befores)?, read(&self.afters)?);
        Ok(longest(&befores, &afters).map(|cycles| cycles.saturating_sub(self.floor)))
    }
}

/// The largest difference among multiprocessors that have both stamps.
fn longest(befores: &[u64], afters: &[u64]) -> Option<u64> {
    befores
        .iter()
        .zip(afters)
        .filter(|(before, after)| **before != 0 && **after != u64::MAX)
        .map(|(before, after)| after.saturating_sub(*before))
        .max()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_slowest_multiprocessor_counts_and_absent_ones_do_not() {
        assert_eq!(longest(&[10, 0, 100], &[25, 7, 150]), Some(50));
        assert_eq!(longest(&[10, 20], &[u64::MAX, 45]), Some(25));
        assert_eq!(longest(&[0, 0], &[u64::MAX, u64::MAX]), None);
    }
}
