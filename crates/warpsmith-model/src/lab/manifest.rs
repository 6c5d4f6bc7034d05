//! Checks `lab.toml`.

use std::ops::Range as Span;

use super::document::{Document, Scope, did_you_mean};
use super::files::{
    Entries, InputsFile, LabFile, Located, RangeFile, ReferenceFile, ScalarFile, TensorFile,
    WorkFile, WorkloadFile,
};
use super::shapes::{MAX_BYTES, Shape, check_positive, first_failure, total_bytes};
use super::{
    Distribution, ElementType, Imported, Inputs, LabFiles, Range, Reference, ReferenceProgram,
    ReferenceScript, Role, Scalar, ScalarDraw, ScalarType, TargetKind, Tensor, Tolerance, Work,
    Workload,
};
use crate::suggest::closest;
use crate::{DType, DeviceInfo, Expr, Value};

/// `lab.toml`, checked; parts in which something was wrong are absent.
#[derive(Debug)]
pub(super) struct Manifest {
    pub(super) name: String,
    pub(super) target: TargetKind,
    pub(super) title: String,
    pub(super) imported: Option<Imported>,
    pub(super) axes: Vec<String>,
    pub(super) tensors: Vec<Tensor>,
    pub(super) scalars: Vec<Scalar>,
    pub(super) reference: Option<Reference>,
    pub(super) oracle: Option<Located<String>>,
    pub(super) work: Option<Work>,
    pub(super) tolerance: Tolerance,
    pub(super) inputs: Vec<Inputs>,
    pub(super) workloads: Vec<Workload>,
    pub(super) extra: Vec<Workload>,
    pub(super) proofs: Vec<Workload>,
    pub(super) ranges: Vec<(String, Range)>,
    pub(super) micro_workloads: Vec<String>,
    /// Workloads and proofs, for trying the expressions of contracts.
    pub(super) shapes: Vec<Shape>,
}

/// Checks everything that a manifest says by itself.
pub(super) fn check(document: &mut Document<'_>, file: LabFile, files: &LabFiles) -> Manifest {
    check_names(document, &file);
    let axes: Vec<String> = file.axes.iter().map(|axis| axis.to_string()).collect();
    let scope = Scope {
        what: "the axes",
        names: axes.iter().map(String::as_str).collect(),
        hidden: DeviceInfo::CONSTANTS.iter().map(|name| (*name, "a device constant")).collect(),
    };

    let workloads = check_workloads(document, &axes, &file.workload, "workload");
    let extra = match file.extra.is_empty() {
        true => Vec::new(),
        false => check_workloads(document, &axes, &file.extra, "extra"),
    };
    // Commands find both by name.
    for again in file.extra.iter().filter(|it| workloads.iter().any(|own| own.name == *it.name)) {
        let message = format!("the workload `{}` is there already", *again.name);
        document.report(again.name.span(), message);
    }
    let proofs = check_workloads(document, &axes, &file.proof, "proof");
    let ranges = match &file.ranges {
        Some(ranges) => check_ranges(document, &axes, ranges),
        None => Vec::new(),
    };
    let named: Vec<Workload> = workloads.iter().chain(&extra).cloned().collect();
    let shapes = Shape::of(&named, &proofs);
    let mut tried = shapes.clone();
    tried.extend(corners(&axes, &ranges));

    let tensors = check_tensors(document, &file.tensor, &scope, &tried);
    if tensors.len() == file.tensor.len() {
        check_sizes(document, &file, &tensors, &shapes);
    }
    let scalars = file
        .scalar
        .iter()
        .filter_map(|scalar| check_scalar(document, scalar, &scope, &tried))
        .collect();
    let reference = check_reference(document, &file.reference, &scope, &tried, files);
    let work = check_work(document, &file.work, &scope, &shapes);
    let inputs = check_inputs(document, &file);
    check_tolerance(document, &file, &inputs);
    let micro_workloads = check_micro(document, &file);

    Manifest {
        name: file.name.into_inner(),
        target: file.target.map(Located::into_inner).unwrap_or_default(),
        title: file.title.into_inner(),
        imported: file.imported,
        axes,
        tensors,
        scalars,
        reference,
        oracle: file.oracle.map(|oracle| oracle.kernel),
        work,
        tolerance: file.tolerance.into_inner(),
        inputs,
        workloads,
        extra,
        proofs,
        ranges,
        micro_workloads,
        shapes,
    }
}

/// Checks the names of the lab and of the arguments of its kernels.
fn check_names(document: &mut Document<'_>, file: &LabFile) {
    document.check_identifier(&file.name, "lab's name");
    document.check_line(&file.title, "title");
    let axes = file.axes.iter().map(|name| (name, "axis"));
    let tensors = file.tensor.iter().map(|tensor| (&tensor.name, "tensor"));
    let scalars = file.scalar.iter().map(|scalar| (&scalar.name, "scalar"));
    let mut seen: Vec<(&str, &str)> = Vec::new();
    for (name, what) in axes.chain(tensors).chain(scalars) {
        if !document.check_identifier(name, what) {
            continue;
        }
        if let Some((_, other)) = seen.iter().find(|(other, _)| *other == name.as_str()) {
            let message = match *other == what {
                true => format!("there are two {} named `{}`", plural(what), **name),
                false => format!("the {what} `{}` has the name of the {other}", **name),
            };
            document.report(name.span(), message);
        }
        if matches!(name.as_str(), "block_begin" | "block_end") {
            let message = format!("the {what} `{}` has the name of a later argument", **name);
            document.report(name.span(), message);
        }
        if what == "axis" && DeviceInfo::CONSTANTS.contains(&name.as_str()) {
            let message = format!("the axis `{}` has the name of a device constant", **name);
            document.report(name.span(), message);
        }
        seen.push((name, what));
    }
}

fn plural(what: &str) -> &str {
    match what {
        "axis" => "axes",
        "tensor" => "tensors",
        _ => "scalars",
    }
}

/// Checks a list of shapes; returns those that are complete.
fn check_workloads(
    document: &mut Document<'_>,
    axes: &[String],
    files: &[WorkloadFile],
    kind: &str,
) -> Vec<Workload> {
    if files.is_empty() {
        let help = format!("add a `[[{kind}]]` with `name` and `axes`");
        document.report_file(format!("the lab has no {kind}"), Some(help));
    }
    document.check_unique(files.iter().map(|file| &file.name), &format!("{kind}s"));
    let mut workloads = Vec::new();
    for file in files {
        document.check_line(&file.name, "name");
        let is_complete = check_axes(document, axes, &file.axes, &format!("the {kind}"));
        if is_complete {
            let value = |axis: &String| file.axes.get(axis.as_str()).map(|value| **value);
            let extents = axes.iter().filter_map(|axis| Some((axis.clone(), value(axis)?)));
            workloads.push(Workload::new(&**file.name, extents.collect()));
        }
    }
    workloads
}

/// Checks that a table has a value for every axis and for nothing else.
fn check_axes<T>(
    document: &mut Document<'_>,
    axes: &[String],
    table: &Located<Entries<T>>,
    what: &str,
) -> bool {
    let known = || axes.iter().map(String::as_str);
    let unknown: Vec<_> = table.keys().filter(|name| !axes.contains(name)).collect();
    for name in &unknown {
        let message = format!("unknown axis `{}`", ***name);
        document.report_with_help(name.span(), message, did_you_mean(name, known()));
    }
    // A misspelt axis is not reported as missing too.
    let meant: Vec<&str> = unknown.iter().filter_map(|name| closest(name, known())).collect();
    let is_missing = |axis: &&str| !table.contains_key(*axis) && !meant.contains(axis);
    let missing: Vec<String> = known().filter(is_missing).map(|axis| format!("`{axis}`")).collect();
    if !missing.is_empty() {
        document.report(table.span(), format!("{what} has no value for {}", missing.join(", ")));
    }
    unknown.is_empty() && missing.is_empty()
}

/// Checks the ranges; returns those that hold values, in the order of the axes.
fn check_ranges(
    document: &mut Document<'_>,
    axes: &[String],
    table: &Located<Entries<RangeFile>>,
) -> Vec<(String, Range)> {
    check_axes(document, axes, table, "`[ranges]`");
    let mut ranges = Vec::new();
    for axis in axes {
        let Some(file) = table.get(axis.as_str()) else { continue };
        let message = match (file.min, file.max, &file.values) {
            (Some(min), Some(max), None) if min <= max => {
                ranges.push((axis.clone(), Range::Span { min, max }));
                continue;
            }
            (None, None, Some(values)) if !values.is_empty() => {
                ranges.push((axis.clone(), Range::Values(values.clone())));
                continue;
            }
            (Some(_), Some(_), None) => "`min` is above `max`",
            (None, None, Some(_)) => "`values` is empty",
            _ => "a range is `{ min = .., max = .. }` or `{ values = [..] }`",
        };
        document.report(file.span(), message);
    }
    ranges
}

/// Returns the least and the greatest shape that the ranges allow: axes are drawn independently,
/// so both can come up, and they are where expressions fail first.
fn corners(axes: &[String], ranges: &[(String, Range)]) -> Vec<Shape> {
    if ranges.is_empty() || ranges.len() != axes.len() {
        return Vec::new();
    }
    let corner = |label: &str, pick: &dyn Fn(&Range) -> Option<i64>| {
        let axes = ranges.iter().map(|(axis, range)| Some((axis.clone(), pick(range)?)));
        let workload = Workload::new(label, axes.collect::<Option<_>>()?);
        Some(Shape { label: format!("the {label} shape of `[ranges]`"), workload })
    };
    let least = |range: &Range| match range {
        Range::Span { min, .. } => Some(*min),
        Range::Values(values) => values.iter().min().copied(),
    };
    let greatest = |range: &Range| match range {
        Range::Span { max, .. } => Some(*max),
        Range::Values(values) => values.iter().max().copied(),
    };
    [corner("smallest", &least), corner("largest", &greatest)].into_iter().flatten().collect()
}

fn check_tensors(
    document: &mut Document<'_>,
    files: &[TensorFile],
    scope: &Scope<'_>,
    shapes: &[Shape],
) -> Vec<Tensor> {
    for (role, name) in [(Role::Input, "input"), (Role::Output, "output")] {
        if !files.iter().any(|tensor| tensor.role == role) {
            let help = format!("add a `[[tensor]]` with `role = \"{name}\"`");
            document.report_file(format!("the lab has no {name} tensor"), Some(help));
        }
    }
    files.iter().filter_map(|file| check_tensor(document, file, scope, shapes)).collect()
}

fn check_tensor(
    document: &mut Document<'_>,
    file: &TensorFile,
    scope: &Scope<'_>,
    shapes: &[Shape],
) -> Option<Tensor> {
    if file.shape.is_empty() {
        let message = format!("the tensor `{}` has no extents", *file.name);
        let help = "a single element has the shape [\"1\"]".to_string();
        document.report_with_help(file.shape.span(), message, Some(help));
    }
    let mut shape = Vec::new();
    for text in file.shape.iter() {
        let Some(extent) = document.expression(text, scope) else { continue };
        match first_failure(shapes, |workload| check_positive(&extent, workload)) {
            Some(problem) => document.report(text.span(), problem),
            None => shape.push(extent),
        }
    }
    let has_type = check_element_type(document, &file.dtype, scope, shapes);
    let is_whole = shape.len() == file.shape.len() && !shape.is_empty() && has_type;
    is_whole.then(|| Tensor {
        name: file.name.to_string(),
        shape,
        dtype: (*file.dtype).clone(),
        role: file.role,
    })
}

/// Checks that an axis which chooses an element type exists and has a type for each of its values.
fn check_element_type(
    document: &mut Document<'_>,
    dtype: &Located<ElementType>,
    scope: &Scope<'_>,
    shapes: &[Shape],
) -> bool {
    let ElementType::ByAxis { axis, of } = &**dtype else { return true };
    if !scope.names.contains(&axis.as_str()) {
        let help = did_you_mean(axis, scope.names.iter().copied());
        document.report_with_help(dtype.span(), format!("unknown axis `{axis}`"), help);
        return false;
    }
    let check = |workload: &Workload| match workload.axis(axis) {
        Some(value) if (0..of.len() as i64).contains(&value) => Ok(()),
        Some(value) => Err(format!("`{axis}` is {value}; `of` has {} types", of.len())),
        None => Ok(()),
    };
    match first_failure(shapes, check) {
        Some(problem) => {
            document.report(dtype.span(), problem);
            false
        }
        None => true,
    }
}

fn check_sizes(document: &mut Document<'_>, file: &LabFile, tensors: &[Tensor], shapes: &[Shape]) {
    for shape in shapes {
        let too_large = total_bytes(tensors, &shape.workload).filter(|bytes| *bytes > MAX_BYTES);
        let Some(bytes) = too_large else { continue };
        let span = file
            .workload
            .iter()
            .chain(&file.extra)
            .chain(&file.proof)
            .find(|file| *file.name == shape.workload.name)
            .map_or(0..0, |file| file.axes.span());
        let tib = bytes as f64 / MAX_BYTES as f64;
        let message = format!("{} needs {tib:.1} TiB of tensors; 1 TiB is the limit", shape.label);
        document.report(span, message);
    }
}

fn check_scalar(
    document: &mut Document<'_>,
    file: &ScalarFile,
    scope: &Scope<'_>,
    shapes: &[Shape],
) -> Option<Scalar> {
    let value = document.expression(&file.value, scope)?;
    let check = |workload: &Workload| {
        let lookup = |name: &str| workload.lookup(name);
        if file.dtype == ScalarType::I64 {
            return value.eval_int(&lookup).map(|_| ()).map_err(|error| error.0);
        }
        check_number(&value, workload, |number| number.is_finite(), "a finite number")
    };
    if let Some(problem) = first_failure(shapes, check) {
        document.report(file.value.span(), problem);
        return None;
    }
    let draw = check_scalar_draw(document, file)?;
    Some(Scalar { name: file.name.to_string(), dtype: file.dtype, value, draw })
}

/// The factors of floating-point scalars that say nothing else: smaller ones alone, since what holds for a
/// probability or a small constant seldom holds for twice as much, and not so near 1 that nothing changes.
const FACTORS: (f64, f64) = (0.5, 0.95);

fn check_scalar_draw(document: &mut Document<'_>, file: &ScalarFile) -> Option<ScalarDraw> {
    let is_whole = file.dtype == ScalarType::I64;
    let Some(draw) = &file.draw else {
        return Some(match is_whole {
            true => ScalarDraw::Fixed,
            false => {
                ScalarDraw::Drawn { factors: Some(FACTORS), values: Vec::new(), is_stated: false }
            }
        });
    };
    let is_range = |[low, high]: &[f64; 2]| low < high && low.is_finite() && high.is_finite();
    let message = match (draw.factors, &draw.values) {
        (Some(factors), _) if !is_range(&factors) => {
            "`factors` are two finite numbers, the lower one first"
        }
        (_, Some(values)) if values.is_empty() => "`values` is empty",
        (_, Some(values)) if values.iter().any(|value| !value.is_finite()) => {
            "`values` must be finite"
        }
        (_, Some(values)) if is_whole && values.iter().any(|value| value.fract() != 0.0) => {
            "`values` of an i64 must be whole"
        }
        (None, Some(values)) if values.len() == 1 => return Some(ScalarDraw::Fixed),
        (None, None) => "`draw` is `{ factors = [.., ..] }`, `{ values = [..] }` or both",
        (factors, values) => {
            let factors = factors.map(|[low, high]| (low, high));
            let values = values.clone().unwrap_or_default();
            return Some(ScalarDraw::Drawn { factors, values, is_stated: true });
        }
    };
    document.report(draw.span(), message);
    None
}

fn check_number(
    expr: &Expr,
    workload: &Workload,
    accept: impl Fn(f64) -> bool,
    wanted: &str,
) -> Result<(), String> {
    let value = expr.eval(&|name| workload.lookup(name)).map_err(|error| error.0)?;
    match value.as_f64() {
        Some(number) if accept(number) => Ok(()),
        _ => Err(format!("`{}` is {}; it must be {wanted}", expr.text(), quoted(&value))),
    }
}

/// Returns a value as an expression would write it.
pub(super) fn quoted(value: &Value) -> String {
    match value {
        Value::Str(text) => format!("{text:?}"),
        other => other.to_string(),
    }
}

fn check_reference(
    document: &mut Document<'_>,
    file: &ReferenceFile,
    scope: &Scope<'_>,
    shapes: &[Shape],
    files: &LabFiles,
) -> Option<Reference> {
    let source = files.get(file.source.as_str());
    if source.is_none() {
        let is_source = |path: &&str| path.ends_with(".c") || path.ends_with(".py");
        let sources = files.keys().map(String::as_str).filter(is_source);
        let help = did_you_mean(&file.source, sources);
        let message = format!("there is no file `{}`", *file.source);
        document.report_with_help(file.source.span(), message, help);
    }
    let program = if file.source.ends_with(".py") {
        check_script(document, file, files)
    } else {
        check_function(document, file, scope, shapes)?
    };
    Some(Reference { path: file.source.to_string(), source: source?.clone(), program })
}

fn check_script(
    document: &mut Document<'_>,
    file: &ReferenceFile,
    files: &LabFiles,
) -> ReferenceProgram {
    for (key, value) in [("entry", &file.entry), ("blocks", &file.blocks)] {
        if let Some(value) = value {
            let help = "remove it: a script defines `prepare` and `run`".to_string();
            let message = format!("a script as the reference has no `{key}`");
            document.report_with_help(value.span(), message, Some(help));
        }
    }
    // A lab for another target may share the script of the lab around it.
    let folder = file.source.rsplit_once('/').map_or("", |(folder, _)| folder);
    let beside = |path: &str| match path.rsplit_once('/') {
        Some((there, name)) if there == folder => Some(name.to_string()),
        None if folder.is_empty() => Some(path.to_string()),
        _ => None,
    };
    let is_python = |(path, _): &(&String, &String)| path.ends_with(".py");
    let scripts = files.iter().filter(is_python);
    ReferenceProgram::Script(ReferenceScript {
        files: scripts.filter_map(|(path, text)| Some((beside(path)?, text.clone()))).collect(),
        packages: file.packages.clone(),
        size_mb: file.size_mb,
    })
}

fn check_function(
    document: &mut Document<'_>,
    file: &ReferenceFile,
    scope: &Scope<'_>,
    shapes: &[Shape],
) -> Option<ReferenceProgram> {
    let (Some(entry), Some(blocks)) = (&file.entry, &file.blocks) else {
        let help = "add `entry`, its name, and `blocks`, how many blocks a shape has".to_string();
        let message = "a C function as the reference needs `entry` and `blocks`";
        document.report_with_help(file.source.span(), message, Some(help));
        return None;
    };
    document.check_identifier(entry, "function");
    if !file.packages.is_empty() {
        document.report(file.source.span(), "`packages` are for a script as the reference");
    }
    let expr = document.expression(blocks, scope)?;
    if let Some(problem) = first_failure(shapes, |shape| check_positive(&expr, shape)) {
        document.report(blocks.span(), problem);
    }
    Some(ReferenceProgram::Function { entry: entry.to_string(), blocks: expr })
}

fn check_work(
    document: &mut Document<'_>,
    file: &WorkFile,
    scope: &Scope<'_>,
    shapes: &[Shape],
) -> Option<Work> {
    let flops = document.expression(&file.flops, scope);
    let bytes = document.expression(&file.bytes, scope);
    let mut check = |expr: &Option<Expr>, span: Span<usize>| {
        let Some(expr) = expr else { return };
        let is_positive = |number: f64| number > 0.0 && number.is_finite();
        let check = |shape: &Workload| check_number(expr, shape, is_positive, "above 0");
        if let Some(problem) = first_failure(shapes, check) {
            document.report(span, problem);
        }
    };
    check(&flops, file.flops.span());
    check(&bytes, file.bytes.span());
    Some(Work { flops: flops?, bytes: bytes? })
}

/// Checks that tolerances tell right from wrong. An output of zeros is off by 1, relative to any answer, so
/// a bound of 1 or more says nothing.
fn check_tolerance(document: &mut Document<'_>, file: &LabFile, inputs: &[Inputs]) {
    let tolerance = &file.tolerance;
    for (key, value) in [("element_eps", tolerance.element_eps), ("norm_eps", tolerance.norm_eps)] {
        if !(value > 0.0 && value.is_finite()) {
            let message = format!("`{key}` is {value}; it must be above 0");
            document.report(tolerance.span(), message);
        }
    }
    let outputs = file.tensor.iter().filter(|tensor| tensor.role == Role::Output);
    let Some(coarsest) = outputs
        .flat_map(|tensor| dtypes(&tensor.dtype))
        .max_by(|a, b| a.epsilon().total_cmp(&b.epsilon()))
    else {
        return;
    };
    for (idx, inputs) in inputs.iter().enumerate() {
        let share = |eps: f64| eps * inputs.tolerance_scale * coarsest.epsilon();
        let (element, norm) = (share(tolerance.element_eps), share(tolerance.norm_eps));
        let problem = if norm >= 1.0 {
            format!("`norm_eps` allows an error of {norm:.2} times the whole answer")
        } else if element >= MOST_ELEMENT_ERROR {
            format!("`element_eps` allows an element to be off by {element:.0} times its size")
        } else {
            continue;
        };
        let scale = match inputs.tolerance_scale > 1.0 {
            true => format!(", widened by the `tolerance_scale` of `{}`", inputs.name),
            false => String::new(),
        };
        let dtype = format!("{coarsest:?}").to_lowercase();
        let message = format!("{problem} in {dtype}{scale}, so wrong outputs would pass");
        let help = "`warpsmith calibrate LAB` proposes tolerances".to_string();
        let span = match &file.inputs[idx].tolerance_scale {
            Some(scale) => scale.span(),
            None => tolerance.span(),
        };
        document.report_with_help(span, message, Some(help));
        return;
    }
}

/// An element may be off by its row's size where rows mix magnitudes and the type is coarse, but no further.
const MOST_ELEMENT_ERROR: f64 = 2.0;

fn dtypes(element: &ElementType) -> Vec<DType> {
    match element {
        ElementType::Fixed(dtype) => vec![*dtype],
        ElementType::ByAxis { of, .. } => of.clone(),
    }
}

fn check_inputs(document: &mut Document<'_>, file: &LabFile) -> Vec<Inputs> {
    if file.inputs.is_empty() {
        let help = "add `[[inputs]]` with `name` and `default`".to_string();
        document.report_file("the lab has no inputs", Some(help));
    }
    document.check_unique(file.inputs.iter().map(|inputs| &inputs.name), "inputs");
    file.inputs.iter().map(|inputs| check_one_inputs(document, inputs, &file.tensor)).collect()
}

fn check_one_inputs(
    document: &mut Document<'_>,
    file: &InputsFile,
    tensors: &[TensorFile],
) -> Inputs {
    document.check_line(&file.name, "name");
    check_distribution(document, &file.default);
    let inputs: Vec<&str> = tensors
        .iter()
        .filter(|tensor| tensor.role == Role::Input)
        .map(|tensor| tensor.name.as_str())
        .collect();
    for (name, distribution) in &file.tensors {
        check_distribution(document, distribution);
        if inputs.contains(&name.as_str()) {
            continue;
        }
        let is_output = tensors.iter().any(|tensor| *tensor.name == **name);
        if is_output {
            let message = format!("`{}` is an output, which is never filled", **name);
            document.report(name.span(), message);
        } else {
            let help = did_you_mean(name, inputs.iter().copied());
            document.report_with_help(name.span(), format!("unknown tensor `{}`", **name), help);
        }
    }
    if let Some(scale) = &file.tolerance_scale
        && !(**scale >= 1.0 && scale.is_finite())
    {
        let message = format!("`tolerance_scale` is {}; it must be at least 1", **scale);
        document.report(scale.span(), message);
    }
    for tensor in tensors.iter().filter(|tensor| tensor.role == Role::Input) {
        let chosen = file.tensors.get(tensor.name.as_str()).unwrap_or(&file.default);
        let Distribution::Ramp { axis, .. } = **chosen else { continue };
        if axis < 0 && axis.unsigned_abs() as usize > tensor.shape.len() {
            let (name, count) = (&*tensor.name, tensor.shape.len());
            let message = format!("`{name}` has {count} axes, so there is no axis {axis} of it");
            let help = format!("give `{name}` a distribution of its own in `tensors`");
            document.report_with_help(chosen.span(), message, Some(help));
        }
    }
    let pick = |name: &&str| file.tensors.get(*name).map_or(*file.default, |chosen| **chosen);
    Inputs {
        name: file.name.to_string(),
        distributions: inputs.iter().map(pick).collect(),
        tolerance_scale: file.tolerance_scale.as_ref().map_or(1.0, |scale| **scale),
    }
}

fn check_distribution(document: &mut Document<'_>, distribution: &Located<Distribution>) {
    let message = match **distribution {
        Distribution::Normal { mean, std } if !(mean.is_finite() && std.is_finite()) => {
            "`mean` and `std` must be finite"
        }
        Distribution::Normal { std, .. } if std <= 0.0 => "`std` must be above 0",
        Distribution::Uniform { low, high } if !(low.is_finite() && high.is_finite()) => {
            "`low` and `high` must be finite"
        }
        Distribution::Uniform { low, high } if low >= high => "`low` must be below `high`",
        Distribution::Constant { value } if !value.is_finite() => "`value` must be finite",
        Distribution::Ramp { first, last, std, .. }
            if !(first.is_finite() && last.is_finite() && std.is_finite()) =>
        {
            "`first`, `last` and `std` must be finite"
        }
        Distribution::Ramp { std, .. } if std < 0.0 => "`std` must not be below 0",
        Distribution::Ramp { axis, .. } if axis >= 0 => {
            "`axis` is counted from the last one, which is -1"
        }
        _ => return,
    };
    document.report(distribution.span(), message);
}

fn check_micro(document: &mut Document<'_>, file: &LabFile) -> Vec<String> {
    let names: Vec<&str> = file.workload.iter().map(|workload| workload.name.as_str()).collect();
    let Some(micro) = &file.micro else {
        return names.first().map(|first| first.to_string()).into_iter().collect();
    };
    if micro.workloads.is_empty() {
        let message = "the microbenchmark has no workloads";
        let help = "leave `[micro]` out to use the first workload".to_string();
        document.report_with_help(micro.workloads.span(), message, Some(help));
    }
    document.check_unique(micro.workloads.iter(), "workloads here");
    for name in micro.workloads.iter().filter(|name| !names.contains(&name.as_str())) {
        let help = did_you_mean(name, names.iter().copied());
        document.report_with_help(name.span(), format!("unknown workload `{}`", **name), help);
    }
    micro.workloads.iter().map(|name| name.to_string()).collect()
}
