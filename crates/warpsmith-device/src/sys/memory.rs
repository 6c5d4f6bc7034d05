//! Memory files and mappings.

use std::ffi::CStr;
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::os::unix::fs::FileExt;
use std::ptr::NonNull;

use super::check;
use crate::parallel;

/// Returns the bytes of memory that programs could still get; none where the system does not say.
pub(crate) fn available_bytes() -> Option<usize> {
    let text = std::fs::read_to_string("/proc/meminfo").ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix("MemAvailable:"))?;
    let kib: usize = line.trim().trim_end_matches("kB").trim().parse().ok()?;
    kib.checked_mul(1024)
}

/// Has the allocator keep what is freed for later: a process that makes and drops large buffers all day otherwise
/// spends more time on the system's fresh pages than on their contents.
pub(crate) fn keep_freed() {
    #[cfg(target_env = "gnu")]
    {
        // Bytes that stay at most, once nobody uses them.
        const KEPT_BYTES: libc::c_int = 1 << 30;
        // SAFETY: `mallopt` may be called at any time; what it does not know it refuses, and all is as before.
        unsafe {
            // Threads come and go, and each would have freed memory of its own that no other uses.
            libc::mallopt(libc::M_ARENA_MAX, 1);
            libc::mallopt(libc::M_MMAP_MAX, 0);
            libc::mallopt(libc::M_TRIM_THRESHOLD, KEPT_BYTES);
        }
    }
}

/// The size of a page; the smallest one that the supported machines use, asked for once.
pub(crate) fn page_bytes() -> usize {
    // SAFETY: `sysconf` has no preconditions.
    let bytes = unsafe { libc::sysconf(libc::_SC_PAGESIZE) };
    usize::try_from(bytes).unwrap_or(4096)
}

/// A file that lives in memory and has no name in any folder.
#[derive(Debug)]
pub(crate) struct MemoryFile(File);

/// What one thread writes at a time.
const PIECE_BYTES: usize = 1 << 22;

impl MemoryFile {
    /// Creates a file of this size, full of zeros; `name` is for people who look at `/proc`.
    pub(crate) fn create(name: &CStr, bytes: usize) -> io::Result<Self> {
        let flags = libc::MFD_CLOEXEC | libc::MFD_ALLOW_SEALING;
        // SAFETY: `name` is a C string that outlives the call.
        let fd = check(unsafe { libc::memfd_create(name.as_ptr(), flags) })?;
        // SAFETY: the call above just opened `fd` and nobody else has it.
        let file = File::from(unsafe { OwnedFd::from_raw_fd(fd) });
        file.set_len(bytes as u64)?;
        Ok(Self(file))
    }

    /// Returns it as a plain file, for a process to print to.
    pub(crate) fn into_file(self) -> File {
        self.0
    }

    /// Opens it anew, for reading alone. Its position is then nobody else's: whoever gets this descriptor can
    /// leave nothing there for the next.
    pub(crate) fn reopen(&self) -> io::Result<File> {
        File::open(format!("/proc/self/fd/{}", self.0.as_raw_fd()))
    }

    /// Writes bytes at an offset.
    pub(crate) fn write_at(&self, bytes: &[u8], offset: usize) -> io::Result<()> {
        // The system's own work, finding memory and copying, is what takes long.
        let write = |(idx, piece): (usize, &[u8])| {
            self.0.write_all_at(piece, (offset + idx * PIECE_BYTES) as u64)
        };
        let pieces: Vec<(usize, &[u8])> = bytes.chunks(PIECE_BYTES).enumerate().collect();
        let written = parallel::map_pieces(&pieces, bytes.len(), |pieces| {
            pieces.iter().copied().try_for_each(write)
        });
        written.into_iter().collect()
    }

    /// Reads the whole file, so that as much of it is in the caches as ever can be. What cannot be read
    /// stays where it is.
    pub(crate) fn read_through(&self, buffer: &mut [u8]) {
        let mut offset = 0;
        while let Ok(read @ 1..) = self.0.read_at(buffer, offset) {
            offset += read as u64;
        }
    }

    /// Forbids every later writing and every change of size and of these prohibitions. Mappings
    /// made from now on can never be made writable.
    pub(crate) fn seal(&self) -> io::Result<()> {
        let seals =
            libc::F_SEAL_FUTURE_WRITE | libc::F_SEAL_GROW | libc::F_SEAL_SHRINK | libc::F_SEAL_SEAL;
        // SAFETY: the descriptor is open; `F_ADD_SEALS` takes an integer.
        check(unsafe { libc::fcntl(self.0.as_raw_fd(), libc::F_ADD_SEALS, seals) })?;
        Ok(())
    }
}

impl AsFd for MemoryFile {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

/// A mapping that is unmapped when dropped.
#[derive(Debug)]
pub(crate) struct Mapping {
    start: NonNull<u8>,
    bytes: usize,
}

impl Mapping {
    /// Maps the beginning of a file for reading and writing, shared with whoever else maps it.
    pub(crate) fn shared(file: BorrowedFd<'_>, bytes: usize) -> io::Result<Self> {
        let protection = libc::PROT_READ | libc::PROT_WRITE;
        let flags = libc::MAP_SHARED | libc::MAP_POPULATE;
        // SAFETY: a new mapping at an address of the kernel's choice disturbs nothing.
        let start = unsafe {
            libc::mmap(std::ptr::null_mut(), bytes, protection, flags, file.as_raw_fd(), 0)
        };
        Self::from_result(start, bytes)
    }

    /// Reserves addresses without memory behind them; every access faults.
    pub(crate) fn reserve(bytes: usize) -> io::Result<Self> {
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
        // SAFETY: a new mapping at an address of the kernel's choice disturbs nothing.
        let start =
            unsafe { libc::mmap(std::ptr::null_mut(), bytes, libc::PROT_NONE, flags, -1, 0) };
        Self::from_result(start, bytes)
    }

    fn from_result(start: *mut libc::c_void, bytes: usize) -> io::Result<Self> {
        if start == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let start = NonNull::new(start.cast()).ok_or_else(|| io::Error::other("mapped at null"))?;
        Ok(Self { start, bytes })
    }

    /// Returns the first address.
    pub(crate) fn start(&self) -> NonNull<u8> {
        self.start
    }

    /// Returns the content.
    ///
    /// # Safety
    ///
    /// Everything is readable and nobody, in this process or another, writes while the slice lives.
    pub(crate) unsafe fn content(&self) -> &[u8] {
        // SAFETY: `start` and `bytes` are what was mapped; the caller vouches for the rest.
        unsafe { std::slice::from_raw_parts(self.start.as_ptr(), self.bytes) }
    }

    /// Returns the content for writing.
    ///
    /// # Safety
    ///
    /// Everything is writable and nobody else, in this process or another, touches it while the
    /// slice lives.
    pub(crate) unsafe fn content_mut(&mut self) -> &mut [u8] {
        // SAFETY: `start` and `bytes` are what was mapped; the caller vouches for the rest.
        unsafe { std::slice::from_raw_parts_mut(self.start.as_ptr(), self.bytes) }
    }
}

// SAFETY: a mapping is memory that it owns, and belongs to no thread in particular.
unsafe impl Send for Mapping {}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: the mapping is ours and nothing borrows from it any more.
        unsafe { libc::munmap(self.start.as_ptr().cast(), self.bytes) };
    }
}

/// What to put over a part of a reservation.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Overlay<'a> {
    /// A part of a file, shared and read-only.
    ReadOnly(BorrowedFd<'a>, usize),
    /// A part of a file, shared and writable.
    Writable(BorrowedFd<'a>, usize),
    /// Fresh memory of this process alone, present when touched.
    Private,
}

impl Mapping {
    /// Replaces the pages at `offset` by memory. Shared pages are made present at once, so that no
    /// launch pays for page faults.
    pub(crate) fn overlay(&self, offset: usize, bytes: usize, what: Overlay<'_>) -> io::Result<()> {
        assert!(
            offset.checked_add(bytes).is_some_and(|end| end <= self.bytes),
            "overlays stay inside of the reservation"
        );
        let read_write = libc::PROT_READ | libc::PROT_WRITE;
        let shared = libc::MAP_SHARED | libc::MAP_POPULATE;
        let private = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
        let (protection, flags, fd, file_offset) = match what {
            Overlay::ReadOnly(fd, at) => (libc::PROT_READ, shared, fd.as_raw_fd(), at),
            Overlay::Writable(fd, at) => (read_write, shared, fd.as_raw_fd(), at),
            Overlay::Private => (read_write, private, -1, 0),
        };
        // SAFETY: the range lies inside of our own reservation, to which no reference exists.
        let start = unsafe {
            libc::mmap(
                self.start.as_ptr().add(offset).cast(),
                bytes,
                protection,
                flags | libc::MAP_FIXED,
                fd,
                file_offset as libc::off_t,
            )
        };
        if start == libc::MAP_FAILED { Err(io::Error::last_os_error()) } else { Ok(()) }
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Seek};

    use super::*;

    #[test]
    fn who_opens_a_file_anew_shares_no_position_and_writes_nothing() {
        let file = MemoryFile::create(c"test", 4).expect("made");
        file.write_at(b"abcd", 0).expect("written");
        let (mut first, mut second) = (file.reopen().expect("open"), file.reopen().expect("open"));
        let mut byte = [0];
        first.read_exact(&mut byte).expect("read");
        assert_eq!(
            (first.stream_position().ok(), second.stream_position().ok()),
            (Some(1), Some(0))
        );
        second.read_exact(&mut byte).expect("read");
        assert_eq!(byte, *b"a");
        assert!(first.write_all_at(b"x", 0).is_err());
    }
}
