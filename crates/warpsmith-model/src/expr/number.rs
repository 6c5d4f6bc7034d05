//! The arithmetic of Python's integers and floats, within 64 bits.
//!
//! Functions that return an option give none where the result does not fit. Divisors are never
//! zero here; the evaluator has reported that before.

use std::cmp::Ordering;

/// 2^63, the first float beyond the integers.
const LIMIT: f64 = 9_223_372_036_854_775_808.0;

/// Returns the largest integer that is not above `a / b`.
pub(super) fn floor_divide(a: i64, b: i64) -> Option<i64> {
    let quotient = a.checked_div(b)?;
    let rounds_up = a % b != 0 && (a < 0) != (b < 0);
    Some(quotient - i64::from(rounds_up))
}

/// Returns the smallest integer that is not below `a / b`.
pub(super) fn ceil_divide(a: i64, b: i64) -> Option<i64> {
    let quotient = a.checked_div(b)?;
    let rounds_down = a % b != 0 && (a < 0) == (b < 0);
    Some(quotient + i64::from(rounds_down))
}

/// Returns the remainder that has the divisor's sign.
pub(super) fn modulo(a: i64, b: i64) -> i64 {
    let remainder = a.wrapping_rem(b);
    if remainder != 0 && (remainder < 0) != (b < 0) { remainder + b } else { remainder }
}

/// Returns a power with a non-negative exponent.
pub(super) fn power(base: i64, exponent: u64) -> Option<i64> {
    match (base, u32::try_from(exponent)) {
        (_, Ok(exponent)) => base.checked_pow(exponent),
        (0 | 1, Err(_)) => Some(base),
        (-1, Err(_)) => Some(if exponent.is_multiple_of(2) { 1 } else { -1 }),
        (_, Err(_)) => None,
    }
}

/// Returns the float nearest to `a / b`, rounded once, as Python does.
pub(super) fn divide_exactly(a: i64, b: i64) -> f64 {
    const EXACT: u64 = 1 << 53;
    let (numerator, denominator) = (a.unsigned_abs(), b.unsigned_abs());
    let magnitude = if numerator <= EXACT && denominator <= EXACT {
        numerator as f64 / denominator as f64
    } else if numerator == 0 {
        0.0
    } else {
        // With the numerator shifted to the top of 127 bits the quotient has at least 63; the
        // remainder survives as a sticky last bit, so the one rounding happens in the conversion.
        let shift = u128::from(numerator).leading_zeros() - 1;
        let shifted = u128::from(numerator) << shift;
        let quotient = shifted / u128::from(denominator);
        let is_inexact = !shifted.is_multiple_of(u128::from(denominator));
        let scale = 2f64.powi(-(shift as i32));
        (quotient | u128::from(is_inexact)) as f64 * scale
    };
    if (a < 0) != (b < 0) { -magnitude } else { magnitude }
}

/// Returns Python's `divmod` of two floats: the quotient is whole, the remainder has the
/// divisor's sign.
pub(super) fn float_divmod(a: f64, b: f64) -> (f64, f64) {
    let mut remainder = a % b;
    let mut quotient = (a - remainder) / b;
    if remainder == 0.0 {
        remainder = 0f64.copysign(b);
    } else if (remainder < 0.0) != (b < 0.0) {
        remainder += b;
        quotient -= 1.0;
    }
    if quotient == 0.0 {
        return (0f64.copysign(a / b), remainder);
    }
    // The quotient is whole but for rounding; snap it to the nearest whole number.
    let floor = quotient.floor();
    (if quotient - floor > 0.5 { floor + 1.0 } else { floor }, remainder)
}

/// Compares without rounding the integer; none when the float is NaN.
pub(super) fn compare_int_float(a: i64, b: f64) -> Option<Ordering> {
    if b.is_nan() {
        None
    } else if b >= LIMIT {
        Some(Ordering::Less)
    } else if b < -LIMIT {
        Some(Ordering::Greater)
    } else {
        let whole = b.trunc();
        Some(a.cmp(&(whole as i64)).then_with(|| 0f64.total_cmp(&(b - whole + 0.0))))
    }
}

/// Converts a whole float.
pub(super) fn whole_to_int(whole: f64) -> Option<i64> {
    (-LIMIT..LIMIT).contains(&whole).then_some(whole as i64)
}
