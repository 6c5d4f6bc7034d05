//! The labs that come with the project.

use std::path::Path;
use std::process::Command;

use crate::support::text;

/// Every kernel of every lab passes its gate; `labs/_cheats` is the gate crate's suite.
#[test]
fn every_rung_of_every_lab_passes_the_gate() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let evidence = tempfile::TempDir::new().expect("a temporary folder");
    for lab in ["saxpy", "rmsnorm", "gemm", "attention"] {
        let output = Command::new(env!("CARGO_BIN_EXE_warpsmith"))
            .args(["check", &format!("labs/{lab}"), "--quick", "--evidence"])
            .arg(evidence.path())
            .current_dir(&root)
            .output()
            .expect("the program starts");
        assert!(output.status.success(), "{lab}:\n{}", text(&output.stderr));
    }
}
