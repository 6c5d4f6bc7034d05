//! Profiles and the profiler's files.

use std::collections::BTreeSet;

use rusqlite::params;
use warpsmith_model::{
    BlobId, CandidateId, CounterSource, EnvironmentId, FileBlob, ProfileRecord, RunId,
};

use super::Store;
use super::seal::{Table, text};
use crate::error::StoreError;

impl Store {
    /// Records a profile of a run with the files that it names, together or not at all.
    pub fn put_profile(
        &self,
        run: &RunId,
        profile: &ProfileRecord,
        files: &[FileBlob],
    ) -> Result<(), StoreError> {
        let refuse = |why: String| StoreError::Inconsistent { trial: profile.trial, why };
        let document =
            serde_json::to_string(profile).map_err(self.document_failed("the profile"))?;
        // JSON has no infinities and no NaN, and what cannot be read back is not evidence.
        let again: Option<ProfileRecord> = serde_json::from_str(&document).ok();
        if again.as_ref() != Some(profile) {
            return Err(refuse("its profile would read differently than it was written".into()));
        }
        let transaction = self.begin()?;
        let number = self.run_number(run)?;
        for file in files {
            if BlobId::of(&file.content) != file.id {
                return Err(refuse(format!("a file is not what its id {} says", file.id.short())));
            }
            transaction
                .prepare_cached(
                    "INSERT INTO files (id, content) VALUES (?1, ?2) ON CONFLICT DO NOTHING",
                )
                .and_then(|mut insert| insert.execute(params![file.id.to_string(), file.content]))
                .map_err(|error| self.failed(error))?;
        }
        for id in named_files(profile) {
            let known = transaction
                .prepare_cached("SELECT 1 FROM files WHERE id = ?1")
                .and_then(|mut select| select.exists([id.to_string()]))
                .map_err(|error| self.failed(error))?;
            if !known {
                let why = format!("its profile names the file {}, which did not come", id.short());
                return Err(refuse(why));
            }
        }
        let row = vec![
            number.into(),
            text(profile.candidate.to_string()),
            text(profile.environment.to_string()),
            text(document),
        ];
        self.insert(Table::Profiles, "INSERT", row).map_err(|error| self.failed(error))?;
        transaction.commit().map_err(|error| self.failed(error))
    }

    /// Returns the profiles of a run, in order.
    pub fn profiles(&self, run: &RunId) -> Result<Vec<ProfileRecord>, StoreError> {
        let documents: Vec<String> = self.sealed(
            Table::Profiles,
            "",
            "WHERE run = ?1 ORDER BY number",
            [self.run_number(run)?],
            || format!("a profile of run `{run}`"),
            |row| row.get(3),
        )?;
        documents
            .iter()
            .map(|document| self.parse(document, || format!("a profile of run `{run}`")))
            .collect()
    }

    /// Returns the newest profile of a candidate in an environment, from whichever run.
    pub fn newest_profile(
        &self,
        candidate: &CandidateId,
        environment: &EnvironmentId,
    ) -> Result<Option<ProfileRecord>, StoreError> {
        let what = || format!("a profile of candidate {}", candidate.short());
        let documents: Vec<String> = self.sealed(
            Table::Profiles,
            "",
            "WHERE candidate = ?1 AND environment = ?2 ORDER BY number DESC LIMIT 1",
            [candidate.to_string(), environment.to_string()],
            what,
            |row| row.get(3),
        )?;
        let document = documents.into_iter().next();
        document.map(|document| self.parse(&document, what)).transpose()
    }

    /// Returns a stored file.
    pub fn file(&self, id: &BlobId) -> Result<Vec<u8>, StoreError> {
        let found =
            self.first_row("SELECT content FROM files WHERE id = ?1", [id.to_string()], |row| {
                row.get::<_, Vec<u8>>(0)
            })?;
        let content =
            found.ok_or_else(|| StoreError::UnknownBlob { path: self.path.clone(), blob: *id })?;
        match BlobId::of(&content) == *id {
            true => Ok(content),
            false => Err(self.altered(format!("the file {}", id.short()))),
        }
    }
}

/// The files that a profile names.
pub(super) fn named_files(profile: &ProfileRecord) -> BTreeSet<BlobId> {
    let mut named = BTreeSet::new();
    for workload in &profile.workloads {
        if let CounterSource::Ncu { csv, report, .. } = &workload.counters {
            named.extend([*csv, *report]);
        }
    }
    named
}
