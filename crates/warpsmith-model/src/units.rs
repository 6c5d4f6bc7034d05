//! Scaling for people; the only place where units other than SI base units appear.

/// Formats seconds (`12.3 µs`).
pub fn time(seconds: f64) -> String {
    scaled(seconds, &[(1.0, "s"), (1e-3, "ms"), (1e-6, "µs"), (1e-9, "ns")])
}

/// Formats operations a second (`98.2 GFLOP/s`).
pub fn flops(per_second: f64) -> String {
    scaled(per_second, &[(1e12, "TFLOP/s"), (1e9, "GFLOP/s"), (1e6, "MFLOP/s"), (1.0, "FLOP/s")])
}

/// Formats bytes a second (`17.0 GB/s`).
pub fn bandwidth(per_second: f64) -> String {
    scaled(per_second, &[(1e12, "TB/s"), (1e9, "GB/s"), (1e6, "MB/s"), (1.0, "B/s")])
}

/// Formats bytes (`32.0 KiB`).
pub fn bytes(count: f64) -> String {
    let kib = 1024.0;
    scaled(count, &[(kib * kib * kib, "GiB"), (kib * kib, "MiB"), (kib, "KiB"), (1.0, "B")])
}

/// Formats a share (`62 %`, `4.1 %`).
pub fn percent(share: f64) -> String {
    let percent = share * 100.0;
    // Nobody reads the digits of a number that is only to be called absurd.
    if percent.abs() >= 1e6 {
        return format!("{percent:.1e} %");
    }
    let digits = if percent.abs() < 9.95 { 1 } else { 0 };
    format!("{percent:.digits$} %")
}

/// Formats a ratio (`1.25x`) with three significant digits.
pub fn ratio(value: f64) -> String {
    let digits = match value.abs() {
        size if size >= 99.95 => 0,
        size if size >= 9.995 => 1,
        _ => 2,
    };
    format!("{value:.digits$}x")
}

/// Formats with three significant digits in the largest unit that is not above the value.
fn scaled(value: f64, units: &[(f64, &str)]) -> String {
    let smallest = units.len() - 1;
    let idx = units.iter().position(|(unit, _)| value.abs() >= *unit).unwrap_or(smallest);
    let (unit, name) = units[idx];
    let number = value / unit;
    let digits = match number.abs() {
        n if n >= 100.0 => 0,
        n if n >= 10.0 => 1,
        _ => 2,
    };
    format!("{number:.digits$} {name}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn three_digits_in_a_fitting_unit() {
        assert_eq!(time(1.5e-5), "15.0 µs");
        assert_eq!(time(0.25), "250 ms");
        assert_eq!(time(3e-12), "0.00 ns");
        assert_eq!(flops(9.82e10), "98.2 GFLOP/s");
        assert_eq!(bytes(32768.0), "32.0 KiB");
    }

    #[test]
    fn shares_and_ratios_are_short() {
        assert_eq!(percent(0.0123), "1.2 %");
        assert_eq!(percent(0.62), "62 %");
        assert_eq!(percent(1.2e300), "1.2e302 %");
        assert_eq!(ratio(8.314), "8.31x");
        assert_eq!(ratio(41.23), "41.2x");
        assert_eq!(ratio(123.4), "123x");
    }
}
