//! Numbers in Markdown are generated, never typed.
//!
//! `cargo xtask bench` measures and writes `docs/results/*.json`; `cargo xtask tables` renders
//! those files between `<!-- generated:NAME -->` and `<!-- /generated:NAME -->` markers; a tidy
//! rule checks that what stands there is what the files say.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};
use serde_json::{Value, json};

use crate::tidy::root;
use crate::times_table::times_table;
use crate::{headline, profile_table, search_tables};

/// The labs with tables.
const LABS: [&str; 4] = ["attention", "gemm", "rmsnorm", "saxpy"];

/// Measures every lab and renders the tables.
pub fn bench() -> Result<()> {
    let root = root();
    let results = root.join("docs/results");
    fs::create_dir_all(&results)?;
    let build = ["build", "--release", "--package", "warpsmith"];
    let status = Command::new("cargo").args(build).current_dir(&root).status()?;
    if !status.success() {
        bail!("the build failed");
    }
    for lab in LABS {
        let dir = format!("labs/{lab}");
        // Longer than the defaults, which are made for a first look.
        let run = ["run", &dir, "--fresh", "--json", "--budget", "48", "--time", "90"];
        let summary = warpsmith(&root, &[&run[..], &["--compare-time", "12"]].concat())?;
        fs::write(results.join(format!("{lab}.json")), pretty(&summary)?)?;
        let mut ladder = vec!["compare".to_string(), dir, "--json".to_string()];
        ladder.extend(rungs(&root, lab)?);
        let arguments: Vec<&str> = ladder.iter().map(String::as_str).collect();
        let mut ladder = warpsmith(&root, &arguments)?;
        // The raw rounds stay in the evidence; the table needs the ratios alone.
        if let Some(object) = ladder.as_object_mut() {
            object.remove("record");
        }
        fs::write(results.join(format!("{lab}-ladder.json")), pretty(&ladder)?)?;
    }
    write_tables()
}

/// Takes over the results that a GPU machine wrote (`tests/gpu/measure.sh`) and renders the tables.
pub fn adopt(folder: &Path) -> Result<()> {
    let results = root().join("docs/results");
    let mut names = Vec::new();
    for entry in
        fs::read_dir(folder).with_context(|| format!("cannot read {}", folder.display()))?
    {
        let path = entry?.path();
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        if !name.ends_with("-cuda.json") {
            continue;
        }
        let text = fs::read_to_string(&path)?;
        let mut value: Value = serde_json::from_str(&text)
            .with_context(|| format!("{} is not JSON", path.display()))?;
        if let Some(object) = value.as_object_mut()
            && let Some(record) = object.remove("record")
        {
            // Ratios are computed from these.
            object.remove("speedups");
            object.insert("rounds".to_string(), rounds(&record));
        }
        fs::write(results.join(&name), pretty(&value)?)?;
        names.push(name);
    }
    if let Some(stability) = stability(folder)? {
        let name = "stability-cuda.json".to_string();
        fs::write(results.join(&name), pretty(&stability)?)?;
        names.push(name);
    }
    if let Some(profiles) = profile_table::collect(folder)? {
        let name = "attention-profile.json".to_string();
        fs::write(results.join(&name), pretty(&profiles)?)?;
        names.push(name);
    }
    if names.is_empty() {
        bail!("{} holds no *-cuda.json", folder.display());
    }
    println!("adopted {}", names.join(", "));
    write_tables()
}

/// What tables compute ratios and their intervals from: every round of everyone.
fn rounds(record: &Value) -> Value {
    let list = |of: &Value| of.as_array().cloned().unwrap_or_default();
    let labels: Vec<Value> =
        list(&record["contenders"]).iter().map(|contender| contender["label"].clone()).collect();
    let workloads: Vec<Value> = list(&record["workloads"])
        .iter()
        .map(|on| json!({ "workload": on["workload"], "samples_s": on["samples_s"] }))
        .collect();
    json!({ "contenders": labels, "workloads": workloads })
}

/// Puts the repeated comparison of a kernel with itself and the pace of a campaign into one result; none
/// where a folder has neither.
fn stability(folder: &Path) -> Result<Option<Value>> {
    let read = |name: &str| -> Result<Option<Value>> {
        let path = folder.join(name);
        if !path.exists() {
            return Ok(None);
        }
        let text =
            fs::read_to_string(&path).with_context(|| format!("cannot read {}", path.display()))?;
        let value = serde_json::from_str(&text);
        value.map(Some).with_context(|| format!("{name} is not JSON"))
    };
    let mut runs = Vec::new();
    let mut device = Value::Null;
    while let Some(run) = read(&format!("repeat-{}.json", runs.len() + 1))? {
        let times = &run["times"][0];
        device = run["device"].clone();
        runs.push(json!({
            "workload": times["workload"],
            "contender": times["times"][0]["label"],
            "median_s": times["times"][0]["median_s"],
            "again_s": times["times"][1]["median_s"],
            "verdict": run["speedups"][0]["verdict"],
        }));
    }
    // Of the labs whose clock was examined in the same folder.
    let mut examined = Vec::new();
    for lab in ["saxpy", "rmsnorm", "gemm", "attention"] {
        let found = read(&format!("clock-{lab}.json"))?.map(|doctor| doctor["clock"].clone());
        examined.extend(found.and_then(|clock| clock.as_array().cloned()).unwrap_or_default());
    }
    let campaign = read("campaign.json")?.map(|campaign| campaign["pace"].clone());
    match (runs.is_empty(), campaign.is_none()) {
        (true, true) => return Ok(None),
        (false, false) => {}
        _ => bail!(
            "{} holds only one of repeat-*.json and campaign.json, which make one table\nhint: run both \
             steps of tests/gpu/measure.sh",
            folder.display()
        ),
    }
    Ok(Some(json!({ "device": device, "runs": runs, "examined": examined, "campaign": campaign })))
}

/// A row per repetition, and how a campaign spent its time.
fn stability_table(result: &Value) -> Result<String> {
    let runs = result["runs"].as_array().context("the result has no runs")?;
    let first = runs.first().context("the result has no runs")?;
    let mut lines = vec![
        format!(
            "{}; `{}` against itself on `{}`, each run in processes of its own",
            text(&result["device"]),
            text(&first["contender"]),
            text(&first["workload"])
        ),
        String::new(),
        "| run | median | its own again | verdict |".to_string(),
        "|--:|--:|--:|---|".to_string(),
    ];
    let (mut least_s, mut most_s) = (f64::INFINITY, 0.0f64);
    for (idx, run) in runs.iter().enumerate() {
        let (median_s, again_s) = (number(&run["median_s"])?, number(&run["again_s"])?);
        (least_s, most_s) = (least_s.min(median_s), most_s.max(median_s));
        lines.push(format!(
            "| {} | {:.2} µs | {:.2} µs | {} |",
            idx + 1,
            median_s * 1e6,
            again_s * 1e6,
            text(&run["verdict"])
        ));
    }
    lines.push(String::new());
    lines.push(format!(
        "Between the fastest and the slowest: {:.2} %.",
        100.0 * (most_s / least_s - 1.0)
    ));
    for one in result["examined"].as_array().into_iter().flatten() {
        lines.push(format!(
            "In every place of forty comparisons (`doctor --clock labs/{}`), `{}`: of {} verdicts {} tie, {} \
             unclear, {} faster, {} slower.",
            text(&one["lab"]),
            text(&one["kernel"]),
            one["verdicts"],
            one["tie"],
            one["unclear"],
            one["faster"],
            one["slower"],
        ));
    }
    let pace = &result["campaign"];
    let (trials, seconds) = (number(&pace["trials"])?, number(&pace["seconds"])?);
    lines.push(format!(
        "A campaign of {trials:.0} candidates: {:.1} a second; {:.0} % of the time measuring and {:.0} % \
         waiting for compilers.",
        trials / seconds,
        100.0 * number(&pace["measuring_s"])? / seconds,
        100.0 * number(&pace["compiling_s"])? / seconds,
    ));
    Ok(lines.join("\n"))
}

/// Renders the stored results into the Markdown files.
pub fn write_tables() -> Result<()> {
    for (path, text) in rendered()? {
        fs::write(&path, text).with_context(|| format!("cannot write {}", path.display()))?;
    }
    Ok(())
}

/// Names the Markdown files whose tables are not what the stored results say.
pub fn stale() -> Result<Vec<String>> {
    let mut findings = Vec::new();
    for (path, text) in rendered()? {
        if fs::read_to_string(&path)? != text {
            findings.push(format!("{}: run `cargo xtask tables`", path.display()));
        }
    }
    Ok(findings)
}

/// Sizes of workloads that have tables of their own.
const SIZES: [&str; 4] = ["small", "large", "large-d64", "large-d128"];

/// Makes a table of a stored result.
type Renderer = fn(&Value) -> Result<String>;

/// Pages that any result of a lab may stand on: `results-NAME` is a summary or a table of times, `profile-LAB`
/// the counters of its kernels.
const PAGES: [&str; 2] = ["docs/results.md", "docs/attention-log.md"];

fn rendered() -> Result<Vec<(PathBuf, String)>> {
    let root = root();
    let readme = root.join("README.md");
    let text = fs::read_to_string(&readme).context("there is no README.md")?;
    let text = replace(&text, "headline", &headline::headline(&root)?)?;
    let mut files = vec![(readme, text)];
    for page in PAGES {
        let page = root.join(page);
        let text =
            fs::read_to_string(&page).with_context(|| format!("cannot read {}", page.display()))?;
        files.push((page, results_of_labs(&root, text)?));
    }
    for lab in LABS {
        let readme = root.join("labs").join(lab).join("cuda/README.md");
        let Ok(mut text) = fs::read_to_string(&readme) else { continue };
        if let Some(times) = stored(&root, &format!("{lab}-cuda"))? {
            text = replace(&text, "times", &times_table(&times)?)?;
        }
        if lab == "attention" {
            text = replace(&text, "shapes", &headline::pairs(&root)?)?;
        }
        files.push((readme, text));
    }
    for lab in LABS {
        let Some(ladder) = stored(&root, &format!("{lab}-ladder"))? else { continue };
        let readme = root.join("labs").join(lab).join("README.md");
        let text = fs::read_to_string(&readme)?;
        files.push((readme, replace(&text, "ladder", &ladder_table(&ladder)?)?));
    }
    if let Some(stability) = stored(&root, "stability-cuda")? {
        let page = root.join("docs/cuda.md");
        let text = fs::read_to_string(&page)?;
        files.push((page, replace(&text, "stability", &stability_table(&stability)?)?));
    }
    let page = root.join("docs/search.md");
    let mut text = fs::read_to_string(&page)?;
    let tables: [(&str, Renderer); 5] = [
        ("search", search_table),
        ("search-endings", search_tables::endings),
        ("search-spaces", search_tables::spaces),
        ("search-simulate", search_tables::tuners),
        ("search-kernel", search_tables::kernel),
    ];
    for (name, table) in tables {
        if let Some(result) = stored(&root, name)? {
            text = replace(&text, name, &table(&result)?)?;
        }
    }
    files.push((page, text));
    Ok(files)
}

/// Renders all results of the labs that a page has markers for.
fn results_of_labs(root: &Path, mut text: String) -> Result<String> {
    for lab in LABS {
        if let Some(summary) = stored(root, lab)? {
            text = replace(&text, &format!("results-{lab}"), &summary_table(&summary)?)?;
        }
        let sizes = SIZES.iter().map(|size| format!("{lab}-{size}-cuda"));
        for name in std::iter::once(format!("{lab}-cuda")).chain(sizes) {
            if let Some(times) = stored(root, &name)? {
                text = replace(&text, &format!("results-{name}"), &times_table(&times)?)?;
            }
        }
        if let Some(profiles) = stored(root, &format!("{lab}-profile"))? {
            text = replace(&text, &format!("profile-{lab}"), &profile_table::table(&profiles)?)?;
        }
    }
    Ok(text)
}

/// A row per space and strategy, a column per budget, and the means over the spaces.
fn search_table(search: &Value) -> Result<String> {
    let rows = search["rows"].as_array().context("the result has no rows")?;
    let distinct = |field: &str| {
        let mut values: Vec<&Value> = Vec::new();
        for row in rows {
            if !values.contains(&&row[field]) {
                values.push(&row[field]);
            }
        }
        values
    };
    let (caches, budgets) = (distinct("cache"), distinct("budget"));
    let mean = |cache: &Value, strategy: &Value, budget: &Value| {
        let is_asked = |row: &&Value| {
            row["cache"] == *cache && row["strategy"] == *strategy && row["budget"] == *budget
        };
        number(&rows.iter().find(is_asked).context("a row is missing")?["mean"])
    };
    let mut head = "| space | strategy |".to_string();
    head.extend(budgets.iter().map(|budget| format!(" {budget} |")));
    let mut lines = vec![head, format!("|---|---|{}", "--:|".repeat(budgets.len()))];
    for strategy in distinct("strategy") {
        let mut line = format!("| mean | {} |", text(strategy));
        for budget in &budgets {
            let all: Vec<f64> =
                caches.iter().map(|cache| mean(cache, strategy, budget)).collect::<Result<_>>()?;
            line += &format!(" {:.3} |", all.iter().sum::<f64>() / all.len() as f64);
        }
        lines.push(line);
    }
    for cache in &caches {
        for strategy in distinct("strategy") {
            let name = text(strategy);
            if !["auto", "random_exact"].contains(&name.as_str()) {
                continue;
            }
            let mut line = format!("| {} | {name} |", text(cache));
            for budget in &budgets {
                line += &format!(" {:.3} |", mean(cache, strategy, budget)?);
            }
            lines.push(line);
        }
    }
    Ok(lines.join("\n"))
}

/// A row per workload: rate, share of the peak, speed-up over each contender.
fn summary_table(summary: &Value) -> Result<String> {
    let speedups = summary["speedups"].as_array().context("the result has no speed-ups")?;
    let mut lines = vec![format!(
        "`{}` with {}",
        text(&summary["winner"]["kernel"]),
        params(&summary["winner"]["params"])
    )];
    lines.push(String::new());
    let mut head = "| workload | time | rate | of peak |".to_string();
    let mut rule = "|---|--:|--:|--:|".to_string();
    for speedup in speedups {
        head += &format!(" vs {} |", text(&speedup["over"]));
        rule += "--:|";
    }
    lines.extend([head, rule]);
    for workload in summary["workloads"].as_array().context("the result has no workloads")? {
        let name = text(&workload["workload"]);
        let mut line = format!(
            "| {name} | {} | {:.1} GFLOP/s | {:.0} % |",
            time(number(&workload["time_s"])?),
            number(&workload["flops_per_s"])? / 1e9,
            100.0 * number(&workload["share_of_peak"])?,
        );
        for speedup in speedups {
            let cells = speedup["workloads"].as_array().context("no workloads")?;
            let cell = cells.iter().find(|cell| text(&cell["workload"]) == name);
            line += &format!(" {} |", cell.map_or_else(String::new, ratio));
        }
        lines.push(line);
    }
    let mut line = "| geometric mean | | | |".to_string();
    for speedup in speedups {
        line += &format!(" {} |", overall(speedup));
    }
    lines.push(line);
    Ok(lines.join("\n"))
}

/// A row per rung: how much slower than the last one.
fn ladder_table(ladder: &Value) -> Result<String> {
    let speedups = ladder["speedups"].as_array().context("the result has no speed-ups")?;
    let first = speedups.first().context("the ladder has one rung only")?;
    let mut lines = vec![
        format!("| rung | time over `{}`'s, geometric mean of the workloads |", text(&first["of"])),
        "|---|--:|".to_string(),
    ];
    let mut rows: Vec<String> = speedups
        .iter()
        .map(|speedup| format!("| `{}` | {} |", text(&speedup["over"]), overall(speedup)))
        .collect();
    rows.reverse();
    lines.extend(rows);
    lines.push(format!("| `{}` | 1 |", text(&first["of"])));
    Ok(lines.join("\n"))
}

pub fn ratio(cell: &Value) -> String {
    interval(&cell["speedup"], &cell["verdict"])
}

fn overall(speedup: &Value) -> String {
    interval(&speedup["overall"], &speedup["verdict"])
}

fn interval(value: &Value, verdict: &Value) -> String {
    match (value["mid"].as_f64(), value["low"].as_f64(), value["high"].as_f64()) {
        (Some(mid), Some(low), Some(high)) => {
            let word = text(verdict);
            let word = if word == "faster" { String::new() } else { format!(" ({word})") };
            format!("{mid:.2}× [{low:.2}, {high:.2}]{word}")
        }
        _ => "–".to_string(),
    }
}

fn replace(text: &str, name: &str, table: &str) -> Result<String> {
    let (open, close) =
        (format!("<!-- generated:{name} -->"), format!("<!-- /generated:{name} -->"));
    let Some((before, rest)) = text.split_once(&open) else { return Ok(text.to_string()) };
    let (_, after) = rest.split_once(&close).with_context(|| format!("{close} is missing"))?;
    Ok(format!("{before}{open}\n\n{table}\n\n{close}{after}"))
}

pub fn stored(root: &Path, name: &str) -> Result<Option<Value>> {
    let path = root.join("docs/results").join(format!("{name}.json"));
    if !path.is_file() {
        return Ok(None);
    }
    Ok(Some(serde_json::from_str(&fs::read_to_string(&path)?)?))
}

/// The rungs of a lab, the last first.
fn rungs(root: &Path, lab: &str) -> Result<Vec<String>> {
    let mut names = Vec::new();
    for entry in fs::read_dir(root.join("labs").join(lab).join("kernels"))? {
        let path = entry?.path();
        if path.extension().is_some_and(|ending| ending == "toml") {
            names.push(path.file_stem().unwrap_or_default().to_string_lossy().into_owned());
        }
    }
    names.sort();
    names.reverse();
    Ok(names)
}

fn warpsmith(root: &Path, arguments: &[&str]) -> Result<Value> {
    println!("bench: warpsmith {}", arguments.join(" "));
    let output = Command::new(root.join("target/release/warpsmith"))
        .args(arguments)
        .current_dir(root)
        .stderr(std::process::Stdio::inherit())
        .output()
        .context("cannot run warpsmith")?;
    if !output.status.success() {
        bail!("warpsmith {} failed ({})", arguments.join(" "), output.status);
    }
    Ok(serde_json::from_slice(&output.stdout)?)
}

fn pretty(value: &Value) -> Result<String> {
    // Absolute paths say nothing to a reader and differ from machine to machine.
    let mut value = value.clone();
    if let Some(object) = value.as_object_mut() {
        object.remove("report");
    }
    Ok(serde_json::to_string_pretty(&value)? + "\n")
}

fn params(value: &Value) -> String {
    let Some(object) = value.as_object().filter(|object| !object.is_empty()) else {
        return "no tunables".to_string();
    };
    let parts: Vec<String> =
        object.iter().map(|(name, value)| format!("`{name}={}`", text(value))).collect();
    parts.join(" ")
}

pub fn time(seconds: f64) -> String {
    if seconds >= 1.0 {
        format!("{seconds:.2} s")
    } else if seconds >= 1e-3 {
        format!("{:.2} ms", seconds * 1e3)
    } else {
        format!("{:.1} µs", seconds * 1e6)
    }
}

pub fn text(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_string)
}

pub fn number(value: &Value) -> Result<f64> {
    value.as_f64().with_context(|| format!("{value} is not a number"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_stands_between_the_markers_is_replaced() {
        let text = "a\n<!-- generated:x -->\nold\n<!-- /generated:x -->\nb";
        let new = replace(text, "x", "new").expect("both markers are there");
        assert_eq!(new, "a\n<!-- generated:x -->\n\nnew\n\n<!-- /generated:x -->\nb");
        assert!(replace("<!-- generated:x -->", "x", "new").is_err());
        assert_eq!(replace("no markers", "x", "new").expect("untouched"), "no markers");
    }
}
