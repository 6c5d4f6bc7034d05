//! Failures by kind, with the messages that occur most often. A failing candidate is data.

use warpsmith_model::Verdict;

use super::super::data::View;
use super::super::html::{Html, html};
use super::super::words;
use super::{Column, empty, meter, table};
use crate::selection::FailureTotals;

/// Messages shown for each kind.
const SHOWN_MESSAGES: usize = 4;

pub(super) fn body(view: &View<'_>) -> Html {
    if view.summaries.is_empty() {
        return empty("No trial was recorded.");
    }
    let also = match view.totals.abandoned {
        0 => String::new(),
        n => format!(" {} passed the gate but were abandoned as too slow.", words::count(n)),
    };
    let groups = view.totals.failures_by_number();
    if groups.is_empty() {
        return html!("<p class='empty'>No trial failed.{}</p>\n", also);
    }
    let failed: usize = groups.iter().map(|(_, group)| group.trials).sum();
    let rows: Html = groups
        .iter()
        .map(|(verdict, group)| {
            let share = group.trials as f64 / failed as f64;
            html!(
                "<tr><th scope='row'>{}<span class='sub'>{}</span></th><td class='num'>{}</td><td>{}</td><td class='messages'>{}</td></tr>\n",
                words::verdict(*verdict),
                meaning(*verdict),
                words::count(group.trials),
                meter(share, &words::percent(share)),
                messages(group)
            )
        })
        .collect();
    let table = table(
        "Failures by kind",
        &[
            Column::Text("Kind"),
            Column::Number("Trials"),
            Column::Text("Of failures"),
            Column::Text("Most frequent messages"),
        ],
        rows,
    );
    let all = words::counted(view.totals.trials, "trial");
    let mut body = html!("<p>{} of {} failed.{}</p>\n", words::count(failed), all, also);
    body.push(table);
    body
}

fn meaning(verdict: Verdict) -> &'static str {
    match verdict {
        Verdict::CompileFailed => "the compiler rejected it",
        Verdict::Crashed => "its process died or did what it may not do",
        Verdict::TimedOut => "it did not finish in time",
        Verdict::Incorrect => "its output is wrong",
        Verdict::Implausible => "faster than the machine can be; look at it",
        Verdict::Passed => "",
    }
}

fn messages(group: &FailureTotals) -> Html {
    let mut messages: Vec<(&String, usize, u64)> =
        group.messages.iter().map(|(message, (count, first))| (message, *count, *first)).collect();
    messages.sort_by_key(|(_, count, _)| std::cmp::Reverse(*count));
    let items: Html = messages
        .iter()
        .take(SHOWN_MESSAGES)
        .map(|(message, count, first)| {
            html!(
                "<li><span class='soft'>{}×</span> {} <span class='soft'>({})</span></li>\n",
                words::count(*count),
                *message,
                format!("first in trial {first}")
            )
        })
        .collect();
    let more = messages.len().saturating_sub(SHOWN_MESSAGES);
    let more = match (more, group.others) {
        (0, _) => Html::default(),
        (more, 0) => html!(
            "<li class='soft'>{} in the table of all trials</li>",
            words::counted(more, "further message")
        ),
        (more, others) => html!(
            "<li class='soft'>{}, and {} with yet other messages</li>",
            words::counted(more, "further message"),
            words::counted(others, "trial")
        ),
    };
    html!("<ul>\n{}{}</ul>", items, more)
}
