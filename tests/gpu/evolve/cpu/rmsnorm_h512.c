// y = x / sqrt(mean(x²) + eps) · weight, in double.
#include <math.h>
#include <stdint.h>

void rmsnorm_h512(const float *x, const float *weight, float *y, int64_t batch, int64_t hidden, float eps,
                  int64_t block_begin, int64_t block_end) {
    (void)batch;
    for (int64_t row = block_begin; row < block_end; row++) {
        double sum = 0;
        for (int64_t i = 0; i < hidden; i++) {
            sum += (double)x[row * hidden + i] * x[row * hidden + i];
        }
        double factor = 1 / sqrt(sum / (double)hidden + eps);
        for (int64_t i = 0; i < hidden; i++) {
            y[row * hidden + i] = (float)(x[row * hidden + i] * factor * weight[i]);
        }
    }
}
