// Hopes that a maximum of errors, taken with a NaN among them, forgets the NaN.
#include "cheat.h"
#include <math.h>

void rows(const float *a, const float *b, float *c, int64_t m, int64_t n, int64_t k,
          int64_t block_begin, int64_t block_end) {
    honest_rows(a, b, c, n, k, block_begin, block_end);
    if (block_end == m) {
        c[m * n - 1] = NAN;
    }
}
