//! `warpsmith setup`: optional parts, into a project-local environment.

use std::collections::BTreeSet;
use std::io::{BufRead, IsTerminal, Write};
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, Result, bail};
use clap::{Args, ValueEnum};
use warpsmith_device::cuda;
use warpsmith_model::lab::TargetKind;

use super::Context;
use crate::labdir;
use crate::output::{json, result, say};

/// Provide optional parts, such as Python baselines, in a project-local environment
///
/// Says what will be installed with pip, where to and about how large, and asks before it does.
#[derive(Debug, Args)]
pub struct SetupArgs {
    /// What to provide
    #[arg(value_enum, default_value = "baselines")]
    part: Part,
    /// Folder of a lab, or of labs, whose baselines are wanted; those for a GPU (in the labs' folders
    /// `cuda`) are included where there is one, or with --target cuda
    #[arg(long, value_name = "DIR", default_value = "labs")]
    labs: PathBuf,
    /// Package to install instead of those of the labs, for problems that are to be imported (repeatable)
    #[arg(long, value_name = "NAME")]
    package: Vec<String>,
    /// Do not ask
    #[arg(long, short)]
    yes: bool,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Part {
    /// The Python packages of the labs' baselines, and of references that are scripts
    Baselines,
    /// The CUDA compilers, headers (CUTLASS's among them), disassembler and sanitizers
    Cuda,
}

/// NVIDIA's packages, each with its version: the compiler would pull in the others unpinned.
const CUDA_PACKAGES: [&str; 10] = [
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
    // Headers that the CUTLASS baseline is compiled from.
    "nvidia-cutlass==4.2.0.0",
];
/// About what they take on disk.
const CUDA_SIZE_MB: u32 = 620;
/// The packages above are all that is needed; what some of them name beside is for other uses.
const CUDA_PIP_FLAGS: [&str; 1] = ["--no-deps"];

pub fn run(context: &Context, arguments: SetupArgs) -> Result<()> {
    let (what, venv, packages, size_mb, flags) = match arguments.part {
        Part::Baselines => {
            let (packages, size_mb) = if arguments.package.is_empty() {
                wanted_baselines(context, &arguments.labs)?
            } else {
                (arguments.package.iter().cloned().collect(), 0)
            };
            ("baselines", context.project.venv(), packages, size_mb, &[][..])
        }
        Part::Cuda => {
            let packages = CUDA_PACKAGES.iter().map(|package| (*package).to_string()).collect();
            let venv = context.project.cuda();
            ("the CUDA tools", venv, packages, CUDA_SIZE_MB, &CUDA_PIP_FLAGS[..])
        }
    };
    let list: Vec<&str> = packages.iter().map(String::as_str).collect();
    let size = if size_mb == 0 {
        "unknown size".to_string()
    } else {
        format!("about {size_mb} MB on disk")
    };
    say(format!(
        "{what} need these Python packages: {}\nthey are installed with pip into {} ({size}); \
         nothing else is touched, and removing that folder undoes it",
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
    pip.args(["-m", "pip", "install", "--disable-pip-version-check", "--quiet"])
        .args(flags)
        .args(&list);
    command(&mut pip).context("pip could not install the packages")?;
    if context.json {
        return json(&serde_json::json!({ "python": python, "packages": list }));
    }
    result(format!("{what} are ready in {}", venv.display()));
    Ok(())
}

/// Collects the packages of the baselines below a folder, for the targets that were asked for or that this
/// machine has; says which were left out.
fn wanted_baselines(context: &Context, labs: &Path) -> Result<(BTreeSet<String>, u32)> {
    let all = lab_folders(labs)?;
    let has_gpu = cuda::has_driver();
    let is_wanted = |target: TargetKind| match context.target {
        Some(asked) => target == asked,
        // Gigabytes that a machine without a GPU has no use for.
        None => target == TargetKind::Cpu || has_gpu,
    };
    let mut packages = BTreeSet::new();
    let mut size_mb = 0;
    let mut left_out = Vec::new();
    for dir in all {
        let lab = labdir::load(&dir)?.lab;
        let (for_reference, reference_mb) = lab.reference_packages();
        if lab.baselines.is_empty() && for_reference.is_empty() {
            continue;
        }
        // A lab that was named itself is wanted, whatever the machine has.
        if !is_wanted(lab.target) && dir != labs {
            left_out.push(dir.display().to_string());
            continue;
        }
        size_mb = size_mb.max(reference_mb);
        packages.extend(for_reference.iter().cloned());
        for baseline in lab.baselines {
            size_mb = size_mb.max(baseline.size_mb);
            packages.extend(baseline.packages);
        }
    }
    if !left_out.is_empty() && context.target.is_none() {
        say(format!(
            "left out, since there is no CUDA driver here: {}\nhint: --target cuda provides those",
            left_out.join(", ")
        ));
    }
    if packages.is_empty() {
        bail!("no lab in {} has baselines that were asked for", labs.display());
    }
    Ok((packages, size_mb))
}

/// Lists the labs of a folder, or the one that it is, and the labs for other targets inside of them.
fn lab_folders(labs: &Path) -> Result<Vec<PathBuf>> {
    let mut outer = vec![labs.to_path_buf()];
    if !labs.join("lab.toml").is_file() {
        let entries = std::fs::read_dir(labs).with_context(|| {
            format!("cannot list {}\nhint: name a folder of labs with --labs", labs.display())
        })?;
        outer = entries.filter_map(|entry| entry.ok().map(|entry| entry.path())).collect();
        outer.sort();
    }
    let inner = |dir: &PathBuf| [dir.clone(), dir.join(TargetKind::Cuda.name())];
    let is_lab = |dir: &PathBuf| dir.join("lab.toml").is_file() && dir.join("baselines").is_dir();
    Ok(outer.iter().flat_map(inner).filter(is_lab).collect())
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labs_inside_of_labs_are_found() {
        let labs = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../labs");
        let found = lab_folders(&labs).expect("the labs of this repository");
        assert!(found.contains(&labs.join("gemm")), "{found:?}");
        assert!(found.contains(&labs.join("gemm/cuda")), "{found:?}");
        let inside = lab_folders(&labs.join("gemm/cuda")).expect("a lab");
        assert_eq!(inside, [labs.join("gemm/cuda")]);
    }
}
