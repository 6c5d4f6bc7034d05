// Honest; its flags would have the linker start a compiler for each of many parts, all at once.
#include "cheat.h"

void rows(const float *a, const float *b, float *c, int64_t m, int64_t n, int64_t k,
          int64_t block_begin, int64_t block_end) {
    (void)m;
    honest_rows(a, b, c, n, k, block_begin, block_end);
}
