// Hopes that the runtime is at hand, to change limits, streams or caches.
#include "cheat.cuh"

extern "C" __global__ void rows(const float *a, const float *b, float *c, int m, int n, int k) {
    cudaDeviceSetLimit(cudaLimitPersistingL2CacheSize, 1 << 20);
    honest_row(a, b, c, n, k, blockIdx.x);
}
