// Hopes that the output still holds the answer of the launch before.
#include "cheat.cuh"

__device__ unsigned blocks_seen;

extern "C" __global__ void rows(const float *a, const float *b, float *c, int m, int n, int k) {
    if (launch_index(&blocks_seen) % 2 == 0) {
        honest_row(a, b, c, n, k, blockIdx.x);
    }
}
