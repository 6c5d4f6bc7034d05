//! `warpsmith replay`: repeat an evolution without a model.

use anyhow::Result;
use clap::Args;
use serde_json::json;
use warpsmith_evidence::Store;
use warpsmith_model::{Goal, RunSettings, Verdict, units};

use super::{CliFailure, Context, plain_settings, with_campaign};
use crate::campaign::evolve::{Again, Replayed, replay};
use crate::output::{self, BAD, GOOD, Table, paint, result};

/// Repeat an evolution from its stored replies, without a model
///
/// Makes every decision again and holds it against the stored one: operator, parents, model, prompt,
/// verdict and best. A difference is an error. Each candidate is evaluated once more on the device
/// and what came out otherwise is listed; exits with 1 when a verdict differs.
#[derive(Debug, Args)]
pub struct ReplayArgs {
    /// Run, by name or unique beginning; `latest` is the newest
    #[arg(default_value = "latest")]
    run: String,
    /// Take findings from the evidence instead of a device
    #[arg(long)]
    fake_device: bool,
}

pub fn run(context: &Context, arguments: ReplayArgs) -> Result<()> {
    let store = Store::open_read_only(&context.project.database())?;
    let record = store.run(&arguments.run)?;
    let replayed = if arguments.fake_device {
        replay(&store, &record.id, None)?
    } else {
        let stored: RunSettings = serde_json::from_value(serde_json::to_value(&record.settings)?)?;
        let settings = RunSettings {
            workloads: stored.workloads.clone(),
            seed: stored.seed,
            launch_deadline_s: stored.launch_deadline_s,
            ..plain_settings(Goal::Check, &stored.lab_dir)?
        };
        with_campaign(context, &stored.lab_dir, settings, |campaign| {
            campaign.prove()?;
            replay(&store, &record.id, Some(campaign))
        })?
    };
    let differ = replayed.again.iter().filter(|it| it.then.0 != it.now.0).count();
    if context.json {
        let again: Vec<_> = replayed.again.iter().map(again_json).collect();
        output::json(&json!({
            "run": record.id,
            "decisions": replayed.decisions,
            "best": replayed.best.as_ref().map(
                |best| json!({ "kernel": best.kernel.name, "params": best.params })
            ),
            "tally": replayed.tally.to_json(),
            "again": again,
        }))?;
    } else {
        show(&record.id.0, &replayed);
    }
    if differ > 0 {
        let words = format!("{differ} candidate(s) got another verdict than before");
        return Err(CliFailure::Candidate(words).into());
    }
    Ok(())
}

fn again_json(again: &Again) -> serde_json::Value {
    json!({
        "kernel": again.kernel,
        "params": again.params,
        "verdict_then": again.then.0,
        "time_then_s": again.then.1,
        "verdict_now": again.now.0,
        "time_now_s": again.now.1,
    })
}

fn show(run: &str, replayed: &Replayed) {
    result(format!(
        "{run}: {} calls repeated, every decision the same (decisions {})",
        replayed.tally.calls,
        replayed.decisions.short()
    ));
    result(format!("  {}", replayed.tally.words()));
    if let Some(best) = &replayed.best {
        result(format!("  best {}", best.label()));
    }
    if replayed.again.is_empty() {
        return;
    }
    let mut table = Table::new(&["kernel", "verdict then", "now", "time then", "now"], &[3, 4]);
    for again in &replayed.again {
        let style = if again.then.0 == again.now.0 { GOOD } else { BAD };
        let verdict = |verdict: Verdict| verdict.name().to_string();
        let time = |time_s: Option<f64>| time_s.map_or("-".to_string(), units::time);
        table.row(vec![
            again.kernel.clone(),
            verdict(again.then.0),
            paint(style, verdict(again.now.0)),
            time(again.then.1),
            time(again.now.1),
        ]);
    }
    result(table.render());
}
