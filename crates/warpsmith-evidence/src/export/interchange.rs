//! What the formats of other tuners have in common: one file is one kernel's space on one shape.
//!
//! Their times are of one problem size, so a lab with several workloads becomes several files. The
//! search's trials (`Rank`) are exported; where a run has none, those of the microbenchmark are not
//! put in their place.

use std::path::{Path, PathBuf};

use serde_json::Value as Json;
use warpsmith_model::{
    Environment, Fidelity, KernelRecord, Measurement, Origin, RunRecord, RunTrial, Value,
    WorkloadRecord,
};

use super::{ExportError, replace_json};
use crate::store::Store;

/// One kernel's space on one workload, with the trials that belong to it.
#[derive(Clone, Debug)]
pub struct Space<'a> {
    /// Where it was measured.
    pub environment: &'a Environment,
    /// Whose space it is.
    pub kernel: &'a KernelRecord,
    /// On which shape.
    pub workload: &'a WorkloadRecord,
    /// The kernel's `Rank` trials that failed or have times on the workload, in order.
    pub trials: Vec<&'a RunTrial>,
}

impl Space<'_> {
    /// Returns the times of a trial on the workload; none for a failed one.
    pub(super) fn measurement<'t>(&self, trial: &'t RunTrial) -> Option<&'t Measurement> {
        let measurements = trial.trial.outcome.measurements();
        measurements.iter().find(|measurement| measurement.workload == self.workload.name)
    }

    /// Returns the parameters of a trial in the contract's order.
    pub(super) fn configuration(&self, trial: &RunTrial) -> Vec<(String, Value)> {
        let params = &trial.trial.job.candidate.params;
        let tunables = self.kernel.tunables.iter();
        tunables
            .filter_map(|tunable| Some((tunable.name.clone(), params.get(&tunable.name)?.clone())))
            .collect()
    }
}

/// Writes one file per kernel with tunables and workload that has trials.
pub(super) fn write_spaces(
    store: &Store,
    record: &RunRecord,
    folder: &Path,
    document: fn(&Space<'_>) -> Json,
    written: &mut Vec<PathBuf>,
) -> Result<(), ExportError> {
    let environment = store.environment(&record.environment)?;
    let trials = store.trials(&record.id)?;
    for kernel in record.lab.kernels.iter().filter(|kernel| !kernel.tunables.is_empty()) {
        for workload in record.lab.shapes() {
            let space = space_of(&environment, kernel, workload, &trials);
            if space.trials.is_empty() {
                continue;
            }
            let name = format!("{}@{}.json", file_name(&kernel.name), file_name(&workload.name));
            let path = folder.join(name);
            replace_json(&path, &document(&space))?;
            written.push(path);
        }
    }
    Ok(())
}

/// Picks the trials of one kernel on one workload.
fn space_of<'a>(
    environment: &'a Environment,
    kernel: &'a KernelRecord,
    workload: &'a WorkloadRecord,
    trials: &'a [RunTrial],
) -> Space<'a> {
    let mut space = Space { environment, kernel, workload, trials: Vec::new() };
    let belongs = |run_trial: &&RunTrial| {
        let job = &run_trial.trial.job;
        let outcome = &run_trial.trial.outcome;
        // A candidate that was given up before it came to this workload says nothing here.
        let has_answer =
            outcome.measurements().is_empty() || space.measurement(run_trial).is_some();
        job.fidelity == Fidelity::Rank
            && job.candidate.kernel == kernel.name
            && job.candidate.origin != Origin::Baseline
            && job.workloads.contains(&workload.name)
            && has_answer
    };
    space.trials = trials.iter().filter(belongs).collect();
    space
}

/// Seconds to the milliseconds that these formats use.
pub(super) fn milliseconds(seconds: f64) -> f64 {
    seconds * 1e3
}

/// Writes the time of a trial the way these formats do.
pub(super) fn timestamp(trial: &RunTrial) -> String {
    format!("{}+00:00", crate::utc::utc_text(trial.at_unix_s))
}

/// The seconds of a trial, by what they were spent on.
pub(super) struct Spent {
    pub(super) compile_s: f64,
    pub(super) launch_s: f64,
    /// What is left of the whole.
    pub(super) other_s: f64,
}

pub(super) fn spent(trial: &RunTrial) -> Spent {
    let trial = &trial.trial;
    let compiled = trial.builds.iter().filter(|build| !build.cached);
    let compile_s: f64 = compiled.map(|build| build.compile_s).sum();
    let launch_s = trial.launch_s;
    Spent { compile_s, launch_s, other_s: (trial.wall_s - compile_s - launch_s).max(0.0) }
}

/// Escapes what does not belong into a file name; different names stay different.
pub(super) fn file_name(name: &str) -> String {
    let mut escaped = String::new();
    for byte in name.bytes() {
        match byte {
            b'-' | b'_' | b'.' | b'+' | b'=' => escaped.push(char::from(byte)),
            byte if byte.is_ascii_alphanumeric() => escaped.push(char::from(byte)),
            byte => escaped.push_str(&format!("%{byte:02x}")),
        }
    }
    escaped
}

#[cfg(test)]
mod tests {
    use super::file_name;

    #[test]
    fn file_names_have_no_separators_and_stay_different() {
        for (name, expected) in [
            ("30_register_tile", "30_register_tile"),
            ("b1 h8/s512", "b1%20h8%2fs512"),
            ("100%", "100%25"),
            ("größe", "gr%c3%b6%c3%9fe"),
        ] {
            assert_eq!(file_name(name), expected);
        }
    }
}
