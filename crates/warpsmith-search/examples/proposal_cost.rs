//! Prints what a proposal costs, in milliseconds: the median, the mean and the greatest of 200
//! proposals, each after an observation, by strategy, in spaces of 20 thousand and of 2 million
//! configurations.
//!
//! ```sh
//! cargo run --release -p warpsmith-search --example proposal_cost
//! ```
#![expect(clippy::print_stdout, reason = "a table is what the example is for")]

use std::error::Error;
use std::sync::Arc;
use std::time::Instant;

use warpsmith_model::stats::median;
use warpsmith_model::{
    BlobId, Candidate, CandidateId, EnvironmentId, ErrorSize, FORMAT_VERSION, Fidelity, Finding,
    Job, LabId, Measurement, Outcome, StopReason, Trial, TrialId,
};
use warpsmith_search::{
    EvolutionarySettings, Proposal, Space, SpaceSpec, Strategy, StrategyConfig, score, strategy,
};

const PROPOSALS: u32 = 200;

fn main() -> Result<(), Box<dyn Error>> {
    println!("space                      configurations  strategy      median   mean    max");
    for name in ["clblast_xgemm_direct", "atf_gaussian_conv_pow2_64"] {
        let path = format!("{}/tests/data/spaces/{name}.json", env!("CARGO_MANIFEST_DIR"));
        let space = Arc::new(SpaceSpec::read(&std::fs::read(&path)?)?.space()?);
        for kind in Strategy::ALL {
            let each_ms = costs_ms(&space, kind)?;
            let mean = each_ms.iter().sum::<f64>() / each_ms.len() as f64;
            let most = each_ms.iter().copied().fold(0.0, f64::max);
            let median = median(&each_ms).ok_or("nothing was proposed")?;
            let (len, kind) = (space.len(), kind.name());
            println!("{name:26} {len:>14}  {kind:12} {median:>7.3} {mean:>7.3} {most:>7.3}");
        }
    }
    Ok(())
}

/// Times proposals, answering each with a time between 1 and 2 s that no model can predict: it is
/// as hard to fit as any.
fn costs_ms(space: &Arc<Space>, kind: Strategy) -> Result<Vec<f64>, Box<dyn Error>> {
    let config = StrategyConfig {
        seed: 1,
        kernel: "kernel".to_string(),
        fidelity: Fidelity::Rank,
        seeds: Vec::new(),
        expand: Vec::new(),
        evolution: EvolutionarySettings::STANDARD,
    };
    let mut proposer = strategy(kind, Arc::clone(space), config)?;
    let mut each_ms = Vec::new();
    for idx in 0..PROPOSALS {
        let start = Instant::now();
        let proposal = proposer.propose(1)?.pop().ok_or("the space is exhausted")?;
        each_ms.push(start.elapsed().as_secs_f64() * 1e3);
        let time_s = 1.0 + f64::from(idx.wrapping_mul(2_654_435_761) % 1000) / 1000.0;
        let found = finding(&proposal, time_s);
        proposer.observe(&found.trial.job, score(&found.trial));
    }
    Ok(each_ms)
}

fn finding(proposal: &Proposal, time_s: f64) -> Finding {
    let workload = "workload".to_string();
    let measurement = Measurement {
        disturbed_s: Vec::new(),
        warm_s: Vec::new(),
        device_state: None,
        workload: workload.clone(),
        samples_s: vec![time_s],
        batch: 1,
        ticks: Vec::new(),
        share: 1.0,
        error: ErrorSize::default(),
        stop: StopReason::Converged,
        launch_floor_s: 0.0,
    };
    let id = TrialId::of(b"trial");
    let job = Job {
        trial: id,
        lab: LabId::of(b"lab"),
        candidate: Candidate {
            id: CandidateId::of(b"candidate"),
            kernel: "kernel".to_string(),
            source: BlobId::of(b"source"),
            params: proposal.params.clone(),
            origin: proposal.origin.clone(),
        },
        workloads: vec![workload],
        fidelity: Fidelity::Rank,
        seed: 0,
    };
    let trial = Trial {
        format: FORMAT_VERSION,
        id,
        job,
        environment: EnvironmentId::of(b"environment"),
        builds: Vec::new(),
        outcome: Outcome::Passed { measurements: vec![measurement] },
        same_binary_as: None,
        wall_s: 0.0,
        launch_s: 0.0,
        notes: Vec::new(),
    };
    Finding { trial, blobs: Vec::new() }
}
