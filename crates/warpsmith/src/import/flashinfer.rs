//! FlashInfer-Trace folders: definitions, workloads and solutions, as JSON and JSON lines.

use std::collections::BTreeMap;
use std::path::{Component, Path, PathBuf};

use anyhow::{Context as _, Result, bail};
use indexmap::IndexMap;
use serde_json::value::RawValue;
use serde_json::{Map, Value, json};
use warpsmith_model::lab::{ProblemFormat, TargetKind};
use warpsmith_model::suggest;

use super::{Importer, Made, Problem, Solution, identifier, read};

/// The function that a definition's reference has.
const REFERENCE_ENTRY: &str = "run";
/// Folders inside of folders that are looked into.
const MOST_DEPTH: usize = 8;
/// More workloads would make every check of a kernel take hours.
const MOST_WORKLOADS: usize = 64;

/// What a folder holds, by the definition's name.
#[derive(Debug)]
pub struct Dataset {
    folder: PathBuf,
    definitions: BTreeMap<String, Definition>,
    workloads: BTreeMap<String, Vec<Workload>>,
    solutions: BTreeMap<String, Vec<(PathBuf, Value)>>,
}

#[derive(Debug)]
struct Definition {
    path: PathBuf,
    /// The value where it is constant.
    axes: Vec<(String, Option<i64>)>,
    inputs: IndexMap<String, Value>,
    outputs: IndexMap<String, Value>,
    reference: String,
    constraints: Vec<String>,
}

#[derive(Debug)]
struct Workload {
    /// The file and the line, for messages.
    place: String,
    uuid: String,
    axes: Map<String, Value>,
    inputs: Map<String, Value>,
}

impl Dataset {
    /// Reads a folder.
    pub fn read(folder: &Path) -> Result<Self> {
        let definitions_dir = folder.join("definitions");
        if !definitions_dir.is_dir() {
            bail!(
                "{} is no FlashInfer-Trace folder: it has no folder `definitions`\nhint: name the \
                 folder that holds definitions/, workloads/ and solutions/",
                folder.display()
            );
        }
        let mut definitions = BTreeMap::new();
        for path in files(&definitions_dir, "json")? {
            let (name, definition) = definition(&path)
                .with_context(|| format!("the definition {} is not valid", path.display()))?;
            if definitions.insert(name.clone(), definition).is_some() {
                bail!("there are two definitions named `{name}`; one is {}", path.display());
            }
        }
        let mut workloads: BTreeMap<String, Vec<Workload>> = BTreeMap::new();
        for path in files(&folder.join("workloads"), "jsonl")? {
            for (idx, line) in read_lines(&path)?.lines().enumerate() {
                if line.trim().is_empty() {
                    continue;
                }
                let place = format!("{}:{}", path.display(), idx + 1);
                let (of, workload) = workload(line, &place)
                    .with_context(|| format!("the workload at {place} is not valid"))?;
                workloads.entry(of).or_default().push(workload);
            }
        }
        let mut solutions: BTreeMap<String, Vec<(PathBuf, Value)>> = BTreeMap::new();
        for path in files(&folder.join("solutions"), "json")? {
            let solution: Value = serde_json::from_str(&read(&path)?)
                .with_context(|| format!("the solution {} is not JSON", path.display()))?;
            let of = text(&solution, "definition")
                .with_context(|| format!("the solution {} is not valid", path.display()))?;
            solutions.entry(of).or_default().push((path, solution));
        }
        Ok(Self { folder: folder.to_path_buf(), definitions, workloads, solutions })
    }

    /// Returns the definitions that were asked for, or all.
    pub fn names(&self, wanted: &[String]) -> Result<Vec<String>> {
        if self.definitions.is_empty() {
            bail!("{} has no definitions (definitions/**/*.json)", self.folder.display());
        }
        for name in wanted {
            if !self.definitions.contains_key(name) {
                let known = self.definitions.keys().map(String::as_str);
                let meant = suggest::closest(name, known.clone());
                let meant =
                    meant.map_or_else(String::new, |meant| format!("did you mean `{meant}`? "));
                let known: Vec<&str> = known.collect();
                bail!(
                    "there is no definition `{name}`\nhint: {meant}there are {}",
                    known.join(", ")
                );
            }
        }
        Ok(match wanted {
            [] => self.definitions.keys().cloned().collect(),
            wanted => wanted.to_vec(),
        })
    }
}

impl Importer<'_> {
    /// Makes a lab of a definition.
    pub fn flashinfer(&self, dataset: &Dataset, name: &str) -> Result<Made> {
        let definition = dataset.definitions.get(name).context("the definition was listed")?;
        let lab_name = identifier(name);
        self.check_free(&lab_name)?;
        let mut notes = Vec::new();
        let none = Vec::new();
        let workloads = dataset.workloads.get(name).unwrap_or(&none);
        let question = question(definition, workloads, self.target, &mut notes)
            .with_context(|| definition.path.display().to_string())?;
        let mut solutions = Vec::new();
        for (path, value) in dataset.solutions.get(name).unwrap_or(&Vec::new()) {
            let solution = solution(value, &mut notes)
                .with_context(|| format!("the solution {} is not valid", path.display()))?;
            if solutions.iter().any(|other: &Solution| other.name == solution.name) {
                bail!(
                    "the solution {} has the name of another: `{}`",
                    path.display(),
                    solution.name
                );
            }
            solutions.push(solution);
        }
        let mut seen =
            self.look(question).with_context(|| definition.path.display().to_string())?;
        if let Some(found) = seen["notes"].as_array_mut() {
            found.extend(notes.into_iter().map(Value::from));
        }
        self.make(&Problem {
            name: lab_name,
            format: ProblemFormat::FlashInfer,
            original: name.to_string(),
            text: definition.reference.clone(),
            seen,
            solutions,
        })
    }
}

fn definition(path: &Path) -> Result<(String, Definition)> {
    let source = read(path)?;
    let parts: BTreeMap<String, Box<RawValue>> =
        serde_json::from_str(&source).context("it is no JSON object")?;
    // The order of tensors is the interface, so these keep it.
    let entries = |key: &str| -> Result<IndexMap<String, Value>> {
        let part = parts.get(key).with_context(|| format!("`{key}` is missing"))?;
        serde_json::from_str(part.get()).with_context(|| format!("`{key}` is no object"))
    };
    let word = |key: &str| -> Result<String> {
        let part = parts.get(key).with_context(|| format!("`{key}` is missing"))?;
        serde_json::from_str(part.get()).with_context(|| format!("`{key}` is no text"))
    };
    let mut axes = Vec::new();
    for (axis, value) in entries("axes")? {
        let constant = match value["type"].as_str() {
            Some("var") => None,
            Some("const") => {
                let extent = value["value"].as_i64().filter(|extent| *extent > 0);
                Some(extent.with_context(|| {
                    format!(
                        "the constant axis `{axis}` has the value {}; it is at least 1",
                        value["value"]
                    )
                })?)
            }
            _ => bail!(
                "the axis `{axis}` has the type {}; it is \"const\" or \"var\"",
                value["type"]
            ),
        };
        axes.push((axis, constant));
    }
    let (inputs, outputs) = (entries("inputs")?, entries("outputs")?);
    for (name, tensor) in inputs.iter().chain(&outputs) {
        let Some(shape) = tensor["shape"].as_array() else {
            if tensor["shape"].is_null() && tensor.get("shape").is_some() {
                continue;
            }
            bail!("`{name}` has no `shape`; it is a list of axes, or null for a number");
        };
        for axis in shape {
            let known = || axes.iter().map(|(axis, _)| axis.as_str());
            let axis = axis.as_str().with_context(|| format!("`{name}` has the extent {axis}"))?;
            if !known().any(|known| known == axis) {
                let meant = suggest::closest(axis, known());
                let meant =
                    meant.map_or_else(String::new, |it| format!("\nhint: did you mean `{it}`?"));
                bail!("`{name}` names the axis `{axis}`, which is not defined{meant}");
            }
        }
    }
    if let Some(name) = outputs.keys().find(|name| inputs.contains_key(*name)) {
        bail!("`{name}` is both an input and an output");
    }
    let constraints = match parts.get("constraints") {
        Some(part) => serde_json::from_str::<Option<Vec<String>>>(part.get())
            .context("`constraints` is no list of texts")?
            .unwrap_or_default(),
        None => Vec::new(),
    };
    let definition = Definition {
        path: path.to_path_buf(),
        axes,
        inputs,
        outputs,
        reference: word("reference")?,
        constraints,
    };
    Ok((word("name")?, definition))
}

fn workload(line: &str, place: &str) -> Result<(String, Workload)> {
    let value: Value = serde_json::from_str(line).context("it is not JSON")?;
    let object = |key: &str| -> Result<Map<String, Value>> {
        let found = value["workload"][key].as_object().cloned();
        found.with_context(|| format!("`workload.{key}` is no object"))
    };
    let workload = Workload {
        place: place.to_string(),
        uuid: text(&value["workload"], "uuid")?,
        axes: object("axes")?,
        inputs: object("inputs")?,
    };
    Ok((text(&value, "definition")?, workload))
}

/// Says what `look.py` must know: everything that the definition states.
fn question(
    definition: &Definition,
    workloads: &[Workload],
    target: TargetKind,
    notes: &mut Vec<String>,
) -> Result<Value> {
    let mut tensors = Vec::new();
    let mut arguments = Vec::new();
    let mut numbers: Vec<(String, &str, &str)> = Vec::new();
    for (name, tensor) in &definition.inputs {
        if tensor["shape"].is_null() {
            let (dtype, kind) = match tensor["dtype"].as_str() {
                Some("float32" | "float16" | "bfloat16") => ("f32", "float"),
                Some("float64") => ("f64", "float"),
                Some("int64" | "int32" | "int16" | "int8") => ("i64", "int"),
                other => bail!("the number `{name}` is {}", other.unwrap_or("of no type")),
            };
            arguments.push(json!({ "scalar": name, "type": kind }));
            numbers.push((name.clone(), dtype, kind));
        } else {
            tensors.push(described(name, tensor, "input")?);
            arguments.push(json!({ "tensor": name }));
        }
    }
    for (name, tensor) in &definition.outputs {
        tensors.push(described(name, tensor, "output")?);
    }
    let (shapes, scalars) = shapes(definition, workloads, &numbers, notes)?;
    let elements: Map<String, Value> = tensors
        .iter()
        .filter_map(|tensor| Some((tensor["name"].as_str()?.to_string(), tensor["dtype"].clone())))
        .collect();
    let outputs: Vec<Value> = definition
        .outputs
        .iter()
        .map(|(name, tensor)| json!({ "name": name, "shape": tensor["shape"] }))
        .collect();
    let variable: Vec<&String> =
        definition.axes.iter().filter(|(_, value)| value.is_none()).map(|(axis, _)| axis).collect();
    Ok(json!({
        "kind": "function",
        "entry": REFERENCE_ENTRY,
        "text": definition.reference,
        "file": "problem.py",
        "mode": "train",
        "axes": definition.axes.iter().map(|(axis, _)| axis).collect::<Vec<_>>(),
        "variable": variable,
        "tensors": tensors,
        "scalars": scalars,
        "workloads": shapes,
        "constraints": definition.constraints,
        "plan": {
            "kind": "function",
            "entry": REFERENCE_ENTRY,
            "returns": true,
            "target": target.name(),
            "mode": "train",
            "constants": [],
            "arguments": arguments,
            "weights": [],
            "outputs": definition.outputs.keys().collect::<Vec<_>>(),
            "output_shapes": outputs,
            "elements": elements,
        },
    }))
}

fn described(name: &str, tensor: &Value, role: &str) -> Result<Value> {
    let dtype = match tensor["dtype"].as_str() {
        Some("float16") => "f16",
        Some("bfloat16") => "bf16",
        Some("float32") => "f32",
        Some("float64") => "f64",
        other => bail!(
            "the {role} `{name}` has elements of type {}; tensors are float16, bfloat16, float32 or \
             float64\nhint: problems with index tensors or 8-bit types cannot be imported yet",
            other.unwrap_or("unknown")
        ),
    };
    if tensor["shape"].as_array().is_none_or(Vec::is_empty) {
        bail!("the {role} `{name}` has no extents");
    }
    // What the format means by `random`.
    let spread = json!({ "normal": { "mean": 0.0, "std": 1.0 } });
    Ok(json!({
        "name": name, "shape": tensor["shape"], "dtype": dtype, "role": role, "spread": spread,
    }))
}

/// Returns the shapes of the workloads that can be drawn, each once, and the numbers that they pass.
fn shapes(
    definition: &Definition,
    workloads: &[Workload],
    numbers: &[(String, &str, &str)],
    notes: &mut Vec<String>,
) -> Result<(Vec<Value>, Vec<Value>)> {
    let mut shapes: Vec<Value> = Vec::new();
    let mut scalars: Option<Vec<Value>> = None;
    let (mut same, mut beyond) = (0, 0);
    for workload in workloads {
        let axes = bind(definition, workload)
            .with_context(|| format!("the workload at {}", workload.place))?;
        if let Some(reason) = stored_data(definition, workload)? {
            notes.push(format!("the workload {} was left out: {reason}", workload.uuid));
            continue;
        }
        let mut values = Vec::new();
        for (name, dtype, kind) in numbers {
            let given = &workload.inputs[name.as_str()];
            let value = given["value"].as_f64().with_context(|| {
                format!("the workload at {} has no number for `{name}`", workload.place)
            })?;
            let text =
                if *kind == "int" { format!("{}", value as i64) } else { format!("{value:?}") };
            values.push(json!({ "name": name, "dtype": dtype, "value": text }));
        }
        if scalars.as_ref().is_some_and(|first| *first != values) {
            let reason = "it passes other numbers than the first, and a lab has one of each";
            notes.push(format!("the workload {} was left out: {reason}", workload.uuid));
            continue;
        }
        scalars = Some(values);
        if shapes.iter().any(|shape| shape["axes"] == axes) {
            same += 1;
        } else if shapes.len() == MOST_WORKLOADS {
            beyond += 1;
        } else {
            shapes.push(json!({ "name": workload.uuid, "axes": axes }));
        }
    }
    if same > 0 {
        notes.push(format!(
            "{same} workload(s) have the shape of an earlier one, which stands for them"
        ));
    }
    if beyond > 0 {
        notes.push(format!("{beyond} workload(s) beyond the first {MOST_WORKLOADS} were left out"));
    }
    if shapes.is_empty() {
        let all = workloads.len();
        let left_out =
            if notes.is_empty() { String::new() } else { format!("\n{}", notes.join("\n")) };
        bail!(
            "none of its {all} workload(s) can be imported{left_out}\nhint: add a line to \
             workloads/**/*.jsonl with `axes` and inputs of type `random`"
        );
    }
    Ok((shapes, scalars.unwrap_or_default()))
}

/// Gives every axis its value: the definition's or the workload's.
fn bind(definition: &Definition, workload: &Workload) -> Result<Value> {
    let known = || definition.axes.iter().map(|(axis, _)| axis.as_str());
    for name in workload.axes.keys() {
        if !known().any(|known| known == name) {
            let meant = suggest::closest(name, known());
            let meant =
                meant.map_or_else(String::new, |it| format!("\nhint: did you mean `{it}`?"));
            bail!("it has the axis `{name}`, which the definition has not{meant}");
        }
    }
    let mut axes = Map::new();
    for (axis, constant) in &definition.axes {
        let given = workload.axes.get(axis);
        let value = match (constant, given) {
            (Some(constant), Some(given)) if given.as_i64() != Some(*constant) => {
                bail!("it says that `{axis}` is {given}; the definition says {constant}")
            }
            (Some(constant), _) => *constant,
            (None, Some(given)) => given
                .as_i64()
                .filter(|value| *value > 0)
                .with_context(|| format!("`{axis}` is {given}; an extent is at least 1"))?,
            (None, None) => bail!("it has no value for the axis `{axis}`"),
        };
        axes.insert(axis.clone(), json!(value));
    }
    Ok(Value::Object(axes))
}

/// Says why a workload cannot be drawn: it names data that is stored elsewhere.
fn stored_data(definition: &Definition, workload: &Workload) -> Result<Option<String>> {
    for (name, tensor) in &definition.inputs {
        let given = &workload.inputs.get(name).unwrap_or(&Value::Null)["type"];
        match (given.as_str(), tensor["shape"].is_null()) {
            (Some("random"), false) | (Some("scalar"), true) => {}
            (Some("safetensors"), _) => {
                let reason = format!("`{name}` is stored data, and labs draw their inputs anew");
                return Ok(Some(reason));
            }
            _ => bail!(
                "the workload at {} gives `{name}` as {given}; a tensor is \"random\", a number \
                 \"scalar\"",
                workload.place
            ),
        }
    }
    Ok(None)
}

fn solution(value: &Value, notes: &mut Vec<String>) -> Result<Solution> {
    let name = text(value, "name")?;
    let spec = &value["spec"];
    let entry = text(spec, "entry_point").context("`spec`")?;
    let (file, function) = entry.split_once("::").with_context(|| {
        format!("the entry point `{entry}` is not understood; it is FILE::FUNCTION")
    })?;
    let mut sources = Vec::new();
    for source in value["sources"].as_array().context("`sources` is no list")? {
        let path = text(source, "path").context("`sources`")?;
        check_path(&path)?;
        sources.push((path, text(source, "content").context("`sources`")?));
    }
    let index = sources.iter().position(|(path, _)| path == file);
    let index =
        index.with_context(|| format!("there is no source `{file}` for the entry point"))?;
    let language = text(spec, "language").context("`spec`")?;
    let is_runnable = language == "python" && sources.len() == 1;
    let is_function = function.chars().all(|it| it.is_ascii_alphanumeric() || it == '_');
    let returns = spec["destination_passing_style"] == false;
    if !is_runnable {
        notes.push(format!(
            "the solution `{name}` ({language}, {} file(s)) is kept in solutions/ to read: its host code \
             is not run here",
            sources.len()
        ));
    }
    let author = value["author"].as_str().unwrap_or("unknown").replace(['\n', '\r'], " ");
    Ok(Solution {
        name: format!("by_{}", identifier(&name)),
        summary: format!("{} by {author}", name.replace(['\n', '\r'], " ")),
        sources,
        runs: (is_runnable && is_function).then(|| (index, function.to_string(), returns)),
    })
}

/// Refuses paths that lead out of the solution's own folder.
fn check_path(path: &str) -> Result<()> {
    let is_inside = Path::new(path).components().all(|part| matches!(part, Component::Normal(_)));
    if path.is_empty() || !is_inside || path.contains('\\') || path.contains('\0') {
        bail!(
            "the source path {} leads out of the solution's folder\nhint: paths are relative, \
             without `..`",
            Value::from(path)
        );
    }
    Ok(())
}

fn text(value: &Value, key: &str) -> Result<String> {
    let found = value[key].as_str().filter(|text| !text.is_empty());
    found.map(str::to_string).with_context(|| format!("`{key}` is missing or no text"))
}

fn read_lines(path: &Path) -> Result<String> {
    std::fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))
}

/// Lists the files with an ending below a folder, in order; none where there is no folder.
fn files(folder: &Path, ending: &str) -> Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    let mut folders = vec![(folder.to_path_buf(), 0)];
    while let Some((folder, depth)) = folders.pop() {
        if !folder.is_dir() {
            continue;
        }
        let entries = std::fs::read_dir(&folder)
            .with_context(|| format!("cannot list {}", folder.display()))?;
        for entry in entries {
            let entry = entry.with_context(|| format!("cannot list {}", folder.display()))?;
            let path = entry.path();
            let kind = entry.file_type().with_context(|| path.display().to_string())?;
            if kind.is_dir() && depth < MOST_DEPTH {
                folders.push((path, depth + 1));
            } else if kind.is_file() && path.extension().is_some_and(|it| it == ending) {
                found.push(path);
            }
        }
    }
    found.sort();
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::check_path;

    #[test]
    fn source_paths_stay_inside() {
        for path in ["main.py", "src/kernel.cu"] {
            check_path(path).expect(path);
        }
        for path in ["", "../x", "a/../../x", "/etc/passwd", "a\\..\\b", "./x"] {
            assert!(check_path(path).is_err(), "{path}");
        }
    }
}
