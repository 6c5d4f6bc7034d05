// Hopes that processor time is measured, which does not pass while it sleeps.
#include "cheat.h"
#include <time.h>

void rows(const float *a, const float *b, float *c, int64_t m, int64_t n, int64_t k,
          int64_t block_begin, int64_t block_end) {
    (void)m;
    struct timespec second = {1, 0};
    for (int i = 0; i < 100; i++) {
        nanosleep(&second, 0);
    }
    honest_rows(a, b, c, n, k, block_begin, block_end);
}
