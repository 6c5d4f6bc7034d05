//! The outputs and the scratch memory of sessions, as the worker sees them.
//!
//! Sessions that are open at the same time share one file for them. Contenders of a comparison then write
//! to the very same memory, so none of them has pages that are nearer, better spread over the caches or
//! used before; with files of their own, a kernel that was compared with itself was up to 1.4 times as
//! fast in the place whose memory had been used before.
//!
//! Only one of them runs at a time. Before every launch the file is *prepared*: whatever another session
//! wrote is overwritten, the outputs of what is launched are poisoned, and scratch holds noise. So nobody
//! sees another's answers, every launch finds memory in the same state, and outputs are there to be looked
//! at until another session launches.

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
    /// Where it may have written.
    written: RefCell<Vec<Range<usize>>>,
}

/// The outputs of a session's cases and its scratch, in memory that the runner shares.
#[derive(Debug)]
pub(crate) struct Outputs {
    file: Rc<OutputFile>,
    /// This session's number.
    session: u64,
    /// What each case's outputs shall hold before its next launch.
    poisons: Vec<Poison>,
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
        let poisons = vec![Poison::Nan; n_cases];
        let (session, tensors) = (shelf.sessions, tensors.to_vec());
        Ok(Self { file, session, poisons, arena, tensors })
    }

    /// Returns the file that the runner maps.
    pub(crate) fn descriptor(&self) -> BorrowedFd<'_> {
        self.file.file.as_fd()
    }

    /// Makes the file this session's, before its runner is woken to launch these cases.
    pub(crate) fn prepare(&mut self, cases: &[usize], keeps_scratch: bool, rng: &mut Rng) {
        let is_prepared = |region: &&Region| match region.owner {
            Owner::Output(case, _) => cases.contains(&case),
            Owner::Scratch(_) => true,
            Owner::Input(..) | Owner::Stack(_) => false,
        };
        let mut written = self.file.written.borrow_mut();
        let was_ours = self.file.claimed_by.replace(self.session) == self.session;
        if !was_ours {
            let again: Vec<Range<usize>> =
                self.arena.regions.iter().filter(is_prepared).map(file_range).collect();
            for range in written.drain(..).filter(|range| !again.contains(range)) {
                self.file.overwrite(range, fill_canary);
            }
        }
        for region in self.arena.regions.iter().filter(is_prepared) {
            let block = region.block;
            let range = file_range(region);
            self.file.overwrite(range.clone(), |pages| {
                fill_canary(&mut pages[..block.lead_bytes]);
                let content = &mut pages[block.content()];
                match region.owner {
                    Owner::Output(case, tensor) => {
                        self.poisons[case].fill(self.tensors[tensor].dtype, content);
                    }
                    // What another session left there is nobody's to keep.
                    _ if keeps_scratch && was_ours => {}
                    _ => fill_noise(content, rng),
                }
                fill_canary(&mut pages[block.tail()]);
            });
            if !written.contains(&range) {
                written.push(range);
            }
        }
        for case in cases {
            self.poisons[*case] = Poison::Nan;
        }
    }

    /// Says what a case's outputs shall hold before its next launch.
    pub(crate) fn poison(&mut self, case: usize, poison: Poison) {
        self.poisons[case] = poison;
    }

    /// Returns the bytes of an output, as this session's last launch left them.
    pub(crate) fn tensor(&self, case: usize, tensor: usize) -> &[u8] {
        let region = self
            .arena
            .regions
            .iter()
            .find(|region| region.owner == Owner::Output(case, tensor))
            .expect("callers name a case of the session and an output of the program");
        &self.pages(region)[region.block.content()]
    }

    /// Returns an output of a case whose surroundings are not as they were.
    pub(crate) fn overwritten_guard(&self, case: usize) -> Option<usize> {
        self.arena.regions.iter().find_map(|region| match region.owner {
            Owner::Output(of_case, tensor) if of_case == case => {
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

/// Returns where a region lies in its file.
fn file_range(region: &Region) -> Range<usize> {
    region.file_offset..region.file_offset + region.block.mapped_bytes
}

impl OutputFile {
    fn create(bytes: usize) -> io::Result<Self> {
        let file = MemoryFile::create(c"warpsmith-outputs", bytes)?;
        let mapping = Mapping::shared(file.as_fd(), bytes)?;
        let (claimed_by, written) = (Cell::new(0), RefCell::default());
        Ok(Self { file, mapping, bytes, claimed_by, written })
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
