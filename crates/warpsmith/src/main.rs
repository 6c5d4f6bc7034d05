//! Warpsmith: makes compute kernels fast and proves it.

#![expect(
    unreachable_pub,
    reason = "a binary has no outside; `pub` says what a module offers to its siblings"
)]

mod background_compiler;
mod campaign;
mod commands;
mod damage;
mod import;
mod interrupt;
mod kernel_text;
mod labdir;
mod llm;
mod mcp;
mod output;
mod pool;
mod project;
mod quiet;
mod recorded_file;
mod winner_table;
mod worker;
mod worker_client;

use std::process::ExitCode;

use clap::Parser;
use warpsmith_device::{cpu, cuda};

use commands::Cli;
use output::{BAD, paint, say};

fn main() -> ExitCode {
    // A candidate's process is this same program; it must not pay for anything below.
    let first = std::env::args_os().nth(1);
    match first.as_ref().and_then(|argument| argument.to_str()) {
        Some(cpu::RUNNER_ARGUMENT) => cpu::runner_main(),
        Some(cuda::COMPILE_ARGUMENT) => cuda::compile_main(),
        Some(cuda::DEVICE_ARGUMENT) => cuda::device_main(),
        _ => {}
    }
    warpsmith_device::survive_file_limit();
    match commands::dispatch(Cli::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            say(format!("{}: {}", paint(BAD, "error"), describe(&error)));
            ExitCode::from(commands::exit_code(&error))
        }
    }
}

/// Joins an error with its causes, without repeating a cause that its parent already quotes. A hint stands behind
/// all of them, also where it is all that was added to an error.
fn describe(error: &anyhow::Error) -> String {
    let mut text = String::new();
    let mut hint = None;
    for cause in error.chain() {
        let cause = cause.to_string();
        if text.is_empty() && hint.is_none() && cause.starts_with("hint:") {
            hint = Some(cause);
            continue;
        }
        if text.is_empty() {
            text = cause;
        } else if !text.contains(&cause) {
            text = match text.split_once("\nhint:") {
                Some((message, hint)) => format!("{message}: {cause}\nhint:{hint}"),
                None => format!("{text}: {cause}"),
            };
        }
    }
    match hint {
        Some(hint) => format!("{text}\n{hint}"),
        None => text,
    }
}

#[cfg(test)]
mod tests {
    use anyhow::anyhow;

    use super::describe;

    #[test]
    fn a_hint_stands_behind_what_went_wrong() {
        let error =
            anyhow!("no space").context("cannot write").context("hint: --out names another");
        assert_eq!(describe(&error), "cannot write: no space\nhint: --out names another");
        let error = anyhow!("no space").context("cannot write\nhint: free some");
        assert_eq!(describe(&error), "cannot write: no space\nhint: free some");
    }
}
