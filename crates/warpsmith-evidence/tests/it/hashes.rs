//! What was changed after it was recorded is never taken for what was recorded.

use std::path::{Path, PathBuf};

use rusqlite::Connection;
use warpsmith_evidence::{Question, Store, StoreError, TrialSummary, report};
use warpsmith_model::rng::Rng;
use warpsmith_model::{
    BlobId, ChainRecord, ComparisonRecord, Environment, RunId, RunRecord, RunStatus, RunTrial,
};

use crate::fixture::{
    START, Sketch, ceilings, comparison, compile_failed, crashed, environment, source,
    store_with_run,
};

/// The tables whose rows have hashes.
const SEALED: [&str; 8] = [
    "environments",
    "runs",
    "ceilings",
    "trials",
    "trial_documents",
    "run_trials",
    "documents",
    "profiles",
];

/// Makes a store one of the format before hashes.
pub(crate) fn take_hashes_away(connection: &Connection) {
    for table in SEALED {
        let is_there: bool = connection
            .prepare("SELECT 1 FROM sqlite_schema WHERE name = ?1")
            .and_then(|mut select| select.exists([table]))
            .expect("a look");
        if is_there {
            let sql = format!("ALTER TABLE {table} DROP COLUMN hash");
            connection.execute_batch(&sql).expect("no hashes");
        }
    }
}

/// A closed store with some of everything.
fn closed_store(folder: &Path) -> PathBuf {
    let (store, record) = store_with_run(folder, "tiles-1");
    for salt in 0..12 {
        let outcome = match salt % 4 {
            1 => crashed(),
            2 => compile_failed(),
            _ => Sketch::tile(8, 1e-5, 1e-4).outcome,
        };
        let finding = Sketch { salt, outcome, ..Sketch::tile(8, 1e-5, 1e-4) }.finding();
        store.append(&record.id, &finding, START + salt as f64).expect("recorded");
    }
    store.put_ceilings(&record.id, &ceilings(), START).expect("ceilings");
    store.put_comparison(&record.id, &comparison(&[(8, 1e-5), (16, 2e-5)], 3e-5)).expect("kept");
    let chain = ChainRecord { format: 1, wall_s: 2.5, ..ChainRecord::default() };
    store.put_chain(&record.id, &chain).expect("a chain");
    store.put_document(&record.id, "note", &serde_json::json!("hello")).expect("a note");
    store
        .finish_run(&record.id, &RunStatus::Finished { ended_unix_s: START + 60.0 })
        .expect("ended");
    store.path().to_path_buf()
}

/// Everything that a run's readers are given.
#[derive(Debug, PartialEq)]
struct Everything {
    run: RunRecord,
    environment: Environment,
    summaries: Vec<TrialSummary>,
    trials: Vec<RunTrial>,
    comparisons: Vec<ComparisonRecord>,
    chain: Option<ChainRecord>,
    ceilings: Option<warpsmith_model::Ceilings>,
    notes: Vec<serde_json::Value>,
    texts: Vec<warpsmith_model::Blob>,
}

fn read_everything(path: &Path) -> Result<Everything, StoreError> {
    let store = Store::open_read_only(path)?;
    let id = RunId("tiles-1".to_string());
    let run = store.run(&id.0)?;
    let trials = store.trials(&id)?;
    Ok(Everything {
        environment: store.environment(&run.environment)?,
        summaries: store.summaries(&id)?,
        comparisons: store.comparisons(&id)?,
        chain: store.chain(&id)?,
        ceilings: store.ceilings(&id)?,
        notes: store.documents(&id, "note")?,
        texts: store.texts(&trials)?,
        run,
        trials,
    })
}

#[test]
fn every_column_of_every_row_is_answered_for() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = closed_store(folder.path());
    let before = read_everything(&path).expect("sound");
    let connection = Connection::open(&path).expect("the file");
    let mut columns: Vec<(String, String)> = Vec::new();
    for table in SEALED.iter().chain(&["measurements", "blobs"]) {
        let select = connection.prepare(&format!("SELECT * FROM {table}")).expect("a table");
        let names = select.column_names().filter(|name| *name != "hash");
        columns.extend(names.map(|name| ((*table).to_string(), name.to_string())));
    }
    drop(connection);
    let copy = folder.path().join("copy.db");
    for (table, column) in &columns {
        // There are no profiles here; and the number of a document is its place in an order, which SQLite's
        // own structure answers for.
        if table == "profiles" || (table == "documents" && column == "number") {
            continue;
        }
        std::fs::copy(&path, &copy).expect("a copy");
        let connection = Connection::open(&copy).expect("the copy");
        let edit = format!(
            "PRAGMA foreign_keys = OFF;
             UPDATE {table} SET {column} = CASE typeof({column})
                 WHEN 'text' THEN CASE WHEN substr({column}, 1, 1) IN ('{{', '[')
                     THEN replace({column}, '1', '2') || ' ' ELSE 'x' || substr({column}, 2) END
                 WHEN 'real' THEN {column} * 1.5 + 1
                 WHEN 'null' THEN 'x' ELSE {column} + 1000 END
             WHERE rowid_or_first;"
        );
        let first = match table.as_str() {
            "measurements" => "(trial, idx) IN (SELECT trial, idx FROM measurements LIMIT 1)",
            "run_trials" => "seq = 3",
            "environments" | "blobs" => "id IN (SELECT id FROM TABLE_ LIMIT 1)",
            "ceilings" | "trial_documents" => "true",
            _ => "number IN (SELECT min(number) FROM TABLE_)",
        };
        let edit = edit.replace("rowid_or_first", &first.replace("TABLE_", table));
        if let Err(error) = connection.execute_batch(&edit) {
            panic!("{table}.{column}: {error}");
        }
        drop(connection);
        let faults = match Store::open_read_only(&copy).and_then(|store| store.verify()) {
            Ok(faults) => faults,
            Err(error) => vec![error.to_string()],
        };
        assert!(!faults.is_empty(), "{table}.{column} was changed, and verify found nothing");
        // A row that was given to another run, or another kind, is not read at all: `verify` alone finds it.
        let is_elsewhere = ["ceilings", "documents"].contains(&table.as_str())
            && ["run", "kind"].contains(&column.as_str());
        if let (Ok(after), false) = (read_everything(&copy), is_elsewhere) {
            assert!(after == before, "{table}.{column} was changed unnoticed");
        }
    }
}

/// A disk flips bits where it likes: what is read is what was recorded, or an error; and `verify` finds
/// whatever changed what is read.
#[test]
fn a_flipped_bit_changes_nothing_that_is_read() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = closed_store(folder.path());
    let before = read_everything(&path).expect("sound");
    let sound = std::fs::read(&path).expect("the file");
    let copy = folder.path().join("copy.db");
    let mut rng = Rng::derive(7, "bits");
    let (mut noticed, mut missed) = (0, Vec::new());
    for _ in 0..600 {
        let bit = rng.below(sound.len() * 8);
        let mut bytes = sound.clone();
        bytes[bit / 8] ^= 1 << (bit % 8);
        std::fs::write(&copy, bytes).expect("a copy");
        let faults = Store::open_read_only(&copy).and_then(|store| store.verify());
        match read_everything(&copy) {
            Ok(after) if after == before => {}
            Ok(_) => missed.push((bit, faults.map_or(true, |faults| !faults.is_empty()))),
            Err(_) => {
                noticed += 1;
                assert!(faults.is_err() || faults.is_ok_and(|faults| !faults.is_empty()), "{bit}");
            }
        }
    }
    assert!(noticed > 50, "only {noticed} of 600 flipped bits were noticed");
    assert!(
        missed.is_empty(),
        "changed without an error (bit, whether verify finds it): {missed:?}"
    );
}

#[test]
fn what_is_damaged_is_named_with_what_to_do() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = closed_store(folder.path());
    let connection = Connection::open(&path).expect("the file");
    // One bit of one digit of one time.
    let edit = "UPDATE trial_documents SET document = replace(document, '\"wall_s\":1.0', '\"wall_s\":5.0')
                WHERE trial = 4";
    assert_eq!(connection.execute(edit, []).expect("an edit"), 1);
    drop(connection);
    let store = Store::open_read_only(&path).expect("opens");
    let error = store.trials(&RunId("tiles-1".to_string())).expect_err("noticed").to_string();
    for words in ["trial 3 of run `tiles-1`", "evidence.db", "warpsmith verify"] {
        assert!(error.contains(words), "no `{words}` in `{error}`");
    }
    let faults = store.verify().expect("checked");
    assert_eq!(faults.len(), 1, "{faults:#?}");
    assert!(faults[0].contains("is not what was recorded"), "{faults:#?}");
}

/// Changes some rows beside their hashes.
fn damage(path: &Path, edit: &str) {
    let connection = Connection::open(path).expect("the file");
    let n_rows = connection.execute(edit, []).expect(edit);
    assert!(n_rows > 0, "{edit}");
}

/// What a later run would take over is an answer as a whole, or none that names what is damaged; and what is
/// recorded next mends what it has in its hands.
#[test]
fn a_damaged_answer_is_none_and_names_its_trial() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = closed_store(folder.path());
    let trial = Sketch::tile(8, 1e-5, 1e-4).finding().trial;
    let (job, workloads) = (&trial.job, trial.job.workloads.clone());
    let question = Question {
        candidate: job.candidate.id,
        fidelity: job.fidelity,
        workloads: &workloads,
        environment: trial.environment,
        lab: job.lab,
    };
    let copy = folder.path().join("copy.db");
    let name = trial.id.short();
    for (edit, named) in [
        (
            "UPDATE trial_documents SET document = replace(document, '\"wall_s\":1', '\"wall_s\":3')",
            name.as_str(),
        ),
        ("UPDATE measurements SET median_s = median_s * 2", &name),
        ("UPDATE trials SET verdict = 'crashed'", &name),
        ("UPDATE blobs SET content = content || ' '", "the text"),
    ] {
        std::fs::copy(&path, &copy).expect("a copy");
        let store = Store::open(&copy).expect("opens");
        assert!(store.find_trial(&question).expect("sound").is_some());
        drop(store);
        damage(&copy, edit);
        let store = Store::open(&copy).expect("opens");
        let error = store.find_trial(&question).expect_err(edit);
        assert!(error.is_damage(), "{edit}: {error}");
        assert!(error.to_string().contains(named), "{edit}: no `{named}` in `{error}`");
        // A later run measures it again, and its texts are what they were.
        store.start_run(&crate::fixture::record("tiles-2", START + 99.0)).expect("a run");
        let again = Sketch { salt: 77, ..Sketch::tile(8, 1e-5, 1e-4) }.finding();
        let run = RunId("tiles-2".to_string());
        store.append(&run, &again, START + 99.0).expect("recorded");
        let trials = store.trials(&run).expect("sound");
        store.texts(&trials).expect("what they were");
    }
}

/// The row of another run is that run's loss.
#[test]
fn a_damaged_run_and_its_ceilings_leave_the_others() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = closed_store(folder.path());
    let store = Store::open(&path).expect("opens");
    store.start_run(&crate::fixture::record("tiles-2", START + 99.0)).expect("a run");
    let second = RunId("tiles-2".to_string());
    store.put_ceilings(&second, &ceilings(), START + 99.0).expect("ceilings");
    drop(store);
    damage(&path, "UPDATE runs SET document = replace(document, '7', '5') WHERE id = 'tiles-1'");
    damage(&path, "UPDATE ceilings SET document = replace(document, '1', '3') WHERE run = 1");
    damage(&path, "UPDATE environments SET document = replace(document, '3 GHz', '7 GHz')");

    let store = Store::open(&path).expect("opens");
    let runs = store.runs_or_damage().expect("listed");
    assert_eq!(runs[0].as_ref().expect("sound").record.id, second);
    let error = runs[1].as_ref().expect_err("damaged");
    assert!(error.is_damage() && error.to_string().starts_with("run `tiles-1` in"), "{error}");
    assert_eq!(store.run("latest").expect("sound").id, second);
    store.runs().expect_err("one is damaged");

    let known = store.ceilings_of(&environment().id()).expect("read");
    assert_eq!(known[1].as_ref().expect("sound"), &ceilings());
    let error = known[0].as_ref().expect_err("damaged").to_string();
    assert!(error.starts_with("the ceilings of run `tiles-1` in"), "{error}");

    store.environment(&environment().id()).expect_err("damaged");
    store.put_environment(&environment()).expect("kept");
    assert_eq!(store.environment(&environment().id()).expect("as it was"), environment());
}

/// Rows that vanish are not taken for rows that never were.
#[test]
fn a_table_that_lost_its_rows_is_damage_and_not_an_empty_one() {
    for table in ["ceilings", "documents"] {
        let folder = tempfile::tempdir().expect("a folder");
        let path = closed_store(folder.path());
        let run = RunId("tiles-1".to_string());
        let connection = Connection::open(&path).expect("the file");
        let page: usize = connection
            .query_row("SELECT rootpage FROM sqlite_schema WHERE name = ?1", [table], |row| {
                row.get(0)
            })
            .expect("its page");
        let size: usize =
            connection.query_row("PRAGMA page_size", [], |row| row.get(0)).expect("a size");
        drop(connection);
        report::gather(&Store::open_read_only(&path).expect("opens"), &run).expect("sound");
        let mut bytes = std::fs::read(&path).expect("the file");
        // An empty leaf: no cells, the content begins at the end.
        let start = (page - 1) * size;
        bytes[start] = 13;
        bytes[start + 1..start + 8].copy_from_slice(&[0, 0, 0, 0, (size >> 8) as u8, 0, 0]);
        std::fs::write(&path, bytes).expect("damaged");
        let store = Store::open_read_only(&path).expect("opens");
        let error = report::gather(&store, &run).expect_err("noticed");
        assert!(error.is_damage() && error.to_string().contains(table), "{error}");
    }
}

/// One bit of a place's run or number puts its row out of order, and a search for the rows of the run ended there:
/// a run of 24 trials was shown with three and another winner.
#[test]
fn a_place_out_of_order_is_damage_and_not_the_end_of_the_run() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = closed_store(folder.path());
    let run = RunId("tiles-1".to_string());
    let store = Store::open(&path).expect("opens");
    store.start_run(&crate::fixture::record("tiles-2", START + 99.0)).expect("a run");
    let question: String = {
        let connection = Connection::open(&path).expect("the file");
        let sql = "SELECT question FROM run_trials WHERE run = 1 AND seq = 4";
        connection.query_row(sql, [], |row| row.get(0)).expect("a question")
    };
    drop(store);
    let sound = std::fs::read(&path).expect("the file");
    // Of the row (1, 4, trial, question, …): run is the constant 1 and takes no byte; seq takes one.
    let places: Vec<usize> = (0..sound.len() - question.len())
        .filter(|at| sound[*at..].starts_with(question.as_bytes()))
        .collect();
    let mut noticed = 0;
    for place in places {
        for at in place - 12..place {
            for bit in 0..8 {
                let mut bytes = sound.clone();
                bytes[at] ^= 1 << bit;
                let copy = folder.path().join("copy.db");
                std::fs::write(&copy, bytes).expect("a copy");
                let Ok(store) = Store::open_read_only(&copy) else { continue };
                let read = [
                    store.summaries(&run).map(|all| all.len()),
                    store.trials(&run).map(|all| all.len()),
                    report::gather(&store, &run).map(|data| data.trials.len()),
                ];
                let listed = store.runs_or_damage().map(|runs| {
                    let of = |it: &warpsmith_evidence::RunSummary| it.record.id == run;
                    runs.into_iter().flatten().find(of).map(|it| it.trials)
                });
                for outcome in read {
                    match outcome {
                        Ok(n_trials) => assert_eq!(n_trials, 12, "byte {at}, bit {bit}"),
                        Err(_) => noticed += 1,
                    }
                }
                if let Ok(Some(n_trials)) = listed {
                    assert_eq!(n_trials, 12, "byte {at}, bit {bit}, in the list");
                }
            }
        }
    }
    assert!(noticed > 10, "only {noticed} were noticed");
}

/// Evidence of the format before hashes is read as it is, counted, and stays unsigned when it is brought up
/// to date: nobody knows what it was.
#[test]
fn evidence_without_hashes_is_read_and_counted() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = closed_store(folder.path());
    let before = read_everything(&path).expect("sound");
    let connection = Connection::open(&path).expect("the file");
    take_hashes_away(&connection);
    connection.execute_batch("PRAGMA user_version = 2").expect("the format before");
    drop(connection);
    let bytes = std::fs::read(&path).expect("the file");
    assert_eq!(read_everything(&path).expect("an older format"), before);
    let look = |path: &Path| {
        Store::open_read_only(path).and_then(|store| store.examine()).expect("checked")
    };
    let found = look(&path);
    assert_eq!(found.faults, Vec::<String>::new());
    let n_unsigned = found.unsigned();
    assert!(n_unsigned >= 12 * 3 + 5, "{found:?}");
    assert_eq!(std::fs::read(&path).expect("the file"), bytes, "queries changed an older file");

    let store = Store::open(&path).expect("brought up to date");
    let run = RunId("tiles-1".to_string());
    let more = Sketch { salt: 99, ..Sketch::tile(8, 1e-5, 1e-4) }.finding();
    store.append(&run, &more, START).expect("recorded");
    store.finish_run(&run, &RunStatus::Finished { ended_unix_s: START }).expect("ended again");
    drop(store);
    let found = look(&path);
    assert_eq!(found.faults, Vec::<String>::new());
    assert_eq!(found.unsigned(), n_unsigned, "{found:?}");
    // What contradicts itself is found all the same.
    let connection = Connection::open(&path).expect("the file");
    connection
        .execute_batch("UPDATE trials SET verdict = 'crashed' WHERE number = 1")
        .expect("edit");
    drop(connection);
    assert_eq!(look(&path).faults.len(), 1);
}

#[test]
fn a_blob_that_changed_is_not_handed_out() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = closed_store(folder.path());
    let connection = Connection::open(&path).expect("the file");
    connection.execute_batch("UPDATE blobs SET content = content || ' '").expect("an edit");
    drop(connection);
    let store = Store::open_read_only(&path).expect("opens");
    let error = store.blob(&source().id).expect_err("noticed");
    assert!(matches!(error, StoreError::Altered { .. }), "{error}");
    let unknown = store.blob(&BlobId::of(b"nothing")).expect_err("unknown");
    assert!(matches!(unknown, StoreError::UnknownBlob { .. }), "{unknown}");
    assert_eq!(store.environment(&environment().id()).expect("sound"), environment());
}
