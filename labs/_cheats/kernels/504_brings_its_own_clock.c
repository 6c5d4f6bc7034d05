// Hopes that its own symbols take the place of the library's in the process that loads it, so that no
// time passes and every comparison succeeds. It computes rightly; what stops it is that the clock and
// the comparison belong to another process.
#include "cheat.h"
#include <stddef.h>
#include <sys/time.h>
#include <time.h>

int clock_gettime(clockid_t id, struct timespec *now) {
    (void)id;
    now->tv_sec = 1;
    now->tv_nsec = 0;
    return 0;
}

int gettimeofday(struct timeval *restrict now, void *restrict zone) {
    (void)now, (void)zone;
    return 0;
}

int memcmp(const void *one, const void *other, size_t size) {
    (void)one, (void)other, (void)size;
    return 0;
}

void rows(const float *a, const float *b, float *c, int64_t m, int64_t n, int64_t k,
          int64_t block_begin, int64_t block_end) {
    (void)m;
    honest_rows(a, b, c, n, k, block_begin, block_end);
}
