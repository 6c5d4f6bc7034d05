//! The expression language of labs and contracts, with Python's meaning.
//!
//! An [`Expr`] is parsed once and evaluated often. Names are resolved to positions when it is
//! parsed: [`Expr::names`] lists them, and [`Expr::eval_with`] takes their values in that order,
//! without a lookup and, for numbers, without an allocation. [`Expr::eval`] binds names through a
//! function where speed does not matter.
//!
//! ```
//! use warpsmith_model::{Expr, Value};
//! let constraint = Expr::parse("BM % 16 == 0 and BM * BN <= 4096").expect("valid");
//! assert_eq!(constraint.names(), ["BM", "BN"]);
//! let value = constraint.eval_with(&[Value::Int(64), Value::Int(64)]);
//! assert_eq!(value, Ok(Value::Bool(true)));
//! ```
//!
//! Where Python would go beyond 64-bit integers, this language reports an overflow; where Python
//! would leave plain numbers (complex roots, text arithmetic), it reports an error. Nothing wraps
//! and nothing panics. Nesting is limited to [`MAX_DEPTH`], so a hostile text cannot exhaust the
//! stack.

mod eval;
mod lexer;
mod number;
mod parser;
mod tree;

use crate::Value;
use eval::Datum;
use tree::{Function, Node};

/// How deeply expressions may nest.
pub const MAX_DEPTH: usize = 200;

/// A parsed expression.
#[derive(Clone, Debug, PartialEq)]
pub struct Expr {
    text: String,
    names: Vec<String>,
    root: Node,
}

/// Why a text is not an expression.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct ExprError {
    /// What is wrong.
    pub message: String,
    /// Byte offset in the text.
    pub offset: usize,
}

/// Why an expression has no value here.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct EvalError(pub String);

impl Expr {
    /// Parses a text.
    pub fn parse(text: &str) -> Result<Self, ExprError> {
        let parser::Parsed { root, names } = parser::parse(text)?;
        Ok(Self { text: text.to_string(), names, root })
    }

    /// Returns the text it was parsed from.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// Returns the names that the expression mentions, sorted, each once.
    pub fn names(&self) -> Vec<&str> {
        self.names.iter().map(String::as_str).collect()
    }

    /// Computes the value; `values` binds the names, in the order of [`Expr::names`].
    pub fn eval_with(&self, values: &[Value]) -> Result<Value, EvalError> {
        self.datum_with(values).map(Datum::into_value)
    }

    /// Computes the truth of the value; `values` binds the names, in the order of
    /// [`Expr::names`].
    pub fn eval_bool_with(&self, values: &[Value]) -> Result<bool, EvalError> {
        self.datum_with(values).map(Datum::truth)
    }

    /// Returns the truth of the value where every name, in the order of [`Self::names`], is an
    /// integer: quickly, but only for expressions that stay within integers. None says to ask
    /// [`Self::eval_bool_with`], also where that is an error.
    pub fn eval_bool_integers(&self, values: &[i64]) -> Option<bool> {
        eval::integer(&self.root, values).map(|value| value != 0)
    }

    /// Computes the value; `lookup` binds names.
    pub fn eval(&self, lookup: &dyn Fn(&str) -> Option<Value>) -> Result<Value, EvalError> {
        let values = self.bind(lookup);
        self.datum(&values).map(Datum::into_value)
    }

    /// Computes a value that must be an integer; `True` counts as 1, and a float never counts,
    /// even a whole one, because `/` in place of `//` is a mistake that rounding would hide.
    pub fn eval_int(&self, lookup: &dyn Fn(&str) -> Option<Value>) -> Result<i64, EvalError> {
        match self.eval(lookup)? {
            Value::Int(value) => Ok(value),
            Value::Bool(value) => Ok(i64::from(value)),
            Value::Float(value) => Err(self.explain(format!(
                "{value:?} is a float where an integer is needed; divide with `//` or use `int`"
            ))),
            Value::Str(value) => {
                Err(self.explain(format!("'{value}' is a text where an integer is needed")))
            }
        }
    }

    /// Computes a value and returns its truth, as Python's `bool()`.
    pub fn eval_bool(&self, lookup: &dyn Fn(&str) -> Option<Value>) -> Result<bool, EvalError> {
        let values = self.bind(lookup);
        self.datum(&values).map(Datum::truth)
    }

    fn bind(&self, lookup: &dyn Fn(&str) -> Option<Value>) -> Vec<Option<Value>> {
        self.names.iter().map(|name| lookup(name)).collect()
    }

    /// Evaluates with names that may be unbound, as long as the value does not depend on them.
    fn datum<'a>(&'a self, values: &'a [Option<Value>]) -> Result<Datum<'a>, EvalError> {
        let lookup = |index: usize| match &values[index] {
            Some(value) => Ok(Datum::from(value)),
            None => Err(EvalError(format!("`{}` is not known", self.names[index]))),
        };
        eval::evaluate(&self.root, &lookup).map_err(|error| self.explain(error.0))
    }

    fn datum_with<'a>(&'a self, values: &'a [Value]) -> Result<Datum<'a>, EvalError> {
        if values.len() != self.names.len() {
            let (wanted, got) = (self.names.len(), values.len());
            return Err(self.explain(format!("needs the values of {wanted} names, got {got}")));
        }
        let lookup = |index: usize| Ok(Datum::from(&values[index]));
        eval::evaluate(&self.root, &lookup).map_err(|error| self.explain(error.0))
    }

    fn explain(&self, message: String) -> EvalError {
        EvalError(format!("`{}`: {message}", self.text))
    }
}

/// Says whether a word has a meaning of its own in expressions, so that nothing may be named so.
pub fn is_reserved(word: &str) -> bool {
    const WORDS: [&str; 16] = [
        "and", "or", "not", "in", "if", "else", "True", "False", "true", "false", "is", "lambda",
        "for", "None", "await", "yield",
    ];
    WORDS.contains(&word) || Function::from_name(word).is_some()
}

/// Returns the byte offset of the first mention of a name in an expression's text.
pub(crate) fn name_offset(text: &str, name: &str) -> Option<usize> {
    let tokens = lexer::tokenize(text).ok()?;
    let is_name = |token: &lexer::Token| matches!(token, lexer::Token::Name(word) if word == name);
    tokens.iter().find(|spot| is_name(&spot.token)).map(|spot| spot.offset)
}

#[cfg(test)]
mod tests;
