// Hopes that only the first launches have a deadline.
#include "cheat.h"

static int64_t blocks_seen;

void rows(const float *a, const float *b, float *c, int64_t m, int64_t n, int64_t k,
          int64_t block_begin, int64_t block_end) {
    if (launch_index(&blocks_seen, m, block_begin, block_end) >= 2) {
        for (volatile int forever = 1; forever;) {
        }
    }
    honest_rows(a, b, c, n, k, block_begin, block_end);
}
