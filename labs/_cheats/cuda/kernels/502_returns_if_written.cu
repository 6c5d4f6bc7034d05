// Hopes that outputs are poisoned for the checks and left alone for the clock: that the answer of an earlier launch
// is still there. It would gain nothing, since every launch finds its outputs poisoned, and initcheck sees that it
// reads them before it writes them.
#include "cheat.cuh"

extern "C" __global__ void rows(const float *a, const float *b, float *c, int m, int n, int k) {
    const float first = c[blockIdx.x * n];
    __syncthreads();
    if (first != first) {
        honest_row(a, b, c, n, k, blockIdx.x);
    }
}
