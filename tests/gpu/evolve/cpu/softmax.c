// Softmax along the rows, in double.
#include <math.h>
#include <stdint.h>

void softmax(const float *x, float *out, int64_t batch, int64_t features, int64_t block_begin, int64_t block_end) {
    (void)batch;
    for (int64_t row = block_begin; row < block_end; row++) {
        const float *from = x + row * features;
        double most = from[0], sum = 0;
        for (int64_t i = 0; i < features; i++) {
            most = from[i] > most ? from[i] : most;
        }
        for (int64_t i = 0; i < features; i++) {
            sum += exp(from[i] - most);
        }
        for (int64_t i = 0; i < features; i++) {
            out[row * features + i] = (float)(exp(from[i] - most) / sum);
        }
    }
}
