//! How searches converge, drawn: as a line of blocks in a terminal, or as an SVG file.

use std::fmt::Write;

/// One strategy's mean quality after each evaluation, from the first on.
#[derive(Clone, Debug)]
pub struct Curve {
    /// The strategy's name.
    pub name: String,
    /// From 0, nothing ran yet, to 1, the optimum.
    pub quality: Vec<f64>,
}

/// The eighths of a character cell, from little to full.
const BLOCKS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];

/// Draws a curve in so many characters. `low` is at the bottom, 1 at the top.
pub fn sparkline(curve: &Curve, low: f64, columns: usize) -> String {
    let last = curve.quality.len().saturating_sub(1);
    let columns = columns.clamp(1, last + 1);
    let height = |column: usize| {
        let at = last * column / (columns - 1).max(1);
        let quality = curve.quality.get(at).copied().unwrap_or(low);
        let share = ((quality - low) / (1.0 - low).max(f64::EPSILON)).clamp(0.0, 1.0);
        BLOCKS[(share * (BLOCKS.len() - 1) as f64).round() as usize]
    };
    (0..columns).map(height).collect()
}

const WIDTH: f64 = 720.0;
const HEIGHT: f64 = 400.0;
const LEFT: f64 = 56.0;
const RIGHT: f64 = 170.0;
const TOP: f64 = 24.0;
const BOTTOM: f64 = 48.0;

/// Colours that are told apart with every kind of colour vision (Okabe and Ito, 2008).
const COLOURS: [&str; 8] =
    ["#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#7f7f7f", "#000000"];

/// Returns what every chart begins with, by which it is known again.
pub fn beginning() -> String {
    format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {HEIGHT}\" \
         font-family=\"sans-serif\" font-size=\"12\">"
    )
}

/// Draws all curves over the number of evaluations, as a document of its own.
pub fn svg(curves: &[Curve], title: &str) -> String {
    let evaluations = curves.iter().map(|curve| curve.quality.len()).max().unwrap_or(1).max(2);
    let low = floor_of(curves);
    let (right, bottom) = (WIDTH - RIGHT, HEIGHT - BOTTOM);
    let x = |evaluation: usize| {
        LEFT + (right - LEFT) * (evaluation - 1) as f64 / (evaluations - 1) as f64
    };
    let y = |quality: f64| bottom - (bottom - TOP) * (quality - low).max(0.0) / (1.0 - low);
    let mut text = format!(
        "{}\n<title>{}</title>\n<rect width=\"100%\" height=\"100%\" fill=\"white\"/>\n",
        beginning(),
        escaped(title)
    );
    for step in 0..=4 {
        let quality = low + (1.0 - low) * f64::from(step) / 4.0;
        let at = y(quality);
        // Writing to a string cannot fail.
        let _ = writeln!(
            text,
            "<line x1=\"{LEFT}\" x2=\"{right}\" y1=\"{at:.1}\" y2=\"{at:.1}\" stroke=\"#ddd\"/>\
             <text x=\"{}\" y=\"{:.1}\" text-anchor=\"end\">{quality:.2}</text>",
            LEFT - 6.0,
            at + 4.0
        );
    }
    for step in 0..=4 {
        let evaluation = 1 + (evaluations - 1) * step / 4;
        let _ = writeln!(
            text,
            "<text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{evaluation}</text>",
            x(evaluation),
            bottom + 18.0
        );
    }
    for (idx, curve) in curves.iter().enumerate() {
        let colour = COLOURS[idx % COLOURS.len()];
        let points: Vec<String> = (1..)
            .zip(&curve.quality)
            .map(|(evaluation, quality)| format!("{:.1},{:.1}", x(evaluation), y(*quality)))
            .collect();
        let beside = TOP + 18.0 * idx as f64;
        let _ = writeln!(
            text,
            "<polyline fill=\"none\" stroke=\"{colour}\" stroke-width=\"1.8\" points=\"{}\"/>\
             <text x=\"{}\" y=\"{:.1}\" fill=\"{colour}\">{}</text>",
            points.join(" "),
            right + 12.0,
            beside + 4.0,
            escaped(&curve.name)
        );
    }
    let middle = (LEFT + right) / 2.0;
    let _ = writeln!(
        text,
        "<text x=\"{middle:.1}\" y=\"{:.1}\" text-anchor=\"middle\">evaluations</text>\
         <text x=\"14\" y=\"{:.1}\" text-anchor=\"middle\" transform=\"rotate(-90 14 {:.1})\">\
         optimum over best</text>\n</svg>",
        bottom + 38.0,
        (TOP + bottom) / 2.0,
        (TOP + bottom) / 2.0
    );
    text
}

/// Returns where the axis of qualities may begin: below what all but the first few evaluations reach,
/// or else the first would leave no room for the differences.
pub fn floor_of(curves: &[Curve]) -> f64 {
    let early = |curve: &Curve| curve.quality.get(curve.quality.len() / 20).copied();
    let least = curves.iter().filter_map(early).fold(1.0, f64::min);
    ((least * 20.0).floor() / 20.0).clamp(0.0, 0.95)
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn curve(quality: &[f64]) -> Curve {
        Curve { name: "a < b".to_string(), quality: quality.to_vec() }
    }

    #[test]
    fn blocks_rise_with_quality() {
        let rising: Vec<f64> = (0..8).map(|step| f64::from(step) / 7.0).collect();
        assert_eq!(sparkline(&curve(&rising), 0.0, 8), "▁▂▃▄▅▆▇█");
        assert_eq!(sparkline(&curve(&[0.5, 1.0]), 0.5, 40), "▁█");
        assert_eq!(sparkline(&curve(&[1.0]), 0.5, 40), "█");
    }

    #[test]
    fn a_drawing_has_every_curve_and_only_escaped_names() {
        let drawn = svg(&[curve(&[0.5, 0.9]), curve(&[0.6, 1.0])], "x");
        assert_eq!(drawn.matches("<polyline").count(), 2);
        assert!(drawn.contains("a &lt; b") && !drawn.contains("a < b"));
        assert!(!drawn.contains("NaN") && !drawn.contains("inf"), "{drawn}");
    }
}
