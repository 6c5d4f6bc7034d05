//! What the harness itself costs: waking a runner's threads, letting them go, hearing of their end,
//! freezing them.
//!
//! All of that is on the clock of every reading (a candidate that has taken over a thread could work
//! meanwhile), so it is measured beside every reading with a runner that has no candidate, and taken off.

use std::cell::RefCell;
use std::rc::Rc;

use super::control::Part;
use super::session::{CpuSession, Span};
use crate::target::Fault;

/// A runner without a candidate, and what its newest commands took.
#[derive(Debug)]
pub(crate) struct Idle {
    runner: CpuSession,
    newest: Vec<Span>,
    next: usize,
    /// Whether its runner has ended, as when somebody killed it.
    is_lost: bool,
}

/// One for all sessions of a target: only one of them runs at a time.
pub(crate) type SharedIdle = Rc<RefCell<Idle>>;

/// Commands that are remembered: enough that one of them was undisturbed, few enough to follow the machine.
const REMEMBERED: usize = 32;

impl Idle {
    /// Measures for the first time.
    pub(crate) fn start(runner: CpuSession) -> Result<Self, Fault> {
        let mut idle = Self { runner, newest: Vec::new(), next: 0, is_lost: false };
        for _ in 0..REMEMBERED {
            idle.measure()?;
        }
        Ok(idle)
    }

    /// Takes one more reading of nothing.
    pub(crate) fn measure(&mut self) -> Result<(), Fault> {
        let measured = self.runner.command(Part::All, &[], &[]);
        self.is_lost |= measured.is_err();
        let span = measured?;
        if self.newest.len() < REMEMBERED {
            self.newest.push(span);
        } else {
            self.newest[self.next] = span;
            self.next = (self.next + 1) % REMEMBERED;
        }
        Ok(())
    }

    /// Says whether nothing more can be measured; the next session then starts another.
    pub(crate) fn is_lost(&self) -> bool {
        self.is_lost
    }

    /// Returns what the harness costs at the moment at least. Whatever disturbs the machine makes commands
    /// longer, and what is taken off must not be more than any command costs: a reading of little work
    /// would seem to take no time.
    pub(crate) fn least(&self) -> Option<Span> {
        let seconds = self.newest.iter().map(|span| span.seconds).reduce(f64::min)?;
        let waited_s = self.newest.iter().map(|span| span.waited_s).reduce(f64::min)?;
        let ticks = self.newest.iter().filter_map(|span| span.ticks).min();
        Some(Span { seconds, ticks, waited_s })
    }
}
