//! `warpsmith verify`: is the evidence what was recorded?

use std::os::unix::fs::PermissionsExt;

use anyhow::Result;
use clap::Args;
use warpsmith_evidence::{Examination, Store, StoreError};

use super::{CliFailure, Context};
use crate::output::{BAD, GOOD, Table, WARN, json, paint, result};

/// Check the whole evidence: is everything what was recorded?
///
/// Reads all of it: SQLite's own structure, the hash of every document and of every index entry, and that
/// whatever a document names is there. Changes nothing, and works on read-only copies. Exit status 1 where
/// something is damaged.
#[derive(Debug, Args)]
pub struct VerifyArgs {}

pub fn run(context: &Context, _arguments: VerifyArgs) -> Result<()> {
    let path = context.project.database();
    let found = match Store::open_read_only(&path).and_then(|store| store.examine()) {
        Ok(found) => found,
        // So damaged that it does not open.
        Err(error @ (StoreError::Corrupt { .. } | StoreError::NotAStore { .. })) => {
            Examination { checked: Vec::new(), faults: vec![error.to_string()] }
        }
        Err(error) => return Err(error.into()),
    };
    let readers = readers(&path);
    if context.json {
        let checked: Vec<serde_json::Value> = found
            .checked
            .iter()
            .map(|one| {
                serde_json::json!({ "kind": one.kind, "rows": one.rows, "unsigned": one.unsigned })
            })
            .collect();
        json(&serde_json::json!({
            "evidence": path, "sound": found.faults.is_empty(), "checked": checked,
            "unsigned": found.unsigned(), "faults": found.faults, "readable_by_others": readers,
        }))?;
    } else {
        let mut table = Table::new(&["kind", "checked", "unsigned"], &[1, 2]);
        for one in &found.checked {
            table.row(vec![one.kind.to_string(), one.rows.to_string(), one.unsigned.to_string()]);
        }
        result(table.render());
        if found.unsigned() > 0 {
            result(format!(
                "{} {} rows are from a version that wrote no hashes: of these, only what contradicts \
                 itself is found",
                paint(WARN, "note"),
                found.unsigned()
            ));
        }
        if readers {
            let note = "others can read this file; `chmod -R go= FOLDER` ends that";
            result(format!("{} {note}", paint(WARN, "note")));
        }
        for line in fault_lines(&found.faults) {
            result(format!("{} {line}", paint(BAD, "damaged")));
        }
        if found.faults.is_empty() {
            result(format!("{} {} is what was recorded", paint(GOOD, "sound"), path.display()));
        }
    }
    match found.faults.len() {
        0 => Ok(()),
        count => Err(CliFailure::Damaged(format!(
            "{count} fault(s) in {}\nhint: restore it from a copy; `sqlite3 {} .recover` may rescue \
             what is not named above",
            path.display(),
            path.display()
        ))
        .into()),
    }
}

/// A damaged page can be thousands of faults; nobody reads as many, and `--json` has them all.
const SHOWN_FAULTS: usize = 50;

fn fault_lines(faults: &[String]) -> Vec<String> {
    let mut lines: Vec<String> = faults.iter().take(SHOWN_FAULTS).cloned().collect();
    match faults.len() - lines.len() {
        0 => {}
        more => lines.push(format!("and {more} more: `warpsmith verify --json` lists them all")),
    }
    lines
}

/// Says whether others than the owner can read the file.
fn readers(path: &std::path::Path) -> bool {
    let mode = |path: &std::path::Path| {
        std::fs::metadata(path).map_or(0, |known| known.permissions().mode())
    };
    let folder = path.parent().map_or(0, mode);
    mode(path) & 0o044 != 0 && folder & 0o011 != 0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_very_many_faults_the_first_are_printed_and_the_rest_are_counted() {
        let faults: Vec<String> = (0..SHOWN_FAULTS + 7).map(|idx| format!("fault {idx}")).collect();
        assert_eq!(fault_lines(&faults[..SHOWN_FAULTS]), &faults[..SHOWN_FAULTS]);
        let lines = fault_lines(&faults);
        assert_eq!(lines.len(), SHOWN_FAULTS + 1);
        assert!(lines[SHOWN_FAULTS].starts_with("and 7 more"), "{lines:?}");
    }
}
