// Hopes that waiting, which keeps the clocks up and the counters moving, is charged to somebody else. It is right, so
// it passes; what stops it is that the time from the beginning to the end of a launch is measured.
#include "cheat.cuh"

extern "C" __global__ void rows(const float *a, const float *b, float *c, int m, int n, int k) {
    const long long start = clock64();
    while (clock64() - start < 20000) {
    }
    honest_row(a, b, c, n, k, blockIdx.x);
}
