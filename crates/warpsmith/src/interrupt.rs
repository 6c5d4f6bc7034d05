//! Ctrl-C stops after the trial that is running, and ends a comparison or a profile at once; a second one
//! stops everything at once. SIGTERM and SIGHUP (the terminal is gone) do the same.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};

use anyhow::{Context, Result};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::flag;

/// The user asked to stop; everything so far is recorded.
#[derive(Debug, thiserror::Error)]
#[error("stopped on request")]
pub struct Interrupted;

/// The signals that ask to stop. A program that `nohup` started ignores SIGHUP, and goes on doing so.
pub fn signals() -> Vec<i32> {
    let mut signals = vec![SIGINT, SIGTERM];
    if !is_ignored(SIGHUP) {
        signals.push(SIGHUP);
    }
    signals
}

/// The signal that asked; 0 while none did.
fn asker() -> &'static Arc<AtomicUsize> {
    static ASKER: OnceLock<Arc<AtomicUsize>> = OnceLock::new();
    ASKER.get_or_init(Arc::default)
}

/// Returns the conventional exit status of a program that a signal ended: 130, 143 and 129 for SIGINT,
/// SIGTERM and SIGHUP; 130 where nobody but the user asked.
pub fn exit_status() -> u8 {
    match i32::try_from(asker().load(Ordering::Relaxed)) {
        Ok(signal) if signal > 0 => status_of(signal),
        _ => status_of(SIGINT),
    }
}

fn status_of(signal: i32) -> u8 {
    128 + u8::try_from(signal).unwrap_or(0)
}

/// Whether the user asked to stop.
#[derive(Clone, Debug, Default)]
pub struct Interrupt {
    asked: Arc<AtomicBool>,
    /// Whether a question that a worker is answering is given up too, instead of awaited.
    at_once: bool,
}

impl Interrupt {
    /// Begins to listen.
    pub fn listen() -> Result<Self> {
        let asked = Arc::new(AtomicBool::new(false));
        for signal in signals() {
            let cannot = || format!("cannot listen for signal {signal}");
            let status = i32::from(status_of(signal));
            flag::register_conditional_shutdown(signal, status, Arc::clone(&asked))
                .with_context(cannot)?;
            // Before the flag, so that whoever sees the flag knows who asked.
            flag::register_usize(signal, Arc::clone(asker()), usize::try_from(signal)?)
                .with_context(cannot)?;
            flag::register(signal, Arc::clone(&asked)).with_context(cannot)?;
        }
        Ok(Self { asked, at_once: false })
    }

    /// Makes one that no signal asks, for somebody who cancels what is running and goes on.
    pub fn at_once() -> Self {
        Self { asked: Arc::default(), at_once: true }
    }

    /// Asks to stop, as a signal would.
    pub fn ask(&self) {
        self.asked.store(true, Ordering::Relaxed);
    }

    /// Takes it back: what was to be stopped has stopped.
    pub fn clear(&self) {
        self.asked.store(false, Ordering::Relaxed);
    }

    /// Says whether to stop.
    pub fn asked(&self) -> bool {
        self.asked.load(Ordering::Relaxed)
    }

    /// Says whether it can be asked to give up what is running.
    pub fn is_at_once(&self) -> bool {
        self.at_once
    }

    /// Says whether to stop without an answer to what was asked.
    pub fn asked_at_once(&self) -> bool {
        self.at_once && self.asked()
    }
}

/// Says whether this process was started with a signal ignored; unknown is no.
fn is_ignored(signal: i32) -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    let mask = mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok());
    mask.is_some_and(|mask| mask >> (signal - 1) & 1 == 1)
}
