// y = x / sqrt(mean(x²) + eps) · w, one row a block, in vectors.
// Layout: x and y are N,D row-major, w has D elements. Serves every shape.
// Changed since 00_naive: single precision, in vectors. The sum of squares runs in kUnroll independent vectors,
// so that an addition need not wait for the one before it, and the division happens once a row.
#include <math.h>
#include <stdint.h>

#include "ws_vector.h"

enum { kUnroll = UNROLL, kStep = kUnroll * kLanes };

static float sum_of_squares(const float *x, int64_t d) {
    vec parts[kUnroll];
    WS_UNROLL for (int part = 0; part < kUnroll; part++) {
        parts[part] = (vec){0};
    }
    int64_t i = 0;
    for (; i + kStep <= d; i += kStep) {
        WS_UNROLL for (int part = 0; part < kUnroll; part++) {
            vec value = vec_load(x + i + part * kLanes);
            parts[part] += value * value;
        }
    }
    for (int part = 1; part < kUnroll; part++) {
        parts[0] += parts[part];
    }
    float sum = vec_sum(parts[0]);
    for (; i < d; i++) {
        sum += x[i] * x[i];
    }
    return sum;
}

void rmsnorm(const float *x, const float *w, float *y, int64_t n, int64_t d, float eps,
             int64_t block_begin, int64_t block_end) {
    (void)n;
    for (int64_t row = block_begin; row < block_end; row++) {
        const float *from = x + row * d;
        float *to = y + row * d;
        float factor = 1.0f / sqrtf(sum_of_squares(from, d) / (float)d + eps);
        int64_t i = 0;
        for (; i + kStep <= d; i += kStep) {
            WS_UNROLL for (int part = 0; part < kUnroll; part++) {
                int64_t at = i + part * kLanes;
                vec_store(to + at, vec_load(from + at) * factor * vec_load(w + at));
            }
        }
        for (; i < d; i++) {
            to[i] = from[i] * factor * w[i];
        }
    }
}
