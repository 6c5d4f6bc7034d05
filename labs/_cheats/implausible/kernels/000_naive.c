// Honest: every addition that the lab states, 32 elements side by side, accumulated in double.
// Layout: x is a vector of N + W - 1 elements, y of N. A block is 2048 elements of y.
#include <stdint.h>

enum { kBlock = 2048, kLanes = 4, kVectors = 8, kTogether = kLanes * kVectors };

typedef float Singles __attribute__((vector_size(kLanes * 4), aligned(4), may_alias));
typedef double Doubles __attribute__((vector_size(kLanes * 8)));

static void sum_together(const float *x, float *y, int64_t w) {
    Doubles sums[kVectors] = {{0}};
    for (int64_t j = 0; j < w; j++) {
#pragma GCC unroll 8
        for (int64_t vector = 0; vector < kVectors; vector++) {
            Singles singles = *(const Singles *)(x + j + vector * kLanes);
            sums[vector] += __builtin_convertvector(singles, Doubles);
        }
    }
    for (int64_t lane = 0; lane < kTogether; lane++) {
        y[lane] = (float)sums[lane / kLanes][lane % kLanes];
    }
}

static void sum_alone(const float *x, float *y, int64_t w) {
    double sum = 0;
    for (int64_t j = 0; j < w; j++) {
        sum += (double)x[j];
    }
    *y = (float)sum;
}

void moving_sum(const float *x, float *y, int64_t n, int64_t w, int64_t block_begin,
                int64_t block_end) {
    int64_t end = block_end * kBlock < n ? block_end * kBlock : n;
    int64_t i = block_begin * kBlock;
    for (; i + kTogether <= end; i += kTogether) {
        sum_together(x + i, y + i, w);
    }
    for (; i < end; i++) {
        sum_alone(x + i, y + i, w);
    }
}
