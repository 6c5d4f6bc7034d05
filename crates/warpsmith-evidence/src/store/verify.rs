//! Checking a whole store: SQLite's own structure, and the index against the documents.

use rusqlite::Row;
use warpsmith_model::{BlobId, Trial};

use super::Store;
use super::read::read_time;
use super::write::TrialRow;
use crate::error::StoreError;
use crate::summary::{WorkloadTime, workload_times};

impl Store {
    /// Checks the whole file and returns what is wrong with it, in words; nothing for a sound one.
    /// Reads everything, so it takes seconds where there are many trials.
    pub fn verify(&self) -> Result<Vec<String>, StoreError> {
        let mut faults = self.rows("PRAGMA integrity_check", [], |row| row.get::<_, String>(0))?;
        faults.retain(|line| line != "ok");
        faults.extend(self.rows("PRAGMA foreign_key_check", [], |row| {
            Ok(format!("a row of `{}` refers to nothing", row.get::<_, String>(0)?))
        })?);
        self.verify_trials(&mut faults)?;
        self.verify_blobs(&mut faults)?;
        Ok(faults)
    }

    fn verify_trials(&self, faults: &mut Vec<String>) -> Result<(), StoreError> {
        let numbers: Vec<i64> =
            self.rows("SELECT number FROM trials ORDER BY number", [], |row| row.get(0))?;
        for number in numbers {
            let found = self.first_row(
                "SELECT t.id, t.candidate, t.kernel, t.params, t.origin, t.fidelity, t.workloads,
                        t.lab_id, t.environment, t.verdict, t.message, t.same_binary_as,
                        t.compile_s, t.launch_s, t.wall_s, d.document
                 FROM trials t LEFT JOIN trial_documents d ON d.trial = t.number
                 WHERE t.number = ?1",
                [number],
                |row| Ok((read_row(row)?, row.get::<_, Option<String>>(15)?)),
            )?;
            let Some((row, document)) = found else { continue };
            let Some(document) = document else {
                faults.push(format!("trial {} has lost its document", row.id));
                continue;
            };
            let trial: Trial = match serde_json::from_str(&document) {
                Ok(trial) => trial,
                Err(error) => {
                    faults.push(format!("trial {} cannot be understood: {error}", row.id));
                    continue;
                }
            };
            if TrialRow::of(&trial) != row || self.stored_times(number)? != workload_times(&trial) {
                faults.push(format!("the index disagrees with the document of trial {}", row.id));
            }
        }
        Ok(())
    }

    fn stored_times(&self, trial_number: i64) -> Result<Vec<WorkloadTime>, StoreError> {
        self.rows(
            "SELECT trial, workload, low_s, median_s, high_s, samples, share, element_eps,
                    norm_eps, stop, launch_floor_s
             FROM measurements WHERE trial = ?1 ORDER BY idx",
            [trial_number],
            read_time,
        )
    }

    fn verify_blobs(&self, faults: &mut Vec<String>) -> Result<(), StoreError> {
        for (what, sql) in
            [("text", "SELECT id, content FROM blobs"), ("file", "SELECT id, content FROM files")]
        {
            let wrong = self.rows(sql, [], |row| {
                let id: String = row.get(0)?;
                let is_right = BlobId::of(row.get_ref(1)?.as_bytes()?).to_string() == id;
                Ok((!is_right).then_some(id))
            })?;
            let wrong = wrong.into_iter().flatten();
            faults.extend(wrong.map(|id| format!("the {what} {id} is not what its id says")));
        }
        Ok(())
    }
}

fn read_row(row: &Row<'_>) -> rusqlite::Result<TrialRow> {
    Ok(TrialRow {
        id: row.get(0)?,
        candidate: row.get(1)?,
        kernel: row.get(2)?,
        params: row.get(3)?,
        origin: row.get(4)?,
        fidelity: row.get(5)?,
        workloads: row.get(6)?,
        lab_id: row.get(7)?,
        environment: row.get(8)?,
        verdict: row.get(9)?,
        message: row.get(10)?,
        same_binary_as: row.get(11)?,
        compile_s: row.get(12)?,
        launch_s: row.get(13)?,
        wall_s: row.get(14)?,
    })
}
