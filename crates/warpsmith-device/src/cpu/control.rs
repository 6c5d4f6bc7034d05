//! The page through which a worker commands a runner.
//!
//! Both processes map it and use atomics only. A candidate lives in the runner's process and can
//! write anything here at any time, so the worker treats what it reads as a claim: numbers are
//! checked against what it knows, texts are cut and cleaned, and the outputs, looked at while the
//! runner is frozen, decide whether work was done.

use std::sync::atomic::{AtomicI64, AtomicU8, AtomicU32, AtomicU64, Ordering};
use std::{io, slice};

use crate::sys::futex;
use crate::sys::memory::{Mapping, MemoryFile, page_bytes};
use crate::target::Calls;

/// A value on a cache line of its own (two, because lines are fetched in pairs).
#[repr(C, align(128))]
#[derive(Debug, Default)]
pub(crate) struct Line<T>(pub(crate) T);

/// What a command makes the runner do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Part {
    /// Every launch in full.
    All,
    /// Every launch but the last, in full.
    Prologue,
    /// Of the last launch the listed blocks.
    Blocks,
}

impl Part {
    /// Returns the number that stands for it.
    pub(crate) fn code(self) -> u32 {
        match self {
            Self::All => 0,
            Self::Prologue => 1,
            Self::Blocks => 2,
        }
    }

    /// Returns the part that a number stands for.
    pub(crate) fn from_code(code: u32) -> Self {
        match code {
            1 => Self::Prologue,
            2 => Self::Blocks,
            _ => Self::All,
        }
    }
}

/// Returns the number that stands for how many blocks a call gets.
pub(crate) fn calls_code(calls: Calls) -> u32 {
    match calls {
        Calls::Chunk => 0,
        Calls::Whole => 1,
        Calls::Chunks(noise) => 2 + u32::from(noise),
    }
}

/// Returns how many blocks a call gets.
pub(crate) fn calls_from_code(code: u32) -> Calls {
    match code {
        0 => Calls::Chunk,
        1 => Calls::Whole,
        code => Calls::Chunks((code - 2) as u16),
    }
}

/// Puts the slots of a case's inputs and of its outputs into one word of a command.
pub(crate) fn pack_slots(inputs: usize, outputs: usize) -> i64 {
    (inputs << 32 | outputs) as i64
}

/// Returns the slots of the inputs and of the outputs.
pub(crate) fn unpack_slots(word: i64) -> (usize, usize) {
    ((word >> 32) as usize, (word & 0xffff_ffff) as usize)
}

/// How far a runner has come.
pub(crate) mod stage {
    /// Not ready yet.
    pub(crate) const STARTING: u32 = 0;
    /// The candidate is loaded; the threads wait.
    pub(crate) const READY: u32 = 1;
    /// The candidate cannot be loaded; the message says why.
    pub(crate) const NOT_LOADABLE: u32 = 2;
    /// The runner itself failed; the message says why.
    pub(crate) const BROKEN: u32 = 3;
}

/// The most bytes of a message.
const MESSAGE_BYTES: usize = 2048;

/// The shared words.
#[repr(C)]
#[derive(Debug)]
pub(crate) struct Control {
    /// The number of the newest command; the threads sleep on it.
    pub(crate) armed: Line<AtomicU32>,
    /// The number of the newest command that may start; the threads spin on it.
    pub(crate) go: Line<AtomicU32>,
    /// How many threads have seen the newest command and spin.
    pub(crate) ready: Line<AtomicU32>,
    /// The number of the newest finished command.
    pub(crate) done: Line<AtomicU32>,
    /// Changes whenever the runner has something to say; the worker sleeps on it.
    pub(crate) bell: Line<AtomicU32>,
    /// How many launches of the newest command are over.
    pub(crate) over: Line<AtomicU32>,
    /// See [`Part`].
    pub(crate) part: AtomicU32,
    /// How many of the words that follow this structure are cases.
    pub(crate) n_cases: AtomicU32,
    /// How many words after them are blocks.
    pub(crate) n_blocks: AtomicU32,
    /// How many blocks a call gets, as a code; see [`calls_code`].
    pub(crate) calls: AtomicU32,
    /// See [`stage`].
    pub(crate) stage: AtomicU32,
    /// 1 once a call of the candidate returned with other floating-point settings than it found.
    pub(crate) unrestored: AtomicU32,
    /// 1 from when a thread started to describe its fatal signal, 2 once it has.
    pub(crate) crash_state: AtomicU32,
    /// The signal.
    pub(crate) crash_signal: AtomicU32,
    /// The signal's code.
    pub(crate) crash_code: AtomicU32,
    /// The address that faulted, or the number of the system call.
    pub(crate) crash_detail: AtomicU64,
    /// The length of the message.
    pub(crate) message_bytes: AtomicU32,
    /// The message.
    pub(crate) message: [AtomicU8; MESSAGE_BYTES],
}

impl Control {
    /// Wakes the worker.
    pub(crate) fn ring(&self) {
        self.bell.0.fetch_add(1, Ordering::Release);
        futex::wake_all(&self.bell.0);
    }

    /// Stores a message and the stage it explains, then wakes the worker.
    pub(crate) fn report(&self, stage: u32, message: &str) {
        let bytes = &message.as_bytes()[..message.len().min(MESSAGE_BYTES)];
        for (slot, byte) in self.message.iter().zip(bytes) {
            slot.store(*byte, Ordering::Relaxed);
        }
        self.message_bytes.store(bytes.len() as u32, Ordering::Relaxed);
        self.stage.store(stage, Ordering::Release);
        self.ring();
    }

    /// Returns the message, whatever bytes somebody put there, as one line of text.
    pub(crate) fn message(&self) -> String {
        let length = (self.message_bytes.load(Ordering::Relaxed) as usize).min(MESSAGE_BYTES);
        let bytes: Vec<u8> =
            self.message[..length].iter().map(|byte| byte.load(Ordering::Relaxed)).collect();
        String::from_utf8_lossy(&bytes)
            .chars()
            .map(|character| if character.is_control() { ' ' } else { character })
            .collect()
    }
}

/// A mapped control page with the words that follow it.
#[derive(Debug)]
pub(crate) struct ControlPage {
    mapping: Mapping,
    n_words: usize,
}

impl ControlPage {
    /// Returns the size of the file for this many words.
    fn file_bytes(n_words: usize) -> usize {
        (size_of::<Control>() + n_words * size_of::<AtomicI64>()).next_multiple_of(page_bytes())
    }

    /// Creates the file and maps it.
    pub(crate) fn create(n_words: usize) -> io::Result<(MemoryFile, Self)> {
        let file = MemoryFile::create(c"warpsmith-control", Self::file_bytes(n_words))?;
        let page = Self::map(std::os::fd::AsFd::as_fd(&file), n_words)?;
        Ok((file, page))
    }

    /// Maps the file of a control page that has room for this many words.
    pub(crate) fn map(file: std::os::fd::BorrowedFd<'_>, n_words: usize) -> io::Result<Self> {
        Ok(Self { mapping: Mapping::shared(file, Self::file_bytes(n_words))?, n_words })
    }

    /// Returns the control words.
    pub(crate) fn control(&self) -> &Control {
        // SAFETY: the mapping is page-aligned, large enough, lives as long as `self`, and every
        // field is an atomic integer, for which every bit pattern is a value.
        unsafe { self.mapping.start().cast::<Control>().as_ref() }
    }

    /// Returns the words that follow: cases, then blocks.
    pub(crate) fn words(&self) -> &[AtomicI64] {
        // SAFETY: as above; `file_bytes` made room for `n_words` after the structure, whose size is
        // a multiple of its alignment, which is more than that of a word.
        unsafe {
            let first = self.mapping.start().add(size_of::<Control>()).cast::<AtomicI64>();
            slice::from_raw_parts(first.as_ptr(), self.n_words)
        }
    }
}

#[cfg(test)]
mod tests {
    use std::mem::offset_of;

    use super::*;

    /// Cheats that write to the page must hit what they aim at, or they show nothing.
    #[test]
    fn cheats_know_where_the_words_are() {
        let header = include_str!("../../../../labs/_cheats/include/command_page.h");
        let words = [
            ("kArmed", offset_of!(Control, armed)),
            ("kGo", offset_of!(Control, go)),
            ("kReady", offset_of!(Control, ready)),
            ("kDone", offset_of!(Control, done)),
            ("kBell", offset_of!(Control, bell)),
            ("kOver", offset_of!(Control, over)),
            ("kCaseCount", offset_of!(Control, n_cases)),
            ("kStage", offset_of!(Control, stage)),
            ("kCrashed", offset_of!(Control, crash_state)),
            ("kList", size_of::<Control>()),
        ];
        for (name, offset) in words {
            let line = format!("{name} = {}", offset / 4);
            let is_there = [",", " }"].iter().any(|end| header.contains(&format!("{line}{end}")));
            assert!(is_there, "{line} in labs/_cheats/include/command_page.h");
        }
    }
}
