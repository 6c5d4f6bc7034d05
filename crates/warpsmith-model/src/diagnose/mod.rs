//! What holds a kernel back, in words: from a profiler's counters where there are any, else from what
//! the compiler made and how long it took.
//!
//! [`table::parse`] reads what the profiler printed, [`Counters`] is what is taken from it, [`diagnose`]
//! says what bounds the kernel, and [`gap`] hands its time out to causes. Pure functions; a diagnosis
//! is never stored.

mod counters;
mod facts;
mod gap;
pub mod occupancy;
mod stall;
pub mod table;
#[cfg(test)]
mod tests;
mod words;

use serde::{Deserialize, Serialize};

use crate::roofline::{WorkSize, peak_flops, roofline_s};
use crate::{Ceilings, DType, DeviceInfo, LaunchProfile, WorkloadProfile};

pub use counters::Counters;
pub use gap::{Cause, Gap, GapPart, gap};
pub use stall::{Stall, StallGroup};
pub use words::words;

#[cfg(test)]
use tests as testing;

/// What bounds a kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Bound {
    /// The memory system, from device memory to shared memory.
    Memory,
    /// Arithmetic and the issue of instructions.
    Compute,
    /// The matrix units.
    Tensor,
    /// Nothing is busy: warps wait for results.
    Latency,
    /// Nothing is busy: warps wait for each other.
    Synchronisation,
    /// The launch itself, or too little work to fill the device.
    Launch,
}

impl Bound {
    /// Says what bounds the kernel, as the end of a sentence that begins with it.
    pub fn words(self) -> &'static str {
        match self {
            Self::Memory => "memory bound",
            Self::Compute => "compute bound",
            Self::Tensor => "tensor bound: the matrix units are busy",
            Self::Latency => "latency bound: nothing is busy, warps wait for results",
            Self::Synchronisation => "synchronisation bound: warps wait for each other",
            Self::Launch => "launch bound: too little work for the device",
        }
    }
}

/// What a diagnosis rests on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Basis {
    /// A profiler's counters.
    Counters,
    /// The compiler's report, the machine code and the time alone.
    Static,
}

/// What holds a kernel back on a workload.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Diagnosis {
    /// What bounds it.
    pub bound: Bound,
    /// Why that is said, in a sentence.
    pub because: String,
    /// What this rests on.
    pub basis: Basis,
    /// What was found.
    pub facts: Vec<Fact>,
    /// The shares of warps' time that each reason to wait takes, largest first; those below a percent
    /// are left out.
    pub stalls: Vec<StallShare>,
    /// What to try, the most promising first.
    pub advice: Vec<String>,
}

/// One thing that was found.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Fact {
    /// What it is about (`occupancy`).
    pub name: String,
    /// What was found, in words.
    pub words: String,
    /// Whether it may be holding the kernel back.
    pub concern: bool,
}

/// How much of warps' time one reason to wait takes.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct StallShare {
    /// The reason.
    pub reason: Stall,
    /// Its share of one.
    pub share: f64,
}

/// The machine and the work that a profile is seen against.
#[derive(Clone, Copy, Debug)]
pub struct Scene<'a> {
    /// The device.
    pub device: &'a DeviceInfo,
    /// What it can do at most, where that was measured.
    pub ceilings: Option<&'a Ceilings>,
    /// The work of the workload, where it is known.
    pub work: Option<WorkSize>,
    /// The element type, whose arithmetic peak counts.
    pub dtype: DType,
}

/// A unit at this share of its peak is what bounds a kernel, and below it on all units nothing does:
/// the threshold of the profiler's own "speed of light" rule, from which its guided analysis starts.
const BUSY: f64 = 0.60;
/// A result within this many empty launches mostly shows the launch; the report's threshold too.
const NEAR_LAUNCH_FLOOR: f64 = 3.0;
/// With blocks for less than half of the multiprocessors, most of the device idles whatever a block does.
const FEW_BLOCKS: f64 = 0.5;
/// Waiting for each other is called the cause when it is the largest group of reasons and at least this
/// much of warps' time: below a fifth, removing all of it gains less than most other changes.
const SYNCHRONISATION_SHARE: f64 = 0.20;
/// Reasons below this share are not worth a line.
const STALL_SHOWN: f64 = 0.01;
/// Reasons from this share on are given advice.
const STALL_ADVISED: f64 = 0.10;

/// Says what holds a kernel back on a workload.
pub fn diagnose(profile: &WorkloadProfile, scene: &Scene<'_>) -> Diagnosis {
    let main = main_launch(profile);
    let counters = main.and_then(|launch| launch.counters.as_ref());
    let (bound, because) = match counters {
        Some(counters) => bound_by_counters(profile, scene, counters),
        None => bound_by_time(profile, scene),
    };
    let shares = counters.map(Counters::stall_shares).unwrap_or_default();
    let mut facts = facts::timing(profile, scene);
    let mut advice = Vec::new();
    let advised = bound_advice(bound).map(str::to_string);
    // What memory is busy with for nothing comes before moving less.
    let (first, last) = if bound == Bound::Memory { (None, advised) } else { (advised, None) };
    advice.extend(first);
    if let Some(launch) = main {
        match counters {
            Some(counters) => {
                facts.extend(facts::counted(profile, scene, launch, counters, &mut advice));
            }
            None => facts.extend(facts::compiled(profile, scene, launch, &mut advice)),
        }
    }
    advice.extend(last);
    // What waits is beside the point where something is busy.
    if matches!(bound, Bound::Latency | Bound::Synchronisation | Bound::Tensor) {
        let worst = shares.iter().filter(|(_, share)| *share >= STALL_ADVISED).take(2);
        advice.extend(worst.filter_map(|(stall, _)| stall.advice()).map(str::to_string));
    }
    Diagnosis {
        bound,
        because,
        basis: if counters.is_some() { Basis::Counters } else { Basis::Static },
        facts,
        stalls: shares
            .into_iter()
            .filter(|(_, share)| *share >= STALL_SHOWN)
            .map(|(reason, share)| StallShare { reason, share })
            .collect(),
        advice,
    }
}

/// Returns the launch that takes the longest under the profiler; without counters, the one with the
/// most threads.
pub(crate) fn main_launch(profile: &WorkloadProfile) -> Option<&LaunchProfile> {
    let weight = |launch: &LaunchProfile| match &launch.counters {
        Some(counters) => counters.duration_s.unwrap_or(0.0),
        None => launch.code.blocks as f64 * f64::from(launch.code.threads),
    };
    profile.launches.iter().max_by(|one, other| weight(one).total_cmp(&weight(other)))
}

fn bound_by_counters(
    profile: &WorkloadProfile,
    scene: &Scene<'_>,
    counters: &Counters,
) -> (Bound, String) {
    if let Some(because) = launch_bound(profile, scene) {
        return (Bound::Launch, because);
    }
    let percent = |share: f64| facts::percent(share);
    let tensor = counters.tensor_active.unwrap_or(0.0);
    let memory = counters.memory_throughput.unwrap_or(0.0);
    let compute = counters.sm_throughput.unwrap_or(0.0);
    if tensor >= BUSY && tensor >= memory {
        return (
            Bound::Tensor,
            format!("the matrix units are busy {} of the time", percent(tensor)),
        );
    }
    if memory >= BUSY && memory >= compute {
        let (level, share) = facts::busiest_memory(counters);
        let because = format!("{level} works at {} of its peak", percent(share.unwrap_or(memory)));
        return (Bound::Memory, because);
    }
    if compute >= BUSY {
        let because =
            format!("the busiest pipe of the multiprocessors works at {}", percent(compute));
        return (Bound::Compute, because);
    }
    let idle = format!(
        "no unit reaches {} of its peak (arithmetic {}, memory {}, matrix units {})",
        percent(BUSY),
        percent(compute),
        percent(memory),
        percent(tensor)
    );
    let shares = counters.stall_shares();
    let group_share = |group: StallGroup| -> f64 {
        shares.iter().filter(|(stall, _)| stall.group() == group).map(|(_, share)| share).sum()
    };
    let waiting = group_share(StallGroup::Synchronisation);
    let others = [
        StallGroup::Memory,
        StallGroup::Shared,
        StallGroup::Tensor,
        StallGroup::Arithmetic,
        StallGroup::Instructions,
    ];
    let is_largest = others.into_iter().all(|group| waiting >= group_share(group));
    if waiting >= SYNCHRONISATION_SHARE && is_largest {
        let because =
            format!("{idle}, and warps wait for each other {} of the time", percent(waiting));
        return (Bound::Synchronisation, because);
    }
    let worst = shares.iter().find(|(stall, _)| stall.group() != StallGroup::Busy);
    let because = match worst {
        Some((stall, share)) => {
            format!("{idle}; warps mostly wait for {} ({})", stall.words(), percent(*share))
        }
        None => idle,
    };
    (Bound::Latency, because)
}

/// What can be said from the time alone.
fn bound_by_time(profile: &WorkloadProfile, scene: &Scene<'_>) -> (Bound, String) {
    if let Some(because) = launch_bound(profile, scene) {
        return (Bound::Launch, because);
    }
    let (Some(time_s), Some(ceilings), Some(work)) = (profile.time_s, scene.ceilings, scene.work)
    else {
        let because = "without counters, a time and ceilings there is nothing that says otherwise";
        return (Bound::Latency, because.to_string());
    };
    let arithmetic = work.flops / peak_flops(ceilings, scene.dtype) / time_s;
    let memory = work.bytes / ceilings.memory_bytes_per_s / time_s;
    let words = |share: f64, what: &str| {
        format!("it reaches {} of the measured ceiling of {what}", facts::percent(share))
    };
    if arithmetic >= BUSY && arithmetic >= memory {
        let bound = match facts::uses_matrix_units(profile) {
            true => Bound::Tensor,
            false => Bound::Compute,
        };
        return (bound, words(arithmetic, "arithmetic"));
    }
    if memory >= BUSY {
        return (Bound::Memory, words(memory, "memory"));
    }
    let share = roofline_s(ceilings, work, scene.dtype) / time_s;
    let of = if arithmetic >= memory { "arithmetic" } else { "memory" };
    (Bound::Latency, format!("{} alone, so something waits", words(share, of)))
}

/// Says why the launch itself, or the size of the grid, decides; none where it does not.
fn launch_bound(profile: &WorkloadProfile, scene: &Scene<'_>) -> Option<String> {
    let floor_s = profile.launch_floor_s.or(scene.ceilings.map(|it| it.launch_floor_s));
    if let (Some(time_s), Some(floor_s)) = (profile.time_s, floor_s)
        && time_s < NEAR_LAUNCH_FLOOR * floor_s * profile.launches.len().max(1) as f64
    {
        return Some(format!(
            "it takes {}, and launching nothing takes {}",
            crate::units::time(time_s),
            crate::units::time(floor_s)
        ));
    }
    let sms = scene.device.cuda.as_ref().map(|cuda| f64::from(cuda.sms));
    let launch = main_launch(profile)?;
    let counted = launch.counters.as_ref();
    let sms = counted.and_then(|counters| counters.sms).or(sms)?;
    let blocks = launch.code.blocks as f64;
    (blocks < FEW_BLOCKS * sms).then(|| {
        let noun = if blocks == 1.0 { "block" } else { "blocks" };
        format!("it has {blocks} {noun} for {sms} multiprocessors")
    })
}

fn bound_advice(bound: Bound) -> Option<&'static str> {
    Some(match bound {
        Bound::Memory => {
            "move fewer bytes: keep tiles in shared memory or registers for longer, fuse the step \
             before or after, use a narrower type"
        }
        Bound::Compute => {
            "do less arithmetic for each result, or move it to the matrix units or a faster pipe"
        }
        Bound::Tensor => {
            "the matrix units are near their limit; what is left is a narrower type (fp8), or work \
             that can be skipped"
        }
        Bound::Launch => {
            "give each launch more work (larger shapes, several problems in one launch), or split \
             the problem into more blocks (split-k); launch from a graph"
        }
        Bound::Latency | Bound::Synchronisation => return None,
    })
}
