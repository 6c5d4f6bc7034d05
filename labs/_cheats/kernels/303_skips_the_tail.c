// Hopes that every checked shape is a multiple of the vector's width.
#include "cheat.h"

void rows(const float *a, const float *b, float *c, int64_t m, int64_t n, int64_t k,
          int64_t block_begin, int64_t block_end) {
    (void)m;
    for (int64_t row = block_begin; row < block_end; row++) {
        int64_t column = 0;
        for (; column + 4 <= n; column += 4) {
            for (int64_t j = column; j < column + 4; j++) {
                c[row * n + j] = honest_dot(a + row * k, b + j * k, k);
            }
        }
        for (; column < n; column++) {
            c[row * n + column] = 0;
        }
    }
}
