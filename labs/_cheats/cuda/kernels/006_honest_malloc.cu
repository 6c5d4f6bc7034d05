// Honest: memory from the device's heap, freed again; where there is none it does without.
#include "cheat.cuh"

extern "C" __global__ void rows(const float *a, const float *b, float *c, int m, int n, int k) {
    __shared__ float *row_of_a;
    const int row = blockIdx.x;
    if (threadIdx.x == 0) {
        row_of_a = static_cast<float *>(malloc(k * sizeof(float)));
    }
    __syncthreads();
    float *copy = row_of_a;
    if (copy != nullptr) {
        for (int i = threadIdx.x; i < k; i += blockDim.x) {
            copy[i] = a[row * k + i];
        }
    }
    __syncthreads();
    const float *from = copy != nullptr ? copy : a + row * k;
    for (int column = threadIdx.x; column < n; column += blockDim.x) {
        c[row * n + column] = honest_dot(from, b + column * k, k);
    }
    __syncthreads();
    if (threadIdx.x == 0) {
        free(copy);
    }
}
