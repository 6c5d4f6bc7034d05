//! How long a runner's threads waited for a processor that somebody else had.
//!
//! Programs that share the processors with a candidate make its readings longer, by whole slices of the
//! scheduler, and an idle moment between two readings shows nothing of them. The kernel counts for every
//! thread how long it was ready to run and did not: what it counted during a reading was not the
//! candidate's doing, but for what its own first thread took. That one starts the others, which have a
//! processor each, and sleeps from then on; a candidate that woke it could have readings set aside.

use std::fs::{self, File};
use std::os::unix::fs::FileExt;
use std::path::PathBuf;

/// The counters of a runner's threads. None are read where the kernel does not keep any; then nobody
/// is known to have waited.
#[derive(Debug)]
pub(crate) struct Waiting {
    /// The file of a thread that computes, and its nanoseconds when they were last read.
    threads: Vec<(File, u64)>,
    /// The same of the first thread, and of its time on a processor.
    first: Option<(File, u64)>,
}

/// Which of a thread's numbers.
const ON_A_PROCESSOR: usize = 0;
const WAITING: usize = 1;

impl Waiting {
    /// Opens the counters of all threads that a process has.
    pub(crate) fn of(pid: libc::pid_t) -> Self {
        let folder = PathBuf::from(format!("/proc/{pid}/task"));
        let (mut threads, mut first) = (Vec::new(), None);
        for thread in fs::read_dir(folder).into_iter().flatten().flatten() {
            let Ok(file) = File::open(thread.path().join("schedstat")) else { continue };
            match thread.file_name() == pid.to_string().as_str() {
                true => first = Some((file, 0)),
                false => threads.push((file, 0)),
            }
        }
        let mut waiting = Self { threads, first };
        waiting.since_last();
        waiting
    }

    /// Returns the seconds that the thread that waited most has waited for others since this was last asked.
    pub(crate) fn since_last(&mut self) -> f64 {
        let waits = self.threads.iter_mut().map(|it| grown(it, WAITING));
        let most_ns = waits.max().unwrap_or(0);
        let own_ns = self.first.as_mut().map_or(0, |first| grown(first, ON_A_PROCESSOR));
        most_ns.saturating_sub(own_ns) as f64 * 1e-9
    }
}

/// Returns by how much a thread's number has grown since it was last read.
fn grown((file, last_ns): &mut (File, u64), which: usize) -> u64 {
    let Some(now_ns) = nanoseconds(file, which) else { return 0 };
    now_ns.saturating_sub(std::mem::replace(last_ns, now_ns))
}

/// Reads one of a thread's three numbers: time on a processor, time waiting for one, slices.
fn nanoseconds(file: &File, which: usize) -> Option<u64> {
    let mut text = [0; 96];
    let n_read = file.read_at(&mut text, 0).ok()?;
    let text = std::str::from_utf8(&text[..n_read]).ok()?;
    text.split_whitespace().nth(which)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn threads_that_share_a_processor_wait_for_each_other() {
        let cpu = crate::sys::process::allowed_cpus().expect("a thread may run somewhere")[0];
        // One spins where the other one wants to; both are this process's, whose threads are all counted.
        let is_over = std::sync::atomic::AtomicBool::new(false);
        std::thread::scope(|scope| {
            for _ in 0..2 {
                scope.spawn(|| {
                    crate::sys::process::pin(cpu).expect("may be pinned where it may run");
                    while !is_over.load(std::sync::atomic::Ordering::Relaxed) {
                        std::hint::spin_loop();
                    }
                });
            }
            std::thread::sleep(std::time::Duration::from_millis(20));
            let mut waiting = Waiting::of(std::process::id() as libc::pid_t);
            std::thread::sleep(std::time::Duration::from_millis(200));
            let waited_s = waiting.since_last();
            is_over.store(true, std::sync::atomic::Ordering::Relaxed);
            assert!(waited_s > 0.02, "{waited_s}");
        });
    }

    #[test]
    fn what_the_first_thread_takes_from_the_others_is_not_somebody_elses_doing() {
        let folder = tempfile::tempdir().expect("a folder");
        let (one, first) = (folder.path().join("one"), folder.path().join("first"));
        let say = |path: &PathBuf, text: &str| fs::write(path, text).expect("written");
        say(&one, "500 100 3\n");
        say(&first, "40 7 1\n");
        let open = |path: &PathBuf| (File::open(path).expect("a file"), 0);
        let mut waiting = Waiting { threads: vec![open(&one)], first: Some(open(&first)) };
        waiting.since_last();
        // It waited for 3000 ns, 2000 of which its own process had the processor.
        say(&one, "900 3100 4\n");
        say(&first, "2040 7 2\n");
        assert!((waiting.since_last() - 1000e-9).abs() < 1e-12);
        say(&first, "9999 7 3\n");
        assert!(waiting.since_last() < 1e-12, "never less than nothing");
    }
}
