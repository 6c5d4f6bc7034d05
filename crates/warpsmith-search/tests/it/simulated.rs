//! A stand-in for the device: answers proposals from recorded measurements.

use std::collections::HashMap;
use std::sync::Arc;

use warpsmith_model::lab::Tunable;
use warpsmith_model::{
    BlobId, Candidate, CandidateId, EnvironmentId, ErrorSize, Expr, FORMAT_VERSION, Fidelity,
    Finding, Job, LabId, Measurement, Outcome, StopReason, Trial, TrialId, Value,
};
use warpsmith_search::{
    EvolutionarySettings, Proposal, Proposer, Space, Strategy, StrategyConfig, score, strategy,
};

/// Tells a proposer what became of a candidate.
pub(crate) fn show(proposer: &mut dyn Proposer, finding: &Finding) {
    proposer.observe(&finding.trial.job, score(&finding.trial));
}

pub(crate) const KERNEL: &str = "recorded";

/// A space whose every configuration was measured.
pub(crate) struct Simulated {
    pub(crate) space: Arc<Space>,
    /// Seconds by the text of the parameters; none where the configuration failed.
    times_s: HashMap<String, Option<f64>>,
    pub(crate) optimum_s: f64,
}

impl Simulated {
    /// Reads a file of `tests/data/recorded`.
    pub(crate) fn recorded(name: &str) -> Self {
        let path = format!("{}/tests/data/recorded/{name}.json", env!("CARGO_MANIFEST_DIR"));
        let text = std::fs::read_to_string(&path).expect("the recorded space can be read");
        let document: serde_json::Value = serde_json::from_str(&text).expect("JSON");
        let list = |value: &serde_json::Value| value.as_array().expect("a list").clone();
        let text_of = |value: &serde_json::Value| value.as_str().expect("a text").to_string();
        let tunables: Vec<Tunable> = list(&document["tunables"])
            .iter()
            .map(|tunable| Tunable {
                name: text_of(&tunable["name"]),
                values: list(&tunable["values"]).iter().map(value_of).collect(),
            })
            .collect();
        let constraints: Vec<Expr> = list(&document["constraints"])
            .iter()
            .map(|text| Expr::parse(&text_of(text)).expect("an expression"))
            .collect();
        let space = Space::new(&tunables, &constraints, &|_| None).expect("a space");

        // The file is in the order of nested loops; spaces have an order of their own.
        let mut keys: Vec<(Vec<usize>, String)> = space
            .iter()
            .map(|params| {
                let position = |tunable: &Tunable| {
                    let value = params.get(&tunable.name).expect("every tunable has a value");
                    tunable.values.iter().position(|listed| listed == value).expect("listed")
                };
                (tunables.iter().map(position).collect(), params.key())
            })
            .collect();
        keys.sort();
        let medians = list(&document["median_ms"]);
        assert_eq!(keys.len(), medians.len(), "{path}: as many times as configurations");
        let times_s: HashMap<String, Option<f64>> = keys
            .into_iter()
            .zip(&medians)
            .map(|((_, key), median)| (key, median.as_f64().map(|ms| ms * 1e-3)))
            .collect();
        let optimum_s = times_s.values().flatten().copied().fold(f64::INFINITY, f64::min);
        Self { space: Arc::new(space), times_s, optimum_s }
    }

    /// Evaluates a proposal.
    pub(crate) fn evaluate(&self, proposal: &Proposal) -> Finding {
        let time_s = self.times_s[&proposal.params.key()];
        finding(proposal, time_s)
    }

    /// Returns the recorded times of the configurations that ran, and how many there are in all.
    pub(crate) fn all_times_s(&self) -> (Vec<f64>, usize) {
        (self.times_s.values().flatten().copied().collect(), self.times_s.len())
    }

    pub(crate) fn proposer(&self, kind: Strategy, seed: u64) -> Box<dyn Proposer> {
        strategy(kind, Arc::clone(&self.space), config(seed)).expect("the settings are valid")
    }
}

/// Returns settings without seeds.
pub(crate) fn config(seed: u64) -> StrategyConfig {
    StrategyConfig {
        seed,
        kernel: KERNEL.to_string(),
        fidelity: Fidelity::Rank,
        seeds: Vec::new(),
        expand: Vec::new(),
        evolution: EvolutionarySettings::STANDARD,
    }
}

/// Makes the finding of a proposal that took this long, or failed.
pub(crate) fn finding(proposal: &Proposal, time_s: Option<f64>) -> Finding {
    let workload = "recorded".to_string();
    let outcome = match time_s {
        None => Outcome::TimedOut { workload: workload.clone(), limit_s: 1.0 },
        Some(time_s) => Outcome::Passed {
            measurements: vec![Measurement {
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
            }],
        },
    };
    let id = TrialId::of(proposal.params.key().as_bytes());
    let candidate = Candidate {
        id: CandidateId::of(proposal.params.key().as_bytes()),
        kernel: KERNEL.to_string(),
        source: BlobId::of(b"source"),
        params: proposal.params.clone(),
        origin: proposal.origin.clone(),
    };
    let job = Job {
        trial: id,
        lab: LabId::of(b"lab"),
        candidate,
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
        outcome,
        same_binary_as: None,
        wall_s: 0.0,
        launch_s: 0.0,
        notes: Vec::new(),
    };
    Finding { trial, blobs: Vec::new() }
}

/// Converts a plain JSON value.
pub(crate) fn value_of(json: &serde_json::Value) -> Value {
    serde_json::from_value(json.clone()).expect("a plain value")
}
