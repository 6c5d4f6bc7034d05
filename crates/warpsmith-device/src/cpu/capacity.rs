//! How much memory there is for what a kernel asks for.

use std::fs;
use std::io;

use warpsmith_model::CrashCause;

use crate::sys::memory::page_bytes;
use crate::sys::process::limited_to;
use crate::target::Fault;

/// Returns the bytes that a process can have without driving the system out of memory; none where the
/// system does not say.
pub(super) fn available_bytes() -> Option<u64> {
    let free = fs::read_to_string("/proc/meminfo").ok().and_then(|text| in_meminfo(&text));
    // A container's limit, by the second version of control groups and by the first.
    let limits = ["/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes"];
    let limits =
        limits.iter().filter_map(|path| fs::read_to_string(path).ok()?.trim().parse().ok());
    free.into_iter().chain(limits).min()
}

fn in_meminfo(text: &str) -> Option<u64> {
    let line = text.lines().find_map(|line| line.strip_prefix("MemAvailable:"))?;
    let kib: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kib << 10)
}

/// Says why buffers of these sizes cannot be had, where that is so.
pub(super) fn lacking(scratch: &[u64]) -> Option<String> {
    if scratch.is_empty() {
        return None;
    }
    // Each ends with a page of its own.
    let bytes = scratch.iter().map(|bytes| bytes.saturating_add(page_bytes() as u64));
    let wanted = bytes.fold(0, u64::saturating_add);
    let available = available_bytes()?;
    (wanted > available).then(|| {
        format!(
            "it asks for {wanted} bytes of scratch, and {available} bytes of memory are available"
        )
    })
}

/// Says whose doing it is that the memory of a session could not be had: a candidate asks for too much, or we
/// broke.
pub(super) fn memory_fault(source: io::Error) -> Fault {
    match source.raw_os_error() {
        Some(libc::ENOMEM | libc::EFBIG) => {
            let message = format!("the memory of its session: {source}{}", limits_in_words());
            Fault::Crashed(CrashCause::NotLoadable { message })
        }
        _ => Fault::Broken { what: "preparing a session".to_string(), source },
    }
}

/// Says which limits of this process's may be why memory is lacking, and what to do; nothing where there are none.
pub(super) fn limits_in_words() -> String {
    let limit = |resource, what: &str, option: &str| {
        let bytes = limited_to(resource)?;
        Some(format!(
            "; this process may have {bytes} bytes {what} (`ulimit -{option}`), which may be too few"
        ))
    };
    let limits = [
        limit(libc::RLIMIT_AS, "of addresses", "v"),
        limit(libc::RLIMIT_FSIZE, "in a file, in memory too", "f"),
    ];
    limits.into_iter().flatten().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_available_memory_is_found_among_the_others() {
        let text = "MemTotal:       16384 kB\nMemAvailable:    1024 kB\nSwapFree:  0 kB\n";
        assert_eq!(in_meminfo(text), Some(1 << 20));
        assert_eq!(in_meminfo("MemTotal: 4 kB\n"), None);
    }

    #[test]
    fn what_no_machine_has_is_lacking_whatever_its_sum() {
        assert_eq!(lacking(&[]), None);
        assert_eq!(lacking(&[4096]), None);
        assert!(lacking(&[1 << 60]).is_some());
        assert!(lacking(&[u64::MAX, u64::MAX]).is_some());
    }
}
