//! What a comparison knows of one side on one workload: its process, its times, or why it has none.

use warpsmith_device::target::{CaseId, Fault, Program, Session};
use warpsmith_model::Verdict;

use crate::error::GateError;
use crate::evaluate::Stop;

/// One side on one workload.
#[derive(Default)]
pub(super) struct Corner {
    pub(super) program: Option<Program>,
    pub(super) ids: Vec<CaseId>,
    pub(super) session: Option<Box<dyn Session>>,
    pub(super) samples_s: Vec<f64>,
    /// Those of rounds that were run again.
    pub(super) disturbed_s: Vec<f64>,
    /// Seconds that opening its sessions took.
    pub(super) opening_s: f64,
    /// What its session says of how it computes.
    pub(super) remark: Option<String>,
    pub(super) absent: Option<Absence>,
    /// Whether somebody else has killed its process once.
    pub(super) was_killed: bool,
    /// Whether its newest reading waited for a processor.
    pub(super) has_waited: bool,
}

/// Why a side has no times, and the verdict where it failed.
pub(super) type Absence = (String, Option<Verdict>);

impl Corner {
    pub(super) fn absent(reason: impl Into<String>, verdict: Option<Verdict>) -> Self {
        Self { absent: Some((reason.into(), verdict)), ..Self::default() }
    }

    /// Returns how many launches its session can put under one reading of the clock.
    pub(super) fn launches_at_most(&self) -> usize {
        self.session.as_ref().map_or(usize::MAX, |session| session.launches_together())
    }

    /// Says whether readings of its session that end early begin as others do.
    pub(super) fn cuts_readings(&self) -> bool {
        self.session.as_ref().is_some_and(|session| session.cuts_readings())
    }

    /// Takes the last round for none.
    pub(super) fn forget_round(&mut self) {
        self.samples_s.pop();
    }

    /// Takes the last round for disturbed.
    pub(super) fn set_round_aside(&mut self) {
        self.disturbed_s.extend(self.samples_s.pop());
    }

    /// Says whether a fault is somebody else's doing, and the first of that kind, so that the side may try again.
    pub(super) fn may_try_again(&mut self, fault: &Fault) -> bool {
        let is_foreign = matches!(fault, Fault::Crashed(cause) if cause.is_from_outside());
        is_foreign && !std::mem::replace(&mut self.was_killed, true)
    }

    /// Takes an ended evaluation: a failing candidate is out, our own failure is handed on.
    pub(super) fn stop(&mut self, stop: Stop) -> Result<(), GateError> {
        match stop {
            Stop::Outcome(outcome) => {
                self.absent = Some((outcome.describe(), Some(outcome.verdict())));
            }
            Stop::Broken(GateError::Target { source: fault @ Fault::Unavailable(_), .. }) => {
                self.absent = Some((fault.to_string(), None));
            }
            Stop::Broken(error) => return Err(error),
        }
        self.session = None;
        Ok(())
    }
}
