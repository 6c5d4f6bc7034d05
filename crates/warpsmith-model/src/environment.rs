//! Where a trial ran: the device, the tools, the protections, the measured ceilings.

use serde::{Deserialize, Serialize};

use crate::{EnvironmentId, Hasher, units};

/// The machine, the tools and the protections of a trial.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Environment {
    /// The document's format version.
    pub format: u32,
    /// Warpsmith's own version.
    pub warpsmith: String,
    /// The operating system and its kernel.
    pub system: String,
    /// The device.
    pub device: DeviceInfo,
    /// The compilers that were found.
    pub compilers: Vec<Compiler>,
    /// What confines candidates.
    pub isolation: Isolation,
}

impl Environment {
    /// Returns the identity: equal environments give comparable times. Whether the device can be asked
    /// for its clocks, and the words for why not, make no difference to them, and may differ by the hour.
    pub fn id(&self) -> EnvironmentId {
        let mut hasher = Hasher::new("environment");
        let mut telling = self.clone();
        if let Some(cuda) = &mut telling.device.cuda {
            cuda.unmonitored = None;
        }
        let text = serde_json::to_vec(&telling).expect("plain data always serialises");
        hasher.part(&text);
        hasher.into()
    }
}

/// A device that runs kernels.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct DeviceInfo {
    /// The model's name.
    pub name: String,
    /// Threads that the harness runs a kernel on.
    pub threads: u32,
    /// Bytes of first-level data cache per core.
    pub l1d_bytes: u64,
    /// Bytes of second-level cache per core.
    pub l2_bytes: u64,
    /// Bytes of last-level cache.
    pub l3_bytes: u64,
    /// Bytes of the widest vector register.
    pub vector_bytes: u32,
    /// Instruction-set extensions that matter (`avx2`, `fma`).
    pub features: Vec<String>,
    /// Ticks of the cycle counter per second; none where there is no counter.
    pub ticks_per_s: Option<f64>,
    /// What a CUDA device has beside this.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cuda: Option<CudaInfo>,
}

/// A CUDA device.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CudaInfo {
    /// The architecture to compile for (`sm_90a`).
    pub arch: String,
    /// The driver's CUDA version (`13.0`).
    pub driver: String,
    /// The driver's own version (`580.65.06`), where it says one. Older evidence has none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub driver_version: Option<String>,
    /// Multiprocessors.
    pub sms: u32,
    /// Threads of a warp.
    pub warp_size: u32,
    /// Threads that a block may have.
    pub max_threads: u32,
    /// Bytes of shared memory that a block may have.
    pub smem_per_block: u32,
    /// Bytes of the device's memory.
    pub memory_bytes: u64,
    /// Why clocks, temperature, power and throttling cannot be read; none where they can.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unmonitored: Option<String>,
}

impl DeviceInfo {
    /// Returns the value of a device constant that expressions may name.
    pub fn constant(&self, name: &str) -> Option<i64> {
        match name {
            "THREADS" => Some(i64::from(self.threads)),
            "L1D_BYTES" => i64::try_from(self.l1d_bytes).ok(),
            "L2_BYTES" => i64::try_from(self.l2_bytes).ok(),
            "L3_BYTES" => i64::try_from(self.l3_bytes).ok(),
            "VECTOR_BYTES" => Some(i64::from(self.vector_bytes)),
            "SMS" => self.cuda.as_ref().map(|cuda| i64::from(cuda.sms)),
            "WARP_SIZE" => self.cuda.as_ref().map(|cuda| i64::from(cuda.warp_size)),
            "MAX_THREADS" => self.cuda.as_ref().map(|cuda| i64::from(cuda.max_threads)),
            "SMEM_PER_BLOCK" => self.cuda.as_ref().map(|cuda| i64::from(cuda.smem_per_block)),
            _ => None,
        }
    }

    /// Returns how many bytes the caches hold that all processors can use: the last level, or the second
    /// level of all of them where that is more.
    pub fn caches_bytes(&self) -> u64 {
        match self.cuda {
            Some(_) => self.l2_bytes.max(self.l3_bytes),
            None => self.l3_bytes.max(self.l2_bytes * u64::from(self.threads)),
        }
    }

    /// The names that [`DeviceInfo::constant`] knows.
    pub const CONSTANTS: [&'static str; 9] = [
        "THREADS",
        "L1D_BYTES",
        "L2_BYTES",
        "L3_BYTES",
        "VECTOR_BYTES",
        "SMS",
        "WARP_SIZE",
        "MAX_THREADS",
        "SMEM_PER_BLOCK",
    ];
}

/// A compiler that was found.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Compiler {
    /// The name it was asked for by (`gcc`).
    pub name: String,
    /// The first line it says of its version.
    pub version: String,
}

/// What confines candidates; each part is active or absent for a stated reason.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Isolation {
    /// The filter on system calls.
    pub seccomp: Guard,
    /// The file-system and network confinement.
    pub landlock: Guard,
    /// Limits on memory, files and processor time.
    pub rlimits: Guard,
    /// Inputs that cannot be written, nor be read before their launch.
    pub sealed_inputs: Guard,
    /// Another user than root, without capabilities.
    #[serde(default = "unrecorded")]
    pub privileges: Guard,
}

/// What is known of a protection that earlier versions did not record.
fn unrecorded() -> Guard {
    Guard::Missing { reason: "this was not recorded".to_string() }
}

/// Whether one protection is in force.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "state")]
pub enum Guard {
    /// In force.
    Active,
    /// Not to be had on this machine.
    Missing {
        /// Why.
        reason: String,
    },
}

/// What the machine can do at most, measured on it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Ceilings {
    /// Single-precision operations a second on all threads, from independent fused multiply-adds.
    pub f32_flops_per_s: f64,
    /// Double-precision operations a second on all threads.
    pub f64_flops_per_s: f64,
    /// Operations a second of the matrix units on 16-bit elements; none where there are no such
    /// units.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub matrix_flops_per_s: Option<f64>,
    /// Bytes a second from and to memory far beyond the last cache.
    pub memory_bytes_per_s: f64,
    /// Bytes a second when everything stays in the caches nearest to the cores; the floor for
    /// plausibility, since small workloads never leave them.
    pub cache_bytes_per_s: f64,
    /// Seconds of an empty launch.
    pub launch_floor_s: f64,
    /// Whether other programs kept the machine busy meanwhile: ceilings of a busy machine were seen ten times
    /// too low.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub busy: bool,
    /// What the newest measurement showed, where it fell clearly short of an earlier one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub newest: Option<Box<Ceilings>>,
}

impl Ceilings {
    /// A measurement that is lower than the best by more than this is said to fall short of it.
    pub const REPEATABLE: f64 = 0.05;

    /// Returns the better of two measurements, each ceiling by itself: a ceiling is what was reached once. The
    /// newer one is kept beside it where it fell clearly short.
    pub fn best_of(&self, newer: &Self) -> Self {
        let newest = newer.newest.as_deref().unwrap_or(newer);
        let mut best = self.higher_of(newer);
        if !best.shortfalls_of(newest).is_empty() {
            best.newest = Some(Box::new(Self { newest: None, ..newest.clone() }));
        }
        best
    }

    /// Returns the rates of which the newest measurement fell short, with what it showed: on a busy machine, or
    /// on one that shares its memory with others, they do not repeat.
    pub fn shortfalls(&self) -> Vec<(CeilingRate, f64)> {
        self.newest.as_deref().map(|newest| self.shortfalls_of(newest)).unwrap_or_default()
    }

    fn shortfalls_of(&self, newest: &Self) -> Vec<(CeilingRate, f64)> {
        let is_short = |rate: &CeilingRate| {
            let reached = rate.of(self);
            reached.is_some_and(|best| {
                rate.of(newest).unwrap_or(0.0) < best * (1.0 - Self::REPEATABLE)
            })
        };
        let short = CeilingRate::ALL.into_iter().filter(is_short);
        short.map(|rate| (rate, rate.of(newest).unwrap_or(0.0))).collect()
    }

    fn higher_of(&self, other: &Self) -> Self {
        Self {
            newest: None,
            busy: self.busy && other.busy,
            f32_flops_per_s: self.f32_flops_per_s.max(other.f32_flops_per_s),
            f64_flops_per_s: self.f64_flops_per_s.max(other.f64_flops_per_s),
            matrix_flops_per_s: match (self.matrix_flops_per_s, other.matrix_flops_per_s) {
                (Some(one), Some(two)) => Some(one.max(two)),
                (one, two) => one.or(two),
            },
            memory_bytes_per_s: self.memory_bytes_per_s.max(other.memory_bytes_per_s),
            cache_bytes_per_s: self.cache_bytes_per_s.max(other.cache_bytes_per_s),
            launch_floor_s: self.launch_floor_s.min(other.launch_floor_s),
        }
    }
}

/// One of the rates among the ceilings.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CeilingRate {
    /// [`Ceilings::f32_flops_per_s`].
    SinglePrecision,
    /// [`Ceilings::f64_flops_per_s`].
    DoublePrecision,
    /// [`Ceilings::matrix_flops_per_s`].
    MatrixUnits,
    /// [`Ceilings::memory_bytes_per_s`].
    Memory,
    /// [`Ceilings::cache_bytes_per_s`].
    Caches,
}

impl CeilingRate {
    /// All of them.
    pub const ALL: [Self; 5] = [
        Self::SinglePrecision,
        Self::DoublePrecision,
        Self::MatrixUnits,
        Self::Memory,
        Self::Caches,
    ];

    /// Returns this rate of some ceilings; none where the device has no such units.
    pub fn of(self, ceilings: &Ceilings) -> Option<f64> {
        match self {
            Self::SinglePrecision => Some(ceilings.f32_flops_per_s),
            Self::DoublePrecision => Some(ceilings.f64_flops_per_s),
            Self::MatrixUnits => ceilings.matrix_flops_per_s,
            Self::Memory => Some(ceilings.memory_bytes_per_s),
            Self::Caches => Some(ceilings.cache_bytes_per_s),
        }
    }

    /// Returns its name and a value of it, for people.
    pub fn describe(self, per_s: f64) -> String {
        match self {
            Self::SinglePrecision => format!("single precision {}", units::flops(per_s)),
            Self::DoublePrecision => format!("double precision {}", units::flops(per_s)),
            Self::MatrixUnits => format!("matrix units {}", units::flops(per_s)),
            Self::Memory => format!("memory {}", units::bandwidth(per_s)),
            Self::Caches => format!("caches {}", units::bandwidth(per_s)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ceilings(memory_bytes_per_s: f64) -> Ceilings {
        Ceilings {
            f32_flops_per_s: 1e11,
            f64_flops_per_s: 5e10,
            matrix_flops_per_s: None,
            memory_bytes_per_s,
            cache_bytes_per_s: 1e12,
            launch_floor_s: 1e-5,
            busy: false,
            newest: None,
        }
    }

    #[test]
    fn ceilings_are_the_best_ever_seen_and_say_what_the_newest_measurement_lacked() {
        let best = ceilings(88e9).best_of(&ceilings(57e9));
        assert_eq!(best.memory_bytes_per_s, 88e9);
        assert_eq!(best.shortfalls(), [(CeilingRate::Memory, 57e9)]);
        // Within what two measurements differ by, nothing is said; and a newer, better one is its own.
        assert!(ceilings(88e9).best_of(&ceilings(86e9)).shortfalls().is_empty());
        let risen = best.best_of(&ceilings(89e9));
        assert_eq!((risen.memory_bytes_per_s, risen.newest.is_none()), (89e9, true));
    }

    #[test]
    fn ceilings_without_a_shortfall_are_stored_as_before() {
        let text = serde_json::to_string(&ceilings(88e9)).expect("plain data");
        assert!(!text.contains("newest"), "{text}");
        let short = ceilings(88e9).best_of(&ceilings(57e9));
        let text = serde_json::to_string(&short).expect("plain data");
        assert_eq!(serde_json::from_str::<Ceilings>(&text).expect("it was written"), short);
    }

    #[test]
    fn a_device_that_cannot_be_asked_for_its_clocks_is_the_same_device() {
        let environment = |unmonitored: Option<&str>, driver_version: &str| Environment {
            format: 1,
            warpsmith: "test".to_string(),
            system: "test".to_string(),
            device: DeviceInfo {
                name: "gpu".to_string(),
                threads: 1,
                l1d_bytes: 0,
                l2_bytes: 0,
                l3_bytes: 0,
                vector_bytes: 16,
                features: Vec::new(),
                ticks_per_s: None,
                cuda: Some(CudaInfo {
                    arch: "sm_90a".to_string(),
                    driver: "13.0".to_string(),
                    driver_version: Some(driver_version.to_string()),
                    sms: 132,
                    warp_size: 32,
                    max_threads: 1024,
                    smem_per_block: 1,
                    memory_bytes: 1,
                    unmonitored: unmonitored.map(str::to_string),
                }),
            },
            compilers: Vec::new(),
            isolation: Isolation {
                seccomp: Guard::Active,
                landlock: Guard::Active,
                rlimits: Guard::Active,
                sealed_inputs: Guard::Active,
                privileges: Guard::Active,
            },
        };
        let usual = environment(None, "580.65.06").id();
        assert_eq!(usual, environment(Some("NVML: unknown error"), "580.65.06").id());
        assert_ne!(usual, environment(None, "580.95.05").id(), "another driver may time otherwise");
    }
}
