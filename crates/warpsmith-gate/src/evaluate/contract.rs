//! Holds a kernel's contract against many shapes, within the lab's ranges, up to the workloads and beyond, without launching any: a kernel that says that it serves a
//! shape must have a launch for it. The gate launches on a few of them, and a shape without blocks may not be
//! among those.

use warpsmith_model::lab::{Range, Workload};
use warpsmith_model::rng::Rng;
use warpsmith_model::{Lab, Outcome};

use super::bench::{Bench, ProgramError, Stop, Subject};
use super::shapes;
use crate::bind;
use crate::error::GateError;

/// Shapes drawn from the lab's ranges: an extent that is one of a few hundred is hardly ever missed.
const DRAWN: usize = 2000;
/// Shapes drawn between the ranges' least extents and each workload.
const DRAWN_BELOW: usize = 400;
/// Shapes drawn up to twice beyond the workloads, as far as they are the lab's: where a kernel that is tuned for
/// these has no launch is hardly ever a single extent.
const DRAWN_BEYOND: usize = 400;

/// Evaluates the launches of the candidate on every proof shape and on many drawn ones.
pub(super) fn launches_everywhere(bench: &mut Bench<'_>, workload: &Workload) -> Result<(), Stop> {
    let Subject::Kernel { kernel, params } = bench.subject else { return Ok(()) };
    let artifact = bench.program(workload)?.artifact;
    let shapes = drawn(bench.lab, &mut Rng::new(bench.rng.next_u64()));
    for shape in &shapes {
        if !bench.subject.serves(shape)? {
            continue;
        }
        let device = bench.target.info();
        let (lab, artifact) = (bench.lab, artifact.clone());
        let bound = bind::kernel_program(lab, kernel, params, shape, device, artifact);
        match bound.map_err(ProgramError::Broken) {
            Ok(_) => {}
            Err(error @ ProgramError::Broken(GateError::Unlaunchable { .. })) => {
                return Err(match bench.no_program(error) {
                    Stop::Outcome(outcome) => Stop::Outcome(Box::new(placed(*outcome, shape))),
                    broken => broken,
                });
            }
            Err(error) => return Err(bench.no_program(error)),
        }
    }
    Ok(())
}

/// Names the shape itself: a drawn one has no name that says anything.
fn placed(outcome: Outcome, shape: &Workload) -> Outcome {
    match outcome {
        Outcome::Crashed { cause, .. } => {
            Outcome::Crashed { workload: bind::describe_shape(shape), cause }
        }
        other => other,
    }
}

fn drawn(lab: &Lab, rng: &mut Rng) -> Vec<Workload> {
    let mut shapes = lab.proofs.clone();
    if lab.ranges.is_empty() {
        return shapes;
    }
    let within = |range: &Range, most: Option<i64>, rng: &mut Rng| match range {
        Range::Span { min, max } => {
            let most = most.unwrap_or(*max).max(*min);
            min + rng.below((most - min + 1) as usize) as i64
        }
        Range::Values(values) => values[rng.below(values.len())],
    };
    for _ in 0..DRAWN {
        let draw = |(axis, range): (&String, &Range)| (axis.clone(), within(range, None, rng));
        let axes = lab.ranges.iter().map(|(axis, range)| (axis, range)).map(draw).collect();
        shapes.push(Workload { name: "drawn".to_string(), axes, scalars: Default::default() });
    }
    for workload in &lab.workloads {
        for _ in 0..DRAWN_BEYOND / lab.workloads.len().max(1) + 1 {
            let shape = beyond(lab, workload, rng);
            if bind::is_shape(lab, &shape) {
                shapes.push(shape);
            }
        }
        for _ in 0..DRAWN_BELOW / lab.workloads.len().max(1) + 1 {
            let mut axes = workload.axes.clone();
            for (axis, value) in &mut axes {
                let range = lab.ranges.iter().find(|(name, _)| name == axis).map(|(_, it)| it);
                if let Some(range @ Range::Span { .. }) = range
                    && rng.below(2) == 0
                {
                    *value = within(range, Some(*value), rng);
                }
            }
            shapes.push(Workload { name: "drawn".to_string(), axes, scalars: Default::default() });
        }
    }
    shapes
}

/// Draws a shape whose extents may be twice those of a workload.
fn beyond(lab: &Lab, workload: &Workload, rng: &mut Rng) -> Workload {
    let draw = |(axis, value): &(String, i64)| {
        let range = lab.ranges.iter().find(|(name, _)| name == axis).map(|(_, range)| range);
        let drawn = match range {
            Some(Range::Span { min, .. })
                if !shapes::chooses_a_type(lab, axis) && rng.below(2) == 0 =>
            {
                let most = value.saturating_mul(shapes::BEYOND).max(*min);
                min + rng.below((most - min + 1) as usize) as i64
            }
            _ => *value,
        };
        (axis.clone(), drawn)
    };
    let axes = workload.axes.iter().map(draw).collect();
    Workload { name: "beyond".to_string(), axes, scalars: Default::default() }
}

#[cfg(test)]
mod tests {
    use std::path::{Path, PathBuf};

    use warpsmith_device::cuda::device_of_arch;
    use warpsmith_device::target::Artifact;
    use warpsmith_model::lab::{LabFiles, TargetKind};

    use warpsmith_model::{BlobId, DeviceInfo, Fidelity, Verdict};

    use super::*;
    use crate::evaluate::evaluate;
    use crate::testing::{corpus, environment, lab_with, machine, request};

    fn read(folder: &Path, prefix: &str, files: &mut LabFiles) {
        for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
            let name = entry.file_name().to_string_lossy().to_string();
            if let Ok(text) = std::fs::read_to_string(entry.path()) {
                files.entry(format!("{prefix}{name}")).or_insert(text);
            }
        }
    }

    fn labs() -> Vec<Lab> {
        let root: PathBuf = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../labs");
        let mut labs = Vec::new();
        for name in ["saxpy", "rmsnorm", "gemm", "attention"] {
            for inside in ["", "cuda"] {
                let dir = root.join(name).join(inside);
                let mut files = LabFiles::new();
                for folder in ["", "kernels/", "baselines/", "include/"] {
                    read(&dir.join(folder), folder, &mut files);
                }
                if inside == "cuda" {
                    read(&dir.join(".."), "../", &mut files);
                    read(&root.join("include"), "../include/", &mut files);
                    read(&root.join("include/ptx"), "../include/ptx/", &mut files);
                    files.retain(|path, _| !(path.starts_with("../") && path.ends_with(".toml")));
                } else {
                    read(&root.join("include"), "../include/", &mut files);
                }
                labs.push(Lab::parse(&files).unwrap_or_else(|errors| panic!("{name}: {errors}")));
            }
        }
        labs
    }

    /// What honest kernels say of themselves is true: otherwise the gate would reject them.
    #[test]
    fn every_kernel_of_the_repository_has_a_launch_for_every_shape_that_it_serves() {
        let host = DeviceInfo { cuda: None, ..device_of_arch("sm_90a").expect("known") };
        for lab in labs() {
            let device = match lab.target {
                TargetKind::Cuda => device_of_arch("sm_90a").expect("known"),
                TargetKind::Cpu => host.clone(),
            };
            let shapes = drawn(&lab, &mut Rng::new(1));
            assert!(shapes.len() > DRAWN, "{} has no ranges", lab.name);
            for kernel in &lab.kernels {
                for shape in &shapes {
                    if !kernel.serves(shape).expect("an expression") {
                        continue;
                    }
                    let artifact = Artifact {
                        path: PathBuf::new(),
                        binary: BlobId::of(b""),
                        command: Vec::new(),
                        log: String::new(),
                        compile_s: 0.0,
                        cached: true,
                    };
                    let params = &kernel.default;
                    let bound =
                        bind::kernel_program(&lab, kernel, params, shape, &device, artifact);
                    let shape = bind::describe_shape(shape);
                    if let Err(error) = bound {
                        panic!("{} {} on {shape}: {error}", lab.name, kernel.name);
                    }
                }
            }
        }
    }

    #[test]
    fn a_kernel_without_a_launch_beyond_the_workloads_crashes_before_it_is_launched() {
        let verdict = |blocks: &str| {
            let lab = lab_with(|files| {
                let contract = files.get_mut("kernels/10_fast.toml").expect("there");
                *contract = contract.replace("ceil_div(N, 64)", blocks);
            });
            let mut fake = machine();
            let environment = environment(&fake);
            let kernel = lab.kernel("10_fast").expect("there").clone();
            let request = request(&lab, Fidelity::Full, &["small", "large"]);
            evaluate(&mut fake, &mut corpus(), &lab, &kernel, &request, &environment, None)
                .unwrap_or_else(|error| panic!("we broke: {error:?}"))
                .trial
                .outcome
        };
        assert_eq!(verdict("ceil_div(N, 64)").verdict(), Verdict::Passed);
        // The largest workload has 16384.
        let said = verdict("1 if N < 24000 else 0").describe();
        assert!(said.starts_with("crashed on beyond (N="), "{said}");
        assert!(said.contains("no launch is possible"), "{said}");
    }

    #[test]
    fn shapes_beyond_the_workloads_are_the_labs() {
        for lab in labs() {
            let mut rng = Rng::new(5);
            let all = drawn(&lab, &mut rng);
            let beyond: Vec<&Workload> = all.iter().filter(|it| it.name == "beyond").collect();
            assert!(beyond.len() > DRAWN_BEYOND / 4, "{}: {}", lab.name, beyond.len());
            assert!(beyond.iter().all(|shape| bind::is_shape(&lab, shape)), "{}", lab.name);
            let is_larger = |shape: &&&Workload| {
                let mut axes = shape.axes.iter();
                axes.any(|(axis, value)| {
                    lab.workloads.iter().all(|it| it.axis(axis).is_none_or(|most| *value > most))
                })
            };
            assert!(beyond.iter().filter(is_larger).count() > 10, "{}", lab.name);
        }
    }
}
