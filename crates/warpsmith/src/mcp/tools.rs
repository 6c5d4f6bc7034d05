//! The tools: what they are called, what they are for, what they are given.
//!
//! Descriptions are written for the model that reads them: each says when to use its tool and what to
//! do with the answer. Arguments that nobody knows are refused, so that a misspelt one is not ignored.

use std::collections::BTreeMap;
use std::sync::Arc;

use rmcp::model::{JsonObject, Tool, ToolAnnotations};
use schemars::JsonSchema;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use warpsmith_model::Value;

/// Contenders of a comparison at most: each round measures all of them.
pub const MAX_CONTENDERS: usize = 8;

/// Arguments of a tool that needs none.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct NoArgs {}

/// Which kernel to read.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ReadKernelArgs {
    /// Lab, as list_labs names it, such as `rmsnorm` or `rmsnorm/cuda`
    pub lab: String,
    /// Kernel of the lab, such as `10_vector`
    pub kernel: String,
}

/// A candidate: a kernel of the lab, or a new source that keeps its contract.
#[derive(Debug, Deserialize, JsonSchema)]
pub struct CandidateArgs {
    /// Lab, as list_labs names it
    pub lab: String,
    /// Kernel of the lab whose contract the candidate keeps: entry names, parameters of the functions,
    /// launches and flags stay as they are. Without `source` and `file` it is the candidate itself
    pub kernel: String,
    /// The complete source of the candidate, at most 65536 bytes
    #[serde(default)]
    pub source: Option<String>,
    /// Instead of `source`: a .c or .cu file, by its path from the folder that the server was started
    /// in
    #[serde(default)]
    pub file: Option<String>,
    /// Values for tunables of the contract or of `tunables`, such as {"UNROLL": 4}; the others keep
    /// their defaults
    #[serde(default)]
    #[schemars(with = "BTreeMap<String, serde_json::Value>")]
    pub params: BTreeMap<String, Value>,
    /// Further macros that the new source uses without defining them, each with its values, the default
    /// first, such as {"ROWS": [4, 1, 16]}; at most 4 with at most 8 integers each
    #[serde(default)]
    pub tunables: BTreeMap<String, Vec<i64>>,
    /// A few words that name the candidate in the evidence
    #[serde(default)]
    pub title: Option<String>,
    /// What should make it faster, in a sentence; kept in the evidence
    #[serde(default)]
    pub thought: Option<String>,
}

/// How thoroughly to evaluate.
#[derive(Clone, Copy, Debug, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Gate {
    /// One seed and short timing: seconds; for trying things out
    #[default]
    Quick,
    /// Every check on every workload with inputs that nobody knows beforehand, and long timing: what
    /// enters the leaderboard
    Full,
}

/// What to evaluate.
#[derive(Debug, Deserialize, JsonSchema)]
pub struct EvaluateArgs {
    /// The candidate.
    #[serde(flatten)]
    pub candidate: CandidateArgs,
    /// `quick` (the default) to try things out, `full` for the leaderboard
    #[serde(default)]
    pub gate: Gate,
}

/// What to profile.
#[derive(Debug, Deserialize, JsonSchema)]
pub struct ProfileArgs {
    /// The candidate.
    #[serde(flatten)]
    pub candidate: CandidateArgs,
    /// CUDA: workloads to profile; by default the one with the most work
    #[serde(default)]
    pub workloads: Vec<String>,
}

/// Who is compared.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct CompareArgs {
    /// Lab, as list_labs names it
    pub lab: String,
    /// Two to eight: `trial:ID` of an evaluation, a kernel (`10_vector`), a kernel with parameters
    /// (`10_vector:UNROLL=8,BLOCK=4096`), a baseline, `run:NAME` for the winner of a run. The others are
    /// measured against the first
    pub contenders: Vec<String>,
    /// Workloads; by default all of the lab's
    #[serde(default)]
    pub workloads: Vec<String>,
}

/// Which ranking to read.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct LeaderboardArgs {
    /// Lab, as list_labs names it
    pub lab: String,
    /// `full` (the default): what passed the full gate. `quick`: what passed the quick one, which is a
    /// ranking of ideas and no record
    #[serde(default = "full")]
    pub gate: Gate,
    /// Places to show, 10 by default
    #[serde(default = "ten")]
    pub limit: usize,
}

fn full() -> Gate {
    Gate::Full
}

fn ten() -> usize {
    10
}

/// Which trial to read.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ReadTrialArgs {
    /// Trial, by its id or a unique beginning of it
    pub trial: String,
    /// Whether to include the candidate's source
    #[serde(default)]
    pub source: bool,
}

/// What the server says of itself when an agent arrives.
pub const INSTRUCTIONS: &str = "\
Warpsmith makes compute kernels fast and proves that they are right. A lab says what to compute, has a \
reference, a ladder of kernels and workloads. You write a candidate that keeps the contract of one of the \
lab's kernels; warpsmith compiles it, checks it and times it.

A good way to work:
1. list_labs, then read_kernel for the kernel that you want to beat (the task, the rules, source, contract).
2. leaderboard: what to beat, and how far it is from what the machine allows.
3. evaluate a complete source with the quick gate. The answer has the first compiler errors, or where and by \
how much the output is wrong, or the times with the gap to the best and to the roofline. Change one thing at \
a time.
4. profile when it is unclear what holds a candidate back.
5. evaluate the best with gate `full`: only that enters the leaderboard.
6. compare it with the former best in interleaved rounds before you call it faster: single times drift.

Evaluations run one at a time. Every one is recorded with its source.";

/// Lists the tools.
pub fn all() -> Vec<Tool> {
    let reads = || ToolAnnotations::new().read_only(true).open_world(false);
    // Measures and records: adds to the evidence, changes nothing that is there.
    let measures = || {
        ToolAnnotations::new()
            .read_only(false)
            .destructive(false)
            .idempotent(true)
            .open_world(false)
    };
    vec![
        tool::<NoArgs>(
            "list_labs",
            "List labs",
            "Lists the labs: what each computes, its target, workloads, kernels (slowest idea first, \
             each with a one-line summary) and baselines. Start here.",
            reads(),
        ),
        tool::<ReadKernelArgs>(
            "read_kernel",
            "Read a kernel",
            "Returns a kernel's source and contract with the task and the rules that every candidate \
             must keep: signature, tolerance, shapes, compiler flags, macros, headers. Read it before you \
             write a candidate.",
            reads(),
        ),
        tool::<EvaluateArgs>(
            "evaluate",
            "Evaluate a candidate",
            "Compiles, checks and times a candidate: a complete new source that keeps the contract of \
             `kernel`, or, without a source, that kernel itself with other `params`. A failing candidate \
             is an answer, not an error: it says what is wrong and where. A passing one gets times, a new \
             source at the gate `quick` the speed-up over `kernel`, the gap to the best on record and to the roofline, and what to try \
             next. Takes seconds, with gate `full` up to minutes; can be cancelled; reports progress.",
            measures(),
        ),
        tool::<ProfileArgs>(
            "profile",
            "Profile a candidate",
            "Says what holds a candidate back. CUDA: runs it under Nsight Compute and diagnoses memory, \
             arithmetic, waiting or launch, with advice; without permission for counters it rests on the \
             machine code and says so. CPU: the distance to the measured ceilings, by workload.",
            measures(),
        ),
        tool::<CompareArgs>(
            "compare",
            "Compare candidates",
            "Measures two to eight contenders against each other in interleaved rounds and returns \
             speed-ups with 95 % intervals; a tie is called a tie. The way to decide whether one \
             candidate is really faster. Candidates of yours are `trial:ID` from evaluate.",
            measures(),
        ),
        tool::<LeaderboardArgs>(
            "leaderboard",
            "Read the leaderboard",
            "Ranks what passed the full gate on this lab as it is now, over all runs in the newest \
             run's environment, fastest first, with trial ids. A kernel that was wrong anywhere is not \
             on it.",
            reads(),
        ),
        tool::<ReadTrialArgs>(
            "read_trial",
            "Read a trial's evidence",
            "Returns what is on record about one evaluation: verdict, times with intervals, errors, \
             the compiler's commands, notes, and the source on request.",
            reads(),
        ),
    ]
}

fn tool<T: JsonSchema>(
    name: &'static str,
    title: &'static str,
    description: &'static str,
    annotations: ToolAnnotations,
) -> Tool {
    Tool::new(name, description, Arc::new(schema::<T>()))
        .with_title(title)
        .with_annotations(annotations)
}

/// Returns the schema of a tool's arguments.
fn schema<T: JsonSchema>() -> JsonObject {
    let mut schema = schemars::generate::SchemaSettings::draft2020_12()
        .with(|settings| settings.inline_subschemas = true)
        .into_generator()
        .into_root_schema_for::<T>()
        .to_value();
    let object = schema.as_object_mut().expect("a struct's schema is an object");
    // Notes on our own types, and titles that repeat a type's name, tell an agent nothing.
    object.remove("title");
    object.remove("description");
    object.remove("$schema");
    object.insert("type".to_string(), "object".into());
    object.entry("properties").or_insert_with(|| serde_json::json!({}));
    object.insert("additionalProperties".to_string(), false.into());
    object.values_mut().for_each(unwrap_lines);
    std::mem::take(object)
}

/// Takes the line breaks of our comments out of descriptions.
fn unwrap_lines(schema: &mut serde_json::Value) {
    match schema {
        serde_json::Value::Object(parts) => {
            for (name, part) in parts {
                match part {
                    serde_json::Value::String(text) if name == "description" => {
                        *text = text.replace('\n', " ");
                    }
                    part => unwrap_lines(part),
                }
            }
        }
        serde_json::Value::Array(parts) => parts.iter_mut().for_each(unwrap_lines),
        _ => {}
    }
}

/// Reads a tool's arguments, or says what is wrong with them.
pub fn read<T: DeserializeOwned + JsonSchema>(arguments: Option<JsonObject>) -> Result<T, String> {
    let arguments = arguments.unwrap_or_default();
    let schema = schema::<T>();
    let known = schema.get("properties").and_then(|it| it.as_object());
    let known: Vec<&str> = known.into_iter().flatten().map(|(name, _)| name.as_str()).collect();
    if let Some(name) = arguments.keys().find(|name| !known.contains(&name.as_str())) {
        let shown: String = name.chars().take(60).collect();
        let why = match name.as_str() {
            "contract" | "flags" | "launch" | "entry" | "tolerance" => {
                "; a candidate keeps the contract of its kernel, and cannot bring one"
            }
            _ => "",
        };
        return Err(format!(
            "there is no argument `{shown}`{why}\nhint: the arguments are {}",
            if known.is_empty() { "none".to_string() } else { known.join(", ") }
        ));
    }
    serde_json::from_value(serde_json::Value::Object(arguments)).map_err(|error| {
        format!(
            "the arguments are not understood: {error}\nhint: the arguments are {}",
            known.join(", ")
        )
    })
}
