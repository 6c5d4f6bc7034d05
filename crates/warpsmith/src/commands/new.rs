//! `warpsmith new`: a lab to start from.

use std::path::PathBuf;

use anyhow::{Context as _, Result, bail};
use clap::Args;
use warpsmith_model::lab;

use super::Context;
use crate::output::{json, result};

/// Make a lab that passes `check` at once
#[derive(Debug, Args)]
pub struct NewArgs {
    /// Name of the lab: letters, digits and underscores
    name: String,
    /// Folder to make it in
    #[arg(long, value_name = "DIR", default_value = "labs")]
    into: PathBuf,
}

pub fn run(context: &Context, arguments: NewArgs) -> Result<()> {
    let files = lab::scaffold(&arguments.name).map_err(anyhow::Error::msg)?;
    let dir = arguments.into.join(&arguments.name);
    if dir.exists() {
        bail!("{} exists already; nothing was written", dir.display());
    }
    let usual_dir = format!("labs/{}", arguments.name);
    for (path, text) in &files {
        let text = text.replace(&usual_dir, &dir.display().to_string());
        let path = dir.join(path);
        let parent = path.parent().context("a file of a lab has a folder")?;
        std::fs::create_dir_all(parent)
            .with_context(|| format!("cannot make {}", parent.display()))?;
        std::fs::write(&path, text).with_context(|| format!("cannot write {}", path.display()))?;
    }
    if context.json {
        let paths: Vec<&String> = files.iter().map(|(path, _)| path).collect();
        return json(&serde_json::json!({ "lab": dir, "files": paths }));
    }
    result(format!(
        "made {} ({} files)\nnext: warpsmith check {}",
        dir.display(),
        files.len(),
        dir.display()
    ));
    Ok(())
}
