//! `warpsmith compare`: who is faster.

use std::path::PathBuf;

use anyhow::Result;
use clap::Args;
use serde_json::Value as Json;
use warpsmith_evidence::derive::standings;
use warpsmith_model::lab::Kernel;
use warpsmith_model::roofline::{Nearness, nearness_notes};
use warpsmith_model::{
    ComparisonPurpose, ComparisonRecord, ContenderKind, ContenderRequest, Fidelity, Goal, Lab,
    Origin, Params, Request, RunSettings, Trial, Verdict, units,
};

use super::{CliFailure, Context, check, check_workloads, plain_settings, summary, with_campaign};
use crate::campaign::{Campaign, ConfiguredKernel, kernel_of, missing_words, require_sanitizers};
use crate::labdir;
use crate::output::{DIM, Table, WARN, json, paint, result, say, wrapped};

/// Compare kernels and baselines, paired and interleaved
///
/// Each contender is a kernel (`30_register_tile`), a kernel with parameters
/// (`30_register_tile:BLOCK_M=32,BLOCK_N=64`), a baseline (`onnxruntime`), the winner of a run
/// (`run:attention-2026...`) or the candidate of a trial (`trial:5f0c...`). Of candidates that no
/// file of the lab holds, the evidence has the source. The first is the one that the others are
/// measured against; one alone is timed. With none named: the lab's front or last rung, its oracle
/// and every baseline. Exits with 1 when a contender fails (its output is wrong, it crashes, it does
/// not compile); a library that is not installed is listed.
///
/// With `--full` it is a proof: every kernel passes the full gate first, as `check` runs it; then
/// all workloads are measured, the extra ones too, without the oracle unless it is named; and the
/// first contender's distance to the best library and to the machine's ceilings is told.
#[derive(Debug, Args)]
pub struct CompareArgs {
    /// Folder of the lab
    lab: PathBuf,
    /// Who is compared
    contenders: Vec<String>,
    /// Workload to run; by default all of the lab (repeatable)
    #[arg(long, value_name = "NAME")]
    workload: Vec<String>,
    /// Put every kernel through the full gate first, and measure the extra workloads too
    #[arg(long)]
    full: bool,
    /// Leave memcheck, racecheck and initcheck out of the full gate on CUDA; the evidence says so
    #[arg(long, requires = "full")]
    no_sanitizer: bool,
    /// Rounds at least, on each workload
    #[arg(long, default_value_t = 7, value_name = "N")]
    rounds: u32,
    /// Seconds for each workload, beyond the least number of rounds
    #[arg(long, default_value_t = 3.0, value_name = "SECONDS")]
    time: f64,
}

pub fn run(context: &Context, arguments: CompareArgs) -> Result<()> {
    let loaded = labdir::load(&labdir::for_target(&arguments.lab, context.target)?)?;
    check_contenders(&loaded.lab, &arguments.contenders)?;
    check_workloads(&loaded.lab, &arguments.workload)?;
    let settings = RunSettings {
        sanitize: !arguments.no_sanitizer,
        workloads: arguments.workload.clone(),
        ..plain_settings(Goal::Compare, &arguments.lab)?
    };
    // Before there is a run: proving a reference on real shapes may take an hour.
    if arguments.full {
        require_sanitizers(&context.project, &loaded.lab, &settings)?;
    }
    let lab = arguments.lab.clone();
    let (run, record, times, gates) = with_campaign(context, &lab, settings, |campaign| {
        summary::announce(campaign);
        let contenders = contenders(campaign, &arguments.contenders, !arguments.full)?;
        let mut workloads = workloads(campaign, &arguments.workload)?;
        if arguments.full && arguments.workload.is_empty() {
            workloads.extend(campaign.loaded.lab.extra.iter().map(|extra| extra.name.clone()));
        }
        campaign.prove_on(workloads.clone())?;
        let gates =
            if arguments.full { gate(campaign, &arguments.contenders)? } else { Vec::new() };
        let record = campaign.compare_now(
            ComparisonPurpose::Final,
            contenders,
            workloads,
            arguments.rounds.max(1),
            arguments.time,
        )?;
        let ceilings = campaign.ceilings()?;
        let times = serde_json::json!({
            "device": campaign.environment.device.name,
            "times": summary::times_json(
                &campaign.loaded.lab,
                &ceilings,
                &campaign.environment.device,
                &record,
            ),
            "ceilings": ceilings,
            "ceiling_words": summary::ceiling_words(&ceilings),
        });
        Ok((campaign.run.clone(), record, times, gates))
    })?;
    if context.json {
        json(&serde_json::json!({
            "run": run, "device": times["device"], "times": times["times"],
            "ceilings": times["ceilings"],
            "speedups": summary::speedups_json(&record), "missing_baselines": record.missing,
            "gates": gates, "record": record,
        }))?;
    } else {
        show(&record, &run.0);
        if arguments.full {
            result(distance_table(&record, &times["times"]));
            result(format!("  ceilings: {}", times["ceiling_words"].as_str().unwrap_or_default()));
        }
    }
    match summary::failures(&record) {
        None => Ok(()),
        Some(failed) => Err(CliFailure::Candidate(format!("no times for {failed}")).into()),
    }
}

/// Puts every kernel that is compared through the full gate. One that fails is not worth a time.
fn gate(campaign: &mut Campaign, names: &[String]) -> Result<Vec<Json>> {
    let mut gates = Vec::new();
    for winner in kernels_among(campaign, names)? {
        let seed = campaign.shared_seed();
        let adjust = |request: &mut Request| {
            request.job.seed = seed.unwrap_or(request.job.seed);
        };
        let trial = campaign.check(
            &winner.kernel,
            &winner.params,
            Origin::Manual,
            Fidelity::Full,
            adjust,
        )?;
        say(format!("  {:<9} {}: {}", "gate", winner.kernel.name, trial.outcome.describe()));
        trial.gate_notes().for_each(|note| say(format!("            {note}")));
        if trial.outcome.verdict() != Verdict::Passed {
            let words = format!(
                "`{}` fails the full gate and is not compared: {}",
                winner.kernel.name,
                trial.outcome.describe()
            );
            return Err(CliFailure::Candidate(words).into());
        }
        gates.push(gate_json(&winner, &trial));
    }
    Ok(gates)
}

fn gate_json(winner: &ConfiguredKernel, trial: &Trial) -> Json {
    serde_json::json!({
        "kernel": winner.kernel.name, "params": winner.params, "trial": trial.id,
        "verdict": trial.outcome.verdict(), "notes": trial.notes,
    })
}

/// The kernels among those who are compared; with nobody named, the front or the last rung.
fn kernels_among(campaign: &Campaign, names: &[String]) -> Result<Vec<ConfiguredKernel>> {
    let lab = &campaign.loaded.lab;
    if names.is_empty() {
        let last = lab.kernels.last();
        return Ok(last.map(|last| campaign.winner(last, &last.default)).into_iter().collect());
    }
    let is_baseline = |name: &str| lab.baselines.iter().any(|baseline| baseline.name == name);
    let kernels = names.iter().filter(|name| !is_baseline(name));
    kernels.map(|name| candidate(campaign, name).map(|(winner, _)| winner)).collect()
}

/// How far the first contender is from the machine's ceilings and from the best library, by workload.
fn distance_table(record: &ComparisonRecord, times: &Json) -> String {
    let Some(first) = record.contenders.first() else { return String::new() };
    let mut table = Table::new(
        &[
            "workload",
            "time",
            "rate",
            "of the roofline",
            "best library",
            "its time",
            "as fast as it",
        ],
        &[1, 2, 3, 5, 6],
    );
    let others = standings(record, 0);
    let mut nears: Vec<Nearness> = Vec::new();
    let is_library =
        |idx: &usize| matches!(record.contenders[*idx].kind, ContenderKind::Baseline { .. });
    for (at, row) in times.as_array().map_or(&[][..], Vec::as_slice).iter().enumerate() {
        let none = || paint(DIM, "-");
        let time_s = |idx: usize| row["times"][idx]["median_s"].as_f64();
        let own_s = time_s(0);
        let per_second = own_s.zip(row["flops"].as_f64()).map(|(own_s, flops)| flops / own_s);
        let near = serde_json::from_value::<Nearness>(row["times"][0]["roofline"].clone()).ok();
        nears.extend(near);
        let best = (1..record.contenders.len())
            .filter(is_library)
            .filter_map(|idx| Some((idx, time_s(idx)?)))
            .min_by(|a, b| a.1.total_cmp(&b.1));
        let speedup = best.and_then(|(idx, _)| others.get(idx)?.workloads.get(at)?.speedup);
        table.row(vec![
            row["workload"].as_str().unwrap_or_default().to_string(),
            own_s.map_or_else(none, units::time),
            per_second.map_or_else(none, units::flops),
            near.map_or_else(none, |near| near.words()),
            best.map_or_else(none, |(idx, _)| record.contenders[idx].label.clone()),
            best.map_or_else(none, |(_, best_s)| units::time(best_s)),
            speedup
                .map_or_else(none, |it| format!("{:.2}x [{:.2}, {:.2}]", it.mid, it.low, it.high)),
        ]);
    }
    let mut lines = vec![
        format!("\n  {} beside the ceilings and the best library", first.label),
        table.render(),
    ];
    lines.extend(
        nearness_notes(&nears).iter().map(|note| wrapped(&format!("  {}", paint(DIM, note)))),
    );
    lines.join("\n")
}

fn show(record: &ComparisonRecord, run: &str) {
    result(summary::comparison_table(record));
    for missing in &record.missing {
        result(wrapped(&format!("  {}", paint(WARN, missing_words(missing)))));
    }
    for rounds in &record.workloads {
        for absent in &rounds.absent {
            let label = &record.contenders[absent.contender].label;
            let words = format!("{label} on {}: {}", rounds.workload, absent.reason);
            result(wrapped(&format!("  {}", paint(DIM, words))));
        }
    }
    summary::clock_lines(record).into_iter().for_each(result);
    summary::note_lines(record, run).into_iter().for_each(result);
}

/// Refuses kernels and values that do not exist, before there is a run.
fn check_contenders(lab: &Lab, names: &[String]) -> Result<()> {
    let in_the_evidence = |name: &str| name.starts_with("run:") || name.starts_with("trial:");
    let is_baseline = |name: &str| lab.baselines.iter().any(|baseline| baseline.name == name);
    for name in names.iter().filter(|name| !in_the_evidence(name) && !is_baseline(name)) {
        kernel_with_params(lab, name)?;
    }
    Ok(())
}

fn contenders(
    campaign: &Campaign,
    names: &[String],
    with_oracle: bool,
) -> Result<Vec<ContenderRequest>> {
    let lab = &campaign.loaded.lab;
    if names.is_empty() {
        let mut contenders = Vec::new();
        if let Some(last) = lab.kernels.last() {
            contenders.push(campaign.winner(last, &last.default).contender(&last.name));
            let oracle = lab.oracle.as_ref().filter(|naive| with_oracle && **naive != last.name);
            if let Some(naive) = oracle {
                let naive = campaign.kernel(naive)?;
                contenders.push(campaign.winner(&naive, &naive.default).contender(&naive.name));
            }
        }
        contenders.extend(campaign.baseline_contenders());
        return Ok(contenders);
    }
    names.iter().map(|name| contender(campaign, name)).collect()
}

/// Finds who is meant by a name.
pub fn contender(campaign: &Campaign, name: &str) -> Result<ContenderRequest> {
    let lab = &campaign.loaded.lab;
    if lab.baselines.iter().any(|baseline| baseline.name == name) {
        let mut all = campaign.baseline_contenders();
        all.retain(
            |known| matches!(known, ContenderRequest::Baseline { name: n, .. } if n == name),
        );
        return Ok(all.remove(0));
    }
    let (winner, label) = candidate(campaign, name)?;
    Ok(winner.contender(&label))
}

/// Finds a candidate that is no baseline, and what it is called in tables.
fn candidate(campaign: &Campaign, name: &str) -> Result<(ConfiguredKernel, String)> {
    if let Some(run) = name.strip_prefix("run:") {
        let winner = campaign.winner_of(run)?;
        let label = format!("{} of {run}", winner.kernel.name);
        return Ok((winner, label));
    }
    if let Some(trial) = name.strip_prefix("trial:") {
        let winner = campaign.candidate_of(trial)?;
        let label = format!("{} of trial {trial}", winner.kernel.name);
        return Ok((winner, label));
    }
    Ok((kernel_named(campaign, name)?, name.to_string()))
}

/// Finds a kernel by `NAME` or `NAME:P=V,P=V`.
pub fn kernel_named(campaign: &Campaign, name: &str) -> Result<ConfiguredKernel> {
    let (kernel, params) = kernel_with_params(&campaign.loaded.lab, name)?;
    Ok(campaign.winner(&kernel, &params))
}

fn kernel_with_params(lab: &Lab, name: &str) -> Result<(Kernel, Params)> {
    let (kernel, settings) = name.split_once(':').unwrap_or((name, ""));
    let kernel = kernel_of(lab, kernel)?;
    let settings: Vec<String> =
        settings.split(',').filter(|part| !part.is_empty()).map(str::to_string).collect();
    Ok((kernel.clone(), check::with_settings(kernel, &settings)?))
}

/// Returns the workloads that were named, or all of the lab's.
pub fn workloads(campaign: &Campaign, names: &[String]) -> Result<Vec<String>> {
    let known: Vec<String> =
        campaign.loaded.lab.workloads.iter().map(|workload| workload.name.clone()).collect();
    if names.is_empty() {
        return Ok(known);
    }
    super::check_workloads(&campaign.loaded.lab, names)?;
    Ok(super::each_once(names))
}
