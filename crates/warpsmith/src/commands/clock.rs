//! `warpsmith doctor --clock`: does the clock say "tie" of a thing and itself?
//!
//! A comparison in which a place has an advantage (fresher memory, a warmer cache, the first turn) makes
//! that place's contender a winner. So the best kernel of each lab is compared with itself, in three
//! places, many times over. Whatever is not a tie then is a false verdict, and false verdicts must be few
//! and must favour nobody.

use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, bail};
use serde::Serialize;
use warpsmith_model::lab::TargetKind;
use warpsmith_model::stats::{Comparison, judge, paired_speedup};
use warpsmith_model::{
    Answer, Ask, CompareRequest, ComparisonPurpose, ContenderRequest, Lab, LabRef, PairedRounds,
};

use super::{CliFailure, Context};
use crate::campaign::system_seed;
use crate::kernel_text::kernel_text;
use crate::labdir;
use crate::output::{BAD, GOOD, Progress, Table, paint, result, say};
use crate::worker_client::Worker;

/// Comparisons of each kernel with itself.
const COMPARISONS: usize = 40;
/// A kernel that fails is examined once more, and judged on everything: five percent of few verdicts are
/// soon exceeded by chance.
const EXAMINATIONS: usize = 2;
/// The places of a comparison.
const PLACES: [&str; 3] = ["first", "second", "third"];
/// Rounds at least, and seconds at most, as `compare` has them when a campaign hurries.
const ROUNDS: u32 = 7;
const BUDGET_S: f64 = 0.3;
/// The share of verdicts that may be false.
const FALSE_SHARE: f64 = 0.05;
/// Favour is found where it would come about by chance more rarely than this.
const CHANCE: f64 = 0.05;

/// What was said of a kernel and itself.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Examined {
    lab: String,
    kernel: String,
    comparisons: usize,
    verdicts: usize,
    tie: usize,
    unclear: usize,
    /// Of an earlier place against a later one.
    faster: usize,
    slower: usize,
    /// Comparisons that say more often "faster" than "slower", and the other way round. Verdicts of one
    /// comparison share its rounds, so they are not as many witnesses as they are verdicts.
    for_earlier: usize,
    for_later: usize,
    passed: bool,
}

/// Examines the clock on these labs, or on all below `labs`; prints a table unless the caller prints JSON.
pub fn examine(context: &Context, labs: &[PathBuf], target: TargetKind) -> Result<Vec<Examined>> {
    let found;
    let labs = if labs.is_empty() {
        found = labs_here(target)?;
        &found
    } else {
        labs
    };
    let mut worker = Worker::new(&context.project, target);
    let mut all = Vec::new();
    for dir in labs {
        all.push(examine_lab(&mut worker, dir, target)?);
    }
    if !context.json {
        result(table(&all).render());
    }
    Ok(all)
}

/// Fails where the clock prefers somebody.
pub fn conclude(all: &[Examined]) -> Result<()> {
    let failed: Vec<&str> =
        all.iter().filter(|one| !one.passed).map(|one| one.lab.as_str()).collect();
    if failed.is_empty() {
        return Ok(());
    }
    let what = format!(
        "the clock tells a kernel from itself ({}): comparisons on this machine, at this moment, mean \
         nothing\nhint: see what else runs, then examine again",
        failed.join(", ")
    );
    Err(CliFailure::Candidate(what).into())
}

fn labs_here(target: TargetKind) -> Result<Vec<PathBuf>> {
    let root = Path::new("labs");
    let listed = std::fs::read_dir(root).context(
        "there is no folder `labs` here\nhint: name the labs to examine: `warpsmith doctor --clock LAB`",
    )?;
    let mut labs = Vec::new();
    for entry in listed {
        let dir = entry.context("listing `labs`")?.path();
        let is_hidden =
            dir.file_name().is_some_and(|name| name.to_string_lossy().starts_with(['_', '.']));
        let serves =
            labdir::for_target(&dir, Some(target)).is_ok_and(|dir| dir.join("lab.toml").is_file());
        if !is_hidden && serves {
            labs.push(dir);
        }
    }
    if labs.is_empty() {
        bail!("`labs` holds no lab for {}", target.name());
    }
    labs.sort();
    Ok(labs)
}

fn examine_lab(worker: &mut Worker, dir: &Path, target: TargetKind) -> Result<Examined> {
    let loaded = labdir::load(&labdir::for_target(dir, Some(target))?)?;
    let lab = &loaded.lab;
    let kernel = lab.kernels.last().with_context(|| format!("{} has no kernels", dir.display()))?;
    let mut examined =
        Examined { lab: lab.name.clone(), kernel: kernel.name.clone(), ..Examined::default() };
    let contenders = PLACES.map(|place| ContenderRequest::Kernel {
        label: place.to_string(),
        kernel: kernel_text(kernel),
        params: kernel.default.clone(),
    });
    for _ in 0..EXAMINATIONS {
        let request = CompareRequest {
            lab: LabRef { dir: loaded.dir.clone(), id: lab.id, seed: system_seed()? },
            purpose: ComparisonPurpose::Final,
            contenders: contenders.to_vec(),
            workloads: workloads(lab),
            min_rounds: ROUNDS,
            budget_s: BUDGET_S,
            launch_deadline_s: 60.0,
        };
        let mut progress = Progress::new(&format!("clock {}", lab.name), COMPARISONS as u64);
        let answer = worker.ask_while(&Ask::Compare(Box::new(request)), &mut |done| {
            if done.is_some() {
                progress.step(&kernel.name);
            }
            true
        })?;
        let Answer::Compared(record) = answer else {
            bail!("the worker answered a comparison with {answer:?}");
        };
        progress.finish(&kernel.name);
        for rounds in &record.workloads {
            examined.take(rounds)?;
        }
        examined.passed = examined.is_fair();
        if examined.passed {
            break;
        }
        say(format!("  {}: not passed; once more, to be judged on everything", lab.name));
    }
    Ok(examined)
}

/// The workloads of the lab, over and over.
fn workloads(lab: &Lab) -> Vec<String> {
    let names = lab.workloads.iter().map(|workload| workload.name.clone());
    names.cycle().take(if lab.workloads.is_empty() { 0 } else { COMPARISONS }).collect()
}

impl Examined {
    /// Counts what a comparison says of every two places.
    fn take(&mut self, rounds: &PairedRounds) -> Result<()> {
        if let Some(absent) = rounds.absent.first() {
            bail!("`{}` was not measured on {}: {}", self.kernel, rounds.workload, absent.reason);
        }
        self.comparisons += 1;
        let mut balance = 0;
        for (idx, earlier) in rounds.samples_s.iter().enumerate() {
            for later in &rounds.samples_s[idx + 1..] {
                let Some(speedup) = paired_speedup(earlier, later) else {
                    bail!("{} has no rounds", rounds.workload);
                };
                self.verdicts += 1;
                match judge(speedup) {
                    Comparison::Tie => self.tie += 1,
                    Comparison::Unclear => self.unclear += 1,
                    Comparison::Faster => {
                        self.faster += 1;
                        balance += 1;
                    }
                    Comparison::Slower => {
                        self.slower += 1;
                        balance -= 1;
                    }
                }
            }
        }
        match balance {
            1.. => self.for_earlier += 1,
            0 => {}
            ..0 => self.for_later += 1,
        }
        Ok(())
    }

    /// Says whether false verdicts are few, and comparisons as often for an earlier place as for a later one.
    fn is_fair(&self) -> bool {
        let wrong = self.faster + self.slower;
        let partial = self.for_earlier + self.for_later;
        wrong as f64 <= FALSE_SHARE * self.verdicts as f64
            && two_sided(partial, self.for_earlier.min(self.for_later)) >= CHANCE
    }
}

/// Returns how probable it is that of so many comparisons, each one way or the other by chance, at most `less`
/// or at least as many as all but `less` go one way.
fn two_sided(all: usize, less: usize) -> f64 {
    let mut ways = 1.0;
    let mut tail = 0.0;
    for count in 0..=less {
        tail += ways;
        ways = ways * (all - count) as f64 / (count + 1) as f64;
    }
    (2.0 * tail / 2f64.powi(all as i32)).min(1.0)
}

fn table(all: &[Examined]) -> Table {
    let headings =
        ["lab", "kernel and itself", "verdicts", "tie", "unclear", "faster", "slower", ""];
    let mut table = Table::new(&headings, &[2, 3, 4, 5, 6]);
    for one in all {
        let said = if one.passed { paint(GOOD, "fair") } else { paint(BAD, "not fair") };
        let counts = [one.verdicts, one.tie, one.unclear, one.faster, one.slower];
        let mut cells = vec![one.lab.clone(), one.kernel.clone()];
        cells.extend(counts.map(|count| count.to_string()));
        cells.push(said);
        table.row(cells);
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn favour_is_told_from_chance() {
        let check = |all, less, expected: f64| {
            let found = two_sided(all, less);
            assert!((found - expected).abs() < 1e-9, "{less} of {all}: {found}");
        };
        check(0, 0, 1.0);
        check(2, 1, 1.0);
        check(5, 0, 0.0625);
        check(6, 0, 0.03125);
        check(67, 0, 2.0 / 2f64.powi(67));
    }

    #[test]
    fn favour_is_counted_by_comparison() {
        // `wrong` comparisons of forty in which the first place is ahead of `of` others.
        let is_fair = |wrong: usize, of: usize| {
            let mut examined = Examined::default();
            for comparison in 0..COMPARISONS {
                let time_s = |place: usize| {
                    let is_behind = comparison < wrong && (1..=of).contains(&place);
                    if is_behind { 1.1 } else { 1.0 }
                };
                let rounds = PairedRounds {
                    workload: "w".to_string(),
                    samples_s: (0..3).map(|place| vec![time_s(place); 7]).collect(),
                    disturbed_s: Vec::new(),
                    absent: Vec::new(),
                };
                examined.take(&rounds).expect("there are rounds");
            }
            examined.is_fair()
        };
        // Six false verdicts: of three comparisons, which chance may well favour, and of four to six.
        assert!(is_fair(3, 2));
        assert!(is_fair(1, 2));
        // A false verdict too many, however they are spread.
        assert!(!is_fair(4, 2));
    }

    #[test]
    fn a_place_with_an_advantage_is_not_fair() {
        let rounds = |second: f64| PairedRounds {
            workload: "w".to_string(),
            samples_s: vec![vec![1.0; 7], vec![second; 7], vec![second; 7]],
            disturbed_s: Vec::new(),
            absent: Vec::new(),
        };
        let examined = |second: f64| {
            let mut examined = Examined::default();
            for _ in 0..COMPARISONS {
                examined.take(&rounds(second)).expect("there are rounds");
            }
            examined
        };
        assert!(examined(1.0).is_fair());
        assert!(!examined(1.1).is_fair());
        assert!(!examined(0.9).is_fair());
        // Against both others, in every comparison.
        assert_eq!(examined(1.1).faster, 2 * COMPARISONS);
    }
}
