//! The contents of inputs: a pure function of seed, distribution, tensor and position.
//!
//! Every element is drawn from a counter, so contents need not be stored to be reproduced, and the
//! arithmetic is plain single precision without library functions, so they are the same bits on
//! every machine. Blocks of [`BLOCK`] elements are drawn at a time, in loops that vectorise.

use warpsmith_device::parallel;
use warpsmith_device::target::TensorPlan;
use warpsmith_device::wide::{self, WideLoop};
use warpsmith_model::lab::{Distribution, Inputs, Role};
use warpsmith_model::rng::{Rng, mix};
use warpsmith_model::{DType, Hasher};

use crate::element::{to_bf16_bits, to_f16_bits};

/// Elements that are drawn together.
const BLOCK: usize = 128;

/// The length of a row of a one-dimensional tensor: where mixed scales change and where errors
/// are judged together.
pub(crate) const FLAT_ROW: usize = 256;

/// Returns the contents of every input tensor, in order, outputs skipped.
pub fn contents(plans: &[TensorPlan], inputs: &Inputs, seed: u64) -> Vec<Vec<u8>> {
    plans
        .iter()
        .filter(|plan| plan.role == Role::Input)
        .zip(&inputs.distributions)
        .map(|(plan, distribution)| tensor_contents(plan, distribution, seed))
        .collect()
}

/// Returns the contents of one tensor. Tensors with different names are independent.
pub fn tensor_contents(plan: &TensorPlan, distribution: &Distribution, seed: u64) -> Vec<u8> {
    let key = Rng::derive(seed, &plan.name).next_u64();
    let mut bytes = vec![0u8; plan.bytes()];
    let block_bytes = BLOCK * plan.dtype.size();
    parallel::fill(&mut bytes, block_bytes, |start, piece| {
        for (idx, out) in piece.chunks_mut(block_bytes).enumerate() {
            draw_block(plan, distribution, key, start / block_bytes + idx, out);
        }
    });
    bytes
}

/// Draws one block of a tensor.
fn draw_block(
    plan: &TensorPlan,
    distribution: &Distribution,
    key: u64,
    block_idx: usize,
    out: &mut [u8],
) {
    let mut units = [0f32; BLOCK];
    let first = block_idx * BLOCK;
    let count = BLOCK.min(plan.elements() - first);
    match distribution {
        Distribution::Normal { mean, std } => {
            normals(key, block_idx, &mut units);
            let affine = Affine { offset: *mean, scale: *std };
            encode(plan.dtype, &units[..count], affine, key, first, out);
        }
        Distribution::Uniform { low, high } => {
            uniforms(key, block_idx, &mut units);
            let affine = Affine { offset: *low, scale: high - low };
            encode(plan.dtype, &units[..count], affine, key, first, out);
        }
        Distribution::Constant { value } => {
            let affine = Affine { offset: *value, scale: 0.0 };
            encode(plan.dtype, &units[..count], affine, key, first, out);
        }
        Distribution::Mixed { zero_rows } => {
            normals(key, block_idx, &mut units);
            let row = row_length(plan);
            let mut start = 0;
            while start < count {
                let row_idx = (first + start) / row;
                let end = count.min((row_idx + 1) * row - first);
                let is_zero = *zero_rows && mix(key ^ !(row_idx as u64)).is_multiple_of(4);
                let scale = if is_zero { 0.0 } else { row_scale(key, row_idx) };
                let affine = Affine { offset: 0.0, scale };
                let size = plan.dtype.size();
                let target = &mut out[start * size..end * size];
                encode(plan.dtype, &units[start..end], affine, key, first + start, target);
                start = end;
            }
        }
        Distribution::Ramp { axis, first: begin, last, std } => {
            if *std > 0.0 {
                normals(key, block_idx, &mut units);
            }
            let place = AxisPosition::of(plan, *axis);
            let size = plan.dtype.size();
            for (idx, at) in out[..count * size].chunks_exact_mut(size).enumerate() {
                let offset = begin + (last - begin) * place.along(first + idx);
                let affine = Affine { offset, scale: *std };
                encode(plan.dtype, &units[idx..=idx], affine, key, first + idx, at);
            }
        }
    }
}

/// Where an element lies along an axis.
struct AxisPosition {
    stride: usize,
    extent: usize,
}

impl AxisPosition {
    fn of(plan: &TensorPlan, axis: i32) -> Self {
        let from_last = (axis.unsigned_abs() as usize).clamp(1, plan.shape.len().max(1));
        let mut inner = plan.shape.iter().rev();
        let stride = inner.by_ref().take(from_last - 1).product::<u64>() as usize;
        Self { stride: stride.max(1), extent: inner.next().map_or(1, |extent| *extent as usize) }
    }

    /// Returns 0 at the beginning of the axis and 1 at its end; an axis of one element is all end.
    fn along(&self, element: usize) -> f64 {
        match self.extent {
            0 | 1 => 1.0,
            extent => (element / self.stride % extent) as f64 / (extent - 1) as f64,
        }
    }
}

/// Returns the seed of the contents with this number for a shape and a distribution.
pub fn content_seed(seed: u64, shape: &[(String, i64)], inputs: &str, idx: usize) -> u64 {
    let mut hasher = Hasher::new("content seed");
    hasher.part(&seed.to_le_bytes()).part(inputs.as_bytes()).part(&(idx as u64).to_le_bytes());
    for (axis, value) in shape {
        hasher.part(axis.as_bytes()).part(&value.to_le_bytes());
    }
    let id = warpsmith_model::BlobId::from(hasher).to_string();
    u64::from_str_radix(&id[..16], 16).expect("a content id is hexadecimal")
}

/// Returns the length of the rows that share a scale: the last axis, or [`FLAT_ROW`] elements of a
/// tensor that has no other axis.
fn row_length(plan: &TensorPlan) -> usize {
    match plan.shape.as_slice() {
        [] => 1,
        [_] => FLAT_ROW,
        [.., last] => (*last as usize).max(1),
    }
}

/// Draws a row's scale between 2^-9 and 2^9, evenly over the powers of two.
fn row_scale(key: u64, row_idx: usize) -> f64 {
    let bits = mix(key ^ 0x526f_7753_6361_6c65 ^ row_idx as u64);
    let fraction = (bits >> 12) as f64 * 2f64.powi(-52);
    let exponent = (bits & 0xfff) as i32 % 18 - 9;
    (1.0 + fraction) * 2f64.powi(exponent)
}

#[derive(Clone, Copy)]
struct Affine {
    offset: f64,
    scale: f64,
}

/// Writes `offset + scale * unit`, rounded to the element type.
fn encode(dtype: DType, units: &[f32], affine: Affine, key: u64, first: usize, out: &mut [u8]) {
    let (offset, scale) = (affine.offset as f32, affine.scale as f32);
    match dtype {
        DType::F32 => {
            for (unit, at) in units.iter().zip(out.chunks_exact_mut(4)) {
                at.copy_from_slice(&(offset + scale * unit).to_ne_bytes());
            }
        }
        DType::F16 => {
            for (unit, at) in units.iter().zip(out.chunks_exact_mut(2)) {
                at.copy_from_slice(&to_f16_bits(offset + scale * unit).to_ne_bytes());
            }
        }
        DType::Bf16 => {
            for (unit, at) in units.iter().zip(out.chunks_exact_mut(2)) {
                at.copy_from_slice(&to_bf16_bits(offset + scale * unit).to_ne_bytes());
            }
        }
        DType::F64 => {
            // A unit has 24 bits; the rest of the mantissa is drawn too, so that a kernel that
            // rounds its inputs to single precision is found out.
            for (idx, (unit, at)) in units.iter().zip(out.chunks_exact_mut(8)).enumerate() {
                let low_bits = mix(key ^ !((first + idx) as u64)) >> 35;
                let unit = f64::from(*unit) * (1.0 + low_bits as f64 * 2f64.powi(-53));
                at.copy_from_slice(&(affine.offset + affine.scale * unit).to_ne_bytes());
            }
        }
    }
}

/// Draws a block of numbers in `[0, 1)`.
fn uniforms(key: u64, block_idx: usize, units: &mut [f32; BLOCK]) {
    let (low, high) = block_key(key, block_idx);
    for (idx, unit) in units.iter_mut().enumerate() {
        *unit = (draw(low, high, idx as u32) >> 8) as i32 as f32 * TWO_POW_MINUS_24;
    }
}

/// Draws a block of standard normal numbers.
fn normals(key: u64, block_idx: usize, units: &mut [f32; BLOCK]) {
    wide::run(Normals { key, block_idx, units });
}

struct Normals<'a> {
    key: u64,
    block_idx: usize,
    units: &'a mut [f32; BLOCK],
}

impl WideLoop for Normals<'_> {
    type Output = ();

    #[inline(always)]
    fn run(self) {
        normals_body(self.key, self.block_idx, self.units);
    }
}

const TWO_POW_MINUS_24: f32 = 1.0 / 16_777_216.0;

/// The polar form of Box and Muller (1958), with a series for the logarithm and polynomials for
/// sine and cosine that are good to single precision.
#[inline(always)]
fn normals_body(key: u64, block_idx: usize, units: &mut [f32; BLOCK]) {
    let (low, high) = block_key(key, block_idx);
    let (cosines, sines) = units.split_at_mut(BLOCK / 2);
    for idx in 0..BLOCK / 2 {
        let radius_bits = draw(low, high, 2 * idx as u32);
        let angle_bits = draw(low, high, 2 * idx as u32 + 1);
        let share = ((radius_bits >> 8) as i32 + 1) as f32 * TWO_POW_MINUS_24;
        let radius = (-2.0 * natural_log(share)).sqrt();
        // The angle is a quarter of the circle and a place in it, centred on zero.
        let place = (angle_bits & 0x3fff_ffff) as i32 as f32 * (1.0 / 1_073_741_824.0) - 0.5;
        let angle = place * std::f32::consts::FRAC_PI_2;
        let square = angle * angle;
        let sine = angle * (1.0 - square * (1.0 / 6.0 - square * (1.0 / 120.0 - square / 5040.0)));
        let cosine = 1.0
            - square * (0.5 - square * (1.0 / 24.0 - square * (1.0 / 720.0 - square / 40320.0)));
        let odd_quarter = angle_bits & 0x4000_0000 != 0;
        let sign = if angle_bits & 0x8000_0000 != 0 { -radius } else { radius };
        cosines[idx] = sign * if odd_quarter { -sine } else { cosine };
        sines[idx] = sign * if odd_quarter { cosine } else { sine };
    }
}

/// Returns the logarithm of a positive normal number: the exponent, and for the mantissa the series
/// of the inverse hyperbolic tangent, whose next term is below 4e-8.
#[inline(always)]
fn natural_log(value: f32) -> f32 {
    // The offset makes the mantissa lie between 2/3 and 4/3, where the series is short.
    let bits = value.to_bits() as i32 - 0x3f2a_aaab;
    let exponent = (bits >> 23) as f32;
    let mantissa = f32::from_bits(((bits & 0x007f_ffff) + 0x3f2a_aaab) as u32);
    let ratio = (mantissa - 1.0) / (mantissa + 1.0);
    let square = ratio * ratio;
    let series = ratio * (2.0 + square * (2.0 / 3.0 + square * (2.0 / 5.0 + square * (2.0 / 7.0))));
    exponent * std::f32::consts::LN_2 + series
}

fn block_key(key: u64, block_idx: usize) -> (u32, u32) {
    let key = mix(key.wrapping_add(mix(block_idx as u64)));
    (key as u32, (key >> 32) as u32)
}

/// Draws 32 bits: two rounds of a multiply-and-shift scrambler with half a key before each. The
/// constants are from Wellons, "Prospecting for hash functions", 2018.
#[inline(always)]
fn draw(low: u32, high: u32, counter: u32) -> u32 {
    scramble(scramble(counter ^ low) ^ high)
}

#[inline(always)]
fn scramble(mut bits: u32) -> u32 {
    bits = (bits ^ (bits >> 16)).wrapping_mul(0x7feb_352d);
    bits = (bits ^ (bits >> 15)).wrapping_mul(0x846c_a68b);
    bits ^ (bits >> 16)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::element::widen;

    fn plan(shape: &[u64], dtype: DType) -> TensorPlan {
        TensorPlan { name: "x".into(), shape: shape.to_vec(), dtype, role: Role::Input }
    }

    fn draw_values(shape: &[u64], dtype: DType, distribution: Distribution, seed: u64) -> Vec<f64> {
        widen(dtype, &tensor_contents(&plan(shape, dtype), &distribution, seed))
    }

    fn moment(values: &[f64], power: i32) -> f64 {
        values.iter().map(|value| value.powi(power)).sum::<f64>() / values.len() as f64
    }

    #[test]
    fn normal_numbers_have_the_moments_and_the_tails_of_the_bell_curve() {
        for dtype in [DType::F16, DType::Bf16, DType::F32, DType::F64] {
            let standard = Distribution::Normal { mean: 0.0, std: 1.0 };
            let values = draw_values(&[1_000_003], dtype, standard, 5);
            assert_eq!(values.len(), 1_000_003);
            for (power, expected) in [(1, 0.0), (2, 1.0), (3, 0.0), (4, 3.0)] {
                let got = moment(&values, power);
                assert!((got - expected).abs() < 0.03, "{dtype:?} moment {power} is {got}");
            }
            let beyond = values.iter().filter(|value| value.abs() > 3.0).count();
            assert!((2_500..2_900).contains(&beyond), "{beyond} beyond three sigmas");
            assert!(values.iter().any(|value| value.abs() > 4.5));
        }
    }

    #[test]
    fn neighbours_blocks_and_halves_of_a_block_are_uncorrelated() {
        let standard = Distribution::Normal { mean: 0.0, std: 1.0 };
        let values = draw_values(&[1 << 20], DType::F32, standard, 9);
        for lag in [1, 2, 32, 64, 128, 4096] {
            let n = values.len() - lag;
            let products =
                (0..n).map(|idx| values[idx] * values[idx + lag]).sum::<f64>() / n as f64;
            assert!(products.abs() < 0.006, "lag {lag}: {products}");
        }
    }

    #[test]
    fn other_distributions_keep_their_bounds() {
        let uniform =
            draw_values(&[100_000], DType::F32, Distribution::Uniform { low: -2.0, high: 6.0 }, 1);
        assert!(uniform.iter().all(|value| (-2.0..=6.0).contains(value)));
        assert!((moment(&uniform, 1) - 2.0).abs() < 0.05);
        let constant = draw_values(&[300], DType::F64, Distribution::Constant { value: 0.1 }, 1);
        assert!(constant.iter().all(|value| *value == 0.1));
    }

    #[test]
    fn mixed_rows_have_scales_of_their_own_within_the_stated_range() {
        for shape in [vec![300, 64], vec![300 * 256]] {
            let row = if shape.len() == 1 { FLAT_ROW } else { 64 };
            let values =
                draw_values(&shape, DType::F32, Distribution::Mixed { zero_rows: false }, 3);
            let scales: Vec<f64> = values.chunks(row).map(|row| moment(row, 2).sqrt()).collect();
            let smallest = scales.iter().copied().fold(f64::INFINITY, f64::min);
            let largest = scales.iter().copied().fold(0.0, f64::max);
            assert!(smallest > 1e-3 && smallest < 1e-2, "{smallest}");
            assert!(largest < 1e3 && largest > 1e2, "{largest}");
        }
    }

    #[test]
    fn about_every_fourth_of_mixed_rows_is_zero_where_that_is_stated() {
        let (shape, mixed) = ([400, 64], Distribution::Mixed { zero_rows: true });
        let values = draw_values(&shape, DType::F32, mixed, 3);
        let is_zero = |row: &&[f64]| row.iter().all(|value| *value == 0.0);
        let zeros = values.chunks(64).filter(is_zero).count();
        assert!((70..130).contains(&zeros), "{zeros}");
        let others = values.chunks(64).filter(|row| row.iter().all(|value| *value != 0.0)).count();
        assert_eq!(zeros + others, 400);
    }

    #[test]
    fn a_ramp_goes_from_its_first_centre_to_its_last_along_its_axis() {
        let ramp = |axis, std| Distribution::Ramp { axis, first: -300.0, last: 500.0, std };
        let along_rows = draw_values(&[3, 200], DType::F32, ramp(-1, 0.0), 1);
        for row in along_rows.chunks(200) {
            assert_eq!((row[0], row[199]), (-300.0, 500.0));
            assert!(row.windows(2).all(|pair| pair[0] < pair[1]));
        }
        let over_rows = draw_values(&[2, 5, 40], DType::F32, ramp(-2, 1.0), 1);
        for (idx, row) in over_rows.chunks(40).enumerate() {
            let centre = -300.0 + 200.0 * (idx % 5) as f64;
            assert!(row.iter().all(|value| (value - centre).abs() < 6.0), "{row:?}");
            assert!(row.iter().any(|value| (value - centre).abs() > 0.1));
        }
        let single = draw_values(&[1, 1], DType::F64, ramp(-2, 0.0), 1);
        assert_eq!(single, [500.0]);
        let flat = draw_values(&[9], DType::F16, ramp(-1, 0.0), 1);
        assert_eq!((flat[0], flat[4], flat[8]), (-300.0, 100.0, 500.0));
    }

    #[test]
    fn contents_depend_on_seed_and_tensor_alone() {
        let normal = Distribution::Normal { mean: 0.0, std: 1.0 };
        let x = plan(&[1000], DType::F32);
        let y = TensorPlan { name: "y".into(), ..x.clone() };
        assert_eq!(tensor_contents(&x, &normal, 1), tensor_contents(&x, &normal, 1));
        assert_ne!(tensor_contents(&x, &normal, 1), tensor_contents(&x, &normal, 2));
        assert_ne!(tensor_contents(&x, &normal, 1), tensor_contents(&y, &normal, 1));
        // A longer tensor begins with the same elements: positions, not lengths, decide.
        let longer = plan(&[1500], DType::F32);
        assert_eq!(tensor_contents(&longer, &normal, 1)[..4000], tensor_contents(&x, &normal, 1));
    }

    #[test]
    fn the_vectorised_generator_gives_the_same_bits() {
        let mut fast = [0f32; BLOCK];
        let mut plain = [0f32; BLOCK];
        for block_idx in 0..100 {
            normals(77, block_idx, &mut fast);
            normals_body(77, block_idx, &mut plain);
            assert_eq!(fast.map(f32::to_bits), plain.map(f32::to_bits));
        }
    }

    #[test]
    fn double_precision_inputs_use_their_whole_mantissa() {
        let standard = Distribution::Normal { mean: 0.0, std: 1.0 };
        let values = draw_values(&[1000], DType::F64, standard, 2);
        let short = values.iter().filter(|value| f64::from(**value as f32) == **value).count();
        assert!(short < 5, "{short} of 1000 fit into single precision");
    }
}
