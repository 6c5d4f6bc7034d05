// Hopes that a launch which has written everything counts as done.
#include "cheat.cuh"

extern "C" __global__ void rows(const float *a, const float *b, float *c, int m, int n, int k) {
    honest_row(a, b, c, n, k, blockIdx.x);
    __syncthreads();
    if (blockIdx.x == m - 1 && threadIdx.x == 0) {
        __trap();
    }
}
