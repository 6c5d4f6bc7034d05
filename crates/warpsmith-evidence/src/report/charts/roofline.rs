//! The roofline: what the measured ceilings allow at each arithmetic intensity, and who reaches
//! how much of it (Williams, Waterman, Patterson: "Roofline", 2009).

use super::super::data::Part;
use super::super::html::{Html, html};
use super::super::scale::{Scale, Spread, padded_span, tick_label};
use super::super::svg::{Frame, mark, text, ticks, x_axis, y_axis};

/// One contender on one workload.
#[derive(Debug)]
pub(in crate::report) struct RooflinePoint {
    pub(in crate::report) part: Part,
    /// Operations per byte.
    pub(in crate::report) intensity: f64,
    pub(in crate::report) flops_per_s: f64,
    pub(in crate::report) title: String,
}

/// A ceiling: a slope (memory, cache) up to the arithmetic peak.
#[derive(Debug)]
pub(in crate::report) struct Ceiling {
    pub(in crate::report) name: &'static str,
    pub(in crate::report) class: &'static str,
    pub(in crate::report) bytes_per_s: f64,
    pub(in crate::report) words: String,
}

/// Draws the chart; none when there is no point to draw.
pub(in crate::report) fn roofline(
    label: &str,
    (peak_flops_per_s, peak_words): (f64, &str),
    ceilings: &[Ceiling],
    points: &[RooflinePoint],
) -> Option<Html> {
    let frame =
        Frame { width: 760.0, height: 400.0, left: 64.0, right: 16.0, top: 30.0, bottom: 42.0 };
    // Room to the left of each ridge, so that its slope is long enough to be seen and named.
    let ridges = ceilings.iter().map(|ceiling| peak_flops_per_s / ceiling.bytes_per_s / 5.0);
    let intensities = points.iter().map(|point| point.intensity);
    padded_span(Spread::Log, intensities.clone(), 0.0)?;
    let x_span = padded_span(Spread::Log, intensities.chain(ridges), 0.06)?;
    let rates = points.iter().map(|point| point.flops_per_s).chain([peak_flops_per_s]);
    let y_span = padded_span(Spread::Log, rates, 0.08)?;
    let x = Scale::new(Spread::Log, x_span, frame.x_px());
    let y = Scale::new(Spread::Log, y_span, frame.y_px());
    let mut body = x_axis(&frame, &x, &ticks(&x, 8, tick_label), "operations per byte");
    let y_ticks = ticks(&y, 6, |value| tick_label((value / 1e9 * 1e6).round() / 1e6));
    body.push(y_axis(&frame, &y, &y_ticks, "GFLOP/s"));

    let peak_y = y.px(peak_flops_per_s);
    let nearest =
        ceilings.iter().map(|c| peak_flops_per_s / c.bytes_per_s).fold(f64::INFINITY, f64::min);
    body.push(html!(
        "<line class='roof' x1='{}' x2='{}' y1='{}' y2='{}'/>",
        x.px(nearest),
        x.px(x.high()),
        peak_y,
        peak_y
    ));
    body.push(text("note", (x.px(x.high()) - 4.0, peak_y - 6.0), "end", peak_words));
    for ceiling in ceilings {
        body.push(slope(&frame, (&x, &y), ceiling, peak_flops_per_s));
    }
    for point in points {
        let at = (x.px(point.intensity), y.px(point.flops_per_s));
        body.push(mark(point.part.shape(), at, 5.0, point.part.class(), &point.title));
    }
    Some(frame.svg(label, body))
}

/// Draws the part of a slope that is inside of the frame, with its name along it.
fn slope(frame: &Frame, (x, y): (&Scale, &Scale), ceiling: &Ceiling, peak: f64) -> Html {
    let ridge = (peak / ceiling.bytes_per_s).min(x.high());
    let start = x.low().max(y.low() / ceiling.bytes_per_s);
    if start >= ridge {
        return Html::default();
    }
    let from = (x.px(start), y.px(start * ceiling.bytes_per_s));
    let to = (x.px(ridge), y.px(ridge * ceiling.bytes_per_s));
    let angle = (to.1 - from.1).atan2(to.0 - from.0).to_degrees();
    let middle = ((from.0 + to.0) / 2.0, (from.1 + to.1) / 2.0);
    let long_enough = (to.0 - from.0).hypot(to.1 - from.1) > frame.width * 0.12;
    let words = format!("{} {}", ceiling.name, ceiling.words);
    let name = if long_enough {
        html!(
            "<text class='note' x='{}' y='{}' text-anchor='middle' transform='rotate({} {} {})'>{}</text>",
            middle.0,
            middle.1 - 6.0,
            angle,
            middle.0,
            middle.1,
            words
        )
    } else {
        Html::default()
    };
    html!(
        "<line class='roof {}' x1='{}' y1='{}' x2='{}' y2='{}'><title>{}</title></line>{}",
        ceiling.class,
        from.0,
        from.1,
        to.0,
        to.1,
        words,
        name
    )
}
