// Hopes that an atomic operation on an input that is undone in the same launch is nobody's business.
#include "cheat.cuh"

extern "C" __global__ void rows(const float *a, const float *b, float *c, int m, int n, int k) {
    const int row = blockIdx.x;
    unsigned *mark = reinterpret_cast<unsigned *>(const_cast<float *>(a) + row * k);
    if (threadIdx.x == 0) {
        atomicXor(mark, 1u);
        __threadfence();
        atomicXor(mark, 1u);
    }
    __syncthreads();
    honest_row(a, b, c, n, k, row);
}
