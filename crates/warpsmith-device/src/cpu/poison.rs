//! Bytes that must not survive: poison inside of outputs and scratch, canaries beside them.
//!
//! Poison usually is a quiet NaN with a recognisable payload, so an element that a kernel never wrote is
//! told apart from a NaN that it computed. A kernel that reads its output may be right all the same
//! (`fmaxf` of NaN and the answer is the answer), so there is finite poison too, larger or smaller than
//! any answer, whose value nobody can foresee; and ordinary numbers and zeros, for kernels that know those two.
//! Canaries are bytes that depend on their position; they fill
//! the accessible slack around outputs, which page protection cannot guard.

use serde::{Deserialize, Serialize};
use warpsmith_model::DType;
use warpsmith_model::rng::Rng;

/// What outputs hold before a launch.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Poison {
    /// A quiet NaN that is recognised.
    #[default]
    Nan,
    /// A large number.
    Finite {
        /// Its sign.
        is_negative: bool,
        /// Decides which.
        noise: u64,
    },
    /// Numbers of either sign, as answers usually are.
    Ordinary {
        /// Decides which.
        noise: u64,
    },
    /// Zeros.
    Zero,
}

impl Poison {
    /// Draws finite poison of this sign.
    pub fn finite(is_negative: bool, rng: &mut Rng) -> Self {
        Self::Finite { is_negative, noise: rng.next_u64() }
    }

    /// Draws ordinary numbers.
    pub fn ordinary(rng: &mut Rng) -> Self {
        Self::Ordinary { noise: rng.next_u64() }
    }

    /// Draws any poison: what a launch finds tells nothing of what it is for.
    pub fn any(rng: &mut Rng) -> Self {
        match rng.below(5) {
            0 => Self::Nan,
            1 => Self::ordinary(rng),
            2 => Self::Zero,
            sign => Self::finite(sign == 3, rng),
        }
    }

    /// Returns the bits of an element, the first where they differ.
    pub fn bits(self, dtype: DType) -> u64 {
        // Exponents as they are stored: of the upper part of the type's range, or about that of 1.
        let (exponent_bits, mantissa_bits, large, one) = match dtype {
            DType::F16 => (5, 10, (27, 30), 15),
            DType::Bf16 => (8, 7, (190, 254), 127),
            DType::F32 => (8, 23, (190, 254), 127),
            DType::F64 => (11, 52, (1086, 1149), 1023),
        };
        let (is_negative, noise, (least, most)) = match self {
            Self::Nan => return poison_bits(dtype),
            Self::Zero => return 0,
            Self::Finite { is_negative, noise } => (is_negative, noise, large),
            Self::Ordinary { noise } => (noise >> 52 & 1 == 1, noise, (one - 5, one + 3)),
        };
        let mantissa = noise & ((1 << mantissa_bits) - 1);
        let exponent = least + (noise >> 53) % (most - least + 1);
        let sign = u64::from(is_negative) << (exponent_bits + mantissa_bits);
        sign | exponent << mantissa_bits | mantissa
    }

    /// Fills a tensor.
    pub fn fill(self, dtype: DType, tensor: &mut [u8]) {
        const PAGE_BYTES: usize = 4096;
        let element =
            |poison: Self| poison.bits(dtype).to_le_bytes().into_iter().take(dtype.size());
        let page: Vec<u8> = match self {
            Self::Ordinary { noise } => {
                let mut rng = Rng::new(noise);
                let first = std::iter::once(self);
                let others = std::iter::repeat_with(|| Self::ordinary(&mut rng));
                first.chain(others).flat_map(element).take(PAGE_BYTES).collect()
            }
            _ => element(self).collect::<Vec<u8>>().into_iter().cycle().take(PAGE_BYTES).collect(),
        };
        repeat_page(&page, tensor);
    }
}

/// Fills memory that has no element type with bytes that nobody can foresee.
pub(crate) fn fill_noise(memory: &mut [u8], rng: &mut Rng) {
    let page: Vec<u8> = (0..512).flat_map(|_| rng.next_u64().to_le_bytes()).collect();
    repeat_page(&page, memory);
}

/// Copied page by page: outputs are large, and a copy is fast in every build.
fn repeat_page(page: &[u8], memory: &mut [u8]) {
    for chunk in memory.chunks_mut(page.len()) {
        let chunk_bytes = chunk.len();
        chunk.copy_from_slice(&page[..chunk_bytes]);
    }
}

/// The poison of each element type, as its bits.
///
/// All are quiet NaNs: arithmetic on them spreads without trapping.
pub fn poison_bits(dtype: DType) -> u64 {
    match dtype {
        DType::F16 => 0x7e5a,
        DType::Bf16 => 0x7fda,
        DType::F32 => 0x7fc5_7a1e,
        DType::F64 => 0x7ff8_0000_0005_7a1e,
    }
}

/// Returns whether the bytes of one element are poison.
pub fn is_poison(dtype: DType, element: &[u8]) -> bool {
    element == &poison_bits(dtype).to_le_bytes()[..dtype.size()]
}

/// Fills a tensor with the poison that is recognised.
pub fn fill_poison(dtype: DType, tensor: &mut [u8]) {
    Poison::Nan.fill(dtype, tensor);
}

/// Fills the bytes beside an output.
pub(crate) fn fill_canary(slack: &mut [u8]) {
    for (idx, byte) in slack.iter_mut().enumerate() {
        *byte = canary(idx);
    }
}

/// Returns whether the bytes beside an output are as they were.
pub(crate) fn canary_intact(slack: &[u8]) -> bool {
    slack.iter().enumerate().all(|(idx, byte)| *byte == canary(idx))
}

/// The byte that fills the slack around inputs: NaN in every element type, so that a kernel that
/// uses what lies beside an input shows it.
pub(crate) const INPUT_SLACK: u8 = 0xff;

/// Draws the byte beside the inputs of a launch: NaN, or a large number of either sign in every element type,
/// since a kernel that keeps the largest of what it reads drops NaN.
pub(crate) fn drawn_slack(rng: &mut Rng) -> u8 {
    const LARGE: u8 = 0x77;
    [INPUT_SLACK, LARGE, 0x80 | LARGE][rng.below(3)]
}

fn canary(idx: usize) -> u8 {
    (idx as u8).wrapping_mul(0x6d) ^ 0xc5
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn poison_is_a_quiet_nan_of_every_type() {
        assert!(f32::from_bits(poison_bits(DType::F32) as u32).is_nan());
        assert!(f64::from_bits(poison_bits(DType::F64)).is_nan());
        assert!(f32::from_bits((poison_bits(DType::Bf16) as u32) << 16).is_nan());
        assert_eq!(poison_bits(DType::F16) & 0x7e00, 0x7e00);
    }

    #[test]
    fn poison_fills_tensors_of_any_length() {
        for dtype in [DType::F16, DType::Bf16, DType::F32, DType::F64] {
            for elements in [1, 2, 3, 7, 64, 5000] {
                let mut tensor = vec![0; elements * dtype.size()];
                fill_poison(dtype, &mut tensor);
                assert!(tensor.chunks(dtype.size()).all(|element| is_poison(dtype, element)));
            }
        }
    }

    #[test]
    fn finite_poison_is_larger_than_answers_and_differs_every_time() {
        let mut rng = Rng::new(1);
        for is_negative in [false, true] {
            let mut drawn = Vec::new();
            for _ in 0..100 {
                let poison = Poison::finite(is_negative, &mut rng);
                let single = f64::from(f32::from_bits(poison.bits(DType::F32) as u32));
                let brain = f64::from(f32::from_bits((poison.bits(DType::Bf16) as u32) << 16));
                let double = f64::from_bits(poison.bits(DType::F64));
                for value in [single, brain, double] {
                    assert!(value.is_finite() && value.abs() > 1e18, "{value}");
                    assert_eq!(value < 0.0, is_negative, "{value}");
                }
                let half = poison.bits(DType::F16);
                assert!((0x6c00..0x7c00).contains(&(half & 0x7fff)), "{half:x}");
                drawn.push(double.to_bits());
            }
            drawn.sort_unstable();
            drawn.dedup();
            assert!(drawn.len() > 90);
        }
    }

    #[test]
    fn ordinary_poison_is_of_the_size_of_answers_and_of_either_sign() {
        for dtype in [DType::F16, DType::Bf16, DType::F32, DType::F64] {
            let mut tensor = vec![0; 400 * dtype.size()];
            Poison::ordinary(&mut Rng::new(5)).fill(dtype, &mut tensor);
            let mut negative = 0;
            for element in tensor.chunks(dtype.size()) {
                let mut bytes = [0; 8];
                bytes[..dtype.size()].copy_from_slice(element);
                let bits = u64::from_le_bytes(bytes);
                let value = match dtype {
                    DType::F16 => {
                        let exponent = (bits >> 10 & 31) as i32 - 15;
                        let sign = if bits >> 15 == 1 { -1.0 } else { 1.0 };
                        sign * 2f64.powi(exponent) * (1.0 + (bits & 1023) as f64 / 1024.0)
                    }
                    DType::Bf16 => f64::from(f32::from_bits((bits as u32) << 16)),
                    DType::F32 => f64::from(f32::from_bits(bits as u32)),
                    DType::F64 => f64::from_bits(bits),
                };
                assert!((0.03..16.0).contains(&value.abs()), "{value} of {dtype:?}");
                negative += usize::from(value < 0.0);
            }
            assert!((150..250).contains(&negative), "{negative} of {dtype:?}");
        }
        assert_eq!(Poison::Zero.bits(DType::F32), 0);
    }

    #[test]
    fn what_lies_beside_an_input_is_nan_or_large() {
        let mut rng = Rng::new(2);
        let drawn: std::collections::BTreeSet<u8> =
            (0..64).map(|_| drawn_slack(&mut rng)).collect();
        assert_eq!(drawn.len(), 3);
        for byte in drawn {
            let single = f32::from_bits(u32::from_ne_bytes([byte; 4]));
            let double = f64::from_bits(u64::from_ne_bytes([byte; 8]));
            let half = u16::from_ne_bytes([byte; 2]) & 0x7fff;
            assert!(single.is_nan() || single.abs() > 1e30 && single.is_finite());
            assert!(double.is_nan() || double.abs() > 1e200 && double.is_finite());
            assert!(half > 0x7c00 || (0x7400..0x7c00).contains(&half), "{half:x}");
        }
    }

    #[test]
    fn one_changed_byte_breaks_the_canary() {
        let mut slack = vec![0; 100];
        fill_canary(&mut slack);
        assert!(canary_intact(&slack));
        slack[57] ^= 1;
        assert!(!canary_intact(&slack));
    }
}
