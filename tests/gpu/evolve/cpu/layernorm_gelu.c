// Layer normalisation of rows, weights, and a rectifier, in double.
#include <math.h>
#include <stdint.h>

void layernorm_gelu(const float *x, const float *weight, const float *bias, float *out, int64_t batch,
                    int64_t features, int64_t block_begin, int64_t block_end) {
    (void)batch;
    for (int64_t row = block_begin; row < block_end; row++) {
        const float *from = x + row * features;
        double sum = 0, square = 0;
        for (int64_t i = 0; i < features; i++) {
            sum += from[i];
        }
        const double mean = sum / (double)features;
        for (int64_t i = 0; i < features; i++) {
            square += (from[i] - mean) * (from[i] - mean);
        }
        const double factor = 1 / sqrt(square / (double)features + 1e-5);
        for (int64_t i = 0; i < features; i++) {
            const double normal = (from[i] - mean) * factor * weight[i] + bias[i];
            out[row * features + i] = (float)(normal > 0 ? normal : 0);
        }
    }
}
