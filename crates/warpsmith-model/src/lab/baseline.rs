//! Checks `baselines/NAME.toml`.

use std::ops::Range;

use super::contract::{Surroundings, check_requires};
use super::document::{Document, did_you_mean};
use super::files::{BaselineFile, BaselineKind, GemmFile, Located};
use super::{Baseline, BaselineProgram, LabFiles, MatrixProduct, TargetKind};

/// Checks a baseline; none when something is wrong with it.
pub(super) fn check(
    document: &mut Document<'_>,
    file: &BaselineFile,
    name: &str,
    files: &LabFiles,
    surroundings: Surroundings<'_>,
) -> Option<Baseline> {
    document.check_line(&file.summary, "summary");
    let program = match &file.kind {
        Some(kind) if **kind == BaselineKind::CublasLt => {
            check_cublaslt(document, file, kind.span(), surroundings)
        }
        _ => check_script(document, file, files),
    };
    if let Some(start_s) = file.start_s.as_ref().filter(|start_s| ***start_s == 0) {
        document.report(start_s.span(), "`start_s` is at least 1");
    }
    let requires = check_requires(document, &file.requires, surroundings);
    let program = program.filter(|_| document.is_clean())?;
    Some(Baseline {
        name: name.to_string(),
        summary: file.summary.to_string(),
        program,
        packages: file.packages.clone(),
        size_mb: file.size_mb,
        start_s: file.start_s.as_ref().map(|start_s| **start_s),
        requires,
    })
}

fn check_script(
    document: &mut Document<'_>,
    file: &BaselineFile,
    files: &LabFiles,
) -> Option<BaselineProgram> {
    if let Some(gemm) = &file.gemm {
        let help = "say `kind = \"cublaslt\"`, or remove it: a script knows what it computes";
        let message = "`gemm` is for baselines that the harness calls itself";
        document.report_with_help(gemm.span(), message, Some(help.to_string()));
    }
    let Some(script) = &file.script else {
        let help = "add `script = \"NAME.py\"`, or name another `kind`";
        document.report_file("the baseline has no `script`", Some(help.to_string()));
        return None;
    };
    let path = format!("baselines/{}", **script);
    if !files.contains_key(&path) {
        let scripts = files
            .keys()
            .filter_map(|path| path.strip_prefix("baselines/"))
            .filter(|path| path.ends_with(".py"));
        let message = format!("there is no file `{path}`");
        document.report_with_help(script.span(), message, did_you_mean(script, scripts));
    }
    Some(BaselineProgram::Script(path))
}

fn check_cublaslt(
    document: &mut Document<'_>,
    file: &BaselineFile,
    kind: Range<usize>,
    surroundings: Surroundings<'_>,
) -> Option<BaselineProgram> {
    if surroundings.target != TargetKind::Cuda {
        document.report(kind.clone(), "cuBLASLt runs on a GPU; this lab is for the CPU");
    }
    if let Some(script) = &file.script {
        let help = "remove it, or say `kind = \"python\"`";
        let message = "a baseline that the harness calls itself has no `script`";
        document.report_with_help(script.span(), message, Some(help.to_string()));
    }
    let Some(gemm) = &file.gemm else {
        let help = "add `gemm = { a = \"..\", b = \"..\", c = \"..\" }`, the names of tensors";
        let message = "a baseline of this kind says in `gemm` which tensors are multiplied";
        document.report_with_help(kind, message, Some(help.to_string()));
        return None;
    };
    let GemmFile { a, b, c, b_transposed } = &**gemm;
    let mut tensor = |name: &Located<String>| {
        if !surroundings.tensors.contains(&name.as_str()) {
            let help = did_you_mean(name, surroundings.tensors.iter().copied());
            document.report_with_help(name.span(), format!("unknown tensor `{}`", **name), help);
        }
        name.to_string()
    };
    Some(BaselineProgram::CublasLt(MatrixProduct {
        a: tensor(a),
        b: tensor(b),
        c: tensor(c),
        b_transposed: *b_transposed,
    }))
}
