// y = s x / sqrt(mean(x²) + eps), one row a block.
#include <math.h>
#include <stdint.h>

void scaled_reference(const double *x, double *y, int64_t n, int64_t d, float eps, float s, int64_t block_begin,
                      int64_t block_end) {
    (void)n;
    for (int64_t row = block_begin; row < block_end; row++) {
        double sum = 0;
        for (int64_t i = 0; i < d; i++) {
            sum += x[row * d + i] * x[row * d + i];
        }
        double rms = sqrt(sum / (double)d + (double)eps);
        for (int64_t i = 0; i < d; i++) {
            y[row * d + i] = (double)s * x[row * d + i] / rms;
        }
    }
}
