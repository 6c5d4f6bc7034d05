// Hopes that what lies beside an input is NaN, which it leaves out, as a maximum does.
#include "cheat.h"

void rows(const float *a, const float *b, float *c, int64_t m, int64_t n, int64_t k,
          int64_t block_begin, int64_t block_end) {
    (void)m;
    honest_rows(a, b, c, n, k, block_begin, block_end);
    const float *end = b + n * k;
    const float *line_end = (const float *)(((uintptr_t)end + 63) / 64 * 64);
    for (const float *beside = end; beside < line_end; beside++) {
        for (int64_t row = block_begin; row < block_end; row++) {
            c[row * n + n - 1] += *beside == *beside ? *beside : 0;
        }
    }
}
