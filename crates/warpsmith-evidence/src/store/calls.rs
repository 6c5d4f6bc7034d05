//! Calls of language models, and sources that agents brought: a document each, and the texts that it names.

use std::collections::BTreeMap;

use warpsmith_model::{
    AblationRecord, Blob, BlobId, CallRecord, EvolutionStart, RunId, SourceRecord,
};

use super::Store;
use crate::error::StoreError;

impl Store {
    /// The kind of document under which calls are kept.
    pub const CALL: &'static str = "call";

    /// The kind of document under which the start of an evolution is kept.
    pub const EVOLUTION: &'static str = "evolution";

    /// The kind of document under which a comparison of modes is kept.
    pub const ABLATION: &'static str = "ablation";

    /// The kind of document under which sources that agents brought are kept.
    pub const SOURCE: &'static str = "source";

    /// Records a call with the texts it names; all of it or nothing, and on the disk when this
    /// returns.
    pub fn put_call(
        &self,
        run: &RunId,
        call: &CallRecord,
        texts: &[Blob],
    ) -> Result<(), StoreError> {
        let named = Blob::new(call.text());
        let transaction = self.begin()?;
        for blob in texts.iter().chain([&named]) {
            let id = BlobId::of(blob.text.as_bytes());
            self.put_text(&transaction, id, &blob.text)?;
        }
        for id in call.texts() {
            // A call whose prompt or reply is nowhere could never be replayed.
            self.blob(&id)?;
        }
        let document = serde_json::to_value(call).map_err(self.document_failed("the call"))?;
        self.put_document(run, Self::CALL, &document)?;
        transaction.commit().map_err(|error| self.failed(error))
    }

    /// Returns the calls of a run, in order.
    pub fn calls(&self, run: &RunId) -> Result<Vec<CallRecord>, StoreError> {
        let documents = self.documents(run, Self::CALL)?;
        let read = |document| serde_json::from_value(document);
        let calls: Result<Vec<CallRecord>, _> = documents.into_iter().map(read).collect();
        calls.map_err(self.document_failed(format!("a call of run `{run}`")))
    }

    /// Returns the texts that calls name.
    pub fn call_texts(&self, calls: &[CallRecord]) -> Result<BTreeMap<BlobId, String>, StoreError> {
        let ids = calls.iter().flat_map(CallRecord::texts);
        ids.map(|id| Ok((id, self.blob(&id)?))).collect()
    }

    /// Returns the comparison of modes that ended with a run.
    pub fn ablation(&self, run: &RunId) -> Result<Option<AblationRecord>, StoreError> {
        let last = self.documents(run, Self::ABLATION)?.pop();
        last.map(serde_json::from_value)
            .transpose()
            .map_err(self.document_failed(format!("the ablation of run `{run}`")))
    }

    /// Records what an evolution starts from.
    pub fn put_evolution(&self, run: &RunId, start: &EvolutionStart) -> Result<(), StoreError> {
        let document = serde_json::to_value(start).map_err(self.document_failed("the start"))?;
        self.put_document(run, Self::EVOLUTION, &document)
    }

    /// Returns what the evolution of a run started from; none where the run is something else, or
    /// ended before its evolution began.
    pub fn evolution(&self, run: &RunId) -> Result<Option<EvolutionStart>, StoreError> {
        let documents = self.documents(run, Self::EVOLUTION)?;
        let first = documents.into_iter().next();
        first
            .map(serde_json::from_value)
            .transpose()
            .map_err(self.document_failed(format!("the evolution of run `{run}`")))
    }

    /// Records what a source that an agent brought is made of. The source itself comes with its trial.
    pub fn put_source(&self, run: &RunId, source: &SourceRecord) -> Result<(), StoreError> {
        let document = serde_json::to_value(source).map_err(self.document_failed("the source"))?;
        self.put_document(run, Self::SOURCE, &document)
    }

    /// Returns the sources that agents brought to a run, in order.
    pub fn sources(&self, run: &RunId) -> Result<Vec<SourceRecord>, StoreError> {
        let documents = self.documents(run, Self::SOURCE)?;
        let sources: Result<Vec<SourceRecord>, _> =
            documents.into_iter().map(serde_json::from_value).collect();
        sources.map_err(self.document_failed(format!("a source of run `{run}`")))
    }
}
