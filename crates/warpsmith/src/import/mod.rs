//! Problems from elsewhere as labs: PyTorch and NumPy modules, and FlashInfer-Trace definitions.
//!
//! A problem is looked at by `look.py`, in a Python process of its own: which tensors go in and come out,
//! which constants are extents, how inputs are spread, how far the problem in its own type is from itself in
//! double precision. `write` makes a lab of the answer, whose reference and baseline are the problem itself,
//! run by `adapter.py`.

pub mod flashinfer;
mod write;

use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context as _, Result, bail};
use serde_json::{Value, json};
use warpsmith_device::baseline::run_script;
use warpsmith_device::target::Fault;
use warpsmith_model::lab::{Lab, LabFiles, ProblemFormat, TargetKind};

use crate::project::Project;

pub use write::Solution;

/// The parts are one program: the last line starts it.
const LOOK: &str = concat!(
    include_str!("look.py"),
    "\n\n",
    include_str!("look_axes.py"),
    "\n\n",
    include_str!("look_measure.py"),
    "\n\n",
    include_str!("look_module.py"),
    "\n\n",
    include_str!("look_function.py"),
    "\n\nmain()\n",
);
const ADAPTER: &str = include_str!("adapter.py");

/// The largest problem that is read: more is no source.
const MAX_FILE_BYTES: u64 = 1 << 20;

/// How problems are looked at and where labs are made.
#[derive(Debug)]
pub struct Importer<'a> {
    /// Where Python is.
    pub project: &'a Project,
    /// What the lab's kernels run on.
    pub target: TargetKind,
    /// The folder of labs.
    pub into: PathBuf,
    /// How long looking at a problem may take.
    pub deadline: Duration,
}

/// A lab that was made.
#[derive(Debug)]
pub struct Made {
    /// Its folder.
    pub dir: PathBuf,
    /// Its files, relative to the folder.
    pub files: Vec<String>,
    /// What a person should know of it.
    pub notes: Vec<String>,
}

/// A problem that was looked at.
#[derive(Debug)]
pub struct Problem {
    /// The lab's name.
    pub name: String,
    /// Where it is from.
    pub format: ProblemFormat,
    /// Its name there.
    pub original: String,
    /// Its text.
    pub text: String,
    /// What `look.py` says of it.
    pub seen: Value,
    /// Other implementations that come with it.
    pub solutions: Vec<Solution>,
}

impl Importer<'_> {
    /// Makes a lab of a module with `Model`, `get_inputs` and `get_init_inputs`.
    pub fn kernelbench(&self, file: &Path, name: Option<&str>, eval: bool) -> Result<Made> {
        let text = read(file)?;
        let stem = file.file_stem().and_then(|stem| stem.to_str()).unwrap_or("problem");
        let name = name.map_or_else(|| identifier(stem), str::to_string);
        self.check_free(&name)?;
        let question = json!({
            "kind": "module",
            "text": text,
            "file": "problem.py",
            "mode": if eval { "eval" } else { "train" },
        });
        let seen = self
            .look(question)
            .with_context(|| format!("{} cannot be imported", file.display()))?;
        let format = ProblemFormat::KernelBench;
        let original = stem.to_string();
        self.make(&Problem { name, format, original, text, seen, solutions: Vec::new() })
    }

    /// Asks `look.py`; a refusal is an error in its words.
    fn look(&self, mut question: Value) -> Result<Value> {
        // Four fifths of what is free: a problem that asks for more is told so instead of taking all.
        let memory_bytes = warpsmith_device::available_memory_bytes().unwrap_or(4 << 30) / 5 * 4;
        let threads = std::thread::available_parallelism().map_or(1, usize::from);
        question["adapter"] = json!(ADAPTER);
        question["target"] = json!(self.target.name());
        question["memory_bytes"] = json!(memory_bytes);
        question["threads"] = json!(threads);
        let python = self.project.python();
        let packages = ["numpy, and torch where it is imported".to_string()];
        let threads = u32::try_from(threads).unwrap_or(u32::MAX);
        let asked = run_script(&python, LOOK, &packages, threads, &question, self.deadline);
        let seen = asked.map_err(|fault| match fault {
            Fault::Unavailable(words) => anyhow::anyhow!(
                "{words}\nhint: `warpsmith setup baselines --package numpy` (or torch) installs it \
                 into the project's own Python; {} was asked",
                python.display()
            ),
            Fault::TimedOut { limit_s } => anyhow::anyhow!(
                "it did not finish within {limit_s} s and was ended\nhint: choose smaller constants \
                 in the file, or give it more time with --deadline"
            ),
            Fault::Crashed(cause) => {
                anyhow::anyhow!("its process ended before it had been looked at: {cause}")
            }
            fault => anyhow::Error::from(fault),
        })?;
        if let Some(reason) = seen["refused"].as_str() {
            match seen["hint"].as_str() {
                Some(hint) => bail!("{reason}\nhint: {hint}"),
                None => bail!("{reason}"),
            }
        }
        Ok(seen)
    }

    /// Writes the lab, once its texts have been shown to load.
    fn make(&self, problem: &Problem) -> Result<Made> {
        let dir = self.check_free(&problem.name)?;
        let files = write::files(problem, self.target)?;
        let texts: LabFiles = files
            .iter()
            .filter(|(path, _)| !path.starts_with("solutions/"))
            .map(|(path, text)| (path.clone(), text.clone()))
            .collect();
        Lab::parse(&texts).map_err(|errors| {
            anyhow::anyhow!("`{}` makes no valid lab\n\n{errors}", problem.original)
        })?;
        // Under another name until it is whole: half a lab would stand in the way of the next attempt.
        let part = self.into.join(format!(".{}.part", problem.name));
        if part.exists() {
            std::fs::remove_dir_all(&part)
                .with_context(|| format!("cannot remove {}", part.display()))?;
        }
        for (path, text) in &files {
            let path = part.join(path);
            let parent = path.parent().context("a file of a lab has a folder")?;
            std::fs::create_dir_all(parent)
                .with_context(|| format!("cannot make {}", parent.display()))?;
            std::fs::write(&path, text)
                .with_context(|| format!("cannot write {}", path.display()))?;
        }
        std::fs::rename(&part, &dir)
            .with_context(|| format!("cannot rename {} to {}", part.display(), dir.display()))?;
        let files = files.into_iter().map(|(path, _)| path).collect();
        Ok(Made { dir, files, notes: write::notes(problem) })
    }

    fn check_free(&self, name: &str) -> Result<PathBuf> {
        if identifier(name) != name {
            bail!("`{name}` cannot name a lab\nhint: use letters, digits and underscores");
        }
        let dir = self.into.join(name);
        if dir.exists() {
            bail!(
                "{} exists already; nothing was written\nhint: choose another --name or --into",
                dir.display()
            );
        }
        Ok(dir)
    }
}

/// Reads a text file of a sensible size.
fn read(path: &Path) -> Result<String> {
    let size =
        std::fs::metadata(path).with_context(|| format!("cannot read {}", path.display()))?.len();
    if size > MAX_FILE_BYTES {
        bail!("{} has {size} bytes; a problem has at most {MAX_FILE_BYTES}", path.display());
    }
    std::fs::read_to_string(path)
        .with_context(|| format!("cannot read {} as UTF-8 text", path.display()))
}

/// Makes a name that labs, kernels and C functions can have.
fn identifier(text: &str) -> String {
    let mut name: String = text
        .chars()
        .map(|letter| if letter.is_ascii_alphanumeric() { letter } else { '_' })
        .collect();
    name = name.trim_end_matches('_').to_string();
    if !name.starts_with(|letter: char| letter.is_ascii_alphabetic()) {
        name = format!("p{name}");
    }
    name
}

#[cfg(test)]
mod tests {
    use super::identifier;

    #[test]
    fn names_become_identifiers() {
        let check = |text: &str, expected: &str| assert_eq!(identifier(text), expected);
        check("relu", "relu");
        check("1_Square_matrix_multiplication_", "p1_Square_matrix_multiplication");
        check("../escape", "p___escape");
        check("", "p");
    }
}
