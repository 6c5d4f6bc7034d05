//! Quiet while timing: one lock for everything on this machine that measures or compiles.
//!
//! Timing holds the lock alone; compiling holds it together with other compiling. A second file, the
//! *turnstile*, keeps a stream of compilations from shutting a measurement out for ever: whoever wants
//! to measure holds it while waiting, and whoever wants to compile passes through it first.

use std::fs::{File, OpenOptions, TryLockError};
use std::io;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

/// What the quiet is wanted for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Quiet {
    /// Nothing else may run.
    Timing,
    /// Other compilers may run, measurements may not.
    Compiling,
}

/// Holds the lock until dropped.
#[derive(Debug)]
pub struct QuietGuard {
    _file: File,
}

/// Returns the lock that all users of this machine share. Not below `TMPDIR`, which differs.
pub fn quiet_lock_path() -> PathBuf {
    PathBuf::from("/tmp/warpsmith-quiet.lock")
}

/// Takes the lock; calls `on_wait` once if somebody else has it, so that a person can be told.
pub fn quiet_lock(path: &Path, quiet: Quiet, on_wait: impl FnOnce()) -> io::Result<QuietGuard> {
    let turnstile = open(&path.with_extension("turnstile"))?;
    let file = open(path)?;
    let mut on_wait = Some(on_wait);
    let mut take = |file: &File, quiet: Quiet| -> io::Result<()> {
        let tried = match quiet {
            Quiet::Timing => file.try_lock(),
            Quiet::Compiling => file.try_lock_shared(),
        };
        match tried {
            Ok(()) => return Ok(()),
            Err(TryLockError::WouldBlock) => {}
            Err(TryLockError::Error(error)) => return Err(error),
        }
        if let Some(on_wait) = on_wait.take() {
            on_wait();
        }
        match quiet {
            Quiet::Timing => file.lock(),
            Quiet::Compiling => file.lock_shared(),
        }
    };
    take(&turnstile, quiet)?;
    take(&file, quiet)?;
    // Dropping the turnstile lets the next in line come to the lock itself.
    Ok(QuietGuard { _file: file })
}

/// Opens the lock's file for locking only; it may be another user's.
fn open(path: &Path) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.read(true).custom_flags(libc::O_NOFOLLOW);
    match options.open(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
        other => return other,
    }
    match OpenOptions::new().write(true).create_new(true).mode(0o444).open(path) {
        Ok(_) => {}
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
        Err(error) => return Err(error),
    }
    options.open(path)
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;
    use std::time::Duration;

    use super::*;

    #[test]
    fn compiling_is_shared_and_timing_is_exclusive() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("quiet.lock");
        let never = || panic!("nobody holds the lock");
        let first = quiet_lock(&path, Quiet::Compiling, never).expect("free");
        let second = quiet_lock(&path, Quiet::Compiling, never).expect("shared");
        let (sender, receiver) = mpsc::channel();
        let waiting = std::thread::spawn({
            let path = path.clone();
            move || {
                let told = sender.clone();
                let guard = quiet_lock(&path, Quiet::Timing, move || {
                    told.send("waits").expect("the test listens");
                });
                sender.send("times").expect("the test listens");
                guard
            }
        });
        assert_eq!(receiver.recv(), Ok("waits"));
        assert!(receiver.recv_timeout(Duration::from_millis(50)).is_err());
        drop((first, second));
        assert_eq!(receiver.recv(), Ok("times"));
        let guard = waiting.join().expect("no panic").expect("free by now");
        drop(guard);
        // It may have to wait a moment: a process that another test starts just now inherits the lock
        // until it becomes another program.
        quiet_lock(&path, Quiet::Timing, || {}).expect("free again");
    }
}
