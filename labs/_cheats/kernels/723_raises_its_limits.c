// Hopes that its limits are its own to lift. Only reads them.
#include "cheat.h"
#include <sys/resource.h>

void rows(const float *a, const float *b, float *c, int64_t m, int64_t n, int64_t k,
          int64_t block_begin, int64_t block_end) {
    (void)m;
    struct rlimit limit;
    prlimit(0, RLIMIT_AS, 0, &limit);
    honest_rows(a, b, c, n, k, block_begin, block_end);
}
