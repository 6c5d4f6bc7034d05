//! Parameter values and element types.

use std::collections::BTreeMap;
use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A value of a tunable or of an expression.
///
/// Equality is exact and typed: `1`, `1.0` and `true` are three different parameter values even
/// though expressions compare them as Python does.
#[derive(Clone, Debug, PartialEq, PartialOrd, Serialize, Deserialize, JsonSchema)]
#[serde(untagged)]
pub enum Value {
    /// A truth value; `1` or `0` as a macro.
    Bool(bool),
    /// An integer.
    Int(i64),
    /// A floating-point number.
    Float(f64),
    /// Text; inserted as it stands when it becomes a macro.
    Str(String),
}

impl Value {
    /// Returns the text that follows `-DNAME=` on a compiler's command line.
    pub fn as_macro(&self) -> String {
        match self {
            Self::Bool(value) => i64::from(*value).to_string(),
            other => other.to_string(),
        }
    }

    /// Returns the number this value stands for; text has none.
    pub fn as_f64(&self) -> Option<f64> {
        match self {
            Self::Bool(value) => Some(f64::from(u8::from(*value))),
            Self::Int(value) => Some(*value as f64),
            Self::Float(value) => Some(*value),
            Self::Str(_) => None,
        }
    }
}

impl fmt::Display for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Bool(value) => write!(f, "{value}"),
            Self::Int(value) => write!(f, "{value}"),
            // `{:?}` keeps the point of `1.0`, so that a float stays a float in C.
            Self::Float(value) => write!(f, "{value:?}"),
            Self::Str(value) => f.write_str(value),
        }
    }
}

/// The choice of a value for every tunable of a kernel, in the order of the names.
#[derive(Clone, Debug, Default, PartialEq, PartialOrd, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Params(pub BTreeMap<String, Value>);

impl Params {
    /// Returns the value of one tunable.
    pub fn get(&self, name: &str) -> Option<&Value> {
        self.0.get(name)
    }

    /// Returns a text that is equal exactly for equal parameters.
    pub fn key(&self) -> String {
        serde_json::to_string(&self.0).expect("a map of plain values always serialises")
    }
}

impl fmt::Display for Params {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0.is_empty() {
            return f.write_str("no tunables");
        }
        for (idx, (name, value)) in self.0.iter().enumerate() {
            let space = if idx == 0 { "" } else { " " };
            match value {
                Value::Str(text) if text.is_empty() || text.contains(' ') => {
                    write!(f, "{space}{name}='{text}'")?;
                }
                other => write!(f, "{space}{name}={other}")?,
            }
        }
        Ok(())
    }
}

impl FromIterator<(String, Value)> for Params {
    fn from_iter<I: IntoIterator<Item = (String, Value)>>(pairs: I) -> Self {
        Self(pairs.into_iter().collect())
    }
}

/// The element type of a tensor.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum DType {
    /// IEEE half precision.
    F16,
    /// The upper half of an IEEE single.
    Bf16,
    /// IEEE single precision.
    F32,
    /// IEEE double precision.
    F64,
}

impl DType {
    /// Returns the size of an element in bytes.
    pub fn size(self) -> usize {
        match self {
            Self::F16 | Self::Bf16 => 2,
            Self::F32 => 4,
            Self::F64 => 8,
        }
    }

    /// Returns the distance from 1 to the next number.
    pub fn epsilon(self) -> f64 {
        match self {
            Self::F16 => 2f64.powi(-10),
            Self::Bf16 => 2f64.powi(-7),
            Self::F32 => f64::from(f32::EPSILON),
            Self::F64 => f64::EPSILON,
        }
    }
}
