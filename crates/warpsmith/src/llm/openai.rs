//! OpenAI's chat completions, which most servers of open models speak too.

use serde_json::{Value, json};
use warpsmith_model::{HttpConfig, Prompt, Usage};

use super::http::{Api, Parsed};
use super::stream;

#[derive(Debug)]
pub(super) struct OpenAi {
    config: HttpConfig,
}

impl OpenAi {
    pub(super) fn new(config: &HttpConfig) -> Self {
        Self { config: config.clone() }
    }
}

impl Api for OpenAi {
    fn url(&self) -> String {
        format!("{}/chat/completions", self.config.base_url)
    }

    fn headers(&self, key: Option<&str>) -> Vec<(&'static str, String)> {
        key.map(|key| ("authorization", format!("Bearer {key}"))).into_iter().collect()
    }

    fn body(&self, prompt: &Prompt) -> Value {
        let mut body = json!({
            "model": self.config.model,
            "max_tokens": self.config.max_tokens,
            "messages": [
                { "role": "system", "content": prompt.system },
                { "role": "user", "content": prompt.user },
            ],
        });
        if let Some(temperature) = self.config.temperature {
            body["temperature"] = json!(temperature);
        }
        if self.config.stream {
            body["stream"] = json!(true);
            body["stream_options"] = json!({ "include_usage": true });
        }
        body
    }

    fn parse(&self, text: &str, is_stream: bool) -> Result<Parsed, String> {
        if !is_stream {
            let document: Value =
                serde_json::from_str(text).map_err(|_| "the answer is not JSON".to_string())?;
            let choice = &document["choices"][0];
            let content = choice["message"]["content"].as_str();
            let content = content.ok_or("the answer holds no text of a reply")?;
            return Ok(Parsed {
                text: content.to_string(),
                usage: usage(&document["usage"]),
                cut: choice["finish_reason"] == "length",
            });
        }
        let mut parsed = Parsed::default();
        let mut ended = false;
        for event in stream::events(text)? {
            if let Some(message) = event["error"]["message"].as_str() {
                return Err(format!("the stream broke off: {message}"));
            }
            let choice = &event["choices"][0];
            parsed.text.push_str(choice["delta"]["content"].as_str().unwrap_or_default());
            if let Some(reason) = choice["finish_reason"].as_str() {
                ended = true;
                parsed.cut = reason == "length";
            }
            parsed.usage = usage(&event["usage"]).or(parsed.usage);
        }
        if ended { Ok(parsed) } else { Err("the stream ended before the reply did".to_string()) }
    }
}

fn usage(value: &Value) -> Option<Usage> {
    Some(Usage {
        input_tokens: value["prompt_tokens"].as_u64()?,
        output_tokens: value["completion_tokens"].as_u64()?,
        estimated: false,
    })
}
