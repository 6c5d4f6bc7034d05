//! The integration tests of this crate, in one binary.

mod gate;
mod support;
