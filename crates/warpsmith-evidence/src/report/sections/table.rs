//! The table of all trials: the controls and the head. The rows are drawn by the page's script
//! from the JSON block, a few at a time.

use super::super::data::View;
use super::super::html::{Html, html};
use super::super::words;
use super::empty;

pub(super) fn body(view: &View<'_>) -> Html {
    if view.summaries.is_empty() {
        return empty("No trial was recorded.");
    }
    let heading = |name: &str, sort: &str, class: &str| {
        html!(
            "<th scope='col' class='{}' aria-sort='none'><button type='button' data-sort='{}'>{}</button></th>\n",
            class,
            sort,
            name
        )
    };
    let mut headings: Html = [
        html!("<th scope='col' class='num' aria-sort='ascending'><button type='button' data-sort='0'>#</button></th>\n"),
        heading("Kernel", "1", ""),
        heading("Parameters", "2", ""),
        heading("Fidelity", "3", ""),
        heading("Verdict", "4", ""),
        heading("Ratio of single times", "6", "num"),
        heading("Time", "7", "num"),
    ]
    .into_iter()
    .collect();
    for (idx, workload) in view.columns().iter().enumerate() {
        headings.push(heading(&workload.name, &format!("w{idx}"), "num"));
    }
    html!(
        "<noscript><p class='empty'>This table is drawn by JavaScript, which is off. The best of each kernel is listed under <a href='#convergence'>The search over time</a>, and the evidence has everything.</p></noscript>\n\
         <p>{} Select a number to see the trial’s source, compiler and samples. <em>Time</em> is the geometric mean over the trial’s workloads. The <em>ratio of single times</em> divides that of the author’s choice of parameters for the same kernel, at the same fidelity, by it: it ranks, and is not a speed-up of the comparison, whose rounds are paired.</p>\n\
         <div class='controls' id='trial-controls' hidden>\n\
         <label>Filter <input type='search' id='filter-text' placeholder='kernel, parameter, message …' autocomplete='off' spellcheck='false'></label>\n\
         <label>Fidelity <select id='filter-fidelity'><option value=''>all</option></select></label>\n\
         <label>Verdict <select id='filter-verdict'><option value=''>all</option></select></label>\n\
         <output id='trial-count' aria-live='polite'></output>\n</div>\n\
         <div class='scroll tall' role='region' aria-label='All trials' tabindex='0' id='trial-box' hidden>\n\
         <table id='trial-table'><caption class='hidden'>All trials</caption><thead><tr>\n{}</tr></thead>\n<tbody></tbody></table>\n\
         <button type='button' id='trial-more' hidden>Show more</button></div>\n",
        counted(view),
        headings
    )
}

/// Says how many trials there are, and which of them are in the table.
fn counted(view: &View<'_>) -> String {
    let (shown, all) = (view.summaries.len(), view.totals.trials);
    if view.data.rest.is_none() {
        return format!("{}.", words::counted(all, "trial"));
    }
    format!(
        "Showing {} of {}: the best of every fidelity, kernel and workload, every new best of the search, contenders and libraries, the newest, examples of each failure, and a sample of the rest. All of them are in the evidence: `warpsmith export {} --format csv` writes them as tables, `--format json` with every sample.",
        words::count(shown),
        words::counted(all, "trial"),
        view.data.run.id
    )
}
