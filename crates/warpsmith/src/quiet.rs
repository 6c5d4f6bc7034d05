//! A quiet machine: campaigns of one user take turns at measuring and at compiling, and those of all users at a
//! device.

use std::path::Path;
use std::sync::Once;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::Duration;

use anyhow::{Context, Result};
use warpsmith_device::cpu::{
    Holder, PATIENCE, Quiet, QuietGuard, device_lock_paths, quiet_lock, quiet_lock_path,
    quiet_lock_within,
};
use warpsmith_model::lab::TargetKind;

use crate::interrupt::{Interrupt, Interrupted};
use crate::output::say;

/// Keeps what a target runs on quiet until it is dropped.
#[derive(Debug)]
pub struct QuietLocks {
    _own: QuietGuard,
    _device: Option<QuietGuard>,
}

/// Waits until what a target runs on is quiet enough, and keeps it so; says who is waited for.
pub fn quiet(target: TargetKind, purpose: Quiet) -> Result<QuietLocks> {
    let (own, shared) = match target {
        TargetKind::Cpu => (quiet_lock_path()?, None),
        // A GPU is disturbed by nothing that runs on the processors, nor disturbs it.
        TargetKind::Cuda => {
            let [own, shared] = device_lock_paths()?;
            (own, Some(shared))
        }
    };
    // A short wait is nothing to tell twice of.
    static TOLD: Once = Once::new();
    let tell = |holder: Option<&Holder>, waited: Duration| {
        let who = holder.map_or_else(|| "another campaign".to_string(), Holder::to_string);
        let tell =
            || say(format!("  waiting for {who}, which measures or compiles on this machine"));
        match waited < TELL_WHO {
            true => TOLD.call_once(tell),
            false => {
                say(format!("  still waiting for {who}, for {:.0} s now", waited.as_secs_f64()))
            }
        }
    };
    let failed = |path: &Path| format!("cannot lock {}", path.display());
    let own_guard = quiet_lock(&own, purpose, tell).with_context(|| failed(&own))?;
    let device = shared.map(|shared| device_lock(&shared, purpose, tell));
    Ok(QuietLocks { _own: own_guard, _device: device.flatten() })
}

/// From then on a wait is told of again and again.
const TELL_WHO: Duration = Duration::from_secs(30);

/// Takes the lock that all users of a machine share for a device. Anybody can hold it, or put something else
/// in its place; so what cannot be had is done without, in words.
fn device_lock(
    path: &Path,
    purpose: Quiet,
    tell: impl FnMut(Option<&Holder>, Duration),
) -> Option<QuietGuard> {
    static GAVE_UP: AtomicBool = AtomicBool::new(false);
    // Who was waited for in vain once is not waited for at every measurement.
    let patience = if GAVE_UP.load(Ordering::Relaxed) { Duration::ZERO } else { PATIENCE };
    let why = match quiet_lock_within(path, purpose, patience, tell) {
        Ok(Some(guard)) => {
            GAVE_UP.store(false, Ordering::Relaxed);
            return Some(guard);
        }
        Ok(None) => format!("somebody has held it for {:.0} s", PATIENCE.as_secs_f64()),
        Err(error) => error.to_string(),
    };
    if !GAVE_UP.swap(true, Ordering::Relaxed) {
        say(format!(
            "  going on without {} ({why}): another user who measures on this device may disturb \
             times from here on",
            path.display()
        ));
    }
    None
}

/// The same, for as long as nobody asks to stop at once. A lock that others hold cannot be waited for
/// and let go of, so a thread of its own waits, and drops the lock when it comes too late.
pub fn quiet_unless(
    interrupt: &Interrupt,
    target: TargetKind,
    purpose: Quiet,
) -> Result<QuietLocks> {
    if !interrupt.is_at_once() {
        return quiet(target, purpose);
    }
    let (sender, guard) = channel();
    std::thread::spawn(move || {
        let _too_late = sender.send(quiet(target, purpose));
    });
    loop {
        match guard.recv_timeout(Duration::from_millis(20)) {
            Ok(guard) => return guard,
            Err(RecvTimeoutError::Timeout) if interrupt.asked_at_once() => {
                return Err(Interrupted.into());
            }
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => {
                anyhow::bail!("the thread that waits for a quiet machine is gone")
            }
        }
    }
}

/// How many compilers can run at once.
pub fn processors() -> usize {
    std::thread::available_parallelism().map_or(1, |count| count.get())
}
