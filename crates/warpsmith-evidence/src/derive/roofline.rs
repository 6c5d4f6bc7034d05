//! Where results lie under the roofline of measured ceilings.

use warpsmith_model::roofline::{WorkSize, peak_flops, roofline_s};
use warpsmith_model::{Ceilings, LabRecord};

use crate::summary::TrialSummary;

/// What limits a workload on a machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bound {
    /// Arithmetic.
    Compute,
    /// Memory.
    Memory,
}

/// One trial on one workload.
#[derive(Clone, Debug, PartialEq)]
pub struct RooflinePoint<'a> {
    /// The trial.
    pub trial: &'a TrialSummary,
    /// The workload.
    pub workload: String,
    /// Operations per byte that must move.
    pub intensity_flop_per_byte: f64,
    /// Operations a second that were reached.
    pub flops_per_s: f64,
    /// Operations a second that the roofline allows at this intensity.
    pub roof_flops_per_s: f64,
    /// The roofline's time over the measured one. Above 1 where everything stays in caches: the
    /// roof is that of memory.
    pub share_of_roof: f64,
    /// What limits the workload.
    pub bound: Bound,
    /// Whether the time is within three times of an empty launch, and says little of the kernel.
    pub near_launch_floor: bool,
}

/// A result within this many empty launches mostly shows the launch.
const NEAR_LAUNCH_FLOOR: f64 = 3.0;

/// Places the times of a trial under the roofline.
pub fn roofline_points<'a>(
    lab: &LabRecord,
    ceilings: &Ceilings,
    trial: &'a TrialSummary,
) -> Vec<RooflinePoint<'a>> {
    trial
        .times
        .iter()
        .filter_map(|time| {
            let workload = lab.workload(&time.workload)?;
            let work = WorkSize { flops: workload.flops, bytes: workload.bytes };
            let time_s = time.median_s.mid;
            let roof_s = roofline_s(ceilings, work, lab.arithmetic_dtype());
            let compute_s = work.flops / peak_flops(ceilings, lab.arithmetic_dtype());
            Some(RooflinePoint {
                trial,
                workload: time.workload.clone(),
                intensity_flop_per_byte: work.flops / work.bytes,
                flops_per_s: work.flops / time_s,
                roof_flops_per_s: work.flops / roof_s,
                share_of_roof: roof_s / time_s,
                bound: if compute_s >= roof_s { Bound::Compute } else { Bound::Memory },
                near_launch_floor: time_s < NEAR_LAUNCH_FLOOR * time.launch_floor_s,
            })
        })
        .collect()
}
