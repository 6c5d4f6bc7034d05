//! Reads replies: `name:`, `thought:`, `tunables:` and one fenced block of code.
//!
//! A reply is hostile input. Whatever it holds becomes a [`Reply`] or a [`Rejected`]; the gate judges
//! what the code does. The checks here only save evaluations: they refuse what could not pass.

use warpsmith_model::lab::Tunable;
use warpsmith_model::{Rejection, Value};

/// The largest source: the longest kernels that people wrote are a tenth of it.
pub const MAX_SOURCE_BYTES: usize = 64 << 10;
/// Tunables that a reply may declare, and the values of each.
pub(crate) const MAX_TUNABLES: usize = 4;
/// See [`MAX_TUNABLES`].
pub(crate) const MAX_VALUES: usize = 8;
/// Characters of a thought that are kept: they go into later prompts.
const MAX_THOUGHT_CHARS: usize = 600;
const MAX_TITLE_CHARS: usize = 60;

/// A well-formed reply.
#[derive(Clone, Debug, PartialEq)]
pub struct Reply {
    /// What the model calls its kernel; empty where it does not.
    pub title: String,
    /// What it had in mind; empty where it does not say.
    pub thought: String,
    /// The source.
    pub source: String,
    /// The tunables that it declares; the first value of each is the default.
    pub tunables: Vec<Tunable>,
}

/// Why a reply holds no candidate.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rejected {
    /// Of which kind the reason is.
    pub reason: Rejection,
    /// The reason in words.
    pub detail: String,
}

impl Rejected {
    pub(crate) fn new(reason: Rejection, detail: impl Into<String>) -> Self {
        Self { reason, detail: detail.into() }
    }
}

/// Reads a reply.
pub fn parse(text: &str) -> Result<Reply, Rejected> {
    let mut blocks: Vec<String> = Vec::new();
    let mut open: Option<(usize, String)> = None;
    let mut fields = Fields::default();
    for line in text.lines() {
        let ticks = line.trim_start().chars().take_while(|letter| *letter == '`').count();
        match &mut open {
            // A block ends with at least as many ticks as it began with, and nothing after them.
            Some((opened, block)) => {
                let is_end = ticks >= *opened && line.trim().chars().all(|letter| letter == '`');
                if is_end {
                    blocks.push(std::mem::take(block));
                    open = None;
                } else {
                    block.push_str(line);
                    block.push('\n');
                }
            }
            None if ticks >= 3 => open = Some((ticks, String::new())),
            None => fields.line(line),
        }
    }
    if open.is_some() {
        return Err(Rejected::new(
            Rejection::Truncated,
            "the code's fenced block has no end: the reply was cut off",
        ));
    }
    let mut blocks = blocks.into_iter().filter(|block| !block.trim().is_empty());
    let source = match (blocks.next(), blocks.count()) {
        (None, _) => {
            return Err(Rejected::new(Rejection::NoCode, "the reply has no fenced block of code"));
        }
        (Some(source), 0) => source,
        (Some(_), more) => {
            let detail = format!("the reply has {} fenced blocks of code, not one", more + 1);
            return Err(Rejected::new(Rejection::SeveralCodes, detail));
        }
    };
    check_source(&source)?;
    Ok(Reply {
        title: shortened(&fields.name, MAX_TITLE_CHARS),
        thought: shortened(&fields.thought, MAX_THOUGHT_CHARS),
        source,
        tunables: tunables(&fields.tunables)?,
    })
}

/// The text outside of code, by field.
#[derive(Debug, Default)]
struct Fields {
    name: String,
    thought: String,
    tunables: Vec<String>,
    current: Field,
}

#[derive(Clone, Copy, Debug, Default)]
enum Field {
    #[default]
    Other,
    Name,
    Thought,
    Tunables,
}

impl Fields {
    fn line(&mut self, line: &str) {
        // Models decorate keys: `**name:** x`, `### Thought: x`.
        let plain = line.trim().trim_start_matches(['*', '#', '-', ' ']);
        let (key, rest) = plain.split_once(':').unwrap_or((plain, ""));
        let key = key.trim_end_matches(['*', ' ']).to_ascii_lowercase();
        let begins = match key.as_str() {
            "name" => Some(Field::Name),
            "thought" => Some(Field::Thought),
            "tunables" => Some(Field::Tunables),
            "code" => Some(Field::Other),
            _ => None,
        };
        let content = match begins {
            Some(field) => {
                self.current = field;
                rest.trim_start_matches(['*', ' ']).trim()
            }
            None => line.trim(),
        };
        match self.current {
            Field::Name if begins.is_some() => self.name = content.to_string(),
            Field::Thought if !content.is_empty() => {
                if !self.thought.is_empty() {
                    self.thought.push(' ');
                }
                self.thought.push_str(content);
            }
            Field::Tunables if !content.is_empty() => self.tunables.push(content.to_string()),
            _ => {}
        }
    }
}

/// Cuts a text and takes everything out of it that could end its line or its quotation.
fn shortened(text: &str, most: usize) -> String {
    let plain = |letter: char| if letter.is_control() || letter == '`' { ' ' } else { letter };
    let text: String = text.trim().trim_matches(['`', '"']).chars().map(plain).take(most).collect();
    text.trim().to_string()
}

/// Refuses a source that no evaluation is worth: too large, or made of other files.
pub(crate) fn check_source(source: &str) -> Result<(), Rejected> {
    if source.len() > MAX_SOURCE_BYTES {
        let detail =
            format!("the source has {} bytes; {MAX_SOURCE_BYTES} are allowed", source.len());
        return Err(Rejected::new(Rejection::TooLarge, detail));
    }
    if source.contains('\0') {
        return Err(Rejected::new(
            Rejection::ForbiddenInclude,
            "the source holds a null character",
        ));
    }
    // What the preprocessor sees: spliced lines, and the other spelling of `#`.
    let spliced = source.replace("\\\r\n", "").replace("\\\n", "").replace("%:", "#");
    for line in spliced.lines() {
        let Some(directive) = line.trim_start().strip_prefix('#') else { continue };
        let directive = directive.trim_start();
        let word: String = directive.chars().take_while(char::is_ascii_alphanumeric).collect();
        if !(word.starts_with("include") || word == "embed" || word == "import") {
            continue;
        }
        let operand = directive[word.len()..].trim_start_matches(['_', 'n', 'e', 'x', 't']).trim();
        let named = operand.trim_start_matches(['<', '"']);
        let is_quoted = operand.starts_with('<') || operand.starts_with('"');
        let leaves = named.starts_with('/') || named.contains("..") || named.contains('\\');
        if !is_quoted || leaves || !word.starts_with("include") {
            let line: String = line.trim().chars().take(80).collect();
            let detail = format!("`{line}` asks for a file that is not a header on the path");
            return Err(Rejected::new(Rejection::ForbiddenInclude, detail));
        }
    }
    if spliced.contains(".incbin") {
        let detail = "the source embeds a file by `.incbin`";
        return Err(Rejected::new(Rejection::ForbiddenInclude, detail));
    }
    Ok(())
}

/// Judges declarations that are no text by the rules of those that are.
pub(crate) fn declared(tunables: &[(String, Vec<i64>)]) -> Result<Vec<Tunable>, Rejected> {
    let lines: Vec<String> =
        tunables.iter().map(|(name, values)| format!("{name} = {values:?}")).collect();
    let read = self::tunables(&lines)?;
    // A name that holds more than a name would be read as something else than was declared.
    let asked = tunables.iter().map(|(name, _)| name);
    match asked.zip(&read).find(|(name, read)| **name != read.name) {
        None if read.len() == tunables.len() => Ok(read),
        _ => {
            let detail = "a tunable's name is made of capital letters, digits and underscores";
            Err(Rejected::new(Rejection::BadTunables, detail))
        }
    }
}

/// Reads declarations, `NAME = [4, 1, 16]` each.
fn tunables(lines: &[String]) -> Result<Vec<Tunable>, Rejected> {
    let refuse = |detail: String| Rejected::new(Rejection::BadTunables, detail);
    let mut tunables: Vec<Tunable> = Vec::new();
    for line in lines {
        if line.eq_ignore_ascii_case("none") {
            continue;
        }
        let shown: String = line.chars().take(80).collect();
        let not_understood =
            || refuse(format!("`{shown}` is not understood; write `NAME = [4, 1, 16]`"));
        let (name, list) = line.split_once('=').ok_or_else(not_understood)?;
        let name = name.trim().trim_matches('`');
        let list = list.trim().strip_prefix('[').and_then(|list| list.split_once(']'));
        let (list, _) = list.ok_or_else(not_understood)?;
        let is_macro = name.starts_with(|letter: char| letter.is_ascii_uppercase())
            && name.len() <= 32
            && name.chars().all(|it| it.is_ascii_uppercase() || it.is_ascii_digit() || it == '_');
        if !is_macro {
            let name: String = name.chars().take(40).collect();
            let rule = "capital letters, digits and underscores, a letter first";
            return Err(refuse(format!("`{name}` is no name of a tunable: {rule}")));
        }
        if tunables.iter().any(|known| known.name == name) {
            return Err(refuse(format!("`{name}` is declared twice")));
        }
        let mut values: Vec<Value> = Vec::new();
        for text in list.split(',').map(str::trim).filter(|text| !text.is_empty()) {
            let value: i64 = text.parse().map_err(|_| {
                let text: String = text.chars().take(40).collect();
                refuse(format!("`{text}` is no value of `{name}`: values are integers"))
            })?;
            if !values.contains(&Value::Int(value)) {
                values.push(Value::Int(value));
            }
        }
        if values.is_empty() || values.len() > MAX_VALUES {
            let detail = format!("`{name}` has {} values; 1 to {MAX_VALUES} are", values.len());
            return Err(refuse(format!("{detail} allowed")));
        }
        tunables.push(Tunable { name: name.to_string(), values });
    }
    if tunables.len() > MAX_TUNABLES {
        let detail = format!("{} tunables; {MAX_TUNABLES} are allowed", tunables.len());
        return Err(refuse(detail));
    }
    Ok(tunables)
}

#[cfg(test)]
mod tests {
    use super::*;

    const GOOD: &str = "name: rows at once\ncode:\n```c\nint f(void);\n```\nthought: Fewer loads,\n\
                        more reuse.\ntunables:\nROWS = [4, 1, 16]\n";

    #[test]
    fn a_reply_in_the_stated_format_is_read() {
        let reply = parse(GOOD).expect("well-formed");
        assert_eq!(reply.title, "rows at once");
        assert_eq!(reply.thought, "Fewer loads, more reuse.");
        assert_eq!(reply.source, "int f(void);\n");
        let rows = [4, 1, 16].map(Value::Int).to_vec();
        assert_eq!(reply.tunables, [Tunable { name: "ROWS".to_string(), values: rows }]);
    }

    #[test]
    fn decorated_keys_and_code_alone_are_read() {
        let reply = parse("**Name:** `x`\n### Thought: y\n```\nint a;\n```").expect("decorated");
        assert_eq!((reply.title.as_str(), reply.thought.as_str()), ("x", "y"));
        let reply = parse("```\nint a;\n```").expect("code alone");
        assert_eq!((reply.title.as_str(), reply.source.as_str()), ("", "int a;\n"));
        let reply = parse("````c\nchar *s = \"\n```\n\";\n````").expect("a longer fence");
        assert_eq!(reply.source, "char *s = \"\n```\n\";\n");
        let reply = parse("```\nint a;\n```\ntunables: none").expect("no tunables");
        assert_eq!(reply.tunables, []);
    }

    #[test]
    fn what_holds_no_candidate_is_refused_with_a_reason() {
        let check = |text: &str, reason: Rejection, words: &str| {
            let rejected = parse(text).expect_err(text);
            assert_eq!(rejected.reason, reason, "{text}: {rejected:?}");
            assert!(rejected.detail.contains(words), "{text}: {rejected:?}");
        };
        check("", Rejection::NoCode, "no fenced block");
        check("I would unroll the loop.", Rejection::NoCode, "no fenced block");
        check("```\n```", Rejection::NoCode, "no fenced block");
        check("```\nint a;\n```\n```\nint b;\n```", Rejection::SeveralCodes, "2 fenced blocks");
        check("code:\n```c\nint a;", Rejection::Truncated, "cut off");
        let code = |code: &str| format!("```\n{code}\n```");
        check(&code(&"x".repeat(70_000)), Rejection::TooLarge, "70001 bytes");
        for include in [
            "#include \"/etc/passwd\"",
            "#include <../../secret.h>",
            "#  include MACRO",
            "#inc\\\nlude \"/etc/passwd\"",
            "%:include \"/etc/passwd\"",
            "#include_next </etc/passwd>",
            "#embed \"x\"",
            "__asm__(\".incbin \\\"/etc/passwd\\\"\");",
        ] {
            check(&code(include), Rejection::ForbiddenInclude, "");
        }
        parse(&code("#include <math.h>\n#include \"vec.h\"")).expect("headers are allowed");
        let declared = |lines: &str| format!("```\nint a;\n```\ntunables:\n{lines}");
        check(&declared("rows = [1]"), Rejection::BadTunables, "`rows`");
        check(&declared("ROWS = 4"), Rejection::BadTunables, "not understood");
        check(&declared("ROWS = []"), Rejection::BadTunables, "0 values");
        check(&declared("ROWS = [1]\nROWS = [2]"), Rejection::BadTunables, "twice");
        check(&declared("ROWS = [1, system]"), Rejection::BadTunables, "integers");
        check(&declared("ROWS = [1,2,3,4,5,6,7,8,9]"), Rejection::BadTunables, "9 values");
        let five = "A = [1]\nB = [1]\nC = [1]\nD = [1]\nE = [1]";
        check(&declared(five), Rejection::BadTunables, "5 tunables");
        check(&declared("X = [99999999999999999999]"), Rejection::BadTunables, "integers");
    }

    #[test]
    fn thoughts_stay_on_one_line_and_short() {
        let long = format!("```\nint a;\n```\nthought: a\u{1b}[31m``` b\n{}", "x".repeat(5000));
        let thought = parse(&long).expect("well-formed").thought;
        assert!(thought.chars().count() <= MAX_THOUGHT_CHARS);
        assert!(!thought.contains(['\n', '`', '\u{1b}']), "{thought}");
    }
}
