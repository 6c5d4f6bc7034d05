//! The comparison: every contender on every workload, from interleaved rounds under one clock.

use warpsmith_model::roofline::Nearness;
use warpsmith_model::stats::{self, Interval};
use warpsmith_model::{ComparisonRecord, MissingBaseline, WorkloadRecord, units};

use super::super::charts::{Bar, Limit, bars};
use super::super::data::{ComparisonView, Part, View, work_size};
use super::super::html::{Html, html};
use super::super::words;
use super::{Column, badge, empty, nearness_notes, titled_table};
use crate::derive::{self, Standing};

pub(super) fn body(view: &View<'_>) -> Html {
    let Some(comparison) = &view.comparison else {
        let mut body = empty("No paired comparison was run.");
        body.push(missing(view.data.comparisons.iter().flat_map(|record| &record.missing)));
        return body;
    };
    let mut body = html!(
        "<p>Contenders took turns, round by round, on the same inputs (seed <code>{}</code>), so a busy moment of the machine hits all of them alike. Times are medians. Speed-ups are medians of the rounds’ ratios. Both have 95\u{a0}% intervals. A speed-up within {} of 1 is called a tie.</p>\n",
        comparison.record.seed.to_string(),
        words::percent(stats::TIE_BAND)
    );
    body.push(charts(view, comparison));
    body.push(table(view, comparison));
    body.push(clocks(comparison.record));
    body.push(missing(&comparison.record.missing));
    body.push(others(view, comparison.record));
    body
}

fn charts(view: &View<'_>, comparison: &ComparisonView<'_>) -> Html {
    let figures: Html = comparison
        .record
        .workloads
        .iter()
        .enumerate()
        .map(|(idx, rounds)| {
            let workload = view.lab.workload(&rounds.workload);
            let drawn: Vec<Bar<'_>> = comparison
                .ordered()
                .filter_map(|(standing, part)| {
                    let time_s = standing.workloads[idx].time_s?;
                    let rate = rate(workload, time_s);
                    let words = match workload {
                        Some(_) => units::flops(rate.mid),
                        None => units::time(time_s.mid),
                    };
                    let title = format!(
                        "{} on {}: {words}, {} ({})",
                        standing.label,
                        rounds.workload,
                        units::time(time_s.mid),
                        words::time_interval(time_s)
                    );
                    Some(Bar { label: &standing.label, part, value: rate, words, title })
                })
                .collect();
            if drawn.is_empty() {
                return html!(
                    "<figure><figcaption>{}</figcaption>{}</figure>\n",
                    rounds.workload,
                    empty("Nobody was timed here.")
                );
            }
            let limit = workload.and_then(|workload| ceiling(view, workload));
            let label = format!("Rates on {}, longer is faster", rounds.workload);
            html!(
                "<figure><figcaption>{}</figcaption>{}</figure>\n",
                rounds.workload,
                bars(&label, &drawn, limit.as_ref())
            )
        })
        .collect();
    html!(
        "<div class='figures'>\n{}</div>\n<p class='small'>Longer bars are faster; thin lines are 95\u{a0}% intervals; the dashed line is the measured ceiling that binds, where it is near enough to draw.</p>\n",
        figures
    )
}

/// Turns a time into a rate; the slowest time gives the lowest rate.
fn rate(workload: Option<&WorkloadRecord>, time_s: Interval) -> Interval {
    let work = workload.map_or(1.0, |workload| workload.flops.max(1.0));
    Interval { low: work / time_s.high, mid: work / time_s.mid, high: work / time_s.low }
}

fn ceiling(view: &View<'_>, workload: &WorkloadRecord) -> Option<Limit> {
    let ceilings = view.data.ceilings.as_ref()?;
    let least_s = warpsmith_model::roofline::roofline_s(
        ceilings,
        work_size(workload),
        view.lab.arithmetic_dtype(),
    );
    let value = workload.flops.max(1.0) / least_s;
    let title = format!("measured ceiling: {}", units::flops(value));
    value.is_finite().then_some(Limit { value, title })
}

fn table(view: &View<'_>, comparison: &ComparisonView<'_>) -> Html {
    let held = &comparison.standings[comparison.against].label;
    let subject = view.subject();
    let contenders: Vec<(&Standing, Part)> = comparison.ordered().collect();
    let groups: Html = comparison
        .record
        .workloads
        .iter()
        .enumerate()
        .map(|(idx, rounds)| group(view, &contenders, idx, &rounds.workload))
        .collect();
    let overall: Html = contenders
        .iter()
        .skip(1)
        .filter_map(|(standing, part)| {
            let speedup = standing.speedup?;
            let all = standing.workloads.len();
            let covers = match standing.covered {
                covered if covered == all => "All workloads".to_string(),
                covered => format!("{covered} of {all} workloads"),
            };
            Some(html!(
                "<tr class='overall'><th scope='row'>{}</th><td class='who {}'>{}</td><td colspan='3'></td>{}</tr>\n",
                covers, part.class(), standing.label, speedup_cells(speedup, view.subject())
            ))
        })
        .collect();
    let mut body = titled_table(
        "Every contender on every workload",
        &[
            Column::Text("Workload"),
            Column::Text("Contender"),
            Column::Number("Median of the rounds"),
            Column::Number("95\u{a0}% interval"),
            Column::Number("Of ceiling"),
            Column::Number(&format!("The {subject} is … as fast")),
            Column::Number("95\u{a0}% interval"),
            Column::Text("Verdict"),
        ],
        [groups, overall].into_iter().collect(),
    );
    let rounds: Vec<usize> = comparison
        .record
        .workloads
        .iter()
        .flat_map(|rounds| rounds.samples_s.iter().map(Vec::len).max())
        .collect();
    let fewest = rounds.iter().min().copied().unwrap_or(0);
    let most = rounds.iter().max().copied().unwrap_or(0);
    let rounds = if fewest == most { fewest.to_string() } else { format!("{fewest} to {most}") };
    body.push(html!(
        "<p class='small'>{} rounds on each workload. The {} is <code>{}</code>: each row says how many times as fast as the row’s contender it is; over several workloads that is the geometric mean. These times are of the rounds; the summary’s are of the winner’s own full gate.</p>\n",
        rounds, subject, held
    ));
    body.push(nearness_notes(&all_near(view, comparison)));
    body
}

/// How near every time of the table comes to its ceiling.
fn all_near(view: &View<'_>, comparison: &ComparisonView<'_>) -> Vec<Nearness> {
    let standings = comparison.standings.iter().flat_map(|standing| &standing.workloads);
    standings
        .filter_map(|here| view.nearness(view.lab.workload(&here.workload)?, here.time_s?.mid))
        .collect()
}

/// The rows of one workload.
fn group(view: &View<'_>, contenders: &[(&Standing, Part)], idx: usize, name: &str) -> Html {
    let workload = view.lab.workload(name);
    let row = |place: usize, standing: &Standing, part: Part| {
        let here = &standing.workloads[idx];
        let head = match place {
            0 => html!("<th scope='rowgroup' rowspan='{}'>{}</th>", contenders.len(), name),
            _ => Html::default(),
        };
        let cells = match here.time_s {
            None => {
                let reason =
                    here.absent.as_deref().unwrap_or("no times, and no reason was recorded");
                html!("<td colspan='6' class='empty'>{}</td>", reason)
            }
            Some(time_s) => {
                let near = workload.and_then(|workload| view.nearness(workload, time_s.mid));
                let share =
                    near.map_or("–".to_string(), |near| near.words().replace(' ', "\u{a0}"));
                let verdict = match here.speedup.filter(|_| place > 0) {
                    None => html!("<td class='num soft'>1</td><td></td><td></td>"),
                    Some(speedup) => speedup_cells(speedup, view.subject()),
                };
                html!(
                    "<td class='num'>{}</td><td class='num soft'>{}</td><td class='num'>{}</td>{}",
                    units::time(time_s.mid),
                    words::time_interval(time_s),
                    share,
                    verdict
                )
            }
        };
        html!(
            "<tr class='{}'>{}<td class='who {}'>{}</td>{}</tr>\n",
            if place == 0 { "group" } else { "" },
            head,
            part.class(),
            standing.label,
            cells
        )
    };
    contenders
        .iter()
        .enumerate()
        .map(|(place, (standing, part))| row(place, standing, *part))
        .collect()
}

fn speedup_cells(speedup: Interval, subject: &str) -> Html {
    html!(
        "<td class='num'>{}</td><td class='num soft'>{}</td><td>{}</td>",
        words::ratio(speedup.mid),
        words::ratio_interval(speedup),
        badge(speedup, subject)
    )
}

/// Says how far the clocks of baselines that read their own agree with the harness's.
fn clocks(record: &ComparisonRecord) -> Html {
    let items: Html =
        record.clocks.iter().map(|check| html!("<li>{}</li>\n", check.describe())).collect();
    if items.is_empty() {
        return Html::default();
    }
    html!(
        "<h3>Clocks</h3><p>These baselines ran in processes that read the device’s clock themselves. Before the comparison both timed the same copy, in turns.</p><ul>\n{}</ul>\n",
        items
    )
}

fn missing<'a>(missing: impl IntoIterator<Item = &'a MissingBaseline>) -> Html {
    let items: Html = missing
        .into_iter()
        .map(|baseline| {
            html!(
                "<li><strong>{}</strong> did not take part: {}. To add it: <code>{}</code></li>\n",
                baseline.name,
                baseline.reason.trim_end_matches('.'),
                baseline.how
            )
        })
        .collect();
    if items.is_empty() {
        return Html::default();
    }
    html!("<div class='notice'><h3>Baselines that are missing</h3><ul>\n{}</ul></div>\n", items)
}

/// Lists the comparisons that are not the headline's, each in a line.
fn others(view: &View<'_>, headline: &ComparisonRecord) -> Html {
    let others: Vec<&ComparisonRecord> =
        view.data.comparisons.iter().filter(|record| !std::ptr::eq(*record, headline)).collect();
    if others.is_empty() {
        return Html::default();
    }
    let items: Html = others
        .iter()
        .flat_map(|record| {
            // The finals of a search begin with the author's choice; they are told from the winner's side.
            let winner = view.winner.as_ref();
            let against =
                winner.and_then(|it| derive::place(record, it.kernel, it.params)).unwrap_or(0);
            let first = record.contenders.get(against).map_or("", |contender| &contender.label);
            let purpose = record.purpose.describe();
            let standings = derive::standings(record, against).into_iter();
            standings.filter(move |standing| standing.contender != against).map(move |standing| {
                html!("<li>{}: {}</li>\n", purpose, derive::sentence(first, &standing))
            })
        })
        .collect();
    html!(
        "<details><summary>{} of this run</summary><ul>\n{}</ul></details>\n",
        words::counted(others.len(), "other comparison"),
        items
    )
}
