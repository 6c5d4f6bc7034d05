//! Files that others may have put there.

use std::ffi::CString;
use std::fs::File;
use std::io::{self, Read};
use std::os::fd::{FromRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use super::check;

/// Reads a whole file of at most so many bytes that whoever made it could have made into something else: no
/// link is followed, neither to the file nor on the way to it, and what is no regular file (a pipe would be
/// waited for, a device may never end) is refused.
pub(crate) fn read_regular(path: &Path, most_bytes: u64) -> io::Result<Vec<u8>> {
    let file = open_without_links(path)?;
    let metadata = file.metadata()?;
    if !metadata.is_file() {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "it is no regular file"));
    }
    if metadata.len() > most_bytes {
        let message = format!("it has {} bytes, and {most_bytes} are the limit", metadata.len());
        return Err(io::Error::new(io::ErrorKind::FileTooLarge, message));
    }
    let mut bytes = Vec::new();
    // It may be growing.
    file.take(most_bytes).read_to_end(&mut bytes)?;
    Ok(bytes)
}

fn open_without_links(path: &Path) -> io::Result<File> {
    let path = CString::new(path.as_os_str().as_bytes())?;
    let flags = libc::O_RDONLY | libc::O_NOFOLLOW | libc::O_NONBLOCK | libc::O_CLOEXEC;
    // SAFETY: all zeros is a valid structure.
    let mut how: libc::open_how = unsafe { std::mem::zeroed() };
    how.flags = flags as u64;
    how.resolve = libc::RESOLVE_NO_SYMLINKS;
    // SAFETY: the path is a C string and the structure is live and has the stated size.
    let opened = check(unsafe {
        libc::syscall(
            libc::SYS_openat2,
            libc::AT_FDCWD,
            path.as_ptr(),
            &raw const how,
            size_of::<libc::open_how>(),
        )
    } as libc::c_int);
    let descriptor = match opened {
        // Linux before 5.6, or a container that does not know the call: at least the last name is no link.
        Err(error) if matches!(error.raw_os_error(), Some(libc::ENOSYS | libc::EPERM)) => {
            // SAFETY: the path is a C string.
            check(unsafe { libc::open(path.as_ptr(), flags) })?
        }
        opened => opened?,
    };
    // SAFETY: the descriptor was just opened and has no other owner.
    Ok(File::from(unsafe { OwnedFd::from_raw_fd(descriptor) }))
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn links_pipes_folders_and_what_is_too_large_are_not_read() {
        let folder = tempfile::tempdir().expect("a folder");
        let folder = folder.path().canonicalize().expect("it exists");
        let at = |name: &str| folder.join(name);
        fs::create_dir(at("real")).expect("made");
        fs::write(at("real/file"), "content").expect("written");
        symlink(at("real/file"), at("link")).expect("linked");
        symlink(at("real"), at("way")).expect("linked");
        let pipe = CString::new(at("pipe").as_os_str().as_bytes()).expect("no zero byte");
        // SAFETY: the path is a C string.
        check(unsafe { libc::mkfifo(pipe.as_ptr(), 0o600) }).expect("made");
        assert_eq!(read_regular(&at("real/file"), 7).expect("read"), b"content");
        for name in ["link", "way/file", "pipe", "real", "missing"] {
            assert!(read_regular(&at(name), 7).is_err(), "{name}");
        }
        assert!(read_regular(&at("real/file"), 6).is_err());
        assert!(read_regular(Path::new("/dev/zero"), 7).is_err());
    }
}
