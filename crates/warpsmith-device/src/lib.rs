//! Compiles, runs, checks and times candidates. The only crate with `unsafe`.

pub mod baseline;
pub mod bind;
pub mod ceilings;
pub mod check;
pub mod clock;
pub mod compare;
pub mod corpus;
pub mod cpu;
mod element;
pub mod error;
pub mod evaluate;
pub mod fake;
pub mod inputs;
mod sys;
pub mod target;
#[cfg(test)]
mod testing;

pub use cpu::poison;

/// Asks the kernel to end this process when the one that started it ends, however that ends: a
/// worker without its campaign would go on measuring for nobody, and disturb the next.
pub fn die_with_parent() -> std::io::Result<()> {
    sys::process::die_with_parent()
}
