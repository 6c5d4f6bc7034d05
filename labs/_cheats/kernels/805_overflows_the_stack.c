// Hopes to run over whatever lies below the stack.
#include "cheat.h"

static __attribute__((noinline)) int descend(int depth) {
    volatile char frame[1024];
    frame[0] = (char)depth;
    return descend(depth + 1) + frame[0];
}

void rows(const float *a, const float *b, float *c, int64_t m, int64_t n, int64_t k,
          int64_t block_begin, int64_t block_end) {
    (void)m;
    honest_rows(a, b, c, n, k, block_begin, block_end);
    c[block_begin * n] += (float)descend(0);
}
