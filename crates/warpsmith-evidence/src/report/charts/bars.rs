//! Level bars with error bars: who reaches which rate on one workload.

use warpsmith_model::stats::Interval;

use super::super::data::Part;
use super::super::html::{Html, html};
use super::super::scale::{Scale, Spread};
use super::super::svg::{Frame, shortened, text, x_error_bar};

/// One bar.
#[derive(Debug)]
pub(in crate::report) struct Bar<'a> {
    pub(in crate::report) label: &'a str,
    pub(in crate::report) part: Part,
    pub(in crate::report) value: Interval,
    /// The value in words, at the bar's end.
    pub(in crate::report) words: String,
    pub(in crate::report) title: String,
}

/// What no bar should pass.
#[derive(Debug)]
pub(in crate::report) struct Limit {
    pub(in crate::report) value: f64,
    pub(in crate::report) title: String,
}

/// A limit further away than this many times the longest bar would flatten the bars, and is told
/// in the table alone.
const FARTHEST_LIMIT: f64 = 2.5;
const ROW_PX: f64 = 26.0;
/// The width of a letter of a label, and how many have room; the tooltip has the rest of a longer one.
const LETTER_PX: f64 = 7.0;
const MOST_LETTERS: usize = 34;

/// Draws the bars; longer is better.
pub(in crate::report) fn bars(label: &str, bars: &[Bar<'_>], limit: Option<&Limit>) -> Html {
    let longest = bars.iter().map(|bar| bar.value.high).fold(0.0, f64::max);
    let limit = limit.filter(|limit| limit.value <= longest * FARTHEST_LIMIT);
    let high = limit.map_or(longest, |limit| longest.max(limit.value));
    let widest = bars.iter().map(|bar| bar.label.chars().count()).max().unwrap_or(0);
    let left = (widest.min(MOST_LETTERS) as f64 * LETTER_PX + 12.0).max(124.0);
    let frame = Frame {
        width: 236.0 + left,
        height: 22.0 + ROW_PX * bars.len() as f64,
        left,
        right: 92.0,
        top: 18.0,
        bottom: 4.0,
    };
    let scale = Scale::new(Spread::Linear, (0.0, high), frame.x_px());
    let (bottom, top) = frame.y_px();
    let mut body = Html::default();
    if let Some(limit) = limit {
        let x = scale.px(limit.value);
        body.push(html!(
            "<line class='limit' x1='{}' x2='{}' y1='{}' y2='{}'><title>{}</title></line>",
            x,
            x,
            top - 4.0,
            bottom,
            limit.title
        ));
        body.push(text("note", (x, top - 7.0), "middle", "ceiling"));
    }
    for (idx, bar) in bars.iter().enumerate() {
        let y = top + ROW_PX * (idx as f64 + 0.5);
        let (start, end) = (scale.px(0.0), scale.px(bar.value.mid));
        body.push(html!(
            "<g><title>{}</title><rect class='bar {}' x='{}' y='{}' width='{}' height='14' rx='1.5'/>{}{}{}</g>",
            bar.title,
            bar.part.class(),
            start,
            y - 7.0,
            (end - start).max(1.0),
            x_error_bar((scale.px(bar.value.low), scale.px(bar.value.high)), y),
            text("name", (frame.left - 8.0, y + 4.0), "end", &shortened(bar.label, MOST_LETTERS)),
            text("value", (frame.width - 2.0, y + 4.0), "end", &bar.words),
        ));
    }
    let (left, _) = frame.x_px();
    body.push(html!(
        "<line class='axis' x1='{}' x2='{}' y1='{}' y2='{}'/>",
        left,
        left,
        top,
        bottom
    ));
    frame.svg(label, body)
}
