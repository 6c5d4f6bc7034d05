//! Reading recorded spaces. Files are gigabytes at worst, so they are read as a stream: nothing is
//! kept of an entry but its parameters and its times.

use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;

use serde::de::{DeserializeSeed, Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_json::Value as Json;
use warpsmith_model::Value;
use warpsmith_model::lab::Tunable;

use super::{Entry, Failure, Measured, Recorded, RecordedError, Spent};
use crate::space::{Point, Space};

/// Older Kernel Tuners wrote this in place of a time when a configuration failed.
const FAILED_TIME_MS: f64 = 1e20;

pub(super) fn recorded(bytes: &[u8]) -> Result<Recorded, RecordedError> {
    if bytes.iter().all(u8::is_ascii_whitespace) {
        return Err(RecordedError::NoBytes);
    }
    let mut reader = serde_json::Deserializer::from_slice(bytes);
    let document = reader.deserialize_map(DocumentVisitor)?;
    reader.end()?;
    document.into_recorded()
}

/// The parts of either format.
#[derive(Default)]
struct Document {
    kernel: String,
    device: String,
    problem_size: Json,
    /// Kernel Tuner's order of the parameters.
    keys: Option<Vec<String>>,
    /// Kernel Tuner's values by parameter.
    values: HashMap<String, Vec<Value>>,
    /// What there may be of T4's version.
    version: Option<Json>,
    has_results: bool,
    has_cache: bool,
    names: Names,
    entries: Vec<RawEntry>,
}

/// Parameter names as small numbers.
#[derive(Default)]
struct Names(Vec<String>);

impl Names {
    fn number(&mut self, name: &str) -> usize {
        let known = self.0.iter().position(|listed| listed == name);
        known.unwrap_or_else(|| {
            self.0.push(name.to_string());
            self.0.len() - 1
        })
    }
}

#[derive(Default)]
struct RawEntry {
    params: Vec<(usize, Value)>,
    time: Option<Json>,
    samples_ms: Vec<f64>,
    failure: Option<Failure>,
    spent_ms: Spent,
    timestamp: Option<String>,
}

impl Document {
    fn into_recorded(mut self) -> Result<Recorded, RecordedError> {
        match (self.has_cache, self.has_results) {
            (true, _) if self.keys.is_some() => {}
            (false, true) => self.check_version()?,
            _ => return Err(RecordedError::Unknown),
        }
        if self.entries.is_empty() {
            return Err(RecordedError::NoEntries);
        }
        let names = match self.keys.take() {
            Some(keys) => keys,
            // A T4 file does not list its parameters; the first configuration has all of them.
            None => self.entries[0].params.iter().map(|(n, _)| self.names.0[*n].clone()).collect(),
        };
        let numbers: Vec<usize> = names.iter().map(|name| self.names.number(name)).collect();
        let mut tunables: Vec<TunableValues> =
            names.iter().map(|name| TunableValues::new(self.values.remove(name))).collect();
        let mut points = Vec::with_capacity(self.entries.len());
        for (idx, entry) in self.entries.iter_mut().enumerate() {
            let mut point: Point = Vec::with_capacity(numbers.len());
            for ((number, name), tunable) in numbers.iter().zip(&names).zip(&mut tunables) {
                let found = entry.params.iter_mut().find(|(own, _)| own == number);
                let Some((_, value)) = found else {
                    let name = name.clone();
                    return Err(RecordedError::MissingParameter { number: idx + 1, name });
                };
                let value = std::mem::replace(value, Value::Bool(false));
                point.push(tunable.index_of(value));
            }
            entry.params = Vec::new();
            points.push(point);
        }
        let tunables: Vec<Tunable> = names
            .into_iter()
            .zip(tunables)
            .map(|(name, TunableValues { values, .. })| Tunable { name, values })
            .collect();
        let space = Space::listed(&tunables, &points)?;
        self.place(space, &points)
    }

    fn check_version(&self) -> Result<(), RecordedError> {
        let found = match &self.version {
            None => return Ok(()),
            Some(Json::String(text)) => text.clone(),
            Some(other) => other.to_string(),
        };
        if found.split('.').next() == Some("1") {
            return Ok(());
        }
        Err(RecordedError::Version { found })
    }

    /// Puts the entries into the order of the space.
    fn place(self, space: Space, points: &[Point]) -> Result<Recorded, RecordedError> {
        let count = self.entries.len();
        let mut placed: Vec<Option<Entry>> = (0..space.len()).map(|_| None).collect();
        for (idx, (entry, point)) in self.entries.into_iter().zip(points).enumerate() {
            let index = space.index_of_point(point).expect("the space was made of these points");
            let slot = &mut placed[index as usize];
            if slot.is_some() {
                return Err(RecordedError::Repeated { number: idx + 1 });
            }
            *slot = Some(entry.into_entry(idx + 1)?);
        }
        let entries: Vec<Entry> = placed.into_iter().flatten().collect();
        let optimum_ms = entries.iter().filter_map(Entry::time_ms).min_by(f64::total_cmp);
        let optimum_ms = optimum_ms.ok_or(RecordedError::NoTimes { entries: count })?;
        let Self { kernel, device, problem_size, .. } = self;
        Ok(Recorded { kernel, device, problem_size, space: Arc::new(space), entries, optimum_ms })
    }
}

impl RawEntry {
    fn into_entry(self, number: usize) -> Result<Entry, RecordedError> {
        let Self { time, samples_ms, failure, spent_ms, timestamp, .. } = self;
        let time_ms = time.as_ref().and_then(Json::as_f64).filter(|ms| *ms < FAILED_TIME_MS);
        let measured = match (time_ms, failure) {
            (_, Some(failure)) => Measured::Failed(failure),
            (Some(time_ms), None) => {
                let is_time = |ms: &f64| ms.is_finite() && *ms > 0.0;
                let all = samples_ms.iter().chain(std::iter::once(&time_ms));
                if let Some(bad) = all.copied().find(|ms| !is_time(ms)) {
                    return Err(RecordedError::BadTime { number, time_ms: bad });
                }
                Measured::Times { time_ms, samples_ms }
            }
            (None, None) => Measured::Failed(failure_of(time.as_ref())),
        };
        Ok(Entry { measured, spent_ms, timestamp })
    }
}

/// Kernel Tuner puts the name of an error in place of a time.
fn failure_of(time: Option<&Json>) -> Failure {
    match time.and_then(Json::as_str) {
        Some("CompilationFailedConfig") => Failure::Compile,
        Some("InvalidConfig") => Failure::Constraints,
        _ => Failure::Runtime,
    }
}

/// The values of one tunable, with a way back from a value to its place.
struct TunableValues {
    values: Vec<Value>,
    places: HashMap<String, u16>,
}

impl TunableValues {
    /// Starts with the values that a file lists, if it does.
    fn new(listed: Option<Vec<Value>>) -> Self {
        let mut tunable = Self { values: Vec::new(), places: HashMap::new() };
        for value in listed.unwrap_or_default() {
            tunable.index_of(value);
        }
        tunable
    }

    fn index_of(&mut self, value: Value) -> u16 {
        // Text of the value and of its kind: 1, 1.0 and true are three values.
        let key = format!("{value:?}");
        if let Some(place) = self.places.get(&key) {
            return *place;
        }
        let place = self.values.len() as u16;
        self.values.push(value);
        self.places.insert(key, place);
        place
    }
}

struct DocumentVisitor;

impl<'de> Visitor<'de> for DocumentVisitor {
    type Value = Document;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object with `cache` or `results`")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Document, A::Error> {
        let mut document = Document::default();
        let text = |json: Json| json.as_str().map_or_else(|| json.to_string(), str::to_string);
        while let Some(key) = map.next_key::<String>()? {
            match key.as_str() {
                "device_name" => document.device = text(map.next_value()?),
                "kernel_name" => document.kernel = text(map.next_value()?),
                "problem_size" => document.problem_size = map.next_value()?,
                "tune_params_keys" => document.keys = Some(map.next_value()?),
                "tune_params" => document.values = map.next_value()?,
                "schema_version" => document.version = Some(map.next_value()?),
                "cache" => {
                    document.has_cache = true;
                    let Document { names, entries, keys, .. } = &mut document;
                    map.next_value_seed(Entries { names, entries, keys: keys.as_deref() })?;
                }
                "results" => {
                    document.has_results = true;
                    let Document { names, entries, .. } = &mut document;
                    map.next_value_seed(Entries { names, entries, keys: None })?;
                }
                _ => {
                    map.next_value::<IgnoredAny>()?;
                }
            }
        }
        Ok(document)
    }
}

/// The entries of a cache (an object) or of results (a list).
struct Entries<'a> {
    names: &'a mut Names,
    entries: &'a mut Vec<RawEntry>,
    /// Which fields of an entry are parameters, where that is known already.
    keys: Option<&'a [String]>,
}

impl<'de> DeserializeSeed<'de> for Entries<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Entries<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the recorded configurations")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        while map.next_key::<IgnoredAny>()?.is_some() {
            let entry = map.next_value_seed(CacheEntry { names: self.names, keys: self.keys })?;
            self.entries.push(entry);
        }
        Ok(())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<(), A::Error> {
        while let Some(entry) = seq.next_element_seed(ResultEntry { names: self.names })? {
            self.entries.push(entry);
        }
        Ok(())
    }
}

/// An entry of a Kernel Tuner cache.
struct CacheEntry<'a> {
    names: &'a mut Names,
    keys: Option<&'a [String]>,
}

impl<'de> DeserializeSeed<'de> for CacheEntry<'_> {
    type Value = RawEntry;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<RawEntry, D::Error> {
        deserializer.deserialize_map(self)
    }
}

impl<'de> Visitor<'de> for CacheEntry<'_> {
    type Value = RawEntry;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an entry of a Kernel Tuner cache")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<RawEntry, A::Error> {
        let mut entry = RawEntry::default();
        while let Some(key) = map.next_key::<std::borrow::Cow<'de, str>>()? {
            match key.as_ref() {
                "time" => entry.time = Some(map.next_value()?),
                "times" => entry.samples_ms = map.next_value()?,
                "compile_time" => entry.spent_ms.compile = lenient(map.next_value()?),
                "verification_time" => entry.spent_ms.verification = lenient(map.next_value()?),
                "benchmark_time" => entry.spent_ms.benchmark = lenient(map.next_value()?),
                "strategy_time" => entry.spent_ms.strategy = lenient(map.next_value()?),
                "framework_time" => entry.spent_ms.framework = lenient(map.next_value()?),
                "timestamp" => entry.timestamp = map.next_value::<Json>()?.as_str().map(Into::into),
                name if self.keys.is_none_or(|keys| keys.iter().any(|key| key == name)) => {
                    if let Some(value) = plain(map.next_value()?) {
                        entry.params.push((self.names.number(name), value));
                    }
                }
                _ => {
                    map.next_value::<IgnoredAny>()?;
                }
            }
        }
        Ok(entry)
    }
}

/// An entry of T4 results.
struct ResultEntry<'a> {
    names: &'a mut Names,
}

impl<'de> DeserializeSeed<'de> for ResultEntry<'_> {
    type Value = RawEntry;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<RawEntry, D::Error> {
        deserializer.deserialize_map(self)
    }
}

impl<'de> Visitor<'de> for ResultEntry<'_> {
    type Value = RawEntry;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an entry of T4 results")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<RawEntry, A::Error> {
        let mut entry = RawEntry::default();
        while let Some(key) = map.next_key::<String>()? {
            match key.as_str() {
                "configuration" => {
                    // One at a time, so that the parameters keep the file's order.
                    entry.params = map.next_value_seed(Configuration { names: self.names })?;
                }
                "times" => {
                    let mut times: HashMap<String, Json> = map.next_value()?;
                    let spent = |name: &str| times.get(name).cloned().map_or(0.0, lenient);
                    entry.spent_ms = Spent {
                        compile: spent("compilation"),
                        verification: spent("validation"),
                        benchmark: spent("benchmark"),
                        strategy: spent("search_algorithm"),
                        framework: spent("framework"),
                    };
                    if let Some(Json::Array(runtimes)) = times.remove("runtimes") {
                        entry.samples_ms = runtimes.iter().filter_map(Json::as_f64).collect();
                    }
                }
                "invalidity" => entry.failure = invalidity(&map.next_value::<Json>()?),
                "measurements" => entry.time = time_of(&map.next_value()?),
                "timestamp" => entry.timestamp = map.next_value::<Json>()?.as_str().map(Into::into),
                _ => {
                    map.next_value::<IgnoredAny>()?;
                }
            }
        }
        Ok(entry)
    }
}

struct Configuration<'a> {
    names: &'a mut Names,
}

impl<'de> DeserializeSeed<'de> for Configuration<'_> {
    type Value = Vec<(usize, Value)>;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Self::Value, D::Error> {
        deserializer.deserialize_map(self)
    }
}

impl<'de> Visitor<'de> for Configuration<'_> {
    type Value = Vec<(usize, Value)>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the values of a configuration")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let mut params = Vec::new();
        while let Some(key) = map.next_key::<String>()? {
            if let Some(value) = plain(map.next_value()?) {
                params.push((self.names.number(&key), value));
            }
        }
        Ok(params)
    }
}

/// Returns a parameter's value; none for what cannot be one.
fn plain(json: Json) -> Option<Value> {
    match json {
        Json::Bool(value) => Some(Value::Bool(value)),
        Json::String(text) => Some(Value::Str(text)),
        Json::Number(number) => match number.as_i64() {
            Some(integer) => Some(Value::Int(integer)),
            None => number.as_f64().map(Value::Float),
        },
        Json::Null | Json::Array(_) | Json::Object(_) => None,
    }
}

/// What was spent is for information: a file without it is good, too.
fn lenient(json: Json) -> f64 {
    json.as_f64().unwrap_or(0.0)
}

fn invalidity(json: &Json) -> Option<Failure> {
    match json.as_str()? {
        "timeout" => Some(Failure::Timeout),
        "compile" => Some(Failure::Compile),
        "runtime" => Some(Failure::Runtime),
        "correctness" => Some(Failure::Correctness),
        "constraints" => Some(Failure::Constraints),
        _ => None,
    }
}

/// Returns the measurement called `time`, else the first.
fn time_of(measurements: &Json) -> Option<Json> {
    let all = measurements.as_array()?;
    let named = all.iter().find(|measurement| measurement["name"] == "time");
    Some(named.or_else(|| all.first())?["value"].clone())
}
