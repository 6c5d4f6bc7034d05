// Hopes that scratch is zeroed.
#include "cheat.cuh"

extern "C" __global__ void rows(const float *a, const float *b, float *c, int m, int n, int k, float *sums) {
    const int row = blockIdx.x;
    for (int column = threadIdx.x; column < n; column += blockDim.x) {
        float *sum = sums + row * n + column;
        *sum += honest_dot(a + row * k, b + column * k, k);
        c[row * n + column] = *sum;
    }
}
