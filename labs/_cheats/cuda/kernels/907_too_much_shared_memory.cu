// Would not fit on a multiprocessor.
#include "cheat.cuh"

extern "C" __global__ void rows(const float *a, const float *b, float *c, int m, int n, int k) {
    __shared__ volatile float everything[1 << 20];
    everything[threadIdx.x] = 0;
    honest_row(a, b, c, n, k, blockIdx.x);
}
