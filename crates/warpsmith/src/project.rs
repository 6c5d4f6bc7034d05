//! Where things are kept: the evidence, the caches, the optional Python environment.

use std::path::{Path, PathBuf};

use warpsmith_evidence::Access;

/// The folders of a project.
#[derive(Clone, Debug)]
pub struct Project {
    /// The folder of the evidence (`evidence/`).
    pub evidence_dir: PathBuf,
    /// The folder of things that can be made again (`.warpsmith/`).
    pub work_dir: PathBuf,
    /// Who may read evidence that is made.
    pub access: Access,
}

impl Project {
    /// The evidence's database file.
    pub fn database(&self) -> PathBuf {
        self.evidence_dir.join("evidence.db")
    }

    /// Compiled artifacts, by content.
    pub fn artifacts(&self) -> PathBuf {
        self.work_dir.join("artifacts")
    }

    /// Expected outputs, by content.
    pub fn expected(&self) -> PathBuf {
        self.work_dir.join("expected")
    }

    /// The Python that runs baselines: the project's own when it was set up, else the system's.
    pub fn python(&self) -> PathBuf {
        let own = self.venv().join("bin/python");
        if own.exists() { absolute(&own) } else { PathBuf::from("python3") }
    }

    /// The project's own Python environment.
    pub fn venv(&self) -> PathBuf {
        self.work_dir.join("venv")
    }

    /// The CUDA toolkit that `setup` provides.
    pub fn cuda(&self) -> PathBuf {
        self.work_dir.join(warpsmith_device::cuda::toolkit::SETUP_FOLDER)
    }

    /// The report of a run.
    pub fn report(&self, run: &str) -> PathBuf {
        self.evidence_dir.join(format!("{run}.html"))
    }
}

/// Makes a path absolute without resolving links: a virtual environment's Python is a link, and
/// finds its packages by the place it was called at.
fn absolute(path: &Path) -> PathBuf {
    std::path::absolute(path).unwrap_or_else(|_| path.to_path_buf())
}
