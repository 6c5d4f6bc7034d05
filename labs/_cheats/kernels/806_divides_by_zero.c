// A plain bug: the campaign must go on.
#include "cheat.h"

void rows(const float *a, const float *b, float *c, int64_t m, int64_t n, int64_t k,
          int64_t block_begin, int64_t block_end) {
    honest_rows(a, b, c, n, k, block_begin, block_end);
#if defined(__x86_64__)
    volatile int64_t zero = m - m;
    c[block_begin * n] += (float)(n / zero);
#else
    __builtin_trap();
#endif
}
