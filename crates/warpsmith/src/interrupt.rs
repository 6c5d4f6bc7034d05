//! Ctrl-C stops after the trial that is running, and ends a comparison or a profile at once; a second one
//! stops everything at once.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use anyhow::{Context, Result};
use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::flag;

/// Whether the user asked to stop.
#[derive(Clone, Debug, Default)]
pub struct Interrupt(Arc<AtomicBool>);

impl Interrupt {
    /// Begins to listen. The conventional exit status of a program ended by SIGINT is 130.
    pub fn listen() -> Result<Self> {
        let asked = Arc::new(AtomicBool::new(false));
        for signal in [SIGINT, SIGTERM] {
            flag::register_conditional_shutdown(signal, 130, Arc::clone(&asked))
                .context("cannot listen for Ctrl-C")?;
            flag::register(signal, Arc::clone(&asked)).context("cannot listen for Ctrl-C")?;
        }
        Ok(Self(asked))
    }

    /// Asks to stop, as a signal would.
    #[cfg(test)]
    pub fn ask(&self) {
        self.0.store(true, Ordering::Relaxed);
    }

    /// Says whether to stop.
    pub fn asked(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}
