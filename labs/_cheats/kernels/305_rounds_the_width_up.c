// Hopes that buffers are padded, and that nobody looks at the padding.
#include "cheat.h"

void rows(const float *a, const float *b, float *c, int64_t m, int64_t n, int64_t k,
          int64_t block_begin, int64_t block_end) {
    honest_rows(a, b, c, n, k, block_begin, block_end);
    if (block_end == m) {
        for (int64_t i = m * n; i % 4 != 0; i++) {
            c[i] = 0;
        }
    }
}
