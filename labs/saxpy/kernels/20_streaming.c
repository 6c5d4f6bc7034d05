// z = a x + y with stores that pass the caches by.
// Changed since 10_vector: an ordinary store first reads the line that it is about to overwrite, so z costs its
// bandwidth twice. A streaming store does not; it pays when z is too large to be read again from a cache soon.
// kAhead is how far in front of the arithmetic x and y are fetched, in bytes; 0 leaves that to the hardware.
#include <stdint.h>

#include "ws_vector.h"

enum { kUnroll = UNROLL, kStep = kLanes * kUnroll, kBlock = BLOCK, kAhead = AHEAD / 4 };
_Static_assert(BLOCK % (VEC_BYTES / 4 * UNROLL) == 0, "a block is a whole number of unrolled steps");

void saxpy(const float *x, const float *y, float *z, int64_t n, float a,
           int64_t block_begin, int64_t block_end) {
    int64_t i = block_begin * kBlock;
    int64_t end = block_end * kBlock < n ? block_end * kBlock : n;
    // Tensors start on a 64-byte boundary and a step is a whole number of vectors, so z + at is aligned.
    for (; i + kStep <= end; i += kStep) {
        if (kAhead) {
            WS_UNROLL for (int at = 0; at < kStep; at += 16) {
                __builtin_prefetch(x + i + at + kAhead);
                __builtin_prefetch(y + i + at + kAhead);
            }
        }
        WS_UNROLL for (int u = 0; u < kUnroll; u++) {
            int64_t at = i + u * kLanes;
            vec_stream(z + at, a * vec_load(x + at) + vec_load(y + at));
        }
    }
    for (; i < end; i++) {
        z[i] = a * x[i] + y[i];
    }
    vec_stream_fence();
}
