//! `warpsmith build`: what the compiler makes of CUDA kernels, with or without a GPU.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Mutex;
use std::time::Duration;

use anyhow::{Context as _, Result, bail};
use clap::Args;
use serde::Serialize;
use warpsmith_device::compile_unit;
use warpsmith_device::cuda::loops::{self, Loop};
use warpsmith_device::cuda::{self, Resources, sass, toolkit};
use warpsmith_device::target::{Fault, Unit};
use warpsmith_gate::bind;
use warpsmith_model::lab::{Kernel, TargetKind, Workload};
use warpsmith_model::{DeviceInfo, Lab, Params, Remark, Value, remarks};
use warpsmith_search::Space;

use super::check::with_settings;
use super::{CliFailure, Context};
use crate::labdir;
use crate::output::{BAD, DIM, GOOD, Table, WARN, json, paint, result, say};

/// Compile CUDA kernels and say what the code uses: registers, spills, shared memory, instructions
///
/// Needs a compiler but no GPU. The compiler's remarks that it gave performance away (serialised
/// products, an ignored setmaxnreg) are shown. What a contract claims in `[build]` is checked on the
/// author's parameters; a claim that does not hold is a failure, and so is such a remark where
/// there is a `[build]` that does not allow it.
#[derive(Debug, Args)]
pub struct BuildArgs {
    /// Folder of the lab
    lab: PathBuf,
    /// Architecture to compile for
    #[arg(long, default_value = "sm_90a", value_name = "NAME")]
    arch: String,
    /// Kernel to compile; by default all that run on the architecture
    #[arg(long, value_name = "NAME")]
    kernel: Option<String>,
    /// Parameter to change from the author's choice (repeatable)
    #[arg(long = "set", value_name = "NAME=VALUE")]
    set: Vec<String>,
    /// Further configurations of each kernel to compile, drawn from its space
    #[arg(long, default_value_t = 0, value_name = "N")]
    sample: usize,
    /// Show every instruction, not only the telling ones
    #[arg(long)]
    instructions: bool,
    /// Show the innermost loops, cut where something is waited for: what runs beside what
    #[arg(long)]
    loops: bool,
}

/// Instructions that tell what a kernel does: matrix units, asynchronous copies, special functions,
/// barriers, and the spills that nobody wants.
const TELLING: [&str; 14] = [
    "HGMMA", "HMMA", "LDSM", "UTMALDG", "UTMASTG", "LDGSTS", "MUFU", "FFMA", "LDG", "STG", "LDS",
    "STS", "LDL", "STL",
];

/// One compiled configuration.
#[derive(Debug, Serialize)]
struct Built {
    kernel: String,
    params: Params,
    shape: String,
    resources: Vec<Resources>,
    dynamic_smem_bytes: u32,
    instructions: BTreeMap<String, u32>,
    loops: Vec<Loop>,
    remarks: Vec<Remark>,
    compile_s: f64,
    broken_claims: Vec<String>,
}

/// One configuration to compile, for one workload.
struct Wanted<'a> {
    kernel: &'a Kernel,
    params: Params,
    unit: Unit,
    workload: &'a Workload,
    /// Whether the contract's claims are about it.
    is_authors: bool,
}

pub fn run(context: &Context, arguments: BuildArgs) -> Result<()> {
    let target = context.target.unwrap_or(TargetKind::Cuda);
    let loaded = labdir::load(&labdir::for_target(&arguments.lab, Some(target))?)?;
    let lab = &loaded.lab;
    if lab.target != TargetKind::Cuda {
        bail!("`build` is for CUDA kernels; `check` compiles those of the CPU");
    }
    let device = device_of_arch(&arguments.arch)?;
    let mut wanted = Vec::new();
    for kernel in chosen(lab, &arguments)? {
        if let Err(reason) = bind::architecture(kernel, &device) {
            say(format!("  {} is left out: {reason}", kernel.name));
            continue;
        }
        for (idx, params) in configurations(kernel, &device, &arguments)?.into_iter().enumerate() {
            let is_authors = idx == 0 && arguments.set.is_empty();
            for (unit, workload) in units(lab, kernel, &params, &device)? {
                wanted.push(Wanted { kernel, params: params.clone(), unit, workload, is_authors });
            }
        }
    }
    compile_all(context, &wanted);
    let mut built = Vec::new();
    let mut failures = Vec::new();
    for wanted in &wanted {
        match build(context, lab, &device, wanted) {
            Ok(one) => {
                failures.extend(one.broken_claims.iter().cloned());
                built.push(one);
            }
            Err(error) => {
                let failure = format!("{} ({}): {error:#}", wanted.kernel.name, wanted.params);
                // Every shape of a kernel fails alike, most times.
                if !failures.contains(&failure) {
                    failures.push(failure);
                }
            }
        }
    }
    if context.json {
        json(
            &serde_json::json!({ "arch": arguments.arch, "builds": built, "failures": failures }),
        )?;
    } else {
        show(&built, arguments.instructions);
        if arguments.loops {
            show_loops(&built);
        }
        for failure in &failures {
            result(format!("  {} {failure}", paint(BAD, "fail")));
        }
    }
    if failures.is_empty() {
        return Ok(());
    }
    Err(CliFailure::Candidate(format!("{} build(s) or claim(s) failed", failures.len())).into())
}

/// What is known of the devices of an architecture.
pub(super) fn device_of_arch(arch: &str) -> Result<DeviceInfo> {
    cuda::device_of_arch(arch).with_context(|| {
        format!(
            "unknown architecture `{arch}`\nhint: known are sm_80, sm_86, sm_89, sm_90a, sm_100a, sm_120a"
        )
    })
}

fn chosen<'a>(lab: &'a Lab, arguments: &BuildArgs) -> Result<Vec<&'a Kernel>> {
    match &arguments.kernel {
        None => Ok(lab.kernels.iter().collect()),
        Some(name) => {
            let kernel = lab.kernel(name).with_context(|| {
                let names: Vec<&str> = lab.kernels.iter().map(|it| it.name.as_str()).collect();
                format!("the lab has no kernel `{name}`\nhint: it has {}", names.join(", "))
            })?;
            Ok(vec![kernel])
        }
    }
}

/// The author's choice (with what `--set` changes), then a sample of the space.
fn configurations(
    kernel: &Kernel,
    device: &DeviceInfo,
    arguments: &BuildArgs,
) -> Result<Vec<Params>> {
    let mut configurations = vec![with_settings(kernel, &arguments.set)?];
    if arguments.sample > 0 && !kernel.tunables.is_empty() {
        let info = device.clone();
        let constants = move |name: &str| info.constant(name).map(Value::Int);
        let space = Space::new(&kernel.tunables, &kernel.constraints, &constants)
            .with_context(|| format!("the space of kernel `{}`", kernel.name))?;
        // The same sample every time: a build that breaks should break again.
        let mut rng = warpsmith_model::rng::Rng::new(1);
        for _ in 0..arguments.sample.min(space.len() as usize) {
            let drawn = space.sample(&mut rng);
            if !configurations.contains(&drawn) {
                configurations.push(drawn);
            }
        }
    }
    Ok(configurations)
}

/// The distinct units of a kernel on the lab's workloads, each with one that it is for.
fn units<'a>(
    lab: &'a Lab,
    kernel: &Kernel,
    params: &Params,
    device: &DeviceInfo,
) -> Result<Vec<(Unit, &'a Workload)>> {
    let mut units: Vec<(Unit, &Workload)> = Vec::new();
    for workload in &lab.workloads {
        if kernel.serves(workload)? {
            let deadline = Duration::from_secs(300);
            let unit = bind::kernel_unit(lab, kernel, params, workload, device, deadline)?;
            if !units.iter().any(|(known, _)| *known == unit) {
                units.push((unit, workload));
            }
        }
    }
    Ok(units)
}

/// Fills the cache, on all processors; what fails here fails again, and is reported, when it is asked for.
fn compile_all(context: &Context, wanted: &[Wanted<'_>]) {
    let waiting = Mutex::new(wanted.iter());
    let threads = std::thread::available_parallelism().map_or(1, |count| count.get());
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                loop {
                    let next = waiting.lock().ok().and_then(|mut wanted| wanted.next());
                    let Some(wanted) = next else { break };
                    let _reported_later = compile_unit(&context.project.artifacts(), &wanted.unit);
                }
            });
        }
    });
}

fn build(context: &Context, lab: &Lab, device: &DeviceInfo, wanted: &Wanted<'_>) -> Result<Built> {
    let Wanted { kernel, params, unit, workload, is_authors } = wanted;
    let artifact =
        compile_unit(&context.project.artifacts(), unit).map_err(|fault| match fault {
            Fault::Compile { message, log } => anyhow::anyhow!("{message}\n{log}"),
            other => other.into(),
        })?;
    let toolkit = toolkit::find(&context.project.work_dir)?;
    let functions = sass::functions(&toolkit, &artifact)?;
    let resources = cuda::resources(&artifact.log);
    let remarks = remarks(&artifact.log);
    let compile_s = artifact.compile_s;
    let program = bind::kernel_program(lab, kernel, params, workload, device, artifact)?;
    let launches = program.grid.map(|grid| grid.launches).unwrap_or_default();
    let dynamic_smem_bytes = launches.iter().map(|it| it.smem_bytes).max().unwrap_or(0);
    let mut built = Built {
        kernel: kernel.name.clone(),
        params: params.clone(),
        shape: shape_words(kernel, params, workload)?,
        resources,
        dynamic_smem_bytes,
        instructions: sass::count(&functions),
        loops: loops::innermost(&functions),
        remarks,
        compile_s,
        broken_claims: Vec::new(),
    };
    if *is_authors {
        built.broken_claims = broken_claims(kernel, &built);
    }
    Ok(built)
}

/// Says which shapes a unit is for: the axes that it is built for; of a front, a workload and who serves it.
fn shape_words(kernel: &Kernel, params: &Params, workload: &Workload) -> Result<String> {
    if kernel.front.is_some() {
        let (chosen, _) = kernel.on(workload, params)?;
        return Ok(format!("{}: {}", workload.name, chosen.name));
    }
    let axes = kernel.specialize.iter();
    let words = axes.map(|axis| format!("{axis}={}", workload.axis(axis).unwrap_or(0)));
    Ok(words.collect::<Vec<_>>().join(" "))
}

/// Says which of a contract's claims do not hold.
fn broken_claims(kernel: &Kernel, built: &Built) -> Vec<String> {
    let Some(claims) = &kernel.build else { return Vec::new() };
    let place = format!("{} {}", built.kernel, built.shape);
    let mut broken = Vec::new();
    for name in &claims.instructions {
        let has = |known: &String| known == name || known.starts_with(&format!("{name}."));
        if !built.instructions.keys().any(has) {
            broken.push(format!("{place}: no {name} in the code, though [build] claims it"));
        }
    }
    let most = |of: fn(&Resources) -> u32| built.resources.iter().map(of).max().unwrap_or(0);
    let smem = most(|it| it.static_smem_bytes) + built.dynamic_smem_bytes;
    for (what, used, allowed) in [
        ("registers", most(|it| it.registers), claims.max_registers),
        ("bytes of spills", most(|it| it.spill_bytes), claims.max_spill_bytes),
        ("bytes of shared memory", smem, claims.max_smem_bytes),
    ] {
        if let Some(allowed) = allowed.filter(|allowed| used > *allowed) {
            broken.push(format!("{place}: {used} {what}; [build] claims {allowed} at most"));
        }
    }
    // Whoever claims anything of the code means code that does what the source asks for.
    for remark in built.remarks.iter().filter(|it| !claims.allow_losses.contains(&it.loss)) {
        broken.push(format!(
            "{place}: {remark}; [build] does not have it in `allow_losses` (`{}`)",
            remark.loss.name()
        ));
    }
    broken
}

fn show(built: &[Built], every_instruction: bool) {
    let heads =
        ["kernel", "shape", "registers", "spills", "losses", "shared", "compiled", "instructions"];
    let mut table = Table::new(&heads, &[2, 3, 5, 6]);
    for one in built {
        let most = |of: fn(&Resources) -> u32| one.resources.iter().map(of).max().unwrap_or(0);
        let spills = most(|it| it.spill_bytes);
        let instructions: Vec<String> = sass::without_modifiers(&one.instructions)
            .iter()
            .filter(|(name, _)| every_instruction || TELLING.contains(&name.as_str()))
            .map(|(name, count)| format!("{name} {count}"))
            .collect();
        let style = if spills == 0 { GOOD } else { BAD };
        table.row(vec![
            one.kernel.clone(),
            one.shape.clone(),
            most(|it| it.registers).to_string(),
            paint(style, spills),
            losses(one),
            (most(|it| it.static_smem_bytes) + one.dynamic_smem_bytes).to_string(),
            format!("{:.2} s", one.compile_s),
            paint(DIM, instructions.join(", ")),
        ]);
    }
    result(table.render());
    let mut notes = Vec::new();
    for one in built {
        for remark in &one.remarks {
            let note = format!("{} {}: {remark}", one.kernel, one.shape);
            // A claim that it breaks says the same.
            let is_failure = one.broken_claims.iter().any(|claim| claim.starts_with(&note));
            if !is_failure && !notes.contains(&note) {
                result(format!("  {} {note}", paint(WARN, "note")));
                notes.push(note);
            }
        }
    }
}

/// A table for each loop: a row for each section, in the order in which they run.
fn show_loops(built: &[Built]) {
    for one in built {
        for (idx, it) in one.loops.iter().enumerate() {
            let is_alike = |other: &&Loop| other.sections == it.sections;
            if one.loops[..idx].iter().any(|before| is_alike(&before)) {
                continue;
            }
            let n_more = one.loops[idx + 1..].iter().filter(is_alike).count();
            let more =
                if n_more > 0 { format!(", and {n_more} more alike") } else { String::new() };
            result(format!(
                "\n  {}: {} instructions at {:#x} of {}{more}",
                format!("{} {}", one.kernel, one.shape).trim_end(),
                it.n_instructions,
                it.address,
                it.function
            ));
            let mut table = Table::new(&["after", "instructions"], &[]);
            for section in &it.sections {
                let mut counts: Vec<(&String, &u32)> = section.instructions.iter().collect();
                // What takes long first, then what there is most of.
                let key = |(name, count): &(&String, &u32)| {
                    (!TELLING.contains(&name.as_str()), std::cmp::Reverse(**count))
                };
                counts.sort_by_key(key);
                let words: Vec<String> =
                    counts.iter().map(|(name, count)| format!("{name} {count}")).collect();
                let after = if section.after.is_empty() {
                    paint(DIM, "its beginning")
                } else {
                    section.after.join(", ")
                };
                table.row(vec![after, paint(DIM, words.join(", "))]);
            }
            result(table.render());
        }
    }
}

/// Says in a word or two what the compiler gave away.
fn losses(built: &Built) -> String {
    let mut names: Vec<&str> = built.remarks.iter().map(|remark| remark.loss.name()).collect();
    names.sort_unstable();
    names.dedup();
    if names.is_empty() { paint(GOOD, "none") } else { paint(BAD, names.join(", ")) }
}
