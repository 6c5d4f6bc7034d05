//! Everything that the evidence holds of one run, as one document.

use std::collections::BTreeMap;
use std::path::Path;

use warpsmith_model::{Blob, EvidenceExport, FORMAT_VERSION, RunRecord};

use super::{ExportError, read_json};
use crate::error::StoreError;
use crate::store::Store;

/// Collects everything that the store holds of a run.
pub fn collect_evidence(store: &Store, record: &RunRecord) -> Result<EvidenceExport, StoreError> {
    let run = &record.id;
    let trials = store.trials(run)?;
    let mut blobs = store.texts(&trials)?;
    for (id, text) in store.call_texts(&store.calls(run)?)? {
        if !blobs.iter().any(|known| known.id == id) {
            blobs.push(Blob { id, text });
        }
    }
    let mut documents = BTreeMap::new();
    for kind in store.document_kinds(run)? {
        if kind != Store::COMPARISON {
            documents.insert(kind.clone(), store.documents(run, &kind)?);
        }
    }
    Ok(EvidenceExport {
        format: FORMAT_VERSION,
        run: record.clone(),
        environment: store.environment(&record.environment)?,
        ceilings: store.ceilings(run)?,
        trials,
        comparisons: store.comparisons(run)?,
        profiles: store.profiles(run)?,
        documents,
        blobs,
    })
}

/// Reads a file of everything, as [`super::export`] wrote it.
pub fn read_evidence(path: &Path) -> Result<EvidenceExport, ExportError> {
    let expected = "the evidence of a run, as `warpsmith export` writes it";
    read_json(path, expected, |evidence: &EvidenceExport| evidence.format)
}
