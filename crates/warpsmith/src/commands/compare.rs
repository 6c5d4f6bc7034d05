//! `warpsmith compare`: who is faster.

use std::path::PathBuf;

use anyhow::Result;
use clap::Args;
use warpsmith_model::lab::Kernel;
use warpsmith_model::{ComparisonPurpose, ComparisonRecord, ContenderRequest, Goal, Lab, Params};

use super::{CliFailure, Context, check, check_workloads, plain_settings, summary, with_campaign};
use crate::campaign::{Campaign, Winner, kernel_of, missing_words};
use crate::labdir;
use crate::output::{DIM, WARN, json, paint, result};

/// Compare kernels and baselines, paired and interleaved
///
/// Each contender is a kernel (`30_register_tile`), a kernel with parameters
/// (`30_register_tile:BLOCK_M=32,BLOCK_N=64`), a baseline (`onnxruntime`), the winner of a run
/// (`run:attention-2026...`) or the candidate of a trial (`trial:5f0c...`). Of candidates that no
/// file of the lab holds, the evidence has the source. The first is the one that the others are
/// measured against; one alone is timed. With none named: the lab's last rung, its oracle and every
/// baseline. Exits with 1 when a contender fails (its output is wrong, it crashes, it does not
/// compile); a library that is not installed is listed.
#[derive(Debug, Args)]
pub struct CompareArgs {
    /// Folder of the lab
    lab: PathBuf,
    /// Who is compared
    contenders: Vec<String>,
    /// Workload to run; by default all that the first contender serves (repeatable)
    #[arg(long, value_name = "NAME")]
    workload: Vec<String>,
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
    let settings = plain_settings(Goal::Compare, &arguments.lab)?;
    let lab = arguments.lab.clone();
    let (run, record, times) = with_campaign(context, &lab, settings, |campaign| {
        summary::announce(campaign);
        let contenders = contenders(campaign, &arguments.contenders)?;
        let workloads = workloads(campaign, &arguments.workload)?;
        campaign.prove_on(workloads.clone())?;
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
            "times": summary::times_json(&campaign.loaded.lab, &ceilings, &record),
            "ceilings": ceilings,
        });
        Ok((campaign.run.clone(), record, times))
    })?;
    if context.json {
        json(&serde_json::json!({
            "run": run, "device": times["device"], "times": times["times"],
            "ceilings": times["ceilings"],
            "speedups": summary::speedups_json(&record), "missing_baselines": record.missing,
            "record": record,
        }))?;
    } else {
        show(&record);
    }
    match summary::failures(&record) {
        None => Ok(()),
        Some(failed) => Err(CliFailure::Candidate(format!("no times for {failed}")).into()),
    }
}

fn show(record: &ComparisonRecord) {
    result(summary::comparison_table(record));
    for missing in &record.missing {
        result(format!("  {}", paint(WARN, missing_words(missing))));
    }
    for rounds in &record.workloads {
        for absent in &rounds.absent {
            let label = &record.contenders[absent.contender].label;
            let words = format!("{label} on {}: {}", rounds.workload, absent.reason);
            result(format!("  {}", paint(DIM, words)));
        }
    }
    summary::clock_lines(record).into_iter().for_each(result);
    summary::note_lines(&record.notes).into_iter().for_each(result);
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

fn contenders(campaign: &Campaign, names: &[String]) -> Result<Vec<ContenderRequest>> {
    let lab = &campaign.loaded.lab;
    if names.is_empty() {
        let mut contenders = Vec::new();
        if let Some(last) = lab.kernels.last() {
            contenders.push(campaign.winner(last, &last.default).contender(&last.name));
            if let Some(naive) = lab.oracle.as_ref().filter(|naive| **naive != last.name) {
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
    if let Some(run) = name.strip_prefix("run:") {
        let winner = campaign.winner_of(run)?;
        return Ok(winner.contender(&format!("{} of {run}", winner.kernel.name)));
    }
    if let Some(trial) = name.strip_prefix("trial:") {
        let winner = campaign.candidate_of(trial)?;
        return Ok(winner.contender(&format!("{} of trial {trial}", winner.kernel.name)));
    }
    if lab.baselines.iter().any(|baseline| baseline.name == name) {
        let mut all = campaign.baseline_contenders();
        all.retain(
            |known| matches!(known, ContenderRequest::Baseline { name: n, .. } if n == name),
        );
        return Ok(all.remove(0));
    }
    Ok(kernel_named(campaign, name)?.contender(name))
}

/// Finds a kernel by `NAME` or `NAME:P=V,P=V`.
pub fn kernel_named(campaign: &Campaign, name: &str) -> Result<Winner> {
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
