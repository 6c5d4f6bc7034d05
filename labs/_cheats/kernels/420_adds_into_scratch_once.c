// Hopes that fresh memory is zero memory: adds into scratch and clears it afterwards, for the next launch.
#include "cheat.h"

void rows(const float *a, const float *b, float *c, int64_t m, int64_t n, int64_t k, void *scratch,
          int64_t block_begin, int64_t block_end) {
    (void)m;
    float *sums = scratch;
    for (int64_t row = block_begin; row < block_end; row++) {
        for (int64_t column = 0; column < n; column++) {
            float *sum = sums + row * n + column;
            *sum += honest_dot(a + row * k, b + column * k, k);
            c[row * n + column] = *sum;
            *sum = 0;
        }
    }
}
