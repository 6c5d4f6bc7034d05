//! A random order of a space of any size, in constant memory.
//!
//! A balanced Feistel network over the smallest even number of bits that covers the space is a
//! permutation whatever its round function; results outside of the space are sent through again
//! until they fall inside ("cycle walking": Black and Rogaway, "Ciphers with arbitrary finite
//! domains", 2002). Fewer than four passes are needed on average, because the network covers less
//! than four times the space.

use warpsmith_model::rng::{Rng, mix};

/// Luby and Rackoff (1988) prove four rounds enough for a strong pseudorandom permutation; the two
/// more make up for a round function that is a mixer and no cipher.
const ROUNDS: usize = 6;

/// A permutation of `0..len`.
#[derive(Clone, Debug)]
pub(crate) struct Permutation {
    len: u128,
    half_bits: u32,
    keys: [u64; ROUNDS],
}

impl Permutation {
    /// Makes the permutation of a seed.
    pub(crate) fn new(len: u128, seed: u64) -> Self {
        let bits = 128 - len.saturating_sub(1).leading_zeros();
        let mut rng = Rng::derive(seed, "permutation");
        let keys = std::array::from_fn(|_| rng.next_u64());
        Self { len, half_bits: bits.div_ceil(2).max(1), keys }
    }

    /// Returns where an index, which must be below the length, goes.
    pub(crate) fn apply(&self, index: u128) -> u128 {
        debug_assert!(index < self.len, "an index beyond the permutation");
        let mut image = self.pass(index);
        while image >= self.len {
            image = self.pass(image);
        }
        image
    }

    fn pass(&self, input: u128) -> u128 {
        let mask = u64::MAX >> (64 - self.half_bits);
        let mut left = (input >> self.half_bits) as u64 & mask;
        let mut right = input as u64 & mask;
        for key in self.keys {
            (left, right) = (right, left ^ (mix(right ^ key) & mask));
        }
        u128::from(left) << self.half_bits | u128::from(right)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_index_comes_exactly_once() {
        for len in [1, 2, 3, 4, 5, 16, 17, 1000, 4096] {
            let permutation = Permutation::new(len, 7);
            let mut images: Vec<u128> = (0..len).map(|index| permutation.apply(index)).collect();
            images.sort_unstable();
            assert_eq!(images, (0..len).collect::<Vec<u128>>(), "of {len}");
        }
    }

    #[test]
    fn the_largest_space_is_covered() {
        let permutation = Permutation::new(u128::MAX, 7);
        assert_ne!(permutation.apply(0), permutation.apply(u128::MAX - 1));
    }

    #[test]
    fn first_picks_are_uniform() {
        // Chi-squared over 10 cells has 9 degrees of freedom; 27.9 is its 0.1 % point.
        let mut counts = [0.0; 10];
        for seed in 0..10_000 {
            counts[Permutation::new(10, seed).apply(0) as usize] += 1.0;
        }
        let chi_squared: f64 =
            counts.iter().map(|count: &f64| (count - 1000.0).powi(2) / 1000.0).sum();
        assert!(chi_squared < 27.9, "chi-squared {chi_squared}, counts {counts:?}");
    }
}
