//! What a kernel includes before anything else.
//!
//! System headers take most of a compiler's time: of a kernel that uses vector intrinsics, four fifths go
//! into reading them. [`opening`] returns the part of a unit that is nothing but that, so that it can be
//! compiled once for all configurations ([`super::prelude`]).

use crate::target::Unit;

/// Returns the includes of system headers, with the conditions around them, that stand before everything
/// else in a kernel; none when there are none. A header of the lab at the end of them is looked into.
///
/// Whatever comes before a definition means the same wherever it is read, so the opening is cut at the
/// first line that is anything else: code, a macro, or what this reader does not understand.
pub(super) fn opening(unit: &Unit) -> Option<String> {
    let mut text = String::new();
    if let Some(name) = read(&unit.source, File::Kernel, &mut text)
        && let Some((_, header)) = unit.headers.iter().find(|(known, _)| *known == name)
    {
        read(header, File::Header, &mut text);
    }
    text.contains("#include").then_some(text)
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum File {
    Kernel,
    Header,
}

/// Appends the opening of one file; returns the name of the header of the lab that it ends with.
fn read(source: &str, file: File, text: &mut String) -> Option<String> {
    let code = without_comments(source)?;
    let mut lines = code.lines().map(str::trim).filter(|line| !line.is_empty()).peekable();
    // The guard of a header is passed through.
    if file == File::Header
        && let Some(name) = lines.peek().and_then(|line| directive(line)?.strip_prefix("ifndef "))
        && let mut rest = lines.clone()
        && rest.nth(1).and_then(|line| directive(line)?.strip_prefix("define ")) == Some(name)
    {
        lines = rest;
    }
    let mut depth = 0u32;
    let mut whole = text.len();
    for line in lines {
        let Some(words) = directive(line).filter(|_| !line.ends_with('\\')) else { break };
        let keyword = words.split([' ', '\t', '(', '!', '<', '"']).next().unwrap_or_default();
        match keyword {
            "pragma" if words == "pragma once" => continue,
            "include" => {
                let what = words["include".len()..].trim();
                if let Some(name) = enclosed(what, '"', '"') {
                    text.truncate(whole);
                    return (depth == 0 && file == File::Kernel).then(|| name.to_string());
                }
                if enclosed(what, '<', '>').is_none() {
                    break;
                }
            }
            "if" | "ifdef" | "ifndef" => depth += 1,
            "elif" | "else" if depth > 0 => {}
            "endif" if depth > 0 => depth -= 1,
            _ => break,
        }
        text.push('#');
        text.push_str(words);
        text.push('\n');
        if depth == 0 {
            whole = text.len();
        }
    }
    text.truncate(whole);
    None
}

/// Returns what follows the `#` of a directive.
fn directive(line: &str) -> Option<&str> {
    line.strip_prefix('#').map(str::trim)
}

/// Returns what is between two marks, if there is nothing else.
fn enclosed(what: &str, open: char, close: char) -> Option<&str> {
    let name = what.strip_prefix(open)?.strip_suffix(close)?;
    (!name.is_empty() && !name.contains([open, close])).then_some(name)
}

/// Replaces comments by spaces; none where one does not end. Knows no strings: what follows the first of
/// them is of no interest here.
pub(super) fn without_comments(source: &str) -> Option<String> {
    let mut code = String::with_capacity(source.len());
    let mut rest = source;
    while let Some(at) = rest.find('/') {
        code.push_str(&rest[..at]);
        rest = &rest[at..];
        if rest.starts_with("//") {
            let end = rest.find('\n').unwrap_or(rest.len());
            // A comment that goes on in the next line: not worth following.
            if rest[..end].ends_with('\\') {
                return None;
            }
            rest = &rest[end..];
        } else if rest.starts_with("/*") {
            let end = 2 + rest[2..].find("*/")? + 2;
            code.push(' ');
            rest = &rest[end..];
        } else {
            code.push('/');
            rest = &rest[1..];
        }
    }
    code.push_str(rest);
    Some(code)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(source: &str, expected: Option<&str>) {
        let guarded = "// A header.\n#ifndef A_H\n#define A_H\n#include <math.h>\n#define X 1\n";
        let unit = Unit {
            file_name: "kernel.c".to_string(),
            source: source.to_string(),
            headers: vec![("a.h".to_string(), guarded.to_string())],
            entries: Vec::new(),
            signature: Vec::new(),
            defines: Vec::new(),
            compiler: "gcc".to_string(),
            flags: Vec::new(),
            deadline: std::time::Duration::from_secs(1),
        };
        assert_eq!(opening(&unit).as_deref(), expected, "{source}");
    }

    #[test]
    fn an_opening_is_includes_and_the_conditions_around_them() {
        let one = Some("#include <a.h>\n");
        check("#include <a.h>\nint x;\n#include <b.h>\n", one);
        check("/* Two\n lines */ # include <a.h> // why\n", one);
        let chosen = "#if defined(__SSE__)\n#include <a.h>\n#else\n#include <b.h>\n#endif\n";
        check(chosen, Some(chosen));
        check("#include <b.h>\n#include \"a.h\"\n", Some("#include <b.h>\n#include <math.h>\n"));
        check("#include \"a.h\"\n#include <b.h>\n", Some("#include <math.h>\n"));
    }

    #[test]
    fn an_opening_ends_where_something_else_begins() {
        check("", None);
        check("int x;\n#include <a.h>\n", None);
        check("#define _GNU_SOURCE\n#include <a.h>\n", None);
        check("#if X\n#include <a.h>\n#define Y\n#endif\n", None);
        check("#if X\n#include <a.h>\n", None);
        check("#if X\n#include \"a.h\"\n#endif\n", None);
        check("#endif\n#include <a.h>\n", None);
        check("#include __FILE__\n#include <a.h>\n", None);
        check("#include \"missing.h\"\n#include <a.h>\n", None);
        check("#if 0 \\\n || 1\n#include <a.h>\n#endif\n", None);
        check("// A comment \\\n#include <a.h>\n", None);
        check("/* no end\n#include <a.h>\n", None);
        check("/*/ #define X\n*/\n#include <a.h>\n", Some("#include <a.h>\n"));
    }
}
