//! Ctrl-C stops after the trial that is running, and ends a comparison or a profile at once; a second one
//! stops everything at once.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use anyhow::{Context, Result};
use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::flag;

/// Whether the user asked to stop.
#[derive(Clone, Debug, Default)]
pub struct Interrupt {
    asked: Arc<AtomicBool>,
    /// Whether a question that a worker is answering is given up too, instead of awaited.
    at_once: bool,
}

impl Interrupt {
    /// Begins to listen. The conventional exit status of a program ended by SIGINT is 130.
    pub fn listen() -> Result<Self> {
        let asked = Arc::new(AtomicBool::new(false));
        for signal in [SIGINT, SIGTERM] {
            flag::register_conditional_shutdown(signal, 130, Arc::clone(&asked))
                .context("cannot listen for Ctrl-C")?;
            flag::register(signal, Arc::clone(&asked)).context("cannot listen for Ctrl-C")?;
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
