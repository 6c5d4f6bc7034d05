//! `warpsmith check`: the gate.

use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, bail};
use clap::Args;
use warpsmith_gate::bind;
use warpsmith_gate::coverage::{self, Coverage};
use warpsmith_model::lab::{Kernel, TargetKind, parse_kernel};
use warpsmith_model::stats::{geomean, median};
use warpsmith_model::{
    BudgetShare, ErrorSize, Fidelity, Goal, Lab, Measurement, Origin, Params, Request, RunSettings,
    Trial, Value, Verdict, units,
};

use super::{CliFailure, Context, plain_settings, summary, with_campaign};
use crate::campaign::kernel_of;
use crate::labdir;
use crate::output::{BAD, DIM, GOOD, Table, json, paint, result, say};

/// Gate kernels for correctness
///
/// Proves the lab's reference, then puts a kernel (or every kernel) through the gate: poisoned
/// outputs, several seeds and distributions, drawn shapes, repeatability, guarded memory, the
/// outputs of timed launches and, on CUDA, memcheck, racecheck and initcheck. Exits with 1 when a
/// kernel fails.
#[derive(Debug, Args)]
pub struct CheckArgs {
    /// Folder of the lab
    lab: PathBuf,
    #[command(flatten)]
    kernel: KernelArgs,
    /// Workload to check on; by default all that a kernel serves (repeatable)
    #[arg(long, value_name = "NAME")]
    workload: Vec<String>,
    /// Check with one seed and short timing
    #[arg(long)]
    quick: bool,
    /// Seconds of timing on each workload
    #[arg(long, value_name = "SECONDS")]
    time: Option<f64>,
    /// Seconds that a launch may take before its process is ended
    #[arg(long, value_name = "SECONDS")]
    deadline: Option<f64>,
    /// Say, too, which branches of the kernels the lab's small shapes and distributions never take (CPU; runs the
    /// kernels unconfined, with gcc's counters, so it is for your own)
    #[arg(long)]
    coverage: bool,
    /// Leave memcheck, racecheck and initcheck out of the gate on CUDA; the evidence says so
    #[arg(long)]
    no_sanitizer: bool,
}

/// Flags of the commands that take one kernel, of the lab or not
#[derive(Debug, Args)]
pub struct KernelArgs {
    /// Kernel of the lab; by default every kernel for `check`, the front or the last rung for `profile`
    #[arg(long, value_name = "NAME", conflicts_with_all = ["source", "contract"])]
    kernel: Option<String>,
    /// Source of a kernel that is not in the lab
    #[arg(long, value_name = "FILE", requires = "contract")]
    source: Option<PathBuf>,
    /// Contract of that kernel
    #[arg(long, value_name = "FILE", requires = "source")]
    contract: Option<PathBuf>,
    /// Value of a tunable; the others keep their author's choice (repeatable)
    #[arg(long = "set", value_name = "P=V")]
    set: Vec<String>,
}

impl KernelArgs {
    /// Returns the kernel that the flags choose: one of the lab by name, or one outside of it; none where
    /// nothing was chosen.
    pub fn chosen(&self, lab: &Lab) -> Result<Option<Kernel>> {
        let (Some(source), Some(contract)) = (&self.source, &self.contract) else {
            return self.kernel.as_deref().map(|name| kernel_of(lab, name).cloned()).transpose();
        };
        let read = |path: &Path| {
            std::fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))
        };
        let name = source.file_stem().and_then(|stem| stem.to_str()).unwrap_or("candidate");
        let kernel = parse_kernel(lab, name, &read(contract)?, &read(source)?)
            .map_err(|errors| anyhow::anyhow!("{} is not valid\n\n{errors}", contract.display()))?;
        Ok(Some(kernel))
    }

    /// Returns a kernel's parameters: the author's, with those replaced that the flags name.
    pub fn params(&self, kernel: &Kernel) -> Result<Params> {
        with_settings(kernel, &self.set)
    }
}

pub fn run(context: &Context, arguments: CheckArgs) -> Result<()> {
    for (flag, seconds) in [("--time", arguments.time), ("--deadline", arguments.deadline)] {
        if let Some(seconds) = seconds.filter(|seconds| !(seconds.is_finite() && *seconds > 0.0)) {
            bail!("{flag} is {seconds}, but must be a positive number of seconds");
        }
    }
    let settings = RunSettings {
        sanitize: !arguments.no_sanitizer,
        workloads: arguments.workload.clone(),
        kernel: arguments.kernel.kernel.clone(),
        ..plain_settings(Goal::Check, &arguments.lab)?
    };
    // Names and values that are wrong are refused before there is a run.
    let loaded = labdir::load(&labdir::for_target(&arguments.lab, context.target)?)?;
    let chosen = arguments.kernel.chosen(&loaded.lab)?;
    let is_chosen = chosen.is_some();
    let kernels = chosen.map_or_else(|| loaded.lab.kernels.clone(), |kernel| vec![kernel]);
    let kernels: Vec<(Kernel, Params)> = kernels
        .into_iter()
        .map(|kernel| arguments.kernel.params(&kernel).map(|params| (kernel, params)))
        .collect::<Result<_>>()?;
    if arguments.coverage && loaded.lab.target != TargetKind::Cpu {
        bail!(
            "--coverage is counted by a C compiler; kernels for a GPU have no counters\nhint: leave it out"
        );
    }
    let lab = arguments.lab.clone();
    let mut covered = Vec::new();
    let (run, trials) = with_campaign(context, &lab, settings, |campaign| {
        summary::announce(campaign);
        if !arguments.quick {
            campaign.require_sanitizers()?;
        }
        let chain = campaign.prove()?;
        summary::say_chain(&chain);
        let fidelity = if arguments.quick { Fidelity::Rank } else { Fidelity::Full };
        let shared_seed = campaign.shared_seed();
        let mut trials = Vec::new();
        for (kernel, params) in &kernels {
            campaign.stop_if_asked()?;
            if let Some(reason) = campaign.unavailable(kernel, params) {
                let words = format!("`{}` cannot be checked: {reason}", kernel.name);
                // A ladder may end in rungs for other devices; a compiler is the machine's to have.
                let is_for_another_device = campaign.loaded.lab.target == TargetKind::Cuda
                    && bind::architecture(kernel, &campaign.environment.device).is_err();
                if is_chosen || !is_for_another_device {
                    bail!("{words}");
                }
                say(format!("  {words}"));
                continue;
            }
            let trial = {
                let adjust = |request: &mut Request| {
                    let limits = &mut request.limits;
                    limits.timing_budget_s = arguments.time.unwrap_or(limits.timing_budget_s);
                    limits.launch_deadline_s =
                        arguments.deadline.unwrap_or(limits.launch_deadline_s);
                    request.job.seed = shared_seed.unwrap_or(request.job.seed);
                };
                campaign.check(kernel, params, Origin::Manual, fidelity, adjust)?
            };
            say(line(kernel, &trial));
            trial.gate_notes().for_each(|note| say(format!("            {note}")));
            if arguments.coverage {
                let (lab, device) = (&campaign.loaded.lab, &campaign.environment.device);
                let folder = context.project.artifacts();
                let seed = trial.job.seed;
                let counted = coverage::of_kernel(lab, kernel, params, device, &folder, seed)?;
                covered.push((kernel.name.clone(), counted));
            }
            trials.push((kernel.expect.unwrap_or(Verdict::Passed), trial));
        }
        if trials.is_empty() {
            bail!("no kernel of the lab can be checked on {}", campaign.environment.device.name);
        }
        Ok((campaign.run.clone(), trials))
    })?;
    let failed = trials.iter().filter(|(expected, t)| t.outcome.verdict() != *expected).count();
    if context.json {
        let rows: Vec<serde_json::Value> = trials
            .iter()
            .map(|(expected, trial)| {
                serde_json::json!({
                    "trial": trial.id,
                    "kernel": trial.job.candidate.kernel,
                    "params": trial.job.candidate.params,
                    "verdict": trial.outcome.verdict(),
                    "expected": expected,
                    "outcome": trial.outcome,
                    "notes": trial.notes,
                })
            })
            .collect();
        let mut document = serde_json::json!({ "run": run, "checks": rows });
        if arguments.coverage {
            document["coverage"] = covered.iter().map(coverage_json).collect();
        }
        json(&document)?;
    } else {
        table(&trials);
        covered.iter().for_each(|(kernel, counted)| coverage_table(kernel, counted));
    }
    if failed > 0 {
        let words =
            format!("{failed} of {} kernel(s) did not get the verdict expected", trials.len());
        return Err(CliFailure::Candidate(words).into());
    }
    Ok(())
}

fn coverage_json((kernel, counted): &(String, Coverage)) -> serde_json::Value {
    let untaken: Vec<serde_json::Value> = counted
        .untaken
        .iter()
        .map(|it| {
            serde_json::json!({
                "file": it.file,
                "line": it.line,
                "function": it.function,
                "branches_untaken": it.branches.map(|(untaken, _)| untaken),
                "branches": it.branches.map(|(_, all)| all),
                "text": it.text,
            })
        })
        .collect();
    serde_json::json!({ "kernel": kernel, "shapes": counted.shapes, "untaken": untaken })
}

fn coverage_table(kernel: &str, counted: &Coverage) {
    let shapes = counted.shapes;
    if counted.untaken.is_empty() {
        result(format!("\n  {kernel}: {shapes} small shapes take every branch"));
        return;
    }
    result(format!("\n  {kernel}: never taken on {shapes} small shapes under any distribution"));
    let mut table = Table::new(&["where", "function", "never taken", "line"], &[]);
    for it in &counted.untaken {
        let what = match it.branches {
            Some((untaken, all)) => format!("{untaken} of {all} branches"),
            None => "the line".to_string(),
        };
        let place = format!("{}:{}", it.file, it.line);
        table.row(vec![place, it.function.clone(), what, it.text.clone()]);
    }
    result(table.render());
}

/// Returns the author's parameters with some of them replaced.
pub fn with_settings(kernel: &Kernel, assignments: &[String]) -> Result<Params> {
    let mut params = kernel.default.clone();
    for assignment in assignments {
        let (name, text) = assignment.split_once('=').with_context(|| {
            format!("--set {assignment} is not understood\nhint: write --set NAME=VALUE")
        })?;
        let Some(tunable) = kernel.tunables.iter().find(|tunable| tunable.name == name) else {
            let names: Vec<&str> =
                kernel.tunables.iter().map(|tunable| tunable.name.as_str()).collect();
            bail!(
                "kernel `{}` has no tunable `{name}`\nhint: it has {}",
                kernel.name,
                if names.is_empty() { "none".to_string() } else { names.join(", ") }
            );
        };
        let value = tunable.values.iter().find(|value| value.to_string() == text);
        let value: Value = value.cloned().with_context(|| {
            let known: Vec<String> = tunable.values.iter().map(Value::to_string).collect();
            format!(
                "`{text}` is not a value of `{name}`\nhint: its values are {}",
                known.join(", ")
            )
        })?;
        params.0.insert(name.to_string(), value);
    }
    Ok(params)
}

fn line(kernel: &Kernel, trial: &Trial) -> String {
    let verdict = trial.outcome.verdict();
    let expected = kernel.expect.unwrap_or(Verdict::Passed);
    let style = if verdict == expected { GOOD } else { BAD };
    format!("  {:<24} {}", kernel.name, paint(style, trial.outcome.describe()))
}

fn table(trials: &[(Verdict, Trial)]) {
    // Times over all workloads: where a target tells cold from warm, both, else none; `show` has them all.
    let has_warm = trials.iter().any(|(_, trial)| mean_s(trial, |it| &it.warm_s).is_some());
    let mut headings = vec!["kernel", "verdict", "worst error"];
    if has_warm {
        headings.extend(["cold (mean)", "warm (mean)"]);
    }
    headings.push("parameters");
    let numbers: Vec<usize> = (2..headings.len() - 1).collect();
    let mut table = Table::new(&headings, &numbers);
    for (expected, trial) in trials {
        let verdict = trial.outcome.verdict();
        let style = if verdict == *expected { GOOD } else { BAD };
        // The one that is nearest to failing: sizes of others have other budgets.
        let nearness = |error: &ErrorSize| {
            (error.of_budget.map_or(-1.0, BudgetShare::worst), error.element_eps)
        };
        let errors = trial.outcome.measurements().iter().map(|measurement| measurement.error);
        let worst = errors.max_by(|a, b| {
            let ((a, a_eps), (b, b_eps)) = (nearness(a), nearness(b));
            a.total_cmp(&b).then(a_eps.total_cmp(&b_eps))
        });
        let worst = worst.map_or_else(|| paint(DIM, "-"), |worst| worst.describe());
        let mut cells =
            vec![trial.job.candidate.kernel.clone(), paint(style, verdict.name()), worst];
        if has_warm {
            let cell = |time_s: Option<f64>| time_s.map_or_else(|| paint(DIM, "-"), units::time);
            cells.push(cell(mean_s(trial, |it| &it.samples_s)));
            cells.push(cell(mean_s(trial, |it| &it.warm_s)));
        }
        cells.push(trial.job.candidate.params.to_string());
        table.row(cells);
    }
    result(table.render());
}

/// Returns the geometric mean of the medians over the workloads; none where one has no such samples.
fn mean_s(trial: &Trial, samples_s: impl Fn(&Measurement) -> &Vec<f64>) -> Option<f64> {
    let measurements = trial.outcome.measurements();
    let medians: Option<Vec<f64>> = measurements.iter().map(|it| median(samples_s(it))).collect();
    geomean(&medians?)
}
