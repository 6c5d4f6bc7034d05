//! Proposers: what to try next.
//!
//! A [`Space`] is the set of a kernel's valid configurations: counted, indexed and sampled without
//! going through the ones that constraints exclude. A [`Proposer`] suggests configurations of a
//! space and learns from the findings that come back; [`strategy`] makes one of a [`Strategy`].
//! [`evolve`] proposes sources instead, written by language models.
//! [`score`] says how good a trial is, and nothing else in this crate does.
//!
//! [`Recorded`] is a space that somebody measured completely, and [`simulate`] judges strategies on
//! such spaces; [`SpaceSpec`] is a space as other tools write it down.
//!
//! Deliberately absent: devices, disks, clocks, threads, entropy and `unsafe`. What a proposer
//! suggests is a function of its settings and of what it has been shown, so a campaign resumes by
//! making the same proposer again and showing it the stored findings.
//!
//! ```
//! use std::sync::Arc;
//! use warpsmith_model::{Expr, Fidelity, Value, lab::Tunable};
//! use warpsmith_search::{EvolutionarySettings, Space, Strategy, StrategyConfig, strategy};
//!
//! let tunable = |name: &str, values: &[i64]| Tunable {
//!     name: name.to_string(),
//!     values: values.iter().copied().map(Value::Int).collect(),
//! };
//! let tunables = [tunable("BLOCK_M", &[16, 32, 64]), tunable("BLOCK_N", &[64, 128])];
//! let constraints = [Expr::parse("BLOCK_M * BLOCK_N <= CAPACITY").expect("an expression")];
//! let constants = |name: &str| (name == "CAPACITY").then_some(Value::Int(4096));
//! let space = Space::new(&tunables, &constraints, &constants).expect("a valid space");
//! assert_eq!((space.cartesian(), space.len()), (6, 5));
//!
//! let config = StrategyConfig {
//!     seed: 1,
//!     kernel: "10_blocked".to_string(),
//!     fidelity: Fidelity::Rank,
//!     seeds: Vec::new(),
//!     expand: Vec::new(),
//!     evolution: EvolutionarySettings::STANDARD,
//! };
//! let mut proposer = strategy(Strategy::Random, Arc::new(space), config).expect("settings");
//! assert_eq!(proposer.propose(100).expect("random never fails").len(), 5);
//! ```

mod climb;
mod evolutionary;
pub mod evolve;
mod guided;
mod history;
mod lesson;
mod model;
mod permutation;
pub mod recorded;
mod score;
pub mod simulate;
mod space;
pub mod spec;
mod strategy;
mod walk;

use warpsmith_model::{Job, Origin, Params};

pub use evolutionary::EvolutionarySettings;
pub use recorded::Recorded;
pub use score::{Score, score};
pub use space::{Neighbourhood, Space, SpaceError};
pub use spec::SpaceSpec;
pub use strategy::{Strategy, StrategyConfig, strategy};

/// Suggests candidates and learns from what became of them.
pub trait Proposer {
    /// Suggests at most `n` configurations, none of them suggested or observed before. Fewer than
    /// `n` come back only when the space holds no more; none means that it is exhausted.
    fn propose(&mut self, n: usize) -> Result<Vec<Proposal>, ProposeError>;

    /// Learns how good a candidate turned out to be, by what the search makes small, whoever proposed it.
    fn observe(&mut self, job: &Job, score: Score);

    /// Returns the share of the best time that the most promising configuration is expected to save, after all
    /// that was observed; none where there is no model, or not yet. Changes nothing about what is proposed.
    fn outlook(&mut self) -> Option<f64> {
        None
    }
}

/// A configuration worth trying.
#[derive(Clone, Debug, PartialEq)]
pub struct Proposal {
    /// The value of every tunable.
    pub params: Params,
    /// Where the idea came from.
    pub origin: Origin,
}

/// Why a proposer cannot be made or cannot propose.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum ProposeError {
    /// A seed is not a valid configuration.
    #[error("the seed `{params}` is not a valid configuration of the space")]
    SeedOutsideSpace {
        /// The seed.
        params: Params,
    },
    /// A tunable to expand does not exist.
    #[error("`{name}` cannot be expanded: there is no such tunable")]
    UnknownTunable {
        /// The name.
        name: String,
    },
    /// A setting of the strategy has no meaning.
    #[error("{setting} is {value}, but must be {expected}")]
    BadSetting {
        /// The setting's name.
        setting: &'static str,
        /// Its value, as text.
        value: String,
        /// What it must be.
        expected: &'static str,
    },
}
