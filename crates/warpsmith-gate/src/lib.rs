//! The gate: judges candidates, and times those that pass.

#![forbid(unsafe_code)]

pub mod bind;
pub mod ceilings;
pub mod check;
pub mod clock;
pub mod compare;
pub mod corpus;
pub mod coverage;
mod element;
pub mod error;
pub mod evaluate;
pub mod fake;
pub mod inputs;
pub mod profile;
#[cfg(test)]
mod testing;
