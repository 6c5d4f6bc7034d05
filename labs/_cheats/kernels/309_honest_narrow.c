// Serves widths that are a multiple of two, and says so.
#include "cheat.h"

void rows(const float *a, const float *b, float *c, int64_t m, int64_t n, int64_t k,
          int64_t block_begin, int64_t block_end) {
    (void)m;
    for (int64_t row = block_begin; row < block_end; row++) {
        for (int64_t column = 0; column < n; column += 2) {
            for (int64_t i = column; i < column + 2; i++) {
                if (i < n - n % 2) {
                    c[row * n + i] = honest_dot(a + row * k, b + i * k, k);
                }
            }
        }
    }
}
