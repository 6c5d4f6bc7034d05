//! A file in the making: whoever reads sees the file of that name as it was, or the whole new one.

use std::fs::{DirBuilder, File, OpenOptions, Permissions};
use std::io::{BufWriter, ErrorKind, Read, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use super::ExportError;

/// A file beside the one that it will replace, under a name that no other process and no other thread has.
/// It is removed when it is dropped before [`Part::finish`].
#[derive(Debug)]
pub struct Part {
    path: PathBuf,
    /// None where the path names no file but a device or a pipe, which is written to as it is.
    part: Option<PathBuf>,
    writer: Option<BufWriter<File>>,
}

impl Part {
    /// Begins a file; makes its folder when it is not there. A file that is there keeps its permissions; one
    /// that belongs to a database is refused, since no product of ours is one and the evidence may be. In a folder that its owner alone can read, and beside evidence that its owner alone can read, what is made
    /// is for its owner alone as well.
    pub fn begin(path: &Path) -> Result<Self, ExportError> {
        let failed = |source| ExportError::Write { path: path.to_path_buf(), source };
        if std::fs::metadata(path).is_ok_and(|known| !known.is_file() && !known.is_dir()) {
            let file = OpenOptions::new().write(true).open(path).map_err(failed)?;
            let writer = Some(BufWriter::new(file));
            return Ok(Self { path: path.to_path_buf(), part: None, writer });
        }
        // A link is kept, and what it names is replaced.
        let path = path.canonicalize().unwrap_or_else(|_| path.to_path_buf());
        if belongs_to_database(&path) {
            return Err(ExportError::Database { path });
        }
        let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
        let folder = folder.unwrap_or(Path::new("."));
        make_folder(folder).map_err(failed)?;
        let private = is_private(folder);
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        remove_left_behind(folder, &name);
        let (file, part) = loop {
            static NEXT: AtomicU64 = AtomicU64::new(0);
            let number = NEXT.fetch_add(1, Ordering::Relaxed);
            let part = folder.join(format!(".{name}.{}-{number}.part", std::process::id()));
            let mut options = OpenOptions::new();
            options.write(true).create_new(true).mode(if private { 0o600 } else { 0o666 });
            match options.open(&part) {
                Ok(file) => break (file, part),
                // Left by a process that was killed and had this number, perhaps on another machine.
                Err(error) if error.kind() == ErrorKind::AlreadyExists => {}
                Err(error) => return Err(failed(error)),
            }
        };
        let former = std::fs::metadata(&path).map(|former| former.permissions().mode() & 0o777);
        let outcome = match former {
            Ok(mode) => std::fs::set_permissions(&part, Permissions::from_mode(mode)),
            Err(_) => Ok(()),
        };
        let own = Self { path, part: Some(part), writer: Some(BufWriter::new(file)) };
        outcome.map(|()| own).map_err(failed)
    }

    /// Puts the file in its place.
    pub fn finish(mut self) -> Result<(), ExportError> {
        let failed = |source| ExportError::Write { path: self.path.clone(), source };
        if let Some(mut writer) = self.writer.take() {
            writer.flush().map_err(failed)?;
        }
        match &self.part {
            Some(part) => std::fs::rename(part, &self.path).map_err(failed),
            None => Ok(()),
        }
    }
}

impl Write for Part {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        match &mut self.writer {
            Some(writer) => writer.write(bytes),
            None => Err(std::io::Error::other("the file is finished")),
        }
    }

    fn flush(&mut self) -> std::io::Result<()> {
        self.writer.as_mut().map_or(Ok(()), Write::flush)
    }
}

impl Drop for Part {
    fn drop(&mut self) {
        // After `finish` there is nothing of that name; and the error at hand, where there is one, says more
        // than one about removing what it left behind.
        if let Some(part) = &self.part {
            let _ = std::fs::remove_file(part);
        }
    }
}

/// How long a part must have been left alone: one of a process on another machine, or in another container, cannot
/// be told from a dead one's by its number, but it is written to all the time.
const LEFT_ALONE: Duration = Duration::from_secs(60);

/// Removes parts of a file that processes left behind which were killed. What cannot be looked at or removed is no
/// reason not to write.
fn remove_left_behind(folder: &Path, name: &str) {
    let begin = format!(".{name}.");
    for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
        let entry_name = entry.file_name();
        let number =
            entry_name.to_str().and_then(|it| it.strip_prefix(&begin)?.strip_suffix(".part"));
        let pid = number.and_then(|number| number.split_once('-'));
        let Some((Ok(pid), Ok(_))) = pid.map(|(pid, n)| (pid.parse::<u32>(), n.parse::<u64>()))
        else {
            continue;
        };
        let is_there = Path::new("/proc").join(pid.to_string()).exists();
        let modified = entry.metadata().and_then(|known| known.modified());
        let is_old = modified.is_ok_and(|at| at.elapsed().is_ok_and(|since| since > LEFT_ALONE));
        if !is_there && is_old {
            let _ = std::fs::remove_file(entry.path());
        }
    }
}

/// The evidence's file, in the folder of a project's evidence.
const EVIDENCE: &str = "evidence.db";

/// Says whether what is made in a folder is for its owner alone.
fn is_private(folder: &Path) -> bool {
    let is_closed = |path: &Path| {
        std::fs::metadata(path).is_ok_and(|known| known.permissions().mode() & 0o077 == 0)
    };
    is_closed(folder) || folder.ancestors().any(|around| is_closed(&around.join(EVIDENCE)))
}

/// Says whether a file is an SQLite database, or one that SQLite keeps beside it.
fn belongs_to_database(path: &Path) -> bool {
    const MAGIC: &[u8; 16] = b"SQLite format 3\0";
    let is_database = |path: &Path| {
        let mut first = [0; MAGIC.len()];
        let read = File::open(path).and_then(|mut file| file.read_exact(&mut first));
        read.is_ok() && first == *MAGIC
    };
    let text = path.to_string_lossy();
    let beside = ["-wal", "-shm", "-journal"].iter().find_map(|end| text.strip_suffix(end));
    is_database(path) || beside.is_some_and(|database| is_database(Path::new(database)))
}

/// Makes a folder and those around it; in a private one they are private, too.
fn make_folder(folder: &Path) -> std::io::Result<()> {
    if folder.is_dir() {
        return Ok(());
    }
    let around = folder.ancestors().skip(1).find(|around| around.is_dir());
    let private = around.is_some_and(is_private);
    DirBuilder::new().recursive(true).mode(if private { 0o700 } else { 0o777 }).create(folder)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mode(path: &Path) -> u32 {
        std::fs::metadata(path).expect("it is there").permissions().mode() & 0o777
    }

    fn names(folder: &Path) -> Vec<String> {
        let entries = std::fs::read_dir(folder).expect("the folder");
        let name = |entry: std::io::Result<std::fs::DirEntry>| {
            entry.expect("an entry").file_name().to_string_lossy().into_owned()
        };
        let mut names: Vec<String> = entries.map(name).collect();
        names.sort();
        names
    }

    #[test]
    fn two_that_write_one_file_at_the_same_time_do_not_mix() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("log.csv");
        let (mut one, mut other) =
            (Part::begin(&path).expect("begun"), Part::begin(&path).expect("begun"));
        one.write_all(b"one,").expect("written");
        other.write_all(b"other").expect("written");
        one.write_all(b"one").expect("written");
        one.finish().expect("whole");
        assert_eq!(std::fs::read_to_string(&path).expect("a file"), "one,one");
        other.finish().expect("whole");
        assert_eq!(std::fs::read_to_string(&path).expect("a file"), "other");
        assert_eq!(names(folder.path()), ["log.csv"]);
    }

    #[test]
    fn what_is_given_up_leaves_nothing_behind_and_the_former_file_as_it_was() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("log.csv");
        std::fs::write(&path, "former").expect("written");
        let mut part = Part::begin(&path).expect("begun");
        part.write_all(b"half").expect("written");
        drop(part);
        assert_eq!(std::fs::read_to_string(&path).expect("a file"), "former");
        assert_eq!(names(folder.path()), ["log.csv"]);
    }

    /// An export that was killed left its part for ever.
    #[test]
    fn parts_of_processes_that_are_gone_are_removed_by_the_next() {
        let folder = tempfile::tempdir().expect("a folder");
        // No process has so large a number.
        let [dead, fresh, own, other] = [
            ".log.csv.4194999-0.part".to_string(),
            ".log.csv.4194998-0.part".to_string(),
            format!(".log.csv.{}-77777.part", std::process::id()),
            ".others.csv.4194999-0.part".to_string(),
        ];
        for name in [&dead, &fresh, &own, &other] {
            let file = File::create(folder.path().join(name)).expect("made");
            if name != &fresh {
                let long_ago = std::time::SystemTime::now() - 2 * LEFT_ALONE;
                file.set_modified(long_ago).expect("dated");
            }
        }
        Part::begin(&folder.path().join("log.csv")).and_then(Part::finish).expect("written");
        let mut expected = vec![fresh, own, other, "log.csv".to_string()];
        expected.sort();
        assert_eq!(names(folder.path()), expected);
    }

    #[test]
    fn a_database_and_what_lies_beside_it_are_never_replaced() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("evidence.db");
        drop(crate::Store::open(&path).expect("a store"));
        let store = std::fs::read(&path).expect("a file");
        let link = folder.path().join("report.html");
        std::os::unix::fs::symlink(&path, &link).expect("a link");
        for name in ["evidence.db", "evidence.db-wal", "evidence.db-shm", "report.html"] {
            let refused = Part::begin(&folder.path().join(name)).expect_err(name);
            assert!(matches!(refused, ExportError::Database { .. }), "{refused}");
        }
        assert_eq!(std::fs::read(&path).expect("a file"), store);
        assert_eq!(names(folder.path()), ["evidence.db", "report.html"]);
    }

    #[test]
    fn permissions_are_kept_and_private_folders_have_private_files() {
        let folder = tempfile::tempdir().expect("a folder");
        let write = |path: &Path| Part::begin(path).and_then(Part::finish).expect("written");
        std::fs::set_permissions(folder.path(), Permissions::from_mode(0o700)).expect("private");
        let inside = folder.path().join("run/t4/a.json");
        write(&inside);
        assert_eq!((mode(&inside), mode(&folder.path().join("run"))), (0o600, 0o700));
        std::fs::set_permissions(&inside, Permissions::from_mode(0o640)).expect("chosen");
        write(&inside);
        assert_eq!(mode(&inside), 0o640);
        let open = folder.path().join("open");
        std::fs::create_dir(&open).expect("a folder");
        std::fs::set_permissions(&open, Permissions::from_mode(0o755)).expect("public");
        write(&open.join("b.json"));
        assert_ne!(mode(&open.join("b.json")) & 0o400, 0);
    }
}
