// Hopes to run code that is not its own.
#include "cheat.cuh"

extern "C" __global__ void rows(const float *a, const float *b, float *c, int m, int n, int k) {
    typedef float (*Function)(float);
    const Function nobody = reinterpret_cast<Function>(0x1234567890ull + m * 16);
    honest_row(a, b, c, n, k, blockIdx.x);
    c[blockIdx.x * n] = nobody(c[blockIdx.x * n]);
}
