//! Checks `kernels/NAME.toml`.

use super::cuda;
use super::document::{Document, Scope, did_you_mean};
use super::files::{ContractFile, LaunchFile, Located, ScratchFile, SearchFile};
use super::manifest::quoted;
use super::shapes::{MAX_BYTES, Shape, first_failure};
use super::space::{self, Emptiness};
use super::{Kernel, Launch, Scratch, TargetKind, Tunable, Workload};
use crate::{DeviceInfo, EvalError, Expr, Params, Value};

/// Tunables with a meaning of their own: they choose the compiler and its flags.
const RESERVED_TUNABLES: [&str; 2] = ["CC", "CFLAGS"];

/// What a contract needs to know of its lab.
#[derive(Clone, Copy, Debug)]
pub(super) struct Surroundings<'a> {
    pub(super) target: TargetKind,
    /// The names of the tensors.
    pub(super) tensors: &'a [&'a str],
    pub(super) axes: &'a [String],
    /// The names of tensors and scalars, which are arguments beside the axes.
    pub(super) arguments: &'a [&'a str],
    /// The shapes to try expressions on.
    pub(super) shapes: &'a [Shape],
}

/// A kernel's files.
#[derive(Clone, Copy, Debug)]
pub(super) struct KernelTexts<'a> {
    pub(super) name: &'a str,
    pub(super) contract: &'a str,
    pub(super) source: &'a str,
}

/// Checks a contract; none when something is wrong with it.
pub(super) fn check(
    document: &mut Document<'_>,
    file: &ContractFile,
    texts: KernelTexts<'_>,
    surroundings: Surroundings<'_>,
) -> Option<Kernel> {
    check_plain_values(document, file, surroundings);
    let tunables = check_tunables(document, file, surroundings);
    let names = Names::new(surroundings.axes, &tunables);
    let requires = check_requires(document, &file.requires, surroundings);
    let served = served_shapes(document, file, &requires, surroundings.shapes);
    let constraints: Vec<Expr> = file
        .constraints
        .iter()
        .filter_map(|text| document.expression(text, &names.in_constraints()))
        .collect();
    let default = check_search(document, file, &tunables);
    if let Some(default) = &default
        && constraints.len() == file.constraints.len()
    {
        check_constraints(document, file, &tunables, &constraints, default);
    }
    let default = default.unwrap_or_default();
    let launches = check_launches(document, file, surroundings.target, &names, &default, &served);
    let (arch, tensor_maps) = match surroundings.target {
        TargetKind::Cpu => {
            cuda::refuse_on_cpu(document, file);
            (None, Vec::new())
        }
        TargetKind::Cuda => {
            let tensors = surroundings.tensors;
            let maps = cuda::check_tensor_maps(document, file, tensors, &names, &default, &served);
            (cuda::check_arch(document, file), maps)
        }
    };
    let scratch = file
        .scratch
        .iter()
        .filter_map(|scratch| check_scratch(document, scratch, &names, &default, &served))
        .collect();
    let expand = match &file.search {
        Some(search) => search.expand.iter().map(|name| name.to_string()).collect(),
        None => Vec::new(),
    };
    document.is_clean().then(|| Kernel {
        name: texts.name.to_string(),
        summary: file.summary.to_string(),
        contract: texts.contract.to_string(),
        source: texts.source.to_string(),
        flags: file.flags.iter().map(|flag| flag.to_string()).collect(),
        specialize: file.specialize.iter().map(|axis| axis.to_string()).collect(),
        requires,
        constraints,
        launches,
        scratch,
        tunables,
        default,
        expand,
        expect: file.expect,
        arch,
        compiler: file.compiler.as_deref().copied().unwrap_or_default(),
        tensor_maps,
        build: file.build.as_ref().map(|build| (&**build).into()),
        front: None,
    })
}

/// Checks what is no expression and no tunable.
fn check_plain_values(
    document: &mut Document<'_>,
    file: &ContractFile,
    surroundings: Surroundings<'_>,
) {
    match file.target.parse::<TargetKind>() {
        Err(_) => {
            let message = format!("unknown target `{}`", *file.target);
            let help = "a kernel runs on `cpu` or `cuda`".to_string();
            document.report_with_help(file.target.span(), message, Some(help));
        }
        Ok(target) if target != surroundings.target => {
            let message = format!(
                "a kernel for `{}` in a lab for `{}`",
                target.name(),
                surroundings.target.name()
            );
            let help = "a lab for another target is a folder of its own".to_string();
            document.report_with_help(file.target.span(), message, Some(help));
        }
        Ok(_) => {}
    }
    document.check_line(&file.summary, "summary");
    for flag in file.flags.iter().filter(|flag| flag.is_empty() || flag.contains('\0')) {
        document.report(flag.span(), "a flag must not be empty");
    }
    document.check_unique(&file.specialize, "specialised axes");
    for axis in file.specialize.iter().filter(|axis| !surroundings.axes.contains(axis)) {
        let help = did_you_mean(axis, surroundings.axes.iter().map(String::as_str));
        document.report_with_help(axis.span(), format!("unknown axis `{}`", **axis), help);
    }
    document.check_unique(file.scratch.iter().map(|scratch| &scratch.name), "scratch buffers");
    for name in file.scratch.iter().map(|scratch| &scratch.name) {
        let is_argument =
            surroundings.axes.contains(name) || surroundings.arguments.contains(&name.as_str());
        if document.check_identifier(name, "scratch buffer") && is_argument {
            let message = format!("`{}` is already an argument of the lab's kernels", **name);
            document.report(name.span(), message);
        }
    }
}

/// The names that a contract's expressions may use.
pub(super) struct Names<'a> {
    axes: &'a [String],
    tunables: Vec<&'a str>,
}

impl<'a> Names<'a> {
    fn new(axes: &'a [String], tunables: &'a [Tunable]) -> Self {
        Self { axes, tunables: tunables.iter().map(|tunable| tunable.name.as_str()).collect() }
    }

    fn in_constraints(&self) -> Scope<'a> {
        let constants = DeviceInfo::CONSTANTS.iter().copied();
        Scope {
            what: "tunables and device constants",
            names: self.tunables.iter().copied().chain(constants).collect(),
            hidden: self.axes.iter().map(|axis| (axis.as_str(), "an axis")).collect(),
        }
    }

    fn in_launches(&self) -> Scope<'a> {
        let mut scope = self.in_constraints();
        scope.what = "axes, tunables and device constants";
        scope.names.splice(0..0, self.axes.iter().map(String::as_str));
        scope.hidden.clear();
        scope
    }
}

/// Checks expressions over the axes that say which workloads are served.
pub(super) fn check_requires(
    document: &mut Document<'_>,
    texts: &[Located<String>],
    surroundings: Surroundings<'_>,
) -> Vec<Expr> {
    let scope = Scope {
        what: "the axes",
        names: surroundings.axes.iter().map(String::as_str).collect(),
        hidden: DeviceInfo::CONSTANTS.iter().map(|name| (*name, "a device constant")).collect(),
    };
    let mut requires = Vec::new();
    for text in texts {
        let Some(expr) = document.expression(text, &scope) else { continue };
        let check = |workload: &Workload| {
            expr.eval_bool(&|name| workload.lookup(name)).map(|_| ()).map_err(|error| error.0)
        };
        match first_failure(surroundings.shapes, check) {
            Some(problem) => document.report(text.span(), problem),
            None => requires.push(expr),
        }
    }
    requires
}

/// Returns the shapes that the kernel serves; serving none is an error.
fn served_shapes(
    document: &mut Document<'_>,
    file: &ContractFile,
    requires: &[Expr],
    shapes: &[Shape],
) -> Vec<Shape> {
    let serves = |shape: &&Shape| {
        let lookup = |name: &str| shape.workload.lookup(name);
        requires.iter().all(|condition| condition.eval_bool(&lookup) == Ok(true))
    };
    let served: Vec<Shape> = shapes.iter().filter(serves).cloned().collect();
    if let (Some(first), true) = (file.requires.first(), served.is_empty() && !shapes.is_empty()) {
        document.report(first.span(), "the kernel serves none of the lab's workloads");
    }
    served
}

fn check_tunables(
    document: &mut Document<'_>,
    file: &ContractFile,
    surroundings: Surroundings<'_>,
) -> Vec<Tunable> {
    let mut tunables = Vec::new();
    for (name, values) in &file.tunables {
        document.check_identifier(name, "tunable");
        let taken = if surroundings.axes.contains(name) {
            Some("an axis")
        } else if DeviceInfo::CONSTANTS.contains(&name.as_str()) {
            Some("a device constant")
        } else if file.launch.iter().any(|launch| *launch.entry == **name) {
            Some("a function, which its macro would replace")
        } else {
            None
        };
        if let Some(taken) = taken {
            let message = format!("the tunable `{}` has the name of {taken}", **name);
            document.report(name.span(), message);
        }
        if values.is_empty() {
            document.report(values.span(), format!("the tunable `{}` has no values", **name));
        }
        check_values(document, name, values);
        let values = values.iter().map(|value| (**value).clone()).collect();
        tunables.push(Tunable { name: name.to_string(), values });
    }
    tunables
}

fn check_values(document: &mut Document<'_>, name: &Located<String>, values: &[Located<Value>]) {
    let is_reserved = RESERVED_TUNABLES.contains(&name.as_str());
    let mut seen: Vec<String> = Vec::new();
    for value in values {
        match &**value {
            Value::Float(number) if !number.is_finite() => {
                document.report(value.span(), "a tunable's value must be finite");
            }
            Value::Str(text) if text.contains(char::is_control) => {
                document.report(value.span(), "a tunable's value must be one line of text");
            }
            Value::Str(_) => {}
            _ if is_reserved => {
                let message = format!("the values of `{}` are texts", **name);
                document.report(value.span(), message);
            }
            _ => {}
        }
        // `1` and `true` are the same macro, hence the same program.
        let text = value.as_macro();
        if seen.contains(&text) {
            let message = format!("the value {} stands here twice", quoted(value));
            document.report(value.span(), message);
        }
        seen.push(text);
    }
}

/// Checks `[search]`; returns the author's choice when it is complete.
fn check_search(
    document: &mut Document<'_>,
    file: &ContractFile,
    tunables: &[Tunable],
) -> Option<Params> {
    match (&file.search, tunables.is_empty()) {
        (None, true) => Some(Params::default()),
        (Some(search), true) => {
            document.report(search.span(), "`[search]` without any tunables");
            None
        }
        (None, false) => {
            let help = "add `[search]` with `default = { .. }`, a value for every tunable";
            let span = file.tunables.keys().next().map(Located::span).unwrap_or_default();
            let message = "the tunables have no default";
            document.report_with_help(span, message, Some(help.to_string()));
            None
        }
        (Some(search), false) => check_default(document, search, tunables),
    }
}

fn check_default(
    document: &mut Document<'_>,
    search: &SearchFile,
    tunables: &[Tunable],
) -> Option<Params> {
    let names = || tunables.iter().map(|tunable| tunable.name.as_str());
    document.check_unique(&search.expand, "tunables here");
    let mentioned = search.default.keys().chain(&search.expand);
    for name in mentioned.filter(|name| !names().any(|known| known == name.as_str())) {
        let message = format!("unknown tunable `{}`", **name);
        document.report_with_help(name.span(), message, did_you_mean(name, names()));
    }
    let missing: Vec<String> = names()
        .filter(|name| !search.default.contains_key(*name))
        .map(|name| format!("`{name}`"))
        .collect();
    if !missing.is_empty() {
        let message = format!("the default has no value for {}", missing.join(", "));
        document.report(search.default.span(), message);
    }
    let mut chosen = Params::default();
    for tunable in tunables {
        let Some(value) = search.default.get(tunable.name.as_str()) else { continue };
        if !tunable.values.is_empty() && !tunable.values.contains(value) {
            let values: Vec<String> = tunable.values.iter().map(quoted).collect();
            let message = format!("{} is no value of `{}`", quoted(value), tunable.name);
            let help = format!("its values are {}", values.join(", "));
            document.report_with_help(value.span(), message, Some(help));
            continue;
        }
        chosen.0.insert(tunable.name.clone(), (**value).clone());
    }
    (chosen.0.len() == tunables.len()).then_some(chosen)
}

/// Checks that the author's choice satisfies the constraints, and if not, whether anything does.
/// Constraints on the device are left to the search, which knows it.
fn check_constraints(
    document: &mut Document<'_>,
    file: &ContractFile,
    tunables: &[Tunable],
    constraints: &[Expr],
    default: &Params,
) {
    let portable: Vec<(usize, &Expr)> =
        constraints.iter().enumerate().filter(|(_, expr)| !mentions_device(expr)).collect();
    let violation = |expr: &Expr| match expr.eval_bool(&|name| default.get(name).cloned()) {
        Ok(true) => None,
        Ok(false) => Some(format!("the default does not satisfy `{}`", expr.text())),
        Err(EvalError(message)) => Some(format!("on the default: {message}")),
    };
    let violations: Vec<(usize, String)> =
        portable.iter().filter_map(|(idx, expr)| Some((*idx, violation(expr)?))).collect();
    if violations.is_empty() {
        return;
    }
    let exprs: Vec<&Expr> = portable.iter().map(|(_, expr)| *expr).collect();
    match space::emptiness(tunables, &exprs) {
        Emptiness::NotEmpty | Emptiness::TooLargeToTell => {
            for (idx, problem) in violations {
                document.report(file.constraints[idx].span(), problem);
            }
        }
        Emptiness::Because(culprit) => {
            let (idx, expr) = portable[culprit];
            let message = format!("impossible constraint: nothing satisfies `{}`", expr.text());
            document.report(file.constraints[idx].span(), message);
        }
        Emptiness::Together => {
            let span = file.constraints[violations[0].0].span();
            let message = "impossible constraints: nothing satisfies this one and the others";
            document.report(span, message);
        }
    }
}

fn mentions_device(expr: &Expr) -> bool {
    expr.names().iter().any(|name| DeviceInfo::CONSTANTS.contains(name))
}

fn check_launches(
    document: &mut Document<'_>,
    file: &ContractFile,
    target: TargetKind,
    names: &Names<'_>,
    default: &Params,
    served: &[Shape],
) -> Vec<Launch> {
    if file.launch.is_empty() {
        let extent = match target {
            TargetKind::Cpu => "`blocks`",
            TargetKind::Cuda => "`grid` and `block`",
        };
        let help = format!("add a `[[launch]]` with `entry` and {extent}");
        document.report_file("the contract has no launch", Some(help));
    }
    let mut check_one = |launch: &LaunchFile| {
        document.check_identifier(&launch.entry, "function");
        if target == TargetKind::Cuda {
            return cuda::check_launch(document, launch, names, default, served);
        }
        let Some(blocks) = &launch.blocks else {
            let help = "add `blocks = \"..\"`: how many there are".to_string();
            let message = "the launch does not say how many blocks it has";
            document.report_with_help(launch.entry.span(), message, Some(help));
            return None;
        };
        let blocks = check_count(document, blocks, names, default, served);
        let chunk = match &launch.chunk {
            Some(chunk) => check_count(document, chunk, names, default, served),
            None => Some(Expr::parse("1").expect("a number is an expression")),
        };
        Some(Launch { entry: launch.entry.to_string(), blocks: blocks?, chunk: chunk?, grid: None })
    };
    file.launch.iter().filter_map(&mut check_one).collect()
}

fn check_scratch(
    document: &mut Document<'_>,
    file: &ScratchFile,
    names: &Names<'_>,
    default: &Params,
    served: &[Shape],
) -> Option<Scratch> {
    let bytes = check_count(document, &file.bytes, names, default, served)?;
    let too_large = |workload: &Workload| match bytes.eval_int(&bind(workload, default)) {
        Ok(size) if size as u128 > MAX_BYTES => {
            Err(format!("`{}` is {size} bytes; 1 TiB is the limit", bytes.text()))
        }
        _ => Ok(()),
    };
    if let Some(problem) = first_failure(served, too_large) {
        document.report(file.bytes.span(), problem);
    }
    Some(Scratch { name: file.name.to_string(), bytes })
}

/// Parses an expression that must be at least 1 on every served shape with the author's choice.
pub(super) fn check_count(
    document: &mut Document<'_>,
    text: &Located<String>,
    names: &Names<'_>,
    default: &Params,
    served: &[Shape],
) -> Option<Expr> {
    let expr = document.expression(text, &names.in_launches())?;
    // Without a device or without the author's choice there is nothing to compute yet.
    let is_known =
        |name: &&str| names.axes.iter().any(|axis| axis == name) || default.get(name).is_some();
    if !expr.names().iter().all(is_known) {
        return Some(expr);
    }
    let check = |workload: &Workload| match expr.eval_int(&bind(workload, default)) {
        Ok(value) if value > 0 => Ok(()),
        Ok(value) => Err(format!("`{}` is {value}; it must be at least 1", expr.text())),
        Err(EvalError(message)) => Err(message),
    };
    if let Some(problem) = first_failure(served, check) {
        document.report(text.span(), problem);
        return None;
    }
    Some(expr)
}

fn bind<'a>(workload: &'a Workload, params: &'a Params) -> impl Fn(&str) -> Option<Value> + 'a {
    move |name| workload.lookup(name).or_else(|| params.get(name).cloned())
}
