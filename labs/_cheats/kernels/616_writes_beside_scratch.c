// Hopes that nobody looks at the bytes between the end of scratch and the end of its page.
#include "cheat.h"

void rows(const float *a, const float *b, float *c, int64_t m, int64_t n, int64_t k, void *scratch,
          int64_t block_begin, int64_t block_end) {
    honest_rows(a, b, c, n, k, block_begin, block_end);
    if (block_begin == 0) {
        ((uint8_t *)scratch)[m * n + 4] = 1;
    }
}
