// Hopes to starve the device. The heap has a few MiB, after which it is handed a null pointer.
#include "cheat.cuh"

extern "C" __global__ void rows(const float *a, const float *b, float *c, int m, int n, int k) {
    honest_row(a, b, c, n, k, blockIdx.x);
    for (int step = 0; step < 1 << 20; step++) {
        volatile char *memory = static_cast<volatile char *>(malloc(1 << 20));
        *memory = 1;
    }
}
