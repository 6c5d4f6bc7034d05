//! The facts of a diagnosis, each with its threshold, and the advice that goes with a bad one.

use super::occupancy::{multiprocessor, occupancy};
use super::{Counters, Fact, Scene};
use crate::roofline::{peak_flops, roofline_s};
use crate::{LaunchProfile, Loss, WorkloadProfile, units};

/// Memory may move this much more than the lab's least before it is a concern: halos, masks and
/// partial sectors cost about as much without anything being wrong.
const EXTRA_BYTES: f64 = 1.25;
/// Bytes of a 32-byte sector that threads should use: with less than three quarters, one sector of
/// four is moved for nothing.
const GOOD_SECTOR_BYTES: f64 = 24.0;
const SECTOR_BYTES: f64 = 32.0;
/// Sectors below this many are a prologue's, not the kernel's access pattern.
const TELLING_SECTORS: f64 = 4096.0;
/// Extra passes through shared memory that are a concern: the profiler's counter includes a few that
/// arbitration causes, not the access pattern.
const CONFLICTS: f64 = 0.10;
/// Resident warps below this share leave little to hide latency with, unless the code is built around
/// few warps (matrix units and asynchronous copies).
const LOW_OCCUPANCY: f64 = 0.25;
/// A last wave that wastes more than this share of the launch is a concern.
const TAIL: f64 = 0.10;
/// Blocks that start late or end early leave multiprocessors idle; a tenth of the launch is a concern.
const IDLE: f64 = 0.10;

/// Formats a share (`12 %`).
pub(super) fn percent(share: f64) -> String {
    let digits = usize::from(share.abs() < 0.0995);
    format!("{:.digits$} %", share * 100.0)
}

fn fact(name: &str, words: String, concern: bool) -> Fact {
    Fact { name: name.to_string(), words, concern }
}

/// The time by our clock, and its place under the roofline.
pub(super) fn timing(profile: &WorkloadProfile, scene: &Scene<'_>) -> Vec<Fact> {
    let mut facts = Vec::new();
    let Some(time_s) = profile.time_s else { return facts };
    facts.push(fact("time", format!("{} by the harness's clock", units::time(time_s)), false));
    if let (Some(ceilings), Some(work)) = (scene.ceilings, scene.work) {
        let arithmetic_s = work.flops / peak_flops(ceilings, scene.dtype);
        let roof_s = roofline_s(ceilings, work, scene.dtype);
        let of = if arithmetic_s >= roof_s { "arithmetic" } else { "memory" };
        let words = format!(
            "{} of the measured {of} ceiling; {:.1} operations a byte, at least {}",
            percent(roof_s / time_s),
            work.flops / work.bytes,
            units::time(roof_s)
        );
        facts.push(fact("roofline", words, false));
    }
    facts
}

/// What the counters of the main launch say.
pub(super) fn counted(
    profile: &WorkloadProfile,
    scene: &Scene<'_>,
    launch: &LaunchProfile,
    counters: &Counters,
    advice: &mut Vec<String>,
) -> Vec<Fact> {
    let mut facts = Vec::new();
    facts.extend(blocks(counters, advice));
    facts.extend(resident_warps(profile, counters, advice));
    if let Some(tensor) = counters.tensor_active.filter(|_| uses_matrix_units(profile)) {
        let idle = tensor < 0.5;
        facts.push(fact("matrix units", format!("busy {} of the time", percent(tensor)), idle));
    }
    facts.extend(pipes(counters));
    facts.extend(memory(scene, profile, counters, advice));
    facts.extend(access(counters, advice));
    facts.extend(resources(launch));
    facts.extend(spills(profile, counters, advice));
    facts.extend(losses(launch, advice));
    facts.extend(instruction_mix(profile));
    facts
}

/// What a thread and a block of a launch use.
fn resources(launch: &LaunchProfile) -> [Fact; 2] {
    let smem = match launch.code.smem_bytes {
        0 => "none".to_string(),
        bytes => format!("{} a block", units::bytes(f64::from(bytes))),
    };
    [
        fact("registers", format!("{} a thread", launch.code.registers), false),
        fact("shared memory", smem, false),
    ]
}

/// How many of the instructions that tell most about a kernel are in its code.
fn instruction_mix(profile: &WorkloadProfile) -> Option<Fact> {
    let telling = [
        "HGMMA", "HMMA", "UTMALDG", "LDGSTS", "LDSM", "LDG", "STG", "FFMA", "MUFU", "BAR", "LDL",
        "STL",
    ];
    let found: Vec<String> = telling
        .into_iter()
        .filter_map(|name| Some(format!("{name} {}", profile.instructions.get(name)?)))
        .collect();
    (!found.is_empty()).then(|| fact("instructions", found.join(", "), false))
}

fn blocks(counters: &Counters, advice: &mut Vec<String>) -> Vec<Fact> {
    let mut facts = Vec::new();
    if let (Some(blocks), Some(sms), Some(waves)) =
        (counters.grid_blocks, counters.sms, counters.waves())
    {
        let full = waves.ceil().max(1.0);
        let wasted = 1.0 - waves / full;
        let is_tail = waves > 1.0 && wasted > TAIL;
        let words = format!("{blocks} blocks on {sms} multiprocessors: {waves:.2} waves");
        facts.push(fact("waves", words, is_tail || waves < 0.5));
        if is_tail {
            advice.push(format!(
                "the last wave wastes up to {} of the launch: choose tiles so that the blocks fill \
                 whole waves, or run a persistent grid of {sms} blocks",
                percent(wasted)
            ));
        }
    }
    if let Some(active) = counters.sm_active {
        let words = format!("active {} of the launch, on average", percent(active));
        facts.push(fact("multiprocessors", words, 1.0 - active > IDLE));
    }
    facts
}

fn resident_warps(
    profile: &WorkloadProfile,
    counters: &Counters,
    advice: &mut Vec<String>,
) -> Option<Fact> {
    let occupancy = counters.occupancy?;
    let mut words = format!("{} of the warps that a multiprocessor holds", percent(occupancy));
    if let Some(possible) = counters.occupancy_possible {
        words += &format!(", {} possible", percent(possible));
    }
    let limiter = counters.resident_blocks();
    if let Some((blocks, what)) = limiter {
        words += &format!("; {blocks} blocks at most, because of {what}");
        if what == "registers" {
            let registers = counters.registers.unwrap_or(0.0);
            words += &format!(" ({registers} registers a thread)");
        }
    }
    let is_low = counters.occupancy_possible.unwrap_or(occupancy) < LOW_OCCUPANCY;
    let concern = is_low && !uses_matrix_units(profile);
    if let (true, Some((_, what))) = (concern, limiter) {
        advice.push(format!("few warps are resident: use less of what limits them, {what}"));
    }
    Some(fact("occupancy", words, concern))
}

fn pipes(counters: &Counters) -> Option<Fact> {
    let issue = counters.issue_active?;
    let mut words = format!("an instruction is issued in {} of active cycles", percent(issue));
    let pipes = [
        ("fused multiply-adds", counters.fma_active),
        ("double precision", counters.fp64_active),
        ("special functions", counters.xu_active),
    ];
    for (name, share) in pipes {
        if let Some(share) = share.filter(|share| *share >= 0.05) {
            words += &format!(", {name} {}", percent(share));
        }
    }
    Some(fact("issue", words, false))
}

/// Returns the busiest level of the memory system.
pub(super) fn busiest_memory(counters: &Counters) -> (&'static str, Option<f64>) {
    [
        ("device memory", counters.dram_throughput),
        ("the second-level cache", counters.l2_throughput),
        ("the first-level cache or shared memory", counters.l1_throughput),
    ]
    .into_iter()
    .max_by(|(_, one), (_, other)| one.unwrap_or(0.0).total_cmp(&other.unwrap_or(0.0)))
    .expect("there are three levels")
}

fn memory(
    scene: &Scene<'_>,
    profile: &WorkloadProfile,
    counters: &Counters,
    advice: &mut Vec<String>,
) -> Vec<Fact> {
    let mut facts = Vec::new();
    let levels = [
        ("device memory", counters.dram_throughput),
        ("second level", counters.l2_throughput),
        ("first level and shared", counters.l1_throughput),
    ];
    let words: Vec<String> = levels
        .into_iter()
        .filter_map(|(name, share)| Some(format!("{name} {}", percent(share?))))
        .collect();
    if !words.is_empty() {
        facts.push(fact("memory", format!("{} of peak", words.join(", ")), false));
    }
    let is_alone = profile.launches.len() == 1;
    if let (Some(bytes), Some(work), true) = (counters.dram_bytes(), scene.work, is_alone) {
        let ratio = bytes / work.bytes;
        let words = format!(
            "{} to and from device memory, {ratio:.2} times the least",
            units::bytes(bytes)
        );
        let concern = ratio > EXTRA_BYTES;
        facts.push(fact("bytes", words, concern));
        if concern {
            advice.push(
                "bytes are moved more than once: order the blocks so that neighbours share what is \
                 in the second-level cache, use larger tiles, or multicast within clusters"
                    .to_string(),
            );
        }
    }
    if let (Some(l1), Some(l2)) = (counters.l1_hit_rate, counters.l2_hit_rate) {
        let words = format!("first level {} hits, second level {}", percent(l1), percent(l2));
        facts.push(fact("caches", words, false));
    }
    facts
}

fn access(counters: &Counters, advice: &mut Vec<String>) -> Vec<Fact> {
    let mut facts = Vec::new();
    let is_telling = counters.load_sectors.unwrap_or(0.0) >= TELLING_SECTORS;
    let ways = [
        ("loaded", counters.load_bytes_per_sector),
        ("stored to", counters.store_bytes_per_sector),
    ];
    // No sectors, no bytes: kernels that copy with TMA load nothing by themselves.
    let used: Vec<(&str, f64)> = ways
        .into_iter()
        .filter_map(|(way, bytes)| Some((way, bytes.filter(|bytes| *bytes > 0.0)?)))
        .collect();
    if !used.is_empty() {
        let words: Vec<String> = used
            .iter()
            .map(|(way, bytes)| format!("{bytes:.0} of {SECTOR_BYTES} bytes of each sector {way}"))
            .collect();
        let concern = is_telling && used.iter().any(|(_, bytes)| *bytes < GOOD_SECTOR_BYTES);
        facts.push(fact("coalescing", words.join(", "), concern));
        if concern {
            advice.push(
                "let neighbouring threads access neighbouring addresses, 16 bytes each: part of \
                 every sector is moved for nothing"
                    .to_string(),
            );
        }
    }
    if let (Some(conflicts), Some(passes)) = (counters.bank_conflicts, counters.shared_wavefronts)
        && passes > 0.0
    {
        let share = conflicts / passes;
        let words = format!("{} of the passes through shared memory", percent(share));
        let concern = share > CONFLICTS;
        facts.push(fact("bank conflicts", words, concern));
        if concern {
            advice.push("swizzle or pad the tiles in shared memory".to_string());
        }
    }
    facts
}

fn spills(
    profile: &WorkloadProfile,
    counters: &Counters,
    advice: &mut Vec<String>,
) -> Option<Fact> {
    let local = counters.local_instructions?;
    let spilled: u32 = profile.launches.iter().map(|launch| launch.code.spill_bytes).sum();
    let words = match (local > 0.0, spilled > 0) {
        (false, false) => "none".to_string(),
        (false, true) => format!("{spilled} bytes in the code, none of which ran"),
        (true, _) => {
            let share = local / counters.instructions.unwrap_or(local).max(1.0);
            format!("{} of the instructions access local memory", percent(share))
        }
    };
    if local > 0.0 {
        advice.push(SPILL_ADVICE.to_string());
    }
    Some(fact("spills", words, local > 0.0))
}

const SPILL_ADVICE: &str = "registers spill to memory: smaller tiles, less unrolling, or more warps \
                            that share the same work";

/// What the compiler says that it gave away.
fn losses(launch: &LaunchProfile, advice: &mut Vec<String>) -> Vec<Fact> {
    let remarks = &launch.code.remarks;
    for remark in remarks {
        let words = match remark.loss {
            Loss::Serialized => SERIALIZED_ADVICE,
            Loss::InjectedWait => INJECTED_WAIT_ADVICE,
            Loss::Setmaxnreg => SETMAXNREG_ADVICE,
            Loss::Other => continue,
        };
        if !advice.iter().any(|known| known == words) {
            advice.push(words.to_string());
        }
    }
    remarks.iter().map(|remark| fact("compiler", remark.to_string(), true)).collect()
}

const SERIALIZED_ADVICE: &str = "the compiler runs wgmma products one after the other: between a product \
                                 and its wait touch none of its registers, call nothing that is not \
                                 inlined, keep fence, products, commit and wait in straight code, and \
                                 use fewer registers";
const INJECTED_WAIT_ADVICE: &str = "the compiler waits for wgmma products where the source does not: \
                                    touch a product's registers after its wait alone";
const SETMAXNREG_ADVICE: &str = "the compiler ignores setmaxnreg: state the exact number of threads with \
                                 __launch_bounds__, and call nothing that is not inlined";

/// What the compiler's report and the machine code say of the main launch.
pub(super) fn compiled(
    profile: &WorkloadProfile,
    scene: &Scene<'_>,
    launch: &LaunchProfile,
    advice: &mut Vec<String>,
) -> Vec<Fact> {
    let mut facts = Vec::from(resources(launch));
    let code = &launch.code;
    let spilled = code.spill_bytes > 0;
    let words = if spilled { format!("{} bytes", code.spill_bytes) } else { "none".to_string() };
    facts.push(fact("spills", words, spilled));
    if spilled {
        advice.push(SPILL_ADVICE.to_string());
    }
    facts.extend(losses(launch, advice));
    let cuda = scene.device.cuda.as_ref();
    let holds = cuda.and_then(|cuda| multiprocessor(&cuda.arch));
    let fits = holds.and_then(|it| occupancy(it, code.threads, code.registers, code.smem_bytes));
    if let (Some(fits), Some(cuda)) = (fits, cuda) {
        let words = format!(
            "{} of the warps possible; {} blocks of {} threads at most, because of {}",
            percent(fits.share),
            fits.blocks,
            code.threads,
            fits.limiter
        );
        let concern = fits.share < LOW_OCCUPANCY && !uses_matrix_units(profile);
        facts.push(fact("occupancy", words, concern));
        let waves = code.blocks as f64 / f64::from(cuda.sms * fits.blocks);
        let words =
            format!("{} blocks on {} multiprocessors: {waves:.2} waves", code.blocks, cuda.sms);
        let wasted = 1.0 - waves / waves.ceil().max(1.0);
        facts.push(fact("waves", words, waves < 0.5 || (waves > 1.0 && wasted > TAIL)));
    }
    facts.extend(instruction_mix(profile));
    facts
}

/// Says whether the code has instructions for the matrix units.
pub(super) fn uses_matrix_units(profile: &WorkloadProfile) -> bool {
    let names = ["HGMMA", "HMMA", "QGMMA", "IMMA", "IGMMA", "DMMA", "UTCHMMA", "UTCQMMA"];
    let counted = profile.launches.iter().filter_map(|launch| launch.counters.as_ref());
    names.iter().any(|name| profile.instructions.contains_key(*name))
        || counted.into_iter().any(|counters| counters.tensor_active.unwrap_or(0.0) > 0.0)
}
