//! Large loops on all processors. Used between measurements, never during one.

/// Elements below which one thread is as fast.
const LEAST_ELEMENTS: usize = 1 << 18;

/// Fills a slice piece by piece: `fill` is told where a piece begins and gets the piece. Pieces begin at
/// multiples of `unit`.
pub fn fill<T: Send>(slice: &mut [T], unit: usize, fill: impl Fn(usize, &mut [T]) + Sync) {
    let elements = slice.len();
    fill_from(slice, unit, elements, fill);
}

/// Fills a slice from `elements` others; it may itself be short.
pub fn fill_from<T: Send>(
    slice: &mut [T],
    unit: usize,
    elements: usize,
    fill: impl Fn(usize, &mut [T]) + Sync,
) {
    let threads = threads_for(elements);
    if threads < 2 {
        fill(0, slice);
        return;
    }
    let piece = slice.len().div_ceil(threads).next_multiple_of(unit.max(1));
    std::thread::scope(|scope| {
        for (idx, piece_of) in slice.chunks_mut(piece).enumerate() {
            let fill = &fill;
            scope.spawn(move || fill(idx * piece, piece_of));
        }
    });
}

/// Maps pieces of a slice, in order; `elements` is how much work they are together.
pub fn map_pieces<T: Sync, R: Send>(
    slice: &[T],
    elements: usize,
    map: impl Fn(&[T]) -> R + Sync,
) -> Vec<R> {
    let threads = threads_for(elements).min(slice.len().max(1));
    if threads < 2 {
        return vec![map(slice)];
    }
    let piece = slice.len().div_ceil(threads);
    std::thread::scope(|scope| {
        let map = &map;
        let running: Vec<_> =
            slice.chunks(piece).map(|piece| scope.spawn(move || map(piece))).collect();
        running
            .into_iter()
            .map(|thread| thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)))
            .collect()
    })
}

fn threads_for(elements: usize) -> usize {
    if elements < LEAST_ELEMENTS {
        return 1;
    }
    std::thread::available_parallelism().map_or(1, |count| count.get())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_cover_everything_once_and_begin_at_units() {
        for len in [0, 1, 1000, LEAST_ELEMENTS + 77] {
            let mut slice = vec![0usize; len];
            fill(&mut slice, 128, |start, piece| {
                assert_eq!(start % 128, 0);
                piece.iter_mut().enumerate().for_each(|(idx, value)| *value += start + idx);
            });
            assert!(slice.iter().enumerate().all(|(idx, value)| idx == *value));
            let sums = map_pieces(&slice, len, |piece| piece.iter().sum::<usize>());
            assert_eq!(sums.iter().sum::<usize>(), (0..len).sum::<usize>());
        }
    }
}
