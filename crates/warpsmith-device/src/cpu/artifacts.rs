//! The artifact cache: a folder that several processes fill and read at once.
//!
//! `KEY.json` describes a build and names its binary; `BINARY.so` is a binary, named by the hash of
//! its own bytes. Both are renamed into place when complete. Because a binary's name is its content,
//! two processes that build the same key never disturb each other, even if a compiler were not
//! reproducible. Nothing is synced to the disk: a torn file after a power failure fails its hash and
//! is built again, which costs less than waiting for the disk on each of thousands of builds.

use std::fs::{self, DirBuilder, File, OpenOptions, Permissions, TryLockError};
use std::io;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant, SystemTime};

use serde::{Deserialize, Serialize};
use warpsmith_model::BlobId;

use crate::sys::files::read_regular;
use crate::target::{Artifact, Fault};

/// How old a forgotten working folder must be to be removed: far longer than any compiler runs.
const FORGOTTEN_AFTER: Duration = Duration::from_secs(24 * 3600);

/// What `KEY.json` holds.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Entry {
    format: u32,
    binary: BlobId,
    command: Vec<String>,
    log: String,
    compile_s: f64,
}

const FORMAT: u32 = 1;

/// Finds an artifact, or has it built: by one of the processes that want it, while the others wait.
pub(crate) fn find_or_build(
    cache_dir: &Path,
    key: &BlobId,
    deadline: Duration,
    build: impl FnOnce() -> Result<Artifact, Fault>,
) -> Result<Artifact, Fault> {
    if let Some(artifact) = look_up(cache_dir, key) {
        return Ok(artifact);
    }
    make_private(cache_dir).map_err(building_in(cache_dir))?;
    let _lock = lock(cache_dir, key, deadline).map_err(building_in(cache_dir))?;
    match look_up(cache_dir, key) {
        Some(artifact) => Ok(artifact),
        None => build(),
    }
}

/// Names the cache in which building failed for no fault of the unit.
pub(crate) fn building_in(cache_dir: &Path) -> impl Fn(io::Error) -> Fault {
    let what = format!("building in {}", cache_dir.display());
    move |source| Fault::Broken { what: what.clone(), source }
}

/// Returns the artifact of a key; none when there is none or when it is damaged.
fn look_up(cache_dir: &Path, key: &BlobId) -> Option<Artifact> {
    let text = fs::read(cache_dir.join(format!("{key}.json"))).ok()?;
    let entry: Entry = serde_json::from_slice(&text).ok()?;
    let path = binary_path(cache_dir, &entry.binary);
    let intact = entry.format == FORMAT && BlobId::of(&fs::read(&path).ok()?) == entry.binary;
    // Whoever prunes the cache sees that it is in use. In a folder that others own it stays as old as it is.
    let _ = File::open(&path).and_then(|file| file.set_modified(SystemTime::now()));
    intact.then_some(Artifact {
        path,
        binary: entry.binary,
        command: entry.command,
        log: entry.log,
        compile_s: entry.compile_s,
        cached: true,
    })
}

/// The size of the largest binary that is taken: the largest of honest kernels have some hundred KiB, and each
/// is kept on disk, and for a while in memory.
const MOST_BYTES: u64 = 32 << 20;

/// Above so many bytes the binaries that nobody has asked for in a day go, oldest first, until [`KEPT_CACHE_BYTES`]
/// are left.
const MOST_CACHE_BYTES: u64 = 4 << 30;
const KEPT_CACHE_BYTES: u64 = 3 << 30;

/// Reads the binary that a compiler left, if it is one: a compiler says that it succeeded, and may have been
/// led to write nothing, or something else than a file. The message says what is there instead.
pub(crate) fn take(built: &Path) -> Result<Vec<u8>, String> {
    let name = built.file_name().unwrap_or_default().display();
    match read_regular(built, MOST_BYTES) {
        Ok(bytes) if bytes.is_empty() => {
            Err(format!("the compiler says that it succeeded, and `{name}` is an empty file"))
        }
        Ok(bytes) => Ok(bytes),
        Err(error) => Err(format!(
            "the compiler says that it succeeded, and left no kernel: `{name}`: {error}"
        )),
    }
}

/// Stores a new binary under a key. What is stored is written here, where no compiler could leave a link or
/// still writes.
pub(crate) fn store(
    cache_dir: &Path,
    key: &BlobId,
    bytes: &[u8],
    command: Vec<String>,
    log: String,
    compile_s: f64,
) -> io::Result<Artifact> {
    let binary = BlobId::of(bytes);
    let path = binary_path(cache_dir, &binary);
    let folder = WorkFolder::create(&build_dir(cache_dir))?;
    let complete = folder.path().join("binary");
    fs::write(&complete, bytes)?;
    fs::rename(&complete, &path)?;
    let entry = Entry { format: FORMAT, binary, command, log, compile_s };
    let description = folder.path().join("description");
    fs::write(&description, serde_json::to_vec(&entry)?)?;
    fs::rename(&description, cache_dir.join(format!("{key}.json")))?;
    let Entry { command, log, compile_s, .. } = entry;
    Ok(Artifact { path, binary, command, log, compile_s, cached: false })
}

fn binary_path(cache_dir: &Path, binary: &BlobId) -> PathBuf {
    cache_dir.join(format!("{binary}.so"))
}

/// Waits until no other process builds this key, or one of the few that share its lock, and holds
/// the lock until dropped. So a build that is wanted while it is under way is waited for, not
/// repeated. The number of lock files is fixed because one that is in use cannot be removed safely.
///
/// There is none where somebody holds it for longer than builds with this deadline take: whoever then builds the
/// same beside them loses time, and nothing else.
pub(crate) fn lock(cache_dir: &Path, key: &BlobId, deadline: Duration) -> io::Result<Option<File>> {
    const GLANCE: Duration = Duration::from_millis(5);
    let folder = cache_dir.join("locks");
    make_private(&folder)?;
    // Whoever can open a file can lock it, also for reading alone; earlier versions let everybody.
    if fs::metadata(&folder)?.permissions().mode() & 0o077 != 0 {
        fs::set_permissions(&folder, Permissions::from_mode(0o700))?;
    }
    let path = folder.join(&key.to_string()[..2]);
    let file =
        OpenOptions::new().write(true).create(true).truncate(false).mode(0o600).open(path)?;
    // A build that finds a file broken is done twice, and one more may have been before it in line.
    let patience = deadline.saturating_mul(3);
    let began = Instant::now();
    loop {
        match file.try_lock() {
            Ok(()) => return Ok(Some(file)),
            Err(TryLockError::WouldBlock) if began.elapsed() >= patience => return Ok(None),
            Err(TryLockError::WouldBlock) => std::thread::sleep(GLANCE),
            Err(TryLockError::Error(error)) => return Err(error),
        }
    }
}

/// Makes a folder that its user alone can enter, and those on the way to it that are missing. One that is there
/// already stays as it is.
pub fn make_private(folder: &Path) -> io::Result<()> {
    DirBuilder::new().mode(0o700).recursive(true).create(folder)
}

/// What the name of a working folder begins with; its process's number and one of its own follow.
const FOLDER_PREFIX: &str = "warpsmith-";

/// A folder for one build that is removed when dropped.
#[derive(Debug)]
pub struct WorkFolder(PathBuf);

impl WorkFolder {
    /// Creates a new folder that only this user can enter.
    pub fn create(parent: &Path) -> io::Result<Self> {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        make_private(parent)?;
        let process = std::process::id();
        loop {
            let number = NEXT.fetch_add(1, Ordering::Relaxed);
            let path = parent.join(format!("{FOLDER_PREFIX}{process}-{number}"));
            match DirBuilder::new().mode(0o700).create(&path) {
                Ok(()) => return Ok(Self(fs::canonicalize(path)?)),
                // Left behind by an earlier process of the same number.
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                Err(error) => return Err(error),
            }
        }
    }

    /// Returns its path.
    pub fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for WorkFolder {
    fn drop(&mut self) {
        // What cannot be removed now is removed by a later `sweep`.
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// Returns where builds happen.
pub fn build_dir(cache_dir: &Path) -> PathBuf {
    cache_dir.join("build")
}

/// Removes the working folders of processes that were killed long ago, and old binaries where there are too
/// many, and nothing else: whoever names a
/// folder of theirs as the work folder may keep things there.
pub(crate) fn sweep(cache_dir: &Path) {
    prune(cache_dir, MOST_CACHE_BYTES, KEPT_CACHE_BYTES);
    let Ok(entries) = fs::read_dir(build_dir(cache_dir)) else { return };
    for entry in entries.flatten() {
        if !entry.file_name().to_str().is_some_and(is_working_folder_name) {
            continue;
        }
        let Ok(metadata) = entry.metadata() else { continue };
        let age = metadata.modified().map(|at| at.elapsed());
        if metadata.is_dir() && matches!(age, Ok(Ok(age)) if age > FORGOTTEN_AFTER) {
            // Somebody else's sweep may have been faster.
            let _ = fs::remove_dir_all(entry.path());
        }
    }
}

/// Removes binaries that nobody has asked for in a day where all of them have more than `most` bytes, until `kept`
/// bytes are left. What describes them stays, and is as good as absent without them.
fn prune(cache_dir: &Path, most: u64, kept: u64) {
    let Ok(entries) = fs::read_dir(cache_dir) else { return };
    let binaries = entries.flatten().filter_map(|entry| {
        let is_binary = entry.file_name().to_str()?.strip_suffix(".so").is_some_and(is_hash);
        let metadata = entry.metadata().ok().filter(|known| is_binary && known.is_file())?;
        Some((metadata.modified().ok()?, metadata.len(), entry.path()))
    });
    let mut binaries: Vec<(SystemTime, u64, PathBuf)> = binaries.collect();
    let mut total: u64 = binaries.iter().map(|(_, bytes, _)| bytes).sum();
    if total <= most {
        return;
    }
    binaries.sort();
    for (used, bytes, path) in binaries {
        let is_old = used.elapsed().is_ok_and(|age| age > FORGOTTEN_AFTER);
        if total <= kept || !is_old {
            return;
        }
        if fs::remove_file(path).is_ok() {
            total -= bytes;
        }
    }
}

/// Says whether a text is a hash as files are named by it.
fn is_hash(text: &str) -> bool {
    text.len() == 64 && text.bytes().all(|byte| byte.is_ascii_hexdigit())
}

/// Says whether [`WorkFolder::create`] gives names like this one.
fn is_working_folder_name(name: &str) -> bool {
    let is_number = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    let numbers = name.strip_prefix(FOLDER_PREFIX).and_then(|rest| rest.split_once('-'));
    numbers.is_some_and(|(process, number)| is_number(process) && is_number(number))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sweep_removes_forgotten_working_folders_and_nothing_of_others() {
        let cache = tempfile::tempdir().expect("a folder");
        let builds = build_dir(cache.path());
        let long_ago = SystemTime::now() - 2 * FORGOTTEN_AFTER;
        let theirs = ["thesis", "warpsmith-notes", "warpsmith-1", "warpsmith-1-2.old"];
        for name in theirs.into_iter().chain(["warpsmith-4194304-17"]) {
            fs::create_dir_all(builds.join(name)).expect("made");
            fs::write(builds.join(name).join("text"), name).expect("written");
            let folder = File::open(builds.join(name)).expect("opened");
            folder.set_modified(long_ago).expect("made old");
        }
        let used = WorkFolder::create(&builds).expect("made");
        sweep(cache.path());
        assert!(!builds.join("warpsmith-4194304-17").exists());
        assert!(used.path().exists());
        for name in theirs {
            assert!(builds.join(name).join("text").exists(), "{name}");
        }
    }

    #[test]
    fn pruning_removes_old_binaries_and_nothing_of_others() {
        let cache = tempfile::tempdir().expect("a folder");
        let long_ago = SystemTime::now() - 2 * FORGOTTEN_AFTER;
        let binary = |digit: &str| format!("{}.so", digit.repeat(64));
        let names = [binary("a"), binary("b"), binary("c"), "libthesis.so".to_string()];
        for (idx, name) in names.iter().enumerate() {
            let file = File::create(cache.path().join(name)).expect("made");
            file.set_len(1000).expect("filled");
            file.set_modified(long_ago + Duration::from_secs(idx as u64)).expect("made old");
        }
        let left = || names.each_ref().map(|name| cache.path().join(name).exists());
        prune(cache.path(), 3000, 0);
        assert_eq!(left(), [true; 4], "there is room for three");
        prune(cache.path(), 2999, 2000);
        assert_eq!(left(), [false, true, true, true], "the oldest goes");
        let used = File::open(cache.path().join(&names[1])).expect("opened");
        used.set_modified(SystemTime::now()).expect("used");
        prune(cache.path(), 1, 0);
        assert_eq!(
            left(),
            [false, true, false, true],
            "what is in use stays, and what is no binary"
        );
    }

    #[test]
    fn others_cannot_hold_the_locks_of_builds() {
        let folder = tempfile::tempdir().expect("a folder");
        let cache = folder.path().join("work/artifacts");
        let mode = |path: &Path| fs::metadata(path).expect("there").permissions().mode() & 0o777;
        let (key, deadline) = (BlobId::of(b"key"), Duration::from_millis(20));
        // As an earlier version left them.
        fs::create_dir_all(cache.join("locks")).expect("made");
        fs::set_permissions(cache.join("locks"), Permissions::from_mode(0o755)).expect("opened");
        let held = lock(&cache, &key, deadline).expect("no error").expect("free");
        assert_eq!(mode(&cache.join("locks")), 0o700);
        assert_eq!(mode(&cache.join("locks").join(&key.to_string()[..2])), 0o600);
        // Whoever has it open already is not waited for without end.
        assert!(lock(&cache, &key, deadline).expect("no error").is_none());
        drop(held);
        let patient = Duration::from_secs(20);
        assert!(lock(&cache, &key, patient).expect("no error").is_some(), "free again");
        make_private(&folder.path().join("new/one")).expect("made");
        assert_eq!(mode(&folder.path().join("new/one")), 0o700);
    }
}
