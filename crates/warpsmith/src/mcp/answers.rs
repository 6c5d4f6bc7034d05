//! What was learned, in few words and as data.
//!
//! An answer has two sides: structured content for programs, and a short text for models that see
//! nothing else. Both say what happened, how far it is from the best and from what the machine
//! allows, and what to do next. Texts that candidates or compilers wrote are quoted.

use serde_json::{Value as Json, json};
use warpsmith_evidence::derive::standings;
use warpsmith_model::lab::Lab;
use warpsmith_model::roofline::roofline_s;
use warpsmith_model::stats::{Comparison, median_interval};
use warpsmith_model::{
    BlobId, Ceilings, ComparisonRecord, CounterSource, CrashCause, DeviceInfo, Fidelity,
    MismatchKind, Outcome, RunId, Trial, notes, units,
};
use warpsmith_search::evolve::{Rejected, diagnosis, failure};
use warpsmith_search::score;

use super::board::{Board, BoardEntry};
use crate::campaign::missing_words;
use crate::commands::{profile, summary};

/// An answer to a tool's call.
#[derive(Clone, Debug)]
pub struct Reply {
    /// For programs.
    pub data: Json,
    /// For models.
    pub text: String,
    /// Whether the call itself could not be served. A candidate that fails is no such error.
    pub is_error: bool,
}

impl Reply {
    /// An answer.
    pub fn new(data: Json, text: String) -> Self {
        Self { data, text, is_error: false }
    }

    /// A call that could not be served.
    pub fn error(message: &str) -> Self {
        Self { data: json!({ "error": message }), text: message.to_string(), is_error: true }
    }
}

/// Says why a source is no candidate.
pub fn rejected(rejected: &Rejected) -> Reply {
    let data = json!({
        "verdict": "rejected",
        "reason": rejected.reason.name(),
        "message": rejected.detail,
        "recorded": false,
    });
    let text = format!(
        "rejected before it was compiled ({}): {}\nnothing was recorded; mend the source and evaluate \
         it again",
        rejected.reason.name(),
        rejected.detail
    );
    Reply { data, text, is_error: true }
}

/// Everything that an answer to an evaluation is made of.
#[derive(Debug)]
pub struct Evaluation<'a> {
    /// The lab.
    pub lab: &'a Lab,
    /// The session's run.
    pub run: &'a RunId,
    /// The kernel whose contract the candidate keeps.
    pub base: &'a str,
    /// The candidate's trial.
    pub trial: &'a Trial,
    /// The trial of the base, where it was measured too.
    pub base_trial: Option<&'a Trial>,
    /// What the compiler said, where it refused.
    pub log: Option<&'a str>,
    /// What the machine can do at most.
    pub ceilings: &'a Ceilings,
    /// What passed so far at the same fidelity, this trial included.
    pub board: &'a Board,
}

/// Says what came of a candidate.
pub fn evaluated(it: &Evaluation<'_>) -> Reply {
    let trial = it.trial;
    let candidate = &trial.job.candidate;
    let gate = gate_name(trial.job.fidelity);
    let mut data = json!({
        "run": it.run,
        "trial": trial.id,
        "kernel": candidate.kernel,
        "base": it.base,
        "params": candidate.params,
        "gate": gate,
        "verdict": trial.outcome.verdict(),
        "message": trial.outcome.describe(),
        "same_binary_as": trial.same_binary_as,
        "source_uri": format!("warpsmith://trials/{}/source", trial.id),
        "recorded": true,
    });
    let mut text = format!(
        "{} at the {gate} gate: {} ({})\ntrial {}\n",
        trial.outcome.verdict().name(),
        candidate.kernel,
        candidate.params,
        trial.id.short()
    );
    if let Some(twin) = trial.same_binary_as {
        text += &format!(
            "it compiles to the same program as trial {}; that one's outcome was taken over\n",
            twin.short()
        );
    }
    if let Some(failure) = failure(&trial.outcome, it.log) {
        data["failure"] = failure_data(&trial.outcome, &failure);
        text += &format!("{failure}\n");
    } else {
        let (numbers, words) = timed(it);
        merge(&mut data, numbers);
        text += &words;
    }
    for note in notes::gathered(&trial.notes, &trial.job.workloads) {
        text += &format!("note: {note}\n");
    }
    let next = next_step(it);
    data["next"] = json!(next);
    text += &format!("next: {next}");
    Reply::new(data, text)
}

/// Returns the log of a trial that did not compile.
pub fn log_of(trial: &Trial) -> Option<BlobId> {
    match &trial.outcome {
        Outcome::CompileFailed { log, .. } => Some(*log),
        _ => None,
    }
}

/// Says what holds a candidate back where there are no counters to read, or why it cannot be said.
pub fn cpu_profile(lab: &Lab, trial: &Trial, ceilings: &Ceilings, log: Option<&str>) -> Reply {
    let mut data = json!({
        "trial": trial.id, "verdict": trial.outcome.verdict(), "message": trial.outcome.describe(),
    });
    if let Some(failure) = failure(&trial.outcome, log) {
        data["failure"] = failure_data(&trial.outcome, &failure);
        return Reply::new(data, format!("not profiled, because {failure}"));
    }
    let basis = "counters are not read on the CPU; this is the distance to the measured ceilings";
    let diagnosis = diagnosis(lab, trial, ceilings);
    data["basis"] = json!(basis);
    data["diagnosis"] = json!(diagnosis.lines().collect::<Vec<_>>());
    data["workloads"] = workloads(lab, trial, ceilings);
    Reply::new(data, format!("trial {}\n{diagnosis}\n({basis})", trial.id.short()))
}

/// Says what a profiler saw.
pub fn profiled(trial: &Trial, profiled: &profile::Profiled) -> anyhow::Result<Reply> {
    let findings = profiled.findings();
    let mut text = format!("trial {}\n{}\n", trial.id.short(), profiled.lines().join("\n"));
    let missing = profiled.record.workloads.iter().find_map(|it| match &it.counters {
        CounterSource::Missing { reason, how } => Some(format!("no counters: {reason}; {how}")),
        _ => None,
    });
    if let Some(missing) = &missing {
        text += &format!("{missing}\n");
    }
    let data = json!({
        "trial": trial.id, "verdict": trial.outcome.verdict(),
        "findings": serde_json::to_value(&findings)?, "missing": missing,
    });
    Ok(Reply::new(data, text.trim_end().to_string()))
}

/// Says who is faster.
pub fn compared(
    lab: &Lab,
    run: &RunId,
    ceilings: &Ceilings,
    device: &DeviceInfo,
    record: &ComparisonRecord,
) -> Reply {
    let table = summary::comparison_table(record);
    let mut text = anstream::adapter::strip_str(&table).to_string();
    for missing in &record.missing {
        text += &format!("\n{}", missing_words(missing));
    }
    let failures = summary::failures(record);
    if let Some(failures) = &failures {
        text += &format!("\nno times for {failures}");
    }
    let standings = standings(record, 0);
    for other in standings.iter().skip(1) {
        let words = match other.verdict {
            Some(Comparison::Faster) => "is faster than",
            Some(Comparison::Slower) => "is slower than",
            Some(Comparison::Tie) => "ties with",
            Some(Comparison::Unclear) => {
                "is neither shown to be faster nor to tie (compare again on a quieter machine):"
            }
            None => "has no common times with",
        };
        text += &format!("\n{} {words} {}", record.contenders[0].label, other.label);
    }
    let data = json!({
        "run": run,
        "speedups": summary::speedups_json(record),
        "times": summary::times_json(lab, ceilings, device, record),
        "missing_baselines": record.missing,
        "failures": failures,
    });
    Reply::new(data, text)
}

/// Renders a board.
pub fn board(lab_name: &str, fidelity: Fidelity, board: &Board, limit: usize) -> Reply {
    let gate = gate_name(fidelity);
    let best_s = board.places.first().map(|first| first.score_s.mid);
    let row = |(idx, place): (usize, &BoardEntry)| {
        json!({
            "place": idx + 1, "trial": place.trial, "run": place.run, "kernel": place.kernel,
            "params": place.params, "by": place.origin, "time_s": place.score_s,
            "slower_than_best": best_s.map(|best_s| place.score_s.mid / best_s),
        })
    };
    let rows: Vec<Json> = board.places.iter().take(limit).enumerate().map(row).collect();
    let mut text = format!(
        "{lab_name}, {gate} gate, {} run(s): geometric mean over {}\n",
        board.n_runs,
        board.workloads.join(", ")
    );
    for (idx, place) in board.places.iter().take(limit).enumerate() {
        text += &format!(
            "{}. {} {} ({}) by {}, trial {}\n",
            idx + 1,
            units::time(place.score_s.mid),
            place.kernel,
            place.params,
            place.origin,
            place.trial.short()
        );
    }
    if board.places.is_empty() {
        text = format!("{lab_name}: nothing has passed the {gate} gate yet in this environment\n");
    }
    let more = board.places.len().saturating_sub(limit);
    if more > 0 {
        text += &format!("and {more} more\n");
    }
    text += match fidelity {
        Fidelity::Full => {
            "times are of single evaluations; compare decides who is faster, in interleaved rounds"
        }
        _ => "these passed the quick gate alone: evaluate with gate `full` for a record",
    };
    let data = json!({
        "lab": lab_name, "gate": gate, "environment": board.environment, "runs": board.n_runs,
        "workloads": board.workloads, "places": rows, "more": more,
        "passed_but_not_on_every_workload": board.n_unranked,
    });
    Reply::new(data, text)
}

/// Renders the evidence of one trial; samples are summarised, the resource has them all.
pub fn trial(trial: &Trial, runs: &[RunId], log: Option<&str>, source: Option<&str>) -> Reply {
    let candidate = &trial.job.candidate;
    let measurements: Vec<Json> = trial
        .outcome
        .measurements()
        .iter()
        .map(|measurement| {
            json!({
                "workload": measurement.workload,
                "median_s": median_interval(&measurement.samples_s),
                "samples": measurement.samples_s.len(),
                "error_eps": measurement.error.element_eps,
                "error": measurement.error.plain,
                "stopped": measurement.stop,
            })
        })
        .collect();
    let builds: Vec<Json> = trial
        .builds
        .iter()
        .map(|build| json!({ "command": build.command.join(" "), "binary": build.binary }))
        .collect();
    let failure = failure(&trial.outcome, log);
    let data = json!({
        "trial": trial.id, "runs": runs, "kernel": candidate.kernel, "params": candidate.params,
        "gate": gate_name(trial.job.fidelity), "seed": trial.job.seed,
        "verdict": trial.outcome.verdict(), "message": trial.outcome.describe(),
        "failure": failure.as_ref().map(|failure| failure_data(&trial.outcome, failure)),
        "workloads": measurements, "builds": builds, "notes": trial.notes,
        "same_binary_as": trial.same_binary_as, "source": source,
        "source_uri": format!("warpsmith://trials/{}/source", trial.id),
    });
    let mut text = format!(
        "trial {}: {} ({}) at the {} gate\n{}\n",
        trial.id,
        candidate.kernel,
        candidate.params,
        gate_name(trial.job.fidelity),
        failure.unwrap_or_else(|| trial.outcome.describe())
    );
    for measurement in trial.outcome.measurements() {
        if let Some(interval) = median_interval(&measurement.samples_s) {
            text += &format!(
                "{}: {} ({} to {}), error {:.1} eps\n",
                measurement.workload,
                units::time(interval.mid),
                units::time(interval.low),
                units::time(interval.high),
                measurement.error.element_eps
            );
        }
    }
    for note in notes::gathered(&trial.notes, &trial.job.workloads) {
        text += &format!("note: {note}\n");
    }
    if let Some(source) = source {
        text += &format!("\n{source}");
    }
    Reply::new(data, text.trim_end().to_string())
}

/// Returns the name that agents use for a fidelity.
pub fn gate_name(fidelity: Fidelity) -> &'static str {
    match fidelity {
        Fidelity::Micro => "micro",
        Fidelity::Rank => "quick",
        Fidelity::Full => "full",
    }
}

fn failure_data(outcome: &Outcome, words: &str) -> Json {
    match outcome {
        Outcome::CompileFailed { .. } => json!({ "compiler": words }),
        Outcome::Incorrect { mismatch } => json!({ "mismatch": mismatch }),
        Outcome::Crashed { workload, cause } => {
            json!({ "workload": workload, "crash": cause, "words": cause.to_string() })
        }
        Outcome::TimedOut { workload, limit_s } => {
            json!({ "workload": workload, "limit_s": limit_s })
        }
        Outcome::Implausible { workload, time_s, floor_s, .. } => {
            json!({ "workload": workload, "time_s": time_s, "floor_s": floor_s })
        }
        Outcome::Passed { .. } => Json::Null,
    }
}

/// The times of a passed candidate against the base, the best and the roofline.
fn timed(it: &Evaluation<'_>) -> (Json, String) {
    let time_s = score(it.trial).time_s();
    let diagnosis = diagnosis(it.lab, it.trial, it.ceilings);
    let mut text = String::new();
    let mut data = json!({
        "time_s": time_s,
        "workloads": workloads(it.lab, it.trial, it.ceilings),
    });
    let Some(time_s) = time_s else {
        text += "it has no time on some workload: timing was given up\n";
        return (data, text);
    };
    text += &format!("{} (geometric mean over the workloads)\n", units::time(time_s));
    if let Some(base_s) = it.base_trial.and_then(|base| score(base).time_s()) {
        let speedup = base_s / time_s;
        data["over_base"] = json!({ "base_time_s": base_s, "speedup": speedup });
        text += &format!("{speedup:.2}x the speed of {} ({})\n", it.base, units::time(base_s));
    }
    // The best of the others: whoever is first may be this very candidate.
    let own = it.trial.same_binary_as.unwrap_or(it.trial.id);
    let best = it.board.places.iter().find(|place| place.trial != own);
    if let Some(best) = best {
        let speedup = best.score_s.mid / time_s;
        data["over_best"] = json!({
            "trial": best.trial, "kernel": best.kernel, "time_s": best.score_s.mid,
            "speedup": speedup,
        });
        text += &format!(
            "{speedup:.2}x the speed of the best other one at this gate, {} ({}, trial {})\n",
            best.kernel,
            units::time(best.score_s.mid),
            best.trial.short()
        );
    }
    data["place"] =
        json!(it.board.places.iter().position(|place| place.trial == own).map(|idx| idx + 1));
    text += &format!("{diagnosis}\n");
    (data, text)
}

fn workloads(lab: &Lab, trial: &Trial, ceilings: &Ceilings) -> Json {
    let row = |measurement: &warpsmith_model::Measurement| {
        let interval = median_interval(&measurement.samples_s)?;
        let share = lab.workload(&measurement.workload).and_then(|workload| {
            let work = lab.work(workload).ok()?;
            Some(roofline_s(ceilings, work, lab.arithmetic_dtype(workload)) / interval.mid)
        });
        Some(json!({
            "workload": measurement.workload, "time_s": interval, "share_of_roofline": share,
            "error_eps": measurement.error.element_eps, "error": measurement.error.plain,
        }))
    };
    trial.outcome.measurements().iter().filter_map(row).collect()
}

/// What to do about an access beside a tensor.
const CHECK_RANGES: &str = "check the ranges of loops and the remainder of the last block: shapes need not \
                            be multiples of a tile";

/// Says what a sensible agent does now.
fn next_step(it: &Evaluation<'_>) -> String {
    let id = it.trial.id.short();
    match (&it.trial.outcome, it.trial.job.fidelity) {
        (Outcome::CompileFailed { .. }, _) => {
            "mend the first error; the signature and the macros are those of read_kernel"
                .to_string()
        }
        (Outcome::Crashed { cause, .. }, _) => match cause {
            CrashCause::Forbidden { .. } | CrashCause::Exited { .. } => {
                "leave it out: a kernel computes its blocks and returns".to_string()
            }
            CrashCause::WroteInput { .. } => {
                "inputs are read-only: write to the outputs, to scratch or to the stack".to_string()
            }
            CrashCause::NotLoadable { .. } => {
                "define what the message names, or do without it".to_string()
            }
            _ => CHECK_RANGES.to_string(),
        },
        (Outcome::TimedOut { .. }, _) => {
            "look for a loop that does not end, or that is far slower than the base".to_string()
        }
        (Outcome::Incorrect { mismatch }, _)
            if matches!(
                mismatch.kind,
                MismatchKind::GuardOverwritten | MismatchKind::InputChanged
            ) =>
        {
            CHECK_RANGES.to_string()
        }
        (Outcome::Incorrect { .. }, _) => {
            "mend what the worst element shows; outputs are poisoned first, so one that was never \
             written reads as such"
                .to_string()
        }
        (Outcome::Implausible { .. }, _) => {
            "it does less than the whole work; do all of it".to_string()
        }
        (Outcome::Passed { .. }, _) if it.trial.same_binary_as.is_some() => {
            "the compiler makes the same program of it: change what is computed when, not how it is \
             written"
                .to_string()
        }
        (Outcome::Passed { .. }, Fidelity::Full) => match first_other(it) {
            Some(other) => format!(
                "it is on the leaderboard; compare trial:{id} with trial:{} decides whether it is \
                 really faster",
                other.trial.short()
            ),
            None => "it is on the leaderboard, alone so far".to_string(),
        },
        (Outcome::Passed { .. }, _) => {
            let is_first = it.board.places.first().is_some_and(|first| first.trial == it.trial.id);
            if is_first {
                "the fastest at this gate so far: evaluate it with gate `full`, then compare it with \
                 the former best"
                    .to_string()
            } else {
                "not the fastest: look at the shares of the roofline above, or use profile"
                    .to_string()
            }
        }
    }
}

fn first_other<'a>(it: &Evaluation<'a>) -> Option<&'a BoardEntry> {
    it.board.places.iter().find(|place| place.trial != it.trial.id)
}

fn merge(data: &mut Json, more: Json) {
    if let (Some(data), Json::Object(more)) = (data.as_object_mut(), more) {
        data.extend(more);
    }
}
