//! Asks NVIDIA's management library for clocks, temperature, power and what holds the clocks back.
//!
//! The library is loaded at run time. Where it is missing, or does not know a value, nothing is said:
//! it describes measurements and takes no part in them.

use nvml_wrapper::Nvml;
use nvml_wrapper::bitmasks::device::ThrottleReasons;
use nvml_wrapper::enum_wrappers::device::{Clock, TemperatureSensor};
use warpsmith_model::{ClockLimit, DeviceState, Span};

/// A device that can be asked.
pub(super) struct Monitor {
    device: nvml_wrapper::Device<'static>,
}

impl Monitor {
    /// Finds the device with this address on the bus (the library does not count devices as the driver
    /// does); says why it cannot be asked.
    pub(super) fn open(bus_id: &str) -> Result<Self, String> {
        let nvml = Nvml::init()
            .map_err(|error| format!("NVML (libnvidia-ml.so.1) cannot be used: {error}"))?;
        // It lives as long as this process, and so may what borrows it.
        let nvml: &'static Nvml = Box::leak(Box::new(nvml));
        let device = nvml
            .device_by_pci_bus_id(bus_id)
            .map_err(|error| format!("NVML does not know the device {bus_id}: {error}"))?;
        Ok(Self { device })
    }

    /// Says how the device is at this moment.
    pub(super) fn state(&self) -> DeviceState {
        let clock_hz = |clock| self.device.clock_info(clock).ok().map(|mhz| f64::from(mhz) * 1e6);
        DeviceState {
            sm_clock_hz: clock_hz(Clock::SM).map(Span::of),
            memory_clock_hz: clock_hz(Clock::Memory).map(Span::of),
            temperature_c: self.device.temperature(TemperatureSensor::Gpu).ok().map(f64::from),
            power_w: self.device.power_usage().ok().map(|milliwatts| f64::from(milliwatts) * 1e-3),
            limited_by: self.limits().into_iter().collect(),
        }
    }

    /// Says what holds the clocks back at this moment.
    pub(super) fn limits(&self) -> Vec<ClockLimit> {
        self.device.current_throttle_reasons().map_or_else(|_| Vec::new(), clock_limits)
    }
}

/// Translates the library's reasons. That nothing runs at the moment is none.
fn clock_limits(reasons: ThrottleReasons) -> Vec<ClockLimit> {
    [
        (ThrottleReasons::APPLICATIONS_CLOCKS_SETTING, ClockLimit::ApplicationClocks),
        (ThrottleReasons::SW_POWER_CAP, ClockLimit::PowerCap),
        (ThrottleReasons::HW_SLOWDOWN, ClockLimit::HardwareSlowdown),
        (ThrottleReasons::SYNC_BOOST, ClockLimit::SyncBoost),
        (ThrottleReasons::SW_THERMAL_SLOWDOWN, ClockLimit::SoftwareThermal),
        (ThrottleReasons::HW_THERMAL_SLOWDOWN, ClockLimit::HardwareThermal),
        (ThrottleReasons::HW_POWER_BRAKE_SLOWDOWN, ClockLimit::PowerBrake),
        (ThrottleReasons::DISPLAY_CLOCK_SETTING, ClockLimit::DisplayClocks),
    ]
    .into_iter()
    .filter(|(reason, _)| reasons.contains(*reason))
    .map(|(_, limit)| limit)
    .collect()
}

#[cfg(test)]
#[test]
fn reasons_become_limits_and_idleness_is_none() {
    assert_eq!(clock_limits(ThrottleReasons::GPU_IDLE), []);
    assert_eq!(clock_limits(ThrottleReasons::NONE), []);
    assert_eq!(
        clock_limits(ThrottleReasons::SW_POWER_CAP | ThrottleReasons::HW_THERMAL_SLOWDOWN),
        [ClockLimit::PowerCap, ClockLimit::HardwareThermal]
    );
}
