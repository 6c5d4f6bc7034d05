//! Everything that the evidence holds of one run, as one document.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::io::Write;
use std::path::Path;

use serde::ser::{self, Serialize, SerializeSeq, SerializeStruct, Serializer};
use warpsmith_model::{Blob, BlobId, CallRecord, EvidenceExport, FORMAT_VERSION, RunId, RunRecord};

use super::{ExportError, read_json};
use crate::error::StoreError;
use crate::store::{Store, named_blobs};

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
    Ok(EvidenceExport {
        format: FORMAT_VERSION,
        run: record.clone(),
        environment: store.environment(&record.environment)?,
        ceilings: store.ceilings(run)?,
        trials,
        comparisons: store.comparisons(run)?,
        profiles: store.profiles(run)?,
        documents: documents(store, run)?,
        blobs,
    })
}

/// Writes what [`collect_evidence`] collects, without ever holding more than one trial of it. `name` is what
/// an error calls the writer.
pub fn write_evidence(
    store: &Store,
    record: &RunRecord,
    name: &Path,
    writer: &mut dyn Write,
) -> Result<(), ExportError> {
    let stream =
        Stream { store, record, named: RefCell::new(BTreeSet::new()), failed: RefCell::new(None) };
    let outcome = serde_json::to_writer_pretty(&mut *writer, &stream);
    let outcome = outcome.map_err(std::io::Error::from).and_then(|()| writer.write_all(b"\n"));
    // What the store said is the cause of what the writer says.
    match stream.failed.into_inner() {
        Some(error) => Err(error.into()),
        None => outcome.map_err(|source| ExportError::Write { path: name.to_path_buf(), source }),
    }
}

/// An [`EvidenceExport`] that is read while it is written.
struct Stream<'a> {
    store: &'a Store,
    record: &'a RunRecord,
    /// The texts that the trials written so far name.
    named: RefCell<BTreeSet<BlobId>>,
    failed: RefCell<Option<StoreError>>,
}

impl Stream<'_> {
    fn read<T, E: ser::Error>(&self, outcome: Result<T, StoreError>) -> Result<T, E> {
        outcome.map_err(|error| {
            let said = E::custom(&error);
            *self.failed.borrow_mut() = Some(error);
            said
        })
    }
}

impl Serialize for Stream<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let (store, run) = (self.store, &self.record.id);
        let profiles = self.read(store.profiles(run))?;
        let fields = if profiles.is_empty() { 8 } else { 9 };
        let mut document = serializer.serialize_struct("EvidenceExport", fields)?;
        document.serialize_field("format", &FORMAT_VERSION)?;
        document.serialize_field("run", self.record)?;
        let environment = self.read(store.environment(&self.record.environment))?;
        document.serialize_field("environment", &environment)?;
        document.serialize_field("ceilings", &self.read(store.ceilings(run))?)?;
        document.serialize_field("trials", &Trials(self))?;
        document.serialize_field("comparisons", &self.read(store.comparisons(run))?)?;
        if profiles.is_empty() {
            document.skip_field("profiles")?;
        } else {
            document.serialize_field("profiles", &profiles)?;
        }
        document.serialize_field("documents", &self.read(documents(store, run))?)?;
        document.serialize_field("blobs", &Texts(self))?;
        document.end()
    }
}

struct Trials<'a>(&'a Stream<'a>);

impl Serialize for Trials<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let stream = self.0;
        let mut list = serializer.serialize_seq(None)?;
        let outcome = stream.store.each_trial(&stream.record.id, |trial| {
            stream.named.borrow_mut().extend(named_blobs(&trial.trial));
            list.serialize_element(&trial).map_err(ExportFailure::Writer)
        });
        match outcome {
            Ok(()) => list.end(),
            Err(ExportFailure::Writer(error)) => Err(error),
            Err(ExportFailure::Store(error)) => stream.read(Err(error)),
        }
    }
}

/// The texts that trials and calls name; after the trials.
struct Texts<'a>(&'a Stream<'a>);

impl Serialize for Texts<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let stream = self.0;
        let named = stream.named.borrow();
        let calls = stream.read(stream.store.calls(&stream.record.id))?;
        let told: BTreeSet<BlobId> = calls.iter().flat_map(CallRecord::texts).collect();
        let mut list = serializer.serialize_seq(None)?;
        for id in named.iter().chain(told.difference(&named)) {
            let text = stream.read(stream.store.blob(id))?;
            list.serialize_element(&Blob { id: *id, text })?;
        }
        list.end()
    }
}

/// Whose failure it is.
enum ExportFailure<E> {
    Store(StoreError),
    Writer(E),
}

impl<E> From<StoreError> for ExportFailure<E> {
    fn from(error: StoreError) -> Self {
        Self::Store(error)
    }
}

/// The documents that are neither comparisons nor the store's own.
fn documents(
    store: &Store,
    run: &RunId,
) -> Result<BTreeMap<String, Vec<serde_json::Value>>, StoreError> {
    let mut documents = BTreeMap::new();
    for kind in store.document_kinds(run)? {
        if kind != Store::COMPARISON {
            documents.insert(kind.clone(), store.documents(run, &kind)?);
        }
    }
    Ok(documents)
}

/// Reads a file of everything, as [`super::export`] wrote it.
pub fn read_evidence(path: &Path) -> Result<EvidenceExport, ExportError> {
    let expected = "the evidence of a run, as `warpsmith export` writes it";
    read_json(path, expected, |evidence: &EvidenceExport| evidence.format)
}
