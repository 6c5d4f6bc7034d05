//! Which flags a contract may hand to a compiler.
//!
//! A flag can name a program to run (`-wrapper`, `-fplugin=`, `-B`), a file to read (`@FILE`, `-include`,
//! `-specs=`) or one to write (`-o`, `-save-temps`, `-fdump-..`), and every version of a compiler brings
//! more of them. So flags are not searched for bad ones: what is not listed here is refused. Nothing that is
//! listed names a file or a program, makes a compiler write anything but its result, or takes the argument
//! after it, except where that is said and checked.

use super::TargetKind;

/// Flags of C compilers that are whole words.
const C_WORDS: &str = "\
    -ansi -g -g0 -g1 -g2 -g3 -ggdb -gdwarf -gdwarf-4 -gdwarf-5 -gline-tables-only -lc -lgcc \
    -lm -lmvec -lpthread -O -O0 -O1 -O2 -O3 -Ofast -Og -Os -Oz -pedantic -pedantic-errors \
    -pipe -pthread -w";

/// Names of `-fNAME` and `-fno-NAME`: how code is made, what the language means, how errors look.
const C_CODE: &str = "\
    PIC aggressive-loop-optimizations align-functions align-jumps align-labels align-loops \
    allocation-dce allow-store-data-races approx-func asm associative-math \
    asynchronous-unwind-tables auto-inc-dec bit-tests branch-count-reg builtin caller-saves \
    code-hoisting combine-stack-adjustments common compare-elim conserve-stack cprop-registers \
    crossjumping cse-follow-jumps cx-fortran-rules cx-limited-range data-sections dce \
    defer-pop delayed-branch delete-null-pointer-checks devirtualize diagnostics-color \
    diagnostics-show-caret diagnostics-show-option dollars-in-identifiers dse early-inlining \
    exceptions expensive-optimizations fast-math fat-lto-objects finite-loops finite-math-only \
    float-store fold-simple-inlines forward-propagate fp-int-builtin-inexact freestanding \
    function-cse function-sections gcse gcse-after-reload gcse-las gcse-lm gcse-sm \
    gnu89-inline graphite graphite-identity guess-branch-probability hoist-adjacent-loads \
    honor-infinities honor-nans hosted if-conversion if-conversion2 indirect-inlining inline \
    inline-atomics inline-functions inline-functions-called-once inline-hint-functions \
    inline-small-functions ipa-bit-cp ipa-cp ipa-cp-clone ipa-icf ipa-icf-functions \
    ipa-icf-variables ipa-modref ipa-profile ipa-pta ipa-pure-const ipa-ra ipa-reference \
    ipa-reference-addressable ipa-sra ipa-stack-alignment ipa-strict-aliasing ipa-vrp \
    ira-hoist-pressure ira-loop-pressure ira-share-save-slots ira-share-spill-slots \
    isolate-erroneous-paths-attribute isolate-erroneous-paths-dereference ivopts jump-tables \
    keep-inline-functions keep-static-consts lax-vector-conversions lifetime-dse \
    limit-function-alignment live-range-shrinkage loop-block loop-interchange \
    loop-nest-optimize loop-parallelize-all loop-strip-mine loop-unroll-and-jam lra-remat lto \
    math-errno merge-all-constants merge-constants modulo-sched modulo-sched-allow-regmoves \
    move-loop-invariants move-loop-stores ms-extensions non-call-exceptions omit-frame-pointer \
    openmp openmp-simd optimize-sibling-calls optimize-strlen pack-struct partial-inlining \
    peel-loops peephole peephole2 pic plan9-extensions plt predictive-commoning \
    prefetch-loop-arrays printf-return-value protect-parens reciprocal-math ree \
    reg-struct-return rename-registers reorder-blocks reorder-blocks-and-partition \
    reorder-functions rerun-cse-after-loop reroll-loops reschedule-modulo-scheduled-loops \
    rounding-math sched-critical-path-heuristic sched-dep-count-heuristic \
    sched-group-heuristic sched-interblock sched-last-insn-heuristic sched-pressure \
    sched-rank-heuristic sched-spec sched-spec-insn-heuristic sched-spec-load \
    sched-spec-load-dangerous sched-stalled-insns sched-stalled-insns-dep \
    sched2-use-superblocks schedule-fusion schedule-insns schedule-insns2 section-anchors \
    sel-sched-pipelining sel-sched-pipelining-outer-loops selective-scheduling \
    selective-scheduling2 semantic-interposition short-enums shrink-wrap shrink-wrap-separate \
    signaling-nans signed-bitfields signed-char signed-zeros single-precision-constant \
    slp-vectorize split-ivs-in-unroller split-loops split-paths split-wide-types \
    split-wide-types-early ssa-backprop ssa-phiopt stack-check stack-clash-protection \
    stack-protector stack-protector-all stack-protector-strong stdarg-opt store-merging \
    strict-aliasing strict-enums strict-float-cast-overflow strict-overflow \
    strict-volatile-bitfields thread-jumps toplevel-reorder tracer trapping-math trapv \
    tree-bit-ccp tree-builtin-call-dce tree-ccp tree-ch tree-coalesce-vars tree-copy-prop \
    tree-cselim tree-dce tree-dominator-opts tree-dse tree-forwprop tree-fre \
    tree-loop-distribute-patterns tree-loop-distribution tree-loop-if-convert tree-loop-im \
    tree-loop-ivcanon tree-loop-linear tree-loop-optimize tree-loop-vectorize tree-partial-pre \
    tree-phiprop tree-pre tree-pta tree-reassoc tree-scev-cprop tree-sink tree-slp-vectorize \
    tree-slsr tree-sra tree-switch-conversion tree-tail-merge tree-ter tree-vectorize tree-vrp \
    unconstrained-commons unit-at-a-time unroll-all-loops unroll-loops \
    unsafe-loop-optimizations unsafe-math-optimizations unsigned-bitfields unsigned-char \
    unswitch-loops unwind-tables variable-expansion-in-unroller vect-cost-model vectorize \
    version-loops-for-strides vpt web whole-program wrapv wrapv-pointer \
    zero-initialized-in-bss";

/// Names of `-fNAME=VALUE`.
const C_CODE_VALUES: &str = "\
    align-functions align-jumps align-labels align-loops complex-arithmetic denormal-fp-math \
    diagnostics-color excess-precision fp-contract fp-eval-method fp-exception-behavior \
    fp-model inline-limit ira-algorithm ira-region lax-vector-conversions \
    max-errors message-length pack-struct reorder-blocks-algorithm sched-stalled-insns \
    sched-stalled-insns-dep simd-cost-model stack-reuse tls-model trivial-auto-var-init veclib \
    vect-cost-model visibility zero-call-used-regs";

/// Names of `-mNAME` and `-mno-NAME`: instructions, and how they are chosen.
const C_MACHINE: &str = "\
    3dnow 3dnowa 8bit-idiv abm accumulate-outgoing-args adx aes align-stringops amx-bf16 \
    amx-complex amx-fp16 amx-int8 amx-tile apxf avx avx10.1 avx10.1-256 avx10.1-512 avx10.2 \
    avx2 avx256-split-unaligned-load avx256-split-unaligned-store avx5124fmaps avx5124vnniw \
    avx512bf16 avx512bitalg avx512bw avx512cd avx512dq avx512er avx512f avx512fp16 avx512ifma \
    avx512pf avx512vbmi avx512vbmi2 avx512vl avx512vnni avx512vp2intersect avx512vpopcntdq \
    avxifma avxneconvert avxvnni avxvnniint16 avxvnniint8 bmi bmi2 \
    branches-within-32B-boundaries cldemote clflushopt clwb clzero cmpccxadd crc32 cx16 \
    daz-ftz dispatch-scheduler enqcmd evex512 f16c fancy-math-387 fix-cortex-a53-835769 \
    fix-cortex-a53-843419 fma fma4 fsgsbase fxsr gather general-regs-only gfni hle hreset \
    ieee-fp inline-all-stringops inline-stringops-dynamically kl long-double-128 \
    long-double-64 long-double-80 low-precision-div low-precision-recip-sqrt \
    low-precision-sqrt lwp lzcnt mmx movbe movdir64b movdiri mwait mwaitx \
    omit-leaf-frame-pointer outline outline-atomics partial-vector-fp-math \
    pc-relative-literal-loads pclmul pconfig pku popcnt prefer-avx128 prefetchi prefetchwt1 \
    prfchw ptwrite push-args raoint rdpid rdrnd rdseed recip red-zone relax-cmpxchg-loop rtm \
    sahf scatter serialize sgx sha sha512 shstk sm3 sm4 sse sse2 sse2avx sse3 sse4 sse4.1 \
    sse4.2 sse4a ssse3 stackrealign strict-align stv tbm tsxldtrk uintr unaligned-access \
    usermsr vaes vpclmulqdq vzeroupper waitpkg wbnoinvd widekl xop xsave xsavec xsaveopt \
    xsaves";

/// Names of `-mNAME=VALUE`.
const C_MACHINE_VALUES: &str = "\
    align-data arch branch-cost branch-protection cpu fpmath fpu float-abi harden-sls \
    incoming-stack-boundary large-data-threshold memcpy-strategy memset-strategy move-max \
    prefer-vector-width preferred-stack-boundary recip rvv-vector-bits store-max \
    stringop-strategy sve-vector-bits tls-dialect tune tune-ctrl veclibabi";

/// Options of NVIDIA's compilers, after one dash or two.
const CUDA_WORDS: &str = "\
    O0 O1 O2 O3 G device-debug device-as-default-execution-space default-device \
    disable-warnings expt-extended-lambda expt-relaxed-constexpr extended-lambda \
    extra-device-vectorization generate-line-info lineinfo minimal restrict use_fast_math w";

/// Options of theirs with `=VALUE`.
const CUDA_VALUES: &str = "\
    Ofast-compile Ofc Werror builtin-initializer-list builtin-move-forward diag-error \
    diag-suppress diag-warn dopt fmad ftz jump-table-density maxrregcount modify-stack-limit \
    optimize prec-div prec-sqrt split-compile std";

/// Options for the assembler behind them, and those with `=VALUE`.
const PTXAS_WORDS: &str = "\
    O0 O1 O2 O3 O4 Werror allow-expensive-optimizations v verbose warn-lmem-usage \
    warn-on-double-precision-use warn-on-local-memory-usage warn-on-spills warn-spills";
const PTXAS_VALUES: &str = "\
    allow-expensive-optimizations def-load-cache def-store-cache dlcm dscm fmad maxrregcount \
    opt-level";

/// Names of the C compilers that a `CC` tunable may choose, with a version behind them or none.
const C_COMPILERS: [&str; 3] = ["cc", "gcc", "clang"];

/// Says whether a text is allowed.
type Rule = fn(&str) -> bool;

/// Says which of some flags, in their order, may not reach the compilers of a target, by its index.
pub fn refused_flag<'a>(
    target: TargetKind,
    flags: impl IntoIterator<Item = &'a str>,
) -> Option<usize> {
    let mut takes: Option<(usize, Rule)> = None;
    for (idx, flag) in flags.into_iter().enumerate() {
        if let Some((before, is_allowed)) = takes.take() {
            if is_allowed(flag) {
                continue;
            }
            return Some(before);
        }
        takes = match (target, flag) {
            (TargetKind::Cpu, "--param") => Some((idx, is_parameter)),
            (TargetKind::Cuda, "-Xptxas" | "--ptxas-options") => Some((idx, are_for_ptxas)),
            (TargetKind::Cuda, "-Xcompiler" | "--compiler-options") => Some((idx, are_for_host)),
            _ => None,
        };
        let is_allowed = takes.is_some()
            || match target {
                TargetKind::Cpu => is_for_c(flag),
                TargetKind::Cuda => is_for_cuda(flag),
            };
        if !is_allowed {
            return Some(idx);
        }
    }
    // The last one wants an argument that is not there: it would take what the harness says next.
    takes.map(|(idx, _)| idx)
}

/// Says in words which flags may reach the compilers of a target.
pub fn allowed_flags(target: TargetKind) -> &'static str {
    match target {
        TargetKind::Cpu => {
            "allowed are -O.., -std=.., -W.. without commas, -g, -DNAME=.., -UNAME, -lm, -pthread, \
             `--param NAME=NUMBER`, instruction sets and tuning by -m.., and code generation by -f..; \
             nothing that names a file or a program, or writes anything but the kernel (docs/labs.md)"
        }
        TargetKind::Cuda => {
            "allowed are -O.., --std=.., -DNAME=.., -UNAME, --use_fast_math, --ftz=.., --fmad=.., \
             --prec-div=.., --prec-sqrt=.., --maxrregcount=.., -lineinfo, --expt-relaxed-constexpr, \
             --extended-lambda, --diag-suppress=.., -Xptxas with options of the same kind; nothing that \
             names a file or a program (docs/labs.md)"
        }
    }
}

/// Says whether a name may choose the compiler: a plain one of a compiler that is known, since a path could
/// name any program.
pub fn is_compiler_name(name: &str) -> bool {
    C_COMPILERS.iter().any(|known| {
        let version = name.strip_prefix(known).map(|rest| rest.strip_prefix('-').unwrap_or(rest));
        version.is_some_and(|version| {
            version.is_empty() && name == *known
                || !version.is_empty() && version.chars().all(|c| c.is_ascii_digit() || c == '.')
        })
    })
}

/// Says whether a list has a word.
fn has(list: &str, word: &str) -> bool {
    list.split(' ').any(|known| known == word)
}

fn is_for_c(flag: &str) -> bool {
    if has(C_WORDS, flag) {
        return true;
    }
    if let Some(name) = flag.strip_prefix("-f") {
        return is_code(name);
    }
    if let Some(name) = flag.strip_prefix("-m") {
        return is_toggle_or_value(name, C_MACHINE, C_MACHINE_VALUES);
    }
    if let Some(name) = flag.strip_prefix("-W") {
        // Not `-Wl,`, `-Wa,` and `-Wp,`, which hand something on.
        return name.chars().all(|c| c.is_ascii_alphanumeric() || "-+=_".contains(c));
    }
    if let Some(standard) = flag.strip_prefix("-std=") {
        return is_word(standard);
    }
    if let Some(parameter) = flag.strip_prefix("--param=") {
        return is_parameter(parameter);
    }
    is_macro(flag)
}

fn is_code(name: &str) -> bool {
    // One function of the library: `-fno-builtin-memcpy`.
    let function = name.strip_prefix("no-builtin-").or_else(|| name.strip_prefix("builtin-"));
    // How many compilers this starts at once is for the machine to say, not for a candidate.
    let lto = name.strip_prefix("lto=");
    lto.is_some_and(|how| ["1", "auto", "full", "thin"].contains(&how))
        || function.is_some_and(is_identifier)
        || is_toggle_or_value(name, C_CODE, C_CODE_VALUES)
}

fn is_toggle_or_value(name: &str, toggles: &str, with_value: &str) -> bool {
    match name.split_once('=') {
        Some((name, value)) => has(with_value, name) && is_word(value),
        None => has(toggles, name.strip_prefix("no-").unwrap_or(name)),
    }
}

fn is_for_cuda(flag: &str) -> bool {
    let options = flag.strip_prefix("-Xptxas=").or_else(|| flag.strip_prefix("--ptxas-options="));
    if let Some(options) = options {
        return are_for_ptxas(options);
    }
    let options =
        flag.strip_prefix("-Xcompiler=").or_else(|| flag.strip_prefix("--compiler-options="));
    if let Some(options) = options {
        return are_for_host(options);
    }
    // `nvcc` has a shell start its programs, which runs what `$(..)` and backquotes in a macro say.
    is_dashed(flag, CUDA_WORDS, CUDA_VALUES) || (is_macro(flag) && !flag.contains(['$', '`']))
}

fn are_for_ptxas(options: &str) -> bool {
    options.split(',').all(|option| is_dashed(option, PTXAS_WORDS, PTXAS_VALUES))
}

fn are_for_host(options: &str) -> bool {
    options.split(',').all(|option| is_for_c(option) && !option.contains(['$', '`']))
}

fn is_dashed(option: &str, words: &str, with_value: &str) -> bool {
    let name = option.strip_prefix("--").or_else(|| option.strip_prefix('-'));
    name.is_some_and(|name| match name.split_once('=') {
        Some((name, value)) => has(with_value, name) && is_word(value),
        None => has(words, name),
    })
}

/// `-DNAME`, `-DNAME=anything`, `-DNAME(arguments)=anything` or `-UNAME`, in one argument.
fn is_macro(flag: &str) -> bool {
    if let Some(name) = flag.strip_prefix("-U") {
        return is_identifier(name);
    }
    let Some(definition) = flag.strip_prefix("-D") else { return false };
    let end = definition.find(['=', '(']).unwrap_or(definition.len());
    is_identifier(&definition[..end]) && !definition.contains(char::is_control)
}

/// `max-unroll-times=4`.
fn is_parameter(text: &str) -> bool {
    text.split_once('=').is_some_and(|(name, value)| is_word(name) && is_word(value))
}

fn is_identifier(text: &str) -> bool {
    text.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
        && text.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
}

/// A value that cannot be a path, a list of arguments or another option.
fn is_word(value: &str) -> bool {
    value.starts_with(|c: char| c.is_ascii_alphanumeric() || c == '!')
        && value.chars().all(|c| c.is_ascii_alphanumeric() || "_+-.,:!".contains(c))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(target: TargetKind, flags: &str, expected: Option<usize>) {
        let found = refused_flag(target, flags.split_whitespace());
        assert_eq!(found, expected, "{flags}");
    }

    #[test]
    fn what_kernels_are_tuned_with_is_allowed() {
        for flags in [
            "-O3 -march=native -ffp-contract=fast -fno-math-errno -lm",
            "-Ofast -ffast-math -funroll-loops -fno-tree-vectorize -fno-builtin -fno-builtin-memcpy",
            "-mavx512f -mno-avx2 -mprefer-vector-width=512 -mtune=znver4 -mcpu=neoverse-n1+sve",
            "-march=armv8.2-a+fp16 -mrecip=sqrt,!div -msve-vector-bits=256",
            "-std=gnu17 -Wall -Wno-psabi -Werror=vla -Wframe-larger-than=4096 -w -g",
            "-DBLOCK=4 -DF(x)=((x)+1) -DEMPTY -D_GNU_SOURCE -UNDEBUG -DPATH=/etc/passwd",
            "--param max-unroll-times=4 --param=l1-cache-size=32 -O2",
            "-flto -flto=auto -flto=1 -flto=thin -fno-lto -fvect-cost-model=unlimited -fopenmp-simd -pthread",
        ] {
            check(TargetKind::Cpu, flags, None);
        }
        for flags in [
            "--use_fast_math -use_fast_math --expt-relaxed-constexpr --extended-lambda -lineinfo",
            "-O3 --std=c++20 -std=c++17 --maxrregcount=128 --ftz=true --fmad=false",
            "-Xptxas=-O3,-dlcm=ca -Xptxas -v,--warn-on-spills --ptxas-options=--opt-level=3",
            "-Xcompiler -O3,-fno-math-errno --diag-suppress=177,20012 -DTILE=4 -w",
        ] {
            check(TargetKind::Cuda, flags, None);
        }
    }

    #[test]
    fn what_runs_reads_or_writes_is_refused() {
        for flag in [
            "-wrapper",
            "@flags",
            "-fplugin=./x.so",
            "-fplugin-arg-x-y=1",
            "-fpass-plugin=x.so",
            "-B.",
            "-B",
            "-specs=x",
            "--specs=x",
            "-Xlinker",
            "-Wl,-plugin,x.so",
            "-Wa,-a=x",
            "-Wp,-MD,x",
            "-o",
            "-ox.so",
            "-I/etc",
            "-I.",
            "-isystem",
            "-idirafter",
            "-iquote",
            "-iprefix",
            "-include",
            "-imacros",
            "-x",
            "-xassembler",
            "-save-temps",
            "-save-temps=obj",
            "-fprofile-generate",
            "-fprofile-use=x",
            "-fprofile-dir=/tmp",
            "-fauto-profile=x",
            "-ftest-coverage",
            "--coverage",
            "-load",
            "-Xclang",
            "-mllvm",
            "-mmlir",
            "--config",
            "--config=x",
            "-config",
            "-fuse-ld=/x",
            "-fuse-ld=lld",
            "--ld-path=x",
            "-L.",
            "-lfoo",
            "-l:foo",
            "-T",
            "-Tx.ld",
            "-dumpdir",
            "-dumpbase",
            "-fdump-tree-all",
            "-fdump-rtl-all=/tmp/x",
            "-fopt-info-vec=/tmp/x",
            "-fopt-info",
            "-fstack-usage",
            "-fsave-optimization-record",
            "-foptimization-record-file=x",
            "-ftime-trace",
            "-fproc-stat-report=x",
            "-fcallgraph-info",
            "-MD",
            "-MF",
            "-M",
            "-E",
            "-S",
            "-c",
            "-v",
            "-###",
            "--version",
            "--help",
            "-fsyntax-only",
            "-flto=2",
            "-flto=jobserver",
            "-flto-partition=1to1",
            "-r",
            "-static",
            "-nostdlib",
            "-rdynamic",
            "-z",
            "--sysroot=/",
            "-isysroot",
            "-gcc-toolchain",
            "--gcc-toolchain=/x",
            "-gsplit-dwarf",
            "-module-dependency-dir",
            "-main-file-name",
            "-mlink-builtin-bitcode",
            "-Wl",
            "-Wl,x",
            "-D",
            "-D-wrapper",
            "-U",
            "-D4=x",
            "-DX=1\n#include",
            "kernel.c",
            "",
            "-",
            "--",
            "-fmodules",
            "-fmodules-cache-path=x",
            "-fmodule-map-file=x",
            "-fdebug-prefix-map=a=b",
            "-frandom-seed=x",
            "-fsanitize=address",
            "-fsanitize-ignorelist=x",
            "-fdiagnostics-format=sarif-file",
            "-fcrash-diagnostics-dir=x",
            "-fembed-offload-object=x",
            "-foffload=x",
            "-fcompare-debug",
            "-march=/x",
            "-march=a@b",
            "-mtune=../x",
            "--param=x=/y",
            "-stdlib=x",
            "-std=../x",
            "-wfoo",
            "-time",
            "-time=x",
            "-print-file-name=x",
            "-aux-info",
            "-fada-spec-parent=x",
            "-no-pie",
        ] {
            // `-Wl` alone names a warning, and nothing follows it.
            let expected = if flag == "-Wl" { None } else { Some(1) };
            let found = refused_flag(TargetKind::Cpu, ["-O2", flag]);
            assert_eq!(found, expected, "{flag}");
        }
        for flag in [
            "-ccbin=x",
            "--compiler-bindir",
            "-optf",
            "--options-file=x",
            "-keep",
            "--keep-dir=x",
            "-o",
            "--output-file=x",
            "-I.",
            "--include-path=x",
            "-include",
            "--pre-include=x",
            "-Xptxas=-o,x",
            "-Xptxas=--output-file=x",
            "-Xptxas=--options-file=x",
            "-Xcompiler=-wrapper",
            "-Xcompiler=-Wl,x",
            "-Xlinker",
            "-Xcudafe",
            "--fdevice-time-trace=x",
            "--time=x",
            "--pch-dir=x",
            "--create-pch=x",
            "--use-pch=x",
            "-dryrun",
            "--run",
            "-lib",
            "-link",
            "-E",
            "--ptx",
            "--fatbin",
            "-ldir=x",
            "--dependency-output=x",
            "-DX=$(touch)",
            "-DX=`touch`",
            "@x",
            "--device-syntax-only",
            "--gpu-architecture=sm_70",
            "-arch=sm_70",
            "-gencode=x",
            "-rdc=true",
            "-dlink",
            "-t",
            "-x",
        ] {
            let found = refused_flag(TargetKind::Cuda, ["-O2", flag]);
            assert_eq!(found, Some(1), "{flag}");
        }
    }

    #[test]
    fn what_takes_the_next_argument_takes_a_checked_one() {
        check(TargetKind::Cpu, "--param -wrapper", Some(0));
        check(TargetKind::Cpu, "-O2 --param", Some(1));
        check(TargetKind::Cpu, "--param a=1 -wrapper", Some(2));
        check(TargetKind::Cuda, "-Xptxas -o", Some(0));
        check(TargetKind::Cuda, "-Xcompiler", Some(0));
        check(TargetKind::Cuda, "-Xcompiler -O3,-B.", Some(0));
        // What one kind of compiler knows is nothing to the other.
        check(TargetKind::Cpu, "-Xptxas -v", Some(0));
        check(TargetKind::Cuda, "--param a=1", Some(0));
    }

    #[test]
    fn a_compiler_is_chosen_by_a_plain_known_name() {
        for name in ["cc", "gcc", "clang", "gcc-13", "clang-18", "clang18", "gcc-12.2"] {
            assert!(is_compiler_name(name), "{name}");
        }
        for name in [
            "",
            "sh",
            "./gcc",
            "/usr/bin/gcc",
            "gcc/",
            "python3",
            "ccache",
            "gcc-",
            "gcc-ar",
            "cc -B.",
            "gcc-12/x",
        ] {
            assert!(!is_compiler_name(name), "{name}");
        }
    }
}
