//! Taking up a run that did not finish.

use std::collections::HashMap;

use anyhow::{Context, Result, bail};
use warpsmith_evidence::Store;
use warpsmith_model::{Goal, RunId, RunRecord, RunSettings, RunStatus};

use super::{Campaign, ask_environment, open_store};
use crate::damage::all_intact;
use crate::interrupt::Interrupt;
use crate::labdir;
use crate::pool::Pool;
use crate::project::Project;
use crate::worker_client::Worker;

/// The name that stands for the newest run.
const LATEST: &str = "latest";

impl Campaign {
    /// Takes up a run that did not finish. Nothing is written before it is clear that it can go on.
    pub fn resume(project: &Project, name: &str, interrupt: Interrupt) -> Result<Self> {
        let store = open_store(project)?;
        let (record, settings) = choose(&store, name)?;
        let loaded = labdir::load(&settings.lab_dir)?;
        if loaded.lab.id != record.lab.id {
            bail!(
                "the lab in {} was edited since {} began, so their trials cannot be mixed\nhint: \
                 undo the edit, or start a new run with `warpsmith {} {}` (unchanged candidates \
                 are found in the evidence)",
                loaded.dir.display(),
                record.id,
                settings.goal.name(),
                settings.lab_dir.display(),
            );
        }
        let mut worker = Worker::new(project, loaded.lab.target);
        let environment = ask_environment(&mut worker)?;
        let environment_id = environment.id();
        if environment_id != record.environment {
            bail!(
                "{} ran in another environment (another machine, compiler or protection), so its \
                 times cannot be continued here\nhint: start a new run",
                record.id
            );
        }
        let mut pool = Pool::new(project, &environment, worker);
        let stored_trials = store.trials(&record.id)?;
        for stored in &stored_trials {
            if let Some(kernel) = loaded.lab.kernel(&stored.trial.job.candidate.kernel) {
                pool.remember(&loaded.lab, kernel, &stored.trial);
            }
        }
        // Another one may have taken it up since it was chosen.
        if !store.take_up(&record.id)? {
            bail!("{}", goes_on(&record.id));
        }
        let mut campaign = Self {
            project: project.clone(),
            loaded,
            settings,
            run: record.id,
            store,
            environment,
            environment_id,
            pool,
            interrupt,
            trials: HashMap::new(),
            ended: HashMap::new(),
            pace: None,
        };
        stored_trials.into_iter().for_each(|stored| campaign.note(stored.trial));
        Ok(campaign)
    }
}

/// Finds the run to take up: the one that was named, or the newest that can be resumed.
fn choose(store: &Store, name: &str) -> Result<(RunRecord, RunSettings)> {
    if name != LATEST {
        let record = store.run(name)?;
        return match resumable(&record)? {
            Ok(settings) => Ok((record, settings)),
            Err(refusal) => bail!("{refusal}"),
        };
    }
    for run in all_intact(store.runs_or_damage()?)? {
        // Settings that cannot be read are those of another version, which can resume its own runs.
        if let Ok(Ok(settings)) = resumable(&run.record) {
            return Ok((run.record, settings));
        }
    }
    let record = store.run(name)?;
    match resumable(&record)? {
        Ok(settings) => Ok((record, settings)),
        Err(refusal) => bail!("there is no run to resume: {refusal}"),
    }
}

fn goes_on(run: &RunId) -> String {
    format!(
        "{run} still goes on in another process, and two would do the same things twice\nhint: wait for it, or \
         stop it; `warpsmith runs` tells when it has ended"
    )
}

/// Returns the settings of a run that can be resumed, or says why it cannot.
fn resumable(record: &RunRecord) -> Result<Result<RunSettings, String>> {
    let settings: RunSettings = serde_json::from_value(serde_json::to_value(&record.settings)?)
        .with_context(|| format!("the settings of {} cannot be read", record.id))?;
    let (run, goal) = (&record.id, settings.goal.name());
    if record.status == RunStatus::Running {
        return Ok(Err(goes_on(run)));
    }
    if settings.goal == Goal::Mcp {
        return Ok(Err(format!(
            "{run} is the session of a coding agent, which only the agent could go on with\nhint: \
             `warpsmith show {run}` shows what came of it; `warpsmith runs` lists every run"
        )));
    }
    if !settings.goal.can_resume() {
        return Ok(Err(format!(
            "{run} is a `{goal}` run, which is quicker to start again than to resume\nhint: \
             `warpsmith {goal} {}`; `warpsmith runs` lists every run",
            settings.lab_dir.display()
        )));
    }
    if matches!(record.status, RunStatus::Finished { .. }) {
        return Ok(Err(format!(
            "{run} has finished, so there is nothing left of it to do\nhint: `warpsmith show {run}` \
             shows it; `warpsmith {goal} {}` starts another",
            settings.lab_dir.display()
        )));
    }
    Ok(Ok(settings))
}
