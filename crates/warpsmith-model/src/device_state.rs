//! What a device says of itself while it is timed: clocks, heat, power, and what holds its clocks back.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

/// The extremes of what a device said over some readings of the clock; where it does not say something,
/// that is absent.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct DeviceState {
    /// The clock of the multiprocessors.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sm_clock_hz: Option<Span>,
    /// The memory's clock.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory_clock_hz: Option<Span>,
    /// The highest temperature, in degrees Celsius.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub temperature_c: Option<f64>,
    /// The highest power.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub power_w: Option<f64>,
    /// Everything that held the clocks back at any of the readings.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub limited_by: BTreeSet<ClockLimit>,
}

/// The least and the greatest of some values.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Span {
    /// The least.
    pub low: f64,
    /// The greatest.
    pub high: f64,
}

impl Span {
    /// The span of one value.
    pub fn of(value: f64) -> Self {
        Self { low: value, high: value }
    }

    fn with(self, other: Self) -> Self {
        Self { low: self.low.min(other.low), high: self.high.max(other.high) }
    }
}

/// What holds a device's clocks back.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ClockLimit {
    /// Somebody set the clocks.
    ApplicationClocks,
    /// The power that the board may draw; usual under load.
    PowerCap,
    /// The hardware halves the clocks, or more, for heat, power or a signal from outside.
    HardwareSlowdown,
    /// Another device of its group is held back.
    SyncBoost,
    /// The driver lowers the clocks for heat.
    SoftwareThermal,
    /// The hardware halves the clocks, or more, for heat.
    HardwareThermal,
    /// The power supply asks for less.
    PowerBrake,
    /// The display's clocks.
    DisplayClocks,
}

impl ClockLimit {
    /// Says whether times that were taken under it say something about the moment, not about the kernel.
    /// The power cap does not: a kernel that works the device hard is held back by it whenever it runs.
    pub fn is_slowdown(self) -> bool {
        match self {
            Self::HardwareSlowdown
            | Self::SoftwareThermal
            | Self::HardwareThermal
            | Self::PowerBrake => true,
            Self::ApplicationClocks | Self::PowerCap | Self::SyncBoost | Self::DisplayClocks => {
                false
            }
        }
    }

    /// Returns its name, for people.
    pub fn name(self) -> &'static str {
        match self {
            Self::ApplicationClocks => "application clocks",
            Self::PowerCap => "power cap",
            Self::HardwareSlowdown => "hardware slowdown",
            Self::SyncBoost => "sync boost",
            Self::SoftwareThermal => "software thermal slowdown",
            Self::HardwareThermal => "hardware thermal slowdown",
            Self::PowerBrake => "power brake",
            Self::DisplayClocks => "display clocks",
        }
    }
}

impl DeviceState {
    /// Widens the extremes by another state's.
    pub fn widen(&mut self, other: &Self) {
        fn both<T: Copy>(one: Option<T>, two: Option<T>, join: impl Fn(T, T) -> T) -> Option<T> {
            match (one, two) {
                (Some(one), Some(two)) => Some(join(one, two)),
                (one, two) => one.or(two),
            }
        }
        self.sm_clock_hz = both(self.sm_clock_hz, other.sm_clock_hz, Span::with);
        self.memory_clock_hz = both(self.memory_clock_hz, other.memory_clock_hz, Span::with);
        self.temperature_c = both(self.temperature_c, other.temperature_c, f64::max);
        self.power_w = both(self.power_w, other.power_w, f64::max);
        self.limited_by.extend(&other.limited_by);
    }

    /// Says whether the device was slowed down by something that has nothing to do with the kernel.
    pub fn is_slowed(&self) -> bool {
        self.limited_by.iter().any(|limit| limit.is_slowdown())
    }

    /// Says it in one line.
    pub fn describe(&self) -> String {
        let clock = |name: &str, span: Span| {
            let (low, high) = ((span.low / 1e6).round(), (span.high / 1e6).round());
            match low == high {
                true => format!("{name} {low} MHz"),
                false => format!("{name} {low} to {high} MHz"),
            }
        };
        let mut parts = Vec::new();
        parts.extend(self.sm_clock_hz.map(|span| clock("SM clock", span)));
        parts.extend(self.memory_clock_hz.map(|span| clock("memory clock", span)));
        parts.extend(self.temperature_c.map(|degrees| format!("up to {degrees:.0} °C")));
        parts.extend(self.power_w.map(|watts| format!("up to {watts:.0} W")));
        if !self.limited_by.is_empty() {
            let names: Vec<&str> = self.limited_by.iter().map(|limit| limit.name()).collect();
            parts.push(format!("limited by {}", names.join(", ")));
        }
        if parts.is_empty() { "it said nothing".to_string() } else { parts.join(", ") }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn state(clock_hz: f64, limits: &[ClockLimit]) -> DeviceState {
        DeviceState {
            sm_clock_hz: Some(Span::of(clock_hz)),
            power_w: Some(clock_hz / 3e6),
            limited_by: limits.iter().copied().collect(),
            ..DeviceState::default()
        }
    }

    #[test]
    fn states_widen_to_their_extremes() {
        let mut all = state(1.98e9, &[]);
        all.widen(&state(1.5e9, &[ClockLimit::PowerCap]));
        all.widen(&DeviceState { temperature_c: Some(61.0), ..DeviceState::default() });
        assert_eq!(
            all.describe(),
            "SM clock 1500 to 1980 MHz, up to 61 °C, up to 660 W, limited by power cap"
        );
        assert!(!all.is_slowed(), "the power cap is the kernel's own doing");
        all.widen(&state(1e9, &[ClockLimit::HardwareThermal]));
        assert!(all.is_slowed());
        let text = serde_json::to_string(&all).expect("JSON");
        assert_eq!(serde_json::from_str::<DeviceState>(&text).expect("read back"), all);
    }

    #[test]
    fn a_device_that_says_nothing_is_no_error() {
        assert_eq!(DeviceState::default().describe(), "it said nothing");
        assert_eq!(serde_json::to_string(&DeviceState::default()).expect("JSON"), "{}");
    }
}
