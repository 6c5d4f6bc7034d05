//! Texts by address: the files of labs, the sources and evidence of trials, the reports of runs.
//!
//! ```text
//! warpsmith://labs/LAB/FILE            lab.toml, reference.c, kernels/10_vector.c, kernels/10_vector.toml
//! warpsmith://trials/TRIAL             the whole trial as JSON, with every sample
//! warpsmith://trials/TRIAL/source      the candidate's source
//! warpsmith://runs/RUN/report          the report of a run, one HTML page
//! ```
//!
//! A file of a lab is looked up among the texts that the lab was loaded from, and no path is made of
//! what an agent says, so no address leads out of a lab.

use anyhow::{Context, Result, bail};
use rmcp::model::{Resource, ResourceContents, ResourceTemplate};
use warpsmith_evidence::{Store, report};
use warpsmith_model::lab::TargetKind;

use super::catalog::Catalog;
use crate::damage::all_intact;
use crate::project::Project;

const SCHEME: &str = "warpsmith://";
/// Runs whose reports are listed; every report can be read.
const LISTED_RUNS: usize = 10;

/// Lists what an agent most likely wants: the files of every lab, and the newest reports.
pub fn list(project: &Project, catalog: &Catalog) -> Result<Vec<Resource>> {
    let mut resources = Vec::new();
    for (name, loaded) in catalog.all()? {
        // A lab that is not valid has no files to speak of; list_labs says why.
        let Ok(loaded) = loaded else { continue };
        // Shared headers lie outside of the lab's folder and are listed with none.
        for (file, text) in loaded.files.iter().filter(|(file, _)| !file.starts_with("..")) {
            let resource =
                Resource::new(format!("{SCHEME}labs/{name}/{file}"), format!("{name}/{file}"))
                    .with_mime_type(mime_type(file))
                    .with_size(text.len() as u64);
            resources.push(resource);
        }
    }
    if project.database().is_file() {
        let store = Store::open_read_only(&project.database())?;
        for run in all_intact(store.runs_or_damage()?)?.into_iter().take(LISTED_RUNS) {
            let id = run.record.id;
            let resource =
                Resource::new(format!("{SCHEME}runs/{id}/report"), format!("report of {id}"))
                    .with_mime_type("text/html");
            resources.push(resource);
        }
    }
    Ok(resources)
}

/// Lists the forms of addresses.
pub fn templates() -> Vec<ResourceTemplate> {
    let template = |form: &str, name: &str, words: &str, mime_type: &str| {
        ResourceTemplate::new(format!("{SCHEME}{form}"), name)
            .with_description(words)
            .with_mime_type(mime_type)
    };
    vec![
        template(
            "labs/{+lab}/{+file}",
            "file of a lab",
            "A file of a lab: lab.toml, the reference, a kernel's source or contract",
            "text/plain",
        ),
        template(
            "trials/{trial}",
            "trial",
            "Everything on record about one evaluation, with every sample",
            "application/json",
        ),
        template(
            "trials/{trial}/source",
            "source of a trial",
            "The candidate's source",
            "text/plain",
        ),
        template("runs/{run}/report", "report of a run", "The report, one page", "text/html"),
    ]
}

/// Reads the text at an address.
pub fn read(project: &Project, catalog: &Catalog, uri: &str) -> Result<ResourceContents> {
    let shown: String = uri.chars().take(120).collect();
    let unknown = || {
        format!(
            "there is nothing at `{shown}`\nhint: addresses are {SCHEME}labs/LAB/FILE, \
             {SCHEME}trials/TRIAL, {SCHEME}trials/TRIAL/source and {SCHEME}runs/RUN/report"
        )
    };
    let path = uri.strip_prefix(SCHEME).with_context(unknown)?;
    let (kind, rest) = path.split_once('/').with_context(unknown)?;
    let contents = |text: String, mime_type: &str| {
        ResourceContents::text(text, uri.to_string()).with_mime_type(mime_type)
    };
    let store = || -> Result<Store> { Ok(Store::open_read_only(&project.database())?) };
    match kind {
        "labs" => {
            let (lab, file) = lab_and_file(rest).with_context(unknown)?;
            let loaded = catalog.load(lab)?;
            let text = loaded.files.get(file).with_context(|| {
                let files: Vec<&str> = loaded.files.keys().map(String::as_str).collect();
                format!("the lab `{lab}` has no file `{file}`\nhint: it has {}", files.join(", "))
            })?;
            Ok(contents(text.clone(), mime_type(file)))
        }
        "trials" => {
            let (id, part) = rest.split_once('/').unwrap_or((rest, ""));
            let store = store()?;
            let trial = store.trial(id)?;
            match part {
                "" => Ok(contents(serde_json::to_string_pretty(&trial)?, "application/json")),
                "source" => Ok(contents(store.blob(&trial.job.candidate.source)?, "text/plain")),
                _ => bail!("{}", unknown()),
            }
        }
        "runs" => {
            let run = rest.strip_suffix("/report").with_context(unknown)?;
            let store = store()?;
            let run = store.run(run)?.id;
            Ok(contents(report::render(&report::gather(&store, &run)?), "text/html"))
        }
        _ => bail!("{}", unknown()),
    }
}

/// Splits the path of a lab's file: labs for another target lie inside of labs.
fn lab_and_file(path: &str) -> Option<(&str, &str)> {
    let (outer, rest) = path.split_once('/')?;
    let inner = TargetKind::Cuda.name();
    match rest.strip_prefix(inner).and_then(|rest| rest.strip_prefix('/')) {
        Some(file) => Some((&path[..outer.len() + 1 + inner.len()], file)),
        None => Some((outer, rest)),
    }
}

fn mime_type(file: &str) -> &'static str {
    match file.rsplit_once('.').map(|(_, ending)| ending) {
        Some("toml") => "application/toml",
        Some("py") => "text/x-python",
        Some("c" | "h" | "cu" | "cuh") => "text/x-c",
        _ => "text/plain",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_path_of_a_file_is_split_after_its_lab() {
        let check = |path, expected| assert_eq!(lab_and_file(path), expected, "{path}");
        check("saxpy/lab.toml", Some(("saxpy", "lab.toml")));
        check("saxpy/kernels/00_naive.c", Some(("saxpy", "kernels/00_naive.c")));
        check("saxpy/cuda/kernels/00_naive.cu", Some(("saxpy/cuda", "kernels/00_naive.cu")));
        check("saxpy", None);
    }
}
