//! Element types as bytes: rounding to them, reading them back. IEEE half precision and bfloat16
//! are converted here by hand; the rest is the language's own.

use warpsmith_device::parallel;
use warpsmith_model::DType;

/// A type that elements are read as.
pub(crate) trait Element: Copy {
    /// The size in memory.
    const SIZE: usize;
    /// Reads one element from exactly `SIZE` bytes.
    fn read(bytes: &[u8]) -> Self;
    /// Widens, exactly.
    fn widen(self) -> f64;
}

impl Element for f32 {
    const SIZE: usize = 4;
    #[inline(always)]
    fn read(bytes: &[u8]) -> Self {
        f32::from_ne_bytes([bytes[0], bytes[1], bytes[2], bytes[3]])
    }
    #[inline(always)]
    fn widen(self) -> f64 {
        f64::from(self)
    }
}

impl Element for f64 {
    const SIZE: usize = 8;
    #[inline(always)]
    fn read(bytes: &[u8]) -> Self {
        f64::from_ne_bytes([
            bytes[0], bytes[1], bytes[2], bytes[3], bytes[4], bytes[5], bytes[6], bytes[7],
        ])
    }
    #[inline(always)]
    fn widen(self) -> f64 {
        self
    }
}

/// IEEE half precision, as bits.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct F16(u16);

impl Element for F16 {
    const SIZE: usize = 2;
    #[inline(always)]
    fn read(bytes: &[u8]) -> Self {
        Self(u16::from_ne_bytes([bytes[0], bytes[1]]))
    }
    #[inline(always)]
    fn widen(self) -> f64 {
        // The bits in their places of a single, with an exponent that is 112 too small; the factor
        // mends it, for subnormal halves too. Branches would keep loops from being vectorised.
        let bits = u32::from(self.0);
        let magnitude = f32::from_bits((bits & 0x7fff) << 13) * f32::from_bits(0x7780_0000);
        let is_finite = bits & 0x7c00 != 0x7c00;
        let special = f32::from_bits(0x7f80_0000 | (bits & 0x03ff) << 13);
        let magnitude = if is_finite { magnitude } else { special };
        f64::from(f32::from_bits(magnitude.to_bits() | (bits & 0x8000) << 16))
    }
}

/// The upper half of a single, as bits.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Bf16(u16);

impl Element for Bf16 {
    const SIZE: usize = 2;
    #[inline(always)]
    fn read(bytes: &[u8]) -> Self {
        Self(u16::from_ne_bytes([bytes[0], bytes[1]]))
    }
    #[inline(always)]
    fn widen(self) -> f64 {
        f64::from(f32::from_bits(u32::from(self.0) << 16))
    }
}

/// Rounds to the nearest half, ties to even.
pub(crate) fn to_f16_bits(value: f32) -> u16 {
    let bits = value.to_bits();
    let sign = ((bits >> 16) & 0x8000) as u16;
    let magnitude = bits & 0x7fff_ffff;
    let rounded = match magnitude {
        0x7f80_0001.. => 0x7e00,
        // 65520 and above are nearer to the infinity than to the largest half, 65504.
        0x477f_f000.. => 0x7c00,
        0x3880_0000.. => {
            let tie_to_even = (magnitude >> 13) & 1;
            ((magnitude + 0x0fff + tie_to_even - 0x3800_0000) >> 13) as u16
        }
        // Below 2^-14 halves are 2^-24 apart, as are singles between one half and 1: the addition
        // rounds, and the difference of the bits counts the steps.
        _ => ((f32::from_bits(magnitude) + 0.5).to_bits() - 0.5f32.to_bits()) as u16,
    };
    sign | rounded
}

/// Rounds to the nearest bfloat16, ties to even.
pub(crate) fn to_bf16_bits(value: f32) -> u16 {
    let bits = value.to_bits();
    if value.is_nan() {
        return ((bits >> 16) | 0x0040) as u16;
    }
    ((bits + 0x7fff + ((bits >> 16) & 1)) >> 16) as u16
}

/// Returns one element of a tensor's bytes, widened.
pub(crate) fn element_at(dtype: DType, bytes: &[u8], idx: usize) -> f64 {
    let at = &bytes[idx * dtype.size()..(idx + 1) * dtype.size()];
    match dtype {
        DType::F16 => F16::read(at).widen(),
        DType::Bf16 => Bf16::read(at).widen(),
        DType::F32 => f32::read(at).widen(),
        DType::F64 => f64::read(at),
    }
}

/// Returns a tensor's elements as f64, exactly.
pub(crate) fn widen(dtype: DType, bytes: &[u8]) -> Vec<f64> {
    fn all<T: Element>(bytes: &[u8]) -> Vec<f64> {
        let mut values = vec![0.0; bytes.len() / T::SIZE];
        parallel::fill(&mut values, 1, |start, piece| {
            let source = bytes[start * T::SIZE..].chunks_exact(T::SIZE);
            piece.iter_mut().zip(source).for_each(|(value, at)| *value = T::read(at).widen());
        });
        values
    }
    match dtype {
        DType::F16 => all::<F16>(bytes),
        DType::Bf16 => all::<Bf16>(bytes),
        DType::F32 => all::<f32>(bytes),
        DType::F64 => all::<f64>(bytes),
    }
}

/// Returns a tensor's elements as f32; exactly, unless they are doubles.
pub(crate) fn widen_to_single(dtype: DType, bytes: &[u8]) -> Vec<f32> {
    fn all<T: Element>(bytes: &[u8]) -> Vec<f32> {
        let mut values = vec![0.0; bytes.len() / T::SIZE];
        parallel::fill(&mut values, 1, |start, piece| {
            let source = bytes[start * T::SIZE..].chunks_exact(T::SIZE);
            let targets = piece.iter_mut().zip(source);
            targets.for_each(|(value, at)| *value = T::read(at).widen() as f32);
        });
        values
    }
    match dtype {
        DType::F16 => all::<F16>(bytes),
        DType::Bf16 => all::<Bf16>(bytes),
        DType::F32 => all::<f32>(bytes),
        DType::F64 => all::<f64>(bytes),
    }
}

/// Returns the bytes of a tensor's elements as f64, exactly.
pub(crate) fn widen_bytes(dtype: DType, bytes: &[u8]) -> Vec<u8> {
    fn all<T: Element>(bytes: &[u8]) -> Vec<u8> {
        let mut wide = vec![0; bytes.len() / T::SIZE * f64::SIZE];
        parallel::fill(&mut wide, f64::SIZE, |start, piece| {
            let source = bytes[start / f64::SIZE * T::SIZE..].chunks_exact(T::SIZE);
            let targets = piece.chunks_exact_mut(f64::SIZE).zip(source);
            targets.for_each(|(to, at)| to.copy_from_slice(&T::read(at).widen().to_ne_bytes()));
        });
        wide
    }
    match dtype {
        DType::F16 => all::<F16>(bytes),
        DType::Bf16 => all::<Bf16>(bytes),
        DType::F32 => all::<f32>(bytes),
        DType::F64 => bytes.to_vec(),
    }
}

/// Returns the bytes of a tensor with these elements, rounded to the element type.
pub(crate) fn narrow(dtype: DType, values: &[f64]) -> Vec<u8> {
    fn all<const SIZE: usize>(values: &[f64], to: impl Fn(f64) -> [u8; SIZE] + Sync) -> Vec<u8> {
        let mut bytes = vec![0; values.len() * SIZE];
        parallel::fill(&mut bytes, SIZE, |start, piece| {
            let source = &values[start / SIZE..];
            let targets = piece.chunks_exact_mut(SIZE).zip(source);
            targets.for_each(|(at, value)| at.copy_from_slice(&to(*value)));
        });
        bytes
    }
    match dtype {
        DType::F16 => all(values, |value| to_f16_bits(value as f32).to_ne_bytes()),
        DType::Bf16 => all(values, |value| to_bf16_bits(value as f32).to_ne_bytes()),
        DType::F32 => all(values, |value| (value as f32).to_ne_bytes()),
        DType::F64 => all(values, f64::to_ne_bytes),
    }
}

/// Returns the least positive number that is stored in full precision; for f64 the least whose
/// square is, since sums of squares are taken.
pub(crate) fn least_normal(dtype: DType) -> f64 {
    match dtype {
        DType::F16 => 2f64.powi(-14),
        DType::Bf16 | DType::F32 => f64::from(f32::MIN_POSITIVE),
        DType::F64 => 2f64.powi(-511),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn halves_round_to_nearest_even() {
        let check = |value: f32, bits: u16| {
            assert_eq!(to_f16_bits(value), bits, "{value} as half");
            assert_eq!(to_f16_bits(-value), bits | 0x8000, "-{value} as half");
        };
        check(0.0, 0);
        check(1.0, 0x3c00);
        check(65504.0, 0x7bff);
        check(65519.9, 0x7bff);
        check(65520.0, 0x7c00);
        check(f32::INFINITY, 0x7c00);
        check(2f32.powi(-14), 0x0400);
        check(2f32.powi(-24), 0x0001);
        check(2f32.powi(-25), 0x0000);
        check(1.5 * 2f32.powi(-25), 0x0001);
        check(1.0 + 2f32.powi(-11), 0x3c00);
        check(1.0 + 3.0 * 2f32.powi(-11), 0x3c02);
    }

    #[test]
    fn every_half_and_bfloat_survives_a_round_trip() {
        for bits in 0..=u16::MAX {
            let half = F16(bits).widen();
            if half.is_nan() {
                assert!(F16(to_f16_bits(half as f32)).widen().is_nan(), "{bits:#06x}");
            } else {
                assert_eq!(to_f16_bits(half as f32), bits);
            }
            let brain = Bf16(bits).widen();
            if brain.is_nan() {
                assert!(Bf16(to_bf16_bits(brain as f32)).widen().is_nan(), "{bits:#06x}");
            } else {
                assert_eq!(to_bf16_bits(brain as f32), bits);
            }
        }
    }
}
