// Hopes that an output which was cleared before is never seen.
#include "cheat.h"

void rows(const float *a, const float *b, float *c, int64_t m, int64_t n, int64_t k,
          int64_t block_begin, int64_t block_end) {
    (void)m;
    for (int64_t row = block_begin; row < block_end; row++) {
        for (int64_t column = 0; column < n; column++) {
            float *there = c + row * n + column;
            if (*there != 0) {
                *there = honest_dot(a + row * k, b + column * k, k);
            }
        }
    }
}
