//! The outputs and the scratch memory of sessions, as the worker sees them.
//!
//! Sessions that are open at the same time share one file for them. Contenders of a comparison then write
//! to the very same memory, so none of them has pages that are nearer, better spread over the caches or
//! used before; with files of their own, a kernel that was compared with itself was up to 1.4 times as
//! fast in the place whose memory had been used before.
//!
//! Only one of them runs at a time. Before a process gets the file it is *cleared*: a constructor of the
//! candidate's runs before any launch, and would find what others left. Before every launch it is *prepared*: wherever another session
//! could write is overwritten, the outputs of what is launched are poisoned, and scratch holds noise. So
//! nobody sees another's answers, or what an earlier process of its own left, every launch finds memory in
//! the same state, and outputs are there to be looked at until another session launches.
//!
//! A session has *slots* for the outputs of as many cases as it launches together, not for all of its
//! cases: what is mapped but not launched would have to be overwritten, too, before every reading.

use std::cell::{Cell, RefCell};
use std::io;
use std::ops::Range;
use std::os::fd::{AsFd, BorrowedFd};
use std::rc::{Rc, Weak};

use warpsmith_model::rng::Rng;

use super::layout::{Arena, Owner, Region};
use super::poison::{Poison, canary_intact, fill_canary, fill_noise};
use crate::sys::memory::{Mapping, MemoryFile, page_bytes};
use crate::target::TensorPlan;

/// The newest file, for the sessions that come next: most sessions of a trial have the same outputs, and
/// fresh pages cost several times more than poisoning used ones.
#[derive(Debug, Default)]
pub(crate) struct Shelf {
    /// Whoever has it open shares it.
    newest: Weak<OutputFile>,
    /// Keeps it while nobody has it open.
    kept: Option<Rc<OutputFile>>,
    /// Sessions so far.
    sessions: u64,
}

/// The most bytes that are kept.
const SHELF_BYTES: usize = 1 << 30;

/// A file in memory and this process's view of it.
#[derive(Debug)]
struct OutputFile {
    file: MemoryFile,
    mapping: Mapping,
    bytes: usize,
    /// The session that launched last.
    claimed_by: Cell<u64>,
    /// All that it has mapped for writing. A candidate can write there whatever it was told to launch.
    mapped: RefCell<Vec<Range<usize>>>,
}

/// The outputs of a session's cases and its scratch, in memory that the runner shares.
#[derive(Debug)]
pub(crate) struct Outputs {
    file: Rc<OutputFile>,
    /// This session's number.
    session: u64,
    /// What each case's outputs shall hold before its next launch.
    poisons: Vec<Poison>,
    /// The cases that are launched together, in the order of their slots.
    placed: Vec<usize>,
    /// Where they lie.
    pub(crate) arena: Arena,
    /// The program's tensors.
    pub(crate) tensors: Vec<TensorPlan>,
}

impl Outputs {
    /// Takes the file from the shelf, or creates one where that is too small.
    pub(crate) fn create(
        arena: Arena,
        tensors: &[TensorPlan],
        n_cases: usize,
        shelf: &mut Shelf,
    ) -> io::Result<Self> {
        // A program without outputs has an empty file, which cannot be mapped.
        let bytes = arena.output_file_bytes.max(page_bytes());
        let file = match shelf.newest.upgrade() {
            Some(file) if file.bytes >= bytes => file,
            _ => Rc::new(OutputFile::create(bytes)?),
        };
        shelf.newest = Rc::downgrade(&file);
        shelf.kept = (file.bytes <= SHELF_BYTES).then(|| Rc::clone(&file));
        shelf.sessions += 1;
        let (poisons, placed) = (vec![Poison::Nan; n_cases], Vec::new());
        let (session, tensors) = (shelf.sessions, tensors.to_vec());
        Ok(Self { file, session, poisons, placed, arena, tensors })
    }

    /// Returns the file that the runner maps.
    pub(crate) fn descriptor(&self) -> BorrowedFd<'_> {
        self.file.file.as_fd()
    }

    /// Gives each of these cases a slot, in this order.
    pub(crate) fn place(&mut self, cases: &[usize]) {
        self.placed = cases.to_vec();
    }

    /// Returns the slot of a case that was launched last.
    pub(crate) fn slot(&self, case: usize) -> Option<usize> {
        self.placed.iter().position(|placed| *placed == case)
    }

    /// Makes the file this session's and overwrites what others could have written, before its runner maps it.
    pub(crate) fn clear(&mut self) {
        self.file.claimed_by.set(self.session);
        let ours = self.arena.regions.iter().filter(is_shared).map(file_range).collect();
        for range in self.file.mapped.replace(ours) {
            self.file.overwrite(range, fill_canary);
        }
    }

    /// Makes the file this session's, before its runner is woken to launch these cases, which have slots.
    pub(crate) fn prepare(&mut self, cases: &[usize], keeps_scratch: bool, rng: &mut Rng) {
        let launched = |slot: usize| self.placed.get(slot).filter(|case| cases.contains(case));
        let is_prepared = |region: &&Region| match region.owner {
            Owner::Output(slot, _) => launched(slot).is_some(),
            Owner::Scratch(_) => true,
            Owner::Input(..) | Owner::Stack(_) => false,
        };
        let was_ours = self.file.claimed_by.replace(self.session) == self.session;
        if !was_ours {
            let again: Vec<Range<usize>> =
                self.arena.regions.iter().filter(is_prepared).map(file_range).collect();
            let ours = self.arena.regions.iter().filter(is_shared).map(file_range).collect();
            let theirs = self.file.mapped.replace(ours);
            for range in theirs.into_iter().filter(|range| !again.contains(range)) {
                self.file.overwrite(range, fill_canary);
            }
        }
        for region in self.arena.regions.iter().filter(is_prepared) {
            let block = region.block;
            self.file.overwrite(file_range(region), |pages| {
                fill_canary(&mut pages[..block.lead_bytes]);
                let content = &mut pages[block.content()];
                match region.owner {
                    Owner::Output(slot, tensor) => {
                        let poison = self.poisons[self.placed[slot]];
                        poison.fill(self.tensors[tensor].dtype, content);
                    }
                    // What another session left there is nobody's to keep.
                    _ if keeps_scratch && was_ours => {}
                    _ => fill_noise(content, rng),
                }
                fill_canary(&mut pages[block.tail()]);
            });
        }
        for case in cases {
            self.poisons[*case] = Poison::Nan;
        }
    }

    /// Says what a case's outputs shall hold before its next launch.
    pub(crate) fn poison(&mut self, case: usize, poison: Poison) {
        self.poisons[case] = poison;
    }

    /// Returns the bytes of an output of a case that was launched last.
    pub(crate) fn tensor(&self, case: usize, tensor: usize) -> &[u8] {
        let slot = self.slot(case);
        let region = self
            .arena
            .regions
            .iter()
            .find(|region| slot.is_some_and(|slot| region.owner == Owner::Output(slot, tensor)))
            .expect("callers name a case that was launched last and an output of the program");
        &self.pages(region)[region.block.content()]
    }

    /// Returns an output of a case whose surroundings are not as they were.
    pub(crate) fn overwritten_guard(&self, case: usize) -> Option<usize> {
        let slot = self.slot(case)?;
        self.arena.regions.iter().find_map(|region| match region.owner {
            Owner::Output(of_slot, tensor) if of_slot == slot => {
                self.changed_slack(region).map(|_| tensor)
            }
            _ => None,
        })
    }

    /// Returns a scratch buffer whose surroundings are not as they were, and the byte, from its beginning,
    /// that was written.
    pub(crate) fn overrun_scratch(&self) -> Option<(usize, i64)> {
        self.arena.regions.iter().find_map(|region| match region.owner {
            Owner::Scratch(idx) => self.changed_slack(region).map(|offset| (idx, offset)),
            _ => None,
        })
    }

    /// Returns where the bytes around a block begin to differ from what was put there.
    fn changed_slack(&self, region: &Region) -> Option<i64> {
        let pages = self.pages(region);
        let (lead, tail) = (region.block.lead_bytes, region.block.tail());
        if !canary_intact(&pages[..lead]) {
            return Some(-1);
        }
        (!canary_intact(&pages[tail])).then_some(region.block.bytes as i64)
    }

    fn pages(&self, region: &Region) -> &[u8] {
        let is_ours = self.file.claimed_by.get() == self.session;
        assert!(is_ours, "outputs are looked at before another session launches");
        self.file.read(file_range(region))
    }
}

/// Says whether a region is in the file.
fn is_shared(region: &&Region) -> bool {
    matches!(region.owner, Owner::Output(..) | Owner::Scratch(_))
}

/// Returns where a region lies in its file.
fn file_range(region: &Region) -> Range<usize> {
    region.file_offset..region.file_offset + region.block.mapped_bytes
}

impl OutputFile {
    fn create(bytes: usize) -> io::Result<Self> {
        let file = MemoryFile::create(c"warpsmith-outputs", bytes)?;
        let mapping = Mapping::shared(file.as_fd(), bytes)?;
        let (claimed_by, mapped) = (Cell::new(0), RefCell::default());
        Ok(Self { file, mapping, bytes, claimed_by, mapped })
    }

    fn read(&self, range: Range<usize>) -> &[u8] {
        // SAFETY: everything is mapped readable. Runners, which alone write besides us, are frozen or dead
        // whenever a session can be looked at, and this process writes only where a session is borrowed
        // exclusively, to prepare a launch; that ends its own slices, and its claim forbids the others'.
        let content = unsafe { self.mapping.content() };
        &content[range]
    }

    fn overwrite(&self, range: Range<usize>, fill: impl FnOnce(&mut [u8])) {
        assert!(range.start <= range.end && range.end <= self.bytes, "regions lie in their file");
        // SAFETY: the range is mapped writable; as above, nobody else reads or writes meanwhile.
        let pages = unsafe {
            let first = self.mapping.start().add(range.start);
            std::slice::from_raw_parts_mut(first.as_ptr(), range.len())
        };
        fill(pages);
    }
}

#[cfg(test)]
mod tests {
    use warpsmith_model::DType;
    use warpsmith_model::lab::Role;

    use super::super::layout;
    use super::*;

    const ANSWER: u8 = 0x42;

    fn session(shelf: &mut Shelf, n_slots: usize) -> Outputs {
        let (name, shape) = ("y".to_string(), vec![1500]);
        let tensors = [TensorPlan { name, shape, dtype: DType::F32, role: Role::Output }];
        let arena = layout::arena(&tensors, n_slots, &[5000], 1);
        Outputs::create(arena, &tensors, 8, shelf).expect("a file in memory")
    }

    /// Writes wherever a candidate could, whatever it was told to launch.
    fn write_everywhere(outputs: &Outputs) {
        for region in &outputs.arena.regions {
            if is_shared(&region) {
                outputs.file.overwrite(file_range(region), |pages| pages.fill(ANSWER));
            }
        }
    }

    fn holds_answers(outputs: &Outputs) -> bool {
        let mut shared = outputs.arena.regions.iter().filter(is_shared);
        shared.any(|it| outputs.file.read(file_range(it)).windows(64).any(|it| it == [ANSWER; 64]))
    }

    #[test]
    fn nothing_that_a_session_wrote_anywhere_reaches_another() {
        let (mut shelf, mut rng) = (Shelf::default(), Rng::new(1));
        // The second one as a contender, which stays; the third as the process that comes next.
        let (mut first, mut second) = (session(&mut shelf, 4), session(&mut shelf, 4));
        for cases in [vec![0], vec![1, 2], vec![3, 4, 5, 6]] {
            first.place(&cases);
            first.prepare(&cases, false, &mut rng);
            write_everywhere(&first);
            second.place(&[7]);
            second.prepare(&[7], false, &mut rng);
            assert!(!holds_answers(&second), "after {cases:?}");
        }
        write_everywhere(&second);
        drop((first, second));
        let mut third = session(&mut shelf, 2);
        third.place(&[0, 1]);
        third.prepare(&[0, 1], false, &mut rng);
        assert!(!holds_answers(&third));
    }

    #[test]
    fn a_process_that_has_launched_nothing_yet_finds_nothing_and_leaves_nothing() {
        let (mut shelf, mut rng) = (Shelf::default(), Rng::new(1));
        let mut first = session(&mut shelf, 4);
        first.clear();
        first.place(&[0, 1]);
        first.prepare(&[0, 1], false, &mut rng);
        write_everywhere(&first);
        let mut second = session(&mut shelf, 2);
        second.clear();
        assert!(!holds_answers(&second), "its constructor looks before its first launch");
        // What a constructor writes does not reach the one that was there before it, either.
        write_everywhere(&second);
        first.prepare(&[0], false, &mut rng);
        assert!(!holds_answers(&first));
    }

    #[test]
    fn a_case_is_found_in_the_slot_that_it_was_launched_in() {
        let (mut shelf, mut rng) = (Shelf::default(), Rng::new(1));
        let mut outputs = session(&mut shelf, 2);
        outputs.place(&[5, 3]);
        outputs.prepare(&[5], false, &mut rng);
        outputs.prepare(&[3], false, &mut rng);
        assert_eq!((outputs.slot(5), outputs.slot(3), outputs.slot(0)), (Some(0), Some(1), None));
        assert_eq!(outputs.tensor(3, 0).len(), 6000);
        assert_eq!(outputs.overwritten_guard(5), None);
    }
}
