//! Times a candidate on a workload, session after session, until the clock's rule says stop.

use std::sync::Arc;

use warpsmith_device::poison::Poison;
use warpsmith_device::target::{Extent, Program, Session};
use warpsmith_model::lab::Workload;
use warpsmith_model::rng::Rng;
use warpsmith_model::roofline::{PLAUSIBILITY_MARGIN, plausible_floor_s};
use warpsmith_model::{Ceilings, ErrorSize, Lab, Measurement, Outcome, Stage};

use super::bench::{Bench, Look, Stop};
use super::gate::Gated;
use super::readings::Readings;
use crate::bind;
use crate::clock::{self, Reading, Rule};
use crate::corpus::{Case, Want};
use crate::error::GateError;

/// Readings of the clock that one session should give.
const READINGS_PER_SESSION: usize = 4;
/// Output bytes that a ranking session prepares, as far as the readings allow: fresh memory costs
/// about a millisecond a mebibyte, which the search would pay for in each trial.
const RANK_OUTPUT_BYTES: usize = 4 << 20;
/// Readings of launches with warm caches, once the others are taken: enough for an interval of the median.
const WARM_READINGS: usize = 9;
/// Output bytes of timed launches that are judged in a ranking session; of more, a random share.
const RANK_JUDGED_BYTES: usize = 4 << 20;
/// Output bytes that a session of the full fidelity prepares at most.
const FULL_OUTPUT_BYTES: usize = 512 << 20;

/// Counts the cycles of a few launches, where a wave cannot be launched alone.
pub(super) fn short(bench: &mut Bench<'_>, workload: &Workload) -> Result<Measurement, Stop> {
    let rule = Rule::micro(bench.limits);
    rank_by(bench, workload, rule, Extent::Counted)
}

/// Times for ranking. The first launch of the first session is the gate.
pub(super) fn rank(bench: &mut Bench<'_>, workload: &Workload) -> Result<Measurement, Stop> {
    let rule = Rule::rank(bench.limits, &workload.name);
    rank_by(bench, workload, rule, Extent::All)
}

fn rank_by(
    bench: &mut Bench<'_>,
    workload: &Workload,
    rule: Rule,
    extent: Extent,
) -> Result<Measurement, Stop> {
    let program = bench.program(workload)?;
    let cases =
        bench.corpus.cases(bench.target, bench.lab, workload, 0, bench.seed, Want::AsManyAsPay)?;
    let plan = TimingPlan {
        rule,
        extent,
        estimate_s: bench.limits.incumbent_s.get(&workload.name).copied(),
        session_output_bytes: RANK_OUTPUT_BYTES,
        judged_bytes: Some(RANK_JUDGED_BYTES),
        warm_readings: 0,
    };
    measure(bench, workload, &program, &cases, &plan, ErrorSize::default())
}

/// Times for the record, after the gate.
pub(super) fn full(
    bench: &mut Bench<'_>,
    workload: &Workload,
    gated: Gated,
) -> Result<Measurement, Stop> {
    let program = bench.program(workload)?;
    let cases =
        bench.corpus.cases(bench.target, bench.lab, workload, 0, bench.seed, Want::AsManyAsPay)?;
    let plan = TimingPlan {
        rule: Rule::full(bench.limits),
        extent: Extent::All,
        estimate_s: Some(gated.fastest_s),
        session_output_bytes: FULL_OUTPUT_BYTES,
        judged_bytes: None,
        warm_readings: WARM_READINGS,
    };
    measure(bench, workload, &program, &cases, &plan, gated.error)
}

/// Times launches of one input again and again, where the target can tell cold from warm. A kernel that
/// remembers would look fast here, so nobody is ranked or compared by these times.
fn warm(
    bench: &mut Bench<'_>,
    session: &mut dyn Session,
    readings: usize,
    batch: usize,
    workload: &str,
) -> Result<Vec<f64>, Stop> {
    let slots = vec![0; batch];
    let mut warm_s = Vec::new();
    for _ in 0..readings {
        let Some(clocked) = bench.launch_warm(session, &slots, workload)? else {
            return Ok(Vec::new());
        };
        warm_s.push(clocked.elapsed_s / batch as f64);
    }
    Ok(warm_s)
}

struct TimingPlan {
    rule: Rule,
    extent: Extent,
    /// About how long a launch takes, where somebody knows.
    estimate_s: Option<f64>,
    session_output_bytes: usize,
    /// Bytes of timed outputs that are judged in a session; none for all.
    judged_bytes: Option<usize>,
    /// Readings with warm caches, after the others.
    warm_readings: usize,
}

fn measure(
    bench: &mut Bench<'_>,
    workload: &Workload,
    program: &Program,
    cases: &[Arc<Case>],
    plan: &TimingPlan,
    mut error: ErrorSize,
) -> Result<Measurement, Stop> {
    let output_bytes = output_bytes(program);
    let floor_s = bench.floor_s * program.launches.len() as f64;
    let mut readings = Readings::new(plan.rule.clone(), bench);
    let mut batch = None;
    let mut order_rng = Rng::derive(bench.seed, &workload.name);
    let mut least_share = 1.0f64;
    let warm_s;
    let stop = loop {
        let n_cases = session_size(cases.len(), output_bytes, plan, batch, floor_s);
        let mut chosen = cases.to_vec();
        order_rng.shuffle(&mut chosen);
        chosen.truncate(n_cases);
        let mut session = bench.open(program, &chosen)?;

        // The warm-up is a launch like any other and is judged in full, before anything is timed.
        let first = bench.launch(&mut *session, &[0], &Extent::All, &workload.name)?;
        let judged = bench.judge(&*session, 0, &chosen[0], program, Stage::Gate, Look::All)?;
        error = error.worse(judged);
        let launches_per_reading = *batch.get_or_insert_with(|| {
            let launch_s = first.elapsed_s.min(plan.estimate_s.unwrap_or(f64::INFINITY));
            let cases = chosen.len() - 1;
            clock::batch_size(plan.rule.reading, launch_s, floor_s, cases, READINGS_PER_SESSION)
        });

        readings.wait_for_quiet(bench);
        let slots: Vec<usize> = (1..chosen.len()).collect();
        let share = match plan.judged_bytes {
            Some(most) => most as f64 / (slots.len() * output_bytes).max(1) as f64,
            None => 1.0,
        };
        least_share = least_share.min(share);
        let look = if share < 1.0 { Look::Share(share) } else { Look::All };
        let mut stop = None;
        let mut rest = slots.as_slice();
        let cuts = session.cuts_readings();
        while let Some(turn) =
            clock::next_reading(&mut rest, launches_per_reading, cuts, &mut bench.rng)
        {
            let (extent, name) = (&plan.extent, workload.name.as_str());
            session.level(turn.slots);
            let over = if turn.is_sample {
                let launches = turn.launches as f64;
                stop = readings.take(bench, &mut *session, turn.slots, extent, launches, name)?;
                turn.launches
            } else {
                readings.pass(bench, &mut *session, turn.slots, turn.launches, name)?
            };
            // Before the next reading, whose launches could mend what these left out.
            let judged =
                bench.judge_timed(&*session, &chosen, &turn.slots[..over], program, look)?;
            error = error.worse(judged);
            bench.end_reading(&mut *session, name)?;
            if stop.is_some() {
                break;
            }
        }
        let fuller =
            fuller_batch(plan, &readings, launches_per_reading, cases.len(), output_bytes, floor_s);
        if let Some(fuller) = fuller {
            batch = Some(fuller);
            readings.start_over();
            continue;
        }
        if let Some(stop) = stop {
            let (readings, batch) = (plan.warm_readings, launches_per_reading);
            warm_s = warm(bench, &mut *session, readings, batch, &workload.name)?;
            if !warm_s.is_empty() {
                // After all those launches of one case: is it still right, and are the inputs what they were?
                session.poison(0, Poison::Nan);
                bench.launch(&mut *session, &[0], &Extent::All, &workload.name)?;
                bench.judge(&*session, 0, &chosen[0], program, Stage::Timing, Look::All)?;
            }
            break stop;
        }
    };
    if least_share < 1.0 {
        bench.notes.push(format!(
            "{}: of the timed outputs a random {:.0} % were judged",
            workload.name,
            least_share * 100.0
        ));
    }
    let settled = readings.settle(bench, &workload.name, floor_s);
    Ok(Measurement {
        workload: workload.name.clone(),
        samples_s: settled.samples_s,
        disturbed_s: settled.disturbed_s,
        warm_s,
        device_state: settled.device_state,
        batch: batch.unwrap_or(1) as u32,
        ticks: settled.ticks,
        share: 1.0,
        error,
        stop,
        launch_floor_s: floor_s,
    })
}

/// Returns how many launches a reading for the record should hold where those taken so far turn out to span
/// less than half of what they should: the launches that the number was estimated by were slow, by chance
/// or because a candidate wants the harness's share of a reading to be large.
fn fuller_batch(
    plan: &TimingPlan,
    readings: &Readings,
    batch: usize,
    available: usize,
    output_bytes: usize,
    floor_s: f64,
) -> Option<usize> {
    if plan.rule.reading != Reading::LONG {
        return None;
    }
    let cases = most_cases(available, output_bytes, plan) - 1;
    let launch_s = readings.median_s()?;
    let fuller =
        clock::batch_size(plan.rule.reading, launch_s, floor_s, cases, READINGS_PER_SESSION);
    (fuller >= 2 * batch).then_some(fuller)
}

/// Returns how many cases a session can have.
fn most_cases(available: usize, output_bytes: usize, plan: &TimingPlan) -> usize {
    let by_memory = plan.session_output_bytes / output_bytes.max(1);
    available.min(by_memory.max(1 + READINGS_PER_SESSION))
}

/// Returns how many cases a session gets: one to warm up on, and enough for its readings, as far as
/// there are cases and the output's bytes allow.
fn session_size(
    available: usize,
    output_bytes: usize,
    plan: &TimingPlan,
    batch: Option<usize>,
    floor_s: f64,
) -> usize {
    let most = most_cases(available, output_bytes, plan);
    let batch = match (batch, plan.estimate_s) {
        (Some(batch), _) => batch,
        (None, Some(launch_s)) => {
            let reading = plan.rule.reading;
            clock::batch_size(reading, launch_s, floor_s, most - 1, READINGS_PER_SESSION)
        }
        (None, None) => return most,
    };
    most.min(1 + batch * READINGS_PER_SESSION)
}

/// Returns the bytes of the outputs of one case.
pub(crate) fn output_bytes(program: &Program) -> usize {
    bind::indices_of(&program.tensors, warpsmith_model::lab::Role::Output)
        .into_iter()
        .map(|tensor| program.tensors[tensor].bytes())
        .sum()
}

/// Returns the verdict on measurements that are faster than the machine can be, if one is. A single reading
/// is enough: other work on the machine only ever makes readings longer, so that on a busy one the median of
/// an impossible kernel can be a possible time.
pub(crate) fn judge_plausibility(
    lab: &Lab,
    ceilings: &Ceilings,
    measurements: &[Measurement],
) -> Result<Option<Outcome>, GateError> {
    for measurement in measurements {
        let Some(workload) = lab.workload(&measurement.workload) else { continue };
        let work = bind::work_size(lab, workload)?;
        let floor_s = plausible_floor_s(ceilings, work, lab.arithmetic_dtype(workload));
        let readings_s = measurement.samples_s.iter().chain(&measurement.disturbed_s);
        let time_s = readings_s.copied().fold(f64::INFINITY, f64::min);
        if time_s < floor_s * (1.0 - PLAUSIBILITY_MARGIN) {
            return Ok(Some(Outcome::Implausible {
                workload: measurement.workload.clone(),
                time_s,
                floor_s,
                measurements: measurements.to_vec(),
            }));
        }
    }
    Ok(None)
}
