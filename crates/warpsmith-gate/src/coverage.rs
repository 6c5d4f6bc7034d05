//! Says which branches of a lab's own kernels its shapes and distributions never take: code that no check has
//! seen wrong or right.
//!
//! A kernel's source is compiled a second time with the compiler's counters and called, one thread alone, by a
//! small program on the lab's proof shapes and on shapes drawn from its ranges, under every distribution;
//! `gcov` reads the counters. Nothing is judged, and the program is not confined beyond a deadline, so this is
//! for the author's own kernels.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use serde::Deserialize;
use warpsmith_device::target::{Argument, Artifact, Program, Unit};
use warpsmith_model::lab::{Kernel, Range, Role, ScalarType, TargetKind, Workload};
use warpsmith_model::rng::Rng;
use warpsmith_model::{BlobId, DType, DeviceInfo, Lab, Params};

use crate::bind;
use crate::error::GateError;
use crate::inputs;

/// Shapes that are drawn from the lab's ranges, beside its proof shapes.
const DRAWN_SHAPES: usize = 12;
/// How long the compiler, or the program on one shape, may take.
const DEADLINE: Duration = Duration::from_secs(120);

/// A line with code that never ran.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Untaken {
    /// The file: the kernel's, or a header's.
    pub file: String,
    /// The line.
    pub line: u64,
    /// The function.
    pub function: String,
    /// Ways out of the line that were never taken, of how many; none where the line never ran.
    pub branches: Option<(usize, usize)>,
    /// The line's text.
    pub text: String,
}

/// What was run, and what it left out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Coverage {
    /// Shapes that the kernel ran on.
    pub shapes: usize,
    /// What was never taken on any of them.
    pub untaken: Vec<Untaken>,
}

/// Runs a kernel with counters; what it needs is written below a folder, which is removed again.
pub fn of_kernel(
    lab: &Lab,
    kernel: &Kernel,
    params: &Params,
    device: &DeviceInfo,
    work_dir: &Path,
    seed: u64,
) -> Result<Coverage, GateError> {
    if lab.target != TargetKind::Cpu {
        let reason = "coverage is counted by a C compiler; kernels for a GPU have none".to_string();
        return Err(GateError::BadContract { kernel: kernel.name.clone(), reason });
    }
    // The compiler and the program run in folders of their own, where a relative path means something else.
    let work_dir = std::path::absolute(work_dir)
        .map_err(|error| failed(kernel, &format!("{}: {error}", work_dir.display())))?;
    let folder = work_dir.join(format!("coverage-{}", std::process::id()));
    let counted = count(lab, kernel, params, device, &folder, seed);
    let removed = fs::remove_dir_all(&folder);
    let counted = counted?;
    removed.map_err(|error| failed(kernel, &format!("removing {}: {error}", folder.display())))?;
    Ok(counted)
}

fn count(
    lab: &Lab,
    kernel: &Kernel,
    params: &Params,
    device: &DeviceInfo,
    folder: &Path,
    seed: u64,
) -> Result<Coverage, GateError> {
    let io = |error: io::Error| failed(kernel, &format!("{}: {error}", folder.display()));
    let mut lines: BTreeMap<(String, u64), CoveredLine> = BTreeMap::new();
    let mut units: Vec<(Unit, PathBuf)> = Vec::new();
    let mut n_shapes = 0;
    for (idx, shape) in shapes(lab, seed)?.iter().enumerate() {
        if kernel.serves(shape) != Ok(true) {
            continue;
        }
        n_shapes += 1;
        let unit = bind::kernel_unit(lab, kernel, params, shape, device, DEADLINE)?;
        let known = units.iter().find(|(known, _)| *known == unit).map(|(_, at)| at.clone());
        let at = match known {
            Some(at) => at,
            None => {
                let at = folder.join(format!("unit{}", units.len()));
                write_unit(&unit, &at).map_err(io)?;
                let mut compiler = gcc(&unit, &at);
                compiler.args(["--coverage", "-c", &unit.file_name, "-o", "kernel.o"]);
                run(kernel, compiler, &at)?;
                units.push((unit.clone(), at.clone()));
                at
            }
        };
        let nothing = Artifact {
            path: PathBuf::new(),
            binary: BlobId::of(b""),
            command: Vec::new(),
            log: String::new(),
            compile_s: 0.0,
            cached: false,
        };
        let program = bind::kernel_program(lab, kernel, params, shape, device, nothing)?;
        let main = at.join(format!("main{idx}.c"));
        fs::write(&main, driver(&unit, &program)).map_err(io)?;
        let binary = format!("main{idx}");
        let mut linker = gcc(&unit, &at);
        linker.args([
            "--coverage",
            "kernel.o",
            "-x",
            "c",
            "-fno-profile-arcs",
            "-fno-test-coverage",
        ]);
        linker.arg(&main).args(["-o", &binary, "-lm"]);
        run(kernel, linker, &at)?;
        for distribution in &lab.inputs {
            let seed = inputs::content_seed(seed, &shape.axes, &distribution.name, 0);
            let contents = inputs::contents(&program.tensors, distribution, seed);
            fs::write(at.join("inputs"), contents.concat()).map_err(io)?;
            let mut ran = Command::new(at.join(&binary));
            ran.current_dir(&at);
            run(kernel, ran, &at)?;
        }
    }
    for (unit, at) in &units {
        let mut gcov = Command::new("gcov");
        gcov.current_dir(at).args([
            "--json-format",
            "--stdout",
            "--branch-probabilities",
            "kernel.gcda",
        ]);
        read(kernel, &run(kernel, gcov, at)?, unit, &mut lines)?;
    }
    Ok(Coverage { shapes: n_shapes, untaken: untaken(lines) })
}

/// Returns the proof shapes and some drawn from the ranges, with drawn scalars.
fn shapes(lab: &Lab, seed: u64) -> Result<Vec<Workload>, GateError> {
    let mut rng = Rng::derive(seed, "coverage");
    let mut shapes = lab.proofs.clone();
    if !lab.ranges.is_empty() {
        shapes.extend((0..DRAWN_SHAPES).map(|_| {
            let axes = lab.ranges.iter().map(|(axis, range)| {
                let value = match range {
                    Range::Span { min, max } => min + rng.below((max - min + 1) as usize) as i64,
                    Range::Values(values) => values[rng.below(values.len())],
                };
                (axis.clone(), value)
            });
            Workload::new("drawn", axes.collect())
        }));
    }
    shapes.iter().map(|shape| bind::with_drawn_scalars(lab, shape, seed)).collect()
}

fn failed(kernel: &Kernel, what: &str) -> GateError {
    let reason = format!("counting its branches: {what}");
    GateError::BadContract { kernel: kernel.name.clone(), reason }
}

fn write_unit(unit: &Unit, at: &Path) -> io::Result<()> {
    fs::create_dir_all(at)?;
    let source = at.join(&unit.file_name);
    fs::write(source, &unit.source)?;
    for (name, text) in &unit.headers {
        let path = at.join(name);
        if let Some(parent) = path.parent() {
            fs::create_dir_all(parent)?;
        }
        fs::write(path, text)?;
    }
    Ok(())
}

/// Starts a command line of the compiler with the kernel's flags and macros, but without optimisation, which
/// would merge branches. Counters are those of gcc, whatever the kernel is compiled with.
fn gcc(unit: &Unit, at: &Path) -> Command {
    let mut command = Command::new("gcc");
    command.current_dir(at).arg("-I.").args(&unit.flags);
    command.args(unit.defines.iter().map(|(name, value)| format!("-D{name}={value}")));
    command.args(["-w", "-O0"]);
    command
}

/// Runs a program to its end; returns what it printed.
fn run(kernel: &Kernel, mut command: Command, at: &Path) -> Result<String, GateError> {
    let name = command.get_program().to_string_lossy().into_owned();
    let io = |error: io::Error| failed(kernel, &format!("`{name}`: {error}"));
    // Files, not pipes: nobody has to read them while it runs.
    let (out, err) = (at.join("stdout"), at.join("stderr"));
    command.stdin(Stdio::null()).stdout(fs::File::create(&out).map_err(io)?);
    command.stderr(fs::File::create(&err).map_err(io)?);
    let started = Instant::now();
    let mut child = command.spawn().map_err(|error| match error.kind() {
        io::ErrorKind::NotFound => failed(kernel, &format!("`{name}` is missing; install gcc")),
        _ => io(error),
    })?;
    let status = loop {
        if let Some(status) = child.try_wait().map_err(io)? {
            break status;
        }
        if started.elapsed() > DEADLINE {
            child.kill().map_err(io)?;
            child.wait().map_err(io)?;
            let limit_s = DEADLINE.as_secs();
            return Err(failed(kernel, &format!("`{name}` did not end within {limit_s} s")));
        }
        std::thread::sleep(Duration::from_millis(2));
    };
    if !status.success() {
        let said = fs::read(&err).map_err(io)?;
        let said = String::from_utf8_lossy(&said).into_owned();
        return Err(failed(kernel, &format!("`{name}` failed ({status}): {said}")));
    }
    let said = fs::read(&out).map_err(io)?;
    Ok(String::from_utf8_lossy(&said).into_owned())
}

/// Writes the program that calls a kernel on one shape, with the inputs of a file.
fn driver(unit: &Unit, program: &Program) -> String {
    let mut text = String::from("#include <stdint.h>\n#include <stdio.h>\n#include <stdlib.h>\n");
    let types: Vec<&str> = unit.signature.iter().map(|argument| c_type(*argument)).collect();
    for entry in &unit.entries {
        text.push_str(&format!("void {entry}({}, int64_t, int64_t);\n", types.join(", ")));
    }
    text.push_str(
        "static void *room(size_t bytes) {\n    \
         void *at = aligned_alloc(64, (bytes + 127) / 64 * 64);\n    \
         if (!at) { exit(3); }\n    return at;\n}\n\
         int main(void) {\n    FILE *file = fopen(\"inputs\", \"rb\");\n    if (!file) { return 2; }\n",
    );
    for (idx, tensor) in program.tensors.iter().enumerate() {
        let bytes = tensor.bytes();
        text.push_str(&format!("    void *tensor{idx} = room({bytes}u);\n"));
        if tensor.role == Role::Input {
            text.push_str(&format!(
                "    if (fread(tensor{idx}, 1, {bytes}u, file) != {bytes}u) {{ return 2; }}\n"
            ));
        }
    }
    for (idx, bytes) in program.scratch.iter().enumerate() {
        text.push_str(&format!("    void *scratch{idx} = room({bytes}u);\n"));
    }
    let (mut tensors, mut axes, mut scalars, mut scratch) = (0.., 0.., 0.., 0..);
    let next = |count: &mut std::ops::RangeFrom<usize>| count.next().unwrap_or_default();
    let arguments: Vec<String> = unit
        .signature
        .iter()
        .map(|argument| match argument {
            Argument::Tensor(..) => format!("tensor{}", next(&mut tensors)),
            Argument::Axis => format!("{}", program.axes[next(&mut axes)]),
            Argument::Scalar(kind) => {
                let value = program.scalars[next(&mut scalars)];
                match kind {
                    ScalarType::I64 => format!("{}", value as i64),
                    ScalarType::F32 | ScalarType::F64 => format!("{value:e}"),
                }
            }
            Argument::Scratch => format!("scratch{}", next(&mut scratch)),
        })
        .collect();
    for launch in &program.launches {
        let (entry, blocks, chunk) = (&unit.entries[launch.entry], launch.blocks, launch.chunk);
        text.push_str(&format!(
            "    for (int64_t begin = 0; begin < {blocks}; begin += {chunk}) {{\n        \
             int64_t end = begin + {chunk} < {blocks} ? begin + {chunk} : {blocks};\n        \
             {entry}({}, begin, end);\n    }}\n",
            arguments.join(", ")
        ));
    }
    text.push_str("    return 0;\n}\n");
    text
}

fn c_type(argument: Argument) -> &'static str {
    match argument {
        Argument::Tensor(dtype, role) => match (dtype, role) {
            (DType::F16 | DType::Bf16, Role::Input) => "const uint16_t *",
            (DType::F16 | DType::Bf16, Role::Output) => "uint16_t *",
            (DType::F32, Role::Input) => "const float *",
            (DType::F32, Role::Output) => "float *",
            (DType::F64, Role::Input) => "const double *",
            (DType::F64, Role::Output) => "double *",
        },
        Argument::Axis | Argument::Scalar(ScalarType::I64) => "int64_t",
        Argument::Scalar(ScalarType::F32) => "float",
        Argument::Scalar(ScalarType::F64) => "double",
        Argument::Scratch => "void *",
    }
}

/// What the counters say of a line, over all builds of the source.
#[derive(Debug, Default)]
struct CoveredLine {
    function: String,
    text: String,
    runs: u64,
    /// How often each way out of it was taken, for each way of compiling it: other macros, other branches.
    branches: BTreeMap<usize, Vec<u64>>,
}

#[derive(Deserialize)]
struct Report {
    files: Vec<ReportFile>,
}

#[derive(Deserialize)]
struct ReportFile {
    file: String,
    lines: Vec<ReportLine>,
}

#[derive(Deserialize)]
struct ReportLine {
    line_number: u64,
    count: u64,
    #[serde(default)]
    function_name: String,
    #[serde(default)]
    branches: Vec<ReportBranch>,
}

#[derive(Deserialize)]
struct ReportBranch {
    count: u64,
}

fn read(
    kernel: &Kernel,
    json: &str,
    unit: &Unit,
    lines: &mut BTreeMap<(String, u64), CoveredLine>,
) -> Result<(), GateError> {
    let report: Report = serde_json::from_str(json)
        .map_err(|error| failed(kernel, &format!("`gcov` said what is not understood: {error}")))?;
    for file in report.files {
        let name = file.file.trim_start_matches("./").to_string();
        let header = unit.headers.iter().find(|(header, _)| *header == name);
        let source = match (name == unit.file_name, header) {
            (true, _) => &unit.source,
            (false, Some((_, text))) => text,
            // A header of the system.
            (false, None) => continue,
        };
        for line in file.lines {
            let known = lines.entry((name.clone(), line.line_number)).or_default();
            known.runs += line.count;
            known.function = line.function_name;
            let at = (line.line_number as usize).saturating_sub(1);
            known.text = source.lines().nth(at).unwrap_or_default().trim().to_string();
            let ways = line.branches.len();
            let counts = known.branches.entry(ways).or_insert_with(|| vec![0; ways]);
            counts.iter_mut().zip(&line.branches).for_each(|(sum, it)| *sum += it.count);
        }
    }
    Ok(())
}

fn untaken(lines: BTreeMap<(String, u64), CoveredLine>) -> Vec<Untaken> {
    let mut found = Vec::new();
    for ((file, number), line) in lines {
        let missed = |counts: &Vec<u64>| counts.iter().filter(|count| **count == 0).count();
        let worst = line.branches.iter().map(|(ways, counts)| (missed(counts), *ways)).max();
        let branches = match (line.runs, worst) {
            (0, _) => None,
            (_, Some((missed, ways))) if missed > 0 => Some((missed, ways)),
            _ => continue,
        };
        let CoveredLine { function, text, .. } = line;
        found.push(Untaken { file, line: number, function, branches, text });
    }
    found
}
