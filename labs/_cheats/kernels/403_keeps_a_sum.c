// Hopes that the program is loaded anew for each launch, so that its static sums begin at zero.
#include "cheat.h"

enum { kMostElements = 1 << 16 };
static float sums[kMostElements];

void rows(const float *a, const float *b, float *c, int64_t m, int64_t n, int64_t k,
          int64_t block_begin, int64_t block_end) {
    (void)m;
    for (int64_t row = block_begin; row < block_end; row++) {
        for (int64_t column = 0; column < n; column++) {
            sums[row * n + column] += honest_dot(a + row * k, b + column * k, k);
            c[row * n + column] = sums[row * n + column];
        }
    }
}
