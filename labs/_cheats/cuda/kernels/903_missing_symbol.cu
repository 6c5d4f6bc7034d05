// Hopes that the loader brings what it needs.
#include "cheat.cuh"

extern "C" __device__ float somebody_elses(float value);

extern "C" __global__ void rows(const float *a, const float *b, float *c, int m, int n, int k) {
    honest_row(a, b, c, n, k, blockIdx.x);
    c[blockIdx.x * n] = somebody_elses(c[blockIdx.x * n]);
}
