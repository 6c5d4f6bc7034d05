//! The record of a lab's chain of trust: the reference proves the oracle, the oracle the rest.

use serde::{Deserialize, Serialize};

use crate::ErrorSize;

/// What was done to establish that a lab's expected outputs are right.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ChainRecord {
    /// The document's format version.
    pub format: u32,
    /// How much the output changes when one input is drawn anew, for every input.
    pub sensitivity: Vec<Sensitivity>,
    /// The oracle against the reference.
    pub proofs: Vec<Proof>,
    /// Who says what is right on each workload.
    pub authorities: Vec<Authority>,
    /// Seconds that it took.
    pub wall_s: f64,
}

/// How much the output depends on an input.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Sensitivity {
    /// The input tensor.
    pub tensor: String,
    /// The norm of the output's change over the norm of the output.
    pub relative_change: f64,
}

/// The oracle's error against the reference on one shape and one distribution.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Proof {
    /// The shape.
    pub shape: String,
    /// The input distribution.
    pub inputs: String,
    /// The oracle's error.
    pub error: ErrorSize,
    /// The error that is allowed.
    pub allowed: ErrorSize,
}

/// Who says what is right on a workload.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Authority {
    /// The workload.
    pub workload: String,
    /// Whether the reference itself computed the whole of it; else the oracle did.
    pub by_reference: bool,
    /// Blocks of the reference that were compared with the oracle at this shape.
    pub sampled_blocks: u64,
    /// How many different input contents a trial has; comparisons may have more.
    pub contents: u32,
}
