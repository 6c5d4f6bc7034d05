// Hopes that nobody looks at what lies before the output.
#include "cheat.cuh"

extern "C" __global__ void rows(const float *a, const float *b, float *c, int m, int n, int k) {
    honest_row(a, b, c, n, k, blockIdx.x);
    if (blockIdx.x == 0 && threadIdx.x == 0) {
        c[-1] = 0;
    }
}
