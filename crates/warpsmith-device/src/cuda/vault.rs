//! Where inputs are while a candidate runs: on the device, and out of its reach. Only what is launched is
//! copied to where a kernel sees it, so no kernel can look at other inputs, or change what others are given.

use std::collections::HashMap;

use super::driver::{Buffer, Context, DriverError, Result};
use super::mapped::{Access, Mapped, PAGE_BYTES, Reserve};
use super::ranges::WORD_BYTES;

/// Memory is taken in pieces of this size at least: opening and closing cost some 50 µs a piece.
const CHUNK_BYTES: usize = 64 << 20;

/// Staged inputs.
#[derive(Debug, Default)]
pub(super) struct Vault {
    chunks: Vec<Chunk>,
    cases: HashMap<usize, Case>,
}

#[derive(Debug)]
struct Chunk {
    number: u64,
    memory: Mapped,
    _reserve: Reserve,
    used: usize,
    n_cases: usize,
}

#[derive(Debug)]
struct Case {
    chunk: u64,
    inputs: Vec<Held>,
}

/// One input.
#[derive(Clone, Copy, Debug)]
pub(super) struct Held {
    pub(super) at: u64,
    pub(super) bytes: usize,
}

impl Vault {
    /// Takes in the inputs of a case.
    pub(super) fn stage(
        &mut self,
        context: &Context,
        case: usize,
        sizes: &[usize],
        payload: &[u8],
    ) -> Result<()> {
        self.unstage(case);
        let room = |bytes: usize| bytes.next_multiple_of(WORD_BYTES);
        let total: usize = sizes.iter().map(|bytes| room(*bytes)).sum();
        let idx = self.chunk_with(context, total)?;
        let chunk = &mut self.chunks[idx];
        chunk.memory.allow(Access::Everything)?;
        let mut inputs = Vec::new();
        let mut rest = payload;
        let mut offset = chunk.used;
        for bytes in sizes {
            let (content, after) = rest.split_at(*bytes);
            rest = after;
            let held = Held { at: chunk.memory.at + offset as u64, bytes: *bytes };
            Buffer::write_at(held.at, content)?;
            offset += room(*bytes);
            inputs.push(held);
        }
        chunk.used = offset;
        chunk.n_cases += 1;
        chunk.memory.allow(Access::Nothing)?;
        self.cases.insert(case, Case { chunk: chunk.number, inputs });
        Ok(())
    }

    /// Returns the place of a piece with this much room, a new one if there is none.
    fn chunk_with(&mut self, context: &Context, bytes: usize) -> Result<usize> {
        if let Some(last) = self.chunks.last()
            && last.memory.bytes - last.used >= bytes
        {
            return Ok(self.chunks.len() - 1);
        }
        let taken = bytes.max(CHUNK_BYTES).next_multiple_of(PAGE_BYTES);
        let reserve = Reserve::new(taken, 0)?;
        let memory = Mapped::new(context, reserve.at, taken)?;
        let number = self.chunks.last().map_or(0, |last| last.number + 1);
        self.chunks.push(Chunk { number, memory, _reserve: reserve, used: 0, n_cases: 0 });
        Ok(self.chunks.len() - 1)
    }

    /// Forgets a case.
    pub(super) fn unstage(&mut self, case: usize) {
        let Some(gone) = self.cases.remove(&case) else { return };
        if let Some(chunk) = self.chunks.iter_mut().find(|chunk| chunk.number == gone.chunk) {
            chunk.n_cases -= 1;
        }
        self.chunks.retain(|chunk| chunk.n_cases > 0);
    }

    /// Returns the inputs of a case.
    pub(super) fn inputs(&self, case: usize) -> Option<&[Held]> {
        self.cases.get(&case).map(|case| case.inputs.as_slice())
    }

    /// Lets the harness's own kernels at these cases while `work` runs, and nobody afterwards.
    pub(super) fn opened<T, E: From<DriverError>>(
        &self,
        cases: &[usize],
        work: impl FnOnce() -> std::result::Result<T, E>,
    ) -> std::result::Result<T, E> {
        let is_needed = |chunk: &&Chunk| {
            cases.iter().any(|case| self.cases.get(case).is_some_and(|it| it.chunk == chunk.number))
        };
        let needed: Vec<&Chunk> = self.chunks.iter().filter(is_needed).collect();
        let allow = |access| needed.iter().try_for_each(|chunk| chunk.memory.allow(access));
        allow(Access::Everything)?;
        let done = work();
        allow(Access::Nothing)?;
        done
    }
}
