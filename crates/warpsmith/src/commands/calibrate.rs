//! `warpsmith calibrate`: tolerances that follow from a measurement.

use std::path::PathBuf;

use anyhow::{Result, bail};
use clap::Args;
use warpsmith_device::cpu::{Cpu, CpuConfig};
use warpsmith_gate::corpus::CorpusOptions;
use warpsmith_gate::corpus::calibrate::{PlainOffset, ProposedTolerances, plain_offsets, propose};
use warpsmith_model::Lab;
use warpsmith_model::lab::Inputs;

use super::Context;
use crate::campaign::system_seed;
use crate::labdir;
use crate::output::{BAD, Table, json, paint, result, say, wrapped};

/// Propose tolerances for a lab
///
/// Compiles the lab's reference a second time, in the precision of its outputs (single precision sums, and
/// the output rounded to its type), and measures what this plain implementation is off by from the reference
/// in double precision: on the proof shapes and the workloads, on large ones a sample of blocks, under every
/// distribution. Proposes a tolerance of that times a factor, plus one rounding. Needs no GPU.
#[derive(Debug, Args)]
pub struct CalibrateArgs {
    /// Folder of the lab
    lab: PathBuf,
    /// What the plain implementation's error is multiplied by
    #[arg(long, default_value_t = 2.0, value_name = "FACTOR")]
    safety: f64,
    /// Seed of the inputs; by default from the system's randomness
    #[arg(long, value_name = "N")]
    seed: Option<u64>,
}

pub fn run(context: &Context, arguments: CalibrateArgs) -> Result<()> {
    if !(arguments.safety.is_finite() && arguments.safety >= 1.0) {
        bail!("--safety is {}, but must be a number of at least 1", arguments.safety);
    }
    let lab = labdir::load(&labdir::for_target(&arguments.lab, context.target)?)?.lab;
    let seed = arguments.seed.map_or_else(system_seed, Ok)?;
    let config =
        CpuConfig { cache_dir: context.project.artifacts(), runner_exe: None, threads: None };
    let mut cpu = Cpu::new(config)?;
    let options = CorpusOptions::new(None);
    let mut shapes = lab.proofs.clone();
    shapes.extend(lab.workloads.iter().cloned());
    say(format!(
        "{} on {} shapes under {} distributions, seed {seed}",
        lab.title,
        shapes.len(),
        lab.inputs.len()
    ));
    let offsets = plain_offsets(&mut cpu, &lab, &shapes, &options, seed)?;
    let proposal = propose(&offsets, arguments.safety);
    if context.json {
        return json(&as_json(&lab, &offsets, &proposal, arguments.safety, seed));
    }
    print(&lab, &offsets, &proposal, arguments.safety);
    Ok(())
}

fn as_json(
    lab: &Lab,
    offsets: &[PlainOffset],
    proposal: &ProposedTolerances,
    safety: f64,
    seed: u64,
) -> serde_json::Value {
    let rows: Vec<serde_json::Value> = offsets
        .iter()
        .zip(&proposal.scales)
        .zip(&lab.inputs)
        .map(|((offset, scale), inputs)| {
            serde_json::json!({
                "inputs": offset.inputs,
                "plain_element_eps": offset.worst.element_eps,
                "plain_norm_eps": offset.worst.norm_eps,
                "worst_on": offset.at,
                "beyond": offset.beyond,
                "tolerance_scale": scale,
                "tolerance_scale_now": inputs.tolerance_scale,
            })
        })
        .collect();
    serde_json::json!({
        "lab": lab.name,
        "seed": seed,
        "safety": safety,
        "element_eps": proposal.element_eps,
        "norm_eps": proposal.norm_eps,
        "element_eps_now": lab.tolerance.element_eps,
        "norm_eps_now": lab.tolerance.norm_eps,
        "inputs": rows,
    })
}

fn print(lab: &Lab, offsets: &[PlainOffset], proposal: &ProposedTolerances, safety: f64) {
    let headings = ["inputs", "plain is off by", "allowed now", "proposed", "worst on"];
    let mut table = Table::new(&headings, &[1, 2, 3]);
    let pair = |element: f64, norm: f64| format!("{element:.1} / {norm:.2}");
    for ((offset, scale), inputs) in offsets.iter().zip(&proposal.scales).zip(&lab.inputs) {
        let now = inputs.tolerance_scale;
        table.row(vec![
            offset.inputs.clone(),
            pair(offset.worst.element_eps, offset.worst.norm_eps),
            pair(lab.tolerance.element_eps * now, lab.tolerance.norm_eps * now),
            pair(proposal.element_eps * scale, proposal.norm_eps * scale),
            offset.at.clone(),
        ]);
    }
    result(table.render());
    result("  element / norm, in units of the output type's epsilon".to_string());
    if let Some(words) = too_tight(lab, offsets) {
        result(wrapped(&format!("  {}", paint(BAD, words))));
    }
    for offset in offsets {
        if let Some(beyond) = &offset.beyond {
            let words = format!("a plain implementation gives {beyond}");
            result(paint(BAD, format!("  {}: {words}; no tolerance covers that", offset.inputs)));
        }
    }
    result(format!(
        "\n# The reference in the outputs' precision is off by what `warpsmith calibrate` says; {safety} times \
         that, and a rounding.\n[tolerance]\nelement_eps = {}\nnorm_eps    = {}",
        proposal.element_eps, proposal.norm_eps
    ));
    for (offset, scale) in offsets.iter().zip(&proposal.scales) {
        if *scale > 1.0 {
            result(format!("\n# [[inputs]] {}\ntolerance_scale = {scale}", offset.inputs));
        }
    }
}

/// Says under which distributions the lab as it is would reject a plain kernel; none where it rejects none.
fn too_tight(lab: &Lab, offsets: &[PlainOffset]) -> Option<String> {
    let fails = |(offset, inputs): &(&PlainOffset, &Inputs)| {
        let scale = inputs.tolerance_scale;
        offset.worst.element_eps > lab.tolerance.element_eps * scale
            || offset.worst.norm_eps > lab.tolerance.norm_eps * scale
    };
    let failing: Vec<&str> = offsets
        .iter()
        .zip(&lab.inputs)
        .filter(fails)
        .map(|(offset, _)| offset.inputs.as_str())
        .collect();
    (!failing.is_empty()).then(|| {
        format!(
            "a plain kernel, right as it is, would fail the gate with the tolerance as it is now, under: {}",
            failing.join(", ")
        )
    })
}

#[cfg(test)]
mod tests {
    use warpsmith_model::ErrorSize;

    use super::*;
    use crate::campaign::testing;

    #[test]
    fn a_tolerance_that_a_plain_kernel_fails_is_told_in_words() {
        // It allows 4 epsilons of an element and 2 of the norm.
        let lab = testing::lab();
        let off = |element_eps: f64, norm_eps: f64| {
            let worst = ErrorSize { element_eps, norm_eps, ..ErrorSize::default() };
            let of = |inputs: &str, worst| PlainOffset {
                inputs: inputs.to_string(),
                worst,
                at: "one".to_string(),
                beyond: None,
            };
            too_tight(&lab, &[of("normal", ErrorSize::default()), of("mixed scales", worst)])
        };
        assert_eq!(off(4.0, 2.0), None);
        for (element_eps, norm_eps) in [(18.2, 1.0), (3.0, 2.5)] {
            let words = off(element_eps, norm_eps).expect("it is too tight");
            assert!(words.ends_with(
                "would fail the gate with the tolerance as it is now, under: mixed scales"
            ));
        }
    }
}
