//! Writes the files of a lab that was made from a problem.

use anyhow::{Context as _, Result};
use serde_json::Value;
use warpsmith_model::lab::{ProblemFormat, TargetKind};

use super::{ADAPTER, Problem};

const REFERENCE: &str = include_str!("reference.py");
const BASELINE: &str = include_str!("baseline.py");

/// Megabytes that NumPy takes, and that PyTorch with what it needs takes from PyPI.
const NUMPY_MB: u32 = 75;
const TORCH_MB: u32 = 6500;
/// Elements of an output with a single axis that a block of the starting kernel is for.
const FLAT_BLOCK: u32 = 1024;

/// Another implementation of a problem.
#[derive(Clone, Debug)]
pub struct Solution {
    /// Its name, an identifier.
    pub name: String,
    /// One line for people.
    pub summary: String,
    /// Its sources, by relative path.
    pub sources: Vec<(String, String)>,
    /// Where the harness can run it as a baseline: the index of the source, the function, and whether it
    /// returns its results.
    pub runs: Option<(usize, String, bool)>,
}

/// Returns the files of the lab, by path relative to its folder.
pub fn files(problem: &Problem, target: TargetKind) -> Result<Vec<(String, String)>> {
    let has_baseline = target == TargetKind::Cpu || problem.seen["framework"] == "torch";
    let ending = match target {
        TargetKind::Cpu => "c",
        TargetKind::Cuda => "cu",
    };
    let mut files = vec![
        ("README.md".to_string(), readme(problem)),
        ("lab.toml".to_string(), manifest(problem, target)?),
        ("problem.py".to_string(), problem.text.clone()),
        ("plan.py".to_string(), plan(&problem.seen["plan"])),
        ("adapter.py".to_string(), ADAPTER.to_string()),
        ("reference.py".to_string(), REFERENCE.to_string()),
        (format!("kernels/00_start.{ending}"), kernel(problem, target)?),
        ("kernels/00_start.toml".to_string(), contract(problem, target)?),
    ];
    if has_baseline {
        let summary = format!("{}, as it was imported", library(problem));
        files.push(("baselines/module.py".to_string(), BASELINE.to_string()));
        files.push(("baselines/module.toml".to_string(), baseline(problem, &summary, "module.py")));
    }
    for solution in &problem.solutions {
        let name = &solution.name;
        for (path, text) in &solution.sources {
            files.push((format!("solutions/{name}/{path}"), text.clone()));
        }
        if let Some((index, entry, returns)) = solution.runs.as_ref().filter(|_| has_baseline) {
            let text = &solution.sources[*index].1;
            let script = solution_script(name, entry, *returns);
            files.push((format!("baselines/{name}_source.py"), text.clone()));
            files.push((format!("baselines/{name}.py"), script));
            let contract = baseline(problem, &solution.summary, &format!("{name}.py"));
            files.push((format!("baselines/{name}.toml"), contract));
        }
    }
    Ok(files)
}

/// Returns what a person should know of the lab.
pub fn notes(problem: &Problem) -> Vec<String> {
    texts(&problem.seen["notes"]).map(str::to_string).collect()
}

fn manifest(problem: &Problem, target: TargetKind) -> Result<String> {
    let seen = &problem.seen;
    let format = match problem.format {
        ProblemFormat::KernelBench => "kernelbench",
        ProblemFormat::FlashInfer => "flashinfer",
    };
    let axes: Vec<String> = texts(&seen["axes"]).map(quoted).collect();
    let mut text = format!(
        "format = 1\nname   = {}\ntarget = {}\ntitle  = {}\naxes   = [{}]\nimported = {{ format = \
         {}, name = {} }}\n",
        quoted(&problem.name),
        quoted(target.name()),
        quoted(&format!("{}, imported", problem.original)),
        axes.join(", "),
        quoted(format),
        quoted(&problem.original),
    );
    for tensor in list(&seen["tensors"]) {
        let extents: Vec<String> = texts(&tensor["shape"]).map(quoted).collect();
        let from = tensor["weight"].as_str();
        let comment = from.map_or_else(String::new, |from| format!("   # `{from}` of the module"));
        text.push_str(&format!(
            "\n[[tensor]]{comment}\nname  = {}\nshape = [{}]\ndtype = {}\nrole  = {}\n",
            string(&tensor["name"])?,
            extents.join(", "),
            string(&tensor["dtype"])?,
            string(&tensor["role"])?,
        ));
    }
    for scalar in list(&seen["scalars"]) {
        text.push_str(&format!(
            "\n[[scalar]]\nname  = {}\ndtype = {}\nvalue = {}\n",
            string(&scalar["name"])?,
            string(&scalar["dtype"])?,
            string(&scalar["value"])?,
        ));
    }
    let (packages, size_mb) = packages(problem);
    text.push_str(&format!(
        "\n[reference]                # the problem in double precision; it answers on every shape\n\
         source   = \"reference.py\"\npackages = [{packages}]\nsize_mb  = {size_mb}\n"
    ));
    let (flops, bytes) = work(problem)?;
    text.push_str(&format!(
        "\n[work]                     # lower bounds; replace `flops` by the count that the problem has\n\
         flops = {}   # one operation for each element of the outputs\n\
         bytes = {}   # every tensor moves once\n",
        quoted(&flops),
        quoted(&bytes),
    ));
    let measured = |key: &str| seen["measured"][key].as_f64().unwrap_or(0.0);
    text.push_str(&format!(
        "\n# In its own type the problem was {:.1} eps (element) and {:.1} eps (norm) away from itself in\n\
         # double precision; eight times that, and not less than a few roundings, is allowed.\n\
         [tolerance]\nelement_eps = {}\nnorm_eps    = {}\n",
        measured("element_eps"),
        measured("norm_eps"),
        seen["tolerance"]["element_eps"],
        seen["tolerance"]["norm_eps"],
    ));
    text.push_str(&inputs(seen)?);
    text.push_str(&shapes(seen)?);
    Ok(text)
}

fn inputs(seen: &Value) -> Result<String> {
    let mut text = String::new();
    for inputs in list(&seen["distributions"]) {
        let spreads = inputs["tensors"].as_object().context("a distribution names tensors")?;
        let mut tensors = Vec::new();
        for (name, spread) in spreads {
            tensors.push(format!("{name} = {}", distribution(spread)?));
        }
        let default = spreads.values().next().context("a lab has inputs")?;
        text.push_str(&format!(
            "\n[[inputs]]\nname    = {}\ndefault = {}\ntensors = {{ {} }}\n",
            string(&inputs["name"])?,
            distribution(default)?,
            tensors.join(", "),
        ));
        if let Some(scale) = inputs["tolerance_scale"].as_f64().filter(|scale| *scale > 1.0) {
            text.push_str(&format!("tolerance_scale = {scale:?}\n"));
        }
    }
    Ok(text)
}

fn shapes(seen: &Value) -> Result<String> {
    let mut text = String::new();
    for (key, shapes) in [("workload", &seen["workloads"]), ("proof", &seen["proofs"])] {
        for shape in list(shapes) {
            let axes = shape["axes"].as_object().context("a shape has axes")?;
            let axes: Vec<String> =
                axes.iter().map(|(axis, value)| format!("{axis} = {value}")).collect();
            text.push_str(&format!(
                "\n[[{key}]]\nname = {}\naxes = {{ {} }}\n",
                string(&shape["name"])?,
                axes.join(", ")
            ));
        }
    }
    if let Some(ranges) = seen["ranges"].as_object() {
        text.push_str(
            "\n[ranges]                   # extents on which the problem was seen to run\n",
        );
        for (axis, values) in ranges {
            text.push_str(&format!("{axis} = {{ values = {values} }}\n"));
        }
    }
    Ok(text)
}

fn distribution(spread: &Value) -> Result<String> {
    let (kind, numbers) =
        spread.as_object().and_then(|it| it.iter().next()).context("a distribution has a kind")?;
    let numbers = numbers.as_object().context("a distribution has numbers")?;
    let numbers: Vec<String> = numbers
        .iter()
        .map(|(name, number)| format!("{name} = {:?}", number.as_f64().unwrap_or(0.0)))
        .collect();
    Ok(match numbers.is_empty() {
        true => format!("{{ {kind} = {{}} }}"),
        false => format!("{{ {kind} = {{ {} }} }}", numbers.join(", ")),
    })
}

/// Returns lower bounds of operations and bytes, as expressions.
fn work(problem: &Problem) -> Result<(String, String)> {
    let (mut flops, mut bytes) = (Vec::new(), Vec::new());
    for tensor in list(&problem.seen["tensors"]) {
        let extents: Vec<String> = texts(&tensor["shape"]).map(factor).collect();
        let elements = extents.join(" * ");
        let size = match tensor["dtype"].as_str() {
            Some("f16" | "bf16") => 2,
            Some("f64") => 8,
            _ => 4,
        };
        if tensor["role"] == "output" {
            flops.push(elements.clone());
        }
        bytes.push(format!("{size} * {elements}"));
    }
    Ok((flops.join(" + "), bytes.join(" + ")))
}

/// Brackets an expression that is more than a name or a number.
fn factor(text: &str) -> String {
    let is_plain = text.chars().all(|letter| letter.is_ascii_alphanumeric() || letter == '_');
    if is_plain { text.to_string() } else { format!("({text})") }
}

/// Returns how many blocks the starting kernel has and what one is: a row of the first output.
fn blocks(problem: &Problem) -> Result<(String, String)> {
    let outputs = list(&problem.seen["tensors"]).find(|tensor| tensor["role"] == "output");
    let output = outputs.context("a lab has an output")?;
    let name = output["name"].as_str().context("a tensor has a name")?;
    let extents: Vec<String> = texts(&output["shape"]).map(factor).collect();
    Ok(match extents.as_slice() {
        [only] => (
            format!("ceil_div({only}, {FLAT_BLOCK})"),
            format!("{FLAT_BLOCK} elements of `{name}`"),
        ),
        [rows @ .., _] => (rows.join(" * "), format!("one row of `{name}`")),
        [] => ("1".to_string(), format!("all of `{name}`")),
    })
}

fn contract(problem: &Problem, target: TargetKind) -> Result<String> {
    let (blocks, _) = blocks(problem)?;
    let entry = quoted(&problem.name);
    let summary = "A starting point that computes nothing yet";
    Ok(match target {
        TargetKind::Cpu => format!(
            "format  = 1\ntarget  = \"cpu\"\nsummary = \"{summary}\"\nflags   = [\"-O3\", \
             \"-march=native\", \"-lm\"]\n\n[[launch]]\nentry  = {entry}\nblocks = {}\n",
            quoted(&blocks)
        ),
        TargetKind::Cuda => format!(
            "format  = 1\ntarget  = \"cuda\"\nsummary = \"{summary}\"\narch    = \"sm_80\"\n\n\
             [[launch]]\nentry = {entry}\ngrid  = [{}]\nblock = [\"256\"]\n",
            quoted(&blocks)
        ),
    })
}

fn kernel(problem: &Problem, target: TargetKind) -> Result<String> {
    let (_, block) = blocks(problem)?;
    let mut layout = String::new();
    let mut arguments = Vec::new();
    let mut names = Vec::new();
    let (index, bits) = match target {
        TargetKind::Cpu => ("int64_t", "uint16_t"),
        TargetKind::Cuda => ("int", "unsigned short"),
    };
    for tensor in list(&problem.seen["tensors"]) {
        let name = tensor["name"].as_str().context("a tensor has a name")?;
        let extents: Vec<&str> = texts(&tensor["shape"]).collect();
        let kind = match tensor["dtype"].as_str() {
            Some("f32") => "float",
            Some("f64") => "double",
            _ => bits,
        };
        let is_input = tensor["role"] == "input";
        layout.push_str(&format!(
            "//   {name}[{}], {}{}\n",
            extents.join("]["),
            tensor["dtype"].as_str().unwrap_or(""),
            if is_input { "" } else { ", written" }
        ));
        arguments.push(format!("{}{kind} *{name}", if is_input { "const " } else { "" }));
        names.push(name.to_string());
    }
    for axis in texts(&problem.seen["axes"]) {
        arguments.push(format!("{index} {axis}"));
        names.push(axis.to_string());
    }
    for scalar in list(&problem.seen["scalars"]) {
        let name = scalar["name"].as_str().context("a scalar has a name")?;
        let kind = match scalar["dtype"].as_str() {
            Some("i64") if target == TargetKind::Cuda => "long long",
            Some("i64") => "int64_t",
            Some("f32") => "float",
            _ => "double",
        };
        arguments.push(format!("{kind} {name}"));
        names.push(name.to_string());
    }
    let unused: String = names.iter().map(|name| format!("    (void){name};\n")).collect();
    let head = format!(
        "// A starting point: it computes nothing yet, and the gate says so. What to compute is in problem.py.\n\
         // Every tensor is row-major and contiguous:\n{layout}"
    );
    let name = &problem.name;
    Ok(match target {
        TargetKind::Cpu => format!(
            "{head}// A block is {block}; the harness hands out the blocks.\n#include <stdint.h>\n\n\
             void {name}({}, int64_t block_begin, int64_t block_end) {{\n{unused}\
             \x20   for (int64_t block = block_begin; block < block_end; block++) {{\n\
             \x20       // Compute and write {block} here.\n    }}\n}}\n",
            arguments.join(", ")
        ),
        TargetKind::Cuda => format!(
            "{head}// A block is {block}, for 256 threads.\n\
             extern \"C\" __global__ void __launch_bounds__(256) {name}({}) {{\n{unused}\
             \x20   // Compute and write {block}, number blockIdx.x, here.\n}}\n",
            arguments.join(", ")
        ),
    })
}

fn baseline(problem: &Problem, summary: &str, script: &str) -> String {
    let (packages, size_mb) = packages(problem);
    format!(
        "format   = 1\nsummary  = {}\nscript   = {}\npackages = [{packages}]\nsize_mb  = {size_mb}\n",
        quoted(summary),
        quoted(script)
    )
}

fn solution_script(name: &str, entry: &str, returns: bool) -> String {
    let returns = if returns { "True" } else { "False" };
    format!(
        "\"\"\"A solution that came with the problem, as a baseline.\"\"\"\n\nimport os\nimport sys\n\n\
         sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))\n\n\
         from adapter import solution  # noqa: E402\n\n\
         prepare, run, deliver = solution({}, {}, {}, {returns})\n",
        quoted(name),
        quoted(&format!("{name}_source.py")),
        quoted(entry),
    )
}

fn packages(problem: &Problem) -> (String, u32) {
    let versions = problem.seen["versions"].as_object();
    let packages: Vec<String> = versions
        .into_iter()
        .flatten()
        .map(|(name, version)| quoted(&format!("{name}=={}", version.as_str().unwrap_or("0"))))
        .collect();
    let size_mb = if problem.seen["framework"] == "torch" { TORCH_MB } else { NUMPY_MB };
    (packages.join(", "), size_mb)
}

fn library(problem: &Problem) -> &'static str {
    if problem.seen["framework"] == "torch" { "PyTorch" } else { "NumPy" }
}

fn readme(problem: &Problem) -> String {
    let format = match problem.format {
        ProblemFormat::KernelBench => "a KernelBench module",
        ProblemFormat::FlashInfer => "a FlashInfer-Trace definition",
    };
    let mut text = format!(
        "# {}\n\nImported from {format}, `{}`.\n\n\
         | file | what it is |\n|---|---|\n\
         | `problem.py` | the problem as it was |\n\
         | `lab.toml` | tensors, axes, shapes, inputs and tolerance, as they were found by running it |\n\
         | `reference.py` | the problem in double precision: what is right |\n\
         | `baselines/module.*` | the problem in its own type: what to beat |\n\
         | `adapter.py`, `plan.py` | how the harness's tensors become its arguments |\n\
         | `kernels/00_start.*` | the function to write; it computes nothing yet |\n\n\
         Weights of the module are inputs: they are drawn anew like the others, the same for the reference, \
         the baseline and every kernel.\n",
        problem.name, problem.original
    );
    for note in texts(&problem.seen["notes"]) {
        text.push_str(&format!("\n- {note}"));
    }
    text.push('\n');
    text
}

fn plan(plan: &Value) -> String {
    format!(
        "\"\"\"How the harness's tensors become the problem's arguments; see adapter.py.\"\"\"\n\nPLAN = {}\n",
        python_literal(plan, 0)
    )
}

/// Writes a JSON value as Python does.
fn python_literal(value: &Value, depth: usize) -> String {
    let (inner, outer) = ("    ".repeat(depth + 1), "    ".repeat(depth));
    match value {
        Value::Null => "None".to_string(),
        Value::Bool(true) => "True".to_string(),
        Value::Bool(false) => "False".to_string(),
        Value::Array(items) if items.is_empty() => "[]".to_string(),
        Value::Array(items) => {
            let items: Vec<String> = items
                .iter()
                .map(|item| format!("{inner}{},\n", python_literal(item, depth + 1)))
                .collect();
            format!("[\n{}{outer}]", items.concat())
        }
        Value::Object(entries) => {
            let entries: Vec<String> = entries
                .iter()
                .map(|(key, item)| {
                    format!("{inner}{}: {},\n", quoted(key), python_literal(item, depth + 1))
                })
                .collect();
            format!("{{\n{}{outer}}}", entries.concat())
        }
        other => other.to_string(),
    }
}

/// Quotes a text for TOML and Python alike: both read what JSON writes.
fn quoted(text: &str) -> String {
    Value::from(text).to_string()
}

fn string(value: &Value) -> Result<String> {
    value.as_str().map(quoted).with_context(|| format!("`{value}` is not a text"))
}

fn list(value: &Value) -> impl Iterator<Item = &Value> {
    value.as_array().into_iter().flatten()
}

fn texts(value: &Value) -> impl Iterator<Item = &str> {
    list(value).filter_map(Value::as_str)
}
