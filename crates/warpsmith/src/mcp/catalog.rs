//! The labs that agents may use, by name; and the files that they may hand in.

use std::path::{Component, Path, PathBuf};

use anyhow::{Context, Result, bail};
use warpsmith_model::lab::TargetKind;
use warpsmith_model::suggest;
use warpsmith_search::evolve::MAX_SOURCE_BYTES;

use crate::labdir::{self, LoadedLab};

/// A folder of labs.
#[derive(Clone, Debug)]
pub struct Catalog {
    labs: PathBuf,
    target: Option<TargetKind>,
}

/// Endings of files that can be sources: nothing else of a project is read on an agent's word.
const SOURCE_ENDINGS: [&str; 3] = ["c", "cu", "cuh"];

impl Catalog {
    /// Opens a folder of labs; `target` leaves only those for it.
    pub fn open(labs: &Path, target: Option<TargetKind>) -> Result<Self> {
        let catalog = Self { labs: labs.to_path_buf(), target };
        if labs.join("lab.toml").is_file() {
            bail!(
                "{} is a lab, not a folder of labs\nhint: name the folder around it with --labs",
                labs.display()
            );
        }
        catalog.names()?;
        Ok(catalog)
    }

    /// Lists the labs: folders with a `lab.toml`, and those for CUDA inside of them (`saxpy/cuda`).
    pub fn names(&self) -> Result<Vec<String>> {
        let entries = std::fs::read_dir(&self.labs).with_context(|| {
            format!("cannot list {}\nhint: name a folder of labs with --labs", self.labs.display())
        })?;
        let mut names = Vec::new();
        for entry in entries {
            let entry = entry.with_context(|| format!("cannot list {}", self.labs.display()))?;
            // A name that is no text cannot be asked for.
            let Ok(name) = entry.file_name().into_string() else { continue };
            let inner = format!("{name}/{}", TargetKind::Cuda.name());
            names.extend(
                [name, inner]
                    .into_iter()
                    .filter(|it| self.labs.join(it).join("lab.toml").is_file()),
            );
        }
        names.sort();
        Ok(names)
    }

    /// Returns the names of labs that lists leave out: those that begin with an underscore are for tests,
    /// and may have hundreds of kernels. They can be asked for by name.
    pub fn unlisted(&self) -> Result<Vec<String>> {
        Ok(self.names()?.into_iter().filter(|name| name.starts_with('_')).collect())
    }

    /// Loads every lab that is listed and that the target leaves, each with its name; those that are not
    /// valid with why.
    pub fn all(&self) -> Result<Vec<(String, Result<LoadedLab>)>> {
        let mut labs = Vec::new();
        for name in self.names()?.into_iter().filter(|name| !name.starts_with('_')) {
            let loaded = labdir::load(&self.labs.join(&name));
            let is_wanted = match (&loaded, self.target) {
                (Ok(loaded), Some(target)) => loaded.lab.target == target,
                _ => true,
            };
            if is_wanted {
                labs.push((name, loaded));
            }
        }
        Ok(labs)
    }

    /// Loads a lab by its name. Only names from the list are looked for, so no name leads elsewhere.
    pub fn load(&self, name: &str) -> Result<LoadedLab> {
        let names = self.names()?;
        if !names.iter().any(|known| known == name) {
            let shown: String = name.chars().take(80).collect();
            let meant = suggest::closest(name, names.iter().map(String::as_str));
            let meant = meant.map_or_else(String::new, |meant| format!("did you mean `{meant}`? "));
            bail!(
                "there is no lab `{shown}`\nhint: {meant}labs are named as list_labs names them: {}",
                names.join(", ")
            );
        }
        labdir::load(&self.labs.join(name))
    }
}

/// Reads a source from a file of the project, which is the folder that the server was started in.
pub fn source_file(path: &str) -> Result<String> {
    let project = std::env::current_dir().context("cannot find the project's folder")?;
    let given = Path::new(path);
    let leaves = given.components().any(|part| !matches!(part, Component::Normal(_)));
    if path.is_empty() || leaves {
        bail!(
            "`{path}` does not lead into the project\nhint: name a file by its path from {}, without \
             `..`, or hand in the source itself",
            project.display()
        );
    }
    let ending = given.extension().and_then(|ending| ending.to_str()).unwrap_or("");
    if !SOURCE_ENDINGS.contains(&ending) {
        bail!("`{path}` is not read as a source: its name ends in none of .c, .cu, .cuh");
    }
    let full = project.join(given);
    let resolved = full.canonicalize().with_context(|| format!("cannot find {path}"))?;
    let inside = project.canonicalize().context("cannot resolve the project's folder")?;
    if !resolved.starts_with(&inside) {
        bail!("`{path}` is a link that leads out of the project");
    }
    let meta = std::fs::metadata(&resolved).with_context(|| format!("cannot read {path}"))?;
    if !meta.is_file() {
        bail!("`{path}` is not a file");
    }
    if meta.len() > MAX_SOURCE_BYTES as u64 {
        bail!("`{path}` has {} bytes; a source has at most {MAX_SOURCE_BYTES}", meta.len());
    }
    std::fs::read_to_string(&resolved).with_context(|| format!("cannot read {path} as UTF-8 text"))
}
