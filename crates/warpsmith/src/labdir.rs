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
    // A lab for another target lies in the folder of the lab that it belongs to, and shares its
    // reference and its headers.
    let is_nested = dir.join("../lab.toml").is_file();
    let (whole, headers) = match is_nested {
        true => (dir.join(".."), dir.join("../../include")),
        false => (dir.to_path_buf(), dir.join("../include")),
    };
    check_shared(&whole, &headers)?;
    let bounds = Bounds::of(&[whole.clone(), headers.clone()])?;
    for folder in ["", "kernels", "baselines", "include"] {
        read_folder(&dir.join(folder), folder, &bounds, &mut files)?;
    }
    if is_nested {
        let mut outer = LabFiles::new();
        read_folder(&whole, "..", &bounds, &mut outer)?;
        let shared = [".c", ".h", ".py"];
        outer.retain(|path, _| shared.iter().any(|ending| path.ends_with(ending)));
        files.append(&mut outer);
        read_folder(&headers.join("ptx"), "../include/ptx", &bounds, &mut files)?;
    }
    read_folder(&headers, "../include", &bounds, &mut files)?;
    Ok(files)
}

/// Refuses a folder of shared headers that does not lie beside the lab: it would itself be the bound for what is
/// read from it.
fn check_shared(whole: &Path, headers: &Path) -> Result<()> {
    let resolve = |path: &Path| {
        path.canonicalize().with_context(|| format!("cannot resolve {}", path.display()))
    };
    if !headers.is_dir() {
        return Ok(());
    }
    let (place, target) = (resolve(&whole.join(".."))?.join("include"), resolve(headers)?);
    if target == place {
        return Ok(());
    }
    bail!(
        "{} is a link to {}\nhint: the headers that labs share lie in a folder `include` beside the labs, not \
         behind a link; put a copy there",
        place.display(),
        target.display()
    )
}

/// The folders that a lab's files lie in: the lab's own, and the headers that labs share. A link out of them
/// would put a file into the lab that its author never wrote, and a compiler's message would quote it.
struct Bounds(Vec<PathBuf>);

impl Bounds {
    fn of(folders: &[PathBuf]) -> Result<Self> {
        let mut bounds = Vec::new();
        for folder in folders.iter().filter(|folder| folder.is_dir()) {
            let resolved = folder.canonicalize();
            bounds.push(resolved.with_context(|| format!("cannot resolve {}", folder.display()))?);
        }
        Ok(Self(bounds))
    }

    /// Refuses a path that links lead out of the lab, whether they are its last part or a folder before it.
    fn check(&self, path: &Path) -> Result<()> {
        let target =
            path.canonicalize().with_context(|| format!("cannot resolve {}", path.display()))?;
        if self.0.iter().any(|bound| target.starts_with(bound)) {
            return Ok(());
        }
        bail!(
            "{} is a link to {}, outside of the lab\nhint: a lab's files lie in its own folder, or in \
             the folder `include` that labs share; put a copy there",
            path.display(),
            target.display()
        )
    }
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

fn read_folder(folder: &Path, prefix: &str, bounds: &Bounds, files: &mut LabFiles) -> Result<()> {
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
        bounds.check(&path)?;
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

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    /// A folder with a lab, headers that it shares, and a file that is none of its business.
    fn lab() -> (tempfile::TempDir, PathBuf) {
        let folder = tempfile::tempdir().expect("a folder");
        let lab = folder.path().join("labs/probe");
        for (path, text) in warpsmith_model::lab::scaffold("probe").expect("a lab") {
            let path = lab.join(path);
            fs::create_dir_all(path.parent().expect("a folder")).expect("made");
            fs::write(path, text).expect("written");
        }
        for made in ["labs/include", "labs/probe/include", "outside"] {
            fs::create_dir_all(folder.path().join(made)).expect("made");
        }
        fs::write(folder.path().join("labs/include/shared.h"), "// shared\n").expect("written");
        fs::write(folder.path().join("outside/secret.h"), "// secret\n").expect("written");
        (folder, lab)
    }

    #[test]
    fn a_file_that_is_a_link_out_of_the_lab_is_refused_by_name() {
        let source = "#error a source\n";
        for at in ["include/x.h", "kernels/20_more.c", "baselines/b.py", "reference.c", "lab.toml"]
        {
            let (folder, lab) = lab();
            let (outside, link) = (folder.path().join("outside/secret"), lab.join(at));
            fs::write(&outside, source).expect("written");
            fs::create_dir_all(link.parent().expect("a folder")).expect("made");
            let _was_there = fs::remove_file(&link);
            symlink(&outside, &link).expect("a link");
            let said = format!("{:#}", load(&lab).expect_err(at));
            let target = outside.canonicalize().expect("there");
            assert!(said.contains(at) && said.contains(&target.display().to_string()), "{said}");
            assert!(said.contains("outside of the lab") && !said.contains(source), "{said}");
        }
    }

    #[test]
    fn a_folder_that_is_a_link_out_of_the_lab_is_refused_as_well() {
        let (folder, lab) = lab();
        fs::remove_dir(lab.join("include")).expect("removed");
        symlink(folder.path().join("outside"), lab.join("include")).expect("a link");
        let said = format!("{:#}", load(&lab).expect_err("a linked folder"));
        assert!(said.contains("include/secret.h") && said.contains("outside of the lab"), "{said}");
    }

    #[test]
    fn shared_headers_behind_a_link_are_refused() {
        let (folder, lab) = lab();
        fs::remove_dir_all(folder.path().join("labs/include")).expect("removed");
        for target in [folder.path().join("outside"), PathBuf::from("probe/include")] {
            let link = folder.path().join("labs/include");
            symlink(&target, &link).expect("a link");
            let said = format!("{:#}", load(&lab).expect_err("a linked folder"));
            assert!(said.contains("labs/include is a link to"), "{said}");
            assert!(said.contains("hint:") && !said.contains("// secret"), "{said}");
            fs::remove_file(&link).expect("removed");
        }
        load(&lab).expect("without shared headers");
    }

    #[test]
    fn links_inside_of_a_lab_and_shared_headers_are_read() {
        let (folder, lab) = lab();
        fs::write(lab.join("include/own.h"), "// own\n").expect("written");
        symlink("own.h", lab.join("include/again.h")).expect("a link");
        symlink(folder.path().join("labs/include/shared.h"), lab.join("include/theirs.h"))
            .expect("a link");
        let loaded = load(&lab).expect("the lab");
        let names: Vec<&str> = loaded.lab.headers.iter().map(|(name, _)| name.as_str()).collect();
        assert_eq!(names, ["again.h", "own.h", "shared.h", "theirs.h"]);
        // The lab itself may be reached by a link.
        symlink(&lab, folder.path().join("alias")).expect("a link");
        load(&folder.path().join("alias")).expect("the same lab");
    }
}
