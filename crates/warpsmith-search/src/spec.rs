//! Spaces as other tools write them down: tunables and constraints, without measurements.
//!
//! Two formats are read. The plain one is `{name, params: {NAME: [values]}, constraints: [texts]}`;
//! the other is T1, the input format of the FAIR auto-tuning effort, whose lists of values are
//! Python expressions such as `[1, 2] + list(range(32, 129, 32))`.

use serde_json::Value as Json;
use warpsmith_model::lab::Tunable;
use warpsmith_model::{EvalError, Expr, ExprError, Value};

use crate::space::{Space, SpaceError};

/// Values that one list may have; more is a mistake or an attack.
const MAX_VALUES: usize = 1 << 16;

/// A space as it is written down.
#[derive(Clone, Debug)]
pub struct SpaceSpec {
    /// Its name; empty where the file has none.
    pub name: String,
    /// The tunables.
    pub tunables: Vec<Tunable>,
    /// The constraints.
    pub constraints: Vec<Expr>,
}

/// Why a file is not a space.
#[derive(Debug, thiserror::Error)]
pub enum SpecError {
    /// Nothing is in it.
    #[error("the file is empty")]
    NoBytes,
    /// It is not JSON.
    #[error("not JSON")]
    NotJson(#[from] serde_json::Error),
    /// It is JSON, but of something else.
    #[error(
        "neither a space, which has `params` and `constraints`, nor a T1 input file, which has \
         `ConfigurationSpace`"
    )]
    Unknown,
    /// A field is missing or of another kind.
    #[error("{place} is not {expected}")]
    Field {
        /// Where.
        place: String,
        /// What it should be.
        expected: &'static str,
    },
    /// A constraint or a list of values cannot be parsed.
    #[error("{place}: `{text}`")]
    Expression {
        /// Where.
        place: String,
        /// The text.
        text: String,
        /// What is wrong with it.
        #[source]
        source: ExprError,
    },
    /// An expression in a list of values has no value.
    #[error("{place}: `{text}` has no value")]
    NoValue {
        /// Where.
        place: String,
        /// The text.
        text: String,
        /// Why.
        #[source]
        source: EvalError,
    },
    /// A list of values is longer than a tunable can be.
    #[error("{place} has more than {MAX_VALUES} values")]
    TooManyValues {
        /// Where.
        place: String,
    },
    /// Tunables and constraints do not make a space.
    #[error(transparent)]
    Space(#[from] SpaceError),
}

impl SpaceSpec {
    /// Reads either format.
    pub fn read(bytes: &[u8]) -> Result<Self, SpecError> {
        if bytes.iter().all(u8::is_ascii_whitespace) {
            return Err(SpecError::NoBytes);
        }
        let document: Json = serde_json::from_slice(bytes)?;
        if document.get("ConfigurationSpace").is_some() {
            t1(&document)
        } else if document.get("params").is_some() {
            plain(&document)
        } else {
            Err(SpecError::Unknown)
        }
    }

    /// Writes the plain format.
    pub fn to_json(&self) -> Json {
        let params: serde_json::Map<String, Json> = self
            .tunables
            .iter()
            .map(|tunable| (tunable.name.clone(), serde_json::json!(tunable.values)))
            .collect();
        let constraints: Vec<&str> = self.constraints.iter().map(Expr::text).collect();
        serde_json::json!({ "name": self.name, "params": params, "constraints": constraints })
    }

    /// Builds the space.
    pub fn space(&self) -> Result<Space, SpaceError> {
        Space::new(&self.tunables, &self.constraints, &|_| None)
    }
}

fn plain(document: &Json) -> Result<SpaceSpec, SpecError> {
    let params = document["params"]
        .as_object()
        .ok_or_else(|| field("`params`", "an object of lists of values"))?;
    let mut tunables = Vec::new();
    for (name, values) in params {
        let place = format!("`params.{name}`");
        let values = values.as_array().ok_or_else(|| field(&place, "a list of values"))?;
        let values = values.iter().map(|value| scalar(value, &place)).collect::<Result<_, _>>()?;
        tunables.push(Tunable { name: name.clone(), values });
    }
    let texts = match &document["constraints"] {
        Json::Null => &Vec::new(),
        other => other.as_array().ok_or_else(|| field("`constraints`", "a list of texts"))?,
    };
    let constraints =
        texts.iter().map(|text| constraint(text, "`constraints`")).collect::<Result<_, _>>()?;
    Ok(SpaceSpec { name: text_of(&document["name"]), tunables, constraints })
}

fn t1(document: &Json) -> Result<SpaceSpec, SpecError> {
    let space = &document["ConfigurationSpace"];
    let parameters = space["TuningParameters"]
        .as_array()
        .ok_or_else(|| field("`ConfigurationSpace.TuningParameters`", "a list"))?;
    let mut tunables = Vec::new();
    for parameter in parameters {
        let name = text_of(&parameter["Name"]);
        if name.is_empty() {
            return Err(field("`Name` of a tuning parameter", "a text"));
        }
        let place = format!("`Values` of `{name}`");
        let values = match &parameter["Values"] {
            Json::Array(values) => {
                values.iter().map(|value| scalar(value, &place)).collect::<Result<_, _>>()?
            }
            Json::String(text) => list(text, &place)?,
            _ => return Err(field(&place, "a list or the text of one")),
        };
        tunables.push(Tunable { name, values });
    }
    let conditions = match &space["Conditions"] {
        Json::Null => &Vec::new(),
        other => {
            other.as_array().ok_or_else(|| field("`ConfigurationSpace.Conditions`", "a list"))?
        }
    };
    let constraints = conditions
        .iter()
        .map(|condition| constraint(&condition["Expression"], "`Expression` of a condition"))
        .collect::<Result<_, _>>()?;
    let name = text_of(&document["General"]["BenchmarkName"]);
    Ok(SpaceSpec { name, tunables, constraints })
}

/// Evaluates a Python expression of lists: literals, ranges, comprehensions over one range, and
/// sums of these.
fn list(text: &str, place: &str) -> Result<Vec<Value>, SpecError> {
    let mut values = Vec::new();
    for term in split(text, '+') {
        let term = term.trim();
        let inside = |open: &str, close: &str| {
            term.strip_prefix(open).and_then(|rest| rest.strip_suffix(close))
        };
        if let Some(range) = inside("list(range(", "))").or_else(|| inside("range(", ")")) {
            values.extend(numbers(range, place)?.into_iter().map(Value::Int));
        } else if let Some(items) = inside("[", "]").or_else(|| inside("(", ")")) {
            values.extend(bracketed(items, place)?);
        } else {
            return Err(field(&format!("{place}, `{term}`,"), "a list that can be read"));
        }
        if values.len() > MAX_VALUES {
            return Err(SpecError::TooManyValues { place: place.to_string() });
        }
    }
    Ok(values)
}

/// Evaluates what is between brackets.
fn bracketed(items: &str, place: &str) -> Result<Vec<Value>, SpecError> {
    if let Some((item, rest)) = items.split_once(" for ") {
        let understood = rest.split_once(" in ").and_then(|(variable, range)| {
            let range = range.trim();
            let inside = range.strip_prefix("range(").and_then(|range| range.strip_suffix(')'))?;
            Some((variable.trim(), inside))
        });
        let Some((variable, range)) = understood else {
            return Err(field(&format!("{place}, `[{items}]`,"), "a comprehension over one range"));
        };
        let item = parse(item, place)?;
        let bound = |number: i64| {
            let value = item.eval(&|name: &str| (name == variable).then_some(Value::Int(number)));
            value.map_err(|source| no_value(place, item.text(), source))
        };
        return numbers(range, place)?.into_iter().map(bound).collect();
    }
    let items = split(items, ',').into_iter().map(str::trim).filter(|item| !item.is_empty());
    items.map(|item| literal(item, place)).collect()
}

fn literal(item: &str, place: &str) -> Result<Value, SpecError> {
    for quote in ['"', '\''] {
        let inside = item.strip_prefix(quote).and_then(|item| item.strip_suffix(quote));
        if let Some(text) = inside {
            return Ok(Value::Str(text.to_string()));
        }
    }
    let expr = parse(item, place)?;
    expr.eval(&|_| None).map_err(|source| no_value(place, item, source))
}

/// Evaluates the arguments of `range`.
fn numbers(arguments: &str, place: &str) -> Result<Vec<i64>, SpecError> {
    let mut bounds = Vec::new();
    for argument in split(arguments, ',') {
        match literal(argument.trim(), place)? {
            Value::Int(number) => bounds.push(number),
            _ => return Err(field(&format!("{place}, `{argument}`,"), "an integer")),
        }
    }
    let (start, end, step) = match bounds[..] {
        [end] => (0, end, 1),
        [start, end] => (start, end, 1),
        [start, end, step] if step != 0 => (start, end, step),
        _ => return Err(field(&format!("{place}, `range({arguments})`,"), "a range")),
    };
    let mut numbers = Vec::new();
    let mut number = start;
    while (step > 0 && number < end) || (step < 0 && number > end) {
        if numbers.len() >= MAX_VALUES {
            return Err(SpecError::TooManyValues { place: place.to_string() });
        }
        numbers.push(number);
        let Some(next) = number.checked_add(step) else { break };
        number = next;
    }
    Ok(numbers)
}

/// Splits at a separator that is outside of all brackets and quotes.
fn split(text: &str, separator: char) -> Vec<&str> {
    let mut parts = Vec::new();
    let (mut depth, mut start, mut quote) = (0i32, 0, None);
    for (at, character) in text.char_indices() {
        match (quote, character) {
            (Some(open), _) if open == character => quote = None,
            (Some(_), _) => {}
            (None, '"' | '\'') => quote = Some(character),
            (None, '(' | '[') => depth += 1,
            (None, ')' | ']') => depth -= 1,
            (None, _) if character == separator && depth == 0 => {
                parts.push(&text[start..at]);
                start = at + character.len_utf8();
            }
            _ => {}
        }
    }
    parts.push(&text[start..]);
    parts
}

fn constraint(text: &Json, place: &str) -> Result<Expr, SpecError> {
    let text = text.as_str().ok_or_else(|| field(place, "a text"))?;
    parse(text, place)
}

fn parse(text: &str, place: &str) -> Result<Expr, SpecError> {
    let (place, owned) = (place.to_string(), text.to_string());
    Expr::parse(text).map_err(|source| SpecError::Expression { place, text: owned, source })
}

fn scalar(json: &Json, place: &str) -> Result<Value, SpecError> {
    match json {
        Json::Bool(value) => Ok(Value::Bool(*value)),
        Json::String(text) => Ok(Value::Str(text.clone())),
        Json::Number(number) => match (number.as_i64(), number.as_f64()) {
            (Some(integer), _) => Ok(Value::Int(integer)),
            (None, Some(float)) => Ok(Value::Float(float)),
            (None, None) => Err(field(place, "a list of numbers, texts and truth values")),
        },
        Json::Null | Json::Array(_) | Json::Object(_) => {
            Err(field(place, "a list of numbers, texts and truth values"))
        }
    }
}

fn text_of(json: &Json) -> String {
    json.as_str().unwrap_or_default().to_string()
}

fn field(place: &str, expected: &'static str) -> SpecError {
    SpecError::Field { place: place.to_string(), expected }
}

fn no_value(place: &str, text: &str, source: EvalError) -> SpecError {
    SpecError::NoValue { place: place.to_string(), text: text.to_string(), source }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, expected: &[i64]) {
        let values = list(text, "values").expect("a list");
        let expected: Vec<Value> = expected.iter().copied().map(Value::Int).collect();
        assert_eq!(values, expected, "{text}");
    }

    #[test]
    fn lists_have_the_meaning_of_python() {
        check("[4096]", &[4096]);
        check("[1, 2, 4] + list(range(32, 96+1, 32))", &[1, 2, 4, 32, 64, 96]);
        check("[2**i for i in range(0, 4)]", &[1, 2, 4, 8]);
        check("[i for i in range(1, 3)]", &[1, 2]);
        check("list(range(3))", &[0, 1, 2]);
        check("[]", &[]);
        let texts = list("['a,b', \"c\"]", "values").expect("a list");
        assert_eq!(texts, [Value::Str("a,b".to_string()), Value::Str("c".to_string())]);
    }

    fn check_error(bytes: &[u8], expected: &str) {
        let error = SpaceSpec::read(bytes).expect_err("not a space");
        assert_eq!(error.to_string(), expected);
    }

    #[test]
    fn mistakes_are_named() {
        check_error(b" \n", "the file is empty");
        check_error(b"{\"params\"", "not JSON");
        check_error(
            b"[]",
            "neither a space, which has `params` and `constraints`, nor a T1 input file, which \
             has `ConfigurationSpace`",
        );
        check_error(br#"{"params": {"A": 1}}"#, "`params.A` is not a list of values");
        check_error(
            br#"{"params": {"A": [1]}, "constraints": [3]}"#,
            "`constraints` is not a text",
        );
        let t1 = |values: &str| {
            let parameter = serde_json::json!({ "Name": "A", "Values": values });
            let space = serde_json::json!({ "TuningParameters": [parameter] });
            serde_json::json!({ "ConfigurationSpace": space }).to_string()
        };
        check_error(
            t1("list(range(0, 10**12))").as_bytes(),
            "`Values` of `A` has more than 65536 values",
        );
        check_error(
            t1("open('x')").as_bytes(),
            "`Values` of `A`, `open('x')`, is not a list that can be read",
        );
    }
}
