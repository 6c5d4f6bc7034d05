//! The report: one HTML file that holds everything that a run found out.
//!
//! [`render`] is a pure function from [`ReportData`] to a page: no clock, no disk, no network. The
//! page asks for nothing from outside, its content-security policy forbids it to, and all that
//! candidates and compilers wrote is shown as text. Summaries and charts are plain HTML and SVG
//! and need no JavaScript; the table of all trials is drawn by the browser from a compact JSON
//! block. Of a run with more than some thousand trials the page shows a part, says so, and says which; what
//! is counted is counted over all (`crate::selection`).
//!
//! Where to look: [`ReportData`] is what goes in; `data` derives what several sections need;
//! `sections` says what the page says; `charts` draws; `trials` packs the table; `report.css` and
//! `report.js` are the page's style and behaviour.

mod charts;
mod data;
mod gather;
mod html;
mod scale;
mod sections;
mod svg;
mod trials;
mod words;

pub use data::{ReportData, Rest};
pub use gather::{gather, gather_within};

use data::View;
use html::{Html, html};
use warpsmith_model::BlobId;

const STYLE: &str = include_str!("report.css");
const SCRIPT: &str = include_str!("report.js");

/// Renders the report of one run as a self-contained HTML page.
pub fn render(data: &ReportData) -> String {
    let summaries = data::summarise(data);
    let view = View::new(data, &summaries);
    let packed = trials::pack(&view);
    // Scripts run only with this number. It hangs on every time that was measured, so no text
    // that was written before the measurement can know it.
    let nonce = BlobId::of(packed.json.as_bytes()).short();
    let policy = format!(
        "default-src 'none'; style-src 'unsafe-inline'; script-src 'nonce-{nonce}'; base-uri 'none'; form-action 'none'"
    );
    let parts = sections::all(&view, &packed);
    let links: Html = parts
        .iter()
        .map(|section| html!("<a href='#{}'>{}</a>\n", section.id, section.short))
        .collect();
    let bodies: Html = parts
        .iter()
        .map(|section| {
            html!(
                "<section id='{}' aria-labelledby='{}-title'>\n<h2 id='{}-title'>{}</h2>\n{}</section>\n",
                section.id, section.id, section.id, section.title, section.body
            )
        })
        .collect();
    let page = html!(
        "<!doctype html>\n<html lang='en'>\n<head>\n<meta charset='utf-8'>\n\
         <meta name='viewport' content='width=device-width, initial-scale=1'>\n\
         <meta name='color-scheme' content='light dark'>\n\
         <meta http-equiv='Content-Security-Policy' content='{}'>\n\
         <title>{} · {}</title>\n<style>\n{}</style>\n</head>\n<body>\n\
         <a class='skip' href='#summary'>Skip to the summary</a>\n\
         {}<nav aria-label='Sections'><div><p>\n{}</p><button type='button' id='theme' hidden>Dark</button></div></nav>\n\
         <main>\n{}</main>\n\
         <footer><p>Made by Warpsmith {} from the evidence of run {}. Every number is computed from recorded samples.</p></footer>\n\
         <script type='application/json' id='trials-data'>{}</script>\n\
         <script nonce='{}'>\n{}</script>\n</body>\n</html>\n",
        policy,
        data.run.lab.title,
        data.run.id.0,
        Html::trusted(STYLE.to_string()),
        sections::masthead(&view),
        links,
        bodies,
        data.environment.warpsmith,
        data.run.id.0,
        html::json_in_script(&packed.json),
        nonce,
        Html::trusted(SCRIPT.to_string()),
    );
    page.into_string()
}
