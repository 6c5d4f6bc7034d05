//! How long a runner's threads waited for a processor that somebody else had.
//!
//! Programs that share the processors with a candidate make its readings longer, by whole slices of the
//! scheduler, and an idle moment between two readings shows nothing of them. The kernel counts for every
//! thread how long it was ready to run and did not: what it counted during a reading was not the
//! candidate's doing.

use std::fs::{self, File};
use std::os::unix::fs::FileExt;
use std::path::PathBuf;

/// The counters of a runner's threads. None are read where the kernel does not keep any; then nobody
/// is known to have waited.
#[derive(Debug)]
pub(crate) struct Waiting {
    /// A thread's file, and its nanoseconds when they were last read.
    threads: Vec<(File, u64)>,
}

impl Waiting {
    /// Opens the counters of all threads that a process has.
    pub(crate) fn of(pid: libc::pid_t) -> Self {
        let folder = PathBuf::from(format!("/proc/{pid}/task"));
        let threads = fs::read_dir(folder).into_iter().flatten().flatten();
        let files = threads.filter_map(|thread| File::open(thread.path().join("schedstat")).ok());
        let mut waiting = Self { threads: files.map(|file| (file, 0)).collect() };
        waiting.since_last();
        waiting
    }

    /// Returns the seconds that the thread that waited most has waited since this was last asked.
    pub(crate) fn since_last(&mut self) -> f64 {
        let mut most_ns = 0;
        for (file, last_ns) in &mut self.threads {
            let Some(now_ns) = waited_ns(file) else { continue };
            most_ns = most_ns.max(now_ns.saturating_sub(*last_ns));
            *last_ns = now_ns;
        }
        most_ns as f64 * 1e-9
    }
}

/// Reads the second of a thread's three numbers: time on a processor, time waiting for one, slices.
fn waited_ns(file: &File) -> Option<u64> {
    let mut text = [0; 96];
    let n_read = file.read_at(&mut text, 0).ok()?;
    let text = std::str::from_utf8(&text[..n_read]).ok()?;
    text.split_whitespace().nth(1)?.parse().ok()
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
}
