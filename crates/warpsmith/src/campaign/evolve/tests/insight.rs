//! What prompts say of a CUDA kernel's limits: recorded counters in the place of a profiler.

use warpsmith_model::diagnose::{Counters, table};
use warpsmith_model::{
    CounterSource, CudaInfo, FileBlob, LaunchCode, LaunchProfile, ProfileRecord, WorkloadProfile,
};

use super::*;
use crate::labdir;

/// A launch that fills an H200, as `ncu` recorded it.
const RECORDING: &str =
    include_str!("../../../../../warpsmith-model/tests/data/ncu/rmsnorm_vector_large.csv");
const LAB: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../labs/saxpy/cuda");
const WORKLOAD: &str = "n16m";

/// A profile of whatever kernel, with the counters of a recording or without.
pub(super) fn recorded_profile(
    winner: &ConfiguredKernel,
    trial: &Trial,
    has_counters: bool,
) -> (ProfileRecord, Vec<FileBlob>) {
    let rows = table::parse(RECORDING).expect("a table");
    let counters = Counters::from_metrics(&rows[0].metrics);
    let files = [RECORDING.as_bytes().to_vec(), b"report".to_vec()].map(FileBlob::new).to_vec();
    let source = match has_counters {
        true => CounterSource::Ncu {
            version: "2025.3.1 (build 36398880)".to_string(),
            csv: files[0].id,
            report: files[1].id,
        },
        false => CounterSource::Missing {
            reason: "ERR_NVGPUCTRPERM: the driver keeps them".to_string(),
            how: "ask the administrator".to_string(),
        },
    };
    let code = LaunchCode {
        blocks: 16384,
        threads: 256,
        registers: 34,
        smem_bytes: 64,
        ..LaunchCode::default()
    };
    let record = ProfileRecord {
        format: FORMAT_VERSION,
        candidate: trial.job.candidate.id,
        kernel: winner.kernel.name.clone(),
        params: winner.params.clone(),
        lab: trial.job.lab,
        environment: trial.environment,
        trial: trial.id,
        workloads: vec![WorkloadProfile {
            workload: WORKLOAD.to_string(),
            time_s: Some(143e-6),
            launch_floor_s: Some(2e-6),
            launches: vec![LaunchProfile {
                entry: "saxpy".to_string(),
                code,
                counters: has_counters.then_some(counters),
            }],
            instructions: BTreeMap::from([("LDG".to_string(), 8), ("STG".to_string(), 4)]),
            counters: source,
        }],
    };
    (record, if has_counters { files } else { Vec::new() })
}

/// A fake H200 with the CUDA lab of the repository.
fn cuda() -> Fake {
    let lab = labdir::load(Path::new(LAB)).expect("the lab").lab;
    let mut environment = environment();
    environment.device.cuda = Some(CudaInfo {
        arch: "sm_90a".to_string(),
        driver: "13.0".to_string(),
        driver_version: None,
        sms: 132,
        warp_size: 32,
        max_threads: 1024,
        smem_per_block: 227 << 10,
        memory_bytes: 1 << 37,
        unmonitored: None,
    });
    Fake::of(lab, environment)
}

fn begin(bench: &mut Fake, mode: EvolutionMode, from: InsightFrom) -> Start {
    let mut start = bench.start(mode, 6);
    start.settings.insight_from = from;
    start
}

fn script() -> Vec<String> {
    let kernel = |words: &str| good(words).replace("void blend(void)", "void saxpy(void)");
    vec![
        kernel("marker_takes_80"),
        kernel("marker_fails"),
        kernel("marker_takes_90"),
        kernel("marker_takes_60"),
        kernel("marker_hangs"),
        kernel("marker_takes_50"),
    ]
}

fn prompts(bench: &Fake) -> Vec<String> {
    let calls = bench.store.calls(&bench.run).expect("calls");
    calls.iter().map(|call| bench.store.blob(&call.prompt).expect("a prompt")).collect()
}

#[test]
fn a_prompt_says_what_the_profiler_counted_of_every_source_in_it() {
    let mut bench = cuda();
    let start = begin(&mut bench, EvolutionMode::Full, InsightFrom::Counters);
    let (panel, _dir) = tape(&script());
    let tally = run(&mut bench, &start, Some(&panel)).expect("an evolution").tally;
    let prompts = prompts(&bench);
    for prompt in &prompts {
        let described = prompt.matches("Its parameters:").count();
        assert!(described >= 1);
        assert_eq!(prompt.matches("What a profile of it shows:").count(), described, "{prompt}");
    }
    for words in [
        "| on n16m, counted by ncu 2025.3.1:",
        "| memory bound: the second-level cache works at 89 % of its peak",
        "| registers: 34 a thread",
        "| shared memory: 64.0 B a block",
        "| spills: none",
        "| occupancy: ",
        "| instructions: LDG 8, STG 4",
        "| coalescing: ",
        "| warps wait ",
        "| try: move fewer bytes",
    ] {
        assert!(prompts[0].contains(words), "`{words}` is not in\n{}", prompts[0]);
    }
    // The seed and whoever became a parent, each once.
    let profiles = bench.store.profiles(&bench.run).expect("profiles");
    let mut kernels: Vec<&str> = profiles.iter().map(|it| it.kernel.as_str()).collect();
    assert_eq!((tally.profiled as usize, tally.without_counters), (kernels.len(), 0));
    kernels.sort_unstable();
    kernels.dedup();
    assert_eq!(kernels.len(), profiles.len(), "{kernels:?}");
    assert!(!kernels.contains(&"e005_x"), "nobody is asked about the last one: {kernels:?}");
}

#[test]
fn where_counters_are_forbidden_the_compilers_report_stands_and_says_so() {
    let mut bench = cuda();
    bench.has_counters = false;
    let start = begin(&mut bench, EvolutionMode::Insight, InsightFrom::Counters);
    let (panel, _dir) = tape(&script());
    let tally = run(&mut bench, &start, Some(&panel)).expect("an evolution").tally;
    assert_eq!(tally.without_counters, tally.profiled);
    let prompt = &prompts(&bench)[0];
    for words in [
        "| on n16m, without counters (ERR_NVGPUCTRPERM: the driver keeps them):",
        "| registers: 34 a thread",
        "| occupancy: 75 % of the warps possible; 6 blocks of 256 threads at most, because of registers",
        "| instructions: LDG 8, STG 4",
    ] {
        assert!(prompt.contains(words), "`{words}` is not in\n{prompt}");
    }
    assert!(!prompt.contains("warps wait"), "{prompt}");
}

#[test]
fn nobody_is_profiled_for_prompts_that_describe_nobody() {
    for (mode, from) in [
        (EvolutionMode::Free, InsightFrom::Counters),
        (EvolutionMode::BestOfN, InsightFrom::Counters),
        (EvolutionMode::Full, InsightFrom::Times),
    ] {
        let mut bench = cuda();
        let start = begin(&mut bench, mode, from);
        let (panel, _dir) = tape(&script());
        let tally = run(&mut bench, &start, Some(&panel)).expect("an evolution").tally;
        assert_eq!(tally.profiled, 0, "{mode:?} {from:?}");
        assert!(bench.store.profiles(&bench.run).expect("profiles").is_empty());
        assert!(prompts(&bench).iter().all(|it| !it.contains("What a profile of it shows")));
    }
    // The target of the other tests has no profiler.
    let mut bench = Fake::new();
    let mut start = bench.start(EvolutionMode::Full, 2);
    start.settings.insight_from = InsightFrom::Counters;
    let (panel, _dir) = tape(&[good("marker_takes_80"), good("marker_takes_70")]);
    assert_eq!(run(&mut bench, &start, Some(&panel)).expect("an evolution").tally.profiled, 0);
}

#[test]
fn stored_profiles_give_the_same_prompts_again() {
    for has_counters in [true, false] {
        let mut bench = cuda();
        bench.has_counters = has_counters;
        let start = begin(&mut bench, EvolutionMode::Full, InsightFrom::Counters);
        let (panel, _dir) = tape(&script());
        let first = run(&mut bench, &start, Some(&panel)).expect("an evolution").tally;
        // Whoever is asked again answers from the store, whatever a profiler would say by now.
        bench.has_counters = !has_counters;
        let again = run(&mut bench, &start, None).expect("the same prompts").tally;
        assert_eq!(
            (again.profiled, again.without_counters),
            (first.profiled, first.without_counters)
        );
    }
}
