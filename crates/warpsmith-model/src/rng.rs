//! Random numbers as a pure function of a seed.
//!
//! SplitMix64 (Steele, Lea, Flood: "Fast splittable pseudorandom number generators", 2014): small,
//! statistically sound for generating test data and search decisions, and addressable by counter.

/// A stream of random numbers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rng {
    state: u64,
}

impl Rng {
    /// Starts the stream of this seed.
    pub fn new(seed: u64) -> Self {
        Self { state: seed }
    }

    /// Starts an independent stream for a labelled purpose.
    pub fn derive(seed: u64, label: &str) -> Self {
        let hash = blake3::hash(label.as_bytes());
        let mut bytes = [0u8; 8];
        bytes.copy_from_slice(&hash.as_bytes()[..8]);
        Self::new(mix(seed ^ u64::from_le_bytes(bytes)))
    }

    /// Returns the next 64 bits.
    pub fn next_u64(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        mix(self.state)
    }

    /// Returns a number in `[0, 1)`.
    pub fn unit(&mut self) -> f64 {
        (self.next_u64() >> 11) as f64 * (1.0 / (1u64 << 53) as f64)
    }

    /// Returns an index below `n`, which must not be 0. The bias of the multiplication method is
    /// below 2^-32 for every `n` that fits in memory.
    pub fn below(&mut self, n: usize) -> usize {
        debug_assert!(n > 0, "an index below nothing");
        ((u128::from(self.next_u64()) * n as u128) >> 64) as usize
    }

    /// Puts the items into a random order.
    pub fn shuffle<T>(&mut self, items: &mut [T]) {
        for idx in (1..items.len()).rev() {
            items.swap(idx, self.below(idx + 1));
        }
    }
}

/// Scrambles 64 bits so that neighbouring inputs give unrelated outputs.
pub fn mix(mut bits: u64) -> u64 {
    bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    bits ^ (bits >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn streams_are_reproducible_and_independent() {
        let first: Vec<u64> = (0..4)
            .map({
                let mut r = Rng::derive(7, "a");
                move |_| r.next_u64()
            })
            .collect();
        let again: Vec<u64> = (0..4)
            .map({
                let mut r = Rng::derive(7, "a");
                move |_| r.next_u64()
            })
            .collect();
        let other: Vec<u64> = (0..4)
            .map({
                let mut r = Rng::derive(7, "b");
                move |_| r.next_u64()
            })
            .collect();
        assert_eq!(first, again);
        assert_ne!(first, other);
    }

    #[test]
    fn unit_covers_its_interval() {
        let mut rng = Rng::new(1);
        let values: Vec<f64> = (0..10_000).map(|_| rng.unit()).collect();
        let mean = values.iter().sum::<f64>() / 10_000.0;
        assert!(values.iter().all(|v| (0.0..1.0).contains(v)));
        assert!((mean - 0.5).abs() < 0.02, "mean {mean}");
    }
}
