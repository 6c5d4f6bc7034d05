//! The profiler's own files: its table as `ncu_profile.csv`, and a report and a table for each
//! workload in `ncu/`.

use std::path::{Path, PathBuf};

use warpsmith_model::{CounterSource, RunRecord};

use super::interchange::file_name;
use super::{ExportError, replace};
use crate::store::Store;

/// Writes the files of a run's profiles; nothing for a run without any.
pub(super) fn write_profiles(
    store: &Store,
    record: &RunRecord,
    folder: &Path,
    written: &mut Vec<PathBuf>,
) -> Result<(), ExportError> {
    let mut tables: Vec<String> = Vec::new();
    for profile in store.profiles(&record.id)? {
        for workload in &profile.workloads {
            let CounterSource::Ncu { csv, report, .. } = &workload.counters else { continue };
            let csv = store.file(csv)?;
            let stem = format!("{}@{}", file_name(&profile.kernel), file_name(&workload.workload));
            let files =
                [(format!("{stem}.csv"), &csv), (format!("{stem}.ncu-rep"), &store.file(report)?)];
            for (name, content) in files {
                let path = folder.join("ncu").join(name);
                replace(&path, |writer| writer.write_all(content))?;
                // A kernel that was profiled twice leaves the later one.
                if !written.contains(&path) {
                    written.push(path);
                }
            }
            tables.push(String::from_utf8_lossy(&csv).into_owned());
        }
    }
    if let Some(joined) = join(&tables) {
        let path = folder.join("ncu_profile.csv");
        replace(&path, |writer| writer.write_all(joined.as_bytes()))?;
        written.push(path);
    }
    Ok(())
}

/// Puts tables below each other under the head of the first; one with another head (from another
/// version of the profiler) is left to its own file.
fn join(tables: &[String]) -> Option<String> {
    let rows = |table: &String| -> Vec<String> {
        let is_row = |line: &&str| !line.trim().is_empty() && !line.starts_with("==");
        table.lines().filter(is_row).map(str::to_string).collect()
    };
    let head = |rows: &[String]| rows.iter().take(2).cloned().collect::<Vec<_>>();
    let mut joined = rows(tables.first()?);
    let first_head = head(&joined);
    for table in &tables[1..] {
        let further = rows(table);
        if head(&further) == first_head {
            joined.extend(further.into_iter().skip(2));
        }
    }
    Some(joined.iter().map(|row| format!("{row}\n")).collect())
}

#[cfg(test)]
#[test]
fn tables_with_one_head_are_joined() {
    let table = |rows: &str| format!("==PROF== x\n\n\"ID\",\"a\"\n\"\",\"ns\"\n{rows}\n");
    let (one, two) = (table("\"0\",\"1\""), table("\"0\",\"2\""));
    let other = "\"ID\",\"b\"\n\"\",\"\"\n\"0\",\"3\"\n".to_string();
    let joined = join(&[one, other, two]).expect("there are tables");
    assert_eq!(joined, "\"ID\",\"a\"\n\"\",\"ns\"\n\"0\",\"1\"\n\"0\",\"2\"\n");
    assert_eq!(join(&[]), None);
}
