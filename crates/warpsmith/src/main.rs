//! Warpsmith: makes compute kernels fast and proves it.

#![expect(
    unreachable_pub,
    reason = "a binary has no outside; `pub` says what a module offers to its siblings"
)]

mod campaign;
mod commands;
mod date;
mod interrupt;
mod labdir;
mod output;
mod pool;
mod project;
mod worker;
mod worker_client;

use std::process::ExitCode;

use clap::Parser;

use commands::{Cli, CliFailure};
use output::{BAD, paint, say};

fn main() -> ExitCode {
    // A candidate's process is this same program; it must not pay for anything below.
    if std::env::args_os().nth(1).is_some_and(|argument| argument == "__runner") {
        warpsmith_device::cpu::runner_main();
    }
    match commands::dispatch(Cli::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            let failed = error.downcast_ref::<CliFailure>();
            say(format!("{}: {}", paint(BAD, "error"), describe(&error)));
            ExitCode::from(failed.map_or(2, CliFailure::exit_code))
        }
    }
}

/// Joins an error with its causes, without repeating a cause that its parent already quotes.
fn describe(error: &anyhow::Error) -> String {
    let mut text = String::new();
    for cause in error.chain() {
        let cause = cause.to_string();
        if text.is_empty() {
            text = cause;
        } else if !text.contains(&cause) {
            text = match text.split_once("\nhint:") {
                Some((message, hint)) => format!("{message}: {cause}\nhint:{hint}"),
                None => format!("{text}: {cause}"),
            };
        }
    }
    text
}
