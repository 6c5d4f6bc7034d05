//! Pages of another process that stay out of reach until this process lets them be seen.
//!
//! A process registers a mapped range and hands the descriptor to another. From then on the first
//! touch of a page in the range stops the touching thread, until the holder of the descriptor makes
//! the page present. The content is in memory all the time; nothing is copied.

use std::fs::File;
use std::io::{self, Read};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

use super::check;

/// The kernel's structures and numbers, from `linux/userfaultfd.h`; the C library's bindings lack them.
mod abi {
    pub(super) const USER_MODE_ONLY: libc::c_int = 1;
    pub(super) const API: u64 = 0xaa;
    pub(super) const FEATURE_MINOR_SHMEM: u64 = 1 << 10;
    pub(super) const REGISTER_MODE_MINOR: u64 = 1 << 2;
    pub(super) const EVENT_PAGEFAULT: u8 = 0x12;
    pub(super) const MESSAGE_BYTES: usize = 32;
    pub(super) const MESSAGE_ADDRESS: usize = 16;

    #[repr(C)]
    pub(super) struct Api {
        pub(super) api: u64,
        pub(super) features: u64,
        pub(super) ioctls: u64,
    }

    #[repr(C)]
    pub(super) struct Range {
        pub(super) start: u64,
        pub(super) bytes: u64,
        pub(super) mode: u64,
        pub(super) result: u64,
    }

    /// The number of a request that reads and writes a structure of type `T`.
    const fn request<T>(number: u64) -> libc::Ioctl {
        (3 << 30 | (size_of::<T>() as u64) << 16 | 0xaa << 8 | number) as libc::Ioctl
    }

    pub(super) const REQUEST_API: libc::Ioctl = request::<Api>(0x3f);
    pub(super) const REQUEST_REGISTER: libc::Ioctl = request::<Range>(0x00);
    pub(super) const REQUEST_CONTINUE: libc::Ioctl = request::<Range>(0x07);
}

/// The descriptor through which pages are hidden and revealed.
#[derive(Debug)]
pub(crate) struct Userfault(File);

impl Userfault {
    /// Opens a descriptor for this process's memory. Needs no privilege, because faults of the kernel
    /// on behalf of this process are not waited for; those fail.
    pub(crate) fn open() -> io::Result<Self> {
        let flags = libc::O_CLOEXEC | libc::O_NONBLOCK | abi::USER_MODE_ONLY;
        // SAFETY: takes an integer only.
        let fd = check(unsafe { libc::syscall(libc::SYS_userfaultfd, flags) } as libc::c_int)?;
        // SAFETY: the call above just opened `fd` and nobody else has it.
        let file = File::from(unsafe { OwnedFd::from_raw_fd(fd) });
        let mut api = abi::Api { api: abi::API, features: abi::FEATURE_MINOR_SHMEM, ioctls: 0 };
        // SAFETY: the request takes this structure.
        check(unsafe { libc::ioctl(file.as_raw_fd(), abi::REQUEST_API, &raw mut api) })?;
        Ok(Self(file))
    }

    /// Takes over a descriptor that another process opened.
    pub(crate) fn from_descriptor(descriptor: OwnedFd) -> Self {
        Self(File::from(descriptor))
    }

    /// Hides pages of this process: a private mapping of a memory file, none of them present yet.
    pub(crate) fn hide(&self, start: u64, bytes: u64) -> io::Result<()> {
        self.range_request(abi::REQUEST_REGISTER, start, bytes, abi::REGISTER_MODE_MINOR)
    }

    /// Makes pages of the process that opened the descriptor present.
    pub(crate) fn reveal(&self, start: u64, bytes: u64) -> io::Result<()> {
        self.range_request(abi::REQUEST_CONTINUE, start, bytes, 0)
    }

    fn range_request(
        &self,
        request: libc::Ioctl,
        start: u64,
        bytes: u64,
        mode: u64,
    ) -> io::Result<()> {
        let mut range = abi::Range { start, bytes, mode, result: 0 };
        // SAFETY: both requests take this structure.
        check(unsafe { libc::ioctl(self.0.as_raw_fd(), request, &raw mut range) })?;
        Ok(())
    }

    /// Returns the address of a touch that waits and has not been reported yet.
    pub(crate) fn next_fault(&self) -> io::Result<Option<u64>> {
        let mut message = [0; abi::MESSAGE_BYTES];
        match (&self.0).read(&mut message) {
            Ok(abi::MESSAGE_BYTES) if message[0] == abi::EVENT_PAGEFAULT => {
                let mut address = [0; 8];
                address.copy_from_slice(&message[abi::MESSAGE_ADDRESS..][..8]);
                Ok(Some(u64::from_ne_bytes(address)))
            }
            Ok(_) => Ok(None),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(None),
            Err(error) => Err(error),
        }
    }
}

impl AsFd for Userfault {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}
