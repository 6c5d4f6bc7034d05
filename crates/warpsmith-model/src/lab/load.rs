//! Turns the texts of a lab's files into a lab.

use std::collections::BTreeMap;

use super::contract::{KernelTexts, Surroundings};
use super::document::{Document, did_you_mean};
use super::files::{BaselineFile, ContractFile, FrontFile, LabFile, Located};
use super::manifest::Manifest;
use super::shapes::Shape;
use super::{
    Baseline, Kernel, Lab, LabError, LabErrors, LabFiles, ReferenceProgram, TargetKind, Workload,
    baseline, contract, cuda, front, identity, manifest,
};
use crate::Verdict;

/// Loads a lab from its files.
pub(super) fn parse(files: &LabFiles) -> Result<Lab, LabErrors> {
    let mut errors = LabErrors::default();
    let Some(text) = files.get("lab.toml") else {
        errors.0.push(about_file("lab.toml", "the file is missing", None));
        return Err(errors);
    };
    let mut document = Document::new("lab.toml", text);
    let manifest =
        document.read::<LabFile>().map(|file| manifest::check(&mut document, file, files));
    let pairs = pair_kernels(files, &mut errors);

    let Some(manifest) = manifest else {
        // The contracts' meaning depends on the manifest, but their types can be checked.
        document.finish(&mut errors);
        check_types_alone(files, &pairs, &mut errors);
        return Err(errors);
    };
    let arguments = argument_names(&manifest);
    let tensor_names = cuda::tensor_names(&manifest.tensors);
    let surroundings = Surroundings {
        target: manifest.target,
        tensors: &tensor_names,
        axes: &manifest.axes,
        arguments: &arguments,
        shapes: &manifest.shapes,
    };
    let mut contract_errors = LabErrors::default();
    let mut kernels: Vec<Kernel> = pairs
        .iter()
        .filter_map(|texts| {
            let path = format!("kernels/{}.toml", texts.name);
            check_kernel(path, *texts, surroundings, &mut contract_errors)
        })
        .collect();
    // Kernels that are wrong would be reported a second time as unknown.
    if let (Some(text), true) = (files.get(FRONT_FILE), contract_errors.0.is_empty()) {
        kernels.extend(check_front(text, &manifest.axes, &kernels, &mut contract_errors));
    }
    let baselines = check_baselines(files, &pairs, surroundings, &mut contract_errors);
    check_oracle(&mut document, &manifest, &pairs, &kernels);

    document.finish(&mut errors);
    errors.0.append(&mut contract_errors.0);
    let (Some(reference), Some(work), true) =
        (manifest.reference, manifest.work, errors.0.is_empty())
    else {
        return Err(errors);
    };
    Ok(Lab {
        id: identity::lab_id(files, manifest.target),
        name: manifest.name,
        target: manifest.target,
        title: manifest.title,
        imported: manifest.imported,
        axes: manifest.axes,
        tensors: manifest.tensors,
        scalars: manifest.scalars,
        reference,
        oracle: manifest.oracle.map(Located::into_inner),
        work,
        tolerance: manifest.tolerance,
        inputs: manifest.inputs,
        workloads: manifest.workloads,
        extra: manifest.extra,
        proofs: manifest.proofs,
        ranges: manifest.ranges,
        micro_workloads: manifest.micro_workloads,
        headers: collect_headers(files, manifest.target),
        kernels,
        baselines,
    })
}

/// Checks a kernel that is not among the lab's files: an ad-hoc one, or one that a worker was
/// sent. Messages call its contract `NAME.toml`.
pub fn parse_kernel(
    lab: &Lab,
    name: &str,
    contract: &str,
    source: &str,
) -> Result<Kernel, LabErrors> {
    let mut errors = LabErrors::default();
    let path = format!("{name}.toml");
    if !is_kernel_name(name) {
        errors.0.push(about_file(&path, BAD_KERNEL_NAME, None));
        return Err(errors);
    }
    if front::is_front(name) {
        return check_front(contract, &lab.axes, &lab.kernels, &mut errors).ok_or(errors);
    }
    let named: Vec<Workload> = lab.shapes().cloned().collect();
    let shapes = Shape::of(&named, &lab.proofs);
    let tensors = lab.tensors.iter().map(|tensor| tensor.name.as_str());
    let scalars = lab.scalars.iter().map(|scalar| scalar.name.as_str());
    let arguments: Vec<&str> = tensors.chain(scalars).collect();
    let tensor_names = cuda::tensor_names(&lab.tensors);
    let surroundings = Surroundings {
        target: lab.target,
        tensors: &tensor_names,
        axes: &lab.axes,
        arguments: &arguments,
        shapes: &shapes,
    };
    let texts = KernelTexts { name, contract, source };
    check_kernel(path, texts, surroundings, &mut errors).ok_or(errors)
}

const FRONT_FILE: &str = "front.toml";

fn check_front(
    text: &str,
    axes: &[String],
    kernels: &[Kernel],
    errors: &mut LabErrors,
) -> Option<Kernel> {
    let mut document = Document::new(FRONT_FILE, text);
    let front = document
        .read::<FrontFile>()
        .and_then(|file| front::check(&mut document, &file, text, axes, kernels));
    document.finish(errors);
    front
}

const BAD_KERNEL_NAME: &str = "a kernel's name is made of letters, digits and underscores";

fn is_kernel_name(name: &str) -> bool {
    !name.is_empty() && name.chars().all(|letter| letter.is_ascii_alphanumeric() || letter == '_')
}

fn argument_names(manifest: &Manifest) -> Vec<&str> {
    let tensors = manifest.tensors.iter().map(|tensor| tensor.name.as_str());
    let scalars = manifest.scalars.iter().map(|scalar| scalar.name.as_str());
    tensors.chain(scalars).collect()
}

fn check_kernel(
    path: String,
    texts: KernelTexts<'_>,
    surroundings: Surroundings<'_>,
    errors: &mut LabErrors,
) -> Option<Kernel> {
    let mut document = Document::new(path, texts.contract);
    let kernel = document
        .read::<ContractFile>()
        .and_then(|file| contract::check(&mut document, &file, texts, surroundings));
    document.finish(errors);
    kernel
}

fn check_baselines(
    files: &LabFiles,
    pairs: &[KernelTexts<'_>],
    surroundings: Surroundings<'_>,
    errors: &mut LabErrors,
) -> Vec<Baseline> {
    let mut baselines = Vec::new();
    for (path, text) in baseline_contracts(files) {
        let name = path.trim_start_matches("baselines/").trim_end_matches(".toml");
        let mut document = Document::new(path, text);
        if !is_kernel_name(name) {
            document
                .report_file("a baseline's name is made of letters, digits and underscores", None);
        }
        // Trials name kernels and baselines in the same place.
        if pairs.iter().any(|texts| texts.name == name) {
            document.report_file("this baseline has the name of a kernel", None);
        }
        let checked = document
            .read::<BaselineFile>()
            .and_then(|file| baseline::check(&mut document, &file, name, files, surroundings));
        document.finish(errors);
        baselines.extend(checked);
    }
    baselines
}

fn baseline_contracts(files: &LabFiles) -> impl Iterator<Item = (&str, &str)> {
    files
        .iter()
        .filter(|(path, _)| path.starts_with("baselines/") && path.ends_with(".toml"))
        .map(|(path, text)| (path.as_str(), text.as_str()))
}

/// Finds the kernels: a contract and a source of the same name. One without the other is an
/// error, and so is any file that is neither.
fn pair_kernels<'a>(files: &'a LabFiles, errors: &mut LabErrors) -> Vec<KernelTexts<'a>> {
    let mut pairs = Vec::new();
    for (path, text) in files.iter().filter(|(path, _)| path.starts_with("kernels/")) {
        let (name, ending) = match path["kernels/".len()..].rsplit_once('.') {
            Some((_, "md")) => continue,
            Some((name, ending @ ("toml" | "c" | "cu"))) => (name, ending),
            _ => {
                let help =
                    "a kernel is a pair of files, NAME.toml and NAME.c or NAME.cu".to_string();
                errors.0.push(about_file(path, "this file belongs to no kernel", Some(help)));
                continue;
            }
        };
        if !is_kernel_name(name) {
            errors.0.push(about_file(path, BAD_KERNEL_NAME, None));
            continue;
        }
        if front::is_front(name) {
            let help = "a lab's front is the file `front.toml` beside `lab.toml`".to_string();
            errors.0.push(about_file(path, "a kernel cannot be called `front`", Some(help)));
            continue;
        }
        let (partner, what) = match ending {
            "toml" => {
                let cuda = format!("kernels/{name}.cu");
                let source = if files.contains_key(&cuda) { cuda } else { cuda_less(&cuda) };
                (source, "contract has no source")
            }
            _ => (format!("kernels/{name}.toml"), "source has no contract"),
        };
        match (files.get(&partner), ending) {
            (Some(source), "toml") => pairs.push(KernelTexts { name, contract: text, source }),
            (Some(_), _) => {}
            (None, _) => {
                let help = format!("add `{partner}`");
                errors.0.push(about_file(path, &format!("this {what}"), Some(help)));
            }
        }
    }
    pairs
}

/// Collects the headers, by their path below the include folder, sorted. The lab's own come after
/// the shared ones in the order of paths and so win.
fn collect_headers(files: &LabFiles, target: TargetKind) -> Vec<(String, String)> {
    let mut headers = BTreeMap::new();
    for (path, text) in files.iter().filter(|(path, _)| !identity::is_foreign(path, target)) {
        let shared = path.strip_prefix("../include/");
        if let Some(name) = shared.or_else(|| path.strip_prefix("include/")) {
            headers.insert(name.to_string(), text.clone());
        }
    }
    headers.into_iter().collect()
}

/// Checks that the oracle exists and can judge: it is honest and serves every shape. A script that
/// answers on every shape needs none.
fn check_oracle(
    document: &mut Document<'_>,
    manifest: &Manifest,
    pairs: &[KernelTexts<'_>],
    kernels: &[Kernel],
) {
    let is_script = manifest.reference.as_ref().map(|reference| match reference.program {
        ReferenceProgram::Script(_) => true,
        ReferenceProgram::Function { .. } => false,
    });
    let oracle = match (&manifest.oracle, is_script) {
        (Some(oracle), Some(true)) => {
            let help = "remove `[oracle]`".to_string();
            let message = "a script as the reference answers on every shape itself";
            document.report_with_help(oracle.span(), message, Some(help));
            return;
        }
        (Some(oracle), _) => oracle,
        (None, Some(false)) => {
            let help = "add `[oracle]` with `kernel`, the plain kernel that it proves".to_string();
            document.report_file("a C function as the reference needs an oracle", Some(help));
            return;
        }
        (None, _) => return,
    };
    let names = || pairs.iter().map(|texts| texts.name);
    if !names().any(|name| name == oracle.as_str()) {
        let message = format!("unknown kernel `{}`", **oracle);
        document.report_with_help(oracle.span(), message, did_you_mean(oracle, names()));
        return;
    }
    let Some(kernel) = kernels.iter().find(|kernel| kernel.name == **oracle) else { return };
    if kernel.expect.is_some_and(|verdict| verdict != Verdict::Passed) {
        document.report(oracle.span(), "the oracle is a kernel that must not pass");
    }
    let unserved = manifest.shapes.iter().find(|shape| kernel.serves(&shape.workload) != Ok(true));
    if let Some(shape) = unserved {
        let message = format!("the oracle does not serve {}", shape.label);
        document.report(oracle.span(), message);
    }
}

fn check_types_alone(files: &LabFiles, pairs: &[KernelTexts<'_>], errors: &mut LabErrors) {
    for texts in pairs {
        let mut document = Document::new(format!("kernels/{}.toml", texts.name), texts.contract);
        document.read::<ContractFile>();
        document.finish(errors);
    }
    for (path, text) in baseline_contracts(files) {
        let mut document = Document::new(path, text);
        document.read::<BaselineFile>();
        document.finish(errors);
    }
}

/// Returns the path of a C source beside that of a CUDA source.
fn cuda_less(path: &str) -> String {
    path.trim_end_matches('u').to_string()
}

fn about_file(file: &str, message: &str, help: Option<String>) -> LabError {
    LabError { file: file.to_string(), place: None, message: message.to_string(), help }
}
