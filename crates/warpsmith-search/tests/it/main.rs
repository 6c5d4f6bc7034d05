//! The crate's integration tests, in one binary.

mod determinism;
mod edges;
mod hostile;
mod properties;
mod recorded;
mod replay;
mod simulated;
mod spaces;

#[test]
fn no_test_file_is_forgotten() {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/it");
    let main = std::fs::read_to_string(format!("{folder}/main.rs")).expect("this file");
    for entry in std::fs::read_dir(folder).expect("this folder") {
        let path = entry.expect("an entry").path();
        let name = path.file_stem().and_then(|stem| stem.to_str()).expect("a plain name");
        assert!(name == "main" || main.contains(&format!("mod {name};")), "{name} is not a module");
    }
}
