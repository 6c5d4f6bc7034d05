//! Checks `baselines/NAME.toml`.

use super::contract::{Surroundings, check_requires};
use super::document::{Document, did_you_mean};
use super::files::BaselineFile;
use super::{Baseline, LabFiles};

/// Checks a baseline; none when something is wrong with it.
pub(super) fn check(
    document: &mut Document<'_>,
    file: &BaselineFile,
    name: &str,
    files: &LabFiles,
    surroundings: Surroundings<'_>,
) -> Option<Baseline> {
    document.check_line(&file.summary, "summary");
    let script = format!("baselines/{}", *file.script);
    if !files.contains_key(&script) {
        let scripts = files
            .keys()
            .filter_map(|path| path.strip_prefix("baselines/"))
            .filter(|path| path.ends_with(".py"));
        let message = format!("there is no file `{script}`");
        document.report_with_help(file.script.span(), message, did_you_mean(&file.script, scripts));
    }
    let requires = check_requires(document, &file.requires, surroundings);
    document.is_clean().then(|| Baseline {
        name: name.to_string(),
        summary: file.summary.to_string(),
        script,
        packages: file.packages.clone(),
        size_mb: file.size_mb,
        requires,
    })
}
