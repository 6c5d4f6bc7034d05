//! How fast the processors are at this moment, compared with how fast they have been.
//!
//! On a machine that others share (virtual machines whose processors are threads of busy cores) a
//! kernel can take twice as long for seconds on end, and nothing that the guest's kernel counts shows
//! it. So a team of threads of the worker, one on every processor that candidates use, does the same
//! piece of arithmetic between readings of the clock, while the candidate is frozen. The piece keeps
//! the arithmetic units full, so a neighbour on the same core slows it as it slows a kernel.

use std::hint::black_box;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use super::control::Line;
use crate::sys::{futex, process};

/// Rounds of the piece: about 20 µs.
const ROUNDS: u32 = 4_000;
/// Pieces that find out how long one takes undisturbed.
const FIRST_PIECES: u32 = 100;
/// How long a piece may take before the machine counts as standing still.
const PATIENCE: Duration = Duration::from_millis(50);

/// The team.
#[derive(Debug)]
pub(super) struct Pulse {
    shared: Arc<Shared>,
    threads: Vec<JoinHandle<()>>,
    /// The fastest piece so far, of the slowest thread.
    best_ns: u64,
}

#[derive(Debug, Default)]
struct Shared {
    /// The number of the newest piece; the threads sleep on it.
    piece: Line<AtomicU32>,
    /// Threads that have begun the newest piece; they begin together.
    begun: Line<AtomicU32>,
    /// Threads that have finished it.
    finished: Line<AtomicU32>,
    /// What the slowest of them took.
    slowest_ns: Line<AtomicU64>,
    ended: AtomicBool,
}

impl Pulse {
    /// Starts the team; none when its threads cannot be started or pinned.
    pub(super) fn start(cpus: &[usize]) -> Option<Self> {
        let shared = Arc::new(Shared::default());
        let mut pulse = Self { shared, threads: Vec::new(), best_ns: u64::MAX };
        for cpu in cpus {
            let shared = Arc::clone(&pulse.shared);
            let (cpu, n_threads) = (*cpu, cpus.len() as u32);
            let thread = std::thread::Builder::new()
                .name("pulse".to_string())
                .spawn(move || {
                    // A thread that is not pinned measures some processor, which is better than none.
                    let _ = process::pin(cpu);
                    shared.serve(n_threads);
                })
                .ok()?;
            pulse.threads.push(thread);
        }
        for _ in 0..FIRST_PIECES {
            pulse.speed();
        }
        Some(pulse)
    }

    /// Returns the share of their best speed that the processors have now: that of the slowest.
    pub(super) fn speed(&mut self) -> f64 {
        let shared = &*self.shared;
        let n_threads = self.threads.len() as u32;
        shared.begun.0.store(0, Ordering::Relaxed);
        shared.finished.0.store(0, Ordering::Relaxed);
        shared.slowest_ns.0.store(0, Ordering::Relaxed);
        shared.piece.0.fetch_add(1, Ordering::Release);
        futex::wake_all(&shared.piece.0);
        let started = Instant::now();
        loop {
            let finished = shared.finished.0.load(Ordering::Acquire);
            if finished == n_threads {
                break;
            }
            // Every processor has a piece to do, so this thread must not spin on one.
            futex::wait(&shared.finished.0, finished, Some(PATIENCE));
            if started.elapsed() > PATIENCE && shared.finished.0.load(Ordering::Acquire) < n_threads
            {
                // Its late finish must not be counted for a later piece.
                self.wait_for_all(n_threads);
                return 0.0;
            }
        }
        let piece_ns = shared.slowest_ns.0.load(Ordering::Relaxed).max(1);
        self.best_ns = self.best_ns.min(piece_ns);
        self.best_ns as f64 / piece_ns as f64
    }

    fn wait_for_all(&self, n_threads: u32) {
        let finished = &self.shared.finished.0;
        loop {
            let count = finished.load(Ordering::Acquire);
            if count == n_threads {
                return;
            }
            futex::wait(finished, count, Some(PATIENCE));
        }
    }
}

impl Drop for Pulse {
    fn drop(&mut self) {
        self.shared.ended.store(true, Ordering::Relaxed);
        self.shared.piece.0.fetch_add(1, Ordering::Release);
        futex::wake_all(&self.shared.piece.0);
        for thread in self.threads.drain(..) {
            // A thread that panicked has nothing more to say.
            let _ = thread.join();
        }
    }
}

impl Shared {
    fn serve(&self, n_threads: u32) {
        let mut done = 0;
        loop {
            let piece = self.piece.0.load(Ordering::Acquire);
            if piece == done {
                futex::wait(&self.piece.0, done, None);
                continue;
            }
            if self.ended.load(Ordering::Relaxed) {
                return;
            }
            done = piece;
            self.begun.0.fetch_add(1, Ordering::AcqRel);
            // Alone a thread may have a whole core that two threads then share.
            let waiting = Instant::now();
            while self.begun.0.load(Ordering::Acquire) < n_threads && waiting.elapsed() < PATIENCE {
                std::hint::spin_loop();
            }
            let started = Instant::now();
            piece_of_work();
            let took_ns = started.elapsed().as_nanos() as u64;
            self.slowest_ns.0.fetch_max(took_ns, Ordering::Relaxed);
            self.finished.0.fetch_add(1, Ordering::Release);
            futex::wake_all(&self.finished.0);
        }
    }
}

/// Multiply-adds in enough chains to fill the units; plain enough for every processor.
fn piece_of_work() {
    let mut chains = black_box([0.5f64, 1.5, 2.5, 3.5, 4.5, 5.5, 6.5, 7.5, 8.5, 9.5, 10.5, 11.5]);
    let (factor, term) = black_box((0.999_f64, 0.125_f64));
    for _ in 0..ROUNDS {
        for chain in &mut chains {
            *chain = *chain * factor + term;
        }
    }
    black_box(chains);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_speed_is_a_share_of_the_best() {
        let mut pulse = Pulse::start(&process::allowed_cpus().unwrap()).unwrap();
        let speeds: Vec<f64> = (0..200).map(|_| pulse.speed()).collect();
        assert!(speeds.iter().all(|speed| (0.0..=1.0).contains(speed)), "{speeds:?}");
        // However busy the machine, the best of many is near the best of all.
        let best = speeds.iter().copied().fold(0.0, f64::max);
        assert!(best > 0.5, "{best}");
    }

    #[test]
    fn work_beside_it_shows() {
        let cpus = process::allowed_cpus().unwrap();
        let mut pulse = Pulse::start(&cpus).unwrap();
        let stop = Arc::new(AtomicBool::new(false));
        let disturbers: Vec<_> = cpus
            .iter()
            .flat_map(|cpu| [*cpu; 3])
            .map(|cpu| {
                let stop = Arc::clone(&stop);
                std::thread::spawn(move || {
                    process::pin(cpu).unwrap();
                    while !stop.load(Ordering::Relaxed) {
                        piece_of_work();
                    }
                })
            })
            .collect();
        // Three threads beside each of ours: most pieces are interrupted, or wait for one that is.
        let mut disturbed = false;
        for _ in 0..2000 {
            disturbed |= pulse.speed() < 0.8;
        }
        stop.store(true, Ordering::Relaxed);
        disturbers.into_iter().for_each(|thread| thread.join().unwrap());
        assert!(disturbed);
    }
}
