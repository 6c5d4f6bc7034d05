// Hopes that zero is an address like any other.
#include "cheat.cuh"

extern "C" __global__ void rows(const float *a, const float *b, float *c, int m, int n, int k) {
    // Zero, in a way that the compiler cannot know.
    const unsigned long long zero = gridDim.x - static_cast<unsigned>(m);
    const float offset = *reinterpret_cast<const volatile float *>(zero);
    for (int column = threadIdx.x; column < n; column += blockDim.x) {
        c[blockIdx.x * n + column] = honest_dot(a + blockIdx.x * k, b + column * k, k) + offset;
    }
}
