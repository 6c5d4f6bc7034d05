//! `warpsmith export`: the evidence in formats that other tools read.

use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, bail};
use clap::{Args, ValueEnum};
use warpsmith_evidence::Store;
use warpsmith_evidence::derive::winner;
use warpsmith_evidence::export::{self, ExportError};
use warpsmith_model::{RunRecord, RunSettings};

use super::Context;
use crate::campaign::evolve::write_kernel;
use crate::campaign::restore;
use crate::labdir;
use crate::output::{end_unwritten, json, result, say};

/// Write the evidence of a run for other tools
#[derive(Debug, Args)]
pub struct ExportArgs {
    /// Run, by name or unique beginning; `latest` is the newest
    run: String,
    /// What to write
    #[arg(long, value_enum, default_value = "csv")]
    format: Format,
    /// Folder to write into; by default one named after the run beside the evidence. `-` is standard output,
    /// for `--format json`
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Format {
    /// micro_log.csv, micro_best.json, evo_log.csv, evo_best.json; the winner's source and contract where
    /// a model or an agent wrote it
    Csv,
    /// evidence.json: everything
    Json,
    /// Kernel Tuner's cache file
    KernelTuner,
    /// The FAIR auto-tuning results format, T4
    T4,
    /// dispatch.json: which configuration to use on which shape
    Dispatch,
    /// The profiler's files: ncu_profile.csv, and .ncu-rep for its own viewer
    Profile,
    /// FlashInfer-Trace: traces and solutions of the kernels that went through the full gate
    Flashinfer,
    /// Everything above
    All,
}

pub fn run(context: &Context, arguments: ExportArgs) -> Result<()> {
    let store = Store::open_read_only(&context.project.database())?;
    store.refuse_lost_rows()?;
    let record = store.run(&arguments.run)?;
    let run = &record.id;
    let out = arguments.out.unwrap_or_else(|| context.project.evidence_dir.join(&run.0));
    if out == Path::new("-") {
        return match arguments.format {
            Format::Json => {
                let mut writer = std::io::stdout().lock();
                let name = Path::new("standard output");
                match export::write_evidence(&store, &record, name, &mut writer) {
                    // Whoever reads it has seen enough, or the disk behind it is full.
                    Err(ExportError::Write { source, .. }) => end_unwritten(&source),
                    outcome => Ok(outcome?),
                }
            }
            _ => bail!("`--out -` is for `--format json`; the other formats are several files"),
        };
    }
    let formats: &[export::Format] = match arguments.format {
        Format::Csv => &[export::Format::Logs, export::Format::Best],
        Format::Json => &[export::Format::Evidence],
        Format::KernelTuner => &[export::Format::KernelTuner],
        Format::T4 => &[export::Format::T4],
        Format::Dispatch => &[export::Format::Dispatch],
        Format::Profile => &[export::Format::Profile],
        Format::Flashinfer => &[export::Format::FlashInfer],
        Format::All => &export::Format::ALL,
    };
    let mut files = export::export(&store, &record, &out, formats)?;
    if matches!(arguments.format, Format::Csv | Format::All) {
        files.extend(winner_files(&store, &record, &out)?);
    }
    if files.is_empty() && matches!(arguments.format, Format::Dispatch) {
        bail!(
            "{run} has no dispatch table: no finalists were measured against each other\nhint: \
             `warpsmith tune LAB --objective dispatch` makes one"
        );
    }
    if files.is_empty() && matches!(arguments.format, Format::Profile) {
        bail!(
            "{run} has no files of a profiler: nothing was profiled in it under Nsight Compute\nhint: \
             `warpsmith profile LAB --kernel NAME` makes them, for CUDA kernels"
        );
    }
    if files.is_empty() && matches!(arguments.format, Format::Flashinfer) {
        bail!(
            "{run} has no traces: no kernel went through the full gate in it\nhint: `warpsmith check \
             LAB` and `warpsmith tune LAB` run it"
        );
    }
    if context.json {
        return json(&serde_json::json!({ "run": run, "files": files }));
    }
    for file in files {
        result(file.display());
    }
    Ok(())
}

/// Writes the source and the contract of a run's winner where no file of the lab holds them, because a
/// model or an agent wrote it.
fn winner_files(store: &Store, record: &RunRecord, out: &Path) -> Result<Vec<PathBuf>> {
    let is_written = !store.calls(&record.id)?.is_empty() || !store.sources(&record.id)?.is_empty();
    if !is_written {
        return Ok(Vec::new());
    }
    let (summaries, comparisons) = (store.summaries(&record.id)?, store.comparisons(&record.id)?);
    let Some(winner) = winner(record, &summaries, &comparisons) else {
        say(format!("{} has no winner, so there is no source of it", record.id));
        return Ok(Vec::new());
    };
    let candidate = store.trial(&winner.trial.id.to_string())?.job.candidate;
    let settings: RunSettings = serde_json::from_value(serde_json::to_value(&record.settings)?)
        .with_context(|| format!("the settings of {} cannot be read", record.id))?;
    let lab = labdir::load(&settings.lab_dir)
        .with_context(|| format!("the winner keeps a contract of the lab that {} used", record.id))?
        .lab;
    if lab.kernel(&candidate.kernel).is_some() {
        say(format!("the winner is the lab's own `{}`; its files are there", candidate.kernel));
        return Ok(Vec::new());
    }
    let kernel = restore(store, &lab, &record.id, &candidate)?;
    Ok(write_kernel(&kernel, lab.target, out)?.into())
}
