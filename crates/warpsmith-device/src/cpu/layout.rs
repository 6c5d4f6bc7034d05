//! Where everything lies in a runner's memory.
//!
//! A runner reserves one range of addresses, the *arena*, and puts every tensor, scratch buffer and
//! stack into it, each between two inaccessible guards. The worker computes the layout and keeps it,
//! so an address that faulted is explained without asking the process that faulted.
//!
//! Every tensor starts on a 64-byte boundary and ends at, or less than 64 bytes before, the end of
//! its last page: reading or writing past the end faults at once, before the beginning soon.

use warpsmith_model::lab::Role;

use crate::sys::memory::page_bytes;
use crate::target::TensorPlan;

/// The alignment of tensors and scratch buffers.
pub(crate) const ALIGNMENT: usize = 64;

/// The size of a guard. It costs addresses, not memory, so it is generous: index arithmetic that is
/// off by a row or two still lands in it.
pub(crate) const GUARD_BYTES: usize = 256 << 10;

/// The arena's start is a multiple of this, so that equal layouts give equal addresses modulo the
/// size of a huge page and therefore equal conflicts in caches.
pub(crate) const ARENA_ALIGNMENT: usize = 2 << 20;

/// Addresses that are reserved before the arena and never used. The filter on system calls compares
/// the start and the length of a range, but cannot add them: with this much room a range that starts
/// before the reservation and is no longer than it does not reach the arena.
pub(crate) const LEAD_BYTES: usize = 4 << 30;

/// The stack of a thread that runs a kernel, as the labs' documentation promises.
pub(crate) const STACK_BYTES: usize = 8 << 20;

/// A block of memory that occupies whole pages and ends with the last of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Block {
    /// The bytes asked for.
    pub(crate) bytes: usize,
    /// Its whole pages.
    pub(crate) mapped_bytes: usize,
    /// From the first of its pages to its first byte.
    pub(crate) lead_bytes: usize,
}

impl Block {
    /// Places a block of this size.
    pub(crate) fn of(bytes: usize) -> Self {
        let aligned = bytes.next_multiple_of(ALIGNMENT);
        let mapped_bytes = aligned.max(1).next_multiple_of(page_bytes());
        Self { bytes, mapped_bytes, lead_bytes: mapped_bytes - aligned }
    }

    /// Returns the range of the bytes asked for, from the first page.
    pub(crate) fn content(&self) -> std::ops::Range<usize> {
        self.lead_bytes..self.lead_bytes + self.bytes
    }

    /// Returns the range of the bytes after them in the last page.
    pub(crate) fn tail(&self) -> std::ops::Range<usize> {
        self.lead_bytes + self.bytes..self.mapped_bytes
    }
}

/// A block of a file, and its place there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct FileBlock {
    /// Offset of its first page.
    pub(crate) offset: usize,
    /// Its extent.
    pub(crate) block: Block,
}

/// Lays the tensors of one role out in a file, one after the other; the second part is the size.
pub(crate) fn file_blocks(tensors: &[TensorPlan], role: Role) -> (Vec<FileBlock>, usize) {
    let mut end = 0;
    let blocks = tensors
        .iter()
        .filter(|tensor| tensor.role == role)
        .map(|tensor| {
            let block = Block::of(tensor.bytes());
            let offset = end;
            end += block.mapped_bytes;
            FileBlock { offset, block }
        })
        .collect();
    (blocks, end)
}

/// What a block of the arena is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Owner {
    /// An input: index of the slot, index into the program's tensors.
    Input(usize, usize),
    /// An output: index of the slot, index into the program's tensors.
    Output(usize, usize),
    /// A scratch buffer.
    Scratch(usize),
    /// A thread's stack.
    Stack(usize),
}

/// A block of the arena.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Region {
    /// What it is.
    pub(crate) owner: Owner,
    /// From the arena's start to its first page.
    pub(crate) at: usize,
    /// Its extent.
    pub(crate) block: Block,
    /// Offset of its first page in the file of inputs or in that of all else; 0 for private memory.
    pub(crate) file_offset: usize,
}

impl Region {
    /// Returns the distance from the arena's start to the first byte of the content.
    pub(crate) fn content_at(&self) -> usize {
        self.at + self.block.lead_bytes
    }
}

/// A runner's memory.
#[derive(Clone, Debug)]
pub(crate) struct Arena {
    /// Everything in it, by address.
    pub(crate) regions: Vec<Region>,
    /// Its size.
    pub(crate) bytes: usize,
    /// The size of the file that holds the outputs of all slots, and scratch.
    pub(crate) output_file_bytes: usize,
}

/// Lays out the memory of a session, which has slots for the tensors of as many cases as it launches together.
pub(crate) fn arena(
    tensors: &[TensorPlan],
    n_slots: usize,
    scratch: &[u64],
    n_threads: usize,
) -> Arena {
    let mut regions = Vec::new();
    let mut end = GUARD_BYTES;
    let mut place = |owner, block: Block, file_offset| {
        regions.push(Region { owner, at: end, block, file_offset });
        // Neighbours share no guard: what lies behind one block never seems to lie before another.
        end += block.mapped_bytes + 2 * GUARD_BYTES;
    };
    let (inputs, input_bytes_per_slot) = file_blocks(tensors, Role::Input);
    let (outputs, output_bytes_per_slot) = file_blocks(tensors, Role::Output);
    for slot in 0..n_slots {
        let mut inputs = inputs.iter();
        let mut outputs = outputs.iter();
        for (idx, tensor) in tensors.iter().enumerate() {
            let (owner, file_block, file_start) = match tensor.role {
                Role::Input => {
                    (Owner::Input(slot, idx), inputs.next(), slot * input_bytes_per_slot)
                }
                Role::Output => {
                    (Owner::Output(slot, idx), outputs.next(), slot * output_bytes_per_slot)
                }
            };
            let file_block = file_block.expect("one block for each tensor of its role");
            place(owner, file_block.block, file_start + file_block.offset);
        }
    }
    let mut output_file_bytes = n_slots * output_bytes_per_slot;
    for (idx, bytes) in scratch.iter().enumerate() {
        let block = Block::of(*bytes as usize);
        place(Owner::Scratch(idx), block, output_file_bytes);
        output_file_bytes += block.mapped_bytes;
    }
    for idx in 0..n_threads {
        place(Owner::Stack(idx), Block::of(STACK_BYTES), 0);
    }
    Arena { regions, bytes: end, output_file_bytes }
}

#[cfg(test)]
mod tests {
    use warpsmith_model::DType;

    use super::*;

    fn tensor(elements: u64, role: Role) -> TensorPlan {
        TensorPlan { name: "t".to_string(), shape: vec![elements], dtype: DType::F32, role }
    }

    #[test]
    fn blocks_start_aligned_and_end_with_a_page() {
        for bytes in [1, 4, 63, 64, 65, 4095, 4096, 4097, 1 << 20] {
            let block = Block::of(bytes);
            assert_eq!(block.lead_bytes % ALIGNMENT, 0, "{bytes}");
            assert_eq!(block.mapped_bytes % page_bytes(), 0, "{bytes}");
            assert!(block.tail().len() < ALIGNMENT, "{bytes}");
            assert_eq!(block.content().len(), bytes);
        }
    }

    #[test]
    fn regions_do_not_overlap_and_have_guards_of_their_own() {
        let tensors = [tensor(3, Role::Input), tensor(5000, Role::Output), tensor(1, Role::Input)];
        let arena = arena(&tensors, 3, &[1, 10_000], 2);
        assert_eq!(arena.regions.len(), 3 * 3 + 2 + 2);
        for pair in arena.regions.windows(2) {
            assert!(pair[0].at + pair[0].block.mapped_bytes + 2 * GUARD_BYTES <= pair[1].at);
        }
        let last = arena.regions.last().expect("not empty");
        assert!(last.at + last.block.mapped_bytes + GUARD_BYTES <= arena.bytes);
    }

    #[test]
    fn outputs_of_different_slots_lie_in_different_parts_of_the_file() {
        let tensors = [tensor(5000, Role::Output)];
        let arena = arena(&tensors, 2, &[], 1);
        let offsets: Vec<usize> =
            arena.regions.iter().take(2).map(|region| region.file_offset).collect();
        assert_eq!(offsets, [0, 20_480.max(page_bytes() * 20_480usize.div_ceil(page_bytes()))]);
        assert_eq!(arena.output_file_bytes, 2 * offsets[1]);
    }
}
