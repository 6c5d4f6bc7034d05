//! Failures by kind, with the messages that occur most often. A failing candidate is data.

use warpsmith_model::Verdict;

use super::super::data::View;
use super::super::html::{Html, html};
use super::super::words;
use super::{Column, empty, meter, table};
use crate::derive::{self, FailureGroup};

/// Messages shown for each kind.
const SHOWN_MESSAGES: usize = 4;

pub(super) fn body(view: &View<'_>) -> Html {
    if view.summaries.is_empty() {
        return empty("No trial was recorded.");
    }
    let abandoned = view.summaries.iter().filter(|trial| trial.is_abandoned()).count();
    let also = match abandoned {
        0 => String::new(),
        n => format!(" {} passed the gate but were abandoned as too slow.", words::count(n)),
    };
    let groups = derive::failures(view.summaries);
    if groups.is_empty() {
        return html!("<p class='empty'>No trial failed.{}</p>\n", also);
    }
    let failed: usize = groups.iter().map(|group| group.trials.len()).sum();
    let rows: Html = groups
        .iter()
        .map(|group| {
            let share = group.trials.len() as f64 / failed as f64;
            html!(
                "<tr><th scope='row'>{}<span class='sub'>{}</span></th><td class='num'>{}</td><td>{}</td><td class='messages'>{}</td></tr>\n",
                words::verdict(group.verdict),
                meaning(group.verdict),
                words::count(group.trials.len()),
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
    let all = words::counted(view.summaries.len(), "trial");
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

fn messages(group: &FailureGroup<'_>) -> Html {
    let items: Html = group
        .messages
        .iter()
        .take(SHOWN_MESSAGES)
        .map(|(message, count)| {
            let first = group.trials.iter().find(|trial| trial.message == *message);
            let first =
                first.map_or(String::new(), |trial| format!("first in trial {}", trial.seq));
            html!(
                "<li><span class='soft'>{}×</span> {} <span class='soft'>({})</span></li>\n",
                words::count(*count),
                message,
                first
            )
        })
        .collect();
    let more = group.messages.len().saturating_sub(SHOWN_MESSAGES);
    let more = match more {
        0 => Html::default(),
        more => html!(
            "<li class='soft'>{} in the table of all trials</li>",
            words::counted(more, "further message")
        ),
    };
    html!("<ul>\n{}{}</ul>", items, more)
}
