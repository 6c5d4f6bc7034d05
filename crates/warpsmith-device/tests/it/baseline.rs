//! Library baselines as sessions: a real Python, with a stand-in for NumPy that shows the same
//! memory through `memoryview`, so that the tests need no packages.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use tempfile::TempDir;
use warpsmith_device::baseline::Python;
use warpsmith_device::poison::Poison;
use warpsmith_device::target::{Extent, Fault, LaunchPlan, Program, Session, Target, Unit};
use warpsmith_model::lab::{Baseline, BaselineProgram, LabFiles};
use warpsmith_model::{CrashCause, DeviceInfo, Lab};

use crate::support::{expected, floats, tensors, write_script};

const NUMPY: &str = r#"
CODES = {"float32": "f", "float64": "d"}

class Flat:
    def __init__(self, view):
        self.view = view
    def reshape(self, shape):
        assert [len(self.view)] == list(shape)
        return self.view

def frombuffer(memory, dtype, count):
    size = {"f": 4, "d": 8}[CODES[dtype]]
    return Flat(memoryview(memory)[: count * size].cast(CODES[dtype]))
"#;

const ELEMENTS: u64 = 1000;

/// A folder with a script, and a Python that finds the stand-in (or nothing at all).
struct Bench {
    folder: TempDir,
    python: Python,
}

impl Bench {
    fn new(script: &str, with_numpy: bool) -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let at = |name: &str| folder.path().join(name);
        for name in ["baselines", "with", "without"] {
            std::fs::create_dir(at(name)).expect("made");
        }
        std::fs::write(at("baselines/blend.py"), script).expect("written");
        std::fs::write(at("with/numpy.py"), NUMPY).expect("written");
        // Site packages are left out, so that it does not matter what is installed here.
        let path = if with_numpy { at("with") } else { at("without") };
        let interpreter = at("python");
        let line = format!("PYTHONPATH={} exec python3 -S \"$@\"", path.display());
        write_script(&interpreter, &line);
        let python = python(&interpreter, folder.path());
        Self { folder, python }
    }

    fn open(&mut self, n_cases: usize, deadline: Duration) -> Result<Box<dyn Session>, Fault> {
        let unit = Unit { file_name: "baselines/blend.py".to_string(), ..crate::support::unit("") };
        let artifact = self.python.compile(&unit)?;
        assert_eq!(
            artifact.path,
            self.folder.path().canonicalize().expect("there").join(&unit.file_name)
        );
        let program = Program {
            grid: None,
            gemm: None,
            artifact,
            tensors: tensors(ELEMENTS),
            axes: vec![ELEMENTS as i64],
            scalars: vec![1.5],
            scratch: Vec::new(),
            launches: vec![LaunchPlan { entry: 0, blocks: 1, chunk: 1 }],
        };
        let mut cases = Vec::new();
        for _ in 0..n_cases {
            let x = (0..ELEMENTS).flat_map(|idx| (idx as f32).to_le_bytes()).collect();
            let y = (0..ELEMENTS).flat_map(|_| 1f32.to_le_bytes()).collect();
            cases.push(self.python.stage(&tensors(ELEMENTS), &Arc::new(vec![x, y]))?);
        }
        let session = self.python.open(&program, &cases, deadline);
        for case in cases {
            assert_eq!(self.python.changed_input(case), None);
            self.python.unstage(case);
        }
        session
    }

    fn run(&mut self) -> Result<Box<dyn Session>, Fault> {
        let mut session = self.open(1, Duration::from_secs(30))?;
        session.launch(&[0], &Extent::All)?;
        Ok(session)
    }
}

/// Loads `labs/saxpy`, whose axis and scalar scripts are told.
fn saxpy() -> Lab {
    let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../labs/saxpy");
    let mut files = LabFiles::new();
    for path in ["lab.toml", "reference.c", "kernels/00_naive.c", "kernels/00_naive.toml"] {
        files.insert(path.to_string(), std::fs::read_to_string(dir.join(path)).expect(path));
    }
    Lab::parse(&files).unwrap_or_else(|errors| panic!("{errors}"))
}

fn python(interpreter: &Path, lab_dir: &Path) -> Python {
    let info = DeviceInfo {
        cuda: None,
        name: "test".to_string(),
        threads: 2,
        l1d_bytes: 0,
        l2_bytes: 0,
        l3_bytes: 0,
        vector_bytes: 32,
        features: Vec::new(),
        ticks_per_s: None,
    };
    let baseline = Baseline {
        name: "blend".to_string(),
        summary: "x".to_string(),
        program: BaselineProgram::Script("baselines/blend.py".to_string()),
        packages: vec!["numpy==2.3.4".to_string()],
        size_mb: 0,
        start_s: None,
        requires: Vec::new(),
    };
    Python::new(interpreter, lab_dir, &saxpy(), &baseline, &info)
}

const BLEND: &str = r#"
import os

def prepare(axes, scalars, threads):
    print("libraries talk")
    assert os.environ["OMP_NUM_THREADS"] == str(threads)
    return axes["N"], scalars["a"]

def run(state, inputs, outputs):
    n, a = state
    x, y, z = inputs["x"], inputs["y"], outputs["z"]
    for i in range(n):
        z[i] = a * x[i] + y[i]
"#;

#[test]
fn a_script_computes_in_the_harness_memory() {
    let mut bench = Bench::new(BLEND, true);
    let mut session = bench.open(3, Duration::from_secs(30)).expect("opens");
    assert!(floats(session.output(1, 2)).iter().all(|value| value.is_nan()), "poisoned");
    let clocked = session.launch(&[2, 0], &Extent::All).expect("runs");
    assert!(clocked.elapsed_s > 0.0 && clocked.ticks.is_none());
    assert_eq!(floats(session.output(0, 2)), expected(ELEMENTS));
    assert_eq!(floats(session.output(2, 2)), expected(ELEMENTS));
    assert!(floats(session.output(1, 2)).iter().all(|value| value.is_nan()), "not launched");
    session.poison(0, Poison::Nan);
    assert!(floats(session.output(0, 2)).iter().all(|value| value.is_nan()));
    assert_eq!(session.overwritten_guard(0), None);
}

#[test]
fn a_missing_package_is_named() {
    let mut bench = Bench::new(BLEND, false);
    match bench.run().err() {
        Some(Fault::Unavailable(message)) => {
            assert!(message.contains("`numpy` is missing"), "{message}");
            assert!(message.contains("numpy==2.3.4"), "{message}");
        }
        other => panic!("unavailable, not {other:?}"),
    }
}

#[test]
fn a_script_says_what_it_lacks_and_what_it_chose() {
    let lacks = "def prepare(*_): raise FileNotFoundError('no nvcc')\ndef run(*_): pass";
    match Bench::new(lacks, true).run().err() {
        Some(Fault::Unavailable(message)) => assert_eq!(message, "no nvcc"),
        other => panic!("unavailable, not {other:?}"),
    }
    let chooses = "def prepare(*_): return {'remark': 'tile 8'}\ndef run(*_): pass";
    let session = Bench::new(chooses, true).open(1, Duration::from_secs(30)).expect("opens");
    assert_eq!(session.remark(), Some("tile 8"));
}

#[test]
fn a_python_that_does_not_exist_is_unavailable() {
    let mut bench = Bench::new(BLEND, true);
    bench.python = python(Path::new("/nonexistent/python"), bench.folder.path());
    match bench.run().err() {
        Some(Fault::Unavailable(message)) => {
            assert!(message.contains("/nonexistent/python"), "{message}");
        }
        other => panic!("unavailable, not {other:?}"),
    }
}

#[test]
fn what_goes_wrong_in_a_script_is_quoted() {
    let raised = |script: String| match Bench::new(&script, true).run().err() {
        Some(Fault::Crashed(CrashCause::Raised { message })) => message,
        other => panic!("raised, not {other:?}"),
    };
    let bad_run =
        "def prepare(*_): pass\ndef run(state, inputs, outputs):\n    raise ValueError('no shape')";
    assert_eq!(raised(bad_run.to_string()), "ValueError: no shape");
    let bad_prepare = "def prepare(*_): return 1 / 0\ndef run(*_): pass";
    assert_eq!(raised(bad_prepare.to_string()), "ZeroDivisionError: division by zero");
    let writes = format!("{BLEND}\n    x[0] = 1.0\n");
    assert_eq!(raised(writes), "TypeError: cannot modify read-only memory");
    let leaves = "def prepare(*_): pass\ndef run(*_):\n    import os, sys\n    sys.stderr.write('farewell')\n    sys.stderr.flush()\n    os._exit(3)";
    assert_eq!(raised(leaves.to_string()), "farewell");
}

#[test]
fn a_script_that_does_not_return_is_killed() {
    let script = "import time\ndef prepare(*_): pass\ndef run(*_): time.sleep(100)";
    let mut bench = Bench::new(script, true);
    let mut session = bench.open(1, Duration::from_millis(300)).expect("opens");
    match session.launch(&[0], &Extent::All) {
        Err(Fault::TimedOut { limit_s }) => assert!((limit_s - 0.3).abs() < 1e-9),
        other => panic!("timed out, not {other:?}"),
    }
}

#[test]
fn the_next_session_takes_the_interpreter_over_unless_something_went_wrong() {
    let script = r#"
import os

prepared = 0

def prepare(axes, scalars, threads):
    global prepared
    prepared += 1
    files = len(os.listdir("/proc/self/fd"))
    return {"remark": f"{os.getpid()} {files} {prepared}"}

def run(state, inputs, outputs):
    if prepared == 3:
        raise ValueError("enough")
    outputs["z"][0] = inputs["x"][1] + prepared
"#;
    let mut bench = Bench::new(script, true);
    let mut seen = Vec::new();
    for n_cases in [1, 100, 2, 1] {
        let mut session = bench.open(n_cases, Duration::from_secs(30)).expect("opens");
        let last = n_cases - 1;
        let launched = session.launch(&[last], &Extent::All);
        let remark = session.remark().expect("says so");
        let words: Vec<u64> =
            remark.split(' ').map(|word| word.parse().expect("a number")).collect();
        assert_eq!(launched.is_ok(), words[2] < 3, "{launched:?}");
        if launched.is_ok() {
            assert_eq!(floats(session.output(last, 2))[0], 1.0 + words[2] as f32);
        }
        drop(session);
        // What it held is free before others go on, not when it is next asked for something.
        let mapped =
            std::fs::read_to_string(format!("/proc/{}/maps", words[0])).unwrap_or_default();
        assert!(!mapped.contains("memfd:baseline"), "{mapped}");
        seen.push(words);
    }
    let process = |session: usize| seen[session][0];
    assert!(process(0) == process(1) && process(1) == process(2) && process(2) != process(3));
    // A mapping has a descriptor of its own: those of the second session are closed, and a case has three.
    assert_eq!(seen[2][1], seen[0][1] + 3, "{seen:?}");
    assert_eq!(seen[3][2], 1, "a new one prepares for the first time");
}

#[test]
fn an_interpreter_that_was_killed_between_sessions_is_replaced() {
    let script =
        "import os\ndef prepare(*_): return {'remark': str(os.getpid())}\ndef run(*_): pass";
    let mut bench = Bench::new(script, true);
    let mut processes = Vec::new();
    for _ in 0..2 {
        let session = bench.run().expect("runs");
        let process: i32 = session.remark().expect("says so").parse().expect("a number");
        drop(session);
        // SAFETY: `kill` has no preconditions; the process is this one's child, and nobody has waited for it.
        assert_eq!(unsafe { libc::kill(process, libc::SIGKILL) }, 0);
        // A process that is gone has closed its files when its state is that of a zombie.
        let state = || std::fs::read_to_string(format!("/proc/{process}/stat")).unwrap_or_default();
        while !state().contains(") Z ") {
            std::thread::sleep(Duration::from_millis(1));
        }
        processes.push(process);
    }
    assert_ne!(processes[0], processes[1]);
}

#[test]
fn there_are_no_blocks_in_a_baseline() {
    let mut bench = Bench::new(BLEND, true);
    let mut session = bench.open(1, Duration::from_secs(30)).expect("opens");
    let refused = session.launch(&[0], &Extent::Blocks(vec![0]));
    assert!(matches!(refused, Err(Fault::Unavailable(_))), "{refused:?}");
}
