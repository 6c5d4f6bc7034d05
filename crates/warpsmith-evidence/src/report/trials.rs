//! Packs every trial into the JSON block that the page's table is drawn from.
//!
//! Texts, names and command-line words are stored once and named by number. Samples become one
//! character each between their least and greatest value: a strip a few hundred pixels wide shows
//! no more than that, and the exact samples stay in the evidence.

use std::collections::HashMap;
use std::collections::hash_map::Entry;

use serde_json::{Value as Json, json};
use warpsmith_model::stats::median;
use warpsmith_model::{
    BlobId, Build, DeviceState, Measurement, Origin, Outcome, RunTrial, StopReason, Value, notes,
    units,
};

use super::data::{ReportData, Score, View};
use super::html::visible;
use super::words;
use crate::summary::TrialSummary;

/// Samples of one measurement that the page shows at most.
const MAX_SAMPLES: usize = 64;
/// Bytes of one source or log that the page shows at most.
const MAX_TEXT_BYTES: usize = 64 << 10;
/// Bytes of all sources and logs together; what comes later is named, not shown. Keeps the page of
/// a run with ten thousand talkative compilations below 15 MB.
const MAX_ALL_TEXT_BYTES: usize = 6 << 20;
/// Samples are told apart in this many steps, each a character that needs no escape anywhere.
const LEVELS: &[u8; 64] = b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz-_";

/// The JSON block.
#[derive(Debug)]
pub(super) struct Packed {
    pub(super) json: String,
    /// How many texts did not fit.
    pub(super) texts_left_out: usize,
}

pub(super) fn pack(view: &View<'_>) -> Packed {
    let mut tables = Tables::new(view.data);
    let rows: Vec<Json> = view
        .data
        .trials
        .iter()
        .zip(view.summaries.iter().zip(&view.scores))
        .map(|(record, (summary, score))| row(record, summary, *score, view, &mut tables))
        .collect();
    let workloads: Vec<&str> = view.columns().iter().map(|w| w.name.as_str()).collect();
    let document = json!({
        "workloads": visible_all(workloads),
        "rows": rows,
        "words": tables.words.list,
        "texts": tables.texts,
    });
    Packed { json: document.to_string(), texts_left_out: tables.texts_left_out }
}

/// One row; the order is the one that `report.js` unpacks.
fn row(
    record: &RunTrial,
    summary: &TrialSummary,
    score: Score,
    view: &View<'_>,
    tables: &mut Tables<'_>,
) -> Json {
    let trial = &record.trial;
    let candidate = &trial.job.candidate;
    let params: Vec<usize> = candidate
        .params
        .0
        .iter()
        .map(|(name, value)| tables.words.number(&assignment(name, value)))
        .collect();
    let times: Vec<Json> = view
        .lab
        .workloads
        .iter()
        .map(|workload| summary.time(&workload.name).map_or(Json::Null, |t| number(t.median_s.mid)))
        .collect();
    let measurements: Vec<Json> = measured(&trial.outcome)
        .iter()
        .map(|measurement| pack_measurement(measurement, view))
        .collect();
    let log = match &trial.outcome {
        Outcome::CompileFailed { log, .. } => Some(tables.text(log)),
        _ => None,
    };
    let builds: Vec<Json> = trial.builds.iter().map(|build| pack_build(build, tables)).collect();
    let notes = notes::gathered(&trial.notes, &trial.job.workloads);
    let notes: Vec<usize> = notes.iter().map(|note| tables.words.number(note)).collect();
    let same_as = trial.same_binary_as.map(|id| id.short());
    json!([
        record.seq,
        tables.words.number(&candidate.kernel),
        params,
        trial.job.fidelity.name(),
        words::verdict(trial.outcome.verdict()),
        times,
        score.speedup.map_or(Json::Null, number),
        score.time_s.map_or(Json::Null, number),
        tables.words.number(&origin(&candidate.origin)),
        tables.text(&candidate.source),
        builds,
        log,
        measurements,
        visible(&summary.message),
        notes,
        trial.id.short(),
        trial.job.seed.to_string(),
        record.adopted,
        same_as,
        number(trial.wall_s),
    ])
}

/// Writes a parameter as [`warpsmith_model::Params`] does.
fn assignment(name: &str, value: &Value) -> String {
    match value {
        Value::Str(text) if text.is_empty() || text.contains(' ') => format!("{name}='{text}'"),
        other => format!("{name}={other}"),
    }
}

fn measured(outcome: &Outcome) -> &[Measurement] {
    match outcome {
        Outcome::Implausible { measurements, .. } | Outcome::Passed { measurements } => {
            measurements
        }
        _ => &[],
    }
}

fn pack_measurement(measurement: &Measurement, view: &View<'_>) -> Json {
    let stop = match measurement.stop {
        StopReason::Converged => "converged",
        StopReason::Budget => "time used up",
        StopReason::Hopeless => "hopeless",
    };
    let workload = view.columns().iter().position(|w| w.name == measurement.workload);
    let (low, high, strip) = strip(&measurement.samples_s);
    json!([
        workload.map_or_else(|| json!(visible(&measurement.workload)), |idx| json!(idx)),
        number(low),
        number(high),
        strip,
        measurement.samples_s.len(),
        measurement.batch,
        number(measurement.error.element_eps),
        number(measurement.error.norm_eps),
        stop,
        number(measurement.share),
        visible(&aside(measurement)),
    ])
}

/// Says what was measured beside the samples, in one line: warm caches, the state of the device, errors.
fn aside(measurement: &Measurement) -> String {
    let warm = median(&measurement.warm_s).map(|warm_s| {
        let cold = median(&measurement.samples_s).map_or_else(String::new, units::time);
        format!("cold caches {cold}, warm caches {}", units::time(warm_s))
    });
    let state = measurement.device_state.as_ref().map(DeviceState::describe);
    let error = measurement.error.plain.map(|plain| {
        format!("errors at most {:.1e}, relative {:.1e}", plain.absolute, plain.relative)
    });
    warm.into_iter().chain(state).chain(error).collect::<Vec<_>>().join("; ")
}

/// Returns the least and greatest sample and the samples between them, one character each.
fn strip(samples: &[f64]) -> (f64, f64, String) {
    let finite = || samples.iter().copied().filter(|sample| sample.is_finite());
    let low = finite().fold(f64::INFINITY, f64::min);
    let high = finite().fold(f64::NEG_INFINITY, f64::max);
    let span = if high > low { high - low } else { 1.0 };
    let kept = samples.len().min(MAX_SAMPLES);
    let levels = (0..kept)
        .map(|idx| samples[idx * samples.len() / kept])
        .filter(|sample| sample.is_finite())
        .map(|sample| {
            let level = ((sample - low) / span * (LEVELS.len() - 1) as f64).round();
            char::from(LEVELS[(level as usize).min(LEVELS.len() - 1)])
        })
        .collect();
    (low, high, levels)
}

fn pack_build(build: &Build, tables: &mut Tables<'_>) -> Json {
    let command: Vec<usize> = build.command.iter().map(|word| tables.words.number(word)).collect();
    json!([
        command,
        tables.text(&build.log),
        number(build.compile_s),
        build.cached,
        build.binary.short()
    ])
}

fn origin(origin: &Origin) -> String {
    match origin {
        Origin::Seed => "the author's choice".to_string(),
        Origin::Micro => "the microbenchmark's sweep".to_string(),
        Origin::Tuned { strategy } => format!("proposed by {strategy}"),
        Origin::Evolved { operator, .. } => format!("written by a language model ({operator})"),
        Origin::Manual => "asked for by hand".to_string(),
        Origin::Baseline => "a baseline".to_string(),
    }
}

/// Rounds to four significant digits, which is more than a table shows; none for what is no number.
fn number(value: f64) -> Json {
    // Through text, because scaling and dividing leaves digits like 0.30000000000000004.
    let rounded: f64 = format!("{value:.3e}").parse().unwrap_or(value);
    if rounded.is_finite() { json!(rounded) } else { Json::Null }
}

/// The lists that rows name by number.
struct Tables<'a> {
    data: &'a ReportData,
    words: Interned,
    texts: Vec<Json>,
    text_numbers: HashMap<BlobId, usize>,
    text_bytes: usize,
    texts_left_out: usize,
}

impl<'a> Tables<'a> {
    fn new(data: &'a ReportData) -> Self {
        Self {
            data,
            words: Interned::default(),
            texts: Vec::new(),
            text_numbers: HashMap::new(),
            text_bytes: 0,
            texts_left_out: 0,
        }
    }

    /// Returns the number of a text, stored as `[hash, text]`, or `[hash, null]` when the evidence
    /// or the page has no room for it.
    fn text(&mut self, id: &BlobId) -> usize {
        let next = self.texts.len();
        match self.text_numbers.entry(*id) {
            Entry::Occupied(known) => return *known.get(),
            Entry::Vacant(free) => free.insert(next),
        };
        let text = self.data.texts.get(id).map(|text| shown(text));
        let fits = |text: &String| self.text_bytes + text.len() <= MAX_ALL_TEXT_BYTES;
        let entry = match text {
            Some(text) if fits(&text) => {
                self.text_bytes += text.len();
                json!([id.short(), text])
            }
            Some(_) => {
                self.texts_left_out += 1;
                json!([id.short(), null])
            }
            None => json!([id.short(), null]),
        };
        self.texts.push(entry);
        next
    }
}

/// Returns a text as the page shows it: nothing hidden, the middle of a very long one left out.
fn shown(text: &str) -> String {
    let text = visible(text);
    if text.len() <= MAX_TEXT_BYTES {
        return text.into_owned();
    }
    let half = MAX_TEXT_BYTES / 2;
    let is_boundary = |at: &usize| text.is_char_boundary(*at);
    let head = (0..=half).rev().find(is_boundary).unwrap_or(0);
    let tail = (text.len() - half..text.len()).find(is_boundary).unwrap_or(text.len());
    let left_out = tail - head;
    format!(
        "{}\n\n… {left_out} bytes left out here; the evidence has them …\n\n{}",
        &text[..head],
        &text[tail..]
    )
}

/// Words, each once.
#[derive(Default)]
struct Interned {
    list: Vec<String>,
    numbers: HashMap<String, usize>,
}

impl Interned {
    fn number(&mut self, word: &str) -> usize {
        if let Some(number) = self.numbers.get(word) {
            return *number;
        }
        self.list.push(visible(word).into_owned());
        self.numbers.insert(word.to_string(), self.list.len() - 1);
        self.list.len() - 1
    }
}

fn visible_all(texts: Vec<&str>) -> Vec<String> {
    texts.into_iter().map(|text| visible(text).into_owned()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_short() {
        let check = |value: f64, expected: &str| assert_eq!(number(value).to_string(), expected);
        check(1.234567e-5, "0.00001235");
        check(0.3, "0.3");
        check(41.2, "41.2");
        check(123456.0, "123500.0");
        check(0.0, "0.0");
        check(-2.5, "-2.5");
        check(f64::NAN, "null");
        check(f64::INFINITY, "null");
        check(1e-320, "1e-320");
    }

    #[test]
    fn strips_keep_the_shape_of_the_samples() {
        let check = |samples: &[f64], expected: &str| assert_eq!(strip(samples).2, expected);
        check(&[], "");
        check(&[5.0], "0");
        check(&[1.0, 2.0, 1.5], "0_W");
        check(&[1.0, f64::NAN, 2.0], "0_");
        let many: Vec<f64> = (0..1000).map(f64::from).collect();
        assert_eq!(strip(&many).2.len(), MAX_SAMPLES);
    }

    #[test]
    fn long_texts_lose_their_middle_and_say_so() {
        let long = format!("begin{}end", "é".repeat(MAX_TEXT_BYTES));
        let text = shown(&long);
        assert!(text.len() < MAX_TEXT_BYTES + 200);
        assert!(text.starts_with("begin") && text.ends_with("end"));
        assert!(text.contains("bytes left out here"));
    }
}
