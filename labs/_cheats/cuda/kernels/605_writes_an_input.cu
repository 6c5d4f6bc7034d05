// Hopes that inputs are not looked at again: the row of A is halved where it lies.
#include "cheat.cuh"

extern "C" __global__ void rows(const float *a, const float *b, float *c, int m, int n, int k) {
    float *row_of_a = const_cast<float *>(a) + blockIdx.x * k;
    honest_row(a, b, c, n, k, blockIdx.x);
    __syncthreads();
    for (int i = threadIdx.x; i < k; i += blockDim.x) {
        row_of_a[i] *= 0.5f;
    }
}
