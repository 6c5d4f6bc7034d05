//! How well the microbenchmark predicts the search's ranking: whether to trust it.

use std::collections::BTreeMap;

use warpsmith_model::stats::spearman;
use warpsmith_model::{CandidateId, Fidelity, Params, Verdict};

use super::leaderboard::score;
use crate::summary::TrialSummary;

/// The agreement of the two fidelities.
#[derive(Clone, Debug, PartialEq)]
pub struct MicroAgreement {
    /// Candidates that passed at both, in the order of the run.
    pub pairs: Vec<MicroPair>,
    /// The rank correlation over all of them; none for fewer than three.
    pub spearman: Option<f64>,
    /// The same within each kernel, where the search needs it.
    pub by_kernel: Vec<KernelAgreement>,
    /// The microbenchmark's place (from 0) of the candidate that is best at `Rank`: the least
    /// Top-K that would have kept it.
    pub place_of_best: Option<usize>,
}

/// One candidate at both fidelities, over the same workloads.
#[derive(Clone, Debug, PartialEq)]
pub struct MicroPair {
    /// The candidate.
    pub candidate: CandidateId,
    /// Its kernel.
    pub kernel: String,
    /// Its parameters.
    pub params: Params,
    /// The score at `Micro`, in seconds.
    pub micro_s: f64,
    /// The score at `Rank` on the microbenchmark's workloads, in seconds.
    pub rank_s: f64,
}

/// The agreement within one kernel.
#[derive(Clone, Debug, PartialEq)]
pub struct KernelAgreement {
    /// The kernel.
    pub kernel: String,
    /// How many candidates passed at both.
    pub pairs: usize,
    /// The rank correlation; none for fewer than three.
    pub spearman: Option<f64>,
}

/// Pairs the candidates of a run that passed at `Micro` and at `Rank`.
pub fn micro_agreement(trials: &[TrialSummary]) -> MicroAgreement {
    let passed = |fidelity: Fidelity| {
        trials
            .iter()
            .filter(move |trial| trial.fidelity == fidelity && trial.verdict == Verdict::Passed)
            .filter(|trial| !trial.is_baseline())
    };
    let ranked: BTreeMap<CandidateId, &TrialSummary> =
        passed(Fidelity::Rank).map(|trial| (trial.candidate, trial)).collect();
    let pairs: Vec<MicroPair> = passed(Fidelity::Micro)
        .filter_map(|micro| {
            let rank = ranked.get(&micro.candidate)?;
            Some(MicroPair {
                candidate: micro.candidate,
                kernel: micro.kernel.clone(),
                params: micro.params.clone(),
                micro_s: score(micro, &micro.workloads)?.mid,
                rank_s: score(rank, &micro.workloads)?.mid,
            })
        })
        .collect();
    let mut kernels: BTreeMap<&str, Vec<&MicroPair>> = BTreeMap::new();
    for pair in &pairs {
        kernels.entry(&pair.kernel).or_default().push(pair);
    }
    let by_kernel = kernels
        .into_iter()
        .map(|(kernel, pairs)| KernelAgreement {
            kernel: kernel.to_string(),
            pairs: pairs.len(),
            spearman: correlation(pairs.into_iter()),
        })
        .collect();
    let best = pairs.iter().min_by(|a, b| a.rank_s.total_cmp(&b.rank_s));
    let place_of_best =
        best.map(|best| pairs.iter().filter(|pair| pair.micro_s < best.micro_s).count());
    MicroAgreement { spearman: correlation(pairs.iter()), by_kernel, place_of_best, pairs }
}

fn correlation<'a>(pairs: impl Iterator<Item = &'a MicroPair>) -> Option<f64> {
    let (micro, rank): (Vec<f64>, Vec<f64>) = pairs.map(|pair| (pair.micro_s, pair.rank_s)).unzip();
    spearman(&micro, &rank)
}
