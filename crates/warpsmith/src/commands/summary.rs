//! The short answer: who won, by how much, how close to the machine's limits.

use std::path::PathBuf;

use anyhow::{Context as _, Result};
use serde_json::{Value as Json, json};
use warpsmith_device::bind;
use warpsmith_evidence::derive::{Standing, standings};
use warpsmith_model::stats::{self, Comparison, Interval, median};
use warpsmith_model::{
    Absent, Ceilings, ChainRecord, ComparisonRecord, Contender, ContenderKind, DeviceInfo,
    DeviceState, Lab, LabRecord, Objective, PairedRounds, Trial, roofline, units,
};

use crate::campaign::{Campaign, Pace, Winner, missing_words};
use crate::output::{BAD, BOLD, DIM, GOOD, Table, WARN, paint, say};

/// What a campaign found.
#[derive(Debug)]
pub struct Summary {
    run: String,
    lab: LabRecord,
    /// Who won.
    pub winner: Winner,
    /// Its verification.
    pub full: Trial,
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
        winner: &Winner,
        full: &Trial,
        comparison: Option<ComparisonRecord>,
        ceilings: Ceilings,
        report: Option<PathBuf>,
    ) -> Result<Self> {
        Ok(Self {
            run: campaign.run.to_string(),
            lab: LabRecord::of(&campaign.loaded.lab)
                .context("the lab's formulas cannot be evaluated")?,
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

    /// Renders for people.
    pub fn render(&self) -> String {
        let mut lines = vec![
            String::new(),
            format!("{} {}", paint(BOLD, "winner"), self.winner.kernel.name),
            format!("  {}", self.winner.params),
            String::new(),
            self.workload_table(),
        ];
        if let Some(table) = &self.dispatch {
            lines.push(String::new());
            lines.push(dispatch_lines(table));
        }
        if let Some(comparison) = &self.comparison {
            lines.push(String::new());
            lines.push(comparison_table_of(comparison, self.place(comparison)));
            for missing in &comparison.missing {
                lines.push(format!("  {}", paint(WARN, missing_words(missing))));
            }
            lines.extend(clock_lines(comparison));
            lines.extend(note_lines(&comparison.notes));
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
        let workloads: Vec<Json> = self
            .rows()
            .iter()
            .map(|row| {
                json!({
                    "workload": row.workload, "time_s": row.time_s, "warm_time_s": row.warm_s,
                    "device_state": row.device_state,
                    "flops_per_s": row.flops_per_s, "share_of_peak": row.share,
                    "share_of_roofline": row.share_of_roofline,
                })
            })
            .collect();
        let mut document = json!({
            "run": self.run,
            "lab": self.lab.name,
            "winner": {
                "kernel": self.winner.kernel.name,
                "params": self.winner.params,
                "candidate": self.full.job.candidate.id,
                "trial": self.full.id,
            },
            "workloads": workloads,
            "speedups": self.comparison.as_ref().map(|it| speedups_json_of(it, self.place(it))),
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

    /// Returns which contender the winner is. The finals of a search begin with the author's choice.
    fn place(&self, comparison: &ComparisonRecord) -> usize {
        let is_winner = |contender: &Contender| match &contender.kind {
            ContenderKind::Kernel { kernel, params, .. } => {
                *kernel == self.winner.kernel.name && *params == self.winner.params
            }
            ContenderKind::Baseline { .. } => false,
        };
        comparison.contenders.iter().position(is_winner).unwrap_or(0)
    }

    fn workload_table(&self) -> String {
        let rows = self.rows();
        // A target that cannot tell cold from warm has one kind of time.
        let has_warm = rows.iter().any(|row| row.warm_s.is_some());
        let mut headings = vec!["workload", "time", "rate", "of peak", "of roofline"];
        if has_warm {
            headings[1] = "cold";
            headings.push("warm");
        }
        let columns: Vec<usize> = (1..headings.len()).collect();
        let mut table = Table::new(&headings, &columns);
        for row in rows {
            let mut cells = vec![
                row.workload,
                units::time(row.time_s),
                units::flops(row.flops_per_s),
                format!("{:.1} %", 100.0 * row.share),
                format!("{:.1} %", 100.0 * row.share_of_roofline),
            ];
            if has_warm {
                cells.push(row.warm_s.map_or_else(|| paint(DIM, "-"), units::time));
            }
            table.row(cells);
        }
        let mut text = table.render();
        if has_warm {
            let words =
                "rates and shares are of the cold times; warm: the same input again and again";
            text.push_str(&format!("\n  {}", paint(DIM, words)));
        }
        if let Some(state) = self.device_state() {
            let words = format!("the device meanwhile: {}", state.describe());
            text.push_str(&format!("\n  {}", paint(DIM, words)));
        }
        text
    }

    /// Returns how the device was over all workloads.
    fn device_state(&self) -> Option<DeviceState> {
        let measurements = self.full.outcome.measurements();
        let mut states = measurements.iter().filter_map(|it| it.device_state.as_ref());
        let mut all = states.next()?.clone();
        states.for_each(|state| all.widen(state));
        Some(all)
    }

    fn rows(&self) -> Vec<Row> {
        let measurements = self.full.outcome.measurements();
        measurements
            .iter()
            .filter_map(|measurement| {
                let workload = self.lab.workload(&measurement.workload)?;
                let time_s = median(&measurement.samples_s)?;
                let work = roofline::WorkSize { flops: workload.flops, bytes: workload.bytes };
                let dtype = self.lab.arithmetic_dtype();
                Some(Row {
                    workload: workload.name.clone(),
                    time_s,
                    warm_s: median(&measurement.warm_s),
                    device_state: measurement.device_state.clone(),
                    flops_per_s: workload.flops / time_s,
                    share: roofline::share_of_peak(&self.ceilings, work, dtype, time_s),
                    share_of_roofline: roofline::roofline_s(&self.ceilings, work, dtype) / time_s,
                })
            })
            .collect()
    }
}

struct Row {
    workload: String,
    time_s: f64,
    /// With warm caches, where that was measured.
    warm_s: Option<f64>,
    device_state: Option<DeviceState>,
    flops_per_s: f64,
    share: f64,
    share_of_roofline: f64,
}

/// Renders the speed-up of the first contender over each other one, by workload and overall.
pub fn comparison_table(record: &ComparisonRecord) -> String {
    comparison_table_of(record, 0)
}

/// Renders the speed-up of one contender over each other one, by workload and overall.
fn comparison_table_of(record: &ComparisonRecord, contender: usize) -> String {
    let mut others = standings(record, contender);
    if others.is_empty() {
        return String::new();
    }
    let first = &others.remove(contender);
    if others.is_empty() {
        return times_table(record, first);
    }
    let mut headings = vec!["workload".to_string()];
    headings.extend(others.iter().map(|other| format!("vs {}", other.label)));
    let columns: Vec<usize> = (1..headings.len()).collect();
    let names: Vec<&str> = headings.iter().map(String::as_str).collect();
    let mut table = Table::new(&names, &columns);
    for (idx, rounds) in record.workloads.iter().enumerate() {
        let mut cells = vec![rounds.workload.clone()];
        for other in &others {
            let speedup = other.workloads[idx].speedup;
            let no_pair = || absence_cell(rounds, first, other);
            cells.push(speedup.map_or_else(no_pair, speedup_cell));
        }
        table.row(cells);
    }
    let mut overall = vec![paint(BOLD, "geometric mean")];
    for other in &others {
        overall.push(other.speedup.map_or_else(|| paint(DIM, "-"), speedup_cell));
    }
    table.row(overall);
    format!(
        "  speed-up of {}, with 95 % intervals from interleaved rounds\n{}",
        first.label,
        table.render()
    )
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
    let mut rendered = Table::new(&["workload", "time", "speed-up", "use"], &[1, 2]);
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
            format!("{:.2}x", number("speedup")),
            values.join(" "),
        ]);
    }
    let over = table["speedup_over"].as_str().unwrap_or_default();
    format!("  by workload, speed-up over {over}\n{}", rendered.render())
}

/// Notes that a table is followed by; the rest is in the evidence and in `--json`.
const SHOWN_NOTES: usize = 3;

/// Says how far the clocks of baselines agree with the harness's, a line for each that has its own.
pub fn clock_lines(record: &ComparisonRecord) -> Vec<String> {
    record.clocks.iter().map(|check| format!("  {}", paint(DIM, check.describe()))).collect()
}

/// Returns the first notes, and how many there are beyond them.
pub fn note_lines(notes: &[String]) -> Vec<String> {
    let mut lines: Vec<String> =
        notes.iter().take(SHOWN_NOTES).map(|note| format!("  {}", paint(DIM, note))).collect();
    if notes.len() > SHOWN_NOTES {
        let more = match notes.len() - SHOWN_NOTES {
            1 => "and 1 more note, in the report".to_string(),
            more => format!("and {more} more notes, in the report"),
        };
        lines.push(format!("  {}", paint(DIM, more)));
    }
    lines
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
            "verdict": other.verdict, "workloads": by_workload,
        })
    };
    others.iter().map(side).collect()
}

/// The median time of each contender on each workload, for programs.
pub fn times_json(lab: &Lab, ceilings: &Ceilings, record: &ComparisonRecord) -> Json {
    let row = |rounds: &PairedRounds| {
        let workload = lab.workload(&rounds.workload);
        let work = workload.and_then(|workload| bind::work_size(lab, workload).ok());
        let roofline_s = work.zip(workload).map(|(work, workload)| {
            roofline::roofline_s(ceilings, work, lab.arithmetic_dtype(workload))
        });
        let times: Vec<Json> = record
            .contenders
            .iter()
            .zip(&rounds.samples_s)
            .map(|(contender, samples_s)| {
                let is_baseline = matches!(contender.kind, ContenderKind::Baseline { .. });
                json!({
                    "label": contender.label, "is_baseline": is_baseline,
                    "median_s": median(samples_s), "rounds": samples_s.len(),
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
        "{} {}: {} kernels, {} workloads, {} baselines; {} ({})",
        paint(BOLD, &lab.name),
        lab.title,
        lab.kernels.len(),
        lab.workloads.len(),
        lab.baselines.len(),
        campaign.environment.device.name,
        parallelism(&campaign.environment.device),
    ));
    for warning in super::doctor::isolation_warnings(&campaign.environment.isolation) {
        say(format!("  {}", paint(WARN, warning)));
    }
}

/// Says in one line what the chain of trust rests on.
pub fn chain_words(chain: &ChainRecord) -> String {
    let by_reference = chain.authorities.iter().filter(|a| a.by_reference).count();
    if chain.proofs.is_empty() {
        return format!(
            "the reference repeats itself bit for bit, depends on every input, and computes all {} \
             workloads itself",
            chain.authorities.len()
        );
    }
    let sampled: u64 = chain.authorities.iter().map(|a| a.sampled_blocks).sum();
    let worst = chain
        .proofs
        .iter()
        .map(|p| p.error.element_eps / p.allowed.element_eps)
        .fold(0.0, f64::max);
    format!(
        "the reference proves the oracle on {} inputs (worst error {:.0} % of its budget); it \
         computes {by_reference} of {} workloads itself and samples {sampled} blocks of the rest",
        chain.proofs.len(),
        100.0 * worst,
        chain.authorities.len(),
    )
}

/// Says in one line what the machine can do.
pub fn ceiling_words(ceilings: &Ceilings) -> String {
    let matrix = ceilings.matrix_flops_per_s.map_or_else(String::new, |flops_per_s| {
        format!("matrix units {} (f16), ", units::flops(flops_per_s))
    });
    format!(
        "{matrix}peak {} (f32), memory {}, caches {}, launch {}",
        units::flops(ceilings.f32_flops_per_s),
        units::bandwidth(ceilings.memory_bytes_per_s),
        units::bandwidth(ceilings.cache_bytes_per_s),
        units::time(ceilings.launch_floor_s),
    )
}
