//! Replies from a file, in order: a model that costs nothing and always says the same.
//!
//! A reply begins after a line `=== reply` and ends before the next one.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use anyhow::{Context, Result, bail};
use warpsmith_model::{Prompt, Usage};
use warpsmith_search::evolve::{Completion, Llm, LlmError};

const MARK: &str = "=== reply";

/// Replies that were written down.
#[derive(Clone, Debug)]
pub(super) struct Recorded {
    replies: Arc<Vec<String>>,
    /// The next reply to give, whichever copy is asked.
    next: Arc<AtomicUsize>,
}

impl Recorded {
    pub(super) fn read(path: &Path) -> Result<Self> {
        let text = std::fs::read_to_string(path)
            .with_context(|| format!("cannot read the recorded replies in {}", path.display()))?;
        let mut replies: Vec<String> = Vec::new();
        for line in text.lines() {
            if line.trim_end().starts_with(MARK) {
                replies.push(String::new());
            } else if let Some(reply) = replies.last_mut() {
                reply.push_str(line);
                reply.push('\n');
            }
        }
        if replies.is_empty() {
            bail!("{} holds no replies: each begins after a line `{MARK}`", path.display());
        }
        Ok(Self { replies: Arc::new(replies), next: Arc::default() })
    }

    /// Leaves out the next reply.
    pub(super) fn skip(&self) {
        self.next.fetch_add(1, Ordering::Relaxed);
    }
}

impl Llm for Recorded {
    fn complete(&self, prompt: &Prompt) -> Result<Completion, LlmError> {
        let at = self.next.fetch_add(1, Ordering::Relaxed);
        let Some(text) = self.replies.get(at) else {
            let reason = format!(
                "the recording has no more than {} replies\nhint: ask for as many --trials",
                self.replies.len()
            );
            return Err(LlmError::Refused { reason });
        };
        let usage = Usage::estimate(prompt, text);
        Ok(Completion { text: text.clone(), usage, cut: false, retries: 0 })
    }
}
