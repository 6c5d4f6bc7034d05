//! Rules that no compiler knows. Each finding names the file and what to do.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};

/// Who may import whom: a diamond, with three sides that never import each other. One of them is two crates:
/// the gate, which judges, stands on the device crate, which runs what is judged.
const ARROWS: [(&str, &[&str]); 7] = [
    ("warpsmith-model", &[]),
    ("warpsmith-device", &["warpsmith-model"]),
    ("warpsmith-gate", &["warpsmith-model", "warpsmith-device"]),
    ("warpsmith-search", &["warpsmith-model"]),
    ("warpsmith-evidence", &["warpsmith-model"]),
    (
        "warpsmith",
        &[
            "warpsmith-model",
            "warpsmith-device",
            "warpsmith-gate",
            "warpsmith-search",
            "warpsmith-evidence",
        ],
    ),
    ("xtask", &["warpsmith-model"]),
];

const MAX_LINES: usize = 800;
const MAX_KERNEL_LINES: usize = 500;

/// Checks every rule and reports all findings.
pub fn run() -> Result<()> {
    let root = root();
    let mut findings = Vec::new();
    findings.extend(crate_arrows(&root)?);
    findings.extend(file_lengths(&root)?);
    findings.extend(unsafe_code(&root)?);
    findings.extend(labs_complete(&root)?);
    findings.extend(one_integration_binary(&root)?);
    findings.extend(no_workplace_talk(&root)?);
    findings.extend(crate::tables::stale()?);
    if findings.is_empty() {
        println!("tidy: all rules hold");
        return Ok(());
    }
    for finding in &findings {
        eprintln!("tidy: {finding}");
    }
    bail!("{} rule(s) broken", findings.len());
}

/// Prints the lines of each crate and of the labs.
pub fn size() -> Result<()> {
    let root = root();
    let mut lines: BTreeMap<String, usize> = BTreeMap::new();
    for path in tracked(&root)? {
        let text = fs::read_to_string(root.join(&path)).unwrap_or_default();
        let mut parts = path.iter().filter_map(|part| part.to_str());
        let top = parts.next().unwrap_or_default();
        let area = match (top, parts.next()) {
            ("crates" | "labs", Some(next)) => format!("{top}/{next}"),
            _ => top.to_string(),
        };
        if has_ending(&path, &["rs", "c", "h", "py", "js", "toml", "md"]) {
            *lines.entry(area).or_default() += text.lines().count();
        }
    }
    for (area, count) in &lines {
        println!("{count:>7}  {area}");
    }
    println!("{:>7}  total", lines.values().sum::<usize>());
    Ok(())
}

/// The workspace's root.
pub fn root() -> PathBuf {
    let manifest = Path::new(env!("CARGO_MANIFEST_DIR"));
    manifest.parent().map(Path::to_path_buf).unwrap_or_default()
}

fn crate_arrows(root: &Path) -> Result<Vec<String>> {
    let output = Command::new(std::env::var("CARGO").unwrap_or_else(|_| "cargo".into()))
        .args(["metadata", "--no-deps", "--format-version", "1"])
        .current_dir(root)
        .output()
        .context("cannot run cargo metadata")?;
    let metadata: serde_json::Value =
        serde_json::from_slice(&output.stdout).context("cargo metadata printed no JSON")?;
    let packages = metadata["packages"].as_array().context("cargo metadata has no packages")?;
    let mut findings = Vec::new();
    for package in packages {
        let name = package["name"].as_str().unwrap_or_default();
        let Some((_, allowed)) = ARROWS.iter().find(|(known, _)| *known == name) else {
            findings.push(format!("crate `{name}` is not in the diamond; see ARCHITECTURE.md"));
            continue;
        };
        let dependencies = package["dependencies"].as_array().cloned().unwrap_or_default();
        for dependency in dependencies {
            let target = dependency["name"].as_str().unwrap_or_default();
            let ours = ARROWS.iter().any(|(known, _)| *known == target);
            if ours && !allowed.contains(&target) {
                findings.push(format!("crate `{name}` must not depend on `{target}`"));
            }
        }
    }
    Ok(findings)
}

fn file_lengths(root: &Path) -> Result<Vec<String>> {
    let mut findings = Vec::new();
    for path in tracked(root)? {
        let in_kernels = path.starts_with("labs") && has_ending(&path, &["c", "cu", "cuh"]);
        let limit = match in_kernels {
            true => MAX_KERNEL_LINES,
            false if has_ending(&path, &["rs", "py", "js", "mjs", "h"]) => MAX_LINES,
            false => continue,
        };
        let lines = read(root, &path)?.lines().count();
        if lines > limit {
            findings.push(format!("{}: {lines} lines; split it below {limit}", path.display()));
        }
    }
    Ok(findings)
}

/// What judges has no `unsafe`, and no lint of a module can allow it there.
const FORBIDDEN_IN: &str = "crates/warpsmith-gate/src/lib.rs";
const FORBID: &str = "#![forbid(unsafe_code)]";

fn unsafe_code(root: &Path) -> Result<Vec<String>> {
    let mut findings = Vec::new();
    if !read(root, Path::new(FORBIDDEN_IN))?.lines().any(|line| line == FORBID) {
        findings.push(format!("{FORBIDDEN_IN}: the gate forbids `unsafe`: add `{FORBID}`"));
    }
    for path in tracked(root)? {
        if !has_ending(&path, &["rs"])
            || path.starts_with("crates/warpsmith-device")
            || path.starts_with("xtask")
        {
            continue;
        }
        for (idx, line) in read(root, &path)?.lines().enumerate() {
            let code = line.split("//").next().unwrap_or_default();
            // The keyword is followed by white space or a brace; `'unsafe-inline'` in a string is not.
            let has_word = ["unsafe ", "unsafe{", "unsafe_code"].iter().any(|w| code.contains(w));
            if has_word && line != FORBID {
                findings.push(format!(
                    "{}:{}: `unsafe` belongs in warpsmith-device",
                    path.display(),
                    idx + 1
                ));
            }
        }
    }
    Ok(findings)
}

fn labs_complete(root: &Path) -> Result<Vec<String>> {
    let mut findings = Vec::new();
    for entry in fs::read_dir(root.join("labs")).context("there is no labs folder")? {
        let dir = entry?.path();
        let name = dir.file_name().and_then(|name| name.to_str()).unwrap_or_default().to_string();
        if !dir.is_dir() || name == "include" {
            continue;
        }
        for file in ["lab.toml", "reference.c", "README.md"] {
            if !dir.join(file).is_file() {
                findings.push(format!("labs/{name}: {file} is missing"));
            }
        }
        let kernels = endings_by_stem(&dir.join("kernels"))?;
        if kernels.is_empty() {
            findings.push(format!("labs/{name}: there are no kernels"));
        }
        for (stem, endings) in kernels {
            if !(endings.contains("c") && endings.contains("toml")) {
                findings.push(format!("labs/{name}/kernels/{stem}: needs both .c and .toml"));
            }
        }
    }
    Ok(findings)
}

/// A test binary costs a link; one per crate, with modules. Suites that need a process of their
/// own (`harness = false`, long ones) are listed here with the reason.
const EXTRA_TEST_BINARIES: [&str; 1] = [
    // Takes a minute, times what it runs, and wants to be run alone.
    "crates/warpsmith-gate/tests/cheats.rs",
];

fn one_integration_binary(root: &Path) -> Result<Vec<String>> {
    let mut findings = Vec::new();
    for entry in fs::read_dir(root.join("crates"))? {
        let tests = entry?.path().join("tests");
        if !tests.is_dir() {
            continue;
        }
        for file in fs::read_dir(&tests)? {
            let path = file?.path();
            let relative = path.strip_prefix(root).unwrap_or(&path).display().to_string();
            if has_ending(&path, &["rs"]) && !EXTRA_TEST_BINARIES.contains(&relative.as_str()) {
                findings.push(format!("{relative}: belongs in tests/it/, as a module"));
            }
        }
        let modules_dir = tests.join("it");
        let Ok(main) = fs::read_to_string(modules_dir.join("main.rs")) else { continue };
        for stem in endings_by_stem(&modules_dir)?.keys() {
            if stem != "main" && !main.contains(&format!("mod {stem};")) {
                findings.push(format!("{}/{stem}.rs is in no test binary", modules_dir.display()));
            }
        }
    }
    Ok(findings)
}

/// The project speaks of itself alone.
fn no_workplace_talk(root: &Path) -> Result<Vec<String>> {
    let words = [concat!("/wo", "rk/"), concat!("issue", " #"), concat!("DEVELOP", "ERS.md")];
    let mut findings = Vec::new();
    for path in tracked(root)? {
        let Ok(text) = fs::read_to_string(root.join(&path)) else { continue };
        for (idx, line) in text.lines().enumerate() {
            if let Some(word) = words.iter().find(|word| line.contains(**word)) {
                findings.push(format!("{}:{}: mentions `{word}`", path.display(), idx + 1));
            }
        }
    }
    Ok(findings)
}

fn endings_by_stem(dir: &Path) -> Result<BTreeMap<String, BTreeSet<String>>> {
    let mut stems: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    if !dir.is_dir() {
        return Ok(stems);
    }
    for entry in fs::read_dir(dir)? {
        let path = entry?.path();
        let part = |os: Option<&std::ffi::OsStr>| os.and_then(|s| s.to_str()).map(str::to_string);
        if let (true, Some(stem), Some(ending)) =
            (path.is_file(), part(path.file_stem()), part(path.extension()))
        {
            stems.entry(stem).or_default().insert(ending);
        }
    }
    Ok(stems)
}

/// Files that are in the repository or are about to be.
fn tracked(root: &Path) -> Result<Vec<PathBuf>> {
    let output = Command::new("git")
        .args(["ls-files", "--cached", "--others", "--exclude-standard"])
        .current_dir(root)
        .output()
        .context("cannot run git ls-files")?;
    let text = String::from_utf8(output.stdout).context("a file's name is not UTF-8")?;
    Ok(text.lines().map(PathBuf::from).filter(|path| root.join(path).is_file()).collect())
}

fn read(root: &Path, path: &Path) -> Result<String> {
    fs::read_to_string(root.join(path)).with_context(|| format!("cannot read {}", path.display()))
}

fn has_ending(path: &Path, endings: &[&str]) -> bool {
    path.extension().and_then(|ending| ending.to_str()).is_some_and(|e| endings.contains(&e))
}

#[cfg(test)]
mod tests {
    #[test]
    fn every_tidy_rule_holds() {
        super::run().expect("cargo xtask tidy names what is broken");
    }
}
