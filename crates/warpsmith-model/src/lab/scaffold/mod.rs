//! A small complete lab to start from: `y = scale x + bias`, row by row.

use super::document::is_identifier;
use crate::expr;

/// Why a lab cannot have this name.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` cannot name a lab: use letters, digits and underscores, such as `fused_norm`")]
pub struct ScaffoldError(pub String);

/// Returns the files of a new lab, by path relative to its folder. The lab loads as it is.
pub fn scaffold(name: &str) -> Result<Vec<(String, String)>, ScaffoldError> {
    if !is_identifier(name) || expr::is_reserved(name) {
        return Err(ScaffoldError(name.to_string()));
    }
    let files = FILES.iter().map(|(path, text)| (path.to_string(), text.replace("NAME", name)));
    Ok(files.collect())
}

const FILES: [(&str, &str); 7] = [
    ("README.md", include_str!("README.md.in")),
    ("lab.toml", include_str!("lab.toml.in")),
    ("reference.c", include_str!("reference.c.in")),
    ("kernels/00_naive.c", include_str!("00_naive.c.in")),
    ("kernels/00_naive.toml", include_str!("00_naive.toml.in")),
    ("kernels/10_vector.c", include_str!("10_vector.c.in")),
    ("kernels/10_vector.toml", include_str!("10_vector.toml.in")),
];
