//! The parts that every chart is made of: a frame, axes, marks that differ by shape as well as by
//! colour, and a hover title on whatever has a value. Colours are classes; the style sheet gives
//! them their light and dark values.

use super::html::{Html, html};
use super::scale::Scale;

/// The size of a chart and the room around its plotting area, in pixels.
#[derive(Clone, Copy, Debug)]
pub(super) struct Frame {
    pub(super) width: f64,
    pub(super) height: f64,
    pub(super) left: f64,
    pub(super) right: f64,
    pub(super) top: f64,
    pub(super) bottom: f64,
}

impl Frame {
    /// Returns the pixels from left to right.
    pub(super) fn x_px(&self) -> (f64, f64) {
        (self.left, self.width - self.right)
    }

    /// Returns the pixels from bottom to top.
    pub(super) fn y_px(&self) -> (f64, f64) {
        (self.height - self.bottom, self.top)
    }

    /// Wraps a chart's body; `label` says in words what the chart shows.
    pub(super) fn svg(&self, label: &str, body: Html) -> Html {
        html!(
            "<svg class='chart' role='img' aria-label='{}' viewBox='0 0 {} {}' width='{}' height='{}'>{}</svg>\n",
            label,
            self.width,
            self.height,
            self.width,
            self.height,
            body
        )
    }
}

/// A labelled position on an axis.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Tick {
    pub(super) value: f64,
    pub(super) label: String,
}

/// Returns about `count` ticks with their labels.
pub(super) fn ticks(scale: &Scale, count: usize, label: impl Fn(f64) -> String) -> Vec<Tick> {
    scale.ticks(count).into_iter().map(|value| Tick { value, label: label(value) }).collect()
}

/// Draws the horizontal axis: upright grid lines, labels below, a title.
pub(super) fn x_axis(frame: &Frame, scale: &Scale, ticks: &[Tick], title: &str) -> Html {
    let (bottom, top) = frame.y_px();
    let (left, right) = frame.x_px();
    let mut body: Html = ticks
        .iter()
        .map(|tick| {
            let x = scale.px(tick.value);
            html!(
                "<line class='grid' x1='{}' x2='{}' y1='{}' y2='{}'/><text class='tick' x='{}' y='{}' text-anchor='middle'>{}</text>",
                x, x, top, bottom, x, bottom + 16.0, tick.label
            )
        })
        .collect();
    body.push(html!(
        "<line class='axis' x1='{}' x2='{}' y1='{}' y2='{}'/>",
        left,
        right,
        bottom,
        bottom
    ));
    body.push(html!(
        "<text class='title' x='{}' y='{}' text-anchor='middle'>{}</text>",
        (left + right) / 2.0,
        frame.height - 4.0,
        title
    ));
    body
}

/// Draws the vertical axis: level grid lines, labels to the left, a title above them.
pub(super) fn y_axis(frame: &Frame, scale: &Scale, ticks: &[Tick], title: &str) -> Html {
    let (left, right) = frame.x_px();
    let mut body: Html = ticks
        .iter()
        .map(|tick| {
            let y = scale.px(tick.value);
            html!(
                "<line class='grid' x1='{}' x2='{}' y1='{}' y2='{}'/><text class='tick' x='{}' y='{}' text-anchor='end'>{}</text>",
                left, right, y, y, left - 6.0, y + 4.0, tick.label
            )
        })
        .collect();
    body.push(html!("<text class='title' x='2' y='{}'>{}</text>", frame.top - 10.0, title));
    body
}

/// What a mark looks like, so that colour is not the only carrier.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Shape {
    Circle,
    Square,
    Diamond,
    Triangle,
    Cross,
}

impl Shape {
    /// The shapes of baselines, in order.
    pub(super) const BASELINES: [Shape; 3] = [Shape::Square, Shape::Triangle, Shape::Cross];
}

/// Draws a mark with a hover title.
pub(super) fn mark(
    shape: Shape,
    (x, y): (f64, f64),
    radius: f64,
    class: &str,
    title: &str,
) -> Html {
    let title = if title.is_empty() { Html::default() } else { html!("<title>{}</title>", title) };
    let path = |path: Html| html!("<path class='mark {}' d='{}'>{}</path>", class, path, title);
    match shape {
        Shape::Circle => html!(
            "<circle class='mark {}' cx='{}' cy='{}' r='{}'>{}</circle>",
            class,
            x,
            y,
            radius,
            title
        ),
        Shape::Square => {
            let side = radius * 0.9;
            path(html!("M{} {}h{}v{}h{}z", x - side, y - side, 2.0 * side, 2.0 * side, -2.0 * side))
        }
        Shape::Diamond => {
            let half = radius * 1.25;
            path(html!(
                "M{} {}l{} {}l{} {}l{} {}z",
                x,
                y - half,
                half,
                half,
                -half,
                half,
                -half,
                -half
            ))
        }
        Shape::Triangle => {
            let half = radius * 1.1;
            path(html!("M{} {}l{} {}h{}z", x, y - half, half, 2.0 * half, -2.0 * half))
        }
        Shape::Cross => {
            let half = radius * 0.9;
            let (full, back) = (2.0 * half, -2.0 * half);
            html!(
                "<path class='cross {}' d='M{} {}l{} {}m{} 0l{} {}'>{}</path>",
                class,
                x - half,
                y - half,
                full,
                full,
                back,
                full,
                back,
                title
            )
        }
    }
}

/// Draws many dots as one path: ten thousand of them cost a few hundred kilobytes instead of
/// megabytes of elements. Dots that fall on the same pixel are drawn once.
pub(super) fn dots(points: impl IntoIterator<Item = (f64, f64)>, class: &str) -> Html {
    let mut pixels: Vec<(i64, i64)> = points
        .into_iter()
        .map(|(x, y)| ((x * 2.0).round() as i64, (y * 2.0).round() as i64))
        .collect();
    pixels.sort_unstable();
    pixels.dedup();
    if pixels.is_empty() {
        return Html::default();
    }
    let path: Html = pixels
        .into_iter()
        .map(|(x, y)| html!("M{} {}h0", x as f64 / 2.0, y as f64 / 2.0))
        .collect();
    html!("<path class='dots {}' d='{}'/>", class, path)
}

/// Draws an error bar along x, with caps.
pub(super) fn x_error_bar((low, high): (f64, f64), y: f64) -> Html {
    html!(
        "<path class='error' d='M{} {}H{}M{} {}v6M{} {}v6'/>",
        low,
        y,
        high,
        low,
        y - 3.0,
        high,
        y - 3.0
    )
}

/// Draws one line of text.
pub(super) fn text(class: &str, (x, y): (f64, f64), anchor: &str, content: &str) -> Html {
    html!("<text class='{}' x='{}' y='{}' text-anchor='{}'>{}</text>", class, x, y, anchor, content)
}

/// Shortens a text to about `limit` characters, with an ellipsis in its middle: the ends are what
/// tells names apart.
pub(super) fn shortened(text: &str, limit: usize) -> String {
    let characters: Vec<char> = text.chars().collect();
    if characters.len() <= limit {
        return text.to_string();
    }
    let head = limit.saturating_sub(1) / 2;
    let tail = limit.saturating_sub(1) - head;
    let start: String = characters[..head].iter().collect();
    let end: String = characters[characters.len() - tail..].iter().collect();
    format!("{start}…{end}")
}

#[cfg(test)]
mod tests {
    use super::super::scale::Spread;
    use super::*;

    #[test]
    fn long_names_keep_their_ends() {
        let check =
            |text: &str, limit: usize, expected: &str| assert_eq!(shortened(text, limit), expected);
        check("short", 10, "short");
        check("30_register_tile", 9, "30_r…tile");
        check("ααααααααα", 5, "αα…αα");
    }

    #[test]
    fn dots_on_one_pixel_are_drawn_once() {
        let drawn = dots([(1.0, 2.0), (1.01, 2.01), (3.0, 4.0)], "x").into_string();
        assert_eq!(drawn, "<path class='dots x' d='M1 2h0M3 4h0'/>");
        assert!(dots([], "x").is_empty());
    }

    #[test]
    fn hostile_labels_stay_text_in_charts() {
        let frame =
            Frame { width: 100.0, height: 50.0, left: 10.0, right: 0.0, top: 5.0, bottom: 5.0 };
        let scale = Scale::new(Spread::Linear, (0.0, 1.0), frame.x_px());
        let hostile = "'><script>alert(1)</script>";
        let ticks = [Tick { value: 0.5, label: hostile.into() }];
        let body = x_axis(&frame, &scale, &ticks, hostile);
        let drawn = frame.svg(hostile, body).into_string();
        assert!(!drawn.contains("<script"), "{drawn}");
    }
}
