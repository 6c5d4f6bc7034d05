//! Two times of the same candidates against each other: does the cheap one predict the dear one?

use super::super::html::Html;
use super::super::scale::{Scale, Spread, padded_span, tick_label};
use super::super::svg::{Frame, Shape, dots, mark, ticks, x_axis, y_axis};
use super::super::words;

/// One candidate.
#[derive(Debug)]
pub(in crate::report) struct Pair {
    pub(in crate::report) x_s: f64,
    pub(in crate::report) y_s: f64,
    pub(in crate::report) is_best: bool,
    pub(in crate::report) title: String,
}

/// With more pairs than this, only the best has a hover title.
const MAX_TITLED: usize = 1000;

/// Draws the chart; none without pairs.
pub(in crate::report) fn scatter(
    label: &str,
    (x_name, y_name): (&str, &str),
    pairs: &[Pair],
) -> Option<Html> {
    let frame =
        Frame { width: 420.0, height: 330.0, left: 56.0, right: 14.0, top: 30.0, bottom: 42.0 };
    let x_span = padded_span(Spread::Log, pairs.iter().map(|pair| pair.x_s), 0.05)?;
    let y_span = padded_span(Spread::Log, pairs.iter().map(|pair| pair.y_s), 0.05)?;
    let x = Scale::new(Spread::Log, x_span, frame.x_px());
    let y = Scale::new(Spread::Log, y_span, frame.y_px());
    let (x_unit_s, x_unit) = words::time_unit((x_span.0 * x_span.1).sqrt());
    let (y_unit_s, y_unit) = words::time_unit((y_span.0 * y_span.1).sqrt());
    let rounded = |value: f64| tick_label((value * 1e6).round() / 1e6);
    let x_ticks = ticks(&x, 6, |value| rounded(value / x_unit_s));
    let y_ticks = ticks(&y, 6, |value| rounded(value / y_unit_s));
    let mut body = x_axis(&frame, &x, &x_ticks, &format!("{x_name}, {x_unit}"));
    body.push(y_axis(&frame, &y, &y_ticks, &format!("{y_name}, {y_unit}")));
    let mut best = Html::default();
    let mut plain: Vec<(f64, f64)> = Vec::new();
    for pair in pairs {
        let at = (x.px(pair.x_s), y.px(pair.y_s));
        if pair.is_best {
            best.push(mark(Shape::Diamond, at, 5.5, "winner", &pair.title));
        } else if pairs.len() <= MAX_TITLED {
            body.push(mark(Shape::Circle, at, 3.2, "faint", &pair.title));
        } else {
            plain.push(at);
        }
    }
    body.push(dots(plain, "faint"));
    body.push(best);
    Some(frame.svg(label, body))
}
