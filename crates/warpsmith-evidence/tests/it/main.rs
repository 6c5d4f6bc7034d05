//! The integration tests of the evidence: real files, real processes.

mod derive;
mod durability;
mod exports;
mod fixture;
mod hashes;
mod large;
mod opening;
mod profiles;
mod recording;
mod report;
mod writers;

/// A test file that no `mod` line names would never run.
#[test]
fn every_test_file_takes_part() {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/it");
    for file in std::fs::read_dir(folder).expect("this folder") {
        let name = file.expect("an entry").file_name().into_string().expect("plain names");
        let module = name.trim_end_matches(".rs");
        let line = format!("mod {module};");
        assert!(module == "main" || include_str!("main.rs").contains(&line), "{name} is forgotten");
    }
}
