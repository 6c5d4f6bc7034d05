//! Measures the harness itself: how fast inputs are made and outputs judged, what the machine can
//! do at most, and what a trial costs beyond its compiler and its kernel.
//!
//! `cargo run --release -p warpsmith-gate --example gate_speed -- labs/saxpy n64k`
//!
//! Workloads follow the lab; none means all. The rest of a trial is given in seconds by the wall
//! and in seconds of processor time, which a busy machine does not distort as much.

#![expect(clippy::print_stdout, reason = "the numbers are the result")]

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Instant;

use warpsmith_device::cpu::{Cpu, CpuConfig, RUNNER_ARGUMENT, runner_main};
use warpsmith_device::processor_s;
use warpsmith_device::target::TensorPlan;
use warpsmith_gate::check::{Coverage, ErrorBudget, Expected, Values, compare};
use warpsmith_gate::corpus::{Corpus, CorpusOptions};
use warpsmith_gate::{ceilings, evaluate, inputs};
use warpsmith_model::lab::{Distribution, LabFiles, Role, Tolerance};
use warpsmith_model::{
    BlobId, Candidate, CandidateId, DType, FORMAT_VERSION, Fidelity, Job, Lab, Origin, Request,
    RequestLimits, TrialId, stats, units,
};

fn main() {
    let argument = std::env::args().nth(1);
    if argument.as_deref() == Some(RUNNER_ARGUMENT) {
        runner_main();
    }
    let lab_dir = PathBuf::from(argument.unwrap_or_else(|| "labs/saxpy".to_string()));
    generation_and_judgement();

    let cache = std::env::temp_dir().join("warpsmith-gate-speed");
    let config = CpuConfig { cache_dir: cache.join("artifacts"), runner_exe: None, threads: None };
    let mut cpu = Cpu::new(config).expect("this machine");
    let started = Instant::now();
    let top = ceilings::measure(&mut cpu).expect("ceilings");
    println!(
        "ceilings in {}: f32 {}, f64 {}, memory {}, cache {}, empty launch {}",
        units::time(started.elapsed().as_secs_f64()),
        units::flops(top.f32_flops_per_s),
        units::flops(top.f64_flops_per_s),
        units::bandwidth(top.memory_bytes_per_s),
        units::bandwidth(top.cache_bytes_per_s),
        units::time(top.launch_floor_s),
    );

    let lab = load(&lab_dir);
    let mut workloads: Vec<String> = std::env::args().skip(2).collect();
    if workloads.is_empty() {
        workloads = lab.workloads.iter().map(|workload| workload.name.clone()).collect();
    }
    let environment = cpu.environment();
    let mut corpus = Corpus::new(CorpusOptions::new(Some(cache.join("expected"))));
    let chain = corpus.check_chain(&mut cpu, &lab, 1).expect("a sound lab");
    println!("chain in {}", units::time(chain.wall_s));
    for authority in &chain.authorities {
        println!("  {authority:?}");
    }
    for fidelity in [Fidelity::Micro, Fidelity::Rank, Fidelity::Full] {
        for kernel in &lab.kernels {
            let mut incumbent_s = BTreeMap::new();
            let runs = if fidelity == Fidelity::Full { 1 } else { 7 };
            for run in 0..runs {
                let request = Request {
                    format: FORMAT_VERSION,
                    lab_dir: lab_dir.clone(),
                    kernel: None,
                    job: Job {
                        trial: TrialId::of(b"speed"),
                        lab: lab.id,
                        candidate: Candidate {
                            id: CandidateId::of(kernel.source.as_bytes()),
                            kernel: kernel.name.clone(),
                            source: BlobId::of(kernel.source.as_bytes()),
                            params: kernel.default.clone(),
                            origin: Origin::Seed,
                        },
                        workloads: workloads.clone(),
                        fidelity,
                        seed: 1,
                    },
                    limits: RequestLimits {
                        incumbent_s: incumbent_s.clone(),
                        ..RequestLimits::default()
                    },
                };
                let before_s = processor_s();
                let finding = evaluate::evaluate(
                    &mut cpu,
                    &mut corpus,
                    &lab,
                    kernel,
                    &request,
                    &environment,
                    Some(&top),
                );
                let trial = finding.expect("a finding").trial;
                let spent_s = processor_s() - before_s;
                let threads = f64::from(environment.device.threads);
                let compile_s = trial
                    .builds
                    .iter()
                    .filter(|build| !build.cached)
                    .fold(0.0, |sum, build| sum + build.compile_s);
                println!(
                    "{} {} run {run}: {}; wall {}, launches {}, compilers {}, rest {}, processor \
                     beyond launches {}",
                    fidelity.name(),
                    kernel.name,
                    trial.outcome.describe(),
                    units::time(trial.wall_s),
                    units::time(trial.launch_s),
                    units::time(compile_s),
                    units::time(trial.wall_s - trial.launch_s - compile_s),
                    units::time(spent_s - compile_s - threads * trial.launch_s),
                );
                for note in &trial.notes {
                    println!("    note: {note}");
                }
                for measurement in trial.outcome.measurements() {
                    let interval = stats::median_interval(&measurement.samples_s).expect("samples");
                    if run == runs - 1 {
                        println!(
                            "    {}: {} ±{:.1} % from {} samples of {} launches, {:?}",
                            measurement.workload,
                            units::time(interval.mid),
                            interval.relative_width() * 50.0,
                            measurement.samples_s.len(),
                            measurement.batch,
                            measurement.error,
                        );
                    }
                    if fidelity == Fidelity::Rank {
                        incumbent_s.insert(measurement.workload.clone(), interval.mid);
                    }
                }
            }
        }
    }
}

fn generation_and_judgement() {
    let elements = 16 << 20;
    for dtype in [DType::F32, DType::F16, DType::Bf16, DType::F64] {
        let plan =
            TensorPlan { name: "z".into(), shape: vec![elements], dtype, role: Role::Output };
        let bytes = plan.bytes() as f64;
        let normal = Distribution::Normal { mean: 0.0, std: 1.0 };
        let (contents, made_s) = timed(|| inputs::tensor_contents(&plan, &normal, 1));
        let values = Values::from_bytes(dtype, &contents);
        let expected = Expected::new(&plan, values, 0.0).expect("finite");
        let tolerance = Tolerance { element_eps: 4.0, norm_eps: 2.0 };
        let budget = ErrorBudget::new(&tolerance, 1.0, dtype);
        let (judged, judged_s) = timed(|| compare(&contents, &expected, &budget, &Coverage::Whole));
        judged.expect("equal");
        println!(
            "{dtype:?}: made at {}, judged at {}",
            units::bandwidth(bytes / made_s),
            units::bandwidth(bytes / judged_s)
        );
    }
}

/// Runs several times; returns the last result and the least seconds.
fn timed<T>(mut run: impl FnMut() -> T) -> (T, f64) {
    let mut best_s = f64::INFINITY;
    loop {
        let started = Instant::now();
        let result = run();
        let elapsed_s = started.elapsed().as_secs_f64();
        if elapsed_s > 0.97 * best_s {
            return (result, best_s.min(elapsed_s));
        }
        best_s = elapsed_s;
    }
}

fn load(dir: &Path) -> Lab {
    let mut files = LabFiles::new();
    for folder in ["", "kernels", "baselines", "../include"] {
        let Ok(entries) = std::fs::read_dir(dir.join(folder)) else { continue };
        for entry in entries {
            let path = entry.expect("listable").path();
            let name = path.file_name().expect("a name").to_string_lossy().to_string();
            if path.is_file() && [".toml", ".c", ".h", ".py"].iter().any(|end| name.ends_with(end))
            {
                let key = if folder.is_empty() { name } else { format!("{folder}/{name}") };
                files.insert(key, std::fs::read_to_string(&path).expect("text"));
            }
        }
    }
    Lab::parse(&files).unwrap_or_else(|errors| panic!("{errors}"))
}
