//! The effect of one parameter: the times of every trial, grouped by the parameter's value.

use warpsmith_model::rng::Rng;
use warpsmith_model::{stats, units};

use super::super::html::{Html, html};
use super::super::scale::{Scale, Spread, padded_span, tick_label};
use super::super::svg::{Frame, dots, shortened, ticks, y_axis};
use super::super::words;

/// The trials that share one value of a parameter.
#[derive(Debug)]
pub(in crate::report) struct Group {
    pub(in crate::report) value: String,
    pub(in crate::report) times_s: Vec<f64>,
}

/// Draws one parameter's groups; none when nothing was timed.
pub(in crate::report) fn effect(name: &str, groups: &[Group]) -> Option<Html> {
    let all = groups.iter().flat_map(|group| group.times_s.iter().copied());
    let span = padded_span(Spread::Log, all, 0.06)?;
    let frame =
        Frame { width: 360.0, height: 210.0, left: 46.0, right: 6.0, top: 30.0, bottom: 22.0 };
    let (bottom, top) = frame.y_px();
    let (left, right) = frame.x_px();
    let y = Scale::new(Spread::Log, span, (bottom, top));
    let (unit_s, unit) = words::time_unit((span.0 * span.1).sqrt());
    let y_ticks = ticks(&y, 5, |value| tick_label((value / unit_s * 1e6).round() / 1e6));
    let mut body = y_axis(&frame, &y, &y_ticks, &format!("time, {unit}"));
    let step = (right - left) / groups.len() as f64;
    let label_limit = ((step / 6.5) as usize).clamp(3, 24);
    let best = groups
        .iter()
        .filter_map(|group| stats::median(&group.times_s))
        .fold(f64::INFINITY, f64::min);
    for (idx, group) in groups.iter().enumerate() {
        let x = left + step * (idx as f64 + 0.5);
        let half = (step * 0.34).min(36.0);
        // Spread sideways by a fixed stream, so that the same evidence gives the same picture.
        let mut rng = Rng::derive(idx as u64, name);
        let points: Vec<(f64, f64)> = group
            .times_s
            .iter()
            .map(|time_s| (x + (rng.unit() - 0.5) * 1.6 * half, y.px(*time_s)))
            .collect();
        body.push(dots(points, "faint"));
        body.push(html!(
            "<text class='tick' x='{}' y='{}' text-anchor='middle'>{}<title>{}</title></text>",
            x,
            bottom + 16.0,
            shortened(&group.value, label_limit),
            group.value
        ));
        let Some(summary) = summary(group) else { continue };
        let class = if summary.median == best { "winner" } else { "plain" };
        body.push(html!(
            "<g class='box {}'><title>{}</title><rect x='{}' y='{}' width='{}' height='{}'/><line x1='{}' x2='{}' y1='{}' y2='{}'/></g>",
            class,
            format!(
                "{name}={}: median {}, half of them {}–{}, best {}, {}",
                group.value,
                units::time(summary.median),
                units::time(summary.lower),
                units::time(summary.upper),
                units::time(summary.least),
                words::counted(group.times_s.len(), "trial")
            ),
            x - half,
            y.px(summary.upper),
            2.0 * half,
            (y.px(summary.lower) - y.px(summary.upper)).max(1.0),
            x - half,
            x + half,
            y.px(summary.median),
            y.px(summary.median),
        ));
    }
    body.push(html!(
        "<line class='axis' x1='{}' x2='{}' y1='{}' y2='{}'/>",
        left,
        right,
        bottom,
        bottom
    ));
    let label = format!("Times of the trials for each value of {name}");
    Some(frame.svg(&label, body))
}

struct FiveNumbers {
    least: f64,
    lower: f64,
    median: f64,
    upper: f64,
}

fn summary(group: &Group) -> Option<FiveNumbers> {
    Some(FiveNumbers {
        least: stats::quantile(&group.times_s, 0.0)?,
        lower: stats::quantile(&group.times_s, 0.25)?,
        median: stats::median(&group.times_s)?,
        upper: stats::quantile(&group.times_s, 0.75)?,
    })
}
