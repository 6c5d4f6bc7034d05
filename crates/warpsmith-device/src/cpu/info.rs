//! What this machine is.

use std::fs;
use std::path::Path;

use warpsmith_model::{DeviceInfo, Environment, FORMAT_VERSION, Isolation};

use super::toolchain;

/// Instruction-set extensions that kernels are written for, by the names that the kernel uses.
const FEATURES: [&str; 20] = [
    "sse2",
    "sse4_2",
    "avx",
    "f16c",
    "fma",
    "avx2",
    "avx512f",
    "avx512bw",
    "avx512dq",
    "avx512vl",
    "avx512_vnni",
    "avx512_bf16",
    "avx512_fp16",
    "avx_vnni",
    "amx_bf16",
    "asimd",
    "asimdhp",
    "asimddp",
    "bf16",
    "sve",
];

/// Sizes that are assumed where the machine does not tell, and said to be.
const ASSUMED_L1D_BYTES: u64 = 32 << 10;
const ASSUMED_L2_BYTES: u64 = 512 << 10;
const ASSUMED_L3_BYTES: u64 = 8 << 20;

/// Describes the processor that kernels run on, with this many threads.
pub(crate) fn device_info(threads: u32) -> DeviceInfo {
    let processor = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let flags = flags(&processor);
    let features: Vec<String> = FEATURES
        .iter()
        .filter(|feature| flags.contains(feature))
        .map(|feature| (*feature).to_string())
        .collect();
    let caches = [("1", "Data"), ("2", "Unified"), ("3", "Unified")].map(|(level, kind)| {
        cache_bytes(Path::new("/sys/devices/system/cpu/cpu0/cache"), level, kind)
    });
    let mut name = processor_name(&processor);
    if caches[0].is_none() || caches[1].is_none() {
        name.push_str(" (cache sizes assumed)");
    }
    let l2_bytes = caches[1].unwrap_or(ASSUMED_L2_BYTES);
    // Machines without a third level are common; their last level is the second.
    let l3_fallback = if caches[1].is_some() { l2_bytes } else { ASSUMED_L3_BYTES };
    DeviceInfo {
        cuda: None,
        name,
        threads,
        l1d_bytes: caches[0].unwrap_or(ASSUMED_L1D_BYTES),
        l2_bytes,
        l3_bytes: caches[2].unwrap_or(l3_fallback),
        vector_bytes: vector_bytes(&flags),
        features,
        ticks_per_s: ticks_per_s(&processor),
    }
}

/// Assembles the environment of trials on this machine.
pub(crate) fn environment(device: DeviceInfo, isolation: Isolation) -> Environment {
    let read = |path: &str| fs::read_to_string(path).unwrap_or_default();
    let kernel = read("/proc/sys/kernel/osrelease");
    let release = read("/etc/os-release");
    let distribution = release
        .lines()
        .find_map(|line| line.strip_prefix("PRETTY_NAME="))
        .map_or("unknown distribution", |name| name.trim_matches('"'));
    Environment {
        format: FORMAT_VERSION,
        warpsmith: env!("CARGO_PKG_VERSION").to_string(),
        system: format!("Linux {}, {distribution}", kernel.trim()),
        device,
        compilers: toolchain::compilers(),
        isolation,
    }
}

/// Returns a text that is equal on machines for which `-march=native` means the same.
pub(crate) fn processor_identity() -> String {
    let processor = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    format!("{}\n{}", processor_name(&processor), flags(&processor).join(" "))
}

/// Reads the cycle counter; none where user code has none.
pub(crate) fn ticks() -> Option<u64> {
    #[cfg(target_arch = "x86_64")]
    {
        // SAFETY: every x86-64 processor has the instruction.
        Some(unsafe { core::arch::x86_64::_rdtsc() })
    }
    #[cfg(not(target_arch = "x86_64"))]
    {
        None
    }
}

/// Returns the rate of the cycle counter. The kernel derives BogoMIPS from the rate that it
/// calibrated over seconds at boot, two per tick; a calibration of our own would be less precise and
/// differ each time, and with it the environment's identity. Rounded to a megahertz, because another
/// boot finds another fraction.
fn ticks_per_s(processor: &str) -> Option<f64> {
    ticks()?;
    let bogomips: f64 = field(processor, "bogomips")?.parse().ok()?;
    Some((bogomips / 2.0).round() * 1e6)
}

fn field<'a>(processor: &'a str, name: &str) -> Option<&'a str> {
    processor.lines().find_map(|line| {
        let (key, value) = line.split_once(':')?;
        key.trim().eq_ignore_ascii_case(name).then(|| value.trim())
    })
}

fn processor_name(processor: &str) -> String {
    field(processor, "model name")
        .or_else(|| field(processor, "CPU part"))
        .map_or_else(|| format!("{} processor", std::env::consts::ARCH), ToString::to_string)
}

fn flags(processor: &str) -> Vec<&str> {
    field(processor, "flags")
        .or_else(|| field(processor, "Features"))
        .map(|flags| flags.split_whitespace().collect())
        .unwrap_or_default()
}

fn vector_bytes(flags: &[&str]) -> u32 {
    if flags.contains(&"avx512f") {
        64
    } else if flags.contains(&"avx") {
        32
    } else {
        16
    }
}

/// Returns the size of the cache of a level, as the kernel lists it.
fn cache_bytes(folder: &Path, level: &str, kind: &str) -> Option<u64> {
    let read = |path: &Path, name: &str| {
        fs::read_to_string(path.join(name)).ok().map(|text| text.trim().to_string())
    };
    fs::read_dir(folder).ok()?.flatten().find_map(|entry| {
        let path = entry.path();
        let matches = read(&path, "level")? == level && read(&path, "type")? == kind;
        matches.then(|| parse_size(&read(&path, "size")?)).flatten()
    })
}

fn parse_size(text: &str) -> Option<u64> {
    let (digits, scale) = match text.strip_suffix('K') {
        Some(digits) => (digits, 1 << 10),
        None => match text.strip_suffix('M') {
            Some(digits) => (digits, 1 << 20),
            None => (text, 1),
        },
    };
    digits.parse::<u64>().ok().map(|number| number * scale)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_read_as_the_kernel_writes_them() {
        let check = |text, expected| assert_eq!(parse_size(text), expected, "{text}");
        check("32K", Some(32 << 10));
        check("1M", Some(1 << 20));
        check("512", Some(512));
        check("", None);
    }

    #[test]
    fn this_machine_is_described() {
        let info = device_info(2);
        assert!(!info.name.is_empty());
        assert!(info.l1d_bytes >= 8 << 10 && info.l1d_bytes <= info.l2_bytes, "{info:?}");
        assert!(info.l2_bytes <= info.l3_bytes, "{info:?}");
    }

    #[test]
    #[cfg(target_arch = "x86_64")]
    fn the_counters_rate_agrees_with_the_clock() {
        let rate = device_info(1).ticks_per_s.expect("x86-64 has a counter");
        let measure = || {
            let (clock, counter) = (std::time::Instant::now(), ticks().expect("has a counter"));
            std::thread::sleep(std::time::Duration::from_millis(50));
            let counted = (ticks().expect("has a counter") - counter) as f64;
            counted / clock.elapsed().as_secs_f64()
        };
        // Something else may run between the readings of the clock and of the counter; not every time.
        let measured: Vec<f64> = (0..20).map(|_| measure()).collect();
        let agrees = measured.iter().any(|measured| (measured / rate - 1.0).abs() < 0.01);
        assert!(agrees, "measured {measured:?}, stated {rate}");
    }
}
