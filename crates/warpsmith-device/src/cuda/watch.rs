//! Runs kernels in a process that belongs to somebody else: a profiler or a sanitizer.

use std::ffi::OsString;
use std::time::{Duration, Instant};

use super::process::DeviceProcess;
use super::wire::Floor;
use super::{Cuda, misuse, not_staged};
use crate::target::{CaseId, Fault, Program, Watched};

/// How long all launches under one watcher may take: each has a deadline, and there are hundreds.
const WATCH_LIMIT: Duration = Duration::from_secs(600);

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
        let began = Instant::now();
        for same in runs.chunk_by(is_same) {
            if began.elapsed() > WATCH_LIMIT {
                fault = Some(Fault::TimedOut { limit_s: WATCH_LIMIT.as_secs_f64() });
                break;
            }
            let (program, case) = &same[0];
            if program.grid.is_none() {
                return Err(misuse("only kernels are watched"));
            }
            let staged = self.cases.get(&case.0).ok_or_else(not_staged)?;
            let ran = process.run(program, *case, same.len(), &staged.contents, deadline);
            match ran {
                Ok(()) => n_run += same.len(),
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

/// Says whether two runs are of the same program on the same inputs; neighbours that are share a loaded module.
fn is_same(one: &(&Program, CaseId), other: &(&Program, CaseId)) -> bool {
    std::ptr::eq(one.0, other.0) && one.1 == other.1
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cuda::{library_artifact, own};

    #[test]
    fn neighbours_that_are_the_same_share_a_loaded_module() {
        let artifact = library_artifact("kernel".into());
        let plans = own::plans(8);
        let [one, other] = ["one", "other"].map(|it| own::program(&artifact, &plans, it, 1, 32, 0));
        let (here, there) = (CaseId(1), CaseId(2));
        let runs = [
            (&one, here),
            (&other, here),
            (&one, here),
            (&one, here),
            (&one, there),
            (&other, there),
        ];
        let launches: Vec<usize> = runs.chunk_by(is_same).map(<[_]>::len).collect();
        assert_eq!(launches, [1, 1, 2, 1, 1]);
    }
}
