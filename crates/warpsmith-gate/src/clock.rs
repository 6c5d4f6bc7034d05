//! When to stop timing, what to leave out, how much to put under one reading of the clock.
//!
//! Pure functions over samples: the readings come from sessions, the statistics from the model.
//! The loop that uses them is in the evaluation; here is every number that it follows.

use warpsmith_device::target::Clocked;
use warpsmith_model::rng::Rng;
use warpsmith_model::stats::{Interval, median_interval};
use warpsmith_model::{RequestLimits, StopReason, notes};

/// When timing of one candidate on one workload stops.
#[derive(Clone, Debug, PartialEq)]
pub struct Rule {
    /// No fewer samples, unless the candidate is hopeless.
    pub min_samples: usize,
    /// No more samples.
    pub max_samples: usize,
    /// The median's interval is narrow enough when its width over the median is at most this.
    pub relative_width: f64,
    /// Seconds at most, once there are `min_samples`.
    pub budget_s: f64,
    /// What a single reading of the clock should span.
    pub reading: Reading,
    /// The time to beat.
    pub incumbent: Option<Incumbent>,
}

/// The least that a reading of the clock should span, as far as there are cases to fill it with.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Reading {
    /// Seconds.
    pub seconds: f64,
    /// Empty launches, so that what the harness costs is lost in it.
    pub floors: f64,
}

impl Reading {
    /// For ranking. Every case of a reading costs the search about half a millisecond of preparing
    /// and judging, and two percent of error are lost among the five that ranking asks for.
    pub const SHORT: Self = Self { seconds: 3e-4, floors: 20.0 };
    /// For the record and for comparisons.
    pub const LONG: Self = Self { seconds: 1e-3, floors: 60.0 };
}

/// The time to beat.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Incumbent {
    /// The best candidate's median.
    pub time_s: f64,
    /// How many times slower is hopeless.
    pub hopeless_ratio: f64,
}

/// Samples after which a candidate can be given up.
const HOPELESS_SAMPLES: usize = 2;

impl Rule {
    /// The rule for ranking: a few samples, and none for the hopeless. A width of 5 % separates
    /// what a search can act on; what is closer is settled by paired comparison, not here.
    pub fn rank(limits: &RequestLimits, workload: &str) -> Self {
        let incumbent = limits
            .incumbent_s
            .get(workload)
            .map(|time_s| Incumbent { time_s: *time_s, hopeless_ratio: limits.hopeless_ratio });
        Self {
            min_samples: 4,
            max_samples: 16,
            relative_width: 0.05,
            budget_s: limits.timing_budget_s,
            reading: Reading::SHORT,
            incumbent,
        }
    }

    /// The rule for the record: long enough that one percent is visible on a quiet machine.
    pub fn full(limits: &RequestLimits) -> Self {
        Self {
            min_samples: 12,
            max_samples: 200,
            relative_width: 0.01,
            budget_s: limits.timing_budget_s,
            reading: Reading::LONG,
            incumbent: None,
        }
    }

    /// The rule for the microbenchmark's waves: a wave is short and many configurations wait.
    pub fn micro(limits: &RequestLimits) -> Self {
        Self {
            min_samples: 3,
            max_samples: 9,
            relative_width: 0.05,
            budget_s: limits.timing_budget_s.min(0.2),
            reading: Reading::SHORT,
            incumbent: None,
        }
    }
}

/// Says whether to stop, and why. `spent_s` is the time that timing took so far.
pub fn decide(rule: &Rule, samples_s: &[f64], spent_s: f64) -> Option<StopReason> {
    let settled = &samples_s[warm_up(samples_s)..];
    let interval = median_interval(settled)?;
    if let Some(incumbent) = rule.incumbent
        && settled.len() >= HOPELESS_SAMPLES
        && interval.low > incumbent.hopeless_ratio * incumbent.time_s
    {
        return Some(StopReason::Hopeless);
    }
    if settled.len() < rule.min_samples {
        return None;
    }
    if interval.relative_width() <= rule.relative_width {
        return Some(StopReason::Converged);
    }
    (spent_s >= rule.budget_s || settled.len() >= rule.max_samples).then_some(StopReason::Budget)
}

/// After this many times its budget a measurement makes do with what it has: with disturbed readings, and with
/// the time that its openings took.
pub(crate) const PATIENCE: f64 = 3.0;

/// Returns how much of a budget is spent after `elapsed_s`, of which opening sessions took `opening_s`. A process
/// with a context on a GPU takes a quarter of a second to open and launches for milliseconds; if that counted, few
/// readings would be left of a budget that many contenders share. Everything together has its limit, too.
pub(crate) fn spent_s(elapsed_s: f64, opening_s: f64, budget_s: f64) -> f64 {
    if elapsed_s >= PATIENCE * budget_s { elapsed_s } else { elapsed_s - opening_s }
}

/// A device below this share of its best speed is disturbed. A neighbour on the same core leaves a
/// half to two thirds; clocks that rise and fall leave more than nine tenths.
pub const UNDISTURBED_SPEED: f64 = 0.8;

/// A reading that waited for a processor for more than this share of its time is disturbed.
const WAITED_SHARE: f64 = 0.05;

/// Says whether other programs had a processor while something was timed.
pub fn has_waited(clocked: &Clocked) -> bool {
    clocked.waited_s > WAITED_SHARE * clocked.elapsed_s
}

/// A leading sample is warm-up when it is this much slower than every later one.
const WARM_UP_EXCESS: f64 = 1.10;

/// Returns how many leading samples are warm-up: each slower than *every* later one by a tenth,
/// which noise does rarely and caches, page tables and frequency governors do always. At most a
/// third of the samples, and none when there are fewer than four, can be warm-up.
pub fn warm_up(samples_s: &[f64]) -> usize {
    let most = if samples_s.len() < 4 { 0 } else { samples_s.len() / 3 };
    (0..most)
        .take_while(|idx| {
            let slowest_later = samples_s[idx + 1..].iter().copied().fold(0.0, f64::max);
            samples_s[*idx] > WARM_UP_EXCESS * slowest_later
        })
        .count()
}

/// Returns how many launches to put under one reading of the clock: enough to fill it, but no more
/// than leave `readings` readings to `cases` distinct cases, since no case is launched twice.
pub fn batch_size(
    reading: Reading,
    launch_s: f64,
    floor_s: f64,
    cases: usize,
    readings: usize,
) -> usize {
    let wanted_s = reading.seconds.max(reading.floors * floor_s);
    let wanted = (wanted_s / launch_s.max(1e-9)).ceil().min(1e6) as usize;
    wanted.clamp(1, (cases / readings.max(1)).max(1))
}

/// One reading in this many is cut short, in the mean.
const CUT_SHORT: usize = 4;

/// Draws how many launches the next reading of the clock has, where `batch` are enough to fill it. A kernel that
/// knew which launch is the last could leave the work of all to it, where a device has room for more than one
/// launch's; so the number varies by a third, and some readings end anywhere before that. A session may be opened for
/// `batch` launches together, and never has more of them.
fn draw_launches(batch: usize, rng: &mut Rng) -> usize {
    let least = least_launches(batch);
    if least > 1 && rng.below(CUT_SHORT) == 0 {
        return 1 + rng.below(least - 1);
    }
    least + rng.below(batch - least + 1)
}

/// Says whether a reading has enough launches to be a sample. What others left in the outputs is judged all the same;
/// their time has too large a share of what a reading itself costs.
fn is_sample(launches: usize, batch: usize) -> bool {
    launches >= least_launches(batch)
}

fn least_launches(batch: usize) -> usize {
    (2 * batch).div_ceil(3)
}

/// A reading of the clock that is about to be taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Turn<'a> {
    /// What is to be launched.
    pub slots: &'a [usize],
    /// How many of these are launched, or about how many, before the reading is cut.
    pub launches: usize,
    /// Whether its time counts.
    pub is_sample: bool,
    /// The most launches that any reading has.
    pub batch: usize,
}

/// Takes the next reading's launches off what is left; none where nothing is. Where a program can find out how many
/// launches a reading has, one that is to end early is `cut`: it begins as one that is not.
pub fn next_reading<'a>(
    rest: &mut &'a [usize],
    batch: usize,
    cuts: bool,
    rng: &mut Rng,
) -> Option<Turn<'a>> {
    let launches = draw_launches(batch, rng).min(rest.len());
    let is_sample = is_sample(launches, batch);
    let listed = match cuts && !is_sample {
        true => {
            (least_launches(batch) + rng.below(batch - least_launches(batch) + 1)).min(rest.len())
        }
        false => launches,
    };
    let (slots, after) = rest.split_at(listed);
    *rest = after;
    (launches > 0).then_some(Turn { slots, launches, is_sample, batch })
}

/// A median whose interval is wider than this deserves a word.
const NOISY_WIDTH: f64 = 0.10;
/// A mean this many times the median says that some readings did much more than others.
const UNEVEN_MEAN: f64 = 1.5;
/// A result within this many launch floors measures the harness too.
const NEAR_FLOOR: f64 = 3.0;

/// Says in words what is poor about a measurement; nothing when it is sound.
pub fn remarks(workload: &str, samples_s: &[f64], floor_s: f64) -> Vec<String> {
    let mut remarks = Vec::new();
    let Some(Interval { low, mid, high }) = median_interval(samples_s) else {
        return remarks;
    };
    if (high - low) / mid > NOISY_WIDTH {
        remarks.push(notes::noisy(workload, (high - low) / mid));
    }
    let mean = samples_s.iter().sum::<f64>() / samples_s.len() as f64;
    if mean > UNEVEN_MEAN * mid {
        remarks.push(notes::uneven(workload, mean / mid));
    }
    if mid < NEAR_FLOOR * floor_s {
        remarks.push(notes::near_floor(workload, NEAR_FLOOR));
    }
    remarks
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rule(incumbent_s: Option<f64>) -> Rule {
        Rule {
            min_samples: 4,
            max_samples: 10,
            relative_width: 0.05,
            budget_s: 1.0,
            reading: Reading::LONG,
            incumbent: incumbent_s.map(|time_s| Incumbent { time_s, hopeless_ratio: 2.0 }),
        }
    }

    #[test]
    fn openings_are_not_charged_to_a_budget_until_patience_ends() {
        let check = |elapsed_s: f64, opening_s: f64, expected_s: f64| {
            assert!((spent_s(elapsed_s, opening_s, 2.0) - expected_s).abs() < 1e-9);
        };
        check(0.5, 0.0, 0.5);
        // A CPU's are milliseconds.
        check(2.0, 0.02, 1.98);
        check(4.0, 3.5, 0.5);
        check(5.9, 3.8, 2.1);
        check(6.0, 5.5, 6.0);
    }

    #[test]
    fn timing_stops_for_a_reason() {
        let check = |rule: &Rule, samples: &[f64], spent_s: f64, expected: Option<StopReason>| {
            assert_eq!(decide(rule, samples, spent_s), expected, "{samples:?} after {spent_s} s");
        };
        let quiet = [1.0, 1.01, 1.0, 1.02];
        let noisy = [1.0, 1.3, 0.9, 1.2];
        check(&rule(None), &[], 0.0, None);
        check(&rule(None), &quiet[..3], 9.0, None);
        check(&rule(None), &quiet, 0.0, Some(StopReason::Converged));
        check(&rule(None), &noisy, 0.5, None);
        check(&rule(None), &noisy, 1.5, Some(StopReason::Budget));
        let many: Vec<f64> = noisy.iter().copied().cycle().take(10).collect();
        check(&rule(None), &many, 0.0, Some(StopReason::Budget));
    }

    #[test]
    fn the_hopeless_are_given_up_early_and_only_they() {
        let check = |samples: &[f64], expected: Option<StopReason>| {
            assert_eq!(decide(&rule(Some(1.0)), samples, 0.0), expected, "{samples:?}");
        };
        check(&[9.0], None);
        check(&[9.0, 8.0], Some(StopReason::Hopeless));
        check(&[9.0, 1.9], None);
        check(&[2.1, 2.2, 2.1, 2.1], Some(StopReason::Hopeless));
        check(&[1.9, 1.9, 1.9, 1.9], Some(StopReason::Converged));
    }

    #[test]
    fn warm_up_is_what_is_slower_than_everything_after_it() {
        let check = |samples: &[f64], expected: usize| {
            assert_eq!(warm_up(samples), expected, "{samples:?}");
        };
        check(&[], 0);
        check(&[5.0, 1.0, 1.0], 0);
        check(&[5.0, 1.0, 1.0, 1.0], 1);
        check(&[5.0, 3.0, 1.0, 1.0, 1.1, 1.0], 2);
        check(&[1.05, 1.0, 1.0, 1.0], 0);
        check(&[5.0, 1.0, 1.0, 6.0], 0);
        check(&[9.0, 7.0, 5.0, 3.0, 2.0, 1.0], 2);
    }

    #[test]
    fn short_launches_are_batched_as_far_as_there_are_cases() {
        let check = |reading, launch_s: f64, floor_s: f64, cases: usize, expected: usize| {
            assert_eq!(batch_size(reading, launch_s, floor_s, cases, 4), expected);
        };
        check(Reading::LONG, 2e-5, 5e-6, 200, 50);
        check(Reading::LONG, 2e-5, 5e-6, 20, 5);
        check(Reading::LONG, 2e-5, 1e-4, 4000, 300);
        check(Reading::LONG, 0.3, 5e-6, 20, 1);
        check(Reading::LONG, 2e-5, 5e-6, 2, 1);
        check(Reading::LONG, 0.0, 0.0, 8, 2);
        check(Reading::SHORT, 2e-5, 5e-6, 200, 15);
    }

    #[test]
    fn nobody_can_foresee_how_many_launches_a_reading_has() {
        let mut rng = Rng::new(5);
        for batch in 1..40 {
            let mut seen = vec![0; batch + 1];
            for _ in 0..200 * batch {
                seen[draw_launches(batch, &mut rng)] += 1;
            }
            assert_eq!(seen[0], 0);
            assert!(seen[1..].iter().all(|count| *count > 0), "of {batch}: {seen:?}");
            let samples: usize =
                (1..=batch).filter(|it| is_sample(*it, batch)).map(|it| seen[it]).sum();
            assert!(samples >= 200 * batch * 7 / 10, "of {batch}: {seen:?}");
            assert!(is_sample(batch, batch));
        }
    }

    #[test]
    fn readings_go_through_all_launches_and_no_launch_comes_twice() {
        let mut rng = Rng::new(6);
        let slots: Vec<usize> = (0..100).collect();
        let (mut rest, mut read) = (slots.as_slice(), Vec::new());
        while let Some(turn) = next_reading(&mut rest, 12, false, &mut rng) {
            assert_eq!(turn.slots.len(), turn.launches);
            assert!((1..=12).contains(&turn.launches));
            read.extend_from_slice(turn.slots);
        }
        assert_eq!(read, slots);
    }

    #[test]
    fn a_reading_that_is_cut_begins_as_one_that_is_not() {
        let mut rng = Rng::new(7);
        let slots: Vec<usize> = (0..1000).collect();
        let (mut rest, mut n_cut) = (slots.as_slice(), 0);
        while let Some(turn) = next_reading(&mut rest, 12, true, &mut rng) {
            assert!(turn.slots.len() >= 8 || rest.is_empty(), "{turn:?}");
            assert!(turn.launches <= turn.slots.len());
            n_cut += usize::from(turn.launches < turn.slots.len());
        }
        assert!(n_cut > 10, "{n_cut}");
    }

    #[test]
    fn poor_data_is_remarked_on() {
        assert_eq!(remarks("w", &[1.0; 8], 1e-6), Vec::<String>::new());
        assert_eq!(remarks("w", &[1.0, 1.5, 1.0, 1.5, 1.0, 1.5], 1e-6).len(), 1);
        assert_eq!(remarks("w", &[1e-5; 8], 5e-6).len(), 1);
        let uneven = remarks("w", &[1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 9.0], 1e-6);
        assert!(
            uneven.iter().any(|remark| remark.contains("2.0 times their median")),
            "{uneven:?}"
        );
    }
}
