//! What a campaign was asked to do; echoed in full into the run's record.

use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;

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
    /// Seconds that a batch of launches of a candidate may take, where the usual limit is not wanted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub launch_deadline_s: Option<f64>,
    /// The workloads that matter; empty for all of the lab's.
    #[serde(default)]
    pub workloads: Vec<String>,
    /// What an evolution adds to this; none for every other campaign.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub evolve: Option<EvolveSettings>,
    /// The folder of the bundle, for `evidence`; none for one named after the run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub out: Option<PathBuf>,
    /// What the search makes small. Left out where it is the usual, so that earlier versions read it.
    #[serde(default, skip_serializing_if = "Objective::is_time")]
    pub objective: Objective,
    /// What ends the search before its budget does, whichever comes first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub until: Vec<Until>,
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
    /// Whatever a coding agent asks for, one candidate at a time.
    Mcp,
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
            Self::Mcp => "mcp",
        }
    }

    /// Says whether such a campaign searches the parameters of a kernel.
    pub fn searches(self) -> bool {
        match self {
            Self::Run | Self::Micro | Self::Tune | Self::Evolve | Self::Evidence => true,
            Self::Check | Self::Compare | Self::Profile | Self::Mcp => false,
        }
    }

    /// Says whether a campaign that was stopped can go on; the others are quicker to start again.
    pub fn can_resume(self) -> bool {
        match self {
            Self::Run | Self::Micro | Self::Tune | Self::Evolve | Self::Evidence => true,
            Self::Check | Self::Compare | Self::Profile | Self::Mcp => false,
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
    /// The winners of every earlier run of the same kernel in the evidence, on whatever shapes and
    /// devices.
    Store,
    /// The best of an earlier run, by its name, or of a file: a `*_best.json`, a Kernel Tuner cache or
    /// T4 results.
    Run(String),
}

/// What a search over several workloads makes small.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Objective {
    /// The time, as the geometric mean over the workloads.
    #[default]
    Time,
    /// The same under the name that says how workloads are put together.
    Geomean,
    /// The worst workload: the greatest ratio of a time to that of the author's choice.
    Worst,
    /// Every workload on its own: the answer is a table of one winner for each.
    Dispatch,
}

impl Objective {
    /// Every objective.
    pub const ALL: [Self; 4] = [Self::Time, Self::Geomean, Self::Worst, Self::Dispatch];

    /// Returns the name used in flags and files.
    pub fn name(self) -> &'static str {
        match self {
            Self::Time => "time",
            Self::Geomean => "geomean",
            Self::Worst => "worst",
            Self::Dispatch => "dispatch",
        }
    }

    fn is_time(&self) -> bool {
        *self == Self::Time
    }
}

impl FromStr for Objective {
    type Err = String;

    fn from_str(name: &str) -> Result<Self, String> {
        Self::ALL.into_iter().find(|objective| objective.name() == name).ok_or_else(|| {
            let known = Self::ALL.map(Self::name).join(", ");
            format!("there is no objective `{name}`; there are {known}")
        })
    }
}

/// A best counts as progress when it takes less than this share of the one before: ranking tells times apart
/// by five percent, so lesser steps are mostly luck, of which a search never runs out.
pub const PROGRESS: f64 = 0.99;

/// What ends a search before its budget does.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Until {
    /// So many trials in a row have not improved on the best by a percent.
    Stalled {
        /// How many.
        trials: u32,
    },
    /// The best is within so many percent of the roofline's rate.
    Roofline {
        /// Below 100.
        percent: f64,
    },
    /// The best takes at most so many percent longer than a baseline; a negative number asks for a
    /// kernel that is faster.
    Baseline {
        /// The baseline's name in the lab.
        name: String,
        /// Above -100.
        percent: f64,
    },
    /// The model of a guided search expects less than so many percent from every configuration that is left.
    Expected {
        /// Above 0 and below 100.
        percent: f64,
    },
}

impl FromStr for Until {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let usage =
            "use stalled:TRIALS, expected:PERCENT, roofline:PERCENT or baseline:NAME:PERCENT";
        let percent = |number: &str| {
            let parsed = number.parse::<f64>().ok().filter(|value| value.is_finite());
            parsed.ok_or_else(|| format!("`{number}` in `{text}` is not a number of percent"))
        };
        match text.split(':').collect::<Vec<_>>()[..] {
            ["stalled", trials] => match trials.parse() {
                Ok(trials) if trials > 0 => Ok(Self::Stalled { trials }),
                _ => Err(format!("`{trials}` in `{text}` is not a number of trials of at least 1")),
            },
            ["expected", number] => match percent(number)? {
                percent if percent > 0.0 && percent < 100.0 => Ok(Self::Expected { percent }),
                _ => Err(format!("`{text}`: the percent must be above 0 and below 100")),
            },
            ["roofline", number] => match percent(number)? {
                percent if (0.0..100.0).contains(&percent) => Ok(Self::Roofline { percent }),
                _ => Err(format!("`{text}`: the percent must be at least 0 and below 100")),
            },
            ["baseline", name, number] if !name.is_empty() => match percent(number)? {
                percent if percent > -100.0 => {
                    Ok(Self::Baseline { name: name.to_string(), percent })
                }
                _ => Err(format!("`{text}`: the percent must be above -100")),
            },
            _ => Err(format!("`{text}` says nothing about when to stop; {usage}")),
        }
    }
}

impl fmt::Display for Until {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Stalled { trials } => write!(f, "stalled:{trials}"),
            Self::Expected { percent } => write!(f, "expected:{percent}"),
            Self::Roofline { percent } => write!(f, "roofline:{percent}"),
            Self::Baseline { name, percent } => write!(f, "baseline:{name}:{percent}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn conditions_are_read_as_they_are_written() {
        for text in
            ["stalled:8", "expected:0.1", "roofline:10", "baseline:numpy:2.5", "baseline:numpy:-10"]
        {
            assert_eq!(text.parse::<Until>().expect(text).to_string(), text);
        }
    }

    #[test]
    fn conditions_that_mean_nothing_are_refused() {
        for text in [
            "",
            "stalled",
            "stalled:0",
            "stalled:-1",
            "stalled:1.5",
            "expected",
            "expected:0",
            "expected:100",
            "expected:nan",
            "roofline:100",
            "roofline:-1",
            "roofline:nan",
            "baseline:5",
            "baseline::5",
            "baseline:numpy:-100",
            "baseline:numpy:inf",
            "forever",
        ] {
            let error = text.parse::<Until>().expect_err(text);
            assert!(error.contains(text), "{error}");
        }
    }

    #[test]
    fn objectives_go_by_their_names() {
        for objective in Objective::ALL {
            assert_eq!(objective.name().parse(), Ok(objective));
        }
        assert!("speed".parse::<Objective>().is_err());
    }
}
