//! Where the time of a launch goes that the measured ceilings do not ask for.
//!
//! An attribution, not a measurement: causes overlap in a real launch, and counters say how often
//! something happened, not what it cost. The model hands the time out in a fixed order, each cause at
//! most what is left, so that the parts always sum to the whole:
//!
//! 1. *work*: the roofline's time for the lab's flops and least bytes;
//! 2. *launch*: the time of an empty launch, for each launch;
//! 3. *bytes beyond the least*: how much later the roofline would be for the bytes that memory really
//!    moved; nothing where arithmetic hides them;
//! 4. *idle multiprocessors*: the share of the launch in which multiprocessors had no block (the tail
//!    of the last wave, too few blocks, uneven blocks), of what is left of it;
//! 5. what remains, by the share of warps' time that each reason to wait takes; warps that issued
//!    instructions meanwhile did so for work beside the one that the roofline counts.

use serde::{Deserialize, Serialize};

use super::stall::Stall;
use super::{Scene, main_launch};
use crate::roofline::roofline_s;
use crate::{Counters, WorkloadProfile};

/// The time of a program, handed out to causes.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Gap {
    /// The whole, in seconds.
    pub time_s: f64,
    /// Its parts, which sum to it; causes without time are left out.
    pub parts: Vec<GapPart>,
}

/// One part.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct GapPart {
    /// What it is for.
    pub cause: Cause,
    /// Seconds.
    pub time_s: f64,
}

/// What time goes to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Cause {
    /// The work itself at the measured ceilings.
    Work,
    /// Launching.
    Launch,
    /// Bytes moved beyond the least.
    ExtraBytes,
    /// Multiprocessors without a block.
    IdleMultiprocessors,
    /// Warps that wait.
    Stall(Stall),
    /// Reasons to wait that are too small to be told apart.
    OtherStalls,
    /// Instructions beside the work that the roofline counts.
    OtherInstructions,
    /// Not known, for want of counters.
    Unknown,
}

impl Cause {
    /// Says what the time goes to.
    pub fn words(self) -> String {
        match self {
            Self::Work => "the work itself, at the measured ceilings".to_string(),
            Self::Launch => "launching".to_string(),
            Self::ExtraBytes => "bytes moved beyond the least".to_string(),
            Self::IdleMultiprocessors => "multiprocessors without a block".to_string(),
            Self::Stall(stall) => format!("waiting for {}", stall.words()),
            Self::OtherStalls => "waiting for other reasons".to_string(),
            Self::OtherInstructions => "instructions beside the counted work".to_string(),
            Self::Unknown => "not attributed: no counters".to_string(),
        }
    }
}

/// Reasons below this share of the waiting are put together: a bar cannot show them.
const SMALL_SHARE: f64 = 0.04;

/// Hands the time of a program out to causes; none where it was not timed or the ceilings are not
/// known.
pub fn gap(profile: &WorkloadProfile, scene: &Scene<'_>) -> Option<Gap> {
    let time_s = profile.time_s.filter(|time_s| *time_s > 0.0)?;
    let (ceilings, work) = (scene.ceilings?, scene.work?);
    let mut ledger = Ledger { left_s: time_s, parts: Vec::new() };
    let roof_s = roofline_s(ceilings, work, scene.dtype);
    ledger.take(Cause::Work, roof_s);
    let floor_s = profile.launch_floor_s.unwrap_or(ceilings.launch_floor_s);
    ledger.take(Cause::Launch, floor_s * profile.launches.len() as f64);
    let counted: Vec<&Counters> =
        profile.launches.iter().filter_map(|launch| launch.counters.as_ref()).collect();
    if counted.len() == profile.launches.len() {
        let bytes: Option<f64> = counted.iter().map(|counters| counters.dram_bytes()).sum();
        let moved_s = bytes.unwrap_or(0.0) / ceilings.memory_bytes_per_s;
        ledger.take(Cause::ExtraBytes, moved_s - roof_s);
    }
    if let Some(counters) = main_launch(profile).and_then(|launch| launch.counters.as_ref()) {
        let idle = counters.sm_active.map_or(0.0, |active| 1.0 - active);
        ledger.take(Cause::IdleMultiprocessors, idle * ledger.left_s);
        hand_out_stalls(&mut ledger, counters);
    }
    ledger.take(Cause::Unknown, ledger.left_s);
    Some(Gap { time_s, parts: ledger.parts })
}

fn hand_out_stalls(ledger: &mut Ledger, counters: &Counters) {
    let rest_s = ledger.left_s;
    let shares = counters.stall_shares();
    let is_busy = |stall: &Stall| matches!(stall, Stall::Selected | Stall::NotSelected);
    let sum = |wanted: &dyn Fn(&Stall, f64) -> bool| -> f64 {
        shares.iter().filter(|(stall, share)| wanted(stall, *share)).map(|(_, share)| share).sum()
    };
    for (stall, share) in &shares {
        if !is_busy(stall) && *share >= SMALL_SHARE {
            ledger.take(Cause::Stall(*stall), share * rest_s);
        }
    }
    ledger.take(
        Cause::OtherStalls,
        sum(&|stall, share| !is_busy(stall) && share < SMALL_SHARE) * rest_s,
    );
    ledger.take(Cause::OtherInstructions, sum(&|stall, _| is_busy(stall)) * rest_s);
    // Shares sum to one but for rounding.
    if let (false, Some(last)) = (shares.is_empty(), ledger.parts.last_mut()) {
        last.time_s += ledger.left_s;
        ledger.left_s = 0.0;
    }
}

/// Time that is handed out, at most what is left.
struct Ledger {
    left_s: f64,
    parts: Vec<GapPart>,
}

impl Ledger {
    fn take(&mut self, cause: Cause, wanted_s: f64) {
        let time_s = wanted_s.clamp(0.0, self.left_s);
        if time_s > 0.0 {
            self.left_s -= time_s;
            self.parts.push(GapPart { cause, time_s });
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::super::testing::{self, scene};
    use super::*;

    fn check(name: &str, profile: &WorkloadProfile, expected: &[(Cause, f64)]) {
        let ceilings = testing::ceilings();
        let found = gap(profile, &scene(&ceilings)).expect("timed");
        let sum: f64 = found.parts.iter().map(|part| part.time_s).sum();
        let time_s = profile.time_s.expect("timed");
        assert!((sum / time_s - 1.0).abs() < 1e-9, "{name}: {sum} of {time_s}: {found:?}");
        for (cause, time_s) in expected {
            let part = found.parts.iter().find(|part| part.cause == *cause);
            let part_s = part.map_or(0.0, |part| part.time_s);
            assert!((part_s - time_s).abs() < 1e-9, "{name}: {cause:?} is {part_s}: {found:?}");
        }
    }

    #[test]
    fn parts_sum_to_the_whole() {
        // The scene's work takes 10 µs at the ceilings, and a launch 2 µs.
        let full = Counters {
            sm_active: Some(0.75),
            dram_read_bytes: Some(20e6),
            dram_write_bytes: Some(0.0),
            stalls: BTreeMap::from([
                (Stall::LongScoreboard, 3.0),
                (Stall::Selected, 1.0),
                (Stall::Misc, 0.01),
            ]),
            ..Counters::default()
        };
        check(
            "everything",
            &testing::profile(52e-6, Some(full.clone())),
            &[
                (Cause::Work, 10e-6),
                (Cause::Launch, 2e-6),
                (Cause::ExtraBytes, 10e-6),
                (Cause::IdleMultiprocessors, 7.5e-6),
                (Cause::Unknown, 0.0),
            ],
        );
        check(
            "faster than the roofline",
            &testing::profile(4e-6, Some(full)),
            &[(Cause::Work, 4e-6), (Cause::Launch, 0.0)],
        );
        check(
            "no counters",
            &testing::profile(52e-6, None),
            &[(Cause::Launch, 2e-6), (Cause::Unknown, 40e-6)],
        );
        check(
            "counters that say nothing",
            &testing::profile(52e-6, Some(Counters::default())),
            &[(Cause::Unknown, 40e-6)],
        );
    }

    #[test]
    fn without_a_time_or_ceilings_there_is_no_gap() {
        let ceilings = testing::ceilings();
        let untimed = WorkloadProfile { time_s: None, ..testing::profile(1.0, None) };
        assert_eq!(gap(&untimed, &scene(&ceilings)), None);
        let unknown = Scene { ceilings: None, ..scene(&ceilings) };
        assert_eq!(gap(&testing::profile(1.0, None), &unknown), None);
    }
}
