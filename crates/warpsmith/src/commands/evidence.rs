//! `warpsmith evidence`: the whole suite on a lab, in one folder that can be archived.

use std::fs;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, bail};
use clap::Args;
use serde_json::{Value as Json, json};
use warpsmith_evidence::{Access, export};
use warpsmith_model::lab::TargetKind;
use warpsmith_model::{BlobId, Goal, ProfileRecord, RunSettings};

use super::{CliFailure, Context, SearchArgs, run, summary, with_campaign};
use crate::campaign::{Campaign, now_unix_s, passed};
use crate::labdir::{self, LoadedLab};
use crate::output::{BAD, GOOD, WARN, paint, result, say};

/// Do everything on a lab and bundle it: gate, microbenchmarks, search, comparison, profile
///
/// Does what `run` does, puts every kernel of the lab through the full gate, profiles the winner where
/// there are counters, and writes one folder: `report.html`, the evidence in every format, the lab itself in
/// `lab`, and `index.json` with the hash of each file.
/// Exits with 1 when a kernel fails the gate; the bundle is written nevertheless, and says so. Stopped or
/// killed, it is finished by `resume`, in the same folder.
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

/// What a campaign bundled.
#[derive(Debug)]
pub struct Bundled {
    folder: PathBuf,
    gated: Vec<Gated>,
    summary: summary::Summary,
}

/// A kernel and what the full gate said of it.
#[derive(Debug)]
struct Gated {
    kernel: String,
    verdict: String,
    passed: bool,
}

pub fn run(context: &Context, arguments: EvidenceArgs) -> Result<()> {
    let out = arguments.out.map(std::path::absolute).transpose()?;
    if let Some(out) = &out {
        refuse_used(out)?;
    }
    let settings =
        RunSettings { out, ..arguments.search.settings(Goal::Evidence, &arguments.lab)? };
    let bundled = with_campaign(context, &arguments.lab, settings, steps)?;
    show(context, &bundled)
}

/// Does everything and bundles it; also what `resume` does for such a run.
pub fn steps(campaign: &mut Campaign) -> Result<Bundled> {
    let folder = claim_folder(campaign)?;
    let summary = run::whole_job(campaign, Some(folder.join("report.html")))?;
    let gated = gate_all(campaign)?;
    let profiled = profile(campaign, &summary);
    // Again, with every kernel's trial in it.
    super::report::write_last(campaign, Some(folder.join("report.html")))?;
    let profile = match &profiled {
        Ok(record) => json!(record.as_ref().map(profile_json)),
        Err(error) => json!({ "error": format!("{error:#}") }),
    };
    bundle(campaign, &folder, &gated, &summary, &profile)?;
    profiled.with_context(|| {
        format!("the bundle {} is complete but for the winner's profile", folder.display())
    })?;
    Ok(Bundled { folder, gated, summary })
}

/// Prints what was bundled; fails where a kernel did.
pub fn show(context: &Context, bundled: &Bundled) -> Result<()> {
    let Bundled { folder, gated, summary } = bundled;
    if context.json {
        let index = fs::read_to_string(folder.join(INDEX)).context("the index was just written")?;
        crate::output::json(&serde_json::from_str::<Json>(&index)?)?;
    } else {
        result(summary.render());
        for one in gated {
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

/// The file that says whose bundle a folder will be, until its index is written.
const UNFINISHED: &str = "unfinished.json";

/// Refuses a folder that holds anything, before a campaign begins.
fn refuse_used(folder: &Path) -> Result<()> {
    if !holds_anything(folder) {
        return Ok(());
    }
    match run_in(&folder.join(UNFINISHED)) {
        Some(run) => bail!(
            "{} holds the unfinished bundle of {run}\nhint: `warpsmith resume {run}` finishes it, or \
             name another folder with --out",
            folder.display()
        ),
        None => {
            bail!("{} is not an empty folder\nhint: name another with --out", folder.display())
        }
    }
}

/// Makes the campaign's folder, or takes the one that it began earlier.
fn claim_folder(campaign: &Campaign) -> Result<PathBuf> {
    let own = || campaign.project.evidence_dir.join(format!("{}-bundle", campaign.run));
    let folder = campaign.settings.out.clone().unwrap_or_else(own);
    let is_own = |file: &str| run_in(&folder.join(file)).as_deref() == Some(&campaign.run.0);
    if holds_anything(&folder) && !is_own(UNFINISHED) && !is_own(INDEX) {
        bail!(
            "{} holds something else than the bundle of {}\nhint: move it away, then `warpsmith \
             resume {}` goes on",
            folder.display(),
            campaign.run,
            campaign.run
        );
    }
    let mut builder = fs::DirBuilder::new();
    builder.recursive(true);
    if campaign.settings.out.is_none() && campaign.project.access == Access::Owner {
        builder.mode(0o700);
    }
    builder.create(&folder).with_context(|| format!("cannot make {}", folder.display()))?;
    let path = folder.join(UNFINISHED);
    fs::write(&path, json!({ "run": campaign.run }).to_string() + "\n")
        .with_context(|| format!("cannot write {}", path.display()))?;
    Ok(folder)
}

/// Says whether there is something at a path that is not an empty folder.
fn holds_anything(folder: &Path) -> bool {
    folder.exists() && fs::read_dir(folder).map_or(true, |mut entries| entries.next().is_some())
}

/// Returns the run that a file of a bundle names.
fn run_in(path: &Path) -> Option<String> {
    let document: Json = serde_json::from_str(&fs::read_to_string(path).ok()?).ok()?;
    document["run"].as_str().map(str::to_string)
}

/// Profiles the winner of a CUDA lab; there is nothing to profile on the CPU.
fn profile(campaign: &mut Campaign, summary: &summary::Summary) -> Result<Option<ProfileRecord>> {
    if campaign.loaded.lab.target != TargetKind::Cuda {
        return Ok(None);
    }
    let winner = &summary.winner;
    say(format!("  {:<9} {}", "profile", winner.label()));
    let record = campaign.profile(&winner.kernel, &winner.params, &summary.full)?;
    super::profile::tell_what_is_missing(&record);
    Ok(Some(record))
}

/// Says for the index where a profile's counters come from, or why there are none.
fn profile_json(record: &ProfileRecord) -> Json {
    let workloads: Vec<Json> = record
        .workloads
        .iter()
        .map(|on| json!({ "workload": on.workload, "counters": on.counters }))
        .collect();
    json!({ "kernel": record.kernel, "workloads": workloads })
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
    profile: &Json,
) -> Result<()> {
    let record = campaign.store.run(&campaign.run.0)?;
    export::export(&campaign.store, &record, folder, &export::Format::ALL)?;
    let edited = lab_was_edited(&campaign.loaded);
    if edited {
        say(format!(
            "  {} {} was edited meanwhile; the bundle has the lab as the run read it",
            paint(WARN, "note"),
            campaign.loaded.dir.display()
        ));
    }
    for (path, text) in &campaign.loaded.files {
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
        "lab_edited_since": edited,
        "run": campaign.run,
        "made_unix_s": now_unix_s(),
        "environment": campaign.environment,
        "kernels": kernels,
        "profile": profile,
        "summary": summary.to_json(),
        "files": files,
    });
    let path = folder.join(INDEX);
    fs::write(&path, serde_json::to_string_pretty(&index)? + "\n")
        .with_context(|| format!("cannot write {}", path.display()))?;
    let marker = folder.join(UNFINISHED);
    fs::remove_file(&marker).with_context(|| format!("cannot remove {}", marker.display()))
}

/// Says whether the lab's folder holds something else now than what the campaign read.
fn lab_was_edited(loaded: &LoadedLab) -> bool {
    // A lab that cannot be loaded any more was edited, too.
    labdir::load(&loaded.dir).map_or(true, |now| now.lab.id != loaded.lab.id)
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
        // The index cannot hold its own hash, and the other one goes when it is written.
        if [INDEX, UNFINISHED].contains(&&*name) {
            continue;
        }
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_edit_of_the_lab_is_noticed_and_its_texts_are_kept() {
        let dir = tempfile::tempdir().expect("a folder");
        for (path, text) in warpsmith_model::lab::scaffold("probe").expect("a lab") {
            let path = dir.path().join(path);
            fs::create_dir_all(path.parent().expect("a folder")).expect("made");
            fs::write(path, text).expect("written");
        }
        let loaded = labdir::load(dir.path()).expect("the lab");
        assert!(!lab_was_edited(&loaded));
        let kernel = dir.path().join("kernels/00_naive.c");
        let source = fs::read_to_string(&kernel).expect("a source");
        fs::write(&kernel, format!("{source}\n// a remark\n")).expect("written");
        assert!(lab_was_edited(&loaded));
        assert_eq!(loaded.files["kernels/00_naive.c"], source);
        fs::write(&kernel, &source).expect("written");
        assert!(!lab_was_edited(&loaded));
        fs::remove_file(&kernel).expect("removed");
        assert!(lab_was_edited(&loaded), "a lab that does not load any more");
    }

    #[test]
    fn a_folder_says_whose_bundle_it_holds() {
        let dir = tempfile::tempdir().expect("a folder");
        assert!(refuse_used(dir.path()).is_ok() && refuse_used(&dir.path().join("new")).is_ok());
        fs::write(dir.path().join("notes.txt"), "mine").expect("written");
        let said = refuse_used(dir.path()).expect_err("it is used").to_string();
        assert!(said.contains("not an empty folder"), "{said}");
        fs::write(dir.path().join(UNFINISHED), "{\"run\": \"probe-1\"}").expect("written");
        let said = refuse_used(dir.path()).expect_err("it is used").to_string();
        assert!(said.contains("warpsmith resume probe-1"), "{said}");
    }
}
