//! `warpsmith evidence`: the whole suite on a lab, in one folder that can be archived.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, bail};
use clap::Args;
use serde_json::{Value as Json, json};
use warpsmith_evidence::export;
use warpsmith_model::lab::TargetKind;
use warpsmith_model::{BlobId, Goal};

use super::{CliFailure, Context, SearchArgs, run, summary, with_campaign};
use crate::campaign::{Campaign, now_unix_s, passed};
use crate::labdir;
use crate::output::{BAD, GOOD, paint, result, say};

/// Do everything on a lab and bundle it: gate, microbenchmarks, search, comparison, profile
///
/// Does what `run` does, puts every kernel of the lab through the full gate, profiles the winner where
/// there are counters, and writes one folder with the report, the evidence in every format, the lab itself, and an index with the hash of each file.
/// Exits with 1 when a kernel fails the gate; the bundle is written nevertheless, and says so.
#[derive(Debug, Args)]
pub struct EvidenceArgs {
    /// Folder of the lab
    lab: PathBuf,
    #[command(flatten)]
    search: SearchArgs,
    /// Folder to write; by default one named after the run beside the evidence
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
}

/// A kernel and what the full gate said of it.
struct Gated {
    kernel: String,
    verdict: String,
    passed: bool,
}

pub fn run(context: &Context, arguments: EvidenceArgs) -> Result<()> {
    if let Some(out) = &arguments.out
        && out.exists()
        && fs::read_dir(out).map_or(true, |mut entries| entries.next().is_some())
    {
        bail!("{} is not an empty folder\nhint: name another with --out", out.display());
    }
    let settings = arguments.search.settings(Goal::Run, &arguments.lab)?;
    let (folder, gated, summary) = with_campaign(context, &arguments.lab, settings, |campaign| {
        let folder = arguments.out.unwrap_or_else(|| {
            campaign.project.evidence_dir.join(format!("{}-bundle", campaign.run))
        });
        fs::create_dir_all(&folder).with_context(|| format!("cannot make {}", folder.display()))?;
        let summary = run::whole_job(campaign, Some(folder.join("report.html")))?;
        let gated = gate_all(campaign)?;
        if campaign.loaded.lab.target == TargetKind::Cuda {
            say(format!("  {:<9} {}", "profile", summary.winner.label()));
            let winner = &summary.winner;
            campaign.profile(&winner.kernel, &winner.params, &summary.full)?;
        }
        // Again, with every kernel's trial in it.
        super::report::write(campaign, Some(folder.join("report.html")))?;
        bundle(campaign, &folder, &gated, &summary)?;
        Ok((folder, gated, summary))
    })?;
    if context.json {
        let index = fs::read_to_string(folder.join(INDEX)).context("the index was just written")?;
        crate::output::json(&serde_json::from_str::<Json>(&index)?)?;
    } else {
        result(summary.render());
        for one in &gated {
            let word = if one.passed { paint(GOOD, "pass") } else { paint(BAD, "fail") };
            result(format!("  {word} {:<22} {}", one.kernel, one.verdict));
        }
        result(format!("\nbundle {}", folder.display()));
    }
    match gated.iter().filter(|one| !one.passed).count() {
        0 => Ok(()),
        failed => Err(CliFailure::Candidate(format!("{failed} kernel(s) fail the gate")).into()),
    }
}

/// Puts every kernel that this machine can run through the full gate, with its author's parameters.
fn gate_all(campaign: &mut Campaign) -> Result<Vec<Gated>> {
    let mut gated = Vec::new();
    for kernel in campaign.loaded.lab.kernels.clone() {
        campaign.stop_if_asked()?;
        if let Some(reason) = campaign.unavailable(&kernel, &kernel.default) {
            say(format!("  {} is left out: {reason}", kernel.name));
            continue;
        }
        if campaign.served(&kernel)?.is_empty() {
            say(format!("  {} is left out: it serves none of the workloads", kernel.name));
            continue;
        }
        let trial = campaign.full_trial(&campaign.winner(&kernel, &kernel.default))?;
        say(format!("  {:<9} {}: {}", "gate", kernel.name, trial.outcome.describe()));
        gated.push(Gated {
            kernel: kernel.name,
            verdict: trial.outcome.describe(),
            passed: passed(&trial),
        });
    }
    Ok(gated)
}

/// The index's file name.
const INDEX: &str = "index.json";

fn bundle(
    campaign: &Campaign,
    folder: &Path,
    gated: &[Gated],
    summary: &summary::Summary,
) -> Result<()> {
    let record = campaign.store.run(&campaign.run.0)?;
    export::export(&campaign.store, &record, folder, &export::Format::ALL)?;
    for (path, text) in labdir::read_files(&campaign.loaded.dir)? {
        // What a nested lab shares lies beside it; here everything lies below one folder.
        let path = folder.join("lab").join(path.replace("../", "shared/"));
        let parent = path.parent().unwrap_or(folder);
        fs::create_dir_all(parent).with_context(|| format!("cannot make {}", parent.display()))?;
        fs::write(&path, text).with_context(|| format!("cannot write {}", path.display()))?;
    }
    let mut files = Vec::new();
    list(folder, folder, &mut files)?;
    files.sort_by_key(|file| file["path"].as_str().map(str::to_string));
    let kernels: Vec<Json> = gated
        .iter()
        .map(|one| json!({ "kernel": one.kernel, "passed": one.passed, "verdict": one.verdict }))
        .collect();
    let index = json!({
        "format": 1,
        "warpsmith": env!("CARGO_PKG_VERSION"),
        "lab": campaign.loaded.lab.name,
        "lab_id": campaign.loaded.lab.id,
        "run": campaign.run,
        "made_unix_s": now_unix_s(),
        "environment": campaign.environment,
        "kernels": kernels,
        "summary": summary.to_json(),
        "files": files,
    });
    let path = folder.join(INDEX);
    fs::write(&path, serde_json::to_string_pretty(&index)? + "\n")
        .with_context(|| format!("cannot write {}", path.display()))
}

/// Lists the files below a folder with their sizes and hashes.
fn list(root: &Path, folder: &Path, files: &mut Vec<Json>) -> Result<()> {
    let entries =
        fs::read_dir(folder).with_context(|| format!("cannot list {}", folder.display()))?;
    for entry in entries {
        let path = entry.with_context(|| format!("cannot list {}", folder.display()))?.path();
        if path.is_dir() {
            list(root, &path, files)?;
            continue;
        }
        let content = fs::read(&path).with_context(|| format!("cannot read {}", path.display()))?;
        let name = path.strip_prefix(root).unwrap_or(&path).to_string_lossy();
        files.push(json!({
            "path": name, "bytes": content.len(), "blake3": BlobId::of(&content), "what": what(&name),
        }));
    }
    Ok(())
}

/// Says what a file of the bundle is.
fn what(path: &str) -> &'static str {
    match path {
        "report.html" => "the report",
        "evidence.json" => "every trial, comparison and environment",
        "micro_log.csv" => "the microbenchmark's trials",
        "micro_best.json" => "the microbenchmark's best",
        "evo_log.csv" => "the search's trials",
        "evo_best.json" => "the search's best",
        _ if path.starts_with("lab/") => "the lab as it was",
        _ if path.starts_with("kernel_tuner/") => "the search as a Kernel Tuner cache",
        _ if path.starts_with("t4/") => "the search in the T4 results format",
        _ if path.ends_with(".ncu-rep") || path.ends_with("ncu_profile.csv") => "a profile",
        _ => "a file of the evidence",
    }
}
