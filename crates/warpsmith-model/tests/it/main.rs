//! The integration tests of the model: one binary.

mod bad_contracts;
mod bad_manifests;
mod edits;
mod fronts;
mod good_labs;
mod hostile;
mod properties;
mod python;
