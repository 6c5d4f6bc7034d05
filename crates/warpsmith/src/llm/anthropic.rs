//! Anthropic's messages.

use serde_json::{Value, json};
use warpsmith_model::{HttpConfig, Prompt, Usage};

use super::http::{Api, Parsed};
use super::stream;

/// The version of the interface that is spoken here.
const VERSION: &str = "2023-06-01";

#[derive(Debug)]
pub(super) struct Anthropic {
    config: HttpConfig,
}

impl Anthropic {
    pub(super) fn new(config: &HttpConfig) -> Self {
        Self { config: config.clone() }
    }
}

impl Api for Anthropic {
    fn url(&self) -> String {
        format!("{}/v1/messages", self.config.base_url)
    }

    fn headers(&self, key: Option<&str>) -> Vec<(&'static str, String)> {
        let key = key.map(|key| ("x-api-key", key.to_string()));
        key.into_iter().chain([("anthropic-version", VERSION.to_string())]).collect()
    }

    fn body(&self, prompt: &Prompt) -> Value {
        let mut body = json!({
            "model": self.config.model,
            "max_tokens": self.config.max_tokens,
            "system": prompt.system,
            "messages": [{ "role": "user", "content": prompt.user }],
        });
        if let Some(temperature) = self.config.temperature {
            body["temperature"] = json!(temperature);
        }
        if self.config.stream {
            body["stream"] = json!(true);
        }
        body
    }

    fn parse(&self, text: &str, is_stream: bool) -> Result<Parsed, String> {
        if !is_stream {
            let document: Value =
                serde_json::from_str(text).map_err(|_| "the answer is not JSON".to_string())?;
            let parts = document["content"].as_array().ok_or("the answer holds no content")?;
            let text: String = parts.iter().filter_map(|part| part["text"].as_str()).collect();
            return Ok(Parsed {
                text,
                usage: usage(&document["usage"], &document["usage"]),
                cut: document["stop_reason"] == "max_tokens",
            });
        }
        let mut parsed = Parsed::default();
        let mut started = Value::Null;
        let mut ended = false;
        for event in stream::events(text)? {
            match event["type"].as_str().unwrap_or_default() {
                "message_start" => started = event["message"]["usage"].clone(),
                "content_block_delta" => {
                    parsed.text.push_str(event["delta"]["text"].as_str().unwrap_or_default());
                }
                "message_delta" => {
                    parsed.cut = event["delta"]["stop_reason"] == "max_tokens";
                    parsed.usage = usage(&started, &event["usage"]);
                }
                "message_stop" => ended = true,
                "error" => {
                    let message = event["error"]["message"].as_str().unwrap_or("no reason given");
                    return Err(format!("the stream broke off: {message}"));
                }
                _ => {}
            }
        }
        if ended { Ok(parsed) } else { Err("the stream ended before the reply did".to_string()) }
    }
}

/// Prompts that were read from or written to a cache are counted apart, and were read all the same.
fn usage(input: &Value, output: &Value) -> Option<Usage> {
    let cached = ["cache_creation_input_tokens", "cache_read_input_tokens"];
    let cached: u64 = cached.iter().filter_map(|name| input[*name].as_u64()).sum();
    Some(Usage {
        input_tokens: input["input_tokens"].as_u64()?.saturating_add(cached),
        output_tokens: output["output_tokens"].as_u64()?,
        estimated: false,
    })
}
