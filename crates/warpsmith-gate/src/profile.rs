//! Profiles one candidate: what the compiler made of it, and what a profiler counts while it runs.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use warpsmith_device::cpu::{WorkFolder, build_dir};
use warpsmith_device::cuda::ncu::{self, Ncu, NoRecording};
use warpsmith_device::cuda::{resources, sass, toolkit};
use warpsmith_device::target::{Artifact, CaseId, Fault, GridLaunch, Program, Target, Unit};
use warpsmith_model::diagnose::table::LaunchRow;
use warpsmith_model::lab::{Kernel, Workload};
use warpsmith_model::{
    CounterSource, Counters, FileBlob, Lab, LaunchCode, LaunchProfile, ProfileRequest, Profiled,
    WorkloadProfile, remarks,
};

use crate::corpus::{Corpus, Want};
use crate::error::GateError;
use crate::evaluate::{ProgramError, Subject};

/// How long one step under the profiler may take: it runs every launch some forty times.
const WATCH_DEADLINE: Duration = Duration::from_secs(120);
const COMPILE_DEADLINE: Duration = Duration::from_secs(120);

/// Profiles a kernel on the workloads that are asked for. A profiler that is missing, forbidden or at
/// fault is part of the answer, not an error. `cache_dir` is the artifact cache.
pub fn profile(
    target: &mut dyn Target,
    corpus: &mut Corpus,
    lab: &Lab,
    kernel: &Kernel,
    request: &ProfileRequest,
    cache_dir: &Path,
) -> Result<Profiled, GateError> {
    if target.info().cuda.is_none() {
        return Err(GateError::BadRequest(
            "only a CUDA target can be profiled: no counters of the CPU are read".to_string(),
        ));
    }
    let subject = Subject::Kernel { kernel, params: &request.params };
    let found = if request.counters { ncu::find() } else { Err(not_asked()) };
    let mut artifacts = Vec::new();
    let mut profiled = Profiled { workloads: Vec::new(), files: Vec::new() };
    for name in &request.workloads {
        let workload = lab.workload(name).ok_or_else(|| GateError::UnknownWorkload {
            lab: lab.name.clone(),
            workload: name.clone(),
        })?;
        if !subject.serves(workload)? {
            let (subject, workload) = (kernel.name.clone(), name.clone());
            return Err(GateError::NotServed { subject, workload });
        }
        let program = program(target, lab, &subject, workload, &mut artifacts)?;
        let cases = corpus.cases(target, lab, workload, 0, request.lab.seed, Want::Exactly(1))?;
        let recorded = match &found {
            Ok(ncu) => record(target, ncu, &program, cases[0].id, cache_dir, &mut profiled.files),
            Err(why) => Ok((missing(why), Vec::new())),
        };
        let (counters, rows) = recorded.map_err(|source| GateError::Target {
            doing: format!("profiling `{}` on `{name}`", kernel.name),
            source,
        })?;
        profiled.workloads.push(WorkloadProfile {
            workload: name.clone(),
            time_s: None,
            launch_floor_s: None,
            launches: launches(&program, &rows),
            instructions: instructions(&program.artifact, cache_dir),
            counters,
        });
    }
    Ok(profiled)
}

fn program(
    target: &mut dyn Target,
    lab: &Lab,
    subject: &Subject<'_>,
    workload: &Workload,
    artifacts: &mut Vec<(Unit, Artifact)>,
) -> Result<Program, GateError> {
    let program = subject.program(target, lab, workload, COMPILE_DEADLINE, artifacts);
    program.map_err(|error| match error {
        ProgramError::Broken(error) => error,
        ProgramError::Compile(source) => {
            GateError::Target { doing: format!("compiling `{}`", subject.name()), source }
        }
    })
}

/// Runs the program under the profiler; why it could not be is an answer too.
fn record(
    target: &mut dyn Target,
    ncu: &Ncu,
    program: &Program,
    case: CaseId,
    cache_dir: &Path,
    files: &mut Vec<FileBlob>,
) -> Result<(CounterSource, Vec<LaunchRow>), Fault> {
    let folder = WorkFolder::create(&build_dir(cache_dir)).map_err(|source| Fault::Broken {
        what: format!("making a folder in {}", cache_dir.display()),
        source,
    })?;
    let recorded = ncu::record(ncu, folder.path(), |watcher| {
        target.watch(watcher, &[(program, case)], WATCH_DEADLINE)
    });
    match recorded {
        Ok(recording) => {
            let csv = FileBlob::new(recording.csv.into_bytes());
            let report = FileBlob::new(recording.report);
            let version = ncu.version.clone();
            let source = CounterSource::Ncu { version, csv: csv.id, report: report.id };
            files.extend([csv, report]);
            Ok((source, recording.launches))
        }
        Err(why) => Ok((missing(&why), Vec::new())),
    }
}

fn not_asked() -> NoRecording {
    NoRecording { reason: "none were asked for".to_string(), how: String::new() }
}

fn missing(why: &NoRecording) -> CounterSource {
    CounterSource::Missing { reason: why.reason.clone(), how: why.how.clone() }
}

/// Pairs the program's launches with the profiler's rows, by name and, among launches of one name, in
/// order: what else runs on the device is not the program's, and a row that is missing is missed by the
/// launches of its own name alone.
fn launches(program: &Program, rows: &[LaunchRow]) -> Vec<LaunchProfile> {
    let used = resources(&program.artifact.log);
    let remarked = remarks(&program.artifact.log);
    let mut rows: Vec<&LaunchRow> = rows.iter().collect();
    let grid: &[GridLaunch] = program.grid.as_ref().map_or(&[], |grid| &grid.launches);
    grid.iter()
        .map(|launch| {
            let function = used.iter().find(|function| function.entry == launch.entry);
            let extent = |extents: [u32; 3]| -> u64 {
                extents.iter().map(|extent| u64::from(*extent)).product()
            };
            // What is said of a function that is called, or of nothing by name, concerns every launch.
            let is_kernel = |name: &String| used.iter().any(|function| function.entry == *name);
            let concerns = |name: &String| *name == launch.entry || !is_kernel(name);
            let remarks = remarked.iter().filter(|it| it.function.as_ref().is_none_or(concerns));
            let code = LaunchCode {
                blocks: extent(launch.grid),
                threads: extent(launch.block) as u32,
                registers: function.map_or(0, |it| it.registers),
                spill_bytes: function.map_or(0, |it| it.spill_bytes),
                smem_bytes: launch.smem_bytes + function.map_or(0, |it| it.static_smem_bytes),
                remarks: remarks.cloned().collect(),
            };
            let place = rows.iter().position(|row| row.kernel == launch.entry);
            let row = place.map(|place| rows.remove(place));
            let counters = row.map(|row| Counters::from_metrics(&row.metrics));
            LaunchProfile { entry: launch.entry.clone(), code, counters }
        })
        .collect()
}

/// Counts instructions; a toolkit without a disassembler costs that alone.
fn instructions(artifact: &Artifact, cache_dir: &Path) -> BTreeMap<String, u32> {
    let parts_dir = cache_dir.parent().unwrap_or(cache_dir);
    toolkit::find(parts_dir)
        .and_then(|toolkit| sass::functions(&toolkit, artifact))
        .map(|functions| sass::without_modifiers(&sass::count(&functions)))
        .unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use warpsmith_device::target::GridProgram;

    use super::*;

    fn launch(entry: &str, blocks: u32) -> GridLaunch {
        GridLaunch {
            entry: entry.to_string(),
            grid: [blocks, 2, 1],
            block: [32, 4, 1],
            cluster: [1, 1, 1],
            smem_bytes: 1000,
        }
    }

    fn program(log: &str, launches: Vec<GridLaunch>) -> Program {
        Program {
            artifact: Artifact {
                path: "kernel.cubin".into(),
                binary: warpsmith_model::BlobId::of(b""),
                command: Vec::new(),
                log: log.to_string(),
                compile_s: 0.0,
                cached: false,
            },
            tensors: Vec::new(),
            axes: Vec::new(),
            scalars: Vec::new(),
            scratch: Vec::new(),
            launches: Vec::new(),
            gemm: None,
            grid: Some(GridProgram { launches, maps: Vec::new(), scalar_types: Vec::new() }),
        }
    }

    #[test]
    fn launches_are_paired_with_rows_by_name_and_in_order() {
        let log = "ptxas info    : Compiling entry function 'split' for 'sm_90a'\n    \
                   0 bytes stack frame, 8 bytes spill stores, 8 bytes spill loads\n\
                   ptxas info    : Used 96 registers, used 1 barriers, 24 bytes smem\n";
        let all = vec![launch("split", 5), launch("join", 1), launch("split", 7)];
        let program = program(log, all);
        let row = |kernel: &str, grid: f64| LaunchRow {
            kernel: kernel.to_string(),
            metrics: [("launch__grid_size".to_string(), grid)].into(),
        };
        let rows = [row("other", 1.0), row("split", 10.0), row("join", 2.0)];
        let found = launches(&program, &rows);
        let blocks: Vec<Option<f64>> = found
            .iter()
            .map(|launch| launch.counters.as_ref().and_then(|counters| counters.grid_blocks))
            .collect();
        assert_eq!(blocks, [Some(10.0), Some(2.0), None]);
        // A row that is missing costs its own launch alone.
        let found = launches(&program, &[row("split", 10.0), row("split", 14.0)]);
        let has_counters: Vec<bool> = found.iter().map(|it| it.counters.is_some()).collect();
        assert_eq!(has_counters, [true, false, true]);
        let code = LaunchCode {
            blocks: 10,
            threads: 128,
            registers: 96,
            spill_bytes: 16,
            smem_bytes: 1024,
            remarks: Vec::new(),
        };
        assert_eq!(found[0].code, code);
        assert_eq!(found[1].code.registers, 0, "not in the compiler's report");
    }

    #[test]
    fn remarks_go_to_the_launches_that_they_concern() {
        let serialized = |function: &str| {
            format!(
                "ptxas info    : (C7510) Potential Performance Loss: wgmma.mma_async instructions are \
                 serialized due to ill formed pipeline stage in the function '{function}'\n"
            )
        };
        let log = format!(
            "ptxas info    : (C7505) Potential Performance Loss: 'setmaxnreg' ignored to allow \
             debugging.\n{}{}\
             ptxas info    : Compiling entry function 'split' for 'sm_90a'\n\
             ptxas info    : Compiling entry function 'join' for 'sm_90a'\n",
            serialized("split"),
            serialized("called")
        );
        let program = program(&log, vec![launch("split", 1), launch("join", 1)]);
        let found = launches(&program, &[]);
        let functions: Vec<Vec<Option<&str>>> = found
            .iter()
            .map(|it| it.code.remarks.iter().map(|remark| remark.function.as_deref()).collect())
            .collect();
        let expected = [vec![None, Some("split"), Some("called")], vec![None, Some("called")]];
        assert_eq!(functions, expected);
    }
}
