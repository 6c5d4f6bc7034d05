//! A script that answers one question: how problems are looked at when they are imported.

use std::path::Path;
use std::time::Duration;

use serde_json::Value;

use super::conversation::{Conversation, Role};
use crate::target::Fault;

/// Starts an interpreter with a program, tells it one line of JSON and returns the one that it answers,
/// or why there is none. Its process group is ended when it has answered or when the time is over.
pub fn run_script(
    interpreter: &Path,
    program: &str,
    packages: &[String],
    threads: u32,
    question: &Value,
    deadline: Duration,
) -> Result<Value, Fault> {
    let packages = packages.to_vec();
    let program = program.to_string();
    let role = Role { program, arguments: Vec::new(), name: "the problem", packages };
    let mut conversation = Conversation::start(interpreter, threads, &[], role)?;
    Ok(conversation.ask(&question.to_string(), deadline)?.said)
}
