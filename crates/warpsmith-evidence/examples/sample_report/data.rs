//! Evidence of a run that never happened: plausible in its numbers, hostile in its texts.

use std::collections::BTreeMap;

use serde_json::json;
use warpsmith_model::lab::{Tolerance, Workload};
use warpsmith_model::rng::Rng;
use warpsmith_model::{
    Absent, Authority, Blob, BlobId, Build, Candidate, CandidateId, Ceilings, ChainRecord,
    ComparisonPurpose, ComparisonRecord, Compiler, Contender, ContenderKind, CrashCause, DType,
    DeviceInfo, Environment, ErrorSize, FORMAT_VERSION, Fidelity, Finding, Guard, InputsRecord,
    Isolation, Job, KernelRecord, LabId, LabRecord, Measurement, Mismatch, MismatchKind,
    MissingBaseline, Origin, Outcome, PairedRounds, Params, Proof, RunId, RunRecord, RunStatus,
    RunTrial, Sensitivity, Stage, StopReason, Trial, TrialId, TunableRecord, Value, WorkloadRecord,
};

use warpsmith_evidence::{Store, StoreError};

use super::ReportData;

/// Everything that a careless page would run, lose or reorder.
pub(crate) const HOSTILE: &str = "</script><script>window.hacked=1</script><img src=x onerror='window.hacked=2'>\"'&amp; \u{1b}[31m\u{0}\u{202e}";

const STARTED_UNIX_S: f64 = 1_769_869_530.0;
const TUNED: &str = "30_register_tile";
/// Where the author's choice stands in the space.
const SEED_PLACE: usize = 7;

/// Makes the evidence of a run whose search had this many trials.
pub(crate) fn sample(n_search: usize) -> ReportData {
    let mut maker = Maker {
        rng: Rng::derive(n_search as u64, "sample report"),
        lab: lab(),
        trials: Vec::new(),
        texts: BTreeMap::new(),
    };
    let space = space(&maker.lab);
    maker.micro(&space);
    maker.search(&space, n_search);
    maker.hostile();
    maker.full(&space);
    let comparisons = vec![maker.comparison(false), maker.comparison(true)];
    let ended_unix_s = STARTED_UNIX_S + 1.5 * maker.trials.len() as f64;
    let environment = environment();
    ReportData {
        run: RunRecord {
            format: FORMAT_VERSION,
            id: RunId("attention-20260131-142530-9f3a".into()),
            lab: maker.lab,
            environment: environment.id(),
            started_unix_s: STARTED_UNIX_S,
            settings: settings(n_search),
            status: RunStatus::Finished { ended_unix_s },
        },
        environment,
        ceilings: Some(ceilings()),
        chain: Some(chain()),
        trials: maker.trials,
        rest: None,
        comparisons,
        profiles: Vec::new(),
        evolution: None,
        ablation: None,
        calls: Vec::new(),
        texts: maker.texts,
    }
}

/// Makes the evidence of a run that recorded nothing yet.
pub(crate) fn sample_empty() -> ReportData {
    let mut data = sample(0);
    data.run.status = RunStatus::Running;
    data.run.settings.clear();
    data.environment.compilers.clear();
    data.ceilings = None;
    data.chain = None;
    data.trials.clear();
    data.comparisons.clear();
    data.texts.clear();
    data
}

/// Records the evidence in a store, as a campaign would.
pub(crate) fn record(data: &ReportData, store: &Store) -> Result<(), StoreError> {
    store.put_environment(&data.environment)?;
    store.start_run(&data.run)?;
    let run = &data.run.id;
    if let Some(ceilings) = &data.ceilings {
        store.put_ceilings(run, ceilings, data.run.started_unix_s)?;
    }
    if let Some(chain) = &data.chain {
        store.put_chain(run, chain)?;
    }
    // Every text travels with the first trial; the store keeps each once.
    let mut blobs: Vec<Blob> = data.texts.values().cloned().map(Blob::new).collect();
    for record in &data.trials {
        let finding = Finding { trial: record.trial.clone(), blobs: std::mem::take(&mut blobs) };
        store.append(run, &finding, record.at_unix_s)?;
    }
    for comparison in &data.comparisons {
        store.put_comparison(run, comparison)?;
    }
    Ok(())
}

struct Maker {
    rng: Rng,
    lab: LabRecord,
    trials: Vec<RunTrial>,
    texts: BTreeMap<BlobId, String>,
}

/// What is different between two trials of the sample.
struct Attempt<'a> {
    kernel: &'a str,
    params: Params,
    origin: Origin,
    fidelity: Fidelity,
    workloads: Vec<String>,
    outcome: Outcome,
    source: BlobId,
}

impl Maker {
    fn micro(&mut self, space: &[Params]) {
        let workloads = self.lab.micro_workloads.clone();
        for params in space.iter().step_by(4).take(48).cloned().collect::<Vec<_>>() {
            let outcome = self.passed(&params, Fidelity::Micro, &workloads, 1.0);
            self.add_tuned(params, Origin::Micro, Fidelity::Micro, workloads.clone(), outcome);
        }
    }

    fn search(&mut self, space: &[Params], n_search: usize) {
        let workloads = self.workload_names();
        let mut order: Vec<usize> = (0..space.len()).filter(|at| *at != SEED_PLACE).collect();
        self.rng.shuffle(&mut order);
        order.insert(0, SEED_PLACE);
        for idx in 0..n_search {
            let mut params = space[order[idx % order.len()]].clone();
            if idx >= space.len() {
                // A space that is large enough for this many trials.
                params.0.insert("PREFETCH".into(), Value::Int((idx / space.len()) as i64));
            }
            let origin = match idx {
                0 => Origin::Seed,
                _ => Origin::Tuned { strategy: "surrogate".into() },
            };
            let outcome = self.outcome(&params, idx, &workloads);
            self.add_tuned(params, origin, Fidelity::Rank, workloads.clone(), outcome);
        }
    }

    /// Most pass; each way to fail occurs.
    fn outcome(&mut self, params: &Params, idx: usize, workloads: &[String]) -> Outcome {
        let workload = workloads[idx % workloads.len()].clone();
        match (idx, self.rng.below(40)) {
            (0, _) | (_, 8..) => {
                let progress = 1.0 + 0.4 / (1.0 + idx as f64 / 30.0);
                self.passed(params, Fidelity::Rank, workloads, progress)
            }
            (_, 0 | 1) => {
                let log = self.text(format!(
                    "{TUNED}.c:41:1: error: static assertion failed: \"a block is a whole number of tiles\"\n   41 | _Static_assert(kBlockM % kTileM == 0, \"a block is a whole number of tiles\");\n"
                ));
                let message = "static assertion failed: \"a block is a whole number of tiles\"";
                Outcome::CompileFailed { message: message.into(), log }
            }
            (_, 2) => Outcome::Crashed {
                workload,
                cause: CrashCause::OutOfBounds { tensor: "k".into(), offset: 1_048_576 },
            },
            (_, 3) => Outcome::TimedOut { workload, limit_s: 20.0 },
            (_, 4) => Outcome::Incorrect { mismatch: mismatch(workload) },
            (_, 5) if idx.is_multiple_of(3) => Outcome::Implausible {
                workload,
                time_s: 2.1e-6,
                floor_s: 9.4e-5,
                measurements: self.measurements(params, Fidelity::Rank, &workloads[..1], 0.01),
            },
            _ => {
                // Abandoned: timed on the first workload alone.
                let mut measurements =
                    self.measurements(params, Fidelity::Rank, &workloads[..1], 2.4);
                measurements[0].stop = StopReason::Hopeless;
                Outcome::Passed { measurements }
            }
        }
    }

    /// A trial whose every text is an attack.
    fn hostile(&mut self) {
        let log = self.text(format!("cc1: warning: {HOSTILE}\n"));
        let source =
            self.text(format!("// {HOSTILE}\nint main(void) {{ return 1 < 2 && 3 > 2; }}\n"));
        let attempt = Attempt {
            kernel: HOSTILE,
            params: Params::from_iter([("CFLAGS".to_string(), Value::Str(HOSTILE.into()))]),
            origin: Origin::Tuned { strategy: HOSTILE.into() },
            fidelity: Fidelity::Rank,
            workloads: vec![HOSTILE.into()],
            outcome: Outcome::CompileFailed { message: HOSTILE.into(), log },
            source,
        };
        self.add(attempt, vec![HOSTILE.into()]);
    }

    fn full(&mut self, space: &[Params]) {
        let workloads = self.workload_names();
        let best = best_params(space);
        let outcome = self.passed(&best, Fidelity::Full, &workloads, 1.0);
        self.add_tuned(best, Origin::Manual, Fidelity::Full, workloads.clone(), outcome);
        for (kernel, slower, origin) in [
            ("00_naive", 38.0, Origin::Seed),
            ("20_vector", 3.1, Origin::Seed),
            ("onnxruntime", 1.09, Origin::Baseline),
        ] {
            let measurements =
                self.measurements(&Params::default(), Fidelity::Full, &workloads, slower);
            let source = self.text(format!("// {kernel}\nvoid attention_fwd(void);\n"));
            let attempt = Attempt {
                kernel,
                params: Params::default(),
                origin,
                fidelity: Fidelity::Full,
                workloads: workloads.clone(),
                outcome: Outcome::Passed { measurements },
                source,
            };
            self.add(attempt, Vec::new());
        }
    }

    fn comparison(&mut self, with_baselines: bool) -> ComparisonRecord {
        let kernel = |label: &str, params: Params| Contender {
            label: label.into(),
            kind: ContenderKind::Kernel { kernel: label.into(), params, candidate: None },
        };
        let baseline = |name: &str| Contender {
            label: name.into(),
            kind: ContenderKind::Baseline { name: name.into() },
        };
        let mut contenders = vec![
            kernel(TUNED, best_params(&space(&self.lab))),
            kernel("00_naive", Params::default()),
            kernel("20_vector", Params::default()),
        ];
        let mut slower = vec![1.0, 38.0, 3.1];
        if with_baselines {
            contenders.extend([baseline("onnxruntime"), baseline("numpy"), baseline("blas_loop")]);
            slower.extend([1.09, 6.4, 1.001]);
        }
        let workloads = self.lab.workloads.clone();
        let rounds = workloads.iter().enumerate().map(|(idx, workload)| {
            let is_absent = |contender: usize| contender == 4 && workload.name.ends_with("causal");
            let mut samples_s: Vec<Vec<f64>> = vec![Vec::new(); contenders.len()];
            for _ in 0..20 {
                let moment = 1.0 + 0.05 * self.rng.unit();
                for (contender, samples) in samples_s.iter_mut().enumerate() {
                    if !is_absent(contender) {
                        let lean = if contender == 3 && idx == 2 { 0.84 } else { 1.0 };
                        let noise = 1.0 + 0.012 * self.rng.unit();
                        samples.push(base_s(workload) * slower[contender] * lean * moment * noise);
                    }
                }
            }
            let absent = (0..contenders.len())
                .filter(|contender| is_absent(*contender))
                .map(|contender| Absent {
                    contender,
                    reason: "does not serve this shape: CAUSAL == 0 is required".into(),
                    verdict: None,
                })
                .collect();
            PairedRounds {
                workload: workload.name.clone(),
                samples_s,
                disturbed_s: Vec::new(),
                absent,
            }
        });
        let workloads = rounds.collect();
        let missing = vec![MissingBaseline {
            name: "pytorch_sdpa".into(),
            reason: "its package torch==2.9.1 is not installed".into(),
            how: "warpsmith setup baselines".into(),
        }];
        let missing = if with_baselines { missing } else { Vec::new() };
        let seed = 0x51ed_270b_9f3a_11c4;
        let purpose = match with_baselines {
            true => ComparisonPurpose::Final,
            false => ComparisonPurpose::Finalists,
        };
        let notes = Vec::new();
        ComparisonRecord {
            format: FORMAT_VERSION,
            purpose,
            seed,
            contenders,
            workloads,
            missing,
            clocks: Vec::new(),
            notes,
        }
    }

    fn workload_names(&self) -> Vec<String> {
        self.lab.workloads.iter().map(|workload| workload.name.clone()).collect()
    }

    fn passed(
        &mut self,
        params: &Params,
        fidelity: Fidelity,
        workloads: &[String],
        slower: f64,
    ) -> Outcome {
        Outcome::Passed { measurements: self.measurements(params, fidelity, workloads, slower) }
    }

    fn measurements(
        &mut self,
        params: &Params,
        fidelity: Fidelity,
        workloads: &[String],
        slower: f64,
    ) -> Vec<Measurement> {
        let n_samples = if fidelity == Fidelity::Full { 60 } else { 24 };
        // The microbenchmark sees a part of the truth.
        let blur = if fidelity == Fidelity::Micro { 0.8 + 0.25 * self.rng.unit() } else { 1.0 };
        workloads
            .iter()
            .map(|name| {
                let workload = self.lab.workload(name).expect("a workload of the lab").clone();
                let centre_s = base_s(&workload) * penalty(params) * slower * blur;
                let samples_s = (0..n_samples)
                    .map(|_| {
                        let spike = if self.rng.below(30) == 0 { 1.2 } else { 1.0 };
                        centre_s * spike * (1.0 + 0.02 * self.rng.unit())
                    })
                    .collect();
                Measurement {
                    disturbed_s: Vec::new(),
                    warm_s: Vec::new(),
                    device_state: None,
                    workload: name.clone(),
                    samples_s,
                    batch: 4,
                    ticks: Vec::new(),
                    share: if fidelity == Fidelity::Micro { 0.0625 } else { 1.0 },
                    error: ErrorSize {
                        element_eps: 6.0 + 8.0 * self.rng.unit(),
                        norm_eps: 0.4 + 0.3 * self.rng.unit(),
                        ..ErrorSize::default()
                    },
                    stop: if self.rng.below(5) == 0 {
                        StopReason::Budget
                    } else {
                        StopReason::Converged
                    },
                    launch_floor_s: 4.1e-6,
                }
            })
            .collect()
    }

    fn add_tuned(
        &mut self,
        params: Params,
        origin: Origin,
        fidelity: Fidelity,
        workloads: Vec<String>,
        outcome: Outcome,
    ) {
        let source = self.text(include_str!("../../../../labs/saxpy/kernels/10_vector.c").into());
        let attempt =
            Attempt { kernel: TUNED, params, origin, fidelity, workloads, outcome, source };
        self.add(attempt, Vec::new());
    }

    fn add(&mut self, attempt: Attempt<'_>, notes: Vec<String>) {
        let seq = self.trials.len() as u64;
        let mut command: Vec<String> =
            ["gcc", "-shared", "-fPIC", "-O3", "-march=native"].map(String::from).to_vec();
        command.extend(
            attempt.params.0.iter().map(|(name, value)| format!("-D{name}={}", value.as_macro())),
        );
        command.extend([
            "-o".to_string(),
            format!("kernel-{seq:05}.so"),
            format!("{}.c", attempt.kernel),
        ]);
        let log = self.text(String::new());
        let build = Build {
            binary: BlobId::of(&seq.to_le_bytes()),
            command,
            compile_s: 0.21,
            cached: seq % 5 == 4,
            log,
        };
        let builds = match attempt.outcome {
            Outcome::CompileFailed { .. } => Vec::new(),
            _ => vec![build],
        };
        let id = TrialId::of(&seq.to_le_bytes());
        let candidate = Candidate {
            id: CandidateId::of(format!("{} {}", attempt.kernel, attempt.params.key()).as_bytes()),
            kernel: attempt.kernel.into(),
            source: attempt.source,
            params: attempt.params,
            origin: attempt.origin,
        };
        let trial = Trial {
            format: FORMAT_VERSION,
            id,
            job: Job {
                trial: id,
                lab: self.lab.id,
                candidate,
                workloads: attempt.workloads,
                fidelity: attempt.fidelity,
                seed: 1234 + seq,
            },
            environment: environment().id(),
            builds,
            outcome: attempt.outcome,
            same_binary_as: None,
            wall_s: 1.4,
            launch_s: 0.9,
            notes,
        };
        let at_unix_s = STARTED_UNIX_S + 1.5 * seq as f64;
        self.trials.push(RunTrial { seq, at_unix_s, adopted: false, trial });
    }

    fn text(&mut self, text: String) -> BlobId {
        let blob = Blob::new(text);
        self.texts.insert(blob.id, blob.text);
        blob.id
    }
}

fn mismatch(workload: String) -> Mismatch {
    Mismatch {
        kind: MismatchKind::Element,
        stage: Stage::Gate,
        workload,
        inputs: "large scores".into(),
        seed: 77,
        tensor: "o".into(),
        index: vec![0, 3, 511, 17],
        got: "-0.4127".into(),
        expected: "0.0031".into(),
        excess: 912.4,
        wrong: 32_768,
        total: 262_144,
    }
}

fn base_s(workload: &WorkloadRecord) -> f64 {
    workload.flops / 41e9 + 3e-6
}

/// How much slower than the best a choice of parameters is.
fn penalty(params: &Params) -> f64 {
    let number = |name: &str| params.get(name).and_then(Value::as_f64);
    let miss = |name: &str, best: f64, cost: f64| {
        number(name).map_or(0.0, |value| cost * (value / best).log2().abs())
    };
    let clang = match params.get("CC") {
        Some(Value::Str(name)) if name == "clang" => 0.0,
        _ => 0.06,
    };
    1.0 + miss("BLOCK_M", 32.0, 0.22)
        + miss("BLOCK_N", 128.0, 0.09)
        + miss("UNROLL", 4.0, 0.05)
        + clang
}

fn best_params(space: &[Params]) -> Params {
    let best = space.iter().min_by(|a, b| penalty(a).total_cmp(&penalty(b)));
    best.expect("the space is not empty").clone()
}

fn space(lab: &LabRecord) -> Vec<Params> {
    let kernel = lab.kernel(TUNED).expect("the lab has this kernel");
    let mut space = vec![Params::default()];
    for tunable in &kernel.tunables {
        space = space
            .iter()
            .flat_map(|params| {
                tunable.values.iter().map(|value| {
                    let mut params = params.clone();
                    params.0.insert(tunable.name.clone(), value.clone());
                    params
                })
            })
            .collect();
    }
    space
}

fn lab() -> LabRecord {
    let axes = |values: [i64; 5]| -> Vec<(String, i64)> {
        ["B", "H", "S", "D", "CAUSAL"].iter().map(|name| name.to_string()).zip(values).collect()
    };
    let workload = |name: &str, values: [i64; 5]| {
        let [b, h, s, d, causal] = values.map(|value| value as f64);
        WorkloadRecord {
            name: name.into(),
            axes: axes(values),
            flops: 4.0 * b * h * s * s * d / (1.0 + causal),
            bytes: 16.0 * b * h * s * d,
        }
    };
    let workloads = vec![
        workload("b1h8s512d64", [1, 8, 512, 64, 0]),
        workload("b1h8s512d64_causal", [1, 8, 512, 64, 1]),
        workload("b1h8s2048d64", [1, 8, 2048, 64, 0]),
        workload("b1h16s1024d128_causal", [1, 16, 1024, 128, 1]),
    ];
    let served: Vec<String> = workloads.iter().map(|workload| workload.name.clone()).collect();
    let kernel = |name: &str, summary: &str, tunables: Vec<TunableRecord>| KernelRecord {
        name: name.into(),
        summary: summary.into(),
        default: tunables
            .iter()
            .map(|t| (t.name.clone(), t.values[t.values.len() / 2].clone()))
            .collect(),
        tunables,
        serves: served.clone(),
        entry: None,
    };
    let integers = |name: &str, values: &[i64]| TunableRecord {
        name: name.into(),
        values: values.iter().map(|value| Value::Int(*value)).collect(),
    };
    let texts = |name: &str, values: &[&str]| TunableRecord {
        name: name.into(),
        values: values.iter().map(|value| Value::Str(value.to_string())).collect(),
    };
    let mut tuned = kernel(
        TUNED,
        "Queries in registers, online softmax, keys and values streamed once",
        vec![
            integers("BLOCK_M", &[8, 16, 32, 64]),
            integers("BLOCK_N", &[32, 64, 128, 256]),
            integers("UNROLL", &[1, 2, 4]),
            texts("CC", &["gcc", "clang"]),
            texts("CFLAGS", &["", "-funroll-loops"]),
        ],
    );
    tuned.default = space_entry(&tuned, SEED_PLACE);
    LabRecord {
        id: LabId::of(b"sample"),
        name: "attention".into(),
        title: "Fused attention, forward: O = softmax(scale Q Kᵀ) V".into(),
        dtype: DType::F32,
        arithmetic: None,
        reference: "reference.c".into(),
        oracle: "00_naive".into(),
        imported: None,
        tensors: Vec::new(),
        scalars: Vec::new(),
        tolerance: Tolerance { element_eps: 64.0, norm_eps: 8.0 },
        inputs: [
            ("normal", 1.0),
            ("mixed values", 1.0),
            ("large scores", 16.0),
            ("equal scores", 1.0),
        ]
        .map(|(name, tolerance_scale)| InputsRecord { name: name.into(), tolerance_scale })
        .to_vec(),
        proofs: [
            ("one row", [1, 1, 1, 64, 1]),
            ("odd", [2, 2, 33, 64, 0]),
            ("wide", [1, 2, 129, 128, 0]),
        ]
        .map(|(name, values)| Workload::new(name, axes(values)))
        .to_vec(),
        workloads,
        extra: Vec::new(),
        micro_workloads: vec!["b1h8s512d64".into()],
        kernels: vec![
            kernel("00_naive", "Three loops and a temporary row of scores", Vec::new()),
            kernel("20_vector", "Stated vectors over the head dimension", Vec::new()),
            tuned,
        ],
    }
}

/// The entry of a kernel's space that `space` lists at this place.
fn space_entry(kernel: &KernelRecord, mut place: usize) -> Params {
    let mut params = Params::default();
    for tunable in kernel.tunables.iter().rev() {
        let n_values = tunable.values.len();
        params.0.insert(tunable.name.clone(), tunable.values[place % n_values].clone());
        place /= n_values;
    }
    params
}

fn environment() -> Environment {
    Environment {
        format: FORMAT_VERSION,
        warpsmith: "0.1.0".into(),
        system: "Linux 6.12.0".into(),
        device: DeviceInfo {
            cuda: None,
            name: "Example CPU 8-Core Processor".into(),
            threads: 8,
            l1d_bytes: 32 << 10,
            l2_bytes: 512 << 10,
            l3_bytes: 16 << 20,
            vector_bytes: 32,
            features: ["avx2", "fma", "f16c"].map(String::from).to_vec(),
            ticks_per_s: Some(2.9e9),
        },
        compilers: vec![
            Compiler { name: "gcc".into(), version: "gcc (Debian 14.2.0-19) 14.2.0".into() },
            Compiler { name: "clang".into(), version: "Debian clang version 19.1.7 (3+b1)".into() },
        ],
        isolation: Isolation {
            seccomp: Guard::Active,
            landlock: Guard::Missing { reason: "the kernel was built without Landlock".into() },
            rlimits: Guard::Active,
            sealed_inputs: Guard::Active,
            privileges: Guard::Active,
        },
    }
}

fn ceilings() -> Ceilings {
    Ceilings {
        matrix_flops_per_s: None,
        f32_flops_per_s: 7.4e10,
        f64_flops_per_s: 3.7e10,
        memory_bytes_per_s: 1.9e10,
        cache_bytes_per_s: 2.4e11,
        launch_floor_s: 4.1e-6,
        busy: false,
        newest: None,
    }
}

fn chain() -> ChainRecord {
    let proof = |shape: &str, inputs: &str, scale: f64, element_eps: f64| Proof {
        shape: shape.into(),
        inputs: inputs.into(),
        error: ErrorSize { element_eps, norm_eps: element_eps / 11.0, ..ErrorSize::default() },
        allowed: ErrorSize {
            element_eps: 64.0 * scale,
            norm_eps: 8.0 * scale,
            ..ErrorSize::default()
        },
    };
    ChainRecord {
        format: FORMAT_VERSION,
        sensitivity: [("q", 0.84), ("k", 0.79), ("v", 1.39)]
            .map(|(tensor, relative_change)| Sensitivity { tensor: tensor.into(), relative_change })
            .to_vec(),
        proofs: ["one row", "odd", "wide"]
            .into_iter()
            .flat_map(|shape| {
                [
                    proof(shape, "normal", 1.0, 4.2),
                    proof(shape, "mixed values", 1.0, 7.9),
                    proof(shape, "large scores", 16.0, 88.0),
                    proof(shape, "equal scores", 1.0, 1.4),
                ]
            })
            .collect(),
        authorities: [
            ("b1h8s512d64", true),
            ("b1h8s512d64_causal", true),
            ("b1h8s2048d64", false),
            ("b1h16s1024d128_causal", false),
        ]
        .map(|(workload, by_reference)| Authority {
            workload: workload.into(),
            by_reference,
            sampled_blocks: if by_reference { 4096 } else { 64 },
            contents: 4,
        })
        .to_vec(),
        wall_s: 3.8,
    }
}

fn settings(n_search: usize) -> BTreeMap<String, serde_json::Value> {
    let settings = json!({
        "goal": "run", "lab_dir": "labs/attention", "kernel": null, "strategy": "surrogate",
        "budget_trials": n_search, "budget_s": 600.0, "seed": 42, "seed_from": "micro", "top_k": 8,
        "micro_limit": 48, "reuse": true, "compare_rounds": 30, "compare_s": 5.0,
        "hopeless_ratio": 2.0,
    });
    serde_json::from_value(settings).expect("an object of settings")
}
