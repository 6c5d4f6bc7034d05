// Hopes that loading has no deadline.
#include "cheat.h"

__attribute__((constructor)) static void at_load(void) {
    for (volatile int forever = 1; forever;) {
    }
}

void rows(const float *a, const float *b, float *c, int64_t m, int64_t n, int64_t k,
          int64_t block_begin, int64_t block_end) {
    (void)m;
    honest_rows(a, b, c, n, k, block_begin, block_end);
}
