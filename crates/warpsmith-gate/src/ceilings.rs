//! Measures what the machine can do at most, with kernels that go through the same compiler,
//! sandbox, launch and clock as every candidate.
//!
//! A ceiling is what several readings reached, to a few percent of each other: a single one that is faster
//! than all others says more of the clock than of the machine. All ceilings are measured in turns, so that
//! each is looked at over the whole time, until none of them rises any more. What memory can do is the best
//! of several mixes of reading and writing.

mod cuda;

use std::sync::Arc;
use std::time::{Duration, Instant};

use warpsmith_device::target::{
    Argument, Artifact, CaseId, Clocked, Extent, Fault, LaunchPlan, Program, Session, Target,
    TensorPlan, Unit,
};
use warpsmith_model::lab::Role;
use warpsmith_model::{Ceilings, DType, stats};

use crate::clock;
use crate::error::GateError;

const SOURCE: &str = include_str!("ceilings.c");
const FILE_NAME: &str = "ceilings.c";
const ENTRIES: [&str; 10] = [
    "fma_f32",
    "fma_f64",
    "memory_read",
    "memory_streams",
    "memory_triad",
    "memory_copy",
    "memory_fill",
    "cache_read",
    "cache_triad",
    "empty",
];

/// Ways to keep memory busy, and how many arrays each of them reads and writes.
const MEMORY_MIXES: [(&str, f64); 5] = [
    ("memory_read", 2.0),
    ("memory_streams", 2.0),
    ("memory_triad", 3.0),
    ("memory_copy", 2.0),
    ("memory_fill", 1.0),
];

/// Chains of multiply-adds in the source.
const CHAINS: f64 = 12.0;
/// Floats of a block's slice: 64 KiB, a whole number of unrolled steps for every vector width.
const SLICE_FLOATS: u64 = 16 << 10;
const DEADLINE: Duration = Duration::from_secs(20);
/// Readings of each kernel in a turn; of those on large arrays, which take long, one.
const READINGS_IN_A_TURN: usize = 2;
/// Turns at least and at most, and seconds at most.
const FEWEST_TURNS: usize = 10;
const MOST_TURNS: usize = 40;
const MOST_S: f64 = 1.2;
/// The turns end when no ceiling has risen for so many of them by more than this.
const LEVEL_TURNS: usize = 6;
const LEVEL: f64 = 0.01;
/// Where the machine is too busy for readings to agree, more are taken, each a tenth as long: what runs
/// beside lets a team of threads run undisturbed for tenths of a millisecond long before it does so for three.
/// Beside a program that never stops a reading takes a time slice of some milliseconds, most of it waiting.
const BUSY_READINGS: usize = 400;
const BUSY_S: f64 = 1.0;
const BUSY_SHARE: f64 = 0.1;
/// A ceiling is reached when so many readings are within this share of it.
const READINGS_THAT_AGREE: usize = 4;
const AGREEMENT: f64 = 0.02;
/// Ceilings that somebody is to be accused by are measured so often, until the machine is quiet.
const TRIES: usize = 3;
/// A machine is quiet that leaves at least this share of the readings undisturbed.
const QUIET_SHARE: f64 = 0.5;
/// Vector instructions a second that no processor reaches: sixteen a cycle at ten billion cycles. What seems
/// to is an error of the clock.
const IMPOSSIBLE_VECTORS_PER_S: f64 = 1.6e11;
/// Matrix units do at most so many times as much with 16-bit elements as multiply-adds do in single precision:
/// fifteen times on Hopper.
const MATRIX_UNITS: f64 = 16.0;
/// Ceilings have risen when arithmetic is faster by more than this; less is their own error.
const RISEN: f64 = 0.03;
/// Empty launches whose median is the floor.
const EMPTY_LAUNCHES: usize = 200;
/// Of a busy machine, those that waited for no processor, where there are so many.
const FEWEST_EMPTY_LAUNCHES: usize = 20;
/// One reading of an arithmetic or cache ceiling should take about this long.
const READING_S: f64 = 0.003;

/// Measures the ceilings until the machine was quiet meanwhile, three times at most; none where it was not. Those of
/// a busy one were seen ten times too low.
pub(crate) fn measure_in_quiet(target: &mut dyn Target) -> Result<Option<Ceilings>, GateError> {
    for _ in 0..TRIES {
        let measured = measure(target)?;
        if !measured.busy {
            return Ok(Some(measured));
        }
    }
    Ok(None)
}

/// Returns ceilings that no machine reaches, for when its own are not to be had.
pub(crate) fn beyond_any(target: &dyn Target) -> Ceilings {
    let flops_per_s = |work: &Work| impossible_vectors_per_s(target) * work.per_vector;
    let [f32, f64, ..] = small_works(target);
    let f32_flops_per_s = flops_per_s(&f32);
    let bytes_per_s = impossible_vectors_per_s(target) * vector_bytes(target);
    let has_matrix_units = target.info().cuda.is_some();
    Ceilings {
        f32_flops_per_s,
        f64_flops_per_s: flops_per_s(&f64),
        matrix_flops_per_s: has_matrix_units.then_some(MATRIX_UNITS * f32_flops_per_s),
        memory_bytes_per_s: bytes_per_s,
        cache_bytes_per_s: bytes_per_s,
        launch_floor_s: 0.0,
        busy: false,
        newest: None,
    }
}

/// Measures the ceilings; takes one to two seconds, and about three on a machine that is busy.
pub fn measure(target: &mut dyn Target) -> Result<Ceilings, GateError> {
    let _step = warpsmith_device::trace::step("measuring ceilings");
    if let Some(info) = target.info().cuda.clone() {
        let measured = cuda::measure(target, &info)?;
        return Ok(Ceilings { busy: !is_at_speed(target), ..measured });
    }
    let artifact = compile(target)?;
    let launch_floor_s = floor_with(target, &artifact)?;

    let small = plans((small_blocks(target) as u64 + 1) * SLICE_FLOATS);
    let small_case = stage(target, &small)?;
    let large = plans(far_blocks(target) * SLICE_FLOATS);
    let large_case = stage(target, &large)?;

    let works = small_works(target);
    let mut probes = Vec::new();
    for work in &works {
        probes.push(Probe::small(target, &artifact, &small, small_case, work, READING_S)?);
    }
    for (entry, arrays) in MEMORY_MIXES {
        probes.push(Probe::memory(target, &artifact, &large, large_case, entry, arrays)?);
    }
    take_turns(target, &mut probes)?;
    let mut rates: Vec<f64> = Vec::new();
    let mut is_quiet = true;
    for probe in probes {
        rates.push(probe.reached());
        let is_settled = probe.is_settled();
        is_quiet &= probe.was_quiet();
        drop(probe);
        if let Some(work) = works.get(rates.len() - 1).filter(|_| !is_settled) {
            let brief = brief_rate(target, &artifact, &small, small_case, work)?;
            let best = rates.last_mut().expect("it was just pushed");
            *best = best.max(brief);
        }
    }
    target.unstage(small_case);
    target.unstage(large_case);
    let memory = rates[works.len()..].iter().copied().fold(0.0, f64::max);
    Ok(Ceilings {
        f32_flops_per_s: rates[0],
        f64_flops_per_s: rates[1],
        matrix_flops_per_s: None,
        memory_bytes_per_s: memory,
        cache_bytes_per_s: rates[2].max(rates[3]),
        launch_floor_s,
        busy: !is_quiet,
        newest: None,
    })
}

/// Says whether the machine can do more than these ceilings, which were measured before: whether it now
/// multiplies and adds faster, or reads or writes memory faster. Takes a tenth of the time of measuring all of them.
pub fn have_risen(target: &mut dyn Target, known: &Ceilings) -> Result<bool, GateError> {
    if target.info().cuda.is_some() {
        // Its clocks are its own affair; only measuring tells.
        return Ok(true);
    }
    let artifact = compile(target)?;
    let small = plans((small_blocks(target) as u64 + 1) * SLICE_FLOATS);
    let case = stage(target, &small)?;
    let [arithmetic, ..] = small_works(target);
    let now = quick_rate(target, &artifact, &small, case, &arithmetic);
    target.unstage(case);
    let has_risen = |now: f64, known: f64| now > known * (1.0 + RISEN);
    if has_risen(now?, known.f32_flops_per_s) {
        return Ok(true);
    }
    let large = plans(far_blocks(target) * SLICE_FLOATS);
    let case = stage(target, &large)?;
    let now = quick_memory_rate(target, &artifact, &large, case);
    target.unstage(case);
    Ok(has_risen(now?, known.memory_bytes_per_s))
}

fn quick_memory_rate(
    target: &mut dyn Target,
    artifact: &Artifact,
    large: &[TensorPlan],
    case: CaseId,
) -> Result<f64, GateError> {
    let mut best: f64 = 0.0;
    for (entry, arrays) in MEMORY_MIXES {
        let mut probe = Probe::memory(target, artifact, large, case, entry, arrays)?;
        for _ in 0..READINGS_THAT_AGREE {
            probe.read(target)?;
        }
        best = best.max(probe.reached());
    }
    Ok(best)
}

fn quick_rate(
    target: &mut dyn Target,
    artifact: &Artifact,
    small: &[TensorPlan],
    case: CaseId,
    work: &Work,
) -> Result<f64, GateError> {
    let mut probe = Probe::small(target, artifact, small, case, work, READING_S)?;
    for _ in 0..FEWEST_TURNS {
        probe.read(target)?;
    }
    Ok(probe.reached())
}

/// What one step of a ceiling on small arrays does, and about how fast.
struct Work {
    entry: &'static str,
    /// Floats of a slice that it uses.
    n: u64,
    per_step: f64,
    /// The same for one vector instruction.
    per_vector: f64,
    guess_per_s: f64,
}

/// Returns the ceilings on small arrays: arithmetic in single and double precision, and two uses of the
/// nearest cache, of which half holds one array, and three quarters three.
fn small_works(target: &dyn Target) -> [Work; 4] {
    let vector_bytes = vector_bytes(target);
    let l1_floats = target.info().l1d_bytes.clamp(16 << 10, 64 << 10) / 4;
    let arithmetic = |entry, bytes: f64, guess_per_s| {
        let per_vector = vector_bytes / bytes * 2.0;
        Work { entry, n: 0, per_step: CHAINS * per_vector, per_vector, guess_per_s }
    };
    let cache = |entry, n: u64, bytes: f64| Work {
        entry,
        n,
        per_step: n as f64 * bytes,
        per_vector: vector_bytes,
        guess_per_s: 1e11,
    };
    [
        arithmetic("fma_f32", 4.0, 6e10),
        arithmetic("fma_f64", 8.0, 3e10),
        cache("cache_read", l1_floats / 2, 4.0),
        cache("cache_triad", l1_floats / 4, 12.0),
    ]
}

/// Returns the slices of each of two large arrays, which together are four times the last cache.
fn far_blocks(target: &dyn Target) -> u64 {
    let far_bytes = (4 * target.info().l3_bytes).clamp(32 << 20, 1 << 30);
    far_bytes / 2 / 4 / SLICE_FLOATS
}

fn vector_bytes(target: &dyn Target) -> f64 {
    f64::from(target.info().vector_bytes.max(16))
}

fn threads(target: &dyn Target) -> f64 {
    f64::from(target.info().threads.max(1))
}

fn impossible_vectors_per_s(target: &dyn Target) -> f64 {
    IMPOSSIBLE_VECTORS_PER_S * threads(target)
}

fn small_blocks(target: &dyn Target) -> i64 {
    i64::from(target.info().threads.max(1)) * 4
}

/// One kernel that a ceiling is measured with.
struct Probe {
    session: Box<dyn Session>,
    entry: &'static str,
    readings_in_a_turn: usize,
    /// Operations or bytes of a launch.
    work: f64,
    impossible_per_s: f64,
    /// One for each reading.
    rates: Vec<f64>,
    /// Those of a machine that was quiet.
    undisturbed: Vec<f64>,
}

impl Probe {
    /// Opens one on small arrays whose readings take about so long.
    fn small(
        target: &mut dyn Target,
        artifact: &Artifact,
        small: &[TensorPlan],
        case: CaseId,
        work: &Work,
        reading_s: f64,
    ) -> Result<Self, GateError> {
        let blocks = small_blocks(target);
        let steps = reading_s * work.guess_per_s * threads(target);
        let steps = (steps / (work.per_step * blocks as f64)).ceil();
        let program = program(artifact, small, work.entry, work.n, steps as i64, blocks);
        Ok(Self {
            session: open(target, &program, case, work.entry)?,
            entry: work.entry,
            readings_in_a_turn: READINGS_IN_A_TURN,
            work: work.per_step * steps * blocks as f64,
            impossible_per_s: impossible_vectors_per_s(target) * work.per_vector,
            rates: Vec::new(),
            undisturbed: Vec::new(),
        })
    }

    /// Opens one on large arrays, so many of which its entry reads and writes.
    fn memory(
        target: &mut dyn Target,
        artifact: &Artifact,
        large: &[TensorPlan],
        case: CaseId,
        entry: &'static str,
        arrays: f64,
    ) -> Result<Self, GateError> {
        let blocks = far_blocks(target);
        let program = program(artifact, large, entry, 0, 0, blocks as i64);
        Ok(Self {
            session: open(target, &program, case, entry)?,
            entry,
            readings_in_a_turn: 1,
            work: (blocks * SLICE_FLOATS * 4) as f64 * arrays,
            impossible_per_s: impossible_vectors_per_s(target) * vector_bytes(target),
            rates: Vec::new(),
            undisturbed: Vec::new(),
        })
    }

    fn read(&mut self, target: &mut dyn Target) -> Result<(), GateError> {
        let clocked = reading(&mut *self.session, self.entry)?;
        let rate = self.work / clocked.elapsed_s;
        self.rates.push(rate);
        if is_undisturbed(target, &clocked) {
            self.undisturbed.push(rate);
        }
        Ok(())
    }

    /// Returns the best rate that several readings agree on.
    fn reached(&self) -> f64 {
        reached(&self.rates, self.impossible_per_s)
    }

    /// Says whether the machine was quiet at most of the readings.
    fn was_quiet(&self) -> bool {
        self.undisturbed.len() as f64 >= QUIET_SHARE * self.rates.len() as f64
    }

    /// Says whether enough readings of a quiet machine reached it.
    fn is_settled(&self) -> bool {
        let near = self.reached() * (1.0 - AGREEMENT);
        self.undisturbed.iter().filter(|rate| **rate >= near).count() >= READINGS_THAT_AGREE
    }
}

/// Reads all clocks in turns until no rate rises any more, or the time is up.
fn take_turns(target: &mut dyn Target, probes: &mut [Probe]) -> Result<(), GateError> {
    let started = Instant::now();
    let mut best = vec![0.0; probes.len()];
    let mut level = 0;
    for turn in 1..=MOST_TURNS {
        for probe in probes.iter_mut() {
            for _ in 0..probe.readings_in_a_turn {
                probe.read(target)?;
            }
        }
        let mut has_risen = false;
        for (best, probe) in best.iter_mut().zip(probes.iter()) {
            let now = probe.reached();
            if now > *best * (1.0 + LEVEL) {
                (*best, has_risen) = (now, true);
            }
        }
        level = if has_risen { 0 } else { level + 1 };
        let is_level = turn >= FEWEST_TURNS && level >= LEVEL_TURNS;
        if is_level || started.elapsed().as_secs_f64() > MOST_S {
            break;
        }
    }
    Ok(())
}

/// Returns the best rate of some work on all processors from many short readings.
fn brief_rate(
    target: &mut dyn Target,
    artifact: &Artifact,
    small: &[TensorPlan],
    case: CaseId,
    work: &Work,
) -> Result<f64, GateError> {
    let reading_s = READING_S * BUSY_SHARE;
    let mut probe = Probe::small(target, artifact, small, case, work, reading_s)?;
    let started = Instant::now();
    for _ in 0..BUSY_READINGS {
        probe.read(target)?;
        if started.elapsed().as_secs_f64() > BUSY_S {
            break;
        }
    }
    Ok(probe.reached())
}

/// Returns the best rate that several readings bear out: at least so many reached it, to the percents by
/// which they may differ.
fn reached(rates: &[f64], impossible_per_s: f64) -> f64 {
    let mut possible: Vec<f64> =
        rates.iter().copied().filter(|rate| *rate < impossible_per_s).collect();
    possible.sort_by(|a, b| b.total_cmp(a));
    let Some(borne_out) = possible.len().min(READINGS_THAT_AGREE).checked_sub(1) else {
        return impossible_per_s;
    };
    let most = possible[borne_out] / (1.0 - AGREEMENT);
    possible.into_iter().find(|rate| *rate <= most).unwrap_or(most)
}

/// Measures the time of an empty launch alone.
pub fn launch_floor(target: &mut dyn Target) -> Result<f64, GateError> {
    if let Some(info) = target.info().cuda.clone() {
        return cuda::launch_floor(target, &info);
    }
    let artifact = compile(target)?;
    floor_with(target, &artifact)
}

fn floor_with(target: &mut dyn Target, artifact: &Artifact) -> Result<f64, GateError> {
    let plans = plans(SLICE_FLOATS);
    let case = stage(target, &plans)?;
    let blocks = i64::from(target.info().threads.max(1));
    let program = program(artifact, &plans, "empty", 0, 0, blocks);
    let mut session = open(target, &program, case, "empty")?;
    let mut samples_s = Vec::new();
    let mut unwaited_s = Vec::new();
    for _ in 0..EMPTY_LAUNCHES {
        let clocked = reading(&mut *session, "empty")?;
        samples_s.push(clocked.elapsed_s);
        if !clock::has_waited(&clocked) {
            unwaited_s.push(clocked.elapsed_s);
        }
    }
    drop(session);
    target.unstage(case);
    // What a launch costs is not what the programs beside it take.
    let count = if unwaited_s.len() >= FEWEST_EMPTY_LAUNCHES { &unwaited_s } else { &samples_s };
    Ok(stats::median(count).expect("there were launches"))
}

fn compile(target: &mut dyn Target) -> Result<Artifact, GateError> {
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

fn stage(target: &mut dyn Target, plans: &[TensorPlan]) -> Result<CaseId, GateError> {
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
) -> Result<Box<dyn Session>, GateError> {
    target.open(program, &[case], DEADLINE).map_err(|source| failed(entry, source))
}

fn reading(session: &mut dyn Session, entry: &str) -> Result<Clocked, GateError> {
    session.launch(&[0], &Extent::All).map_err(|source| failed(entry, source))
}

/// Says whether nothing else had a processor during a reading, or has one right after it.
fn is_undisturbed(target: &mut dyn Target, clocked: &Clocked) -> bool {
    !clock::has_waited(clocked) && is_at_speed(target)
}

fn is_at_speed(target: &mut dyn Target) -> bool {
    target.speed().is_none_or(|speed| speed >= clock::UNDISTURBED_SPEED)
}

fn failed(what: &str, source: Fault) -> GateError {
    GateError::Target { doing: format!("measuring the machine's ceilings ({what})"), source }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_ceiling_is_what_several_readings_reach() {
        let reached = |rates: &[f64]| reached(rates, 1000.0);
        assert_eq!(reached(&[99.0, 80.0, 100.0, 99.5, 99.0, 70.0]), 100.0);
        assert_eq!(reached(&[150.0, 100.0, 99.0, 100.0, 99.0]), 100.0, "one alone is an error");
        assert_eq!(reached(&[5000.0, 5000.0, 5000.0, 5000.0, 100.0, 99.0, 99.0, 100.0]), 100.0);
        assert_eq!(reached(&[100.0, 90.0, 80.0, 70.0, 60.0]), 70.0, "none agree");
        assert_eq!(reached(&[100.0, 50.0]), 50.0, "too few");
    }

    /// The clock of a busy machine once took more off a reading than it was long.
    #[test]
    fn readings_of_no_length_are_no_ceiling() {
        let mut fake = crate::testing::machine();
        let mut reading = 0;
        fake.kernel("ceilings.c", move |_| {
            reading += 1;
            Ok(if reading % 3 == 0 { 1e-9 } else { 1e-3 })
        });
        let ceilings = measure(&mut fake).expect("measured");
        let most = impossible_vectors_per_s(&fake) * vector_bytes(&fake);
        assert!(ceilings.f32_flops_per_s < most, "{ceilings:?}");
        assert!(ceilings.memory_bytes_per_s < most, "{ceilings:?}");
    }

    #[test]
    fn what_no_machine_reaches_is_beyond_what_was_measured() {
        let of_h200 = warpsmith_device::cuda::device_of_arch("sm_90a").expect("known");
        let mut fake = crate::testing::machine();
        fake.device(of_h200);
        let beyond = beyond_any(&fake);
        // As `doctor --ceilings` had them on the card.
        assert!(beyond.f32_flops_per_s > 62.2e12 && beyond.f64_flops_per_s > 32.8e12);
        assert!(beyond.matrix_flops_per_s.is_some_and(|matrix| matrix > 903e12));
        assert!(beyond.cache_bytes_per_s > 6.0e12 && beyond.memory_bytes_per_s > 3.9e12);
    }

    /// Ceilings that are too low make honest kernels implausible.
    #[test]
    fn a_machine_that_is_never_quiet_for_long_still_shows_its_arithmetic() {
        let flops_per_s = |slowdown: f64| {
            let mut fake = crate::testing::machine();
            fake.waits("ceilings.c");
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
