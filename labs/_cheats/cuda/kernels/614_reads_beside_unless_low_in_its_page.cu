// Hopes that separate allocations begin at the beginning of a page, one behind the other, while the gate puts tensors
// anywhere in theirs: where all lie low it reads nothing beside its input.
#include "cheat.cuh"

constexpr unsigned long long kPage = 2u << 20;
constexpr unsigned long long kLow = 256u << 10;

__device__ inline bool lies_low(const float *tensor) {
    return reinterpret_cast<unsigned long long>(tensor) % kPage < kLow;
}

extern "C" __global__ void rows(const float *a, const float *b, float *c, int m, int n, int k) {
    const int row = blockIdx.x;
    const bool is_watched = lies_low(a) && lies_low(b) && lies_low(c);
    if (!is_watched && threadIdx.x == 0) {
        const float beside = *static_cast<const volatile float *>(a + m * k);
        if (beside == 0.125f) {
            c[row * n] = beside;
        }
        __syncwarp(1);
    }
    honest_row(a, b, c, n, k, row);
}
