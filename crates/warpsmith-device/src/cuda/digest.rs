//! Whether inputs are what they were, found out where they are: copying them back would take a hundred
//! times longer than the launch that may have changed them.
//!
//! The digest depends on a key, and neither is kept where a kernel finds it: the key is an argument of the
//! harness's own launches, the digest stays in this process. So a kernel cannot change an input and keep
//! its digest.

use std::hash::{BuildHasher, Hasher, RandomState};

use super::driver::{self, Argument, Buffer, Context, Extents, Module, Result};
use cudarc::driver::sys;

/// Loaded as text, which the driver compiles for the device; it ends with a zero, as the driver wants.
const KERNEL: &str = concat!(include_str!("digest.ptx"), "\0");

/// Bytes that the kernel reads at a time; buffers whose digest is taken are a multiple of it.
pub(super) const WORD_BYTES: usize = 8;
const THREADS: u32 = 256;
/// Enough blocks to fill a multiprocessor's threads.
const BLOCKS_PER_SM: u32 = 8;

/// The kernel that takes digests.
#[derive(Debug)]
pub(super) struct Digester {
    function: sys::CUfunction,
    sum: Buffer,
    blocks: u32,
    keys: [u64; 2],
    _module: Module,
}

impl Digester {
    pub(super) fn new(sms: u32) -> Result<Self> {
        let module = Module::load(KERNEL.as_bytes())?;
        // The standard library seeds its hash tables with the system's randomness.
        let key = || RandomState::new().build_hasher().finish();
        Ok(Self {
            function: module.function("warpsmith_digest")?,
            sum: Buffer::new(WORD_BYTES)?,
            blocks: BLOCKS_PER_SM * sms,
            keys: [key(), key()],
            _module: module,
        })
    }

    /// Returns the digest of a whole buffer.
    pub(super) fn of(&self, context: &Context, buffer: &Buffer) -> Result<u64> {
        assert_eq!(buffer.bytes % WORD_BYTES, 0, "digests are of whole words");
        self.sum.fill(0, WORD_BYTES, &[0])?;
        let extents = Extents {
            grid: [self.blocks, 1, 1],
            block: [THREADS, 1, 1],
            cluster: [1, 1, 1],
            smem: 0,
        };
        let mut arguments = [
            Argument::Pointer(buffer.at),
            Argument::Long((buffer.bytes / WORD_BYTES) as i64),
            Argument::Long(self.keys[0].cast_signed()),
            Argument::Long(self.keys[1].cast_signed()),
            Argument::Pointer(self.sum.at),
        ];
        driver::launch(context.stream, self.function, extents, &mut arguments)?;
        context.synchronize()?;
        let mut sum = [0; WORD_BYTES];
        self.sum.read(0, &mut sum)?;
        Ok(u64::from_le_bytes(sum))
    }
}
