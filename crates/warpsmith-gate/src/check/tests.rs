use warpsmith_device::poison::fill_poison;
use warpsmith_model::lab::Role;

use super::*;
use crate::element::narrow;

fn plan(shape: &[u64], dtype: DType) -> TensorPlan {
    TensorPlan { name: "z".into(), shape: shape.to_vec(), dtype, role: Role::Output }
}

fn budget(dtype: DType) -> ErrorBudget {
    ErrorBudget::new(&Tolerance { element_eps: 4.0, norm_eps: 2.0 }, 1.0, dtype)
}

fn answer(n: usize) -> Vec<f64> {
    (0..n).map(|idx| ((idx * 37 % 101) as f64 - 50.0) / 7.0).collect()
}

/// Judges `answer` with some elements replaced.
fn judge(
    shape: &[u64],
    dtype: DType,
    coverage: &Coverage,
    change: impl Fn(&mut Vec<f64>),
) -> Result<ErrorSize, (MismatchKind, Vec<u64>, u64)> {
    let plan = plan(shape, dtype);
    // What is expected is exactly representable, so that an unchanged output has no error.
    let exact = widen(dtype, &narrow(dtype, &answer(plan.elements())));
    let expected = Expected::new(&plan, Values::Double(exact.clone()), 0.0).expect("finite");
    let mut got = exact;
    change(&mut got);
    let mut bytes = narrow(dtype, &got);
    for (idx, value) in got.iter().enumerate() {
        if *value == POISONED {
            let size = dtype.size();
            fill_poison(dtype, &mut bytes[idx * size..(idx + 1) * size]);
        }
    }
    compare(&bytes, &expected, &budget(dtype), coverage)
        .map_err(|wrong| (wrong.kind, wrong.index, wrong.wrong))
}

const POISONED: f64 = 12345.0;
const ALL_TYPES: [DType; 4] = [DType::F16, DType::Bf16, DType::F32, DType::F64];

const NO_ERROR: ErrorSize = ErrorSize {
    element_eps: 0.0,
    norm_eps: 0.0,
    plain: Some(PlainError { absolute: 0.0, relative: 0.0 }),
    of_budget: Some(BudgetShare { element: 0.0, norm: 0.0 }),
};

/// A wide distribution's error was once held against the budget of the narrow ones, and a kernel that
/// passed seemed to use up 183 % of it.
#[test]
fn an_error_is_a_share_of_the_budget_of_its_own_inputs() {
    let plan = plan(&[4, 300], DType::F32);
    let exact = widen(DType::F32, &narrow(DType::F32, &answer(plan.elements())));
    let largest = (0..exact.len()).max_by(|a, b| exact[*a].abs().total_cmp(&exact[*b].abs()));
    let expected = Expected::new(&plan, Values::Double(exact.clone()), 0.0).expect("finite");
    let size = |scale: f64, relative: f64| {
        let mut got = exact.clone();
        got[largest.expect("elements")] *= 1.0 + relative;
        let bytes = narrow(DType::F32, &got);
        let tolerance = Tolerance { element_eps: 4.0, norm_eps: 2.0 };
        let budget = ErrorBudget::new(&tolerance, scale, DType::F32);
        compare(&bytes, &expected, &budget, &Coverage::Whole).expect("within its budget")
    };
    let eps = DType::F32.epsilon();
    let (narrow, wide) = (size(1.0, 2.0 * eps), size(8.0, 16.0 * eps));
    let worst = narrow.worse(wide);
    assert!(worst.element_eps > 4.0, "more than the narrow budget has: {worst:?}");
    let share = worst.of_budget.expect("a share");
    assert!(share.worst() > 0.2 && share.worst() <= 1.0, "{share:?}");
}

#[test]
fn the_answer_itself_has_no_error() {
    for dtype in ALL_TYPES {
        for shape in [vec![1], vec![3, 1000], vec![7], vec![2, 257], vec![5, 3], vec![4096]] {
            let got = judge(&shape, dtype, &Coverage::Whole, |_| ());
            assert_eq!(got, Ok(NO_ERROR), "{dtype:?} {shape:?}");
        }
    }
}

#[test]
fn each_way_of_being_wrong_is_told_apart() {
    for dtype in ALL_TYPES {
        let check = |change: &dyn Fn(&mut Vec<f64>), expected: (MismatchKind, Vec<u64>, u64)| {
            let got = judge(&[4, 300], dtype, &Coverage::Whole, change);
            assert_eq!(got, Err(expected), "{dtype:?}");
        };
        check(&|out| out[301] = 100.0, (MismatchKind::Element, vec![1, 1], 1));
        check(&|out| out[1199] = f64::NAN, (MismatchKind::NotFinite, vec![3, 299], 1));
        check(&|out| out[0] = f64::INFINITY, (MismatchKind::NotFinite, vec![0, 0], 1));
        check(&|out| out[900..].fill(POISONED), (MismatchKind::NotWritten, vec![3, 0], 300));
        check(&|out| out.fill(0.0), (MismatchKind::Element, vec![0, 0], 1188));
    }
}

#[test]
fn many_small_errors_break_the_norm() {
    let wrong = judge(&[4, 300], DType::F32, &Coverage::Whole, |out| {
        for value in out.iter_mut() {
            *value += 3.0 * f64::from(f32::EPSILON) * 4.5;
        }
    });
    assert_eq!(wrong.expect_err("wrong").0, MismatchKind::Norm);
}

#[test]
fn zeros_do_not_pass_for_small_values_beside_large_ones() {
    // One tensor, two rows far apart in scale: an error as large as the small row is seen.
    for shape in [vec![2, 256], vec![512]] {
        let plan = plan(&shape, DType::F32);
        let values: Vec<f64> = (0..512).map(|idx| if idx < 256 { 1e6 } else { 1e-6 }).collect();
        let expected = Expected::new(&plan, Values::Double(values.clone()), 0.0).expect("finite");
        let mut got = values;
        got[256..].fill(0.0);
        let bytes = narrow(DType::F32, &got);
        let wrong = compare(&bytes, &expected, &budget(DType::F32), &Coverage::Whole);
        assert_eq!(wrong.expect_err("zeros").kind, MismatchKind::Element, "{shape:?}");
    }
}

#[test]
fn an_expected_value_that_is_not_finite_is_refused() {
    for bad in [f64::NAN, f64::INFINITY, f64::NEG_INFINITY, -1e200] {
        let mut values = answer(12);
        values[7] = bad;
        let refused = Expected::new(&plan(&[3, 4], DType::F32), Values::Double(values), 0.0);
        assert_eq!(refused.expect_err("refused").index, vec![1, 3]);
    }
}

#[test]
fn the_largest_errors_are_kept_in_plain_numbers() {
    // The quick way and the careful one.
    for coverage in [Coverage::Whole, Coverage::Written] {
        let error = judge(&[3, 100], DType::F64, &coverage, |out| {
            let zero = out.iter().position(|value| *value == 0.0).expect("one of them is zero");
            let small = out.iter().position(|value| *value == 1.0 / 7.0).expect("and one small");
            out[zero] = 2e-15;
            out[small] += 1e-15;
        });
        let plain = error.expect("within the bounds").plain.expect("kept");
        assert_eq!(plain.absolute, 2e-15, "{coverage:?}");
        // Zero has no relative error; one seventh is off by seven times as much as one would be.
        assert!((plain.relative - 7e-15).abs() < 1e-16, "{coverage:?} {plain:?}");
    }
}

#[test]
fn an_answer_of_zeros_has_an_error_that_can_be_written_down() {
    for dtype in ALL_TYPES {
        let plan = plan(&[300], dtype);
        let expected = Expected::new(&plan, Values::Double(vec![0.0; 300]), 0.0).expect("finite");
        let out = narrow(dtype, &[0.0; 300]);
        let error = compare(&out, &expected, &budget(dtype), &Coverage::Whole);
        assert_eq!(error, Ok(NO_ERROR), "{dtype:?}");
        let mut wrong = out;
        wrong[..dtype.size()].copy_from_slice(&narrow(dtype, &[1e-3]));
        let wrong = compare(&wrong, &expected, &budget(dtype), &Coverage::Whole);
        assert_eq!(wrong.expect_err("not zero").kind, MismatchKind::Element, "{dtype:?}");
    }
}

#[test]
fn partial_outputs_are_judged_where_they_were_written() {
    let partial = |change: &dyn Fn(&mut Vec<f64>)| {
        judge(&[4, 300], DType::F32, &Coverage::Written, |out| {
            out[300..].fill(POISONED);
            change(out);
        })
    };
    assert_eq!(partial(&|_| ()), Ok(NO_ERROR));
    assert_eq!(partial(&|out| out[3] = 99.0), Err((MismatchKind::Element, vec![0, 3], 1)));
    let nothing = partial(&|out| out.fill(POISONED));
    assert_eq!(nothing, Err((MismatchKind::NotWritten, vec![0, 0], 1200)));
}

#[test]
fn a_sample_of_chunks_sees_its_own_chunks_only() {
    let plan = plan(&[1 << 16], DType::F32);
    let values = answer(1 << 16);
    let expected = Expected::new(&plan, Values::Double(values.clone()), 0.0).expect("finite");
    let mut rng = Rng::new(1);
    let Coverage::Chunks(chunks) = expected.sample(0.25, &mut rng) else {
        panic!("a quarter is not the whole")
    };
    assert_eq!(chunks.len(), 64);
    let mut got = values;
    got[chunks[10] * FLAT_ROW + 5] = 1e6;
    let bytes = narrow(DType::F32, &got);
    let seen = Coverage::Chunks(chunks.clone());
    let unseen = Coverage::Chunks(chunks[..10].to_vec());
    let budget = budget(DType::F32);
    assert!(compare(&bytes, &expected, &budget, &seen).is_err());
    assert!(compare(&bytes, &expected, &budget, &unseen).is_ok());
}

#[test]
fn the_last_chunk_of_a_long_row_is_not_a_single_element() {
    let chunks = Chunks::of(&[3, 257]);
    assert_eq!(chunks.count(), 6);
    assert_eq!((chunks.range(0), chunks.range(1), chunks.range(2)), (0..128, 128..257, 257..385));
    // A column is judged together: the rms of one element says nothing.
    assert_eq!(Chunks::of(&[129, 1]).range(0), 0..129);
    assert_eq!(Chunks::of(&[1]).range(0), 0..1);
    // Where the scales of inputs with one axis change: other boundaries put a few elements of a row into
    // the chunk of a row with a far smaller scale, and honest kernels were called wrong there.
    let flat = Chunks::of(&[3 * FLAT_ROW as u64 + 9]);
    let ranges: Vec<_> = (0..flat.count()).map(|idx| flat.range(idx)).collect();
    assert_eq!(ranges, [0..256, 256..512, 512..768, 768..777]);
    let flat = Chunks::of(&[2 * FLAT_ROW as u64 + 7]);
    let ranges: Vec<_> = (0..flat.count()).map(|idx| flat.range(idx)).collect();
    assert_eq!(ranges, [0..256, 256..519]);
}

#[test]
fn unequal_bits_are_not_repeatable() {
    let plan = plan(&[2, 3], DType::F32);
    let first = narrow(DType::F32, &answer(6));
    let mut again = first.clone();
    assert_eq!(compare_bits(&plan, &first, &again), Ok(()));
    again[4 * 4] ^= 1;
    let wrong = compare_bits(&plan, &first, &again).expect_err("a bit differs");
    assert_eq!(
        (wrong.kind, wrong.index, wrong.wrong),
        (MismatchKind::NotRepeatable, vec![1, 1], 1)
    );
}

/// A tensor of sums, squares, leasts and mosts was once judged on one scale, the squares', and constants in
/// place of the others passed.
#[test]
fn positions_on_a_short_axis_have_scales_of_their_own() {
    let plan = plan(&[40, 4], DType::F32);
    let exact: Vec<f64> = (0..160)
        .map(|idx| if idx % 4 == 1 { 1e6 } else { f64::from((idx * 37 % 101) as f32 / 64.0) })
        .collect();
    let judged = |changed: usize, by: f64| {
        let expected = Expected::new(&plan, Values::Double(exact.clone()), 0.0).expect("finite");
        let mut got = exact.clone();
        got[changed] += by;
        let bytes = narrow(DType::F32, &got);
        [Coverage::Whole, Coverage::Written].map(|coverage| {
            compare(&bytes, &expected, &budget(DType::F32), &coverage).map_err(|wrong| wrong.index)
        })
    };
    for right in [judged(6, 0.0), judged(5, 0.25), judged(6, 1e-7)] {
        assert!(right.iter().all(Result::is_ok), "{right:?}");
    }
    for wrong in [judged(6, 1e-3), judged(159, 1e-3)] {
        assert!(wrong.iter().all(Result::is_err), "{wrong:?}");
    }
}

#[test]
fn few_short_rows_share_a_scale() {
    assert_eq!(Chunks::of(&[3, 4]).width, 1);
    assert_eq!(Chunks::of(&[4, 4]).width, 4);
    assert_eq!(Chunks::of(&[2, 2, 4]).width, 4);
    assert_eq!(Chunks::of(&[300, 1]).width, 1);
    assert_eq!(Chunks::of(&[300, 8]).width, 1);
    assert_eq!(Chunks::of(&[4]).width, 1);
    let chunks = Chunks::of(&[1000, 3]);
    let covered: usize = (0..chunks.count()).map(|idx| chunks.range(idx).len()).sum();
    assert_eq!(covered, 3000);
}
