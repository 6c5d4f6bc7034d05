//! The summary: who won, by how much, how near to the machine's limits, and how to do it again.

use warpsmith_model::roofline::Nearness;
use warpsmith_model::stats::{Comparison, judge, median};
use warpsmith_model::{DeviceState, Fidelity, Guard, Measurement, RunStatus, Trial, notes, units};

use super::super::data::{Part, RecommendedKernel, View};
use super::super::html::{Html, html};
use super::super::trials::Packed;
use super::super::words;
use super::{Column, badge, empty, nearness_meter, nearness_notes, reproduce, titled_table};
use crate::derive::{self, Standing};
use crate::utc_text;

/// The page's head: what was computed, when and where.
pub(in crate::report) fn masthead(view: &View<'_>) -> Html {
    let run = &view.data.run;
    let ended = run.status.ended_unix_s();
    let took = ended.map(|ended| format!(", took {}", words::duration(ended - run.started_unix_s)));
    html!(
        "<header><p class='eyebrow'>Warpsmith report · {}</p>\n<h1>{}</h1>\n\
         <p class='meta'><span>Run <code>{}</code></span><span>{}{}</span><span>{}, {}</span><span>{}</span></p></header>\n",
        run.lab.name,
        run.lab.title,
        run.id.0,
        format!("{} UTC", utc_text(run.started_unix_s)),
        took.unwrap_or_default(),
        view.data.environment.device.name,
        words::counted(view.data.environment.device.threads as usize, "thread"),
        words::counted(view.totals.trials, "trial"),
    )
}

pub(super) fn body(view: &View<'_>, packed: &Packed) -> Html {
    let mut body = Html::default();
    match (&view.winner, &view.comparison) {
        (Some(winner), _) => {
            body.push(headline(view, winner.kernel, winner.because));
            body.push(cards(view));
            body.push(parameters(winner));
            body.push(workloads(view, winner));
            body.push(conditions(view, winner));
        }
        (None, Some(comparison)) => {
            let first = &comparison.standings[comparison.against].label;
            body.push(headline(view, first, "was compared, but has no times in common with others"));
            body.push(cards(view));
        }
        (None, None) => body.push(empty(
            "There is no winner: no candidate passed the gate on every workload that was asked for.",
        )),
    }
    body.push(warnings(view, packed));
    body.push(reproduce::body(view));
    body
}

/// The result in a sentence; `otherwise` ends it when nobody was compared.
fn headline(view: &View<'_>, subject: &str, otherwise: &str) -> Html {
    let rivals = rivals(view);
    // Other kernels of the ladder are on the cards; the sentence stays readable.
    let clauses: Vec<Html> = rivals
        .iter()
        .filter(|(_, part)| *part != Part::Kernel)
        .filter_map(|(rival, _)| clause(rival))
        .collect();
    let summary = view.lab.kernel(subject).map_or("", |kernel| &kernel.summary);
    let verdict = match clauses.split_last() {
        None => html!("{}", otherwise),
        Some((last, [])) => html!("{}", last),
        Some((last, rest)) => {
            let mut joined = Html::default();
            for clause in rest {
                joined.push(html!("{}, ", clause));
            }
            html!("{}and {}", joined, last)
        }
    };
    html!(
        "<p class='headline'><code>{}</code> {}.</p>\n<p class='lead'>{}</p>\n",
        subject,
        verdict,
        summary
    )
}

/// The winner against one rival, as a clause.
fn clause(rival: &Standing) -> Option<Html> {
    let overall = rival.speedup?;
    let ratio = words::ratio(overall.mid);
    Some(match judge(overall) {
        Comparison::Faster => {
            html!("is <strong>{}</strong> as fast as <code>{}</code>", ratio, rival.label)
        }
        Comparison::Slower => {
            html!(
                "is slower than <code>{}</code> (<strong>{}</strong> as fast)",
                rival.label,
                ratio
            )
        }
        Comparison::Tie => html!("ties with <code>{}</code>", rival.label),
        Comparison::Unclear => {
            html!("cannot be told apart from <code>{}</code> yet", rival.label)
        }
    })
}

/// The contenders that the winner is measured against: the naive rung, then baselines, then other
/// kernels.
fn rivals<'a>(view: &'a View<'_>) -> Vec<(&'a Standing, Part)> {
    let holding = view.comparison.as_ref().filter(|comparison| comparison.is_headline);
    let Some(comparison) = holding else { return Vec::new() };
    let mut rivals: Vec<(&Standing, Part)> = comparison.ordered().skip(1).collect();
    rivals.sort_by_key(|(_, part)| match part {
        Part::Naive => 0,
        Part::Baseline(_) => 1,
        Part::Winner | Part::Kernel => 2,
    });
    rivals
}

fn cards(view: &View<'_>) -> Html {
    let holding = view.comparison.as_ref().filter(|comparison| comparison.is_headline);
    let Some(comparison) = holding else {
        return empty(
            "The winner was held against nobody in paired rounds, so no speed-up is stated: times from separate trials do not share one clock state.",
        );
    };
    let n_workloads = comparison.record.workloads.len();
    let cards: Html = rivals(view)
        .into_iter()
        .map(|(rival, part)| {
            let what = match part {
                Part::Naive => "against the naive rung",
                Part::Baseline(_) => "against the baseline",
                Part::Winner | Part::Kernel => "against the kernel",
            };
            let Some(overall) = rival.speedup else {
                return html!(
                    "<div class='card'><p class='over'>{} <code>{}</code></p><p class='ratio none'>no times</p><p class='small'>see the comparison for the reason</p></div>\n",
                    what, rival.label
                );
            };
            let covers = if rival.covered == n_workloads {
                format!("over {}", words::counted(n_workloads, "workload"))
            } else {
                format!("over the {} of {n_workloads} workloads it serves", rival.covered)
            };
            html!(
                "<div class='card'><p class='over'>{} <code>{}</code></p><p class='ratio'>{} <span class='small'>as fast</span></p><p>{}</p><p class='small'>{} (95\u{a0}%)<br>{}</p></div>\n",
                what, rival.label, words::ratio(overall.mid), badge(overall, view.subject()),
                words::ratio_interval(overall), covers
            )
        })
        .collect();
    html!(
        "<div class='cards'>\n{}</div>\n<p class='small'>Speed-ups over several workloads are geometric means, with their 95\u{a0}% intervals.</p>\n",
        cards
    )
}

fn parameters(winner: &RecommendedKernel<'_>) -> Html {
    if winner.params.0.is_empty() {
        return html!("<p>The winner <code>{}</code> has no tunables.</p>\n", winner.kernel);
    }
    let chips: Html = winner
        .params
        .0
        .iter()
        .map(|(name, value)| {
            let text = value.to_string();
            let text = if text.is_empty() { "(empty)".to_string() } else { text };
            html!("<div><dt>{}</dt><dd>{}</dd></div>\n", name, text)
        })
        .collect();
    html!("<h3>The winner’s parameters</h3>\n<dl class='chips'>\n{}</dl>\n", chips)
}

fn workloads(view: &View<'_>, winner: &RecommendedKernel<'_>) -> Html {
    let rows: Html = view
        .lab
        .workloads
        .iter()
        .zip(&winner.time_s)
        .map(|(workload, time_s)| {
            let axes: Vec<String> =
                workload.axes.iter().map(|(axis, value)| format!("{axis}={value}")).collect();
            let Some(time_s) = time_s else {
                return html!(
                    "<tr><th scope='row'>{}<span class='sub'>{}</span></th><td colspan='4' class='empty'>not timed</td></tr>\n",
                    workload.name, axes.join(" ")
                );
            };
            let share = match view.nearness(workload, time_s.mid) {
                Some(near) => nearness_meter(&near),
                None => html!("{}", "ceilings were not measured"),
            };
            html!(
                "<tr><th scope='row'>{}<span class='sub'>{}</span></th><td class='num'>{}</td><td class='num soft'>{}</td><td class='num'>{}</td><td>{}</td></tr>\n",
                workload.name,
                axes.join(" "),
                units::time(time_s.mid),
                words::time_interval(*time_s),
                units::flops(workload.flops / time_s.mid),
                share
            )
        })
        .collect();
    let overall = html!(
        "<tr class='overall'><th scope='row'>All of them<span class='sub'>geometric mean</span></th><td class='num'>{}</td><td class='num soft'>{}</td><td colspan='2'></td></tr>\n",
        units::time(winner.score_s.mid),
        words::time_interval(winner.score_s)
    );
    let mut body = titled_table(
        "The winner on each workload",
        &[
            Column::Text("Workload"),
            Column::Number("Median time"),
            Column::Number("95\u{a0}% interval"),
            Column::Number("Rate"),
            Column::Text("Share of the measured peak that binds"),
        ],
        [rows, overall].into_iter().collect(),
    );
    body.push(html!(
        "<p class='small'>Times are medians of {} (trial {}), as in every other place where the winner’s time is named. Speed-ups are from the rounds of the comparison, whose times are its own.</p>\n",
        derive::measured_in(winner.trial.fidelity),
        winner.trial.seq.to_string()
    ));
    let times = view.lab.workloads.iter().zip(&winner.time_s);
    let near: Vec<Nearness> =
        times.filter_map(|(workload, time_s)| view.nearness(workload, (*time_s)?.mid)).collect();
    body.push(nearness_notes(&near));
    body
}

/// Under which conditions the winner was timed: cold and warm caches, and how the device was. Nothing
/// where the target says nothing of it.
fn conditions(view: &View<'_>, winner: &RecommendedKernel<'_>) -> Html {
    let trial = view.data.trials.iter().find(|record| record.trial.id == winner.trial.id);
    let measurements = trial.map_or(&[][..], |record| record.trial.outcome.measurements());
    let says_something = |measurement: &Measurement| {
        !measurement.warm_s.is_empty() || measurement.device_state.is_some()
    };
    if !measurements.iter().any(says_something) {
        return Html::default();
    }
    let rows: Html = measurements
        .iter()
        .map(|measurement| {
            let time = |samples: &[f64]| median(samples).map_or("–".to_string(), units::time);
            let state = measurement.device_state.as_ref();
            html!(
                "<tr><th scope='row'>{}</th><td class='num'>{}</td><td class='num'>{}</td><td>{}</td></tr>\n",
                measurement.workload,
                time(&measurement.samples_s),
                time(&measurement.warm_s),
                state.map_or("not recorded".to_string(), DeviceState::describe)
            )
        })
        .collect();
    let mut body = titled_table(
        "Caches, clocks and heat",
        &[
            Column::Text("Workload"),
            Column::Number("Cold caches (the time that counts)"),
            Column::Number("Warm caches"),
            Column::Text("The device meanwhile"),
        ],
        rows,
    );
    body.push(html!(
        "<p class='small'>Warm times are of the same input again and again. All other times in this report are taken with cold caches.</p>\n"
    ));
    body
}

fn warnings(view: &View<'_>, packed: &Packed) -> Html {
    let mut warnings: Vec<String> = Vec::new();
    match &view.data.run.status {
        RunStatus::Finished { .. } => {}
        RunStatus::Running => {
            warnings.push("The run had not ended when this report was made.".to_string());
        }
        RunStatus::Unknown => warnings.push(
            "The run has no end in the evidence; whether it still went on when this report was made \
             could not be told."
                .to_string(),
        ),
        RunStatus::Interrupted { .. } => {
            warnings.push("The run was interrupted; its results are partial.".to_string());
        }
        RunStatus::Failed { reason, .. } => warnings.push(format!("The run failed: {reason}")),
    }
    if view.winner.as_ref().is_some_and(|winner| winner.trial.fidelity < Fidelity::Full) {
        warnings.push("The winner has not passed the full gate.".to_string());
    }
    if let Some(winner) = view.winner.as_ref().filter(|winner| !winner.ties.is_empty()) {
        let ties = winner.ties.join(", ");
        warnings.push(format!("The winner is not shown to be faster than {ties}."));
    }
    let isolation = &view.data.environment.isolation;
    for (name, guard) in [
        ("the filter on system calls", &isolation.seccomp),
        ("the confinement of files and network", &isolation.landlock),
        ("the limits on memory, files and time", &isolation.rlimits),
        ("the sealing of inputs", &isolation.sealed_inputs),
        ("the dropping of privileges", &isolation.privileges),
    ] {
        if let Guard::Missing { reason } = guard {
            warnings.push(format!("Candidates ran without {name}: {reason}."));
        }
    }
    let of_the_winner = view.winner.as_ref().and_then(|winner| {
        view.data.trials.iter().find(|record| record.trial.id == winner.trial.id)
    });
    if let Some(record) = of_the_winner {
        let trial = &record.trial;
        let notes = notes::gathered(&trial.notes, &trial.job.workloads);
        warnings.extend(notes.iter().map(|note| format!("The winner’s trial: {note}")));
        warnings.extend(disagreements(view, trial));
    }
    if let Some(comparison) = &view.comparison {
        let names: Vec<&str> =
            comparison.record.workloads.iter().map(|rounds| rounds.workload.as_str()).collect();
        warnings.extend(notes::gathered(&comparison.record.notes, &names));
    }
    if packed.texts_left_out > 0 {
        let texts = words::counted(packed.texts_left_out, "source or log");
        warnings.push(format!("{texts} did not fit into this page; the evidence has all of them."));
    }
    if warnings.is_empty() {
        return Html::default();
    }
    let items: Html = warnings.iter().map(|warning| html!("<li>{}</li>\n", warning)).collect();
    html!("<div class='notice'><h3>To keep in mind</h3><ul>\n{}</ul></div>\n", items)
}

/// What the winner's own times and those in the last comparison that has it say of each other.
fn disagreements(view: &View<'_>, trial: &Trial) -> Vec<String> {
    let Some(winner) = &view.winner else { return Vec::new() };
    let candidate = &trial.job.candidate;
    let place =
        |record| Some((record, derive::place(record, &candidate.kernel, &candidate.params)?));
    let last = view.data.comparisons.iter().rev().find_map(place);
    let notes = last.map(|(record, at)| derive::disagreements(winner.trial, record, at));
    let notes = notes.unwrap_or_default();
    notes.iter().map(|note| format!("The winner: {note}")).collect()
}
