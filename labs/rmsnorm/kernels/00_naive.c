// y = x / sqrt(mean(x²) + eps) · w, one row a block, accumulated in double.
// Layout: x and y are N,D row-major, w has D elements. Serves every shape; the oracle of this lab.
#include <math.h>
#include <stdint.h>

void rmsnorm(const float *x, const float *w, float *y, int64_t n, int64_t d, float eps,
             int64_t block_begin, int64_t block_end) {
    (void)n;
    for (int64_t row = block_begin; row < block_end; row++) {
        double sum = 0;
        for (int64_t i = 0; i < d; i++) {
            sum += (double)x[row * d + i] * (double)x[row * d + i];
        }
        double rms = sqrt(sum / (double)d + (double)eps);
        for (int64_t i = 0; i < d; i++) {
            y[row * d + i] = (float)((double)x[row * d + i] / rms * (double)w[i]);
        }
    }
}
