//! The microbenchmark: one wave of the kernel's own blocks, checked and scaled to the whole.
//!
//! A wave is a few blocks of the last launch for each thread, more when that is too short for the
//! clock, evenly spaced over the workload so that cheap and expensive blocks
//! (a causal mask) are met in their true proportion. A CUDA grid cannot be launched in part, so there
//! the whole of a small workload, about a wave, is run a few times, on the device's cycle counters.

use std::sync::Arc;

use warpsmith_device::poison::Poison;
use warpsmith_device::target::Extent;
use warpsmith_model::lab::Workload;
use warpsmith_model::rng::Rng;
use warpsmith_model::{ErrorSize, Measurement, Stage};

use super::bench::{Bench, Look, Stop};
use super::readings::Readings;
use super::timing;
use crate::clock::Rule;
use crate::corpus::{Case, Want};

/// A wave should take this long, so that neither the launch's own cost nor a thread that starts a little
/// late drowns it.
const WAVE_S: f64 = 1e-3;
/// But has at least and at most this many blocks for each thread.
const BLOCKS_PER_THREAD: std::ops::RangeInclusive<i64> = 2..=32;
/// Cases that one session gets.
const SESSION_CASES: usize = 6;

/// Measures waves on one workload.
pub(super) fn measure(bench: &mut Bench<'_>, workload: &Workload) -> Result<Measurement, Stop> {
    if bench.target.info().cuda.is_some() {
        return timing::short(bench, workload);
    }
    let program = bench.program(workload)?;
    let cases: Vec<Arc<Case>> =
        bench.corpus.cases(bench.target, bench.lab, workload, 0, bench.seed, Want::AsManyAsPay)?;
    let last = program.launches.last().expect("a kernel has a launch");
    if program.launches.len() > 1 {
        let note = format!(
            "{}: the wave is of the last launch; the {} before it are not in its time",
            workload.name,
            program.launches.len() - 1
        );
        bench.notes.push(note);
    }
    let threads = i64::from(bench.target.info().threads.max(1));
    let mut readings = Readings::new(Rule::micro(bench.limits), bench);
    let mut wave = evenly_spaced(last.blocks, threads);
    let mut sized = false;
    let mut error = ErrorSize::default();
    let mut order_rng = Rng::derive(bench.seed, &workload.name);
    let stop = loop {
        let mut chosen = cases.clone();
        order_rng.shuffle(&mut chosen);
        chosen.truncate(SESSION_CASES);
        let mut session = bench.open(&program, &chosen)?;
        let warm_up = Extent::Blocks(wave.clone());
        bench.launch(&mut *session, &[0], &warm_up, &workload.name)?;
        let judged = bench.judge(&*session, 0, &chosen[0], &program, Stage::Gate, Look::Written)?;
        error = error.worse(judged);
        if !sized {
            session.poison(0, Poison::Nan);
            let warm = bench.launch(&mut *session, &[0], &warm_up, &workload.name)?;
            let multiple = (WAVE_S / warm.elapsed_s.max(1e-9)).ceil() as i64;
            let multiple = multiple.clamp(*BLOCKS_PER_THREAD.start(), *BLOCKS_PER_THREAD.end());
            wave = evenly_spaced(last.blocks, threads * multiple);
            sized = true;
        }
        let share = wave.len() as f64 / last.blocks as f64;
        let extent = Extent::Blocks(wave.clone());
        let mut stop = None;
        readings.wait_for_quiet(bench);
        for slot in 1..chosen.len() {
            // The wave's own data is in the caches when the clock starts: alone, few blocks would pay
            // for bringing in what in a whole launch many share.
            bench.launch(&mut *session, &[slot], &extent, &workload.name)?;
            session.poison(slot, Poison::Nan);
            stop = readings.take(bench, &mut *session, &[slot], &extent, share, &workload.name)?;
            let judged = bench.judge_timed(&*session, &chosen, &[slot], &program, Look::Written)?;
            error = error.worse(judged);
            if stop.is_some() {
                break;
            }
        }
        if let Some(stop) = stop {
            break stop;
        }
    };
    let floor_s = bench.floor_s;
    let settled = readings.settle(bench, &workload.name, floor_s);
    Ok(Measurement {
        workload: workload.name.clone(),
        samples_s: settled.samples_s,
        disturbed_s: settled.disturbed_s,
        warm_s: Vec::new(),
        device_state: settled.device_state,
        batch: 1,
        ticks: settled.ticks,
        share: wave.len() as f64 / last.blocks as f64,
        error,
        stop,
        launch_floor_s: bench.floor_s,
    })
}

/// Returns `count` blocks at equal distances, or all when there are no more.
fn evenly_spaced(blocks: i64, count: i64) -> Vec<i64> {
    if count >= blocks {
        return (0..blocks).collect();
    }
    (0..count).map(|idx| (2 * idx + 1) * blocks / (2 * count)).collect()
}

#[cfg(test)]
#[test]
fn waves_are_spread_over_the_workload() {
    assert_eq!(evenly_spaced(100, 4), [12, 37, 62, 87]);
    assert_eq!(evenly_spaced(3, 4), [0, 1, 2]);
    assert_eq!(evenly_spaced(5, 4), [0, 1, 3, 4]);
}
