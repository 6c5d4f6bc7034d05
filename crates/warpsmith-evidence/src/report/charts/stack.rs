//! Level bars made of parts: where the time of a launch goes. Every bar is as long as every other, since
//! workloads differ by orders of magnitude; its whole stands at its end in words.

use super::super::html::{Html, html};
use super::super::scale::{Scale, Spread};
use super::super::svg::{Frame, shortened, text};

/// One bar.
#[derive(Debug)]
pub(in crate::report) struct Stack<'a> {
    pub(in crate::report) label: &'a str,
    pub(in crate::report) segments: Vec<Segment>,
    /// The whole in words, at the bar's end.
    pub(in crate::report) words: String,
    /// Somebody else's whole, as a share of this one.
    pub(in crate::report) rival: Option<(f64, String)>,
}

/// One part of a bar.
#[derive(Debug)]
pub(in crate::report) struct Segment {
    /// Its share of the bar.
    pub(in crate::report) share: f64,
    pub(in crate::report) class: &'static str,
    pub(in crate::report) title: String,
    pub(in crate::report) word: String,
}

const ROW_PX: f64 = 34.0;
/// A segment from this share on has room for its number.
const NUMBERED: f64 = 0.08;

/// Draws the bars.
pub(in crate::report) fn stack(label: &str, stacks: &[Stack<'_>]) -> Html {
    let frame = Frame {
        width: 760.0,
        height: 12.0 + ROW_PX * stacks.len() as f64,
        left: 150.0,
        right: 90.0,
        top: 8.0,
        bottom: 4.0,
    };
    let scale = Scale::new(Spread::Linear, (0.0, 1.0), frame.x_px());
    let mut body = Html::default();
    for (idx, stack) in stacks.iter().enumerate() {
        let y = frame.top + ROW_PX * (idx as f64 + 0.5);
        let mut start = 0.0;
        for segment in &stack.segments {
            let (from, to) = (scale.px(start), scale.px(start + segment.share));
            let number = match segment.share >= NUMBERED {
                true => text("inside", ((from + to) / 2.0, y + 4.0), "middle", &percent(segment)),
                false => Html::default(),
            };
            body.push(html!(
                "<g><title>{}</title><rect class='part {}' x='{}' y='{}' width='{}' height='18'/>{}</g>",
                segment.title,
                segment.class,
                from,
                y - 9.0,
                to - from,
                number
            ));
            start += segment.share;
        }
        if let Some((share, title)) = stack.rival.as_ref().filter(|(share, _)| *share <= 1.0) {
            let x = scale.px(*share);
            body.push(html!(
                "<line class='limit' x1='{}' x2='{}' y1='{}' y2='{}'><title>{}</title></line>",
                x,
                x,
                y - 14.0,
                y + 14.0,
                *title
            ));
        }
        body.push(text("name", (frame.left - 8.0, y + 4.0), "end", &shortened(stack.label, 22)));
        body.push(text("value", (frame.width - 2.0, y + 4.0), "end", &stack.words));
    }
    frame.svg(label, body)
}

fn percent(segment: &Segment) -> String {
    format!("{:.0} %", segment.share * 100.0)
}

/// Draws the key: each class once, in the order it appears.
pub(in crate::report) fn stack_key(stacks: &[Stack<'_>]) -> Html {
    let mut entries: Vec<(&str, &str)> = Vec::new();
    for segment in stacks.iter().flat_map(|stack| &stack.segments) {
        if !entries.iter().any(|(class, _)| *class == segment.class) {
            entries.push((segment.class, &segment.word));
        }
    }
    let items: Html = entries
        .into_iter()
        .map(|(class, word)| {
            html!("<li><svg width='16' height='16' aria-hidden='true'><rect class='part {}' x='2' y='2' width='12' height='12'/></svg>{}</li>", class, word)
        })
        .collect();
    html!("<ul class='key'>{}</ul>\n", items)
}
