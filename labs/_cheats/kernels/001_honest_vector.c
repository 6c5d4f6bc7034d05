// Honest: the gate must accept a kernel that is merely fast, sums in another order and serves every tail.
#include <stdint.h>
#include <string.h>

enum { kLanes = 8, kColumns = 4 };
typedef float vec __attribute__((vector_size(kLanes * 4)));

static vec load(const float *from) {
    vec value;
    memcpy(&value, from, sizeof value);
    return value;
}

static float sum_lanes(vec value) {
    float sum = 0;
    for (int lane = 0; lane < kLanes; lane++) {
        sum += value[lane];
    }
    return sum;
}

void rows(const float *a, const float *b, float *c, int64_t m, int64_t n, int64_t k,
          int64_t block_begin, int64_t block_end) {
    (void)m;
    for (int64_t row = block_begin; row < block_end; row++) {
        const float *x = a + row * k;
        for (int64_t column = 0; column < n; column += kColumns) {
            int64_t width = n - column < kColumns ? n - column : kColumns;
            for (int64_t j = 0; j < width; j++) {
                const float *y = b + (column + j) * k;
                vec sums = {0};
                int64_t i = 0;
                for (; i + kLanes <= k; i += kLanes) {
                    sums += load(x + i) * load(y + i);
                }
                float sum = sum_lanes(sums);
                for (; i < k; i++) {
                    sum += x[i] * y[i];
                }
                c[row * n + column + j] = sum;
            }
        }
    }
}
