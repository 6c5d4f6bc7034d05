//! How language models rewrote the kernel: funnel, cost, lineage, every prompt and reply.

use std::collections::BTreeMap;

use warpsmith_model::{AblationRecord, CallAnswer, ReplyVerdict, SIGNIFICANT_P, units};

use super::super::charts::{self, CostPoint};
use super::super::data::View;
use super::super::html::{Html, html};
use super::super::words;
use super::{Column, empty, meter, scroll, table, titled_table};
use crate::derive::{self, DiffLine, Evolution, Funnel, Step, StepFate};

/// Lines that stay the same and are shown around a change.
const CONTEXT_LINES: usize = 3;

/// Returns the section; none for a run that is no evolution.
pub(super) fn body(view: &View<'_>) -> Option<Html> {
    let start = view.data.evolution.as_ref()?;
    let calls = &view.data.calls;
    let evolution = derive::evolution(start, calls, view.summaries, &view.data.comparisons);
    if evolution.steps.is_empty() {
        return Some(empty("No model was asked before the run ended."));
    }
    let mut body = html!(
        "<p>The source of {} was rewritten by language models. Every call is a trial, whatever came of it; a new best was accepted only when it was faster in interleaved rounds.</p>\n",
        start.kernel
    );
    body.push(view.data.ablation.as_ref().map(modes).unwrap_or_default());
    body.push(funnel(&evolution.funnel));
    body.push(cost(&evolution));
    body.push(html!("<h3>Lineage</h3>\n<p class='small'>A call without parents stands below the seed. Open a call for its thought, its difference, its prompt and its reply.</p>\n"));
    body.push(lineage(view, &evolution));
    Some(body)
}

/// Every mode with the same budget, side by side.
fn modes(record: &AblationRecord) -> Html {
    let ratio = |value: Option<f64>| value.map_or("–".to_string(), words::ratio);
    let rows: Html = record
        .arms
        .iter()
        .map(|arm| {
            let runs: Vec<&str> = arm.runs.iter().map(|run| run.0.as_str()).collect();
            html!(
                "<tr><th scope='row'>{}<span class='sub'>{}</span></th><td class='num'>{}</td><td class='num'>{}</td><td class='num'>{}</td><td class='num'>{}</td><td class='num'>{}</td><td class='num'>{}</td></tr>\n",
                arm.mode.name(),
                runs.join(", "),
                words::count(arm.calls as usize),
                words::percent(arm.validity()),
                ratio(arm.median_speedup()),
                ratio(arm.best_speedup()),
                words::count(arm.tokens as usize),
                format!("{:.4}", arm.cost)
            )
        })
        .collect();
    let columns = [
        Column::Text("Mode"),
        Column::Number("Calls"),
        Column::Number("Valid"),
        Column::Number("Median speed-up"),
        Column::Number("Best speed-up"),
        Column::Number("Tokens"),
        Column::Number("Cost"),
    ];
    let mut body = titled_table("The modes with the same budget", &columns, rows);
    let p_words = |p: Option<f64>| match p {
        None => "too few to tell".to_string(),
        Some(p) if p < SIGNIFICANT_P => format!("differ (p {p:.4})"),
        Some(p) => format!("no difference shown (p {p:.2})"),
    };
    let rows: Html = record
        .differences()
        .iter()
        .map(|it| {
            html!(
                "<tr><th scope='row'>{} and {}</th><td>{}</td><td>{}</td></tr>\n",
                it.modes.0.name(),
                it.modes.1.name(),
                p_words(it.speed_p),
                p_words(it.validity_p)
            )
        })
        .collect();
    let columns = [Column::Text("Modes"), Column::Text("Speed"), Column::Text("Validity")];
    body.push(titled_table("Do the modes differ?", &columns, rows));
    body.push(html!("<p class='small'>The median is over everything correct, by ranked times; the best is over the seed, in paired rounds, after the full gate. Speed by a permutation test, validity by Fisher’s exact test, both corrected for the number of pairs. Candidates of one evolution build on each other: with few repeats this is a hint. What follows is this run alone.</p>\n"));
    body
}

fn funnel(funnel: &Funnel) -> Html {
    let rows: Html = [
        ("Asked", "calls of a model", funnel.calls),
        ("Answered", "the provider gave a reply", funnel.answered),
        ("Parsed", "the reply holds a candidate that is new", funnel.parsed),
        ("Compiled", "and not to the program of an earlier one", funnel.compiled),
        ("Correct", "passed the gate", funnel.correct),
        ("Faster", "ranks before the seed", funnel.faster),
        ("Accepted", "became the best in paired rounds", funnel.accepted),
    ]
    .into_iter()
    .map(|(name, meaning, count)| {
        let share = count as f64 / funnel.calls.max(1) as f64;
        html!(
            "<tr><th scope='row'>{}<span class='sub'>{}</span></th><td class='num'>{}</td><td>{}</td></tr>\n",
            name,
            meaning,
            words::count(count),
            meter(share, &words::percent(share))
        )
    })
    .collect();
    let columns = [Column::Text("Stage"), Column::Number("Calls"), Column::Text("Of all")];
    let mut body = table("How far the replies came", &columns, rows);
    let mut lost: Vec<String> = funnel
        .rejected
        .iter()
        .map(|(reason, count)| format!("{}: {}", reason.name(), words::count(*count)))
        .collect();
    if funnel.twins > 0 {
        lost.push(format!("same program as an earlier one: {}", words::count(funnel.twins)));
    }
    if !lost.is_empty() {
        body.push(html!("<p class='small'>Without a new candidate: {}.</p>\n", lost.join("; ")));
    }
    body
}

fn cost(evolution: &Evolution<'_>) -> Html {
    let Some(start_s) = evolution.start_s else { return Html::default() };
    let points: Vec<CostPoint> = evolution
        .steps
        .iter()
        .map(|step| {
            let speedup = step.best_so_far_s.map_or(1.0, |best_s| start_s / best_s);
            let is_best = step.fate == StepFate::Accepted;
            let title = || format!("call {}: {}", step.call.number, words::ratio(speedup));
            CostPoint { tokens: step.tokens as f64, speedup, title: is_best.then(title) }
        })
        .collect();
    let Some(last) = evolution.steps.last() else { return Html::default() };
    let estimated = evolution.steps.iter().filter(|step| step.call.usage.estimated).count();
    let estimated = match estimated {
        0 => String::new(),
        n => format!(" The tokens of {} are estimates.", words::counted(n, "call")),
    };
    let provider_s: f64 = evolution.steps.iter().map(|step| step.call.provider_s).sum();
    let mut body = html!(
        "<h3>Cost</h3>\n<p>{} tokens, cost {} by the configured prices; the providers took {}.{}</p>\n",
        words::count(last.tokens as usize),
        format!("{:.4}", last.cost),
        words::duration(provider_s),
        estimated
    );
    let label = "The best so far over the tokens used";
    if let Some(chart) = charts::cost(label, &points) {
        body.push(html!("<figure class='wide'>{}</figure>\n", scroll(label, chart)));
    }
    body
}

/// The tree: every call below its first parent, or below the seed.
fn lineage(view: &View<'_>, evolution: &Evolution<'_>) -> Html {
    let mut children: BTreeMap<Option<usize>, Vec<usize>> = BTreeMap::new();
    for (idx, step) in evolution.steps.iter().enumerate() {
        let parent = step.parents.first().copied().flatten();
        children.entry(parent).or_default().push(idx);
    }
    let seed = evolution.seed.map_or("the seed", |seed| seed.kernel.as_str());
    let seed_time = match evolution.seed_s {
        Some(time_s) => format!(", {} (geometric mean)", units::time(time_s)),
        None => ", not correct; speed-ups are over the first correct source".to_string(),
    };
    let mut tree = html!("<ul class='lineage'><li><strong>{}</strong>{}", seed, seed_time);
    branch(&mut tree, view, evolution, &children, None);
    tree.push(html!("</li></ul>\n"));
    tree
}

/// Writes the calls below a parent. Into one text: a tree that is put together from its branches would
/// copy the leaves once for every level.
fn branch(
    tree: &mut Html,
    view: &View<'_>,
    evolution: &Evolution<'_>,
    children: &BTreeMap<Option<usize>, Vec<usize>>,
    parent: Option<usize>,
) {
    let Some(own) = children.get(&parent) else { return };
    tree.push(html!("<ul>\n"));
    for idx in own {
        tree.push(html!("<li>{}", node(view, evolution, &evolution.steps[*idx])));
        branch(tree, view, evolution, children, Some(*idx));
        tree.push(html!("</li>\n"));
    }
    tree.push(html!("</ul>"));
}

fn node(view: &View<'_>, evolution: &Evolution<'_>, step: &Step<'_>) -> Html {
    let text = |id| view.data.texts.get(id).map_or("(not in the evidence)", String::as_str);
    let call = step.call;
    let mut parts = Html::default();
    let mut title = "no candidate".to_string();
    match &call.answer {
        CallAnswer::Failed { reason } => {
            parts.push(html!("<p>The provider failed: {}</p>\n", reason));
        }
        CallAnswer::Replied { verdict: ReplyVerdict::Rejected { reason, detail }, .. } => {
            title = reason.name().to_string();
            parts.push(html!("<p>{}</p>\n", detail));
        }
        CallAnswer::Replied {
            verdict: ReplyVerdict::Proposed { kernel, thought, source, tunables, .. },
            ..
        } => {
            title = kernel.clone();
            if !thought.is_empty() {
                parts.push(html!("<p>Thought: <q>{}</q></p>\n", thought));
            }
            if !tunables.is_empty() {
                let names: Vec<&str> = tunables.iter().map(|it| it.name.as_str()).collect();
                parts.push(html!(
                    "<p class='small'>Declares {}; {} tried.</p>\n",
                    names.join(", "),
                    words::counted(step.trials.len(), "configuration")
                ));
            }
            parts.push(outcome(view, step));
            let (older, name) = parent_source(view, evolution, step);
            parts.push(folded(&format!("Difference from {name}"), difference(older, text(source))));
        }
    }
    parts.push(folded("Prompt", html!("<pre><code>{}</code></pre>", text(&call.prompt))));
    if let CallAnswer::Replied { reply, .. } = &call.answer {
        parts.push(folded("Reply", html!("<pre><code>{}</code></pre>", text(reply))));
    }
    let start = if evolution.seed_s.is_some() { "the seed" } else { "the first correct one" };
    let speedup = step.time_s.zip(evolution.start_s).map(|(time_s, start_s)| {
        format!(
            " · {} · {} over {start} by single times",
            units::time(time_s),
            words::ratio(start_s / time_s)
        )
    });
    html!(
        "<details id='call-{}'><summary><span class='soft'>{}</span> {} <span class='soft'>{} · {}{} · {} tokens</span></summary>\n<div class='call'>{}</div></details>",
        call.number.to_string(),
        call.number.to_string(),
        title,
        call.operator.name(),
        fate_words(step.fate),
        speedup.unwrap_or_default(),
        words::count(call.usage.tokens() as usize),
        parts
    )
}

/// What the gate and the clock said.
fn outcome(view: &View<'_>, step: &Step<'_>) -> Html {
    let Some(trial) = step.best.or_else(|| step.trials.first().copied()) else {
        return html!("<p class='empty'>It was not evaluated before the run ended.</p>\n");
    };
    if step.best.is_none() {
        return html!("<p>{}</p>\n", trial.message);
    }
    let items: Html = trial
        .times
        .iter()
        .map(|time| {
            let workload = view.lab.workload(&time.workload);
            let near = workload.and_then(|it| view.nearness(it, time.median_s.mid));
            let share = near.map_or(String::new(), |near| match near.share <= 1.0 {
                true => format!(", {} of what {} allows", near.words(), near.ceiling.name()),
                false => format!(", {}", near.words()),
            });
            html!("<li>{}: {}{}</li>", time.workload, units::time(time.median_s.mid), share)
        })
        .collect();
    html!(
        "<p class='small'>With {}:</p><ul class='small'>{}</ul>\n",
        trial.params.to_string(),
        items
    )
}

/// The source that a step is held against: its first parent's, else the seed's.
fn parent_source<'a>(
    view: &'a View<'_>,
    evolution: &Evolution<'a>,
    step: &Step<'_>,
) -> (&'a str, String) {
    let text = |id| view.data.texts.get(id).map_or("", String::as_str);
    let parent = step.parents.first().copied().flatten().map(|idx| &evolution.steps[idx]);
    if let Some(parent) = parent
        && let CallAnswer::Replied {
            verdict: ReplyVerdict::Proposed { kernel, source, .. }, ..
        } = &parent.call.answer
    {
        return (text(source), kernel.clone());
    }
    let seed = view.data.trials.iter().map(|stored| &stored.trial);
    let mut seed = seed.filter(|trial| Some(trial.id) == evolution.seed.map(|seed| seed.id));
    match seed.next() {
        Some(trial) => (text(&trial.job.candidate.source), trial.job.candidate.kernel.clone()),
        None => ("", "nothing".to_string()),
    }
}

/// Renders a difference; what stays the same far from a change is left out.
fn difference(older: &str, newer: &str) -> Html {
    let lines = derive::diff(older, newer);
    let is_change = |line: &DiffLine<'_>| !matches!(line, DiffLine::Same(_));
    let changes: Vec<usize> =
        lines.iter().enumerate().filter(|(_, line)| is_change(line)).map(|(idx, _)| idx).collect();
    let is_near = |idx: usize| {
        let next = changes.partition_point(|change| *change < idx);
        let after = changes.get(next).is_some_and(|change| change - idx <= CONTEXT_LINES);
        after || (next > 0 && idx - changes[next - 1] <= CONTEXT_LINES)
    };
    let mut was_shown = true;
    let mut rendered = Html::default();
    for (idx, line) in lines.iter().enumerate() {
        let is_shown = is_near(idx);
        match line {
            _ if !is_shown && was_shown => rendered.push(html!("<span class='soft'>…</span>\n")),
            _ if !is_shown => {}
            DiffLine::Same(text) => rendered.push(html!("  {}\n", *text)),
            DiffLine::Gone(text) => rendered.push(html!("<del>- {}</del>\n", *text)),
            DiffLine::New(text) => rendered.push(html!("<ins>+ {}</ins>\n", *text)),
        }
        was_shown = is_shown;
    }
    html!("<pre class='diff'><code>{}</code></pre>", rendered)
}

fn folded(title: &str, content: Html) -> Html {
    html!("<details><summary>{}</summary>{}</details>\n", title, content)
}

fn fate_words(fate: StepFate) -> &'static str {
    match fate {
        StepFate::Unanswered => "no answer",
        StepFate::Rejected => "no candidate",
        StepFate::Pending => "not evaluated",
        StepFate::Twin => "same program as an earlier one",
        StepFate::NotCompiled => "did not compile",
        StepFate::Wrong => "failed the gate",
        StepFate::Correct => "correct",
        StepFate::Faster => "faster than the seed",
        StepFate::Accepted => "the best of its time",
    }
}
