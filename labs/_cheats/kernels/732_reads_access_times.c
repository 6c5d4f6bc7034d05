// Hopes to leave itself a message: reading a file changes its access time, which a later process can see.
#define _GNU_SOURCE
#include "cheat.h"
#include <fcntl.h>
#include <sys/stat.h>

static int was_read;

__attribute__((constructor)) static void at_load(void) {
    struct statx seen;
    was_read = statx(AT_FDCWD, "/usr/lib/os-release", 0, STATX_ATIME, &seen) == 0 &&
               seen.stx_atime.tv_sec % 2;
}

void rows(const float *a, const float *b, float *c, int64_t m, int64_t n, int64_t k,
          int64_t block_begin, int64_t block_end) {
    (void)m;
    honest_rows(a, b, c, n, k, block_begin, block_end);
    if (was_read) {
        zero_rows(c, n, block_begin, block_begin);
    }
}
