//! What the real CUDA compilers remark about matrix products, as `warpsmith build` shows and judges it.

use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::support::{Project, text};

/// Changes an accumulator between two products of one group: the compiler gives up their overlap.
const TOUCHED: &str = r#"
__device__ __forceinline__ void multiply(float (&d)[4], unsigned long long a, unsigned long long b) {
    asm volatile("{ .reg .pred p; setp.ne.b32 p, 1, 0;"
                 "wgmma.mma_async.sync.aligned.m64n8k16.f32.bf16.bf16 {%0, %1, %2, %3}, %4, %5, p, 1, 1, 0, 0; }"
                 : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]) : "l"(a), "l"(b));
}

extern "C" __global__ void __launch_bounds__(128) clamp(const float *x, float *y, int n) {
    float d[4] = {};
    asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
    multiply(d, n, n);
#ifdef TOUCH
    d[1] += x[5];
#endif
    multiply(d, n, n);
    asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
    asm volatile("wgmma.wait_group.sync.aligned 0;" ::: "memory");
    for (int i = 0; i < 4; i++) {
        y[threadIdx.x * 4 + i] = d[i];
    }
}
"#;

/// Does not say how many threads it has, so the compiler cannot know how many registers they begin with.
const UNBOUNDED: &str = r#"
extern "C" __global__ void clamp(const float *x, float *y, int n) {
    asm volatile("setmaxnreg.dec.sync.aligned.u32 24;");
    y[threadIdx.x] = x[threadIdx.x];
}
"#;

/// The lab of `tests/nvcc`, with further kernels, of which only the build is of interest.
struct Lab {
    project: Project,
    dir: PathBuf,
}

impl Lab {
    fn new() -> Self {
        let project = Project::new();
        let dir = project.path().join("labs/remarks");
        let original = repository().join("tests/nvcc");
        std::fs::create_dir_all(dir.join("kernels")).expect("made");
        for file in ["lab.toml", "reference.c", "kernels/00_std.cu", "kernels/00_std.toml"] {
            std::fs::copy(original.join(file), dir.join(file)).expect(file);
        }
        Self { project, dir }
    }

    /// Adds a kernel whose contract ends with these words.
    fn kernel(&self, name: &str, source: &str, contract: &str) {
        let head =
            "format = 1\ntarget = \"cuda\"\nsummary = \"For its build alone\"\narch = \"sm_90a\"\n";
        let launch = "[[launch]]\nentry = \"clamp\"\ngrid = [\"1\"]\nblock = [\"128\"]\n";
        let (top, build) = contract.split_once("---\n").expect("two parts");
        let file = |ending: &str| self.dir.join("kernels").join(format!("{name}.{ending}"));
        std::fs::write(file("cu"), source).expect("written");
        std::fs::write(file("toml"), format!("{head}{top}{launch}{build}")).expect("written");
    }

    /// Builds one kernel, expects this exit status, and returns what was printed.
    fn build(&self, status: i32, kernel: &str, more: &[&str]) -> String {
        let (dir, home) = (self.dir.display().to_string(), cuda_home().display().to_string());
        let mut arguments = vec!["build", &dir, "--kernel", kernel, "--cuda-home", &home];
        arguments.extend(more);
        let output = self.project.run(&arguments);
        let (printed, said) = (text(&output.stdout), text(&output.stderr));
        assert_eq!(output.status.code(), Some(status), "{kernel}:\n{printed}{said}");
        printed
    }

    fn remarks(&self, status: i32, kernel: &str) -> (Vec<Value>, Value) {
        let printed = self.build(status, kernel, &["--json"]);
        let document: Value = serde_json::from_str(&printed).expect("JSON");
        let remarks = document["builds"][0]["remarks"].as_array().expect("remarks").clone();
        (remarks, document["failures"].clone())
    }
}

#[test]
#[ignore = "needs the CUDA compilers, from CUDA_HOME or `warpsmith setup cuda` in this repository"]
fn remarks_of_the_cuda_compilers_are_shown_and_judged() {
    let lab = Lab::new();
    let touch = format!("#define TOUCH\n{TOUCHED}");
    let nvcc = "compiler = \"nvcc\"\n";
    let claims = "[build]\ninstructions = [\"HGMMA\"]\n";
    let allowed = format!("{claims}allow_losses = [\"serialized\", \"injected_wait\"]\n");
    for (compiler, top) in [("nvrtc", ""), ("nvcc", nvcc)] {
        let name = |what: &str| format!("10_{compiler}_{what}");
        lab.kernel(&name("clean"), TOUCHED, &format!("{top}---\n{claims}"));
        lab.kernel(&name("silent"), &touch, &format!("{top}---\n"));
        lab.kernel(&name("claims"), &touch, &format!("{top}---\n{claims}"));
        lab.kernel(&name("allows"), &touch, &format!("{top}---\n{allowed}"));
        lab.kernel(&name("unbounded"), UNBOUNDED, &format!("{top}---\n[build]\n"));

        let (remarks, failures) = lab.remarks(0, &name("clean"));
        assert_eq!((remarks.len(), failures), (0, Value::Array(Vec::new())));

        // Nothing is claimed, so nothing is broken; it is said all the same.
        let printed = lab.build(0, &name("silent"), &[]);
        assert!(printed.contains("injected_wait, serialized"), "{printed}");
        assert!(printed.contains("note 10_") && printed.contains("(C7511): wgmma"), "{printed}");

        let (remarks, failures) = lab.remarks(1, &name("claims"));
        let of = |loss: &str| remarks.iter().find(|it| it["loss"] == loss).expect(loss);
        assert_eq!(of("serialized")["function"], "clamp");
        assert_eq!(of("injected_wait")["code"], "C7517");
        let failures = failures.as_array().expect("failures");
        assert_eq!(failures.len(), remarks.len(), "{failures:?}");
        assert!(
            failures.iter().all(|it| it.as_str().is_some_and(|it| it.contains("allow_losses")))
        );
        let printed = lab.build(1, &name("claims"), &[]);
        assert!(printed.contains("fail 10_") && !printed.contains("note 10_"), "{printed}");

        let (allowed, _) = lab.remarks(0, &name("allows"));
        assert_eq!(allowed, remarks);

        let (remarks, failures) = lab.remarks(1, &name("unbounded"));
        assert_eq!((remarks.len(), remarks[0]["loss"].as_str()), (1, Some("setmaxnreg")));
        assert_eq!(failures.as_array().map(Vec::len), Some(1));
    }
}

#[test]
#[ignore = "needs the CUDA compilers, from CUDA_HOME or `warpsmith setup cuda` in this repository"]
fn loops_show_what_runs_between_the_waits_for_products() {
    let lab = Lab::new();
    let (dir, home) = (repository().join("labs/attention"), cuda_home());
    let (dir, home) = (dir.display().to_string(), home.display().to_string());
    let build = ["build", &dir, "--target", "cuda", "--kernel", "50_wgmma", "--cuda-home", &home];
    let output = lab.project.run(&[&build[..], &["--json"]].concat());
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    let document: Value = serde_json::from_str(&text(&output.stdout)).expect("JSON");
    for one in document["builds"].as_array().expect("builds") {
        let loops = one["loops"].as_array().expect("loops");
        let total = |it: &Value, name: &str| -> u64 {
            let sections = it["sections"].as_array().expect("sections").iter();
            sections.filter_map(|section| section["instructions"][name].as_u64()).sum()
        };
        let is_main = |it: &&Value| total(it, "HGMMA") > 0 && total(it, "MUFU") > 16;
        let main = loops.iter().find(is_main).unwrap_or_else(|| panic!("{one:#}"));
        let words = main["sections"].to_string();
        assert!(words.contains("products <= "), "{words}");
    }
    let output = lab.project.run(&[&build[..], &["--loops"]].concat());
    let printed = text(&output.stdout);
    assert!(printed.contains(" of attention_fwd") && printed.contains("products <= "), "{printed}");
}

fn repository() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// The toolkit of the environment, else the one that `warpsmith setup cuda` put into the repository.
fn cuda_home() -> PathBuf {
    if let Some(home) = std::env::var_os("CUDA_HOME") {
        return PathBuf::from(home);
    }
    let pythons = std::fs::read_dir(repository().join(".warpsmith/cuda/lib"));
    let pythons = pythons.expect("neither CUDA_HOME nor a toolkit of `warpsmith setup cuda`");
    let homes = pythons.map(|it| it.expect("an entry").path().join("site-packages/nvidia/cu13"));
    homes.into_iter().find(|home| home.is_dir()).expect("a toolkit in .warpsmith/cuda")
}
