//! Which kernel to use on which workload.

use warpsmith_model::stats::{Interval, median_interval, paired_speedup};
use warpsmith_model::{ComparisonRecord, ContenderKind};

/// The choice for one workload.
#[derive(Clone, Debug, PartialEq)]
pub struct Choice {
    /// The workload.
    pub workload: String,
    /// Index into the comparison's contenders.
    pub contender: usize,
    /// Its median on the workload, in seconds.
    pub time_s: Interval,
    /// Its speed-up over the comparison's first contender, usable or not: exactly 1 for that one itself, and
    /// none where it has no times.
    pub speedup: Option<Interval>,
}

/// Chooses a kernel for every workload of a comparison that a usable one has times on. The first
/// usable contender keeps a workload unless another one is shown to be faster there, by however little: a
/// noisy winner is none. Baselines are never chosen. Speed-ups are over the comparison's first contender all the
/// same: whoever reads them is told its name, and it need not be usable.
pub fn dispatch(comparison: &ComparisonRecord, is_usable: &dyn Fn(usize) -> bool) -> Vec<Choice> {
    let kernels: Vec<usize> = (0..comparison.contenders.len())
        .filter(|idx| matches!(comparison.contenders[*idx].kind, ContenderKind::Kernel { .. }))
        .filter(|idx| is_usable(*idx))
        .collect();
    let choose = |rounds: &warpsmith_model::PairedRounds| {
        let samples =
            |idx: &usize| rounds.samples_s.get(*idx).filter(|samples| !samples.is_empty());
        let timed: Vec<usize> =
            kernels.iter().copied().filter(|idx| samples(idx).is_some()).collect();
        let first = *timed.first()?;
        let over_first = |idx: &usize| paired_speedup(samples(idx)?, samples(&first)?);
        let faster = timed
            .iter()
            .filter_map(|idx| Some((*idx, over_first(idx)?)))
            .filter(|(_, speedup)| speedup.low > 1.0)
            .max_by(|a, b| a.1.mid.total_cmp(&b.1.mid));
        let contender = faster.map_or(first, |(idx, _)| idx);
        let time_s = median_interval(samples(&contender)?)?;
        let speedup = match contender {
            0 => Some(Interval { low: 1.0, mid: 1.0, high: 1.0 }),
            _ => samples(&0)
                .zip(samples(&contender))
                .and_then(|(held, own)| paired_speedup(own, held)),
        };
        Some(Choice { workload: rounds.workload.clone(), contender, time_s, speedup })
    };
    comparison.workloads.iter().filter_map(choose).collect()
}
