//! The project's own chores: `cargo xtask ci` checks everything that CI checks.

mod ci;
mod tables;
mod tidy;

use std::process::ExitCode;

const USAGE: &str = "\
Usage: cargo xtask COMMAND

Commands:
  ci      Format, lint, tidy and test everything; what CI runs
  tidy    Check the rules that no compiler knows: crate arrows, file lengths, unsafe, labs
  bench   Measure every lab, store docs/results/*.json and render the tables
  tables  Render the stored results into the Markdown files
  size    Print the lines of each crate and lab";

fn main() -> ExitCode {
    let command = std::env::args().nth(1).unwrap_or_default();
    let done = match command.as_str() {
        "ci" => ci::run(),
        "tidy" => tidy::run(),
        "bench" => tables::bench(),
        "tables" => tables::write_tables(),
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
