//! A real server on this machine that answers as a script says.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use warpsmith_model::Models;

use super::Panel;
use crate::interrupt::Interrupt;

/// The key that tests send, and must never see again.
pub(crate) const KEY: &str = "sk-test-0123456789abcdef";

/// A request as the server saw it.
#[derive(Debug)]
pub(crate) struct Seen {
    pub(crate) head: String,
    pub(crate) body: String,
}

/// A server; it ends with the test's process.
#[derive(Debug)]
pub(crate) struct Server {
    pub(crate) url: String,
    count: Arc<AtomicUsize>,
}

impl Server {
    /// Starts a server. The script gets the number of the request and writes the bytes of the answer.
    pub(crate) fn start(
        script: impl Fn(usize, &Seen, &mut TcpStream) + Send + Sync + 'static,
    ) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let url = format!("http://{}", listener.local_addr().expect("an address"));
        let count = Arc::new(AtomicUsize::new(0));
        let (counter, script) = (Arc::clone(&count), Arc::new(script));
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let number = counter.fetch_add(1, Ordering::SeqCst);
                let script = Arc::clone(&script);
                std::thread::spawn(move || answer(number, stream, &*script));
            }
        });
        Self { url, count }
    }

    /// Returns how many requests there were.
    pub(crate) fn requests(&self) -> usize {
        self.count.load(Ordering::SeqCst)
    }

    /// Returns a panel of one model, `one`, on this server; `more` is further configuration.
    pub(crate) fn panel(&self, provider: &str, more: &str, interrupt: &Interrupt) -> Panel {
        let text = format!(
            "[[model]]\nname = \"one\"\nprovider = \"{provider}\"\nmodel = \"m\"\n\
             base_url = \"{}\"\nkey_env = \"TEST_KEY\"\n{more}",
            self.url
        );
        let models = Models::parse(&text).expect("a configuration");
        let environment = |name: &str| (name == "TEST_KEY").then(|| KEY.to_string());
        Panel::new(models, Path::new("."), interrupt, &environment).expect("a panel")
    }
}

fn answer(number: usize, mut stream: TcpStream, script: &dyn Fn(usize, &Seen, &mut TcpStream)) {
    let mut bytes = Vec::new();
    let mut buffer = [0; 4096];
    let end = loop {
        if let Some(at) = bytes.windows(4).position(|window| window == b"\r\n\r\n") {
            break at + 4;
        }
        match stream.read(&mut buffer) {
            Ok(0) | Err(_) => return,
            Ok(read) => bytes.extend_from_slice(&buffer[..read]),
        }
    };
    let head = String::from_utf8_lossy(&bytes[..end]).to_ascii_lowercase();
    let length = head.lines().find_map(|line| line.strip_prefix("content-length:"));
    let length: usize = length.and_then(|it| it.trim().parse().ok()).unwrap_or(0);
    while bytes.len() < end + length {
        match stream.read(&mut buffer) {
            Ok(0) | Err(_) => return,
            Ok(read) => bytes.extend_from_slice(&buffer[..read]),
        }
    }
    let head = String::from_utf8_lossy(&bytes[..end]).into_owned();
    let body = String::from_utf8_lossy(&bytes[end..]).into_owned();
    script(number, &Seen { head, body }, &mut stream);
}

/// Writes a whole answer; a client that has gone away does not matter.
pub(crate) fn respond(stream: &mut TcpStream, status: u16, headers: &str, body: &[u8]) {
    let head = format!(
        "HTTP/1.1 {status} status\r\ncontent-length: {}\r\nconnection: close\r\n{headers}\r\n",
        body.len()
    );
    let _gone = stream.write_all(head.as_bytes()).and_then(|()| stream.write_all(body));
}

/// Writes a reply of OpenAI's kind.
pub(crate) fn reply(stream: &mut TcpStream, text: &str) {
    let document = serde_json::json!({
        "choices": [{ "message": { "content": text }, "finish_reason": "stop" }],
        "usage": { "prompt_tokens": 100, "completion_tokens": 20 },
    });
    let headers = "content-type: application/json\r\n";
    respond(stream, 200, headers, document.to_string().as_bytes());
}
