//! Any program as a model: the prompt goes to its standard input, the reply is what it prints.

use std::io::{Read, Write};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::{Duration, Instant};

use warpsmith_model::{Prompt, Usage};
use warpsmith_search::evolve::{Completion, Llm, LlmError};

use super::MAX_REPLY_BYTES;
use crate::interrupt::Interrupt;

const NOTICE: Duration = Duration::from_millis(20);
/// What is quoted of what a program said before it failed.
const QUOTED_BYTES: usize = 400;

/// A program that answers.
#[derive(Debug)]
pub(super) struct Program {
    command: Vec<String>,
    deadline: Duration,
    interrupt: Interrupt,
}

impl Program {
    pub(super) fn new(command: &[String], deadline: Duration, interrupt: &Interrupt) -> Self {
        Self { command: command.to_vec(), deadline, interrupt: interrupt.clone() }
    }
}

impl Llm for Program {
    fn complete(&self, prompt: &Prompt) -> Result<Completion, LlmError> {
        let (program, arguments) =
            self.command.split_first().ok_or_else(|| refused("no command"))?;
        let mut child = Command::new(program)
            .args(arguments)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            // What it starts itself ends with it.
            .process_group(0)
            .spawn()
            .map_err(|error| refused(&format!("cannot start `{program}`: {error}")))?;
        let text = format!("{}\n\n{}\n", prompt.system, prompt.user);
        if let Some(mut stdin) = child.stdin.take() {
            // A program that does not read its input may still answer.
            std::thread::spawn(move || {
                let _unread = stdin.write_all(text.as_bytes());
            });
        }
        let (send, receive) = channel();
        if let Some(stdout) = child.stdout.take() {
            let send = send.clone();
            std::thread::spawn(move || {
                let mut bytes = Vec::new();
                let read = stdout.take(MAX_REPLY_BYTES as u64 + 1).read_to_end(&mut bytes);
                let _unheard = send.send((true, read.map(|_| bytes)));
            });
        }
        if let Some(stderr) = child.stderr.take() {
            std::thread::spawn(move || {
                let mut bytes = Vec::new();
                let read = stderr.take(MAX_REPLY_BYTES as u64).read_to_end(&mut bytes);
                let _unheard = send.send((false, read.map(|_| bytes)));
            });
        }
        let (mut printed, mut said) = (None, None);
        let started = Instant::now();
        while printed.is_none() || said.is_none() {
            match receive.recv_timeout(NOTICE) {
                Ok((true, read)) => {
                    let bytes = read.map_err(|error| failed(&format!("cannot read: {error}")))?;
                    if bytes.len() > MAX_REPLY_BYTES {
                        end(&mut child);
                        return Err(failed(&format!(
                            "the reply has more than {MAX_REPLY_BYTES} bytes"
                        )));
                    }
                    printed = Some(bytes);
                }
                Ok((false, read)) => said = Some(read.unwrap_or_default()),
                Err(RecvTimeoutError::Disconnected) => break,
                Err(RecvTimeoutError::Timeout) => {}
            }
            if self.interrupt.asked() {
                end(&mut child);
                return Err(LlmError::Cancelled);
            }
            if started.elapsed() > self.deadline {
                end(&mut child);
                let seconds = self.deadline.as_secs_f64();
                return Err(failed(&format!("`{program}` gave no answer within {seconds} s")));
            }
        }
        let status = child.wait().map_err(|error| failed(&format!("lost `{program}`: {error}")))?;
        if !status.success() {
            let said = String::from_utf8_lossy(&said.unwrap_or_default()).into_owned();
            let plain = |letter: char| if letter.is_control() { ' ' } else { letter };
            let said: String = said.trim().chars().map(plain).take(QUOTED_BYTES).collect();
            return Err(failed(&format!("`{program}` ended with {status}: {said}")));
        }
        let text = String::from_utf8(printed.unwrap_or_default())
            .map_err(|_| failed("the reply is not UTF-8 text"))?;
        let usage = Usage::estimate(prompt, &text);
        Ok(Completion { text, usage, cut: false, retries: 0 })
    }
}

/// Ends a program and what it started itself: the group that it leads.
fn end(child: &mut Child) {
    let group = format!("-{}", child.id());
    let _gone_already = Command::new("kill").args(["-KILL", "--", &group]).output();
    // Where there is no such tool, the program at least.
    let _gone_already = child.kill();
    let _reaped = child.wait();
}

fn failed(reason: &str) -> LlmError {
    LlmError::Failed { reason: reason.to_string(), retries: 0 }
}

fn refused(reason: &str) -> LlmError {
    LlmError::Refused { reason: format!("{reason}\nhint: look at `command` in the configuration") }
}
