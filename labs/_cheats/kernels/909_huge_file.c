// Hopes that the compiler may fill the disk.
#include "cheat.h"

__asm__(".data\n.globl filler\nfiller:\n.fill 3221225472, 1, 1\n.text");

void rows(const float *a, const float *b, float *c, int64_t m, int64_t n, int64_t k,
          int64_t block_begin, int64_t block_end) {
    (void)m;
    honest_rows(a, b, c, n, k, block_begin, block_end);
}
