//! The rules on made-up counters, and on recordings of real launches.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use super::*;
use crate::{CounterSource, CudaInfo, LaunchCode};

pub(super) fn ceilings() -> Ceilings {
    Ceilings {
        f32_flops_per_s: 1e13,
        f64_flops_per_s: 5e12,
        matrix_flops_per_s: Some(1e14),
        memory_bytes_per_s: 1e12,
        cache_bytes_per_s: 4e12,
        launch_floor_s: 2e-6,
        busy: false,
        newest: None,
    }
}

static DEVICE: LazyLock<DeviceInfo> = LazyLock::new(|| DeviceInfo {
    name: "Test GPU".to_string(),
    threads: 132,
    l1d_bytes: 0,
    l2_bytes: 50 << 20,
    l3_bytes: 50 << 20,
    vector_bytes: 16,
    features: Vec::new(),
    ticks_per_s: None,
    cuda: Some(CudaInfo {
        arch: "sm_90a".to_string(),
        driver_version: None,
        driver: "13.0".to_string(),
        sms: 132,
        warp_size: 32,
        max_threads: 1024,
        smem_per_block: 227 << 10,
        memory_bytes: 1 << 37,
        unmonitored: None,
    }),
});

/// Work that takes 10 µs at the ceilings, bound by memory; its arithmetic takes 1 µs.
pub(super) fn scene(ceilings: &Ceilings) -> Scene<'_> {
    let work = Some(WorkSize { flops: 1e8, bytes: 10e6 });
    Scene { device: &DEVICE, ceilings: Some(ceilings), work, dtype: DType::F16 }
}

pub(super) fn profile(time_s: f64, counters: Option<Counters>) -> WorkloadProfile {
    let code = LaunchCode { blocks: 1320, threads: 128, registers: 64, ..LaunchCode::default() };
    let entry = "kernel".to_string();
    WorkloadProfile {
        workload: "large".to_string(),
        time_s: Some(time_s),
        launch_floor_s: Some(2e-6),
        launches: vec![LaunchProfile { entry, code, counters }],
        instructions: BTreeMap::new(),
        counters: CounterSource::Missing { reason: "a test".to_string(), how: String::new() },
    }
}

fn stalls(reasons: &[(Stall, f64)]) -> Counters {
    Counters { stalls: reasons.iter().copied().collect(), ..Counters::default() }
}

#[test]
fn the_busiest_unit_bounds_and_else_what_is_waited_for() {
    let ceilings = ceilings();
    let check = |expected: Bound, words: &str, counters: Counters| {
        let found = diagnose(&profile(50e-6, Some(counters)), &scene(&ceilings));
        assert_eq!(found.bound, expected, "{found:?}");
        assert!(found.because.contains(words), "`{words}` is not in `{}`", found.because);
        assert_eq!(found.basis, Basis::Counters);
    };
    let busy = |sm: f64, memory: f64, tensor: f64| Counters {
        sm_throughput: Some(sm),
        memory_throughput: Some(memory),
        dram_throughput: Some(memory),
        tensor_active: Some(tensor),
        ..Counters::default()
    };
    check(Bound::Memory, "device memory works at 85 %", busy(0.3, 0.85, 0.0));
    check(Bound::Compute, "works at 75 %", busy(0.75, 0.4, 0.1));
    check(Bound::Tensor, "busy 70 %", busy(0.7, 0.5, 0.7));
    check(Bound::Latency, "no unit reaches 60 %", busy(0.59, 0.59, 0.59));
    let shared =
        Counters { l1_throughput: Some(0.9), memory_throughput: Some(0.9), ..busy(0.3, 0.2, 0.0) };
    check(Bound::Memory, "shared memory works at 90 %", shared);
    let waiting = [(Stall::Barrier, 4.0), (Stall::LongScoreboard, 3.0), (Stall::Selected, 1.0)];
    check(Bound::Synchronisation, "wait for each other 50 %", stalls(&waiting));
    let loading = [(Stall::Barrier, 3.0), (Stall::LongScoreboard, 4.0), (Stall::Selected, 1.0)];
    check(Bound::Latency, "data from global or local memory (50 %)", stalls(&loading));
    let little = [(Stall::Barrier, 1.5), (Stall::Wait, 1.0), (Stall::Selected, 9.0)];
    check(Bound::Latency, "other warps at a barrier", stalls(&little));
}

#[test]
fn a_launch_that_is_mostly_launching_is_called_so() {
    let ceilings = ceilings();
    let busy = Counters { memory_throughput: Some(0.9), ..Counters::default() };
    let near_floor = diagnose(&profile(5e-6, Some(busy.clone())), &scene(&ceilings));
    assert_eq!(near_floor.bound, Bound::Launch, "{near_floor:?}");
    let mut few = profile(50e-6, Some(busy));
    few.launches[0].code.blocks = 65;
    let found = diagnose(&few, &scene(&ceilings));
    assert_eq!(found.bound, Bound::Launch);
    assert_eq!(found.because, "it has 65 blocks for 132 multiprocessors");
    few.launches[0].code.blocks = 66;
    assert_eq!(diagnose(&few, &scene(&ceilings)).bound, Bound::Memory);
}

#[test]
fn concerns_come_with_advice() {
    let ceilings = ceilings();
    let check = |name: &str, advice: &str, counters: Counters| {
        let found = diagnose(&profile(50e-6, Some(counters)), &scene(&ceilings));
        let fact = found.facts.iter().find(|fact| fact.name == name);
        assert!(fact.is_some_and(|fact| fact.concern), "{name}: {found:#?}");
        assert!(found.advice.iter().any(|line| line.contains(advice)), "{advice}: {found:#?}");
    };
    let with = |change: fn(&mut Counters)| {
        let mut counters = Counters::default();
        change(&mut counters);
        counters
    };
    check(
        "bank conflicts",
        "swizzle",
        with(|it| {
            (it.bank_conflicts, it.shared_wavefronts) = (Some(300.0), Some(1000.0));
        }),
    );
    check(
        "coalescing",
        "neighbouring",
        with(|it| {
            (it.load_bytes_per_sector, it.load_sectors) = (Some(4.0), Some(1e6));
        }),
    );
    check(
        "spills",
        "spill",
        with(|it| {
            (it.local_instructions, it.instructions) = (Some(10.0), Some(100.0));
        }),
    );
    check(
        "bytes",
        "more than once",
        with(|it| {
            (it.dram_read_bytes, it.dram_write_bytes) = (Some(20e6), Some(1e6));
        }),
    );
    check(
        "waves",
        "last wave",
        with(|it| {
            (it.grid_blocks, it.sms, it.limit_warps) = (Some(300.0), Some(132.0), Some(2.0));
        }),
    );
    check(
        "occupancy",
        "registers",
        with(|it| {
            (it.occupancy, it.occupancy_possible) = (Some(0.1), Some(0.125));
            (it.limit_registers, it.limit_smem) = (Some(1.0), Some(4.0));
        }),
    );
}

#[test]
fn what_is_fine_is_no_concern() {
    let counters = Counters {
        bank_conflicts: Some(1.0),
        shared_wavefronts: Some(1000.0),
        load_bytes_per_sector: Some(32.0),
        load_sectors: Some(1e6),
        local_instructions: Some(0.0),
        dram_read_bytes: Some(10e6),
        dram_write_bytes: Some(0.0),
        grid_blocks: Some(528.0),
        sms: Some(132.0),
        limit_warps: Some(2.0),
        sm_active: Some(0.97),
        occupancy: Some(0.6),
        ..Counters::default()
    };
    let ceilings = ceilings();
    let found = diagnose(&profile(50e-6, Some(counters)), &scene(&ceilings));
    let concerns: Vec<&Fact> = found.facts.iter().filter(|fact| fact.concern).collect();
    assert!(concerns.is_empty(), "{concerns:?}");
}

#[test]
fn without_counters_the_time_and_the_code_speak() {
    let ceilings = ceilings();
    let check = |time_s: f64, work: WorkSize, instruction: &str, expected: Bound| {
        let mut profile = profile(time_s, None);
        profile.instructions.insert(instruction.to_string(), 8);
        profile.launches[0].code.spill_bytes = 16;
        let scene = Scene { work: Some(work), ..scene(&ceilings) };
        let found = diagnose(&profile, &scene);
        assert_eq!((found.bound, found.basis), (expected, Basis::Static), "{found:?}");
        for name in ["registers", "shared memory", "spills", "occupancy", "waves", "instructions"] {
            assert!(found.facts.iter().any(|fact| fact.name == name), "{name}: {found:?}");
        }
        assert!(found.stalls.is_empty());
    };
    let arithmetic = WorkSize { flops: 1e10, bytes: 1e6 };
    check(120e-6, arithmetic, "HGMMA", Bound::Tensor);
    check(120e-6, arithmetic, "FFMA", Bound::Compute);
    check(12e-6, WorkSize { flops: 1e6, bytes: 10e6 }, "LDG", Bound::Memory);
    check(500e-6, arithmetic, "HGMMA", Bound::Latency);
    check(5e-6, arithmetic, "HGMMA", Bound::Launch);
}

#[test]
fn what_the_compiler_gave_away_is_a_concern_with_and_without_counters() {
    let ceilings = ceilings();
    let log = "ptxas info    : (C7508) Potential Performance Loss: 'setmaxnreg' ignored; unable to \
               determine register count at entry.\n\
               ptxas info    : (C7511) Potential Performance Loss: wgmma.mma_async instructions are \
               serialized due to insufficient register resources for the wgmma pipeline in the \
               function 'kernel'";
    for counters in [None, Some(Counters::default())] {
        let mut profile = profile(50e-6, counters);
        profile.launches[0].code.remarks = crate::remarks(log);
        let found = diagnose(&profile, &scene(&ceilings));
        let said: Vec<&str> = found
            .facts
            .iter()
            .filter(|fact| fact.name == "compiler" && fact.concern)
            .map(|fact| fact.words.as_str())
            .collect();
        assert_eq!(said.len(), 2, "{found:?}");
        assert!(said[0].starts_with("setmaxnreg (C7508): "), "{said:?}");
        assert!(
            said[1].starts_with("serialized (C7511): wgmma.mma_async instructions"),
            "{said:?}"
        );
        for advice in ["ignores setmaxnreg", "one after the other"] {
            assert!(found.advice.iter().any(|it| it.contains(advice)), "{advice}: {found:?}");
        }
    }
}

/// Launches on an H200, recorded with `--set full`, with the columns that are used here.
#[test]
fn recordings_are_read_and_diagnosed() {
    let check = |text: &str, kernel: &str, n_launches: usize, resident: (f64, &str)| {
        let rows = table::parse(text).expect("a table");
        assert_eq!(rows.len(), n_launches);
        assert_eq!(rows[0].kernel, kernel);
        let counters = Counters::from_metrics(&rows[0].metrics);
        assert_eq!((counters.sms, counters.grid_blocks), (Some(132.0), Some(1.0)));
        assert_eq!(counters.resident_blocks(), Some(resident));
        assert_eq!(counters.tensor_active, Some(0.0));
        assert!(counters.duration_s.is_some_and(|time_s| (1e-6..1e-5).contains(&time_s)));
        assert!(counters.sm_active.is_some_and(|active| active < 0.01), "one block of 132");
        let shares = counters.stall_shares();
        let sum: f64 = shares.iter().map(|(_, share)| share).sum();
        assert!(shares.len() == Stall::ALL.len() && (sum - 1.0).abs() < 1e-12, "{shares:?}");
        let missing = serde_json::to_value(&counters).expect("JSON");
        let missing: Vec<&String> = missing
            .as_object()
            .expect("an object")
            .iter()
            .filter(|(_, it)| it.is_null())
            .map(|(name, _)| name)
            .collect();
        assert!(missing.is_empty(), "{missing:?}");
        let mut profile = profile(8e-6, Some(counters));
        profile.launches[0].code.blocks = 1;
        let ceilings = ceilings();
        let found = diagnose(&profile, &scene(&ceilings));
        assert_eq!(found.bound, Bound::Launch, "{found:?}");
        assert_eq!(found.because, "it has 1 block for 132 multiprocessors");
    };
    let recording = include_str!("../../tests/data/ncu/attention_mma.csv");
    check(recording, "attention_fwd", 2, (12.0, "registers"));
    let recording = include_str!("../../tests/data/ncu/gemm_wgmma.csv");
    check(recording, "gemm", 1, (8.0, "the number of warps"));
    let recording = include_str!("../../tests/data/ncu/rmsnorm_vector.csv");
    check(recording, "rmsnorm", 1, (24.0, "registers"));
}

/// Launches that fill an H200, recorded with `warpsmith profile`.
#[test]
fn recordings_of_full_launches_are_diagnosed() {
    let check = |text: &str, time_s: f64, expected: Bound, words: &str| {
        let rows = table::parse(text).expect("a table");
        let counters = Counters::from_metrics(&rows[0].metrics);
        let blocks = counters.grid_blocks.expect("a grid");
        let mut profile = profile(time_s, Some(counters));
        profile.launches[0].code.blocks = blocks as u64;
        let ceilings = ceilings();
        let found = diagnose(&profile, &scene(&ceilings));
        assert_eq!(found.bound, expected, "{found:?}");
        assert!(found.because.contains(words), "`{words}` is not in `{}`", found.because);
    };
    let recording = include_str!("../../tests/data/ncu/gemm_wgmma_4096.csv");
    check(recording, 185e-6, Bound::Tensor, "the matrix units are busy 89 %");
    let recording = include_str!("../../tests/data/ncu/rmsnorm_vector_large.csv");
    check(recording, 143e-6, Bound::Memory, "works at 89 %");
    let recording = include_str!("../../tests/data/ncu/attention_tiled.csv");
    check(recording, 193e-6, Bound::Compute, "works at 70 %");
    let recording = include_str!("../../tests/data/ncu/attention_wgmma_small.csv");
    check(recording, 12.1e-6, Bound::Latency, "no unit reaches 60 %");
}
