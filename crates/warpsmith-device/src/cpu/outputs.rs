//! The outputs of sessions, as the worker sees them.
//!
//! Sessions that are open at the same time share one file for their outputs. Contenders of a comparison
//! then write to the very same memory, so none of them has pages that are nearer, better spread over the
//! caches or used before; with files of their own, a kernel that was compared with itself was up to 1.4
//! times as fast in the place whose memory had been used before.
//!
//! Only one of them runs at a time. A session *claims* the file before it launches: whatever the one
//! before it wrote is overwritten, and what it launches is poisoned. So nobody sees another's answers, and
//! outputs are there to be looked at until another session launches.

use std::cell::{Cell, RefCell};
use std::io;
use std::ops::Range;
use std::os::fd::{AsFd, BorrowedFd};
use std::rc::{Rc, Weak};

use super::layout::{Arena, Owner, Region};
use super::poison::{canary_intact, fill_canary, fill_poison};
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

/// The outputs of a session's cases, in memory that the runner shares.
#[derive(Debug)]
pub(crate) struct Outputs {
    file: Rc<OutputFile>,
    /// This session's number.
    session: u64,
    /// The cases whose outputs were poisoned since another session had the file.
    poisoned: Vec<bool>,
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
        let poisoned = vec![false; n_cases];
        let (session, tensors) = (shelf.sessions, tensors.to_vec());
        Ok(Self { file, session, poisoned, arena, tensors })
    }

    /// Returns the file that the runner maps.
    pub(crate) fn descriptor(&self) -> BorrowedFd<'_> {
        self.file.file.as_fd()
    }

    /// Makes the file this session's, before its runner is woken to launch these cases.
    pub(crate) fn claim(&mut self, cases: &[usize]) {
        if self.file.claimed_by.replace(self.session) != self.session {
            let written = self.file.written.take();
            for range in written {
                self.file.overwrite(range, fill_canary);
            }
            self.poisoned.fill(false);
        }
        for case in cases {
            if !self.poisoned[*case] {
                self.poison(*case);
            }
            let mut written = self.file.written.borrow_mut();
            for region in self.arena.regions.iter().filter(|region| is_output(region, *case)) {
                let range = region.file_offset..region.file_offset + region.block.mapped_bytes;
                if !written.contains(&range) {
                    written.push(range);
                }
            }
        }
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
                let pages = self.pages(region);
                let is_intact = canary_intact(&pages[..region.block.lead_bytes])
                    && canary_intact(&pages[region.block.tail()]);
                (!is_intact).then_some(tensor)
            }
            _ => None,
        })
    }

    /// Fills the outputs of a case with poison, and their surroundings with what must stay.
    pub(crate) fn poison(&mut self, case: usize) {
        for region in self.arena.regions.iter().filter(|region| is_output(region, case)) {
            let Owner::Output(_, tensor) = region.owner else { continue };
            let dtype = self.tensors[tensor].dtype;
            let (block, start) = (region.block, region.file_offset);
            self.file.overwrite(start..start + block.mapped_bytes, |pages| {
                fill_canary(&mut pages[..block.lead_bytes]);
                fill_poison(dtype, &mut pages[block.content()]);
                fill_canary(&mut pages[block.tail()]);
            });
        }
        self.poisoned[case] = true;
    }

    fn pages(&self, region: &Region) -> &[u8] {
        let is_ours = self.file.claimed_by.get() == self.session;
        assert!(is_ours, "outputs are looked at before another session launches");
        self.file.read(region.file_offset..region.file_offset + region.block.mapped_bytes)
    }
}

fn is_output(region: &Region, case: usize) -> bool {
    matches!(region.owner, Owner::Output(of_case, _) if of_case == case)
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
        // exclusively, to poison or to launch; that ends its own slices, and its claim forbids the others'.
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
