// y[i] = x[i] + ... + x[i + W - 1], one element a block.
// Layout: x is a vector of N + W - 1 elements, y of N.
#include <stdint.h>

void moving_sum_reference(const double *x, double *y, int64_t n, int64_t w, int64_t block_begin,
                          int64_t block_end) {
    (void)n;
    for (int64_t i = block_begin; i < block_end; i++) {
        double sum = 0;
        for (int64_t j = 0; j < w; j++) {
            sum += x[i + j];
        }
        y[i] = sum;
    }
}
