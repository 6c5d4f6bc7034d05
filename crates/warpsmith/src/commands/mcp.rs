//! `warpsmith mcp`: the evaluator for coding agents.

use std::io::IsTerminal;
use std::path::PathBuf;

use anyhow::{Result, bail};
use clap::Args;

use super::Context;
use crate::mcp;
use crate::output::say;

/// Serve coding agents: a Model Context Protocol server on standard input and output
///
/// Agents list labs, read kernels, evaluate candidates, profile and compare them and read the
/// leaderboard, on the same gate, clock and evidence as every other command. An agent starts this
/// program itself; docs/mcp.md says how to set it up. Standard output carries protocol messages alone.
#[derive(Debug, Args)]
pub struct McpArgs {
    /// Folder of the labs that agents may use
    #[arg(long, value_name = "DIR", default_value = "labs")]
    labs: PathBuf,
}

pub fn run(context: &Context, arguments: McpArgs) -> Result<()> {
    if context.json {
        bail!("`warpsmith mcp` speaks a protocol on standard output; --json has no meaning for it");
    }
    if std::io::stdin().is_terminal() {
        say(
            "warpsmith mcp waits for a coding agent's messages on standard input; Ctrl-D ends it\n\
             hint: docs/mcp.md says how an agent is told to start it",
        );
    }
    mcp::serve(&context.project, &arguments.labs, context.target)
}
