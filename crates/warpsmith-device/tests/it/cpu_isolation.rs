//! What candidates must not be able to do, and what they are told when they try.

use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::support::*;
use warpsmith_device::target::{Artifact, Extent, Fault, Target, Unit};
use warpsmith_model::{CrashCause, Guard};

/// For what never ends. Loading a kernel counts too, and takes a while on a busy machine.
const SHORT_DEADLINE: Duration = Duration::from_secs(2);

/// Runs a kernel that must crash; compares the words for it.
fn check(body: &str, expected: &str) {
    let cause = Bench::new().crash(&with_headers(body));
    assert_eq!(cause.to_string(), expected, "{body}");
}

fn with_headers(body: &str) -> String {
    let headers = "#define _GNU_SOURCE\n#include <stdlib.h>\n#include <string.h>\n#include <stdio.h>\n\
                   #include <assert.h>\n#include <unistd.h>\n#include <fcntl.h>\n#include <signal.h>\n\
                   #include <sched.h>\n#include <pthread.h>\n#include <sys/socket.h>\n\
                   #include <sys/mman.h>\n#include <sys/syscall.h>\n#include <time.h>\n";
    format!("{headers}{}", kernel(body))
}

#[test]
fn every_protection_is_active_on_a_machine_that_tests_it() {
    let bench = Bench::new();
    let isolation = bench.cpu.isolation();
    for guard in [
        &isolation.seccomp,
        &isolation.landlock,
        &isolation.rlimits,
        &isolation.sealed_inputs,
        &isolation.privileges,
    ] {
        assert_eq!(*guard, Guard::Active, "{isolation:?}");
    }
}

#[test]
fn memory_outside_of_tensors_cannot_be_touched() {
    check("z[0] = x[n + 8];", "touched `x` out of bounds, at byte 4032");
    check("z[0] = x[-2000];", "touched `x` out of bounds, at byte -8000");
    check("z[n + 8] = a;", "touched `z` out of bounds, at byte 4032");
    check("z[n + 60000] = a;", "touched `z` out of bounds, at byte 244000");
    check("*(volatile float *)0 = a;", "touched the bad address 0x0");
}

#[test]
fn inputs_cannot_be_written() {
    check("((float *)x)[3] = a;", "wrote to the input `x`");
    check("((float *)y)[999] = a;", "wrote to the input `y`");
}

#[test]
fn inputs_cannot_be_made_writable() {
    let page = "(void *)((uintptr_t)x & ~(uintptr_t)4095)";
    let body = format!("mprotect({page}, 4096, PROT_READ | PROT_WRITE);");
    check(&body, "made the forbidden system call mprotect");
    // From outside of the arena into it.
    let below = "(void *)(((uintptr_t)x & ~(uintptr_t)4095) - (1ull << 32))";
    let body = format!("mprotect({below}, (1ull << 32) + 4096, PROT_READ | PROT_WRITE);");
    check(&body, "made the forbidden system call mprotect");
}

/// From a tensor to the same tensor of the next slot, for three tensors of 1000 floats: a page and
/// two guards each.
const SLOT_STRIDE: i64 = 3 * (4096 + (512 << 10));

/// Opens two cases and launches some with a kernel that reaches for the second slot.
fn reach_for_the_next_slot(reach: &str, batch: &[usize]) -> Result<Vec<f32>, Fault> {
    let mut bench = Bench::new();
    let body = format!(
        "    const float *other = (const float *)((const char *)x + {SLOT_STRIDE});\n    \
         if (begin == 0) {{ {reach} }}"
    );
    let artifact = bench.compile(&with_headers(&body));
    let program = program(artifact, 1000);
    let cases = [bench.stage(1000), bench.stage(1000)];
    let mut session = bench.cpu.open(&program, &cases, DEADLINE).expect("opens");
    session.launch(batch, &Extent::All)?;
    Ok(floats(session.output(0, 2)))
}

#[test]
fn inputs_of_other_launches_are_not_there_to_be_read() {
    let read = "z[0] = other[7];";
    assert!(reach_for_the_next_slot(read, &[0]).expect("it is mapped")[0].is_nan());

    // In one batch, under one reading of the clock, there is nothing to gain by it.
    let body = "if (x[0] == 0) z[0] = other[7];".replace("other", "(x - 0)");
    assert_eq!(reach_for_the_next_slot(&body, &[0, 1]).expect("both are there")[0], 7.0);
}

#[test]
fn an_address_holds_what_the_launch_is_about() {
    let mut bench = Bench::new();
    // Remembers where it was first called, and what it found there.
    let body = "    static const float *where; static float what;\n    \
                if (begin == 0) {\n        if (!where) { where = x; what = y[3]; }\n        \
                z[0] = x == where; z[1] = y[3] - what;\n    }";
    let artifact = bench.compile(&with_headers(body));
    let program = program(artifact, 1000);
    let shifted: Vec<Vec<u8>> = (0..2)
        .map(|_| (0..1000).flat_map(|idx| (idx as f32 + 5.0).to_le_bytes()).collect())
        .collect();
    let first = bench.stage(1000);
    let second = bench.cpu.stage(&tensors(1000), &Arc::new(shifted)).expect("stages");
    let mut session = bench.cpu.open(&program, &[first, second], DEADLINE).expect("opens");
    session.launch(&[0], &Extent::All).expect("runs");
    let before = floats(session.output(0, 2));
    session.launch(&[1], &Extent::All).expect("runs");
    let after = floats(session.output(1, 2));
    assert_eq!((before[0], before[1]), (1.0, 0.0));
    assert_eq!(after[0], 1.0, "the second case lies where the first did");
    assert_ne!(after[1], 0.0, "with other contents");
}

/// A kernel that counts in its first launch how much its constructor could do.
fn constructed(body: &str) -> String {
    with_headers("    z[0] = tried;").replace(
        "void kernel(",
        &format!(
            "static volatile float tried;\n\
             __attribute__((constructor)) static void at_load(void) {{ tried = 1; {body} }}\nvoid kernel("
        ),
    )
}

#[test]
fn constructors_run_without_the_rights_that_loading_takes() {
    let mut bench = Bench::new();
    let mut session = bench.open(&constructed("tried = 5;"), 10).expect("opens");
    session.launch(&[0], &Extent::All).expect("runs");
    assert_eq!(floats(session.output(0, 2))[0], 5.0, "it has run");
    drop(session);
    let map = "mmap(0, 4096, PROT_READ | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);";
    for (body, name) in [
        ("open(\"/etc/ld.so.cache\", O_RDONLY);", "openat"),
        ("char place[64]; readlink(\"/proc/self/exe\", place, 64);", "readlink"),
        (map, "mmap"),
        ("access(\"/lib\", F_OK);", "access"),
    ] {
        let expected = CrashCause::Forbidden { syscall: name.to_string() };
        match bench.open(&constructed(body), 10) {
            Err(Fault::Crashed(cause)) => assert_eq!(cause, expected, "{body}"),
            other => panic!("{body}: {:?}", other.map(|_| "opened")),
        }
    }
}

#[test]
fn an_indirect_function_is_refused_in_words() {
    let source = with_headers("    z[0] = twice(a);").replace(
        "void kernel(",
        "static float plain(float a) { return a + a; }\n\
         static void *choose(void) { return (void *)plain; }\n\
         float twice(float a) __attribute__((ifunc(\"choose\")));\nvoid kernel(",
    );
    let mut bench = Bench::new();
    let artifact = bench.compile(&source);
    let program = program(artifact, 10);
    let case = bench.stage(10);
    match bench.cpu.open(&program, &[case], DEADLINE) {
        Err(Fault::Crashed(CrashCause::NotLoadable { message })) => {
            assert!(message.contains("indirect function"), "{message}");
        }
        other => panic!("{:?}", other.map(|_| "opened")),
    }
}

/// Returns where the value of a tag of the dynamic section is in memory, from where the artifact is loaded.
fn place_of_tag(artifact: &Artifact, wanted: u64) -> u64 {
    const PT_DYNAMIC: u32 = 2;
    let file = std::fs::read(&artifact.path).expect("read");
    let word = |at: usize| u64::from_le_bytes(file[at..at + 8].try_into().expect("eight"));
    let headers = (word(32) as usize..).step_by(56).take(usize::from(file[56]));
    let header = headers.into_iter().find(|at| word(*at) as u32 == PT_DYNAMIC).expect("it has one");
    let (offset, address) = (word(header + 8), word(header + 16));
    let entry = (offset as usize..).step_by(16).find(|at| word(*at) == wanted).expect("it has it");
    address + (entry as u64 + 8 - offset)
}

/// Linkers put the bytes of such a section among their own relocations.
#[test]
fn relocations_of_its_own_give_a_constructor_no_rights() {
    const DT_INIT_ARRAYSZ: u64 = 27;
    // The loader would be told of two constructors again, the compiler's and this one, and call them.
    let source = |place: u64| {
        let relocation = format!(
            "__asm__(\".section .rela.data.own,\\\"a\\\",@progbits\\n.quad {place}, 17, 16\\n.previous\");\n"
        );
        relocation + &constructed("tried = 5; access(\"/lib\", F_OK);")
    };
    let mut bench = Bench::new();
    let artifact = bench.compile(&source(0));
    let place = place_of_tag(&artifact, DT_INIT_ARRAYSZ);
    match bench.open(&source(place), 10) {
        Err(Fault::Crashed(CrashCause::NotLoadable { message })) => {
            assert!(message.contains(&format!("writes to {place:#x}")), "{message}");
        }
        other => panic!("{:?}", other.map(|_| "opened")),
    }
}

/// The loader needs no more of them than it gets, however they were linked.
#[test]
fn kernels_of_every_make_load_and_compute() {
    let source = "#include <math.h>\n#include <stdint.h>\n#include <string.h>\n\
                  static float one = 1;\n\
                  static float *const table[] = {&one};\n\
                  static __thread float own;\n\
                  __attribute__((visibility(\"default\"))) __thread float shared;\n\
                  __attribute__((visibility(\"default\"))) float plus(float a) { return a + shared; }\n\
                  __attribute__((constructor)) static void at_load(void) { one = 0; }\n\
                  void kernel(const float *x, const float *y, float *z, int64_t n, float a,\n    \
                  int64_t begin, int64_t end) {\n    \
                  for (int64_t i = begin; i < end; i++) {\n        \
                  own = a * x[i] + *table[n == 0];\n        \
                  float sum = fmaf(sinf(shared), y[i], plus(own) + y[i]);\n        \
                  memcpy(z + i, &sum, sizeof sum);\n    }\n}\n";
    let mut bench = Bench::new();
    let mut n_tried = 0;
    for compiler in ["gcc", "clang"] {
        for flags in [
            &["-O0"][..],
            &["-O3", "-flto"],
            &["-O1", "-fvisibility=default", "-fno-builtin"],
            &["-O1", "-ftls-model=initial-exec", "-Wl,-z,now"],
            &["-O1", "-mtls-dialect=gnu2"],
            &["-O1", "-fuse-ld=gold"],
            &["-O1", "-fuse-ld=lld"],
            &["-O1", "-Wl,--hash-style=both", "-Wl,-z,pack-relative-relocs"],
        ] {
            let flags = flags.iter().map(|flag| flag.to_string()).collect();
            let unit = Unit { compiler: compiler.to_string(), flags, ..unit(source) };
            let what = format!("{compiler} {:?}", unit.flags);
            // This machine's may not know all of them.
            let Ok(artifact) = bench.cpu.compile(&unit) else { continue };
            n_tried += 1;
            let case = bench.stage(100);
            let opened = bench.cpu.open(&program(artifact, 100), &[case], DEADLINE);
            let mut session = opened.unwrap_or_else(|fault| panic!("{what}: {fault}"));
            session.launch(&[0], &Extent::All).unwrap_or_else(|fault| panic!("{what}: {fault}"));
            assert_eq!(floats(session.output(0, 2)), expected(100), "{what}");
        }
    }
    assert!(n_tried > 3, "{n_tried}");
}

#[test]
fn memory_that_is_both_writable_and_executable_is_refused_in_words() {
    let stack = constructed("").replace(
        "tried = 1;",
        "tried = 1; volatile float given = 5; void inner(void) { tried = given; }\n    \
         void (*volatile through)(void) = inner; through();",
    );
    let section =
        "__attribute__((used, section(\".code,\\\"awx\\\",@progbits#\"))) static char code[64];\n";
    let section = format!("{section}{}", good_kernel());
    for (source, part) in [(stack, "executable stack"), (section, "both writable and executable")] {
        match Bench::new().open(&source, 10) {
            Err(Fault::Crashed(CrashCause::NotLoadable { message })) => {
                assert!(message.contains(part), "{message}");
            }
            other => panic!("{part}: {:?}", other.map(|_| "opened")),
        }
    }
}

#[test]
fn clocks_of_other_processes_cannot_be_read() {
    check(
        "struct timespec t; if (begin == 0) syscall(SYS_clock_gettime, ~getppid() << 3 | 2, &t);",
        "made the forbidden system call number 110",
    );
    let worker = "(clockid_t)((~(unsigned)1) << 3 | 2)";
    check(
        &format!("struct timespec t; if (begin == 0) syscall(SYS_clock_gettime, {worker}, &t);"),
        "made the forbidden system call number 228",
    );
}

#[test]
fn floating_point_settings_are_left_as_they_were() {
    let body = "__builtin_ia32_ldmxcsr(__builtin_ia32_stmxcsr() | 0x6000); z[begin] = a;";
    assert_eq!(Bench::new().crash(&kernel(body)), CrashCause::FloatingPoint);
}

/// What `-ffast-math` links does so, and kernels passed with it: the threads that run them exist already.
#[test]
fn a_constructor_leaves_floating_point_settings_as_they_were() {
    let constructor = "__attribute__((constructor)) static void flush(void) {\n    \
                       __builtin_ia32_ldmxcsr(__builtin_ia32_stmxcsr() | 0x8040);\n}\n";
    let cause = Bench::new().crash(&format!("{constructor}{}", good_kernel()));
    assert_eq!(cause, CrashCause::FloatingPoint);
    assert!(cause.to_string().contains("-ffast-math"), "{cause}");
}

#[test]
fn bytes_beside_scratch_are_watched() {
    let mut bench = Bench::new();
    let source = "#include <stdint.h>\nvoid kernel(const float *x, const float *y, float *z, int64_t n, \
                  float a, void *scratch, int64_t begin, int64_t end) {\n    \
                  if (begin == 0) ((uint8_t *)scratch)[1001] = 7;\n}\n";
    let mut unit = unit(source);
    unit.signature.push(warpsmith_device::target::Argument::Scratch);
    let artifact = bench.cpu.compile(&unit).expect("compiles");
    let program =
        warpsmith_device::target::Program { scratch: vec![1001], ..program(artifact, 100) };
    let case = bench.stage(100);
    let mut session = bench.cpu.open(&program, &[case], DEADLINE).expect("opens");
    let fault = session.launch(&[0], &Extent::All).expect_err("it wrote beside scratch");
    assert_eq!(fault.to_string(), "crashed: touched `scratch 0` out of bounds, at byte 1001");
}

#[test]
fn bytes_beside_an_output_are_watched_where_no_page_guards_them() {
    let mut bench = Bench::new();
    for body in ["z[n] = a;", "z[-1] = a;"] {
        let mut session = bench.open(&kernel(body), 1001).expect("opens");
        session.launch(&[0], &Extent::All).expect("runs");
        assert_eq!(session.overwritten_guard(0), Some(2), "{body}");
    }
}

#[test]
fn system_calls_are_forbidden_by_name() {
    let table = [
        ("fork();", "clone"),
        ("execve(\"/bin/sh\", 0, 0);", "execve"),
        ("socket(AF_INET, SOCK_STREAM, 0);", "socket"),
        ("open(\"/etc/passwd\", O_RDONLY);", "openat"),
        ("kill(getppid(), SIGKILL);", "number 110"),
        ("kill(1, SIGKILL);", "kill"),
        ("raise(SIGTERM);", "tgkill"),
        ("syscall(SYS_ptrace, 0, 0, 0, 0);", "ptrace"),
        ("signal(SIGSEGV, SIG_IGN);", "rt_sigaction"),
        ("mmap(0, 4096, PROT_READ | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);", "mmap"),
        ("mprotect((void *)((uintptr_t)z & ~4095ull), 4096, PROT_EXEC);", "mprotect"),
        ("write(1, \"x\", 1);", "write"),
        ("syscall(SYS_io_uring_setup, 1, 0);", "io_uring_setup"),
        ("cpu_set_t s; CPU_ZERO(&s); sched_setaffinity(0, sizeof s, &s);", "sched_setaffinity"),
        ("pthread_t t; pthread_create(&t, 0, (void *(*)(void *))abort, 0);", "of unknown number"),
        ("syscall(99999);", "number 99999"),
    ];
    for (body, name) in table {
        // Once, and not once per block: without the filter, `fork` in each would be a catastrophe.
        let body = format!("if (begin == 0) {{ {body} }}");
        check(&body, &CrashCause::Forbidden { syscall: name.to_string() }.to_string());
    }
}

#[test]
fn fatal_signals_are_named() {
    check("z[0] = n / (n - 1000);", "killed by SIGFPE");
    check("__builtin_trap();", "killed by SIGILL");
    check("abort();", "killed by SIGABRT");
    check("assert(n == 1);", "killed by SIGABRT");
}

#[test]
fn leaving_the_process_is_a_crash() {
    check("exit(0);", "left its process with status 0");
    check("_exit(7);", "left its process with status 7");
}

#[test]
fn an_overflowing_stack_is_told_from_other_faults() {
    let source = "#include <stdint.h>\n\
        static int64_t deep(volatile char *above, int64_t n) {\n\
        \x20   volatile char here[4096];\n    here[0] = above[0];\n\
        \x20   return n == 0 ? 0 : deep(here, n - 1) + here[0] + 1;\n}\n"
        .to_string()
        + &kernel("    volatile char first[1] = {1};\n    z[0] = deep(first, 1 << 20);");
    let cause = Bench::new().crash(&source);
    assert_eq!(cause.to_string(), "killed by SIGSEGV (stack overflow)");
}

#[test]
fn eight_mebibytes_of_stack_can_be_used() {
    let body = "    volatile char large[8000 << 10];\n    large[0] = 1;\n    \
                for (int64_t i = begin; i < end; i++) z[i] = large[0];";
    let mut session = Bench::new().open(&kernel(body), 10).expect("opens");
    session.launch(&[0], &Extent::All).expect("runs");
    assert_eq!(floats(session.output(0, 2)), [1.0; 10]);
}

#[test]
fn allocation_works_and_ends_at_its_limit() {
    let mut bench = Bench::new();
    let modest = with_headers(
        "    for (int64_t i = begin; i < end; i++) {\n        \
         float *p = malloc(1 << (10 + i % 15));\n        p[0] = i;\n        \
         p = realloc(p, 1 << 20);\n        z[i] = p[0];\n        free(p);\n    }",
    );
    let mut session = bench.open(&modest, 1000).expect("opens");
    session.launch(&[0], &Extent::All).expect("runs");
    assert_eq!(floats(session.output(0, 2))[..3], [0.0, 1.0, 2.0]);
    let greedy = with_headers(
        "    for (;;) {\n        char *p = malloc(16 << 20);\n        if (!p) abort();\n        \
         memset(p, 1, 4096);\n    }",
    );
    assert_eq!(bench.crash(&greedy), CrashCause::Signal { name: "SIGABRT".to_string() });
}

#[test]
fn an_endless_kernel_is_killed_at_its_deadline() {
    let mut bench = Bench::new();
    let artifact = bench.compile(&kernel("    for (;;) __asm__ volatile(\"\");"));
    let program = program(artifact, 10);
    let case = bench.stage(10);
    let mut session = bench.cpu.open(&program, &[case], SHORT_DEADLINE).expect("opens");
    let began = Instant::now();
    let fault = session.launch(&[0], &Extent::All).expect_err("it never ends");
    assert!(matches!(fault, Fault::TimedOut { limit_s } if limit_s == 2.0), "{fault}");
    let took = began.elapsed();
    assert!(took >= SHORT_DEADLINE && took < Duration::from_secs(60), "{took:?}");
    let fault = session.launch(&[0], &Extent::All).expect_err("the process is gone");
    assert!(matches!(fault, Fault::Crashed(_)), "{fault}");
}

/// The control page is the only place with 128-byte lines of counters; a candidate that knows the
/// harness's source finds it. Here it is told where to look: every mapping it can read is searched
/// through pointers on its own stack.
#[test]
fn saying_done_before_the_work_is_done_leaves_poison() {
    // The thread that runs the kernel holds a reference to the control page on its stack. The page's
    // first line is the number of the newest command, the second the same number, the third the
    // number of threads, the fourth (done) one less.
    let body = format!(
        "    volatile uintptr_t *stack = (volatile uintptr_t *)__builtin_frame_address(0);\n    \
         for (int i = 0; i < 400; i++) {{\n        \
         uintptr_t p = stack[i];\n        \
         if (p % 4096 != 0 || p >> 40 != (uintptr_t)stack >> 40) continue;\n        \
         volatile uint32_t *page = (volatile uint32_t *)p;\n        \
         if (page[0] == 1 && page[32] == 1 && page[64] == {threads} && page[96] == 0) {{\n            \
         z[0] = 42;\n            page[96] = 1; page[128]++;\n            \
         syscall(SYS_futex, page + 128, 1, 1000);\n            \
         for (;;) sched_yield();\n        }}\n    }}\n    \
         z[1] = 43;",
        threads = std::thread::available_parallelism().expect("known")
    );
    let mut session = Bench::new().open(&with_headers(&body), 100).expect("opens");
    session.launch(&[0], &Extent::All).expect("it says that it is done");
    let output = floats(session.output(0, 2));
    assert_eq!(output[0], 42.0, "the kernel found the page");
    assert!(output[2..].iter().all(|value| value.is_nan()), "nothing else was written");
}

#[test]
fn scribbling_over_all_writable_memory_harms_nobody_else() {
    // Overwrites everything behind every pointer on the stack, the control page among it.
    let body = "    volatile uintptr_t *stack = (volatile uintptr_t *)__builtin_frame_address(0);\n    \
                for (int i = 0; i < 400; i++) {\n        \
                uintptr_t p = stack[i];\n        \
                if (p % 4096 == 0 && p >> 40 == (uintptr_t)stack >> 40)\n            \
                memset((void *)p, 0xff, 2048);\n    }";
    let mut bench = Bench::new();
    let artifact = bench.compile(&with_headers(body));
    let program = program(artifact, 100);
    let case = bench.stage(100);
    let mut session = bench.cpu.open(&program, &[case], SHORT_DEADLINE).expect("opens");
    match session.launch(&[0], &Extent::All) {
        Err(fault) => {
            assert!(matches!(fault, Fault::TimedOut { .. } | Fault::Crashed(_)), "{fault}");
        }
        // One thread alone waits for nobody, and says that it is done.
        Ok(_) => {
            let output = floats(session.output(0, 2));
            assert!(output.iter().all(|value| value.is_nan()), "nothing was computed: {output:?}");
        }
    }
    drop(session);
    let mut session = bench.open(&good_kernel(), 100).expect("the next one opens");
    session.launch(&[0], &Extent::All).expect("runs");
    assert_eq!(floats(session.output(0, 2)), expected(100));
}

#[test]
fn constructors_cannot_write_files_or_start_processes() {
    let table = [
        ("open(\"/etc/passwd\", O_RDONLY);", "openat"),
        ("open(\"/tmp/x\", O_WRONLY | O_CREAT, 0600);", "openat"),
        ("fork();", "clone"),
        ("socket(AF_UNIX, SOCK_STREAM, 0);", "socket"),
    ];
    for (body, name) in table {
        let source = with_headers("").replace(
            "void kernel(",
            &format!(
                "__attribute__((constructor)) static void early(void) {{ {body} }}\nvoid kernel("
            ),
        );
        let cause = Bench::new().crash(&source);
        assert_eq!(cause, CrashCause::Forbidden { syscall: name.to_string() }, "{body}");
    }
}

#[test]
fn an_endless_constructor_is_killed_at_the_deadline() {
    let mut bench = Bench::new();
    let source = "__attribute__((constructor)) static void early(void) { for (;;) ; }\n"
        .to_string()
        + &good_kernel();
    let artifact = bench.compile(&source);
    let program = program(artifact, 10);
    let case = bench.stage(10);
    let opened = bench.cpu.open(&program, &[case], Duration::from_millis(300));
    let fault = opened.err().expect("it never ends");
    assert!(matches!(fault, Fault::TimedOut { .. }), "{fault}");
}

#[test]
fn a_session_survives_neither_a_kill_nor_a_tampered_artifact() {
    let mut bench = Bench::new();
    let source = with_headers("    for (;;) sched_yield();");
    let artifact = bench.compile(&source);
    let program = program(artifact, 10);
    let case = bench.stage(10);
    let mut session = bench.cpu.open(&program, &[case], DEADLINE).expect("opens");
    // The first has no candidate and shows what the harness costs; the newest waits for the next session.
    let runner = children().get(1).copied().expect("the runner");
    let killer = std::thread::spawn(move || {
        std::thread::sleep(Duration::from_millis(50));
        // SAFETY: the process is this test's own child, which nobody reaps before it is killed.
        unsafe { libc::kill(runner, libc::SIGKILL) };
    });
    let fault = session.launch(&[0], &Extent::All).expect_err("it was killed");
    killer.join().expect("no panic");
    assert!(fault.to_string().starts_with("crashed: killed by a signal from outside"), "{fault}");
    drop(session);

    let mut bench = Bench::new();
    let artifact = bench.compile(&good_kernel());
    std::fs::write(&artifact.path, b"something else").expect("written");
    let program = crate::support::program(artifact, 10);
    let case = bench.stage(10);
    let fault = bench.cpu.open(&program, &[case], DEADLINE).err().expect("it was changed");
    assert!(matches!(fault, Fault::Broken { .. }), "{fault}");
}

/// Returns the processes that this thread started and that have not been reaped, newest last.
fn children() -> Vec<i32> {
    let path = "/proc/thread-self/children";
    let text = std::fs::read_to_string(path).expect("the kernel lists children");
    text.split_whitespace().map(|number| number.parse().expect("a number")).collect()
}

#[test]
fn a_thousand_sessions_leave_nothing_behind() {
    let mut bench = Bench::new();
    let artifact = bench.compile(&good_kernel());
    let program = program(artifact, 10);
    let case = bench.stage(10);
    let open_files = || std::fs::read_dir("/proc/self/fd").expect("listed").count();
    let mappings = || std::fs::read_to_string("/proc/self/maps").expect("listed").lines().count();
    drop(bench.cpu.open(&program, &[case], DEADLINE).expect("opens"));
    let (files_before, mappings_before) = (open_files(), mappings());
    for round in 0..1000 {
        let mut session = bench.cpu.open(&program, &[case], DEADLINE).expect("opens");
        if round % 10 == 0 {
            session.launch(&[0], &Extent::All).expect("runs");
        }
    }
    // Other tests run in this process at the same time and have files of their own.
    assert!(open_files() < files_before + 100, "{files_before} became {}", open_files());
    assert!(mappings() < mappings_before + 100, "{mappings_before} became {}", mappings());
    assert_eq!(children().len(), 2, "one runner has no candidate, one waits for the next session");
    drop(bench);
    assert_eq!(children(), Vec::<i32>::new());
}
