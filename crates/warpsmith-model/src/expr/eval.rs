//! Computes the value of an expression's tree.

use std::cmp::Ordering;

use super::EvalError;
use super::number;
use super::tree::{Arithmetic, Comparison, Function, Node, Sign};
use crate::Value;

/// A value on the way: like [`Value`], but texts are borrowed, so that it copies freely.
#[derive(Clone, Copy, Debug)]
pub(super) enum Datum<'a> {
    Bool(bool),
    Int(i64),
    Float(f64),
    Str(&'a str),
}

impl<'a> From<&'a Value> for Datum<'a> {
    fn from(value: &'a Value) -> Self {
        match value {
            Value::Bool(value) => Self::Bool(*value),
            Value::Int(value) => Self::Int(*value),
            Value::Float(value) => Self::Float(*value),
            Value::Str(value) => Self::Str(value),
        }
    }
}

impl Datum<'_> {
    /// Returns the owned value.
    pub(super) fn into_value(self) -> Value {
        match self {
            Self::Bool(value) => Value::Bool(value),
            Self::Int(value) => Value::Int(value),
            Self::Float(value) => Value::Float(value),
            Self::Str(value) => Value::Str(value.to_string()),
        }
    }

    /// Returns Python's `bool()` of the value.
    pub(super) fn truth(self) -> bool {
        match self {
            Self::Bool(value) => value,
            Self::Int(value) => value != 0,
            Self::Float(value) => value != 0.0,
            Self::Str(value) => !value.is_empty(),
        }
    }

    fn type_name(self) -> &'static str {
        match self {
            Self::Bool(_) => "a truth value",
            Self::Int(_) => "an integer",
            Self::Float(_) => "a float",
            Self::Str(_) => "a text",
        }
    }
}

/// A number on the way, with truth values already counted as 0 and 1.
#[derive(Clone, Copy)]
enum Number {
    Int(i64),
    Float(f64),
}

impl Number {
    fn of(datum: Datum<'_>) -> Option<Self> {
        match datum {
            Datum::Bool(value) => Some(Self::Int(i64::from(value))),
            Datum::Int(value) => Some(Self::Int(value)),
            Datum::Float(value) => Some(Self::Float(value)),
            Datum::Str(_) => None,
        }
    }

    fn to_f64(self) -> f64 {
        match self {
            Self::Int(value) => value as f64,
            Self::Float(value) => value,
        }
    }
}

/// Computes a node's value; `lookup` binds the names by index.
pub(super) fn evaluate<'a, L>(node: &'a Node, lookup: &L) -> Result<Datum<'a>, EvalError>
where
    L: Fn(usize) -> Result<Datum<'a>, EvalError>,
{
    match node {
        Node::Constant(value) => Ok(Datum::from(value)),
        Node::Name(index) => lookup(*index),
        Node::Signed(sign, operand) => signed(*sign, evaluate(operand, lookup)?),
        Node::Not(operand) => Ok(Datum::Bool(!evaluate(operand, lookup)?.truth())),
        Node::And(operands) => short_circuit(operands, false, lookup),
        Node::Or(operands) => short_circuit(operands, true, lookup),
        Node::Arithmetic(operator, operands) => {
            let left = evaluate(&operands[0], lookup)?;
            let right = evaluate(&operands[1], lookup)?;
            arithmetic(*operator, left, right)
        }
        Node::Compare(first, links) => {
            let held = chain(evaluate(first, lookup)?, links, lookup)?;
            Ok(Datum::Bool(held.is_some()))
        }
        Node::Member { is_negated, first, links, items } => {
            let Some(last) = chain(evaluate(first, lookup)?, links, lookup)? else {
                return Ok(Datum::Bool(false));
            };
            // Python builds the list before it looks, so every item is evaluated.
            let mut is_member = false;
            for item in items {
                is_member |= are_equal(last, evaluate(item, lookup)?);
            }
            Ok(Datum::Bool(is_member != *is_negated))
        }
        Node::If(parts) => {
            let [condition, then, otherwise] = &**parts;
            let chosen = if evaluate(condition, lookup)?.truth() { then } else { otherwise };
            evaluate(chosen, lookup)
        }
        Node::Call(function, arguments) => call(*function, arguments, lookup),
    }
}

/// Computes a node's value where every name is an integer and every operation stays within
/// integers and truth values, which count as 0 and 1; none otherwise, and where it would be an
/// error. Spaces ask this millions of times.
pub(super) fn integer(node: &Node, names: &[i64]) -> Option<i64> {
    match node {
        Node::Constant(Value::Int(value)) => Some(*value),
        Node::Constant(Value::Bool(value)) => Some(i64::from(*value)),
        Node::Name(index) => names.get(*index).copied(),
        Node::Signed(Sign::Plus, operand) => integer(operand, names),
        Node::Signed(Sign::Minus, operand) => integer(operand, names)?.checked_neg(),
        Node::Not(operand) => Some(i64::from(integer(operand, names)? == 0)),
        Node::And(operands) | Node::Or(operands) => {
            let stops_at = matches!(node, Node::Or(_));
            let mut value = i64::from(!stops_at);
            for operand in operands {
                value = integer(operand, names)?;
                if (value != 0) == stops_at {
                    break;
                }
            }
            Some(value)
        }
        Node::Arithmetic(operator, operands) => {
            let (left, right) = (integer(&operands[0], names)?, integer(&operands[1], names)?);
            match operator {
                Arithmetic::Add => left.checked_add(right),
                Arithmetic::Subtract => left.checked_sub(right),
                Arithmetic::Multiply => left.checked_mul(right),
                // Python rounds towards minus infinity, which is what rounding towards zero is
                // for these.
                Arithmetic::FloorDivide if left >= 0 && right > 0 => Some(left / right),
                Arithmetic::Modulo if left >= 0 && right > 0 => Some(left % right),
                _ => None,
            }
        }
        Node::Compare(first, links) => {
            let mut left = integer(first, names)?;
            for (comparison, node) in links {
                let right = integer(node, names)?;
                let holds = match comparison {
                    Comparison::Equal => left == right,
                    Comparison::NotEqual => left != right,
                    Comparison::Less => left < right,
                    Comparison::LessEqual => left <= right,
                    Comparison::Greater => left > right,
                    Comparison::GreaterEqual => left >= right,
                };
                if !holds {
                    return Some(0);
                }
                left = right;
            }
            Some(1)
        }
        Node::If(parts) => {
            let [condition, then, otherwise] = &**parts;
            integer(if integer(condition, names)? != 0 { then } else { otherwise }, names)
        }
        Node::Constant(_) | Node::Member { .. } | Node::Call(..) => None,
    }
}

/// Returns the first operand whose truth is `stop_at`, or the last one.
fn short_circuit<'a, L>(
    operands: &'a [Node],
    stop_at: bool,
    lookup: &L,
) -> Result<Datum<'a>, EvalError>
where
    L: Fn(usize) -> Result<Datum<'a>, EvalError>,
{
    let mut value = Datum::Bool(!stop_at);
    for operand in operands {
        value = evaluate(operand, lookup)?;
        if value.truth() == stop_at {
            break;
        }
    }
    Ok(value)
}

/// Follows a chain of comparisons; returns its last operand when every link holds. Operands after
/// the first link that does not hold are not evaluated.
fn chain<'a, L>(
    first: Datum<'a>,
    links: &'a [(Comparison, Node)],
    lookup: &L,
) -> Result<Option<Datum<'a>>, EvalError>
where
    L: Fn(usize) -> Result<Datum<'a>, EvalError>,
{
    let mut left = first;
    for (comparison, node) in links {
        let right = evaluate(node, lookup)?;
        if !holds(*comparison, left, right)? {
            return Ok(None);
        }
        left = right;
    }
    Ok(Some(left))
}

fn signed(sign: Sign, operand: Datum<'_>) -> Result<Datum<'static>, EvalError> {
    let Some(number) = Number::of(operand) else {
        return Err(EvalError("a text has no sign".to_string()));
    };
    match (sign, number) {
        (Sign::Plus, Number::Int(value)) => Ok(Datum::Int(value)),
        (Sign::Plus, Number::Float(value)) => Ok(Datum::Float(value)),
        (Sign::Minus, Number::Int(value)) => int(value.checked_neg()),
        (Sign::Minus, Number::Float(value)) => Ok(Datum::Float(-value)),
    }
}

fn arithmetic(
    operator: Arithmetic,
    left: Datum<'_>,
    right: Datum<'_>,
) -> Result<Datum<'static>, EvalError> {
    let (Some(a), Some(b)) = (Number::of(left), Number::of(right)) else {
        let (left, right) = (left.type_name(), right.type_name());
        let symbol = operator.symbol();
        return Err(EvalError(format!("`{symbol}` is not defined for {left} and {right}")));
    };
    match (a, b) {
        (Number::Int(a), Number::Int(b)) => int_arithmetic(operator, a, b),
        _ => float_arithmetic(operator, a.to_f64(), b.to_f64()),
    }
}

fn int_arithmetic(operator: Arithmetic, a: i64, b: i64) -> Result<Datum<'static>, EvalError> {
    let divides =
        matches!(operator, Arithmetic::Divide | Arithmetic::FloorDivide | Arithmetic::Modulo);
    if divides && b == 0 {
        return Err(division_by_zero());
    }
    match operator {
        Arithmetic::Add => int(a.checked_add(b)),
        Arithmetic::Subtract => int(a.checked_sub(b)),
        Arithmetic::Multiply => int(a.checked_mul(b)),
        Arithmetic::Divide => Ok(Datum::Float(number::divide_exactly(a, b))),
        Arithmetic::FloorDivide => int(number::floor_divide(a, b)),
        Arithmetic::Modulo => Ok(Datum::Int(number::modulo(a, b))),
        Arithmetic::Power if b < 0 => float_arithmetic(operator, a as f64, b as f64),
        Arithmetic::Power => int(number::power(a, b.unsigned_abs())),
    }
}

fn float_arithmetic(operator: Arithmetic, a: f64, b: f64) -> Result<Datum<'static>, EvalError> {
    let divides =
        matches!(operator, Arithmetic::Divide | Arithmetic::FloorDivide | Arithmetic::Modulo);
    if divides && b == 0.0 {
        return Err(division_by_zero());
    }
    let value = match operator {
        Arithmetic::Add => a + b,
        Arithmetic::Subtract => a - b,
        Arithmetic::Multiply => a * b,
        Arithmetic::Divide => a / b,
        Arithmetic::FloorDivide => number::float_divmod(a, b).0,
        Arithmetic::Modulo => number::float_divmod(a, b).1,
        Arithmetic::Power => return float_power(a, b),
    };
    Ok(Datum::Float(value))
}

fn float_power(base: f64, exponent: f64) -> Result<Datum<'static>, EvalError> {
    let both_finite = base.is_finite() && exponent.is_finite();
    if base == 0.0 && exponent < 0.0 {
        return Err(EvalError("0 to a negative power is a division by zero".to_string()));
    }
    if both_finite && base < 0.0 && exponent.fract() != 0.0 {
        return Err(EvalError("a root of a negative number is not real".to_string()));
    }
    let value = base.powf(exponent);
    if both_finite && value.is_infinite() {
        return Err(overflow());
    }
    Ok(Datum::Float(value))
}

fn holds(comparison: Comparison, left: Datum<'_>, right: Datum<'_>) -> Result<bool, EvalError> {
    match comparison {
        Comparison::Equal => return Ok(are_equal(left, right)),
        Comparison::NotEqual => return Ok(!are_equal(left, right)),
        _ => {}
    }
    // None stands for a NaN, which is neither less nor greater nor equal.
    let order = match (left, right) {
        (Datum::Str(a), Datum::Str(b)) => Some(a.cmp(b)),
        _ => match (Number::of(left), Number::of(right)) {
            (Some(a), Some(b)) => compare_numbers(a, b),
            _ => {
                let (left, right) = (left.type_name(), right.type_name());
                let symbol = comparison.symbol();
                return Err(EvalError(format!("`{symbol}` cannot order {left} and {right}")));
            }
        },
    };
    Ok(match comparison {
        Comparison::Less => order == Some(Ordering::Less),
        Comparison::LessEqual => order.is_some_and(Ordering::is_le),
        Comparison::Greater => order == Some(Ordering::Greater),
        Comparison::GreaterEqual => order.is_some_and(Ordering::is_ge),
        Comparison::Equal => order == Some(Ordering::Equal),
        Comparison::NotEqual => order != Some(Ordering::Equal),
    })
}

fn are_equal(left: Datum<'_>, right: Datum<'_>) -> bool {
    match (left, right) {
        (Datum::Str(a), Datum::Str(b)) => a == b,
        _ => match (Number::of(left), Number::of(right)) {
            (Some(a), Some(b)) => compare_numbers(a, b) == Some(Ordering::Equal),
            _ => false,
        },
    }
}

fn compare_numbers(a: Number, b: Number) -> Option<Ordering> {
    match (a, b) {
        (Number::Int(a), Number::Int(b)) => Some(a.cmp(&b)),
        (Number::Float(a), Number::Float(b)) => a.partial_cmp(&b),
        (Number::Int(a), Number::Float(b)) => number::compare_int_float(a, b),
        (Number::Float(a), Number::Int(b)) => {
            number::compare_int_float(b, a).map(Ordering::reverse)
        }
    }
}

fn call<'a, L>(
    function: Function,
    arguments: &'a [Node],
    lookup: &L,
) -> Result<Datum<'a>, EvalError>
where
    L: Fn(usize) -> Result<Datum<'a>, EvalError>,
{
    let first = evaluate(&arguments[0], lookup)?;
    match function {
        Function::Min => extreme(first, &arguments[1..], Comparison::Less, lookup),
        Function::Max => extreme(first, &arguments[1..], Comparison::Greater, lookup),
        Function::CeilDiv => ceil_div(first, evaluate(&arguments[1], lookup)?),
        Function::Bool => Ok(Datum::Bool(first.truth())),
        Function::Abs | Function::Int | Function::Float | Function::Round => {
            let Some(number) = Number::of(first) else {
                let name = function.name();
                return Err(EvalError(format!("`{name}` is not defined for a text")));
            };
            convert(function, number)
        }
    }
}

fn convert(function: Function, number: Number) -> Result<Datum<'static>, EvalError> {
    match (function, number) {
        (Function::Float, number) => Ok(Datum::Float(number.to_f64())),
        (Function::Abs, Number::Int(value)) => int(value.checked_abs()),
        (Function::Abs, Number::Float(value)) => Ok(Datum::Float(value.abs())),
        (_, Number::Int(value)) => Ok(Datum::Int(value)),
        (Function::Round, Number::Float(value)) => float_to_int(value.round_ties_even()),
        (_, Number::Float(value)) => float_to_int(value.trunc()),
    }
}

/// Returns the first argument that no other one beats.
fn extreme<'a, L>(
    first: Datum<'a>,
    others: &'a [Node],
    beats: Comparison,
    lookup: &L,
) -> Result<Datum<'a>, EvalError>
where
    L: Fn(usize) -> Result<Datum<'a>, EvalError>,
{
    let mut best = first;
    // Python evaluates every argument before it compares any; an error in a later argument or in
    // a comparison is an error either way, so the two can be interleaved.
    for node in others {
        let other = evaluate(node, lookup)?;
        if holds(beats, other, best)? {
            best = other;
        }
    }
    Ok(best)
}

/// Computes `-(-a // b)`.
fn ceil_div(a: Datum<'_>, b: Datum<'_>) -> Result<Datum<'static>, EvalError> {
    match (Number::of(a), Number::of(b)) {
        (Some(Number::Int(_)), Some(Number::Int(0))) => Err(division_by_zero()),
        (Some(Number::Int(a)), Some(Number::Int(b))) => int(number::ceil_divide(a, b)),
        (Some(a), Some(b)) => {
            let floor = float_arithmetic(Arithmetic::FloorDivide, -a.to_f64(), b.to_f64())?;
            signed(Sign::Minus, floor)
        }
        _ => Err(EvalError("`ceil_div` is not defined for a text".to_string())),
    }
}

fn float_to_int(whole: f64) -> Result<Datum<'static>, EvalError> {
    if !whole.is_finite() {
        return Err(EvalError(format!("{whole:?} has no integer value")));
    }
    int(number::whole_to_int(whole))
}

fn int(value: Option<i64>) -> Result<Datum<'static>, EvalError> {
    value.map(Datum::Int).ok_or_else(overflow)
}

fn overflow() -> EvalError {
    EvalError("overflow: the value does not fit into 64 bits".to_string())
}

fn division_by_zero() -> EvalError {
    EvalError("division by zero".to_string())
}
