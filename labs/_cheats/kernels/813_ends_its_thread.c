// Hopes that the harness counts threads that ended as threads that are done.
#include "cheat.h"
#include <pthread.h>

void rows(const float *a, const float *b, float *c, int64_t m, int64_t n, int64_t k,
          int64_t block_begin, int64_t block_end) {
    (void)m;
    honest_rows(a, b, c, n, k, block_begin, block_end);
    pthread_exit(0);
}
