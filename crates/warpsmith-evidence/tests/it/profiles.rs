//! Profiles: kept with their files, found again for a winner, exported and shown.

use std::collections::BTreeMap;
use std::path::Path;

use rusqlite::Connection;
use warpsmith_evidence::Store;
use warpsmith_evidence::export::{Format, collect_evidence, export};
use warpsmith_evidence::report::{gather, render};
use warpsmith_model::diagnose::Stall;
use warpsmith_model::{
    CounterSource, Counters, FORMAT_VERSION, FileBlob, LabId, LaunchCode, LaunchProfile,
    ProfileRecord, RunRecord, Trial, WorkloadProfile,
};

use crate::fixture::{
    START, Sketch, ceilings, comparison, environment, record, store_with_run, tile_params,
};

const TABLE: &str = "\"ID\",\"Kernel Name\"\n\"\",\"\"\n\"0\",\"tile\"\n";

fn files() -> [FileBlob; 2] {
    [FileBlob::new(TABLE.as_bytes().to_vec()), FileBlob::new(vec![0, 159, 146, 150, 255])]
}

fn counted(workload: &str, time_s: f64) -> WorkloadProfile {
    let [csv, report] = files();
    let counters = Counters {
        sm_active: Some(0.9),
        tensor_active: Some(0.4),
        bank_conflicts: Some(50.0),
        shared_wavefronts: Some(100.0),
        stalls: BTreeMap::from([(Stall::LongScoreboard, 3.0), (Stall::Selected, 1.0)]),
        ..Counters::default()
    };
    WorkloadProfile {
        workload: workload.to_string(),
        time_s: Some(time_s),
        launch_floor_s: Some(2e-6),
        launches: vec![LaunchProfile {
            entry: "tile".to_string(),
            code: LaunchCode { blocks: 1000, threads: 128, ..LaunchCode::default() },
            counters: Some(counters),
        }],
        instructions: BTreeMap::from([("HGMMA".to_string(), 4)]),
        counters: CounterSource::Ncu {
            version: "2025.1".to_string(),
            csv: csv.id,
            report: report.id,
        },
    }
}

fn profile_of(trial: &Trial) -> ProfileRecord {
    let uncounted = WorkloadProfile {
        launches: Vec::new(),
        counters: CounterSource::Missing {
            reason: "<b>forbidden</b>".to_string(),
            how: "ask".to_string(),
        },
        ..counted("large", 1e-1)
    };
    ProfileRecord {
        format: FORMAT_VERSION,
        candidate: trial.job.candidate.id,
        kernel: trial.job.candidate.kernel.clone(),
        params: trial.job.candidate.params.clone(),
        lab: LabId::of(b"lab"),
        environment: environment().id(),
        trial: trial.id,
        workloads: vec![counted("small", 1e-2), uncounted],
    }
}

/// A run whose winner was profiled.
fn profiled_run(folder: &Path) -> (Store, RunRecord, ProfileRecord) {
    let (store, record) = store_with_run(folder, "tiles-1");
    let finding = Sketch::tile(32, 1e-2, 1e-1).finding();
    store.append(&record.id, &finding, START).expect("a trial");
    store.put_ceilings(&record.id, &ceilings(), START).expect("ceilings");
    store.put_comparison(&record.id, &comparison(&[(32, 1e-2)], 8e-3)).expect("a comparison");
    let profile = profile_of(&finding.trial);
    store.put_profile(&record.id, &profile, &files()).expect("a profile");
    (store, record, profile)
}

#[test]
fn a_profile_is_read_as_it_was_written_with_its_files() {
    let folder = tempfile::tempdir().expect("a folder");
    let (store, record, profile) = profiled_run(folder.path());
    let stored = store.profiles(&record.id).expect("read");
    assert_eq!(stored, std::slice::from_ref(&profile));
    let newest = store.newest_profile(&profile.candidate, &environment().id()).expect("read");
    assert_eq!(newest, Some(profile.clone()));
    for file in files() {
        assert_eq!(store.file(&file.id).expect("a file"), file.content);
    }
    assert_eq!(store.verify().expect("checked"), Vec::<String>::new());
    let everything = collect_evidence(&store, &record).expect("collected");
    assert_eq!(everything.profiles, [profile]);
}

#[test]
fn a_profile_without_its_files_is_refused_as_a_whole() {
    let folder = tempfile::tempdir().expect("a folder");
    let (store, record) = store_with_run(folder.path(), "tiles-1");
    let profile = profile_of(&Sketch::tile(32, 1e-2, 1e-1).finding().trial);
    let [csv, report] = files();
    let forged = FileBlob { content: b"else".to_vec(), ..report };
    let mut odd = profile.clone();
    odd.workloads[0].time_s = Some(f64::NAN);
    for (profile, files, words) in [
        (&profile, vec![csv.clone()], "did not come"),
        (&profile, vec![csv, forged], "not what its id"),
        (&odd, files().to_vec(), "read differently"),
    ] {
        let error = store.put_profile(&record.id, profile, &files).expect_err(words);
        assert!(error.to_string().contains(words), "{error}");
    }
    assert!(store.profiles(&record.id).expect("read").is_empty());
    let kept = files().map(|file| store.file(&file.id));
    assert!(kept.iter().all(Result::is_err), "{kept:?}");
}

#[test]
fn a_file_that_changed_is_noticed() {
    let folder = tempfile::tempdir().expect("a folder");
    let (store, ..) = profiled_run(folder.path());
    let connection = Connection::open(store.path()).expect("the file");
    connection.execute("UPDATE files SET content = x'00'", []).expect("damage");
    let faults = store.verify().expect("checked");
    assert_eq!(faults.iter().filter(|fault| fault.contains("the file")).count(), 2, "{faults:?}");
}

/// Evidence of the first format has no profiles; it gains the tables when it is next written to.
#[test]
fn a_store_of_the_first_format_takes_profiles() {
    let folder = tempfile::tempdir().expect("a folder");
    let (store, run, profile) = profiled_run(folder.path());
    let path = store.path().to_path_buf();
    drop(store);
    let connection = Connection::open(&path).expect("the file");
    let older = "DROP TABLE profiles; DROP TABLE files; PRAGMA user_version = 1;";
    connection.execute_batch(older).expect("no profiles");
    crate::hashes::take_hashes_away(&connection);
    drop(connection);
    let store = Store::open_read_only(&path).expect("queries read what is there");
    assert!(store.profiles(&run.id).expect("none").is_empty());
    assert_eq!(store.trials(&run.id).expect("kept").len(), 1);
    assert_eq!(store.verify().expect("checked"), Vec::<String>::new());
    drop(store);
    let store = Store::open(&path).expect("brought up to date");
    assert!(store.profiles(&run.id).expect("read").is_empty());
    store.put_profile(&run.id, &profile, &files()).expect("a profile");
    assert_eq!(store.trials(&run.id).expect("kept").len(), 1);
}

#[test]
fn the_profilers_files_are_exported_under_known_names() {
    let folder = tempfile::tempdir().expect("a folder");
    let (store, record, _) = profiled_run(folder.path());
    let out = folder.path().join("out");
    let written = export(&store, &record, &out, &[Format::Profile]).expect("written");
    let names: Vec<String> = written
        .iter()
        .map(|path| path.strip_prefix(&out).expect("inside").display().to_string())
        .collect();
    let expected = ["ncu/10_tile@small.csv", "ncu/10_tile@small.ncu-rep", "ncu_profile.csv"];
    assert_eq!(names, expected);
    let [csv, report] = files();
    assert_eq!(std::fs::read(out.join(expected[1])).expect("a report"), report.content);
    assert_eq!(std::fs::read(out.join(expected[2])).expect("a table"), csv.content);
}

#[test]
fn the_report_says_where_the_time_goes() {
    let folder = tempfile::tempdir().expect("a folder");
    let (store, record, profile) = profiled_run(folder.path());
    let data = gather(&store, &record.id).expect("gathered");
    assert_eq!(data.profiles, [profile]);
    let page = render(&data);
    for words in [
        "<section id='profile'",
        "latency bound",
        "waiting for data from global or local memory",
        "the work itself, at the measured ceilings",
        "swizzle or pad",
        "The best peer, library, takes 80\u{a0}% of this kernel’s time: 2.00 ms less.",
        "The matrix units idle 60\u{a0}% of the launch.",
        "The dashed line is the best peer’s time.",
        "without counters",
        "&lt;b&gt;forbidden",
        "not attributed: no counters",
    ] {
        assert!(page.contains(words), "the page lacks {words:?}");
    }
    let mut without = data;
    without.profiles.clear();
    let page = render(&without);
    assert!(!page.contains("<section id='profile'") && !page.contains("href='#profile'"));
}

/// `profile` is a run of its own; the report of the run that found the kernel shows it all the same.
#[test]
fn a_winner_that_was_profiled_later_is_shown_with_it() {
    let folder = tempfile::tempdir().expect("a folder");
    let (store, tuned) = store_with_run(folder.path(), "tiles-1");
    let finding = Sketch::tile(32, 1e-2, 1e-1).finding();
    store.append(&tuned.id, &finding, START).expect("a trial");
    let later = record("tiles-2", START + 60.0);
    store.start_run(&later).expect("a run");
    let profile = profile_of(&finding.trial);
    store.put_profile(&later.id, &profile, &files()).expect("a profile");
    assert_eq!(profile.params, tile_params(32, false, ""));
    assert_eq!(gather(&store, &tuned.id).expect("gathered").profiles, [profile]);
    let other = record("tiles-3", START + 90.0);
    store.start_run(&other).expect("a run");
    let slower = Sketch { salt: 1, ..Sketch::tile(64, 2e-2, 2e-1) };
    store.append(&other.id, &slower.finding(), START).expect("a trial");
    assert!(gather(&store, &other.id).expect("gathered").profiles.is_empty());
}
