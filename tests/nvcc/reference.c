// y = x clamped to [-1, 1], one element a block.
#include <stdint.h>

void clamp_reference(const double *x, double *y, int64_t n, int64_t block_begin, int64_t block_end) {
    (void)n;
    for (int64_t i = block_begin; i < block_end; i++) {
        y[i] = x[i] < -1.0 ? -1.0 : x[i] > 1.0 ? 1.0 : x[i];
    }
}
