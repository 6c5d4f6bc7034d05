//! The search: how it went, which parameters mattered, and whether the cheap measurement that
//! seeded it predicts the dear one. Fidelities never mix in one chart.

use std::collections::BTreeMap;

use warpsmith_model::{Fidelity, KernelRecord, Value, Verdict, units};

use super::super::charts::{self, Attempt, Fate, Group, Pair};
use super::super::data::View;
use super::super::html::{Html, html};
use super::super::svg::Shape;
use super::super::words;
use super::{Column, empty, scroll, titled_table};
use crate::derive::{self, ConvergencePoint, Leaderboard, score};

pub(super) fn convergence(view: &View<'_>) -> Html {
    let Some(board) = &view.board else {
        return empty("No candidate was tried.");
    };
    let points = derive::convergence(&view.data.run, view.summaries, board);
    let attempts: Vec<Attempt> = points.iter().map(attempt).collect();
    let fidelity = board.fidelity.name();
    let label = format!("The time of each trial at the {fidelity} fidelity, and the best so far");
    let Some(chart) = charts::convergence(&label, &attempts) else {
        return empty("No candidate was timed on every workload, so there is nothing to plot.");
    };
    let of = view.totals.at(board.fidelity);
    let key = charts::key([
        (Shape::Diamond, "winner", "a new best"),
        (Shape::Circle, "faint", "not better"),
        (Shape::Cross, "bad", "without a time that counts"),
    ]);
    let mut body = html!(
        "<p>{} at the <em>{}</em> fidelity took {}; {} have a time on every workload. A trial’s time is the geometric mean over {}.</p>\n\
         <figure class='wide'>{}{}</figure>\n",
        words::counted(of.candidates, "trial"),
        fidelity,
        words::duration(of.cost_s),
        words::count(of.timed),
        words::counted(board.workloads.len(), "workload"),
        scroll("The search over time", chart),
        key
    );
    if view.data.rest.is_some() {
        body.push(html!(
            "<p class='small'>The chart has {} of them: every new best, the best of each kernel, the newest, and a sample of candidates.</p>\n",
            words::count(attempts.len())
        ));
    }
    body.push(best_of_each_kernel(view, board));
    body
}

fn attempt(point: &ConvergencePoint<'_>) -> Attempt {
    let trial = point.trial;
    let fate = match (point.score_s, trial.verdict) {
        (Some(score_s), _) => Fate::Timed { score_s },
        (None, Verdict::Passed) => Fate::Failed { kind: "abandoned" },
        (None, verdict) => Fate::Failed { kind: words::verdict(verdict) },
    };
    let title = format!("trial {}, {} {}", trial.seq, trial.kernel, trial.params);
    Attempt { seq: trial.seq, fate, title }
}

fn best_of_each_kernel(view: &View<'_>, board: &Leaderboard<'_>) -> Html {
    let tried: BTreeMap<&str, usize> = view
        .totals
        .tried
        .iter()
        .filter(|((fidelity, _), _)| *fidelity == board.fidelity)
        .map(|((_, kernel), count)| (kernel.as_str(), *count))
        .collect();
    let best = derive::best_by_kernel(board);
    let rows: Html = tried
        .into_iter()
        .map(|(name, count)| {
            let summary = view.lab.kernel(name).map_or("", |kernel| &kernel.summary);
            let cells = match best.iter().find(|entry| entry.trial.kernel == name) {
                None => html!("<td colspan='4' class='empty'>none has a time on every workload</td>"),
                Some(entry) => {
                    let place = view.summaries.iter().position(|trial| trial.id == entry.trial.id);
                    let speedup = place.and_then(|idx| view.scores[idx].speedup);
                    let given_up = if entry.trial.is_abandoned() {
                        html!("<span class='sub'>abandoned as too slow</span>")
                    } else {
                        Html::default()
                    };
                    html!(
                        "<td class='num'>{}{}</td><td class='num'>{}</td><td class='num'>{}</td><td class='params'>{}</td>",
                        units::time(entry.score_s.mid),
                        given_up,
                        speedup.map_or("–".to_string(), words::ratio),
                        entry.trial.seq.to_string(),
                        entry.trial.params.to_string()
                    )
                }
            };
            html!(
                "<tr><th scope='row'>{}<span class='sub'>{}</span></th><td class='num'>{}</td>{}</tr>\n",
                name, summary, words::count(count), cells
            )
        })
        .collect();
    let mut body = titled_table(
        &format!("The best of each kernel at the {} fidelity", board.fidelity.name()),
        &[
            Column::Text("Kernel"),
            Column::Number("Trials"),
            Column::Number("Best time"),
            Column::Number("Author’s time over its (single times)"),
            Column::Number("Trial"),
            Column::Text("Parameters"),
        ],
        rows,
    );
    body.push(html!(
        "<p class='small'>Geometric means over {}, from {}. They rank candidates; the winner’s time, in the summary, is measured again and longer, and its speed-ups are from paired rounds, not ratios of such times.</p>\n",
        board.workloads.join(", "),
        derive::measured_in(board.fidelity)
    ));
    body
}

pub(super) fn effects(view: &View<'_>) -> Html {
    let Some(board) = &view.board else {
        return empty("No candidate was tried, so no parameter has an effect to show.");
    };
    let mut blocks: Vec<(bool, Html)> = view
        .lab
        .kernels
        .iter()
        .filter_map(|kernel| {
            let charts = kernel_effects(view, kernel, board);
            let is_winner = view.winner.as_ref().is_some_and(|winner| winner.kernel == kernel.name);
            (!charts.is_empty()).then(|| (is_winner, kernel_block(&kernel.name, is_winner, charts)))
        })
        .collect();
    if blocks.is_empty() {
        return empty("No parameter was tried with two values, so there is no effect to show.");
    }
    blocks.sort_by_key(|(is_winner, _)| !is_winner);
    let mut body = html!(
        "<p>Each dot is a trial at the <em>{}</em> fidelity; the box holds the middle half and the line is the median. The parameter with the largest effect comes first. A search visits good regions more often, so medians describe what was tried, not the whole space.</p>\n",
        board.fidelity.name()
    );
    if let Some(note) = view.sampled("Dots and medians are") {
        body.push(html!("<p class='small'>{}</p>\n", note));
    }
    body.push(blocks.into_iter().map(|(_, block)| block).collect());
    body
}

fn kernel_block(kernel: &str, is_winner: bool, charts: Html) -> Html {
    let open = if is_winner { " open" } else { "" };
    let role = if is_winner { ", the winner’s kernel" } else { "" };
    html!(
        "<details{}><summary><code>{}</code>{}</summary><div class='figures'>\n{}</div></details>\n",
        open,
        kernel,
        role,
        charts
    )
}

/// Draws every tunable that was tried with two values, the most influential first.
fn kernel_effects(view: &View<'_>, kernel: &KernelRecord, board: &Leaderboard<'_>) -> Html {
    derive::parameter_effects(kernel, &view.sample, board)
        .into_iter()
        .filter_map(|effect| {
            let spread = effect.spread?;
            let values = effect.values.iter().map(|value| &value.value);
            let groups: Vec<Group> = values
                .map(|value| group(view, kernel, &effect.name, value, board))
                .filter(|group| !group.times_s.is_empty())
                .collect();
            let chart = charts::effect(&effect.name, &groups)?;
            let caption =
                format!("{} from worst to best median", words::ratio(spread));
            Some(html!(
                "<figure><figcaption><code>{}</code> <span class='small'>{}</span></figcaption>{}</figure>\n",
                effect.name, caption, chart
            ))
        })
        .collect()
}

fn group(
    view: &View<'_>,
    kernel: &KernelRecord,
    name: &str,
    value: &Value,
    board: &Leaderboard<'_>,
) -> Group {
    let times_s = view
        .sample
        .iter()
        .filter(|trial| trial.fidelity == board.fidelity && trial.kernel == kernel.name)
        .filter(|trial| trial.params.get(name) == Some(value) && !trial.is_baseline())
        .filter_map(|trial| score(trial, &board.workloads).map(|score| score.mid))
        .collect();
    let text = value.to_string();
    Group { value: if text.is_empty() { "(empty)".to_string() } else { text }, times_s }
}

/// The words for a rank correlation; the bands are Evans's ("Straightforward Statistics", 1996).
fn strength(rho: f64) -> &'static str {
    match rho {
        rho if rho >= 0.8 => "it predicts the ranking very well",
        rho if rho >= 0.6 => "it predicts the ranking well",
        rho if rho >= 0.4 => "it predicts the ranking moderately",
        rho if rho >= 0.2 => "it hardly predicts the ranking",
        _ => "it does not predict the ranking, so do not rely on it here",
    }
}

pub(super) fn micro(view: &View<'_>) -> Html {
    if !view.summaries.iter().any(|trial| trial.fidelity == Fidelity::Micro) {
        return empty("No microbenchmark was run.");
    }
    let agreement = derive::micro_agreement(&view.sample);
    let best_s = agreement.pairs.iter().map(|pair| pair.rank_s).fold(f64::INFINITY, f64::min);
    let pairs: Vec<Pair> = agreement
        .pairs
        .iter()
        .map(|pair| Pair {
            x_s: pair.micro_s,
            y_s: pair.rank_s,
            is_best: pair.rank_s == best_s,
            title: format!(
                "{} {}: micro {}, rank {}",
                pair.kernel,
                pair.params,
                units::time(pair.micro_s),
                units::time(pair.rank_s)
            ),
        })
        .collect();
    let label = "Microbenchmark times against ranking times of the same candidates";
    let Some(chart) = charts::scatter(label, ("micro", "rank"), &pairs) else {
        return empty(
            "The microbenchmark was run, but none of its candidates was also ranked, so its predictions cannot be judged.",
        );
    };
    let verdict = match agreement.spearman {
        Some(rho) => format!("Spearman’s rank correlation is {rho:.2}: {}.", strength(rho)),
        None => "That is too few, or they are too equal, for a rank correlation.".to_string(),
    };
    let place = agreement.place_of_best.map_or(String::new(), |place| {
        format!(" The best by rank was at place {} of the microbenchmark’s list.", place + 1)
    });
    let by_kernel: Vec<String> = agreement
        .by_kernel
        .iter()
        .filter(|_| agreement.by_kernel.len() > 1)
        .map(|of| {
            let rho = of.spearman.map_or("too few".to_string(), |rho| format!("{rho:.2}"));
            format!("{} {rho} ({} candidates)", of.kernel, of.pairs)
        })
        .collect();
    let by_kernel = match by_kernel.is_empty() {
        true => Html::default(),
        false => html!("<p>Within each kernel: {}.</p>\n", by_kernel.join(", ")),
    };
    html!(
        "<p>{} passed both in the microbenchmark and in ranking, on the same workloads. {}{} {}</p>\n{}<figure class='narrow'>{}{}</figure>\n",
        words::counted(pairs.len(), "candidate"),
        verdict,
        place,
        view.sampled("All of this is").unwrap_or_default(),
        by_kernel,
        chart,
        charts::key([
            (Shape::Diamond, "winner", "the best by rank"),
            (Shape::Circle, "faint", "others")
        ])
    )
}
