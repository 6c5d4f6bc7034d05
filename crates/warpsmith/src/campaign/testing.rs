//! Trials of a fake machine, for the tests of what a campaign decides.

use std::collections::BTreeMap;
use std::path::PathBuf;

use warpsmith_device::target::Target;
use warpsmith_gate::corpus::{Corpus, CorpusOptions};
use warpsmith_gate::evaluate::evaluate;
use warpsmith_gate::fake::{Fake, FakeCall};
use warpsmith_model::lab::LabFiles;
use warpsmith_model::{
    BlobId, Candidate, CandidateId, Environment, FORMAT_VERSION, Fidelity, Guard, Isolation, Job,
    Lab, Origin, Params, Request, RequestLimits, Trial, TrialId, Value,
};

const LAB: &str = r#"
format = 1
name   = "twice"
title  = "y = 2 x"
axes   = ["N"]

[[tensor]]
name  = "x"
shape = ["N"]
dtype = "f32"
role  = "input"

[[tensor]]
name  = "y"
shape = ["N"]
dtype = "f32"
role  = "output"

[reference]
source = "reference.c"
entry  = "reference"
blocks = "N"

[oracle]
kernel = "00_naive"

[work]
flops = "N"
bytes = "8 * N"

[tolerance]
element_eps = 4
norm_eps    = 2

[[inputs]]
name    = "normal"
default = { normal = { mean = 0.0, std = 1.0 } }

[[inputs]]
name    = "mixed scales"
default = { mixed = {} }

[[workload]]
name = "small"
axes = { N = 4096 }

[[workload]]
name = "large"
axes = { N = 16384 }

[[proof]]
name = "one"
axes = { N = 1 }

[ranges]
N = { min = 1, max = 300 }
"#;

const CONTRACT: &str = r#"
format  = 1
target  = "cpu"
summary = "A kernel of the tests"
flags   = ["-O2"]

[[launch]]
entry  = "double_it"
blocks = "ceil_div(N, 64)"
"#;

const TUNABLES: &str = r#"
[tunables]
TILE = [1, 2, 3]

[search]
default = { TILE = 1 }
"#;

/// The lab's workloads, in its order.
pub const WORKLOADS: [&str; 2] = ["small", "large"];

/// What a trial is measured under.
pub struct Conditions<'a> {
    /// The workloads that are asked for.
    pub workloads: &'a [&'a str],
    /// The best so far, by workload; empty for none.
    pub incumbent_s: BTreeMap<String, f64>,
    /// How many times slower than that is hopeless.
    pub hopeless_ratio: f64,
}

impl Default for Conditions<'_> {
    fn default() -> Self {
        Self { workloads: &WORKLOADS, incumbent_s: BTreeMap::new(), hopeless_ratio: 1.5 }
    }
}

/// The lab of the tests.
pub fn lab() -> Lab {
    let source = "void double_it(void);";
    let tunable = format!("{CONTRACT}{TUNABLES}");
    let files: LabFiles = [
        ("lab.toml", LAB),
        ("reference.c", "void reference(void);"),
        ("kernels/00_naive.toml", CONTRACT),
        ("kernels/00_naive.c", source),
        ("kernels/10_tile.toml", tunable.as_str()),
        ("kernels/10_tile.c", source),
    ]
    .into_iter()
    .map(|(path, text)| (path.to_string(), text.to_string()))
    .collect();
    Lab::parse(&files).unwrap_or_else(|errors| panic!("the tests' lab: {errors}"))
}

/// Puts a kernel that takes so many seconds on `small` and on `large` through the real gate.
pub fn trial(tile: i64, small_s: f64, large_s: f64, conditions: Conditions<'_>) -> Trial {
    let lab = lab();
    let kernel = lab.kernel("10_tile").expect("the lab has it").clone();
    let mut fake = machine(small_s, large_s);
    let environment = environment(&fake);
    let candidate = Candidate {
        id: CandidateId::of(&tile.to_le_bytes()),
        kernel: kernel.name.clone(),
        source: BlobId::of(kernel.source.as_bytes()),
        params: params(tile),
        origin: Origin::Manual,
    };
    let request = Request {
        format: FORMAT_VERSION,
        lab_dir: PathBuf::new(),
        kernel: None,
        job: Job {
            trial: TrialId::of(&tile.to_le_bytes()),
            lab: lab.id,
            candidate,
            workloads: conditions.workloads.iter().map(ToString::to_string).collect(),
            fidelity: Fidelity::Rank,
            seed: 7,
        },
        limits: RequestLimits {
            incumbent_s: conditions.incumbent_s,
            hopeless_ratio: conditions.hopeless_ratio,
            ..RequestLimits::default()
        },
    };
    let mut corpus = Corpus::new(CorpusOptions::new(None));
    let finding = evaluate(&mut fake, &mut corpus, &lab, &kernel, &request, &environment, None);
    finding.expect("a fake machine does not fail").trial
}

/// The parameters of a trial.
pub fn params(tile: i64) -> Params {
    Params::from_iter([("TILE".to_string(), Value::Int(tile))])
}

fn machine(small_s: f64, large_s: f64) -> Fake {
    let double = |call: &mut FakeCall<'_>| {
        let values: Vec<f64> = call.input(0).iter().map(|value| 2.0 * value).collect();
        call.set_output(1, &values);
        values.len()
    };
    let mut fake = Fake::new();
    for name in ["reference.c", "00_naive.c"] {
        fake.kernel(name, move |call| Ok(double(call) as f64 * 1e-8 * call.share()));
    }
    fake.kernel("10_tile.c", move |call| Ok(if double(call) == 4096 { small_s } else { large_s }));
    fake.kernel("ceilings.c", |_| Ok(1e-9));
    fake
}

fn environment(target: &dyn Target) -> Environment {
    let active = || Guard::Active;
    Environment {
        format: FORMAT_VERSION,
        warpsmith: "test".to_string(),
        system: "test".to_string(),
        device: target.info().clone(),
        compilers: Vec::new(),
        isolation: Isolation {
            seccomp: active(),
            landlock: active(),
            rlimits: active(),
            sealed_inputs: active(),
            privileges: active(),
        },
    }
}
