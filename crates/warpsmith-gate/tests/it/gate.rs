//! The gate and the clock on this machine: a real lab, real compilers, real processes.

use std::path::{Path, PathBuf};
use std::time::Duration;

use warpsmith_gate::ceilings;
use warpsmith_gate::compare::{CompareOptions, Entrant, EntrantKind, compare};
use warpsmith_gate::corpus::{Corpus, CorpusOptions};
use warpsmith_gate::evaluate::evaluate;
use warpsmith_model::lab::{Kernel, LabFiles, parse_kernel};
use warpsmith_model::stats::median;
use warpsmith_model::{
    BlobId, Candidate, CandidateId, ComparisonPurpose, FORMAT_VERSION, Fidelity, Job, Lab,
    MismatchKind, Origin, Outcome, Request, RequestLimits, Trial, TrialId, Verdict,
};

use crate::support::Bench;

pub(crate) fn labs() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../labs")
}

/// Loads `labs/saxpy`, with shapes that are small enough for tests on a busy machine.
pub(crate) fn saxpy() -> Lab {
    let dir = labs().join("saxpy");
    let mut files = LabFiles::new();
    let read = |path: &str| std::fs::read_to_string(dir.join(path)).expect(path);
    for path in ["reference.c", "kernels/00_naive.c", "kernels/00_naive.toml"] {
        files.insert(path.to_string(), read(path));
    }
    let manifest = read("lab.toml").replace("N = 4194304", "N = 100001");
    files.insert("lab.toml".to_string(), manifest);
    Lab::parse(&files).unwrap_or_else(|errors| panic!("{errors}"))
}

const CONTRACT: &str = r#"
format  = 1
target  = "cpu"
summary = "A kernel of the tests"
flags   = ["-O2"]

[[launch]]
entry  = "saxpy"
blocks = "ceil_div(N, 1000)"
"#;

/// The kernel that never ends.
const ENDLESS: &str = "27_loops";

/// Makes a kernel whose blocks are a thousand elements, from the text of its loop over `i`.
fn kernel(lab: &Lab, name: &str, before: &str, body: &str) -> Kernel {
    let source = format!(
        "#include <stdint.h>\n{before}\n\
         void saxpy(const float *x, const float *y, float *z, int64_t n, float a,\n\
         \x20          int64_t block_begin, int64_t block_end) {{\n\
         \x20   int64_t end = block_end * 1000 < n ? block_end * 1000 : n;\n\
         \x20   for (int64_t i = block_begin * 1000; i < end; i++) {{ {body} }}\n}}\n"
    );
    parse_kernel(lab, name, CONTRACT, &source).unwrap_or_else(|errors| panic!("{errors}"))
}

fn request(lab: &Lab, kernel: &Kernel, fidelity: Fidelity) -> Request {
    // What ends, ends late on a busy machine.
    let launch_deadline_s = if kernel.name == ENDLESS { 3.0 } else { 60.0 };
    Request {
        format: FORMAT_VERSION,
        lab_dir: labs().join("saxpy"),
        kernel: None,
        job: Job {
            trial: TrialId::of(b"trial"),
            lab: lab.id,
            candidate: Candidate {
                id: CandidateId::of(b"candidate"),
                kernel: kernel.name.clone(),
                source: BlobId::of(kernel.source.as_bytes()),
                params: kernel.default.clone(),
                origin: Origin::Manual,
            },
            workloads: lab.workloads.iter().map(|workload| workload.name.clone()).collect(),
            fidelity,
            seed: 11,
        },
        limits: RequestLimits { launch_deadline_s, ..RequestLimits::default() },
    }
}

fn judge(
    bench: &mut Bench,
    corpus: &mut Corpus,
    lab: &Lab,
    kernel: &Kernel,
    fidelity: Fidelity,
) -> Trial {
    let environment = bench.cpu.environment();
    let request = request(lab, kernel, fidelity);
    evaluate(&mut bench.cpu, corpus, lab, kernel, &request, &environment, None)
        .unwrap_or_else(|error| panic!("we broke: {error:?}"))
        .trial
}

#[test]
fn a_right_kernel_passes_every_fidelity_on_this_machine() {
    let (mut bench, lab) = (Bench::new(), saxpy());
    let cache = tempfile::tempdir().expect("a folder");
    let mut corpus = Corpus::new(CorpusOptions::new(Some(cache.path().join("expected"))));
    let chain = corpus.check_chain(&mut bench.cpu, &lab, 11).expect("a sound lab");
    assert_eq!(chain.proofs.len(), lab.proofs.len() * lab.inputs.len());
    let kernel = kernel(&lab, "10_right", "", "z[i] = a * x[i] + y[i];");
    for fidelity in [Fidelity::Micro, Fidelity::Rank, Fidelity::Full] {
        let trial = judge(&mut bench, &mut corpus, &lab, &kernel, fidelity);
        assert_eq!(trial.outcome.verdict(), Verdict::Passed, "{}", trial.outcome.describe());
        for measurement in trial.outcome.measurements() {
            let time_s = median(&measurement.samples_s).expect("samples");
            assert!(time_s > 0.0 && time_s.is_finite(), "{fidelity:?}: {time_s}");
            assert!(measurement.launch_floor_s > 0.0);
        }
        assert_eq!(trial.builds.len(), 1);
    }
}

#[test]
fn known_ways_to_lie_are_found_on_this_machine() {
    let (mut bench, lab) = (Bench::new(), saxpy());
    let mut corpus = Corpus::new(CorpusOptions::new(None));
    let mut found = |name: &str, before: &str, body: &str, fidelity: Fidelity| {
        let kernel = kernel(&lab, name, before, body);
        judge(&mut bench, &mut corpus, &lab, &kernel, fidelity).outcome
    };
    let mut check =
        |name: &str, before: &str, body: &str, fidelity, expected: MismatchKind| match found(
            name, before, body, fidelity,
        ) {
            Outcome::Incorrect { mismatch } => assert_eq!(mismatch.kind, expected, "{name}"),
            other => panic!("{name}: {}", other.describe()),
        };
    check(
        "20_nothing",
        "",
        "(void)x; (void)y; (void)z; (void)a;",
        Fidelity::Rank,
        MismatchKind::NotWritten,
    );
    check(
        "21_zeros",
        "",
        "(void)x; (void)y; (void)a; z[i] = 0;",
        Fidelity::Rank,
        MismatchKind::Element,
    );
    check(
        "22_nan",
        "",
        "z[i] = i == 77 ? 0.0f / (a - a) : a * x[i] + y[i];",
        Fidelity::Rank,
        MismatchKind::NotFinite,
    );
    // Half precision on the way: an error of 2^-11, ten thousand times the budget.
    check(
        "23_low_precision",
        "",
        "_Float16 h = (_Float16)x[i]; z[i] = a * (float)h + y[i];",
        Fidelity::Rank,
        MismatchKind::Element,
    );
    check(
        "24_right_at_first",
        "static int64_t calls;",
        "if (i == 0) { calls++; } z[i] = calls < 3 ? a * x[i] + y[i] : 1.0f;",
        Fidelity::Rank,
        MismatchKind::Element,
    );
    check(
        "25_not_repeatable",
        "static int64_t calls;",
        "if (i == 0) { calls++; } z[i] = a * x[i] + y[i]; if (calls % 2 == 0) { z[i] *= 1.0000001f; }",
        Fidelity::Full,
        MismatchKind::NotRepeatable,
    );
    check(
        "26_last_element",
        "",
        "if (i + 1 < n || n % 2 == 0) { z[i] = a * x[i] + y[i]; }",
        Fidelity::Full,
        MismatchKind::NotWritten,
    );
    let loops = found(ENDLESS, "", "for (volatile int j = 0; j < 1; ) { }", Fidelity::Rank);
    assert_eq!(loops.verdict(), Verdict::TimedOut, "{}", loops.describe());
    let writes = found("28_writes_input", "", "((float *)x)[i] = 0; z[i] = y[i];", Fidelity::Rank);
    assert_eq!(writes.verdict(), Verdict::Crashed, "{}", writes.describe());
}

#[test]
fn the_machines_ceilings_are_plausible() {
    let mut bench = Bench::new();
    let top = ceilings::measure(&mut bench.cpu).expect("measured");
    // Wide bounds: the tests share the machine with everything else, and behind much of it even an empty
    // launch waits for tens of milliseconds.
    assert!((1e9..1e15).contains(&top.f32_flops_per_s), "{top:?}");
    assert!(top.f64_flops_per_s < top.f32_flops_per_s, "{top:?}");
    assert!(top.memory_bytes_per_s < top.cache_bytes_per_s, "{top:?}");
    assert!((1e-8..1.0).contains(&top.launch_floor_s), "{top:?}");
}

#[test]
fn a_kernel_ties_with_itself_and_beats_a_slower_one() {
    let (mut bench, lab) = (Bench::new(), saxpy());
    let mut corpus = Corpus::new(CorpusOptions::new(None));
    let fast = kernel(&lab, "10_right", "", "z[i] = a * x[i] + y[i];");
    // Two hundred dependent divisions an element make it many times slower, and change nothing.
    let slow = kernel(
        &lab,
        "11_slow",
        "",
        "float v = a * x[i] + y[i]; volatile float one = 1; for (int j = 0; j < 200; j++) { v /= one; } z[i] = v;",
    );
    let entrant = |label, kernel| Entrant {
        label,
        kind: EntrantKind::Kernel { kernel, params: &fast.default, candidate: None },
    };
    let entrants = [entrant("fast", &fast), entrant("again", &fast), entrant("slow", &slow)];
    let options = CompareOptions {
        purpose: ComparisonPurpose::Final,
        workloads: vec!["n64k".to_string()],
        seed: 5,
        min_rounds: 20,
        budget_s: 1.0,
        launch_deadline: Duration::from_secs(60),
        compile_deadline: Duration::from_secs(60),
    };
    let dir = labs().join("saxpy");
    // The least of the rounds: the tests share the machine, and medians of a busy one say nothing. Other work
    // only ever makes rounds longer, so the least come to what is true when there are enough of them.
    let mut least = [f64::INFINITY; 3];
    let is_told = |least: &[f64; 3]| {
        let [fast, again, slow] = *least;
        slow > 4.0 * fast && again < 2.0 * fast && fast < 2.0 * again
    };
    for _ in 0..20 {
        let mut done = Vec::new();
        let mut tell = |so_far| done.push(so_far);
        let compared =
            compare(&mut bench.cpu, &mut corpus, &lab, &dir, &entrants, &options, &mut tell);
        let record = compared.expect("compared");
        assert_eq!(done, [1]);
        let rounds = &record.workloads[0];
        assert!(rounds.absent.is_empty(), "{:?}", rounds.absent);
        for (least, samples) in least.iter_mut().zip(&rounds.samples_s) {
            *least = samples.iter().copied().fold(*least, f64::min);
        }
        if is_told(&least) {
            return;
        }
    }
    panic!("fast, fast again and slow take {least:?} s");
}
