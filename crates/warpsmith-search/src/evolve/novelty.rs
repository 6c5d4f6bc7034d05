//! Whether a source was seen before, comments and white space aside.

use warpsmith_model::lab::Tunable;
use warpsmith_model::{BlobId, Hasher};

/// Returns the identity of a source with its tunables: equal for texts that differ in comments and
/// white space alone.
pub(crate) fn fingerprint(source: &str, tunables: &[Tunable]) -> BlobId {
    let mut hasher = Hasher::new("normalised source");
    hasher.part(normalised(source).as_bytes());
    for tunable in tunables {
        hasher.part(format!("{} {:?}", tunable.name, tunable.values).as_bytes());
    }
    hasher.into()
}

/// Takes out comments and all white space that does not separate two words. The end of a directive
/// counts; literals stay as they are.
pub(crate) fn normalised(source: &str) -> String {
    let source = source.replace("\\\r\n", "").replace("\\\n", "");
    let mut out = String::with_capacity(source.len());
    let mut letters = source.chars().peekable();
    let mut gap = false;
    let mut in_directive = false;
    let is_word = |letter: char| letter.is_alphanumeric() || letter == '_';
    while let Some(letter) = letters.next() {
        match letter {
            '/' if letters.peek() == Some(&'/') => {
                while letters.peek().is_some_and(|next| *next != '\n') {
                    letters.next();
                }
                gap = true;
            }
            '/' if letters.peek() == Some(&'*') => {
                letters.next();
                let mut last = ' ';
                for next in letters.by_ref() {
                    if last == '*' && next == '/' {
                        break;
                    }
                    last = next;
                }
                gap = true;
            }
            '\n' if in_directive => {
                out.push('\n');
                (in_directive, gap) = (false, false);
            }
            letter if letter.is_whitespace() => gap = true,
            quote @ ('"' | '\'') => {
                out.push(quote);
                let mut escaped = false;
                for next in letters.by_ref() {
                    out.push(next);
                    if (next == quote && !escaped) || next == '\n' {
                        break;
                    }
                    escaped = next == '\\' && !escaped;
                }
                gap = false;
            }
            letter => {
                let before = out.chars().next_back();
                // In a directive a space can decide: `F (x)` is another macro than `F(x)`.
                let separates = before.is_some_and(is_word) && is_word(letter);
                if gap && (separates || (in_directive && before != Some('\n'))) {
                    out.push(' ');
                }
                if letter == '#' && before.is_none_or(|before| before == '\n' || !in_directive) {
                    in_directive = true;
                    if before.is_some_and(|before| before != '\n') {
                        out.push('\n');
                    }
                }
                out.push(letter);
                gap = false;
            }
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn comments_and_white_space_do_not_make_a_source_new() {
        let check = |one: &str, other: &str, same: bool| {
            let (one, other) = (normalised(one), normalised(other));
            assert_eq!(one == other, same, "{one:?} {other:?}");
        };
        check("int a = 1;", "int  a=1; // one", true);
        check("int a;", "int /* x */ a ;\n\n", true);
        check("int a;", "inta;", false);
        check("a + +b", "a ++b", true);
        check("char *s = \"a  b\";", "char *s = \"a b\";", false);
        check("char *s = \"// no\";", "char *s = \"\";", false);
        check("#define F(x) x\nint a;", "#define F (x) x\nint a;", false);
        check("#define A 1\nint b;", "#define A 1   // one\n  int b;", true);
        check("#define A 1\nint b;", "#define A 1 int b;", false);
        check("int a;\n#define B\nint c;", "int a;\n\n  #define B\n\nint c;", true);
        check("#define A \\\n 1", "#define A 1", true);
        check("char c = '\\'';// x", "char c = '\\'';", true);
        check("/* unfinished", "", true);
    }

    #[test]
    fn tunables_make_a_source_new() {
        let declared = |values: &[i64]| {
            let values = values.iter().copied().map(warpsmith_model::Value::Int).collect();
            [Tunable { name: "A".to_string(), values }]
        };
        assert_ne!(fingerprint("x", &declared(&[1])), fingerprint("x", &declared(&[2])));
        assert_ne!(fingerprint("x", &declared(&[1])), fingerprint("x", &[]));
        assert_eq!(fingerprint("x ", &declared(&[1])), fingerprint("x", &declared(&[1])));
    }
}
