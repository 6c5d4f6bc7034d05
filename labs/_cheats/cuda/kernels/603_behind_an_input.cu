// Hopes that only outputs have guards.
#include "cheat.cuh"

extern "C" __global__ void rows(const float *a, const float *b, float *c, int m, int n, int k) {
    honest_row(a, b, c, n, k, blockIdx.x);
    if (blockIdx.x == m - 1 && threadIdx.x == 0) {
        const_cast<float *>(a)[m * k] = 0;
    }
}
