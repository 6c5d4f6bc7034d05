//! `warpsmith front`: one entry to a lab's kernels.

use std::fmt::Write as _;
use std::fs::{File, TryLockError};
use std::path::{Path, PathBuf};
use std::{fs, io};

use anyhow::{Context as _, Result, bail};
use clap::Args;
use serde_json::json;
use warpsmith_evidence::derive::{Choice, dispatch};
use warpsmith_model::lab::{FRONT, Front, Kernel, Lab, parse_kernel};
use warpsmith_model::{
    BlobId, ComparisonPurpose, ComparisonRecord, ContenderKind, Fidelity, Goal, Origin, Params,
    Request, RunSettings, Value, units,
};

use super::{CliFailure, Context, compare, plain_settings, summary, with_campaign};
use crate::campaign::{Campaign, ConfiguredKernel, passed};
use crate::output::{DIM, Table, WARN, paint, result, say};

/// Choose the fastest kernel for every workload, and make the choice the lab's front
///
/// Measures kernels against each other on every workload, interleaved, and writes who is fastest where
/// into the lab's `front.toml`. The lab then has a kernel `front` that launches, on any shape, what was
/// chosen for the nearest workload among the kernels that serve the shape; it is checked, compared and
/// profiled like any other. The front passes the full gate, drawn shapes included, before it is written.
/// Kernels are named as `compare` names them; with none named: every rung with its author's parameters
/// but the oracle, and what earlier runs of this lab on this device chose. The first one named keeps a
/// workload unless another is shown to be faster there. With workloads named, the file's other routes stay.
#[derive(Debug, Args)]
pub struct FrontArgs {
    /// Folder of the lab
    lab: PathBuf,
    /// Who may be chosen
    contenders: Vec<String>,
    /// Workload to choose for; by default all, the extra ones too (repeatable)
    #[arg(long, value_name = "NAME")]
    workload: Vec<String>,
    /// Rounds at least, on each workload
    #[arg(long, default_value_t = 7, value_name = "N")]
    rounds: u32,
    /// Seconds for each workload, beyond the least number of rounds
    #[arg(long, default_value_t = 1.0, value_name = "SECONDS")]
    time: f64,
    /// Axis in which a shape and a choice should agree, before distance counts; by default those that the
    /// kernels are built for, or refuse (repeatable)
    #[arg(long, value_name = "AXIS")]
    exact: Vec<String>,
    /// Leave memcheck, racecheck and initcheck out of the front's gate on CUDA; the evidence says so
    #[arg(long)]
    no_sanitizer: bool,
    /// File to write; by default the lab's own `front.toml`
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
}

/// Who is considered at most: each is measured on each workload.
const MOST_CONTENDERS: usize = 24;

pub fn run(context: &Context, arguments: FrontArgs) -> Result<()> {
    let settings = RunSettings {
        sanitize: !arguments.no_sanitizer,
        ..plain_settings(Goal::Compare, &arguments.lab)?
    };
    let lab = arguments.lab.clone();
    let document = with_campaign(context, &lab, settings, |campaign| {
        summary::announce(campaign);
        campaign.require_sanitizers()?;
        let path = arguments.out.clone().unwrap_or_else(|| campaign.loaded.dir.join("front.toml"));
        check_early(&campaign.loaded.lab, &arguments.exact, &path)?;
        let _claim = claim(&campaign.project.work_dir, &path)?;
        let earlier = match arguments.workload.is_empty() {
            true => None,
            false => Earlier::read(campaign, &path)?,
        };
        let considered = considered(campaign, &arguments.contenders)?;
        let mut workloads = compare::workloads(campaign, &arguments.workload)?;
        if arguments.workload.is_empty() {
            workloads.extend(campaign.loaded.lab.extra.iter().map(|extra| extra.name.clone()));
        }
        campaign.prove_on(workloads.clone())?;
        let contenders =
            considered.iter().map(|winner| winner.contender(&winner.short_label())).collect();
        let purpose = ComparisonPurpose::Final;
        let (rounds, time_s) = (arguments.rounds.max(1), arguments.time);
        let record = campaign.compare_now(purpose, contenders, workloads, rounds, time_s)?;
        if let Some(failed) = summary::failures(&record) {
            say(format!("  {} cannot be chosen: {failed}", paint(WARN, "failed")));
        }
        let choices = dispatch(&record, &|_| true);
        if let Some(without) =
            record.workloads.iter().find(|on| !choices.iter().any(|it| it.workload == on.workload))
        {
            let words = format!("nobody has a time on {}: {}", without.workload, refusals(&record));
            return Err(CliFailure::Candidate(words).into());
        }
        let text = text(campaign, &record, &choices, &arguments.exact, earlier.as_ref())?;
        let front = parse_kernel(&campaign.loaded.lab, FRONT, &text, "")
            .map_err(|errors| anyhow::anyhow!("the front is not valid\n\n{errors}"))?;
        let origin = Origin::Tuned { strategy: FRONT.to_string() };
        let seed = campaign.shared_seed();
        let gated = gated_workloads(campaign, &front)?;
        let adjust = |request: &mut Request| {
            request.job.seed = seed.unwrap_or(request.job.seed);
            request.job.workloads.clone_from(&gated);
        };
        let trial = campaign.check(&front, &Params::default(), origin, Fidelity::Full, adjust)?;
        say(format!("  {:<9} {}", "gate", trial.outcome.describe()));
        trial.gate_notes().for_each(|note| say(format!("            {note}")));
        if !passed(&trial) {
            let words = format!(
                "the front fails the full gate and is not written: {}\nhint: name the kernels that \
                 may be chosen, without the one that fails",
                trial.outcome.describe()
            );
            return Err(CliFailure::Candidate(words).into());
        }
        write_whole(&path, &text)?;
        if !context.json {
            table(&record, &choices);
            result(format!("\nfront {}", path.display()));
        }
        Ok(document(campaign, &record, &choices, &path))
    })?;
    if context.json {
        crate::output::json(&document)?;
    }
    Ok(())
}

/// Refuses what would only be found wrong after everything was measured.
fn check_early(lab: &Lab, exact: &[String], path: &Path) -> Result<()> {
    if let Some(unknown) = exact.iter().find(|axis| !lab.axes.contains(axis)) {
        bail!("--exact {unknown}: the lab has no such axis\nhint: it has {}", lab.axes.join(", "));
    }
    // A name alone has an empty parent.
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
    match folder.filter(|folder| !folder.is_dir()) {
        Some(missing) => {
            bail!("--out {}: there is no folder {}", path.display(), missing.display())
        }
        None => Ok(()),
    }
}

/// Finds who may be chosen, without repetition.
fn considered(campaign: &Campaign, names: &[String]) -> Result<Vec<ConfiguredKernel>> {
    let mut found: Vec<ConfiguredKernel> = Vec::new();
    let mut add = |winner: ConfiguredKernel| {
        if !found
            .iter()
            .any(|it| it.kernel.name == winner.kernel.name && it.params == winner.params)
        {
            found.push(winner);
        }
    };
    for name in names {
        add(compare::kernel_named(campaign, name)?);
    }
    if names.is_empty() {
        let lab = &campaign.loaded.lab;
        let rungs = || lab.kernels.iter().filter(|kernel| kernel.front.is_none());
        let is_oracle = |kernel: &&Kernel| lab.oracle.as_deref() == Some(kernel.name.as_str());
        let only_oracle = rungs().all(|kernel| is_oracle(&kernel));
        for kernel in rungs().rev().filter(|kernel| only_oracle || !is_oracle(kernel)) {
            match campaign.unavailable(kernel, &kernel.default) {
                Some(reason) => say(format!("  {} is left out: {reason}", kernel.name)),
                None => add(campaign.winner(kernel, &kernel.default)),
            }
        }
        campaign.chosen_before()?.into_iter().for_each(add);
    }
    if let Some(front) = found.iter().find(|winner| winner.kernel.front.is_some()) {
        bail!("`{}` launches other kernels, and cannot be chosen itself", front.kernel.name);
    }
    if found.is_empty() {
        bail!("there is no kernel to choose from");
    }
    if found.len() > MOST_CONTENDERS {
        say(format!(
            "  the first {MOST_CONTENDERS} of {} are considered; name those that matter to choose",
            found.len()
        ));
        found.truncate(MOST_CONTENDERS);
    }
    Ok(found)
}

/// Says why those that failed have no times.
fn refusals(record: &ComparisonRecord) -> String {
    let absent = record.workloads.iter().flat_map(|on| &on.absent);
    let mut words: Vec<String> = absent
        .map(|it| format!("{}: {}", record.contenders[it.contender].label, it.reason))
        .collect();
    words.dedup();
    words.truncate(4);
    words.join("; ")
}

/// Returns the axes that kernels are built for, or refuse: a shape that differs there wants another
/// kernel, however near it is otherwise.
fn exact_axes(lab: &Lab, kernels: &[&Kernel]) -> Vec<String> {
    let is_exact = |axis: &&String| {
        kernels.iter().any(|kernel| {
            kernel.specialize.contains(axis)
                || kernel.requires.iter().any(|it| it.names().contains(&axis.as_str()))
        })
    };
    lab.axes.iter().filter(is_exact).cloned().collect()
}

/// How a front's file begins, before the name of the device.
const WRITTEN: &str =
    "# Written by `warpsmith front`: who is fastest on which workload, measured on ";

/// The front that a file has already.
struct Earlier {
    front: Front,
    text: String,
}

impl Earlier {
    /// Reads it, if there is one. Refuses one of another device: its choices say nothing of this one.
    fn read(campaign: &Campaign, path: &Path) -> Result<Option<Self>> {
        let text = match fs::read_to_string(path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            text => text.with_context(|| format!("cannot read {}", path.display()))?,
        };
        let hint = "hint: name no workload to choose for all, or --out another file";
        let kernel = parse_kernel(&campaign.loaded.lab, FRONT, &text, "").map_err(|errors| {
            anyhow::anyhow!("{}: its other routes cannot stay\n\n{errors}\n{hint}", path.display())
        })?;
        let device = &campaign.environment.device.name;
        let measured_on = text.lines().find_map(|line| line.strip_prefix(WRITTEN));
        if let Some(other) = measured_on.filter(|words| !words.starts_with(&format!("{device}."))) {
            bail!(
                "{}: its other routes cannot stay, they were measured on {other} and this is {device}\n{hint}",
                path.display()
            );
        }
        let front = *kernel.front.context("a front has routes")?;
        Ok(Some(Self { front, text }))
    }

    /// Returns what the file says above the route of a workload: its time.
    fn words(&self, workload: &str) -> Option<&str> {
        let above = format!("# {workload}: ");
        self.text.lines().find_map(|line| line.strip_prefix(&above))
    }
}

/// A route of the front's file.
struct RouteLine<'a> {
    /// What is said above it.
    words: String,
    near: &'a [(String, i64)],
    kernel: &'a Kernel,
    params: &'a Params,
}

/// Writes the front's file: the choices, and what was chosen earlier for other shapes.
fn text(
    campaign: &Campaign,
    record: &ComparisonRecord,
    choices: &[Choice],
    exact: &[String],
    earlier: Option<&Earlier>,
) -> Result<String> {
    let lab = &campaign.loaded.lab;
    let mut chosen: Vec<RouteLine> = Vec::new();
    for choice in choices {
        let ContenderKind::Kernel { kernel, params, .. } =
            &record.contenders[choice.contender].kind
        else {
            bail!("a baseline was chosen");
        };
        let kernel = lab.kernel(kernel).with_context(|| {
            format!("`{kernel}` is no kernel of the lab's files, so its front cannot name it")
        })?;
        let workload = lab.workload(&choice.workload).context("workloads are the lab's")?;
        let words = format!("{}: {}", workload.name, units::time(choice.time_s.mid));
        chosen.push(RouteLine { words, near: &workload.axes, kernel, params });
    }
    let mut lines = Vec::new();
    for route in earlier.iter().flat_map(|earlier| &earlier.front.routes) {
        let line = match chosen.iter().position(|line| line.near == route.near) {
            Some(at) => chosen.remove(at),
            None => {
                let name = lab.shapes().find(|shape| shape.axes == route.near).map(|it| &it.name);
                let time = name.and_then(|name| earlier?.words(name));
                let words = match (name, time) {
                    (Some(name), Some(time)) => format!("{name}: {time}"),
                    (Some(name), None) => name.clone(),
                    (None, _) => "A shape that the lab does not name".to_string(),
                };
                RouteLine { words, near: &route.near, kernel: &route.kernel, params: &route.params }
            }
        };
        lines.push(line);
    }
    lines.append(&mut chosen);
    let kernels: Vec<&Kernel> = lines.iter().map(|line| line.kernel).collect();
    let exact = match (exact, earlier) {
        ([], Some(earlier)) => earlier.front.exact.clone(),
        ([], None) => exact_axes(lab, &kernels),
        (named, _) => named.to_vec(),
    };
    let exact: Vec<String> = exact.iter().map(|axis| format!("\"{axis}\"")).collect();
    let mut text = format!(
        "{WRITTEN}{}.\n\
         format  = 1\n\
         summary = \"The fastest rung on each shape.\"\n\
         exact   = [{}]\n",
        campaign.environment.device.name,
        exact.join(", ")
    );
    for RouteLine { words, near, kernel, params } in lines {
        let axes: Vec<String> =
            near.iter().map(|(name, value)| format!("{name} = {value}")).collect();
        write!(
            text,
            "\n# {words}\n[[route]]\nnear   = {{ {} }}\nkernel = \"{}\"\n",
            axes.join(", "),
            kernel.name
        )?;
        if !params.0.is_empty() {
            let values: Vec<String> =
                params.0.iter().map(|(name, value)| format!("{name} = {}", toml(value))).collect();
            writeln!(text, "params = {{ {} }}", values.join(", "))?;
        }
    }
    Ok(text)
}

/// Returns a value as TOML writes it.
fn toml(value: &Value) -> String {
    match value {
        Value::Str(text) => format!("{text:?}"),
        other => other.to_string(),
    }
}

/// Returns what the front is gated on: the lab's workloads, and an extra shape for every choice that none of
/// them leads to.
fn gated_workloads(campaign: &Campaign, front: &Kernel) -> Result<Vec<String>> {
    let lab = &campaign.loaded.lab;
    let nothing = Params::default();
    let mut names = campaign.served(front)?;
    let mut seen: Vec<(&Kernel, &Params)> = Vec::new();
    for workload in lab.workloads.iter().chain(&lab.extra) {
        if !front.serves(workload)? {
            continue;
        }
        let choice = front.on(workload, &nothing)?;
        let is_new = !seen.iter().any(|it| it.0.name == choice.0.name && it.1 == choice.1);
        if is_new {
            seen.push(choice);
            if !names.contains(&workload.name) {
                names.push(workload.name.clone());
            }
        }
    }
    Ok(names)
}

/// Keeps every other `front` off the file until it is dropped: what another one writes meanwhile would be lost.
fn claim(work_dir: &Path, path: &Path) -> Result<File> {
    let folder = work_dir.join("locks");
    fs::create_dir_all(&folder).with_context(|| format!("cannot make {}", folder.display()))?;
    let whose = std::path::absolute(path).unwrap_or_else(|_| path.to_path_buf());
    let id = BlobId::of(whose.as_os_str().as_encoded_bytes()).to_string();
    let lock_path = folder.join(format!("front-{}.lock", &id[..16]));
    let lock = File::create(&lock_path)
        .with_context(|| format!("cannot write {}", lock_path.display()))?;
    match lock.try_lock() {
        Ok(()) => Ok(lock),
        Err(TryLockError::WouldBlock) => bail!(
            "another `warpsmith front` is about to write {}\nhint: wait until it has ended, or name another \
             file with --out",
            path.display()
        ),
        Err(TryLockError::Error(error)) => {
            Err(error).with_context(|| format!("cannot lock {}", lock_path.display()))
        }
    }
}

/// Writes a file so that whoever reads it finds the old one or the new one.
fn write_whole(path: &Path, text: &str) -> Result<()> {
    let part = path.with_extension(format!("toml.{}.part", std::process::id()));
    let write = || {
        let mut file = File::create(&part)?;
        io::Write::write_all(&mut file, text.as_bytes())?;
        file.sync_all()
    };
    write().with_context(|| format!("cannot write {}", part.display()))?;
    fs::rename(&part, path).with_context(|| format!("cannot write {}", path.display()))
}

fn table(record: &ComparisonRecord, choices: &[Choice]) {
    let first = &record.contenders[0].label;
    let over = format!("over {first}");
    let mut table = Table::new(&["workload", "chosen", "time", &over], &[2, 3]);
    for choice in choices {
        table.row(vec![
            choice.workload.clone(),
            record.contenders[choice.contender].label.clone(),
            units::time(choice.time_s.mid),
            choice.speedup.map_or_else(|| paint(DIM, "-"), |it| units::ratio(it.mid)),
        ]);
    }
    result(table.render());
}

fn document(
    campaign: &Campaign,
    record: &ComparisonRecord,
    choices: &[Choice],
    path: &Path,
) -> serde_json::Value {
    let rows: Vec<serde_json::Value> = choices
        .iter()
        .map(|choice| {
            json!({
                "workload": choice.workload,
                "chosen": record.contenders[choice.contender],
                "time_s": choice.time_s,
                "speedup": choice.speedup,
            })
        })
        .collect();
    json!({ "run": campaign.run, "front": path, "routes": rows, "record": record })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_front_at_a_time_writes_a_file() {
        let folder = tempfile::tempdir().expect("a folder");
        let (work_dir, path) = (folder.path(), folder.path().join("front.toml"));
        let first = claim(work_dir, &path).expect("free");
        let refused = claim(work_dir, &path).expect_err("taken").to_string();
        assert!(refused.contains("another `warpsmith front`"), "{refused}");
        claim(work_dir, &folder.path().join("other.toml")).expect("another file");
        drop(first);
        claim(work_dir, &path).expect("free again");
        write_whole(&path, "text").expect("written");
        assert_eq!(fs::read_to_string(&path).expect("there"), "text");
        let left = fs::read_dir(folder.path()).expect("listed").count();
        assert_eq!(left, 2, "the file and the folder of locks");
    }
}
