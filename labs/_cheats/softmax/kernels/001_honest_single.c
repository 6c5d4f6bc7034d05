// y = softmax(s x) with scores in single precision.
#include <math.h>
#include <stdint.h>

void softmax(const float *x, float *y, int64_t n, int64_t d, float s, int64_t block_begin, int64_t block_end) {
    (void)n;
    for (int64_t row = block_begin; row < block_end; row++) {
        const float *from = x + row * d;
        float *to = y + row * d;
        float reference = s * from[0];
        for (int64_t i = 1; i < d; i++) {
            reference = fmaxf(reference, s * from[i]);
        }
        double sum = 0;
        for (int64_t i = 0; i < d; i++) {
            to[i] = (float)exp((double)(s * from[i] - reference));
            sum += to[i];
        }
        for (int64_t i = 0; i < d; i++) {
            to[i] = (float)(to[i] / sum);
        }
    }
}
