//! Evidence made up for tests: a small lab, a machine, and trials whose times follow from their
//! parameters.

use std::collections::BTreeMap;

use warpsmith_evidence::Store;
use warpsmith_model::lab::{Tolerance, Workload};
use warpsmith_model::{
    Blob, BlobId, Build, Candidate, CandidateId, Ceilings, ComparisonPurpose, ComparisonRecord,
    Compiler, Contender, ContenderKind, CrashCause, DType, DeviceInfo, Environment, ErrorSize,
    FORMAT_VERSION, Fidelity, Finding, Guard, InputsRecord, Isolation, Job, KernelRecord, LabId,
    LabRecord, Measurement, Origin, Outcome, PairedRounds, Params, PlainError, RunId, RunRecord,
    RunStatus, StopReason, Trial, TrialId, TunableRecord, Value, WorkloadRecord, rng::Rng,
};

/// When every made-up run begins.
pub(crate) const START: f64 = 1_767_225_600.0;

/// The source of every made-up kernel; long enough to be worth keeping once.
pub(crate) fn source() -> Blob {
    Blob::new("void tile(const float *a, float *b) { /* … */ }\n".repeat(200))
}

pub(crate) fn environment() -> Environment {
    Environment {
        format: FORMAT_VERSION,
        warpsmith: "0.1.0".to_string(),
        system: "Linux 6.8".to_string(),
        device: DeviceInfo {
            cuda: None,
            name: "Test CPU @ 3 GHz".to_string(),
            threads: 2,
            l1d_bytes: 32 << 10,
            l2_bytes: 1 << 20,
            l3_bytes: 32 << 20,
            vector_bytes: 32,
            features: vec!["avx2".to_string(), "fma".to_string()],
            ticks_per_s: Some(3e9),
        },
        compilers: vec![Compiler { name: "gcc".to_string(), version: "gcc 14.2".to_string() }],
        isolation: Isolation {
            seccomp: Guard::Active,
            landlock: Guard::Missing { reason: "no kernel support".to_string() },
            rlimits: Guard::Active,
            sealed_inputs: Guard::Active,
            privileges: Guard::Active,
        },
    }
}

pub(crate) fn ceilings() -> Ceilings {
    Ceilings {
        matrix_flops_per_s: None,
        f32_flops_per_s: 1e11,
        f64_flops_per_s: 5e10,
        memory_bytes_per_s: 2e10,
        cache_bytes_per_s: 4e11,
        launch_floor_s: 2e-6,
        busy: false,
        newest: None,
    }
}

/// Two workloads; a kernel without tunables and one with three.
pub(crate) fn lab() -> LabRecord {
    let workload = |name: &str, size: i64| WorkloadRecord {
        name: name.to_string(),
        axes: vec![("N".to_string(), size), ("M".to_string(), 64)],
        flops: 2e6 * size as f64,
        bytes: 1e4 * size as f64,
    };
    let tunable = |name: &str, values: Vec<Value>| TunableRecord { name: name.to_string(), values };
    let both = vec!["small".to_string(), "large".to_string()];
    LabRecord {
        id: LabId::of(b"lab"),
        name: "tiles".to_string(),
        title: "Tiles, forward".to_string(),
        dtype: DType::F32,
        arithmetic: None,
        reference: "reference.c".to_string(),
        oracle: "00_naive".to_string(),
        imported: None,
        tensors: Vec::new(),
        scalars: Vec::new(),
        tolerance: Tolerance { element_eps: 128.0, norm_eps: 16.0 },
        inputs: vec![InputsRecord { name: "normal".to_string(), tolerance_scale: 1.0 }],
        proofs: vec![Workload::new("tiny", vec![("N".to_string(), 3)])],
        workloads: vec![workload("small", 100), workload("large", 1000)],
        extra: Vec::new(),
        micro_workloads: vec!["small".to_string()],
        kernels: vec![
            KernelRecord {
                name: "00_naive".to_string(),
                summary: "Loops".to_string(),
                tunables: Vec::new(),
                default: Params::default(),
                serves: both.clone(),
                entry: None,
            },
            KernelRecord {
                name: "10_tile".to_string(),
                summary: "Tiles".to_string(),
                tunables: vec![
                    tunable("TILE", [8, 16, 32, 64].map(Value::Int).to_vec()),
                    tunable("FAST", [false, true].map(Value::Bool).to_vec()),
                    tunable(
                        "CFLAGS",
                        ["", "-O3 -funroll-loops"].map(|flag| Value::Str(flag.into())).to_vec(),
                    ),
                ],
                default: tile_params(16, false, ""),
                serves: both,
                entry: None,
            },
        ],
    }
}

pub(crate) fn record(name: &str, started_unix_s: f64) -> RunRecord {
    RunRecord {
        format: FORMAT_VERSION,
        id: RunId(name.to_string()),
        lab: lab(),
        environment: environment().id(),
        started_unix_s,
        settings: BTreeMap::from([
            ("budget".to_string(), serde_json::json!(200)),
            ("seed".to_string(), serde_json::json!(7)),
        ]),
        status: RunStatus::Running,
    }
}

pub(crate) fn tile_params(tile: i64, fast: bool, flags: &str) -> Params {
    Params::from_iter([
        ("TILE".to_string(), Value::Int(tile)),
        ("FAST".to_string(), Value::Bool(fast)),
        ("CFLAGS".to_string(), Value::Str(flags.to_string())),
    ])
}

/// A finding to be filled in.
pub(crate) struct Sketch {
    pub(crate) kernel: &'static str,
    pub(crate) params: Params,
    pub(crate) origin: Origin,
    pub(crate) fidelity: Fidelity,
    pub(crate) outcome: Outcome,
    /// Tells apart trials that are alike in everything else.
    pub(crate) salt: u64,
}

impl Sketch {
    /// A tile kernel that passed at `Rank` with these medians on the two workloads.
    pub(crate) fn tile(tile: i64, small_s: f64, large_s: f64) -> Self {
        Self {
            kernel: "10_tile",
            params: tile_params(tile, false, ""),
            origin: Origin::Tuned { strategy: "anneal".to_string() },
            fidelity: Fidelity::Rank,
            outcome: passed(&[("small", small_s), ("large", large_s)]),
            salt: 0,
        }
    }

    pub(crate) fn finding(self) -> Finding {
        let (source, log) = (source(), Blob::new("warning: all is well\n".to_string()));
        let candidate = CandidateId::of(
            format!("{} {} {}", self.kernel, self.params.key(), self.salt).as_bytes(),
        );
        let name = format!("{candidate} {} {}", self.fidelity.name(), self.salt);
        let id = TrialId::of(name.as_bytes());
        let workloads: &[&str] =
            if self.fidelity == Fidelity::Micro { &["small"] } else { &["small", "large"] };
        let trial = Trial {
            format: FORMAT_VERSION,
            id,
            job: Job {
                trial: id,
                lab: LabId::of(b"lab"),
                candidate: Candidate {
                    id: candidate,
                    kernel: self.kernel.to_string(),
                    source: source.id,
                    params: self.params,
                    origin: self.origin,
                },
                workloads: workloads.iter().map(|name| (*name).to_string()).collect(),
                fidelity: self.fidelity,
                seed: u64::MAX - self.salt,
            },
            environment: environment().id(),
            builds: vec![Build {
                binary: BlobId::of(name.as_bytes()),
                command: vec!["gcc".to_string(), "-O3".to_string()],
                compile_s: 0.25,
                cached: false,
                log: log.id,
            }],
            outcome: self.outcome,
            same_binary_as: None,
            wall_s: 1.0,
            launch_s: 0.5,
            notes: Vec::new(),
        };
        Finding { trial, blobs: vec![source, log] }
    }
}

pub(crate) fn passed(medians: &[(&str, f64)]) -> Outcome {
    let measurements =
        medians.iter().map(|(workload, median_s)| measurement(workload, *median_s, 9)).collect();
    Outcome::Passed { measurements }
}

/// Samples that spread evenly around the median, by a percent.
pub(crate) fn measurement(workload: &str, median_s: f64, samples: usize) -> Measurement {
    let mut rng = Rng::derive(median_s.to_bits(), workload);
    let mut samples_s: Vec<f64> = (0..samples)
        .map(|idx| median_s * (0.99 + 0.02 * idx as f64 / (samples - 1).max(1) as f64))
        .collect();
    rng.shuffle(&mut samples_s);
    Measurement {
        disturbed_s: Vec::new(),
        warm_s: Vec::new(),
        device_state: None,
        workload: workload.to_string(),
        ticks: samples_s.iter().map(|sample| (sample * 3e9) as u64).collect(),
        samples_s,
        batch: 4,
        share: 1.0,
        error: ErrorSize {
            element_eps: 3.5,
            norm_eps: 0.75,
            plain: Some(PlainError { absolute: 2.5e-6, relative: 4e-3 }),
            of_budget: None,
        },
        stop: StopReason::Converged,
        launch_floor_s: 2e-6,
    }
}

pub(crate) fn crashed() -> Outcome {
    let cause = CrashCause::OutOfBounds { tensor: "o".to_string(), offset: -64 };
    Outcome::Crashed { workload: "small".to_string(), cause }
}

pub(crate) fn compile_failed() -> Outcome {
    Outcome::CompileFailed {
        message: "error: \"TILE\", of all things, is too large".to_string(),
        log: Blob::new("warning: all is well\n".to_string()).id,
    }
}

/// A comparison of the tile kernels with these times on `small`, and of one baseline.
pub(crate) fn comparison(tiles: &[(i64, f64)], baseline_s: f64) -> ComparisonRecord {
    let kernel = |tile: i64| Contender {
        label: format!("tile {tile}"),
        kind: ContenderKind::Kernel {
            kernel: "10_tile".to_string(),
            params: tile_params(tile, false, ""),
            candidate: None,
        },
    };
    let mut contenders: Vec<Contender> = tiles.iter().map(|(tile, _)| kernel(*tile)).collect();
    contenders.push(Contender {
        label: "library".to_string(),
        kind: ContenderKind::Baseline { name: "library".to_string() },
    });
    let times: Vec<f64> = tiles.iter().map(|(_, time_s)| *time_s).chain([baseline_s]).collect();
    let rounds = |workload: &str, scale: f64| PairedRounds {
        disturbed_s: Vec::new(),
        workload: workload.to_string(),
        samples_s: times
            .iter()
            .map(|time_s| measurement(workload, time_s * scale, 15).samples_s)
            .collect(),
        absent: Vec::new(),
    };
    ComparisonRecord {
        format: FORMAT_VERSION,
        purpose: ComparisonPurpose::Final,
        seed: 3,
        contenders,
        workloads: vec![rounds("small", 1.0), rounds("large", 10.0)],
        missing: Vec::new(),
        clocks: Vec::new(),
        notes: Vec::new(),
    }
}

/// Opens a new store with one run that has begun.
pub(crate) fn store_with_run(folder: &std::path::Path, run: &str) -> (Store, RunRecord) {
    let store = Store::open(&folder.join("evidence.db")).expect("a new store");
    let record = record(run, START);
    store.put_environment(&environment()).expect("an environment");
    store.start_run(&record).expect("a run");
    (store, record)
}
