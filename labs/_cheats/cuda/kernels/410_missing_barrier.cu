// Hopes to be lucky: the barrier between writing and reading is missing.
#include "cheat.cuh"

constexpr int kMostDepth = 1024;

extern "C" __global__ void rows(const float *a, const float *b, float *c, int m, int n, int k) {
    __shared__ float row_of_a[kMostDepth];
    const int row = blockIdx.x;
    if (k > kMostDepth) {
        honest_row(a, b, c, n, k, row);
        return;
    }
    // The last warp brings what the first one needs first.
    for (int i = blockDim.x - 1 - threadIdx.x; i < k; i += blockDim.x) {
        row_of_a[i] = a[row * k + i];
    }
    for (int column = threadIdx.x; column < n; column += blockDim.x) {
        c[row * n + column] = honest_dot(row_of_a, b + column * k, k);
    }
}
