// Honest: half of the promised stack is used as scratch.
#include "cheat.h"
#include <string.h>

enum { kStackBytes = 4 << 20 };

static __attribute__((noinline)) void row_through_stack(const float *a, const float *b, float *c,
                                                        int64_t n, int64_t k) {
    volatile char deep[kStackBytes];
    deep[0] = 1;
    deep[kStackBytes - 1] = deep[0];
    honest_rows(a, b, c, n, k, 0, deep[kStackBytes - 1]);
}

void rows(const float *a, const float *b, float *c, int64_t m, int64_t n, int64_t k,
          int64_t block_begin, int64_t block_end) {
    (void)m;
    for (int64_t row = block_begin; row < block_end; row++) {
        row_through_stack(a + row * k, b, c + row * n, n, k);
    }
}
