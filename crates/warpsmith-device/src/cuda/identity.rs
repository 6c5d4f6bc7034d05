//! Which compiler a toolkit has: what it calls itself, and the content of its files. A path says
//! neither: what lies there may be another one tomorrow, and the same one lies elsewhere on other machines.

use std::collections::HashMap;
use std::ffi::c_int;
use std::path::{Path, PathBuf};
use std::sync::{LazyLock, Mutex, PoisonError};
use std::time::SystemTime;

use libloading::{Library, Symbol};
use warpsmith_model::{BlobId, Hasher};

use super::toolkit::Toolkit;
use crate::target::Fault;

/// The files that decide what the run-time compiler makes, beside the library itself, by how their names
/// begin.
const NVRTC_HELPER: &str = "libnvrtc-builtins.so";

/// The programs that decide what `nvcc` makes, from the toolkit's folder; those that are there.
const NVCC_HELPERS: [&str; 3] = ["bin/ptxas", "bin/cudafe++", "nvvm/bin/cicc"];

/// A version of the CUDA toolkit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Version {
    /// The number before the point.
    pub major: u32,
    /// The number behind it.
    pub minor: u32,
}

impl std::fmt::Display for Version {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(out, "{}.{}", self.major, self.minor)
    }
}

impl Version {
    /// Reads `13.0`.
    pub fn parse(text: &str) -> Option<Self> {
        let (major, minor) = text.trim().split_once('.')?;
        Some(Self { major: major.parse().ok()?, minor: minor.parse().ok()? })
    }
}

/// Asks the run-time compiler for its version.
pub fn nvrtc_version(toolkit: &Toolkit) -> Result<Version, Fault> {
    type Ask = unsafe extern "C" fn(*mut c_int, *mut c_int) -> c_int;
    let path = &toolkit.nvrtc;
    let failed = |why: String| {
        Fault::Unavailable(format!(
            "the run-time compiler {} does not say its version ({why}); name another toolkit with \
             --cuda-home, or let `warpsmith setup cuda` provide one",
            path.display()
        ))
    };
    let (mut major, mut minor) = (0, 0);
    // SAFETY: the library is NVIDIA's compiler, which the user installed; loading it runs its own
    // initialisers and nothing else. The function has the documented type, and both numbers are live.
    let code = unsafe {
        let library = Library::new(path).map_err(|error| failed(error.to_string()))?;
        let ask: Symbol<'_, Ask> =
            library.get(b"nvrtcVersion").map_err(|error| failed(error.to_string()))?;
        ask(&raw mut major, &raw mut minor)
    };
    match (code, u32::try_from(major), u32::try_from(minor)) {
        (0, Ok(major), Ok(minor)) => Ok(Version { major, minor }),
        _ => Err(failed(format!("error {code}"))),
    }
}

/// Hashes everything of a toolkit that decides what the run-time compiler makes, its headers aside.
pub fn nvrtc_content(toolkit: &Toolkit) -> Result<BlobId, Fault> {
    let mut files = vec![toolkit.nvrtc.clone()];
    let folder = toolkit.nvrtc.parent().unwrap_or(Path::new("/"));
    let entries = std::fs::read_dir(folder).map_err(reading(folder))?;
    for entry in entries.flatten() {
        if entry.file_name().to_string_lossy().starts_with(NVRTC_HELPER) {
            files.push(entry.path());
        }
    }
    files[1..].sort();
    content_of(&files)
}

/// Hashes everything of a toolkit that decides what its `nvcc` makes, its headers aside.
pub fn nvcc_content(nvcc: &Path) -> Result<BlobId, Fault> {
    let nvcc = nvcc.canonicalize().map_err(reading(nvcc))?;
    let root = nvcc.parent().and_then(Path::parent).unwrap_or(Path::new("/"));
    let helpers = NVCC_HELPERS.iter().map(|helper| root.join(helper)).filter(|it| it.is_file());
    let files: Vec<PathBuf> = std::iter::once(nvcc.clone()).chain(helpers).collect();
    content_of(&files)
}

/// The words for a compiler in the record of an environment: its version, and the beginning of its hash.
pub fn words(version: &str, content: &BlobId) -> String {
    let hash = content.to_string();
    format!("{version} (content {})", &hash[..hash.len().min(16)])
}

fn content_of(files: &[PathBuf]) -> Result<BlobId, Fault> {
    let mut hasher = Hasher::new("compiler");
    for file in files {
        hasher.part(file_content(file)?.to_string().as_bytes());
    }
    Ok(hasher.into())
}

/// Hashes a file; once per process and state of the file, since compilers have a hundred megabytes.
fn file_content(path: &Path) -> Result<BlobId, Fault> {
    type Known = HashMap<(PathBuf, SystemTime, u64), BlobId>;
    static KNOWN: LazyLock<Mutex<Known>> = LazyLock::new(Mutex::default);
    let metadata = std::fs::metadata(path).map_err(reading(path))?;
    let modified = metadata.modified().map_err(reading(path))?;
    let key = (path.to_path_buf(), modified, metadata.len());
    // Held while it is hashed: threads that ask at the same time would all do it.
    let mut known = KNOWN.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(content) = known.get(&key) {
        return Ok(*content);
    }
    let content = BlobId::of(&std::fs::read(path).map_err(reading(path))?);
    known.insert(key, content);
    Ok(content)
}

fn reading(path: &Path) -> impl Fn(std::io::Error) -> Fault {
    let what = format!("reading {}", path.display());
    move |source| Fault::Broken { what: what.clone(), source }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn toolkit(folder: &Path) -> Toolkit {
        Toolkit {
            root: folder.to_path_buf(),
            nvrtc: folder.join("libnvrtc.so.13"),
            include: folder.to_path_buf(),
            cuobjdump: None,
        }
    }

    #[test]
    fn a_compiler_is_what_its_files_are_wherever_they_lie() {
        let (one, other) = (tempfile::tempdir().expect("one"), tempfile::tempdir().expect("two"));
        for folder in [&one, &other] {
            let at = |name: &str| folder.path().join(name);
            std::fs::write(at("libnvrtc.so.13"), "compiler").expect("written");
            std::fs::write(at("libnvrtc-builtins.so.13.0"), "builtins").expect("written");
        }
        let content = |folder: &tempfile::TempDir| {
            nvrtc_content(&toolkit(folder.path())).expect("its files are there")
        };
        let before = content(&one);
        assert_eq!(before, content(&other), "the same files in another folder");
        // An upgrade in place: same path, another content.
        std::fs::write(one.path().join("libnvrtc.so.13"), "compiler, upgraded").expect("written");
        assert_ne!(content(&one), before);
        std::fs::write(other.path().join("libnvrtc-builtins.so.13.0"), "others").expect("written");
        assert_ne!(content(&other), before);
    }

    #[test]
    fn what_is_no_compiler_has_no_version() {
        let folder = tempfile::tempdir().expect("a folder");
        std::fs::write(folder.path().join("libnvrtc.so.13"), "no library").expect("written");
        let fault = nvrtc_version(&toolkit(folder.path())).expect_err("no library");
        assert!(fault.to_string().contains("does not say its version"), "{fault}");
        assert!(fault.to_string().contains("--cuda-home"), "{fault}");
    }

    #[test]
    fn versions_are_read() {
        assert_eq!(Version::parse("13.0"), Some(Version { major: 13, minor: 0 }));
        assert_eq!(Version::parse("12.10 ").map(|it| it.to_string()), Some("12.10".to_string()));
        assert_eq!(Version::parse(""), None);
        assert_eq!(Version::parse("13"), None);
    }
}
