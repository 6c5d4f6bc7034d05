//! `warpsmith show`: one run or one trial.

use anyhow::Result;
use clap::Args;
use serde::Serialize;
use warpsmith_evidence::{Store, StoreError, TrialSummary};
use warpsmith_model::stats::{geomean, median_interval};
use warpsmith_model::{
    ComparisonRecord, ErrorSize, Fidelity, Params, RunRecord, Trial, TrialId, Verdict, notes, units,
};

use super::{Context, summary};
use crate::output::{BAD, BOLD, DIM, GOOD, Table, json, paint, result, wrapped};
use crate::winner_table::WinnerTable;

/// Show a run or a trial
#[derive(Debug, Args)]
pub struct ShowArgs {
    /// Run or trial, by name or unique beginning; `latest` is the newest run
    #[arg(default_value = "latest")]
    what: String,
    /// Trials of a run to list at each fidelity
    #[arg(long, default_value_t = 10, value_name = "N")]
    top: usize,
    /// Print the source of a trial's candidate
    #[arg(long)]
    source: bool,
}

pub fn run(context: &Context, arguments: ShowArgs) -> Result<()> {
    let store = Store::open_read_only(&context.project.database())?;
    match store.run(&arguments.what) {
        Ok(record) => show_run(context, &store, &record, arguments.top),
        Err(unknown_run @ StoreError::UnknownRun { .. }) => match store.trial(&arguments.what) {
            Ok(trial) => show_trial(context, &store, &trial, arguments.source),
            // Most things that people ask for are runs; its message has suggestions.
            Err(StoreError::UnknownTrial { .. }) => Err(unknown_run.into()),
            Err(other) => Err(other.into()),
        },
        Err(other) => Err(other.into()),
    }
}

fn show_run(context: &Context, store: &Store, record: &RunRecord, top: usize) -> Result<()> {
    store.refuse_lost_rows()?;
    let summaries = store.summaries(&record.id)?;
    let comparisons = store.comparisons(&record.id)?;
    let winner = WinnerTable::of(store, record, &summaries, &comparisons)?;
    if context.json {
        let trials: Vec<TrialJson<'_>> = summaries.iter().map(TrialJson::of).collect();
        let winner = winner.map(|winner| {
            let candidate = &winner.trial.job.candidate;
            serde_json::json!({
                "kernel": candidate.kernel, "params": candidate.params, "trial": winner.trial.id,
                "time_s": winner.mean_s(), "time_from": winner.from(),
                "notes": winner.notes(),
                "workloads": winner.to_json(),
            })
        });
        return json(&RunJson { run: record, winner, trials, comparisons: &comparisons });
    }
    result(format!(
        "{} {}  {}  {}  {} trials",
        paint(BOLD, "run"),
        record.id,
        warpsmith_evidence::utc_minute(record.started_unix_s),
        record.status.name(),
        summaries.len()
    ));
    if let Some(winner) = &winner {
        result(format!("\n{}", winner.render()));
    }
    for fidelity in [Fidelity::Full, Fidelity::Rank, Fidelity::Micro] {
        let mut trials: Vec<&TrialSummary> =
            summaries.iter().filter(|trial| trial.fidelity == fidelity).collect();
        if trials.is_empty() {
            continue;
        }
        trials.sort_by(|a, b| sort_key(a).total_cmp(&sort_key(b)));
        let shown = match trials.len() {
            all if all > top => format!("the best {top} of {all} trials"),
            1 => "1 trial".to_string(),
            all => format!("{all} trials"),
        };
        let words = format!("{shown}; {}", fidelity_words(fidelity));
        result(format!("\n{}  {}", paint(BOLD, fidelity.name()), paint(DIM, words)));
        let mut table = Table::new(&["trial", "time", "verdict", "kernel", "parameters"], &[1]);
        for trial in trials.iter().take(top) {
            let style = if trial.verdict == Verdict::Passed { GOOD } else { BAD };
            let verdict = if trial.is_abandoned() { "abandoned" } else { trial.verdict.name() };
            table.row(vec![
                trial.id.short(),
                score_s(trial).map_or_else(|| paint(DIM, "-"), units::time),
                paint(style, verdict),
                trial.kernel.clone(),
                trial.params.to_string(),
            ]);
        }
        result(table.render());
    }
    for comparison in comparisons {
        let place = winner.as_ref().map_or(0, |winner| winner.place(&comparison));
        result(format!("\n{}", summary::comparison_table_of(&comparison, place)));
        summary::all_note_lines(&comparison).into_iter().for_each(result);
    }
    Ok(())
}

/// A run as a program wants it. Its trials are borrowed: there may be a hundred thousand.
#[derive(Serialize)]
struct RunJson<'a> {
    run: &'a RunRecord,
    winner: Option<serde_json::Value>,
    trials: Vec<TrialJson<'a>>,
    comparisons: &'a [ComparisonRecord],
}

#[derive(Serialize)]
struct TrialJson<'a> {
    trial: TrialId,
    kernel: &'a str,
    params: &'a Params,
    fidelity: Fidelity,
    verdict: Verdict,
    message: &'a str,
    adopted: bool,
    same_binary_as: Option<TrialId>,
    score_s: Option<f64>,
}

impl<'a> TrialJson<'a> {
    fn of(trial: &'a TrialSummary) -> Self {
        Self {
            trial: trial.id,
            kernel: &trial.kernel,
            params: &trial.params,
            fidelity: trial.fidelity,
            verdict: trial.verdict,
            message: &trial.message,
            adopted: trial.adopted,
            same_binary_as: trial.same_binary_as,
            score_s: score_s(trial),
        }
    }
}

/// Says what the times of a fidelity are: they are different quantities.
fn fidelity_words(fidelity: Fidelity) -> &'static str {
    match fidelity {
        Fidelity::Full => "geometric means of the full gate's medians, which are for the record",
        Fidelity::Rank => "geometric means of the search's medians: a few readings, to rank by",
        Fidelity::Micro => {
            "one wave of blocks on the micro workloads, scaled to the whole: to rank by alone"
        }
    }
}

/// The geometric mean of the medians, for trials that were timed on everything that was asked.
fn score_s(trial: &TrialSummary) -> Option<f64> {
    if trial.is_abandoned() {
        return None;
    }
    let medians: Vec<f64> = trial.times.iter().map(|time| time.median_s.mid).collect();
    geomean(&medians)
}

fn sort_key(trial: &TrialSummary) -> f64 {
    score_s(trial).unwrap_or(f64::INFINITY)
}

fn show_trial(context: &Context, store: &Store, trial: &Trial, source: bool) -> Result<()> {
    if context.json {
        return json(trial);
    }
    let candidate = &trial.job.candidate;
    result(format!("{} {}", paint(BOLD, "trial"), trial.id));
    result(format!("  kernel     {} ({})", candidate.kernel, candidate.params));
    result(format!("  fidelity   {}, seed {}", trial.job.fidelity.name(), trial.job.seed));
    result(format!("  outcome    {}", trial.outcome.describe()));
    if let Some(twin) = trial.same_binary_as {
        result(format!("  same binary as trial {}", twin.short()));
    }
    for build in &trial.builds {
        result(format!("  build      {} ({})", build.command.join(" "), build.binary.short()));
        let log = store.blob(&build.log)?;
        if !log.trim().is_empty() {
            result(log.trim_end());
        }
    }
    let mut table = Table::new(
        &["workload", "median", "95 % interval", "samples", "batch", "error", "stopped"],
        &[1, 2, 3, 4, 5],
    );
    for measurement in trial.outcome.measurements() {
        let Some(interval) = median_interval(&measurement.samples_s) else { continue };
        table.row(vec![
            measurement.workload.clone(),
            units::time(interval.mid),
            format!("{} .. {}", units::time(interval.low), units::time(interval.high)),
            measurement.samples_s.len().to_string(),
            measurement.batch.to_string(),
            error_words(&measurement.error),
            format!("{:?}", measurement.stop).to_lowercase(),
        ]);
    }
    if !trial.outcome.measurements().is_empty() {
        result(table.render());
    }
    for measurement in trial.outcome.measurements() {
        if let Some(warm) = median_interval(&measurement.warm_s) {
            result(format!(
                "  warm       {}: {} ({} .. {}, {} samples); the table's times are with cold caches",
                measurement.workload,
                units::time(warm.mid),
                units::time(warm.low),
                units::time(warm.high),
                measurement.warm_s.len(),
            ));
        }
        if let Some(state) = &measurement.device_state {
            result(format!("  device     {}: {}", measurement.workload, state.describe()));
        }
    }
    for note in notes::gathered(&trial.notes, &trial.job.workloads) {
        result(wrapped(&format!("  note       {note}")));
    }
    if source {
        result(store.blob(&candidate.source)?);
    }
    Ok(())
}

fn error_words(error: &ErrorSize) -> String {
    let mut words = error.describe();
    if let Some(plain) = error.plain {
        words += &format!(" ({:.1e} at most)", plain.absolute);
    }
    words
}
