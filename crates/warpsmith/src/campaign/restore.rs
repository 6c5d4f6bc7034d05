//! Kernels from the evidence: a candidate that no file of the lab holds is made again from its source.

use anyhow::{Context, Result, bail};
use warpsmith_evidence::Store;
use warpsmith_model::lab::{Kernel, Lab, Tunable, parse_kernel, with_tunables};
use warpsmith_model::{BlobId, CallAnswer, Candidate, ReplyVerdict, RunId, TunableRecord};

/// Makes the kernel of a candidate of a run again: the lab's own, or one that a model or an agent wrote.
pub fn restore(store: &Store, lab: &Lab, run: &RunId, candidate: &Candidate) -> Result<Kernel> {
    if let Some(kernel) = lab.kernel(&candidate.kernel) {
        if BlobId::of(kernel.source.as_bytes()) != candidate.source {
            bail!(
                "kernel `{}` of the lab was edited since {run} measured it\nhint: undo the edit, or \
                 name the kernel to use it as it is now",
                kernel.name
            );
        }
        return Ok(kernel.clone());
    }
    let (base, tunables) = written(store, run, candidate)?.with_context(|| {
        format!(
            "the lab has no kernel `{}`, and {run} does not say which contract its source keeps\n\
             hint: `warpsmith show TRIAL --source` prints the source",
            candidate.kernel
        )
    })?;
    let base = lab.kernel(&base).with_context(|| {
        format!("`{}` keeps the contract of `{base}`, which the lab has no more", candidate.kernel)
    })?;
    let tunables: Vec<Tunable> = tunables
        .into_iter()
        .map(|record| Tunable { name: record.name, values: record.values })
        .collect();
    let contract = with_tunables(&base.contract, &tunables).map_err(anyhow::Error::msg)?;
    let source = store.blob(&candidate.source)?;
    parse_kernel(lab, &candidate.kernel, &contract, &source)
        .map_err(|errors| anyhow::anyhow!("the contract of `{}` changed\n\n{errors}", base.name))
}

/// Finds which contract a source keeps and which tunables it declares.
fn written(
    store: &Store,
    run: &RunId,
    candidate: &Candidate,
) -> Result<Option<(String, Vec<TunableRecord>)>> {
    for record in store.sources(run)? {
        if record.kernel == candidate.kernel && record.source == candidate.source {
            return Ok(Some((record.base, record.tunables)));
        }
    }
    let Some(start) = store.evolution(run)? else { return Ok(None) };
    for call in store.calls(run)? {
        if let CallAnswer::Replied {
            verdict: ReplyVerdict::Proposed { kernel, source, tunables, .. },
            ..
        } = call.answer
            && kernel == candidate.kernel
            && source == candidate.source
        {
            return Ok(Some((start.kernel, tunables)));
        }
    }
    Ok(None)
}
