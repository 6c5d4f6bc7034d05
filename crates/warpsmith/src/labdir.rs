//! Reads a lab's folder; the model parses the texts.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use warpsmith_model::Lab;
use warpsmith_model::lab::{LabFiles, TargetKind};

/// A lab and the folder that it came from.
#[derive(Debug)]
pub struct LoadedLab {
    /// The folder, absolute.
    pub dir: PathBuf,
    /// The lab.
    pub lab: Lab,
    /// The texts that it was parsed from.
    pub files: LabFiles,
}

/// Files that belong to a lab, by ending; anything else (notes, plots) may change without making
/// it another lab.
const ENDINGS: [&str; 6] = ["toml", "c", "cu", "cuh", "h", "py"];

/// The largest file that is read: a source of this size is a mistake.
const MAX_FILE_BYTES: u64 = 4 << 20;

/// Loads and validates a lab.
pub fn load(dir: &Path) -> Result<LoadedLab> {
    let files = read_files(dir)?;
    let dir = dir.canonicalize().with_context(|| format!("cannot resolve {}", dir.display()))?;
    let lab = Lab::parse(&files).map_err(|errors| {
        anyhow::anyhow!("the lab in {} is not valid\n\n{errors}", dir.display())
    })?;
    Ok(LoadedLab { dir, lab, files })
}

/// Reads the texts of a lab's files, by path relative to its folder.
fn read_files(dir: &Path) -> Result<LabFiles> {
    if !dir.is_dir() {
        bail!(
            "there is no lab at {}: no such folder\nhint: name a folder that holds a lab.toml, or \
             make one with `warpsmith new NAME`",
            dir.display()
        );
    }
    if !dir.join("lab.toml").is_file() {
        bail!(
            "{} is not a lab: it has no lab.toml\nhint: `warpsmith new NAME` makes a lab",
            dir.display()
        );
    }
    let mut files = LabFiles::new();
    for folder in ["", "kernels", "baselines", "include"] {
        read_folder(&dir.join(folder), folder, &mut files)?;
    }
    // A lab for another target lies in the folder of the lab that it belongs to, and shares its
    // reference and its headers.
    let is_nested = dir.join("../lab.toml").is_file();
    if is_nested {
        let mut outer = LabFiles::new();
        read_folder(&dir.join(".."), "..", &mut outer)?;
        let shared = [".c", ".h", ".py"];
        outer.retain(|path, _| shared.iter().any(|ending| path.ends_with(ending)));
        files.append(&mut outer);
        read_folder(&dir.join("../../include"), "../include", &mut files)?;
        read_folder(&dir.join("../../include/ptx"), "../include/ptx", &mut files)?;
    } else {
        read_folder(&dir.join("../include"), "../include", &mut files)?;
    }
    Ok(files)
}

/// Finds the folder of a lab for a target: the lab itself, or the folder inside of it that has the
/// target's name.
pub fn for_target(dir: &Path, target: Option<TargetKind>) -> Result<PathBuf> {
    let Some(target) = target else { return Ok(dir.to_path_buf()) };
    let inside = dir.join(target.name());
    if inside.join("lab.toml").is_file() {
        return Ok(inside);
    }
    // An invalid lab is reported when it is loaded.
    match load(dir) {
        Ok(loaded) if loaded.lab.target != target => bail!(
            "the lab in {} runs on `{}`, and has no folder `{}` with a lab for that target",
            dir.display(),
            loaded.lab.target.name(),
            target.name(),
        ),
        _ => Ok(dir.to_path_buf()),
    }
}

fn read_folder(folder: &Path, prefix: &str, files: &mut LabFiles) -> Result<()> {
    if !folder.is_dir() {
        return Ok(());
    }
    let entries =
        fs::read_dir(folder).with_context(|| format!("cannot list {}", folder.display()))?;
    for entry in entries {
        let path = entry.with_context(|| format!("cannot list {}", folder.display()))?.path();
        let ending = path.extension().and_then(|ending| ending.to_str()).unwrap_or("");
        if !path.is_file() || !ENDINGS.contains(&ending) {
            continue;
        }
        let name = path
            .file_name()
            .and_then(|name| name.to_str())
            .with_context(|| format!("{} has a name that is not UTF-8", path.display()))?;
        let size = fs::metadata(&path).map(|meta| meta.len()).unwrap_or(0);
        if size > MAX_FILE_BYTES {
            bail!("{} has {size} bytes; a lab's file has at most {MAX_FILE_BYTES}", path.display());
        }
        let text = fs::read_to_string(&path)
            .with_context(|| format!("cannot read {} as UTF-8 text", path.display()))?;
        let key = if prefix.is_empty() { name.to_string() } else { format!("{prefix}/{name}") };
        files.insert(key, text);
    }
    Ok(())
}
