//! Files that are not, or not any more, what a store should be.

use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use warpsmith_evidence::{Store, StoreError};

use crate::fixture::{START, Sketch, store_with_run};

/// Opens a file both ways and checks what is said about it; neither may change the file.
fn check(path: &Path, expected: &str) {
    let before = std::fs::read(path).ok();
    for (way, outcome) in
        [("open", Store::open(path)), ("open_read_only", Store::open_read_only(path))]
    {
        let said = match outcome {
            Err(error) => error.to_string(),
            Ok(store) => match store.verify() {
                Err(error) => error.to_string(),
                Ok(faults) => panic!("{way} accepted {}: {faults:?}", path.display()),
            },
        };
        assert!(said.contains(expected), "{way}: expected `{expected}` in `{said}`");
        assert!(said.contains(&path.display().to_string()), "{way}: no file name in `{said}`");
    }
    assert!(std::fs::read(path).ok() == before, "{} was changed", path.display());
}

/// A store with some trials, closed.
fn closed_store(folder: &Path) -> PathBuf {
    let (store, record) = store_with_run(folder, "tiles-1");
    for salt in 0..20 {
        let finding = Sketch { salt, ..Sketch::tile(8, 1e-5, 1e-4) }.finding();
        store.append(&record.id, &finding, START).expect("recorded");
    }
    store.path().to_path_buf()
}

#[test]
fn files_that_are_something_else_are_left_alone() {
    let folder = tempfile::tempdir().expect("a folder");
    let text = folder.path().join("notes.txt");
    std::fs::write(&text, "not a database, but long enough to look at\n".repeat(100))
        .expect("text");
    check(&text, "not an evidence store");
    let other = folder.path().join("bookmarks.db");
    let connection = rusqlite::Connection::open(&other).expect("a database");
    connection.execute_batch("CREATE TABLE bookmarks (url TEXT)").expect("a table");
    drop(connection);
    check(&other, "a database of another program");
    check(folder.path(), "a folder");
}

#[test]
fn a_newer_store_asks_for_an_upgrade() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = closed_store(folder.path());
    let connection = rusqlite::Connection::open(&path).expect("the file");
    connection.execute_batch("PRAGMA user_version = 99").expect("a later version");
    drop(connection);
    check(&path, "has format 99, and this version of Warpsmith knows formats up to 3: upgrade");
}

/// The number is one byte of the file, and says which steps to take when the file is next written to.
#[test]
fn a_format_number_that_the_tables_contradict_is_damage() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = closed_store(folder.path());
    const PLACE: usize = 63;
    let sound = std::fs::read(&path).expect("the file");
    assert_eq!(sound[PLACE], 3, "the format");
    for format in 0..3 {
        let mut damaged = sound.clone();
        damaged[PLACE] = format;
        std::fs::write(&path, damaged).expect("damaged");
        check(&path, &format!("is damaged (it says that it has format {format}"));
    }
    std::fs::write(&path, sound).expect("as it was");
    // What a person's own look leaves behind is no damage.
    let connection = rusqlite::Connection::open(&path).expect("the file");
    connection.execute_batch("ANALYZE; CREATE VIEW mine AS SELECT id FROM runs").expect("looked");
    drop(connection);
    Store::open(&path).expect("opens");
}

#[test]
fn damage_is_reported_and_not_touched() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = closed_store(folder.path());
    let whole = std::fs::read(&path).expect("the file");

    // The first half alone.
    std::fs::write(&path, &whole[..whole.len() / 2]).expect("truncated");
    check(&path, "is damaged");
    // A page boundary is no better.
    std::fs::write(&path, &whole[..4096 * 3]).expect("truncated");
    check(&path, "is damaged");
    // Less than a header.
    std::fs::write(&path, &whole[..50]).expect("truncated");
    check(&path, "is damaged");
    // Everything after the first page is noise.
    let mut noise = whole.clone();
    noise[4096..].fill(0xa5);
    std::fs::write(&path, noise).expect("overwritten");
    check(&path, "is damaged");
}

/// Opening does not read everything, so damage in one trial is found when that trial is read.
#[test]
fn damage_inside_a_document_is_found_by_looking() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = closed_store(folder.path());
    let connection = rusqlite::Connection::open(&path).expect("the file");
    let edits = [
        "UPDATE trial_documents SET document = substr(document, 1, 100) WHERE trial = 1",
        "UPDATE trials SET verdict = 'crashed' WHERE number = 2",
        "UPDATE measurements SET median_s = median_s / 2 WHERE trial = 3",
        "DELETE FROM trial_documents WHERE trial = 4",
        "UPDATE blobs SET content = content || ' '",
    ];
    for edit in edits {
        connection.execute_batch(edit).expect(edit);
    }
    drop(connection);
    let store = Store::open(&path).expect("opens");
    let faults = store.verify().expect("checked");
    // Both stored texts were edited.
    assert_eq!(faults.len(), 6, "{faults:#?}");
}

/// Another user's evidence was called missing.
#[test]
fn evidence_that_cannot_be_looked_for_is_not_called_missing() {
    let folder = tempfile::tempdir().expect("a folder");
    // Permissions do not stop the user who may do everything; a file in the place of a folder does.
    std::fs::write(folder.path().join("file"), "").expect("a file");
    let path = folder.path().join("file/evidence.db");
    let error = Store::open_read_only(&path).expect_err("there is no folder");
    assert!(matches!(error, StoreError::CannotOpen { .. }), "{error}");
}

#[test]
fn a_missing_or_empty_file_is_made_for_campaigns_and_missed_by_queries() {
    let folder = tempfile::tempdir().expect("a folder");
    for (name, exists) in [("a/b/evidence.db", false), ("empty.db", true)] {
        let path = folder.path().join(name);
        if exists {
            std::fs::write(&path, "").expect("an empty file");
        }
        let error = Store::open_read_only(&path).expect_err("nothing there");
        assert_eq!(matches!(error, StoreError::Empty { .. }), exists, "{error}");
        assert_eq!(matches!(error, StoreError::Missing { .. }), !exists, "{error}");
        let error = Store::open(&path).expect("made").run("latest").expect_err("no runs");
        assert!(matches!(error, StoreError::Missing { .. }), "{error}");
        Store::open_read_only(&path).expect("there now");
    }
    let blocked = folder.path().join("empty.db/evidence.db");
    let error = Store::open(&blocked).expect_err("a file in the way").to_string();
    assert!(error.contains("its folder cannot be made"), "{error}");
}

/// SQLite deletes the log of an empty file when it opens it.
#[test]
fn the_log_of_a_file_that_was_cut_off_is_kept() {
    let folder = tempfile::tempdir().expect("a folder");
    let (store, record) = store_with_run(folder.path(), "tiles-1");
    let finding = Sketch::tile(8, 1e-5, 1e-4).finding();
    store.append(&record.id, &finding, START).expect("recorded");
    let cut_off = folder.path().join("cut.db");
    let log = std::fs::read(beside(store.path(), "-wal")).expect("a log");
    std::fs::write(&cut_off, "").expect("cut off");
    std::fs::write(beside(&cut_off, "-wal"), &log).expect("its log");
    check(&cut_off, "is damaged (it is empty");
    assert!(std::fs::read(beside(&cut_off, "-wal")).expect("still there") == log);
}

const STORE: &str = "WARPSMITH_TEST_READ_ONLY_STORE";

/// The other process of the test below, without the right to write.
#[test]
#[ignore = "the child process of `a_store_without_write_permission_can_be_queried`"]
#[expect(clippy::print_stdout, reason = "the parent reads it")]
fn child_tries_to_open() {
    let path = PathBuf::from(std::env::var_os(STORE).expect("started by its parent"));
    match Store::open(&path) {
        Ok(_) => println!("campaign: opened"),
        Err(error) => println!("campaign: {error}"),
    }
    match Store::open_read_only(&path).and_then(|store| store.runs()) {
        Ok(runs) => println!("queries: {} trials", runs[0].trials),
        Err(error) => println!("queries: {error}"),
    }
}

#[test]
fn a_store_without_write_permission_can_be_queried() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = closed_store(folder.path());
    // The name has everything that must be escaped on the way to SQLite.
    let odd = folder.path().join("100% sure? #1.db");
    std::fs::rename(&path, &odd).expect("renamed");
    let said = |folder_mode: u32, file_mode: u32| {
        for (path, mode) in [(odd.as_path(), file_mode), (folder.path(), folder_mode)] {
            let permissions = std::fs::Permissions::from_mode(mode);
            std::fs::set_permissions(path, permissions).expect("permissions");
        }
        as_nobody(&odd)
    };
    for (folder_mode, file_mode) in [(0o555, 0o444), (0o555, 0o666)] {
        let text = said(folder_mode, file_mode);
        assert!(text.contains("queries: 20 trials"), "{text}");
        assert!(text.contains("cannot be written"), "{text}");
        assert!(text.contains("make the file and its folder writable"), "{text}");
    }
    let text = said(0o555, 0o000);
    assert!(text.contains("queries: cannot open"), "{text}");

    // A campaign is at work: its log is there, and readers see what is in it.
    let text = said(0o777, 0o666);
    assert!(text.contains("campaign: opened"), "{text}");
    let store = Store::open(&odd).expect("its owner writes");
    let more = Sketch { salt: 99, ..Sketch::tile(8, 1e-5, 1e-4) }.finding();
    store.append(&store.run("latest").expect("a run").id, &more, START).expect("recorded");
    for file in std::fs::read_dir(folder.path()).expect("the folder") {
        let readable = std::fs::Permissions::from_mode(0o444);
        std::fs::set_permissions(file.expect("a file").path(), readable).expect("permissions");
    }
    let text = said(0o555, 0o444);
    assert!(text.contains("queries: 21 trials"), "{text}");
    // The same without the index of the log, as an archive of the files may look.
    let (wal, shm) = (beside(&odd, "-wal"), beside(&odd, "-shm"));
    let log = std::fs::read(&wal).expect("a log");
    drop(store);
    std::fs::write(&wal, log).expect("the log of a killed campaign");
    assert!(!shm.exists(), "the index is gone");
    std::fs::set_permissions(&wal, std::fs::Permissions::from_mode(0o444)).expect("permissions");
    let text = said(0o555, 0o444);
    assert!(text.contains("queries: 21 trials"), "{text}");
    assert!(!shm.exists(), "reading makes no files");
    // The folder must be writable again to be removed.
    said(0o755, 0o644);
}

fn beside(path: &Path, ending: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(ending);
    PathBuf::from(name)
}

/// Runs the child with no more rights than anybody; root may write everywhere.
fn as_nobody(path: &Path) -> String {
    const NOBODY: u32 = 65_534;
    // A copy that others may reach, wherever the build folder is.
    let program = tempfile::Builder::new()
        .permissions(std::fs::Permissions::from_mode(0o755))
        .tempdir()
        .expect("a folder");
    let copy = program.path().join("it");
    std::fs::copy(std::env::current_exe().expect("this test"), &copy).expect("a copy");
    let mut command = Command::new(&copy);
    command
        .args(["--exact", "opening::child_tries_to_open", "--ignored", "--nocapture"])
        .env(STORE, path)
        .current_dir("/");
    let is_root = std::fs::metadata("/proc/self").is_ok_and(|this| {
        use std::os::unix::fs::MetadataExt;
        this.uid() == 0
    });
    if is_root {
        command.uid(NOBODY).gid(NOBODY);
    }
    loop {
        match command.output() {
            Ok(output) => return String::from_utf8_lossy(&output.stdout).into_owned(),
            // A test beside this one has just started a child, which holds the copy open until it is another
            // program.
            Err(error) if error.kind() == std::io::ErrorKind::ExecutableFileBusy => {
                std::thread::sleep(std::time::Duration::from_millis(5));
            }
            Err(error) => panic!("no child: {error}"),
        }
    }
}
