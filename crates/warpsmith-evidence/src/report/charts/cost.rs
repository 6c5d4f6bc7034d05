//! What an evolution cost and what it bought: the best so far over tokens.

use super::super::html::{Html, html};
use super::super::scale::{Scale, Spread, padded_span, tick_label};
use super::super::svg::{Frame, Shape, mark, ticks, x_axis, y_axis};

/// One call of an evolution.
#[derive(Debug)]
pub(in crate::report) struct CostPoint {
    /// Tokens of this call and all before it.
    pub(in crate::report) tokens: f64,
    /// How much faster than the seed the best is after it.
    pub(in crate::report) speedup: f64,
    /// What to say of a call that made a new best; none of any other.
    pub(in crate::report) title: Option<String>,
}

/// Draws the curve; none without calls.
pub(in crate::report) fn cost(label: &str, points: &[CostPoint]) -> Option<Html> {
    let last = points.last()?;
    let span = padded_span(Spread::Linear, points.iter().map(|it| it.speedup).chain([1.0]), 0.08)?;
    let frame =
        Frame { width: 760.0, height: 260.0, left: 70.0, right: 14.0, top: 26.0, bottom: 42.0 };
    let x = Scale::new(Spread::Linear, (0.0, last.tokens.max(1.0)), frame.x_px());
    let y = Scale::new(Spread::Linear, span, frame.y_px());
    let mut body = x_axis(&frame, &x, &ticks(&x, 8, tick_label), "tokens, in and out");
    body.push(y_axis(
        &frame,
        &y,
        &ticks(&y, 6, tick_label),
        "the seed's time over the best, ranked",
    ));
    let mut line = format!("M{:.1} {:.1}", x.px(0.0), y.px(1.0));
    let mut marks = Html::default();
    for point in points {
        let at = (x.px(point.tokens), y.px(point.speedup));
        line.push_str(&format!("H{:.1}V{:.1}", at.0, at.1));
        if let Some(title) = &point.title {
            marks.push(mark(Shape::Diamond, at, 4.0, "winner", title));
        }
    }
    body.push(html!("<path class='best' d='{}'/>", line));
    body.push(marks);
    Some(frame.svg(label, body))
}
