//! One file under examination: reads it, collects what is wrong with it, finds the places.

use std::ops::Range;

use serde::de::DeserializeOwned;
use toml::Spanned;
use toml::de::{DeTable, DeValue, Deserializer};

use super::files::Located;
use super::{LabError, LabErrors, SourceSpan};
use crate::suggest::closest;
use crate::{Expr, expr};

/// A file, its text, and what was found wrong with it so far.
#[derive(Debug)]
pub(super) struct Document<'a> {
    file: String,
    text: &'a str,
    errors: Vec<LabError>,
}

/// The names that an expression may use.
#[derive(Clone, Debug)]
pub(super) struct Scope<'a> {
    /// What the names are, in words.
    pub(super) what: &'static str,
    /// The names.
    pub(super) names: Vec<&'a str>,
    /// Names that exist but not here, with what they are.
    pub(super) hidden: Vec<(&'a str, &'static str)>,
}

impl<'a> Document<'a> {
    /// Starts with a file in which nothing is wrong yet.
    pub(super) fn new(file: impl Into<String>, text: &'a str) -> Self {
        Self { file: file.into(), text, errors: Vec::new() }
    }

    /// Says whether anything is wrong.
    pub(super) fn is_clean(&self) -> bool {
        self.errors.is_empty()
    }

    /// Moves what is wrong to the end of a list, in the order of the lines.
    pub(super) fn finish(mut self, errors: &mut LabErrors) {
        let position = |error: &LabError| error.place.as_ref().map(|at| (at.line, at.column));
        self.errors.sort_by_key(position);
        errors.0.append(&mut self.errors);
    }

    /// Notes that something is wrong.
    pub(super) fn report(&mut self, span: Range<usize>, message: impl Into<String>) {
        self.report_with_help(span, message, None);
    }

    /// Notes that something is wrong and what to do about it.
    pub(super) fn report_with_help(
        &mut self,
        span: Range<usize>,
        message: impl Into<String>,
        help: Option<String>,
    ) {
        self.errors.push(LabError {
            file: self.file.clone(),
            place: Some(SourceSpan::of(self.text, span)),
            message: message.into(),
            help,
        });
    }

    /// Notes that something is wrong with the file as a whole.
    pub(super) fn report_file(&mut self, message: impl Into<String>, help: Option<String>) {
        let file = self.file.clone();
        self.errors.push(LabError { file, place: None, message: message.into(), help });
    }

    /// Reads the file's values; none when something is wrong with their types.
    ///
    /// Serde stops at its first complaint. Unknown keys are the most common one and harmless to
    /// the rest, so each is reported, taken for what was probably meant or taken out, and the
    /// reading starts over.
    pub(super) fn read<T: DeserializeOwned>(&mut self) -> Option<T> {
        let (mut root, complaints) = DeTable::parse_recoverable(self.text);
        for complaint in complaints.iter().take(MAX_COMPLAINTS) {
            self.report(complaint.span().unwrap_or_default(), complaint.message());
        }
        if !complaints.is_empty() || !self.check_format(root.get_ref()) {
            return None;
        }
        for _ in 0..MAX_COMPLAINTS {
            let error = match T::deserialize(Deserializer::from(root.clone())) {
                Ok(value) => return Some(value),
                Err(error) => error,
            };
            let span = error.span().unwrap_or_default();
            let complaint = Complaint::from_serde(error.message());
            if complaint.kind == ComplaintKind::MissingKey && span.start == 0 {
                // The whole file lacks it.
                self.report_file(complaint.message, complaint.help);
                return None;
            }
            self.report_with_help(span.clone(), complaint.message, complaint.help);
            let is_unknown_key = complaint.kind == ComplaintKind::UnknownKey;
            if !is_unknown_key || !rename_key(root.get_mut(), &span, complaint.meant.as_deref()) {
                return None;
            }
        }
        None
    }

    /// Checks the version before anything else: a newer file has keys that would be unknown here.
    fn check_format(&mut self, root: &DeTable<'_>) -> bool {
        let Some(value) = root.get("format") else {
            let help = format!("this build reads `format = {FORMAT}`");
            self.report_file("missing key `format`", Some(help));
            return false;
        };
        let version = value
            .get_ref()
            .as_integer()
            .and_then(|number| i64::from_str_radix(number.as_str(), number.radix()).ok());
        match version {
            Some(version) if version == i64::from(FORMAT) => true,
            Some(version) if version > i64::from(FORMAT) => {
                let message =
                    format!("this file has format {version}, which is newer than Warpsmith");
                let help = format!("this build reads format {FORMAT}; update Warpsmith");
                self.report_with_help(value.span(), message, Some(help));
                false
            }
            _ => {
                let message = format!("`format` must be {FORMAT}");
                self.report(value.span(), message);
                false
            }
        }
    }

    /// Parses an expression and checks its names.
    pub(super) fn expression(&mut self, text: &Located<String>, scope: &Scope<'_>) -> Option<Expr> {
        let parsed = match Expr::parse(text) {
            Ok(parsed) => parsed,
            Err(error) => {
                let rest = text.get(error.offset..).unwrap_or("");
                let is_word = |letter: char| letter.is_ascii_alphanumeric() || letter == '_';
                let width = rest.find(|letter| !is_word(letter)).unwrap_or(rest.len()).max(1);
                let span = self.inside(text, error.offset, width);
                self.report(span, format!("not an expression: {}", error.message));
                return None;
            }
        };
        let unknown: Vec<&str> =
            parsed.names().into_iter().filter(|name| !scope.names.contains(name)).collect();
        for name in &unknown {
            let offset = expr::name_offset(text, name).unwrap_or(0);
            let span = self.inside(text, offset, name.len());
            let (message, help) = scope.explain(name);
            self.report_with_help(span, message, Some(help));
        }
        unknown.is_empty().then_some(parsed)
    }

    /// Returns the place of a piece of a string value; the whole string when escapes make the
    /// piece's place uncertain.
    fn inside(&self, text: &Located<String>, offset: usize, width: usize) -> Range<usize> {
        let span = text.span();
        let raw = self.text.get(span.clone()).unwrap_or("");
        let opening = ["\"\"\"\r\n", "'''\r\n", "\"\"\"\n", "'''\n", "\"\"\"", "'''", "\"", "'"]
            .into_iter()
            .find(|opening| {
                raw.strip_prefix(opening).is_some_and(|rest| rest.starts_with(&**text))
            });
        match opening {
            Some(opening) => {
                let start = span.start + opening.len() + offset;
                start..start + width
            }
            None => span,
        }
    }

    /// Checks that a name can be a C identifier and is free of other meanings.
    pub(super) fn check_identifier(&mut self, name: &Located<String>, what: &str) -> bool {
        let message = if !is_identifier(name) {
            format!("the {what} `{}` is no C identifier", name.escape_debug())
        } else if C_KEYWORDS.contains(&name.as_str()) {
            format!("the {what} `{}` is a keyword of C", **name)
        } else if expr::is_reserved(name) {
            format!("the {what} `{}` has another meaning in expressions", **name)
        } else {
            return true;
        };
        self.report(name.span(), message);
        false
    }

    /// Checks that a text for people is one line and not empty.
    pub(super) fn check_line(&mut self, text: &Located<String>, what: &str) {
        if text.trim().is_empty() || text.contains(char::is_control) {
            self.report(text.span(), format!("the {what} must be one line of text"));
        }
    }

    /// Reports every name that stands in a list for the second time.
    pub(super) fn check_unique<'n>(
        &mut self,
        names: impl IntoIterator<Item = &'n Located<String>>,
        what: &str,
    ) {
        let mut seen: Vec<&str> = Vec::new();
        for name in names {
            if seen.contains(&name.as_str()) {
                self.report(name.span(), format!("there are two {what} named `{}`", **name));
            }
            seen.push(name);
        }
    }
}

impl Scope<'_> {
    fn explain(&self, name: &str) -> (String, String) {
        if let Some((_, what)) = self.hidden.iter().find(|(hidden, _)| *hidden == name) {
            let message = format!("`{name}` is {what}, which this expression cannot see");
            return (message, format!("it sees {}", self.what));
        }
        let help = match closest(name, self.names.iter().copied()) {
            Some(known) => format!("did you mean `{known}`?"),
            None if self.names.is_empty() => format!("it sees {}, and there are none", self.what),
            None => format!("it sees {}: {}", self.what, self.names.join(", ")),
        };
        (format!("unknown name `{name}`"), help)
    }
}

/// The version of the files of labs that this build reads.
const FORMAT: u32 = 1;

/// Enough to show every mistake a person makes at once, and a bound on the work for hostile files.
const MAX_COMPLAINTS: usize = 20;

/// Says whether a name is made of letters, digits and underscores and starts with no digit.
pub(super) fn is_identifier(name: &str) -> bool {
    !name.is_empty()
        && !name.starts_with(|first: char| first.is_ascii_digit())
        && name.chars().all(|letter| letter.is_ascii_alphanumeric() || letter == '_')
}

/// Returns the help for a name that is not in a list.
pub(super) fn did_you_mean<'n>(
    name: &str,
    known: impl IntoIterator<Item = &'n str> + Clone,
) -> Option<String> {
    if let Some(close) = closest(name, known.clone()) {
        return Some(format!("did you mean `{close}`?"));
    }
    let known: Vec<String> = known.into_iter().map(|name| format!("`{name}`")).collect();
    (!known.is_empty()).then(|| format!("known here: {}", known.join(", ")))
}

/// Takes the key at a place out and, when it is known what was meant and that is not there yet,
/// puts its value there. Says whether the key was found.
fn rename_key(table: &mut DeTable<'_>, span: &Range<usize>, meant: Option<&str>) -> bool {
    let key = table.keys().find(|key| key.span() == *span).map(|key| key.get_ref().to_string());
    let Some(key) = key else {
        return table.iter_mut().any(|(_, value)| rename_key_within(value, span, meant));
    };
    let Some(value) = table.remove(key.as_str()) else { return false };
    if let Some(meant) = meant.filter(|meant| !table.contains_key(*meant)) {
        table.insert(Spanned::new(span.clone(), meant.to_string().into()), value);
    }
    true
}

fn rename_key_within(
    value: &mut Spanned<DeValue<'_>>,
    span: &Range<usize>,
    meant: Option<&str>,
) -> bool {
    match value.get_mut() {
        DeValue::Table(table) => rename_key(table, span, meant),
        DeValue::Array(items) => items.iter_mut().any(|item| rename_key_within(item, span, meant)),
        _ => false,
    }
}

/// What serde complains about, in words for people who write labs.
struct Complaint {
    kind: ComplaintKind,
    message: String,
    help: Option<String>,
    /// What was probably meant instead of an unknown key.
    meant: Option<String>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum ComplaintKind {
    UnknownKey,
    MissingKey,
    Other,
}

impl Complaint {
    fn from_serde(text: &str) -> Self {
        let other =
            |message: String| Self { kind: ComplaintKind::Other, message, help: None, meant: None };
        if let Some(rest) = text.strip_prefix("unknown field") {
            return Self { kind: ComplaintKind::UnknownKey, ..Self::unknown("key", rest) };
        }
        if let Some(rest) = text.strip_prefix("unknown variant") {
            return Self::unknown("value", rest);
        }
        if let Some(rest) = text.strip_prefix("missing field") {
            return Self { kind: ComplaintKind::MissingKey, ..other(format!("missing key{rest}")) };
        }
        if text.contains("untagged enum Value") {
            return other("expected an integer, a float, a boolean or a text".to_string());
        }
        match text.split_once(", expected struct ") {
            Some((found, _)) => other(format!("{found}, expected a table")),
            None => other(text.to_string()),
        }
    }

    /// Reads what follows "unknown field": the word and, after a comma, those that are known, all
    /// in backticks.
    fn unknown(noun: &str, rest: &str) -> Self {
        let quoted = |text: &str| -> Vec<String> {
            text.split('`').skip(1).step_by(2).map(str::to_string).collect()
        };
        let (found, known) = rest.rsplit_once(", expected ").unwrap_or((rest, ""));
        let known = quoted(known);
        let found = found.trim().trim_matches('`');
        let known_words = known.iter().map(String::as_str);
        Self {
            kind: ComplaintKind::Other,
            message: format!("unknown {noun} `{}`", found.escape_debug()),
            help: did_you_mean(found, known_words.clone()),
            meant: closest(found, known_words).map(str::to_string),
        }
    }
}

/// The keywords of C up to C23, and `asm`, which compilers add.
const C_KEYWORDS: [&str; 60] = [
    "_Alignas",
    "_Alignof",
    "_Atomic",
    "_BitInt",
    "_Bool",
    "_Complex",
    "_Decimal128",
    "_Decimal32",
    "_Decimal64",
    "_Generic",
    "_Imaginary",
    "_Noreturn",
    "_Static_assert",
    "_Thread_local",
    "alignas",
    "alignof",
    "asm",
    "auto",
    "bool",
    "break",
    "case",
    "char",
    "const",
    "constexpr",
    "continue",
    "default",
    "do",
    "double",
    "else",
    "enum",
    "extern",
    "false",
    "float",
    "for",
    "goto",
    "if",
    "inline",
    "int",
    "long",
    "nullptr",
    "register",
    "restrict",
    "return",
    "short",
    "signed",
    "sizeof",
    "static",
    "static_assert",
    "struct",
    "switch",
    "thread_local",
    "true",
    "typedef",
    "typeof",
    "typeof_unqual",
    "union",
    "unsigned",
    "void",
    "volatile",
    "while",
];
