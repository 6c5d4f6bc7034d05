//! Evaluates one candidate: compiles it, judges what it computes, times it, answers with a finding.
//!
//! [`evaluate`] is for kernels; libraries are judged and timed where they are compared with kernels
//! ([`crate::compare`]). A failing candidate is data ([`Outcome`]); an `Err` means that the lab, the
//! request or the machine is at fault.
//!
//! What each fidelity does:
//!
//! | | `Micro` | `Rank` | `Full` |
//! |---|---|---|---|
//! | proof shapes against the reference | | | every distribution, each three times |
//! | shapes drawn from the lab's ranges | | | six, every distribution, each three times |
//! | near a workload, shorter or differing along one axis; larger shapes, up to and beyond the workloads; thin, square and overlong ones | | | as many as are affordable, one distribution each |
//! | scalars | the lab's | the lab's | drawn on every shape but the workloads, and once on each of these |
//! | real shapes before timing | | one content | every affordable distribution, two contents of the first, same input twice and in two processes |
//! | sanitizers, where the target has some | | | proof shapes, some drawn ones and the least workload |
//! | timing | one wave of blocks | short | long |
//! | timed outputs | where written | a random sample of rows when large | all of every one |
//!
//! In every session a case is launched once, except where repeatability is the question, so no
//! answer can be remembered; the first launch of a session warms up and is judged like any other.

mod bench;
mod choices;
mod contract;
mod gate;
mod micro;
mod proportions;
mod readings;
mod sanitize;
mod shapes;
mod timing;

use std::time::Instant;

use warpsmith_device::target::Target;
use warpsmith_model::lab::Kernel;
use warpsmith_model::{
    Ceilings, Environment, FORMAT_VERSION, Fidelity, Finding, Lab, Outcome, Request, Trial,
};

use crate::ceilings;
use crate::corpus::Corpus;
use crate::error::GateError;
use bench::Bench;
pub use bench::compiler_timed_out;
pub(crate) use bench::{
    Look, ProgramError, Stop, Subject, input_changed, judge_case, launch_outcome,
};
pub(crate) use timing::output_bytes;

/// Evaluates a kernel. The target compiles it, stages inputs and runs it; the corpus knows what is
/// right.
pub fn evaluate(
    target: &mut dyn Target,
    corpus: &mut Corpus,
    lab: &Lab,
    kernel: &Kernel,
    request: &Request,
    environment: &Environment,
    ceilings: Option<&Ceilings>,
) -> Result<Finding, GateError> {
    let started = Instant::now();
    let floor_s = match ceilings {
        Some(ceilings) => ceilings.launch_floor_s,
        None => corpus.launch_floor_s(target)?,
    };
    let subject = Subject::Kernel { kernel, params: &request.job.candidate.params };
    let mut attempt = || {
        let bench = Bench::new(target, corpus, lab, subject, request, environment, floor_s);
        answer(bench, request, environment, ceilings, started)
    };
    let finding = attempt()?;
    let Some(before) = killed_from_outside(&finding.trial.outcome) else { return Ok(finding) };
    // Whom the system or a person killed has shown nothing of itself.
    let mut again = attempt()?;
    again.trial.notes.push(format!("tried once more: the first time it {before}"));
    Ok(again)
}

/// Says what happened where somebody else ended an evaluation.
fn killed_from_outside(outcome: &Outcome) -> Option<String> {
    match outcome {
        Outcome::Crashed { cause, .. } if cause.is_from_outside() => Some(outcome.describe()),
        _ => None,
    }
}

fn answer(
    mut bench: Bench<'_>,
    request: &Request,
    environment: &Environment,
    ceilings: Option<&Ceilings>,
    started: Instant,
) -> Result<Finding, GateError> {
    let judged = judge(&mut bench, request, ceilings);
    let bench = bench.finish();
    let outcome = match judged {
        Ok(outcome) => outcome,
        Err(Stop::Outcome(outcome)) => *outcome,
        Err(Stop::Broken(error)) => return Err(error),
    };
    let trial = Trial {
        format: FORMAT_VERSION,
        id: request.job.trial,
        job: request.job.clone(),
        environment: environment.id(),
        builds: bench.builds,
        outcome,
        same_binary_as: None,
        wall_s: started.elapsed().as_secs_f64(),
        launch_s: bench.launch_s,
        notes: bench.notes,
    };
    Ok(Finding { trial, blobs: bench.blobs })
}

fn judge(
    bench: &mut Bench<'_>,
    request: &Request,
    ceilings: Option<&Ceilings>,
) -> Result<Outcome, Stop> {
    let workloads = bench.workloads(&request.job)?;
    // All builds first: a candidate that fails to compile for one shape fails, before any is timed.
    for workload in &workloads {
        bench.program(workload)?;
    }
    let mut measurements = Vec::new();
    match request.job.fidelity {
        Fidelity::Micro => {
            for workload in &workloads {
                measurements.push(micro::measure(bench, workload)?);
            }
        }
        Fidelity::Rank => {
            for workload in &workloads {
                let measurement = timing::rank(bench, workload)?;
                let hopeless = measurement.stop == warpsmith_model::StopReason::Hopeless;
                measurements.push(measurement);
                if hopeless {
                    break;
                }
            }
        }
        Fidelity::Full => {
            if let Some(workload) = workloads.first() {
                contract::launches_everywhere(bench, workload)?;
            }
            bench.stays = true;
            gate::small_shapes(bench)?;
            bench.stays = false;
            let mut gated = Vec::new();
            for workload in &workloads {
                gated.push(gate::workload(bench, workload)?);
                gate::near_workload(bench, workload)?;
            }
            gate::further_shapes(bench, &workloads)?;
            // After everything that is quicker, and before timing, whose readings would count for nothing.
            sanitize::check(bench, &workloads)?;
            for (workload, gated) in workloads.iter().zip(gated) {
                measurements.push(timing::full(bench, workload, gated)?);
            }
        }
    }
    if request.job.fidelity != Fidelity::Micro
        && let Some(ceilings) = ceilings
        && timing::judge_plausibility(bench.lab, ceilings, &measurements)?.is_some()
    {
        // Ceilings that were measured on a busy machine are too low: nobody is accused by them.
        let (again, how) = match ceilings::measure_in_quiet(bench.target)? {
            Some(measured) => (ceilings.best_of(&measured), "which turned out too low"),
            None => {
                (ceilings::beyond_any(bench.target), "which this machine is too busy to measure")
            }
        };
        if let Some(outcome) = timing::judge_plausibility(bench.lab, &again, &measurements)? {
            return Ok(outcome);
        }
        bench.notes.push(format!("faster than the ceilings say, {how}"));
    }
    Ok(Outcome::Passed { measurements })
}

#[cfg(test)]
mod accidents;
#[cfg(test)]
mod sanitized;
#[cfg(test)]
mod tests;
