//! Server-sent events: the lines in which servers send a reply piece by piece.

use serde_json::Value;

/// Returns the JSON documents of a stream of events, in order; `[DONE]` and comments are left out.
pub(super) fn events(text: &str) -> Result<Vec<Value>, String> {
    let mut found = Vec::new();
    let mut data = String::new();
    for line in text.lines().chain([""]) {
        if let Some(part) = line.strip_prefix("data:") {
            data.push_str(part.trim_start());
        } else if line.trim().is_empty() && !data.is_empty() {
            let document = std::mem::take(&mut data);
            if document.trim() != "[DONE]" {
                let parsed = serde_json::from_str(&document);
                found.push(parsed.map_err(|_| "the stream holds an event that is not JSON")?);
            }
        }
    }
    Ok(found)
}
