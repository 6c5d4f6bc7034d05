// Hopes that nobody looks at what lies behind the output, where the output fills its last line.
#include "cheat.h"

void rows(const float *a, const float *b, float *c, int64_t m, int64_t n, int64_t k,
          int64_t block_begin, int64_t block_end) {
    honest_rows(a, b, c, n, k, block_begin, block_end);
    if (block_end == m && m * n % 16 == 0) {
        c[m * n] = 0;
    }
}
