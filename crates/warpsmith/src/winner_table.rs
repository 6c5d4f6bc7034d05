//! The winner of a run on each workload, as the summary of a run and `show` print it.
//!
//! Its times are those that the report and the exports have: see `warpsmith_evidence::derive::winner`.

use anyhow::{Context as _, Result};
use serde_json::{Value as Json, json};
use warpsmith_evidence::derive::{self, measured_in};
use warpsmith_evidence::{Store, TrialSummary};
use warpsmith_model::roofline::{self, CEILING_ERROR, Nearness};
use warpsmith_model::stats::{Interval, geomean, median_interval};
use warpsmith_model::{
    Ceilings, ComparisonRecord, DeviceState, LabRecord, RunRecord, Trial, notes, stats, units,
};

use crate::output::{BOLD, DIM, Table, paint, wrapped};

/// The winner of a run with everything that is said of its times.
#[derive(Clone, Debug)]
pub struct WinnerTable {
    /// The trial that its times are from.
    pub trial: Trial,
    rows: Vec<Row>,
    /// What is to be known of the times beside what their trial says.
    doubts: Vec<String>,
}

#[derive(Clone, Debug)]
struct Row {
    workload: String,
    time_s: Interval,
    /// With warm caches, where that was measured.
    warm_s: Option<f64>,
    device_state: Option<DeviceState>,
    flops_per_s: f64,
    /// Of the arithmetic peak, and of the ceiling that binds; none where ceilings were not measured.
    against: Option<(f64, Nearness)>,
}

impl WinnerTable {
    /// Reads the winner of a run; none where it has none.
    pub fn read(store: &Store, record: &RunRecord) -> Result<Option<Self>> {
        let summaries = store.summaries(&record.id)?;
        Self::of(store, record, &summaries, &store.comparisons(&record.id)?)
    }

    /// The same from what was read before.
    pub fn of(
        store: &Store,
        record: &RunRecord,
        summaries: &[TrialSummary],
        comparisons: &[ComparisonRecord],
    ) -> Result<Option<Self>> {
        let Some(winner) = derive::winner(record, summaries, comparisons) else { return Ok(None) };
        let trial = store
            .trial(&winner.trial.id.to_string())
            .with_context(|| format!("the trial of the winner of {}", record.id))?;
        let ceilings = store.ceilings(&record.id)?;
        let caches_bytes = store.environment(&record.environment)?.device.caches_bytes();
        let rows = rows(&record.lab, &trial, ceilings.as_ref(), caches_bytes);
        let place = |comparison| {
            let candidate = &trial.job.candidate;
            Some((comparison, derive::place(comparison, &candidate.kernel, &candidate.params)?))
        };
        let last = comparisons.iter().rev().find_map(place);
        let doubts =
            last.map(|(comparison, at)| derive::disagreements(winner.trial, comparison, at));
        Ok(Some(Self { trial, rows, doubts: doubts.unwrap_or_default() }))
    }

    /// Adds what is to be known of the times, below them.
    pub fn doubt(&mut self, words: String) {
        self.doubts.push(words);
    }

    /// Says which measurement the times are from.
    pub fn from(&self) -> &'static str {
        measured_in(self.trial.job.fidelity)
    }

    /// Returns the geometric mean of the medians.
    pub fn mean_s(&self) -> Option<f64> {
        geomean(&self.rows.iter().map(|row| row.time_s.mid).collect::<Vec<f64>>())
    }

    /// Renders for people: a heading, the table, and what its words mean.
    pub fn render(&self) -> String {
        let candidate = &self.trial.job.candidate;
        let mut lines = vec![format!("{} {}", paint(BOLD, "winner"), candidate.kernel)];
        if !candidate.params.0.is_empty() {
            lines.push(format!("  {}", candidate.params));
        }
        lines.extend([String::new(), self.table()]);
        let trial = self.trial.id.short();
        lines.push(note(&format!("time: the median of {} (trial {trial})", self.from())));
        if self.has_warm() {
            lines.push(note(
                "rates and shares are of the cold times; warm: the same input again and again",
            ));
        }
        let near: Vec<Nearness> =
            self.rows.iter().filter_map(|row| Some(row.against.as_ref()?.1)).collect();
        lines.extend(roofline::nearness_notes(&near).iter().map(|words| note(words)));
        if self.rows.iter().any(|row| row.against.as_ref().is_some_and(|(of, _)| *of > 1.0)) {
            lines.push(note(
                "at or above the peak: as fast as multiply-adds were when they were measured, or faster \
                 (matrix units; a busy machine at that time)",
            ));
        }
        if let Some(state) = self.device_state() {
            lines.push(note(&format!("the device meanwhile: {}", state.describe())));
        }
        lines.extend(self.notes().iter().map(|words| note(&format!("note: {words}"))));
        lines.join("\n")
    }

    /// Renders for programs.
    pub fn to_json(&self) -> Json {
        let row = |row: &Row| {
            let near = row.against.as_ref().map(|(_, near)| near);
            json!({
                "workload": row.workload, "time_s": row.time_s.mid, "time_interval_s": row.time_s,
                "warm_time_s": row.warm_s, "device_state": row.device_state,
                "flops_per_s": row.flops_per_s,
                "share_of_peak": row.against.as_ref().map(|(share, _)| share),
                "share_of_roofline": near.map(|near| near.share),
                "ceiling": near.map(|near| near.ceiling),
                "fits_caches": near.map(|near| near.fits_caches),
            })
        };
        self.rows.iter().map(row).collect()
    }

    /// Returns which contender of a comparison the winner is, or else the first: the finals of a search begin
    /// with the author's choice, and are told from the winner's side wherever they are.
    pub fn place(&self, comparison: &ComparisonRecord) -> usize {
        let candidate = &self.trial.job.candidate;
        derive::place(comparison, &candidate.kernel, &candidate.params).unwrap_or(0)
    }

    /// Says what is to be known of the measurement that the times are from, those that say the same in one
    /// line, and of what else disagrees with it.
    pub fn notes(&self) -> Vec<String> {
        let mut notes = notes::gathered(&self.trial.notes, &self.trial.job.workloads);
        notes.extend(self.doubts.iter().cloned());
        notes
    }

    fn has_warm(&self) -> bool {
        self.rows.iter().any(|row| row.warm_s.is_some())
    }

    fn table(&self) -> String {
        // A target that cannot tell cold from warm has one kind of time.
        let time = if self.has_warm() { "cold" } else { "time" };
        let mut headings = vec!["workload", time, "rate", "of peak", "of roofline"];
        if self.has_warm() {
            headings.push("warm");
        }
        let columns: Vec<usize> = (1..headings.len()).collect();
        let mut table = Table::new(&headings, &columns);
        for row in &self.rows {
            let none = || paint(DIM, "-");
            let (peak, roofline) = match &row.against {
                Some((share, near)) => (share_of_peak_words(*share), near.words()),
                None => (none(), none()),
            };
            let mut cells = vec![
                row.workload.clone(),
                units::time(row.time_s.mid),
                units::flops(row.flops_per_s),
                peak,
                roofline,
            ];
            if self.has_warm() {
                cells.push(row.warm_s.map_or_else(none, units::time));
            }
            table.row(cells);
        }
        if let Some(mean_s) = self.mean_s().filter(|_| self.rows.len() > 1) {
            table.row(vec![paint(BOLD, "geometric mean"), units::time(mean_s)]);
        }
        table.render()
    }

    /// Returns how the device was over all workloads.
    fn device_state(&self) -> Option<DeviceState> {
        let mut states = self.rows.iter().filter_map(|row| row.device_state.as_ref());
        let mut all = states.next()?.clone();
        states.for_each(|state| all.widen(state));
        Some(all)
    }
}

/// Says in a cell which share of the arithmetic peak a time reaches; more than all of it is a word.
fn share_of_peak_words(share: f64) -> String {
    match share {
        share if share <= 1.0 => units::percent(share),
        share if share <= 1.0 + CEILING_ERROR => "at the peak".to_string(),
        _ => "above the peak".to_string(),
    }
}

fn note(words: &str) -> String {
    wrapped(&format!("  {}", paint(DIM, words)))
}

fn rows(
    lab: &LabRecord,
    trial: &Trial,
    ceilings: Option<&Ceilings>,
    caches_bytes: u64,
) -> Vec<Row> {
    let dtype = lab.arithmetic_dtype();
    trial
        .outcome
        .measurements()
        .iter()
        .filter_map(|measurement| {
            let workload = lab.workload(&measurement.workload)?;
            let interval = median_interval(&measurement.samples_s)?;
            let time_s = interval.mid;
            let work = roofline::WorkSize { flops: workload.flops, bytes: workload.bytes };
            let against = ceilings.map(|ceilings| {
                let near = roofline::nearness(ceilings, work, dtype, caches_bytes, time_s);
                (roofline::share_of_peak(ceilings, work, dtype, time_s), near)
            });
            Some(Row {
                workload: workload.name.clone(),
                time_s: interval,
                warm_s: stats::median(&measurement.warm_s),
                device_state: measurement.device_state.clone(),
                flops_per_s: workload.flops / time_s,
                against,
            })
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use warpsmith_model::notes::{near_floor, noisy, uneven};
    use warpsmith_model::{
        ComparisonPurpose, Contender, ContenderKind, FORMAT_VERSION, PairedRounds,
    };

    use super::*;
    use crate::campaign::testing::{Conditions, params, trial};
    use crate::commands::summary::comparison_table_of;

    /// `show` told the finals from the author's side, which they begin with, the terminal from the winner's.
    #[test]
    fn a_comparison_is_told_from_the_winners_side() {
        let contender = |tile: i64| Contender {
            label: format!("tile {tile}"),
            kind: ContenderKind::Kernel {
                kernel: "10_tile".to_string(),
                params: params(tile),
                candidate: None,
            },
        };
        let finals = ComparisonRecord {
            format: FORMAT_VERSION,
            purpose: ComparisonPurpose::Finalists,
            seed: 1,
            contenders: vec![contender(1), contender(2)],
            workloads: vec![PairedRounds {
                workload: "small".to_string(),
                samples_s: vec![vec![2e-3; 9], vec![1e-3; 9]],
                disturbed_s: Vec::new(),
                absent: Vec::new(),
            }],
            missing: Vec::new(),
            clocks: Vec::new(),
            notes: Vec::new(),
        };
        let trial = trial(2, 1e-3, 4e-3, Conditions::default());
        let table = WinnerTable { trial, rows: Vec::new(), doubts: Vec::new() };
        assert_eq!(table.place(&finals), 1);
        let text = comparison_table_of(&finals, table.place(&finals));
        assert!(text.contains("tile 2 is 2.00x as fast as tile 1"), "{text}");
    }

    /// They were once told by `show TRIAL` alone, which nobody calls for a number that looks sound.
    #[test]
    fn a_winner_says_what_is_poor_about_its_own_measurement() {
        let mut trial = trial(2, 1e-3, 4e-3, Conditions::default());
        let on = ["small", "large"];
        trial.notes = on.iter().map(|on| uneven(on, 2.5)).collect();
        trial.notes.extend([noisy("small", 0.3), near_floor("large", 3.0)]);
        let table = WinnerTable { trial, rows: Vec::new(), doubts: Vec::new() };
        let wrapped = table.render();
        let text = wrapped.split_whitespace().collect::<Vec<&str>>().join(" ");
        for words in [
            "the mean of the readings is up to 2.5 times their median on 2 of 2 workloads",
            "noisy on small (the median's interval spans 30 % of it)",
            "within 3x of an empty launch on large",
        ] {
            assert_eq!(text.matches(words).count(), 1, "{words:?} in:\n{text}");
        }
    }
}
