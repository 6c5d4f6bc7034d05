//! The known ways to lie or to do harm, against the real gate: every kernel of `labs/_cheats` gets the
//! verdict that its contract states, and every lab below `refused/` is refused for its stated reason.
//!
//! The tables of verdicts and reasons are printed; `cargo test --test cheats -- --nocapture` shows them.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use tempfile::TempDir;
use warpsmith_device::cpu::{Cpu, CpuConfig};
use warpsmith_device::target::Target;
use warpsmith_gate::ceilings;
use warpsmith_gate::corpus::{Corpus, CorpusOptions};
use warpsmith_gate::evaluate::evaluate;
use warpsmith_model::lab::{Kernel, LabFiles};
use warpsmith_model::{
    BlobId, Candidate, CandidateId, Ceilings, Environment, FORMAT_VERSION, Fidelity, Finding,
    Guard, Job, Lab, Origin, Request, RequestLimits, TrialId, Verdict,
};

/// Cheats that never return are stopped after this long.
const LAUNCH_DEADLINE_S: f64 = 2.0;
/// Cheats that make the compiler explode are stopped after this long.
const COMPILE_DEADLINE_S: f64 = 4.0;
/// Everything else ends by itself, on a busy machine late.
const LONG_DEADLINE_S: f64 = 120.0;
/// The cheats that make the compiler explode.
const BOMBS: [&str; 2] = ["908_expands_without_end", "910_assembler_bomb"];
/// The kernel whose threads race.
const RACES: &str = "410_races";
/// Nobody needs precise times here.
const TIMING_BUDGET_S: f64 = 0.1;

/// Kernels of the family 5xx compute exactly what this one does, and try to be charged less for it.
const WITHOUT_A_TRICK: &str = "510_no_trick";
/// A trick that gains less than this is lost in the noise of a busy machine.
const LEAST_GAIN: f64 = 0.75;
/// How often each is measured before something that seems to gain is said to.
const ATTEMPTS: usize = 12;

/// Labs of their own, for cheats that need other arguments, shapes or inputs.
const FURTHER_LABS: [&str; 2] = ["scaled", "softmax"];

#[test]
fn every_cheat_gets_the_verdict_that_its_contract_states() {
    let rejected = verdicts_are_as_stated(Gate::new(""));
    assert!(rejected >= 36, "{rejected} cheats are too few to trust the gate by");
}

#[test]
fn every_cheat_on_scalars_shapes_and_inputs_gets_the_verdict_that_its_contract_states() {
    for folder in FURTHER_LABS {
        let rejected = verdicts_are_as_stated(Gate::new(folder));
        assert!(rejected >= 5, "{folder}: {rejected} cheats are too few to trust the gate by");
    }
}

/// Judges every kernel of a lab; returns how many had to be rejected.
fn verdicts_are_as_stated(mut gate: Gate) -> usize {
    let kernels = gate.lab.kernels.clone();
    let mut failures = Vec::new();
    for kernel in &kernels {
        let expected = match kernel.expect.expect("every kernel of this lab states its verdict") {
            // One thread alone has nobody to race with, and computes what is right.
            _ if kernel.name == RACES && gate.cpu.info().threads == 1 => Verdict::Passed,
            stated => stated,
        };
        let (finding, wall_s) = gate.judge(kernel);
        let outcome = &finding.trial.outcome;
        let got = outcome.verdict();
        let is_right = got == expected;
        let line = format!(
            "{} {:<34} {:<14} {wall_s:5.2} s  {}",
            if is_right { "  " } else { "!!" },
            kernel.name,
            got.name(),
            outcome.describe()
        );
        eprintln!("{line}");
        if !is_right {
            failures.push(format!("expected {}: {line}", expected.name()));
        }
        if kernel.name == "904_includes_a_secret" {
            let quoted = finding.blobs.iter().any(|blob| blob.text.contains("root:"));
            assert!(!quoted, "the compiler quoted a file that it must not read");
        }
    }
    assert!(failures.is_empty(), "wrong verdicts:\n{}", failures.join("\n"));
    kernels.iter().filter(|kernel| kernel.expect != Some(Verdict::Passed)).count()
}

#[test]
fn tricks_on_the_clock_gain_nothing() {
    let mut gate = Gate::new("");
    let kernels = gate.lab.kernels.clone();
    let tricks: Vec<&Kernel> =
        kernels.iter().filter(|kernel| kernel.name.starts_with('5')).collect();
    assert!(tricks.iter().any(|kernel| kernel.name == WITHOUT_A_TRICK));
    let honest = gate.lab.kernel(WITHOUT_A_TRICK).expect("it exists").clone();
    // Other work on the machine only ever makes readings longer, so each one's fastest are compared. A gain
    // stays one however often both are measured; what only seems one goes away when honest work has had a
    // quiet moment too.
    let mut fastest: BTreeMap<&str, Vec<f64>> = BTreeMap::new();
    let mut gains: BTreeMap<&str, f64> = BTreeMap::new();
    for attempt in 0..ATTEMPTS {
        let seem_to_gain =
            |kernel: &&&Kernel| attempt < 2 || gains[kernel.name.as_str()] < LEAST_GAIN;
        let suspects: Vec<&Kernel> = tricks.iter().filter(seem_to_gain).copied().collect();
        if suspects.is_empty() {
            break;
        }
        for kernel in [&honest].into_iter().chain(suspects) {
            let times = gate.fastest_times(kernel);
            let best = fastest.entry(kernel.name.as_str()).or_insert_with(|| times.clone());
            best.iter_mut().zip(times).for_each(|(best, time)| *best = best.min(time));
        }
        gains = fastest
            .iter()
            .map(|(name, times)| {
                let ratios =
                    times.iter().zip(&fastest[WITHOUT_A_TRICK]).map(|(time, of)| time / of);
                (*name, ratios.fold(f64::INFINITY, f64::min))
            })
            .collect();
    }
    eprintln!("time over the time of {WITHOUT_A_TRICK}:");
    for (name, ratio) in &gains {
        eprintln!("   {name:<34} {ratio:.2}");
    }
    let gained: Vec<_> = gains.iter().filter(|(_, ratio)| **ratio < LEAST_GAIN).collect();
    assert!(gained.is_empty(), "charged less than the same work without a trick: {gained:?}");
}

#[test]
fn work_that_was_not_done_as_stated_is_implausible() {
    let mut gate = Gate::new("implausible");
    gate.ceilings = Some(ceilings::measure(&mut gate.cpu).expect("the ceilings can be measured"));
    for kernel in &gate.lab.kernels.clone() {
        for attempt in 1.. {
            let (finding, wall_s) = gate.judge(kernel);
            let outcome = &finding.trial.outcome;
            eprintln!("   {:<34} {wall_s:5.2} s  {}", kernel.name, outcome.describe());
            if Some(outcome.verdict()) == kernel.expect {
                break;
            }
            // Where so much else runs that no launch had its threads at once, the trial says so; it may be
            // judged again, and only then.
            let is_busy = finding.trial.notes.iter().any(|note| note.contains("something else"));
            let notes = finding.trial.notes.join("\n");
            assert!(is_busy && attempt < ATTEMPTS, "{}\n{notes}", outcome.describe());
        }
    }
}

#[test]
fn every_bad_lab_is_refused_for_the_stated_reason() {
    let _turn = turn();
    let bench = Bench::new();
    let mut cpu = bench.cpu;
    let mut folders: Vec<PathBuf> = fs::read_dir(labs_dir().join("refused"))
        .expect("the folder of refused labs")
        .map(|entry| entry.expect("an entry").path())
        .collect();
    folders.sort();
    assert!(folders.len() >= 8, "{folders:?}");
    let mut failures = Vec::new();
    for folder in folders {
        let name = folder.file_name().expect("a name").to_string_lossy().into_owned();
        let stated = fs::read_to_string(folder.join("expect.txt")).expect("the stated reason");
        let refusal = refusal(&mut cpu, &folder);
        let said = refusal.clone().unwrap_or_else(|| "nothing: it was accepted".to_string());
        eprintln!("   {name:<34} {}", said.lines().next().unwrap_or_default());
        if !refusal.is_some_and(|refusal| refusal.contains(stated.trim())) {
            failures.push(format!("{name}: expected `{}`, got: {said}", stated.trim()));
        }
    }
    assert!(failures.is_empty(), "{}", failures.join("\n\n"));
}

#[test]
fn the_readme_lists_every_cheat_with_its_verdict() {
    let readme = fs::read_to_string(labs_dir().join("README.md")).expect("the lab has a README");
    let folders = FURTHER_LABS.iter().map(|folder| labs_dir().join(folder));
    let labs = folders.chain([labs_dir()]).map(|folder| Lab::parse(&read_lab(&folder)));
    let kernels = labs.flat_map(|lab| lab.expect("the lab is valid").kernels);
    for kernel in kernels {
        let verdict = kernel.expect.expect("every kernel of this lab states its verdict").name();
        let row = format!("| `{}` | {} | `{verdict}` |", kernel.name, kernel.summary);
        assert!(readme.contains(&row), "README.md has no row that begins with\n{row}");
    }
}

/// Counts that readers rely on are those of the folders.
#[test]
fn the_page_on_trust_counts_the_candidates() {
    let page = labs_dir().join("../../docs/trust.md");
    let page = fs::read_to_string(page).expect("the page is there");
    let count = |folder: &str| {
        let entries = fs::read_dir(labs_dir().join(folder).join("kernels")).expect("kernels");
        let paths = entries.map(|entry| entry.expect("an entry").path());
        paths.filter(|path| path.extension().is_some_and(|extension| extension == "toml")).count()
    };
    for folder in FURTHER_LABS.iter().copied().chain(["", "cuda"]) {
        let name = format!("labs/_cheats/{folder}");
        let target = if folder == "cuda" { "CUDA" } else { "CPU" };
        let row = format!("| `{}` | {target} | {} |", name.trim_end_matches('/'), count(folder));
        assert!(page.contains(&row), "docs/trust.md has no row that begins with\n{row}");
    }
}

/// A lab and everything that judges its kernels.
struct Gate {
    lab: Lab,
    cpu: Cpu,
    environment: Environment,
    corpus: Corpus,
    ceilings: Option<Ceilings>,
    _cache: TempDir,
    _turn: MutexGuard<'static, ()>,
}

impl Gate {
    fn new(folder: &str) -> Self {
        let turn = turn();
        let lab = match Lab::parse(&read_lab(&labs_dir().join(folder))) {
            Ok(lab) => lab,
            Err(errors) => panic!("{errors}"),
        };
        let Bench { cpu, cache } = Bench::new();
        let environment = cpu.environment();
        let isolation = &environment.isolation;
        let guards = [
            &isolation.seccomp,
            &isolation.landlock,
            &isolation.rlimits,
            &isolation.sealed_inputs,
            &isolation.privileges,
        ];
        for guard in guards {
            assert_eq!(*guard, Guard::Active, "the cheats can only be stopped where this works");
        }
        let corpus = Corpus::new(CorpusOptions::new(None));
        Self { lab, cpu, environment, corpus, ceilings: None, _cache: cache, _turn: turn }
    }

    fn judge(&mut self, kernel: &Kernel) -> (Finding, f64) {
        let started = Instant::now();
        let request = request(&self.lab, kernel);
        let finding = evaluate(
            &mut self.cpu,
            &mut self.corpus,
            &self.lab,
            kernel,
            &request,
            &self.environment,
            self.ceilings.as_ref(),
        );
        let finding = finding.unwrap_or_else(|error| panic!("{}: {error:?}", kernel.name));
        (finding, started.elapsed().as_secs_f64())
    }

    /// Returns the fastest reading on every workload of a kernel that passes.
    fn fastest_times(&mut self, kernel: &Kernel) -> Vec<f64> {
        let (finding, _) = self.judge(kernel);
        let outcome = &finding.trial.outcome;
        assert_eq!(outcome.verdict(), Verdict::Passed, "{}: {}", kernel.name, outcome.describe());
        let measurements = outcome.measurements().iter();
        measurements
            .map(|one| {
                assert!(!one.samples_s.is_empty(), "{} was not timed", kernel.name);
                let readings_s = one.samples_s.iter().chain(&one.disturbed_s);
                readings_s.copied().fold(f64::INFINITY, f64::min)
            })
            .collect()
    }
}

/// A target with a cache of its own.
struct Bench {
    cpu: Cpu,
    cache: TempDir,
}

impl Bench {
    fn new() -> Self {
        let cache = tempfile::tempdir().expect("a folder");
        let config = CpuConfig {
            cache_dir: cache.path().to_path_buf(),
            runner_exe: Some(PathBuf::from(env!("CARGO_BIN_EXE_warpsmith-gate-runner"))),
            threads: None,
        };
        Self { cpu: Cpu::new(config).expect("a target"), cache }
    }
}

/// Makes the tests of this file take turns: they time.
fn turn() -> MutexGuard<'static, ()> {
    static TURN: Mutex<()> = Mutex::new(());
    TURN.lock().unwrap_or_else(PoisonError::into_inner)
}

fn request(lab: &Lab, kernel: &Kernel) -> Request {
    let candidate = Candidate {
        id: CandidateId::of(kernel.name.as_bytes()),
        kernel: kernel.name.clone(),
        source: BlobId::of(kernel.source.as_bytes()),
        params: kernel.default.clone(),
        origin: Origin::Manual,
    };
    let job = Job {
        trial: TrialId::of(kernel.name.as_bytes()),
        lab: lab.id,
        candidate,
        workloads: lab.workloads.iter().map(|workload| workload.name.clone()).collect(),
        fidelity: Fidelity::Full,
        seed: 20_260_131,
    };
    let never_returns = kernel.expect == Some(Verdict::TimedOut);
    let explodes = BOMBS.contains(&kernel.name.as_str());
    let limits = RequestLimits {
        launch_deadline_s: if never_returns { LAUNCH_DEADLINE_S } else { LONG_DEADLINE_S },
        compile_deadline_s: if explodes { COMPILE_DEADLINE_S } else { LONG_DEADLINE_S },
        timing_budget_s: TIMING_BUDGET_S,
        ..RequestLimits::default()
    };
    Request { format: FORMAT_VERSION, lab_dir: labs_dir(), kernel: None, job, limits }
}

/// Returns why a lab is refused, when it is loaded or when it is checked.
fn refusal(target: &mut dyn Target, folder: &Path) -> Option<String> {
    let lab = match Lab::parse(&read_lab(folder)) {
        Ok(lab) => lab,
        Err(errors) => return Some(errors.to_string()),
    };
    let mut corpus = Corpus::new(CorpusOptions::new(None));
    let checked = corpus.check_chain(target, &lab, 1);
    corpus.clear(target);
    checked.err().map(|error| error.to_string())
}

fn labs_dir() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../labs/_cheats")
}

/// Reads the texts of a lab's files.
fn read_lab(dir: &Path) -> LabFiles {
    let mut files = LabFiles::new();
    for folder in ["", "kernels", "include", "../include"] {
        let Ok(entries) = fs::read_dir(dir.join(folder)) else { continue };
        for entry in entries {
            let path = entry.expect("an entry").path();
            let ending = path.extension().and_then(|ending| ending.to_str()).unwrap_or_default();
            if path.is_file() && ["toml", "c", "h"].contains(&ending) {
                let name = path.file_name().expect("a file has a name").to_string_lossy();
                let key =
                    if folder.is_empty() { name.to_string() } else { format!("{folder}/{name}") };
                files.insert(key, fs::read_to_string(&path).expect("a text"));
            }
        }
    }
    files
}
