//! What a compiler may do to the machine, and what it may leave: the line behind the list of flags. The
//! compilers here are scripts that do what a program could that a flag had started.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use tempfile::TempDir;
use warpsmith_device::cpu::compile_unit;
use warpsmith_device::target::{Artifact, Fault, Unit};

use crate::support::*;

/// A compiler of our own, and a cache.
struct Fake {
    folder: TempDir,
}

impl Fake {
    /// Makes a compiler of a shell script; `$GCC "$@"` in it compiles.
    fn new(script: &str) -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let fake = Self { folder };
        fs::create_dir(fake.path("bin")).expect("made");
        let text = format!(
            "[ \"$1\" = --version ] && echo 'fake cc 1.0' && exit\nGCC=/usr/bin/gcc\n{script}"
        );
        write_script(&fake.path("bin/cc"), &text);
        fake
    }

    /// One whose body is Python.
    fn python(body: &str) -> Self {
        let fake = Self::new("exec python3 \"${0%/*}/body.py\" \"$@\"");
        fs::write(fake.path("bin/body.py"), body).expect("written");
        fake
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn compile(&self) -> Result<Artifact, Fault> {
        let compiler = self.path("bin/cc").display().to_string();
        compile_unit(&self.path("cache"), &Unit { compiler, ..unit(&good_kernel()) })
    }

    /// Compiles what must not compile, and returns the message and the log.
    fn rejected(&self) -> (String, String) {
        match self.compile() {
            Err(Fault::Compile { message, log }) => (message, log),
            other => panic!("expected a compile error, got {other:?}"),
        }
    }
}

/// The processes whose command line has this word.
fn processes_with(word: &str) -> Vec<i32> {
    let processes = fs::read_dir("/proc").expect("/proc").flatten();
    let pids = processes.filter_map(|entry| entry.file_name().to_str()?.parse::<i32>().ok());
    pids.filter(|pid| {
        let line = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        String::from_utf8_lossy(&line).contains(word)
    })
    .collect()
}

fn kill(pid: i32) {
    // It may have ended by itself in the meantime.
    let _ = Command::new("kill").args(["-9", &pid.to_string()]).output();
}

#[test]
fn a_compiler_reaches_no_other_process_and_no_network() {
    let mut victim = Command::new("sleep").arg("1000").spawn().expect("a process");
    let body = format!(
        r#"
import ctypes, fcntl, mmap, os, resource, socket, sys
libc = ctypes.CDLL(None, use_errno=True)
victim = {victim}
def call(number, *arguments):
    if libc.syscall(number, *arguments) == -1:
        raise OSError(ctypes.get_errno(), "refused")
def system(name, *arguments):
    if getattr(libc, name)(*arguments) == -1:
        raise OSError(ctypes.get_errno(), "refused")
def in_a_child(attempt):
    # The leader of a group may not leave it anyway.
    child = os.fork()
    if child == 0:
        try:
            attempt()
        except OSError:
            os._exit(1)
        os._exit(0)
    if os.waitpid(child, 0)[1] != 0:
        raise OSError("refused")
def pipe_owner(command, value):
    read, write = os.pipe()
    fcntl.fcntl(read, command, value)
attempts = dict(
    datagram=lambda: socket.socket(socket.AF_INET, socket.SOCK_DGRAM).sendto(b"x", ("127.0.0.1", 9)),
    stream=lambda: socket.socket(socket.AF_UNIX, socket.SOCK_STREAM),
    pair=lambda: socket.socketpair(),
    signal=lambda: os.kill(victim, 0),
    signal_parent=lambda: os.kill(os.getppid(), 0),
    signal_all=lambda: os.kill(0, 0),
    thread_signal=lambda: system("tgkill", victim, victim, 0),
    queued=lambda: system("sigqueue", victim, 0, 0),
    handle=lambda: os.pidfd_open(victim),
    owner=lambda: pipe_owner(fcntl.F_SETOWN, victim),
    owners_signal=lambda: pipe_owner(10, 9),
    session=lambda: in_a_child(os.setsid),
    group=lambda: os.setpgid(0, 0),
    limits=lambda: resource.prlimit(victim, resource.RLIMIT_CORE),
    priority=lambda: os.setpriority(os.PRIO_PROCESS, victim, 19),
    processors=lambda: os.sched_setaffinity(victim, os.sched_getaffinity(victim)),
    trace=lambda: system("ptrace", 0x4206, victim, 0, 0),
    memory=lambda: system("process_vm_readv", victim, 0, 0, 0, 0, 0),
    namespace=lambda: system("unshare", 0x10000000),
    mount=lambda: system("mount", b"none", b"/proc", b"proc", 0, 0),
    shared_memory=lambda: system("shmget", 0, 4096, 0o1600),
    message_queue=lambda: system("msgget", 0, 0o1600),
    ring=lambda: call(425, 1, 0),
    keys=lambda: system("syscall", 250, 0, -3, 0),
    link=lambda: os.symlink("/etc/passwd", "a_link"),
    pipe=lambda: os.mkfifo("a_pipe"),
    device=lambda: os.mknod("a_device", 0o20600, os.makedev(1, 3)),
)
for name, attempt in attempts.items():
    try:
        attempt()
        print("could", name)
    except OSError as error:
        pass
open("a_file", "w").write("allowed")
print("tried", len(attempts))
sys.exit(1)
"#,
        victim = victim.id()
    );
    let (_, log) = Fake::python(&body).rejected();
    victim.kill().and_then(|()| victim.wait()).expect("it was there");
    assert_eq!(log, "tried 27\n");
}

#[test]
fn what_a_compiler_starts_ends_with_it() {
    let fake = Fake::python(
        r#"
import os, subprocess, sys
def detached(seconds, *steps):
    if os.fork() == 0:
        for step in steps:
            try:
                step()
            except OSError:
                pass
        if os.fork() == 0:
            os.execvp("sleep", ["sleep", seconds])
        os._exit(0)
detached("1000.0271")
detached("1000.0272", os.setsid)
detached("1000.0273", lambda: os.setpgid(0, 0))
subprocess.Popen(["sleep", "1000.0274"], start_new_session=False)
sys.exit(subprocess.call(["/usr/bin/gcc"] + sys.argv[1:]))
"#,
    );
    fake.compile().expect("it compiles");
    let left = || (1..=4).flat_map(|idx| processes_with(&format!("1000.027{idx}"))).collect();
    let began = Instant::now();
    let mut found: Vec<i32> = left();
    while !found.is_empty() && began.elapsed() < Duration::from_secs(5) {
        std::thread::sleep(Duration::from_millis(10));
        found = left();
    }
    found.iter().for_each(|pid| kill(*pid));
    assert!(found.is_empty(), "{} processes outlived their compiler", found.len());
}

#[test]
fn a_compiler_that_leaves_no_kernel_has_failed() {
    for (script, expected) in [
        ("exit 0", "left no kernel"),
        ("mkdir kernel.so", "left no kernel"),
        ("mkfifo kernel.so || exit 0", "left no kernel"),
        ("ln -s /usr/bin/gcc kernel.so || exit 0", "left no kernel"),
        (": >kernel.so", "an empty file"),
    ] {
        let fake = Fake::new(script);
        let (sender, receiver) = std::sync::mpsc::channel();
        std::thread::spawn(move || sender.send(fake.rejected()));
        let answer = receiver.recv_timeout(Duration::from_secs(60));
        let (message, _) = answer.unwrap_or_else(|_| panic!("`{script}` is waited for"));
        assert!(message.contains(expected), "{script}: {message}");
    }
}

#[test]
fn nothing_is_written_where_a_compiler_points() {
    let outside = tempfile::tempdir().expect("a folder");
    let precious = outside.path().join("precious");
    fs::write(&precious, "mine").expect("written");
    // Names that the harness writes under when the compiler has ended.
    for name in ["kernel.json", "room"] {
        for fails in [false, true] {
            let end = match fails {
                false => "exec $GCC \"$@\"",
                true => "echo 'No space left on device'; exit 1",
            };
            let link = format!("ln -s {} {name}\n{end}", precious.display());
            let built = Fake::new(&link).compile();
            assert_eq!(built.is_err(), fails, "{built:?}");
            assert_eq!(fs::read_to_string(&precious).expect("there"), "mine", "{name}");
        }
    }
}

#[test]
fn a_program_that_a_compiler_wrote_is_not_run() {
    let (_, log) = Fake::new("cp /usr/bin/env tool && ./tool echo ran; exit 1").rejected();
    assert!(!log.contains("ran\n"), "{log}");
}

/// Kills the processes with this word as they come, so many at most, until it is dropped.
fn killer(word: String, most: usize) -> impl Drop {
    struct Killer(
        Option<std::thread::JoinHandle<()>>,
        std::sync::Arc<std::sync::atomic::AtomicBool>,
    );
    impl Drop for Killer {
        fn drop(&mut self) {
            self.1.store(true, std::sync::atomic::Ordering::Relaxed);
            let _ended = self.0.take().map(std::thread::JoinHandle::join);
        }
    }
    let ended = std::sync::Arc::new(std::sync::atomic::AtomicBool::new(false));
    let is_ended = std::sync::Arc::clone(&ended);
    let thread = std::thread::spawn(move || {
        let mut killed = Vec::new();
        while !is_ended.load(std::sync::atomic::Ordering::Relaxed) && killed.len() < most {
            for pid in processes_with(&word) {
                if !killed.contains(&pid) && killed.len() < most {
                    kill(pid);
                    killed.push(pid);
                }
            }
            std::thread::sleep(Duration::from_millis(2));
        }
    });
    Killer(Some(thread), ended)
}

/// A compiler that starts a program of this name, which fails as it is killed, and then compiles.
fn with_a_step(word: &str, then: &str) -> Fake {
    Fake::new(&format!("sleep {word}\n[ $? = 137 ] && {{ {then}; }}\nexec $GCC \"$@\""))
}

#[test]
fn a_compiler_killed_from_outside_is_tried_once_more() {
    let fake = Fake::new("sleep 0.5312; exec $GCC \"$@\"");
    let script = fake.path("bin/cc").display().to_string();
    {
        // The shell that runs the script, when it compiles.
        let _killer = killer(format!("{script}\0-shared"), 1);
        fake.compile().expect("the second compiler does it");
    }
    let fake = Fake::new("sleep 0.5313; exec $GCC \"$@\"");
    let script = fake.path("bin/cc").display().to_string();
    let _killer = killer(format!("{script}\0-shared"), usize::MAX);
    let fault = fake.compile().expect_err("both were killed");
    assert!(matches!(fault, Fault::Crashed(_)), "{fault:?}");
    assert!(fault.to_string().contains("from outside"), "{fault}");
}

#[test]
fn an_assembler_or_linker_killed_from_outside_is_tried_once_more() {
    // As the compilers say it.
    for (idx, words) in [
        "gcc: fatal error: Killed signal terminated program as",
        "collect2: fatal error: ld terminated with signal 9 [Killed]",
        "clang: error: unable to execute command: Killed",
    ]
    .into_iter()
    .enumerate()
    {
        let said = format!("echo '{words}'; exit 1");
        let word = format!("0.50{idx}7");
        let fake = with_a_step(&word, &said);
        {
            let _killer = killer(word.clone(), 1);
            fake.compile().expect("the second compiler does it");
        }
        let fake = with_a_step(&word, &said);
        let _killer = killer(word, usize::MAX);
        let fault = fake.compile().expect_err("both were killed");
        assert!(fault.to_string().contains("from outside"), "{fault}");
    }
}

#[test]
fn a_source_that_quotes_a_killed_assembler_has_not_compiled() {
    let source = "#error gcc: fatal error: Killed signal terminated program as\n";
    let fault =
        compile_unit(Path::new(&tempfile::tempdir().expect("a folder").path()), &unit(source));
    assert!(matches!(fault, Err(Fault::Compile { .. })), "{fault:?}");
}

#[test]
fn what_a_compiler_starts_shares_its_memory() {
    // Pages that processes share count for each, so this takes little of the machine's.
    let fake = Fake::python(
        r#"
import os, time
pages = bytearray(300 << 20)
for idx in range(20):
    if os.fork() == 0:
        break
time.sleep(1000)
"#,
    );
    let began = Instant::now();
    let (message, _) = fake.rejected();
    assert!(message.contains("took more than 4 GiB of memory together"), "{message}");
    assert!(began.elapsed() < unit(&good_kernel()).deadline, "{:?}", began.elapsed());
}
