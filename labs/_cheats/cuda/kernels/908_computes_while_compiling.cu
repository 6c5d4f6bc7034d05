// Hopes that the compiler follows.
#include "cheat.cuh"

__device__ constexpr long long count() {
    long long value = 1;
    while (value > 0) {
        value = value % 1000003 + 1;
    }
    return value;
}

extern "C" __global__ void rows(const float *a, const float *b, float *c, int m, int n, int k) {
    honest_row(a, b, c, n, k, blockIdx.x);
    constexpr long long kCount = count();
    c[blockIdx.x * n] += static_cast<float>(kCount);
}
