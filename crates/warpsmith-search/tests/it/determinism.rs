//! What every strategy promises: the same again for the same seed and history, nothing twice,
//! everything in the end.

use std::collections::HashSet;
use std::sync::Arc;

use warpsmith_model::{Origin, Params};
use warpsmith_search::{Proposal, ProposeError, Proposer, Strategy, StrategyConfig, strategy};

use crate::simulated::{Simulated, config, finding, show};
use crate::spaces::published;

/// Runs a search in batches and returns what was proposed, in order.
fn run(simulated: &Simulated, proposer: &mut dyn Proposer, batches: &[usize]) -> Vec<Params> {
    let mut proposed = Vec::new();
    for batch in batches {
        let proposals = proposer.propose(*batch).expect("parameter search does not fail");
        for proposal in &proposals {
            show(&mut *proposer, &simulated.evaluate(proposal));
        }
        proposed.extend(proposals.into_iter().map(|proposal| proposal.params));
    }
    proposed
}

fn keys(params: &[Params]) -> HashSet<String> {
    params.iter().map(Params::key).collect()
}

#[test]
fn the_same_seed_proposes_the_same_and_another_seed_does_not() {
    let simulated = Simulated::recorded("convolution_A100");
    for kind in Strategy::ALL {
        let batches = [1, 7, 1, 30, 1, 1, 60];
        let propose = |seed| run(&simulated, simulated.proposer(kind, seed).as_mut(), &batches);
        assert_eq!(propose(1), propose(1), "{}", kind.name());
        if kind != Strategy::Exhaustive {
            assert_ne!(propose(1), propose(2), "{}", kind.name());
        }
    }
}

#[test]
fn every_strategy_proposes_everything_exactly_once() {
    let simulated = Simulated::recorded("pnpoly_RTX3090");
    for kind in Strategy::ALL {
        let mut proposer = simulated.proposer(kind, 3);
        let proposed = run(&simulated, proposer.as_mut(), &[13; 400]);
        assert_eq!(proposed.len() as u128, simulated.space.len(), "{}", kind.name());
        assert_eq!(keys(&proposed).len(), proposed.len(), "{}", kind.name());
        assert_eq!(proposer.propose(5), Ok(Vec::new()), "{}", kind.name());
    }
}

#[test]
fn everything_is_proposed_even_when_nothing_is_observed() {
    let simulated = Simulated::recorded("pnpoly_RTX3090");
    for kind in Strategy::ALL {
        let mut proposer = simulated.proposer(kind, 3);
        let proposals = proposer.propose(usize::MAX).expect("parameter search does not fail");
        assert_eq!(proposals.len() as u128, simulated.space.len(), "{}", kind.name());
    }
}

#[test]
fn a_resumed_search_goes_on_as_if_it_had_not_been_interrupted() {
    let simulated = Simulated::recorded("convolution_A100");
    for kind in Strategy::ALL {
        let mut whole = simulated.proposer(kind, 11);
        let batches = [4; 50];
        let expected = run(&simulated, whole.as_mut(), &batches);

        let mut resumed = simulated.proposer(kind, 11);
        for params in &expected[..80] {
            let stored = Proposal { params: params.clone(), origin: Origin::Manual };
            show(&mut *resumed, &simulated.evaluate(&stored));
        }
        let rest = run(&simulated, resumed.as_mut(), &batches[20..]);
        assert_eq!(rest, expected[80..], "{}", kind.name());
    }
}

#[test]
fn configurations_that_others_evaluated_are_not_proposed() {
    let simulated = Simulated::recorded("convolution_A100");
    let foreign: Vec<Params> = simulated.space.iter().step_by(2).collect();
    for kind in Strategy::ALL {
        let mut proposer = simulated.proposer(kind, 1);
        for params in &foreign {
            let manual = Proposal { params: params.clone(), origin: Origin::Manual };
            show(&mut *proposer, &simulated.evaluate(&manual));
        }
        let proposed = run(&simulated, proposer.as_mut(), &[64; 100]);
        assert_eq!(proposed.len() + foreign.len(), simulated.space.len() as usize);
        assert!(keys(&proposed).is_disjoint(&keys(&foreign)), "{}", kind.name());
    }
}

#[test]
fn seeds_come_first_with_their_origins_and_are_expanded() {
    let simulated = Simulated::recorded("dedispersion_A100");
    let seed = |index, origin| Proposal {
        params: simulated.space.get(index).expect("a configuration"),
        origin,
    };
    let seeds = vec![seed(900, Origin::Seed), seed(5, Origin::Micro), seed(900, Origin::Micro)];
    let with_seeds = |kind| {
        let expand = vec!["tile_size_x".to_string()];
        let config = StrategyConfig { seeds: seeds.clone(), expand, ..config(1) };
        strategy(kind, Arc::clone(&simulated.space), config).expect("the settings are valid")
    };
    for kind in Strategy::ALL {
        let proposals = with_seeds(kind).propose(10).expect("parameter search does not fail");
        assert_eq!(proposals[..2], seeds[..2], "{}", kind.name());
        let tuned = Origin::Tuned { strategy: kind.name().to_string() };
        assert!(proposals[2..].iter().all(|proposal| proposal.origin == tuned), "{}", kind.name());
    }
    let proposals = with_seeds(Strategy::Evolutionary).propose(5).expect("proposals");
    for proposal in &proposals[2..4] {
        let mut params = proposal.params.clone();
        let value =
            params.0.insert("tile_size_x".to_string(), seeds[0].params.0["tile_size_x"].clone());
        assert_ne!(value.as_ref(), seeds[0].params.get("tile_size_x"));
        assert_eq!(params, seeds[0].params);
    }
}

#[test]
fn settings_without_meaning_are_refused() {
    let simulated = Simulated::recorded("pnpoly_RTX3090");
    let check = |change: &dyn Fn(&mut StrategyConfig), expected: &str| {
        let mut config = config(1);
        change(&mut config);
        let made: Result<Box<dyn Proposer>, ProposeError> =
            strategy(Strategy::Evolutionary, Arc::clone(&simulated.space), config);
        assert_eq!(made.err().expect("refused").to_string(), expected);
    };
    check(
        &|config| config.seeds = vec![Proposal { params: Params::default(), origin: Origin::Seed }],
        "the seed `no tunables` is not a valid configuration of the space",
    );
    check(
        &|config| config.expand = vec!["BLOCK".to_string()],
        "`BLOCK` cannot be expanded: there is no such tunable",
    );
    check(&|config| config.evolution.population = 0, "population is 0, but must be at least 1");
    check(&|config| config.evolution.crossover = 1.5, "crossover is 1.5, but must be from 0 to 1");
}

#[test]
fn a_space_of_millions_is_searched_like_any_other() {
    // What proposals cost there is what the example `proposal_cost` prints.
    let space = Arc::new(published("atf_gaussian_conv_pow2_64", &[]));
    assert_eq!(space.len(), 2_116_368);
    for kind in Strategy::ALL {
        let mut proposer =
            strategy(kind, Arc::clone(&space), config(1)).expect("the settings are valid");
        let mut proposed = Vec::new();
        for idx in 0..30u32 {
            let proposal = proposer.propose(1).expect("no failure").pop().expect("more is left");
            let time_s = 1.0 + f64::from(idx.wrapping_mul(2_654_435_761) % 1000) / 1000.0;
            show(&mut *proposer, &finding(&proposal, Some(time_s)));
            proposed.push(proposal.params);
        }
        assert_eq!(keys(&proposed).len(), proposed.len(), "{}", kind.name());
        assert!(proposed.iter().all(|params| space.contains(params)), "{}", kind.name());
    }
}
