//! The seam to language models.

use warpsmith_model::{Prompt, Usage};

/// Answers prompts. Where the answer comes from (a server, a program, a file) is not known here.
pub trait Llm {
    /// Asks once, with whatever retries are worth it, and returns the reply.
    fn complete(&self, prompt: &Prompt) -> Result<Completion, LlmError>;
}

/// A model's reply.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Completion {
    /// The text.
    pub text: String,
    /// What it used.
    pub usage: Usage,
    /// Whether the model stopped at its limit of tokens instead of at its end.
    pub cut: bool,
    /// How often it was asked again after a failure that may pass.
    pub retries: u32,
}

/// Why there is no reply.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LlmError {
    /// This call failed; another one may not. The evolution goes on.
    #[error("{reason}")]
    Failed {
        /// What happened, in words.
        reason: String,
        /// How often it was tried again.
        retries: u32,
    },
    /// Every call will fail like this one: a wrong key, an unknown model. The evolution stops.
    #[error("{reason}")]
    Refused {
        /// What happened and what to do, in words.
        reason: String,
    },
    /// The user asked to stop while the call was under way.
    #[error("stopped on request")]
    Cancelled,
}
