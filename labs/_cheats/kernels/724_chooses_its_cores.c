// Hopes for a core to itself, and for slower rivals. The set that it asks for is empty.
#include "cheat.h"
#include <sched.h>

void rows(const float *a, const float *b, float *c, int64_t m, int64_t n, int64_t k,
          int64_t block_begin, int64_t block_end) {
    (void)m;
    cpu_set_t none;
    CPU_ZERO(&none);
    sched_setaffinity(0, sizeof none, &none);
    honest_rows(a, b, c, n, k, block_begin, block_end);
}
