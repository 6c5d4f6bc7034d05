//! The search over time: each attempt, the best so far, and what failed.

use warpsmith_model::units;

use super::super::html::{Html, html};
use super::super::scale::{Scale, Spread, padded_span, tick_label};
use super::super::svg::{Frame, Shape, dots, mark, text, ticks, x_axis, y_axis};
use super::super::words;

/// One attempt of the search.
#[derive(Debug)]
pub(in crate::report) struct Attempt {
    pub(in crate::report) seq: u64,
    pub(in crate::report) fate: Fate,
    pub(in crate::report) title: String,
}

/// What became of an attempt.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(in crate::report) enum Fate {
    Timed {
        score_s: f64,
    },
    /// Without a time that counts; the word names its row below the plot.
    Failed {
        kind: &'static str,
    },
}

/// With more attempts than this, only improvements have hover titles of their own.
const MAX_TITLED: usize = 500;
const ROW_PX: f64 = 15.0;

/// Draws the chart; none when nothing was timed.
pub(in crate::report) fn convergence(label: &str, attempts: &[Attempt]) -> Option<Html> {
    let timed = || {
        attempts.iter().filter_map(|attempt| match attempt.fate {
            Fate::Timed { score_s } => Some((attempt, score_s)),
            Fate::Failed { .. } => None,
        })
    };
    let span = padded_span(Spread::Log, timed().map(|(_, score_s)| score_s), 0.06)?;
    let mut kinds: Vec<&'static str> = Vec::new();
    for attempt in attempts {
        if let Fate::Failed { kind } = attempt.fate
            && !kinds.contains(&kind)
        {
            kinds.push(kind);
        }
    }
    kinds.sort_unstable();
    let rows_px = ROW_PX * kinds.len() as f64;
    let frame = Frame {
        width: 760.0,
        height: 300.0 + rows_px,
        left: 92.0,
        right: 14.0,
        top: 30.0,
        bottom: 42.0,
    };
    let first = attempts.first()?.seq as f64;
    let last = attempts.last()?.seq as f64;
    let x = Scale::new(Spread::Linear, (first, last), frame.x_px());
    let (bottom, top) = frame.y_px();
    let y = Scale::new(
        Spread::Log,
        span,
        (bottom - rows_px - if kinds.is_empty() { 0.0 } else { 8.0 }, top),
    );
    let (unit_s, unit) = words::time_unit((span.0 * span.1).sqrt());
    let mut body = x_axis(&frame, &x, &ticks(&x, 8, tick_label), "trial");
    let y_ticks = ticks(&y, 6, |value| tick_label((value / unit_s * 1e6).round() / 1e6));
    body.push(y_axis(&frame, &y, &y_ticks, &format!("time, {unit} (lower is better)")));

    let mut best = f64::INFINITY;
    let mut improvements = Html::default();
    let mut line = String::new();
    let mut plain: Vec<(f64, f64)> = Vec::new();
    let mut titled = Html::default();
    for (attempt, score_s) in timed() {
        let at = (x.px(attempt.seq as f64), y.px(score_s));
        if score_s < best {
            let command = if line.is_empty() { 'M' } else { 'H' };
            line.push_str(&match command {
                'M' => format!("M{:.1} {:.1}", at.0, at.1),
                _ => format!("H{:.1}V{:.1}", at.0, at.1),
            });
            best = score_s;
            let title = format!("{}: best so far, {}", attempt.title, units::time(score_s));
            improvements.push(mark(Shape::Diamond, at, 4.0, "winner", &title));
        } else if attempts.len() <= MAX_TITLED {
            let title = format!("{}: {}", attempt.title, units::time(score_s));
            titled.push(mark(Shape::Circle, at, 2.5, "faint", &title));
        } else {
            plain.push(at);
        }
    }
    line.push_str(&format!("H{:.1}", x.px(last)));
    body.push(dots(plain, "faint"));
    body.push(titled);
    body.push(html!("<path class='best' d='{}'/>", line));
    body.push(improvements);

    for (row, kind) in kinds.iter().enumerate() {
        let y = bottom - rows_px + ROW_PX * (row as f64 + 0.5);
        body.push(text("tick", (frame.left - 6.0, y + 4.0), "end", kind));
        let failed: Vec<&Attempt> =
            attempts.iter().filter(|attempt| attempt.fate == Fate::Failed { kind }).collect();
        if attempts.len() <= MAX_TITLED {
            for attempt in &failed {
                let at = (x.px(attempt.seq as f64), y);
                body.push(mark(Shape::Cross, at, 3.5, "bad", &attempt.title));
            }
        } else {
            body.push(dots(failed.iter().map(|attempt| (x.px(attempt.seq as f64), y)), "bad"));
        }
    }
    Some(frame.svg(label, body))
}
