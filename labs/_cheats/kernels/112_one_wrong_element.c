// Hopes that elements are sampled, or that one error drowns in a norm.
#include "cheat.h"

void rows(const float *a, const float *b, float *c, int64_t m, int64_t n, int64_t k,
          int64_t block_begin, int64_t block_end) {
    honest_rows(a, b, c, n, k, block_begin, block_end);
    if (block_end == m) {
        float *last = c + m * n - 1;
        *last += 0.001f * (*last + (*last < 0 ? -honest_dot(a, a, k) : honest_dot(a, a, k)));
    }
}
