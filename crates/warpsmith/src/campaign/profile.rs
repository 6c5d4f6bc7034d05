//! Profiling: a candidate is judged and timed as always, then run under a profiler.

use anyhow::{Result, bail};
use warpsmith_model::lab::Kernel;
use warpsmith_model::stats::median;
use warpsmith_model::{
    Answer, Ask, FORMAT_VERSION, Fidelity, Origin, Params, ProfileRecord, ProfileRequest, Trial,
};

use super::{Campaign, kernel_text};

impl Campaign {
    /// Judges and times a candidate on some workloads, shortly.
    pub fn rank_on(
        &mut self,
        kernel: &Kernel,
        params: &Params,
        workloads: Vec<String>,
    ) -> Result<Trial> {
        let request = self.request(kernel, params, Origin::Manual, Fidelity::Rank, workloads)?;
        self.evaluate(kernel, request)
    }

    /// Runs a candidate under the profiler and records what it saw, with the times of its trial: the
    /// profiler's own are of replays.
    pub fn profile(
        &mut self,
        kernel: &Kernel,
        params: &Params,
        trial: &Trial,
    ) -> Result<ProfileRecord> {
        let request = ProfileRequest {
            lab: self.lab_ref(self.settings.seed),
            kernel: kernel_text(kernel),
            params: params.clone(),
            workloads: trial.job.workloads.clone(),
        };
        let profiled = match self.ask(&Ask::Profile(Box::new(request)))? {
            Answer::Profiled(profiled) => *profiled,
            other => bail!("the worker answered a question for a profile with {other:?}"),
        };
        let mut workloads = profiled.workloads;
        for profile in &mut workloads {
            let measured = trial.outcome.measurements().iter();
            let measured = measured.into_iter().find(|it| it.workload == profile.workload);
            profile.time_s = measured.and_then(|it| median(&it.samples_s));
            profile.launch_floor_s = measured.map(|it| it.launch_floor_s);
        }
        let record = ProfileRecord {
            format: FORMAT_VERSION,
            candidate: trial.job.candidate.id,
            kernel: kernel.name.clone(),
            params: params.clone(),
            lab: self.loaded.lab.id,
            environment: self.environment_id,
            trial: trial.id,
            workloads,
        };
        self.store.put_profile(&self.run, &record, &profiled.files)?;
        Ok(record)
    }
}
