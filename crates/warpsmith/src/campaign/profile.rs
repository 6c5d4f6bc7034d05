//! Profiling: a candidate is judged and timed as always, then run under a profiler.

use anyhow::{Context, Result, bail};
use warpsmith_model::lab::Kernel;
use warpsmith_model::stats::median;
use warpsmith_model::{
    Answer, Ask, CounterSource, FORMAT_VERSION, Fidelity, InsightFrom, LabRecord, Origin, Params,
    ProfileRecord, ProfileRequest, Profiled, Trial, WorkloadProfile,
};

use super::Campaign;
use crate::damage::intact;
use crate::kernel_text::kernel_text;
use crate::output::say;

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
        let profiled = self.ask_profile(kernel, params, trial.job.workloads.clone(), true)?;
        self.keep_profile(kernel, params, trial, profiled)
    }

    /// Returns what a profile shows of a candidate of an evolution on its largest workload: from this run,
    /// with counters from an earlier one, or by the worker. Whoever asks again gets the same.
    pub fn profile_once(
        &mut self,
        kernel: &Kernel,
        params: &Params,
        trial: &Trial,
    ) -> Result<ProfileRecord> {
        let candidate = trial.job.candidate.id;
        let of_this_run = self.store.profiles(&self.run)?;
        if let Some(known) = of_this_run.iter().find(|it| it.candidate == candidate) {
            return Ok(known.clone());
        }
        let workloads = vec![self.largest_workload(kernel)?];
        let from = self.settings.evolve.as_ref().map(|it| it.insight_from);
        let counters = from == Some(InsightFrom::Counters);
        let earlier =
            intact(self.store.newest_profile(&candidate, &self.environment_id))?.flatten();
        let is_same = |it: &ProfileRecord| {
            it.lab == self.loaded.lab.id
                && it.workloads.iter().map(|it| &it.workload).eq(&workloads)
                && it.workloads.iter().all(|it| matches!(it.counters, CounterSource::Ncu { .. }))
        };
        let profiled = match earlier.filter(|it| counters && is_same(it)) {
            // Its files are in the store already.
            Some(earlier) => Profiled { workloads: earlier.workloads, files: Vec::new() },
            None => self.ask_profile(kernel, params, workloads, counters)?,
        };
        let record = self.keep_profile(kernel, params, trial, profiled)?;
        if counters && of_this_run.is_empty() {
            tell_what_prompts_lack(&record.workloads);
        }
        Ok(record)
    }

    /// Returns the workload with the most work that a kernel serves: a profile takes a while, and says most
    /// where the device is full.
    pub fn largest_workload(&self, kernel: &Kernel) -> Result<String> {
        let lab = LabRecord::of(&self.loaded.lab)?;
        let work = |name: &String| lab.workload(name).map_or(0.0, |workload| workload.flops);
        let served = self.served(kernel)?;
        let largest = served.into_iter().max_by(|one, other| work(one).total_cmp(&work(other)));
        largest.with_context(|| {
            format!(
                "kernel `{}` serves none of the lab's workloads (see its `requires`)",
                kernel.name
            )
        })
    }

    fn ask_profile(
        &mut self,
        kernel: &Kernel,
        params: &Params,
        workloads: Vec<String>,
        counters: bool,
    ) -> Result<Profiled> {
        let request = ProfileRequest {
            lab: self.lab_ref(self.settings.seed),
            kernel: kernel_text(kernel),
            params: params.clone(),
            workloads,
            counters,
        };
        match self.ask(&Ask::Profile(Box::new(request)))? {
            Answer::Profiled(profiled) => Ok(*profiled),
            other => bail!("the worker answered a question for a profile with {other:?}"),
        }
    }

    fn keep_profile(
        &mut self,
        kernel: &Kernel,
        params: &Params,
        trial: &Trial,
        profiled: Profiled,
    ) -> Result<ProfileRecord> {
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

/// Says why prompts have no counters, and what to do.
fn tell_what_prompts_lack(workloads: &[WorkloadProfile]) {
    for workload in workloads {
        if let CounterSource::Missing { reason, how } = &workload.counters {
            say(format!(
                "  {:<9} none ({reason}); prompts have the compiler's report\n  {:<9} {how}",
                "counters", "hint"
            ));
        }
    }
}
