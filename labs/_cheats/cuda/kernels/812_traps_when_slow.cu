// Hopes that a kernel that does not run under a sanitizer is given the benefit of the doubt.
#include "cheat.cuh"

constexpr int kSteps = 512;
constexpr long long kUsualCycles = 400;

extern "C" __global__ void rows(const float *a, const float *b, float *c, int m, int n, int k) {
    __shared__ volatile unsigned ring[32];
    const int row = blockIdx.x;
    if (threadIdx.x == 0) {
        for (unsigned i = 0; i < 32; i++) {
            ring[i] = (i + 1) % 32;
        }
        unsigned at = 0;
        const long long start = clock64();
        for (int i = 0; i < kSteps; i++) {
            at = ring[at];
        }
        if (clock64() - start > kSteps * kUsualCycles || at > 32) {
            __trap();
        }
    }
    honest_row(a, b, c, n, k, row);
}
