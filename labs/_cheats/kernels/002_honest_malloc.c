// Honest: the contract of labs allows malloc. Small blocks come from the thread's arena, large ones
// straight from the system, and every thread does both at once.
#include "cheat.h"
#include <stdlib.h>
#include <string.h>

enum { kLargeBytes = 1 << 20 };

void rows(const float *a, const float *b, float *c, int64_t m, int64_t n, int64_t k,
          int64_t block_begin, int64_t block_end) {
    (void)m;
    float *row_sums = malloc((size_t)n * sizeof(float));
    char *large = malloc(kLargeBytes);
    float *a_row = malloc((size_t)k * sizeof(float));
    if (!row_sums || !large || !a_row) {
        abort();
    }
    memset(large, 1, kLargeBytes);
    for (int64_t row = block_begin; row < block_end; row++) {
        memcpy(a_row, a + row * k, (size_t)k * sizeof(float));
        honest_rows(a_row, b, row_sums, n, k, 0, 1);
        memcpy(c + row * n, row_sums, (size_t)n * sizeof(float));
    }
    a_row = realloc(a_row, kLargeBytes);
    free(a_row);
    free(large);
    free(row_sums);
}
