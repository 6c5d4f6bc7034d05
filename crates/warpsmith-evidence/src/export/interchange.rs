//! What the formats of other tuners have in common: one file is one kernel's space on one shape.
//!
//! Their times are of one problem size, so a lab with several workloads becomes several files. The
//! search's trials (`Rank`) are exported; where a run has none, those of the microbenchmark are not
//! put in their place.

use std::collections::HashSet;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io::Write;
use std::path::{Path, PathBuf};

use serde_json::{Value as Json, json};
use warpsmith_model::{
    BlobId, Environment, Fidelity, KernelRecord, Measurement, Origin, RunRecord, RunTrial, Value,
    WorkloadRecord,
};

use super::{ExportError, Part};
use crate::store::Store;

/// One kernel's space on one workload.
#[derive(Clone, Copy, Debug)]
pub(super) struct Space<'a> {
    /// Where it was measured.
    pub(super) environment: &'a Environment,
    /// Whose space it is.
    pub(super) kernel: &'a KernelRecord,
    /// On which shape.
    pub(super) workload: &'a WorkloadRecord,
}

/// How a format writes a space: what comes before its trials, each of them, what comes behind. They are
/// written one by one, so that a file may be larger than memory.
pub(super) struct Layout {
    /// The document without its trials, which are written as the last of its members.
    pub(super) head: fn(&Space<'_>) -> Json,
    /// The name of the trials' member, and what opens and closes it.
    pub(super) member: (&'static str, char, char),
    /// A trial, with its key where the format has one.
    pub(super) entry: fn(&Space<'_>, &RunTrial) -> (Option<String>, Json),
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

impl Space<'_> {
    /// Says whether a trial belongs to it: one of the search's that failed, or has times on the workload.
    fn holds(&self, run_trial: &RunTrial) -> bool {
        let job = &run_trial.trial.job;
        let outcome = &run_trial.trial.outcome;
        // A candidate that was given up before it came to this workload says nothing here.
        let has_answer = outcome.measurements().is_empty() || self.measurement(run_trial).is_some();
        job.fidelity == Fidelity::Rank
            && job.candidate.kernel == self.kernel.name
            && job.candidate.origin != Origin::Baseline
            && job.workloads.contains(&self.workload.name)
            && has_answer
    }
}

/// Writes one file per kernel with tunables and workload that has trials.
pub(super) fn write_spaces(
    store: &Store,
    record: &RunRecord,
    folder: &Path,
    layout: &Layout,
    written: &mut Vec<PathBuf>,
) -> Result<(), ExportError> {
    let environment = store.environment(&record.environment)?;
    for kernel in record.lab.kernels.iter().filter(|kernel| !kernel.tunables.is_empty()) {
        let file = |workload| SpaceFile {
            space: Space { environment: &environment, kernel, workload },
            path: folder.join(format!(
                "{}@{}.json",
                file_name(&kernel.name),
                file_name(&workload.name)
            )),
            part: None,
            keys: HashSet::new(),
        };
        let mut files: Vec<SpaceFile<'_>> = record.lab.shapes().map(file).collect();
        store.each_trial_at(&record.id, Some(&kernel.name), Fidelity::Rank, |trial| {
            files.iter_mut().try_for_each(|file| file.add(layout, &trial))
        })?;
        for file in files {
            written.extend(file.finish(layout)?);
        }
    }
    Ok(())
}

/// A file of one space, which begins with its first trial.
struct SpaceFile<'a> {
    space: Space<'a>,
    path: PathBuf,
    part: Option<Part>,
    /// The hashes of the keys that were written: each stands once, for the trial that came first.
    keys: HashSet<u64>,
}

impl SpaceFile<'_> {
    fn add(&mut self, layout: &Layout, trial: &RunTrial) -> Result<(), ExportError> {
        if !self.space.holds(trial) {
            return Ok(());
        }
        let (key, entry) = (layout.entry)(&self.space, trial);
        if let Some(key) = &key {
            let mut hasher = DefaultHasher::new();
            key.hash(&mut hasher);
            if !self.keys.insert(hasher.finish()) {
                return Ok(());
            }
        }
        let key = key.map(|key| format!("{}: ", json!(key))).unwrap_or_default();
        let before = match self.part {
            Some(_) => ",\n".to_string(),
            None => {
                self.part = Some(Part::begin(&self.path)?);
                let head = (layout.head)(&self.space).to_string();
                let (name, open, _) = layout.member;
                format!("{},\n\"{name}\": {open}\n", head.strip_suffix('}').unwrap_or(&head))
            }
        };
        let Some(part) = &mut self.part else { return Ok(()) };
        let failed = |source| ExportError::Write { path: self.path.clone(), source };
        write!(part, "{before}{key}{entry}").map_err(failed)
    }

    fn finish(self, layout: &Layout) -> Result<Option<PathBuf>, ExportError> {
        let Some(mut part) = self.part else { return Ok(None) };
        let failed = |source| ExportError::Write { path: self.path.clone(), source };
        let (_, _, close) = layout.member;
        writeln!(part, "\n{close}}}").map_err(failed)?;
        part.finish()?;
        Ok(Some(self.path))
    }
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
pub(super) struct SecondsSpent {
    pub(super) compile_s: f64,
    pub(super) launch_s: f64,
    /// What is left of the whole.
    pub(super) other_s: f64,
}

pub(super) fn spent(trial: &RunTrial) -> SecondsSpent {
    let trial = &trial.trial;
    let compiled = trial.builds.iter().filter(|build| !build.cached);
    let compile_s: f64 = compiled.map(|build| build.compile_s).sum();
    let launch_s = trial.launch_s;
    SecondsSpent { compile_s, launch_s, other_s: (trial.wall_s - compile_s - launch_s).max(0.0) }
}

/// Characters of a name in a file's name. Two of them, an ending, and what a file in the making has beside
/// must fit into the 255 bytes that file systems allow.
const LONGEST: usize = 96;

/// Escapes what does not belong into a file name, and cuts off what is too long; different names stay
/// different.
pub(super) fn file_name(name: &str) -> String {
    let mut escaped = String::new();
    for byte in name.bytes() {
        match byte {
            b'-' | b'_' | b'.' | b'+' | b'=' => escaped.push(char::from(byte)),
            byte if byte.is_ascii_alphanumeric() => escaped.push(char::from(byte)),
            byte => escaped.push_str(&format!("%{byte:02x}")),
        }
    }
    if escaped.len() > LONGEST {
        // No name escapes to a `~`.
        let end = format!("~{}", BlobId::of(name.as_bytes()).short());
        escaped.truncate(LONGEST - end.len());
        escaped.push_str(&end);
    }
    escaped
}

#[cfg(test)]
mod tests {
    use super::{LONGEST, Part, file_name};

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

    /// Escapes are three times as long as what they stand for.
    #[test]
    fn long_names_are_cut_and_stay_different() {
        let names = ["é".repeat(60), "é".repeat(59) + "e", "x".repeat(250)];
        let made = names.each_ref().map(|name| file_name(name));
        assert!(made.iter().all(|name| name.len() == LONGEST), "{made:?}");
        assert_ne!(made[0], made[1]);
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join(format!("{}@{}.json", made[0], made[2]));
        Part::begin(&path).and_then(Part::finish).expect("a file of that name");
    }
}
