//! The inputs of sessions, as the worker fills them.
//!
//! A runner sees a few places for inputs, its *slots*, and never the contents of a case that is not being
//! launched: those stay in this process. Before a command is given, the contents of its cases are copied
//! into the slots, and whatever else was there is overwritten. So a candidate has nothing to read ahead
//! in, an address holds other contents in every launch, and all contenders of a comparison read the very
//! same memory, in the same state of the caches.
//!
//! Runners map the file read-only, and a seal keeps them from changing that.

use std::cell::{Cell, RefCell};
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::rc::{Rc, Weak};

use warpsmith_model::lab::Role;

use super::layout::{self, FileBlock};
use super::poison::INPUT_SLACK;
use crate::sys::memory::{Mapping, MemoryFile, page_bytes};
use crate::target::{Contents, TensorPlan};

/// The newest file, for the sessions that come next.
#[derive(Debug, Default)]
pub(crate) struct InputShelf {
    newest: Weak<InputFile>,
    /// Keeps it while nobody has it open.
    kept: Option<Rc<InputFile>>,
}

/// The most bytes that are kept.
const SHELF_BYTES: usize = 1 << 30;

/// A file in memory and this process's view of it.
#[derive(Debug)]
struct InputFile {
    file: MemoryFile,
    mapping: Mapping,
    bytes: usize,
    /// Whether no runner can map it for writing.
    is_sealed: bool,
    /// The bytes from the beginning that are not all slack.
    filled: Cell<usize>,
    /// How the tensors of a slot lie there.
    blocks: RefCell<Vec<FileBlock>>,
}

/// The slots of one session.
#[derive(Debug)]
pub(crate) struct Inputs {
    file: Rc<InputFile>,
    blocks: Vec<FileBlock>,
    slot_bytes: usize,
    /// Contents of each case of the session.
    cases: Vec<Contents>,
}

impl Inputs {
    /// Takes the file from the shelf, or creates one where that is too small.
    pub(crate) fn create(
        tensors: &[TensorPlan],
        cases: Vec<Contents>,
        n_slots: usize,
        shelf: &mut InputShelf,
    ) -> io::Result<Self> {
        let (blocks, slot_bytes) = layout::file_blocks(tensors, Role::Input);
        // Without inputs the file is empty, and an empty file cannot be mapped.
        let bytes = (slot_bytes * n_slots).max(page_bytes());
        let file = match shelf.newest.upgrade() {
            Some(file) if file.bytes >= bytes => file,
            _ => Rc::new(InputFile::create(bytes)?),
        };
        shelf.newest = Rc::downgrade(&file);
        shelf.kept = (file.bytes <= SHELF_BYTES).then(|| Rc::clone(&file));
        Ok(Self { file, blocks, slot_bytes, cases })
    }

    /// Returns the file that the runner maps.
    pub(crate) fn descriptor(&self) -> BorrowedFd<'_> {
        self.file.file.as_fd()
    }

    /// Overwrites all that the slots hold, before a runner maps them: a constructor looks before the first launch.
    pub(crate) fn clear(&mut self) {
        self.fill(&[], INPUT_SLACK);
    }

    /// Puts the contents of these cases into the slots, in this order, and nothing else; the bytes beside them
    /// are all this one.
    pub(crate) fn fill(&mut self, cases: &[usize], slack: u8) {
        let end = cases.len() * self.slot_bytes;
        let wiped_from = match *self.file.blocks.borrow() == self.blocks {
            true => end,
            false => 0,
        };
        let filled = self.file.filled.replace(end);
        if filled > wiped_from {
            self.file.overwrite(wiped_from, filled - wiped_from, |bytes| bytes.fill(INPUT_SLACK));
        }
        self.file.blocks.replace(self.blocks.clone());
        for (slot, case) in cases.iter().enumerate() {
            for (placed, content) in self.blocks.iter().zip(self.cases[*case].iter()) {
                let (at, block) = (slot * self.slot_bytes + placed.offset, placed.block);
                self.file.overwrite(at, block.mapped_bytes, |pages| {
                    pages[..block.lead_bytes].fill(slack);
                    pages[block.content()].copy_from_slice(content);
                    pages[block.tail()].fill(slack);
                });
            }
        }
    }

    /// Returns the first tensor (its index among the inputs) that is not what was put into the slots;
    /// looks only where nothing keeps a runner from writing there.
    pub(crate) fn changed(&self, cases: &[usize]) -> Option<(usize, usize)> {
        if self.file.is_sealed {
            return None;
        }
        cases.iter().enumerate().find_map(|(slot, case)| {
            let contents = self.cases[*case].iter();
            let changed = self.blocks.iter().zip(contents).position(|(placed, content)| {
                let at = slot * self.slot_bytes + placed.offset + placed.block.lead_bytes;
                self.file.read(at, content.len()) != content.as_slice()
            });
            changed.map(|input| (*case, input))
        })
    }
}

impl InputFile {
    fn create(bytes: usize) -> io::Result<Self> {
        let file = MemoryFile::create(c"warpsmith-inputs", bytes)?;
        let mapping = Mapping::shared(file.as_fd(), bytes)?;
        // After this process's own mapping, which stays writable.
        let is_sealed = file.seal().is_ok();
        let created = Self {
            file,
            mapping,
            bytes,
            is_sealed,
            filled: Cell::new(0),
            blocks: RefCell::default(),
        };
        created.overwrite(0, bytes, |all| all.fill(INPUT_SLACK));
        Ok(created)
    }

    fn read(&self, at: usize, bytes: usize) -> &[u8] {
        // SAFETY: everything is mapped readable; runners, which alone could write besides us, are frozen or
        // dead whenever a session is looked at, and this process writes only in `overwrite`, whose callers
        // borrow the session exclusively.
        let content = unsafe { self.mapping.content() };
        &content[at..at + bytes]
    }

    fn overwrite(&self, at: usize, bytes: usize, fill: impl FnOnce(&mut [u8])) {
        let end = at.checked_add(bytes);
        assert!(end.is_some_and(|end| end <= self.bytes), "slots lie in their file");
        // SAFETY: the range is mapped writable, and nobody reads or writes it meanwhile: runners are frozen
        // or dead, and no slice of this process outlives the call that made it.
        let pages = unsafe {
            let first = self.mapping.start().add(at);
            std::slice::from_raw_parts_mut(first.as_ptr(), bytes)
        };
        fill(pages);
    }
}
