//! `warpsmith space`: count, sample and list the configurations of a space.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::Instant;

use anyhow::{Context as _, Result, bail};
use clap::Args;
use warpsmith_model::lab::TargetKind;
use warpsmith_model::rng::Rng;
use warpsmith_model::{Expr, Params, Value};
use warpsmith_search::{Space, SpaceSpec};

use super::Context;
use super::build::device_of_arch;
use crate::campaign::ask_environment;
use crate::labdir;
use crate::output::{BOLD, json, paint, result};
use crate::recorded_file;
use crate::worker_client::Worker;

/// Count, sample or list the valid configurations of a space
///
/// FILE is a space written as JSON (`{"name", "params", "constraints"}`) or a T1 input file, plain
/// or compressed with gzip; LAB is the folder of a lab. Constraints have Python's meaning.
#[derive(Debug, Args)]
pub struct SpaceArgs {
    /// File of a space, or folder of a lab
    #[arg(value_name = "FILE|LAB")]
    what: PathBuf,
    /// Constraint beyond those that are written down (repeatable)
    #[arg(long, value_name = "EXPRESSION")]
    constraint: Vec<String>,
    /// Kernel of a lab; by default the last rung that has tunables
    #[arg(long, value_name = "NAME")]
    kernel: Option<String>,
    /// Architecture to count for (`sm_90a`), where a lab is for CUDA; by default the GPU's of this machine
    #[arg(long, value_name = "NAME")]
    arch: Option<String>,
    /// Print this many configurations, drawn uniformly
    #[arg(long, value_name = "N", conflicts_with = "list")]
    sample: Option<usize>,
    /// Seed of the sample
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
    /// Print all configurations, one JSON line each
    #[arg(long)]
    list: bool,
}

pub fn run(context: &Context, arguments: SpaceArgs) -> Result<()> {
    let further = arguments
        .constraint
        .iter()
        .map(|text| {
            Expr::parse(text).with_context(|| format!("--constraint `{text}` is no expression"))
        })
        .collect::<Result<Vec<Expr>>>()?;
    let (name, space, seconds) = if arguments.what.is_dir() {
        of_lab(context, &arguments, further)?
    } else if arguments.arch.is_some() {
        bail!("--arch is for the labs of a GPU; a file says all that its constraints need");
    } else {
        of_file(&arguments.what, further)?
    };
    if arguments.list {
        return lines(space.iter());
    }
    if let Some(count) = arguments.sample {
        let mut rng = Rng::derive(arguments.seed, "space sample");
        return lines((0..count).map(|_| space.sample(&mut rng)));
    }
    let peak = peak_rss_bytes();
    if context.json {
        return json(&serde_json::json!({
            "name": name, "cartesian": number(space.cartesian()), "valid": number(space.len()),
            "seconds": seconds, "peak_rss_bytes": peak,
        }));
    }
    result(format!("{} {name}", paint(BOLD, "space")));
    result(format!("  combinations  {}", space.cartesian()));
    result(format!("  valid         {}", space.len()));
    result(format!("  built in      {seconds:.4} s"));
    if let Some(bytes) = peak {
        result(format!("  peak memory   {:.1} MB", bytes as f64 / 1e6));
    }
    Ok(())
}

fn of_file(path: &Path, further: Vec<Expr>) -> Result<(String, Space, f64)> {
    let unusable = || format!("cannot use {}", path.display());
    let mut spec = SpaceSpec::read(&recorded_file::read(path)?).with_context(unusable)?;
    spec.constraints.extend(further);
    let started = Instant::now();
    let space = spec.space().with_context(unusable)?;
    let seconds = started.elapsed().as_secs_f64();
    let name = if spec.name.is_empty() { recorded_file::stem(path) } else { spec.name };
    Ok((name, space, seconds))
}

fn of_lab(
    context: &Context,
    arguments: &SpaceArgs,
    further: Vec<Expr>,
) -> Result<(String, Space, f64)> {
    let loaded = labdir::load(&labdir::for_target(&arguments.what, context.target)?)?;
    let lab = &loaded.lab;
    let kernel = match &arguments.kernel {
        Some(name) => {
            lab.kernel(name).with_context(|| format!("the lab has no kernel `{name}`"))?
        }
        None => match lab.kernels.iter().rev().find(|kernel| !kernel.tunables.is_empty()) {
            Some(kernel) => kernel,
            None => bail!("no kernel of the lab has tunables"),
        },
    };
    // Constraints may mention what only the device knows.
    let device = match &arguments.arch {
        Some(_) if lab.target != TargetKind::Cuda => {
            bail!("--arch is for the labs of a GPU\nhint: `--target cuda` names this lab's, if it has one")
        }
        Some(arch) => device_of_arch(arch)?,
        None => ask_environment(&mut Worker::new(&context.project, lab.target))
            .map_err(|error| match lab.target {
                TargetKind::Cuda => error.context(
                    "the device is needed, which constraints may mention\nhint: `--arch sm_90a` counts \
                     without one",
                ),
                TargetKind::Cpu => error,
            })?
            .device,
    };
    let constants = |name: &str| device.constant(name).map(Value::Int);
    let constraints = [kernel.constraints.clone(), further].concat();
    let started = Instant::now();
    let space = Space::new(&kernel.tunables, &constraints, &constants)
        .with_context(|| format!("the space of kernel `{}`", kernel.name))?;
    Ok((kernel.name.clone(), space, started.elapsed().as_secs_f64()))
}

/// Streams configurations to standard output, one JSON line each. There may be billions, so they are
/// neither collected nor flushed one by one.
fn lines(all: impl Iterator<Item = Params>) -> Result<()> {
    let mut writer = std::io::BufWriter::with_capacity(1 << 16, std::io::stdout().lock());
    for params in all {
        let mut line = serde_json::to_string(&params)?;
        line.push('\n');
        if is_closed(writer.write_all(line.as_bytes()))? {
            return Ok(());
        }
    }
    is_closed(writer.flush())?;
    Ok(())
}

/// Says whether the reader went away (`| head`), which ends a list quietly as it does for other tools.
fn is_closed(written: std::io::Result<()>) -> Result<bool> {
    match written {
        Ok(()) => Ok(false),
        Err(error) if error.kind() == std::io::ErrorKind::BrokenPipe => Ok(true),
        Err(error) => Err(error).context("cannot write to standard output"),
    }
}

/// Counts beyond what JSON readers keep exactly are written as text.
fn number(count: u128) -> serde_json::Value {
    u64::try_from(count).map_or_else(|_| count.to_string().into(), Into::into)
}

/// Returns the most memory that this process has held, where the system tells.
fn peak_rss_bytes() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    let kilobytes: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kilobytes * 1024)
}
