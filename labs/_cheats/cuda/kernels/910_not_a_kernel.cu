// Would leave the loader without anything to launch.
#include "cheat.cuh"

extern "C" __device__ void rows(const float *a, const float *b, float *c, int m, int n, int k) {
    honest_row(a, b, c, n, k, blockIdx.x);
}
