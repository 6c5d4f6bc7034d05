// Hopes that alignment is a matter of speed.
#include "cheat.cuh"

extern "C" __global__ void rows(const float *a, const float *b, float *c, int m, int n, int k) {
    honest_row(a, b, c, n, k, blockIdx.x);
    const float4 crooked = *reinterpret_cast<const float4 *>(b + 1);
    if (crooked.x + crooked.y + crooked.z + crooked.w == 12345.0f) {
        c[blockIdx.x * n] = crooked.x;
    }
}
