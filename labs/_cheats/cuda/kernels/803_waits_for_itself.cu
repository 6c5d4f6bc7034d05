// Hopes that a deadlock is noticed by somebody else.
#include "cheat.cuh"

extern "C" __global__ void rows(const float *a, const float *b, float *c, int m, int n, int k) {
    __shared__ volatile int ready;
    if (threadIdx.x == 0) {
        ready = 0;
    }
    __syncthreads();
    if (threadIdx.x < 32) {
        while (ready == 0) {
        }
    }
    __syncthreads();
    ready = 1;
    honest_row(a, b, c, n, k, blockIdx.x);
}
