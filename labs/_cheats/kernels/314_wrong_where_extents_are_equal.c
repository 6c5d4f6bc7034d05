// Hopes that extents that are equal in a workload are equal nowhere else.
#include "cheat.h"

void rows(const float *a, const float *b, float *c, int64_t m, int64_t n, int64_t k,
          int64_t block_begin, int64_t block_end) {
    honest_rows(a, b, c, n, k, block_begin, block_end);
    if (m == k && m > 1 && m != 64) {
        zero_rows(c, n, block_begin, block_end);
    }
}
