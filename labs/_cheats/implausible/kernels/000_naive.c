// Honest: every addition that the lab states, sixteen elements side by side, accumulated in double.
// Layout: x is a vector of N + W - 1 elements, y of N. A block is 1024 elements of y.
#include <stdint.h>

enum { kBlock = 1024, kTogether = 16 };

void moving_sum(const float *x, float *y, int64_t n, int64_t w, int64_t block_begin,
                int64_t block_end) {
    int64_t end = block_end * kBlock < n ? block_end * kBlock : n;
    for (int64_t i = block_begin * kBlock; i < end; i += kTogether) {
        int64_t width = end - i < kTogether ? end - i : kTogether;
        double sums[kTogether] = {0};
        for (int64_t j = 0; j < w; j++) {
            for (int64_t lane = 0; lane < width; lane++) {
                sums[lane] += (double)x[i + lane + j];
            }
        }
        for (int64_t lane = 0; lane < width; lane++) {
            y[i + lane] = (float)sums[lane];
        }
    }
}
