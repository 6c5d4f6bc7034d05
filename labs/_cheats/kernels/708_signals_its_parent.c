// Hopes to stop whoever holds the clock. Signal 0 only asks whether it could.
#include "cheat.h"
#include <signal.h>
#include <unistd.h>

void rows(const float *a, const float *b, float *c, int64_t m, int64_t n, int64_t k,
          int64_t block_begin, int64_t block_end) {
    (void)m;
    kill(getppid(), 0);
    honest_rows(a, b, c, n, k, block_begin, block_end);
}
