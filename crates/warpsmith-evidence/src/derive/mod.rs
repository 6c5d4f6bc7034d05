//! What the evidence means: rankings, comparisons, curves. Pure functions of records and
//! summaries; nothing here is ever stored.
//!
//! Fidelities never mix in one statistic, and neither do sets of workloads: a score is the
//! geometric mean of the medians over *all* workloads of a board, and a candidate without a time on
//! each of them has none.

mod convergence;
mod diff;
mod disagreement;
mod dispatch;
mod effects;
mod evolution;
mod failures;
mod fastp;
mod leaderboard;
mod micro;
mod roofline;
mod standings;
mod winner;

pub use convergence::{ConvergencePoint, convergence};
pub use diff::{DiffLine, diff};
pub use disagreement::disagreements;
pub use dispatch::{Choice, dispatch};
pub use effects::{ParameterEffect, ValueEffect, parameter_effects};
pub use evolution::{Evolution, Funnel, Step, StepFate, evolution};
pub use failures::{FailureGroup, failures};
pub use fastp::{FAST_P, fast_p};
pub(crate) use leaderboard::score;
pub use leaderboard::{
    Entry, Leaderboard, Unranked, best_by_kernel, best_by_workload, leaderboard,
};
pub use micro::{KernelAgreement, MicroAgreement, MicroPair, micro_agreement};
pub use roofline::{Bound, RooflinePoint, roofline_points};
pub use standings::{Standing, WorkloadStanding, sentence, standings};
pub use winner::{Decision, Winner, measured_in, place, trial_of_record, winner};
