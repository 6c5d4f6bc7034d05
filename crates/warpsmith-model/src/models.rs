//! The configuration of language models: who is asked, how, and at what price.
//!
//! A key is never in it. It names the environment variable that holds the key.

use std::path::PathBuf;

use serde::Deserialize;

use crate::{ModelChoice, ModelPolicy, Usage};

/// The models of a configuration.
#[derive(Clone, Debug, PartialEq)]
pub struct Models {
    /// How one of them is chosen.
    pub policy: ModelPolicy,
    /// The models; at least one, each name once.
    pub models: Vec<ModelConfig>,
}

/// One model.
#[derive(Clone, Debug, PartialEq)]
pub struct ModelConfig {
    /// Its name in the configuration and in the evidence.
    pub name: String,
    /// How often it is asked, beside the others.
    pub weight: f64,
    /// Who answers.
    pub provider: ProviderConfig,
    /// Seconds that a call may take, retries included.
    pub timeout_s: f64,
    /// The price of a million tokens of prompts.
    pub price_in: f64,
    /// The price of a million tokens of replies.
    pub price_out: f64,
}

/// Who answers.
#[derive(Clone, Debug, PartialEq)]
pub enum ProviderConfig {
    /// A server that speaks OpenAI's chat completions.
    OpenAi(HttpConfig),
    /// A server that speaks Anthropic's messages.
    Anthropic(HttpConfig),
    /// A program that reads the prompt on its standard input and prints the reply.
    Command {
        /// The program and its arguments.
        command: Vec<String>,
    },
    /// Replies from a file, in order.
    Recorded {
        /// The file, relative to the configuration.
        file: PathBuf,
    },
}

/// A server.
#[derive(Clone, Debug, PartialEq)]
pub struct HttpConfig {
    /// Where it is.
    pub base_url: String,
    /// The model's name there.
    pub model: String,
    /// The environment variable that holds the key; none for servers that want none.
    pub key_env: Option<String>,
    /// Whether the reply is asked for piece by piece.
    pub stream: bool,
    /// Tokens of a reply at most.
    pub max_tokens: u32,
    /// How much chance plays a part; none leaves it to the server.
    pub temperature: Option<f64>,
    /// How often a call is tried again after a failure that may pass.
    pub retries: u32,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct ModelsFile {
    #[serde(default)]
    policy: ModelPolicy,
    model: Vec<ModelFile>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct ModelFile {
    name: String,
    provider: ProviderKind,
    weight: Option<f64>,
    timeout_s: Option<f64>,
    price_in: Option<f64>,
    price_out: Option<f64>,
    base_url: Option<String>,
    model: Option<String>,
    key_env: Option<String>,
    stream: Option<bool>,
    max_tokens: Option<u32>,
    temperature: Option<f64>,
    retries: Option<u32>,
    command: Option<Vec<String>>,
    file: Option<PathBuf>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
enum ProviderKind {
    OpenAi,
    Anthropic,
    Command,
    Recorded,
}

/// Seconds that a call may take where the configuration does not say: long replies of slow models
/// take minutes.
const TIMEOUT_S: f64 = 300.0;
const MAX_TOKENS: u32 = 8192;
const RETRIES: u32 = 4;

impl Models {
    /// Reads a configuration; the error says what is wrong and where.
    pub fn parse(text: &str) -> Result<Self, String> {
        let file: ModelsFile = toml::from_str(text).map_err(|error| {
            let hint = match text.contains("key =") {
                true => {
                    "\nhint: a key is never written here; `key_env` names the environment \
                         variable that holds it"
                }
                false => "",
            };
            format!("{error}{hint}")
        })?;
        if file.model.is_empty() {
            return Err("it has no `[[model]]`".to_string());
        }
        let mut models: Vec<ModelConfig> = Vec::new();
        for model in file.model {
            let name = model.name.clone();
            if name.is_empty() || name.chars().any(char::is_control) || name.len() > 100 {
                return Err(format!("{name:?} is no name of a model: one short line of text is"));
            }
            if models.iter().any(|known| known.name == name) {
                return Err(format!("there are two models `{name}`"));
            }
            models.push(model.checked().map_err(|error| format!("model `{name}`: {error}"))?);
        }
        Ok(Self { policy: file.policy, models })
    }

    /// Returns the models as an evolution knows them.
    pub fn choices(&self) -> Vec<ModelChoice> {
        let choice =
            |model: &ModelConfig| ModelChoice { name: model.name.clone(), weight: model.weight };
        self.models.iter().map(choice).collect()
    }
}

impl ModelConfig {
    /// Returns what a call costs.
    pub fn cost(&self, usage: &Usage) -> f64 {
        let millions = |tokens: u64| tokens as f64 * 1e-6;
        millions(usage.input_tokens) * self.price_in
            + millions(usage.output_tokens) * self.price_out
    }
}

impl ModelFile {
    fn checked(self) -> Result<ModelConfig, String> {
        let positive = |name: &str, value: Option<f64>, usual: f64| match value {
            None => Ok(usual),
            Some(value) if value.is_finite() && value > 0.0 => Ok(value),
            Some(value) => Err(format!("`{name}` is {value}, but must be a positive number")),
        };
        let price = |name: &str, value: Option<f64>| match value {
            None => Ok(0.0),
            Some(value) if value.is_finite() && value >= 0.0 => Ok(value),
            Some(value) => Err(format!("`{name}` is {value}, but must not be negative")),
        };
        self.refuse_what_does_not_belong()?;
        let (weight, timeout_s) = (
            positive("weight", self.weight, 1.0)?,
            positive("timeout_s", self.timeout_s, TIMEOUT_S)?,
        );
        let (price_in, price_out) =
            (price("price_in", self.price_in)?, price("price_out", self.price_out)?);
        let name = self.name.clone();
        let provider = match self.provider {
            ProviderKind::OpenAi => ProviderConfig::OpenAi(self.http("https://api.openai.com/v1")?),
            ProviderKind::Anthropic => {
                ProviderConfig::Anthropic(self.http("https://api.anthropic.com")?)
            }
            ProviderKind::Command => match self.command {
                Some(command) if command.first().is_some_and(|program| !program.is_empty()) => {
                    ProviderConfig::Command { command }
                }
                _ => return Err("`command` must be a list: a program and its arguments".into()),
            },
            ProviderKind::Recorded => ProviderConfig::Recorded {
                file: self.file.ok_or("`file` must name the file of replies")?,
            },
        };
        Ok(ModelConfig { name, weight, provider, timeout_s, price_in, price_out })
    }

    fn http(self, usual_url: &str) -> Result<HttpConfig, String> {
        let base_url = self.base_url.unwrap_or_else(|| usual_url.to_string());
        let rest = base_url.strip_prefix("http://").or_else(|| base_url.strip_prefix("https://"));
        let host = rest.map(|rest| rest.split('/').next().unwrap_or_default());
        match host {
            None | Some("") => {
                return Err(format!(
                    "`base_url` is {base_url:?}; it begins with http:// or https://"
                ));
            }
            Some(host) if host.contains('@') => {
                return Err("`base_url` must not hold a password; use `key_env`".to_string());
            }
            Some(_) => {}
        }
        if self.max_tokens == Some(0) {
            return Err("`max_tokens` must be at least 1".to_string());
        }
        if let Some(value) = self.temperature.filter(|it| !(it.is_finite() && *it >= 0.0)) {
            return Err(format!("`temperature` is {value}, but must not be negative"));
        }
        Ok(HttpConfig {
            base_url: base_url.trim_end_matches('/').to_string(),
            model: self.model.ok_or("`model` must be the model's name at the provider")?,
            key_env: self.key_env,
            stream: self.stream.unwrap_or(false),
            max_tokens: self.max_tokens.unwrap_or(MAX_TOKENS),
            temperature: self.temperature,
            retries: self.retries.unwrap_or(RETRIES),
        })
    }

    /// A setting that a provider does not know would be ignored without a word.
    fn refuse_what_does_not_belong(&self) -> Result<(), String> {
        let is_http = matches!(self.provider, ProviderKind::OpenAi | ProviderKind::Anthropic);
        let given = [
            ("base_url", self.base_url.is_some(), is_http),
            ("model", self.model.is_some(), is_http),
            ("key_env", self.key_env.is_some(), is_http),
            ("stream", self.stream.is_some(), is_http),
            ("max_tokens", self.max_tokens.is_some(), is_http),
            ("temperature", self.temperature.is_some(), is_http),
            ("retries", self.retries.is_some(), is_http),
            ("command", self.command.is_some(), self.provider == ProviderKind::Command),
            ("file", self.file.is_some(), self.provider == ProviderKind::Recorded),
        ];
        match given.iter().find(|(_, is_given, belongs)| *is_given && !*belongs) {
            Some((name, ..)) => Err(format!("`{name}` means nothing to this provider")),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_configuration_is_read_with_its_defaults() {
        let models = Models::parse(
            "policy = \"bandit\"\n\
             [[model]]\nname = \"big\"\nprovider = \"anthropic\"\nmodel = \"m\"\n\
             key_env = \"KEY\"\nprice_in = 3\nprice_out = 15\nweight = 2\n\
             [[model]]\nname = \"local\"\nprovider = \"openai\"\nmodel = \"n\"\n\
             base_url = \"http://localhost:8080/v1/\"\nstream = true\n\
             [[model]]\nname = \"cli\"\nprovider = \"command\"\ncommand = [\"ollama\", \"run\"]\n\
             [[model]]\nname = \"tape\"\nprovider = \"recorded\"\nfile = \"replies.txt\"\n",
        )
        .expect("valid");
        assert_eq!(models.policy, ModelPolicy::Bandit);
        assert_eq!(models.choices().len(), 4);
        let usage = Usage { input_tokens: 2_000_000, output_tokens: 1_000_000, estimated: false };
        assert_eq!(models.models[0].cost(&usage), 21.0);
        assert_eq!(models.models[1].cost(&usage), 0.0);
        let ProviderConfig::OpenAi(http) = &models.models[1].provider else { panic!("openai") };
        assert_eq!((http.base_url.as_str(), http.stream), ("http://localhost:8080/v1", true));
    }

    #[test]
    fn what_is_wrong_is_said() {
        let check = |text: &str, words: &str| {
            let error = Models::parse(text).expect_err(text);
            assert!(error.contains(words), "`{words}` is not in: {error}");
        };
        let model = |rest: &str| format!("[[model]]\nname = \"a\"\n{rest}");
        check("", "model");
        check("model = []", "no `[[model]]`");
        check("nonsense", "nonsense");
        check(&model("provider = \"gpt\""), "unknown variant `gpt`");
        check(&model("provider = \"openai\""), "`model` must be");
        check(&model("provider = \"openai\"\nmodel = \"m\"\nkey = \"secret\""), "key_env");
        check(&model("provider = \"openai\"\nmodel = \"m\"\nbase_url = \"ftp://x\""), "http://");
        check(
            &model("provider = \"openai\"\nmodel = \"m\"\nbase_url = \"http://me:pw@x/\""),
            "password",
        );
        check(&model("provider = \"command\"\ncommand = []"), "`command` must be");
        check(&model("provider = \"command\"\ncommand = [\"x\"]\nmodel = \"m\""), "`model` means");
        check(&model("provider = \"recorded\""), "`file` must");
        check(&model("provider = \"recorded\"\nfile = \"x\"\nweight = -1"), "`weight` is -1");
        check(&model("provider = \"recorded\"\nfile = \"x\"\nprice_in = nan"), "`price_in`");
        let two = model("provider = \"recorded\"\nfile = \"x\"\n");
        check(&format!("{two}{two}"), "two models `a`");
    }
}
