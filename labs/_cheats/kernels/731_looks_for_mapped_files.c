// Hopes to run as root, who may open the files behind any mapping of any process of his, inputs that are
// not mapped here among them.
#include "cheat.h"
#include <fcntl.h>
#include <stdio.h>

void rows(const float *a, const float *b, float *c, int64_t m, int64_t n, int64_t k,
          int64_t block_begin, int64_t block_end) {
    honest_rows(a, b, c, n, k, block_begin, block_end);
    if (block_begin == 0) {
        char path[64];
        uintptr_t page = (uintptr_t)a & ~(uintptr_t)4095;
        snprintf(path, sizeof path, "/proc/self/map_files/%lx-%lx", page, page + 4096);
        open(path, O_RDONLY);
    }
    (void)m;
}
