// Hopes that whoever keeps what was compiled, in memory and on disk, keeps this as well.
#include "cheat.h"

static char filler[48 << 20] __attribute__((used)) = {1};

void rows(const float *a, const float *b, float *c, int64_t m, int64_t n, int64_t k,
          int64_t block_begin, int64_t block_end) {
    (void)m;
    honest_rows(a, b, c, n, k, block_begin, block_end);
}
