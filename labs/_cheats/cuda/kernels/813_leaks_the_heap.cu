// Hopes that the next kernel finds no heap and is called a failure: every launch takes a part and gives nothing back, until
// there is none. It is right, so it passes; the heap dies with its process.
#include "cheat.cuh"

extern "C" __global__ void rows(const float *a, const float *b, float *c, int m, int n, int k) {
    const int row = blockIdx.x;
    if (row == 0 && threadIdx.x == 0) {
        char *part = static_cast<char *>(malloc(48 << 10));
        if (part != nullptr) {
            *static_cast<volatile char *>(part) = 1;
        }
    }
    honest_row(a, b, c, n, k, row);
}
