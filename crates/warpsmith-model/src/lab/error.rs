//! What is wrong with a lab, where, and what was probably meant.

use std::fmt;
use std::ops::Range;

use serde::Serialize;

/// Everything that is wrong with a lab; never empty when returned as an error.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(transparent)]
pub struct LabErrors(pub Vec<LabError>);

/// One thing that is wrong with a lab.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct LabError {
    /// The file's path, relative to the lab's folder.
    pub file: String,
    /// Where in the file; none when the file as a whole is meant.
    pub place: Option<SourceSpan>,
    /// What is wrong.
    pub message: String,
    /// What to do about it.
    pub help: Option<String>,
}

/// A place in a file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct SourceSpan {
    /// The line, from 1.
    pub line: usize,
    /// The column in characters, from 1.
    pub column: usize,
    /// How many characters are meant; at least 1.
    pub width: usize,
    /// The text of the line.
    pub text: String,
}

impl LabErrors {
    /// Puts a folder in front of every file's path, for people.
    pub fn under(mut self, folder: &str) -> Self {
        for error in &mut self.0 {
            error.file = format!("{}/{}", folder.trim_end_matches('/'), error.file);
        }
        self
    }
}

impl std::error::Error for LabErrors {}

impl fmt::Display for LabErrors {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (idx, error) in self.0.iter().enumerate() {
            let separator = if idx == 0 { "" } else { "\n" };
            write!(f, "{separator}{error}")?;
        }
        Ok(())
    }
}

impl fmt::Display for LabError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.place {
            None => write!(f, "{}: {}", self.file, self.message)?,
            Some(SourceSpan { line, column, width, text }) => {
                writeln!(f, "{}:{line}:{column}: {}", self.file, self.message)?;
                // Tabs stay tabs, so that the caret stands below what it means.
                let indent: String = text
                    .chars()
                    .take(column - 1)
                    .map(|letter| if letter == '\t' { '\t' } else { ' ' })
                    .collect();
                writeln!(f, "{line:>5} | {text}")?;
                write!(f, "      | {indent}{}", "^".repeat(*width))?;
            }
        }
        match &self.help {
            Some(help) => write!(f, "\n help: {help}"),
            None => Ok(()),
        }
    }
}

impl SourceSpan {
    /// Finds a byte range in a text; the range is cut at the end of its first line.
    pub(super) fn of(text: &str, span: Range<usize>) -> Self {
        let start = floor_boundary(text, span.start);
        let line_start = text[..start].rfind('\n').map_or(0, |newline| newline + 1);
        let line_end = text[start..].find('\n').map_or(text.len(), |length| start + length);
        let end = floor_boundary(text, span.end).clamp(start, line_end);
        Self {
            line: text[..start].matches('\n').count() + 1,
            column: text[line_start..start].chars().count() + 1,
            width: text[start..end].trim_end().chars().count().max(1),
            text: text[line_start..line_end].trim_end().to_string(),
        }
    }
}

fn floor_boundary(text: &str, offset: usize) -> usize {
    let mut offset = offset.min(text.len());
    while !text.is_char_boundary(offset) {
        offset -= 1;
    }
    offset
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, span: Range<usize>, expected: (usize, usize, usize, &str)) {
        let SourceSpan { line, column, width, text } = SourceSpan::of(text, span);
        assert_eq!((line, column, width, text.as_str()), expected);
    }

    #[test]
    fn places_count_characters_and_stay_on_their_line() {
        check("ab\ncde\n", 4..6, (2, 2, 2, "cde"));
        check("ab\ncde\n", 1..6, (1, 2, 1, "ab"));
        check("é = 1\r\nx", 5..6, (1, 5, 1, "é = 1"));
        check("é", 1..2, (1, 1, 1, "é"));
        check("", 0..0, (1, 1, 1, ""));
        check("a", 7..9, (1, 2, 1, "a"));
    }
}
