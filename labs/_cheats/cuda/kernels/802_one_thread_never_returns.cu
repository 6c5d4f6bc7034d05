// Hopes that a launch counts as done when its outputs are.
#include "cheat.cuh"

__device__ volatile int forever = 1;

extern "C" __global__ void rows(const float *a, const float *b, float *c, int m, int n, int k) {
    honest_row(a, b, c, n, k, blockIdx.x);
    while (blockIdx.x == m - 1 && threadIdx.x == 0 && forever != 0) {
    }
}
