//! What the unit tests of the gate and the clock share: a small lab, a fake machine that serves
//! it, and requests.

use std::path::PathBuf;

use warpsmith_device::target::{Fault, Target};
use warpsmith_model::lab::LabFiles;
use warpsmith_model::{
    Candidate, CandidateId, Environment, FORMAT_VERSION, Fidelity, Guard, Isolation, Job, Lab,
    Origin, Request, RequestLimits, TrialId,
};

use crate::corpus::{Corpus, CorpusOptions};
use crate::fake::{Fake, FakeCall};

const LAB: &str = r#"
format = 1
name   = "blend"
title  = "z = a x + y"
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
role  = "input"

[[tensor]]
name  = "z"
shape = ["N"]
dtype = "f32"
role  = "output"

[[scalar]]
name  = "a"
dtype = "f32"
value = "1.5"
draw  = { factors = [0.5, 0.95] }

[reference]
source = "reference.c"
entry  = "reference"
blocks = "N"

[oracle]
kernel = "00_naive"

[work]
flops = "2 * N"
bytes = "12 * N"

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

[[proof]]
name = "odd"
axes = { N = 1023 }

[ranges]
N = { min = 1, max = 300 }
"#;

const CONTRACT: &str = r#"
format  = 1
target  = "cpu"
summary = "A kernel of the tests"
flags   = ["-O2"]

[[launch]]
entry  = "blend"
blocks = "ceil_div(N, 64)"
"#;

const SOURCE: &str = "void blend(void);";

/// Returns the lab `z = a x + y` with an oracle and one further kernel, `10_fast`.
pub(crate) fn lab() -> Lab {
    lab_with(|_| ())
}

/// Returns the lab after a change of its files.
pub(crate) fn lab_with(change: impl FnOnce(&mut LabFiles)) -> Lab {
    let mut files: LabFiles = [
        ("lab.toml", LAB),
        ("reference.c", "void reference(void);"),
        ("kernels/00_naive.toml", CONTRACT),
        ("kernels/00_naive.c", SOURCE),
        ("kernels/10_fast.toml", CONTRACT),
        ("kernels/10_fast.c", SOURCE),
    ]
    .into_iter()
    .map(|(path, text)| (path.to_string(), text.to_string()))
    .collect();
    change(&mut files);
    Lab::parse(&files).unwrap_or_else(|errors| panic!("the tests' lab is valid: {errors}"))
}

/// Computes what the lab asks for, exactly.
pub(crate) fn blend(call: &FakeCall<'_>) -> Vec<f64> {
    let (x, y) = (call.input(0), call.input(1));
    x.iter().zip(&y).map(|(x, y)| call.program.scalars[0] * x + y).collect()
}

/// Returns a machine on which the reference, the oracle and `10_fast` are right; the reference
/// takes 10 ns an element, the oracle 1 ns, the kernel half a nanosecond.
pub(crate) fn machine() -> Fake {
    let mut fake = Fake::new();
    let right = |seconds_per_element: f64| {
        move |call: &mut FakeCall<'_>| {
            let values = blend(call);
            call.set_output(2, &values);
            Ok(values.len() as f64 * seconds_per_element * call.share())
        }
    };
    fake.kernel("reference.c", right(1e-8));
    fake.kernel("00_naive.c", right(1e-9));
    fake.kernel("10_fast.c", right(5e-10));
    fake.kernel("ceilings.c", |_| Ok(1e-7));
    fake
}

/// Makes `10_fast` take scripted seconds per element after it computed what is right, or fail.
pub(crate) fn with_fast(
    mut fake: Fake,
    mut run: impl FnMut(&mut FakeCall<'_>, &mut Vec<f64>) -> Result<f64, Fault> + 'static,
) -> Fake {
    fake.kernel("10_fast.c", move |call| {
        let mut values = blend(call);
        let seconds = run(call, &mut values)?;
        call.set_output(2, &values);
        Ok(seconds)
    });
    fake
}

/// Returns a corpus that keeps nothing on disk, and whose contents are as many on a busy machine.
pub(crate) fn corpus() -> Corpus {
    Corpus::new(CorpusOptions { patience: f64::INFINITY, ..CorpusOptions::new(None) })
}

/// Returns a request for `10_fast`, with time enough for a test that is held up.
pub(crate) fn request(lab: &Lab, fidelity: Fidelity, workloads: &[&str]) -> Request {
    let kernel = lab.kernel("10_fast").expect("the lab has it");
    Request {
        format: FORMAT_VERSION,
        lab_dir: PathBuf::new(),
        kernel: None,
        job: Job {
            trial: TrialId::of(b"trial"),
            lab: lab.id,
            candidate: Candidate {
                id: CandidateId::of(b"candidate"),
                kernel: kernel.name.clone(),
                source: warpsmith_model::BlobId::of(kernel.source.as_bytes()),
                params: kernel.default.clone(),
                origin: Origin::Seed,
            },
            workloads: workloads.iter().map(ToString::to_string).collect(),
            fidelity,
            seed: 7,
        },
        limits: RequestLimits { timing_budget_s: 600.0, ..RequestLimits::default() },
    }
}

/// Describes the fake machine, with every protection in force.
pub(crate) fn environment(target: &dyn Target) -> Environment {
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
