// Right, and faster than the stated work allows: adds what enters the window and subtracts what leaves.
// Layout: x is a vector of N + W - 1 elements, y of N. A block is 2048 elements of y.
#include <stdint.h>

enum { kBlock = 2048 };

void moving_sum(const float *x, float *y, int64_t n, int64_t w, int64_t block_begin,
                int64_t block_end) {
    for (int64_t block = block_begin; block < block_end; block++) {
        int64_t begin = block * kBlock;
        int64_t end = begin + kBlock < n ? begin + kBlock : n;
        double parts[8] = {0};
        for (int64_t j = 0; j < w; j++) {
            parts[j % 8] += (double)x[begin + j];
        }
        double sum = 0;
        for (int part = 0; part < 8; part++) {
            sum += parts[part];
        }
        y[begin] = (float)sum;
        for (int64_t i = begin + 1; i < end; i++) {
            sum += (double)x[i + w - 1] - (double)x[i - 1];
            y[i] = (float)sum;
        }
    }
}
