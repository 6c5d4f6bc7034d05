//! The distance to the machine's limits, as measured on it.

use warpsmith_model::roofline::{self, Nearness};
use warpsmith_model::stats::Interval;
use warpsmith_model::{Ceilings, WorkloadRecord, units};

use super::super::charts::{self, Ceiling, RooflinePoint};
use super::super::data::{Part, View};
use super::super::html::{Html, html};
use super::super::words;
use super::{Column, empty, nearness_meter, nearness_notes, scroll, table};

pub(super) fn body(view: &View<'_>) -> Html {
    let Some(ceilings) = &view.data.ceilings else {
        return empty("The machine’s ceilings were not measured, so there is no roofline.");
    };
    let timed = timed(view);
    let points: Vec<RooflinePoint> = timed
        .iter()
        .map(|(part, label, workload, time_s)| {
            let rate = workload.flops / time_s.mid;
            let share = view
                .nearness(workload, time_s.mid)
                .map_or(String::new(), |near| format!(", {}", near_words(&near)));
            RooflinePoint {
                part: *part,
                intensity: workload.flops / workload.bytes,
                flops_per_s: rate,
                title: format!("{label} on {}: {}{share}", workload.name, units::flops(rate)),
            }
        })
        .collect();
    let peak = roofline::peak_flops(ceilings, view.lab.arithmetic_dtype());
    let peak_words = format!("arithmetic peak {}", units::flops(peak));
    let slopes = slopes(ceilings);
    let label = "Roofline: rates of every contender on every workload, under the measured ceilings";
    let Some(chart) = charts::roofline(label, (peak, &peak_words), &slopes, &points) else {
        return empty(
            "Nobody was timed on a workload with a stated amount of work, so there is no roofline.",
        );
    };
    let key = charts::key(
        parts(&timed).into_iter().map(|(part, label)| (part.shape(), part.class(), label)),
    );
    let mut body = html!(
        "<p>Each mark is one contender on one workload. The ceilings were measured on this machine, not taken from a data sheet: {} of arithmetic, {} from memory, {} from the nearest caches. Workloads that fit into the caches can lie above the memory slope.</p>\n<figure class='wide'>{}{}</figure>\n",
        units::flops(peak),
        units::bandwidth(ceilings.memory_bytes_per_s),
        units::bandwidth(ceilings.cache_bytes_per_s),
        scroll("Roofline", chart),
        key
    );
    body.push(in_numbers(view, &timed));
    body
}

type Timed<'a> = (Part, &'a str, &'a WorkloadRecord, Interval);

/// Everybody with a time: from the comparison where there is one, else the winner alone.
fn timed<'a>(view: &'a View<'a>) -> Vec<Timed<'a>> {
    let has_work = |workload: &&WorkloadRecord| workload.flops > 0.0 && workload.bytes > 0.0;
    if let Some(comparison) = &view.comparison {
        let mut timed: Vec<Timed<'_>> = comparison
            .ordered()
            .flat_map(|(standing, part)| {
                standing.workloads.iter().filter_map(move |here| {
                    let workload = view.lab.workload(&here.workload).filter(has_work)?;
                    Some((part, standing.label.as_str(), workload, here.time_s?))
                })
            })
            .collect();
        // The winner is drawn last, on top of the others.
        timed.reverse();
        return timed;
    }
    let Some(winner) = &view.winner else { return Vec::new() };
    view.lab
        .workloads
        .iter()
        .filter(has_work)
        .zip(&winner.time_s)
        .filter_map(|(workload, time_s)| Some((Part::Winner, winner.kernel, workload, (*time_s)?)))
        .collect()
}

fn parts<'a>(timed: &[Timed<'a>]) -> Vec<(Part, &'a str)> {
    let mut parts: Vec<(Part, &str)> = Vec::new();
    for (part, label, _, _) in timed.iter().rev() {
        if !parts.iter().any(|(_, known)| known == label) {
            parts.push((*part, label));
        }
    }
    parts
}

fn near_words(near: &Nearness) -> String {
    let words = near.words().replace(' ', "\u{a0}");
    if near.share <= 1.0 { format!("{words} of its ceiling") } else { words }
}

fn slopes(ceilings: &Ceilings) -> Vec<Ceiling> {
    [
        ("memory", "memory", ceilings.memory_bytes_per_s),
        ("nearest caches", "cache", ceilings.cache_bytes_per_s),
    ]
    .into_iter()
    .filter(|(_, _, bytes_per_s)| *bytes_per_s > 0.0)
    .map(|(name, class, bytes_per_s)| Ceiling {
        name,
        class,
        bytes_per_s,
        words: units::bandwidth(bytes_per_s),
    })
    .collect()
}

fn in_numbers(view: &View<'_>, timed: &[Timed<'_>]) -> Html {
    let rows: Html = view
        .lab
        .workloads
        .iter()
        .flat_map(|workload| {
            timed.iter().rev().filter(move |(_, _, of, _)| of.name == workload.name).map(
                move |(part, label, _, time_s)| {
                    let near = view.nearness(workload, time_s.mid);
                    let share = near.map_or(html!("–"), |near| nearness_meter(&near));
                    html!(
                        "<tr><th scope='row'>{}</th><td class='who {}'>{}</td><td class='num'>{}</td><td class='num'>{}</td><td>{}</td></tr>\n",
                        workload.name,
                        part.class(),
                        *label,
                        words::three_digits(workload.flops / workload.bytes),
                        units::flops(workload.flops / time_s.mid),
                        share
                    )
                },
            )
        })
        .collect();
    let table = table(
        "The roofline in numbers",
        &[
            Column::Text("Workload"),
            Column::Text("Contender"),
            Column::Number("Operations per byte"),
            Column::Number("Rate"),
            Column::Text("Of the ceiling that binds"),
        ],
        rows,
    );
    let near: Vec<Nearness> = timed
        .iter()
        .filter_map(|(_, _, workload, time_s)| view.nearness(workload, time_s.mid))
        .collect();
    html!(
        "<details><summary>The same in numbers</summary>{}{}</details>\n",
        table,
        nearness_notes(&near)
    )
}
