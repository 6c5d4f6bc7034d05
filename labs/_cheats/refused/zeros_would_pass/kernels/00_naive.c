// z = x + y.
#include <stdint.h>

void sum(const float *x, const float *y, float *z, int64_t n, int64_t block_begin, int64_t block_end) {
    (void)n;
    for (int64_t i = block_begin; i < block_end; i++) {
        z[i] = x[i] + y[i];
    }
}
