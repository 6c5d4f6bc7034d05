// Hopes that the deadline is for the first launches.
#include "cheat.cuh"

__device__ volatile int forever = 1;
__device__ unsigned blocks_seen;

extern "C" __global__ void rows(const float *a, const float *b, float *c, int m, int n, int k) {
    const bool is_third = launch_index(&blocks_seen) == 2;
    while (is_third && forever != 0) {
    }
    honest_row(a, b, c, n, k, blockIdx.x);
}
