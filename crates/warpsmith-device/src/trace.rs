//! Where the time goes, for whoever works on the harness: with `WARPSMITH_TRACE` set, each process says on
//! its standard error how long its steps took.

use std::sync::OnceLock;
use std::time::Instant;

/// Steps below this are left out: there are thousands.
const LEAST_S: f64 = 0.02;

fn began() -> Option<Instant> {
    static BEGAN: OnceLock<Option<Instant>> = OnceLock::new();
    *BEGAN.get_or_init(|| std::env::var_os("WARPSMITH_TRACE").map(|_| Instant::now()))
}

/// A step under way; says how long it took when it is dropped.
#[derive(Debug)]
pub struct Step {
    name: &'static str,
    started: Option<Instant>,
}

/// Begins a step.
pub fn step(name: &'static str) -> Step {
    Step { name, started: began().map(|_| Instant::now()) }
}

impl Drop for Step {
    fn drop(&mut self) {
        let (Some(began), Some(started)) = (began(), self.started) else { return };
        let took_s = started.elapsed().as_secs_f64();
        if took_s >= LEAST_S {
            let at_s = began.elapsed().as_secs_f64();
            eprintln!("[{} {at_s:8.3}] {:.3} s {}", std::process::id(), took_s, self.name);
        }
    }
}
