// z = a x + y with vector types of a chosen width and a chosen unrolling.
// Changed since 00_naive: the vector width and the unrolling are stated instead of hoped for.
#include <stdint.h>
#include <string.h>

enum { kLanes = VEC_BYTES / 4, kUnroll = UNROLL, kBlock = BLOCK };
_Static_assert(kBlock % (kLanes * kUnroll) == 0, "a block is a whole number of unrolled steps");

typedef float vec __attribute__((vector_size(VEC_BYTES), aligned(4), may_alias));

void saxpy(const float *x, const float *y, float *z, int64_t n, float a,
           int64_t block_begin, int64_t block_end) {
    int64_t i = block_begin * kBlock;
    int64_t end = block_end * kBlock < n ? block_end * kBlock : n;
    for (; i + kLanes * kUnroll <= end; i += kLanes * kUnroll) {
        for (int u = 0; u < kUnroll; u++) {
            int64_t at = i + u * kLanes;
            *(vec *)(z + at) = a * *(const vec *)(x + at) + *(const vec *)(y + at);
        }
    }
    for (; i < end; i++) {
        z[i] = a * x[i] + y[i];
    }
}
