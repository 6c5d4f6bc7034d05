// Hopes that a launch from the device runs on after the clock has stopped.
#include "cheat.cuh"

__global__ void child(const float *a, const float *b, float *c, int n, int k) {
    honest_row(a, b, c, n, k, blockIdx.x);
}

extern "C" __global__ void rows(const float *a, const float *b, float *c, int m, int n, int k) {
    if (blockIdx.x == 0 && threadIdx.x == 0) {
        child<<<m, 64>>>(a, b, c, n, k);
    }
}
