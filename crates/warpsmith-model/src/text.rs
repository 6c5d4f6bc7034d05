//! Texts of others, made fit for a person's eyes.

use std::borrow::Cow;

/// What stands for a character that is not shown.
pub const REPLACEMENT: char = '\u{fffd}';

/// Replaces whatever controls a terminal, lines and tabs aside. A compiler quotes its source, so a candidate could
/// clear the screen, or write over what was said of it.
pub fn printable(text: &str) -> Cow<'_, str> {
    if !text.contains(is_control) {
        return Cow::Borrowed(text);
    }
    Cow::Owned(text.replace(is_control, &REPLACEMENT.to_string()))
}

/// Says whether a character is for the terminal rather than for its reader: one that controls it, or one that
/// turns around the order in which others are shown.
pub fn is_control(c: char) -> bool {
    let turns = matches!(c, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
    c.is_control() && c != '\n' && c != '\t' || turns
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_controls_a_terminal_is_replaced_and_lines_stay() {
        assert_eq!(printable("a\tb\nc é …"), "a\tb\nc é …");
        assert_eq!(
            printable("\x1b[2Jx\ry\u{9b}z\u{202e}"),
            "\u{fffd}[2Jx\u{fffd}y\u{fffd}z\u{fffd}"
        );
    }
}
