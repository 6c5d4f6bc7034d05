//! `warpsmith profile`: what holds a kernel back.

use std::path::PathBuf;

use anyhow::{Context as _, Result, bail};
use clap::Args;
use serde::Serialize;
use warpsmith_model::diagnose::{Basis, Scene, diagnose, gap, words};
use warpsmith_model::lab::{Kernel, Lab, TargetKind};
use warpsmith_model::roofline::WorkSize;
use warpsmith_model::{
    Ceilings, CounterSource, Diagnosis, Environment, Gap, Goal, LabRecord, Outcome, Params,
    ProfileRecord, RunId, WorkloadProfile, units,
};

use super::check::KernelArgs;
use super::{
    CliFailure, Context, check_workloads, each_once, plain_settings, summary, with_campaign,
};
use crate::campaign::Campaign;
use crate::labdir;
use crate::output::{BOLD, DIM, Table, WARN, json, paint, result, say};

/// Say what holds a CUDA kernel back: memory, arithmetic, waiting, or the launch
///
/// Judges and times the kernel, runs it under Nsight Compute (`ncu`), and keeps the profiler's
/// report and table. Where the counters may not be read, the diagnosis rests on the compiler's
/// report, the machine code and the time, and says so with what to do about it.
#[derive(Debug, Args)]
pub struct ProfileArgs {
    /// Folder of the lab
    lab: PathBuf,
    #[command(flatten)]
    kernel: KernelArgs,
    /// Workload to profile; by default the one with the most work that the kernel serves (repeatable)
    #[arg(long, value_name = "NAME")]
    workload: Vec<String>,
}

/// What was found, on one workload.
#[derive(Debug, Serialize)]
pub struct Finding {
    /// The workload.
    pub workload: String,
    /// What bounds the kernel there.
    pub diagnosis: Diagnosis,
    /// Where the time goes, by a model.
    pub gap: Option<Gap>,
}

/// A profile, and what it is seen against.
#[derive(Debug)]
pub struct Profiled {
    run: RunId,
    /// What the profiler saw.
    pub record: ProfileRecord,
    environment: Environment,
    ceilings: Ceilings,
    lab: LabRecord,
}

impl Profiled {
    /// Says what holds the kernel back, by workload.
    pub fn findings(&self) -> Vec<Finding> {
        let find = |workload: &WorkloadProfile| {
            let scene = self.scene(workload);
            Finding {
                workload: workload.workload.clone(),
                diagnosis: diagnose(workload, &scene),
                gap: gap(workload, &scene),
            }
        };
        self.record.workloads.iter().map(find).collect()
    }

    /// Says the same as lines of text.
    pub fn lines(&self) -> Vec<String> {
        let lines = |workload: &WorkloadProfile| words(workload, &self.scene(workload));
        self.record.workloads.iter().flat_map(lines).collect()
    }

    fn scene(&self, workload: &WorkloadProfile) -> Scene<'_> {
        let work = self.lab.workload(&workload.workload);
        Scene {
            device: &self.environment.device,
            ceilings: Some(&self.ceilings),
            work: work.map(|work| WorkSize { flops: work.flops, bytes: work.bytes }),
            dtype: self.lab.arithmetic_dtype(),
        }
    }
}

pub fn run(context: &Context, arguments: ProfileArgs) -> Result<()> {
    let target = context.target.unwrap_or(TargetKind::Cuda);
    let lab = labdir::for_target(&arguments.lab, Some(target))?;
    if labdir::load(&lab)?.lab.target != TargetKind::Cuda {
        bail!(
            "{} is a lab for the CPU, whose counters are not read here\nhint: `warpsmith profile` is \
             for CUDA labs; for this one, the report of `warpsmith run` has the distance to the \
             measured ceilings",
            lab.display()
        );
    }
    let settings = plain_settings(Goal::Profile, &lab)?;
    let profiled = with_campaign(context, &lab, settings, |campaign| steps(campaign, &arguments))?;
    let findings = profiled.findings();
    if context.json {
        return json(&serde_json::json!({
            "run": profiled.run, "record": profiled.record, "findings": findings,
        }));
    }
    for (workload, finding) in profiled.record.workloads.iter().zip(&findings) {
        show(workload, finding);
    }
    tell_what_is_missing(&profiled.record);
    say(format!(
        "  `warpsmith export {} --format profile` writes the profiler's files; `warpsmith report` has \
         the same as a page",
        profiled.run
    ));
    Ok(())
}

fn steps(campaign: &mut Campaign, arguments: &ProfileArgs) -> Result<Profiled> {
    summary::announce(campaign);
    let chosen = arguments.kernel.chosen(&campaign.loaded.lab)?;
    let kernel = chosen.or_else(|| campaign.loaded.lab.kernels.last().cloned());
    let kernel = kernel.context("the lab has no kernel")?;
    let params = arguments.kernel.params(&kernel)?;
    profile_kernel(campaign, &kernel, &params, &arguments.workload)
}

/// Judges, times and profiles a kernel on the workloads that were named, or else on the largest.
pub fn profile_kernel(
    campaign: &mut Campaign,
    kernel: &Kernel,
    params: &Params,
    workloads: &[String],
) -> Result<Profiled> {
    if let Some(reason) = campaign.unavailable(kernel, params) {
        bail!("`{}` cannot be profiled: {reason}", kernel.name);
    }
    let workloads = match workloads {
        [] => vec![campaign.largest_workload(kernel)?],
        names => named(&campaign.loaded.lab, kernel, names)?,
    };
    let chain = campaign.prove_on(workloads.clone())?;
    summary::say_chain(&chain);
    let ceilings = campaign.ceilings()?;
    campaign.stop_if_asked()?;
    let trial = campaign.rank_on(kernel, params, workloads)?;
    if !matches!(trial.outcome, Outcome::Passed { .. }) {
        let words = format!("`{}` is not profiled: {}", kernel.name, trial.outcome.describe());
        return Err(CliFailure::Candidate(words).into());
    }
    campaign.stop_if_asked()?;
    let n_workloads = trial.job.workloads.len();
    say(format!("  {:<9} {} on {n_workloads} workload(s)", "profile", kernel.name));
    let record = campaign.profile(kernel, params, &trial)?;
    Ok(Profiled {
        run: campaign.run.clone(),
        record,
        environment: campaign.environment.clone(),
        ceilings,
        lab: LabRecord::of(&campaign.loaded.lab)?,
    })
}

/// Returns the workloads that were named, each once: any of the lab's shapes that the kernel serves.
fn named(lab: &Lab, kernel: &Kernel, names: &[String]) -> Result<Vec<String>> {
    check_workloads(lab, names)?;
    let mut served = Vec::new();
    for shape in lab.shapes() {
        if kernel.serves(shape)? {
            served.push(shape.name.as_str());
        }
    }
    if let Some(name) = names.iter().find(|name| !served.contains(&name.as_str())) {
        bail!(
            "kernel `{}` does not serve workload `{name}` (see its `requires`)\nhint: it serves {}",
            kernel.name,
            served.join(", ")
        );
    }
    Ok(each_once(names))
}

fn show(workload: &WorkloadProfile, finding: &Finding) {
    let diagnosis = &finding.diagnosis;
    let label = match diagnosis.basis {
        Basis::Counters => String::new(),
        Basis::Static => paint(WARN, " (without counters)"),
    };
    let name = paint(BOLD, &workload.workload);
    result(format!("{name}: {}{label}", diagnosis.bound.words()));
    result(format!("  {}", diagnosis.because));
    let mut facts = Table::new(&["fact", "found"], &[]);
    for fact in &diagnosis.facts {
        let name = if fact.concern { paint(WARN, &fact.name) } else { fact.name.clone() };
        facts.row(vec![name, fact.words.clone()]);
    }
    result(facts.render());
    if !diagnosis.stalls.is_empty() {
        let mut stalls = Table::new(&["warps wait for", "share", "counter"], &[1]);
        for stall in &diagnosis.stalls {
            let share = format!("{:.1} %", stall.share * 100.0);
            stalls.row(vec![
                stall.reason.words().to_string(),
                share,
                paint(DIM, stall.reason.name()),
            ]);
        }
        result(stalls.render());
    }
    if let Some(gap) = &finding.gap {
        let mut parts = Table::new(&["where the time goes (a model)", "time", "share"], &[1, 2]);
        for part in &gap.parts {
            let share = format!("{:.1} %", part.time_s / gap.time_s * 100.0);
            parts.row(vec![part.cause.words(), units::time(part.time_s), share]);
        }
        result(parts.render());
    }
    for advice in &diagnosis.advice {
        result(format!("  try: {advice}"));
    }
    result("");
}

/// Says once why there are no counters, and what to do.
pub fn tell_what_is_missing(record: &ProfileRecord) {
    let mut told: Vec<&CounterSource> = Vec::new();
    for workload in &record.workloads {
        if let source @ CounterSource::Missing { reason, how } = &workload.counters
            && !told.contains(&source)
        {
            say(format!("{} no counters: {reason}\nhint: {how}", paint(WARN, "note")));
            told.push(source);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    #[test]
    fn extra_shapes_can_be_named_and_those_that_a_kernel_does_not_serve_are_refused() {
        let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../labs/attention/cuda");
        let lab = labdir::load(&dir).expect("the lab").lab;
        let kernel =
            lab.kernels.iter().find(|it| it.name == "95_zero_reference_wide").expect("the kernel");
        let names = |names: &[&str]| names.iter().map(|it| it.to_string()).collect::<Vec<_>>();
        let twice = names(&["b32h16s512d128_bf16", "b1h16s1024d128_bf16", "b32h16s512d128_bf16"]);
        assert_eq!(named(&lab, kernel, &twice).expect("served"), twice[..2]);
        let refused = named(&lab, kernel, &names(&["b4h8s512d64_bf16"])).expect_err("refused");
        assert!(refused.to_string().contains("does not serve workload `b4h8s512d64_bf16`"));
        let unknown = named(&lab, kernel, &names(&["b1h16s1024d128"])).expect_err("unknown");
        assert!(unknown.to_string().contains("no workload `b1h16s1024d128`"), "{unknown}");
    }
}
