//! The outputs of a session, as the worker sees them.

use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::{Arc, Mutex, PoisonError};

use super::layout::{Arena, Owner, Region};
use super::poison::{canary_intact, fill_canary, fill_poison};
use crate::sys::memory::{Mapping, MemoryFile, page_bytes};
use crate::target::TensorPlan;

/// The file of a session that has ended, kept for the next one: most sessions of a trial have the
/// same outputs, and fresh pages cost several times more than poisoning used ones.
pub(crate) type Shelf = Arc<Mutex<Option<OutputFile>>>;

/// The most bytes that are kept.
const SHELF_BYTES: usize = 1 << 30;

/// A file in memory and this process's view of it.
#[derive(Debug)]
pub(crate) struct OutputFile {
    file: MemoryFile,
    mapping: Mapping,
    bytes: usize,
}

/// The outputs of a session's cases, in memory that the runner shares.
#[derive(Debug)]
pub(crate) struct Outputs {
    /// Present until dropped.
    file: Option<OutputFile>,
    shelf: Shelf,
    /// Where they lie.
    pub(crate) arena: Arena,
    /// The program's tensors.
    pub(crate) tensors: Vec<TensorPlan>,
}

impl Outputs {
    /// Creates the file of all outputs, or takes it from the shelf, poisons the outputs and fills
    /// their surroundings.
    pub(crate) fn create(arena: Arena, tensors: &[TensorPlan], shelf: &Shelf) -> io::Result<Self> {
        // A program without outputs has an empty file, which cannot be mapped.
        let bytes = arena.output_file_bytes.max(page_bytes());
        let kept = shelf.lock().unwrap_or_else(PoisonError::into_inner).take();
        let file = match kept {
            Some(file) if file.bytes >= bytes => file,
            _ => {
                let file = MemoryFile::create(c"warpsmith-outputs", bytes)?;
                let mapping = Mapping::shared(file.as_fd(), bytes)?;
                OutputFile { file, mapping, bytes }
            }
        };
        let shelf = Arc::clone(shelf);
        let mut outputs = Self { file: Some(file), shelf, arena, tensors: tensors.to_vec() };
        for idx in 0..outputs.arena.regions.len() {
            let region = outputs.arena.regions[idx];
            if let Owner::Output(_, tensor) = region.owner {
                let dtype = outputs.tensors[tensor].dtype;
                let pages = outputs.pages_mut(&region);
                fill_canary(&mut pages[..region.block.lead_bytes]);
                fill_poison(dtype, &mut pages[region.block.content()]);
                fill_canary(&mut pages[region.block.tail()]);
            }
        }
        Ok(outputs)
    }

    /// Returns the file that the runner maps.
    pub(crate) fn descriptor(&self) -> BorrowedFd<'_> {
        self.file.as_ref().expect(PRESENT).file.as_fd()
    }

    /// Returns the bytes of an output.
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

    /// Fills the outputs of a case with poison.
    pub(crate) fn poison(&mut self, case: usize) {
        for idx in 0..self.arena.regions.len() {
            let region = self.arena.regions[idx];
            if let Owner::Output(of_case, tensor) = region.owner
                && of_case == case
            {
                let dtype = self.tensors[tensor].dtype;
                fill_poison(dtype, &mut self.pages_mut(&region)[region.block.content()]);
            }
        }
    }

    fn pages(&self, region: &Region) -> &[u8] {
        // SAFETY: everything is mapped readable; the runner, which alone writes besides us, is frozen
        // or dead whenever a session can be looked at.
        let content = unsafe { self.file.as_ref().expect(PRESENT).mapping.content() };
        &content[region.file_offset..region.file_offset + region.block.mapped_bytes]
    }

    fn pages_mut(&mut self, region: &Region) -> &mut [u8] {
        // SAFETY: as above, for writing; the borrow is exclusive.
        let content = unsafe { self.file.as_mut().expect(PRESENT).mapping.content_mut() };
        &mut content[region.file_offset..region.file_offset + region.block.mapped_bytes]
    }
}

/// Why an output file is there.
const PRESENT: &str = "the file is present until the outputs are dropped";

impl Drop for Outputs {
    /// Puts the file on the shelf. A session drops its process first, so nobody else writes any more.
    fn drop(&mut self) {
        let mut shelf = self.shelf.lock().unwrap_or_else(PoisonError::into_inner);
        let kept_bytes = shelf.as_ref().map_or(0, |kept| kept.bytes);
        if let Some(file) = self.file.take()
            && (kept_bytes..=SHELF_BYTES).contains(&file.bytes)
        {
            *shelf = Some(file);
        }
    }
}
