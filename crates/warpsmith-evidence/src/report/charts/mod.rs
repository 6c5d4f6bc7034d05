//! The charts, each a function from plain values to SVG. They are small enough to stand side by
//! side on a wide screen and one above the other on a phone.

mod bars;
mod convergence;
mod cost;
mod effects;
mod roofline;
mod scatter;
mod stack;

pub(super) use bars::{Bar, Limit, bars};
pub(super) use convergence::{Attempt, Fate, convergence};
pub(super) use cost::{CostPoint, cost};
pub(super) use effects::{Group, effect};
pub(super) use roofline::{Ceiling, RooflinePoint, roofline};
pub(super) use scatter::{Pair, scatter};
pub(super) use stack::{Segment, Stack, stack, stack_key};

use super::data::Part;
use super::html::{Html, html};
use super::svg::{Shape, mark};

impl Part {
    /// Returns the class that gives the part its colour.
    pub(super) fn class(self) -> &'static str {
        match self {
            Self::Winner => "winner",
            Self::Naive => "naive",
            Self::Kernel => "kernel",
            Self::Baseline(idx) => ["base0", "base1", "base2"][idx % 3],
        }
    }

    /// Returns the shape that tells the part without colour.
    pub(super) fn shape(self) -> Shape {
        match self {
            Self::Winner => Shape::Diamond,
            Self::Naive => Shape::Circle,
            Self::Kernel => Shape::Circle,
            Self::Baseline(idx) => Shape::BASELINES[idx % 3],
        }
    }
}

/// Draws the key of a chart: a mark and a word for each part.
pub(super) fn key<'a>(entries: impl IntoIterator<Item = (Shape, &'a str, &'a str)>) -> Html {
    let items: Html = entries
        .into_iter()
        .map(|(shape, class, word)| {
            let drawn = mark(shape, (8.0, 8.0), 4.5, class, "");
            html!("<li><svg width='16' height='16' aria-hidden='true'>{}</svg>{}</li>", drawn, word)
        })
        .collect();
    html!("<ul class='key'>{}</ul>\n", items)
}
