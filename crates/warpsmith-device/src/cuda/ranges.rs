//! Fills and checks the memory that a kernel is given, where it is: copying it back would take a hundred
//! times longer than the launch. The words of every range are a table, and one launch goes through all.

use cudarc::driver::sys;

use super::driver::{self, Argument, Buffer, Context, Extents, Module, Result};

/// Loaded as text, which the driver compiles for the device; it ends with a zero, as the driver wants.
const KERNELS: &str = concat!(include_str!("ranges.ptx"), "\0");

/// Bytes that the kernel handles at a time.
pub(super) const WORD_BYTES: usize = 8;
const THREADS: u32 = 256;
/// Enough blocks to fill a multiprocessor's threads.
const BLOCKS_PER_SM: u32 = 8;
/// Threads of a block that wipes shared memory.
const WIPERS: u32 = 1024;

/// Words in a row with the same kind of content.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Range {
    pub(super) at: u64,
    /// Where the content comes from; 0 for `element`.
    pub(super) source: u64,
    pub(super) n_words: u64,
    /// The bits of each word that are content; the others are the pattern.
    pub(super) mask: u64,
    pub(super) element: u64,
}

impl Range {
    fn words(&self) -> [u64; 5] {
        [self.at, self.source, self.n_words, self.mask, self.element]
    }
}

/// What is done with ranges.
#[derive(Clone, Copy, Debug)]
enum Mode {
    Fill,
    Check,
    Touch,
}

/// Returns the pattern at an address, as the kernel computes it.
pub(super) fn pattern(at: u64, key: u64) -> u64 {
    let mut bits = (at ^ key).wrapping_mul(0xff51_afd7_ed55_8ccd);
    bits = (bits ^ (bits >> 32)).wrapping_mul(0xc4ce_b9fe_1a85_ec53);
    bits ^= bits >> 29;
    (bits & 0x000e_000e_000e_000e) | 0xfff1_fff1_fff1_fff1
}

/// The kernels, and room for what they are told and what they answer.
#[derive(Debug)]
pub(super) struct Ranges {
    function: sys::CUfunction,
    wipe: sys::CUfunction,
    sms: u32,
    smem_per_block: u32,
    table: Buffer,
    flags: Buffer,
    _module: Module,
}

impl Ranges {
    pub(super) fn new(sms: u32, smem_per_block: u32) -> Result<Self> {
        let module = Module::load(KERNELS.as_bytes())?;
        let wipe = module.function("warpsmith_wipe")?;
        driver::allow_shared_memory(wipe, smem_per_block)?;
        Ok(Self {
            function: module.function("warpsmith_ranges")?,
            wipe,
            sms,
            smem_per_block,
            table: Buffer::new(0)?,
            flags: Buffer::new(0)?,
            _module: module,
        })
    }

    /// Writes content and pattern.
    pub(super) fn fill(&mut self, context: &Context, ranges: &[Range], key: u64) -> Result<()> {
        self.run(context, ranges, key, Mode::Fill)
    }

    /// Reads everything once, so that the device knows the addresses as it would have after any other launch.
    pub(super) fn touch(&mut self, context: &Context, ranges: &[Range]) -> Result<()> {
        self.run(context, ranges, 0, Mode::Touch)
    }

    /// Returns by range whether it is what it was filled with, outputs aside.
    pub(super) fn check(
        &mut self,
        context: &Context,
        ranges: &[Range],
        key: u64,
    ) -> Result<Vec<bool>> {
        if ranges.is_empty() {
            return Ok(Vec::new());
        }
        self.run(context, ranges, key, Mode::Check)?;
        let mut flags = vec![0; 4 * ranges.len()];
        self.flags.read(0, &mut flags)?;
        Ok(flags.chunks_exact(4).map(|flag| flag == [0; 4]).collect())
    }

    /// Overwrites the shared memory of every multiprocessor.
    pub(super) fn wipe(&self, context: &Context) -> Result<()> {
        let extents = Extents {
            // Each takes a multiprocessor's shared memory for itself.
            grid: [self.sms, 1, 1],
            block: [WIPERS, 1, 1],
            cluster: [1, 1, 1],
            smem: self.smem_per_block,
        };
        let mut arguments = [Argument::Int((self.smem_per_block / 4).cast_signed())];
        driver::launch(context.stream, self.wipe, extents, &mut arguments)
    }

    fn run(&mut self, context: &Context, ranges: &[Range], key: u64, mode: Mode) -> Result<()> {
        if ranges.is_empty() {
            return Ok(());
        }
        let table: Vec<u8> =
            ranges.iter().flat_map(Range::words).flat_map(u64::to_le_bytes).collect();
        // Anew each time: a kernel could have found it.
        if self.table.bytes < table.len() {
            self.table = Buffer::new(2 * table.len())?;
            self.flags = Buffer::new(2 * 4 * ranges.len())?;
        }
        self.table.write(0, &table)?;
        self.flags.fill(0, self.flags.bytes, &[0])?;
        let n_ranges = ranges.len() as u32;
        let extents = Extents {
            grid: [(BLOCKS_PER_SM * self.sms / n_ranges).max(2), n_ranges, 1],
            block: [THREADS, 1, 1],
            cluster: [1, 1, 1],
            smem: 0,
        };
        let mode = match mode {
            Mode::Fill => 0,
            Mode::Check => 1,
            Mode::Touch => 2,
        };
        let mut arguments = [
            Argument::Pointer(self.table.at),
            Argument::Pointer(self.flags.at),
            Argument::Long(key.cast_signed()),
            Argument::Int(mode),
        ];
        driver::launch(context.stream, self.function, extents, &mut arguments)?;
        context.wait(driver::PREPARING)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_pattern_is_nan_in_every_type_and_differs_from_place_to_place() {
        let words: Vec<u64> = (0..64).map(|idx| pattern(0x7f00_0000_0000 + 8 * idx, 42)).collect();
        for word in &words {
            assert!(f64::from_bits(*word).is_nan());
            assert!(f32::from_bits(*word as u32).is_nan());
            for lane in word.to_le_bytes().chunks(2) {
                let lane = u16::from_le_bytes([lane[0], lane[1]]);
                // All ones in the exponents of f16 and bf16, and a mantissa that is not zero.
                assert!(lane & 0x7f80 == 0x7f80 && lane & 0x7f != 0);
            }
        }
        assert!(words.iter().any(|word| *word != words[0]));
        assert_ne!(words, (0..64).map(|idx| pattern(8 * idx, 43)).collect::<Vec<_>>());
    }
}
