//! The short answer: who won, by how much, how close to the machine's limits.

use std::path::PathBuf;

use anyhow::{Context as _, Result};
use serde_json::{Value as Json, json};
use warpsmith_evidence::derive::{Standing, sentence, standings};
use warpsmith_gate::bind;
use warpsmith_model::stats::{self, Comparison, Interval, median};
use warpsmith_model::{
    Absent, Ceilings, ChainRecord, ComparisonRecord, ContenderKind, DeviceInfo, Lab, Objective,
    PairedRounds, Trial, notes, roofline, units,
};

use crate::campaign::{Campaign, ConfiguredKernel, Pace, missing_words};
use crate::output::{BAD, BOLD, DIM, GOOD, Table, WARN, counted, fits, paint, say, wrapped};
use crate::winner_table::WinnerTable;

/// What a campaign found.
#[derive(Debug)]
pub struct Summary {
    run: String,
    lab: String,
    /// Who won.
    pub winner: ConfiguredKernel,
    /// Its verification.
    pub full: Trial,
    /// The winner and its times as the evidence has them, which everybody else reads too.
    recorded: WinnerTable,
    comparison: Option<ComparisonRecord>,
    ceilings: Ceilings,
    /// Which configuration to use on which workload, where that was asked.
    dispatch: Option<Json>,
    pace: Option<Pace>,
    report: Option<PathBuf>,
}

impl Summary {
    /// Gathers it.
    pub fn of(
        campaign: &Campaign,
        winner: &ConfiguredKernel,
        full: &Trial,
        comparison: Option<ComparisonRecord>,
        ceilings: Ceilings,
        report: Option<PathBuf>,
    ) -> Result<Self> {
        Ok(Self {
            run: campaign.run.to_string(),
            lab: campaign.loaded.lab.name.clone(),
            recorded: campaign.recorded_winner()?.with_context(|| {
                format!("{} has a winner that is not in its evidence", campaign.run)
            })?,
            winner: winner.clone(),
            full: full.clone(),
            comparison,
            ceilings,
            dispatch: match campaign.settings.objective {
                Objective::Dispatch => campaign.dispatch_table()?,
                Objective::Time | Objective::Geomean | Objective::Worst => None,
            },
            pace: campaign.pace,
            report,
        })
    }

    /// Adds what is to be known of the winner's times, if there is anything.
    pub fn doubt(&mut self, words: Option<String>) {
        words.into_iter().for_each(|words| self.recorded.doubt(words));
    }

    /// Renders for people.
    pub fn render(&self) -> String {
        let mut lines = vec![String::new(), self.recorded.render()];
        if let Some(table) = &self.dispatch {
            lines.push(String::new());
            lines.push(dispatch_lines(table));
        }
        if let Some(comparison) = &self.comparison {
            lines.push(String::new());
            lines.push(comparison_table_of(comparison, self.recorded.place(comparison)));
            for missing in &comparison.missing {
                lines.push(wrapped(&format!("  {}", paint(WARN, missing_words(missing)))));
            }
            lines.extend(clock_lines(comparison));
            lines.extend(note_lines(comparison, &self.run));
        }
        lines.push(String::new());
        if let Some(report) = &self.report {
            lines.push(format!("{} {}", paint(BOLD, "report"), report.display()));
        }
        lines.push(format!(
            "{} {}   (warpsmith show {}, warpsmith export {} --format csv)",
            paint(BOLD, "run"),
            self.run,
            self.run,
            self.run
        ));
        lines.join("\n")
    }

    /// Renders for programs.
    pub fn to_json(&self) -> Json {
        let candidate = &self.recorded.trial.job.candidate;
        let mut document = json!({
            "run": self.run,
            "lab": self.lab,
            "winner": {
                "kernel": candidate.kernel,
                "params": candidate.params,
                "candidate": candidate.id,
                "trial": self.recorded.trial.id,
                "time_s": self.recorded.mean_s(),
                "time_from": self.recorded.from(),
                "notes": self.recorded.notes(),
            },
            "workloads": self.recorded.to_json(),
            "speedups": self.comparison.as_ref().map(|it| speedups_json_of(it, self.recorded.place(it))),
            "notes": self.comparison.as_ref().map(|comparison| &comparison.notes),
            "missing_baselines": self.comparison.as_ref().map(|c| &c.missing),
            "ceilings": self.ceilings,
            "pace": self.pace,
            "report": self.report,
        });
        if let Some(table) = &self.dispatch {
            document["dispatch"] = table.clone();
        }
        document
    }
}

/// Renders the speed-up of the first contender over each other one, by workload and overall.
pub fn comparison_table(record: &ComparisonRecord) -> String {
    comparison_table_of(record, 0)
}

/// Renders the speed-up of one contender over each other one, by workload and overall.
pub fn comparison_table_of(record: &ComparisonRecord, contender: usize) -> String {
    let mut others = standings(record, contender);
    if others.is_empty() {
        return String::new();
    }
    let first = &others.remove(contender);
    if others.is_empty() {
        return times_table(record, first);
    }
    // Names that have no room above their columns stand in a list, in full.
    let named: Vec<String> = others.iter().map(|other| format!("vs {}", other.label)).collect();
    let numbered: Vec<String> = (1..=others.len()).map(|number| format!("vs ({number})")).collect();
    let mut table = speedup_rows(record, first, &others, &named);
    let is_wide = !fits(&table);
    if is_wide {
        table = speedup_rows(record, first, &others, &numbered);
    }
    let mut lines = vec![
        format!("  {}:", record.purpose.describe()),
        wrapped(&format!(
            "  how many times as fast as the others is {}? (95 % intervals from interleaved rounds)",
            first.label
        )),
    ];
    if is_wide {
        let numbered = others.iter().zip(&numbered);
        lines.extend(numbered.map(|(other, name)| format!("    {name}  {}", other.label)));
    }
    lines.push(table);
    lines.extend(
        others.iter().map(|other| wrapped(&format!("  {}", sentence(&first.label, other)))),
    );
    lines.join("\n")
}

/// Renders a row for each workload and one for all of them, with a column for each other contender.
fn speedup_rows(
    record: &ComparisonRecord,
    first: &Standing,
    others: &[Standing],
    names: &[String],
) -> String {
    let headings: Vec<&str> =
        std::iter::once("workload").chain(names.iter().map(String::as_str)).collect();
    let columns: Vec<usize> = (1..headings.len()).collect();
    let mut table = Table::new(&headings, &columns);
    for (idx, rounds) in record.workloads.iter().enumerate() {
        let mut cells = vec![rounds.workload.clone()];
        for other in others {
            let speedup = other.workloads[idx].speedup;
            let no_pair = || absence_cell(rounds, first, other);
            cells.push(speedup.map_or_else(no_pair, speedup_cell));
        }
        table.row(cells);
    }
    let mut overall = vec![paint(BOLD, "geometric mean")];
    for other in others {
        overall.push(other.speedup.map_or_else(|| paint(DIM, "-"), speedup_cell));
    }
    table.row(overall);
    table.render()
}

/// Renders the times of a contender that nobody was compared with.
fn times_table(record: &ComparisonRecord, alone: &Standing) -> String {
    let mut table = Table::new(&["workload", "median", "95 % interval"], &[1, 2]);
    for (rounds, on) in record.workloads.iter().zip(&alone.workloads) {
        let cells = match on.time_s {
            Some(Interval { low, mid, high }) => {
                [units::time(mid), format!("{} .. {}", units::time(low), units::time(high))]
            }
            None => [absence_cell(rounds, alone, alone), paint(DIM, "-")],
        };
        table.row([vec![rounds.workload.clone()], cells.to_vec()].concat());
    }
    format!("  time of {}, which was compared with nobody\n{}", alone.label, table.render())
}

/// Renders which configuration to use on which workload.
fn dispatch_lines(table: &Json) -> String {
    let rows = table["workloads"].as_array().map_or(&[][..], Vec::as_slice);
    let mut rendered = Table::new(&["workload", "time", "as fast", "use"], &[1, 2]);
    for row in rows {
        let number = |field: &str| row[field]["mid"].as_f64().unwrap_or(f64::NAN);
        let values: Vec<String> = row["params"]
            .as_object()
            .into_iter()
            .flatten()
            .map(|(name, value)| format!("{name}={}", value.to_string().trim_matches('"')))
            .collect();
        rendered.row(vec![
            row["workload"].as_str().unwrap_or_default().to_string(),
            units::time(number("time_s")),
            row["speedup"]["mid"].as_f64().map_or_else(|| paint(DIM, "-"), units::ratio),
            values.join(" "),
        ]);
    }
    let over = table["speedup_over"].as_str().unwrap_or_default();
    let words = format!(
        "time: the median of the full gate; as fast: how many times as fast as {over}, in the finals' rounds"
    );
    format!(
        "  which configuration to use on which workload\n{}\n{}",
        rendered.render(),
        wrapped(&format!("  {}", paint(DIM, words)))
    )
}

/// Notes that a table is followed by; the rest is in the evidence and in `--json`.
const SHOWN_NOTES: usize = 3;

/// Says how far the clocks of baselines agree with the harness's, a line for each that has its own.
pub fn clock_lines(record: &ComparisonRecord) -> Vec<String> {
    let line = |words: String| wrapped(&format!("  {}", paint(DIM, words)));
    record.clocks.iter().map(|check| line(check.describe())).collect()
}

/// Returns the first notes, those that say the same in one line, and where those beyond them are.
pub fn note_lines(record: &ComparisonRecord, run: &str) -> Vec<String> {
    let mut lines = all_note_lines(record);
    let more = match lines.len().saturating_sub(SHOWN_NOTES) {
        0 => return lines,
        1 => format!("and 1 more note: warpsmith show {run}"),
        more => format!("and {more} more notes: warpsmith show {run}"),
    };
    lines.truncate(SHOWN_NOTES);
    lines.push(format!("  {}", paint(DIM, more)));
    lines
}

/// Returns all notes, those that say the same in one line.
pub fn all_note_lines(record: &ComparisonRecord) -> Vec<String> {
    let workloads: Vec<&str> =
        record.workloads.iter().map(|rounds| rounds.workload.as_str()).collect();
    let notes = notes::gathered(&record.notes, &workloads);
    notes.iter().map(|note| wrapped(&format!("  {}", paint(DIM, note)))).collect()
}

/// Says why two contenders have no common rounds: the other one's reason, or else the first one's.
fn absence_cell(rounds: &PairedRounds, first: &Standing, other: &Standing) -> String {
    let of = |side: &Standing| rounds.absent.iter().find(|it| it.contender == side.contender);
    let cell = |absent: &Absent, words: String| match absent.verdict {
        Some(_) => paint(BAD, words),
        None => paint(DIM, words),
    };
    match (of(other), of(first)) {
        (Some(absent), _) => cell(absent, absent.word()),
        (None, Some(absent)) => cell(absent, format!("{}: {}", first.label, absent.word())),
        (None, None) => paint(DIM, "no rounds"),
    }
}

/// Says in a line who failed on what; none where everybody who was to be timed was.
pub fn failures(record: &ComparisonRecord) -> Option<String> {
    let mut failed = Vec::new();
    for rounds in &record.workloads {
        for absent in rounds.absent.iter().filter(|it| it.verdict.is_some()) {
            let label = &record.contenders[absent.contender].label;
            failed.push(format!("{label} on {} ({})", rounds.workload, absent.word()));
        }
    }
    (!failed.is_empty()).then(|| failed.join(", "))
}

fn speedup_cell(speedup: Interval) -> String {
    let (style, word) = match stats::judge(speedup) {
        Comparison::Faster => (GOOD, "faster"),
        Comparison::Slower => (BAD, "slower"),
        Comparison::Tie => (DIM, "tie"),
        Comparison::Unclear => (WARN, "unclear"),
    };
    format!(
        "{} [{:.2}, {:.2}] {}",
        paint(BOLD, format!("{:.2}x", speedup.mid)),
        speedup.low,
        speedup.high,
        paint(style, word)
    )
}

/// The same for programs.
pub fn speedups_json(record: &ComparisonRecord) -> Json {
    speedups_json_of(record, 0)
}

/// The speed-ups of one contender over each other one, for programs.
fn speedups_json_of(record: &ComparisonRecord, contender: usize) -> Json {
    let mut others = standings(record, contender);
    if others.is_empty() {
        return json!([]);
    }
    let first = others.remove(contender);
    let side = |other: &Standing| {
        let by_workload: Vec<Json> = other
            .workloads
            .iter()
            .map(|on| {
                json!({
                    "workload": on.workload, "speedup": on.speedup, "verdict": on.verdict,
                    "absent": on.absent,
                })
            })
            .collect();
        json!({
            "of": first.label, "over": other.label, "overall": other.speedup,
            "verdict": other.verdict, "words": sentence(&first.label, other),
            "workloads": by_workload,
        })
    };
    others.iter().map(side).collect()
}

/// The median time of each contender on each workload, for programs.
pub fn times_json(
    lab: &Lab,
    ceilings: &Ceilings,
    device: &DeviceInfo,
    record: &ComparisonRecord,
) -> Json {
    let caches_bytes = device.caches_bytes();
    let row = |rounds: &PairedRounds| {
        let workload = lab.workload(&rounds.workload);
        let work = workload.and_then(|workload| bind::work_size(lab, workload).ok());
        let roofline_s = work.zip(workload).map(|(work, workload)| {
            roofline::roofline_s(ceilings, work, lab.arithmetic_dtype(workload))
        });
        let near = |time_s: f64| {
            let (work, workload) = work.zip(workload)?;
            let dtype = lab.arithmetic_dtype(workload);
            Some(roofline::nearness(ceilings, work, dtype, caches_bytes, time_s))
        };
        let times: Vec<Json> = record
            .contenders
            .iter()
            .zip(&rounds.samples_s)
            .map(|(contender, samples_s)| {
                let is_baseline = matches!(contender.kind, ContenderKind::Baseline { .. });
                let median_s = median(samples_s);
                json!({
                    "label": contender.label, "is_baseline": is_baseline,
                    "median_s": median_s, "rounds": samples_s.len(),
                    "roofline": median_s.and_then(near),
                })
            })
            .collect();
        json!({
            "workload": rounds.workload, "flops": work.map(|work| work.flops),
            "bytes": work.map(|work| work.bytes), "roofline_s": roofline_s, "times": times,
        })
    };
    record.workloads.iter().map(row).collect()
}

/// Says how much of a device runs at once.
fn parallelism(device: &DeviceInfo) -> String {
    match &device.cuda {
        Some(cuda) => format!("{} multiprocessors", cuda.sms),
        None => format!("{} threads", device.threads),
    }
}

/// Says what is about to happen.
pub fn announce(campaign: &Campaign) {
    let lab = &campaign.loaded.lab;
    say(format!(
        "{} {}: {}, {}, {}; {} ({})",
        paint(BOLD, &lab.name),
        lab.title,
        counted(lab.kernels.len(), "kernel"),
        counted(lab.workloads.len(), "workload"),
        counted(lab.baselines.len(), "baseline"),
        campaign.environment.device.name,
        parallelism(&campaign.environment.device),
    ));
    for warning in super::doctor::isolation_warnings(&campaign.environment.isolation) {
        say(format!("  {}", paint(WARN, warning)));
    }
    if let Some(doubt) = lab.tolerance_doubt() {
        say(format!("  {}", paint(WARN, doubt)));
    }
}

/// Tells what the chain of trust rests on.
pub fn say_chain(chain: &ChainRecord) {
    say(wrapped(&format!("  {:<9} {}", "chain", chain_words(chain))));
}

fn chain_words(chain: &ChainRecord) -> String {
    let by_reference = chain.authorities.iter().filter(|a| a.by_reference).count();
    if chain.proofs.is_empty() {
        return format!(
            "the reference repeats itself bit for bit, depends on every input, and computes {} \
             itself",
            counted(chain.authorities.len(), "workload")
        );
    }
    let computed = match chain.authorities.len() {
        1 if by_reference == 1 => "it computes the workload itself".to_string(),
        all if all == by_reference => format!("it computes all {all} workloads itself"),
        all => format!(
            "it computes {by_reference} of {} itself and samples {} blocks of the rest",
            counted(all, "workload"),
            chain.authorities.iter().map(|a| a.sampled_blocks).sum::<u64>()
        ),
    };
    let worst = chain
        .proofs
        .iter()
        .map(|p| p.error.element_eps / p.allowed.element_eps)
        .fold(0.0, f64::max);
    format!(
        "the reference proves the oracle on {} inputs (worst error {:.0} % of its budget); \
         {computed}",
        chain.proofs.len(),
        100.0 * worst,
    )
}

/// Says which ceilings changed since they were first measured by more than shares of them should be trusted; none
/// where all are much the same.
pub fn ceiling_change(first: &Ceilings, last: &Ceilings) -> Option<String> {
    const CHANGE: f64 = 0.05;
    let rates = |it: &Ceilings| {
        [
            ("matrix units", it.matrix_flops_per_s, units::flops as fn(f64) -> String),
            ("the peak", Some(it.f32_flops_per_s), units::flops),
            ("the peak in f64", Some(it.f64_flops_per_s), units::flops),
            ("memory", Some(it.memory_bytes_per_s), units::bandwidth),
            ("caches", Some(it.cache_bytes_per_s), units::bandwidth),
        ]
    };
    let changes: Vec<String> = rates(first)
        .into_iter()
        .zip(rates(last))
        .filter_map(|((what, first, words), (_, last, _))| {
            let (first, last) = (first?, last?);
            let is_far = (last - first).abs() > CHANGE * first;
            is_far.then(|| format!("{what} {}, then {}", words(first), words(last)))
        })
        .collect();
    (!changes.is_empty()).then(|| {
        format!(
            "the machine showed other ceilings at the end than at the beginning ({}); shares are of the last",
            changes.join("; ")
        )
    })
}

/// Says in one line what the machine can do.
pub fn ceiling_words(ceilings: &Ceilings) -> String {
    let matrix = ceilings.matrix_flops_per_s.map_or_else(String::new, |flops_per_s| {
        format!("matrix units {} (f16), ", units::flops(flops_per_s))
    });
    let short = ceilings.shortfalls();
    let now = if short.is_empty() {
        String::new()
    } else {
        let short: Vec<String> =
            short.into_iter().map(|(rate, per_s)| rate.describe(per_s)).collect();
        format!("; the best ever seen here, the newest measurement showed {}", short.join(", "))
    };
    let busy = if ceilings.busy { "; measured on a busy machine, maybe far too low" } else { "" };
    format!(
        "{matrix}peak {} (f32), memory {}, caches {}, launch {}{busy}{now}",
        units::flops(ceilings.f32_flops_per_s),
        units::bandwidth(ceilings.memory_bytes_per_s),
        units::bandwidth(ceilings.cache_bytes_per_s),
        units::time(ceilings.launch_floor_s),
    )
}

#[cfg(test)]
mod tests {
    use warpsmith_model::{Authority, ComparisonPurpose, ErrorSize, FORMAT_VERSION, Proof};

    use super::*;

    #[test]
    fn a_chain_speaks_of_a_rest_where_there_is_one() {
        let size = ErrorSize { element_eps: 4.0, ..ErrorSize::default() };
        let on = |workload: &str, by_reference: bool, sampled_blocks: u64| Authority {
            workload: workload.to_string(),
            by_reference,
            sampled_blocks,
            contents: 2,
        };
        let chain = |authorities: Vec<Authority>| ChainRecord {
            format: FORMAT_VERSION,
            sensitivity: Vec::new(),
            proofs: vec![Proof {
                shape: "N=1".to_string(),
                inputs: "normal".to_string(),
                error: ErrorSize { element_eps: 1.0, ..size },
                allowed: size,
            }],
            authorities,
            wall_s: 1.0,
        };
        let words = chain_words(&chain(vec![on("a", true, 0), on("b", true, 0)]));
        assert!(words.ends_with("; it computes all 2 workloads itself"), "{words}");
        let words = chain_words(&chain(vec![on("a", true, 0), on("b", false, 16)]));
        let rest = "; it computes 1 of 2 workloads itself and samples 16 blocks of the rest";
        assert!(words.ends_with(rest), "{words}");
    }

    #[test]
    fn ceilings_that_changed_are_named_with_both_values() {
        let first = Ceilings {
            matrix_flops_per_s: None,
            f32_flops_per_s: 1e11,
            f64_flops_per_s: 5e10,
            memory_bytes_per_s: 4.88e10,
            cache_bytes_per_s: 4e11,
            launch_floor_s: 2e-6,
            busy: false,
            newest: None,
        };
        let last =
            Ceilings { memory_bytes_per_s: 5.6e10, f32_flops_per_s: 1.04e11, ..first.clone() };
        let words = ceiling_change(&first, &last).expect("changed");
        assert!(words.contains("(memory 48.8 GB/s, then 56.0 GB/s)"), "{words}");
        assert_eq!(ceiling_change(&first, &first), None);
    }

    /// They were said to be "in the report", which most commands do not write.
    #[test]
    fn notes_beyond_the_first_are_where_a_command_shows_them() {
        let record = |n_notes: usize| ComparisonRecord {
            format: FORMAT_VERSION,
            purpose: ComparisonPurpose::Final,
            seed: 1,
            contenders: Vec::new(),
            workloads: Vec::new(),
            missing: Vec::new(),
            clocks: Vec::new(),
            notes: (0..n_notes).map(|idx| format!("note {idx}")).collect(),
        };
        assert_eq!(note_lines(&record(3), "lab-1").len(), 3);
        let last = |n_notes| note_lines(&record(n_notes), "lab-1").pop().expect("lines");
        assert!(last(4).contains("and 1 more note: warpsmith show lab-1"), "{}", last(4));
        assert!(last(6).contains("and 3 more notes: warpsmith show lab-1"), "{}", last(6));
        assert_eq!(all_note_lines(&record(6)).len(), 6);
    }
}
