//! Calls over HTTP: retries with growing pauses, a deadline, limits on what is read.

use std::io::Read;
use std::sync::Arc;
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use anyhow::{Context, Result};
use serde_json::Value;
use ureq::Agent;
use warpsmith_model::{HttpConfig, Prompt, Usage};
use warpsmith_search::evolve::{Completion, Llm, LlmError};

use super::MAX_REPLY_BYTES;
use super::secret::Secret;
use crate::interrupt::Interrupt;

/// The pause before the first retry; it doubles from one to the next.
const FIRST_PAUSE: Duration = Duration::from_millis(100);
const LONGEST_PAUSE: Duration = Duration::from_secs(30);
/// How soon a request to stop is noticed.
const NOTICE: Duration = Duration::from_millis(20);
/// What is read of an answer at most: the reply's bytes, escaped and in pieces.
const MAX_BODY_BYTES: u64 = 8 * MAX_REPLY_BYTES as u64;
/// What is quoted of a server's complaint.
const QUOTED_CHARS: usize = 300;

/// What is special about a provider's interface.
pub(super) trait Api: Send + Sync + std::fmt::Debug {
    fn url(&self) -> String;
    fn headers(&self, key: Option<&str>) -> Vec<(&'static str, String)>;
    fn body(&self, prompt: &Prompt) -> Value;
    /// Reads an answer of status 200; the error says why it holds no reply.
    fn parse(&self, text: &str, is_stream: bool) -> Result<Parsed, String>;
}

/// A reply as a provider's answer held it.
#[derive(Debug, Default)]
pub(super) struct Parsed {
    pub(super) text: String,
    /// What it used, where the provider says so.
    pub(super) usage: Option<Usage>,
    pub(super) cut: bool,
}

/// A model behind HTTP.
#[derive(Debug)]
pub(super) struct Http {
    api: Arc<dyn Api>,
    agent: Agent,
    key: Option<Secret>,
    deadline: Duration,
    retries: u32,
    interrupt: Interrupt,
}

/// What one attempt came to.
enum Attempt {
    Done(Parsed),
    /// Worth another attempt, after this long where the server says so.
    Again {
        reason: String,
        after: Option<Duration>,
    },
    /// Not worth another attempt with this prompt.
    Failed(String),
    /// Not worth another attempt with any.
    Refused(String),
}

impl Http {
    pub(super) fn new(
        config: &HttpConfig,
        api: Box<dyn Api>,
        key: Option<Secret>,
        deadline: Duration,
        interrupt: &Interrupt,
    ) -> Result<Self> {
        let url = api.url();
        let uri: ureq::http::Uri =
            url.parse().with_context(|| format!("`base_url` makes no address: {url}"))?;
        let is_here = matches!(uri.host(), Some("localhost" | "127.0.0.1" | "[::1]"));
        let mut builder = Agent::config_builder()
            .http_status_as_error(false)
            // A key must not follow a redirection to another server.
            .max_redirects(0)
            .user_agent(concat!("warpsmith/", env!("CARGO_PKG_VERSION")));
        if is_here {
            builder = builder.proxy(None);
        }
        Ok(Self {
            api: Arc::from(api),
            agent: builder.build().into(),
            key,
            deadline,
            retries: config.retries,
            interrupt: interrupt.clone(),
        })
    }

    /// Makes one attempt on a thread of its own, so that a request to stop need not wait for it.
    fn attempt(&self, prompt: &Prompt, left: Duration) -> Result<Attempt, LlmError> {
        let (send, receive) = channel();
        let (agent, api) = (self.agent.clone(), Arc::clone(&self.api));
        let key = self.key.clone();
        let body = self.api.body(prompt).to_string();
        std::thread::spawn(move || {
            let key = key.as_ref().map(Secret::reveal);
            // Nobody listens any more to an attempt that was given up.
            let _unheard = send.send(post(&agent, &*api, key, &body, left));
        });
        let started = Instant::now();
        loop {
            match receive.recv_timeout(NOTICE) {
                Ok(attempt) => return Ok(attempt),
                Err(RecvTimeoutError::Disconnected) => {
                    return Ok(Attempt::Failed("the call ended without an answer".to_string()));
                }
                Err(RecvTimeoutError::Timeout) if self.interrupt.asked() => {
                    return Err(LlmError::Cancelled);
                }
                // The client has the same deadline; this is for the case that it does not hold it.
                Err(RecvTimeoutError::Timeout) if started.elapsed() > left + 10 * NOTICE => {
                    return Ok(Attempt::Failed(deadline_words(self.deadline)));
                }
                Err(RecvTimeoutError::Timeout) => {}
            }
        }
    }

    fn pause(&self, length: Duration) -> Result<(), LlmError> {
        let until = Instant::now() + length;
        while Instant::now() < until {
            if self.interrupt.asked() {
                return Err(LlmError::Cancelled);
            }
            std::thread::sleep(NOTICE.min(until.saturating_duration_since(Instant::now())));
        }
        Ok(())
    }
}

impl Llm for Http {
    fn complete(&self, prompt: &Prompt) -> Result<Completion, LlmError> {
        let started = Instant::now();
        let mut retries = 0;
        loop {
            let left = self.deadline.saturating_sub(started.elapsed());
            if left.is_zero() {
                return Err(LlmError::Failed { reason: deadline_words(self.deadline), retries });
            }
            let (reason, after) = match self.attempt(prompt, left)? {
                Attempt::Done(parsed) if parsed.text.len() > MAX_REPLY_BYTES => {
                    let reason = format!("the reply has more than {MAX_REPLY_BYTES} bytes");
                    return Err(LlmError::Failed { reason, retries });
                }
                Attempt::Done(Parsed { text, usage, cut }) => {
                    let usage = usage.unwrap_or_else(|| Usage::estimate(prompt, &text));
                    return Ok(Completion { text, usage, cut, retries });
                }
                Attempt::Failed(reason) => return Err(LlmError::Failed { reason, retries }),
                Attempt::Refused(reason) => return Err(LlmError::Refused { reason }),
                Attempt::Again { reason, after } => (reason, after),
            };
            if retries >= self.retries {
                return Err(LlmError::Failed { reason, retries });
            }
            let growing = FIRST_PAUSE.saturating_mul(1 << retries.min(16)).min(LONGEST_PAUSE);
            let pause = after.unwrap_or(growing);
            if started.elapsed() + pause >= self.deadline {
                let reason = format!("{reason}; no time is left to try again");
                return Err(LlmError::Failed { reason, retries });
            }
            self.pause(pause)?;
            retries += 1;
        }
    }
}

fn deadline_words(deadline: Duration) -> String {
    format!("no answer within {} s", deadline.as_secs_f64())
}

fn post(agent: &Agent, api: &dyn Api, key: Option<&str>, body: &str, left: Duration) -> Attempt {
    let mut request = agent
        .post(api.url())
        .config()
        .timeout_global(Some(left))
        .build()
        .header("content-type", "application/json");
    for (name, value) in api.headers(key) {
        request = request.header(name, value);
    }
    let mut response = match request.send(body) {
        Ok(response) => response,
        Err(error) => return failed_to_connect(&error),
    };
    let status = response.status().as_u16();
    let header = |name: &str| {
        let value = response.headers().get(name).and_then(|value| value.to_str().ok());
        value.map(str::to_string)
    };
    let after = header("retry-after").and_then(|value| retry_after(&value, SystemTime::now()));
    let is_stream = header("content-type").is_some_and(|it| it.contains("text/event-stream"));
    let mut bytes = Vec::new();
    let reader = response.body_mut().with_config().limit(u64::MAX).reader();
    if let Err(error) = reader.take(MAX_BODY_BYTES + 1).read_to_end(&mut bytes) {
        let reason = format!("the answer was cut off: {error}");
        return Attempt::Again { reason, after: None };
    }
    if bytes.len() as u64 > MAX_BODY_BYTES {
        return Attempt::Failed(format!("the answer has more than {MAX_BODY_BYTES} bytes"));
    }
    if status == 200 {
        let Ok(text) = String::from_utf8(bytes) else {
            return Attempt::Failed("the answer is not UTF-8 text".to_string());
        };
        return match api.parse(&text, is_stream) {
            Ok(parsed) => Attempt::Done(parsed),
            Err(reason) if is_stream => Attempt::Again { reason, after: None },
            Err(reason) => Attempt::Failed(reason),
        };
    }
    let reason = complaint(status, &String::from_utf8_lossy(&bytes));
    match status {
        408 | 429 | 500..=599 => Attempt::Again { reason, after },
        401 | 403 => Attempt::Refused(format!(
            "{reason}\nhint: is the key right that the variable named by `key_env` holds?"
        )),
        402 => Attempt::Refused(format!("{reason}\nhint: the account has no credit left")),
        404 => Attempt::Refused(format!(
            "{reason}\nhint: is `model` known there, and `base_url` right?"
        )),
        300..=399 => Attempt::Refused(format!(
            "{reason}\nhint: the server sends elsewhere; set `base_url` to that address"
        )),
        _ => Attempt::Failed(reason),
    }
}

fn failed_to_connect(error: &ureq::Error) -> Attempt {
    match error {
        ureq::Error::Timeout(_) => {
            Attempt::Again { reason: format!("no answer in time: {error}"), after: None }
        }
        ureq::Error::Io(_) | ureq::Error::ConnectionFailed | ureq::Error::HostNotFound => {
            Attempt::Again { reason: format!("the server cannot be reached: {error}"), after: None }
        }
        _ => Attempt::Again { reason: format!("the call failed: {error}"), after: None },
    }
}

/// Says what a server complained of: its message where it is JSON, else the beginning of its text.
fn complaint(status: u16, text: &str) -> String {
    let document: Value = serde_json::from_str(text).unwrap_or(Value::Null);
    let message = [&document["error"]["message"], &document["error"], &document["message"]]
        .into_iter()
        .find_map(|value| value.as_str().map(str::to_string));
    let message = message.unwrap_or_else(|| text.to_string());
    let plain = |letter: char| if letter.is_control() { ' ' } else { letter };
    let message: String = message.trim().chars().map(plain).take(QUOTED_CHARS).collect();
    if message.is_empty() {
        format!("the server answered with status {status}")
    } else {
        format!("the server answered with status {status}: {message}")
    }
}

/// Reads `Retry-After`: seconds, or a date.
fn retry_after(value: &str, now: SystemTime) -> Option<Duration> {
    let value = value.trim();
    if let Ok(seconds) = value.parse::<f64>() {
        return (seconds.is_finite() && seconds >= 0.0)
            .then(|| Duration::from_secs_f64(seconds.min(1e6)));
    }
    let at = UNIX_EPOCH.checked_add(Duration::from_secs(http_date(value)?))?;
    Some(at.duration_since(now).unwrap_or_default())
}

/// Reads `Sun, 06 Nov 1994 08:49:37 GMT` as seconds since 1970.
fn http_date(text: &str) -> Option<u64> {
    const MONTHS: [&str; 12] =
        ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];
    let words: Vec<&str> = text.split_whitespace().collect();
    let [_, day, month, year, time, "GMT"] = words[..] else { return None };
    let (day, year): (i64, i64) = (day.parse().ok()?, year.parse().ok()?);
    let month = MONTHS.iter().position(|name| *name == month)? as i64 + 1;
    let parts: Vec<i64> = time.split(':').map(|part| part.parse().ok()).collect::<Option<_>>()?;
    let [hours, minutes, seconds] = parts[..] else { return None };
    if !(1..=31).contains(&day) || !(1970..10_000).contains(&year) {
        return None;
    }
    // Days of the civil calendar, counted from March (Howard Hinnant, "chrono-compatible low-level
    // date algorithms").
    let (year, month) = if month <= 2 { (year - 1, month + 9) } else { (year, month - 3) };
    let era = year / 400;
    let of_era = year - era * 400;
    let days =
        era * 146_097 + of_era * 365 + of_era / 4 - of_era / 100 + (153 * month + 2) / 5 + day
            - 1
            - 719_468;
    u64::try_from(days * 86_400 + hours * 3600 + minutes * 60 + seconds).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn retry_after_is_seconds_or_a_date() {
        let now = UNIX_EPOCH + Duration::from_secs(784_111_770);
        let check = |text: &str, expected: Option<f64>| {
            assert_eq!(retry_after(text, now).map(|it| it.as_secs_f64()), expected, "{text}");
        };
        check("3", Some(3.0));
        check(" 0.5 ", Some(0.5));
        check("Sun, 06 Nov 1994 08:49:37 GMT", Some(7.0));
        check("Sun, 06 Nov 1994 08:49:20 GMT", Some(0.0));
        for nonsense in ["-1", "soon", "NaN", "Sun, 99 Nov 1994 08:49:37 GMT", ""] {
            check(nonsense, None);
        }
    }

    #[test]
    fn complaints_are_short_and_plain() {
        let check = |text: &str, expected: &str| assert_eq!(complaint(400, text), expected);
        let prefix = "the server answered with status 400";
        check("", prefix);
        check("{\"error\":{\"message\":\"no\"}}", &format!("{prefix}: no"));
        check("{\"error\":\"none\"}", &format!("{prefix}: none"));
        check("a\u{1b}[2Jb", &format!("{prefix}: a [2Jb"));
        assert!(complaint(500, &"x".repeat(10_000)).len() < 400);
    }
}
