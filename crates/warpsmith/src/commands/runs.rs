//! `warpsmith runs`: what the evidence holds.

use anyhow::Result;
use clap::Args;
use warpsmith_evidence::{RunSummary, Store};

use super::{CliFailure, Context};
use crate::output::{BAD, DIM, GOOD, Table, WARN, json, paint, result};

/// List the runs in the evidence, the newest first
///
/// A run without a recorded end is `running` while a process that writes to it is there, and
/// `interrupted` when all of them are gone, however they ended; `resume` goes on with it. It is
/// `unknown` where that cannot be told: it was written on another machine, in another container,
/// before the machine was restarted, or by an earlier version.
#[derive(Debug, Args)]
pub struct RunsArgs {
    /// Only runs of this lab
    #[arg(long, value_name = "NAME")]
    lab: Option<String>,
}

pub fn run(context: &Context, arguments: RunsArgs) -> Result<()> {
    let store = Store::open_read_only(&context.project.database())?;
    let (mut runs, mut damaged) = (Vec::new(), Vec::new());
    for run in store.runs_or_damage()? {
        match run {
            Ok(run) => runs.push(run),
            Err(error) if error.is_damage() => damaged.push(error.to_string()),
            Err(error) => return Err(error.into()),
        }
    }
    runs.retain(|run| arguments.lab.as_ref().is_none_or(|lab| run.record.lab.name == *lab));
    if context.json {
        let rows: Vec<serde_json::Value> = runs
            .iter()
            .map(|run| {
                serde_json::json!({
                    "run": run.record.id, "lab": run.record.lab.name, "goal": goal(run),
                    "started_unix_s": run.record.started_unix_s, "status": run.record.status,
                    "trials": run.trials, "passed": run.passed, "adopted": run.adopted,
                })
            })
            .collect();
        json(&serde_json::json!({ "runs": rows, "damaged": damaged }))?;
        return refuse_damage(&damaged);
    }
    if runs.is_empty() && damaged.is_empty() {
        result("there are no runs yet; start with `warpsmith run labs/attention`");
        return Ok(());
    }
    let mut table = Table::new(&["run", "lab", "goal", "started (UTC)", "trials", "status"], &[4]);
    for run in &runs {
        let status = run.record.status.name();
        let style = match status {
            "finished" => GOOD,
            "failed" => BAD,
            "interrupted" | "unknown" => WARN,
            _ => DIM,
        };
        table.row(vec![
            run.record.id.to_string(),
            run.record.lab.name.clone(),
            goal(run).to_string(),
            warpsmith_evidence::utc_minute(run.record.started_unix_s),
            run.trials.to_string(),
            paint(style, status),
        ]);
    }
    result(table.render());
    refuse_damage(&damaged)
}

/// The list is there; what is missing from it is said, and by the exit status as well.
fn refuse_damage(damaged: &[String]) -> Result<()> {
    match damaged {
        [] => Ok(()),
        damaged => Err(CliFailure::Damaged(damaged.join("\n")).into()),
    }
}

/// The command that started a run.
fn goal(run: &RunSummary) -> &str {
    run.record.settings.get("goal").and_then(|goal| goal.as_str()).unwrap_or("")
}
