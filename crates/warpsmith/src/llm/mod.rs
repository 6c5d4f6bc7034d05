//! Language models: servers, programs and recorded replies behind [`Llm`].
//!
//! [`Panel`] holds the models of a configuration and asks one of them by name. Everything that
//! comes back passes [`Keys`], so that no key reaches the evidence or a log even where a server
//! echoes it.

mod anthropic;
mod command;
mod http;
mod openai;
mod recorded;
mod secret;
mod stream;
#[cfg(test)]
pub(crate) mod testing;
#[cfg(test)]
mod tests;

use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use warpsmith_model::{ModelConfig, Models, Prompt, ProviderConfig};
use warpsmith_search::evolve::{Completion, Llm, LlmError};

use crate::interrupt::Interrupt;
use recorded::Recorded;
use secret::Keys;

/// The longest reply that is read, in bytes: a source of the largest allowed size with its thought
/// is a tenth of it.
const MAX_REPLY_BYTES: usize = 1 << 20;

/// The models of a configuration.
pub struct Panel {
    models: Vec<(ModelConfig, Box<dyn Llm>)>,
    keys: Keys,
    /// The recordings among them, by name.
    recordings: Vec<(String, Recorded)>,
}

impl std::fmt::Debug for Panel {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_list().entries(self.models.iter().map(|(model, _)| model)).finish()
    }
}

impl Panel {
    /// Reads a configuration and prepares its models; a key that is missing is an error now.
    pub fn load(path: &Path, interrupt: &Interrupt) -> Result<Self> {
        let models = read(path)?;
        let dir = path.parent().unwrap_or(Path::new(""));
        let environment = |name: &str| std::env::var(name).ok();
        Self::new(models, dir, interrupt, &environment)
            .with_context(|| format!("in {}", path.display()))
    }

    /// Prepares the models of a configuration, whose files are relative to `dir` and whose keys are
    /// in `environment`.
    pub fn new(
        models: Models,
        dir: &Path,
        interrupt: &Interrupt,
        environment: &dyn Fn(&str) -> Option<String>,
    ) -> Result<Self> {
        let mut keys = Keys::default();
        let mut panel = Vec::new();
        let mut recordings = Vec::new();
        for model in models.models {
            let deadline = Duration::from_secs_f64(model.timeout_s);
            let llm: Box<dyn Llm> = match &model.provider {
                ProviderConfig::OpenAi(config) => {
                    let key = keys.read(&model.name, config.key_env.as_deref(), environment)?;
                    let api = openai::OpenAi::new(config);
                    Box::new(http::Http::new(config, Box::new(api), key, deadline, interrupt)?)
                }
                ProviderConfig::Anthropic(config) => {
                    let key = keys.read(&model.name, config.key_env.as_deref(), environment)?;
                    let api = anthropic::Anthropic::new(config);
                    Box::new(http::Http::new(config, Box::new(api), key, deadline, interrupt)?)
                }
                ProviderConfig::Command { command } => {
                    Box::new(command::Program::new(command, deadline, interrupt))
                }
                ProviderConfig::Recorded { file } => {
                    let recording = Recorded::read(&dir.join(file))?;
                    recordings.push((model.name.clone(), recording.clone()));
                    Box::new(recording)
                }
            };
            panel.push((model, llm));
        }
        Ok(Self { models: panel, keys, recordings })
    }

    /// Takes note of a call that was made before the evolution was resumed: a recording goes on
    /// after it.
    pub fn asked_before(&self, name: &str) {
        for (_, recording) in self.recordings.iter().filter(|(known, _)| known == name) {
            recording.skip();
        }
    }

    /// Asks a model by its name. Whatever comes back holds no key.
    pub fn ask(&self, name: &str, prompt: &Prompt) -> Result<Completion, LlmError> {
        let Some((_, llm)) = self.models.iter().find(|(model, _)| model.name == name) else {
            let reason = format!("the configuration has no model `{name}`");
            return Err(LlmError::Refused { reason });
        };
        match llm.complete(prompt) {
            Ok(completion) => {
                Ok(Completion { text: self.keys.redacted(&completion.text), ..completion })
            }
            Err(LlmError::Failed { reason, retries }) => {
                Err(LlmError::Failed { reason: self.keys.redacted(&reason), retries })
            }
            Err(LlmError::Refused { reason }) => {
                Err(LlmError::Refused { reason: self.keys.redacted(&reason) })
            }
            Err(LlmError::Cancelled) => Err(LlmError::Cancelled),
        }
    }

    /// Returns what a call of a model costs.
    pub fn cost(&self, name: &str, usage: &warpsmith_model::Usage) -> f64 {
        let known = self.models.iter().find(|(model, _)| model.name == name);
        known.map_or(0.0, |(model, _)| model.cost(usage))
    }

    /// Says whether any model has a price: without one a budget of money could never end anything.
    pub fn has_prices(&self) -> bool {
        self.models.iter().any(|(model, _)| model.price_in > 0.0 || model.price_out > 0.0)
    }
}

/// Reads a configuration of models.
pub fn read(path: &Path) -> Result<Models> {
    if !path.is_file() {
        bail!(
            "there is no configuration of models at {}\nhint: name one with --models; \
             docs/evolve.md has examples",
            path.display()
        );
    }
    let text = std::fs::read_to_string(path)
        .with_context(|| format!("cannot read {} as UTF-8 text", path.display()))?;
    Models::parse(&text)
        .map_err(|error| anyhow::anyhow!("the models in {} are not valid: {error}", path.display()))
}
