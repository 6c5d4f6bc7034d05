//! Where the time goes, for whoever works on the harness: with `WARPSMITH_TRACE` set, each process says on
//! its standard error how long its steps took. `WARPSMITH_TRACE=0.002` leaves out those below 2 ms.

use std::sync::OnceLock;
use std::time::Instant;

/// Steps below this are left out unless another limit is asked for: there are thousands.
const LEAST_S: f64 = 0.02;

/// When this process began to trace, and what it leaves out.
#[derive(Clone, Copy)]
struct Tracing {
    began: Instant,
    least_s: f64,
}

fn tracing() -> Option<Tracing> {
    static TRACING: OnceLock<Option<Tracing>> = OnceLock::new();
    *TRACING.get_or_init(|| {
        let asked = std::env::var_os("WARPSMITH_TRACE")?;
        // `1` only says that somebody wants it.
        let limit = asked.to_str().and_then(|text| text.parse().ok()).filter(|limit| *limit < 1.0);
        Some(Tracing { began: Instant::now(), least_s: limit.unwrap_or(LEAST_S) })
    })
}

/// A step under way; says how long it took when it is dropped.
#[derive(Debug)]
pub struct Step {
    name: &'static str,
    started: Option<Instant>,
}

/// Begins a step.
pub fn step(name: &'static str) -> Step {
    Step { name, started: tracing().map(|_| Instant::now()) }
}

impl Drop for Step {
    fn drop(&mut self) {
        let (Some(tracing), Some(started)) = (tracing(), self.started) else { return };
        let took_s = started.elapsed().as_secs_f64();
        if took_s >= tracing.least_s {
            let at_s = tracing.began.elapsed().as_secs_f64();
            eprintln!("[{} {at_s:8.3}] {:.3} s {}", std::process::id(), took_s, self.name);
        }
    }
}
