//! The integration tests of this crate, in one binary.

mod accidents;
mod baseline;
mod compiler_confinement;
mod cpu_compile;
mod cpu_isolation;
mod cpu_session;
mod support;
