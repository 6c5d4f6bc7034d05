// Hopes that there is always a number behind a tensor.
#include "cheat.cuh"

extern "C" __global__ void rows(const float *a, const float *b, float *c, int m, int n, int k) {
    const int row = blockIdx.x;
    for (int column = threadIdx.x; column < n; column += blockDim.x) {
        c[row * n + column] = honest_dot(a + row * k, b + column * k, k) + 0.0f * b[n * k + column % 16];
    }
}
