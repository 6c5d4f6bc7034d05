//! What a campaign was asked to do; echoed in full into the run's record.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use crate::EvolveSettings;

/// Every setting of a campaign. A run is resumed from these alone.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RunSettings {
    /// What the campaign is for.
    pub goal: Goal,
    /// The lab's folder.
    pub lab_dir: PathBuf,
    /// The kernel to tune; none lets the ladder decide.
    pub kernel: Option<String>,
    /// The search strategy's name.
    pub strategy: String,
    /// Search trials at most.
    pub budget_trials: u32,
    /// Seconds of searching at most, compiling included.
    pub budget_s: f64,
    /// Determines every decision of the search and the inputs of ranking.
    pub seed: u64,
    /// Where the search's first generation comes from.
    pub seed_from: SeedFrom,
    /// How many of the microbenchmark's best seed the search.
    pub top_k: u32,
    /// Configurations that the microbenchmark runs at most.
    pub micro_limit: u32,
    /// Whether trials of earlier runs in the same environment are taken over.
    pub reuse: bool,
    /// Rounds of the final comparison at least, on each workload.
    pub compare_rounds: u32,
    /// Seconds of the final comparison for each workload, beyond the least number of rounds.
    pub compare_s: f64,
    /// How many times slower than the best so far is hopeless.
    pub hopeless_ratio: f64,
    /// Whether the full gate runs kernels under sanitizers, where the target has some. Runs from before
    /// there was a choice have none to record.
    #[serde(default = "yes")]
    pub sanitize: bool,
    /// The workloads that matter; empty for all of the lab's.
    #[serde(default)]
    pub workloads: Vec<String>,
    /// What an evolution adds to this; none for every other campaign.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub evolve: Option<EvolveSettings>,
    /// The folder of the bundle, for `evidence`; none for one named after the run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub out: Option<PathBuf>,
}

fn yes() -> bool {
    true
}

/// What a campaign is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Goal {
    /// The whole job.
    Run,
    /// The gate alone.
    Check,
    /// The microbenchmark's ranking.
    Micro,
    /// Search and verify.
    Tune,
    /// Evolution of a source, verified.
    Evolve,
    /// A paired comparison.
    Compare,
    /// A profile of one kernel.
    Profile,
    /// The whole job, every kernel through the gate, and a bundle.
    Evidence,
}

impl Goal {
    /// Returns the name of the command that starts such a campaign.
    pub fn name(self) -> &'static str {
        match self {
            Self::Run => "run",
            Self::Check => "check",
            Self::Micro => "micro",
            Self::Tune => "tune",
            Self::Evolve => "evolve",
            Self::Compare => "compare",
            Self::Profile => "profile",
            Self::Evidence => "evidence",
        }
    }

    /// Says whether a campaign that was stopped can go on; the others are quicker to start again.
    pub fn can_resume(self) -> bool {
        match self {
            Self::Run | Self::Micro | Self::Tune | Self::Evolve | Self::Evidence => true,
            Self::Check | Self::Compare | Self::Profile => false,
        }
    }
}

/// Where the search's first generation comes from.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SeedFrom {
    /// The microbenchmark's best.
    Micro,
    /// The author's choice alone.
    None,
    /// The best of an earlier run, by its name, or of a `*_best.json` file.
    Run(String),
}
