//! The chain of trust: what is right, who says so, and how near to the budget the errors come.

use warpsmith_model::{BudgetShare, ChainRecord, ErrorSize, Fidelity, Proof};

use super::super::data::View;
use super::super::html::{Html, html};
use super::super::words;
use super::{Column, empty, facts, meter, table, titled_table};

pub(super) fn body(view: &View<'_>) -> Html {
    let mut body = chain(view);
    body.push(checks(view));
    match &view.data.chain {
        Some(record) => {
            body.push(proofs(view, record));
            body.push(authorities(record));
            body.push(sensitivity(record));
        }
        None => {
            body.push(empty("How the reference proves the oracle was not recorded in this run."))
        }
    }
    body.push(winner_errors(view));
    body
}

fn chain(view: &View<'_>) -> Html {
    let lab = view.lab;
    // A run may be about some of the lab's workloads.
    let n_workloads = match &view.data.chain {
        Some(record) if !record.authorities.is_empty() => record.authorities.len(),
        _ => lab.workloads.len(),
    };
    let proven = view.data.chain.as_ref().map_or_else(String::new, |record| {
        let is_within = |proof: &&Proof| {
            proof.error.element_eps <= proof.allowed.element_eps
                && proof.error.norm_eps <= proof.allowed.norm_eps
        };
        let within = record.proofs.iter().filter(is_within).count();
        let proofs = words::counted(record.proofs.len(), "proof");
        format!(
            "{proofs}, {} within budget",
            if within == record.proofs.len() { "all".to_string() } else { within.to_string() }
        )
    });
    if lab.oracle.is_empty() {
        return html!(
            "<ol class='chain'>\n<li><strong>The reference</strong> <code>{}</code><span class='small'>a script, run in f64 outside of every candidate's process</span></li>\n\
             <li><strong>proves everybody</strong> {}<span class='small'>on {}, with {}</span></li>\n</ol>\n",
            lab.reference,
            "kernels and baselines alike",
            words::counted(n_workloads, "workload"),
            words::counted(lab.inputs.len(), "input distribution"),
        );
    }
    html!(
        "<ol class='chain'>\n<li><strong>The reference</strong> <code>{}</code><span class='small'>plain C over f64, slow and obviously right</span></li>\n\
         <li><strong>proves the oracle</strong> <code>{}</code><span class='small'>{}</span></li>\n\
         <li><strong>which proves everybody else</strong> {}<span class='small'>on {}, with {}</span></li>\n</ol>\n",
        lab.reference,
        lab.oracle,
        if proven.is_empty() { "no record of the proofs".to_string() } else { proven },
        "kernels and baselines alike",
        words::counted(n_workloads, "workload"),
        words::counted(lab.inputs.len(), "input distribution"),
    )
}

fn checks(view: &View<'_>) -> Html {
    let lab = view.lab;
    let gate = |fidelity: Fidelity, what: &str| {
        let of = view.totals.at(fidelity);
        let (n_passed, n_all) = (of.passed, of.trials);
        html!(
            "{} <span class='soft'>{} of {} passed</span>",
            what,
            words::count(n_passed),
            words::count(n_all)
        )
    };
    let inputs: Vec<String> = lab
        .inputs
        .iter()
        .map(|inputs| match inputs.tolerance_scale {
            1.0 => inputs.name.clone(),
            scale => format!("{} (budget × {scale})", inputs.name),
        })
        .collect();
    let shapes: Vec<String> = lab
        .proofs
        .iter()
        .map(|proof| {
            let axes: Vec<String> =
                proof.axes.iter().map(|(axis, value)| format!("{axis}={value}")).collect();
            format!("{} ({})", proof.name, axes.join(" "))
        })
        .collect();
    let budget = format!(
        "{} eps for each element, {} eps for the norm of the whole; eps of {} is {:.2e}",
        lab.tolerance.element_eps,
        lab.tolerance.norm_eps,
        format!("{:?}", lab.dtype).to_lowercase(),
        lab.dtype.epsilon()
    );
    let mut rows = vec![
        (
            "Full gate".to_string(),
            gate(
                Fidelity::Full,
                "every check, every workload, a seed from the system’s randomness.",
            ),
        ),
        (
            "Rank gate".to_string(),
            gate(Fidelity::Rank, "correctness on one seed, then short timing."),
        ),
        ("Micro gate".to_string(), gate(Fidelity::Micro, "the blocks that ran, checked.")),
        ("Error budget".to_string(), html!("{}", budget)),
        ("Inputs".to_string(), html!("{}", inputs.join(", "))),
        (
            "Proof shapes".to_string(),
            html!("{}", if shapes.is_empty() { "none".to_string() } else { shapes.join(", ") }),
        ),
    ];
    rows.extend(sanitizers(view).map(|words| ("Sanitizers".to_string(), html!("{}", words))));
    facts(rows)
}

/// What the winner's full trial says of sanitizers; nothing where the target has none.
fn sanitizers(view: &View<'_>) -> Option<String> {
    view.data.environment.device.cuda.as_ref()?;
    let winner = view.winner.as_ref()?.trial;
    let record = view.data.trials.iter().find(|record| record.trial.id == winner.id)?;
    let notes: Vec<&str> = record.trial.sanitizer_notes().collect();
    Some(match notes.as_slice() {
        [] => "the winner’s trial does not say that it ran under any".to_string(),
        notes => format!("{}.", notes.join("; ")),
    })
}

fn proofs(view: &View<'_>, record: &ChainRecord) -> Html {
    if record.proofs.is_empty() {
        return empty(match view.lab.oracle.is_empty() {
            true => "The reference answers on every shape itself: there is no oracle to prove.",
            false => "No proof of the oracle was recorded.",
        });
    }
    let rows: Html = record
        .proofs
        .iter()
        .map(|proof| {
            html!(
                "<tr><th scope='row'>{}</th><td>{}</td>{}</tr>\n",
                proof.shape,
                proof.inputs,
                error_cells(proof.error, proof.allowed)
            )
        })
        .collect();
    let table = table(
        &format!("Proofs of the oracle {}", view.lab.oracle),
        &[
            Column::Text("Shape"),
            Column::Text("Inputs"),
            Column::Number("Worst element, eps"),
            Column::Text("Of budget"),
            Column::Number("Norm, eps"),
            Column::Text("Of budget"),
        ],
        rows,
    );
    html!(
        "<details><summary>{} of the oracle, {}</summary>{}</details>\n",
        words::counted(record.proofs.len(), "proof"),
        words::duration(record.wall_s),
        table
    )
}

fn error_cells(error: ErrorSize, allowed: ErrorSize) -> Html {
    let pair = |value: f64, limit: f64| {
        let share = value / limit;
        html!(
            "<td class='num'>{} <span class='soft'>of {}</span></td><td>{}</td>",
            words::three_digits(value),
            limit.to_string(),
            meter(share, &words::percent(share))
        )
    };
    html!(
        "{}{}",
        pair(error.element_eps, allowed.element_eps),
        pair(error.norm_eps, allowed.norm_eps)
    )
}

fn authorities(record: &ChainRecord) -> Html {
    if record.authorities.is_empty() {
        return Html::default();
    }
    let rows: Html = record
        .authorities
        .iter()
        .map(|authority| {
            let who = if authority.by_reference { "the reference, in full" } else { "the oracle" };
            html!(
                "<tr><th scope='row'>{}</th><td>{}</td><td class='num'>{}</td><td class='num'>{}</td></tr>\n",
                authority.workload,
                who,
                words::count(authority.sampled_blocks as usize),
                authority.contents as usize
            )
        })
        .collect();
    titled_table(
        "Who says what is right on each workload",
        &[
            Column::Text("Workload"),
            Column::Text("Expected outputs by"),
            Column::Number("Blocks compared with the reference"),
            Column::Number("Input contents"),
        ],
        rows,
    )
}

fn sensitivity(record: &ChainRecord) -> Html {
    if record.sensitivity.is_empty() {
        return Html::default();
    }
    let items: Vec<String> = record
        .sensitivity
        .iter()
        .map(|entry| format!("{} {}", entry.tensor, words::percent(entry.relative_change)))
        .collect();
    html!(
        "<p>The output depends on every input, so a kernel cannot pass without reading it. Drawing one input anew changes the output by: {}.</p>\n",
        items.join(", ")
    )
}

fn winner_errors(view: &View<'_>) -> Html {
    let Some(winner) = &view.winner else { return Html::default() };
    let trial = winner.trial;
    let record = view.data.trials.iter().find(|record| record.trial.id == trial.id);
    let seed = record.map_or(String::new(), |record| record.trial.job.seed.to_string());
    let measurements = record.map_or(&[][..], |record| record.trial.outcome.measurements());
    let widest = view.lab.inputs.iter().map(|inputs| inputs.tolerance_scale).fold(1.0, f64::max);
    let narrowest = view.lab.inputs.iter().map(|it| it.tolerance_scale).fold(widest, f64::min);
    let tolerance = &view.lab.tolerance;
    let bound = BudgetShare { element: tolerance.element_eps, norm: tolerance.norm_eps };
    let rows: Html = measurements
        .iter()
        .map(|measurement| {
            html!(
                "<tr><th scope='row'>{}</th>{}</tr>\n",
                measurement.workload,
                winner_error_cells(measurement.error, bound, widest == 1.0 && narrowest == 1.0)
            )
        })
        .collect();
    let mut body = titled_table(
        "The winner’s worst errors",
        &[
            Column::Text("Workload"),
            Column::Number("Worst element, eps"),
            Column::Text("Of budget"),
            Column::Number("Norm, eps"),
            Column::Text("Of budget"),
        ],
        rows,
    );
    body.push(html!(
        "<p class='small'>From trial {}, at the {} fidelity with seed <code>{}</code>.</p>\n",
        trial.seq.to_string(),
        trial.fidelity.name(),
        seed
    ));
    if widest != narrowest {
        body.push(html!(
            "<p class='small'>The worst over all input distributions. Some have a wider budget than others (up to {} times the lab’s); each error is a share of the budget of its own inputs, so the largest error need not be the largest share.</p>\n",
            widest.to_string()
        ));
    }
    body
}

/// An error and the share that it uses up. Older evidence does not have the share; it follows from the
/// error where all distributions have the same budget, and is left open elsewhere.
fn winner_error_cells(error: ErrorSize, bound: BudgetShare, is_one_budget: bool) -> Html {
    let plain = BudgetShare {
        element: error.element_eps / bound.element,
        norm: error.norm_eps / bound.norm,
    };
    let share = error.of_budget.or(is_one_budget.then_some(plain));
    let pair = |value: f64, share: Option<f64>| {
        let share = match share {
            Some(share) => meter(share, &words::percent(share)),
            None => html!("<span class='soft'>not recorded</span>"),
        };
        html!("<td class='num'>{}</td><td>{}</td>", words::three_digits(value), share)
    };
    html!(
        "{}{}",
        pair(error.element_eps, share.map(|share| share.element)),
        pair(error.norm_eps, share.map(|share| share.norm))
    )
}
