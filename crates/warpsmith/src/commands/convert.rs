//! `warpsmith convert`: from the format of one tuner to that of another.

use std::io::Write;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, bail};
use clap::{Args, ValueEnum};
use flate2::Compression;
use flate2::write::GzEncoder;
use serde_json::Value as Json;
use warpsmith_evidence::export::Part;
use warpsmith_search::{Recorded, SpaceSpec};

use super::Context;
use crate::output::{json, result};
use crate::recorded_file;

/// Convert the files of tuners into each other
///
/// Recorded spaces (Kernel Tuner caches, T4 results) become either of the two; spaces (T1 input files)
/// become the plain `{"name", "params", "constraints"}` that `warpsmith space` reads too. Files may be
/// compressed with gzip, and OUT is where its name ends with `.gz`. T4 results have no place for the
/// names of the kernel and of the device; metrics that a user added are not kept.
#[derive(Debug, Args)]
pub struct ConvertArgs {
    /// File to read
    #[arg(value_name = "IN")]
    from: PathBuf,
    /// File to write
    #[arg(value_name = "OUT")]
    to: PathBuf,
    /// Replace OUT where there is such a file
    #[arg(long)]
    force: bool,
    /// What to write
    #[arg(long, value_enum)]
    format: Format,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Format {
    /// Kernel Tuner's cache file
    KernelTuner,
    /// The FAIR auto-tuning results format, T4
    T4,
    /// A space: name, parameters, constraints
    Space,
}

pub fn run(context: &Context, arguments: ConvertArgs) -> Result<()> {
    let ConvertArgs { from, to, format, force } = arguments;
    let bytes = recorded_file::read(&from)?;
    let unusable = || format!("cannot use {}", from.display());
    let (document, count) = match format {
        Format::KernelTuner | Format::T4 => {
            let recorded = Recorded::read(&bytes).with_context(unusable)?;
            let count = recorded.entries().len();
            let document = match format {
                Format::KernelTuner => recorded.kernel_tuner_cache(),
                Format::T4 | Format::Space => recorded.t4_results(),
            };
            (document, count)
        }
        Format::Space => {
            let spec = SpaceSpec::read(&bytes).with_context(unusable)?;
            // What cannot be built is better refused here than by the next reader.
            spec.space().with_context(unusable)?;
            (spec.to_json(), spec.tunables.len())
        }
    };
    // Its own files look like those of the tuners, so it cannot tell which may be replaced.
    if to.exists() && !force {
        bail!(
            "{} exists, so it was left as it is\nhint: name another file, or replace it with --force",
            to.display()
        );
    }
    write(&to, &document)?;
    if context.json {
        return json(&serde_json::json!({ "written": to, "entries": count }));
    }
    let what = if format == Format::Space { "parameters" } else { "configurations" };
    result(format!("{} ({count} {what})", to.display()));
    Ok(())
}

fn write(path: &Path, document: &Json) -> Result<()> {
    let context = || format!("cannot write {}", path.display());
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
    if folder.is_some_and(|folder| !folder.is_dir()) {
        bail!("cannot write {}: its folder is not there", path.display());
    }
    let mut part = Part::begin(path).with_context(context)?;
    let is_compressed = path.extension().is_some_and(|extension| extension == "gz");
    let write_part = |part: &mut Part| -> Result<()> {
        if is_compressed {
            let mut encoder = GzEncoder::new(part, Compression::default());
            serde_json::to_writer(&mut encoder, document)?;
            encoder.finish()?;
        } else {
            serde_json::to_writer_pretty(&mut *part, document)?;
            part.write_all(b"\n")?;
        }
        Ok(())
    };
    write_part(&mut part).with_context(context)?;
    part.finish().with_context(context)
}
