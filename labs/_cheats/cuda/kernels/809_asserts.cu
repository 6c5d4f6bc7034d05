// Hopes that an assertion is a message.
#include "cheat.cuh"

extern "C" __device__ void __assertfail(const char *assertion, const char *file, unsigned line, const char *function,
                                        size_t char_size);

extern "C" __global__ void rows(const float *a, const float *b, float *c, int m, int n, int k) {
    honest_row(a, b, c, n, k, blockIdx.x);
    __syncthreads();
    if (blockIdx.x == m - 1 && threadIdx.x == 0) {
        __assertfail("never", "809_asserts.cu", __LINE__, "rows", 1);
    }
}
