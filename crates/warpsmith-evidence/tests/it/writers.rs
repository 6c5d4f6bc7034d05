//! Several campaigns share one store.

use std::sync::Barrier;
use std::time::Duration;

use warpsmith_evidence::Store;
use warpsmith_model::RunStatus;

use crate::fixture::{START, Sketch, environment, record};

/// Everything at once, from the making of the file on; each writer has a connection of its own, as
/// two processes have.
#[test]
fn two_campaigns_write_to_one_store_at_the_same_time() {
    const WRITERS: u64 = 4;
    const TRIALS: u64 = 25;
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("deep/er/evidence.db");
    let start = Barrier::new(WRITERS as usize);
    std::thread::scope(|scope| {
        for writer in 0..WRITERS {
            let (path, start) = (&path, &start);
            scope.spawn(move || {
                start.wait();
                let store = Store::open(path).expect("a store");
                let record = record(&format!("run-{writer}"), START + writer as f64);
                store.put_environment(&environment()).expect("an environment");
                store.start_run(&record).expect("a run");
                for idx in 0..TRIALS {
                    let salt = writer * TRIALS + idx;
                    let finding = Sketch { salt, ..Sketch::tile(8, 1e-5, 1e-4) }.finding();
                    let seq = store.append(&record.id, &finding, START).expect("recorded");
                    assert_eq!(seq, idx);
                }
            });
        }
    });
    let store = Store::open_read_only(&path).expect("the store");
    let runs = store.runs().expect("runs");
    assert_eq!(runs.len() as u64, WRITERS);
    assert!(runs.iter().all(|run| run.trials == TRIALS), "{runs:?}");
    assert_eq!(store.verify().expect("checked"), Vec::<String>::new());
}

/// Whoever looks at a store while it is made sees nothing yet, or a store; never a file of somebody
/// else.
#[test]
fn a_store_in_the_making_is_not_taken_for_another_programs() {
    const OPENERS: usize = 4;
    let folder = tempfile::tempdir().expect("a folder");
    for round in 0..40 {
        let path = folder.path().join(format!("{round}.db"));
        let start = Barrier::new(OPENERS);
        std::thread::scope(|scope| {
            for opener in 0..OPENERS {
                let (path, start) = (&path, &start);
                scope.spawn(move || {
                    start.wait();
                    // Some come a little later, so that they meet the maker at each of its steps.
                    std::thread::sleep(Duration::from_micros((opener * round * 25) as u64));
                    Store::open(path).expect("a store");
                });
            }
        });
    }
}

/// What a reader says of a run without an end, by what the evidence knows of its writers.
#[test]
fn a_run_goes_on_while_one_of_its_writers_is_there() {
    let folder = tempfile::tempdir().expect("a folder");
    let (store, record) = crate::fixture::store_with_run(folder.path(), "watched");
    let status = || {
        let store = Store::open_read_only(store.path()).expect("the store");
        let listed = store.runs().expect("runs")[0].record.status.clone();
        assert_eq!(store.run("watched").expect("the run").status, listed);
        listed
    };
    let connection = rusqlite::Connection::open(store.path()).expect("the file");
    let writers = |documents: &[&str]| {
        connection.execute("DELETE FROM documents WHERE kind = 'writer'", []).expect("deleted");
        let insert = "INSERT INTO documents (run, kind, document) VALUES (1, 'writer', ?1)";
        for document in documents {
            connection.execute(insert, [document]).expect("inserted");
        }
    };
    let read = |row: &rusqlite::Row<'_>| row.get::<_, String>(0);
    let select = "SELECT document FROM documents WHERE kind = 'writer'";
    let own = connection.query_row(select, [], read).expect("this process, once");
    // This number, but at a time at which no process of this machine began.
    let named: serde_json::Value = serde_json::from_str(&own).expect("JSON");
    let with = |key: &str, value: serde_json::Value| {
        let mut other = named.clone();
        other[key] = value;
        other.to_string()
    };
    let gone = with("started_ticks", 0.into());
    let elsewhere = with("boot", "another".into());
    assert_eq!(status(), RunStatus::Running);
    writers(&[&gone, &own, &elsewhere]);
    assert_eq!(status(), RunStatus::Running);
    writers(&[&gone]);
    assert_eq!(status(), RunStatus::Interrupted { ended_unix_s: record.started_unix_s });
    writers(&[&gone, &elsewhere]);
    assert_eq!(status(), RunStatus::Unknown);
    writers(&["{\"by\":\"nameless\"}"]);
    assert_eq!(status(), RunStatus::Unknown);
    // As earlier versions left it.
    writers(&[]);
    assert_eq!(status(), RunStatus::Unknown);

    // Whoever records a trial writes, whoever began the run.
    writers(&[&gone]);
    store.append(&record.id, &Sketch::tile(8, 1e-5, 1e-4).finding(), START + 9.0).expect("kept");
    assert_eq!(status(), RunStatus::Running);
    writers(&[&gone]);
    assert_eq!(status(), RunStatus::Interrupted { ended_unix_s: START + 9.0 });
    // An end that was recorded is one, whatever became of the writers.
    let ended = RunStatus::Finished { ended_unix_s: START + 10.0 };
    store.finish_run(&record.id, &ended).expect("recorded");
    assert_eq!(status(), ended);
    // One of those who ask for it gets it.
    let other = Store::open(store.path()).expect("opens");
    assert!(other.take_up(&record.id).expect("recorded"));
    assert!(!store.take_up(&record.id).expect("read"), "it goes on already");
    assert_eq!(status(), RunStatus::Running, "it was taken up by this process");
    writers(&[&gone]);
    assert!(store.take_up(&record.id).expect("recorded"), "nobody goes on with it");
    assert_eq!(store.document_kinds(&record.id).expect("kinds"), Vec::<String>::new());
}

/// Two writers of one run: each trial gets a place of its own.
#[test]
fn one_run_can_be_fed_by_two_processes() {
    let folder = tempfile::tempdir().expect("a folder");
    let (store, record) = crate::fixture::store_with_run(folder.path(), "shared");
    std::thread::scope(|scope| {
        for writer in 0..2 {
            let (path, run) = (store.path(), &record.id);
            scope.spawn(move || {
                let store = Store::open(path).expect("a store");
                for idx in 0..20 {
                    let finding =
                        Sketch { salt: writer * 100 + idx, ..Sketch::tile(8, 1e-5, 1e-4) }
                            .finding();
                    store.append(run, &finding, START).expect("recorded");
                }
            });
        }
    });
    let seqs: Vec<u64> =
        store.trials(&record.id).expect("trials").iter().map(|trial| trial.seq).collect();
    assert_eq!(seqs, (0..40).collect::<Vec<u64>>());
}

/// A reader sees a whole state while a campaign goes on.
#[test]
fn queries_work_while_a_campaign_writes() {
    let folder = tempfile::tempdir().expect("a folder");
    let (store, record) = crate::fixture::store_with_run(folder.path(), "busy");
    std::thread::scope(|scope| {
        let (path, run) = (store.path().to_path_buf(), record.id.clone());
        let reader = scope.spawn(move || {
            let store = Store::open_read_only(&path).expect("a reader");
            let mut before = 0;
            while before < 30 {
                let summaries = store.summaries(&run).expect("summaries");
                assert!(summaries.len() >= before, "trials went away");
                assert!(summaries.iter().all(|trial| trial.times.len() == 2), "half a trial");
                before = summaries.len();
            }
        });
        for salt in 0..30 {
            let finding = Sketch { salt, ..Sketch::tile(8, 1e-5, 1e-4) }.finding();
            store.append(&record.id, &finding, START).expect("recorded");
        }
        reader.join().expect("the reader saw everything");
    });
}
