//! Providers against real servers and real programs.

use std::io::Write;
use std::path::Path;
use std::time::{Duration, Instant};

use warpsmith_model::{Models, Prompt, Usage};
use warpsmith_search::evolve::{Completion, LlmError};

use super::Panel;
use super::testing::{KEY, Server, reply, respond};
use crate::interrupt::Interrupt;

fn prompt() -> Prompt {
    Prompt { system: "be brief".to_string(), user: "say \"hello\"\n".to_string() }
}

fn ask(panel: &Panel) -> Result<Completion, LlmError> {
    panel.ask("one", &prompt())
}

fn failure(panel: &Panel) -> String {
    let error = ask(panel).expect_err("no reply");
    let words = error.to_string();
    assert!(!words.contains(KEY), "{words}");
    words
}

#[test]
fn chat_completions_are_asked_and_read() {
    let server = Server::start(|_, seen, stream| {
        assert!(seen.head.starts_with("POST /chat/completions "), "{}", seen.head);
        assert!(seen.head.contains(&format!("Bearer {KEY}")), "{}", seen.head);
        let body: serde_json::Value = serde_json::from_str(&seen.body).expect("JSON");
        assert_eq!(
            (&body["model"], &body["messages"][0]["content"]),
            (&"m".into(), &"be brief".into())
        );
        reply(stream, "hello");
    });
    let completion = ask(&server.panel("openai", "", &Interrupt::default())).expect("a reply");
    assert_eq!(completion.text, "hello");
    let usage = Usage { input_tokens: 100, output_tokens: 20, estimated: false };
    assert_eq!((completion.usage, completion.cut, completion.retries), (usage, false, 0));
}

#[test]
fn streams_of_both_kinds_are_put_together() {
    let openai = Server::start(|_, seen, stream| {
        assert!(seen.body.contains("\"stream\":true"), "{}", seen.body);
        let events = "data: {\"choices\":[{\"delta\":{\"content\":\"hel\"}}]}\n\n\
                      : a comment\n\n\
                      data: {\"choices\":[{\"delta\":{\"content\":\"lo\"},\"finish_reason\":\"length\"}]}\n\n\
                      data: {\"choices\":[],\"usage\":{\"prompt_tokens\":7,\"completion_tokens\":2}}\n\n\
                      data: [DONE]\n\n";
        respond(stream, 200, "content-type: text/event-stream\r\n", events.as_bytes());
    });
    let completion = ask(&openai.panel("openai", "stream = true", &Interrupt::default()));
    let completion = completion.expect("a reply");
    assert_eq!((completion.text.as_str(), completion.cut), ("hello", true));
    assert_eq!(completion.usage.tokens(), 9);

    let anthropic = Server::start(|_, seen, stream| {
        assert!(seen.head.starts_with("POST /v1/messages "), "{}", seen.head);
        assert!(
            seen.head.contains(KEY) && seen.head.contains("anthropic-version"),
            "{}",
            seen.head
        );
        if !seen.body.contains("\"stream\":true") {
            let answer = "{\"content\":[{\"type\":\"text\",\"text\":\"hello\"}],\
                          \"stop_reason\":\"end_turn\",\
                          \"usage\":{\"input_tokens\":7,\"output_tokens\":2}}";
            return respond(stream, 200, "content-type: application/json\r\n", answer.as_bytes());
        }
        let events = "event: message_start\ndata: {\"type\":\"message_start\",\"message\":{\"usage\":\
                      {\"input_tokens\":5,\"cache_read_input_tokens\":2}}}\n\n\
                      data: {\"type\":\"content_block_delta\",\"delta\":{\"text\":\"hel\"}}\n\n\
                      data: {\"type\":\"content_block_delta\",\"delta\":{\"text\":\"lo\"}}\n\n\
                      data: {\"type\":\"message_delta\",\"delta\":{\"stop_reason\":\"end_turn\"},\
                      \"usage\":{\"output_tokens\":2}}\n\n\
                      data: {\"type\":\"message_stop\"}\n\n";
        respond(stream, 200, "content-type: text/event-stream\r\n", events.as_bytes());
    });
    for more in ["stream = true", "stream = false"] {
        let completion = ask(&anthropic.panel("anthropic", more, &Interrupt::default()));
        let completion = completion.expect("a reply");
        assert_eq!((completion.text.as_str(), completion.cut), ("hello", false));
        assert_eq!(completion.usage.tokens(), 9, "{more}");
    }
}

#[test]
fn what_may_pass_is_tried_again_and_counted() {
    let server = Server::start(|number, _, stream| match number {
        0 => respond(stream, 429, "retry-after: 0.01\r\n", b"slow down"),
        1 => respond(stream, 500, "", b"oops"),
        2 => {
            // Cut off in the middle of its body.
            let _gone = stream.write_all(b"HTTP/1.1 200 ok\r\ncontent-length: 1000\r\n\r\n{\"cho");
        }
        _ => reply(stream, "hello"),
    });
    let completion = ask(&server.panel("openai", "", &Interrupt::default())).expect("a reply");
    assert_eq!((completion.text.as_str(), completion.retries), ("hello", 3));
    assert_eq!(server.requests(), 4);
    let down = Server::start(|_, _, stream| respond(stream, 503, "retry-after: 0\r\n", b""));
    let words = failure(&down.panel("openai", "retries = 2", &Interrupt::default()));
    assert!(words.contains("503"), "{words}");
    assert_eq!(down.requests(), 3);
}

#[test]
fn a_wait_that_the_server_asks_for_is_kept() {
    let server = Server::start(|number, _, stream| match number {
        0 => respond(stream, 429, "retry-after: 0.4\r\n", b""),
        _ => reply(stream, "hello"),
    });
    let started = Instant::now();
    ask(&server.panel("openai", "", &Interrupt::default())).expect("a reply");
    assert!(started.elapsed() >= Duration::from_millis(400), "{:?}", started.elapsed());
    let long = Server::start(|_, _, stream| respond(stream, 429, "retry-after: 3600\r\n", b""));
    let words = failure(&long.panel("openai", "timeout_s = 60", &Interrupt::default()));
    assert!(words.contains("no time is left"), "{words}");
    assert_eq!(long.requests(), 1, "there is no time for a second attempt");
}

#[test]
fn wrong_keys_and_unknown_models_stop_with_words_and_without_the_key() {
    let check = |status: u16, words: &str| {
        // A server that echoes what it was sent, key included.
        let server = Server::start(move |_, seen, stream| {
            let echo = format!("{{\"error\":{{\"message\":{:?}}}}}", seen.head);
            respond(stream, status, "", echo.as_bytes());
        });
        let panel = server.panel("openai", "", &Interrupt::default());
        let error = ask(&panel).expect_err("refused");
        assert!(matches!(error, LlmError::Refused { .. }), "{error:?}");
        assert!(error.to_string().contains(words), "{error}");
        assert!(!format!("{error:?}").contains(KEY), "{error:?}");
        assert!(error.to_string().contains("[key]"), "it was echoed: {error}");
        assert_eq!(server.requests(), 1);
    };
    check(401, "key_env");
    check(403, "key_env");
    check(404, "base_url");
    let server = Server::start(|_, seen, stream| reply(stream, &seen.head));
    let completion = ask(&server.panel("openai", "", &Interrupt::default())).expect("a reply");
    assert!(completion.text.contains("[key]") && !completion.text.contains(KEY));
    let away = Server::start(|_, _, stream| {
        respond(stream, 302, "location: http://127.0.0.1:1/\r\n", b"");
    });
    let words = failure(&away.panel("openai", "", &Interrupt::default()));
    assert!(words.contains("elsewhere"), "{words}");
}

#[test]
fn answers_that_cannot_be_used_are_failures_of_one_call() {
    let check = |body: &'static [u8], headers: &'static str, words: &str| {
        let server = Server::start(move |_, _, stream| respond(stream, 200, headers, body));
        let panel = server.panel("openai", "retries = 0", &Interrupt::default());
        let error = ask(&panel).expect_err("no reply");
        assert!(matches!(error, LlmError::Failed { .. }), "{error:?}");
        assert!(error.to_string().contains(words), "{error}");
    };
    check(b"\xff\xfe{}", "", "not UTF-8");
    check(b"<html>", "", "not JSON");
    check(b"", "", "not JSON");
    check(b"{}", "", "no text of a reply");
    check(b"{\"choices\":[{\"message\":{\"content\":null}}]}", "", "no text of a reply");
    let stream = "content-type: text/event-stream\r\n";
    check(b"data: {\"choices\":[{\"delta\":{\"content\":\"hel\"}}]}\n\n", stream, "ended before");
    check(b"data: not json\n\n", stream, "not JSON");
}

#[test]
fn huge_answers_and_nonsense_end_early() {
    let huge = Server::start(|_, _, stream| {
        let head = b"HTTP/1.1 200 ok\r\ncontent-length: 1000000000000\r\n\r\n";
        let part = vec![b'x'; 1 << 16];
        let mut going = stream.write_all(head).is_ok();
        while going {
            going = stream.write_all(&part).is_ok();
        }
    });
    let words = failure(&huge.panel("openai", "retries = 0", &Interrupt::default()));
    assert!(words.contains("more than"), "{words}");
    let long = Server::start(|_, _, stream| reply(stream, &"y".repeat(2 << 20)));
    let words = failure(&long.panel("openai", "retries = 0", &Interrupt::default()));
    assert!(words.contains("the reply has more than"), "{words}");
    let nonsense = Server::start(|_, _, stream| {
        let _gone = stream.write_all(b"SSH-2.0-OpenSSH_9.9\r\n");
    });
    failure(&nonsense.panel("openai", "retries = 0", &Interrupt::default()));
}

#[test]
fn a_provider_that_never_answers_is_given_up_at_the_deadline() {
    let server = Server::start(|_, _, _| std::thread::sleep(Duration::from_secs(600)));
    let panel = server.panel("openai", "timeout_s = 1", &Interrupt::default());
    let started = Instant::now();
    let words = failure(&panel);
    assert!(words.contains("no answer"), "{words}");
    assert!(started.elapsed() < Duration::from_secs(120), "{:?}", started.elapsed());
    // Nobody listens there at all.
    let text = "[[model]]\nname = \"one\"\nprovider = \"openai\"\nmodel = \"m\"\nretries = 1\n\
                base_url = \"http://127.0.0.1:1\"";
    let models = Models::parse(text).expect("a configuration");
    let interrupt = Interrupt::default();
    let panel = Panel::new(models, Path::new("."), &interrupt, &|_| None).expect("a panel");
    let words = failure(&panel);
    assert!(words.contains("cannot be reached"), "{words}");
}

#[test]
fn a_call_under_way_is_given_up_on_request() {
    let server = Server::start(|_, _, _| std::thread::sleep(Duration::from_secs(600)));
    let interrupt = Interrupt::default();
    let panel = server.panel("openai", "", &interrupt);
    let asker = interrupt.clone();
    std::thread::spawn(move || {
        std::thread::sleep(Duration::from_millis(100));
        asker.ask();
    });
    assert_eq!(ask(&panel), Err(LlmError::Cancelled));
}

#[test]
fn a_missing_key_is_an_error_before_any_call() {
    let text =
        "[[model]]\nname = \"one\"\nprovider = \"openai\"\nmodel = \"m\"\nkey_env = \"NONE\"";
    let models = || Models::parse(text).expect("a configuration");
    for value in [None, Some(" ".to_string()), Some("a\nb".to_string())] {
        let environment = |_: &str| value.clone();
        let interrupt = Interrupt::default();
        let error = Panel::new(models(), Path::new("."), &interrupt, &environment);
        let words = format!("{:#}", error.expect_err("no key"));
        assert!(words.contains("NONE"), "{words}");
    }
}

fn program(command: &str, timeout_s: f64) -> Panel {
    let text = format!(
        "[[model]]\nname = \"one\"\nprovider = \"command\"\ntimeout_s = {timeout_s}\n\
         command = [\"sh\", \"-c\", {command:?}]"
    );
    let models = Models::parse(&text).expect("a configuration");
    Panel::new(models, Path::new("."), &Interrupt::default(), &|_| None).expect("a panel")
}

#[test]
fn a_program_reads_the_prompt_and_prints_the_reply() {
    let completion = ask(&program("cat", 10.0)).expect("a reply");
    assert_eq!(completion.text, "be brief\n\nsay \"hello\"\n\n");
    assert!(completion.usage.estimated && completion.usage.tokens() > 0);
    // One that does not read its input answers too.
    assert_eq!(ask(&program("echo hi", 10.0)).expect("a reply").text, "hi\n");
    let check = |command: &str, timeout_s: f64, words: &str| {
        let error = ask(&program(command, timeout_s)).expect_err(command);
        assert!(error.to_string().contains(words), "{command}: {error}");
    };
    check("echo broken >&2; exit 3", 10.0, "broken");
    check("sleep 600", 0.3, "0.3 s");
    check("yes", 20.0, "more than");
    check("printf '\\377'", 10.0, "UTF-8");
    let text =
        "[[model]]\nname = \"one\"\nprovider = \"command\"\ncommand = [\"/no/such/program\"]";
    let models = Models::parse(text).expect("a configuration");
    let panel = Panel::new(models, Path::new("."), &Interrupt::default(), &|_| None).expect("it");
    let error = ask(&panel).expect_err("no program");
    assert!(matches!(error, LlmError::Refused { .. }), "{error:?}");
}

#[test]
fn recorded_replies_come_in_order_and_end() {
    let dir = tempfile::tempdir().expect("a folder");
    let file = dir.path().join("replies.txt");
    std::fs::write(&file, "a preface\n=== reply\none\n=== reply\ntwo\n").expect("written");
    let text = "[[model]]\nname = \"one\"\nprovider = \"recorded\"\nfile = \"replies.txt\"";
    let load = || {
        let models = Models::parse(text).expect("a configuration");
        Panel::new(models, dir.path(), &Interrupt::default(), &|_| None)
    };
    let panel = load().expect("a panel");
    panel.asked_before("one");
    assert_eq!(ask(&panel).expect("the second").text, "two\n");
    assert!(matches!(ask(&panel), Err(LlmError::Refused { .. })));
    std::fs::write(&file, "nothing marked").expect("written");
    let words = format!("{:#}", load().expect_err("no replies"));
    assert!(words.contains("=== reply"), "{words}");
}
