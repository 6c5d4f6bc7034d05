//! The strategies by name, and what each needs to start.

use std::str::FromStr;
use std::sync::Arc;

use warpsmith_model::{Fidelity, Origin};

use crate::climb::Climber;
use crate::evolutionary::{Evolutionary, EvolutionarySettings};
use crate::guided::Guided;
use crate::history::History;
use crate::walk::{Opening, Walk, Walker};
use crate::{Neighbourhood, Proposal, ProposeError, Proposer, Space};

/// A way of choosing what to try next. All of them propose the seeds first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Strategy {
    /// Everything, in the order of the space.
    Exhaustive,
    /// Everything, in a random order.
    Random,
    /// Breeds from the best so far.
    Evolutionary,
    /// Walks to better neighbours; starts anew where there are none.
    Local,
    /// Walks to neighbours that are better or, at first, a little worse.
    Annealing,
    /// Asks a forest of regression trees.
    Surrogate,
    /// Asks a Gaussian process.
    Gaussian,
    /// Asks the model that predicts better, and chance now and then.
    Auto,
}

impl Strategy {
    /// Every strategy.
    pub const ALL: [Self; 8] = [
        Self::Auto,
        Self::Gaussian,
        Self::Surrogate,
        Self::Evolutionary,
        Self::Annealing,
        Self::Local,
        Self::Random,
        Self::Exhaustive,
    ];

    /// Returns the name used in tables, files and flags.
    pub fn name(self) -> &'static str {
        match self {
            Self::Exhaustive => "exhaustive",
            Self::Random => "random",
            Self::Evolutionary => "evolutionary",
            Self::Local => "local",
            Self::Annealing => "annealing",
            Self::Surrogate => "surrogate",
            Self::Gaussian => "gaussian",
            Self::Auto => "auto",
        }
    }

    /// Says whether it has a model of the times, and so an [outlook](Proposer::outlook).
    pub fn has_model(self) -> bool {
        matches!(self, Self::Auto | Self::Gaussian | Self::Surrogate)
    }

    pub(crate) fn origin(self) -> Origin {
        Origin::Tuned { strategy: self.name().to_string() }
    }
}

impl FromStr for Strategy {
    type Err = String;

    fn from_str(name: &str) -> Result<Self, String> {
        Self::ALL.into_iter().find(|strategy| strategy.name() == name).ok_or_else(|| {
            let known = Self::ALL.map(Self::name).join(", ");
            format!("there is no strategy `{name}`; there are {known}")
        })
    }
}

/// What a strategy needs to start.
#[derive(Clone, Debug, PartialEq)]
pub struct StrategyConfig {
    /// Determines every random choice.
    pub seed: u64,
    /// The kernel whose findings count; those of others are passed over.
    pub kernel: String,
    /// The fidelity whose findings count; those of others are passed over.
    pub fidelity: Fidelity,
    /// Configurations to propose first, with their own origins: the author's default, the
    /// microbenchmark's best.
    pub seeds: Vec<Proposal>,
    /// The tunables whose other values the evolutionary strategy tries around each seed before it
    /// breeds.
    pub expand: Vec<String>,
    /// The settings of the evolutionary strategy.
    pub evolution: EvolutionarySettings,
}

/// Makes a proposer.
pub fn strategy(
    kind: Strategy,
    space: Arc<Space>,
    config: StrategyConfig,
) -> Result<Box<dyn Proposer>, ProposeError> {
    let opening = opening(&space, &config)?;
    let history = History::new(Arc::clone(&space), config.kernel, config.fidelity);
    let random_walk = || Walk::shuffled(space.len(), config.seed);
    Ok(match kind {
        Strategy::Exhaustive => {
            Box::new(Walker { strategy: kind, history, opening, walk: Walk::in_order() })
        }
        Strategy::Random => {
            Box::new(Walker { strategy: kind, history, opening, walk: random_walk() })
        }
        Strategy::Local | Strategy::Annealing => {
            Box::new(Climber::new(kind, history, opening, random_walk(), config.seed))
        }
        Strategy::Surrogate | Strategy::Gaussian | Strategy::Auto => {
            Box::new(Guided::new(kind, history, opening, random_walk(), config.seed))
        }
        Strategy::Evolutionary => {
            let expanded = expanded(&space, &opening, &config.expand)?;
            let opening = opening.into_iter().chain(expanded).collect();
            let settings = config.evolution;
            Box::new(Evolutionary::new(history, opening, random_walk(), settings, config.seed)?)
        }
    })
}

fn opening(space: &Space, config: &StrategyConfig) -> Result<Opening, ProposeError> {
    let place = |Proposal { params, origin }: &Proposal| match space.index_of(params) {
        Some(index) => Ok((index, origin.clone())),
        None => Err(ProposeError::SeedOutsideSpace { params: params.clone() }),
    };
    config.seeds.iter().map(place).collect()
}

/// Returns the seeds' neighbours along the tunables to expand. One tunable is varied at a time: the
/// product of several could be the whole budget, and breeding combines what proves good.
fn expanded(space: &Space, seeds: &Opening, expand: &[String]) -> Result<Opening, ProposeError> {
    let tunable_of = |name: &String| {
        let known = space.tunables().iter().position(|tunable| tunable.name == *name);
        known.ok_or_else(|| ProposeError::UnknownTunable { name: name.clone() })
    };
    let tunables: Vec<usize> = expand.iter().map(tunable_of).collect::<Result<_, _>>()?;
    let mut found = Opening::new();
    for (seed, _) in seeds {
        let seed = space.point_at(*seed);
        for tunable in &tunables {
            for value in space.alternatives(&seed, *tunable, Neighbourhood::Any) {
                let mut point = seed.clone();
                point[*tunable] = value;
                let index = space.index_of_point(&point).expect("alternatives are valid");
                found.push_back((index, Strategy::Evolutionary.origin()));
            }
        }
    }
    Ok(found)
}
