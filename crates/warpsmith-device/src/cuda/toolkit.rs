//! Finds the CUDA toolkit: the run-time compiler, the headers, the disassembler.

use std::path::{Path, PathBuf};
use std::sync::OnceLock;

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

/// Where `warpsmith setup baselines` puts libraries, in the folder of optional parts.
pub const BASELINES_FOLDER: &str = "venv";

/// Where a Python installation has NVIDIA's libraries, below its packages.
const IN_PACKAGES: [&str; 3] = ["nvidia/cu13/lib", "nvidia/cublas/lib", "nvidia/cu12/lib"];

/// The toolkit that the user named.
static PREFERRED: OnceLock<PathBuf> = OnceLock::new();

/// Looks for the toolkit in this folder and nowhere else. The first call counts.
pub fn prefer(root: &Path) {
    // Whoever calls it again means the same folder.
    let _ = PREFERRED.set(root.to_path_buf());
}

/// Returns the folder that the user named.
pub fn preferred() -> Option<&'static Path> {
    PREFERRED.get().map(PathBuf::as_path)
}

/// Finds a toolkit: where the user said, else in `CUDA_HOME`, around the `nvcc` on `PATH`, in the folder that `warpsmith setup
/// cuda` fills (below `parts_dir`), and in the usual places, in this order.
pub fn find(parts_dir: &Path) -> Result<Toolkit, Fault> {
    let roots = roots(parts_dir);
    roots.iter().find_map(|root| at(root)).ok_or_else(|| {
        let looked: Vec<String> = roots.iter().map(|root| root.display().to_string()).collect();
        Fault::Unavailable(format!(
            "no CUDA toolkit with the run-time compiler (libnvrtc) was found; looked in {}; \
             `warpsmith setup cuda` provides one, or name its folder with --cuda-home or in CUDA_HOME",
            looked.join(", ")
        ))
    })
}

/// Finds `nvcc`, in the places in which [`find`] looks for a toolkit.
pub fn find_nvcc(parts_dir: &Path) -> Result<PathBuf, Fault> {
    let roots = roots(parts_dir);
    let places = roots.iter().map(|root| root.join("bin/nvcc"));
    // It runs in a folder of its own, where a relative path leads elsewhere.
    let absolute = |path: PathBuf| std::path::absolute(&path).unwrap_or(path);
    places.into_iter().find(|path| path.is_file()).map(absolute).ok_or_else(|| {
        let looked: Vec<String> = roots.iter().map(|root| root.display().to_string()).collect();
        Fault::Unavailable(format!(
            "nvcc was not found, which a contract with `compiler = \"nvcc\"` needs; looked for bin/nvcc \
             in {}; `warpsmith setup cuda` provides one, or name its toolkit with --cuda-home or in \
             CUDA_HOME",
            looked.join(", ")
        ))
    })
}

/// Finds cuBLASLt's library: on `LD_LIBRARY_PATH`, in the folder that `warpsmith setup baselines` fills
/// (below `parts_dir`), in the toolkits that [`find`] looks at, and among the packages of `python3`,
/// which PyTorch brings it into, in this order.
pub fn find_cublaslt(parts_dir: &Path) -> Result<PathBuf, Fault> {
    let mut folders = Vec::new();
    let path = std::env::var_os("LD_LIBRARY_PATH").unwrap_or_default();
    folders.extend(std::env::split_paths(&path).filter(|folder| folder.is_absolute()));
    let in_packages = |packages: &Path| IN_PACKAGES.map(|folder| packages.join(folder));
    for packages in site_packages(&parts_dir.join(BASELINES_FOLDER)) {
        folders.extend(in_packages(&packages));
    }
    for root in roots(parts_dir) {
        folders.extend(LIBRARY_FOLDERS.iter().map(|folder| root.join(folder)));
    }
    let found = |folders: &[PathBuf]| folders.iter().find_map(|it| library_in(it, "libcublasLt"));
    if let Some(library) = found(&folders) {
        return Ok(library);
    }
    let of_python: Vec<PathBuf> =
        python_path().iter().flat_map(|packages| in_packages(packages)).collect();
    found(&of_python).ok_or_else(|| {
        let looked: Vec<String> = folders.iter().map(|it| it.display().to_string()).collect();
        Fault::Unavailable(format!(
            "cuBLASLt (libcublasLt.so) was not found; looked in {} and among the packages of python3",
            looked.join(", ")
        ))
    })
}

/// The folders in which `python3` looks for packages; none where there is no Python.
fn python_path() -> Vec<PathBuf> {
    let script = "import sys; print('\\n'.join(sys.path))";
    let output = std::process::Command::new("python3").args(["-c", script]).output();
    let text = output.map(|output| output.stdout).unwrap_or_default();
    let text = String::from_utf8_lossy(&text);
    text.lines().filter(|line| line.starts_with('/')).map(PathBuf::from).collect()
}

/// The folders of packages in a virtual environment.
fn site_packages(venv: &Path) -> Vec<PathBuf> {
    let pythons = std::fs::read_dir(venv.join("lib")).into_iter().flatten().flatten();
    pythons.map(|python| python.path().join("site-packages")).collect()
}

/// Returns the folders in which a toolkit may be, in the order in which they are looked into.
pub(super) fn roots(parts_dir: &Path) -> Vec<PathBuf> {
    if let Some(root) = preferred() {
        return vec![root.to_path_buf()];
    }
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
    let packages = site_packages(&parts_dir.join(SETUP_FOLDER));
    packages.iter().map(|packages| packages.join("nvidia/cu13")).collect()
}

/// Where a toolkit has its libraries.
const LIBRARY_FOLDERS: [&str; 4] =
    ["lib64", "lib", "targets/x86_64-linux/lib", "targets/sbsa-linux/lib"];

fn at(root: &Path) -> Option<Toolkit> {
    let nvrtc =
        LIBRARY_FOLDERS.iter().find_map(|folder| library_in(&root.join(folder), "libnvrtc"))?;
    let includes = ["include", "targets/x86_64-linux/include", "targets/sbsa-linux/include"];
    let include =
        includes.iter().map(|it| root.join(it)).find(|it| it.join("cuda_fp16.h").is_file())?;
    let cuobjdump = Some(root.join("bin/cuobjdump")).filter(|path| path.is_file());
    Some(Toolkit { root: root.to_path_buf(), nvrtc, include, cuobjdump })
}

/// Returns the newest `NAME.so.N` of a folder.
fn library_in(folder: &Path, name: &str) -> Option<PathBuf> {
    let plain = format!("{name}.so");
    let numbered = format!("{plain}.");
    let mut found: Vec<PathBuf> = std::fs::read_dir(folder)
        .ok()?
        .flatten()
        .map(|entry| entry.path())
        .filter(|path| {
            let name = path.file_name().and_then(|name| name.to_str()).unwrap_or("");
            name == plain || name.starts_with(&numbered)
        })
        .collect();
    found.sort();
    found.pop()
}

#[cfg(test)]
#[test]
fn cublaslt_is_found_among_the_packages_of_baselines() {
    let parts = tempfile::tempdir().expect("a folder");
    let folder =
        parts.path().join(BASELINES_FOLDER).join("lib/python3.12/site-packages/nvidia/cu13/lib");
    std::fs::create_dir_all(&folder).expect("made");
    std::fs::write(folder.join("libcublasLt.so.13"), "").expect("written");
    std::fs::write(folder.join("libcublas.so.13"), "").expect("written");
    assert_eq!(library_in(&folder, "libcublasLt"), Some(folder.join("libcublasLt.so.13")));
    assert_eq!(library_in(&folder, "libnvrtc"), None);
    // One on LD_LIBRARY_PATH would come first.
    assert!(find_cublaslt(parts.path()).is_ok_and(|path| path.ends_with("libcublasLt.so.13")));
}
