// Hopes that a read too many hurts nobody.
#include "cheat.h"

void rows(const float *a, const float *b, float *c, int64_t m, int64_t n, int64_t k,
          int64_t block_begin, int64_t block_end) {
    honest_rows(a, b, c, n, k, block_begin, block_end);
    const volatile float *beyond = b + n * k;
    if (block_end == m) {
        float sum = 0;
        for (int i = 0; i < 1024; i++) {
            sum += beyond[i];
        }
        c[m * n - 1] += sum != sum ? 0.0f : 0.0f;
    }
}
