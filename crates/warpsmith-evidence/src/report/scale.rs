//! Axes: from values to pixels, and round numbers to label them with.

/// How values are spread over an axis.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Spread {
    /// Equal differences are equally long.
    Linear,
    /// Equal ratios are equally long.
    Log,
}

/// A mapping from values to pixels.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Scale {
    spread: Spread,
    low: f64,
    high: f64,
    start_px: f64,
    end_px: f64,
}

impl Scale {
    /// Maps the values from `low` to `high` onto the pixels from `start_px` to `end_px`. A span
    /// without extent is widened, so that one value still has a place.
    pub(super) fn new(
        spread: Spread,
        (low, high): (f64, f64),
        (start_px, end_px): (f64, f64),
    ) -> Self {
        let (low, high) = match spread {
            Spread::Linear if high > low => (low, high),
            Spread::Linear => (low - 0.5, low + 0.5),
            Spread::Log if low > 0.0 && high > low => (low, high),
            Spread::Log if low > 0.0 => (low / 2.0, low * 2.0),
            Spread::Log => (1.0, 10.0),
        };
        Self { spread, low, high, start_px, end_px }
    }

    /// Returns the pixel of a value; values beyond the axis stop at its ends.
    pub(super) fn px(&self, value: f64) -> f64 {
        let share = match self.spread {
            Spread::Linear => (value - self.low) / (self.high - self.low),
            Spread::Log => (value / self.low).ln() / (self.high / self.low).ln(),
        };
        // A NaN (the logarithm of a negative value, say) lands at the axis's beginning.
        let share = if share.is_nan() { 0.0 } else { share.clamp(0.0, 1.0) };
        self.start_px + share * (self.end_px - self.start_px)
    }

    /// Returns about `count` round values on the axis.
    pub(super) fn ticks(&self, count: usize) -> Vec<f64> {
        match self.spread {
            Spread::Linear => linear_ticks(self.low, self.high, count),
            Spread::Log => log_ticks(self.low, self.high, count),
        }
    }

    pub(super) fn low(&self) -> f64 {
        self.low
    }

    pub(super) fn high(&self) -> f64 {
        self.high
    }
}

/// Returns the least and greatest finite values, with room around them: a share of the span
/// (linear) or of the ratio (logarithmic). None when nothing is finite.
pub(super) fn padded_span(
    spread: Spread,
    values: impl IntoIterator<Item = f64>,
    room: f64,
) -> Option<(f64, f64)> {
    let is_drawable = |value: &f64| value.is_finite() && (spread == Spread::Linear || *value > 0.0);
    let (low, high) = values
        .into_iter()
        .filter(is_drawable)
        .map(|value| (value, value))
        .reduce(|(low, high), (value, _)| (low.min(value), high.max(value)))?;
    Some(match spread {
        Spread::Linear => {
            let pad = (high - low) * room;
            (low - pad, high + pad)
        }
        Spread::Log => {
            let pad = (high / low).max(1.2).powf(room);
            (low / pad, high * pad)
        }
    })
}

/// Multiples of 1, 2 or 5 times a power of ten.
fn linear_ticks(low: f64, high: f64, count: usize) -> Vec<f64> {
    let wanted = (high - low) / count.max(1) as f64;
    let power = 10f64.powf(wanted.log10().floor());
    let step = [1.0, 2.0, 5.0, 10.0]
        .into_iter()
        .map(|factor| factor * power)
        .find(|step| *step >= wanted * 0.999)
        .unwrap_or(10.0 * power);
    let first = (low / step - 1e-9).ceil() as i64;
    let last = (high / step + 1e-9).floor() as i64;
    (first..=last).map(|multiple| multiple as f64 * step).collect()
}

/// Powers of ten; with 2 and 5 between them where few powers fit; round steps where none do.
fn log_ticks(low: f64, high: f64, count: usize) -> Vec<f64> {
    let decades = (high / low).log10();
    if decades < 0.7 {
        return linear_ticks(low, high, count);
    }
    let first = low.log10().floor() as i32;
    let last = high.log10().ceil() as i32;
    let factors: &[f64] =
        if decades * 3.0 <= count as f64 + 2.0 { &[1.0, 2.0, 5.0] } else { &[1.0] };
    let stride = (decades / count.max(1) as f64).ceil().max(1.0) as usize;
    (first..=last)
        .step_by(stride)
        .flat_map(|power| factors.iter().map(move |factor| factor * 10f64.powi(power)))
        .filter(|tick| *tick >= low * 0.999 && *tick <= high * 1.001)
        .collect()
}

/// Formats a tick: as few digits as tell neighbouring ticks apart.
pub(super) fn tick_label(value: f64) -> String {
    let size = value.abs();
    if size != 0.0 && !(1e-3..1e5).contains(&size) {
        return format!("{value:e}");
    }
    let text = format!("{value:.4}");
    text.trim_end_matches('0').trim_end_matches('.').to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(spread: Spread, span: (f64, f64), count: usize, expected: &[&str]) {
        let labels: Vec<String> = Scale::new(spread, span, (0.0, 100.0))
            .ticks(count)
            .into_iter()
            .map(tick_label)
            .collect();
        assert_eq!(labels, expected, "{spread:?} {span:?} with {count}");
    }

    #[test]
    fn linear_ticks_are_round() {
        check(Spread::Linear, (0.0, 10.0), 5, &["0", "2", "4", "6", "8", "10"]);
        check(Spread::Linear, (0.0, 1.0), 4, &["0", "0.5", "1"]);
        check(Spread::Linear, (0.0, 10_000.0), 5, &["0", "2000", "4000", "6000", "8000", "10000"]);
        check(Spread::Linear, (-1.0, 1.0), 4, &["-1", "-0.5", "0", "0.5", "1"]);
        check(Spread::Linear, (0.93, 1.07), 3, &["0.95", "1", "1.05"]);
        check(Spread::Linear, (1.0, 1.0), 2, &["0.5", "1", "1.5"]);
    }

    #[test]
    fn log_ticks_are_powers_where_they_fit() {
        check(Spread::Log, (1.0, 1000.0), 4, &["1", "10", "100", "1000"]);
        check(Spread::Log, (0.01, 100.0), 5, &["0.01", "0.1", "1", "10", "100"]);
        check(Spread::Log, (1.0, 100.0), 6, &["1", "2", "5", "10", "20", "50", "100"]);
        check(Spread::Log, (3.0, 8.0), 5, &["3", "4", "5", "6", "7", "8"]);
        check(Spread::Log, (1e-3, 1e9), 4, &["0.001", "1", "1000", "1e6", "1e9"]);
        check(Spread::Log, (0.0, 0.0), 3, &["1", "2", "5", "10"]);
    }

    #[test]
    fn values_map_to_pixels_and_stop_at_the_ends() {
        let linear = Scale::new(Spread::Linear, (0.0, 10.0), (100.0, 200.0));
        assert_eq!(
            [0.0, 5.0, 10.0, 99.0, -1.0].map(|v| linear.px(v)),
            [100., 150., 200., 200., 100.]
        );
        let log = Scale::new(Spread::Log, (1.0, 100.0), (0.0, 100.0));
        assert_eq!(
            [1.0, 10.0, 100.0, 0.0, -5.0].map(|v| log.px(v).round()),
            [0., 50., 100., 0., 0.]
        );
        let downward = Scale::new(Spread::Linear, (0.0, 1.0), (100.0, 0.0));
        assert_eq!(downward.px(0.25), 75.0);
        assert_eq!(linear.px(f64::NAN), 100.0);
    }

    #[test]
    fn spans_ignore_what_cannot_be_drawn() {
        let span = |spread, values: &[f64]| padded_span(spread, values.iter().copied(), 0.0);
        assert_eq!(span(Spread::Linear, &[]), None);
        assert_eq!(span(Spread::Linear, &[f64::NAN, f64::INFINITY]), None);
        assert_eq!(span(Spread::Linear, &[3.0, f64::NAN, -1.0]), Some((-1.0, 3.0)));
        assert_eq!(span(Spread::Log, &[3.0, 0.0, -1.0, 6.0]), Some((3.0, 6.0)));
    }
}
