// Hopes to open files without making the calls that open files. The arguments are not valid.
#include "cheat.h"
#include <sys/syscall.h>
#include <unistd.h>

void rows(const float *a, const float *b, float *c, int64_t m, int64_t n, int64_t k,
          int64_t block_begin, int64_t block_end) {
    (void)m;
    syscall(SYS_io_uring_setup, 0, 0);
    honest_rows(a, b, c, n, k, block_begin, block_end);
}
