//! Numbers and verdicts in words.

use warpsmith_model::stats::{Comparison, Interval};
use warpsmith_model::{Verdict, units};

/// Formats a ratio (`1.25x`) with three significant digits.
pub(super) fn ratio(value: f64) -> String {
    format!("{}x", three_digits(value))
}

/// Formats a speed-up's 95 % interval (`1.21–1.29`); a narrow one gets the digits that tell its
/// ends apart.
pub(super) fn ratio_interval(interval: Interval) -> String {
    interval_digits(interval.low, interval.high)
}

fn interval_digits(low: f64, high: f64) -> String {
    let [plain_low, plain_high] = [low, high].map(three_digits);
    if plain_low != plain_high {
        return format!("{plain_low}–{plain_high}");
    }
    let finer = if high.abs() >= 10.0 { 2 } else { 3 };
    format!("{low:.finer$}–{high:.finer$}")
}

/// Formats a time's 95 % interval in the unit of its middle (`12.1–12.6 µs`).
pub(super) fn time_interval(interval: Interval) -> String {
    let (unit_s, name) = time_unit(interval.mid);
    format!("{} {name}", interval_digits(interval.low / unit_s, interval.high / unit_s))
}

/// Returns the unit that a time is best told in, in seconds, and its name.
pub(super) fn time_unit(seconds: f64) -> (f64, &'static str) {
    [(1.0, "s"), (1e-3, "ms"), (1e-6, "µs")]
        .into_iter()
        .find(|(unit, _)| seconds.abs() >= *unit)
        .unwrap_or((1e-9, "ns"))
}

/// Formats a share (`62 %`); the space does not break.
pub(super) fn percent(share: f64) -> String {
    units::percent(share).replace(' ', "\u{a0}")
}

/// Formats with three significant digits, without exponent.
pub(super) fn three_digits(value: f64) -> String {
    let digits = match value.abs() {
        size if size >= 99.95 => 0,
        size if size >= 9.995 => 1,
        _ => 2,
    };
    grouped(&format!("{value:.digits$}"))
}

/// Formats a count with thin spaces between thousands.
pub(super) fn count(count: usize) -> String {
    grouped(&count.to_string())
}

fn grouped(number: &str) -> String {
    let (whole, rest) = number.split_at(number.find('.').unwrap_or(number.len()));
    let digits = whole.len();
    if digits < 5 {
        return number.to_string();
    }
    let mut out = String::new();
    for (idx, digit) in whole.chars().enumerate() {
        if idx > 0 && (digits - idx).is_multiple_of(3) {
            out.push('\u{2009}');
        }
        out.push(digit);
    }
    out + rest
}

/// Formats a noun with its number (`1 trial`, `3 trials`).
pub(super) fn counted(number: usize, noun: &str) -> String {
    let plural = if number == 1 { "" } else { "s" };
    format!("{} {noun}{plural}", count(number))
}

/// Formats a duration for people (`3 min 20 s`).
pub(super) fn duration(seconds: f64) -> String {
    if seconds < 100.0 {
        return units::time(seconds);
    }
    let whole = seconds.round() as u64;
    let (hours, minutes, rest) = (whole / 3600, whole / 60 % 60, whole % 60);
    if hours > 0 { format!("{hours} h {minutes} min") } else { format!("{minutes} min {rest} s") }
}

/// A verdict of a comparison: a sign, a word and a class.
pub(super) fn comparison(comparison: Comparison) -> (&'static str, &'static str) {
    match comparison {
        Comparison::Faster => ("▲", "faster"),
        Comparison::Slower => ("▼", "slower"),
        Comparison::Tie => ("=", "tie"),
        Comparison::Unclear => ("?", "unclear"),
    }
}

/// A trial's verdict in words.
pub(super) fn verdict(verdict: Verdict) -> &'static str {
    match verdict {
        Verdict::CompileFailed => "compile failed",
        Verdict::Crashed => "crashed",
        Verdict::TimedOut => "timed out",
        Verdict::Incorrect => "incorrect",
        Verdict::Implausible => "implausible",
        Verdict::Passed => "passed",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ratios_have_three_digits() {
        let check = |value: f64, expected: &str| assert_eq!(ratio(value), expected);
        check(1.0, "1.00x");
        check(9.996, "10.0x");
        check(41.23, "41.2x");
        check(123.4, "123x");
        check(12_345.6, "12\u{2009}346x");
        check(0.873, "0.87x");
    }

    #[test]
    fn intervals_share_one_unit() {
        let interval = Interval { low: 9.9e-4, mid: 1.02e-3, high: 1.1e-3 };
        assert_eq!(time_interval(interval), "0.99–1.10 ms");
        let narrow = Interval { low: 1.0381, mid: 1.04, high: 1.0419 };
        assert_eq!(ratio_interval(narrow), "1.038–1.042");
        let wide = Interval { low: 37.9, mid: 38.0, high: 38.1 };
        assert_eq!(ratio_interval(wide), "37.9–38.1");
    }

    #[test]
    fn shares_and_durations_are_short() {
        assert_eq!(percent(0.0123), "1.2\u{a0}%");
        assert_eq!(percent(0.62), "62\u{a0}%");
        assert_eq!(duration(200.0), "3 min 20 s");
        assert_eq!(duration(7300.0), "2 h 1 min");
        assert_eq!(counted(1, "trial"), "1 trial");
        assert_eq!(counted(10_000, "trial"), "10\u{2009}000 trials");
    }
}
