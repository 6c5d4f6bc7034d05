//! Finds the CUDA toolkit: the run-time compiler, the headers, the disassembler.

use std::path::{Path, PathBuf};

use crate::target::Fault;

/// A toolkit on this machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Toolkit {
    /// Its folder.
    pub root: PathBuf,
    /// The run-time compiler's library.
    pub nvrtc: PathBuf,
    /// The folder of the headers.
    pub include: PathBuf,
    /// The disassembler, where there is one.
    pub cuobjdump: Option<PathBuf>,
}

/// Where `warpsmith setup cuda` puts a toolkit, in the folder of optional parts.
pub const SETUP_FOLDER: &str = "cuda";

/// Finds a toolkit: in `CUDA_HOME`, around the `nvcc` on `PATH`, in the folder that `warpsmith setup
/// cuda` fills (below `parts_dir`), and in the usual places, in this order.
pub fn find(parts_dir: &Path) -> Result<Toolkit, Fault> {
    let roots = roots(parts_dir);
    roots.iter().find_map(|root| at(root)).ok_or_else(|| {
        let looked: Vec<String> = roots.iter().map(|root| root.display().to_string()).collect();
        Fault::Unavailable(format!(
            "no CUDA toolkit with the run-time compiler (libnvrtc) was found; looked in {}; \
             `warpsmith setup cuda` provides one, or set CUDA_HOME",
            looked.join(", ")
        ))
    })
}

/// Returns the folders in which a toolkit may be, in the order in which they are looked into.
pub(super) fn roots(parts_dir: &Path) -> Vec<PathBuf> {
    let mut roots = Vec::new();
    roots.extend(std::env::var_os("CUDA_HOME").map(PathBuf::from));
    let path = std::env::var_os("PATH").unwrap_or_default();
    for folder in std::env::split_paths(&path) {
        if let Ok(nvcc) = folder.join("nvcc").canonicalize() {
            roots.extend(nvcc.parent().and_then(Path::parent).map(Path::to_path_buf));
        }
    }
    roots.extend(setup_roots(parts_dir));
    roots.push(PathBuf::from("/usr/local/cuda"));
    roots
}

/// Returns those of them that `warpsmith setup cuda` fills: one for each Python that it used.
pub(super) fn setup_roots(parts_dir: &Path) -> Vec<PathBuf> {
    let venv = parts_dir.join(SETUP_FOLDER).join("lib");
    let pythons = std::fs::read_dir(&venv).into_iter().flatten().flatten();
    pythons.map(|python| python.path().join("site-packages/nvidia/cu13")).collect()
}

fn at(root: &Path) -> Option<Toolkit> {
    let libraries = ["lib64", "lib", "targets/x86_64-linux/lib", "targets/sbsa-linux/lib"];
    let nvrtc = libraries.iter().find_map(|folder| library_in(&root.join(folder)))?;
    let includes = ["include", "targets/x86_64-linux/include", "targets/sbsa-linux/include"];
    let include =
        includes.iter().map(|it| root.join(it)).find(|it| it.join("cuda_fp16.h").is_file())?;
    let cuobjdump = Some(root.join("bin/cuobjdump")).filter(|path| path.is_file());
    Some(Toolkit { root: root.to_path_buf(), nvrtc, include, cuobjdump })
}

/// Returns the newest `libnvrtc.so.N` of a folder.
fn library_in(folder: &Path) -> Option<PathBuf> {
    let mut found: Vec<PathBuf> = std::fs::read_dir(folder)
        .ok()?
        .flatten()
        .map(|entry| entry.path())
        .filter(|path| {
            let name = path.file_name().and_then(|name| name.to_str()).unwrap_or("");
            name == "libnvrtc.so" || name.starts_with("libnvrtc.so.")
        })
        .collect();
    found.sort();
    found.pop()
}
