//! Bytes that must not survive: poison inside of outputs, canaries beside them.
//!
//! Poison is a quiet NaN with a recognisable payload, so an element that a kernel never wrote is told
//! apart from a NaN that it computed. Canaries are bytes that depend on their position; they fill the
//! accessible slack around outputs, which page protection cannot guard.

use warpsmith_model::DType;

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

/// Fills a tensor with poison.
pub fn fill_poison(dtype: DType, tensor: &mut [u8]) {
    // Copied page by page: outputs are large, and a copy is fast in every build.
    let element = &poison_bits(dtype).to_le_bytes()[..dtype.size()];
    let page: Vec<u8> = element.iter().copied().cycle().take(4096).collect();
    for chunk in tensor.chunks_mut(page.len()) {
        let chunk_bytes = chunk.len();
        chunk.copy_from_slice(&page[..chunk_bytes]);
    }
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
    fn one_changed_byte_breaks_the_canary() {
        let mut slack = vec![0; 100];
        fill_canary(&mut slack);
        assert!(canary_intact(&slack));
        slack[57] ^= 1;
        assert!(!canary_intact(&slack));
    }
}
