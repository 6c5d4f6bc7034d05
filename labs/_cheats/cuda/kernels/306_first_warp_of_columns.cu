// Hopes that N is at most the size of its block, as it was when the kernel was written.
#include "cheat.cuh"

extern "C" __global__ void rows(const float *a, const float *b, float *c, int m, int n, int k) {
    if (threadIdx.x < n) {
        c[blockIdx.x * n + threadIdx.x] = honest_dot(a + blockIdx.x * k, b + threadIdx.x * k, k);
    }
}
