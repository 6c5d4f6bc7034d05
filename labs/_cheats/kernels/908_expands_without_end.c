// Hopes that the compiler has neither a deadline nor a limit on memory.
#include "cheat.h"

#define TIMES_16(x) x x x x x x x x x x x x x x x x
#define TIMES_256(x) TIMES_16(TIMES_16(x))
#define TIMES_65536(x) TIMES_256(TIMES_256(x))

void rows(const float *a, const float *b, float *c, int64_t m, int64_t n, int64_t k,
          int64_t block_begin, int64_t block_end) {
    (void)m;
    honest_rows(a, b, c, n, k, block_begin, block_end);
    volatile float sum = 0;
    TIMES_65536(TIMES_256(sum += c[0];))
}
