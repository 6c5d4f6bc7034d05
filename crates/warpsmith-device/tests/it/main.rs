//! The integration tests of this crate, in one binary.

mod cpu_compile;
mod cpu_isolation;
mod cpu_session;
mod support;
