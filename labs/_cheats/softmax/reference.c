// y = softmax(s x), one row a block.
#include <math.h>
#include <stdint.h>

void softmax_reference(const double *x, double *y, int64_t n, int64_t d, float s, int64_t block_begin,
                       int64_t block_end) {
    (void)n;
    for (int64_t row = block_begin; row < block_end; row++) {
        const double *from = x + row * d;
        double largest = -INFINITY;
        for (int64_t i = 0; i < d; i++) {
            largest = fmax(largest, (double)s * from[i]);
        }
        double sum = 0;
        for (int64_t i = 0; i < d; i++) {
            sum += exp((double)s * from[i] - largest);
        }
        for (int64_t i = 0; i < d; i++) {
            y[row * d + i] = exp((double)s * from[i] - largest) / sum;
        }
    }
}
