//! The project's own chores: `cargo xtask ci` checks everything that CI checks.

mod ci;
mod headline;
mod profile_table;
mod search_tables;
mod tables;
mod tidy;
mod times_table;

use std::process::ExitCode;

const USAGE: &str = "\
Usage: cargo xtask COMMAND

Commands:
  ci      Format, lint, tidy and test everything; what CI runs
  tidy    Check the rules that no compiler knows: crate arrows, file lengths, unsafe, labs
  bench   Measure every lab, store docs/results/*.json and render the tables
  tables  Render the stored results into the Markdown files
  adopt   Take over the results of a GPU machine: `cargo xtask adopt FOLDER`
  size    Print the lines of each crate and lab";

fn main() -> ExitCode {
    let command = std::env::args().nth(1).unwrap_or_default();
    let done = match command.as_str() {
        "ci" => ci::run(),
        "tidy" => tidy::run(),
        "bench" => tables::bench(),
        "tables" => tables::write_tables(),
        "adopt" => match std::env::args().nth(2) {
            Some(folder) => tables::adopt(std::path::Path::new(&folder)),
            None => Err(anyhow::anyhow!("name the folder: `cargo xtask adopt FOLDER`")),
        },
        "size" => tidy::size(),
        _ => {
            eprintln!("{USAGE}");
            return ExitCode::from(2);
        }
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}
