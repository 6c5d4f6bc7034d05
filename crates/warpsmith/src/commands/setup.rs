//! `warpsmith setup`: optional parts, into a project-local environment.

use std::collections::BTreeSet;
use std::io::{BufRead, IsTerminal, Write};
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, Result, bail};
use clap::{Args, ValueEnum};

use super::Context;
use crate::labdir;
use crate::output::{json, result, say};

/// Provide optional parts, such as Python baselines, in a project-local environment
///
/// Says what will be installed, from where and about how large, and asks before it does.
#[derive(Debug, Args)]
pub struct SetupArgs {
    /// What to provide
    #[arg(value_enum, default_value = "baselines")]
    part: Part,
    /// Folder of a lab, or of labs, whose baselines are wanted
    #[arg(long, value_name = "DIR", default_value = "labs")]
    labs: PathBuf,
    /// Do not ask
    #[arg(long, short)]
    yes: bool,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Part {
    /// The Python packages of the labs' baselines
    Baselines,
    /// The CUDA compilers, headers, disassembler and sanitizers
    Cuda,
}

/// NVIDIA's packages, each with its version: the compiler would pull in the others unpinned.
const CUDA_PACKAGES: [&str; 9] = [
    "nvidia-cuda-nvcc==13.0.*",
    "nvidia-cuda-crt==13.0.*",
    "nvidia-nvvm==13.0.*",
    "nvidia-cuda-runtime==13.0.*",
    "nvidia-cuda-cccl==13.0.*",
    "nvidia-cuda-nvrtc==13.0.*",
    // These two are not published for 13.0, and read what it makes.
    "nvidia-cuda-cuobjdump==13.2.*",
    "nvidia-cuda-nvdisasm==13.2.*",
    // Earlier ones take the barriers of asynchronous copies and of warpgroups for races.
    "nvidia-cuda-sanitizer-api==13.4.*",
];
/// About what they take on disk.
const CUDA_SIZE_MB: u32 = 570;

pub fn run(context: &Context, arguments: SetupArgs) -> Result<()> {
    let (what, venv, packages, size_mb) = match arguments.part {
        Part::Baselines => {
            let (packages, size_mb) = wanted(&arguments.labs)?;
            if packages.is_empty() {
                bail!("no lab in {} has baselines", arguments.labs.display());
            }
            ("baselines", context.project.venv(), packages, size_mb)
        }
        Part::Cuda => {
            let packages = CUDA_PACKAGES.iter().map(|package| (*package).to_string()).collect();
            ("the CUDA tools", context.project.cuda(), packages, CUDA_SIZE_MB)
        }
    };
    let list: Vec<&str> = packages.iter().map(String::as_str).collect();
    say(format!(
        "{what} need these Python packages: {}\nthey are installed with pip into {} (about \
         {size_mb} MB on disk); nothing else is touched, and removing that folder undoes it",
        list.join(", "),
        venv.display()
    ));
    if !arguments.yes && !confirmed()? {
        bail!("nothing was installed\nhint: --yes answers for you");
    }
    if !venv.join("bin/python").exists() {
        std::fs::create_dir_all(&context.project.work_dir)
            .with_context(|| format!("cannot make {}", context.project.work_dir.display()))?;
        command(Command::new("python3").args(["-m", "venv"]).arg(&venv)).context(
            "cannot make a virtual environment\nhint: install Python 3 with its venv module (on \
             Debian: apt-get install python3-venv)",
        )?;
    }
    let python = venv.join("bin/python");
    let mut pip = Command::new(&python);
    pip.args(["-m", "pip", "install", "--disable-pip-version-check", "--quiet"]).args(&list);
    command(&mut pip).context("pip could not install the packages")?;
    if context.json {
        return json(&serde_json::json!({ "python": python, "packages": list }));
    }
    result(format!("{what} are ready in {}", venv.display()));
    Ok(())
}

/// Collects the packages of every baseline below a folder, and their sizes.
fn wanted(labs: &Path) -> Result<(BTreeSet<String>, u32)> {
    let mut packages = BTreeSet::new();
    let mut size_mb = 0;
    let dirs: Vec<PathBuf> = if labs.join("lab.toml").is_file() {
        vec![labs.to_path_buf()]
    } else {
        let entries = std::fs::read_dir(labs).with_context(|| {
            format!("cannot list {}\nhint: name a folder of labs with --labs", labs.display())
        })?;
        let mut dirs: Vec<PathBuf> = entries
            .filter_map(|entry| entry.ok().map(|entry| entry.path()))
            .filter(|dir| dir.join("baselines").is_dir())
            .collect();
        dirs.sort();
        dirs
    };
    for dir in dirs {
        for baseline in labdir::load(&dir)?.lab.baselines {
            size_mb = size_mb.max(baseline.size_mb);
            packages.extend(baseline.packages);
        }
    }
    Ok((packages, size_mb))
}

fn confirmed() -> Result<bool> {
    let stdin = std::io::stdin();
    if !stdin.is_terminal() {
        return Ok(false);
    }
    let mut stderr = std::io::stderr();
    write!(stderr, "install? [y/N] ")?;
    stderr.flush()?;
    let mut answer = String::new();
    stdin.lock().read_line(&mut answer)?;
    Ok(matches!(answer.trim(), "y" | "Y" | "yes"))
}

/// Runs a command whose output goes to standard error, since standard output is ours.
fn command(command: &mut Command) -> Result<()> {
    let output = command
        .output()
        .with_context(|| format!("cannot run {}", command.get_program().to_string_lossy()))?;
    say(String::from_utf8_lossy(&output.stdout).trim_end());
    if !output.status.success() {
        bail!("{}\n{}", output.status, String::from_utf8_lossy(&output.stderr).trim_end());
    }
    Ok(())
}
