//! Whatever the contract: the loader answers with a kernel or with at least one error.
#![no_main]

use std::sync::LazyLock;

use libfuzzer_sys::fuzz_target;
use warpsmith_model::Lab;
use warpsmith_model::lab::{LabFiles, parse_kernel, scaffold};

static LAB: LazyLock<Lab> = LazyLock::new(|| {
    let files: LabFiles = scaffold("fuzz").expect("an identifier").into_iter().collect();
    Lab::parse(&files).expect("a new lab is valid")
});

fuzz_target!(|contract: &str| {
    if let Err(errors) = parse_kernel(&LAB, "kernel", contract, "") {
        assert!(!errors.0.is_empty());
        assert!(!errors.to_string().is_empty());
    }
});
