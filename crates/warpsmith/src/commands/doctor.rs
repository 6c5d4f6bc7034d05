//! `warpsmith doctor`: what this machine can do, what it lacks, and what to do about it.

use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, bail};
use clap::Args;
use warpsmith_device::cuda::ncu::{self, Permission};
use warpsmith_device::cuda::{self, toolkit};
use warpsmith_device::target::{Fault, Sanitizers};
use warpsmith_model::lab::TargetKind;
use warpsmith_model::{Answer, Ask, Compiler, DeviceInfo, Environment, Guard, Isolation, units};

use super::{Context, clock, summary};
use crate::output::{BAD, GOOD, WARN, json, paint, result};
use crate::worker_client::Worker;

/// Say what this machine has, what it lacks, and what to do about it
///
/// With `--target cuda` on a machine without a GPU it says what there is of the tools, and exits with 2.
#[derive(Debug, Args)]
pub struct DoctorArgs {
    /// Measure the ceilings too (a few seconds)
    #[arg(long)]
    ceilings: bool,
    /// Compare each lab's best kernel with itself, 40 times: the clock must call it a tie (minutes)
    ///
    /// Labs are those below `labs` unless some are named. Fails where more than 5 % of the verdicts are
    /// not "tie" or "unclear", or where a place of the comparison is preferred.
    #[arg(long, num_args = 0.., value_name = "LAB")]
    clock: Option<Vec<PathBuf>>,
}

pub fn run(context: &Context, arguments: DoctorArgs) -> Result<()> {
    let target = context.target.unwrap_or_default();
    let mut worker = Worker::new(&context.project, target);
    let environment = match worker.ask(&Ask::Environment) {
        Ok(Answer::Environment(environment)) => Ok(*environment),
        Ok(other) => bail!("the worker answered a question for its environment with {other:?}"),
        // Without a device there is still something to say of its tools.
        Err(error) if target == TargetKind::Cuda => Err(error),
        Err(error) => return Err(error),
    };
    let ceilings = match &environment {
        Ok(_) if arguments.ceilings => match worker.ask(&Ask::Ceilings)? {
            Answer::Ceilings(ceilings) => Some(ceilings),
            other => bail!("the worker answered a question for ceilings with {other:?}"),
        },
        _ => None,
    };
    // The machine's worker must not be there while another measures.
    drop(worker);
    let clock = match (&environment, &arguments.clock) {
        (Ok(_), Some(labs)) => Some(clock::examine(context, labs, target)?),
        _ => None,
    };
    let writable = crate::campaign::open_store(&context.project).map(|_| ());
    let tools = (target == TargetKind::Cuda).then(|| Tools::find(&context.project.work_dir));
    let baselines = context.project.venv().join("bin/python").exists();
    if context.json {
        json(&serde_json::json!({
            "environment": environment.as_ref().ok(),
            "error": environment.as_ref().err().map(|error| format!("{error:#}")),
            "ceilings": ceilings,
            "clock": clock,
            "evidence": { "path": context.project.database(), "error": writable.err().map(|e| format!("{e:#}")) },
            "baselines": baselines,
            "compilers": tools.as_ref().map(|tools| &tools.compilers),
            "profiler": tools.as_ref().map(|_| profiler_json()),
            "sanitizer": tools.as_ref().map(|tools| tools.sanitizer_json()),
        }))?;
        no_device(environment)?;
        return clock::conclude(&clock.unwrap_or_default());
    }
    match &environment {
        Ok(environment) => describe(environment),
        Err(error) => line(false, &format!("gpu: {error:#}")),
    }
    if let Some(tools) = &tools {
        tools.describe(environment.is_err());
    }
    match writable {
        Ok(()) => line(true, &format!("evidence: {}", context.project.database().display())),
        Err(error) => line(false, &format!("evidence: {error:#}")),
    }
    if baselines {
        line(true, &format!("baselines: {}", context.project.venv().display()));
    } else {
        note("baselines: none set up; `warpsmith setup baselines` provides them");
    }
    if let Some(ceilings) = ceilings {
        line(true, &format!("ceilings: {}", summary::ceiling_words(&ceilings)));
    }
    no_device(environment)?;
    clock::conclude(&clock.unwrap_or_default())
}

/// Fails where there is no device, once everything else was said.
fn no_device(environment: Result<Environment>) -> Result<()> {
    environment.map(|_| ()).context("CUDA kernels can be compiled at most, and not run")
}

/// The tools of a CUDA target, which need no device to be looked at.
struct Tools {
    compilers: Vec<Compiler>,
    toolkit: Result<toolkit::Toolkit, Fault>,
    sanitizers: Result<Sanitizers, Fault>,
}

impl Tools {
    fn find(parts_dir: &Path) -> Self {
        Self {
            compilers: cuda::compilers(parts_dir),
            toolkit: toolkit::find(parts_dir),
            sanitizers: cuda::readiness::sanitizers(parts_dir),
        }
    }

    /// Says what there is; compilers only where no description of an environment lists them.
    fn describe(&self, with_compilers: bool) {
        match &self.toolkit {
            Ok(toolkit) => line(true, &format!("toolkit: {}", toolkit.root.display())),
            Err(fault) => line(false, &format!("toolkit: {fault}")),
        }
        if with_compilers {
            describe_compilers(&self.compilers);
        }
        describe_profiler();
        match &self.sanitizers {
            Ok(sanitizers) => line(true, &format!("sanitizers: {}", sanitizers.version)),
            Err(fault) => line(false, &format!("sanitizers: {fault}")),
        }
    }

    fn sanitizer_json(&self) -> serde_json::Value {
        match &self.sanitizers {
            Ok(sanitizers) => serde_json::json!({ "version": sanitizers.version }),
            Err(fault) => serde_json::json!({ "error": fault.to_string() }),
        }
    }
}

fn describe(environment: &Environment) {
    let device = &environment.device;
    if let Some(cuda) = &device.cuda {
        let words = format!(
            "gpu: {} ({}), {} multiprocessors, {} of memory, cache {}, driver {}for CUDA {}",
            device.name,
            cuda.arch,
            cuda.sms,
            units::bytes(cuda.memory_bytes as f64),
            units::bytes(device.l2_bytes as f64),
            cuda.driver_version.as_ref().map_or_else(String::new, |version| format!("{version} ")),
            cuda.driver,
        );
        line(true, &words);
        match &cuda.unmonitored {
            None => line(true, "clocks, temperature and power: read with each measurement"),
            Some(reason) => note(&format!(
                "clocks, temperature and power: not read ({reason}); measurements go without them"
            )),
        }
    } else {
        describe_processor(device);
    }
    line(true, &format!("system: {}", environment.system));
    if environment.compilers.is_empty() {
        line(false, "compilers: none; install gcc or clang (on Debian: apt-get install gcc)");
    }
    describe_compilers(&environment.compilers);
    let isolation = &environment.isolation;
    for (name, guard) in guards(isolation) {
        match guard {
            Guard::Active => line(true, &format!("{name}: active")),
            Guard::Missing { reason } => note(&format!("{name}: missing ({reason})")),
        }
    }
    if device.cuda.is_none() {
        note("cuda: `warpsmith doctor --target cuda` looks for a GPU and its compilers");
    }
}

fn describe_compilers(compilers: &[Compiler]) {
    for compiler in compilers {
        line(true, &format!("compiler {}: {}", compiler.name, compiler.version));
    }
}

/// Says whether there is a profiler, and who may read the counters.
fn describe_profiler() {
    match ncu::find() {
        Ok(found) => {
            line(true, &format!("profiler: {} (ncu {})", found.path.display(), found.version));
        }
        Err(error) => note(&format!("profiler: {error}")),
    }
    match ncu::permission() {
        Permission::Everybody => line(true, "counters: every user may read them"),
        Permission::AdminOnly => note(&format!(
            "counters: for administrators alone (RmProfilingAdminOnly: 1); to allow others: {}",
            ncu::HOW_TO_ALLOW
        )),
        Permission::Unknown => note("counters: the driver does not say who may read them"),
    }
}

fn profiler_json() -> serde_json::Value {
    let admin_only = match ncu::permission() {
        Permission::Everybody => Some(false),
        Permission::AdminOnly => Some(true),
        Permission::Unknown => None,
    };
    match ncu::find() {
        Ok(found) => serde_json::json!({
            "path": found.path, "version": found.version, "counters_for_admins_only": admin_only,
        }),
        Err(error) => serde_json::json!({
            "error": error.to_string(), "counters_for_admins_only": admin_only,
        }),
    }
}

fn describe_processor(device: &DeviceInfo) {
    line(
        true,
        &format!(
            "cpu: {}, {} threads, caches {} / {} / {}, vectors of {} bytes ({})",
            device.name,
            device.threads,
            units::bytes(device.l1d_bytes as f64),
            units::bytes(device.l2_bytes as f64),
            units::bytes(device.l3_bytes as f64),
            device.vector_bytes,
            device.features.join(" "),
        ),
    );
}

fn guards(isolation: &Isolation) -> [(&'static str, &Guard); 5] {
    [
        ("system-call filter (seccomp)", &isolation.seccomp),
        ("file and network confinement (Landlock)", &isolation.landlock),
        ("resource limits", &isolation.rlimits),
        ("sealed inputs", &isolation.sealed_inputs),
        ("candidates without privileges", &isolation.privileges),
    ]
}

/// Says which protections are missing; candidates run all the same, and the evidence records it.
pub fn isolation_warnings(isolation: &Isolation) -> Vec<String> {
    guards(isolation)
        .into_iter()
        .filter_map(|(name, guard)| match guard {
            Guard::Active => None,
            Guard::Missing { reason } => Some(format!("{name} is missing here: {reason}")),
        })
        .collect()
}

fn line(good: bool, text: &str) {
    let mark = if good { paint(GOOD, "ok  ") } else { paint(BAD, "fail") };
    result(format!("  {mark} {text}"));
}

fn note(text: &str) {
    result(format!("  {} {text}", paint(WARN, "note")));
}
