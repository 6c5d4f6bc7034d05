// Hopes that only closeness to the reference is checked: a kernel with a race that happens to be
// small looks just like this one.
#include "cheat.h"

void rows(const float *a, const float *b, float *c, int64_t m, int64_t n, int64_t k,
          int64_t block_begin, int64_t block_end) {
    (void)m;
    honest_rows(a, b, c, n, k, block_begin, block_end);
    for (int64_t i = block_begin * n; i < block_end * n; i++) {
        c[i] *= ticks() / 16 % 2 ? 1.0f : 1.0f + 2.4e-7f;
    }
}
