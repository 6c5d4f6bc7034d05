//! What can be said before anything runs: whether the tools of the gate work, and whether the driver can
//! load what the compiler makes.

use std::path::Path;

use super::identity::{self, Version};
use super::{sanitizer, toolkit};
use crate::target::{Fault, Sanitizers};

/// Where the driver says its own version.
const DRIVER_VERSION: &str = "/proc/driver/nvidia/version";

/// Describes the sanitizers of this machine: finds them, and makes sure that they start.
pub fn sanitizers(parts_dir: &Path) -> Result<Sanitizers, Fault> {
    sanitizer::describe(parts_dir)
}

/// The first CUDA version whose driver has every function that is called here.
const LEAST_DRIVER: Version = Version { major: 12, minor: 8 };

/// Makes sure that a driver for this CUDA version has what is called of it, and loads what the toolkit's compiler makes. Where there is
/// no toolkit, there is nothing that it could not load.
pub fn check_driver(parts_dir: &Path, driver: &str) -> Result<(), Fault> {
    if let Some(words) = outdated(driver) {
        return Err(Fault::Unavailable(words));
    }
    let Ok(toolkit) = toolkit::find(parts_dir) else { return Ok(()) };
    // A compiler that does not say its version says so when the environment is described.
    let Ok(nvrtc) = identity::nvrtc_version(&toolkit) else { return Ok(()) };
    match mismatch(driver, nvrtc) {
        None => Ok(()),
        Some(words) => Err(Fault::Unavailable(format!("{words} ({})", toolkit.nvrtc.display()))),
    }
}

fn outdated(driver: &str) -> Option<String> {
    let driver = Version::parse(driver)?;
    ((driver.major, driver.minor) < (LEAST_DRIVER.major, LEAST_DRIVER.minor)).then(|| {
        format!(
            "the driver is for CUDA {driver}, and Warpsmith needs {LEAST_DRIVER} or later: install a newer \
             driver"
        )
    })
}

/// Says what is wrong where a driver is too old for a compiler: machine code of a later major version is
/// refused.
pub fn mismatch(driver: &str, nvrtc: Version) -> Option<String> {
    let driver = Version::parse(driver)?;
    (nvrtc.major > driver.major).then(|| {
        format!(
            "the driver is for CUDA {driver} and cannot load what NVRTC {nvrtc} compiles: install a \
             driver for CUDA {} or later, or name a toolkit of CUDA {} with --cuda-home",
            nvrtc.major, driver.major
        )
    })
}

/// Returns the driver's own version (`580.65.06`), which one CUDA version has many of; none where the
/// driver does not say.
pub fn driver_version() -> Option<String> {
    version_in(&std::fs::read_to_string(DRIVER_VERSION).ok()?)
}

/// Finds the version in the driver's words: the first one with two points or, in older drivers, one.
fn version_in(words: &str) -> Option<String> {
    let line = words.lines().find(|line| line.starts_with("NVRM version:"))?;
    let is_version =
        |word: &&str| word.contains('.') && word.split('.').all(|part| part.parse::<u32>().is_ok());
    line.split_whitespace().find(is_version).map(str::to_string)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_driver_that_is_too_old_is_told_with_both_ways_out() {
        let nvrtc = Version { major: 13, minor: 0 };
        assert_eq!(mismatch("13.0", nvrtc), None);
        assert_eq!(mismatch("13.2", nvrtc), None);
        assert_eq!(mismatch("14.1", nvrtc), None);
        assert_eq!(mismatch("12.8", Version { major: 12, minor: 9 }), None);
        assert_eq!(mismatch("", nvrtc), None, "nobody knows");
        assert_eq!(
            mismatch("12.4", nvrtc).expect("too old"),
            "the driver is for CUDA 12.4 and cannot load what NVRTC 13.0 compiles: install a driver \
             for CUDA 13 or later, or name a toolkit of CUDA 12 with --cuda-home"
        );
    }

    #[test]
    fn a_driver_that_lacks_functions_is_told_so() {
        assert_eq!(outdated("12.8"), None);
        assert_eq!(outdated("13.0"), None);
        assert_eq!(outdated(""), None, "nobody knows");
        let words = outdated("12.4").expect("too old");
        assert!(
            words.starts_with("the driver is for CUDA 12.4, and Warpsmith needs 12.8"),
            "{words}"
        );
    }

    #[test]
    fn the_driver_says_its_version() {
        let open = "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  580.65.06  Release Build  \
                    (dvs-builder@U22)  Sun Jul 27 06:46:12 UTC 2025\nGCC version:  gcc version 11.4.0\n";
        assert_eq!(version_in(open).as_deref(), Some("580.65.06"));
        let old = "NVRM version: NVIDIA UNIX x86_64 Kernel Module  535.54  Tue Jun  6 2023\n";
        assert_eq!(version_in(old).as_deref(), Some("535.54"));
        assert_eq!(version_in("GCC version:  gcc version 11.4.0\n"), None);
    }
}
