//! Measures what the machine can do at most, with kernels that go through the same compiler,
//! sandbox, launch and clock as every candidate. The best of several readings counts: a ceiling is
//! what was reached once.

use std::sync::Arc;
use std::time::Duration;

use warpsmith_model::lab::Role;
use warpsmith_model::{Ceilings, DType, stats};

use crate::clock;
use crate::error::DeviceError;
use crate::target::{
    Argument, Artifact, CaseId, Extent, Fault, LaunchPlan, Program, Session, Target, TensorPlan,
    Unit,
};

const SOURCE: &str = include_str!("ceilings.c");
const FILE_NAME: &str = "ceilings.c";
const ENTRIES: [&str; 7] =
    ["fma_f32", "fma_f64", "memory_read", "memory_triad", "cache_read", "cache_triad", "empty"];

/// Chains of multiply-adds in the source.
const CHAINS: f64 = 12.0;
/// Floats of a block's slice: 64 KiB, a whole number of unrolled steps for every vector width.
const SLICE_FLOATS: u64 = 16 << 10;
const DEADLINE: Duration = Duration::from_secs(20);
/// Readings of the arithmetic and cache ceilings, and of the memory's, at most. Many short ones rather
/// than few long ones: on a busy machine one of them meets a quiet moment on every core.
const SHORT_READINGS: usize = 24;
const LONG_READINGS: usize = 10;
/// Where the machine is too busy for them to agree, so many more are taken, each a tenth as long: what runs
/// beside lets a team of threads run undisturbed for tenths of a millisecond long before it does so for three.
const BUSY_READINGS: usize = 60;
const BUSY_SHARE: f64 = 0.1;
/// A ceiling is reached when so many readings on a quiet machine are within this share of the best: what
/// holds back the machine seldom does so four times to the percent.
const READINGS_THAT_AGREE: usize = 4;
const AGREEMENT: f64 = 0.01;
/// Ceilings have risen when arithmetic is faster by more than this; less is their own error.
const RISEN: f64 = 0.03;
/// Empty launches whose median is the floor.
const EMPTY_LAUNCHES: usize = 200;
/// One reading of an arithmetic or cache ceiling should take about this long.
const READING_S: f64 = 0.003;

/// Measures the ceilings; takes about a second.
pub fn measure(target: &mut dyn Target) -> Result<Ceilings, DeviceError> {
    let _step = crate::trace::step("measuring ceilings");
    if let Some(info) = target.info().cuda.clone() {
        return crate::cuda::ceilings::measure(target, &info);
    }
    let artifact = compile(target)?;
    let launch_floor_s = floor_with(target, &artifact)?;

    let early = small_rates(target, &artifact)?;

    // Two large arrays, together four times the last cache.
    let far_bytes = (4 * target.info().l3_bytes).clamp(32 << 20, 1 << 30);
    let far_blocks = far_bytes / 2 / 4 / SLICE_FLOATS;
    let large = plans(far_blocks * SLICE_FLOATS);
    let case = stage(target, &large)?;
    let mut stream = |entry: &str, arrays: f64| {
        let program = program(&artifact, &large, entry, 0, 0, far_blocks as i64);
        let bytes = (far_blocks * SLICE_FLOATS * 4) as f64 * arrays;
        let best = fastest(target, &program, case, entry, LONG_READINGS)?;
        Ok::<f64, DeviceError>(bytes / best.time_s)
    };
    let memory_read = stream("memory_read", 2.0)?;
    let memory_triad = stream("memory_triad", 3.0)?;
    target.unstage(case);

    // Once more, tenths of a second later: a machine that wakes, or that a neighbour holds back, can be slow
    // for long enough to agree with itself.
    let late = small_rates(target, &artifact)?;
    Ok(Ceilings {
        f32_flops_per_s: early.f32_flops_per_s.max(late.f32_flops_per_s),
        f64_flops_per_s: early.f64_flops_per_s.max(late.f64_flops_per_s),
        matrix_flops_per_s: None,
        memory_bytes_per_s: memory_read.max(memory_triad),
        cache_bytes_per_s: early.cache_bytes_per_s.max(late.cache_bytes_per_s),
        launch_floor_s,
    })
}

/// The ceilings of small arrays: arithmetic and the nearest cache.
struct SmallRates {
    f32_flops_per_s: f64,
    f64_flops_per_s: f64,
    cache_bytes_per_s: f64,
}

/// Measures them with a slice of small arrays for every block.
fn small_rates(target: &mut dyn Target, artifact: &Artifact) -> Result<SmallRates, DeviceError> {
    let lanes = |bytes: f64| f64::from(target.info().vector_bytes.max(16)) / bytes;
    let (single_lanes, double_lanes) = (lanes(4.0), lanes(8.0));
    let l1_floats = target.info().l1d_bytes.clamp(16 << 10, 64 << 10) / 4;
    let small = plans((small_blocks(target) as u64 + 1) * SLICE_FLOATS);
    let case = stage(target, &small)?;
    let mut best = |entry: &str, n: u64, work_per_step: f64, guess_per_s: f64| {
        let work = Work { entry, n, per_step: work_per_step, guess_per_s };
        small_rate(target, artifact, &small, case, &work)
    };
    let f32_flops_per_s = best("fma_f32", 0, CHAINS * single_lanes * 2.0, 6e10)?;
    let f64_flops_per_s = best("fma_f64", 0, CHAINS * double_lanes * 2.0, 3e10)?;
    // Half of the cache for one array, three quarters for three.
    let read_floats = l1_floats / 2;
    let triad_floats = l1_floats / 4;
    let cache_read = best("cache_read", read_floats, read_floats as f64 * 4.0, 1e11)?;
    let cache_triad = best("cache_triad", triad_floats, triad_floats as f64 * 12.0, 1e11)?;
    target.unstage(case);
    Ok(SmallRates {
        f32_flops_per_s,
        f64_flops_per_s,
        cache_bytes_per_s: cache_read.max(cache_triad),
    })
}

/// Says whether the machine can do more than these ceilings, which were measured before: whether it now
/// multiplies and adds faster. Takes a twentieth of the time of measuring all of them.
pub fn have_risen(target: &mut dyn Target, known: &Ceilings) -> Result<bool, DeviceError> {
    if target.info().cuda.is_some() {
        // Its clocks are its own affair; only measuring tells.
        return Ok(true);
    }
    let artifact = compile(target)?;
    let small = plans((small_blocks(target) as u64 + 1) * SLICE_FLOATS);
    let case = stage(target, &small)?;
    let per_step = CHAINS * f64::from(target.info().vector_bytes.max(16)) / 4.0 * 2.0;
    let work = Work { entry: "fma_f32", n: 0, per_step, guess_per_s: 6e10 };
    let now = small_rate(target, &artifact, &small, case, &work);
    target.unstage(case);
    Ok(now? > known.f32_flops_per_s * (1.0 + RISEN))
}

/// What one step of a ceiling on small arrays does, and about how fast.
struct Work<'a> {
    entry: &'a str,
    /// Floats of a slice that it uses.
    n: u64,
    per_step: f64,
    guess_per_s: f64,
}

fn small_blocks(target: &dyn Target) -> i64 {
    i64::from(target.info().threads.max(1)) * 4
}

/// Returns the best rate of some work on all processors.
fn small_rate(
    target: &mut dyn Target,
    artifact: &Artifact,
    small: &[TensorPlan],
    case: CaseId,
    work: &Work<'_>,
) -> Result<f64, DeviceError> {
    let blocks = small_blocks(target);
    let threads = f64::from(target.info().threads.max(1));
    let mut rate = |reading_s: f64, readings: usize| {
        let steps = reading_s * work.guess_per_s * threads / (work.per_step * blocks as f64);
        let steps = steps.ceil();
        let program = program(artifact, small, work.entry, work.n, steps as i64, blocks);
        let best = fastest(target, &program, case, work.entry, readings)?;
        Ok::<_, DeviceError>((work.per_step * steps * blocks as f64 / best.time_s, best.is_settled))
    };
    let (best, is_settled) = rate(READING_S, SHORT_READINGS)?;
    if is_settled {
        return Ok(best);
    }
    let (brief, _) = rate(READING_S * BUSY_SHARE, BUSY_READINGS)?;
    Ok(best.max(brief))
}

/// Measures the time of an empty launch alone.
pub fn launch_floor(target: &mut dyn Target) -> Result<f64, DeviceError> {
    if let Some(info) = target.info().cuda.clone() {
        return crate::cuda::ceilings::launch_floor(target, &info);
    }
    let artifact = compile(target)?;
    floor_with(target, &artifact)
}

fn floor_with(target: &mut dyn Target, artifact: &Artifact) -> Result<f64, DeviceError> {
    let plans = plans(SLICE_FLOATS);
    let case = stage(target, &plans)?;
    let blocks = i64::from(target.info().threads.max(1));
    let program = program(artifact, &plans, "empty", 0, 0, blocks);
    let mut session = open(target, &program, case, "empty")?;
    let mut samples_s = Vec::new();
    for _ in 0..EMPTY_LAUNCHES {
        samples_s.push(reading(&mut *session, "empty")?);
    }
    drop(session);
    target.unstage(case);
    Ok(stats::median(&samples_s).expect("there were launches"))
}

fn compile(target: &mut dyn Target) -> Result<Artifact, DeviceError> {
    let tensor = |role| Argument::Tensor(DType::F32, role);
    let vector_bytes = target.info().vector_bytes.max(16);
    let unit = Unit {
        file_name: FILE_NAME.to_string(),
        source: SOURCE.to_string(),
        headers: Vec::new(),
        entries: ENTRIES.map(str::to_string).to_vec(),
        signature: vec![
            tensor(Role::Input),
            tensor(Role::Input),
            tensor(Role::Output),
            Argument::Axis,
            Argument::Axis,
        ],
        defines: vec![
            ("VEC_BYTES".to_string(), vector_bytes.to_string()),
            ("SLICE_FLOATS".to_string(), SLICE_FLOATS.to_string()),
        ],
        compiler: "cc".to_string(),
        flags: ["-O3", "-march=native", "-ffp-contract=fast"].map(str::to_string).to_vec(),
        deadline: DEADLINE,
    };
    target.compile(&unit).map_err(|source| failed("compiling", source))
}

fn plans(floats: u64) -> Vec<TensorPlan> {
    [("x", Role::Input), ("y", Role::Input), ("z", Role::Output)]
        .map(|(name, role)| TensorPlan {
            name: name.to_string(),
            shape: vec![floats],
            dtype: DType::F32,
            role,
        })
        .to_vec()
}

fn stage(target: &mut dyn Target, plans: &[TensorPlan]) -> Result<CaseId, DeviceError> {
    // A half and one: multiply-adds with them neither grow nor become subnormal.
    let filled = |value: f32| value.to_ne_bytes().repeat(plans[0].elements());
    target
        .stage(plans, &Arc::new(vec![filled(0.5), filled(1.0)]))
        .map_err(|source| failed("staging inputs", source))
}

fn program(
    artifact: &Artifact,
    plans: &[TensorPlan],
    entry: &str,
    n: u64,
    steps: i64,
    blocks: i64,
) -> Program {
    let entry = ENTRIES.iter().position(|known| *known == entry).expect("an entry of the source");
    Program {
        grid: None,
        gemm: None,
        artifact: artifact.clone(),
        tensors: plans.to_vec(),
        axes: vec![n as i64, steps],
        scalars: Vec::new(),
        scratch: Vec::new(),
        launches: vec![LaunchPlan { entry, blocks, chunk: 1 }],
    }
}

fn open(
    target: &mut dyn Target,
    program: &Program,
    case: CaseId,
    entry: &str,
) -> Result<Box<dyn Session>, DeviceError> {
    target.open(program, &[case], DEADLINE).map_err(|source| failed(entry, source))
}

fn reading(session: &mut dyn Session, entry: &str) -> Result<f64, DeviceError> {
    let clocked = session.launch(&[0], &Extent::All).map_err(|source| failed(entry, source))?;
    Ok(clocked.elapsed_s)
}

/// The fastest of several readings.
struct Fastest {
    time_s: f64,
    /// Whether enough undisturbed readings agree on it.
    is_settled: bool,
}

fn fastest(
    target: &mut dyn Target,
    program: &Program,
    case: CaseId,
    entry: &str,
    readings: usize,
) -> Result<Fastest, DeviceError> {
    let mut session = open(target, program, case, entry)?;
    let mut best_s = f64::INFINITY;
    let mut undisturbed_s = Vec::new();
    for _ in 0..readings {
        let time_s = reading(&mut *session, entry)?;
        best_s = best_s.min(time_s);
        if target.speed().is_some_and(|speed| speed >= clock::UNDISTURBED_SPEED) {
            undisturbed_s.push(time_s);
        }
        if is_settled(best_s, &undisturbed_s) {
            return Ok(Fastest { time_s: best_s, is_settled: true });
        }
    }
    Ok(Fastest { time_s: best_s, is_settled: false })
}

/// Says whether enough undisturbed readings agree on what is the best.
fn is_settled(best_s: f64, undisturbed_s: &[f64]) -> bool {
    let agrees = |time_s: &&f64| **time_s <= best_s * (1.0 + AGREEMENT);
    undisturbed_s.iter().filter(agrees).count() >= READINGS_THAT_AGREE
}

fn failed(what: &str, source: Fault) -> DeviceError {
    DeviceError::Target { doing: format!("measuring the machine's ceilings ({what})"), source }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_ceiling_is_reached_when_quiet_readings_agree_on_the_best() {
        assert!(is_settled(1.0, &[1.0, 1.2, 1.005, 1.009, 1.0]));
        assert!(!is_settled(1.0, &[1.0, 1.005, 1.009]), "too few");
        assert!(!is_settled(1.0, &[1.02; 20]), "a disturbed reading was faster than all of them");
    }

    /// Ceilings that are too low make honest kernels implausible.
    #[test]
    fn a_machine_that_is_never_quiet_for_long_still_shows_its_arithmetic() {
        let flops_per_s = |slowdown: f64| {
            let mut fake = crate::testing::machine();
            fake.kernel("ceilings.c", move |call| {
                let time_s = call.program.axes[1] as f64 * 1e-9;
                // As if other work took turns with every reading that is long enough.
                Ok(if time_s > 1e-4 { time_s * slowdown } else { time_s.max(1e-9) })
            });
            measure(&mut fake).expect("measured").f32_flops_per_s
        };
        let (quiet, busy) = (flops_per_s(1.0), flops_per_s(5.0));
        assert!(busy > 0.9 * quiet, "{busy:e} instead of {quiet:e}");
    }
}
