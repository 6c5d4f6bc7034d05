// Would leave the loader without anything to call.
#include "cheat.cuh"

extern "C" __global__ void products(const float *a, const float *b, float *c, int m, int n, int k) {
    honest_row(a, b, c, n, k, blockIdx.x);
}
