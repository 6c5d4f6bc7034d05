//! The memory that one launch sees: its inputs, its outputs and its scratch, at addresses that are drawn
//! anew, between guards of random width, and nothing else.
//!
//! Inputs and outputs have pages of their own, so that inputs can be mapped for reading alone. Everything
//! in those pages is content or guard, and every guard is looked at after the launch.

use warpsmith_model::rng::Rng;

use super::driver::{Buffer, Context, Result};
use super::mapped::{Access, Mapped, PAGE_BYTES, Reserve};
use super::ranges::{Range, WORD_BYTES, pattern};

/// What a tensor's address is a multiple of, as the driver's own allocations are.
const ALIGNMENT: usize = 512;
/// From this size on the driver gives an allocation pages of its own, and so do we: a kernel should not be
/// able to tell by an address who allocated.
pub(super) const OWN_PAGES_BYTES: usize = 1 << 20;
/// The least width of a guard, and how many multiples of [`ALIGNMENT`] it may be wider.
pub(super) const LEAST_GUARD_BYTES: usize = 8192;
const FURTHER_GUARDS: usize = 48;
/// Pages in which an arena may begin.
const STARTS: usize = 1 << 15;

/// What lies in an arena: a tensor or a scratch buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Owner {
    /// An input, by its place among the launch's slots and among the inputs.
    Input { place: usize, input: usize },
    /// An output, by its place among the launch's slots and among the outputs.
    Output { place: usize, output: usize },
    /// A scratch buffer.
    Scratch(usize),
}

/// Something that needs room.
#[derive(Clone, Copy, Debug)]
pub(super) struct Item {
    pub(super) owner: Owner,
    pub(super) bytes: usize,
}

/// Something with its address.
#[derive(Clone, Copy, Debug)]
pub(super) struct Placed {
    pub(super) owner: Owner,
    pub(super) bytes: usize,
    pub(super) at: u64,
}

/// What the words of a range are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Content {
    /// Eight bytes, again and again.
    Element(u64),
    /// What is at this address.
    From(u64),
}

/// Pages for inputs and pages for outputs, side by side.
#[derive(Debug)]
pub(super) struct Arena {
    inputs: Mapped,
    outputs: Mapped,
    _reserve: Reserve,
    /// Decides what guards look like; none is like another.
    pub(super) key: u64,
    /// In the order of their addresses.
    placed: Vec<Placed>,
}

impl Arena {
    /// Maps fresh pages that hold these items, somewhere near `around`.
    pub(super) fn new(
        context: &Context,
        items: &[Item],
        around: u64,
        rng: &mut Rng,
    ) -> Result<Self> {
        let (inputs, outputs) = apart(items);
        let bytes = [room(&inputs), room(&outputs)];
        let start = around & !(PAGE_BYTES as u64 - 1);
        let hint = start.saturating_sub((PAGE_BYTES * (1 + rng.below(STARTS))) as u64);
        let reserve = Reserve::new(bytes[0] + bytes[1], hint)?;
        // Which comes first says nothing.
        let (for_inputs, for_outputs) = match rng.below(2) {
            0 => (reserve.at, reserve.at + bytes[0] as u64),
            _ => (reserve.at + bytes[1] as u64, reserve.at),
        };
        Ok(Self {
            inputs: Mapped::new(context, for_inputs, bytes[0])?,
            outputs: Mapped::new(context, for_outputs, bytes[1])?,
            _reserve: reserve,
            key: rng.next_u64(),
            placed: Vec::new(),
        })
    }

    /// Says whether these items fit, wherever they are put.
    pub(super) fn has_room_for(&self, items: &[Item]) -> bool {
        let (inputs, outputs) = apart(items);
        room(&inputs) <= self.inputs.bytes && room(&outputs) <= self.outputs.bytes
    }

    /// Draws an address for each item. The same items may stay where others were before, so that an address
    /// says nothing of what is there.
    pub(super) fn place(&mut self, items: &[Item], rng: &mut Rng) {
        let same = items.len() == self.placed.len()
            && items
                .iter()
                .all(|item| self.at(item.owner).is_some_and(|it| it.bytes == item.bytes));
        if same && rng.below(2) == 0 {
            return;
        }
        self.key = rng.next_u64();
        let (inputs, outputs) = apart(items);
        let mut placed = scatter(&inputs, self.inputs.at, self.inputs.bytes, rng);
        placed.extend(scatter(&outputs, self.outputs.at, self.outputs.bytes, rng));
        placed.sort_by_key(|it| it.at);
        self.placed = placed;
    }

    /// Returns where something is.
    pub(super) fn at(&self, owner: Owner) -> Option<&Placed> {
        self.placed.iter().find(|it| it.owner == owner)
    }

    /// Returns the ranges that the pages consist of, each with whom it belongs to or lies beside.
    pub(super) fn ranges(&self, content: impl Fn(&Placed) -> Content) -> Vec<(Owner, Range)> {
        let mut ranges = Vec::new();
        for memory in [&self.inputs, &self.outputs] {
            let end = memory.at + memory.bytes as u64;
            let inside = |it: &&Placed| (memory.at..end).contains(&it.at);
            let inside: Vec<Placed> = self.placed.iter().filter(inside).copied().collect();
            ranges.extend(tiled(memory.at, end, &inside, &content));
        }
        ranges
    }

    /// Lets kernels read the inputs, and nothing more.
    pub(super) fn forbid_writing_inputs(&self) -> Result<()> {
        self.inputs.allow(Access::Reading)
    }

    /// Lets the harness write the inputs again.
    pub(super) fn permit_writing_inputs(&self) -> Result<()> {
        self.inputs.allow(Access::Everything)
    }

    /// Overwrites everything: whoever is given this memory next shall find nothing in it.
    pub(super) fn scrub(&self, left_behind: u8) -> Result<()> {
        self.permit_writing_inputs()?;
        for memory in [&self.inputs, &self.outputs] {
            Buffer::fill_at(memory.at, memory.bytes, &[left_behind])?;
        }
        Ok(())
    }

    /// Fills the guards without a kernel, which a profiler or a sanitizer would take for the candidate's.
    pub(super) fn fill_guards(&self) -> Result<()> {
        for (_, range) in self.ranges(|_| Content::Element(0)) {
            if range.mask == 0 {
                let words = (0..range.n_words).map(|idx| range.at + 8 * idx);
                let bytes: Vec<u8> =
                    words.flat_map(|at| pattern(at, self.key).to_le_bytes()).collect();
                Buffer::write_at(range.at, &bytes)?;
            }
        }
        Ok(())
    }
}

/// Returns inputs, and the rest.
pub(super) fn apart(items: &[Item]) -> (Vec<Item>, Vec<Item>) {
    items.iter().copied().partition(|item| matches!(item.owner, Owner::Input { .. }))
}

/// Returns the size of pages that hold items, however they are put.
fn room(items: &[Item]) -> usize {
    most_bytes(items).next_multiple_of(PAGE_BYTES)
}

/// Returns how many bytes items need at most.
fn most_bytes(items: &[Item]) -> usize {
    let most = |item: &Item| {
        let guard = LEAST_GUARD_BYTES + ALIGNMENT * FURTHER_GUARDS;
        item.bytes.next_multiple_of(ALIGNMENT) + guard + alignment(item.bytes)
    };
    let guard = LEAST_GUARD_BYTES + ALIGNMENT * FURTHER_GUARDS;
    items.iter().map(most).sum::<usize>() + guard
}

fn alignment(bytes: usize) -> usize {
    if bytes >= OWN_PAGES_BYTES { PAGE_BYTES } else { ALIGNMENT }
}

/// Returns a random width of a guard.
pub(super) fn guard_bytes(rng: &mut Rng) -> usize {
    LEAST_GUARD_BYTES + ALIGNMENT * rng.below(FURTHER_GUARDS)
}

/// Draws where in pages of their own the first of some items begins, wherever they would fit.
pub(super) fn drawn_start(items: &[Item], rng: &mut Rng) -> usize {
    drawn_offset(items, room(items), rng)
}

fn drawn_offset(items: &[Item], bytes: usize, rng: &mut Rng) -> usize {
    let spare = bytes.saturating_sub(most_bytes(items)) / ALIGNMENT;
    ALIGNMENT * rng.below(spare + 1)
}

/// Puts items somewhere into pages, one behind the other, in random order, with guards between them.
fn scatter(items: &[Item], start: u64, bytes: usize, rng: &mut Rng) -> Vec<Placed> {
    let mut order: Vec<Item> = items.to_vec();
    rng.shuffle(&mut order);
    let mut at = start + drawn_offset(items, bytes, rng) as u64;
    let mut placed = Vec::new();
    for Item { owner, bytes } in order {
        at = (at + guard_bytes(rng) as u64).next_multiple_of(alignment(bytes) as u64);
        placed.push(Placed { owner, bytes, at });
        at += bytes as u64;
    }
    placed
}

/// Cuts pages into the words of what is placed there and those between. A guard belongs to what lies before it.
fn tiled(
    start: u64,
    end: u64,
    placed: &[Placed],
    content: &impl Fn(&Placed) -> Content,
) -> Vec<(Owner, Range)> {
    let word = WORD_BYTES as u64;
    let mut ranges = Vec::new();
    let Some(first) = placed.first() else {
        return ranges;
    };
    let guard = |at: u64, until: u64| Range {
        at,
        source: 0,
        n_words: (until - at) / word,
        mask: 0,
        element: 0,
    };
    let mut owner = first.owner;
    let mut at = start;
    for it in placed {
        ranges.push((owner, guard(at, it.at)));
        owner = it.owner;
        let (source, element) = match content(it) {
            Content::Element(element) => (0, element),
            Content::From(source) => (source, 0),
        };
        let (whole, rest) = (it.bytes as u64 / word, it.bytes as u64 % word);
        ranges.push((owner, Range { at: it.at, source, n_words: whole, mask: u64::MAX, element }));
        at = it.at + whole * word;
        if rest > 0 {
            let source = if source == 0 { 0 } else { source + whole * word };
            let mask = (1 << (8 * rest)) - 1;
            ranges.push((owner, Range { at, source, n_words: 1, mask, element }));
            at += word;
        }
    }
    ranges.push((owner, guard(at, end)));
    ranges
}

#[cfg(test)]
mod tests {
    use super::*;

    fn items(sizes: &[usize]) -> Vec<Item> {
        let item = |(output, bytes): (usize, &usize)| Item {
            owner: Owner::Output { place: 0, output },
            bytes: *bytes,
        };
        sizes.iter().enumerate().map(item).collect()
    }

    #[test]
    fn what_is_placed_fits_and_lies_between_guards() {
        let start = 0x7f00_0000_0000;
        for seed in 0..200 {
            let mut rng = Rng::new(seed);
            let items = items(&[4, 70_000, 3 << 20, 2, 1 << 20, 999_998]);
            let end = start + room(&items) as u64;
            let mut placed = scatter(&items, start, room(&items), &mut rng);
            placed.sort_by_key(|it| it.at);
            let mut before = start;
            for it in &placed {
                assert!(it.at - before >= LEAST_GUARD_BYTES as u64);
                assert!(it.at.is_multiple_of(alignment(it.bytes) as u64));
                before = it.at + it.bytes as u64;
            }
            assert!(before + LEAST_GUARD_BYTES as u64 <= end);
        }
    }

    #[test]
    fn every_byte_is_somebodys_or_a_guard() {
        let start = 0x7f00_0000_0000;
        let items = items(&[4, 70_002, 16, 2]);
        let end = start + room(&items) as u64;
        let mut placed = scatter(&items, start, room(&items), &mut Rng::new(1));
        placed.sort_by_key(|it| it.at);
        let ranges = tiled(start, end, &placed, &|_| Content::From(start));
        let mut at = start;
        let mut content_bytes = 0;
        for (_, range) in &ranges {
            assert_eq!(range.at, at);
            at += range.n_words * WORD_BYTES as u64;
            content_bytes += range.n_words * u64::from(range.mask.count_ones()) / 8;
        }
        assert_eq!(at, end);
        assert_eq!(content_bytes, 4 + 70_002 + 16 + 2);
    }

    #[test]
    fn addresses_differ_from_launch_to_launch() {
        let items = items(&[4096, 4096, 4096]);
        let mut rng = Rng::new(7);
        let one: Vec<u64> =
            scatter(&items, 0, room(&items), &mut rng).iter().map(|it| it.at).collect();
        let other: Vec<u64> =
            scatter(&items, 0, room(&items), &mut rng).iter().map(|it| it.at).collect();
        assert_ne!(one, other);
    }

    #[test]
    fn small_items_begin_anywhere_in_their_page() {
        let items = items(&[4096, 4096, 4096]);
        let mut rng = Rng::new(11);
        let starts: Vec<usize> = (0..64).map(|_| drawn_start(&items, &mut rng)).collect();
        for eighth in 0..7 {
            let part = eighth * PAGE_BYTES / 8..(eighth + 1) * PAGE_BYTES / 8;
            assert!(starts.iter().any(|start| part.contains(start)), "{starts:?}");
        }
    }
}
