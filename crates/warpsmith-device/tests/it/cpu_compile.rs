//! Compiling: errors, cache, concurrency, confinement.

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::support::*;
use warpsmith_device::cpu::{compile_unit, expect_many};
use warpsmith_device::target::{Argument, Artifact, Extent, Fault, Target, Unit};

const COMPILERS: [&str; 2] = ["gcc", "clang"];

fn with_compiler(source: &str, compiler: &str) -> Unit {
    Unit { compiler: compiler.to_string(), ..unit(source) }
}

fn compile(unit: &Unit) -> Result<Artifact, Fault> {
    compile_unit(tempfile::tempdir().expect("a folder").path(), unit)
}

/// Compiles what must not compile; returns the message and the log.
fn rejected(unit: &Unit) -> (String, String) {
    match compile(unit) {
        Err(Fault::Compile { message, log }) => (message, log),
        other => panic!("expected a compile error, got {other:?}"),
    }
}

#[test]
fn both_compilers_make_working_kernels() {
    for compiler in COMPILERS {
        let mut bench = Bench::new();
        let unit = Unit {
            flags: vec![
                "-O3".to_string(),
                "-march=native".to_string(),
                "-fno-math-errno".to_string(),
            ],
            ..with_compiler(&good_kernel(), compiler)
        };
        let artifact = bench.cpu.compile(&unit).expect("compiles");
        assert_eq!(artifact.command[0], compiler);
        let case = bench.stage(999);
        let program = program(artifact, 999);
        let mut session = bench.cpu.open(&program, &[case], DEADLINE).expect("opens");
        session.launch(&[0], &Extent::All).expect("runs");
        assert_eq!(floats(session.output(0, 2)), expected(999), "{compiler}");
    }
}

#[test]
fn headers_and_macros_arrive() {
    let source = format!(
        "#include \"shared.h\"\n#include \"deep/inner.h\"\n_Static_assert(D == 64, \"a macro\");\n{}",
        kernel("    z[0] = SHARED + INNER;")
    );
    let unit = Unit {
        headers: vec![
            ("shared.h".to_string(), "#define SHARED 1\n".to_string()),
            ("deep/inner.h".to_string(), "#define INNER 2\n".to_string()),
        ],
        defines: vec![("D".to_string(), "64".to_string())],
        ..unit(&source)
    };
    compile(&unit).expect("compiles");
}

#[test]
fn a_wrong_signature_is_an_error_at_the_kernels_own_line() {
    let source = good_kernel().replace("const float *y", "const double *y");
    for compiler in COMPILERS {
        let (message, _) = rejected(&with_compiler(&source, compiler));
        assert!(message.starts_with("kernel.c:2:6: error: conflicting types"), "{message}");
    }
}

#[test]
fn messages_are_the_first_error() {
    for compiler in COMPILERS {
        let check = |source: &str, expected: &str| {
            let (message, log) = rejected(&with_compiler(source, compiler));
            assert!(message.contains(expected), "{compiler}: {message}\n{log}");
        };
        check("#error deliberate\n", "deliberate");
        check("", "undefined reference to `kernel'");
        check(&kernel("    z[0] = missing(1);"), "missing");
        check(
            &format!("float missing(float);\n{}", kernel("    z[0] = missing(1);")),
            "undefined reference to `missing'",
        );
    }
}

#[test]
fn binaries_do_not_depend_on_the_folder() {
    // Not clang with -flto: it needs a linker that is not always installed with it.
    let table: [(&str, &[&str]); 5] = [
        ("gcc", &["-O3"]),
        ("gcc", &["-O2", "-g"]),
        ("gcc", &["-O2", "-flto"]),
        ("clang", &["-O3"]),
        ("clang", &["-O2", "-g"]),
    ];
    for (compiler, flags) in table {
        let unit = Unit {
            flags: flags.iter().map(ToString::to_string).collect(),
            ..with_compiler(&good_kernel(), compiler)
        };
        let [one, other] = [compile(&unit), compile(&unit)].map(|built| built.expect("built"));
        assert_ne!(one.path, other.path);
        assert_eq!(one.binary, other.binary, "{compiler} {flags:?}");
    }
}

#[test]
fn equal_units_are_compiled_once_and_different_ones_each() {
    let cache = tempfile::tempdir().expect("a folder");
    let base = unit(&good_kernel());
    let first = compile_unit(cache.path(), &base).expect("compiles");
    assert!(!first.cached);
    let second = compile_unit(cache.path(), &base).expect("found");
    assert!(second.cached);
    assert_eq!((&second.path, second.compile_s), (&first.path, first.compile_s));
    let variants = [
        Unit { flags: vec!["-O2".to_string()], ..base.clone() },
        Unit { defines: vec![("A".to_string(), "1".to_string())], ..base.clone() },
        Unit { source: format!("{}\n", base.source), ..base.clone() },
        Unit { headers: vec![("a.h".to_string(), String::new())], ..base.clone() },
        Unit { file_name: "other.c".to_string(), ..base.clone() },
        Unit { compiler: "clang".to_string(), ..base.clone() },
    ];
    for variant in variants {
        assert!(!compile_unit(cache.path(), &variant).expect("compiles").cached, "{variant:?}");
    }
}

/// A kernel that opens with system headers, compiled for the value of a macro.
fn opened(compiler: &str, value: u32) -> Unit {
    let source = format!(
        "#include <stdint.h>\n#include <stdlib.h>\n#include <math.h>\n{}",
        kernel("    z[0] = sqrtf(x[0]) + (float)abs(-VALUE) + (float)div(7, 2).quot;")
    );
    let value = ("VALUE".to_string(), value.to_string());
    let flags = ["-O3", "-march=native"].map(str::to_string).to_vec();
    Unit { defines: vec![value], flags, ..with_compiler(&source, compiler) }
}

#[test]
fn headers_that_are_compiled_once_change_no_byte() {
    for compiler in COMPILERS {
        let cache = tempfile::tempdir().expect("a folder");
        let folder = cache.path().join("preludes");
        let binary = |value| {
            let unit = opened(compiler, value);
            let built = compile_unit(cache.path(), &unit).expect("compiles").binary;
            assert_eq!(built, compile(&unit).expect("compiles").binary, "{compiler} {value}");
        };
        (0..2).for_each(binary);
        assert!(!folder.exists(), "twice is too few");
        (2..5).for_each(binary);
        let [prelude] = std::fs::read_dir(&folder)
            .expect("listed")
            .map(|entry| entry.expect("listed").path())
            .collect::<Vec<_>>()
            .try_into()
            .expect("one for all of them");
        // The compiler that finds it damaged does without, or fails and is asked again.
        std::fs::write(prelude.join("prelude.h.gch"), "nonsense").expect("written");
        binary(5);
        std::fs::remove_dir_all(&prelude).expect("removed");
        binary(6);
    }
}

#[test]
fn where_many_are_expected_the_first_that_compiles_compiles_the_headers() {
    for compiler in COMPILERS {
        let cache = tempfile::tempdir().expect("a folder");
        let made = || {
            let listed = std::fs::read_dir(cache.path().join("preludes"));
            listed.map_or(0, |entries| entries.count())
        };
        let mut wrong = opened(compiler, 0);
        wrong.source = wrong.source.replace("abs(", "missing(");
        expect_many(cache.path(), &wrong).expect("the compiler is there");
        compile_unit(cache.path(), &wrong).expect_err("it calls what does not exist");
        assert_eq!(made(), 0, "a unit that does not compile shows nothing");
        for value in 1..3 {
            let unit = opened(compiler, value);
            let built = compile_unit(cache.path(), &unit).expect("compiles").binary;
            assert_eq!(made(), 1, "{compiler} {value}");
            assert_eq!(built, compile(&unit).expect("compiles").binary, "{compiler} {value}");
        }
    }
}

#[test]
fn headers_that_are_compiled_once_hide_no_error() {
    for compiler in COMPILERS {
        let cache = tempfile::tempdir().expect("a folder");
        for value in 0..4 {
            compile_unit(cache.path(), &opened(compiler, value)).expect("compiles");
        }
        assert!(cache.path().join("preludes").exists());
        let mut mentioned = opened(compiler, 9);
        mentioned.defines.push(("div_t".to_string(), "7".to_string()));
        let mut shadowed = opened(compiler, 9);
        shadowed.headers.push(("stdint.h".to_string(), "#error mine\n".to_string()));
        let mut wrong = opened(compiler, 9);
        wrong.source = wrong.source.replace("abs(", "missing(");
        for unit in [mentioned, shadowed, wrong] {
            let (message, log) = rejected(&unit);
            match compile_unit(cache.path(), &unit) {
                Err(Fault::Compile { message: own, log: own_log }) => {
                    assert_eq!((own, own_log), (message, log), "{compiler}");
                }
                other => panic!("expected a compile error, got {other:?}"),
            }
        }
    }
}

#[test]
fn a_damaged_cache_is_built_again() {
    let cache = tempfile::tempdir().expect("a folder");
    let unit = unit(&good_kernel());
    let good = compile_unit(cache.path(), &unit).expect("compiles");
    let bytes = std::fs::read(&good.path).expect("read");
    let description = std::fs::read_dir(cache.path())
        .expect("listed")
        .map(|entry| entry.expect("listed").path())
        .find(|path| path.extension().is_some_and(|extension| extension == "json"))
        .expect("a description");
    let damages: [&dyn Fn(); 4] = [
        &|| std::fs::write(&good.path, &bytes[..bytes.len() / 2]).expect("written"),
        &|| std::fs::remove_file(&good.path).expect("removed"),
        &|| std::fs::write(&description, "{").expect("written"),
        &|| std::fs::remove_file(&description).expect("removed"),
    ];
    for damage in damages {
        damage();
        let again = compile_unit(cache.path(), &unit).expect("compiles");
        assert!(!again.cached);
        assert_eq!(again.binary, good.binary);
        assert_eq!(std::fs::read(&again.path).expect("read"), bytes);
    }
}

#[test]
fn many_threads_build_the_same_unit_once() {
    let cache = tempfile::tempdir().expect("a folder");
    let unit = unit(&good_kernel());
    let fresh = std::thread::scope(|scope| {
        let builds: Vec<_> =
            (0..8).map(|_| scope.spawn(|| compile_unit(cache.path(), &unit))).collect();
        builds
            .into_iter()
            .map(|build| build.join().expect("no panic").expect("compiles"))
            .filter(|artifact| !artifact.cached)
            .count()
    });
    assert_eq!(fresh, 1);
    let left = std::fs::read_dir(cache.path().join("build")).expect("listed").count();
    assert_eq!(left, 0, "working folders are removed");
}

/// What is not stopped goes on for much longer; a busy machine stops it late.
const LONG_BEFORE_IT_ENDS: Duration = Duration::from_secs(120);

#[test]
fn a_compiler_that_hangs_is_killed_with_its_children() {
    let folder = tempfile::tempdir().expect("a folder");
    let bin = folder.path().join("bin");
    std::fs::create_dir(&bin).expect("created");
    let script = bin.join("cc");
    write_script(
        &script,
        "[ \"$1\" = --version ] && echo 'fake cc 1.0' && exit\n\
         echo working\nsleep 1000 &\nsleep 1000",
    );
    let unit = Unit {
        compiler: script.display().to_string(),
        // On a busy machine a shell takes a while to say its first word.
        deadline: Duration::from_secs(3),
        ..unit(&good_kernel())
    };
    let began = Instant::now();
    let (message, log) = rejected(&unit);
    assert_eq!(message, "the compiler did not finish within 3 s");
    assert_eq!(log, "working\n");
    assert!(began.elapsed() < LONG_BEFORE_IT_ENDS, "{:?}", began.elapsed());
}

#[test]
fn a_missing_compiler_is_unavailable() {
    let fault = compile(&with_compiler(&good_kernel(), "no-such-cc")).expect_err("not there");
    assert!(matches!(fault, Fault::Unavailable(_)), "{fault}");
    let (broken, folder) = (tempfile::tempdir().expect("a folder"), "bin");
    let script = broken.path().join(folder);
    write_script(&script, "exit 3");
    let unit = with_compiler(&good_kernel(), &script.display().to_string());
    let fault = compile(&unit).expect_err("does not work");
    assert!(matches!(&fault, Fault::Unavailable(text) if text.contains("failed")), "{fault}");
}

#[test]
fn sources_cannot_read_what_is_not_theirs() {
    let secret_folder = tempfile::tempdir().expect("a folder");
    let secret = secret_folder.path().join("secret.h");
    std::fs::write(&secret, "static const float secret = 42;\n").expect("written");
    let readable = |path: &Path| std::fs::read(path).is_ok();
    assert!(readable(&secret));
    for compiler in COMPILERS {
        for path in [secret.as_path(), Path::new("/etc/passwd"), Path::new("/proc/self/environ")] {
            assert!(readable(path));
            let include = format!("#include \"{}\"\n{}", path.display(), good_kernel());
            let (message, _) = rejected(&with_compiler(&include, compiler));
            assert!(message.contains(&path.display().to_string()), "{message}");
            let embed =
                format!("__asm__(\".incbin \\\"{}\\\"\");\n{}", path.display(), good_kernel());
            let (message, log) = rejected(&with_compiler(&embed, compiler));
            assert!(message.to_lowercase().contains("error:"), "{message}\n{log}");
        }
    }
}

#[test]
fn a_source_that_includes_itself_without_end_is_stopped() {
    let source = format!("#include \"kernel.c\"\n#include \"kernel.c\"\n{}", good_kernel());
    for compiler in COMPILERS {
        let unit = Unit { deadline: Duration::from_secs(3), ..with_compiler(&source, compiler) };
        let began = Instant::now();
        let (_, log) = rejected(&unit);
        assert!(began.elapsed() < LONG_BEFORE_IT_ENDS, "{:?}", began.elapsed());
        assert!(log.len() < 300 << 10, "{} bytes", log.len());
    }
}

#[test]
fn names_of_sources_stay_inside_of_the_folder() {
    for name in ["../kernel.c", "/tmp/kernel.c", "", "warpsmith_unit.c"] {
        let unit = Unit { file_name: name.to_string(), ..unit(&good_kernel()) };
        assert!(matches!(compile(&unit), Err(Fault::Broken { .. })), "{name}");
    }
}

#[test]
fn a_cache_that_cannot_be_written_is_our_failure() {
    let file = tempfile::NamedTempFile::new().expect("a file");
    let fault = compile_unit(&file.path().join("cache"), &unit(&good_kernel()));
    assert!(matches!(fault, Err(Fault::Broken { .. })), "{fault:?}");
}

#[test]
fn every_kind_of_argument_reaches_the_kernel() {
    use warpsmith_model::DType;
    use warpsmith_model::lab::{Role, ScalarType};
    let unit = Unit {
        signature: vec![
            Argument::Tensor(DType::F16, Role::Input),
            Argument::Tensor(DType::Bf16, Role::Input),
            Argument::Tensor(DType::F64, Role::Output),
            Argument::Axis,
            Argument::Axis,
            Argument::Scalar(ScalarType::F64),
            Argument::Scalar(ScalarType::I64),
            Argument::Scratch,
        ],
        ..unit(
            "#include <stdint.h>\n\
             void kernel(const uint16_t *h, const uint16_t *b, double *z, int64_t N, int64_t M,\n\
             double s, int64_t k, void *scratch, int64_t begin, int64_t end) {\n\
             if (begin != 0) return;\n((double *)scratch)[0] = h[0] + b[0];\n\
             z[0] = ((double *)scratch)[0]; z[1] = N; z[2] = M; z[3] = s; z[4] = k;\n}\n",
        )
    };
    let mut bench = Bench::new();
    let artifact = bench.cpu.compile(&unit).expect("compiles");
    let tensor = |name: &str, elements, dtype, role| warpsmith_device::target::TensorPlan {
        name: name.to_string(),
        shape: vec![elements],
        dtype,
        role,
    };
    let tensors = vec![
        tensor("h", 1, DType::F16, Role::Input),
        tensor("b", 1, DType::Bf16, Role::Input),
        tensor("z", 5, DType::F64, Role::Output),
    ];
    let program = warpsmith_device::target::Program {
        grid: None,
        gemm: None,
        artifact,
        tensors: tensors.clone(),
        axes: vec![7, -8],
        scalars: vec![f64::NEG_INFINITY, 9_007_199_254_740_992.0],
        scratch: vec![8],
        launches: vec![warpsmith_device::target::LaunchPlan { entry: 0, blocks: 4, chunk: 1 }],
    };
    let case = bench.cpu.stage(&tensors, &Arc::new(vec![vec![1, 1], vec![2, 0]])).expect("staged");
    let mut session = bench.cpu.open(&program, &[case], DEADLINE).expect("opens");
    session.launch(&[0], &Extent::All).expect("runs");
    let values: Vec<f64> = session
        .output(0, 2)
        .chunks(8)
        .map(|eight| f64::from_le_bytes(eight.try_into().expect("eight")))
        .collect();
    assert_eq!(values, [259.0, 7.0, -8.0, f64::NEG_INFINITY, 9_007_199_254_740_992.0]);
}

#[test]
fn a_command_longer_than_the_system_takes_is_the_candidates_failure() {
    let many =
        (0..60_000).map(|idx| format!("-DNAME_NUMBER_{idx}={idx}_{}", "x".repeat(30))).collect();
    let long = vec![("LONG".to_string(), "1".repeat(200_000))];
    let units = [
        Unit { flags: many, ..unit(&good_kernel()) },
        Unit { defines: long, ..unit(&good_kernel()) },
    ];
    for unit in units {
        let (message, _) = rejected(&unit);
        assert!(message.contains("a command that the system does not take"), "{message}");
        assert!(message.contains("give fewer or shorter ones"), "{message}");
    }
}

#[test]
fn a_binary_that_would_fill_caches_is_not_taken() {
    let filler = "char filler[40 << 20] = {1};\nchar *kept(void) { return filler; }\n";
    let (message, _) = rejected(&unit(&format!("{filler}{}", good_kernel())));
    assert!(message.contains("33554432 are the limit"), "{message}");
}
