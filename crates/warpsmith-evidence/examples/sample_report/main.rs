//! Writes a report of synthetic evidence and says how large it is and how long it took.
//!
//! ```text
//! cargo run --release -p warpsmith-evidence --example sample_report -- OUT.html [SEARCH_TRIALS] [store]
//! cargo run --release -p warpsmith-evidence --example sample_report -- evidence DIR SEARCH_TRIALS
//! ```
//!
//! `evidence` makes a store with that many trials and no report, to measure commands on.
//! `empty` instead of a number makes the report of a run that recorded nothing; `store` takes the
//! evidence through a real store first, so that the time covers the queries too.

mod data;

use std::error::Error;
use std::path::Path;
use std::time::Instant;

use warpsmith_evidence::Store;
use warpsmith_evidence::report::{self, ReportData};

const USAGE: &str = "usage: sample_report OUT.html [SEARCH_TRIALS|empty] [store]
       sample_report evidence DIR SEARCH_TRIALS";

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    if let ["evidence", folder, n_search] = words[..] {
        let data = data::sample(n_search.parse().map_err(|_| USAGE)?);
        let store = Store::open(&Path::new(folder).join("evidence.db"))?;
        data::record(&data, &store)?;
        return Ok(());
    }
    let (path, n_search, through_store) = match words[..] {
        [path] => (path, "180", false),
        [path, n_search] => (path, n_search, false),
        [path, n_search, "store"] => (path, n_search, true),
        _ => return Err(USAGE.into()),
    };
    let mut data = match n_search {
        "empty" => data::sample_empty(),
        number => data::sample(number.parse().map_err(|_| USAGE)?),
    };
    let mut queries = String::new();
    if through_store {
        let folder = tempfile::tempdir()?;
        let store = Store::open(&folder.path().join("evidence.db"))?;
        data::record(&data, &store)?;
        let started = Instant::now();
        data = report::gather(&store, &data.run.id)?;
        queries = format!("gathered in {:.1?}, ", started.elapsed());
    }
    let started = Instant::now();
    let page = report::render(&data);
    let took = started.elapsed();
    std::fs::write(path, &page)?;
    eprintln!(
        "{path}: {} trials, {:.2} MB, {queries}rendered in {took:.1?}",
        data.trials.len(),
        page.len() as f64 / 1e6
    );
    Ok(())
}
