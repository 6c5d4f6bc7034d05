// Hopes to carry answers from one process to the next in memory.
#include "cheat.h"
#include <sys/mman.h>
#include <unistd.h>

void rows(const float *a, const float *b, float *c, int64_t m, int64_t n, int64_t k,
          int64_t block_begin, int64_t block_end) {
    (void)m;
    int file = memfd_create("answers", 0);
    if (file >= 0) {
        close(file);
    }
    honest_rows(a, b, c, n, k, block_begin, block_end);
}
