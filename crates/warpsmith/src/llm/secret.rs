//! Keys: read from the environment, used in one header, and taken out of everything else.

use anyhow::{Result, bail};

/// A key; never printed.
#[derive(Clone)]
pub(super) struct Secret(String);

impl Secret {
    #[cfg(test)]
    pub(super) fn new(text: &str) -> Self {
        Self(text.to_string())
    }

    /// Returns the key itself, for the header that carries it.
    pub(super) fn reveal(&self) -> &str {
        &self.0
    }
}

impl std::fmt::Debug for Secret {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("[key]")
    }
}

/// Every key of a configuration.
#[derive(Debug, Default)]
pub(super) struct Keys(Vec<Secret>);

impl Keys {
    /// Reads the key that a model names, and remembers it.
    pub(super) fn read(
        &mut self,
        model: &str,
        variable: Option<&str>,
        environment: &dyn Fn(&str) -> Option<String>,
    ) -> Result<Option<Secret>> {
        let Some(variable) = variable else { return Ok(None) };
        let key = environment(variable).unwrap_or_default().trim().to_string();
        if key.is_empty() {
            bail!(
                "model `{model}` wants its key in the environment variable {variable}, which is \
                 not set\nhint: export {variable}=..."
            );
        }
        if !key.chars().all(|letter| letter.is_ascii_graphic()) {
            bail!("the key in {variable} holds characters that no key has");
        }
        let secret = Secret(key);
        self.0.push(secret.clone());
        Ok(Some(secret))
    }

    #[cfg(test)]
    pub(super) fn of(keys: &[&str]) -> Self {
        Self(keys.iter().map(|key| Secret::new(key)).collect())
    }

    /// Takes every key out of a text, however a server may have written it.
    pub(super) fn redacted(&self, text: &str) -> String {
        let mut text = text.to_string();
        for Secret(key) in &self.0 {
            for form in [key.clone(), percent_encoded(key), base64(key), reversed(key)] {
                if text.contains(&form) {
                    text = text.replace(&form, "[key]");
                }
            }
        }
        text
    }
}

fn percent_encoded(key: &str) -> String {
    let encode = |byte: u8| match byte {
        b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'-' | b'_' | b'.' | b'~' => {
            char::from(byte).to_string()
        }
        other => format!("%{other:02X}"),
    };
    key.bytes().map(encode).collect()
}

fn reversed(key: &str) -> String {
    key.chars().rev().collect()
}

/// Encodes without padding, which a longer text may lack.
fn base64(key: &str) -> String {
    const LETTERS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut text = String::new();
    for chunk in key.as_bytes().chunks(3) {
        let bytes = [chunk[0], *chunk.get(1).unwrap_or(&0), *chunk.get(2).unwrap_or(&0)];
        let bits = u32::from_be_bytes([0, bytes[0], bytes[1], bytes[2]]);
        for idx in 0..=chunk.len() {
            let letter = (bits >> (18 - 6 * idx)) & 63;
            text.push(char::from(LETTERS[letter as usize]));
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_form_of_a_key_survives() {
        let keys = Keys::of(&["sk-live/42+secret"]);
        for echoed in
            ["Bearer sk-live/42+secret", "sk-live%2F42%2Bsecret", "c2stbGl2ZS80MitzZWNyZXQ"]
        {
            let text = keys.redacted(&format!("your key is {echoed}!"));
            assert!(text.contains("[key]") && !text.contains("secret"), "{text}");
        }
        assert_eq!(base64("Man"), "TWFu");
        assert_eq!(keys.redacted("nothing to hide"), "nothing to hide");
        assert_eq!(format!("{keys:?}"), "Keys([[key]])");
    }
}
