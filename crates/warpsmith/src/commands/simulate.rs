//! `warpsmith simulate`: judge search strategies on recorded spaces, without a device.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

use anyhow::{Context as _, Result, bail};
use clap::Args;
use warpsmith_model::Until;
use warpsmith_model::rng::Rng;
use warpsmith_search::simulate::{
    Course, Methodology, QualitySummary, quality, random_exact, replay,
};
use warpsmith_search::{Recorded, Strategy};

use super::Context;
use super::curves::{self, Curve};
use super::replace::{Product, refuse_other};
use crate::output::{BAD, DIM, GOOD, Table, json, paint, result, say};
use crate::recorded_file;

/// Judge search strategies on recorded spaces
///
/// Replays Kernel Tuner caches and T4 results, plain or compressed with gzip. Every configuration
/// of such a file was measured, so a search can be repeated hundreds of times in seconds and on no
/// GPU. Printed is the optimum over the best time after each budget: 1 is the optimum. Failed
/// configurations count as evaluations. Times are medians of the samples where a file has them.
/// `random_exact` is what random search is expected to reach, in closed form.
#[derive(Debug, Args)]
pub struct SimulateArgs {
    /// Recorded spaces
    #[arg(long, value_name = "FILE", num_args = 1.., required = true)]
    cache: Vec<PathBuf>,
    /// Strategies to judge
    #[arg(long, value_name = "NAME", num_args = 1.., default_value = "auto")]
    strategy: Vec<String>,
    /// Evaluations after which to look
    #[arg(long, value_name = "N", num_args = 1.., default_values_t = [25, 50, 100, 200])]
    budget: Vec<usize>,
    /// Also say after how many evaluations a search ends under a condition, and how good it is then:
    /// stalled:TRIALS or expected:PERCENT, as for `tune`; one that does not end has the longest budget
    #[arg(long, value_name = "CONDITION", num_args = 1..)]
    until: Vec<String>,
    /// Searches of each space by each strategy
    #[arg(long, value_name = "N", default_value_t = 30)]
    repeats: usize,
    /// Seed of the first repeat; the others follow from it
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
    /// Score the whole course of each search: 0 is random search, 1 the optimum at once
    #[arg(long)]
    score: bool,
    /// Draw the mean quality over the evaluations into an SVG file; an earlier chart is replaced, any
    /// other file is not
    #[arg(long, value_name = "FILE")]
    plot: Option<PathBuf>,
}

/// How many characters a curve has in a terminal.
const CURVE_COLUMNS: usize = 48;

/// A recorded space and the name that rows call it by.
struct Cache {
    name: String,
    recorded: Recorded,
    methodology: Methodology,
}

/// The courses of all repeats of one strategy on one space.
struct Courses {
    cache: usize,
    strategy: Strategy,
    best_ms: Vec<Vec<f64>>,
    /// After how many evaluations each repeat ends, by condition.
    ends: Vec<Vec<usize>>,
}

pub fn run(context: &Context, arguments: SimulateArgs) -> Result<()> {
    if arguments.repeats == 0 || arguments.budget.contains(&0) {
        bail!("--repeats and --budget must be at least 1");
    }
    let strategies = arguments
        .strategy
        .iter()
        .map(|name| name.parse().map_err(anyhow::Error::msg))
        .collect::<Result<Vec<Strategy>>>()?;
    let conditions = conditions(&arguments.until)?;
    if let Some(path) = &arguments.plot {
        refuse_other(path, Product::Chart)?;
    }
    let caches = arguments.cache.iter().map(|path| load(path)).collect::<Result<Vec<Cache>>>()?;
    let courses = replay_all(&caches, &strategies, &conditions, &arguments)?;
    let curves = mean_curves(&caches, &courses, &strategies, &arguments);
    if let Some(path) = &arguments.plot {
        let title = format!("Mean of {} repeats on {} spaces", arguments.repeats, caches.len());
        std::fs::write(path, curves::svg(&curves, &title))
            .with_context(|| format!("cannot write {}", path.display()))?;
        say(format!("  wrote {}", path.display()));
    }
    if context.json {
        return json(&document(&caches, &courses, &conditions, &arguments));
    }
    tables(&caches, &courses, &arguments);
    if !conditions.is_empty() {
        endings_table(&caches, &courses, &conditions);
    }
    let low = curves::floor_of(&curves);
    let longest = curves.iter().map(|curve| curve.name.len()).max().unwrap_or(0);
    result("");
    for curve in &curves {
        let blocks = curves::sparkline(curve, low, CURVE_COLUMNS);
        result(format!("  {:<longest$}  {blocks}", curve.name));
    }
    say(format!(
        "  mean quality from {low:.2} (bottom) to 1 (top), from 1 to {} evaluations",
        curves.first().map_or(0, |curve| curve.quality.len())
    ));
    Ok(())
}

/// Reads the conditions; refuses those that a recorded space cannot decide.
fn conditions(texts: &[String]) -> Result<Vec<Until>> {
    let read = |text: &String| match text.parse() {
        Ok(until @ (Until::Stalled { .. } | Until::Expected { .. })) => Ok(until),
        Ok(until) => bail!(
            "--until {until}: a recorded space has neither a roofline nor baselines\n\
             hint: use stalled:TRIALS or expected:PERCENT"
        ),
        Err(error) => bail!("--until: {error}"),
    };
    texts.iter().map(read).collect()
}

fn longest_budget(arguments: &SimulateArgs) -> usize {
    arguments.budget.iter().copied().max().unwrap_or(1)
}

/// Returns the mean quality of every strategy after each evaluation, over spaces and repeats.
fn mean_curves(
    caches: &[Cache],
    courses: &[Courses],
    strategies: &[Strategy],
    arguments: &SimulateArgs,
) -> Vec<Curve> {
    let largest = caches.iter().map(|cache| cache.recorded.entries().len()).max().unwrap_or(1);
    let evaluations = longest_budget(arguments).min(largest);
    let mean = |values: Vec<f64>| values.iter().sum::<f64>() / values.len() as f64;
    let random = (1..=evaluations)
        .map(|k| mean(caches.iter().map(|cache| random_exact(&cache.recorded, k).mean).collect()));
    let random = Curve { name: "random_exact".to_string(), quality: random.collect() };
    let searched = strategies.iter().map(|strategy| {
        let own: Vec<&Courses> =
            courses.iter().filter(|courses| courses.strategy == *strategy).collect();
        let reached = |k: usize| {
            let reached = own.iter().flat_map(|courses| {
                let recorded = &caches[courses.cache].recorded;
                courses.best_ms.iter().map(move |course| quality(recorded, after(course, k)))
            });
            mean(reached.collect())
        };
        let quality = (1..=evaluations).map(reached).collect();
        Curve { name: strategy.name().to_string(), quality }
    });
    searched.chain(std::iter::once(random)).collect()
}

fn load(path: &Path) -> Result<Cache> {
    let bytes = recorded_file::read(path)?;
    let recorded =
        Recorded::read(&bytes).with_context(|| format!("cannot use {}", path.display()))?;
    let name = recorded_file::stem(path);
    let methodology = Methodology::of(&recorded);
    Ok(Cache { name, recorded, methodology })
}

/// Runs every repeat of every strategy on every space, on all processors.
fn replay_all(
    caches: &[Cache],
    strategies: &[Strategy],
    conditions: &[Until],
    arguments: &SimulateArgs,
) -> Result<Vec<Courses>> {
    let budget = longest_budget(arguments);
    let mut jobs = Vec::new();
    let mut seeds = Rng::derive(arguments.seed, "simulate");
    let seeds: Vec<u64> = (0..arguments.repeats).map(|_| seeds.next_u64()).collect();
    for (cache, Cache { methodology, .. }) in caches.iter().enumerate() {
        let scored = if arguments.score { methodology.evaluations() } else { 0 };
        for strategy in strategies {
            // Nothing is left to evaluate beyond the space, however large the budget.
            let evaluations = budget.max(scored).min(caches[cache].recorded.entries().len());
            jobs.extend(seeds.iter().map(|seed| (cache, *strategy, *seed, evaluations)));
        }
    }
    let done: Vec<Mutex<Option<Result<Course>>>> = jobs.iter().map(|_| Mutex::new(None)).collect();
    let next = AtomicUsize::new(0);
    let threads = std::thread::available_parallelism().map_or(1, usize::from).min(jobs.len());
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                while let Some(idx) = Some(next.fetch_add(1, Ordering::Relaxed))
                    && let Some((cache, strategy, seed, evaluations)) = jobs.get(idx)
                {
                    let course = replay(&caches[*cache].recorded, *strategy, *seed, *evaluations);
                    let slot = &mut *done[idx].lock().unwrap_or_else(PoisonError::into_inner);
                    *slot = Some(course.map_err(Into::into));
                }
            });
        }
    });
    let mut courses: Vec<Courses> = Vec::new();
    for ((cache, strategy, ..), course) in jobs.into_iter().zip(done) {
        let course = course.into_inner().unwrap_or_else(PoisonError::into_inner);
        let course = course.context("a replay ended without an answer")??;
        if !courses.last().is_some_and(|last| last.cache == cache && last.strategy == strategy) {
            let ends = vec![Vec::new(); conditions.len()];
            courses.push(Courses { cache, strategy, best_ms: Vec::new(), ends });
        }
        let last = courses.last_mut().expect("one was pushed if there was none");
        for (ends, until) in last.ends.iter_mut().zip(conditions) {
            let longest = budget.min(course.best_ms.len());
            ends.push(course.end(until).map_or(longest, |end| end.min(longest)));
        }
        last.best_ms.push(course.best_ms);
    }
    Ok(courses)
}

/// Returns the best time after so many evaluations; a space that is exhausted does not get better.
fn after(course: &[f64], evaluations: usize) -> f64 {
    course[evaluations.min(course.len()) - 1]
}

fn summary(caches: &[Cache], courses: &Courses, budget: usize) -> QualitySummary {
    let recorded = &caches[courses.cache].recorded;
    let qualities: Vec<f64> =
        courses.best_ms.iter().map(|course| quality(recorded, after(course, budget))).collect();
    QualitySummary::of(&qualities).expect("at least one repeat was asked for")
}

/// Returns how good searches are where a condition ends them, and the mean of their evaluations.
fn ending(caches: &[Cache], courses: &Courses, condition: usize) -> (QualitySummary, f64) {
    let recorded = &caches[courses.cache].recorded;
    let ends = &courses.ends[condition];
    let ended = courses.best_ms.iter().zip(ends);
    let qualities: Vec<f64> =
        ended.map(|(course, end)| quality(recorded, after(course, *end))).collect();
    let evaluations = ends.iter().sum::<usize>() as f64 / ends.len() as f64;
    (QualitySummary::of(&qualities).expect("at least one repeat was asked for"), evaluations)
}

fn document(
    caches: &[Cache],
    courses: &[Courses],
    conditions: &[Until],
    arguments: &SimulateArgs,
) -> serde_json::Value {
    let row = |cache: &str, strategy: &str, budget: usize, repeats: usize, s: QualitySummary| {
        serde_json::json!({
            "cache": cache, "strategy": strategy, "budget": budget, "repeats": repeats,
            "mean": s.mean, "sem": s.sem, "median": s.median, "p10": s.p10, "worst": s.worst,
        })
    };
    let mut rows = Vec::new();
    for courses in courses {
        for budget in &arguments.budget {
            let summary = summary(caches, courses, *budget);
            let name = &caches[courses.cache].name;
            rows.push(row(name, courses.strategy.name(), *budget, courses.best_ms.len(), summary));
        }
    }
    for cache in caches {
        for budget in &arguments.budget {
            // An expectation has no repeats.
            let exact = random_exact(&cache.recorded, *budget);
            rows.push(row(&cache.name, "random_exact", *budget, 0, exact));
        }
    }
    let mut document = serde_json::json!({ "rows": rows });
    if !conditions.is_empty() {
        let mut endings = Vec::new();
        for courses in courses {
            for (idx, until) in conditions.iter().enumerate() {
                let (s, evaluations) = ending(caches, courses, idx);
                endings.push(serde_json::json!({
                    "cache": caches[courses.cache].name, "strategy": courses.strategy.name(),
                    "until": until.to_string(), "repeats": courses.best_ms.len(),
                    "evaluations": evaluations, "mean": s.mean, "sem": s.sem,
                    "median": s.median, "p10": s.p10, "worst": s.worst,
                }));
            }
        }
        document["endings"] = endings.into();
    }
    if arguments.score {
        let scores: Vec<serde_json::Value> = courses
            .iter()
            .map(|it| {
                let cache = &caches[it.cache];
                serde_json::json!({
                    "cache": cache.name, "strategy": it.strategy.name(),
                    "score": cache.methodology.score(&it.best_ms),
                    "evaluations": cache.methodology.evaluations(),
                })
            })
            .collect();
        document["scores"] = scores.into();
    }
    document
}

fn tables(caches: &[Cache], courses: &[Courses], arguments: &SimulateArgs) {
    let budgets: Vec<String> = arguments.budget.iter().map(ToString::to_string).collect();
    let mut headings = vec!["space", "strategy"];
    headings.extend(budgets.iter().map(String::as_str));
    if arguments.score {
        headings.push("score");
    }
    let right: Vec<usize> = (2..headings.len()).collect();
    let mut table = Table::new(&headings, &right);
    let mut means: BTreeMap<&str, Vec<f64>> = BTreeMap::new();
    for (idx, cache) in caches.iter().enumerate() {
        let random: Vec<f64> =
            arguments.budget.iter().map(|b| random_exact(&cache.recorded, *b).mean).collect();
        let mut cells = vec![cache.name.clone(), paint(DIM, "random_exact")];
        cells.extend(random.iter().map(|mean| paint(DIM, format!("{mean:.4}"))));
        table.row(cells);
        add(means.entry("random_exact").or_default(), &random, caches.len());
        for courses in courses.iter().filter(|courses| courses.cache == idx) {
            let name = courses.strategy.name();
            let summaries: Vec<QualitySummary> =
                arguments.budget.iter().map(|budget| summary(caches, courses, *budget)).collect();
            let mut cells = vec![String::new(), name.to_string()];
            let mut all: Vec<f64> = summaries.iter().map(|summary| summary.mean).collect();
            cells.extend(summaries.iter().zip(&random).map(|(summary, random)| {
                let QualitySummary { mean, sem, .. } = summary;
                let style = if mean < random { BAD } else { GOOD };
                format!(
                    "{} {}",
                    paint(style, format!("{mean:.4}")),
                    paint(DIM, format!("±{sem:.4}"))
                )
            }));
            if arguments.score {
                let score = cache.methodology.score(&courses.best_ms);
                cells.push(format!("{score:.3}"));
                all.push(score);
            }
            table.row(cells);
            add(means.entry(name).or_default(), &all, caches.len());
        }
    }
    if caches.len() > 1 {
        for (idx, (name, means)) in means.iter().enumerate() {
            let mut cells =
                vec![if idx == 0 { "mean".to_string() } else { String::new() }, name.to_string()];
            cells.extend(means.iter().map(|mean| format!("{mean:.4}")));
            table.row(cells);
        }
    }
    result(table.render());
    say(format!(
        "  optimum over best after so many evaluations; mean of {} repeats ± standard error",
        arguments.repeats
    ));
}

/// A row per space, strategy and condition: how many evaluations it took, and what they came to.
fn endings_table(caches: &[Cache], courses: &[Courses], conditions: &[Until]) {
    let headings = ["space", "strategy", "until", "evaluations", "quality"];
    let mut table = Table::new(&headings, &[3, 4]);
    for courses in courses {
        for (idx, until) in conditions.iter().enumerate() {
            let (QualitySummary { mean, sem, .. }, evaluations) = ending(caches, courses, idx);
            table.row(vec![
                caches[courses.cache].name.clone(),
                courses.strategy.name().to_string(),
                until.to_string(),
                format!("{evaluations:.1}"),
                format!("{mean:.4} {}", paint(DIM, format!("±{sem:.4}"))),
            ]);
        }
    }
    result(table.render());
}

fn add(sums: &mut Vec<f64>, values: &[f64], count: usize) {
    sums.resize(sums.len().max(values.len()), 0.0);
    sums.iter_mut().zip(values).for_each(|(sum, value)| *sum += value / count as f64);
}
