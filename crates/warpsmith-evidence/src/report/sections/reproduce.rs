//! The command that does a run again, from its recorded settings.

use warpsmith_model::{ContenderKind, Goal, InsightFrom, Objective, Params, RunSettings, SeedFrom};

use super::super::data::View;
use super::super::html::{Html, html};

pub(super) fn body(view: &View<'_>) -> Html {
    let settings: Result<RunSettings, _> =
        serde_json::to_value(&view.data.run.settings).and_then(serde_json::from_value);
    let command = match settings {
        Ok(settings) if settings.goal == Goal::Mcp => html!(
            "<p>A coding agent asked for these candidates one by one. <code>warpsmith compare LAB trial:TRIAL</code> measures one of them again, from the source that the evidence keeps.</p>\n"
        ),
        Ok(settings) => {
            html!("<pre class='command'><code>{}</code></pre>\n", command(view, &settings))
        }
        // An older or a foreign run: the settings are shown, but nothing is made up from them.
        Err(_) => html!("<p>The run’s settings do not say which command it was.</p>\n"),
    };
    html!(
        "<h3>How to do it again</h3>\n{}<p class='small'>On the same machine, with the lab at state <code>{}</code>. All settings, given or default, are listed under <a href='#environment'>Environment</a>.</p>\n",
        command,
        view.lab.id.short()
    )
}

fn command(view: &View<'_>, settings: &RunSettings) -> String {
    let mut words = vec![
        "warpsmith".to_string(),
        settings.goal.name().to_string(),
        settings.lab_dir.display().to_string(),
    ];
    if settings.goal == Goal::Compare {
        words.extend(contenders(view));
        words.extend(compared_workloads(view));
    }
    let mut flag = |name: &str, value: String| words.extend([name.to_string(), value]);
    if let Some(kernel) = &settings.kernel {
        flag("--kernel", kernel.clone());
    }
    match settings.goal {
        Goal::Run | Goal::Tune | Goal::Evidence => {
            flag("--strategy", settings.strategy.clone());
            flag("--budget", settings.budget_trials.to_string());
            flag("--time", settings.budget_s.to_string());
            flag("--seed", settings.seed.to_string());
            flag("--seed-from", seed_source(&settings.seed_from));
            flag("--top-k", settings.top_k.to_string());
            flag("--micro-limit", settings.micro_limit.to_string());
            if settings.objective != Objective::Time {
                flag("--objective", settings.objective.name().to_string());
            }
            for until in &settings.until {
                flag("--until", until.to_string());
            }
        }
        Goal::Micro => {
            flag("--limit", settings.micro_limit.to_string());
            flag("--seed", settings.seed.to_string());
        }
        Goal::Evolve => {
            flag("--trials", settings.budget_trials.to_string());
            flag("--time", settings.budget_s.to_string());
            flag("--seed", settings.seed.to_string());
            if let Some(evolve) = &settings.evolve {
                flag("--mode", evolve.mode.name().to_string());
                flag("--models", evolve.models_file.display().to_string());
                flag("--tune", evolve.tune_trials.to_string());
                evolve.tokens.iter().for_each(|most| flag("--tokens", most.to_string()));
                evolve.money.iter().for_each(|most| flag("--money", most.to_string()));
                settings
                    .launch_deadline_s
                    .iter()
                    .for_each(|most| flag("--deadline", most.to_string()));
                if !evolve.feedback {
                    words.push("--no-feedback".to_string());
                }
                if evolve.insight_from == InsightFrom::Code {
                    words.push("--no-counters".to_string());
                }
            }
        }
        Goal::Check | Goal::Compare | Goal::Profile | Goal::Mcp => {}
    }
    if matches!(settings.goal, Goal::Run | Goal::Tune | Goal::Check | Goal::Evidence | Goal::Evolve)
    {
        for workload in &settings.workloads {
            words.extend(["--workload".to_string(), workload.clone()]);
        }
        if !settings.sanitize {
            words.push("--no-sanitizer".to_string());
        }
    }
    if matches!(settings.goal, Goal::Run | Goal::Tune | Goal::Micro | Goal::Evidence) {
        words.push("--fresh".to_string());
    }
    words.iter().map(|word| shell_quoted(word)).collect::<Vec<_>>().join(" ")
}

fn seed_source(seed_from: &SeedFrom) -> String {
    match seed_from {
        SeedFrom::Micro => "micro".to_string(),
        SeedFrom::None => "none".to_string(),
        SeedFrom::Store => "store".to_string(),
        SeedFrom::Run(source) => source.clone(),
    }
}

/// Names the contenders of the headline's comparison as `warpsmith compare` reads them.
fn contenders(view: &View<'_>) -> Vec<String> {
    let Some(comparison) = &view.comparison else { return Vec::new() };
    let name = |kernel: &String, params: &Params| {
        let values: Vec<String> =
            params.0.iter().map(|(name, value)| format!("{name}={value}")).collect();
        if values.is_empty() { kernel.clone() } else { format!("{kernel}:{}", values.join(",")) }
    };
    let kinds = comparison.record.contenders.iter().map(|contender| &contender.kind);
    kinds
        .map(|kind| match kind {
            ContenderKind::Kernel { kernel, params, .. } => name(kernel, params),
            ContenderKind::Baseline { name } => name.clone(),
        })
        .collect()
}

/// Names the workloads of the headline's comparison, unless they are all of the lab's.
fn compared_workloads(view: &View<'_>) -> Vec<String> {
    let Some(comparison) = &view.comparison else { return Vec::new() };
    let compared: Vec<&str> =
        comparison.record.workloads.iter().map(|rounds| rounds.workload.as_str()).collect();
    let is_all = view
        .lab
        .workloads
        .iter()
        .map(|workload| workload.name.as_str())
        .eq(compared.iter().copied());
    if is_all {
        return Vec::new();
    }
    compared.iter().flat_map(|name| ["--workload".to_string(), (*name).to_string()]).collect()
}

fn shell_quoted(word: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "_-./=+:@%,".contains(c);
    if !word.is_empty() && word.chars().all(is_plain) {
        return word.to_string();
    }
    format!("'{}'", word.replace('\'', "'\\''"))
}

#[cfg(test)]
mod tests {
    use super::shell_quoted;

    #[test]
    fn commands_can_be_pasted() {
        let check = |word: &str, expected: &str| assert_eq!(shell_quoted(word), expected);
        check("labs/attention", "labs/attention");
        check("my labs", "'my labs'");
        check("it's; rm", "'it'\\''s; rm'");
        check("", "''");
    }
}
