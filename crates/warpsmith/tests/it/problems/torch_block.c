#include <math.h>
#include <stdint.h>

// A block is one row of the output: one image and one outer channel.
void torch_block(const float *x, const float *weight, const float *bias, const float *gain, const float *shift,
                 const float *mean, const float *variance, float *out, int64_t batch, int64_t inner,
                 int64_t outer, int64_t length, int64_t block_begin, int64_t block_end) {
    (void)batch;
    for (int64_t block = block_begin; block < block_end; block++) {
        const int64_t image = block / outer, channel = block % outer;
        const double scale = gain[channel] / sqrt((double)variance[channel] + 1e-5);
        for (int64_t at = 0; at < length - 2; at++) {
            double sum = bias[channel];
            for (int64_t from = 0; from < inner; from++) {
                for (int64_t tap = 0; tap < 3; tap++) {
                    sum += (double)x[(image * inner + from) * length + at + tap] *
                           weight[(channel * inner + from) * 3 + tap];
                }
            }
            const double normal = (sum - mean[channel]) * scale + shift[channel];
            out[block * (length - 2) + at] = normal > 0 ? (float)normal : 0.0f;
        }
    }
}
