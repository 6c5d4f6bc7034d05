//! What the page says, section by section. A section without data says so in words.

mod comparison;
mod environment;
mod evolution;
mod failures;
mod profile;
mod reproduce;
mod roofline;
mod search;
mod summary;
mod table;
mod trust;

pub(super) use summary::masthead;

use warpsmith_model::roofline::{Nearness, nearness_notes as words_of};
use warpsmith_model::stats::{Comparison, Interval, judge};

use super::data::View;
use super::html::{Html, html};
use super::trials::Packed;
use super::words;

/// One section of the page.
#[derive(Debug)]
pub(super) struct Section {
    pub(super) id: &'static str,
    pub(super) title: &'static str,
    /// The title in the navigation.
    pub(super) short: &'static str,
    pub(super) body: Html,
}

/// Returns the sections, in order.
pub(super) fn all(view: &View<'_>, packed: &Packed) -> Vec<Section> {
    let section = |id, title, short, body| Section { id, title, short, body };
    let mut sections = vec![
        section("summary", "Summary", "Summary", summary::body(view, packed)),
        section("comparison", "Comparison", "Comparison", comparison::body(view)),
        section("trust", "Why the results can be trusted", "Trust", trust::body(view)),
        section("convergence", "The search over time", "Search", search::convergence(view)),
        section("effects", "Effect of each parameter", "Parameters", search::effects(view)),
        section("roofline", "Distance to the machine’s limits", "Roofline", roofline::body(view)),
        section("micro", "Does the microbenchmark predict?", "Micro", search::micro(view)),
        section("failures", "Failures", "Failures", failures::body(view)),
        section("trials", "All trials", "Trials", table::body(view)),
        section("environment", "Environment and settings", "Environment", environment::body(view)),
    ];
    if let Some(body) = evolution::body(view) {
        let title = "How the source evolved";
        sections.insert(2, section("evolution", title, "Evolution", body));
    }
    // Most runs have no profile, and on the CPU none can: a page that says so each time is noise.
    if let Some(body) = profile::body(view) {
        let after = sections.iter().position(|section| section.id == "roofline");
        let at = after.map_or(sections.len(), |idx| idx + 1);
        sections.insert(at, section("profile", "Where the time goes", "Profile", body));
    }
    sections
}

/// Says in words that there is nothing to show.
fn empty(sentence: &str) -> Html {
    html!("<p class='empty'>{}</p>\n", sentence)
}

/// Wraps a wide table, so that it scrolls inside of its box; `label` names it for screen readers.
fn scroll(label: &str, table: Html) -> Html {
    html!("<div class='scroll' role='region' aria-label='{}' tabindex='0'>{}</div>\n", label, table)
}

/// How a column is aligned.
#[derive(Clone, Copy, Debug)]
enum Column<'a> {
    Text(&'a str),
    Number(&'a str),
}

/// A table that scrolls inside of its box. The title is for screen readers; a visible heading, where
/// one is wanted, stands outside, so that it does not scroll away.
fn table(title: &str, columns: &[Column<'_>], body: Html) -> Html {
    let head: Html = columns
        .iter()
        .map(|column| match column {
            Column::Text(name) => html!("<th scope='col'>{}</th>", *name),
            Column::Number(name) => html!("<th scope='col' class='num'>{}</th>", *name),
        })
        .collect();
    let table = html!(
        "<table aria-label='{}'><thead><tr>{}</tr></thead>\n<tbody>\n{}</tbody></table>",
        title,
        head,
        body
    );
    scroll(title, table)
}

/// A table below its heading.
fn titled_table(title: &str, columns: &[Column<'_>], body: Html) -> Html {
    html!("<h3>{}</h3>\n{}", title, table(title, columns, body))
}

/// A comparison's verdict on its subject: a sign, words and a colour.
fn badge(speedup: Interval, subject: &str) -> Html {
    let (sign, word) = words::comparison(judge(speedup));
    let words = match judge(speedup) {
        Comparison::Faster | Comparison::Slower => format!("{subject} is {word}"),
        Comparison::Tie | Comparison::Unclear => word.to_string(),
    };
    html!("<span class='badge {}'><span aria-hidden='true'>{}</span> {}</span>", word, sign, words)
}

/// How near a time comes to a ceiling: a bar with a percentage, or a word where there is none.
fn nearness_meter(near: &Nearness) -> Html {
    let words = near.words().replace(' ', "\u{a0}");
    match near.share <= 1.0 {
        true => meter(near.share, &format!("{words} of {}", near.ceiling.name())),
        false => meter(near.share, &words),
    }
}

/// What the words in place of percentages mean.
fn nearness_notes(near: &[Nearness]) -> Html {
    words_of(near).iter().map(|note| html!("<p class='small'>{}.</p>\n", note)).collect()
}

/// A share of a whole as a bar with its number.
fn meter(share: f64, words: &str) -> Html {
    html!(
        "<span class='meter'><svg width='72' height='8' aria-hidden='true'><rect class='track' width='72' height='8' rx='2'/><rect class='fill' width='{}' height='8' rx='2'/></svg><span>{}</span></span>",
        share.clamp(0.0, 1.0) * 72.0,
        words
    )
}

/// A list of names and values.
fn facts(pairs: impl IntoIterator<Item = (String, Html)>) -> Html {
    let rows: Html = pairs
        .into_iter()
        .map(|(name, value)| html!("<div><dt>{}</dt><dd>{}</dd></div>\n", name, value))
        .collect();
    html!("<dl class='facts'>\n{}</dl>\n", rows)
}
