//! The readings of one candidate on one workload: which count, which are taken again, when to stop.

use std::time::{Duration, Instant};

use warpsmith_device::target::{Extent, Session};
use warpsmith_model::{DeviceState, StopReason, notes, stats};

use super::bench::{Bench, Stop};
use crate::clock::{self, Rule};

/// How long a session waits for the machine to be undisturbed before it reads the clock anyway.
const WAIT: Duration = Duration::from_millis(200);
/// How often it looks meanwhile.
const LOOK_EVERY: Duration = Duration::from_millis(2);

/// One reading of the clock, scaled to one whole launch.
#[derive(Clone, Debug)]
struct Reading {
    time_s: f64,
    ticks: Option<u64>,
    state: Option<DeviceState>,
}

/// The readings so far.
pub(super) struct Readings {
    rule: Rule,
    started: Instant,
    /// Seconds that the evaluation had spent on opening sessions when this began.
    opened_before_s: f64,
    launched_s: f64,
    counted: Vec<Reading>,
    disturbed: Vec<Reading>,
    /// Whether the machine had its speed when it was last looked at.
    was_quiet: bool,
    /// Whether disturbed readings count, because there were no others for too long.
    gave_up: bool,
}

/// What readings come to.
pub(super) struct Settled {
    pub(super) samples_s: Vec<f64>,
    pub(super) ticks: Vec<u64>,
    pub(super) disturbed_s: Vec<f64>,
    pub(super) device_state: Option<DeviceState>,
}

impl Readings {
    pub(super) fn new(rule: Rule, bench: &Bench<'_>) -> Self {
        Self {
            rule,
            started: Instant::now(),
            opened_before_s: bench.opening_s,
            launched_s: 0.0,
            counted: Vec::new(),
            disturbed: Vec::new(),
            was_quiet: true,
            gave_up: false,
        }
    }

    /// Waits a little while for the machine to be undisturbed.
    pub(super) fn wait_for_quiet(&mut self, bench: &mut Bench<'_>) {
        let waiting = Instant::now();
        loop {
            self.was_quiet = bench.is_quiet();
            if self.was_quiet || waiting.elapsed() > WAIT {
                return;
            }
            std::thread::sleep(LOOK_EVERY);
        }
    }

    /// Reads the clock once around launches of these slots, whose time is `launches` whole launches;
    /// says whether it was enough, and why.
    pub(super) fn take(
        &mut self,
        bench: &mut Bench<'_>,
        session: &mut dyn Session,
        slots: &[usize],
        extent: &Extent,
        launches: f64,
        workload: &str,
    ) -> Result<Option<StopReason>, Stop> {
        let clocked = bench.launch(session, slots, extent, workload)?;
        let is_slowed = clocked.state.as_ref().is_some_and(DeviceState::is_slowed);
        let has_waited = clock::has_waited(&clocked);
        let is_quiet = bench.is_quiet() && !is_slowed;
        let reading = Reading {
            time_s: clocked.elapsed_s / launches,
            ticks: clocked.ticks.map(|ticks| (ticks as f64 / launches) as u64),
            state: clocked.state,
        };
        if self.gave_up || (self.was_quiet && is_quiet && !has_waited) {
            self.counted.push(reading);
        } else {
            self.disturbed.push(reading);
        }
        self.was_quiet = is_quiet;
        self.launched_s += clocked.elapsed_s;
        let elapsed_s = self.launched_s.max(self.started.elapsed().as_secs_f64());
        let opening_s = bench.opening_s - self.opened_before_s;
        let spent_s = clock::spent_s(elapsed_s, opening_s, self.rule.budget_s).max(self.launched_s);
        let is_late = elapsed_s > clock::PATIENCE * self.rule.budget_s;
        let is_short = self.counted.len() < self.rule.min_samples;
        if is_late && is_short && !self.gave_up && !self.disturbed.is_empty() {
            self.gave_up = true;
            self.counted.append(&mut self.disturbed);
            bench.notes.push(notes::busy(workload));
        }
        let samples_s: Vec<f64> = self.counted.iter().map(|reading| reading.time_s).collect();
        Ok(clock::decide(&self.rule, &samples_s, spent_s))
    }

    /// Launches as [`Readings::take`] does, for what the launches leave behind alone: stops in their middle. Returns
    /// how many are over.
    pub(super) fn pass(
        &mut self,
        bench: &mut Bench<'_>,
        session: &mut dyn Session,
        slots: &[usize],
        launches: usize,
        workload: &str,
    ) -> Result<usize, Stop> {
        let launched_before_s = bench.launch_s;
        let over = bench.launch_until(session, slots, launches, workload)?;
        self.launched_s += bench.launch_s - launched_before_s;
        self.was_quiet = bench.is_quiet();
        Ok(over)
    }

    /// Returns the median of the readings that count.
    pub(super) fn median_s(&self) -> Option<f64> {
        let samples_s: Vec<f64> = self.counted.iter().map(|reading| reading.time_s).collect();
        stats::median(&samples_s)
    }

    /// Forgets every reading: those to come are of another kind. The time that was spent stays spent.
    pub(super) fn start_over(&mut self) {
        self.counted.clear();
        self.disturbed.clear();
    }

    /// Leaves out the warm-up and says what is poor about the rest.
    pub(super) fn settle(self, bench: &mut Bench<'_>, workload: &str, floor_s: f64) -> Settled {
        let time_s = |reading: &Reading| reading.time_s;
        let mut samples_s: Vec<f64> = self.counted.iter().map(time_s).collect();
        let mut ticks: Vec<u64> = self.counted.iter().filter_map(|reading| reading.ticks).collect();
        let warm_up = clock::warm_up(&samples_s);
        if warm_up > 0 {
            bench.notes.push(notes::warm_up(workload, warm_up));
            samples_s.drain(..warm_up);
            ticks.drain(..warm_up.min(ticks.len()));
        }
        if !self.disturbed.is_empty() {
            bench.notes.push(notes::taken_again(workload, self.disturbed.len()));
        }
        bench.notes.extend(clock::remarks(workload, &samples_s, floor_s));
        let states = self.counted.iter().skip(warm_up).filter_map(|reading| reading.state.as_ref());
        let device_state = states.fold(None, |all: Option<DeviceState>, state| {
            let mut all = all.unwrap_or_else(|| state.clone());
            all.widen(state);
            Some(all)
        });
        let disturbed_s = self.disturbed.iter().map(time_s).collect();
        Settled { samples_s, ticks, disturbed_s, device_state }
    }
}
