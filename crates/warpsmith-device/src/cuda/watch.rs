//! Runs kernels in a process that belongs to somebody else: a profiler or a sanitizer.

use std::ffi::OsString;
use std::time::Duration;

use super::process::DeviceProcess;
use super::wire::Floor;
use super::{Cuda, misuse, not_staged};
use crate::target::{CaseId, Fault, Program, Watched};

impl Cuda {
    /// Runs as [`crate::Target::watch`] does, with memory as the watcher needs it.
    pub(super) fn watch_on(
        &self,
        watcher: &[OsString],
        floor: Floor,
        runs: &[(&Program, CaseId)],
        deadline: Duration,
    ) -> Result<Watched, Fault> {
        let mut process = DeviceProcess::new(self.config.device_exe.clone(), watcher);
        process.lay_floor(floor)?;
        let (mut n_run, mut fault) = (0, None);
        for (program, case) in runs {
            if program.grid.is_none() {
                return Err(misuse("only kernels are watched"));
            }
            let staged = self.cases.get(&case.0).ok_or_else(not_staged)?;
            let ran = process.run_once(program, *case, &staged.contents, deadline);
            match ran {
                Ok(()) => n_run += 1,
                Err(crashed @ (Fault::Crashed(_) | Fault::TimedOut { .. })) => {
                    fault = Some(crashed);
                    break;
                }
                Err(other) => return Err(other),
            }
        }
        // Whatever happened, the watcher has something to say about it.
        let status = process.finish(deadline)?;
        Ok(Watched { status, n_run, fault })
    }
}
