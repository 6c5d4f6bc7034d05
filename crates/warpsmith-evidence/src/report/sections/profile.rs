//! Where the time goes: what counters say of the profiled kernels, and the distance to the best peer
//! and to the machine's limits, handed out to causes.

use warpsmith_model::diagnose::{Basis, Cause, Scene, StallGroup, diagnose, gap};
use warpsmith_model::roofline::WorkSize;
use warpsmith_model::{
    CounterSource, Diagnosis, Gap, ProfileRecord, WorkloadProfile, stats, units,
};

use super::super::charts::{self, Segment, Stack};
use super::super::data::View;
use super::super::html::{Html, html};
use super::super::words;
use super::{Column, scroll, table, titled_table};

/// Returns the section's body; none where nothing was profiled.
pub(super) fn body(view: &View<'_>) -> Option<Html> {
    if view.data.profiles.is_empty() {
        return None;
    }
    let mut body = html!(
        "<p>Times are the harness’s own: a profiler replays each launch many times, so its durations are not compared with anything. The attribution is a model, not a measurement: causes overlap, and counters say how often something happened, not what it cost. It hands out the time in a fixed order (the work at the measured ceilings, launching, bytes beyond the least, idle multiprocessors, then what warps wait for), so that the parts sum to the whole.</p>\n"
    );
    for profile in &view.data.profiles {
        body.push(one(view, profile));
    }
    Some(body)
}

fn one(view: &View<'_>, profile: &ProfileRecord) -> Html {
    let seen: Vec<(&WorkloadProfile, Diagnosis, Option<Gap>)> = profile
        .workloads
        .iter()
        .map(|workload| {
            let scene = scene(view, workload);
            (workload, diagnose(workload, &scene), gap(workload, &scene))
        })
        .collect();
    let mut body = html!(
        "<h3><code>{}</code> <span class='params soft'>{}</span></h3>\n",
        profile.kernel,
        profile.params.to_string()
    );
    body.push(bounds(profile, &seen));
    body.push(bars(view, profile, &seen));
    for (workload, diagnosis, gap) in &seen {
        body.push(details(view, profile, workload, diagnosis, gap.as_ref()));
    }
    body
}

fn scene<'a>(view: &'a View<'_>, workload: &WorkloadProfile) -> Scene<'a> {
    let work = view.lab.workload(&workload.workload);
    Scene {
        device: &view.data.environment.device,
        ceilings: view.data.ceilings.as_ref(),
        work: work.map(|work| WorkSize { flops: work.flops, bytes: work.bytes }),
        dtype: view.lab.arithmetic_dtype(),
    }
}

/// What bounds the kernel on each workload.
fn bounds(profile: &ProfileRecord, seen: &[(&WorkloadProfile, Diagnosis, Option<Gap>)]) -> Html {
    let rows: Html = seen
        .iter()
        .map(|(workload, diagnosis, _)| {
            let basis = match diagnosis.basis {
                Basis::Counters => "counters",
                Basis::Static => "without counters",
            };
            html!(
                "<tr><th scope='row'>{}</th><td>{}<span class='sub'>{}</span></td><td>{}</td></tr>\n",
                workload.workload,
                diagnosis.bound.words(),
                diagnosis.because,
                basis
            )
        })
        .collect();
    let columns = [Column::Text("Workload"), Column::Text("What bounds it"), Column::Text("From")];
    table(&format!("What bounds {}", profile.kernel), &columns, rows)
}

/// The attribution as bars, with the best peer's time marked.
fn bars(
    view: &View<'_>,
    profile: &ProfileRecord,
    seen: &[(&WorkloadProfile, Diagnosis, Option<Gap>)],
) -> Html {
    let stacks: Vec<Stack<'_>> = seen
        .iter()
        .filter_map(|(workload, _, gap)| {
            let gap = gap.as_ref()?;
            let segments = gap
                .parts
                .iter()
                .map(|part| {
                    let share = part.time_s / gap.time_s;
                    let words = part.cause.words();
                    Segment {
                        share,
                        class: class(part.cause),
                        title: format!(
                            "{words}: {}, {}",
                            units::time(part.time_s),
                            words::percent(share)
                        ),
                        word: group_words(part.cause),
                    }
                })
                .collect();
            let rival = best_peer(view, profile, &workload.workload).map(|(label, share)| {
                (share, format!("{label}: {} of this time", words::percent(share)))
            });
            Some(Stack {
                label: &workload.workload,
                segments,
                words: units::time(gap.time_s),
                rival,
            })
        })
        .collect();
    if stacks.is_empty() {
        return Html::default();
    }
    let label = format!("Where the time of {} goes, by workload", profile.kernel);
    let has_rival =
        stacks.iter().any(|stack| stack.rival.as_ref().is_some_and(|(share, _)| *share <= 1.0));
    let note = match has_rival {
        true => html!("<p class='small'>The dashed line is the best peer’s time.</p>\n"),
        false => Html::default(),
    };
    html!(
        "<figure class='wide'>{}{}</figure>\n{}",
        scroll(&label, charts::stack(&label, &stacks)),
        charts::stack_key(&stacks),
        note
    )
}

/// Returns the fastest other contender on a workload, and its time as a share of this kernel's, from
/// the paired rounds of the comparison that has both.
fn best_peer(view: &View<'_>, profile: &ProfileRecord, workload: &str) -> Option<(String, f64)> {
    let record = view.comparison.as_ref()?.record;
    let rounds = record.workloads.iter().find(|rounds| rounds.workload == workload)?;
    let is_own = |kind: &warpsmith_model::ContenderKind| match kind {
        warpsmith_model::ContenderKind::Kernel { kernel, params, .. } => {
            *kernel == profile.kernel && *params == profile.params
        }
        warpsmith_model::ContenderKind::Baseline { .. } => false,
    };
    let own = record.contenders.iter().position(|contender| is_own(&contender.kind))?;
    let median = |idx: usize| stats::median(rounds.samples_s.get(idx)?);
    let own_s = median(own)?;
    (0..record.contenders.len())
        .filter(|idx| *idx != own)
        .filter_map(|idx| Some((record.contenders[idx].label.clone(), median(idx)? / own_s)))
        .min_by(|(_, one), (_, other)| one.total_cmp(other))
}

fn details(
    view: &View<'_>,
    profile: &ProfileRecord,
    workload: &WorkloadProfile,
    diagnosis: &Diagnosis,
    gap: Option<&Gap>,
) -> Html {
    let mut inside = Html::default();
    if let CounterSource::Missing { reason, how } = &workload.counters {
        inside.push(html!("<p>Without counters: {}. To get them: {}.</p>\n", reason, how));
    }
    if let Some(gap) = gap {
        inside.push(gap_words(view, profile, workload, gap));
        inside.push(gap_table(gap));
    }
    let rows: Html = diagnosis
        .facts
        .iter()
        .map(|fact| {
            let mark = if fact.concern { "▲ look at this" } else { "" };
            html!(
                "<tr><th scope='row'>{}</th><td>{}</td><td class='soft'>{}</td></tr>\n",
                fact.name,
                fact.words,
                mark
            )
        })
        .collect();
    let columns = [Column::Text("Fact"), Column::Text("Found"), Column::Text("")];
    inside.push(titled_table("What was found", &columns, rows));
    if !diagnosis.stalls.is_empty() {
        let rows: Html = diagnosis
            .stalls
            .iter()
            .map(|stall| {
                html!(
                    "<tr><th scope='row'>{}</th><td>{}</td><td class='num'>{}</td></tr>\n",
                    stall.reason.name(),
                    stall.reason.words(),
                    words::percent(stall.share)
                )
            })
            .collect();
        let columns = [
            Column::Text("Reason"),
            Column::Text("Warps wait for"),
            Column::Number("Share of their time"),
        ];
        inside.push(titled_table("What warps wait for", &columns, rows));
    }
    if !diagnosis.advice.is_empty() {
        let lines: Html =
            diagnosis.advice.iter().map(|line| html!("<li>{}</li>\n", line)).collect();
        inside.push(html!("<h3>What to try</h3>\n<ul>\n{}</ul>\n", lines));
    }
    html!("<details><summary>{} in detail</summary>\n{}</details>\n", workload.workload, inside)
}

/// The distance to the limits and to the best peer, in a sentence each.
fn gap_words(
    view: &View<'_>,
    profile: &ProfileRecord,
    workload: &WorkloadProfile,
    gap: &Gap,
) -> Html {
    let work_s: f64 =
        gap.parts.iter().filter(|part| part.cause == Cause::Work).map(|part| part.time_s).sum();
    let mut sentences = format!(
        "Of {}, the measured ceilings ask for {} ({}); {} are missing.",
        units::time(gap.time_s),
        units::time(work_s),
        words::percent(work_s / gap.time_s),
        units::time(gap.time_s - work_s)
    );
    if let Some((label, share)) = best_peer(view, profile, &workload.workload) {
        sentences += &match share < 1.0 {
            true => format!(
                " The best peer, {label}, takes {} of this kernel’s time: {} less.",
                words::percent(share),
                units::time((1.0 - share) * gap.time_s)
            ),
            false => format!(" The best peer, {label}, takes {} as long.", words::ratio(share)),
        };
    }
    let counted = workload.launches.iter().filter_map(|launch| launch.counters.as_ref());
    let busy = counted.filter_map(|counters| counters.tensor_active).reduce(f64::max);
    if let Some(busy) = busy.filter(|busy| *busy > 0.0) {
        let idle = words::percent((1.0 - busy).max(0.0));
        sentences += &format!(" The matrix units idle {idle} of the launch.");
    }
    html!("<p>{}</p>\n", sentences)
}

fn gap_table(gap: &Gap) -> Html {
    let rows: Html = gap
        .parts
        .iter()
        .map(|part| {
            html!(
                "<tr><th scope='row'>{}</th><td class='num'>{}</td><td class='num'>{}</td></tr>\n",
                part.cause.words(),
                units::time(part.time_s),
                words::percent(part.time_s / gap.time_s)
            )
        })
        .collect();
    let columns = [Column::Text("Cause"), Column::Number("Time"), Column::Number("Share")];
    titled_table("Where the time goes", &columns, rows)
}

/// The class that gives a cause its colour; kinds of waiting that have much in common share one.
fn class(cause: Cause) -> &'static str {
    match cause {
        Cause::Work => "work",
        Cause::Launch => "launch",
        Cause::ExtraBytes => "bytes",
        Cause::IdleMultiprocessors => "idle",
        Cause::Stall(stall) => match stall.group() {
            StallGroup::Memory => "wait-memory",
            StallGroup::Shared => "wait-shared",
            StallGroup::Synchronisation => "wait-sync",
            StallGroup::Tensor => "wait-tensor",
            StallGroup::Arithmetic | StallGroup::Busy => "wait-math",
            StallGroup::Instructions => "wait-code",
        },
        Cause::OtherStalls => "wait-other",
        Cause::OtherInstructions => "other",
        Cause::Unknown => "unknown",
    }
}

/// What a colour stands for.
fn group_words(cause: Cause) -> String {
    match cause {
        Cause::Stall(stall) => match stall.group() {
            StallGroup::Memory => "waiting for global memory",
            StallGroup::Shared => "waiting for shared memory",
            StallGroup::Synchronisation => "waiting for other warps",
            StallGroup::Tensor => "waiting for the matrix units",
            StallGroup::Arithmetic | StallGroup::Busy => "waiting for arithmetic",
            StallGroup::Instructions => "waiting for instructions and constants",
        }
        .to_string(),
        other => other.words(),
    }
}
