//! `warpsmith fastp`: how many problems are solved, and how many by how much.

use std::collections::BTreeSet;
use std::path::Path;

use anyhow::{Result, bail};
use clap::Args;
use warpsmith_evidence::Store;
use warpsmith_evidence::derive::{FAST_P, Standing, fast_p, standings};
use warpsmith_model::stats::geomean;
use warpsmith_model::{
    ComparisonPurpose, ComparisonRecord, ContenderKind, Fidelity, LabId, Params, RunRecord,
    Verdict, WorkloadRecord,
};

use super::Context;
use crate::labdir;
use crate::output::{DIM, Table, json, paint, result};

/// Report fast_p: the share of problems that are right and more than p times as fast as their baseline
///
/// A problem is a lab. It counts where the kernel of its newest comparison passed the full gate, has times on
/// every workload beside a baseline, and is more than p times as fast by the geometric mean of paired rounds.
/// A lab without such a comparison counts as not solved.
#[derive(Debug, Args)]
pub struct FastpArgs {
    /// Runs, or folders of labs, whose newest comparison counts; by default every lab in the evidence
    #[arg(value_name = "RUN|LAB")]
    problems: Vec<String>,
    /// Baseline to hold kernels against; by default the fastest of each lab
    #[arg(long, value_name = "NAME")]
    baseline: Option<String>,
}

/// A problem and what is known of it.
struct Problem {
    lab: String,
    run: Option<String>,
    kernel: Option<String>,
    baseline: Option<String>,
    speedup: Result<f64, String>,
}

pub fn run(context: &Context, arguments: FastpArgs) -> Result<()> {
    let store = Store::open_read_only(&context.project.database())?;
    let baseline = arguments.baseline.as_deref();
    let mut problems = Vec::new();
    for name in &arguments.problems {
        let folder = labdir::for_target(Path::new(name), context.target);
        if Path::new(name).join("lab.toml").is_file() {
            let lab = labdir::load(&folder?)?.lab;
            let record = newest(&store, |record| record.lab.id == lab.id)?;
            problems.push(problem(&store, &lab.name, record, baseline)?);
        } else {
            let record = store.run(name)?;
            let lab = record.lab.name.clone();
            problems.push(problem(&store, &lab, Some(record), baseline)?);
        }
    }
    if arguments.problems.is_empty() {
        let labs: BTreeSet<String> =
            store.runs()?.into_iter().map(|run| run.record.lab.name).collect();
        for lab in labs {
            let record = newest(&store, |record| record.lab.name == lab)?;
            problems.push(problem(&store, &lab, record, baseline)?);
        }
    }
    if problems.is_empty() {
        bail!(
            "there are no runs yet\nhint: `warpsmith compare LAB` or `warpsmith tune LAB` makes one"
        );
    }
    let speedups: Vec<Option<f64>> =
        problems.iter().map(|problem| problem.speedup.as_ref().ok().copied()).collect();
    let shares: Vec<(f64, f64)> =
        FAST_P.iter().filter_map(|p| Some((*p, fast_p(&speedups, *p)?))).collect();
    if context.json {
        let rows: Vec<serde_json::Value> = problems
            .iter()
            .map(|it| {
                serde_json::json!({
                    "lab": it.lab, "run": it.run, "kernel": it.kernel, "baseline": it.baseline,
                    "speedup": it.speedup.as_ref().ok(), "unsolved": it.speedup.as_ref().err(),
                })
            })
            .collect();
        let shares: Vec<serde_json::Value> =
            shares.iter().map(|(p, share)| serde_json::json!({ "p": p, "share": share })).collect();
        return json(&serde_json::json!({ "problems": rows, "fast_p": shares }));
    }
    let mut table = Table::new(&["lab", "kernel", "baseline", "speed-up", ""], &[3]);
    let or_dash = |text: &Option<String>| text.clone().unwrap_or_else(|| paint(DIM, "-"));
    for problem in &problems {
        let (speedup, why) = match &problem.speedup {
            Ok(speedup) => (format!("{speedup:.2}x"), String::new()),
            Err(reason) => (paint(DIM, "-"), format!("not solved: {reason}")),
        };
        let cells = [or_dash(&problem.kernel), or_dash(&problem.baseline)];
        let [kernel, baseline] = cells;
        table.row(vec![problem.lab.clone(), kernel, baseline, speedup, why]);
    }
    result(table.render());
    for (p, share) in shares {
        let solved = (share * problems.len() as f64).round();
        result(format!("fast_{p}  {:.2}  ({solved} of {})", share, problems.len()));
    }
    Ok(())
}

/// Finds the newest run with a comparison that can count.
fn newest(store: &Store, is_meant: impl Fn(&RunRecord) -> bool) -> Result<Option<RunRecord>> {
    let mut newest: Option<RunRecord> = None;
    for run in store.runs()? {
        let is_newer =
            newest.as_ref().is_none_or(|it| it.started_unix_s <= run.record.started_unix_s);
        if is_newer && is_meant(&run.record) && last_final(store, &run.record)?.is_some() {
            newest = Some(run.record);
        }
    }
    Ok(newest)
}

fn last_final(store: &Store, record: &RunRecord) -> Result<Option<ComparisonRecord>> {
    let comparisons = store.comparisons(&record.id)?;
    Ok(comparisons.into_iter().rev().find(|it| it.purpose == ComparisonPurpose::Final))
}

fn problem(
    store: &Store,
    lab: &str,
    record: Option<RunRecord>,
    baseline: Option<&str>,
) -> Result<Problem> {
    let unsolved = |reason: &str| Problem {
        lab: lab.to_string(),
        run: record.as_ref().map(|record| record.id.to_string()),
        kernel: None,
        baseline: None,
        speedup: Err(reason.to_string()),
    };
    let Some(record) = &record else { return Ok(unsolved("no comparison in the evidence")) };
    let Some(comparison) = last_final(store, record)? else {
        return Ok(unsolved("no comparison in the run"));
    };
    let Some(ContenderKind::Kernel { kernel, params, .. }) =
        comparison.contenders.first().map(|first| &first.kind)
    else {
        return Ok(unsolved("no kernel was compared"));
    };
    let rivals = standings(&comparison, 0);
    let slowest_lead = rivals
        .iter()
        .filter(|it| it.is_baseline && baseline.is_none_or(|name| name == it.label))
        .filter_map(|it| Some((it.label.clone(), speedup_on(it, &record.lab.workloads)?)))
        .min_by(|a, b| a.1.total_cmp(&b.1));
    let mut found = Problem { kernel: Some(kernel.clone()), ..unsolved("") };
    found.speedup = match slowest_lead {
        None => Err("no times beside a baseline on every workload".to_string()),
        Some((label, speedup)) => {
            found.baseline = Some(label);
            match passed_the_gate(store, &record.lab.id, kernel, params)? {
                true => Ok(speedup),
                false => Err("no full gate in the evidence; `warpsmith check` runs it".to_string()),
            }
        }
    };
    Ok(found)
}

/// Returns the geometric mean of the speed-ups over a contender on exactly these workloads; none unless there is
/// one on each.
fn speedup_on(standing: &Standing, workloads: &[WorkloadRecord]) -> Option<f64> {
    let on_each: Option<Vec<f64>> = workloads
        .iter()
        .map(|wanted| {
            let on = standing.workloads.iter().find(|on| on.workload == wanted.name)?;
            Some(on.speedup?.mid)
        })
        .collect();
    geomean(&on_each?)
}

/// Says whether the kernel with these parameters passed the full gate in this state of the lab: the newest
/// verdict counts.
fn passed_the_gate(store: &Store, lab: &LabId, kernel: &str, params: &Params) -> Result<bool> {
    let mut newest: Option<(f64, Verdict)> = None;
    for run in store.runs()?.iter().filter(|run| run.record.lab.id == *lab) {
        for run_trial in store.trials(&run.record.id)? {
            let job = &run_trial.trial.job;
            let is_it = job.fidelity == Fidelity::Full
                && job.candidate.kernel == kernel
                && job.candidate.params == *params;
            if is_it && newest.is_none_or(|(at, _)| at <= run_trial.at_unix_s) {
                newest = Some((run_trial.at_unix_s, run_trial.trial.outcome.verdict()));
            }
        }
    }
    Ok(newest.is_some_and(|(_, verdict)| verdict == Verdict::Passed))
}
