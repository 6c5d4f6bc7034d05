//! What holds a candidate back, for the next prompt: its times against the machine's limits, and what a
//! profile shows.

use warpsmith_model::diagnose::{Scene, words};
use warpsmith_model::roofline::{peak_flops, roofline_s};
use warpsmith_model::stats::median;
use warpsmith_model::{Ceilings, DeviceInfo, Lab, ProfileRecord, Trial, units};

/// A time within this many empty launches mostly shows the launch; the diagnosis of profiles has
/// the same threshold.
const NEAR_LAUNCH_FLOOR: f64 = 3.0;

/// Says for every workload how far a passed trial is from what the machine allows, and by what it is
/// limited at best.
pub fn diagnosis(lab: &Lab, trial: &Trial, ceilings: &Ceilings) -> String {
    let mut lines = Vec::new();
    for measurement in trial.outcome.measurements() {
        let Some(time_s) = median(&measurement.samples_s) else { continue };
        let name = &measurement.workload;
        let mut line = format!("{name}: {}", units::time(time_s));
        let work =
            lab.workload(name).and_then(|workload| Some((workload, lab.work(workload).ok()?)));
        if let Some((workload, work)) = work {
            let dtype = lab.arithmetic_dtype(workload);
            let least_s = roofline_s(ceilings, work, dtype);
            let arithmetic_s = work.flops / peak_flops(ceilings, dtype);
            let limit = if arithmetic_s >= least_s { "arithmetic" } else { "memory" };
            let share = 100.0 * least_s / time_s;
            if share.is_finite() {
                line += &format!(", {share:.0} % of what the machine's {limit} allows");
                line += match share {
                    share if share > 100.0 => " (the data stays in the caches)",
                    share if share >= 80.0 => " (little is left to gain)",
                    _ => "",
                };
            }
        }
        if measurement.launch_floor_s > 0.0
            && time_s < NEAR_LAUNCH_FLOOR * measurement.launch_floor_s
        {
            line += ", mostly the launch itself";
        }
        lines.push(line);
    }
    lines.join("\n")
}

/// Says what a profile shows of a candidate: what the compiler made of it, and what was counted where a
/// profiler may count.
pub fn insight(
    lab: &Lab,
    record: &ProfileRecord,
    device: &DeviceInfo,
    ceilings: &Ceilings,
) -> String {
    let mut lines = Vec::new();
    for profile in &record.workloads {
        let Some(workload) = lab.workload(&profile.workload) else { continue };
        let scene = Scene {
            device,
            ceilings: Some(ceilings),
            work: lab.work(workload).ok(),
            dtype: lab.arithmetic_dtype(workload),
        };
        lines.extend(words(profile, &scene));
    }
    lines.join("\n")
}
