//! What profiling a candidate leaves: counters for each launch, what the compiler made, and the
//! profiler's own files. A diagnosis is computed from these on read; see [`crate::diagnose`].

use std::collections::BTreeMap;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::diagnose::Counters;
use crate::{BlobId, CandidateId, EnvironmentId, LabId, Params, Remark, TrialId};

/// One candidate, profiled on some of a lab's workloads.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ProfileRecord {
    /// The document's format version.
    pub format: u32,
    /// Who was profiled.
    pub candidate: CandidateId,
    /// The kernel's name.
    pub kernel: String,
    /// The value of every tunable.
    pub params: Params,
    /// The state of the lab's files.
    pub lab: LabId,
    /// Where.
    pub environment: EnvironmentId,
    /// The trial that judged and timed the same candidate, just before.
    pub trial: TrialId,
    /// One per workload, in order.
    pub workloads: Vec<WorkloadProfile>,
}

/// A candidate on one workload.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct WorkloadProfile {
    /// The workload's name.
    pub workload: String,
    /// Seconds for all launches together, by the harness's clock and without a profiler; a median.
    /// None where it was not timed.
    pub time_s: Option<f64>,
    /// Seconds of an empty launch by the same clock.
    pub launch_floor_s: Option<f64>,
    /// The launches, in order.
    pub launches: Vec<LaunchProfile>,
    /// How many of each instruction are in the code, without modifiers.
    pub instructions: BTreeMap<String, u32>,
    /// Where the counters are from, or why there are none.
    pub counters: CounterSource,
}

/// One launch.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct LaunchProfile {
    /// The function.
    pub entry: String,
    /// What the compiler and the contract say of it.
    pub code: LaunchCode,
    /// What was counted; none without a profiler.
    pub counters: Option<Counters>,
}

/// What a launch uses, known without running it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct LaunchCode {
    /// Blocks of the grid.
    pub blocks: u64,
    /// Threads of a block.
    pub threads: u32,
    /// Registers of a thread.
    pub registers: u32,
    /// Bytes of registers that are spilled to memory and read back.
    pub spill_bytes: u32,
    /// Bytes of shared memory of a block.
    pub smem_bytes: u32,
    /// What the compiler remarked about the function, or about all of its module.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub remarks: Vec<Remark>,
}

/// Where counters are from.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "from")]
pub enum CounterSource {
    /// Nsight Compute.
    Ncu {
        /// Its version.
        version: String,
        /// The table that it printed.
        csv: BlobId,
        /// Its report, for its own viewer.
        report: BlobId,
    },
    /// Nowhere.
    Missing {
        /// Why.
        reason: String,
        /// What to do about it.
        how: String,
    },
}

/// A file that a record names by its hash.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FileBlob {
    /// The hash of `content`.
    pub id: BlobId,
    /// The bytes; hexadecimal in JSON.
    #[serde(serialize_with = "to_hex", deserialize_with = "from_hex")]
    pub content: Vec<u8>,
}

impl FileBlob {
    /// Makes a file and its identity.
    pub fn new(content: Vec<u8>) -> Self {
        Self { id: BlobId::of(&content), content }
    }
}

impl std::fmt::Debug for FileBlob {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "FileBlob({}, {} bytes)", self.id.short(), self.content.len())
    }
}

fn to_hex<S: Serializer>(content: &[u8], serializer: S) -> Result<S::Ok, S::Error> {
    let digit = |value: u8| char::from_digit(u32::from(value), 16).expect("four bits are a digit");
    let text: String =
        content.iter().flat_map(|byte| [digit(byte >> 4), digit(byte & 15)]).collect();
    serializer.serialize_str(&text)
}

fn from_hex<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<u8>, D::Error> {
    let text = String::deserialize(deserializer)?;
    let digit = |character: u8| char::from(character).to_digit(16);
    let bytes: Option<Vec<u8>> = text
        .as_bytes()
        .chunks(2)
        .map(|pair| match pair {
            [high, low] => Some((digit(*high)? * 16 + digit(*low)?) as u8),
            _ => None,
        })
        .collect();
    bytes.ok_or_else(|| serde::de::Error::custom("bytes that are not in hexadecimal digits"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_survive_json() {
        let file = FileBlob::new((0..=255).collect());
        let text = serde_json::to_string(&file).expect("JSON");
        assert_eq!(serde_json::from_str::<FileBlob>(&text).expect("read back"), file);
        for wrong in ["0", "0g", "é"] {
            let text = format!("{{\"id\":\"{}\",\"content\":\"{wrong}\"}}", file.id);
            serde_json::from_str::<FileBlob>(&text).expect_err(wrong);
        }
    }
}
