//! Markup that cannot be forgotten to be escaped.
//!
//! Kernel sources, compiler logs and names are hostile input. [`Html`] is the only type that
//! enters a page as it stands, and [`html!`] is the only way to make one: every argument that is
//! not itself `Html` is escaped. Inline captures (`{name}`) do not compile, because the format
//! string reaches `format!` through `concat!`; so nothing can slip past the escaping.
//!
//! ```text
//! html!("<td title='{}'>{}</td>", hostile, html!("<b>{}</b>", other))
//! ```

use std::borrow::Cow;
use std::fmt;

/// A piece of well-formed markup.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Html(String);

/// Formats markup; every argument that is not `Html` is escaped. Numbers are coordinates: two
/// decimals at most.
macro_rules! html {
    ($format:literal $(, $argument:expr)* $(,)?) => {
        $crate::report::html::Html::trusted(format!(
            concat!($format) $(, $crate::report::html::Piece::from(&$argument))*
        ))
    };
}
pub(super) use html;

impl Html {
    /// Takes text as markup; for [`html!`] and for files that are part of this crate.
    pub(super) fn trusted(text: String) -> Self {
        Self(text)
    }

    pub(super) fn push(&mut self, other: Html) {
        self.0.push_str(&other.0);
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(super) fn into_string(self) -> String {
        self.0
    }
}

impl FromIterator<Html> for Html {
    fn from_iter<I: IntoIterator<Item = Html>>(pieces: I) -> Self {
        let mut all = Self::default();
        pieces.into_iter().for_each(|piece| all.push(piece));
        all
    }
}

/// An argument of [`html!`].
pub(super) enum Piece<'a> {
    Markup(&'a Html),
    Text(&'a str),
    Count(usize),
    Coordinate(f64),
}

impl<'a> From<&'a Html> for Piece<'a> {
    fn from(markup: &'a Html) -> Self {
        Self::Markup(markup)
    }
}

impl<'a> From<&'a &'a Html> for Piece<'a> {
    fn from(markup: &'a &'a Html) -> Self {
        Self::Markup(markup)
    }
}

impl<'a> From<&'a &'a String> for Piece<'a> {
    fn from(text: &'a &'a String) -> Self {
        Self::Text(text)
    }
}

impl<'a> From<&'a String> for Piece<'a> {
    fn from(text: &'a String) -> Self {
        Self::Text(text)
    }
}

impl<'a> From<&'a &str> for Piece<'a> {
    fn from(text: &'a &str) -> Self {
        Self::Text(text)
    }
}

impl From<&usize> for Piece<'_> {
    fn from(count: &usize) -> Self {
        Self::Count(*count)
    }
}

impl From<&f64> for Piece<'_> {
    fn from(value: &f64) -> Self {
        Self::Coordinate(*value)
    }
}

impl fmt::Display for Piece<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Markup(markup) => f.write_str(&markup.0),
            Self::Text(text) => f.write_str(&escape(text)),
            Self::Count(count) => write!(f, "{count}"),
            Self::Coordinate(value) => {
                debug_assert!(value.is_finite(), "a coordinate must be a number, got {value}");
                let text = format!("{value:.2}");
                f.write_str(text.trim_end_matches('0').trim_end_matches('.'))
            }
        }
    }
}

/// Escapes text for an element's content or a quoted attribute.
fn escape(text: &str) -> String {
    let text = visible(text);
    let mut out = String::with_capacity(text.len() + text.len() / 8);
    for character in text.chars() {
        match character {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\'' => out.push_str("&#39;"),
            other => out.push(other),
        }
    }
    out
}

/// Makes characters visible that would hide or reorder what stands beside them: control characters
/// become their pictures, and the bidirectional controls that disguise source code (Boucher and
/// Anderson, "Trojan Source", 2021) are spelt out. Line breaks and tabs stay.
pub(super) fn visible(text: &str) -> Cow<'_, str> {
    if !text.chars().any(is_hidden) {
        return Cow::Borrowed(text);
    }
    let mut out = String::with_capacity(text.len());
    let mut characters = text.chars().peekable();
    while let Some(character) = characters.next() {
        match character {
            '\r' if characters.peek() == Some(&'\n') => {}
            '\u{7f}' => out.push('\u{2421}'),
            control if is_hidden(control) && u32::from(control) < 0x20 => {
                let picture = char::from_u32(0x2400 + u32::from(control));
                out.push(picture.expect("every control character has a picture"));
            }
            hidden if is_hidden(hidden) => {
                out.push_str(&format!("⟨U+{:04X}⟩", u32::from(hidden)));
            }
            plain => out.push(plain),
        }
    }
    Cow::Owned(out)
}

fn is_hidden(character: char) -> bool {
    let is_bidirectional = matches!(character,
        '\u{200b}'..='\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' | '\u{feff}');
    (character.is_control() && !matches!(character, '\n' | '\t')) || is_bidirectional
}

/// Makes JSON safe inside a `script` element: no `<` survives, so no end tag, comment or nested
/// script can begin. JSON has these characters in strings only, where the escape means the same.
pub(super) fn json_in_script(json: &str) -> Html {
    Html::trusted(json.replace('<', "\\u003c").replace('>', "\\u003e").replace('&', "\\u0026"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_is_escaped_and_markup_is_not() {
        let check = |text: &str, expected: &str| {
            assert_eq!(html!("<p title='{}'>{}</p>", text, html!("<b>{}</b>", text)).0, expected);
        };
        check("plain", "<p title='plain'><b>plain</b></p>");
        check("a<b&c", "<p title='a&lt;b&amp;c'><b>a&lt;b&amp;c</b></p>");
        check("\"'", "<p title='&quot;&#39;'><b>&quot;&#39;</b></p>");
        check("</script>", "<p title='&lt;/script&gt;'><b>&lt;/script&gt;</b></p>");
    }

    #[test]
    fn hidden_characters_become_visible() {
        let check = |text: &str, expected: &str| assert_eq!(visible(text), expected);
        check("line\n\tnext", "line\n\tnext");
        check("dos\r\nline", "dos\nline");
        check("bar\rover", "bar\u{240d}over");
        check("\u{0}\u{1b}[31m\u{7f}", "\u{2400}\u{241b}[31m\u{2421}");
        check("if (\u{202e} evil)", "if (⟨U+202E⟩ evil)");
        check("\u{85}", "⟨U+0085⟩");
    }

    #[test]
    fn numbers_are_short_coordinates() {
        let check = |value: f64, expected: &str| assert_eq!(html!("<i x='{}'>", value).0, expected);
        check(12.0, "<i x='12'>");
        check(0.126, "<i x='0.13'>");
        check(-3.5, "<i x='-3.5'>");
        check(100.0, "<i x='100'>");
    }

    #[test]
    fn json_cannot_end_its_script_element() {
        let json = json_in_script(r#"{"a":"</script><!-- &amp;"}"#).0;
        assert_eq!(json, r#"{"a":"\u003c/script\u003e\u003c!-- \u0026amp;"}"#);
    }
}
