//! Quiet while timing: a lock for everything of one user that measures or compiles.
//!
//! Timing holds the lock alone; compiling holds it together with other compiling. A second file, the
//! *turnstile*, keeps a stream of compilations from shutting a measurement out for ever: whoever wants
//! to measure holds it while waiting, and whoever wants to compile passes through it first.
//!
//! The lock lies in a folder that its user alone can enter: in a folder that everybody can read, anybody
//! could hold it for ever. A device that all users of a machine measure on has one more, machine-wide
//! ([`device_lock_paths`]), and who is waited for there is waited for no longer than [`PATIENCE`].

use std::fs::{DirBuilder, File, OpenOptions, TryLockError};
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

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

/// Who holds a lock, as far as the system says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Holder {
    /// The process.
    pub pid: u32,
    /// Its user: a name, or a number where the system knows no name.
    pub user: String,
    /// The program's name.
    pub program: String,
}

impl std::fmt::Display for Holder {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "process {} of user {} ({})", self.pid, self.user, self.program)
    }
}

/// How long the machine-wide lock of a device is waited for. A measurement holds it for seconds, the gate of
/// a large kernel for minutes; whoever holds it for longer is stuck, or means harm.
pub const PATIENCE: Duration = Duration::from_secs(600);

/// How often somebody who waits is told for whom.
const TELL_EVERY: Duration = Duration::from_secs(60);

/// How often a lock that others hold is tried.
const GLANCE: Duration = Duration::from_millis(20);

/// Returns the lock of this user.
pub fn quiet_lock_path() -> io::Result<PathBuf> {
    Ok(lock_folder()?.join("quiet.lock"))
}

/// Returns the lock of this user for a device, and the one that all users of the machine share.
pub fn device_lock_paths() -> io::Result<[PathBuf; 2]> {
    // Not below `TMPDIR`, which differs.
    let shared = PathBuf::from("/tmp/warpsmith-quiet-cuda.lock");
    Ok([lock_folder()?.join("quiet-cuda.lock"), shared])
}

/// Returns a folder that this user alone can enter: the one that the system made for such files, or one
/// in `/tmp`. Where somebody else took that name, one in the user's own folder.
fn lock_folder() -> io::Result<PathBuf> {
    // SAFETY: geteuid has no conditions and cannot fail.
    let uid = unsafe { libc::geteuid() };
    let runtime = std::env::var_os("XDG_RUNTIME_DIR").map(PathBuf::from);
    let by_system = runtime.into_iter().chain([PathBuf::from(format!("/run/user/{uid}"))]);
    for folder in by_system {
        if folder.is_absolute() && is_own(&folder, uid) {
            return own_folder(&folder.join("warpsmith"), uid);
        }
    }
    let in_tmp = own_folder(Path::new(&format!("/tmp/warpsmith-{uid}")), uid);
    let home = std::env::var_os("HOME").map(PathBuf::from).filter(|home| home.is_absolute());
    match (in_tmp, home) {
        (Err(_), Some(home)) if home.is_dir() => own_folder(&home.join(".warpsmith-locks"), uid),
        (in_tmp, _) => in_tmp,
    }
}

/// Makes a folder for this user alone, or makes sure that the one of that name is.
fn own_folder(folder: &Path, uid: u32) -> io::Result<PathBuf> {
    match DirBuilder::new().mode(0o700).create(folder) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(error),
        _ => {}
    }
    if !is_own(folder, uid) {
        return Err(io::Error::new(
            io::ErrorKind::PermissionDenied,
            format!(
                "`{}` is not a folder that this user alone can enter: remove it, or set \
                 XDG_RUNTIME_DIR to one that is",
                folder.display()
            ),
        ));
    }
    Ok(folder.to_path_buf())
}

/// Says whether a path is a folder, and no link, that belongs to this user and that nobody else can enter: who
/// can read a file can lock it.
fn is_own(folder: &Path, uid: u32) -> bool {
    std::fs::symlink_metadata(folder)
        .is_ok_and(|known| known.is_dir() && known.uid() == uid && known.mode() & 0o077 == 0)
}

/// Takes the lock. `tell` is called once somebody else turns out to have it, and every minute from then on,
/// with who that is and for how long this one has waited.
pub fn quiet_lock(
    path: &Path,
    quiet: Quiet,
    mut tell: impl FnMut(Option<&Holder>, Duration),
) -> io::Result<QuietGuard> {
    match wait(path, quiet, None, &mut tell)? {
        Some(guard) => Ok(guard),
        None => Err(io::Error::other("a wait without an end has ended")),
    }
}

/// Takes a lock that other users can hold as well, unless that takes longer than `patience`: then there is
/// none, and whoever measures may be disturbed.
pub fn quiet_lock_within(
    path: &Path,
    quiet: Quiet,
    patience: Duration,
    mut tell: impl FnMut(Option<&Holder>, Duration),
) -> io::Result<Option<QuietGuard>> {
    wait(path, quiet, Some(patience), &mut tell)
}

fn wait(
    path: &Path,
    quiet: Quiet,
    patience: Option<Duration>,
    tell: &mut dyn FnMut(Option<&Holder>, Duration),
) -> io::Result<Option<QuietGuard>> {
    let turnstile = open(&path.with_extension("turnstile"))?;
    let file = open(path)?;
    let began = Instant::now();
    let mut told: Option<Instant> = None;
    for wanted in [&turnstile, &file] {
        loop {
            let tried = match quiet {
                Quiet::Timing => wanted.try_lock(),
                Quiet::Compiling => wanted.try_lock_shared(),
            };
            match tried {
                Ok(()) => break,
                Err(TryLockError::WouldBlock) => {}
                Err(TryLockError::Error(error)) => return Err(error),
            }
            if patience.is_some_and(|patience| began.elapsed() >= patience) {
                return Ok(None);
            }
            if told.is_none_or(|told| told.elapsed() >= TELL_EVERY) {
                tell(holder(wanted).as_ref(), began.elapsed());
                told = Some(Instant::now());
            }
            std::thread::sleep(GLANCE);
        }
    }
    // Dropping the turnstile lets the next in line come to the lock itself.
    Ok(Some(QuietGuard { _file: file }))
}

/// Asks the system who holds a lock on a file; see proc_locks(5). None where it does not say.
fn holder(file: &File) -> Option<Holder> {
    let known = file.metadata().ok()?;
    let (major, minor) = (libc::major(known.dev()), libc::minor(known.dev()));
    let place = format!("{major:02x}:{minor:02x}:{}", known.ino());
    let locks = std::fs::read_to_string("/proc/locks").ok()?;
    let pid = locks.lines().find_map(|line| {
        let words: Vec<&str> = line.split_whitespace().collect();
        // One who waits has an arrow in the second place.
        match words.as_slice() {
            [_, "FLOCK", _, _, pid, at, ..] if *at == place => pid.parse::<u32>().ok(),
            _ => None,
        }
    })?;
    let process = PathBuf::from(format!("/proc/{pid}"));
    let uid = std::fs::metadata(&process).map(|known| known.uid()).ok();
    let program = std::fs::read_to_string(process.join("comm")).ok();
    Some(Holder {
        pid,
        user: uid.map_or_else(|| "unknown".to_string(), user_name),
        program: program.map_or_else(|| "unknown".to_string(), |name| name.trim().to_string()),
    })
}

/// Returns a user's name.
fn user_name(uid: u32) -> String {
    let users = std::fs::read_to_string("/etc/passwd").unwrap_or_default();
    let name = users.lines().find_map(|line| {
        let mut fields = line.split(':');
        let name = fields.next()?;
        (fields.nth(1)?.parse() == Ok(uid)).then(|| name.to_string())
    });
    name.unwrap_or_else(|| uid.to_string())
}

/// Opens the lock's file for locking only; a machine-wide one may be another user's.
fn open(path: &Path) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.read(true).custom_flags(libc::O_NOFOLLOW | libc::O_NONBLOCK);
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
    use std::os::unix::fs::PermissionsExt;
    use std::sync::mpsc;

    use super::*;

    #[test]
    fn compiling_is_shared_and_timing_is_exclusive() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("quiet.lock");
        let never = |_: Option<&Holder>, _| panic!("nobody holds the lock");
        let first = quiet_lock(&path, Quiet::Compiling, never).expect("free");
        let second = quiet_lock(&path, Quiet::Compiling, never).expect("shared");
        let (sender, receiver) = mpsc::channel();
        let waiting = std::thread::spawn({
            let path = path.clone();
            move || {
                let told = sender.clone();
                let guard = quiet_lock(&path, Quiet::Timing, move |_, _| {
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
        quiet_lock(&path, Quiet::Timing, |_, _| {}).expect("free again");
    }

    #[test]
    fn nobody_is_waited_for_without_end_where_others_can_hold_the_lock() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("device.lock");
        let held = quiet_lock(&path, Quiet::Timing, |_, _| {}).expect("free");
        let mut who = Vec::new();
        let patience = Duration::from_millis(60);
        let tell = |holder: Option<&Holder>, _| who.push(holder.cloned());
        let taken = quiet_lock_within(&path, Quiet::Timing, patience, tell).expect("no error");
        assert!(taken.is_none());
        assert_eq!(who.len(), 1);
        if std::fs::read_to_string("/proc/locks").is_ok_and(|locks| !locks.is_empty()) {
            let holder = who[0].clone().expect("the system says");
            assert_eq!(holder.pid, std::process::id());
            assert!(holder.to_string().contains("of user"), "{holder}");
        }
        drop(held);
        let tell = |_: Option<&Holder>, _| {};
        let taken = quiet_lock_within(&path, Quiet::Timing, Duration::from_secs(60), tell);
        assert!(taken.expect("no error").is_some());
    }

    #[test]
    fn the_folder_of_locks_is_its_users_alone() {
        let folder = tempfile::tempdir().expect("a folder");
        // SAFETY: geteuid has no conditions and cannot fail.
        let uid = unsafe { libc::geteuid() };
        let own = own_folder(&folder.path().join("own"), uid).expect("made");
        assert_eq!(std::fs::metadata(&own).expect("there").mode() & 0o777, 0o700);
        own_folder(&own, uid).expect("again");
        for mode in [0o777, 0o755, 0o750] {
            let opened = std::fs::Permissions::from_mode(mode);
            std::fs::set_permissions(&own, opened).expect("opened");
            let error = own_folder(&own, uid).expect_err("others can enter").to_string();
            assert!(error.contains("this user alone"), "{error}");
            assert!(error.contains("XDG_RUNTIME_DIR"), "{error}");
        }
        let link = folder.path().join("link");
        std::os::unix::fs::symlink(folder.path(), &link).expect("a link");
        own_folder(&link, uid).expect_err("a link");
        std::fs::write(folder.path().join("file"), "").expect("a file");
        own_folder(&folder.path().join("file"), uid).expect_err("a file");
        // Somebody else's, as far as this test can tell.
        let mine = folder.path().join("mine");
        std::fs::create_dir(&mine).expect("made");
        own_folder(&mine, uid + 1).expect_err("another user's");
        let path = quiet_lock_path().expect("a folder");
        assert!(is_own(path.parent().expect("a folder"), uid), "{}", path.display());
    }
}
