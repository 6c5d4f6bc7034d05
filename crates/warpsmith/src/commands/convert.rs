//! `warpsmith convert`: from the format of one tuner to that of another.

use std::io::Write;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, bail};
use clap::{Args, ValueEnum};
use flate2::Compression;
use flate2::write::GzEncoder;
use serde_json::Value as Json;
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
    /// File to write; one of that name is replaced
    #[arg(value_name = "OUT")]
    to: PathBuf,
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
    let ConvertArgs { from, to, format } = arguments;
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
    write(&to, &document)?;
    if context.json {
        return json(&serde_json::json!({ "written": to, "entries": count }));
    }
    let what = if format == Format::Space { "parameters" } else { "configurations" };
    result(format!("{} ({count} {what})", to.display()));
    Ok(())
}

/// Writes beside the file of that name and puts it in its place when it is complete.
fn write(path: &Path, document: &Json) -> Result<()> {
    let context = || format!("cannot write {}", path.display());
    let Some(name) = path.file_name() else {
        bail!("cannot write {}: it names no file", path.display());
    };
    let mut part = name.to_os_string();
    part.push(".part");
    let part = path.with_file_name(part);
    let is_compressed = path.extension().is_some_and(|extension| extension == "gz");
    let write_part = || -> Result<()> {
        let mut file = std::io::BufWriter::new(std::fs::File::create(&part)?);
        if is_compressed {
            let mut encoder = GzEncoder::new(&mut file, Compression::default());
            serde_json::to_writer(&mut encoder, document)?;
            encoder.finish()?;
        } else {
            serde_json::to_writer_pretty(&mut file, document)?;
            file.write_all(b"\n")?;
        }
        file.flush()?;
        std::fs::rename(&part, path)?;
        Ok(())
    };
    write_part().with_context(context).inspect_err(|_| {
        // The error at hand says more than one about removing what it left behind.
        let _gone = std::fs::remove_file(&part);
    })
}
