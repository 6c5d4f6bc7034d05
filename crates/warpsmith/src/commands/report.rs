//! `warpsmith report`: the evidence as one HTML file.

use std::io::Write;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};
use clap::Args;
use warpsmith_evidence::report::{self, ReportData};
use warpsmith_evidence::{Store, export};
use warpsmith_model::{RunId, RunStatus};

use super::Context;
use super::replace::{Product, refuse_other};
use crate::campaign::{Campaign, now_unix_s};
use crate::output::{json, result};

/// Write the report of a run: one self-contained HTML file
#[derive(Debug, Args)]
pub struct ReportArgs {
    /// Run, by name or unique beginning; `latest` is the newest
    #[arg(default_value = "latest")]
    run: String,
    /// File to write, `-` for standard output; by default beside the evidence. An earlier report is
    /// replaced, any other file is not
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
}

/// The path that stands for the standard output.
const STDOUT: &str = "-";

pub fn run(context: &Context, arguments: ReportArgs) -> Result<()> {
    let store = Store::open_read_only(&context.project.database())?;
    let run = store.run(&arguments.run)?.id;
    let path = arguments.out.unwrap_or_else(|| context.project.report(&run.0));
    render(&store, &run, &path)?;
    if path == Path::new(STDOUT) {
        return Ok(());
    }
    if context.json {
        json(&serde_json::json!({ "run": run, "report": path }))
    } else {
        result(path.display());
        Ok(())
    }
}

/// Writes the report of a campaign that goes on, and returns where it is.
pub fn write(campaign: &Campaign, path: Option<PathBuf>) -> Result<PathBuf> {
    let path = path.unwrap_or_else(|| campaign.project.report(&campaign.run.0));
    render(&campaign.store, &campaign.run, &path)?;
    Ok(path)
}

/// Writes the report of a campaign as its last step, and returns where it is. The store hears of the end
/// only when this has succeeded, so the report is told beforehand.
pub fn write_last(campaign: &Campaign, path: Option<PathBuf>) -> Result<PathBuf> {
    let path = path.unwrap_or_else(|| campaign.project.report(&campaign.run.0));
    let mut data = report::gather(&campaign.store, &campaign.run)?;
    data.run.status = RunStatus::Finished { ended_unix_s: now_unix_s() };
    write_page(&data, &path)?;
    Ok(path)
}

fn render(store: &Store, run: &RunId, path: &Path) -> Result<()> {
    write_page(&report::gather(store, run)?, path)
}

fn write_page(data: &ReportData, path: &Path) -> Result<()> {
    let page = report::render(data);
    if path == Path::new(STDOUT) {
        result(page.trim_end());
        return Ok(());
    }
    refuse_other(path, Product::Report)?;
    let cannot = || {
        let path = path.display();
        format!(
            "cannot write the report to {path}\nhint: --out names another file, and `-` is the standard output"
        )
    };
    let mut part = export::Part::begin(path).with_context(cannot)?;
    part.write_all(page.as_bytes()).with_context(cannot)?;
    part.finish().with_context(cannot)
}
