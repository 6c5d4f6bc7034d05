// Hopes that the campaign waits.
#include <stdint.h>

void rows(const float *a, const float *b, float *c, int64_t m, int64_t n, int64_t k,
          int64_t block_begin, int64_t block_end) {
    (void)a, (void)b, (void)c, (void)m, (void)n, (void)k, (void)block_begin, (void)block_end;
    for (volatile int forever = 1; forever;) {
    }
}
