//! Splits the text of an expression into tokens.

use super::ExprError;

/// The smallest unit of an expression's text.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Token {
    Int(i64),
    Float(f64),
    Str(String),
    Name(String),
    And,
    Or,
    Not,
    In,
    If,
    Else,
    True,
    False,
    Plus,
    Minus,
    Star,
    Slash,
    DoubleSlash,
    Percent,
    DoubleStar,
    Equal,
    NotEqual,
    Less,
    LessEqual,
    Greater,
    GreaterEqual,
    OpenParen,
    CloseParen,
    OpenBracket,
    CloseBracket,
    Comma,
    End,
}

impl Token {
    /// Returns how a message calls the token.
    pub(super) fn describe(&self) -> String {
        let text = match self {
            Self::Int(value) => return format!("the number {value}"),
            Self::Float(value) => return format!("the number {value:?}"),
            Self::Str(_) => return "a text".to_string(),
            Self::Name(name) => return format!("`{name}`"),
            Self::End => return "the end".to_string(),
            Self::And => "and",
            Self::Or => "or",
            Self::Not => "not",
            Self::In => "in",
            Self::If => "if",
            Self::Else => "else",
            Self::True => "True",
            Self::False => "False",
            Self::Plus => "+",
            Self::Minus => "-",
            Self::Star => "*",
            Self::Slash => "/",
            Self::DoubleSlash => "//",
            Self::Percent => "%",
            Self::DoubleStar => "**",
            Self::Equal => "==",
            Self::NotEqual => "!=",
            Self::Less => "<",
            Self::LessEqual => "<=",
            Self::Greater => ">",
            Self::GreaterEqual => ">=",
            Self::OpenParen => "(",
            Self::CloseParen => ")",
            Self::OpenBracket => "[",
            Self::CloseBracket => "]",
            Self::Comma => ",",
        };
        format!("`{text}`")
    }
}

/// A token and the byte offset it starts at.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Spot {
    pub(super) token: Token,
    pub(super) offset: usize,
}

/// Returns the tokens of a text; the last one is always [`Token::End`].
pub(super) fn tokenize(text: &str) -> Result<Vec<Spot>, ExprError> {
    let mut tokens = Vec::new();
    let mut offset = 0;
    while let Some(first) = text[offset..].chars().next() {
        if first.is_whitespace() {
            offset += first.len_utf8();
            continue;
        }
        let rest = &text[offset..];
        let (token, length) = if first.is_ascii_digit() || starts_with_fraction(rest) {
            number(rest, offset)?
        } else if is_name_start(first) {
            word(rest, offset)?
        } else if first == '"' || first == '\'' {
            string(rest, offset)?
        } else {
            symbol(rest, offset)?
        };
        tokens.push(Spot { token, offset });
        offset += length;
    }
    tokens.push(Spot { token: Token::End, offset: text.len() });
    Ok(tokens)
}

fn starts_with_fraction(rest: &str) -> bool {
    let mut chars = rest.chars();
    chars.next() == Some('.') && chars.next().is_some_and(|next| next.is_ascii_digit())
}

fn is_name_start(letter: char) -> bool {
    letter.is_ascii_alphabetic() || letter == '_'
}

fn is_name_part(letter: char) -> bool {
    letter.is_ascii_alphanumeric() || letter == '_'
}

fn length_while(text: &str, accept: impl Fn(char) -> bool) -> usize {
    text.find(|letter| !accept(letter)).unwrap_or(text.len())
}

fn word(rest: &str, offset: usize) -> Result<(Token, usize), ExprError> {
    let length = length_while(rest, is_name_part);
    let token = match &rest[..length] {
        "and" => Token::And,
        "or" => Token::Or,
        "not" => Token::Not,
        "in" => Token::In,
        "if" => Token::If,
        "else" => Token::Else,
        "True" => Token::True,
        "False" => Token::False,
        word @ ("is" | "lambda" | "for" | "None" | "await" | "yield") => {
            return Err(error(offset, format!("expressions here have no `{word}`")));
        }
        "true" => return Err(error(offset, "truth is written `True`")),
        "false" => return Err(error(offset, "falsehood is written `False`")),
        name => Token::Name(name.to_string()),
    };
    Ok((token, length))
}

fn number(rest: &str, offset: usize) -> Result<(Token, usize), ExprError> {
    for (prefix, radix) in [("0x", 16), ("0X", 16), ("0o", 8), ("0O", 8), ("0b", 2), ("0B", 2)] {
        if let Some(digits) = rest.strip_prefix(prefix) {
            let length = length_while(digits, is_name_part);
            let value = integer(&digits[..length], radix, offset)?;
            return Ok((Token::Int(value), prefix.len() + length));
        }
    }
    let is_digit = |letter: char| letter.is_ascii_digit() || letter == '_';
    let whole = length_while(rest, is_digit);
    let mut length = whole;
    let mut is_float = false;
    if rest[length..].starts_with('.') {
        is_float = true;
        length += 1;
        length += length_while(&rest[length..], is_digit);
    }
    if rest[length..].starts_with(['e', 'E']) {
        let sign = usize::from(rest[length + 1..].starts_with(['+', '-']));
        let digits = length_while(&rest[length + 1 + sign..], is_digit);
        if digits == 0 {
            return Err(error(offset, "the exponent of this number has no digits"));
        }
        is_float = true;
        length += 1 + sign + digits;
    }
    if rest[length..].starts_with(is_name_part) {
        return Err(error(offset + length, "a number must not run into a name"));
    }
    let text = &rest[..length];
    if !is_float {
        let has_leading_zero = text.starts_with('0') && text.contains(|c| !matches!(c, '0' | '_'));
        if has_leading_zero {
            return Err(error(offset, "a whole number must not start with 0"));
        }
        return Ok((Token::Int(integer(text, 10, offset)?), length));
    }
    check_underscores(text, offset)?;
    let value = text.replace('_', "").parse();
    let value = value.map_err(|_| error(offset, format!("`{text}` is not a number")))?;
    Ok((Token::Float(value), length))
}

fn integer(digits: &str, radix: u32, offset: usize) -> Result<i64, ExprError> {
    // Python allows an underscore right after `0x`.
    check_underscores(digits.strip_prefix('_').filter(|_| radix != 10).unwrap_or(digits), offset)?;
    let plain = digits.replace('_', "");
    if plain.is_empty() || plain.contains(|digit: char| !digit.is_digit(radix)) {
        return Err(error(offset, format!("`{digits}` is not a whole number to base {radix}")));
    }
    i64::from_str_radix(&plain, radix)
        .map_err(|_| error(offset, "this number does not fit into 64 bits"))
}

fn check_underscores(text: &str, offset: usize) -> Result<(), ExprError> {
    let mut before = None;
    for (idx, letter) in text.char_indices() {
        let next = text[idx..].chars().nth(1);
        let between_digits = [before, next]
            .iter()
            .all(|side| side.is_some_and(|side: char| side.is_ascii_alphanumeric()));
        if letter == '_' && !between_digits {
            return Err(error(offset, "an underscore in a number must stand between two digits"));
        }
        before = Some(letter);
    }
    Ok(())
}

fn string(rest: &str, offset: usize) -> Result<(Token, usize), ExprError> {
    let mut chars = rest.char_indices();
    let (_, quote) = chars.next().expect("the caller saw the opening quote");
    let mut content = String::new();
    while let Some((idx, letter)) = chars.next() {
        match letter {
            letter if letter == quote => return Ok((Token::Str(content), idx + 1)),
            '\n' => break,
            '\\' => match chars.next() {
                Some((_, escaped @ ('\\' | '\'' | '"'))) => content.push(escaped),
                Some((_, 'n')) => content.push('\n'),
                Some((_, 't')) => content.push('\t'),
                _ => {
                    let message = "texts know the escapes \\\\, \\', \\\", \\n and \\t alone";
                    return Err(error(offset + idx, message));
                }
            },
            letter => content.push(letter),
        }
    }
    Err(error(offset, format!("this text has no closing {quote}")))
}

fn symbol(rest: &str, offset: usize) -> Result<(Token, usize), ExprError> {
    // Longer symbols first: `**` before `*`.
    const SYMBOLS: [(&str, Token); 18] = [
        ("**", Token::DoubleStar),
        ("//", Token::DoubleSlash),
        ("==", Token::Equal),
        ("!=", Token::NotEqual),
        ("<=", Token::LessEqual),
        (">=", Token::GreaterEqual),
        ("+", Token::Plus),
        ("-", Token::Minus),
        ("*", Token::Star),
        ("/", Token::Slash),
        ("%", Token::Percent),
        ("<", Token::Less),
        (">", Token::Greater),
        ("(", Token::OpenParen),
        (")", Token::CloseParen),
        ("[", Token::OpenBracket),
        ("]", Token::CloseBracket),
        (",", Token::Comma),
    ];
    for (hint_for, message) in [
        ("&&", "write `and` for `&&`"),
        ("||", "write `or` for `||`"),
        ("<<", "there is no `<<`; write `* 2 **`"),
        (">>", "there is no `>>`; write `// 2 **`"),
        ("?", "write `x if condition else y` for `condition ? x : y`"),
        ("{", "sets are not known here; write a list, `[...]`"),
    ] {
        if rest.starts_with(hint_for) {
            return Err(error(offset, message));
        }
    }
    for (text, token) in SYMBOLS {
        if rest.starts_with(text) {
            return Ok((token, text.len()));
        }
    }
    let message = match rest.chars().next().expect("the caller saw a character") {
        '!' => "write `not` for `!`".to_string(),
        '=' => "write `==` to compare".to_string(),
        other => format!("`{}` has no meaning here", other.escape_debug()),
    };
    Err(error(offset, message))
}

fn error(offset: usize, message: impl Into<String>) -> ExprError {
    ExprError { message: message.into(), offset }
}
