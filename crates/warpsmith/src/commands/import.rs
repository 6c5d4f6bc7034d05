//! `warpsmith import`: problems from elsewhere as labs.

use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Result, bail};
use clap::{Args, Subcommand};
use serde_json::json;
use warpsmith_model::lab::TargetKind;

use super::{CliFailure, Context};
use crate::import::{Importer, Made};
use crate::output::{json as print_json, result, say};

/// Make labs of problems that others wrote: PyTorch and NumPy modules, FlashInfer-Trace definitions
///
/// Runs the problem, in a process of its own but without a sandbox, to learn its tensors, shapes, inputs
/// and tolerance: import what you trust. The lab's reference is the problem in double precision, its baseline
/// the problem as it is, and its one kernel a function to write.
#[derive(Debug, Args)]
pub struct ImportArgs {
    #[command(subcommand)]
    format: Format,
}

#[derive(Debug, Subcommand)]
enum Format {
    /// Import a Python module with `Model`, `get_inputs()` and `get_init_inputs()`
    Kernelbench(KernelbenchArgs),
    /// Import the definitions, workloads and solutions of a FlashInfer-Trace folder
    Flashinfer(FlashinferArgs),
}

#[derive(Debug, Args)]
struct KernelbenchArgs {
    /// The module
    file: PathBuf,
    /// Name of the lab; by default the file's
    #[arg(long, value_name = "NAME")]
    name: Option<String>,
    /// Import the module in evaluation mode: dropout off, running statistics fixed
    #[arg(long)]
    eval: bool,
    #[command(flatten)]
    common: CommonArgs,
}

#[derive(Debug, Args)]
struct FlashinferArgs {
    /// The folder that holds definitions/, workloads/ and solutions/
    folder: PathBuf,
    /// Definition to import; by default all (repeatable)
    #[arg(long, value_name = "NAME")]
    definition: Vec<String>,
    #[command(flatten)]
    common: CommonArgs,
}

#[derive(Debug, Args)]
struct CommonArgs {
    /// Folder to make labs in
    #[arg(long, value_name = "DIR", default_value = "labs")]
    into: PathBuf,
    /// Seconds that looking at a problem may take
    #[arg(long, value_name = "SECONDS", default_value_t = 120.0)]
    deadline: f64,
}

pub fn run(context: &Context, arguments: ImportArgs) -> Result<()> {
    match arguments.format {
        Format::Kernelbench(arguments) => {
            let importer = importer(context, arguments.common)?;
            let made =
                importer.kernelbench(&arguments.file, arguments.name.as_deref(), arguments.eval)?;
            if context.json {
                return print_json(&described(&made));
            }
            tell(&made);
            Ok(())
        }
        Format::Flashinfer(arguments) => {
            let importer = importer(context, arguments.common)?;
            flashinfer(context, &importer, &arguments.folder, &arguments.definition)
        }
    }
}

fn flashinfer(
    context: &Context,
    importer: &Importer<'_>,
    folder: &std::path::Path,
    wanted: &[String],
) -> Result<()> {
    let dataset = crate::import::flashinfer::Dataset::read(folder)?;
    let mut rows = Vec::new();
    let (mut failed, mut all) = (0, 0);
    for name in dataset.names(wanted)? {
        all += 1;
        match importer.flashinfer(&dataset, &name) {
            Ok(made) => {
                if !context.json {
                    tell(&made);
                }
                rows.push(described(&made));
            }
            Err(error) => {
                failed += 1;
                say(format!("`{name}` was not imported: {error:#}"));
                rows.push(json!({ "definition": name, "refused": format!("{error:#}") }));
            }
        }
    }
    if context.json {
        print_json(&json!({ "labs": rows }))?;
    }
    if failed > 0 {
        let words = format!("{failed} of {all} definition(s) were not imported");
        return Err(CliFailure::Candidate(words).into());
    }
    Ok(())
}

fn importer(context: &Context, arguments: CommonArgs) -> Result<Importer<'_>> {
    let seconds = arguments.deadline;
    if !(seconds.is_finite() && seconds > 0.0) {
        bail!("--deadline is {seconds}, but must be a positive number of seconds");
    }
    Ok(Importer {
        project: &context.project,
        target: context.target.unwrap_or(TargetKind::Cpu),
        into: arguments.into,
        deadline: Duration::from_secs_f64(seconds),
    })
}

fn described(made: &Made) -> serde_json::Value {
    json!({ "lab": made.dir, "files": made.files, "notes": made.notes })
}

fn tell(made: &Made) {
    let dir = made.dir.display();
    result(format!("made {dir} ({} files)", made.files.len()));
    made.notes.iter().for_each(|note| result(format!("  {note}")));
    result(format!(
        "next: write {dir}/kernels/00_start, then warpsmith check {dir} and warpsmith compare {dir}"
    ));
}
