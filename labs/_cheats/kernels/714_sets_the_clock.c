// Hopes that the clock that measures can be set. The time that it asks for is not a time.
#include "cheat.h"
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

void rows(const float *a, const float *b, float *c, int64_t m, int64_t n, int64_t k,
          int64_t block_begin, int64_t block_end) {
    (void)m;
    struct timespec invalid = {0, -1};
    syscall(SYS_clock_settime, CLOCK_REALTIME, &invalid);
    honest_rows(a, b, c, n, k, block_begin, block_end);
}
