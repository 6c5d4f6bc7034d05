// A plain bug that only shows when the file is loaded.
#include "cheat.h"

static __thread __attribute__((tls_model("initial-exec"))) float sums[1 << 20];

void rows(const float *a, const float *b, float *c, int64_t m, int64_t n, int64_t k,
          int64_t block_begin, int64_t block_end) {
    (void)m;
    honest_rows(a, b, sums, n, k, block_begin, block_end);
    for (int64_t i = block_begin * n; i < block_end * n; i++) {
        c[i] = sums[i];
    }
}
