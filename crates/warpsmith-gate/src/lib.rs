//! The gate: judges candidates, and times those that pass.
//!
//! What happens to a candidate, from its source to its verdict:
//!
//! 1. [`bind`] puts the lab, the kernel, its parameters and a shape together: a unit to compile. A flag or a
//!    macro that could be more than it seems is refused. The target compiles the unit in a confined process,
//!    for all workloads before anything runs, and the artifact becomes a program: tensors, values of axes and
//!    scalars, launches.
//! 2. [`corpus`] has the cases that the program is judged on: contents that [`inputs`] draws from a seed, and
//!    the right answers. Before it hands out any it proves the lab: the reference must be sound, and the
//!    oracle, a naive kernel that answers where the reference is too slow, must agree with it. Right answers
//!    never enter a candidate's process.
//! 3. The target starts a process with the program and the inputs: a session. It poisons the outputs, launches
//!    under its own clock, and freezes the process before anybody looks.
//! 4. [`check`] compares every output with the right answer, within a tolerance; the bytes beside outputs and
//!    the inputs themselves must be as they were.
//! 5. [`evaluate`] repeats this as often as the fidelity asks. In full, the contract must have a launch for
//!    every shape that it claims to serve, and the kernel is judged on the lab's small shapes and on shapes that
//!    nobody could foresee, under every distribution, near the workloads and beyond them; again on the same
//!    input, whose answer must be the same bits; and under the target's sanitizers.
//! 6. What passed is timed, session after session, until [`clock`] says that the times are good enough. Timed
//!    launches are judged like all others. Whoever is faster than the machine's [`ceilings`] allow is
//!    implausible, not fast.
//! 7. The finding says what became of it, with every sample, and what a person should know. The first thing
//!    that was wrong ends the evaluation and is the verdict.
//!
//! Three types matter. [`Corpus`](corpus::Corpus) knows what is right, and is the only one that does.
//! [`Session`](warpsmith_device::target::Session), of the device crate, is all that the gate sees of a
//! candidate: one that runs on a processor or on a GPU, a Python library and the tests' [`Fake`](fake::Fake)
//! are judged by the same functions. [`Outcome`](warpsmith_model::Outcome) is the verdict. A failing candidate
//! has one of those; a [`GateError`](error::GateError) means that the lab, the request or the machine is
//! at fault.
//!
//! ```no_run
//! use warpsmith_device::target::Target;
//! use warpsmith_gate::corpus::{Corpus, CorpusOptions};
//! use warpsmith_gate::error::GateError;
//! use warpsmith_gate::evaluate::evaluate;
//! use warpsmith_model::{Environment, Lab, Outcome, Request};
//!
//! fn judge(
//!     target: &mut dyn Target,
//!     lab: &Lab,
//!     request: &Request,
//!     environment: &Environment,
//! ) -> Result<Outcome, GateError> {
//!     let kernel = lab.kernel(&request.job.candidate.kernel).expect("the lab has it");
//!     let mut corpus = Corpus::new(CorpusOptions::new(None));
//!     let finding = evaluate(target, &mut corpus, lab, kernel, request, environment, None)?;
//!     Ok(finding.trial.outcome)
//! }
//! ```
//!
//! Beside it, [`compare`] launches several programs in turns and tells how much faster one is than another,
//! [`profile`] lets a profiler watch one, and [`coverage`] says which branches of a lab's own kernels its shapes
//! never take.
//!
//! Deliberately absent: `unsafe`, and everything that knows how a candidate is confined, launched or frozen.
//! That is the device crate's, which in turn does not know what is right.

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
