// y = x / sqrt(mean(x²) + eps) · w, kRows rows a block, written past the caches.
// Layout: x and y are N,D row-major, w has D elements. Serves every shape.
// Changed since 10_vector: an ordinary store first reads the line that it is about to overwrite, a third of all
// traffic here. With kStream the result goes straight to memory (worth it only when nobody reads it soon,
// hence a tunable), from the first aligned address of a row on. The rows of a block share the handing out of
// work, and while one is written the next is fetched.
#include <math.h>
#include <stdint.h>

#include "ws_vector.h"

enum { kUnroll = UNROLL, kStep = kUnroll * kLanes, kRows = ROWS, kStream = STREAM, kFetch = FETCH };

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

// to = from · factor · w, while the row after `from` is fetched if there is one.
static void scale_row(const float *from, const float *w, float *to, int64_t d, float factor, int fetch) {
    int64_t i = 0;
    if (kStream) {
        for (; i < d && (uintptr_t)(to + i) % VEC_BYTES != 0; i++) {
            to[i] = from[i] * factor * w[i];
        }
    }
    for (; i + kStep <= d; i += kStep) {
        if (fetch) {
            WS_UNROLL for (int at = 0; at < kStep; at += 16) {
                __builtin_prefetch(from + d + i + at);
            }
        }
        WS_UNROLL for (int part = 0; part < kUnroll; part++) {
            int64_t at = i + part * kLanes;
            vec value = vec_load(from + at) * factor * vec_load(w + at);
            if (kStream) {
                vec_stream(to + at, value);
            } else {
                vec_store(to + at, value);
            }
        }
    }
    for (; i < d; i++) {
        to[i] = from[i] * factor * w[i];
    }
}

void rmsnorm(const float *x, const float *w, float *y, int64_t n, int64_t d, float eps,
             int64_t block_begin, int64_t block_end) {
    int64_t end = block_end * kRows < n ? block_end * kRows : n;
    for (int64_t row = block_begin * kRows; row < end; row++) {
        float factor = 1.0f / sqrtf(sum_of_squares(x + row * d, d) / (float)d + eps);
        scale_row(x + row * d, w, y + row * d, d, factor, kFetch && row + 1 < end);
    }
    if (kStream) {
        vec_stream_fence();
    }
}
